/* SPDX-License-Identifier: MIT */
/* cache/learned.h: what of a key's graph follows which pointer and which value. */
#ifndef PH_CACHE_LEARNED_H
#define PH_CACHE_LEARNED_H
#include "base/vec.h"
#include <phonograph/graph_cache.h>
#include <phonograph/slots.h>

/* Pointers that moved by equal distances in each capture so far; what follows one follows all. */
typedef struct ph__moved_group {
    uint32_t begin, end; /* in ph__learned.members; the first one stands for all */
    uint64_t touched;    /* by the look of that number */
    size_t words;
    size_t slot; /* PH_SLOT_NONE: no words */
} ph__moved_group;

typedef struct ph__moved_word {
    size_t node, offset;
    uint32_t group;
} ph__moved_word;

/* Bytes of a kernel's parameters that hold a value; candidates: the values, as bits, that had these
 * bytes in each capture. */
typedef struct ph__value_place {
    size_t node, offset, bytes;
    uint64_t candidates;
} ph__value_place;

/* All places with the same candidates. */
typedef struct ph__value_slot {
    uint64_t candidates;
    size_t slot;
    uint64_t touched;
} ph__value_slot;

typedef PH__VEC(ph__moved_group) ph__moved_groups;
typedef PH__VEC(ph__moved_word) ph__moved_words;
typedef PH__VEC(ph__value_place) ph__value_places;
typedef PH__VEC(ph__value_slot) ph__value_slots;

/* The graph's words are those of its capture, `first` the pointers of that call. Group 0 has the
 * pointers that no capture has moved. */
typedef struct ph__learned {
    /* The members that every look reads stand together. */
    size_t pointer_count, value_count;
    /* pointers that some capture has moved, ascending, and those of them that differ from
     * `current`; room for all */
    size_t mover_count, moved_count;
    PH__VEC(ph_slot_value) due; /* values that a replay has to set; room for all slots */
    uint64_t matches;
    bool all_due; /* slots were made anew */
    bool differs; /* the last look's call, from what the executable has */
    uint32_t *movers, *moved;
    const void **first, **current; /* current: what the executable has */
    unsigned char *first_values, *current_values;
    PH__VEC(uint32_t) touched; /* groups; room for all */
    uint16_t *bits;            /* the bits below 4096 that some capture has changed */
    uint32_t *group;           /* of each pointer */
    uint32_t *members;         /* pointers by group */
    ph__moved_groups groups;
    size_t value_bytes;
    unsigned char *varied_bytes;    /* of values: not 0 where some capture has changed the byte */
    unsigned *low_zeros;            /* of each value: its low bits that were 0 in all captures */
    size_t *value_at, *value_sizes; /* of each value, in the three arrays of values */
    uint64_t varied;                /* the values that some capture has changed */
    ph__moved_words words;          /* by node and offset, as places */
    ph__value_places places;
    ph__value_slots value_slots;
} ph__learned;

/* With the pointers and values of the captured call; NULL: no host memory. */
ph__learned *ph__learned_create(const ph_graph_cache_call *call);
void ph__learned_destroy(ph__learned *learned);

/* The low bits of a number of 1, 2, 4 or 8 bytes that are 0; of other values 0. */
unsigned ph__learned_low_zeros(const ph_graph_cache_value *value);

/* Whether the captured call had these pointers and values. */
bool ph__learned_is_first(const ph__learned *learned, const ph_graph_cache_call *call);
/* Fills `due` with what the call needs, which may be nothing. False: the captures so far do not
 * tell; the reason says what. */
bool ph__learned_match(ph__learned *learned, const ph_graph_cache_call *call, char *reason,
                       size_t size);
/* The executable has the call's pointers and values. */
void ph__learned_was_set(ph__learned *learned, const ph_graph_cache_call *call);
#endif
