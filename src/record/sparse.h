/* SPDX-License-Identifier: MIT */
/* record/sparse.h: the words of a node, and those of kernels that other libraries loaded. */
#ifndef PH_RECORD_SPARSE_H
#define PH_RECORD_SPARSE_H
#include "record/record.h"
#include "record/words.h"
#include <string.h>

/* Small numbers, pairs of them, reals and texts fill the parameters of other code's kernels; an
 * address is none of the first 64 KiB, and has at most 49 bits. */
#define PH__ADDRESS_FIRST UINT64_C(0x10000)
#define PH__ADDRESS_END   (UINT64_C(1) << 49)
static inline bool ph__may_be_address(uint64_t value)
{
    return value - PH__ADDRESS_FIRST < PH__ADDRESS_END - PH__ADDRESS_FIRST;
}

static inline uint64_t ph__word_at(const void *args, size_t offset)
{
    uint64_t value;
    memcpy(&value, (const char *)args + offset, sizeof value);
    return value;
}

/* The first of the aligned words from the offset on, before `end`, with lowest <= value < lowest +
 * span; the offset of what is left where there is none. Four at a time: kernels of vendor libraries
 * have hundreds of words, nearly all of them small numbers, and each is looked at several times. */
static inline size_t ph__next_value_within(const void *args, size_t offset, size_t end,
                                           uint64_t lowest, uint64_t span)
{
    for (; offset + 32 <= end; offset += 32) {
        const uint64_t a = ph__word_at(args, offset), b = ph__word_at(args, offset + 8),
                       c = ph__word_at(args, offset + 16), d = ph__word_at(args, offset + 24);
        if ((a | b | c | d) >= lowest && /* else each is below */
            ((a - lowest < span) | (b - lowest < span) | (c - lowest < span) | (d - lowest < span)))
            break;
    }
    while (offset + 8 <= end && ph__word_at(args, offset) - lowest >= span)
        offset += 8;
    return offset;
}

/* ---- the words of a node ---- Kernels of vendor libraries have some hundred words each, of
 * which few are addresses, and those of few values. So of a kernel that this library did not
 * load the record keeps those words alone that may be one (kind is not PH_WORD_VALUE); the
 * others are made of the parameters when they are asked for. */
typedef struct ph__place {
    uint32_t offset, word; /* which of the kept words stands there, but for its offset and name */
} ph__place;
/* Word w of the node, w < info.word_count; word i of those that are kept, i < kept_count: for
 * who looks for addresses. In *room where none is kept as it is; borrowed for as long as both. */
const ph_word *ph__record_word(ph_word *room, const ph__record_node *node, size_t w);
const ph_word *ph__record_kept(ph_word *room, const ph__record_node *node, size_t i);
/* Word w for who asks for ascending ones: *place, 0 at first, is where the next search begins. */
const ph_word *ph__record_later_word(ph_word *room, const ph__record_node *node, size_t w,
                                     size_t *place);
/* The number of the first word that is kept, from w on; word_count: there is none. first_kept,
 * of a sparse node: the same, as which of those that are kept; kept_count: there is none. kept_at:
 * the number of word i of those. */
size_t ph__record_next_kept(const ph__record_node *node, size_t w);
size_t ph__record_first_kept(const ph__record_node *node, size_t w);
static inline size_t ph__record_kept_at(const ph__record_node *node, size_t i)
{
    return node->places ? node->places[i].offset / sizeof(uint64_t) : i;
}
/* The first word from w on that is kept, or has a value from `lowest` on, below `highest`, in all
 * of its 8 bytes; word_count: there is none. Of nodes that are not sparse: w. */
size_t ph__record_next_within(const ph__record_node *node, size_t w, uint64_t lowest,
                              uint64_t highest);
/* Word i of those that are kept, as it is: of a sparse node's the offset and the name are nobody's,
 * and of memory of other code's nothing is told. */
static inline const ph_word *ph__record_kept_word(const ph__record_node *node, size_t i)
{
    return &node->kept[node->places ? node->places[i].word : i];
}
/* Its value alone, of a kernel that this library did not load. */
uint64_t ph__record_untyped_value(const ph__record_node *node, size_t w);

/* ---- sparse nodes, while a record is built ---- */
enum {
    PH__RECENT_BITS = 6
};
typedef struct ph__recent_value {
    uint64_t value;
    uint32_t word;
} ph__recent_value;
typedef struct ph__found {
    PH__VEC(ph__place) places; /* of all nodes, one after another */
    PH__VEC(ph_word) words;
    bool numbers; /* some of the words turned out to be no addresses */
    /* Values that may be addresses, and which words they are: of those that have one place here
     * the last. A value that was put out of its place is found anew, as another word. */
    ph__recent_value recent[(size_t)1 << PH__RECENT_BITS];
} ph__found;
/* Whether a kernel with so many bytes of parameters is sparse: loaded tells whether this library
 * loaded it. */
bool ph__words_are_sparse(bool loaded, size_t args_size);
size_t ph__words_of_sparse(size_t args_size);
/* Adds what may be addresses among the words of a sparse kernel; own->seen must be there. False:
 * no memory. */
bool ph__words_find(ph__found *found, const ph__own_memory *own, const void *args,
                    size_t args_size);
/* When all have been added: what memory they address. Those that address none stay
 * PH_WORD_VALUE. */
void ph__words_look_up(ph__found *found, const ph_device *device, const ph__own_memory *own);
/* Leaves out of `count` places those of such words; how many stay. */
size_t ph__places_keep(ph__place *places, size_t count, const ph__found *found);
#endif
