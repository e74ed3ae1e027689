/* SPDX-License-Identifier: MIT */
/* phonograph/annotation.h: names and values for the work of a capture, so that records,
 * messages, timelines and pages can say which part of a program a node belongs to.
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
    /* "name", "stream" (the lane) and "autograd_phase" have a meaning of their own */
    const char *key;
    ph_annotation_type type;
    bool boolean;
    const char *text;
    int64_t integer;
    double real;
} ph_annotation_pair;

/* A scope. name: the value of the key "name"; NULL: none. Further pairs are copied; a key that
 * is given twice, or no pairs, no name and no lane: ARGUMENT. forward_only is for
 * libphonograph_nn; an inner scope without it gives gradients all that is open, as it does
 * nodes. */
typedef struct ph_annotation_options {
    const ph_annotation_pair *pairs;
    size_t count;
    bool lane; /* adds "stream": the stream's lane (ph_stream_lane), unless pairs has it */
    /* gradients of what is computed in the scope do not get its own pairs, but those of the
     * scopes around it */
    bool forward_only;
    uint64_t reserved[4];
} ph_annotation_options;

/* Opens a scope of the calling thread. Until its end each node that the thread adds to a capture
 * which has enable_annotations gets the scope's pairs: kernels, copies, fills, events, host
 * functions and nested graphs, of this library and of others, on every stream of the capture,
 * also one that joins it in the scope. Scopes nest: a node gets the pairs of all scopes that are
 * open, and of a key that several have the innermost's. A scope costs two short questions of the
 * driver for each stream, whatever the number of nodes. What other code submits to a stream that
 * this library does not know counts as submitted when a stream that it knows comes behind it.
 * What other code submits to the same capture counts as of the thread that submitted to it
 * through this library, or opened a scope, last. Where a second thread begins to submit in the
 * middle of another one's call, the node of that call may count as the second one's; from then
 * on each thread's are its own. Nodes in a nested graph keep the pairs of their own capture,
 * which win over those of the scope.
 *
 * stream: where the work will go; decides the lane, and where breadcrumbs are left
 * (inspect/locate.h). It need not be capturing (yet). Outside annotated captures a scope is
 * kept, costs nothing to speak of, and marks nothing. Errors: ARGUMENT, HOST_MEMORY. Legal in
 * a capture. Scopes belong to their thread: end closes the innermost, whatever stream that was
 * begun on; STATE where the thread has none open. It is closed also where end fails for want
 * of memory, or because the driver does. A capture that fails leaves the scopes open: they are
 * ended as always. So does one that succeeds; where the function of ph_graph_capture has left
 * some, a warning names them. */
PH_CALL ph_annotation_push(ph_stream *stream, const char *name,
                           const ph_annotation_options *options);
PH_CALL ph_annotation_pop(ph_stream *stream);
/* How many scopes of the calling thread are open. unwind ends them until `depth` are: for code
 * that leaves several at once after an error. It names no stream, and leaves no breadcrumb: the
 * streams on which the scopes began may be gone by then, or joined, and work that comes behind a
 * join would make the capture fail. Where a replay is to tell that a scope ended, ph_annotation_pop
 * ends it. */
PH_API size_t ph_annotation_depth(void);
PH_API void ph_annotation_unwind(size_t depth);

/* What is open on the calling thread, for code that runs work later on its behalf
 * (libphonograph_nn: gradients): the pairs that the innermost scope gives its nodes, but for
 * forward_only ones, which are looked through. Retained; NULL for none. resume opens it again as
 * a scope of the calling thread, which may be another one, inside those that are open there,
 * with `pairs` added (those win); to be ended as any. Of NULL: a scope of `pairs` alone, if
 * there are any. Of a mark that ph_clear_kernel_annotations came after: one that adds nothing,
 * not `pairs` either. resume: ARGUMENT, HOST_MEMORY, as begin; a key that is given twice.
 * Thread-safe. */
typedef struct ph_annotation_scope ph_annotation_scope;
PH_API ph_annotation_scope *ph_annotation_current(void);
PH_API ph_annotation_scope *ph_annotation_retain(ph_annotation_scope *mark);
PH_API void ph_annotation_release(ph_annotation_scope *mark); /* takes NULL */
PH_CALL ph_annotation_resume(ph_stream *stream, ph_annotation_scope *mark,
                             const ph_annotation_pair *pairs, size_t count);

/* The lane of a stream in a timeline: numbered from 60 in the order in which streams are first
 * asked for. Thread-safe. */
PH_CALL ph_stream_lane(uint32_t *out, ph_stream *stream);

/* ---- reading ---- pairs are borrowed from the record; *count 0: the node lies in no scope.
 * NOT_FOUND: no such node. Keys come in the order in which scopes brought them, the outermost
 * first. */
PH_CALL ph_record_annotation(const ph_annotation_pair **pairs, size_t *count,
                             const ph_record *record, size_t node);

/* All annotated nodes of the graphs that there are, as
 * torch.cuda.graph_annotations.get_kernel_annotations has them: one entry for each node. At most
 * capacity are written (out may be NULL for 0), *count is how many there are. Pairs are borrowed
 * from the graph's record: they live until it is reset or captured again. Entries come with the
 * end of a capture and go with the graph's reset or destruction. Thread-safe, as far as the
 * graphs are left alone meanwhile. */
typedef struct ph_kernel_annotation {
    ph_graph *graph;
    /* of its executable, as in ph_graph_hook_info; 0 while there is none. New at each
     * instantiate */
    uint64_t exec_id;
    size_t node; /* index in the record */
    /* what NVIDIA's tools call the node in their traces (graph id of the executable << 32 | node
     * id); 0 where that is not known: on drivers before CUDA 13.1 without CUPTI in the process,
     * without an executable, on the host device */
    uint64_t tools_id;
    const ph_annotation_pair *pairs;
    size_t count;
    uint64_t reserved[4];
} ph_kernel_annotation;
PH_CALL ph_get_kernel_annotations(ph_kernel_annotation *out, size_t capacity, size_t *count);
/* Empties that list, and makes void what ph_annotation_current took, or would take, of scopes that
 * were opened before (for gradients of what was computed in them). Open scopes go on marking
 * what is captured in them, and records keep what they have. Thread-safe as the list is. */
PH_API void ph_clear_kernel_annotations(void);

/* For NVTX, which calls this of the shared library that NVTX_INJECTION64_PATH names, and for nobody
 * else: from then on ranges that the program pushes and pops are scopes of the thread, as
 * ph_annotation_push makes them. find_table: NVTX's own. Not 0: taken; 0 for NULL. The tool that
 * PH_NVTX_NEXT names gets everything too (docs/reference/annotations.md). Thread-safe. */
PH_API int InitializeInjectionNvtx2(const void *(*find_table)(uint32_t number));

PH_END_DECLS
#endif
