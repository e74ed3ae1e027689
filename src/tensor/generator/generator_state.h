/* SPDX-License-Identifier: MIT */
/* tensor/generator/generator_state.h: seed and offset, which generators share, and what captures
 * draw from them. */
#ifndef PH_TENSOR_GENERATOR_GENERATOR_STATE_H
#define PH_TENSOR_GENERATOR_GENERATOR_STATE_H
#include "base/sync.h"
#include <phonograph/random.h>
#include <stdatomic.h>

/* The draws of a capture from a state. The graph's source of cells owns one reference, the call
 * that makes it the other. */
typedef struct ph__drawn ph__drawn;
struct ph__drawn {
    int references;            /* under the state's lock */
    ph_generator_state *state; /* retained */
    uint64_t capture;
    uint64_t *cells[2]; /* seed, and the offset that the capture's numbers start from */
    uint64_t drawn;     /* so far; once the capture has ended: what each replay draws */
    bool listed;        /* the capture is open, and draws through this one */
    bool over;          /* the capture has ended, or gone */
    uint64_t moved;     /* state->moves after the last replay's values */
    ph__drawn *next, **link;
};

struct ph_generator_state {
    atomic_int references;
    ph_device *device; /* retained */
    ph__spinlock lock; /* nothing is called under it */
    uint64_t seed, offset;
    uint64_t moves;  /* counts what has changed them */
    ph__drawn *open; /* by captures under way */
};

/* One reference, the caller's. */
ph_status ph__generator_state_create(ph_generator_state **out, ph_device *device, uint64_t seed,
                                     uint64_t offset, const char *call);
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
