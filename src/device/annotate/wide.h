/* SPDX-License-Identifier: MIT */
/* device/annotate/wide.h: wide texts, as NVTX has them, in UTF-8. */
#ifndef PH_DEVICE_ANNOTATE_WIDE_H
#define PH_DEVICE_ANNOTATE_WIDE_H
#include <wchar.h>

enum {
    PH__WIDE_BYTES = 512
};

/* As much of the text as there is room for. */
void ph__wide_to_utf8(char out[PH__WIDE_BYTES], const wchar_t *text);
#endif
