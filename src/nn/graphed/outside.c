/* SPDX-License-Identifier: MIT */
/* nn/graphed/outside.c: memory that the graphs of a callable use and that is neither their own
 * nor what calls bring: parameters, buffers, and tensors that nobody declared. It is held, what
 * is written of it is known, and it must be the same in each capture. */
#include "nn/graphed/outside.h"
#include "base/line.h"
#include "base/status.h"
#include "nn/graphed/alike.h"
#include "nn/graphed/callable.h"
#include "nn/graphed/capture.h"
#include "nn/graphed/frozen.h"
#include "nn/graphed/output_sets.h"
#include "tensor/core/describe.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/sightings.h"
#include <phonograph/breaks.h>
#include <phonograph/inspect/inputs.h>
#include <string.h>

/* ---- tensors ---- */
/* When its memory was allocated; 0: the library did not allocate it. */
static uint64_t generation_of_storage(const ph__trial *trial, const ph__storage *storage,
                                      bool *in_pool)
{
    const ph__graphed_set *set = trial->callable->set;
    ph_allocation found = {0};
    *in_pool = storage->kind != PH__STORAGE_FOREIGN && storage->data &&
               ph_memory_lookup(&found, set->device, storage->data) == PH_OK &&
               (found.pool == set->pool || (set->probe_pool && found.pool == set->probe_pool));
    return found.generation;
}

/* Memory that the captures allocated does not count: each capture has its own. */
static bool is_outside(const ph__trial *trial, const ph__sighting *seen)
{
    bool in_pool;
    return seen->storage->data &&
           generation_of_storage(trial, seen->storage, &in_pool) <= trial->callable->set->begun;
}

static const ph__sighting *next_outside(const ph__trial *trial, const ph__sightings *in, size_t *at)
{
    while (*at < in->list.count) {
        const ph__sighting *seen = &in->list.at[(*at)++];
        if (is_outside(trial, seen))
            return seen;
    }
    return NULL;
}

/* Where the module's struct holds another tensor by now, the message about that says more:
 * graphed.c has it. */
static bool has_moved_parameter(const ph__callable *callable)
{
    for (size_t i = 0; i < callable->parameter_slots.count; i++) {
        const ph__parameter_slot *slot = &callable->parameter_slots.at[i];
        if (*slot->at != slot->was && (slot->was || !slot->buffer))
            return true;
    }
    return false;
}

static ph_status fail_replaced(const ph__callable *callable, const char *what, bool backward,
                               const char *call)
{
    if (has_moved_parameter(callable))
        return PH_OK;
    return ph_fail(
        PH_ERROR_STATE,
        "%s: callable '%s': %s uses %s, which is neither input, parameter nor buffer of "
        "the module, and "
        "is another one at each call: replays would go on with the one of the capture; "
        "make it a buffer, "
        "and let forward change it in place (ph_tensor_copy); what forward makes when it "
        "first needs it, a warm-up makes that is long enough (warmup_iterations)",
        call, callable->original->name, backward ? "backward" : "forward", what);
}

static ph_status fail_tensor(const ph__trial *trial, const ph__sighting *seen, bool backward,
                             const char *call)
{
    char what[PH__DESCRIBE + 80], text[PH__DESCRIBE];
    ph__line_format(what, sizeof what, "%s, in operator %s",
                    ph__describe_shape(text, seen->dtype, &seen->shape), seen->op);
    return fail_replaced(trial->callable, what, backward, call);
}

/* Memory that a probe's capture was given: nothing ever computed what is there. */
static ph_status check_lost(const ph__trial *real, bool backward, const char *call)
{
    const ph__graphed_set *set = real->callable->set;
    const ph__sightings *in = &real->seen[backward];
    for (size_t i = 0; i < in->list.count; i++) {
        bool in_pool;
        const ph__sighting *seen = &in->list.at[i];
        uint64_t generation = generation_of_storage(real, seen->storage, &in_pool);
        if (in_pool && generation > set->begun && generation < set->probed)
            return fail_tensor(real, seen, backward, call);
    }
    return PH_OK;
}

static ph_status compare_outside_tensors(const ph__trial *real, const ph__trial *probe,
                                         bool backward, const char *call)
{
    size_t mine_at = 0, theirs_at = 0;
    for (;;) {
        const ph__sighting *mine = next_outside(real, &real->seen[backward], &mine_at),
                           *theirs = next_outside(probe, &probe->seen[backward], &theirs_at);
        if (!mine && !theirs)
            return PH_OK;
        if (!mine || !theirs || mine->storage != theirs->storage)
            return fail_tensor(mine ? real : probe, mine ? mine : theirs, backward, call);
    }
}

/* ---- words ---- of kernels that no operator of ours launched, too. */
typedef struct address_scan {
    const ph__callable *callable;
    const ph__sightings *seen;
    ph_graph *graph;
    PH__VEC(uint64_t) addresses; /* of memory that was allocated before the captures */
    ph__ranges *touched;         /* NULL: not asked for */
    ph_node_info info;           /* of the node that is looked at */
    char first[96];              /* names of node and word */
    const char *call;
} address_scan;

