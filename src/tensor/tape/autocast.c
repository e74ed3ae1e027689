/* SPDX-License-Identifier: MIT */
/* tensor/tape/autocast.c: mixed precision as a mode of the tape, and the casts of weights,
 * which are kept. */
#include "tensor/tape/autocast.h"
#include "base/alloc.h"
#include "base/map.h"
#include "base/option.h"
#include "base/status.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/node.h"
#include "tensor/tape/tape.h"

/* A weight and its cast, both retained. A cast that was captured has no value before a replay,
 * and an eager one no later ones in a graph: so each serves the capture that it was made in
 * alone. */
typedef struct ph__weight_cast {
    ph_tensor *weight, *cast;
    uint64_t version; /* of the weight, then */
    uint64_t capture; /* 0: eager */
} ph__weight_cast;
struct ph__casts {
    ph__map by_weight; /* its handle -> ph__weight_cast */
};

/* ---- the mode ---- */
ph_status ph__autocast_check(const ph_autocast *mode, const char *call)
{
    if (mode->dtype == 0 || mode->dtype == PH_DTYPE_F16 || mode->dtype == PH_DTYPE_BF16)
        return PH_OK;
    PH_TRY(ph__option_named((unsigned)mode->dtype, "autocast.dtype", call));
    return ph_fail(
        PH_ERROR_ARGUMENT,
        "%s: autocast is to f16 or bf16 (PH_DTYPE_F16, PH_DTYPE_BF16; 0: off), and not to %s (%d)",
        call, ph_dtype_name(mode->dtype), (int)mode->dtype);
}

ph_autocast ph_tape_autocast(const ph_tape *tape)
{
    return tape ? tape->autocast : (ph_autocast){0};
}

ph_autocast ph_tape_set_autocast(ph_tape *tape, ph_autocast autocast)
{
    ph_autocast before = ph_tape_autocast(tape);
    if (!tape)
        return before;
    ph_status status = ph__autocast_check(&autocast, "ph_tape_set_autocast");
    if (status != PH_OK) {
        ph_tape_check(tape, status);
        return before;
    }
    tape->autocast = autocast;
    if (autocast.dtype != before.dtype || autocast.no_cache)
        ph__autocast_drop(tape);
    return before;
}

/* ---- kept casts ---- */
static void release_cast(ph__weight_cast *kept)
{
    ph_tensor_release(kept->weight);
    ph_tensor_release(kept->cast);
    ph__free(kept);
}

/* A weight's memory may be the user's, and letting it go a call of theirs: it finds no casts,
 * and cannot clear the tape. */
void ph__autocast_drop(ph_tape *tape)
{
    ph__casts *casts = tape->casts;
    size_t cursor = 0;
    uint64_t key;
    void *kept;
    if (!casts)
        return;
    tape->casts = NULL;
    tape->callbacks++;
    while (ph__map_next(&casts->by_weight, &cursor, &key, &kept))
        release_cast(kept);
    tape->callbacks--;
    ph__map_free(&casts->by_weight);
    ph__free(casts);
}

/* Where a gradient is wanted its history must be there. */
static bool is_current(const ph__weight_cast *kept, const ph_tape *tape, ph_dtype dtype,
                       uint64_t capture)
{
    return kept->cast->dtype == dtype && kept->version == ph_tensor_version(kept->weight) &&
           kept->capture == capture && (!tape->grad_enabled || ph__needs_grad(kept->cast));
}

ph_tensor *ph__autocast_kept(const ph_tape *tape, const ph_tensor *weight, ph_dtype dtype,
                             uint64_t capture)
{
    const ph__weight_cast *kept =
        tape->casts ? ph__map_get(&tape->casts->by_weight, (uintptr_t)weight) : NULL;
    return kept && is_current(kept, tape, dtype, capture) ? kept->cast : NULL;
}

void ph__autocast_keep(ph_tape *tape, ph_tensor *weight, ph_tensor *cast, uint64_t capture)
{
    if (!tape->casts && !(tape->casts = ph__calloc(1, sizeof *tape->casts)))
        return;
    uint64_t key = (uintptr_t)weight;
    ph__weight_cast *kept = ph__alloc(sizeof *kept),
                    *before = ph__map_get(&tape->casts->by_weight, key);
    if (!kept || !ph__map_put(&tape->casts->by_weight, key, kept)) {
        ph__free(kept);
        return;
    }
    *kept = (ph__weight_cast){.weight = ph_tensor_retain(weight),
                              .cast = ph_tensor_retain(cast),
                              .version = ph_tensor_version(weight),
                              .capture = capture};
    if (before)
        release_cast(before);
}
