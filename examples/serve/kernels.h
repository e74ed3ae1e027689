/* SPDX-License-Identifier: MIT */
/* serve/kernels.h: the decoder's kernels. */
#ifndef SERVE_KERNELS_H
#define SERVE_KERNELS_H
#include <phonograph/phonograph.h>

enum {
    WIDTH = 64,      /* numbers of a row */
    INNER = 128,     /* of a row between the two products of a layer */
    TOKENS = 256,    /* of the vocabulary */
    MOST_STEPS = 96, /* positions of a request */
    KERNELS = 4
};

/* x[row] = table[tokens[row]] */
struct embed_args {
    const int32_t *tokens;
    const float *table;
    float *x;
};
/* out[row][o] = in[row] . weight[.][o], to which `add` adds what is there, and of which `positive`
 * keeps what is above 0 */
struct product_args {
    const float *in, *weight;
    float *out;
    int32_t inputs, outputs, add, positive;
};
/* One row: puts key and value into their caches at the position, and attends to all up to it. */
struct attend_args {
    const float *query, *key, *value;
    float *keys, *values, *out; /* keys and values: MOST_STEPS x WIDTH */
    int32_t position;
};
/* tokens[row]: the place of the largest of the row */
struct choose_args {
    const float *scores;
    int32_t *tokens;
};

enum {
    EMBED,
    PRODUCT,
    ATTEND,
    CHOOSE
};
extern const ph_kernel_source kernel_sources[KERNELS];
extern const char kernels_cuda[], kernels_cuda_options[];
#endif
