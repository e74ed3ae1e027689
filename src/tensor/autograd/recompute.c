/* SPDX-License-Identifier: MIT */
/* tensor/autograd/recompute.c: the second run of a checkpointed function: it makes the same
 * nodes again, whose saved values go over to those of the first run. */
#include "tensor/autograd/recompute.h"
#include "base/status.h"
#include "base/unwind.h"
#include "tensor/autograd/marks.h"
#include "tensor/autograd/recompute.h"
#include "tensor/autograd/region_call.h"
#include "tensor/core/describe.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/tensor.h"
#include "tensor/generator/draw.h"
#include "tensor/tape/node.h"
#include "tensor/tape/place.h"
#include "tensor/tape/region.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"
#include <stdio.h>
#include <string.h>

static bool check_input_versions(ph_tape *tape, const ph__region *region)
{
    for (size_t i = 0; i < region->in_count; i++) {
        uint64_t now = ph_tensor_version(region->in[i]);
        char text[PH__DESCRIBE], which[64];
        if (region->in[i] && ph__tensor_is_overwritten(region->in[i])) {
            (void)snprintf(which, sizeof which, "input %zu of its second run", i);
            ph_tape_check(tape, ph__fail_overwritten(region->in[i], PH__CHECKPOINT, which));
            return false;
        }
        if (!region->in[i] || now == region->versions[i] || tape->recaptures)
            continue;
        ph_tape_fail(tape, PH_ERROR_STATE,
                     "%s: input %zu, %s, was changed in place before the second run: it has "
                     "version %llu, and had %llu in the first",
                     PH__CHECKPOINT, i, ph__describe(text, region->in[i]), (unsigned long long)now,
                     (unsigned long long)region->versions[i]);
        return false;
    }
    return true;
}

/* Its place in the list, to which the second run may add. SIZE_MAX: none was. */
static size_t find_changed_leaf(const ph_tape *tape, const ph__region *region)
{
    for (size_t i = 0; i < region->leaves.list.count && !tape->recaptures; i++)
        if (ph__sighting_has_changed(&region->leaves.list.at[i]))
            return i;
    return SIZE_MAX;
}

/* A message about a saved value says more, and comes first. */
static bool check_leaf(ph_tape *tape, const ph__region *region, size_t changed)
{
    char text[PH__DESCRIBE];
    if (changed == SIZE_MAX)
        return true;
    const ph__sighting *leaf = &region->leaves.list.at[changed];
    ph_tape_fail(tape, PH_ERROR_STATE,
                 "%s: a leaf that %s read, %s, was changed in place before the second run; change "
                 "it after backward",
                 PH__CHECKPOINT, leaf->op, ph__describe_shape(text, leaf->dtype, &leaf->shape));
    return false;
}

static bool fail_different(ph_tape *tape, const char *what)
{
    ph_tape_fail(tape, PH_ERROR_STATE,
                 "%s: the second run of the function did not do what the first did: %s",
                 PH__CHECKPOINT, what);
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
            ph_tape_fail(tape, PH_ERROR_STATE,
                         "%s: a value that %s saved was changed in place before the second run: it "
                         "has version %llu, and had %llu in the first",
                         PH__CHECKPOINT, old->name, (unsigned long long)fresh->versions[i],
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

static void restore_draws(rewound *w)
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
    restore_draws(what);
    ph__error_restore(&saved);
}

static bool call_again(ph_tape *tape, ph__region *region, const ph__region_run *r)
{
    rewound w = {.tape = tape, .before = tape->generator, .generator = region->generator};
    if (!region->has_drawn)
        return ph__region_call(tape, region, false, r);
    ph_tape_check(tape, ph__generator_save(&w.now, region->generator, tape->stream));
    if (!ph__tape_failed(tape))
        ph_tape_check(tape, ph__generator_restore(region->generator, tape->stream, &region->mark));
    if (ph__tape_failed(tape))
        return false;
    tape->generator = ph_generator_retain(region->generator);
    PH__UNWIND unwind = {abandon_draws, &w};
    bool ok = ph__region_call(tape, region, false, r);
    unwind.undo = NULL;
    restore_draws(&w);
    return ok && !ph__tape_failed(tape);
}

/* Scopes that the function opened itself are opened by it again, and those too are of backward
 * now. */
static bool has_marks(const ph_tape *tape, const ph__region *region)
{
    bool marked = region->scope != NULL;
    for (size_t i = region->first; i < region->end && !marked; i++)
        marked = tape->nodes.at[i]->mark != NULL;
    return marked;
}

static bool call_in_scope(ph_tape *tape, ph__region *region, const ph__region_run *r)
{
    size_t depth = ph_annotation_depth();
    bool marked = has_marks(tape, region);
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

/* Nodes that the second run adds to the tape go with it. */
typedef struct second_run_state {
    ph_tape *tape;
    size_t first_node, first_region, mark, depth;
    ph__tensor_place *place;
    ph_tensor **out;
} second_run_state;

static void end_second(second_run_state *s)
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
    second_run_state *s = what;
    ph_error saved;
    ph__error_save(&saved);
    s->tape->place = s->place;
    end_second(s);
    ph__error_restore(&saved);
}

static bool second_run(ph_tape *tape, ph__region *region)
{
    second_run_state s = {.tape = tape,
                          .first_node = tape->nodes.count,
                          .first_region = tape->regions.count,
                          .place = tape->place,
                          .out = ph__calloc(region->out_count, sizeof(ph_tensor *))};
    if (!s.out) {
        ph__tape_fail_host_memory(tape, PH__CHECKPOINT, "the outputs of its second run");
        return false;
    }
    ph__region_run r = {.fn = region->fn,
                        .user = region->user,
                        .out = s.out,
                        .out_count = region->out_count,
                        .in = region->in};
    const size_t changed = find_changed_leaf(tape, region);
    s.mark = ph_tape_scope_begin(tape);
    s.depth = tape->depth;
    PH__UNWIND unwind = {abandon_second, &s};
    bool ok = call_in_scope(tape, region, &r) &&
              match_regions(tape, region, s.first_region, s.first_node) &&
              match_nodes(tape, region, s.first_region, s.first_node) &&
              check_leaf(tape, region, changed);
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
                     PH__CHECKPOINT);
        return false;
    }
    return check_input_versions(tape, region) && second_run(tape, region);
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
    if (consume) {
        ph__region_drop_inputs(tape, region);
        ph__sightings_free(&region->leaves);
    }
}

void ph__region_leave(ph_tape *tape, const ph__node *node, bool consume)
{
    for (ph__region *region = node->region; region && region->first == node->index;
         region = region->parent)
        if (region->filled)
            leave_region(tape, region, consume);
}
