/* SPDX-License-Identifier: MIT */
/* phonograph/graph.h: the graph object: capture work once, replay it with one launch.
 * docs/reference/graph-states.md has the table of what every call does in every state; a refused
 * call leaves the graph as it was. */
#ifndef PHONOGRAPH_GRAPH_H
#define PHONOGRAPH_GRAPH_H
#include <phonograph/kernel.h>
#include <phonograph/memory.h>

PH_BEGIN_DECLS

typedef struct ph_graph ph_graph;

typedef enum ph_graph_state {
    PH_GRAPH_NEW = 0,       /* nothing captured */
    PH_GRAPH_CAPTURING = 1, /* between begin and end */
    PH_GRAPH_ENDED = 2,     /* captured with keep_graph, no executable */
    PH_GRAPH_READY = 3,     /* has an executable */
    PH_GRAPH_FAILED = 4     /* the capture failed; answers with its own message until reset */
} ph_graph_state;

typedef struct ph_graph_options {
    /* the template stays visible: instantiate, raw handles and debug_dump at any time, edits by
     * the driver's own calls */
    bool keep_graph;
    /* the executable is made without being uploaded to the device: many graphs are ready sooner.
     * ph_graph_upload uploads it, or else the first replay does, which then takes longer than
     * the others and fails where there is not enough of the device's memory, as capture and
     * instantiate do without this */
    bool defer_upload;
    uint64_t reserved[4];
} ph_graph_options;

/* A graph is externally synchronised: one thread at a time, except where a call says otherwise.
 * Its device is its capture stream's. */
PH_CALL ph_graph_create(ph_graph **out, const ph_graph_options *options);
/* Resets it first; a capture left open is aborted, with a warning to the log. Legal while
 * replays are in flight, for which a GPU's driver may wait: see ph_graph_reset. Takes NULL. */
PH_API void ph_graph_destroy(ph_graph *graph);
PH_API ph_graph_state ph_graph_get_state(const ph_graph *graph);

typedef struct ph_capture_options {
    ph_pool *pool; /* allocations of the capture come from here; NULL: a pool of its own */
    ph_capture_mode mode;
    /* every replay first checks that the memory which the nodes address is still allocated:
     * refused where a word is proved an address (typed parameters, copies, fills, slots,
     * ph_stream_declare_use); else a warning. docs/reference/liveness.md */
    bool check_input_liveness;
    /* the nodes get the pairs of the scopes that they were captured in (annotation.h) */
    bool enable_annotations;
    /* with enable_annotations: nodes that tell how far a replay came (inspect/locate.h) */
    bool breadcrumbs;
    /* first synchronizes the device and trims its caches, as torch.cuda.graph does on entry:
     * blocks */
    bool prepare;
    /* check_input_liveness looks at memory that other code allocated by asking the driver, once
     * in so many replays: 0: 64; 1: at each; UINT32_MAX: never. Without check_input_liveness:
     * ARGUMENT, unless 0 */
    uint32_t check_foreign_every;
    /* The capture fails where its end would only warn: UNPINNED where a copy or fill that other
     * code submitted is of pageable host memory, whose replays read or overwrite whatever lies
     * there then (on every device, also one that can read pageable memory itself); STATE where
     * the graph is empty, or the function left annotation scopes open. Likewise for
     * ph_graph_import_cuda, of copies; and STATE there, where a node addresses memory of this
     * library that was freed before the import */
    bool strict;
    /* this capture is compared with others, so that PH_DEBUG=breadcrumbs adds no nodes to it
     * (docs/reference/debugging.md); other switches hold */
    bool compared;
    uint64_t reserved[3];
} ph_capture_options;

/* Captures what body submits to stream (and to streams that join the capture by events), then
 * instantiates, unless keep_graph. body's failure aborts the capture and is returned, its error
 * record untouched. A capture is a transaction: whatever goes wrong, stream, routing, pools and
 * graph object are restored, and the same stream can capture again at once; blocks already
 * handed out stay valid until they are freed. An empty capture is a warning, not an error, and
 * so are copies of pageable host memory that other code submitted, unless strict. Begin never
 * synchronizes; where another thread is inside ph_memcpy between pageable memory and this very
 * stream, it waits until that returns. Errors: STATE (see the table), DEFAULT_STREAM, POOL_BUSY,
 * CAPTURE (401: the stream is capturing already; 900-908), WRONG_DEVICE. A C++ exception out of
 * body aborts the capture too, and goes on (docs/reference/errors.md); longjmp out of it is
 * forbidden: abort, reset and destroy then give the stream back. */
