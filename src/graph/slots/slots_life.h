/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_life.h: slots and the changes of their graph's executable. */
#ifndef PH_GRAPH_SLOTS_SLOTS_LIFE_H
#define PH_GRAPH_SLOTS_SLOTS_LIFE_H
#include "graph/slots/slots.h"

/* STATE, where a slot has places in the node. */
ph_status ph__slots_refuse_set(const ph_graph *graph, size_t node, const char *call);
/* The executable has what the record, the graph's own or another one's, says. */
void ph__slots_renew(ph_graph *graph, const ph_record *record);
/* Whether the slots' places are the same in the record, or why not. */
bool ph__slots_fit(const ph_graph *graph, const ph_record *record, char *why, size_t size);
/* Of a word that the graph's inputs were made of: whether a slot has since set it. */
bool ph__slots_have(const ph_graph *graph, size_t node, size_t offset);
/* A kernel's arguments with the slots' values; NULL: no slot has places in the node. */
const void *ph__slots_args(const ph_graph *graph, size_t node);
/* The word is a place of an address slot. */
bool ph__slots_prove(const ph_graph *graph, size_t node, size_t offset);
/* Gives the input the slot's address, where one has set it. */
void ph__slots_move(const ph_graph *graph, ph__input *input);
/* The slots' own addresses: `dead` is called with each in memory that is gone. */
typedef void ph__slots_dead(void *user, const ph__input *input);
void ph__slots_report_dead(ph_graph *graph, ph__slots_dead *dead, void *user);
size_t ph__slots_bytes(const ph_graph *graph);

/* The drafts take the place of all slots that there are, and have all their places: the executable
 * gets the values of its nodes at the next replay. On failure all is as before. */
ph_status ph__slots_replace(ph_graph *graph, ph__slot_draft *drafts, size_t count,
                            const char *call);
#endif
