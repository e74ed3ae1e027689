/* SPDX-License-Identifier: MIT */
/* tensor/autograd/checkpoint.c: functions whose operators are remembered without the values that
 * backward needs: those are made again, by running the function once more, when backward comes
 * to them.
 *
 * The first run leaves nodes as always, so that gradients find their way through them like
 * through any other, but no saved values. The second run makes the same nodes again, with saved
 * values: these go over to the first ones, and the rest of it is dropped. A checkpoint inside
 * another one has its inputs from the outer one's second run. */
#include "base/unwind.h"
#include "tensor/autograd/region_call.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/tensor.h"
#include "tensor/generator/draw.h"
#include "tensor/tape/autocast.h"
#include "tensor/tape/node.h"
#include "tensor/tape/op.h"
#include "tensor/tape/place.h"
#include "tensor/tape/region.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"
#include "tensor/tape/tape_state.h"
#include <stdio.h>
#include <string.h>

/* The second run only has to see which of them require a gradient; where those go, the first has
 * noted. */
static bool keep_inputs(ph_tape *tape, ph__region *region, ph_tensor *const *in)
{
    for (size_t i = 0; i < region->in_count; i++) {
        ph_tensor *x = in[i];
        if (!x)
            continue;
        size_t offset =
            x->count == 0 ? 0 : (size_t)((uintptr_t)x->data - (uintptr_t)x->storage->data);
        region->in[i] = ph__tensor_make(x->storage, x->dtype, &x->shape, x->stride, offset);
        if (!region->in[i]) {
            ph__tape_fail_host_memory(tape, PH__CHECKPOINT, "its inputs");
            return false;
        }
        tape->saved++;
        ph__tensor_tag_like(region->in[i], x);
        region->in[i]->requires_grad = ph__needs_grad(x);
        region->versions[i] = ph_tensor_version(x);
    }
    region->has_inputs = true;
    return true;
}

static ph__region *make_region(ph_tape *tape, size_t in_count, size_t out_count)
{
    size_t each = sizeof(ph_tensor *) + sizeof(uint64_t);
    ph__region *region = NULL;
    if (in_count <= (SIZE_MAX - sizeof *region) / each && ph__vec_reserve(&tape->regions, 1))
        region = ph__calloc(1, sizeof *region + in_count * each);
    if (!region) {
        ph__tape_fail_host_memory(tape, PH__CHECKPOINT, "what it remembers");
        return NULL;
    }
    region->versions = (uint64_t *)(region + 1);
    region->in = (ph_tensor **)(region->versions + in_count);
    region->in_count = in_count;
    region->out_count = out_count;
    region->scope = ph_annotation_current();
    region->place = ph__place_retain(tape->place);
    region->autocast = tape->autocast;
    region->parent = tape->region;
    region->index = tape->regions.count;
    region->first = tape->nodes.count;
    tape->regions.at[tape->regions.count++] = region;
    return region;
}

/* ---- the first run ---- */
static bool first_run(ph_tape *tape, ph__region *region, const ph__region_run *r)
{
    ph__generator_mark after;
    ph_generator *generator = ph__tape_generator(tape);
    if (!generator || (!tape->hollow && !keep_inputs(tape, region, r->in)))
        return false;
    ph_tape_check(tape, ph__generator_save(&region->mark, generator, tape->stream));
    if (ph__tape_failed(tape))
        return false;
    region->generator = ph_generator_retain(generator);
    if (!ph__region_call(tape, region, true, r))
        return false;
    ph_tape_check(tape, ph__generator_save(&after, generator, tape->stream));
    region->has_drawn = !ph__generator_mark_equal(&region->mark, &after);
    region->end = tape->nodes.count;
    region->descendants = tape->regions.count - region->index - 1;
    if (region->end == region->first)
        ph__tape_drop_regions(tape, region->index);
    return !ph__tape_failed(tape);
}

static bool check_checkpoint_call(ph__op *op, ph_checkpoint_fn fn, ph_tensor *const *out,
                                  size_t out_count)
{
    if (!fn)
        return ph__op_fail(op, PH_ERROR_ARGUMENT, "fn is NULL, and must not be");
    if (!out || out_count == 0)
        return ph__op_fail(op, PH_ERROR_ARGUMENT,
                           "a checkpointed function has at least one output");
    return true;
}

static void abandon_first_run(void *state)
{
    ph__tape_state_left(state);
}

void ph_checkpoint(ph_tape *tape, ph_checkpoint_fn fn, void *user, ph_tensor **out,
                   size_t out_count, ph_tensor *const *in, size_t in_count)
{
    ph__op op;
    ph__region_run r = {.fn = fn, .user = user, .out = out, .out_count = out_count, .in = in};
    for (size_t i = 0; out && i < out_count; i++)
        out[i] = NULL;
    in_count = in ? in_count : 0;
    if (!ph__op_begin(&op, tape, PH__CHECKPOINT, in, in_count, 0) ||
        !check_checkpoint_call(&op, fn, out, out_count))
        return;
    ph__tape_state state;
    ph__tape_state_begin(&state, tape, "checkpoint: the function");
    PH__UNWIND unwind = {abandon_first_run, &state};
    size_t depth = tape->depth++;
    if (!tape->grad_enabled) {
        ph_autocast autocast = tape->autocast;
        (void)ph__region_call_fn(tape, &r);
        tape->grad_enabled = false;
        ph__autocast_restore(tape, autocast);
    } else {
        ph__region *region = make_region(tape, in_count, out_count);
        if (region) {
            region->fn = fn;
            region->user = user;
            (void)first_run(tape, region, &r);
        }
    }
    tape->depth = depth;
    unwind.undo = NULL;
    (void)ph__op_done_n(&op, out, out_count);
}
