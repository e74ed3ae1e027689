/* SPDX-License-Identifier: MIT */
/* graphed/common/common.h: what the programs of this folder share: a device, the digits on it,
 * small networks, and comparisons. */
#ifndef GRAPHED_COMMON_H
#define GRAPHED_COMMON_H
#include "../../digits/data.h"
#include <phonograph/graphed.h>
#include <phonograph/nn.h>

typedef struct common {
    ph_device *device;
    ph_stream *stream;
    ph_tape *tape;
    int64_t count, train; /* images; the first `train` of them are to learn from */
    ph_tensor *images;    /* [count, PIXELS], f32, 0 to 1, in random order */
    ph_tensor *labels;    /* [count], i64 */
} common;

/* The arguments are [device] [data file]: "auto" and the digits of examples/digits when they are
 * not there. Close it also after a failure. */
ph_status common_open(common *c, int argc, char **argv);
void common_close(common *c);
/* Says what went wrong, if anything did, and gives the program's exit status. */
int common_end(const char *program, ph_status status);

/* Linear layers of these widths with relu, and dropout where it is not 0, between them. The same
 * seed gives the same weights. */
ph_status common_network(ph_module **out, const common *c, const int64_t *widths, size_t count,
                         double dropout, uint64_t seed);
/* Rows [index * size, (index + 1) * size) of images or labels: a view, so another address for
 * each index. */
ph_tensor *common_batch(const common *c, ph_tensor *rows, int64_t index, int64_t size);
/* A scalar: which part of the rows has its largest logit at its label. */
ph_tensor *common_right(ph_tape *tape, ph_tensor *logits, ph_tensor *labels);
/* The largest |a - b|, and of them, whether all bits are equal. Both wait. */
ph_status common_distance(double *out, ph_tape *tape, ph_tensor *a, ph_tensor *b);
ph_status common_same(bool *out, ph_tape *tape, const ph_tensor *a, const ph_tensor *b);
#endif
