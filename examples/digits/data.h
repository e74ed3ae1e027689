/* SPDX-License-Identifier: MIT */
/* digits/data.h: reading the images, and a small random number generator. */
#ifndef DIGITS_DATA_H
#define DIGITS_DATA_H
#include <phonograph/status.h>

enum {
    SIDE = 8,
    PIXELS = SIDE * SIDE,
    CLASSES = 10,
    DARKEST = 16 /* pixel values are 0..DARKEST */
};

typedef struct digits {
    size_t count;
    float *pixels;    /* count x PIXELS, 0..1 */
    uint32_t *labels; /* count, below CLASSES */
} digits;

/* Reads a CSV file, gzipped or plain: PIXELS integers and the label a line. A bad line fails
 * with its number, a truncated or damaged gzip stream and an empty file by name. *out is zero on
 * failure. */
ph_status digits_read(digits *out, const char *path);
void digits_free(digits *data);

/* splitmix64: every bit of the state counts, and the sequence is the same on every machine. */
uint64_t random_next(uint64_t *state);
float random_uniform(uint64_t *state, float low, float high);

/* 0..count-1 in random order. */
void random_order(uint64_t *state, uint32_t *order, size_t count);
#endif
