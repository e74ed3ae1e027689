/* SPDX-License-Identifier: MIT */
/* base/characters.h: the characters of texts that come from elsewhere (names, paths, what a
 * driver says), and which of them may be shown as they are. It needs nothing else. */
#ifndef PH_BASE_CHARACTERS_H
#define PH_BASE_CHARACTERS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ph__character {
    size_t bytes;
    uint32_t code;
    bool broken; /* one byte that belongs to no well-formed UTF-8 character; code is the byte */
    /* would steer what shows it, or not be seen: broken; a control character (also U+0080 to
     * U+009F, of which some terminals take commands); a line or paragraph separator; a control
     * of writing direction, behind which text reads as another one */
    bool hidden;
} ph__character;

/* Bytes of the well-formed UTF-8 character at p (no overlong form, no surrogate, nothing past
 * U+10FFFF); 0 when there is none. */
static inline size_t ph__utf8_length(const unsigned char *p)
{
    unsigned char lowest = 0x80, highest = 0xbf;
    size_t length;
    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    length = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (p[0] == 0xe0)
        lowest = 0xa0;
    else if (p[0] == 0xed)
        highest = 0x9f;
    else if (p[0] == 0xf0)
        lowest = 0x90;
    else if (p[0] == 0xf4)
        highest = 0x8f;
    if (p[1] < lowest || p[1] > highest)
        return 0;
    for (size_t i = 2; i < length; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

static inline bool ph__hidden_code(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code <= 0x9f) || code == 0x061c || code == 0x200e ||
           code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

/* The character at the beginning of a text that ends with a NUL, which counts as one. */
static inline ph__character ph__character_at(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t bytes = ph__utf8_length(p);
    if (bytes <= 1)
        return (ph__character){1, p[0], bytes == 0, bytes == 0 || ph__hidden_code(p[0])};
    uint32_t code = p[0] & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++)
        code = code << 6 | (p[i] & 0x3fu);
    return (ph__character){bytes, code, false, ph__hidden_code(code)};
}
#endif
