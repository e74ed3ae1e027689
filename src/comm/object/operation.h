/* SPDX-License-Identifier: MIT */
/* comm/object/operation.h: one step that all ranks take together, as they tell it each other. */
#ifndef PH_COMM_OBJECT_OPERATION_H
#define PH_COMM_OBJECT_OPERATION_H
#include <phonograph/collectives.h>

typedef enum ph__operation_kind {
    PH__OPERATION_CREATE = 0,
    PH__OPERATION_BARRIER,
    PH__OPERATION_FIRST_REPLAY, /* of a graph: the ranks compare it */
    PH__OPERATION_REPLAY,       /* of a graph that all have agreed to */
    PH__OPERATION_ALL_REDUCE,
    PH__OPERATION_BROADCAST,
    PH__OPERATION_ALL_GATHER,
    PH__OPERATION_REDUCE_SCATTER,
    PH__OPERATION_SEND,
    PH__OPERATION_RECEIVE,
    PH__OPERATION_GROUP_END, /* waits for the sends and receives of a group */
    PH__OPERATION_REGISTER,  /* of memory; no rank waits for another */
    PH__OPERATIONS
} ph__operation_kind;

/* The same bytes on every rank, but for scope. Ranks send it to each other. */
typedef struct ph__operation {
    uint64_t sequence; /* of its channel, from 1 */
    uint64_t graph;    /* the fingerprint of the graph that it is of; 0: none */
    uint64_t count;    /* elements */
    uint32_t index;    /* its number among the collectives of the graph, from 0 */
    uint32_t kind;
    uint32_t dtype, op; /* 0 where there is none */
    uint32_t peer;      /* broadcast: root; send: to; receive: from */
    uint32_t reserved;
    char scope[64]; /* the annotation scope that the rank was in, for messages; "" for none */
} ph__operation;

bool ph__operation_same(const ph__operation *a, const ph__operation *b);
/* "all_reduce of 100 f32 (sum), 3 of a graph, in "backward"", cut where there is no room. Returns
 * text. */
const char *ph__operation_text(char *text, size_t size, const ph__operation *operation);
/* The innermost open scope of the calling thread. */
void ph__operation_note_scope(ph__operation *operation);
const char *ph__operation_name(ph__operation_kind kind);
#endif