static ph_status cover_touched(const address_scan *l, uintptr_t begin, uintptr_t end)
{
    const ph__range *hit;
    while (begin < end && (hit = ph__ranges_from(l->touched, begin)) != NULL && hit->base < end) {
        const uintptr_t base = hit->base;
        begin = base < begin ? base : begin;
        end = base + hit->size > end ? base + hit->size : end;
        (void)ph__ranges_remove(l->touched, base);
    }
    return begin >= end || ph__ranges_add(l->touched, begin, end - begin, l->touched)
               ? PH_OK
               : ph__fail_host_memory(l->call, "what its replays write");
}

static const ph__storage *find_tensor(const address_scan *l, uint64_t address)
{
    for (size_t i = 0; i < l->seen->list.count; i++) {
        const ph__storage *storage = l->seen->list.at[i].storage;
        if (address - (uintptr_t)storage->data < storage->bytes)
            return storage;
    }
    return NULL;
}

/* Of a tensor that operators use its own bytes, else the whole allocation. */
static ph_status touch_memory(const address_scan *l, uint64_t address, const void *base,
                              size_t bytes)
{
    const ph__storage *storage = find_tensor(l, address);
    if (storage)
        return cover_touched(l, (uintptr_t)storage->data,
                             (uintptr_t)storage->data + storage->bytes);
    return base ? cover_touched(l, (uintptr_t)base, (uintptr_t)base + bytes)
                : cover_touched(l, address, address + 1);
}

/* Holds memory that belongs to no tensor. */
static ph_status hold_raw(const address_scan *l, const ph_word *word)
{
    if (!l->touched || word->foreign || find_tensor(l, word->value))
        return PH_OK;
    return ph_graph_hold_memory(l->graph, word->base);
}

/* Whether the node may write where the word points. Operators count what their kernels change;
 * nobody knows what others do. */
static bool node_may_write(const address_scan *l, const ph_node_info *info, size_t offset)
{
    if (info->kind == PH_NODE_KERNEL)
        return !ph__sightings_have_kernel(l->seen, info->name);
    return info->kind != PH_NODE_MEMCPY || offset == 0;
}

/* Memory of the program's: of other code's, a proved address, as the driver knows things that no
 * program has; of ours, what is older than the captures. */
static bool is_found(const address_scan *l, const ph_word *word)
{
    if (!word->base || word->internal)
        return false;
    return word->foreign ? word->kind == PH_WORD_PROVED
                         : word->generation <= l->callable->set->begun;
}

static ph_status touch_word(address_scan *l, const ph_word *word)
{
    if (!is_found(l, word))
        return PH_OK;
    if (!ph__vec_push(&l->addresses, word->value))
        return ph__fail_host_memory(l->call, "what its graphs use");
    PH_TRY(hold_raw(l, word));
    return l->touched && node_may_write(l, &l->info, word->offset)
               ? touch_memory(l, word->value, word->base, word->allocation_bytes)
               : PH_OK;
}

static ph_status touch_record(address_scan *l, const ph_record *record)
{
    ph_word word;
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        PH_TRY(ph_record_node(&l->info, record, i));
        const ph_record *body = l->info.body;
        for (size_t k = 0;; k++) {
            PH_TRY(ph_record_next_address(&word, &k, record, i));
            if (!word.base)
                break;
            PH_TRY(touch_word(l, &word));
        }
        PH_TRY(body ? touch_record(l, body) : PH_OK);
    }
    return PH_OK;
}

static ph_status find_writer(bool *out, const address_scan *l, const ph_record *record)
{
    ph_node_info info;
    *out = false;
    for (size_t i = 0; !*out && i < ph_record_node_count(record); i++) {
        PH_TRY(ph_record_node(&info, record, i));
        *out = node_may_write(l, &info, 0);
    }
    return PH_OK;
}

/* Memory of other code's, which a record shows as numbers. Nodes that are nested in others may
 * do anything. */
static ph_status touch_foreign(const address_scan *l, ph_graph *graph)
{
    const ph_record *record;
    ph_input_info input;
    ph_node_info info;
    size_t count;
    bool any;
    PH_TRY(ph_graph_record(&record, graph));
    PH_TRY(find_writer(&any, l, record));
    if (!any) /* the driver need not be asked about words */
        return PH_OK;
    PH_TRY(ph_graph_input_count(&count, graph));
    for (size_t i = 0; i < count; i++) {
        PH_TRY(ph_graph_input(&input, graph, i));
        if (input.node == PH_INPUT_DECLARED || (input.base && !input.foreign))
            continue;
        PH_TRY(ph_record_node(&info, record, input.node));
        if (node_may_write(l, &info, input.offset))
            PH_TRY(touch_memory(l, input.address, input.base, input.bytes));
    }
    return PH_OK;
}

