/* SPDX-License-Identifier: MIT */
/* tensor/autograd/autocast.c: mixed precision as a mode of the tape: which operands are cast,
 * and the casts of weights, which are kept. */
#include "tensor/autograd/autocast.h"
#include "base/alloc.h"
#include "base/line.h"
#include "base/map.h"
#include "base/option.h"
#include "base/status.h"
#include "tensor/core/written.h"
#include <string.h>

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
static void release(ph__weight_cast *kept)
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
        release(kept);
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

/* Without host memory for it the next use casts again. */
static void keep(ph_tape *tape, ph_tensor *weight, ph_tensor *cast, uint64_t capture)
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
        release(before);
}

static ph_tensor *cast_weight(ph_tape *tape, ph_tensor *weight, ph_dtype dtype)
{
    ph_capture_info info;
    if (ph__tape_failed(tape))
        return NULL;
    ph_status status = ph_stream_get_capture_info(&info, tape->stream);
    if (status != PH_OK) {
        ph_tape_check(tape, status);
        return NULL;
    }
    const ph__weight_cast *kept =
        tape->casts ? ph__map_get(&tape->casts->by_weight, (uintptr_t)weight) : NULL;
    if (kept && is_current(kept, tape, dtype, info.id))
        return kept->cast;
    ph_tensor *cast = ph_cast(tape, weight, dtype);
    if (cast)
        keep(tape, weight, cast, info.id);
    if (cast && cast->node)
        cast->node->shared = true;
    return cast;
}

/* A checkpointed function must do the same in both of its runs: there each use is cast. So is
 * what graphs change: it may be another value after any replay, of which some are in captures. */
static bool is_kept(const ph_tape *tape, const ph_autocast *mode, const ph_tensor *x,
                    ph_dtype dtype)
{
    return !mode->no_cache && !tape->region && x->requires_grad && x->dtype == PH_DTYPE_F32 &&
           dtype != PH_DTYPE_F32 && !ph__storage_changed_by_graphs(x->storage);
}

/* ---- operands ---- */
static bool is_refused(const ph_tape *tape, const ph_tensor *x)
{
    return x->storage->backend != tape->backend || ph__tensor_is_overwritten(x) ||
           (ph__node_is_alive(x->node) && x->node->tape != tape);
}

/* One that the operator itself refuses is left to it: the message is in its name then, and not
 * in a cast's. */
static bool takes_part(const ph_tape *tape, const ph_tensor *x)
{
    return x &&
           (x->dtype == PH_DTYPE_F32 || x->dtype == PH_DTYPE_F16 || x->dtype == PH_DTYPE_BF16) &&
           !is_refused(tape, x);
}

static ph_dtype widest(const ph_tape *tape, ph_tensor *const *in, size_t count)
{
    ph_dtype dtype = 0;
    for (size_t i = 0; i < count; i++)
        if (takes_part(tape, in[i]))
            dtype = dtype == 0 || dtype == in[i]->dtype ? in[i]->dtype : PH_DTYPE_F32;
    return dtype;
}

void ph__autocast_operands(ph__autocast *cast, ph_tape *tape, ph__autocast_rule rule,
                           ph_tensor **in, size_t count)
{
    *cast = (ph__autocast){.tape = tape,
                           .mode = tape->autocast,
                           .mark = tape->owned_count,
                           .had_failed = ph__tape_failed(tape)};
    ph_dtype dtype = rule == PH__AUTOCAST_LOW   ? cast->mode.dtype
                     : rule == PH__AUTOCAST_F32 ? PH_DTYPE_F32
                                                : widest(tape, in, count);
    cast->dtype = dtype;
    tape->autocast.dtype = 0;
    for (size_t i = 0; i < count; i++) {
        if (!takes_part(tape, in[i]) || in[i]->dtype == dtype)
            continue;
        cast->has_cast = true;
        in[i] = is_kept(tape, &cast->mode, in[i], dtype) ? cast_weight(tape, in[i], dtype)
                                                         : ph_cast(tape, in[i], dtype);
    }
}

/* A message about dtypes has those that the operator got. */
static void explain(const ph__autocast *cast)
{
    char text[96];
    ph__line_format(text, sizeof text, "; autocast had cast those of f16, bf16 and f32 to %s",
                    ph_dtype_name(cast->dtype));
    if (cast->has_cast && !cast->had_failed && strstr(cast->tape->error.message, "dtype"))
        ph__tape_add_to_error(cast->tape, text);
}

ph_tensor *ph__autocast_end(const ph__autocast *cast, ph_tensor *out)
{
    cast->tape->autocast = cast->mode;
    if (!out)
        explain(cast);
    ph__tape_drop(cast->tape, cast->mark, &out, 1);
    return out;
}
