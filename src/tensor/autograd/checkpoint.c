/* SPDX-License-Identifier: MIT */
/* tensor/autograd/checkpoint.c: functions whose operators keep no values for backward. When
 * backward comes to them, the function runs once more and makes the values.
 * - The first run leaves nodes as always, so that gradients take their way through them, but no
 *   saved values.
 * - The second run makes the same nodes again, with saved values. The values move to the first
 *   nodes, and the rest is dropped.
 * - A checkpoint inside another one has its inputs from the outer one's second run. */
#include "tensor/autograd/checkpoint.h"
#include "base/status.h"
#include "base/unwind.h"
#include "tensor/autograd/marks.h"
#include "tensor/core/describe.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/quarantine.h"
#include "tensor/core/tensor.h"
#include "tensor/generator/draw.h"
#include "tensor/generator/generator.h"
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

static const char name[] = "checkpoint";

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
            ph__tape_fail_host_memory(tape, name, "its inputs");
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

static bool check_versions(ph_tape *tape, const ph__region *region)
{
    for (size_t i = 0; i < region->in_count; i++) {
        uint64_t now = ph_tensor_version(region->in[i]);
        char text[PH__DESCRIBE], which[64];
        if (region->in[i] && ph__tensor_is_overwritten(region->in[i])) {
            (void)snprintf(which, sizeof which, "input %zu of its second run", i);
            ph_tape_check(tape, ph__fail_overwritten(region->in[i], name, which));
            return false;
        }
        if (!region->in[i] || now == region->versions[i] || tape->recaptures)
            continue;
        ph_tape_fail(
            tape, PH_ERROR_STATE,
            "%s: input %zu, %s, was changed in place before the second run: it has version %llu, "
            "and had %llu in the first",
            name, i, ph__describe(text, region->in[i]), (unsigned long long)now,
            (unsigned long long)region->versions[i]);
        return false;
    }
    return true;
}