typedef ph_status (*ph_capture_fn)(ph_stream *stream, void *user);
PH_CALL ph_graph_capture(ph_graph *graph, ph_stream *stream, const ph_capture_options *options,
                         ph_capture_fn body, void *user);

/* The open form. end: body not PH_OK aborts, and returns body with the record untouched. In
 * modes other than relaxed, end belongs to the thread of begin: another one gets CAPTURE, 908,
 * the graph is FAILED, and the work that was captured is lost; the stream stays in the capture
 * until its owner ends it, or anybody aborts, resets or destroys the graph. */
PH_CALL ph_graph_capture_begin(ph_graph *graph, ph_stream *stream,
                               const ph_capture_options *options);
PH_CALL ph_graph_capture_end(ph_graph *graph, ph_status body);
PH_API void ph_graph_capture_abort(
    /* CAPTURING: ends and drops the capture; the graph is NEW. Otherwise nothing */
    ph_graph *graph);

/* keep_graph only: makes (or makes again) the executable of the template. Without it the capture's
 * end did that already. A template whose handle was given out (ph_graph_cuda) and that was edited
 * since by CUDA's own calls is read again: record, dumps, inputs, kernels and the numbers of nodes
 * are those of the edited one from then on (what ph_graph_record gave before is gone), nodes that
 * are left keep their annotations. STATE, and all is as it was: the edit took away a node that the
 * library made itself (cells, breadcrumbs, checks), or moved one that has places of slots. */
PH_CALL ph_graph_instantiate(ph_graph *graph);

/* For graphs with defer_upload: uploads the executable on a stream of the graph's device,
 * asynchronously, behind what the stream was given before. Replays come after it, on whatever
 * stream, and cost what they do without defer_upload. Where it was uploaded already since it was
 * made, by this call or without defer_upload, nothing is submitted: the call looks for the
 * errors below, and gives OK where there is none. The host device has nothing to upload. ENDED:
 * instantiates first. A failure leaves the executable usable: the first replay uploads it.
 * Errors: ARGUMENT: NULL, a destroyed stream; STATE: nothing was captured, or the capture is
 * open (see the table); FAILED: the capture's own status and message; CAPTURE: the stream is
 * capturing (900), or the legacy default stream beside a capture with blocking streams (906);
 * the capture goes on; DEVICE_MEMORY; WRONG_DEVICE. */
PH_CALL ph_graph_upload(ph_graph *graph, ph_stream *stream);

/* Launches the whole graph on any stream of its device, asynchronously. ENDED: instantiates
 * first. Replays of graphs that share a pool, and of one graph, are ordered, also across
 * streams. On a stream that is capturing nothing runs: a copy of the template becomes one
 * child-graph node of that capture (nodes that were set, enabled or updated since are as
 * captured there), the capturing graph keeps this one's pools and kernels, and no replay hook
 * runs. Errors: FAILED: the capture's own status and message; STALE_INPUT
 * (check_input_liveness); WRONG_DEVICE. Thread-safe against other graphs. */
PH_CALL ph_graph_replay(ph_graph *graph, ph_stream *stream);

/* Drops template, executable, pool references and registrations of this capture; the object can
 * capture again. Live blocks of its pool stay valid. CAPTURING: aborts. The library waits for
 * nothing here, except for retained objects that asked for it. A GPU's driver may wait for
 * launches of the executable that are in flight (NVIDIA's 580 does for one behind a host
 * function, not always): so do not reset or destroy a graph, or instantiate it again, on a
 * thread that a replay in flight waits for. */
PH_CALL ph_graph_reset(ph_graph *graph);

/* The pool of the capture: borrowed; retain it to keep it (ph_pool_retain): a handle of a pool
 * that went with its last holder is refused by each call (ARGUMENT). pools: *count pools, at
 * most capacity written (pools may be NULL for 0). */
