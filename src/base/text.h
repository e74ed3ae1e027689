/* SPDX-License-Identifier: MIT */
/* base/text.h: building text (JSON, DOT) piece by piece into a growing buffer or a file; the
 * first error sticks. */
#ifndef PH_BASE_TEXT_H
#define PH_BASE_TEXT_H
#include <phonograph/status.h>

typedef struct ph__text {
    char *at; /* not NUL-terminated until ph__text_take */
    size_t length, capacity;
    bool failed; /* out of memory (or JSON nested wrongly): later calls do nothing */
} ph__text;

void ph__text_add(ph__text *text, const char *string);
void ph__text_add_bytes(ph__text *text, const char *bytes, size_t length);
void ph__text_format(ph__text *text, const char *format, ...) PH_PRINTF(2, 3);
/* A text that comes from elsewhere, for people to read: as ph__line_format (line.h) has it,
 * spaces at the end included. Reads at most `length` bytes, and a character that begins in them
 * to its end. */
void ph__text_add_shown(ph__text *text, const char *string, size_t length);
/* the NUL-terminated string, freed with ph__free; NULL when failed. text is empty then */
char *ph__text_take(ph__text *text);
void ph__text_free(ph__text *text);

/* Writes the whole text to a new file beside path and renames it over path, so that the previous
 * file survives every failure (full disk, no permission). A symbolic link stays and its target
 * is replaced; the mode of a previous file is kept; what is no regular file (a pipe,
 * /dev/stdout) is written in place. The text stays the caller's. Fails with PH_ERROR_IO (native
 * code: errno) or PH_ERROR_HOST_MEMORY. */
ph_status ph__text_write_file(ph__text *text, const char *path, const char *call);

/* JSON: commas are put by the writer. Any depth: who is closed is not the first any more where
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
void ph__json_u64(ph__json *json, uint64_t value);
/* microseconds, with the three digits behind the point */
void ph__json_us(ph__json *json, uint64_t ns);
void ph__json_i64(ph__json *json, int64_t value);
/* as the string "0x..." : addresses do not fit a double */
void ph__json_hex(ph__json *json, uint64_t value);
void ph__json_bool(ph__json *json, bool value);
void ph__json_f64(ph__json *json, double value); /* 17 digits; NaN and infinities as null */
#endif
