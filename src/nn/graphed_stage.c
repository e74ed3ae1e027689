/* SPDX-License-Identifier: MIT */
/* nn/graphed_stage.c: memory that stands for inputs while their pass is captured, twice, at distances that tell them apart. */
#include "base/alloc.h"
#include "base/checked.h"
#include "base/status.h"
#include "nn/graphed_capture.h"

enum {
    STEP = 512 /* the allocator's alignment: kernels must not be chosen by less than what most tensors have */
};

static uintptr_t distance(const ph__stand_in *memory)
{
    return (uintptr_t)memory->shifted - (uintptr_t)memory->base;
}

static bool is_taken(const ph__stage *stage, size_t count, uintptr_t wanted)
{
    for (size_t i = 0; i < count; i++)
        if (distance(&stage->at[i]) == wanted)
            return true;
    return false;
}

/* Room for each of them, twice where there are probes, and for the steps by which
 * each may be moved then. */
static bool room_for(size_t *out, const size_t *bytes, size_t count, bool probed, size_t others)
{
    size_t sum = 0, rounded;
    for (size_t i = 0; i < count; i++)
        if (!ph__add(bytes[i], STEP - 1, &rounded) || !ph__add(sum, rounded / STEP * STEP + STEP, &sum))
            return false;
    return ph__mul(sum, probed ? 2 : 1, &sum) &&
           ph__add(sum, probed ? STEP * (count * (count + others) + 1) : STEP, out);
}

/* All bases first, then all shifted ones, each a step farther behind its neighbour than the base is. */
static void place(ph__stage *stage, const size_t *bytes, bool probed, const ph__stage *other)
{
    char *at = stage->block;
    for (size_t i = 0; i < stage->count; i++) {
        stage->at[i].bytes = bytes[i];
        stage->at[i].base = at;
        at += (bytes[i] + STEP - 1) / STEP * STEP + STEP;
    }
    for (size_t i = 0; probed && i < stage->count; i++) {
        stage->at[i].shifted = at;
        while (is_taken(stage, i, distance(&stage->at[i])) ||
               (other && is_taken(other, other->count, distance(&stage->at[i]))))
            stage->at[i].shifted += STEP;
        at = stage->at[i].shifted + (bytes[i] + STEP - 1) / STEP * STEP + STEP;
    }
}

ph_status ph__stage_make(ph__stage *stage, ph_stream *stream, const size_t *bytes, size_t count, bool probed,
                         const ph__stage *other, const char *call)
{
    size_t room = 0;
    if (!room_for(&room, bytes, count, probed, other ? other->count : 0))
        return ph_fail(PH_ERROR_SIZE, "%s: the inputs of a callable are larger than memory can be", call);
    stage->at = ph__calloc(count + 1, sizeof *stage->at);
    if (!stage->at)
        return ph__fail_host_memory(call, "what stands for inputs");
    PH_TRY(ph_malloc(&stage->block, room, 1, stream));
    stage->count = count;
    place(stage, bytes, probed, other);
    return PH_OK;
}

void ph__stage_free(ph__stage *stage, ph_stream *stream)
{
    ph_free(stage->block, stream);
    ph__free(stage->at);
    *stage = (ph__stage){0};
}
