/* SPDX-License-Identifier: MIT */
/* tensor/tape/sightings.h: what the operators of a tape used that the tape did not make, and
 * the kernels that they launched: for who captures them. */
#ifndef PH_TENSOR_TAPE_SIGHTINGS_H
#define PH_TENSOR_TAPE_SIGHTINGS_H
#include "base/map.h"
#include "base/vec.h"
#include "tensor/tape/tape.h"

typedef struct ph__sighting {
    ph__storage *storage; /* retained */
    uint64_t version;     /* before the first operator that used it */
    const char *op;       /* the operator; static */
    ph_dtype dtype;       /* as it used it */
    ph_shape shape;
} ph__sighting;

/* Zero is empty. In the order of first use, each storage once. While ph_tape.sightings points to
 * it, operators add to it. */
struct ph__sightings {
    PH__VEC(ph__sighting) list;
    ph__map known;   /* storages: 1 + their places */
    ph__map kernels; /* names of kernels, by address; static */
};

/* False: no host memory. */
bool ph__sight(ph__sightings *to, const ph_tensor *x, const char *op);
bool ph__sight_kernel(ph__sightings *to, const char *name);
/* Whether an operator launched a kernel of that name: all that it writes is counted in versions. */
bool ph__sightings_have_kernel(const ph__sightings *in, const char *name);
bool ph__sighting_has_changed(const ph__sighting *sighting);
/* Releases what it has. */
void ph__sightings_free(ph__sightings *sightings);
#endif
