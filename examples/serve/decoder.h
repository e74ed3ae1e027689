/* SPDX-License-Identifier: MIT */
/* serve/decoder.h: a decoder of four layers with weights of chance: one step gives each row of a
 * batch its next token. */
#ifndef SERVE_DECODER_H
#define SERVE_DECODER_H
#include "kernels.h"

enum {
    LAYERS = 4,
    MOST_ROWS = 8
};

typedef struct decoder {
    ph_device *device;
    ph_stream *stream;
    ph_kernel *kernels[KERNELS];
    float *weights; /* of all layers, and of the table */
    int32_t *tokens;
} decoder;

/* One row of a batch. cache: its keys and values, decoder_cache_floats() numbers. */
typedef struct decoder_row {
    float *cache;
    int32_t position;
} decoder_row;

/* Rows [0, count) are padded to `bucket` ones. */
typedef struct decoder_step {
    const decoder *of;
    size_t bucket;
    decoder_row rows[MOST_ROWS];
} decoder_step;

ph_status decoder_open(decoder *d, ph_device *device);
void decoder_close(decoder *d);
size_t decoder_cache_floats(void);
/* A capture body: submits the step, which reads and writes d->tokens. */
ph_status decoder_submit(ph_stream *stream, void *step);
#endif
