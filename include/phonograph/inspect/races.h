/* SPDX-License-Identifier: MIT */
/* phonograph/inspect/races.h: nodes of a captured graph that use the same memory with no order
 * between them (docs/reference/races.md). */
#ifndef PHONOGRAPH_INSPECT_RACES_H
#define PHONOGRAPH_INSPECT_RACES_H
#include <phonograph/graph.h>
#include <phonograph/kernel.h>

PH_BEGIN_DECLS

/* One of the two nodes of a race. Strings are the list's. */
typedef struct ph_race_side {
    /* in the graph's record; of a nested node, the graph node that has it */
    size_t node;
    /* the name of the kernel; nested nodes have their parents in front: "graph: saxpy" */
    const char *name;
    const char *scope; /* the pairs of the annotation, "name: forward, layer: 3"; "" for none */
    const char *word;  /* the parameter: "x", "+16", "dst" */
    ph_access_kind access;
    /* Declared extents, and those of copies and fills, are bytes that the node uses. Others are
     * the allocation of the address, any byte of which it may use. */
    bool declared;
    uint64_t address; /* of rows, that of the first one; bytes are of the row that is met */
    size_t bytes;
    uint64_t reserved[2];
} ph_race_side;
typedef struct ph_race {
    /* Both nodes use the bytes for certain, at least one writes them, and only a path in the graph
     * could order them. false: possible. */
    bool certain;
    ph_race_side first, second; /* first comes before second in the record */
    uint64_t address;           /* the bytes that both use, or may use */
    size_t bytes;
    uint64_t base; /* the allocation of the first byte; 0: not known */
    size_t allocation_bytes;
    const char *text; /* a sentence with all of this */
    uint64_t reserved[4];
} ph_race;
typedef struct ph_races ph_races;

/* Finds nodes of the graph's last capture that use the same bytes, at least one writing, with no
 * path between them. No run, no second capture.
 *
 * Certain and possible:
 * - certain: both accesses are known. Known are the parameters of ph_param_access with kind and
 *   extent, and copies and fills, row by row (of up to 4,096 rows).
 * - possible: other ADDRESS parameters, and words of untyped kernels that may be addresses. They
 *   stand for all of their allocation.
 * - possible: a host function, an event or a semaphore behind the first and before the second may
 *   order them beside the graph's edges.
 * - A programmatic edge is an order (ph_launch_config.programmatic).
 * - Not seen: memory of host functions, conditional bodies, memory that no parameter leads to.
 *   Allocation and free nodes are no accesses.
 * - Arguments are those of the capture, not those of later changes, slots or cells.
 *
 * Result:
 * - Certain races come first, then possible ones, each in the order of the second node. One race
 *   for each pair of nodes.
 * - At most 2,048 of each kind are kept, and at most 8 certain and 64 in all for a second node.
 *   ph_races_found has the number of those found.
 * - Not empty whenever there is such a pair, and with a certain one if there is such a pair, except
 *   behind 64 possible ones of one node.
 * - Freed with ph_races_destroy. Does not depend on the graph.
 *
 * Cost, for n nodes and their words in c concurrent chains: n log n times at most c. Algorithm:
 * vector clocks over a chain decomposition of the graph (Jagadish 1990; Mattern 1989), and a
 * segment tree over the addresses with the last access of each chain, as in dynamic race detectors
 * (Flanagan and Freund, FastTrack, 2009).
 *
 * Errors: STATE (no capture), HOST_MEMORY. Legal in a capture of another graph. Threads as
 * ph_graph_record. */
PH_CALL ph_graph_find_races(ph_races **out, ph_graph *graph);
PH_API void ph_races_destroy(ph_races *races); /* takes NULL */
/* kept; certain: those of them, or NULL */
PH_API size_t ph_races_count(const ph_races *races, size_t *certain);
PH_API size_t ph_races_found(const ph_races *races);                    /* kept or not */
PH_CALL ph_races_at(ph_race *out, const ph_races *races, size_t index); /* NOT_FOUND */
/* Writes all races as text, a line each, and a last one with their number. Freed with
 * ph_string_free. */
PH_CALL ph_races_text(char **out, const ph_races *races);

PH_END_DECLS
#endif
