/* SPDX-License-Identifier: MIT */
/* inspect/races/accesses.h: the memory that the nodes of a graph use. */
#ifndef PH_INSPECT_RACES_ACCESSES_H
#define PH_INSPECT_RACES_ACCESSES_H
#include "inspect/races/blocks.h"
#include "inspect/races/flat.h"
#include <phonograph/kernel.h>

/* A node uses the bytes [begin, end), each of them where it is declared. */
typedef struct ph__access {
    uint64_t begin, end;
    uint64_t base, block_bytes; /* the allocation; 0: not known */
    uint64_t address;           /* the value of the word */
    uint32_t node;              /* in the list of nodes */
    uint32_t word;              /* of its record's node */
    ph_access_kind kind;
    bool writes, declared; /* writes: may write where it is not declared */
} ph__access;
typedef PH__VEC(ph__access) ph__accesses;

/* By ascending node. record: of the graph, for memory of other code. false: no memory. */
bool ph__accesses_collect(ph__accesses *out, const ph__flat *flat, const ph_record *record);
#endif
