/* SPDX-License-Identifier: MIT */
/* graph/inputs/inputs.c: which words of a graph's nodes are addresses of memory from elsewhere, and
 * what memory that is. */
#include "graph/inputs/inputs.h"
#include "base/alloc.h"
#include "base/line.h"
#include "graph/inputs/brought.h"
#include "graph/inputs/inputs_declared.h"
#include "graph/memory/born.h"
#include "graph/memory/epochs.h"
#include "graph/object/graph.h"
#include "memory/observe/lookup.h"
#include "memory/observe/track.h"
#include "memory/pool/pool.h"
#include "record/sparse.h"
#include <string.h>

/* One look at a graph, or at a node. What the driver was asked is remembered: kernels of vendor
 * libraries have some hundred words each, and say the same few things again and again. */
typedef struct gather {
    ph_graph *graph;
    const ph_graph *from; /* whose capture it is; NULL: that of an update */
    const ph__declarations *declared;
    ph__inputs *out;
    ph__ranges foreign; /* values are ph__foreign */
    ph__map unknown;    /* words that the driver does not know */
    /* declared memory that a word addresses: keys are 1 + the index */
    ph__map used;
    const char *node_name, *word_name; /* of the word that is looked at */
    bool nested;
    const char *call;
} gather;

/* ---- memory of other code's ---- */
static ph__foreign *add_foreign(gather *g, const ph__drv_pointer *where, uint64_t address)
{
    ph__foreign *foreign = ph__calloc(1, sizeof *foreign);
    if (foreign == NULL)
        return NULL;
    foreign->base = (const void *)where->base;
    foreign->asked = (const void *)(uintptr_t)address;
    foreign->bytes = where->size;
    foreign->buffer_id = where->buffer_id;
    foreign->pinned = where->kind == PH__MEMORY_PINNED;
    if (!ph__ranges_add(&g->foreign, where->base, where->size ? where->size : 1, foreign)) {
        ph__free(foreign);
        return NULL;
    }
    foreign->link = &g->graph->foreign;
    foreign->next = g->graph->foreign;
    if (foreign->next)
        foreign->next->link = &foreign->next;
    g->graph->foreign = foreign;
    return foreign;
}

static void drop_foreign(ph__foreign *foreign)
{
    *foreign->link = foreign->next;
    if (foreign->next)
        foreign->next->link = foreign->link;
    ph__free(foreign);
}

static void leave_foreign(ph__foreign *foreign)
{
    if (foreign && --foreign->inputs == 0)
        drop_foreign(foreign);
}

/* *out NULL: the driver knows nothing of it. */
static ph_status find_foreign(ph__foreign **out, gather *g, uint64_t value)
{
    ph__drv_pointer where;
    ph_device *device = g->graph->device;
    const ph__range *known = ph__ranges_find(&g->foreign, (uintptr_t)value);
    *out = known ? known->value : NULL;
    if (known || !ph__may_be_address(value) ||
        (g->unknown.count && ph__map_get(&g->unknown, value)))
        return PH_OK;
    int result =
        device->driver->pointer_info(&where, device->handle, (const void *)(uintptr_t)value);
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_POINTER_GET_ATTRIBUTE,
                               "%s: the word 0x%llx of a node", g->call, (unsigned long long)value);
    bool kept = where.kind == PH__MEMORY_PAGEABLE ? ph__map_put(&g->unknown, value, g)
                                                  : (*out = add_foreign(g, &where, value)) != NULL;
    return kept ? PH_OK : ph__fail_host_memory(g->call, "the inputs of the graph");
}

/* ---- one input ---- */
/* Memory that the captures of the graph's nodes were given, or that the graph holds, is never an
 * input. What else lies in its pools is: eager work allocated it, or another capture was given it.
 * generation 0: nothing lives there. */
static bool is_own_memory(const gather *g, uint64_t address, ph_pool_id pool, uint64_t generation)
{
    const ph_graph *from =
        g->from; /* not `graph`: that may have had other memory at the same place */
    if (from == NULL)
        return ph__brought_owns(g->graph, address, pool, generation);
    for (size_t i = 0; i < from->pools.count; i++) {
        const ph__writer *writer = from->pools.at[i];
        if (ph__writer_covers(writer, (uintptr_t)address) ||
            ph__writer_is_anywhere(writer, address, pool, generation))
            return true;
    }
    return ph__graph_holds(from, (const void *)(uintptr_t)address, generation);
}

static void copy_name(char *out, size_t size, const char *name)
{
    size_t length = strnlen(name, size - 1);
    memcpy(out, name, length);
    out[length] = 0;
}

/* Tracks it, where the graph checks. What died meanwhile is not tracked, and found dead by the
 * next look. */
