/* SPDX-License-Identifier: MIT */
/* nn/graphed/touched.c: memory outside of a callable's graphs that they use, which it holds, and
 * what of that they may write. */
#include "nn/graphed/touched.h"
#include "base/status.h"
#include "nn/graphed/callable.h"
#include "nn/graphed/capture.h"
#include "nn/graphed/output_sets.h"
#include "tensor/core/storage.h"
#include "tensor/tape/sightings.h"
#include <phonograph/breaks.h>
#include <phonograph/inspect/inputs.h>
#include <stdlib.h>
#include <string.h>

/* Of the tensors that begin at `from` or below it the one that reaches furthest: which has each
 * address from `from` on that any of them has. */
typedef struct tensor_span {
    uintptr_t from, begin, end;
} tensor_span;

enum {
    RECENT_BITS = 5
};

/* A word that was touched already. */
typedef struct touched_word {
    uint64_t value; /* 0: none */
    bool writes;
} touched_word;

typedef struct touching {
    const ph__callable *callable;
    const ph__sightings *seen;
    PH__VEC(tensor_span) tensors; /* tensors that were seen, in order of `from` */
    ph_graph *graph;
    ph__ranges *touched;
    const char *call;
    /* Kernels have each address several times, and share them: the last one of those that have one
     * place here. */
    touched_word recent[1 << RECENT_BITS];
    bool foreign; /* some word of the record addresses memory of other code's */
} touching;

/* ---- memory ---- */
static ph_status cover_touched(const touching *t, uintptr_t begin, uintptr_t end)
{
    const ph__range *hit = ph__ranges_from(t->touched, begin);
    if (hit && hit->base <= begin && end - hit->base <= hit->size)
        return PH_OK;
    while (begin < end && (hit = ph__ranges_from(t->touched, begin)) != NULL && hit->base < end) {
        const uintptr_t base = hit->base;
        begin = base < begin ? base : begin;
        end = base + hit->size > end ? base + hit->size : end;
        (void)ph__ranges_remove(t->touched, base);
    }
    return begin >= end || ph__ranges_add(t->touched, begin, end - begin, t->touched)
               ? PH_OK
               : ph__fail_host_memory(t->call, "what its replays write");
}

