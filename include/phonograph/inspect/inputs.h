/* SPDX-License-Identifier: MIT */
/* phonograph/inspect/inputs.h: memory from elsewhere that a graph addresses, and whether it is
 * still allocated (docs/reference/liveness.md). */
#ifndef PHONOGRAPH_INSPECT_INPUTS_H
#define PHONOGRAPH_INSPECT_INPUTS_H
#include <phonograph/graph.h>

PH_BEGIN_DECLS

/* Declares that work on the capturing stream reads or writes the memory at address. For calls of
 * other libraries, whose kernel parameters look like any other values.
 * - In the liveness check, every word of the captured nodes that lies in the allocation of
 *   `address` is then proved an address. The record is the same as without this call. If no word
 *   lies there (it may lie in device memory), the address itself is an input.
 * - Memory that is freed before the capture ends is a dead input from the first replay on. The end
 *   of the capture warns of it.
 * - name: for messages; copied, cut after 47 bytes, may be NULL.
 * - Nothing happens: outside a capture of this library, in one without check_input_liveness, for
 *   memory that the capture received from its own pool, and for a NULL address.
 * - NOT_FOUND: memory of this library that is not allocated.
 * - Legal in a capture. Thread-safe as work on the stream is. */
PH_CALL ph_stream_declare_use(ph_stream *stream, const void *address, const char *name);

typedef enum ph_input_state {
    PH_INPUT_LIVE = 0,
    PH_INPUT_FREED = 1, /* the allocation is gone */
    PH_INPUT_REPLACED =
        2,               /* memory of other code: the address now has another allocation or block */
    PH_INPUT_UNKNOWN = 3 /* memory that neither this library nor the driver knows */
} ph_input_state;
/* As a node: memory that no word addresses, of ph_stream_declare_use (`word` is its name), or of a
 * nested graph and freed before the capture's end (`word` is the node and the word there). */
#define PH_INPUT_DECLARED SIZE_MAX
/* One address in one node. Strings are borrowed from the graph until its next capture, reset or
 * change of nodes; those of places until the next query. A word that a slot has set has the slot's
 * value. */
typedef struct ph_input_info {
    size_t node; /* in the record */
    /* the name of the kernel; nested nodes have their parents in front: "graph: saxpy" */
    const char *node_name;
    const char *word; /* the name of the parameter, or its offset, "+16" */
    size_t offset;
    uint64_t address;
    const void *base; /* the allocation at capture time */
    size_t bytes;
    bool proved, foreign, pinned; /* foreign: not allocated by this library */
    ph_input_state state;         /* the present state */
    /* Of an announced block: its label, and what ended it (foreign.h). Of other memory: "" without
     * ph_memory_record_sites, or if unknown. allocated_at is "before
     * ph_memory_record_sites" for memory that was allocated before that call and freed after it */
    const char *allocated_at, *freed_at;
    uint64_t reserved[2];
} ph_input_info;
/* All inputs of a graph with a record, whether replays check them or not, in the order of the
 * nodes. If the graph does not check them, the first query asks the driver about memory of other
 * code. NOT_FOUND beyond the last. */
PH_CALL ph_graph_input_count(size_t *out, ph_graph *graph);
PH_CALL ph_graph_input(ph_input_info *out, ph_graph *graph, size_t index);

/* Lists in sentences what the check cannot see in this graph, so that silence is not read as
 * safety: kernels that read module globals, addresses in device memory, nodes whose parameters the
 * driver does not show. "" when there is nothing. *text is freed with ph_string_free. */
PH_CALL ph_graph_unseen(char **text, ph_graph *graph);

/* Records backtraces of allocations and frees, for messages about stale inputs.
 * - frames: frames of each later allocation and free, at most 32 (ARGUMENT beyond). 0, the initial
 *   value: none, and recorded ones are dropped.
 * - Kept: 65,536 live allocations at a time, and the newest 1,024 that were freed while a graph
 *   with check_input_liveness addressed them.
 * - A refused replay then logs, for each of its first five dead inputs, once, where it was freed,
 *   allocated and replayed. ph_graph_input returns the same.
 * - Costs a backtrace, some microseconds, for each allocation.
 * - Process-wide. Thread-safe. */
PH_CALL ph_memory_record_sites(unsigned frames);

PH_END_DECLS
#endif