PH_CALL ph_graph_pool(ph_pool **out, ph_graph *graph);
PH_CALL ph_graph_pools(ph_pool **pools, size_t capacity, size_t *count, const ph_graph *graph);
/* Keeps one more pool for the graph's life; only while capturing. Repeating it is no error. */
PH_CALL ph_graph_retain_pool(ph_graph *graph, ph_pool *pool);

/* The graph whose capture the stream is in: *out is borrowed; NULL where it is in none, or in
 * one that this library did not begin. Legal in every state. For code that is called inside a
 * capture and has no graph: to retain pools and objects. Thread-safe, as far as the graph is
 * used so. */
PH_CALL ph_stream_capturing_graph(ph_graph **out, const ph_stream *stream);

/* Calls release(object) when the graph is reset or destroyed, in order of registration;
 * synchronize: only after every stream that replayed it is done (blocks). Legal in every state. */
typedef void (*ph_release_fn)(void *object);
PH_CALL ph_graph_retain(ph_graph *graph, ph_release_fn release, void *object, bool synchronize);

/* The allocation (ph_malloc's or ph_malloc_pinned's) around address is the graph's from now on:
 * once it is freed it is not used again before the graph is reset or destroyed, and it is no
 * input (inspect/inputs.h). Repeating it is no error. Legal from the capture's begin on; an aborted
 * capture lets go of it. NOT_FOUND: no live allocation of the graph's device. */
PH_CALL ph_graph_hold_memory(ph_graph *graph, const void *address);

/* Writes the template as Graphviz DOT; verbose adds parameters. The file is replaced whole or
 * not at all (IO). Any state that has a record. */
PH_CALL ph_graph_debug_dump(ph_graph *graph, const char *path, bool verbose);

/* What a graph takes, in bytes. */
typedef struct ph_graph_memory {
    /* segments of all its pools; a pool that several graphs share is counted whole in each */
    size_t pool_reserved;
    size_t pool_allocated; /* of them: blocks in use */
    /* of the device: measured around instantiate and upload, so that what other threads or
     * processes took in that moment may be in it; 0 without an executable. defer_upload: 0 until
     * ph_graph_upload, then measured around that upload alone, which finds little to do where a
     * replay came before it. The host device: 0 */
    size_t executable;
    size_t executable_host; /* of the host, as far as the driver can tell */
    /* the template, the record, and the list of the blocks that the capture was given (48 bytes
     * each), of the host, as far as the driver can tell */
    size_t template_host;
    /* pinned host blocks that its copies keep from reuse, and what its breadcrumbs and checks
     * write */
    size_t pinned;
    size_t cells; /* of the device: its cells (cells.h), 512 bytes each */
    uint64_t reserved[5];
} ph_graph_memory;
PH_CALL ph_graph_get_memory(ph_graph_memory *out, ph_graph *graph);

/* ---- nodes ---- indices are the record's (inspect/record.h), valid for the life of the capture.
 * Changes apply to later replays; replays in flight keep what they had. They need an executable
 * (READY); a new instantiate starts again from the template. NOT_FOUND: no such node. ARGUMENT:
 * a node of another kind. set_launch: the kernel stays; config and args replace the old ones
 * whole (config NULL: one block of one thread, as in ph_launch). set_memset: elements of the
 * size that was captured. */
PH_CALL ph_graph_node_set_launch(ph_graph *graph, size_t node, const ph_launch_config *config,
                                 const void *args, size_t args_size);
PH_CALL ph_graph_node_set_memcpy(ph_graph *graph, size_t node, void *dst, const void *src,
                                 size_t bytes);
PH_CALL ph_graph_node_set_memset(ph_graph *graph, size_t node, void *dst, uint32_t value,
                                 size_t count);
PH_CALL ph_graph_node_set_host(ph_graph *graph, size_t node, ph_host_fn fn, void *user);
/* Kernel, memcpy and memset nodes only (UNSUPPORTED otherwise): a disabled node does nothing,
 * and its edges still order the others. What it would have written keeps its old contents. */
