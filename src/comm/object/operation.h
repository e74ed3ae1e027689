/* SPDX-License-Identifier: MIT */
/* comm/object/operation.h: one step that all ranks take together, as they tell it each other. */
#ifndef PH_COMM_OBJECT_OPERATION_H
#define PH_COMM_OBJECT_OPERATION_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ph__operation_kind {
    PH__OPERATION_CREATE = 1,
    PH__OPERATION_BARRIER = 2
} ph__operation_kind;

/* The same bytes on every rank, but for scope. Ranks send it to each other. */
typedef struct ph__operation {
    uint64_t sequence; /* of its channel, from 1 */
    uint32_t kind;
    uint32_t reserved;
    char scope[64]; /* the annotation scope that the rank is in, for messages; "" for none */
} ph__operation;

bool ph__operation_same(const ph__operation *a, const ph__operation *b);
/* "a barrier", cut where there is no room. Returns text. */
const char *ph__operation_text(char *text, size_t size, const ph__operation *operation);
/* The innermost open scope of the calling thread. */
void ph__operation_note_scope(ph__operation *operation);
#endif