static ph_status touch_graph(address_scan *l, ph_graph *graph)
{
    const ph_record *record;
    l->graph = graph;
    PH_TRY(ph_graph_record(&record, graph));
    PH_TRY(touch_record(l, record));
    for (size_t i = 0; l->touched && i < ph_graph_segment_count(graph); i++) {
        ph_graph *segment;
        PH_TRY(ph_graph_segment(&segment, graph, i));
        PH_TRY(touch_foreign(l, segment));
    }
    return PH_OK;
}

/* The node and word of the index-th address that a scan finds. */
static ph_status name_word(char *out, size_t size, const address_scan *l, ph_graph *graph,
                           size_t index)
{
    const ph_record *record;
    ph_node_info info;
    ph_word word;
    PH_TRY(ph_graph_record(&record, graph));
    ph__line_format(out, size, "memory that a nested node addresses");
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        PH_TRY(ph_record_node(&info, record, i));
        for (size_t k = 0;; k++) {
            PH_TRY(ph_record_next_address(&word, &k, record, i));
            if (!word.base)
                break;
            if (!is_found(l, &word) || index-- > 0)
                continue;
            ph__line_format(out, size, "memory of the program's, at %s of node %zu (%s)", word.name,
                            i, info.name);
            return PH_OK;
        }
    }
    return PH_OK;
}

static ph_status compare_scans(const address_scan *mine, const address_scan *theirs,
                               ph_graph *graph, ph_graph *probe, bool backward)
{
    char what[160];
    size_t i = 0;
    for (; i < mine->addresses.count && i < theirs->addresses.count; i++)
        if (mine->addresses.at[i] != theirs->addresses.at[i])
            break;
    if (i == mine->addresses.count && i == theirs->addresses.count)
        return PH_OK;
    bool is_mine = i < mine->addresses.count;
    PH_TRY(name_word(what, sizeof what, mine, is_mine ? graph : probe, i));
    return fail_replaced(mine->callable, what, backward, mine->call);
}

static ph_status compare_outside_words(const ph__trial *real, const ph__trial *probe, bool backward,
                                       const char *call)
{
    ph_graph *graph = backward ? real->backward : real->forward,
             *other = backward ? probe->backward : probe->forward;
    address_scan mine = {.callable = real->callable, .seen = &real->seen[backward], .call = call};
    address_scan theirs = {
        .callable = real->callable, .seen = &probe->seen[backward], .call = call};
    bool alike;
    PH_TRY(ph__graphs_are_alike(&alike, graph, other, real->callable->set->begun));
    if (alike)
        return PH_OK;
    ph_status status = touch_graph(&mine, graph);
    if (status == PH_OK)
        status = touch_graph(&theirs, other);
    if (status == PH_OK)
        status = compare_scans(&mine, &theirs, graph, other, backward);
    ph__vec_free(&mine.addresses);
    ph__vec_free(&theirs.addresses);
    return status;
}

ph_status ph__making_compare(const ph__making *making, bool backward, const char *call)
{
    const ph__trial *real = &making->real;
    PH_TRY(check_lost(real, backward, call));
    for (size_t i = 0; i < making->probe_count; i++) {
        const ph__trial *probe = &making->probes[i];
        if (backward ? !probe->backward : !probe->forward)
            break;
        PH_TRY(compare_outside_tensors(real, probe, backward, call));
        PH_TRY(compare_outside_words(real, probe, backward, call));
        if (real->callable->copies_all)
            PH_TRY(ph__frozen_report(real, probe, backward, false, call));
    }
    return PH_OK;
}

/* ---- what is kept ---- */
static ph_status hold_sightings(ph__callable *callable, const ph__sightings *in, const char *call)
{
    ph__storages *held = callable->of ? &callable->of->held : &callable->held;
    for (size_t i = 0; i < in->list.count; i++) {
        ph__storage *storage = in->list.at[i].storage;
        if (!ph__vec_push(held, storage))
            return ph__fail_host_memory(call, "what its graphs use");
        ph__storage_retain(storage);
    }
    return PH_OK;
}

static ph_status keep_outside_memory(ph__callable *callable, const ph__trial *real,
                                     ph__callable_graph *callable_graph, bool backward,
                                     const char *call)
{
    const ph__sightings *in = &real->seen[backward];
    address_scan l = {
        .callable = callable, .seen = in, .touched = &callable_graph->touched, .call = call};
    PH_TRY(hold_sightings(callable, in, call));
    for (size_t i = 0; i < in->list.count; i++) {
        const ph__sighting *seen = &in->list.at[i];
        if (ph__sighting_has_changed(seen))
            PH_TRY(cover_touched(&l, (uintptr_t)seen->storage->data,
                                 (uintptr_t)seen->storage->data + seen->storage->bytes));
    }
    ph_status status = touch_graph(&l, backward ? real->backward : real->forward);
    ph__vec_free(&l.addresses);
    return status;
}

ph_status ph__making_hold(ph__making *making, bool backward, const char *call)
{
    ph__callable *callable = making->callable;
    if (backward && !making->real.backward)
        return PH_OK;
    return keep_outside_memory(callable, &making->real,
                               backward ? &callable->backward : &callable->forward, backward, call);
}