static ph_status add_input(gather *g, const ph__input *input)
{
    if (!ph__vec_reserve(g->out, 1))
        return ph__fail_host_memory(g->call, "the inputs of the graph");
    ph__input *added = &g->out->at[g->out->count];
    *added = *input;
    added->nested = g->nested;
    copy_name(added->node_name, sizeof added->node_name, g->node_name);
    copy_name(added->word_name, sizeof added->word_name, g->word_name);
    if (g->graph->liveness && input->generation) {
        ph__tracking tracking =
            ph__memory_track(g->graph->device, input->base, input->generation, &g->graph->watch);
        if (tracking == PH__TRACK_NO_MEMORY)
            return ph__fail_host_memory(g->call, "the inputs of the graph");
        added->tracked = tracking == PH__TRACKS;
    }
    if (input->foreign)
        input->foreign->inputs++;
    g->out->count++;
    return PH_OK;
}

static ph_status note_used(gather *g, const ph__declared *declared)
{
    uint64_t key = (uint64_t)(declared - g->declared->list.at) + 1;
    return ph__map_put(&g->used, key, g) ? PH_OK
                                         : ph__fail_host_memory(g->call, "the inputs of the graph");
}

/* The record has the size of the block alone. 0: it was freed since. */
static size_t requested_of(const ph_device *device, const ph_word *word)
{
    ph_allocation now;
    return ph__memory_find(&now, device, word->base) && now.generation == word->generation
               ? now.requested
               : 0;
}

/* Memory of this library's, or an announced block, as it was when the word was read. */
static ph_status add_ours(gather *g, ph__input *input, const ph_word *word)
{
    const ph__declared *declared = ph__declared_find(g->declared, word);
    if (declared) {
        PH_TRY(note_used(g, declared));
        input->proved = true;
    }
    if (is_own_memory(g, word->value, word->pool, word->generation))
        return PH_OK;
    input->base = word->base;
    input->bytes = word->allocation_bytes;
    input->requested = requested_of(g->graph->device, word);
    input->generation = word->generation;
    input->pinned = word->pinned;
    input->announced = word->foreign;
    return add_input(g, input);
}

/* The word addressed nothing that lived when the capture ended, in memory that the allocator
 * has: freed by then, declared or not, or the end of an allocation, which is a legal thing to
 * hand a kernel. */
static ph_status add_freed(gather *g, ph__input *input, ph_pool_id pool)
{
    ph_allocation before;
    ph_device *device = g->graph->device;
    for (size_t i = 0; i < g->declared->list.count; i++) {
        const ph__declared *declared = &g->declared->list.at[i];
        if (declared->generation == 0 ||
            input->value - (uintptr_t)declared->base >= declared->bytes)
            continue;
        PH_TRY(note_used(g, declared));
        input->proved = true;
        input->base = declared->base;
        input->bytes = declared->bytes;
        input->requested = declared->requested;
        input->generation = declared->generation;
        input->pinned = declared->pinned;
        input->announced = declared->announced;
        return add_input(g, input);
    }
    if (!input->proved ||
        is_own_memory(g, input->value - 1, pool, 0)) /* the end of what the capture freed */
        return PH_OK;
    if (ph__memory_find(&before, device, (const void *)(uintptr_t)(input->value - 1))) {
        if (is_own_memory(g, input->value - 1, ph__pool_id(before.pool), before.generation))
            return PH_OK;
        input->base = before.base;
        input->bytes = before.size;
        input->requested = before.requested;
        input->generation = before.generation;
        input->pinned = before.pinned;
        input->announced = before.foreign;
    } else {
        input->base = (const void *)(uintptr_t)input->value;
    }
    return add_input(g, input);
}

static ph_status add_others(gather *g, ph__input *input)
{
    PH_TRY(find_foreign(&input->foreign, g, input->value));
    const ph__foreign *foreign = input->foreign;
    if (foreign) {
        const ph__declared *declared = ph__declared_foreign(g->declared, foreign->buffer_id);
        if (declared) {
            PH_TRY(note_used(g, declared));
            input->proved = true;
        }
        input->base = foreign->base;
        input->bytes = foreign->bytes;
        input->pinned = foreign->pinned;
    }
    return foreign || input->proved ? add_input(g, input) : PH_OK;
}

/* ---- words ---- */
/* A word that no parameter covers, which may be an address if its allocation says so. */
static bool is_untyped(const ph_word *word, const ph_node_info *info)
{
    return word->name[0] == '+' && word->offset + sizeof(uint64_t) <= info->args_size;
}

static ph_status add_word_input(gather *g, size_t node, const ph_word *word, bool may_be)
{
    ph_pool_id pool;
    ph__input input = {.node = node, .offset = word->offset, .value = word->value};
    input.proved = word->kind == PH_WORD_PROVED;
    if (word->value == 0 || word->internal || (word->kind == PH_WORD_VALUE && !may_be))
        return PH_OK;
    g->word_name = word->name;
    if (word->base)
        return add_ours(g, &input, word);
    if (!input.proved && !ph__may_be_address(word->value))
        return PH_OK;
    if (ph__memory_reserved_by(&pool, g->graph->device, (const void *)(uintptr_t)word->value))
        return is_own_memory(g, word->value, pool, 0) ? PH_OK : add_freed(g, &input, pool);
    return add_others(g, &input);
}

