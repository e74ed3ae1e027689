/* SPDX-License-Identifier: MIT */
/* tensor/operators/autocast_operands.c: the operands of an operator that autocast has a rule for.
 * */
#include "tensor/operators/autocast_operands.h"
#include "base/line.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/operators/copy.h"
#include "tensor/tape/autocast.h"
#include "tensor/tape/node.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"
#include <string.h>

static void keep_cast(ph_tape *tape, ph_tensor *weight, ph_tensor *cast, uint64_t capture)
{
    ph__autocast_keep(tape, weight, cast, capture);
    if (cast->node)
        cast->node->shared = true;
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
    ph_tensor *cast = ph__autocast_kept(tape, weight, dtype, info.id);
    if (cast)
        return cast;
    cast = ph_cast(tape, weight, dtype);
    if (cast)
        keep_cast(tape, weight, cast, info.id);
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

static bool is_refused_operand(const ph_tape *tape, const ph_tensor *x)
{
    return x->storage->backend != tape->backend || ph__tensor_is_overwritten(x) ||
           (ph__node_is_alive(x->node) && x->node->tape != tape);
}

/* A weight and its bias, where no cast of either is kept: in one launch. False: each by itself. */
static bool cast_with_bias(ph_tape *tape, ph_tensor **in, ph_dtype dtype)
{
    ph_capture_info info;
    ph_tensor *to[2];
    if (in[0] == in[1] || in[0]->count == 0 || in[1]->count == 0 ||
        !ph_tensor_is_contiguous(in[0]) || !ph_tensor_is_contiguous(in[1]) ||
        ph__tape_failed(tape) || ph_stream_get_capture_info(&info, tape->stream) != PH_OK ||
        ph__autocast_kept(tape, in[0], dtype, info.id) ||
        ph__autocast_kept(tape, in[1], dtype, info.id) || !ph__cast_two(tape, to, in, dtype))
        return false;
    for (int i = 0; i < 2; i++) {
        keep_cast(tape, in[i], to[i], info.id);
        if (to[i]->node)
            to[i]->node->wide = true;
        in[i] = to[i];
    }
    return true;
}

/* One that the operator itself refuses is left to it: the message is in its name then, and not
 * in a cast's. */
static bool is_castable(const ph_tape *tape, const ph_tensor *x)
{
    return x &&
           (x->dtype == PH_DTYPE_F32 || x->dtype == PH_DTYPE_F16 || x->dtype == PH_DTYPE_BF16) &&
           !is_refused_operand(tape, x);
}

static ph_dtype widest_dtype(const ph_tape *tape, ph_tensor *const *in, size_t count)
{
    ph_dtype dtype = 0;
    for (size_t i = 0; i < count; i++)
        if (is_castable(tape, in[i]))
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
                                                : widest_dtype(tape, in, count);
    cast->dtype = dtype;
    tape->autocast.dtype = 0;
    if (rule == PH__AUTOCAST_LOW && count == 3 && is_castable(tape, in[1]) &&
        is_castable(tape, in[2]) && is_kept(tape, &cast->mode, in[1], dtype) &&
        is_kept(tape, &cast->mode, in[2], dtype))
        cast->has_cast = cast_with_bias(tape, in + 1, dtype);
    for (size_t i = 0; i < count; i++) {
        if (!is_castable(tape, in[i]) || in[i]->dtype == dtype)
            continue;
        cast->has_cast = true;
        bool wide = in[i]->dtype == PH_DTYPE_F32;
        in[i] = is_kept(tape, &cast->mode, in[i], dtype) ? cast_weight(tape, in[i], dtype)
                                                         : ph_cast(tape, in[i], dtype);
        if (in[i] && in[i]->node)
            in[i]->node->wide = wide;
    }
}

/* A message about dtypes has those that the operator got. */
static void explain_cast(const ph__autocast *cast)
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
        explain_cast(cast);
    ph__tape_drop(cast->tape, cast->mark, &out, 1);
    return out;
}
