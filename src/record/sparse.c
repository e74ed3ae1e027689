/* SPDX-License-Identifier: MIT */
/* record/sparse.c: words of kernels that other libraries loaded: those that may be addresses are
 * kept, the others made when they are asked for. */
#include "record/sparse.h"
#include "memory/observe/lookup.h"
#include "memory/pool/pool.h"
#include "record/record.h"
#include "record/words.h"
#include <string.h>

enum {
    WORD = 8
};

/* The word at the offset: all but the last, which may be shorter, can be an address. */
static ph__word_slot slot_at(size_t offset, size_t args_size)
{
    size_t left = args_size - offset;
    return (ph__word_slot){.class = left < WORD ? PH__CLASS_VALUE : PH__CLASS_UNTYPED,
                           .offset = offset,
                           .size = left < WORD ? left : WORD};
}

/* Names of made words are written nowhere: so each must have one that lasts. */
bool ph__words_are_sparse(bool loaded, size_t args_size)
{
    return !loaded && args_size > 0 && args_size <= PH__NAMED_OFFSETS;
}

size_t ph__words_of_sparse(size_t args_size)
{
    return (args_size + WORD - 1) / WORD;
}

/* Kernels that follow one another address the same memory, and each of them more than once. Blocks
 * of the allocator begin at multiples of 512: those bits that differ most, of any segment. */
static size_t recent_place(uint64_t value)
{
    return (size_t)(((value >> 9) * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - PH__RECENT_BITS));
}

static bool add_place(ph__found *found, size_t offset, uint64_t value)
{
    ph__recent_value *recent = &found->recent[recent_place(value)];
    if (recent->value != value) { /* none is 0 */
        const uint32_t word = (uint32_t)found->words.count;
        if (!ph__vec_push(&found->words, (ph_word){.value = value}))
            return false;
        *recent = (ph__recent_value){value, word};
    }
    return ph__vec_push(&found->places, ((ph__place){(uint32_t)offset, recent->word}));
}

static void look_up_values(ph__found *found, ph_word *words, size_t count, const ph_device *device,
                           const ph__own_memory *own)
{
    uintptr_t addresses[PH__FIND_MOST] = {0};
    ph_allocation at[PH__FIND_MOST];
    ph_pool_id pools[PH__FIND_MOST];
    for (size_t i = 0; i < count; i++)
        addresses[i] = (uintptr_t)words[i].value;
    if (own->past)
        ph__past_find(at, pools, own->past, addresses, count);
    else
        ph__memory_find_all(at, device, addresses, count);
    for (size_t i = 0; i < count; i++) {
        words[i].internal = ph__own_has(own, addresses[i]);
        if (at[i].base) {
            ph__word_lies_in(&words[i], &at[i]);
            words[i].pool = own->past ? pools[i] : ph__pool_id(at[i].pool);
        }
        words[i].kind = at[i].base || words[i].internal ? PH_WORD_SUSPECTED : PH_WORD_VALUE;
        found->numbers = found->numbers || words[i].kind == PH_WORD_VALUE;
    }
}

void ph__words_look_up(ph__found *found, const ph_device *device, const ph__own_memory *own)
{
    for (size_t i = 0; i < found->words.count; i += PH__FIND_MOST) {
        size_t left = found->words.count - i;
        look_up_values(found, &found->words.at[i], left < PH__FIND_MOST ? left : PH__FIND_MOST,
                       device, own);
    }
}

size_t ph__places_keep(ph__place *places, size_t count, const ph__found *found)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (found->words.at[places[i].word].kind != PH_WORD_VALUE)
            places[kept++] = places[i];
    return kept;
}

/* Where a word has to lie to be looked up, and what is around both. */
typedef struct window {
    uintptr_t device, device_bytes, pinned, pinned_bytes, lowest, bytes;
} window;

