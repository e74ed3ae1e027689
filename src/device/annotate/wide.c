/* SPDX-License-Identifier: MIT */
/* device/annotate/wide.c: wide texts, as NVTX has them, in UTF-8. */
#include "device/annotate/wide.h"
#include <stddef.h>
#include <stdint.h>

void ph__wide_to_utf8(char out[PH__WIDE_BYTES], const wchar_t *text)
{
    size_t at = 0;
    for (; *text && at + 4 < PH__WIDE_BYTES; text++) {
        uint32_t c = (uint32_t)*text;
        if (c < 0x80) {
            out[at++] = (char)c;
        } else if (c < 0x800) {
            out[at++] = (char)(0xc0 | c >> 6);
            out[at++] = (char)(0x80 | (c & 0x3f));
        } else if (c < 0x10000) {
            out[at++] = (char)(0xe0 | c >> 12);
            out[at++] = (char)(0x80 | (c >> 6 & 0x3f));
            out[at++] = (char)(0x80 | (c & 0x3f));
        } else {
            out[at++] = (char)(0xf0 | (c >> 18 & 7));
            out[at++] = (char)(0x80 | (c >> 12 & 0x3f));
            out[at++] = (char)(0x80 | (c >> 6 & 0x3f));
            out[at++] = (char)(0x80 | (c & 0x3f));
        }
    }
    out[at] = '\0';
}
