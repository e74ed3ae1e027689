/* SPDX-License-Identifier: MIT */
/* record/diff/diff.h: the comparison of two records. phonograph/inspect/diff.h is the public
 * part. */
#ifndef PH_RECORD_DIFF_DIFF_H
#define PH_RECORD_DIFF_DIFF_H
#include "base/map.h"
#include "base/text.h"
#include "record/record.h"
#include <phonograph/inspect/diff.h>

/* An update of a's executable that was refused, by the driver or before it was asked. */
typedef struct ph__refusal {
    ph_update_reason reason;
    size_t node, from_node; /* SIZE_MAX: no single one */
    const char *message;
} ph__refusal;

/* As ph_record_diff; refusal NULL: none is known of, and what blocks an update is told by the
 * rules. With one, a change that blocks is in it for certain. */
ph_status ph__record_compare(ph_diff **out, const ph_record *a, const ph_record *b,
                             const ph__refusal *refusal, const char *call);
const ph_change *ph__diff_first_block(const ph_diff *diff); /* NULL: none blocks, or diff is NULL */
size_t ph__diff_steps(const ph_diff *diff);                 /* of the alignments; for tests */

/* Where the records that are compared lie: the pair of graph nodes that they are the bodies of;
 * NULL: the outermost. */
typedef struct ph__diff_place {
    const struct ph__diff_place *outer;
    size_t a, b;
} ph__diff_place;

/* Two records, one level of bodies at a time. */
typedef struct ph__diff_level {
    const ph_record *a, *b;
    size_t *there, *back;
    const ph__diff_place *place;
    bool fits; /* a difference here blocks no update */
} ph__diff_level;

/* Texts lie one behind the other, each ended by a zero; until all are there, a change's is the
 * offset of its own. */
typedef struct ph__diff_change {
    ph_change change;
    size_t text_at;
} ph__diff_change;

typedef PH__VEC(size_t) ph__numbers;

typedef struct ph__differ {
    ph__text text;
    PH__VEC(ph__diff_change) changes;
    ph__map there, back;             /* allocations of a to those of b, and the inverse */
    ph__numbers stack, mine, theirs; /* of edges.c */
    size_t steps;
    bool failed; /* no host memory: what follows does nothing */
} ph__differ;

/* Begins a change of node i of the level's a and node j of its b (SIZE_MAX:
 * none), with the place and the node in its text; the caller adds what differs and calls end.
 * rule NULL: it blocks no update. */
void ph__change_begin(ph__differ *d, const ph__diff_level *level, ph_change_kind kind, size_t i,
                      size_t j, const char *rule);
void ph__change_end(ph__differ *d);
/* Of a name, what fits a line and cannot steer a terminal. */
void ph__put_name(ph__text *text, const char *name, size_t most);

/* Writes why a node of one record alone is there, where the library added it for an option of the
 * capture; NULL: no such reason. */
void ph__put_probe(ph__text *text, const ph__record_node *mine, const ph__record_node *theirs);

#endif
