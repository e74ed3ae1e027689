/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_scalar.c: scalar slots out of two captures of the same work, with an old and
 * a new value. */
#include "base/line.h"
#include "graph/memory/cells.h"
#include "graph/object/graph.h"
#include "graph/slots/slots.h"
#include "graph/slots/slots_make.h"
#include "graph/slots/slots_same.h"
#include "record/sparse.h"
#include "record/words.h"
#include <string.h>

typedef struct proof {
    ph_graph *graph, *changed;
    const unsigned char *old_value, *new_value;
    size_t bytes, first; /* first: the first byte that differs */
    ph__slot_draft draft;
    const char *call;
    char reason[sizeof((ph_slot_proof *)0)->reason]; /* "": there is no difference that nothing
                                                        explains */
} proof;

/* ---- the arguments ---- */
static ph_status check_scalar(proof *p, const ph_slot_proof *out)
{
    if (out == NULL)
        return ph__fail_null(p->call, "out");
    PH_TRY(ph__graph_check(p->graph, PH__CALL_SLOT_PROVE_SCALAR));
    if (p->changed == NULL)
        return ph__fail_null(p->call, "changed");
    PH_TRY(ph__graph_check(p->changed, PH__CALL_SLOT_PROVE_CHANGED));
    if (p->graph == p->changed)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: changed is the graph itself; it is another capture of its work",
                       p->call);
    if (p->graph->device != p->changed->device)
        return ph__fail_devices(p->call, "the graph", p->graph->device, "the changed one",
                                p->changed->device);
    if (p->old_value == NULL || p->new_value == NULL)
        return ph__fail_null(p->call, p->old_value ? "new_value" : "old_value");
    PH_TRY(ph__slot_check_scalar(p->bytes, p->call));
    while (p->first < p->bytes && p->old_value[p->first] == p->new_value[p->first])
        p->first++;
    if (p->first == p->bytes)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: old_value and new_value are the same %zu bytes",
                       p->call, p->bytes);
    return PH_OK;
}

/* ---- the comparison ---- every one answers false when it has put a difference into the reason, or
 * failed. */
#define UNEXPLAINED(p, ...) (ph__line_format((p)->reason, sizeof(p)->reason, __VA_ARGS__), false)

/* The place whose first byte that differs is at `at`, if that is one. */
static bool is_place(const proof *p, const ph_node_info *mine, const ph_node_info *theirs,
                     size_t at)
{
    size_t begin = at - p->first;
    return at >= p->first && p->bytes <= mine->args_size && begin <= mine->args_size - p->bytes &&
           memcmp((const char *)mine->args + begin, p->old_value, p->bytes) == 0 &&
           memcmp((const char *)theirs->args + begin, p->new_value, p->bytes) == 0;
}

/* One word of a kernel; *done: the bytes before it are explained. */
static bool compare_bytes(proof *p, const ph_node_info *mine, const ph_node_info *theirs,
                          const ph__word_slot *slot, const char *name, size_t *done,
                          ph_status *status)
{
    const unsigned char *a = mine->args, *b = theirs->args;
    for (size_t at = slot->offset; at < slot->offset + slot->size; at++) {
        if (at < *done || a[at] == b[at])
            continue;
        if (!is_place(p, mine, theirs, at))
            return UNEXPLAINED(
                p,
                "node %zu (%s): byte %zu of its parameters, in word %s, is 0x%02x and 0x%02x, "
                "which is no part of the value",
                mine->index, mine->name, at, name, a[at], b[at]);
        *status = ph__slot_add(&p->draft, p->graph, mine->index, at - p->first, p->call);
        if (*status != PH_OK)
            return false;
        *done = at - p->first + p->bytes;
    }
    return true;
}

static bool is_own(const proof *p, const ph_word *mine, const ph_word *theirs)
{
    return (ph__slot_is_captures(p->graph, mine) || ph__slot_is_pools(p->graph, mine)) &&
           (ph__slot_is_captures(p->changed, theirs) || ph__slot_is_pools(p->changed, theirs));
}