/* ---- tensors that operators use ---- */
static int compare_spans(const void *a, const void *b)
{
    const tensor_span *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

static ph_status index_tensors(touching *t)
{
    if (!ph__vec_reserve(&t->tensors, t->seen->list.count))
        return ph__fail_host_memory(t->call, "what its graphs use");
    for (size_t i = 0; i < t->seen->list.count; i++) {
        const ph__storage *storage = t->seen->list.at[i].storage;
        const uintptr_t begin = (uintptr_t)storage->data;
        if (begin && storage->bytes > 0)
            t->tensors.at[t->tensors.count++] = (tensor_span){begin, begin, begin + storage->bytes};
    }
    if (t->tensors.count == 0)
        return PH_OK;
    qsort(t->tensors.at, t->tensors.count, sizeof *t->tensors.at, compare_spans);
    for (size_t i = 1; i < t->tensors.count; i++) {
        tensor_span *span = &t->tensors.at[i];
        if (span[-1].end > span->end)
            span->begin = span[-1].begin, span->end = span[-1].end;
    }
    return PH_OK;
}

static const tensor_span *find_tensor(const touching *t, uint64_t address)
{
    size_t low = 0, high = t->tensors.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (t->tensors.at[middle].from <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && address < t->tensors.at[low - 1].end ? &t->tensors.at[low - 1] : NULL;
}

/* Of a tensor that operators use its own bytes, else the whole allocation. */
static ph_status touch_memory(const touching *t, uint64_t address, const void *base, size_t bytes)
{
    const tensor_span *tensor = find_tensor(t, address);
    if (tensor)
        return cover_touched(t, tensor->begin, tensor->end);
    return base ? cover_touched(t, (uintptr_t)base, (uintptr_t)base + bytes)
                : cover_touched(t, address, address + 1);
}

/* ---- who writes ---- Operators count what their kernels change; nobody knows what others do. */
static bool node_may_write(const touching *t, const ph_node_info *info)
{
    return info->kind != PH_NODE_KERNEL || !ph__sightings_have_kernel(t->seen, info->name);
}

/* Of a copy the word at 0 is where it goes. */
static bool is_written(const ph_node_info *info, size_t offset)
{
    return info->kind != PH_NODE_MEMCPY || offset == 0;
}

/* Blocks of the allocator begin at multiples of 512. */
static size_t recent_place(uint64_t value)
{
    return (size_t)(((value >> 9) * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - RECENT_BITS));
}

/* ---- memory of ours ---- what is older than the captures. Holds what belongs to no tensor. */
static ph_status touch_word(touching *t, const ph_node_info *info, const ph_word *word,
                            bool may_write)
{
    const bool writes = may_write && is_written(info, word->offset);
    touched_word *recent = &t->recent[recent_place(word->value)];
    if (word->internal || word->foreign || word->generation > t->callable->set->begun ||
        (recent->value == word->value && recent->writes >= writes))
        return PH_OK;
    if (!find_tensor(t, word->value))
        PH_TRY(ph_graph_hold_memory(t->graph, word->base));
    if (writes)
        PH_TRY(touch_memory(t, word->value, word->base, word->allocation_bytes));
    *recent = (touched_word){word->value, writes};
    return PH_OK;
}

static ph_status touch_record(touching *t, const ph_record *record)
{
    ph_node_info info;
    ph_word word;
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        PH_TRY(ph_record_node(&info, record, i));
        const bool may_write = node_may_write(t, &info);
        for (size_t k = 0;; k++) {
            PH_TRY(ph_record_next_address(&word, &k, record, i));
            if (!word.base)
                break;
            t->foreign = t->foreign || word.foreign;
            PH_TRY(touch_word(t, &info, &word, may_write));
        }
        PH_TRY(info.body ? touch_record(t, info.body) : PH_OK);
    }
    return PH_OK;
}

/* ---- memory of other code's ---- which a record shows as numbers. Nodes that are nested in
 * others may do anything. */
enum {
    MANY_WORDS = 16,
    KERNELS = sizeof((ph__graphed_set *)0)->untyped / sizeof((ph__graphed_set *)0)->untyped[0]
};

typedef struct writers {
    bool any;
    bool untyped; /* all are kernels of whose parameters nobody told the types */
} writers;

static ph_status is_word_untyped(bool *out, const ph_record *record, size_t node, size_t word)
{
    ph_word found;
    PH_TRY(ph_record_word(&found, record, node, word));
    *out = found.name[0] == '+';
    return PH_OK;
}

/* Neighbours have mostly one kernel. */
static bool is_known_untyped(ph__graphed_set *set, const ph_node_info *info)
{
    for (size_t i = 0; i < KERNELS; i++) {
        const size_t at = (set->untyped_met + i) % KERNELS;
        if (info->args_size != set->untyped[at].args_size ||
            strcmp(info->name, set->untyped[at].name) != 0)
            continue;
        set->untyped_met = at;
        return true;
    }
    return false;
}

static void remember_untyped(ph__graphed_set *set, const ph_node_info *info)
{
    struct ph__untyped *to = &set->untyped[set->untyped_next];
    if (strlen(info->name) >= sizeof to->name)
        return;
    to->args_size = info->args_size;
    strcpy(to->name, info->name);
    set->untyped_met = set->untyped_next;
    set->untyped_next = (set->untyped_next + 1) % KERNELS;
}

/* All words of such a kernel have their offset for a name. Networks use few kernels of a vendor's
 * again and again, whose words are many: they are looked at once, and the first and last word each
 * time, as a program may give two kernels one name. */
static ph_status check_untyped(bool *out, ph__graphed_set *set, const ph_record *record,
                               const ph_node_info *info)
{
    const size_t count = info->word_count;
    *out = info->kind == PH_NODE_KERNEL;
    if (!*out)
        return PH_OK;
    const bool many = count > MANY_WORDS, known = many && is_known_untyped(set, info);
    for (size_t w = 0; *out && w < count; w += known && w == 0 ? count - 1 : 1)
        PH_TRY(is_word_untyped(out, record, info->index, w));
    if (*out && many && !known)
        remember_untyped(set, info);
    return PH_OK;
}

static ph_status find_writers(writers *out, const touching *t, const ph_record *record)
{
    ph_node_info info;
    *out = (writers){.untyped = true};
    for (size_t i = 0; out->untyped && i < ph_record_node_count(record); i++) {
        PH_TRY(ph_record_node(&info, record, i));
        if (!node_may_write(t, &info))
            continue;
        out->any = true;
        PH_TRY(check_untyped(&out->untyped, t->callable->set, record, &info));
    }
    return PH_OK;
}

static ph_status touch_foreign_words(const touching *t, const ph_record *record)
{
    ph_node_info info;
    ph_word word;
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        PH_TRY(ph_record_node(&info, record, i));
        const bool may_write = node_may_write(t, &info);
        for (size_t k = 0; may_write; k++) {
            PH_TRY(ph_record_next_address(&word, &k, record, i));
            if (!word.base)
                break;
            if (word.foreign && !word.internal)
                PH_TRY(touch_memory(t, word.value, word.base, word.allocation_bytes));
        }
    }
    return PH_OK;
}

