/* SPDX-License-Identifier: MIT */
/* graph/inputs/rebind.c: what kernel nodes were last set to, kept so that setting one again
 * costs little: the graph's inputs are made of it when somebody asks for them. */
#include "graph/inputs/rebind.h"
#include "base/alloc.h"
#include "graph/inputs/inputs.h"
#include "graph/inputs/replace.h"
#include "graph/object/graph.h"
#include "memory/observe/lookup.h"
#include "memory/observe/track.h"
#include "memory/pool/pool.h"
#include "record/words.h"
#include <string.h>

/* A word of a launch that may be an address, with the allocation that it lay in when it was set. */
typedef struct set_word {
    ph__word_slot slot;
    uint64_t value;
    ph_allocation where; /* base NULL: none that the library knows */
    ph_pool_id pool;
} set_word;

struct ph__set_launch {
    const ph_kernel *kernel; /* retained by the graph */
    bool due;                /* the graph's inputs do not know of it yet */
    uint64_t free_count;     /* the device's count when the allocations of the words lived */
    size_t count;
    set_word words[];
};

/* ---- allocations met last ---- tracked, so that the device's count of frees tells when one
 * has gone. */
static void forget_allocations(ph_graph *graph)
{
    for (size_t i = 0; i < graph->met.count; i++)
        ph__memory_untrack(graph->device, graph->met.at[i].base, graph->met.at[i].generation, NULL);
    graph->met = (ph__lookups){0};
}

static bool find_met(set_word *word, const ph__lookups *met)
{
    for (unsigned i = 0; i < met->count; i++)
        if (word->value - (uintptr_t)met->at[i].base < met->at[i].size) {
            word->where = met->at[i];
            word->pool = met->pool[i];
            return true;
        }
    return false;
}

static void find_anew(set_word *word, ph_graph *graph)
{
    enum {
        ROOM = sizeof graph->met.at / sizeof graph->met.at[0]
    };
    ph__lookups *met = &graph->met;
    if (!ph__memory_find(&word->where, graph->device, (const void *)(uintptr_t)word->value))
        return;
    word->pool = ph__pool_id(word->where.pool);
    if (ph__memory_track(graph->device, word->where.base, word->where.generation, NULL) !=
        PH__TRACKS)
        return;
    unsigned at = met->next;
    if (met->count == ROOM)
        ph__memory_untrack(graph->device, met->at[at].base, met->at[at].generation, NULL);
    else
        met->count++;
    met->at[at] = word->where;
    met->pool[at] = word->pool;
    met->next = (at + 1) % ROOM;
}

/* ---- sets ---- */
static size_t count_words(const ph_kernel *kernel)
{
    ph__words words = {kernel, kernel->args_size, 0, 0};
    ph__word_slot slot;
    size_t count = 0;
    while (ph__words_next(&words, &slot))
        count += slot.class != PH__CLASS_VALUE;
    return count;
}

static ph__set_launch *make_set_launch(const ph_kernel *kernel)
{
    size_t count = count_words(kernel);
    ph__set_launch *set = ph__calloc(1, sizeof *set + count * sizeof(set_word));
    if (!set)
        return NULL;
    ph__words words = {kernel, kernel->args_size, 0, 0};
    ph__word_slot slot;
    while (ph__words_next(&words, &slot))
        if (slot.class != PH__CLASS_VALUE)
            set->words[set->count++].slot = slot;
    set->kernel = kernel;
    return set;
}

ph__set_launch *ph__graph_known_set(const ph_graph *graph, size_t node)
{
    ph__set_launch *set =
        graph->sets && node < graph->record->node_count ? graph->sets[node] : NULL;
    return set && set->kernel == graph->node_kernels[node] ? set : NULL;
}

ph__set_launch *ph__graph_prepare_set(ph_graph *graph, size_t node, const ph_kernel *kernel)
{
    if (!graph->sets)
        graph->sets = ph__calloc(graph->record->node_count, sizeof *graph->sets);
    if (!graph->sets)
        return NULL;
    ph__set_launch *set = graph->sets[node];
    if (set && set->kernel == kernel)
        return set;
    ph__set_launch *made = make_set_launch(kernel);
    if (!made)
        return NULL;
    if (set)
        made->due = set->due;
    ph__free(set);
    return graph->sets[node] = made;
}

void ph__graph_note_set(ph_graph *graph, ph__set_launch *set, const void *args)
{
    uint64_t free_count = ph__memory_free_count(graph->device);
    bool all_live = free_count == graph->met_free_count && free_count == set->free_count;
    if (free_count != graph->met_free_count) {
        forget_allocations(graph);
        graph->met_free_count = free_count;
    }
    set->free_count = free_count;
    for (size_t i = 0; i < set->count; i++) {
        set_word *word = &set->words[i];
        uint64_t value = 0;
        memcpy(&value, (const char *)args + word->slot.offset, word->slot.size);
        if (all_live && value == word->value && word->where.base)
            continue;
        word->value = value;
        word->where.base = NULL;
        if (word->value != 0 && !find_met(word, &graph->met))
            find_anew(word, graph);
    }
    set->due = true;
    graph->sets_due = true;
    graph->free_count = UINT64_MAX;
}

/* ---- making inputs of them ---- */
static ph_status add_set_word(ph__inputs *out, ph_graph *graph, size_t node,
                              const ph__set_launch *set, const set_word *from, const char *call)
{
    char name[96];
    ph_word word = {.offset = from->slot.offset, .value = from->value, .name = name};
    ph__word_name(name, sizeof name, &from->slot);
    if (from->slot.class == PH__CLASS_ADDRESS)
        word.kind = PH_WORD_PROVED;
    else if (from->where.base)
        word.kind = PH_WORD_SUSPECTED;
    if (from->where.base) {
        word.base = from->where.base;
        word.allocation_bytes = from->where.size;
        word.generation = from->where.generation;
        word.pool = from->pool;
        word.pinned = from->where.pinned;
    }
    return ph__inputs_of_words(out, graph, node, ph_kernel_name(set->kernel), &word, 1, call);
}

static ph_status collect_set(ph_graph *graph, size_t node, ph__set_launch *set, const char *call)
{
    ph__inputs inputs = {0};
    ph_status status = PH_OK;
    for (size_t i = 0; i < set->count && status == PH_OK; i++)
        status = add_set_word(&inputs, graph, node, set, &set->words[i], call);
    if (status == PH_OK && !ph__graph_reserve_inputs(graph, inputs.count))
        status = ph__fail_host_memory(call, "the inputs of the graph");
    if (status != PH_OK) {
        ph__inputs_free(&inputs, graph);
        return status;
    }
    ph__graph_replace_inputs(graph, node, &inputs);
    set->due = false;
    return PH_OK;
}

ph_status ph__graph_collect_sets(ph_graph *graph, const char *call)
{
    for (size_t i = 0; graph->sets_due && i < graph->record->node_count; i++)
        if (graph->sets[i] && graph->sets[i]->due)
            PH_TRY(collect_set(graph, i, graph->sets[i], call));
    graph->sets_due = false;
    return PH_OK;
}

void ph__graph_drop_sets(ph_graph *graph)
{
    forget_allocations(graph);
    for (size_t i = 0; graph->sets && i < graph->record->node_count; i++)
        ph__free(graph->sets[i]);
    ph__free(graph->sets);
    graph->sets = NULL;
    graph->sets_due = false;
}
