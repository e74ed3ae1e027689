/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_same.h: what two captures of one work have in common. */
#ifndef PH_GRAPH_SLOTS_SLOTS_SAME_H
#define PH_GRAPH_SLOTS_SLOTS_SAME_H
#include "graph/slots/slots.h"

/* *why: what two captures of one work have otherwise in a node, or what
 * nobody can see of it; NULL: nothing but, perhaps, words of its parameters. */
ph_status ph__slot_other_in(const char **why, const ph_graph *graph, const ph__record_node *mine,
                            const ph__record_node *theirs, const char *call);

/* The word's address lies in memory that the graph's capture was given. */
bool ph__slot_is_captures(const ph_graph *graph, const ph_word *word);
/* True also for memory that an earlier capture left in the graph's pool: activations that a
 * backward pass reads. */
bool ph__slot_is_pools(const ph_graph *graph, const ph_word *word);
/* Two such words, of two captures, are as far into their allocations: else the distance was
 * computed of what differs between the captures. Of memory that is free by the capture's end,
 * only that it began at a multiple of so many bytes is known. */
enum {
    PH__SLOT_BLOCKS = 512
};
bool ph__slot_is_same_place(const ph_word *mine, const ph_word *theirs);
/* The number of the first 8-byte word from w on that is another one in b, or has a value from
 * `lowest` on, in `span`; behind the last whole word: there is none. */
size_t ph__slot_next_other(const void *a, const void *b, size_t bytes, size_t w, uint64_t lowest,
                           uint64_t span);

/* Goes on through the words of a launch, to word w: few are looked at. False: it has fewer. */
typedef struct ph__slot_walk {
    ph__words words;
    size_t count; /* of the words behind it */
} ph__slot_walk;
bool ph__slot_walk_to(ph__slot_walk *walk, size_t w, ph__word_slot *slot);
#endif
