/* SPDX-License-Identifier: MIT */
/* tensor/tape/region.c: what a tape keeps of checkpointed functions. */
#include "tensor/tape/region.h"
#include "base/alloc.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/place.h"
#include "tensor/tape/tape.h"

void ph__region_drop_inputs(ph_tape *tape, ph__region *region)
{
    region->has_inputs = false;
    for (size_t i = 0; i < region->in_count; i++) {
        ph_tensor *x = region->in[i];
        region->in[i] = NULL;
        if (x) {
            tape->saved--;
            ph_tensor_release(x);
        }
    }
}

bool ph__region_sight(ph__region *region, const ph_tensor *leaf, const char *op)
{
    for (; region; region = region->parent)
        if (!ph__sight(&region->leaves, leaf, op))
            return false;
    return true;
}

void ph__tape_drop_regions(ph_tape *tape, size_t first)
{
    while (tape->regions.count > first) {
        ph__region *region = tape->regions.at[--tape->regions.count];
        ph__region_drop_inputs(tape, region);
        ph__sightings_free(&region->leaves);
        ph_generator_release(region->generator);
        ph_annotation_release(region->scope);
        ph__place_release(region->place);
        ph__free(region);
    }
}

void ph__regions_move(ph_tape *tape, const ph__storage *from, char *to)
{
    for (size_t r = 0; r < tape->regions.count; r++) {
        const ph__region *region = tape->regions.at[r];
        for (size_t i = 0; i < region->in_count; i++)
            ph__tensor_move(region->in[i], from, to);
    }
}
