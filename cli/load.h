/* SPDX-License-Identifier: MIT */
/* cli/load.h: JSON from a file, and its fields by name with the place said when one is wrong. */
#ifndef CLI_LOAD_H
#define CLI_LOAD_H
#include "cut.h"
#include <jansson.h>
#include <phonograph/status.h>

/* How messages call it: "-" is standard input. */
const char *load_name(const char *path);

/* Reads the whole file; where bounds is not NULL, within its bounds. Errors: IO, with line and
 * column for what is no JSON. */
ph_status load_json(json_t **out, const char *path, cut *bounds);

/* Where in the file an object is, for messages: "nodes[3].words[0]". */
typedef struct place {
    const struct place *up; /* NULL: the file's outermost value */
    const char *key;
    size_t index; /* NO_INDEX: not in an array */
    const char *path;
} place;
#define NO_INDEX SIZE_MAX

/* key NULL: the place itself. */
ph_status bad_field(const place *at, const char *key, const char *format, ...) PH_PRINTF(3, 4);

/* What a message shows of a text that may be long: cut between characters. Returns room. */
enum {
    SHOWN_TEXT = 64
};
const char *show_text(char room[SHOWN_TEXT], const char *text);

/* What is missing or of another type fails. Strings and values are borrowed from the JSON. */
ph_status get_object(json_t **out, const place *at, json_t *value);
ph_status get_array(json_t **out, const place *at, json_t *object, const char *key);
ph_status get_string(const char **out, const place *at, json_t *object, const char *key);
ph_status get_u64(uint64_t *out, const place *at, json_t *object, const char *key, uint64_t most);
ph_status get_hex(uint64_t *out, const place *at, json_t *object, const char *key); /* "0x1f" */
ph_status get_bool(bool *out, const place *at, json_t *object, const char *key);
/* Exactly count numbers. */
ph_status get_u64s(uint64_t *out, size_t count, const place *at, json_t *object, const char *key,
                   uint64_t most);
#endif