static bool compare_words(proof *p, const ph__record_node *mine, const ph__record_node *theirs,
                          ph_status *status)
{
    const ph_node_info *info = &mine->info;
    size_t done = 0;
    if (info->word_count != theirs->info.word_count)
        return UNEXPLAINED(p, "node %zu (%s): it has other parameters", info->index, info->name);
    if (ph__cells_are_written_by(p->graph, info->index) &&
        ph__cells_are_written_by(p->changed, info->index))
        return true;
    ph__words words = {mine->kernel, info->args_size, 0, 0};
    for (size_t w = 0; w < info->word_count; w++) {
        ph_word rooms[2];
        ph__word_slot slot = {.size = sizeof rooms[0].value};
        bool kernel = info->kind == PH_NODE_KERNEL,
             known = !kernel || ph__words_next(&words, &slot);
        const ph_word *a = ph__record_word(&rooms[0], mine, w),
                      *b = ph__record_word(&rooms[1], theirs, w);
        if (!known || a->offset != b->offset)
            return UNEXPLAINED(p, "node %zu (%s): it has other parameters", info->index,
                               info->name);
        if ((a->value == b->value && !kernel) || (is_own(p, a, b) && ph__slot_is_same_place(a, b)))
            continue;
        if (!kernel)
            return UNEXPLAINED(p, "node %zu (%s): its %s is another address", info->index,
                               info->name, a->name);
        if (!compare_bytes(p, info, &theirs->info, &slot, a->name, &done, status))
            return false;
    }
    return true;
}

static bool compare_node(proof *p, size_t index, ph_status *status)
{
    const ph__record_node *mine = &p->graph->record->nodes[index],
                          *theirs = &p->changed->record->nodes[index];
    const char *why;
    *status = ph__slot_other_in(&why, p->graph, mine, theirs, p->call);
    if (*status != PH_OK)
        return false;
    return why ? UNEXPLAINED(p, "node %zu (%s): %s", index, mine->info.name, why)
               : compare_words(p, mine, theirs, status);
}

static ph_status compare_captures(proof *p)
{
    size_t count = p->graph->record->node_count, theirs = p->changed->record->node_count;
    ph_status status = PH_OK;
    if (count != theirs)
        return (void)UNEXPLAINED(p, "the changed capture has %zu nodes, the graph %zu", theirs,
                                 count),
               PH_OK;
    for (size_t i = 0; i < count; i++)
        if (!compare_node(p, i, &status))
            return status;
    if (p->draft.places.count == 0)
        (void)UNEXPLAINED(p, "no parameter differs between the captures: the value is in none, or "
                             "comes from where nobody can see");
    return PH_OK;
}

ph_status ph_graph_slot_prove_scalar(ph_slot_proof *out, ph_graph *graph, ph_graph *changed,
                                     const char *name, const void *old_value, const void *new_value,
                                     size_t bytes)
{
    proof p = {.graph = graph,
               .changed = changed,
               .old_value = old_value,
               .new_value = new_value,
               .bytes = bytes,
               .call = "ph_graph_slot_prove_scalar"};
    if (out)
        *out = (ph_slot_proof){.slot = PH_SLOT_NONE};
    PH_TRY(check_scalar(&p, out));
    PH_TRY(ph__slot_start(&p.draft, graph, name, NULL, bytes, 0, p.call));
    ph_status status = compare_captures(&p);
    size_t number = ph_graph_slot_count(graph), uses = p.draft.places.count;
    if (status == PH_OK && p.reason[0]) {
        ph__line_format(out->reason, sizeof out->reason, "%s", p.reason);
    } else if (status == PH_OK) {
        status = ph__slots_commit(graph, &p.draft, 1, p.call);
        if (status == PH_OK)
            *out = (ph_slot_proof){.slot = number, .uses = uses};
    }
    ph__slot_abandon(&p.draft);
    return status;
}
