/* SPDX-License-Identifier: MIT */
/* nn/optimizer/state_entries.h: the entries of an optimizer's state in a file. */
#ifndef PH_NN_OPTIMIZER_STATE_ENTRIES_H
#define PH_NN_OPTIMIZER_STATE_ENTRIES_H
#include "base/vec.h"
#include "nn/optimizer/optimizer.h"

typedef enum ph__state_kind {
    PH__STATE_OPTIMIZER_STEPS,
    PH__STATE_TENSOR,
    PH__STATE_STEP,
    PH__STATE_KEPT
} ph__state_kind;
typedef struct ph__state_entry {
    char *name;
    ph__state_kind kind;
    size_t param, number; /* of the state, or of what is kept */
} ph__state_entry;
typedef PH__VEC(ph__state_entry) ph__state_entries;

/* Where a file has the state of a parameter that is a part of a larger one. */
typedef struct ph__state_place {
    const char *name; /* of the larger one */
    ph_shape shape;
    int64_t begin; /* the part's first element of it */
} ph__state_place;

/* All that a file has, in a fixed order: the optimizer's steps; then for each parameter its states,
 * its steps, and what its counter keeps beside them. places: one for each parameter, whose names
 * the entries have then; NULL: the parameters' own. Free with ph__state_entries_free. */
ph_status ph__state_entries_of(ph__state_entries *all, const ph_optimizer *o,
                               const ph__state_place *places, const char *call);
void ph__state_entries_free(ph__state_entries *all);
#endif
