/* SPDX-License-Identifier: MIT */
/* nn/graphed/outside.c: memory that the graphs of a callable use and that is neither their own
 * nor what calls bring: parameters, buffers, and tensors that nobody declared. It is held, what
 * is written of it is known, and it must be the same in each capture. */
#include "nn/graphed/outside.h"
#include "base/line.h"
#include "base/status.h"
#include "nn/graphed/callable.h"
#include "nn/graphed/capture.h"
#include "nn/graphed/frozen.h"
#include "nn/graphed/output_sets.h"
#include "tensor/core/describe.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/sightings.h"
#include <phonograph/breaks.h>
#include <phonograph/inspect/diff.h>
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
    const ph__sightings *a = &real->seen[backward], *b = &probe->seen[backward];
    size_t same = 0;
    while (same < a->list.count && same < b->list.count &&
           a->list.at[same].storage == b->list.at[same].storage)
        same++;
    for (size_t mine_at = same, theirs_at = same;;) {
        const ph__sighting *mine = next_outside(real, a, &mine_at),
                           *theirs = next_outside(probe, b, &theirs_at);
        if (!mine && !theirs)
            return PH_OK;
        if (!mine || !theirs || mine->storage != theirs->storage)
            return fail_tensor(mine ? real : probe, mine ? mine : theirs, backward, call);
    }
}

/* ---- words ---- of kernels that no operator of ours launched, too. */
typedef struct address_scan {
    const ph__callable *callable;
    PH__VEC(uint64_t) addresses; /* of memory that was allocated before the captures */
    const char *call;
} address_scan;

/* Memory of the program's: of other code's, a proved address, as the driver knows things that no
 * program has; of ours, what is older than the captures. */
static bool is_found(const address_scan *l, const ph_word *word)
{
    if (!word->base || word->internal)
        return false;
    return word->foreign ? word->kind == PH_WORD_PROVED
                         : word->generation <= l->callable->set->begun;
}

static ph_status scan_record(address_scan *l, const ph_record *record)
{
    ph_word word;
    ph_node_info info;
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        PH_TRY(ph_record_node(&info, record, i));
        for (size_t k = 0;; k++) {
            PH_TRY(ph_record_next_address(&word, &k, record, i));
            if (!word.base)
                break;
            if (is_found(l, &word) && !ph__vec_push(&l->addresses, word.value))
                return ph__fail_host_memory(l->call, "what its graphs use");
        }
        PH_TRY(info.body ? scan_record(l, info.body) : PH_OK);
    }
    return PH_OK;
}

static ph_status scan_addresses(address_scan *l, ph_graph *graph)
{
    const ph_record *record;
    PH_TRY(ph_graph_record(&record, graph));
    return scan_record(l, record);
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
    address_scan mine = {.callable = real->callable, .call = call}, theirs = mine;
    const ph_record *record;
    bool alike;
    PH_TRY(ph_graph_record(&record, graph)); /* asks for memory of other code now */
    PH_TRY(ph_graph_same_addresses(&alike, graph, other, real->callable->set->begun));
    if (alike)
        return PH_OK;
    ph_status status = scan_addresses(&mine, graph);
    if (status == PH_OK)
        status = scan_addresses(&theirs, other);
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
