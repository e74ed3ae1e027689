/* SPDX-License-Identifier: MIT */
/* base/config.c: reading settings written as "key=value,key=value". */
#include "base/config.h"
#include <string.h>

static bool copy_span(char *out, size_t size, const char *from, size_t length)
{
    if (length >= size)
        return false;
    memcpy(out, from, length);
    out[length] = '\0';
    return true;
}

bool ph__config_next(const char **cursor, ph__config_pair *out)
{
    const char *pair = *cursor;
    *out = (ph__config_pair){0};
    if (!pair || !*pair)
        return false;
    size_t length = strcspn(pair, ","), key_length = strcspn(pair, ",=");
    size_t value_at = key_length < length ? key_length + 1 : length;
    if (!copy_span(out->key, sizeof out->key, pair, key_length) ||
        !copy_span(out->value, sizeof out->value, pair + value_at, length - value_at))
        *out = (ph__config_pair){0};
    *cursor = pair + length + (pair[length] == ',');
    return true;
}

static unsigned digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    if (c >= 'a' && c <= 'f')
        return (unsigned)(c - 'a') + 10;
    if (c >= 'A' && c <= 'F')
        return (unsigned)(c - 'A') + 10;
    return 16;
}

bool ph__config_u64(const char *value, uint64_t *out)
{
    unsigned radix = 10;
    uint64_t number = 0;
    if (value[0] == '0' && (value[1] == 'x' || value[1] == 'X')) {
        radix = 16;
        value += 2;
    }
    if (!*value)
        return false;
    for (; *value; value++) {
        unsigned digit = digit_of(*value);
        if (digit >= radix || __builtin_mul_overflow(number, radix, &number) ||
            __builtin_add_overflow(number, digit, &number))
            return false;
    }
    *out = number;
    return true;
}

bool ph__config_bool(const char *value, bool *out)
{
    static const struct {
        const char *word;
        bool meaning;
    } words[] = {{"0", false}, {"1", true},      {"off", false},
                 {"on", true}, {"false", false}, {"true", true}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(value, words[i].word) == 0) {
            *out = words[i].meaning;
            return true;
        }
    }
    return false;
}