PH_CALL ph_graph_node_set_enabled(ph_graph *graph, size_t node, bool enabled);
PH_CALL ph_graph_node_get_enabled(bool *out, ph_graph *graph, size_t node);

/* Gives the executable the parameters of another capture of the same shape. MISMATCH: *out says
 * which node differs and how (ph_graph_update_diff, inspect/diff.h: all that differs); the
 * executable is as it was. out may be NULL. `from` needs a template (ENDED or READY) and stays as
 * it is, but its pools (until the next update) and kernels are retained by graph from now on. */
typedef enum ph_update_reason {
    PH_UPDATE_OK = 0,
    PH_UPDATE_TOPOLOGY = 2, /* CUDA's numbers: counts or dependencies differ */
    PH_UPDATE_NODE_TYPE = 3,
    PH_UPDATE_FUNCTION = 4, /* another kernel where that is not allowed */
    /* a parameter that cannot change (a memset's element size, a copy's kind) */
    PH_UPDATE_PARAMETERS = 5,
    PH_UPDATE_UNSUPPORTED = 6
} ph_update_reason;
typedef struct ph_update_result {
    ph_update_reason reason;
    size_t node, from_node; /* record indices; SIZE_MAX when no single node is to blame */
    char message[256];
    uint64_t reserved[4];
} ph_update_result;
PH_CALL ph_graph_update(ph_graph *graph, ph_graph *from, ph_update_result *out);

/* ---- epochs ---- every replay that may write a pool advances the pool's epoch. epoch: that of
 * the graph's last replay, 0 before any. check_output: OVERWRITTEN when a later replay, of this
 * graph or of one that shares its pool, may have written the memory at address (it belongs to
 * that graph's capture): the message names both. NOT_FOUND: address is not memory of this
 * graph's pools. Raw launches are outside the promise. */
PH_API uint64_t ph_graph_epoch(const ph_graph *graph);
PH_CALL ph_graph_check_output(ph_graph *graph, const void *address, uint64_t epoch);

/* What check_input_liveness does at each replay, on demand, for any graph that has a record. */
PH_CALL ph_graph_check_inputs(ph_graph *graph);

/* ---- hooks ---- graph NULL: for every graph of the process; those run first, and their
 * failures are logged and swallowed. A failing hook of one graph: capture_prepare and
 * capture_start fail the begin, capture_end and instantiate fail that call (the graph is
 * FAILED), replay_start stops the replay before the launch; failures of replay_end and destroy
 * are logged. replay_end runs even when the launch failed. No lock is held. */
typedef enum ph_graph_hook_point {
    PH_HOOK_CAPTURE_START = 1, /* the capture is live: submitted work is captured */
    PH_HOOK_CAPTURE_END = 2,   /* the template and the record exist, whatever keep_graph says */
    PH_HOOK_INSTANTIATE = 3,   /* the executable exists; before the template is hidden */
    PH_HOOK_REPLAY_START = 4,
    PH_HOOK_REPLAY_END = 5,
    /* reset or destroy of a graph that had an executable; exec_id says which */
    PH_HOOK_DESTROY = 6,
    /* before a capture begins, which nothing has refused so far: for what must not be made for
     * the first time inside one (handles, workspaces, code). The graph has nothing yet */
    PH_HOOK_CAPTURE_PREPARE = 7
} ph_graph_hook_point;
typedef struct ph_graph_hook_info {
    ph_graph_hook_point point;
    ph_graph *graph;
    ph_stream *stream; /* capture or replay stream; NULL for instantiate and destroy */
    /* unique in the process; new at each instantiate; 0 when there is no executable */
    uint64_t exec_id;
    uint64_t reserved[4];
} ph_graph_hook_info;
typedef ph_status (*ph_graph_hook_fn)(const ph_graph_hook_info *info, void *user);
typedef struct ph_hook ph_hook;
PH_CALL ph_graph_hook_add(ph_hook **out, ph_graph *graph, ph_graph_hook_point point,
                          ph_graph_hook_fn fn, void *user);
PH_API void ph_graph_hook_remove(ph_hook *hook); /* takes NULL; also after its graph is gone */

PH_END_DECLS
#endif
