/* SPDX-License-Identifier: MIT */
/* tensor/random/generator.h: generators from inside the library: drawing, the device's default
 * one, and marks that a checkpoint goes back to. */
#ifndef PH_TENSOR_RANDOM_GENERATOR_H
#define PH_TENSOR_RANDOM_GENERATOR_H
#include "base/sync.h"
#include "tensor/autograd/op.h"

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
/* From the tape's generator on the tape's stream. */
bool ph__op_draw(ph__draw *out, ph__op *op, unsigned words);

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

/* ---- the default one ---- a part of the backend: retaining it retains the backend, which it
 * keeps no reference to. The backend makes it (seed 0) and destroys it. */
ph_status ph__generator_create_default(ph_generator **out, ph__backend *backend, const char *call);
void ph__generator_destroy_default(ph_generator *generator); /* takes NULL */

/* ---- as generator.c and draw.c share them ---- */
/* What a capture has drawn from a state. The graph's source of cells owns one reference, the
 * call that makes it the other. */
typedef struct ph__taken ph__taken;
struct ph__taken {
    int references;            /* under the state's lock */
    ph_generator_state *state; /* retained */
    uint64_t capture;
    uint64_t *cells[2]; /* seed, and the offset that the capture's numbers start from */
    uint64_t drawn;     /* so far; once the capture has ended: what each replay draws */
    bool listed;        /* the capture is open, and draws through this one */
    bool over;          /* the capture has ended, or gone */
    uint64_t moved;     /* state->moves after the last replay's values */
    ph__taken *next, **link;
};

struct ph_generator_state {
    atomic_int references;
    ph_device *device; /* retained */
    ph__spinlock lock; /* nothing is called under it */
    uint64_t seed, offset;
    uint64_t moves;  /* counts what has changed them */
    ph__taken *open; /* by captures under way */
};

/* The device's default one is a part of its backend: its references are the backend's. */
struct ph_generator {
    atomic_int references;
    bool is_default;
    ph__backend *backend; /* retained by all others */
    ph__spinlock lock;    /* of the member state; nothing is called under it */
    ph_generator_state *state;
};

/* Its state, retained: another thread may give it another one at any time. */
ph_generator_state *ph__generator_state(const ph_generator *generator);
ph_generator_state *ph__generator_state_retain(ph_generator_state *state);
/* Under its lock. */
static inline void ph__generator_state_put(ph_generator_state *state, uint64_t seed,
                                           uint64_t offset)
{
    state->seed = seed;
    state->offset = offset;
    state->moves++;
}
#endif
