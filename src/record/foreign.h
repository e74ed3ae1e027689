/* SPDX-License-Identifier: MIT */
/* record/foreign.h: memory of other code's that the words of a record address. */
#ifndef PH_RECORD_FOREIGN_H
#define PH_RECORD_FOREIGN_H
#include "record/record.h"

/* Memory of other code's, as the driver described it. Of a record and its bodies together. */
typedef struct ph__foreign_memory {
    uint64_t id; /* the driver's: tells it from later memory there */
    bool pinned;
} ph__foreign_memory;
typedef struct ph__record_foreign {
    const ph_record *owner;
    ph__ranges ranges; /* values are 1 + the index */
    PH__VEC(ph__foreign_memory) list;
    bool complete;
} ph__record_foreign;

/* find: asks the driver, once, what memory of other code's the words
 * address. A driver that does not answer (a lost device) is no failure: then the rest is not
 * known. look: as ph__record_word, with such memory. drop: not of bodies. */
ph_status ph__record_find_foreign(ph_record *record, ph_device *device, const char *call);
/* Whether a word that is surely an address may be one of other code's memory: without asking. Of
 * bodies it tells nothing. */
bool ph__record_may_prove_foreign(const ph_record *record, const ph_device *device);
const ph_word *ph__record_look_up_foreign(ph_word *room, const ph_record *record,
                                          const ph__record_node *node, size_t w);
/* The first word from *w on that has a base; NULL: there is none, and *w is word_count. */
const ph_word *ph__record_next_address(ph_word *room, const ph_record *record,
                                       const ph__record_node *node, size_t *w);
void ph__record_drop_foreign(ph_record *record);
#endif
