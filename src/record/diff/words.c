/* SPDX-License-Identifier: MIT */
/* record/diff/words.c: parameters of two nodes, word by word: values as they are, addresses as
 * places in allocations that correspond. */
#include "record/diff/words.h"
#include "base/text.h"
#include "record/diff/diff.h"
#include "record/foreign.h"
#include <inttypes.h>

enum {
    BLOCK = 512 /* blocks of the allocator begin at multiples of it */
};

/* Identifies the memory that a word addresses: its allocation; where that was freed in the capture,
 * the beginning of its own or of a later part of it; where none is known, the address itself. */
static uint64_t memory_of(const ph_word *word)
{
    if (word->base)
        return (uint64_t)(uintptr_t)word->base;
    return word->internal ? word->value / BLOCK * BLOCK : word->value;
}

static bool is_address(const ph_word *word)
{
    return word->kind != PH_WORD_VALUE;
}

/* Whether the memory of one stands for that of the other; what has none yet gets it. */
static bool memory_corresponds(ph__differ *d, uint64_t mine, uint64_t theirs)
{
    uint64_t there = (uint64_t)(uintptr_t)ph__map_get(&d->there, mine),
             back = (uint64_t)(uintptr_t)ph__map_get(&d->back, theirs);
    if (there || back)
        return there == theirs && back == mine;
    d->failed = !ph__map_put(&d->there, mine, (void *)(uintptr_t)theirs) ||
                !ph__map_put(&d->back, theirs, (void *)(uintptr_t)mine);
    return true;
}

static bool same_address(ph__differ *d, const ph_word *a, const ph_word *b)
{
    if (a->value == 0 || b->value == 0)
        return a->value == b->value;
    /* Older files do not have such memory. */
    if ((a->foreign && b->base == NULL) || (b->foreign && a->base == NULL))
        return a->value == b->value;
    if ((a->base == NULL) != (b->base == NULL) || a->pinned != b->pinned ||
        a->internal != b->internal || a->foreign != b->foreign)
        return false;
    uint64_t mine = memory_of(a), theirs = memory_of(b);
    return a->value - mine == b->value - theirs && mine && theirs &&
           memory_corresponds(d, mine, theirs);
}

/* A number may happen to look like an address on one side. */
static bool same_word(ph__differ *d, const ph_word *a, const ph_word *b)
{
    if (is_address(a) && is_address(b))
        return same_address(d, a, b);
    return a->value == b->value;
}

static void put_number(ph__text *text, uint64_t value)
{
    if (value < UINT64_C(1) << 32)
        ph__text_format(text, "%" PRIu64, value);
    else
        ph__text_format(text, "0x%" PRIx64, value);
}

static void put_word(ph__text *text, const ph_word *word)
{
    if (!is_address(word)) {
        put_number(text, word->value);
    } else if (word->value == 0) {
        ph__text_add(text, "NULL");
    } else if (word->base == NULL) {
        ph__text_format(text, "0x%" PRIx64 "%s", word->value,
                        word->internal ? " (the capture's own memory)" : "");
    } else {
        ph__text_format(text, "%zu-byte %s%s%sallocation +%" PRIu64, word->allocation_bytes,
                        word->internal ? "internal " : "", word->foreign ? "foreign " : "",
                        word->pinned ? "pinned " : "",
                        word->value - (uint64_t)(uintptr_t)word->base);
    }
}

/* Two allocations that look alike are told apart by what they are called in each capture. */
static void put_which(ph__text *text, const ph_word *word, const ph_word *other)
{
    bool alike = is_address(word) && is_address(other) && word->base && other->base &&
                 word->allocation_bytes == other->allocation_bytes &&
                 word->internal == other->internal && word->foreign == other->foreign &&
                 word->pinned == other->pinned &&
                 word->value - (uintptr_t)word->base == other->value - (uintptr_t)other->base;
    put_word(text, word);
    if (alike)
        ph__text_format(text, " (at 0x%" PRIx64 ")", word->value);
}

static void report_word(ph__differ *d, const ph__diff_level *level, size_t i, size_t j,
                        const ph_word *a, const ph_word *b)
{
    bool address = is_address(a) || is_address(b);
    ph__change_begin(d, level, address ? PH_CHANGE_ADDRESS : PH_CHANGE_VALUE, i, j, NULL);
    ph__text_add(&d->text, " ");
    ph__put_name(&d->text, a->name, 64);
    ph__text_add(&d->text, ": ");
    put_which(&d->text, a, b);
    ph__text_add(&d->text, " -> ");
    put_which(&d->text, b, a);
    ph__change_end(d);
}

/* Reports words of one node at an offset where the other has none. */
static void report_unmatched_word(ph__differ *d, const ph__diff_level *level, size_t i, size_t j,
                                  const ph_word *word, bool is_mine)
{
    ph__change_begin(d, level, is_address(word) ? PH_CHANGE_ADDRESS : PH_CHANGE_VALUE, i, j, NULL);
    ph__text_add(&d->text, " ");
    ph__put_name(&d->text, word->name, 64);
    ph__text_add(&d->text, is_mine ? ": " : ": none -> ");
    put_word(&d->text, word);
    ph__text_add(&d->text, is_mine ? " -> none" : "");
    ph__change_end(d);
}

/* Both have theirs by ascending offset. */
void ph__diff_words(ph__differ *d, const ph__diff_level *level, size_t i, size_t j)
{
    const ph__record_node *a = &level->a->nodes[i], *b = &level->b->nodes[j];
    size_t m = 0, t = 0;
    while (m < a->info.word_count || t < b->info.word_count) {
        ph_word rooms[2];
        const ph_word *mine = m < a->info.word_count
                                  ? ph__record_look_up_foreign(&rooms[0], level->a, a, m)
                                  : NULL,
                      *theirs = t < b->info.word_count
                                    ? ph__record_look_up_foreign(&rooms[1], level->b, b, t)
                                    : NULL;
        if (theirs == NULL || (mine && mine->offset < theirs->offset)) {
            report_unmatched_word(d, level, i, j, mine, true);
            m++;
        } else if (mine == NULL || theirs->offset < mine->offset) {
            report_unmatched_word(d, level, i, j, theirs, false);
            t++;
        } else {
            if (!same_word(d, mine, theirs))
                report_word(d, level, i, j, mine, theirs);
            m++;
            t++;
        }
    }
}
