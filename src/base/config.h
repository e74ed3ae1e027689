/* SPDX-License-Identifier: MIT */
/* base/config.h: settings written as text, "key=value,key=value", in a device name. */
#ifndef PH_BASE_CONFIG_H
#define PH_BASE_CONFIG_H
#include <phonograph/status.h>

/* Walks text pair by pair (separator ',' ). Start with *cursor = text; false at the end. key and
 * value are NUL-terminated copies (value "" when there is no '='); a pair too long for 63
 * characters gives key "" . */
typedef struct ph__config_pair {
    char key[64], value[64];
} ph__config_pair;
bool ph__config_next(const char **cursor, ph__config_pair *out);

/* Whole-string decimal or 0x number; false otherwise or out of range. Booleans: 0 1 on off true
 * false. */
bool ph__config_u64(const char *value, uint64_t *out);
bool ph__config_bool(const char *value, bool *out);
#endif
