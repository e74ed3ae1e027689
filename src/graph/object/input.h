/* SPDX-License-Identifier: MIT */
/* graph/object/input.h: the memory from elsewhere that a graph's nodes address, as the graph
 * keeps it. */
#ifndef PH_GRAPH_OBJECT_INPUT_H
#define PH_GRAPH_OBJECT_INPUT_H
#include "record/record.h"
#include <phonograph/inspect/inputs.h>

/* A range of memory that other code allocated, as the driver described it. Shared by the inputs
 * that lie in it. */
typedef struct ph__foreign {
    struct ph__foreign *next, **link; /* in the graph's list */
    size_t inputs;                    /* inputs that lie in it */
    const void *base;
    /* The address that it was found by: of reserved ones the first may have nothing behind it. */
    const void *asked;
    size_t bytes;
    uint64_t buffer_id;
    bool pinned;
    ph_input_state state; /* as last asked for */
} ph__foreign;

/* One address of a node: tracked where the graph checks, never held. */
typedef struct ph__input {
    size_t node,
        /* of the word; nested nodes have no offsets of the node's own. node SIZE_MAX: declared,
         * in no word */
        offset;
    uint64_t value;   /* the address as the node has it */
    const void *base; /* NULL: nobody knows what is there */
    size_t bytes;
    size_t requested; /* of them: what was asked for; 0: not known */
    /* of the library's own memory; 0: it was gone before the capture had ended */
    uint64_t generation;
    ph__foreign *foreign; /* memory of other code's; NULL: the library's own, or nobody knows */
    bool proved, pinned, tracked, warned, nested;
    bool announced;                     /* a block of another allocator, with a generation */
    char node_name[128], word_name[48]; /* cut when longer */
} ph__input;
typedef PH__VEC(ph__input) ph__inputs;

/* Memory that ph_stream_declare_use named, or that a nested graph addresses, as it was then. */
typedef struct ph__declared {
    uint64_t address, generation; /* 0: not the library's */
    const void *base;             /* NULL: nobody knew it */
    size_t bytes, requested;
    ph_pool_id pool;
    uint64_t buffer_id;
    bool pinned, announced;
    bool nested; /* its name is the word of a nested graph */
    char name[48];
} ph__declared;
typedef struct ph__declarations {
    PH__VEC(ph__declared) list;
    /* by generation, or by buffer_id or address (see inputs_declared.c): 1 + the index */
    ph__map at;
} ph__declarations;
#endif
