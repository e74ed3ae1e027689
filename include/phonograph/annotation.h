/* SPDX-License-Identifier: MIT */
/* phonograph/annotation.h: names and values for the work of a capture. Records, messages, timelines
 * and pages use them to name the part of a program that a node belongs to.
 * torch.cuda.graph_annotations for C; docs/reference/annotations.md. */
#ifndef PHONOGRAPH_ANNOTATION_H
#define PHONOGRAPH_ANNOTATION_H
#include <phonograph/inspect/record.h>

PH_BEGIN_DECLS

typedef enum ph_annotation_type {
    PH_ANNOTATION_TEXT = 0,
    PH_ANNOTATION_INTEGER = 1,
    PH_ANNOTATION_REAL = 2,
    PH_ANNOTATION_BOOL = 3
} ph_annotation_type;
typedef struct ph_annotation_pair {
    /* "name", "stream" (the lane), "autograd_phase" and "made_for" have special meanings
     * (docs/reference/annotations.md) */
    const char *key;
    ph_annotation_type type;
    bool boolean;
    const char *text;
    int64_t integer;
    double real;
} ph_annotation_pair;

/* Options of a scope.
 * - name: the value of the key "name"; NULL: none.
 * - Further pairs are copied. ARGUMENT: a key is given twice, or there are no pairs, no name and no
 *   lane.
 * - forward_only concerns libphonograph_nn. An inner scope without it gives gradients the pairs of
 *   all open scopes, as it does nodes. */
typedef struct ph_annotation_options {
    const ph_annotation_pair *pairs;
    size_t count;
    /* adds "stream": the lane of the stream (ph_stream_lane), unless pairs has that key */
    bool lane;
    /* gradients of values from this scope do not get its own pairs, but those of the scopes around
     * it */
    bool forward_only;
    uint64_t reserved[4];
} ph_annotation_options;

/* Opens a scope of the calling thread. Until its end, each node that the thread adds to a capture
 * with enable_annotations gets the pairs of the scope. This holds for all kinds of nodes, of this
 * library and of others, on every stream of the capture, also on one that joins it later.
 *
 * Nesting and cost:
 * - A node gets the pairs of all open scopes. For a key of several scopes, the innermost value
 *   wins.
 * - Nodes in a nested graph keep the pairs of their own capture, which win over those of the scope.
 * - A scope costs two short driver queries for each stream, whatever the number of nodes.
 *
 * Work of other code:
 * - On a stream that this library does not know, it counts as submitted when a known stream is
 *   ordered behind it.
 * - In the same capture, it belongs to the thread that last submitted to the capture through this
 *   library, or last opened a scope.
 * - Where a second thread begins to submit in the middle of another thread's call, the node of that
 *   call may count as the second thread's. Later nodes of each thread are its own.
 *
 * Arguments, errors, threads:
 * - stream: the stream that the work will use. It decides the lane, and the place of breadcrumbs
 *   (inspect/locate.h). It need not be capturing yet. Outside annotated captures a scope is kept,
 *   costs nearly nothing, and annotates nothing.
 * - ARGUMENT, HOST_MEMORY. Legal in a capture.
 * - pop closes the innermost scope of its thread, whatever stream that began on. STATE: the thread
 *   has no open scope. The scope is closed also where pop fails for lack of memory or in the
 *   driver.
 * - The end of a capture, with or without success, leaves scopes open. If the function of
 *   ph_graph_capture left some, a warning names them. */
PH_CALL ph_annotation_push(ph_stream *stream, const char *name,
                           const ph_annotation_options *options);
PH_CALL ph_annotation_pop(ph_stream *stream);
/* Counts the open scopes of the calling thread. unwind ends scopes until `depth` are left, for code
 * that leaves several at once after an error.
 * - unwind names no stream, and leaves no breadcrumb. The streams on which the scopes began may be
 *   gone, or joined; work behind a join would make the capture fail.
 * - Use ph_annotation_pop where a replay must report the end of the scope. */
PH_API size_t ph_annotation_depth(void);
PH_API void ph_annotation_unwind(size_t depth);