/* Proved addresses, which nobody may know, are among the graph's inputs. */
static ph_status touch_foreign_inputs(const touching *t, ph_graph *graph, const ph_record *record)
{
    ph_input_info input;
    ph_node_info info;
    size_t count;
    PH_TRY(ph_graph_input_count(&count, graph));
    for (size_t i = 0; i < count; i++) {
        PH_TRY(ph_graph_input(&input, graph, i));
        if (input.node == PH_INPUT_DECLARED || (input.base && !input.foreign))
            continue;
        PH_TRY(ph_record_node(&info, record, input.node));
        if (node_may_write(t, &info) && is_written(&info, input.offset))
            PH_TRY(touch_memory(t, input.address, input.base, input.bytes));
    }
    return PH_OK;
}

static ph_status touch_foreign(const touching *t, ph_graph *graph)
{
    const ph_record *record;
    writers found;
    PH_TRY(ph_graph_record(&record, graph));
    PH_TRY(find_writers(&found, t, record));
    if (!found.any) /* the driver need not be asked about words */
        return PH_OK;
    if (!found.untyped)
        return touch_foreign_inputs(t, graph, record);
    return t->foreign ? touch_foreign_words(t, record) : PH_OK;
}

/* Of a graph with breaks the segments are looked at anew: their records are others. */
static ph_status touch_graph(touching *t)
{
    const ph_record *record;
    PH_TRY(ph_graph_record(&record, t->graph));
    PH_TRY(touch_record(t, record));
    t->foreign = t->foreign || ph_graph_segment_count(t->graph) > 1;
    for (size_t i = 0; i < ph_graph_segment_count(t->graph); i++) {
        ph_graph *segment;
        PH_TRY(ph_graph_segment(&segment, t->graph, i));
        PH_TRY(touch_foreign(t, segment));
    }
    return PH_OK;
}

/* ---- what is kept ---- */
static ph_status hold_sightings(ph__callable *callable, const ph__sightings *in, const char *call)
{
    ph__storages *held = callable->of ? &callable->of->held : &callable->held;
    if (!ph__vec_reserve(held, in->list.count))
        return ph__fail_host_memory(call, "what its graphs use");
    for (size_t i = 0; i < in->list.count; i++)
        held->at[held->count++] = ph__storage_retain(in->list.at[i].storage);
    return PH_OK;
}

static ph_status keep_outside_memory(ph__callable *callable, const ph__trial *real, bool backward,
                                     const char *call)
{
    const ph__sightings *in = &real->seen[backward];
    touching t = {.callable = callable,
                  .seen = in,
                  .graph = backward ? real->backward : real->forward,
                  .touched = backward ? &callable->backward.touched : &callable->forward.touched,
                  .call = call};
    PH_TRY(hold_sightings(callable, in, call));
    for (size_t i = 0; i < in->list.count; i++) {
        const ph__sighting *seen = &in->list.at[i];
        if (ph__sighting_has_changed(seen))
            PH_TRY(cover_touched(&t, (uintptr_t)seen->storage->data,
                                 (uintptr_t)seen->storage->data + seen->storage->bytes));
    }
    ph_status status = index_tensors(&t);
    if (status == PH_OK)
        status = touch_graph(&t);
    ph__vec_free(&t.tensors);
    return status;
}

ph_status ph__making_hold(ph__making *making, bool backward, const char *call)
{
    if (backward && !making->real.backward)
        return PH_OK;
    return keep_outside_memory(making->callable, &making->real, backward, call);
}
