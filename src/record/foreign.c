/* SPDX-License-Identifier: MIT */
/* record/foreign.c: memory of other code's that words of a record address. The driver knows it, and
 * is asked when the record is first handed out, so that captures do not wait for it. */
#include "record/foreign.h"
#include "base/alloc.h"
#include "device/handles/device.h"
#include "memory/observe/lookup.h"
#include "record/record.h"
#include "record/sparse.h"
#include <string.h>

/* The facts that one walk has found. */
typedef struct asker {
    ph__record_foreign *to;
    ph_device *device;
    ph__map unknown; /* values that the driver does not know */
    uint64_t last;   /* the value that was asked for last: nodes of one kind share many; 0: none */
    bool lost;       /* the driver does not answer any more */
} asker;

/* A whole word that no declared parameter covers. */
static bool is_untyped(const ph_word *word, const ph__record_node *node)
{
    return word->name[0] == '+' && node->info.kind == PH_NODE_KERNEL &&
           word->offset + sizeof(uint64_t) <= node->info.args_size;
}

static bool asks_driver(const ph_word *word, const ph__record_node *node)
{
    return word->base == NULL && !word->internal && ph__may_be_address(word->value) &&
           (word->kind == PH_WORD_PROVED || is_untyped(word, node));
}

static bool add_range(ph__record_foreign *to, const ph__drv_pointer *where)
{
    const ph__range *there = ph__ranges_from(&to->ranges, where->base);
    if (where->size == 0 || (there && there->base < where->base + where->size))
        return true;
    ph__foreign_memory memory = {where->buffer_id, where->kind == PH__MEMORY_PINNED};
    return ph__vec_push(&to->list, memory) &&
           ph__ranges_add(&to->ranges, where->base, where->size, (void *)(uintptr_t)to->list.count);
}

/* False: no host memory. */
static bool ask_driver(asker *a, uint64_t value)
{
    ph__drv_pointer where = {0};
    const void *address = (const void *)(uintptr_t)value;
    if (value == a->last)
        return true;
    a->last = value;
    if (a->lost || ph__ranges_find(&a->to->ranges, (uintptr_t)value) ||
        (a->unknown.count && ph__map_get(&a->unknown, value)))
        return true;
    if (!ph__memory_is_reserved(a->device, address)) {
        int result = a->device->driver->pointer_info(&where, a->device->handle, address);
        a->lost = result != PH__R_OK;
        if (a->lost)
            return true;
    }
    return where.kind == PH__MEMORY_PAGEABLE ? ph__map_put(&a->unknown, value, a)
                                             : add_range(a->to, &where);
}

/* Of a sparse node what is kept has memory of ours. */
static bool look_up_sparse(asker *a, const ph__record_node *node)
{
    enum {
        WORD = sizeof(uint64_t)
    };
    const char *args = node->info.args;
    const size_t end = node->info.args_size;
    size_t place = 0;
    for (size_t at = 0;; at += WORD) {
        uint64_t value;
        at = ph__next_value_within(args, at, end, PH__ADDRESS_FIRST,
                                   PH__ADDRESS_END - PH__ADDRESS_FIRST);
        if (at + WORD > end)
            return true;
        while (place < node->kept_count && node->places[place].offset < at)
            place++;
        if (place < node->kept_count && node->places[place].offset == at)
            continue;
        memcpy(&value, args + at, sizeof value);
        if (!ask_driver(a, value))
            return false;
    }
}

static bool look_up_typed(asker *a, const ph__record_node *node)
{
    for (size_t w = 0; w < node->kept_count; w++)
        if (asks_driver(&node->kept[w], node) && !ask_driver(a, node->kept[w].value))
            return false;
    return true;
}

/* Most words of a vendor's kernel are small numbers. */
static inline size_t next_address(const ph__record_node *node, size_t w)
{
    return ph__record_next_within(node, w, PH__ADDRESS_FIRST, PH__ADDRESS_END);
}

