/* SPDX-License-Identifier: MIT */
/* base/json.h: JSON, written piece by piece into a text. */
#ifndef PH_BASE_JSON_H
#define PH_BASE_JSON_H
#include "base/text.h"

/* Commas are put by the writer. Any depth: who is closed is not the first any more where
 * it stands. */
typedef struct ph__json {
    ph__text text;
    size_t depth;
    bool first; /* nothing stands yet in what was opened last */
    bool after_key;
} ph__json;
void ph__json_open(ph__json *json, char bracket);  /* '{' or '[' */
void ph__json_close(ph__json *json, char bracket); /* '}' or ']' */
void ph__json_key(ph__json *json, const char *key);
void ph__json_string(
    ph__json *json,
    /* NULL writes null; controls are escaped, bytes that are no UTF-8 become \ufffd */
    const char *value);
/* A value that stands in the text already, at text.length before and behind it. */
void ph__json_repeat(ph__json *json, size_t begin, size_t end);
void ph__json_u64(ph__json *json, uint64_t value);
/* microseconds, with the three digits behind the point */
void ph__json_us(ph__json *json, uint64_t ns);
void ph__json_i64(ph__json *json, int64_t value);
/* as the string "0x..." : addresses do not fit a double */
void ph__json_hex(ph__json *json, uint64_t value);
void ph__json_bool(ph__json *json, bool value);
void ph__json_f64(ph__json *json, double value); /* 17 digits; NaN and infinities as null */
#endif