static ph__region *make_region(ph_tape *tape, size_t in_count, size_t out_count)
{
    size_t each = sizeof(ph_tensor *) + sizeof(uint64_t);
    ph__region *region = NULL;
    if (in_count <= (SIZE_MAX - sizeof *region) / each && ph__vec_reserve(&tape->regions, 1))
        region = ph__calloc(1, sizeof *region + in_count * each);
    if (!region) {
        ph__tape_fail_host_memory(tape, name, "what it remembers");
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

/* ---- running ---- */
typedef struct run {
    ph_checkpoint_fn fn;
    void *user;
    ph_tensor **out;
    size_t out_count;
    ph_tensor *const *in;
} run;

/* The tape still owns the tensors that fn made. */
static bool call_fn(ph_tape *tape, const run *r)
{
    size_t depth = ph_annotation_depth();
    tape->callbacks++;
    r->fn(tape, r->out, r->in, r->user);
    tape->callbacks--;
    ph__tape_unwind_marks(tape, depth);
    for (size_t i = 0; i < r->out_count && !ph__tape_failed(tape); i++)
        if (!r->out[i])
            ph_tape_fail(tape, PH_ERROR_CALLER, "%s: the function gave no output %zu", name, i);
        else
            ph_tape_check(tape,
                          ph__tensor_check_there(r->out[i], name, "an output of the function"));
    return !ph__tape_failed(tape);
}

/* As a part of region. Modes are as before when it comes back. */
static bool call_inside(ph_tape *tape, ph__region *region, bool hollow, const run *r)
{
    ph__region *outer = tape->region;
    bool was_hollow = tape->hollow, enabled = tape->grad_enabled;
    ph_autocast autocast = tape->autocast;
    tape->region = region;
    tape->hollow = hollow;
    tape->grad_enabled = true;
    tape->autocast = region->autocast;
    bool ok = call_fn(tape, r);
    tape->region = outer;
    tape->hollow = was_hollow;
    tape->grad_enabled = enabled;
    tape->autocast = autocast;
    return ok;
}

/* ---- the first run ---- */
static bool first_run(ph_tape *tape, ph__region *region, const run *r)
{
    ph__generator_mark after;
    ph_generator *generator = ph__tape_generator(tape);
    if (!generator || (!tape->hollow && !keep_inputs(tape, region, r->in)))
        return false;
    ph_tape_check(tape, ph__generator_save(&region->mark, generator, tape->stream));
    if (ph__tape_failed(tape))
        return false;
    region->generator = ph_generator_retain(generator);
    if (!call_inside(tape, region, true, r))
        return false;
    ph_tape_check(tape, ph__generator_save(&after, generator, tape->stream));
    region->has_drawn = !ph__generator_mark_equal(&region->mark, &after);
    region->end = tape->nodes.count;
    region->descendants = tape->regions.count - region->index - 1;
    if (region->end == region->first)
        ph__tape_drop_regions(tape, region->index);
    return !ph__tape_failed(tape);
}

static bool check_call(ph__op *op, ph_checkpoint_fn fn, ph_tensor *const *out, size_t out_count)
{
    if (!fn)
        return ph__op_fail(op, PH_ERROR_ARGUMENT, "fn is NULL, and must not be");
    if (!out || out_count == 0)
        return ph__op_fail(op, PH_ERROR_ARGUMENT,
                           "a checkpointed function has at least one output");
    return true;
}

static void abandon(void *state)
{
    ph__tape_state_left(state);
}

void ph_checkpoint(ph_tape *tape, ph_checkpoint_fn fn, void *user, ph_tensor **out,
                   size_t out_count, ph_tensor *const *in, size_t in_count)
{
    ph__op op;
    run r = {.fn = fn, .user = user, .out = out, .out_count = out_count, .in = in};
    for (size_t i = 0; out && i < out_count; i++)
        out[i] = NULL;
    in_count = in ? in_count : 0;
    if (!ph__op_begin(&op, tape, name, in, in_count, 0) || !check_call(&op, fn, out, out_count))
        return;
    ph__tape_state state;
    ph__tape_state_begin(&state, tape, "checkpoint: the function");
    PH__UNWIND unwind = {abandon, &state};
    size_t depth = tape->depth++;
    if (!tape->grad_enabled) {
        ph_autocast autocast = tape->autocast;
        (void)call_fn(tape, &r);
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

/* ---- the second run ---- */
static bool fail_different(ph_tape *tape, const char *what)
{
    ph_tape_fail(tape, PH_ERROR_STATE,
                 "%s: the second run of the function did not do what the first did: %s", name,
                 what);
    return false;
}

static bool is_same_region(const ph__region *outer, const ph__region *old, const ph__region *fresh,
                           size_t first_fresh)
{
    return old->fn == fresh->fn && old->in_count == fresh->in_count &&
           old->out_count == fresh->out_count && old->descendants == fresh->descendants &&
           old->first - outer->first == fresh->first - first_fresh &&
           old->end - outer->first == fresh->end - first_fresh;
}

/* Inputs of the regions inside go over; both lists are in the order of their first runs. */
static bool match_regions(ph_tape *tape, const ph__region *outer, size_t first_region,
                          size_t first_node)
{
    if (tape->regions.count - first_region != outer->descendants)
        return fail_different(tape, "another number of checkpoints inside it");
    for (size_t i = 0; i < outer->descendants; i++) {
        ph__region *old = tape->regions.at[outer->index + 1 + i];
        ph__region *fresh = tape->regions.at[first_region + i];
        if (!is_same_region(outer, old, fresh, first_node))
            return fail_different(tape, "another checkpoint inside it");
        ph__region_drop_inputs(tape, old);
        for (size_t k = 0; k < old->in_count; k++) {
            old->in[k] = fresh->in[k];
            old->versions[k] = fresh->versions[k];
            fresh->in[k] = NULL;
        }
        old->user = fresh->user;
        old->has_inputs = fresh->has_inputs;
        old->mark = fresh->mark;
    }
    return true;
}

static bool is_same_node(const ph__node *old, const ph__node *fresh)
{
    return old->def == fresh->def && strcmp(old->name, fresh->name) == 0 &&
           old->in_count == fresh->in_count && old->out_count == fresh->out_count &&
           old->saved_count == fresh->saved_count;
}

/* Saved values and state go over. */
static bool move_values(ph_tape *tape, ph__node *old, ph__node *fresh)
{
    for (size_t i = 0; i < old->saved_count; i++) {
        if (old->versions[i] != fresh->versions[i] && !tape->recaptures) {
            ph_tape_fail(
                tape, PH_ERROR_STATE,
                "%s: a value that %s saved was changed in place before the second run: it has "
                "version %llu, and had %llu "
                "in the first",
                name, old->name, (unsigned long long)fresh->versions[i],
                (unsigned long long)old->versions[i]);
            return false;
        }
        old->saved[i] = fresh->saved[i];
        fresh->saved[i] = NULL;
    }
    if (old->def->release)
        old->def->release(old->state);
    memcpy(old->state, fresh->state, old->def->state_bytes);
    fresh->released = true;
    old->filled = true;
    return true;
}

static bool match_nodes(ph_tape *tape, const ph__region *region, size_t first_region,
                        size_t first_node)
{
    size_t count = region->end - region->first;
    if (tape->nodes.count - first_node != count)
        return fail_different(tape, "another number of operators with a gradient");
    for (size_t i = 0; i < count; i++) {
        ph__node *old = tape->nodes.at[region->first + i], *fresh = tape->nodes.at[first_node + i];
        bool own = old->region == region;
        if (!is_same_node(old, fresh) || own != (fresh->region == region))
            return fail_different(tape, old->name);
        if (!own && old->region->index - region->index - 1 != fresh->region->index - first_region)
            return fail_different(tape, old->name);
        if (own && !old->released && !move_values(tape, old, fresh))
            return false;
    }
    return true;
}

/* The tape draws from the region's generator, set back to where it was in the first run. */
typedef struct rewound {
    ph_tape *tape;
    ph_generator *before, *generator;
    ph__generator_mark now;
} rewound;

static void go_forward(rewound *w)
{
    ph_generator_release(w->tape->generator); /* the function may have given it another one */
    w->tape->generator = w->before;
    ph_tape_check(w->tape, ph__generator_restore(w->generator, w->tape->stream, &w->now));
}

/* The function did not return. */
static void abandon_draws(void *what)
{
    ph_error saved;
    ph__error_save(&saved);
    go_forward(what);
    ph__error_restore(&saved);
}

static bool call_again(ph_tape *tape, ph__region *region, const run *r)
{
    rewound w = {.tape = tape, .before = tape->generator, .generator = region->generator};
    if (!region->has_drawn)
        return call_inside(tape, region, false, r);
    ph_tape_check(tape, ph__generator_save(&w.now, region->generator, tape->stream));
    if (!ph__tape_failed(tape))
        ph_tape_check(tape, ph__generator_restore(region->generator, tape->stream, &region->mark));
    if (ph__tape_failed(tape))
        return false;
    tape->generator = ph_generator_retain(region->generator);
    PH__UNWIND unwind = {abandon_draws, &w};
    bool ok = call_inside(tape, region, false, r);
    unwind.undo = NULL;
    go_forward(&w);
    return ok && !ph__tape_failed(tape);
}

/* Scopes that the function opened itself are opened by it again, and those too are of backward
 * now. */
static bool is_marked(const ph_tape *tape, const ph__region *region)
{
    bool marked = region->scope != NULL;
    for (size_t i = region->first; i < region->end && !marked; i++)
        marked = tape->nodes.at[i]->mark != NULL;
    return marked;
}

static bool call_marked(ph_tape *tape, ph__region *region, const run *r)
{
    size_t depth = ph_annotation_depth();
    bool marked = is_marked(tape, region);
    if (marked && !ph__tape_resume(tape, region->scope))
        return false;
    ph__tensor_place *place = tape->place;
    tape->place = region->place;
    bool ok = call_again(tape, region, r);
    tape->place = place;
    if (marked)
        ph__tape_end_mark(tape, depth);
    return ok && !ph__tape_failed(tape);
}

/* Tensors that the second run adds to the tape go with it. */
typedef struct second {
    ph_tape *tape;
    size_t first_node, first_region, mark, depth;
    ph__tensor_place *place;
    ph_tensor **out;
} second;

static void end_second(second *s)
{
    ph__tape_kill_nodes(s->tape, s->first_node);
    ph__tape_drop_regions(s->tape, s->first_region);
    s->tape->depth = s->depth;
    ph_tape_scope_end(s->tape, s->mark, NULL, 0);
    ph__free(s->out);
}

/* The function did not return. */
static void abandon_second(void *what)
{
    second *s = what;
    ph_error saved;
    ph__error_save(&saved);
    s->tape->place = s->place;
    end_second(s);
    ph__error_restore(&saved);
}

static bool second_run(ph_tape *tape, ph__region *region)
{
    second s = {.tape = tape,
                .first_node = tape->nodes.count,
                .first_region = tape->regions.count,
                .place = tape->place,
                .out = ph__calloc(region->out_count, sizeof(ph_tensor *))};
    if (!s.out) {
        ph__tape_fail_host_memory(tape, name, "the outputs of its second run");
        return false;
    }
    run r = {.fn = region->fn,
             .user = region->user,
             .out = s.out,
             .out_count = region->out_count,
             .in = region->in};
    s.mark = ph_tape_scope_begin(tape);
    s.depth = tape->depth;
    PH__UNWIND unwind = {abandon_second, &s};
    bool ok = call_marked(tape, region, &r) &&
              match_regions(tape, region, s.first_region, s.first_node) &&
              match_nodes(tape, region, s.first_region, s.first_node);
    unwind.undo = NULL;
    end_second(&s);
    region->filled = ok;
    return ok;
}

/* Outer ones first: as deep as checkpoints lie in each other. */
static bool fill_region(ph_tape *tape, ph__region *region)
{
    if (!region->has_inputs && region->parent && !region->parent->filled &&
        !fill_region(tape, region->parent))
        return false;
    if (!region->has_inputs) {
        ph_tape_fail(tape, PH_ERROR_STATE,
                     "%s: a second pass through it: its inputs were released by the first; "
                     "retain_graph keeps them",
                     name);
        return false;
    }
    return check_versions(tape, region) && second_run(tape, region);
}

bool ph__region_fill(ph_tape *tape, ph__node *node)
{
    return fill_region(tape, node->region);
}

static void leave_region(ph_tape *tape, ph__region *region, bool consume)
{
    region->filled = false;
    for (size_t i = region->first; i < region->end; i++) {
        if (consume)
            ph__node_consume(tape->nodes.at[i]);
        else
            ph__node_drop_saved(tape->nodes.at[i]);
    }
    for (size_t i = 1; i <= region->descendants; i++)
        ph__region_drop_inputs(tape, tape->regions.at[region->index + i]);
    if (consume)
        ph__region_drop_inputs(tape, region);
}

void ph__region_leave(ph_tape *tape, const ph__node *node, bool consume)
{
    for (ph__region *region = node->region; region && region->first == node->index;
         region = region->parent)
        if (region->filled)
            leave_region(tape, region, consume);
}