/* Memory of memory nodes may lie anywhere. */
static window window_of(const ph__own_memory *own)
{
    const ph__memory_bounds *bounds = &own->seen->bounds;
    if (ph__own_has_node_memory(own))
        return (window){1, UINTPTR_MAX, 0, 0, 1, UINTPTR_MAX}; /* all but NULL */
    window in = {bounds->device.lowest, bounds->device.highest - bounds->device.lowest,
                 bounds->pinned.lowest, bounds->pinned.highest - bounds->pinned.lowest,
                 bounds->device.lowest, bounds->device.highest - bounds->device.lowest};
    if (in.device_bytes == 0) {
        in.lowest = in.pinned;
        in.bytes = in.pinned_bytes;
    } else if (in.pinned_bytes > 0) {
        const uintptr_t end = in.device + in.device_bytes, other = in.pinned + in.pinned_bytes;
        in.lowest = in.device < in.pinned ? in.device : in.pinned;
        in.bytes = (end > other ? end : other) - in.lowest;
    }
    return in;
}

bool ph__words_find(ph__found *found, const ph__own_memory *own, const void *args, size_t args_size)
{
    const window in = window_of(own);
    for (size_t at = 0;; at += WORD) {
        uint64_t value;
        at = ph__next_value_within(args, at, args_size, in.lowest, in.bytes);
        if (at + WORD > args_size)
            return true;
        memcpy(&value, (const char *)args + at, sizeof value);
        if ((value - in.device < in.device_bytes || value - in.pinned < in.pinned_bytes) &&
            !add_place(found, at, value))
            return false;
    }
}

uint64_t ph__record_untyped_value(const ph__record_node *node, size_t w)
{
    uint64_t value = 0;
    size_t left = node->info.args_size - w * WORD;
    memcpy(&value, (const char *)node->info.args + w * WORD, left < WORD ? left : WORD);
    return value;
}

static const ph_word *put_word(ph_word *room, const ph__record_node *node, const ph_word *word,
                               size_t offset)
{
    const ph__word_slot slot = slot_at(offset, node->info.args_size);
    *room = word ? *word : (ph_word){.value = ph__record_untyped_value(node, offset / WORD)};
    room->offset = offset;
    room->name = ph__word_lasting_name(&slot);
    return room;
}

const ph_word *ph__record_kept(ph_word *room, const ph__record_node *node, size_t i)
{
    if (!node->places)
        return &node->kept[i];
    return put_word(room, node, &node->kept[node->places[i].word], node->places[i].offset);
}

/* The first place at the offset or behind it. */
static size_t find_place(const ph__record_node *node, size_t offset)
{
    size_t low = 0, high = node->kept_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (node->places[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t ph__record_next_kept(const ph__record_node *node, size_t w)
{
    if (!node->places || w >= node->info.word_count)
        return w;
    size_t i = find_place(node, w * WORD);
    return i < node->kept_count ? node->places[i].offset / WORD : node->info.word_count;
}

size_t ph__record_first_kept(const ph__record_node *node, size_t w)
{
    return find_place(node, w * WORD);
}

size_t ph__record_next_within(const ph__record_node *node, size_t w, uint64_t lowest,
                              uint64_t highest)
{
    if (!node->places || w >= node->info.word_count)
        return w;
    const size_t kept = ph__record_next_kept(node, w), whole = node->info.args_size / WORD;
    const size_t end = kept < whole ? kept : whole;
    size_t at = w < end ? ph__next_value_within(node->info.args, w * WORD, end * WORD, lowest,
                                                highest - lowest)
                        : end * WORD;
    return at < end * WORD ? at / WORD : kept;
}

const ph_word *ph__record_later_word(ph_word *room, const ph__record_node *node, size_t w,
                                     size_t *place)
{
    const size_t offset = w * WORD;
    if (!node->places)
        return &node->kept[w];
    while (*place < node->kept_count && node->places[*place].offset < offset)
        ++*place;
    const bool kept = *place < node->kept_count && node->places[*place].offset == offset;
    return put_word(room, node, kept ? &node->kept[node->places[*place].word] : NULL, offset);
}

const ph_word *ph__record_word(ph_word *room, const ph__record_node *node, size_t w)
{
    if (!node->places)
        return &node->kept[w];
    size_t offset = w * WORD, i = find_place(node, offset);
    if (i < node->kept_count && node->places[i].offset == offset)
        return ph__record_kept(room, node, i);
    return put_word(room, node, NULL, offset);
}
