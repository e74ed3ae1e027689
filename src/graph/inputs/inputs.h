/* SPDX-License-Identifier: MIT */
/* graph/inputs/inputs.h: the memory from elsewhere that a graph's nodes address: where it is found,
 * what is kept of it, and whether it still lives. */
#ifndef PH_GRAPH_INPUTS_INPUTS_H
#define PH_GRAPH_INPUTS_INPUTS_H
#include "record/record.h"
#include <phonograph/inputs.h>

/* A range of memory that other code allocated, as the driver described it. Shared by the inputs
 * that lie in it. */
typedef struct ph__foreign {
    struct ph__foreign *next, **link; /* in the graph's list */
    size_t inputs;                    /* that lie in it */
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
    char node_name[128], word_name[48]; /* cut when longer */
} ph__input;
typedef PH__VEC(ph__input) ph__inputs;

/* Memory that ph_stream_declare_use named, as it was then. */
typedef struct ph__declared {
    uint64_t address, generation; /* 0: not the library's */
    const void *base;             /* NULL: nobody knew it */
    size_t bytes, requested;
    ph_pool_id pool;
    uint64_t buffer_id;
    bool pinned;
    char name[48];
} ph__declared;
typedef struct ph__declarations {
    PH__VEC(ph__declared) list;
    /* by generation, or by buffer_id or address (see inputs_declared.c): 1 + the index */
    ph__map at;
} ph__declarations;

/* ---- inputs.c ---- all inputs of what `from` captured (graph itself, or the one of an update);
 * tracked where the graph checks. Asks the driver what the library does not know. On failure
 * there are none. */
ph_status ph__inputs_of_graph(ph__inputs *out, ph_graph *graph, const ph_graph *from,
                              const char *call);
/* The words of one node, which it was set to. */
ph_status ph__inputs_of_words(ph__inputs *out, ph_graph *graph, size_t node, const char *node_name,
                              const ph_word *words, size_t count, const char *call);
void ph__inputs_let_go(const ph__inputs *inputs,
                       ph_graph *graph); /* of what they track; they stay allocated */
void ph__inputs_free(ph__inputs *inputs, ph_graph *graph);

/* ---- inputs_declared.c ---- */
const ph__declared *ph__declared_find(const ph__declarations *in, const ph_word *word);
const ph__declared *ph__declared_foreign(const ph__declarations *in, uint64_t buffer_id);
/* What was declared for the graph is declared for the open capture that a copy of it was put
 * into. */
ph_status ph__declarations_pass(ph_graph *graph, uint64_t capture_id, const char *call);
void ph__declarations_free(ph__declarations *in);

/* ---- inputs_read.c ---- whether it is still there; asks the driver about memory of other
 * code's. */
ph_status ph__foreign_ask(ph__foreign *foreign, ph_graph *graph, const char *call);
ph_input_state ph__input_state(const ph_graph *graph, const ph__input *input);
bool ph__input_is_proved(const ph_graph *graph, const ph__input *input); /* also by a slot */

/* ---- inputs_tell.c ---- what is said of dead inputs: the first five, and how many there are. */
enum {
    PH__DEAD_LISTED = 5
};
typedef struct ph__dead {
    size_t count;
    ph__input at[PH__DEAD_LISTED];
} ph__dead;
/* refused: for their sake. */
ph_status ph__fail_stale(ph_graph *graph, const ph__dead *dead, bool refused, const char *call);
/* Already at the capture's end. */
void ph__warn_stale(ph_graph *graph, const ph__dead *dead, const char *call);
void ph__warn_suspected(ph_graph *graph, ph__input *input, const char *call);
#endif
