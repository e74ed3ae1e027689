/* SPDX-License-Identifier: MIT */
/* tensor/files/json_read.h: reading JSON from sources that are not trusted, member by member,
 * without building a tree. */
#ifndef PH_TENSOR_FILES_JSON_READ_H
#define PH_TENSOR_FILES_JSON_READ_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Strict RFC 8259: valid UTF-8, no raw control characters, no lone surrogates, no leading zeros;
 * and no NUL in a string. The first thing that is wrong sticks: every later call gives false, or
 * 0. Duplicate keys are for the caller to find: it knows the members. */
typedef struct ph__json_in {
    const char *start, *at, *end;
    const char *wrong; /* static words; NULL: nothing yet */
    size_t place;      /* where: bytes from the start */
    bool no_memory;    /* the failure was a lack of memory */
    unsigned depth;    /* open brackets */
    bool fresh;        /* the innermost one has no member yet */
} ph__json_in;

enum {
    PH__JSON_DEPTH = 32
};

void ph__json_in_start(ph__json_in *in, const char *text, size_t length);
bool ph__json_in_fail(ph__json_in *in, const char *wrong); /* at the present place; always false */
/* the next character that is no white space; 0: none */
char ph__json_in_peek(ph__json_in *in);
bool ph__json_in_open(ph__json_in *in, char bracket); /* '{' or '[' */
/* Whether another member comes; with false, without a failure, the bracket ('}' or ']') was
 * taken. */
bool ph__json_in_more(ph__json_in *in, char bracket);
char *ph__json_in_string(ph__json_in *in); /* decoded, freed with ph__free; NULL: failed */
char *ph__json_in_key(ph__json_in *in);    /* a string, and the colon */
bool ph__json_in_u64(ph__json_in *in, uint64_t *out); /* no sign, no fraction, no exponent */
/* Any number: the nearest double. *is_whole: written without fraction and exponent, within 64 bits
 * with the sign, and not -0; then *whole is it, else 0. A number beyond all doubles is wrong. */
bool ph__json_in_number(ph__json_in *in, double *real, int64_t *whole, bool *is_whole);
bool ph__json_in_end(ph__json_in *in);   /* nothing but white space is left */
bool ph__json_is_utf8(const char *text); /* so that what is written can be read */
#endif
