/* SPDX-License-Identifier: MIT */
/* inspect/verify/verify.h: the state of a ph_graph_verify, which its files share. */
#ifndef PH_INSPECT_VERIFY_VERIFY_H
#define PH_INSPECT_VERIFY_VERIFY_H
#include "graph/object/graph.h"
#include "inspect/races/blocks.h"
#include "inspect/races/races.h"
#include "memory/alloc/replay_run.h"
#include "memory/state/allocation.h"
#include <phonograph/inspect/diff.h>
#include <phonograph/inspect/locate.h>

/* Bytes of memory that are kept: disjoint. */
typedef struct ph__kept {
    uintptr_t base;
    size_t bytes;
    size_t at;     /* in the images */
    bool own;      /* the capture was given them: they have no contents before they are written */
    bool poisoned; /* device memory of those */
    bool compared;
    /* of a pool that the graph holds beside its own: compared where eager writes it */
    bool held;
    bool swapped; /* as ph__verify_swap_held */
    bool foreign; /* memory of other code's */
    bool lost;    /* likewise, and the driver does not read it: left as it is, and never compared */
} ph__kept;

/* The contents of all that is kept, at one moment. */
typedef struct ph__image {
    unsigned char *bytes;
} ph__image;

typedef enum ph__poison_pattern {
    PH__POISON_NONE,
    PH__POISON_NAN,   /* not a number in all types of floating point */
    PH__POISON_NUMBER /* small numbers in all of them */
} ph__poison_pattern;

typedef struct ph__difference {
    size_t different, compared;
    uintptr_t address;              /* of the first */
    const ph__kept *kept;           /* the kept memory that has it; NULL: none */
    const ph_verify_output *output; /* and in this; NULL: bytes were compared */
    size_t size; /* of both: of the number of an output that it is in, or up to 4 bytes around it */
    unsigned char a[8], b[8];
} ph__difference;

/* The result of a replay of the second capture, beside that of the eager run. */
typedef enum ph__second_result {
    PH__SECOND_UNKNOWN, /* not replayed */
    PH__SECOND_SAME,
    PH__SECOND_OTHER
} ph__second_result;

/* Nodes of an executable that are switched on and off. */
typedef struct ph__switches {
    ph_graph *graph;
    bool *on, *now; /* as it was; as it is. By node */
    size_t count;
    bool hosts;   /* the functions of its host nodes are known, and can be taken out */
    bool touched; /* something may be off */
} ph__switches;

typedef struct ph__verify {
    ph_graph *graph, *second; /* second: the capture of body that was made now */
    ph_stream *stream;
    ph_capture_fn body;
    void *user;
    const ph_verify_options *options;
    ph_verify_result *out;
    const char *call;
    const ph__driver *driver;
    PH__VEC(ph__kept) kept;
    ph__ranges places; /* of them, by address -> index + 1 */
    /* whole allocations of other code's that the nodes address, kept or left out */
    ph__ranges foreign;
    size_t total, kept_so_far; /* bytes; of `kept`: those whose contents are in `start` */
    ph__block_index blocks;    /* of the layout */
    ph_races *races;           /* of the graph; NULL: its executable has changes */
    ph__image start, eager, replay, other;
    unsigned char *chunk; /* for poison on its way */
    ph_pool *pool;        /* of the second capture, and of what body allocates beyond the layout */
    ph__replay_allocator *replay_allocator;
    ph__switches switches, second_switches;
    size_t missed, missed_bytes; /* of the eager run: as ph__replay_allocator_missed */
    uint64_t epoch;
    uint64_t *lasts; /* of the graph's pools */
    /* of the second capture, once results are known to be equal (second.h) */
    bool other_nodes, other_parameters;
    ph__second_result second_gives;
    bool prepared;  /* each run of the graph starts from the same state */
    bool skip_held; /* as ph__replay_allocator_rewind */
    bool steady;    /* further eager runs gave what the first gave */
    bool swapped;   /* `start` and `replay` have each other's contents of some blocks */
} ph__verify;

/* The blocks of the capture whose parameters the executable has. */
static inline const ph__layout *ph__verify_layout(const ph_graph *graph)
{
    return graph->updated_pool ? &graph->updated_layout : &graph->layout;
}

#endif
