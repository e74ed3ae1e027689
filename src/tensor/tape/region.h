/* SPDX-License-Identifier: MIT */
/* tensor/tape/region.h: what a tape keeps of a checkpointed function. */
#ifndef PH_TENSOR_TAPE_REGION_H
#define PH_TENSOR_TAPE_REGION_H
#include "tensor/core/storage.h"
#include "tensor/generator/draw.h"
#include "tensor/tape/place.h"
#include "tensor/tape/sightings.h"
#include <phonograph/annotation.h>
#include <phonograph/tape.h>

typedef struct ph__region ph__region;
struct ph__region {
    ph_checkpoint_fn fn;
    void *user;
    ph__region *parent;
    size_t index; /* in tape->regions; those inside it follow */
    size_t descendants;
    size_t first, end;       /* its nodes, and those of regions inside it */
    bool has_inputs;         /* the region can be run again */
    bool filled;             /* its own nodes have their saved values */
    bool has_drawn;          /* random numbers: then mark is where the generator stood */
    ph_generator *generator; /* retained */
    ph__generator_mark mark;
    ph_autocast autocast; /* autocast of the call */
    size_t in_count, out_count;
    /* the annotation scope of the call, which its second run is in; retained; NULL: none */
    ph_annotation_scope *scope;
    ph__tensor_place *place; /* likewise; names of modules begin there */
    ph_tensor **in;     /* aliases without history, retained; NULL where the function got NULL */
    uint64_t *versions; /* versions of those tensors when they were saved */
    /* leaves from elsewhere that its first run reads, of regions inside it, too */
    ph__sightings leaves;
};

/* Inputs that it keeps go. */
void ph__region_drop_inputs(ph_tape *tape, ph__region *region);
/* A leaf that requires a gradient is read by that operator of a first run. False: no host
 * memory. */
bool ph__region_sight(ph__region *region, const ph_tensor *leaf, const char *op);
void ph__tape_drop_regions(ph_tape *tape, size_t first);
/* Inputs that its regions keep: see ph__tensor_move. */
void ph__regions_move(ph_tape *tape, const ph__storage *from, char *to);
#endif