static bool look_up_words(asker *a, ph_record *record)
{
    record->foreign = a->to;
    for (size_t n = 0; n < record->node_count; n++) {
        const ph__record_node *node = &record->nodes[n];
        if (!(node->places ? look_up_sparse(a, node) : look_up_typed(a, node)))
            return false;
        if (node->info.body && !look_up_words(a, (ph_record *)(uintptr_t)node->info.body))
            return false;
    }
    return true;
}

ph_status ph__record_find_foreign(ph_record *record, ph_device *device, const char *call)
{
    if (record->foreign && record->foreign->complete)
        return PH_OK;
    ph__record_foreign *to = record->foreign ? record->foreign : ph__calloc(1, sizeof *to);
    if (to == NULL)
        return ph__fail_host_memory(call, "the memory that the record addresses");
    asker a = {.to = to, .device = device};
    to->owner = record;
    to->complete = look_up_words(&a, record);
    ph__map_free(&a.unknown);
    return to->complete ? PH_OK
                        : ph__fail_host_memory(call, "the memory that the record addresses");
}

bool ph__record_may_prove_foreign(const ph_record *record, const ph_device *device)
{
    for (size_t n = 0; n < record->node_count; n++) {
        const ph__record_node *node = &record->nodes[n];
        for (size_t w = 0; !node->places && w < node->kept_count; w++) {
            const ph_word *word = &node->kept[w];
            if (word->kind == PH_WORD_PROVED && asks_driver(word, node) &&
                !ph__memory_is_reserved(device, (const void *)(uintptr_t)word->value))
                return true;
        }
    }
    return false;
}

void ph__record_drop_foreign(ph_record *record)
{
    ph__record_foreign *foreign = record->foreign;
    record->foreign = NULL;
    if (foreign == NULL || foreign->owner != record)
        return;
    ph__ranges_free(&foreign->ranges);
    ph__vec_free(&foreign->list);
    ph__free(foreign);
}

const ph_word *ph__record_look_up_foreign(ph_word *room, const ph_record *record,
                                          const ph__record_node *node, size_t w)
{
    const ph_word *word = ph__record_word(room, node, w);
    if (record->foreign == NULL || record->foreign->list.count == 0 || !asks_driver(word, node))
        return word;
    const ph__range *range = ph__ranges_find(&record->foreign->ranges, (uintptr_t)word->value);
    if (range == NULL)
        return word;
    const ph__foreign_memory *memory = &record->foreign->list.at[(uintptr_t)range->value - 1];
    if (word != room)
        *room = *word;
    if (room->kind == PH_WORD_VALUE)
        room->kind = PH_WORD_SUSPECTED;
    room->base = (const void *)range->base;
    room->allocation_bytes = range->size;
    room->generation = memory->id;
    room->pinned = memory->pinned;
    room->foreign = true;
    return room;
}

/* Words that are kept may have a base of ours; others are somebody else's memory, or nothing. */
static const ph_word *next_kept_address(ph_word *room, const ph__record_node *node, size_t *w)
{
    if (!node->places) {
        for (; *w < node->kept_count; ++*w)
            if (node->kept[*w].base)
                return &node->kept[*w];
        return NULL;
    }
    for (size_t i = ph__record_first_kept(node, *w); i < node->kept_count; i++)
        if (node->kept[node->places[i].word].base) {
            *w = ph__record_kept_at(node, i);
            return ph__record_kept(room, node, i);
        }
    *w = node->info.word_count;
    return NULL;
}

const ph_word *ph__record_next_address(ph_word *room, const ph_record *record,
                                       const ph__record_node *node, size_t *w)
{
    if (!record->foreign || record->foreign->list.count == 0)
        return next_kept_address(room, node, w);
    for (;; ++*w) {
        *w = next_address(node, *w);
        if (*w >= node->info.word_count)
            return NULL;
        const ph_word *word = ph__record_look_up_foreign(room, record, node, *w);
        if (word->base)
            return word;
    }
}