/* Adds the inputs of a node, and of all nodes nested in it, which have different names. */
static ph_status add_node(gather *g, size_t at, const ph__record_node *node, const char *name)
{
    g->node_name = name;
    for (size_t w = 0; (w = ph__record_next_within(node, w, PH__ADDRESS_FIRST, PH__ADDRESS_END)) <
                       node->info.word_count;
         w++) {
        ph_word room;
        const ph_word *word = ph__record_word(&room, node, w);
        PH_TRY(add_word_input(g, at, word, is_untyped(word, &node->info)));
    }
    const ph_record *body = node->info.body;
    bool nested = g->nested;
    for (size_t n = 0; body && n < body->node_count; n++) {
        char inner[sizeof((ph__input *)0)->node_name];
        ph__line_format(inner, sizeof inner, "%s: %s", name, body->nodes[n].info.name);
        g->nested = true;
        PH_TRY(add_node(g, at, &body->nodes[n], inner));
    }
    g->nested = nested;
    return PH_OK;
}

/* Declared memory that no word addresses is an input by itself. */
static ph_status add_declared_inputs(gather *g)
{
    for (size_t i = 0; i < g->declared->list.count; i++) {
        const ph__declared *declared = &g->declared->list.at[i];
        ph__input input = {.node = SIZE_MAX, .value = declared->address, .proved = true};
        if ((g->used.count && ph__map_get(&g->used, i + 1)) ||
            is_own_memory(g, declared->address, declared->pool, declared->generation))
            continue;
        g->node_name = declared->nested ? "ph_graph_replay" : "ph_stream_declare_use";
        g->word_name = declared->name;
        input.base = declared->base;
        input.bytes = declared->bytes;
        input.requested = declared->requested;
        input.generation = declared->generation;
        input.pinned = declared->pinned;
        input.announced = declared->announced;
        if (declared->base && !declared->generation) {
            PH_TRY(find_foreign(&input.foreign, g, declared->address));
            /* Another allocation, or none, by the capture's end. */
            if (!input.foreign || input.foreign->buffer_id != declared->buffer_id) {
                ph__drv_pointer was = {declared->pinned ? PH__MEMORY_PINNED : PH__MEMORY_DEVICE,
                                       (uintptr_t)declared->base, declared->bytes,
                                       declared->buffer_id};
                ph_input_state state = input.foreign ? PH_INPUT_REPLACED : PH_INPUT_FREED;
                ph__ranges_free(&g->foreign); /* overlaps what is there now */
                input.foreign = add_foreign(g, &was, declared->address);
                if (!input.foreign)
                    return ph__fail_host_memory(g->call, "the inputs of the graph");
                input.foreign->state = state;
            }
        }
        PH_TRY(add_input(g, &input));
    }
    return PH_OK;
}

/* ---- the whole ---- */
static void end_gather(gather *g)
{
    ph__ranges_free(&g->foreign);
    ph__map_free(&g->unknown);
    ph__map_free(&g->used);
    /* Ranges that no input came to lie in. */
    for (ph__foreign *at = g->graph->foreign, *next; at; at = next) {
        next = at->next;
        if (at->inputs == 0)
            drop_foreign(at);
    }
}

static ph_status finish_gather(gather *g, ph_status status)
{
    end_gather(g);
    if (status != PH_OK)
        ph__inputs_free(g->out, g->graph);
    return status;
}

static ph_status gather_record(gather *g, const ph_record *record)
{
    ph_status status = PH_OK;
    for (size_t n = 0; n < record->node_count && status == PH_OK; n++)
        status = add_node(g, n, &record->nodes[n], record->nodes[n].info.name);
    if (status == PH_OK)
        status = add_declared_inputs(g);
    return finish_gather(g, status);
}

ph_status ph__inputs_of_graph(ph__inputs *out, ph_graph *graph, const ph_graph *from,
                              const char *call)
{
    gather g = {
        .graph = graph, .from = from, .declared = &from->declared, .out = out, .call = call};
    return gather_record(&g, from->record);
}

ph_status ph__inputs_of_brought(ph__inputs *out, ph_graph *graph, const ph_record *record,
                                const char *call)
{
    gather g = {.graph = graph, .declared = &graph->brought->declared, .out = out, .call = call};
    return gather_record(&g, record);
}

ph_status ph__inputs_of_words(ph__inputs *out, ph_graph *graph, size_t node, const char *node_name,
                              const ph_word *words, size_t count, const char *call)
{
    gather g = {.graph = graph,
                .from = graph,
                .declared = &graph->declared,
                .out = out,
                .node_name = node_name,
                .call = call};
    ph_status status = PH_OK;
    for (size_t i = 0; i < count && status == PH_OK; i++)
        status = add_word_input(&g, node, &words[i], true);
    return finish_gather(&g, status);
}

void ph__inputs_let_go(const ph__inputs *inputs, ph_graph *graph)
{
    for (size_t i = 0; i < inputs->count; i++) {
        ph__input *input = &inputs->at[i];
        if (input->tracked)
            ph__memory_untrack(graph->device, input->base, input->generation, &graph->watch);
        leave_foreign(input->foreign);
    }
}

void ph__inputs_free(ph__inputs *inputs, ph_graph *graph)
{
    ph__inputs_let_go(inputs, graph);
    ph__vec_free(inputs);
}
