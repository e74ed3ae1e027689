/* SPDX-License-Identifier: MIT */
/* phonograph/inspect/inputs.h: the memory from elsewhere that a graph addresses, and whether it is
 * still there. docs/reference/liveness.md. */
#ifndef PHONOGRAPH_INSPECT_INPUTS_H
#define PHONOGRAPH_INSPECT_INPUTS_H
#include <phonograph/graph.h>

PH_BEGIN_DECLS

/* Tells the capture that the stream is in that work submitted to it reads or writes the memory
 * at address: a proof of the caller's, for calls of other libraries whose kernels' parameters
 * cannot be told from other values. For the check every word of the captured nodes that lies in
 * the allocation of `address` is then proved an address (the record says of it what it said
 * before); where none does (it may lie in memory of the device), the address itself is an input.
 * Memory that is freed before the capture ends is a dead input from the first replay on, and a
 * warning when it ends. name (copied, cut after 47 bytes, may be NULL): for messages. Outside a
 * capture of this library's, in one without check_input_liveness, of memory that the capture was
 * given from its own pool, and for a NULL address: nothing. NOT_FOUND: memory of this library's
 * that is not allocated. Legal in a capture; thread-safe as work on the stream is. */
PH_CALL ph_stream_declare_use(ph_stream *stream, const void *address, const char *name);

typedef enum ph_input_state {
    PH_INPUT_LIVE = 0,
    PH_INPUT_FREED = 1,    /* the allocation is gone */
    PH_INPUT_REPLACED = 2, /* memory of other code's: another allocation is at the address now */
    PH_INPUT_UNKNOWN = 3   /* memory that neither this library nor the driver knows of */
} ph_input_state;
/* As a node: memory of ph_stream_declare_use that no word addresses; `word` is its name. */
#define PH_INPUT_DECLARED SIZE_MAX
/* One address in one node. Strings are borrowed from the graph until its next capture, reset or
 * change of nodes, those of places until the next question. A word that a slot has set is as the
 * slot has it. */
typedef struct ph_input_info {
    size_t node;           /* in the record */
    const char *node_name; /* the kernel's; nested nodes after their parents: "graph: saxpy" */
    const char *word;      /* the parameter, or "+16": the offset */
    size_t offset;
    uint64_t address;
    const void *base; /* the allocation as it was when captured */
    size_t bytes;
    bool proved, foreign, pinned; /* foreign: not allocated by this library */
    ph_input_state state;         /* now */
    /* "" without ph_memory_record_sites, or where nothing is known; allocated_at is "before
     * ph_memory_record_sites" of memory that was allocated before that call and freed after it */
    const char *allocated_at, *freed_at;
    uint64_t reserved[2];
} ph_input_info;
/* Any graph that has a record; in it all inputs, whether the graph checks them at replays or
 * not. Of a graph that does not, memory of other code's is asked for when somebody first asks
 * here. In the order of the nodes. NOT_FOUND beyond the last. */
PH_CALL ph_graph_input_count(size_t *out, ph_graph *graph);
PH_CALL ph_graph_input(ph_input_info *out, ph_graph *graph, size_t index);

/* What the check cannot see in this graph, a sentence for each, so that nobody takes silence for
 * safety: kernels that read module globals, addresses in memory of the device, nodes whose
 * parameters the driver does not tell. *text is freed with ph_string_free; "" when there is
 * nothing. */
PH_CALL ph_graph_unseen(char **text, ph_graph *graph);

/* Where memory was allocated and freed, as backtraces, for messages about stale inputs: of the
 * allocations made, and the memory freed, from now on, `frames` frames each (at most 32:
 * ARGUMENT beyond; 0, as at first: none, and what was kept is dropped). Of 65,536 live
 * allocations at a time, and of the newest 1,024 that were freed while a graph with
 * check_input_liveness addressed them. A refused replay then logs, for each of its first five
 * dead inputs, once, where it was freed, allocated and replayed; ph_graph_input has the same.
 * Costs a backtrace, some microseconds, for each allocation. Process-wide. Thread-safe. */
PH_CALL ph_memory_record_sites(unsigned frames);

PH_END_DECLS
#endif