/* current returns the open scopes of the calling thread, for code that runs work for it later
 * (libphonograph_nn: gradients). They are the pairs that the innermost scope gives its nodes,
 * without those of forward_only scopes. Retained; NULL for none.
 *
 * resume opens them again as a scope of the calling thread, which may be another thread, inside its
 * open scopes. `pairs` are added, and win. The scope is ended as any other.
 * - NULL: a scope of `pairs` alone, if there are any.
 * - A value from before ph_clear_kernel_annotations: a scope that adds nothing, not even `pairs`.
 * - ARGUMENT (a key is given twice), HOST_MEMORY, as push. Thread-safe. */
typedef struct ph_annotation_scope ph_annotation_scope;
PH_API ph_annotation_scope *ph_annotation_current(void);
PH_API ph_annotation_scope *ph_annotation_retain(ph_annotation_scope *mark);
PH_API void ph_annotation_release(ph_annotation_scope *mark); /* takes NULL */
PH_CALL ph_annotation_resume(ph_stream *stream, ph_annotation_scope *mark,
                             const ph_annotation_pair *pairs, size_t count);

/* The lane of a stream in a timeline. Lanes are numbered from 60, in the order in which they are
 * first requested. Thread-safe. */
PH_CALL ph_stream_lane(uint32_t *out, ph_stream *stream);

/* ---- reading ---- pairs are borrowed from the record. *count 0: the node lies in no scope.
 * NOT_FOUND: no such node. Keys come in the order of their scopes, the outermost first. */
PH_CALL ph_record_annotation(const ph_annotation_pair **pairs, size_t *count,
                             const ph_record *record, size_t node);

/* All annotated nodes of all existing graphs, as in
 * torch.cuda.graph_annotations.get_kernel_annotations: one entry for each node.
 * - At most capacity entries are written (out may be NULL for 0). *count is the number of existing
 *   ones.
 * - Pairs are borrowed from the graph's record, until the graph is reset or captured again.
 * - Entries come at the end of a capture, and go with the reset or destruction of the graph.
 * - Records that were not made yet are made: HOST_MEMORY, DEVICE, as ph_graph_record.
 * - Thread-safe, as long as no other thread changes the graphs. */
typedef struct ph_kernel_annotation {
    ph_graph *graph;
    /* of its executable, as in ph_graph_hook_info; 0: no executable. New at each instantiate */
    uint64_t exec_id;
    size_t node; /* index in the record */
    /* The node's number in traces of NVIDIA's tools: graph id of the executable << 32 | node id. 0:
     * unknown, as before CUDA 13.1 without CUPTI in the process, without an executable, and on the
     * host device. */
    uint64_t tools_id;
    const ph_annotation_pair *pairs;
    size_t count;
    uint64_t reserved[4];
} ph_kernel_annotation;
PH_CALL ph_get_kernel_annotations(ph_kernel_annotation *out, size_t capacity, size_t *count);
/* Empties that list. Values that ph_annotation_current returned, or would return, for scopes opened
 * before become void (for gradients of values computed in them). Open scopes still annotate
 * captured nodes, and records keep their annotations. Thread-safe as the list is. */
PH_API void ph_clear_kernel_annotations(void);

/* ---- graphs of other code ---- Scopes that the code which captured a graph has kept, for
 * ph_graph_import_cuda (ph_capture_options.scopes).
 * - Each holds from its first node until the next scope begins, in the order of cuGraphGetNodes,
 *   which is that of the nodes' creation. 0 pairs: the nodes lie in no scope.
 * - Pairs are copied. The nodes of nested graphs get those of their child-graph node.
 * - ARGUMENT: first nodes that do not ascend, a node that the graph does not have, or pairs as
 *   ph_annotation_push refuses them. */
typedef struct ph_import_scope {
    size_t first_node;
    const ph_annotation_pair *pairs;
    size_t count;
} ph_import_scope;
typedef struct ph_import_scopes {
    const ph_import_scope *at;
    size_t count;
    uint64_t reserved[2];
} ph_import_scopes;

/* Only for NVTX, which calls it in the shared library that NVTX_INJECTION64_PATH names. From then
 * on, ranges that the program pushes and pops are scopes of the thread, as by ph_annotation_push.
 * find_table is NVTX's own. Returns not 0 on success; 0 for NULL. The tool that PH_NVTX_NEXT names
 * gets all calls too (docs/reference/annotations.md). Thread-safe. */
PH_API int InitializeInjectionNvtx2(const void *(*find_table)(uint32_t number));

PH_END_DECLS
#endif
