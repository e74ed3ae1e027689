/* SPDX-License-Identifier: MIT */
/* tensor/generator/draw.h: what is drawn from generators, and marks that a checkpoint goes back
 * to. */
#ifndef PH_TENSOR_GENERATOR_DRAW_H
#define PH_TENSOR_GENERATOR_DRAW_H
#include "tensor/generator/generator.h"

/* ---- drawing ---- where a kernel finds seed and offset. Eagerly both are here, and the cells
 * are NULL; in a capture the cells hold the seed and the offset that the capture's own numbers
 * start from, `offset` is relative to that, and seed is 0. */
typedef struct ph__draw {
    const uint64_t *seed_cell, *offset_cell;
    uint64_t seed, offset;
} ph__draw;

/* For kernels that are submitted to stream after this: takes so many words for each element
 * (generator's offset + 4 words). Does in a capture all that its cells need. Thread-safe. */
ph_status ph__generator_draw(ph__draw *out, ph_generator *generator, ph_stream *stream,
                             unsigned words);

/* ---- marks ---- where a generator stands for what comes next on the stream: outside of
 * captures seed and offset; in one, how much that capture has drawn. Two equal marks
 * (ph__generator_mark_equal): nothing was drawn between them. restore goes back to a mark; STATE
 * where the mark is of another capture, or of none: those numbers cannot be drawn here. Neither
 * asks whether a capture is open elsewhere. Thread-safe. */
typedef struct ph__generator_mark {
    uint64_t capture; /* 0: none */
    uint64_t seed, offset;
} ph__generator_mark;
ph_status ph__generator_save(ph__generator_mark *out, ph_generator *generator, ph_stream *stream);
ph_status ph__generator_restore(ph_generator *generator, ph_stream *stream,
                                const ph__generator_mark *mark);
static inline bool ph__generator_mark_equal(const ph__generator_mark *a,
                                            const ph__generator_mark *b)
{
    return a->capture == b->capture && a->seed == b->seed && a->offset == b->offset;
}
#endif
