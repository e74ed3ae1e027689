/* SPDX-License-Identifier: MIT */
/* phonograph/graph.h: the graph object: capture work once, replay it with one launch.
 * docs/reference/graph-states.md has the table of every call in every state. A refused call leaves
 * the graph as it was. */
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
    /* the capture failed; calls return its status and message until reset, a new capture STATE */
    PH_GRAPH_FAILED = 4
} ph_graph_state;

typedef struct ph_graph_options {
    /* the template stays visible: instantiate, raw handles and debug_dump are legal at any time,
     * and CUDA's own calls may edit the template */
    bool keep_graph;
    /* The executable is made without an upload to the device, so that many graphs are ready sooner.
     * - ph_graph_upload uploads it. Otherwise the first replay does, and takes longer than later
     *   ones, or the first change of a node, slot or update, before it, and waits for that.
     * - An upload can fail for lack of device memory. Without this option, capture and instantiate
     *   report that failure. */
    bool defer_upload;
    uint64_t reserved[4];
} ph_graph_options;

/* A graph is externally synchronised: one thread at a time uses it, except where a call says
 * otherwise. Its device is the device of its capture stream. */
PH_CALL ph_graph_create(ph_graph **out, const ph_graph_options *options);
/* Resets the graph first. An open capture is aborted, with a warning to the log. Legal while
 * replays are in flight; a GPU's driver may wait for them (see ph_graph_reset). Takes NULL. */
PH_API void ph_graph_destroy(ph_graph *graph);
PH_API ph_graph_state ph_graph_get_state(const ph_graph *graph);

typedef struct ph_capture_options {
    ph_pool *pool; /* pool of the capture's allocations; NULL: a new pool */
    ph_capture_mode mode;
    /* Every replay first checks that the memory which the nodes address is still allocated
     * (docs/reference/liveness.md).
     * - The replay is refused where a word is a proved address: typed parameters, copies, fills,
     *   slots, ph_stream_declare_use.
     * - Otherwise the replay warns. */
    bool check_input_liveness;
    /* nodes get the pairs of the annotation scopes that they were captured in (annotation.h) */
    bool enable_annotations;
    /* with enable_annotations: adds nodes that report how far a replay came (inspect/locate.h) */
    bool breadcrumbs;
    /* first synchronizes the device and trims its caches, as torch.cuda.graph does on entry;
     * blocks */
    bool prepare;
    /* How often check_input_liveness asks the driver about memory that other code allocated.
     * - 0: once in 64 replays; 1: at each replay; UINT32_MAX: never; n: once in n replays.
     * - ARGUMENT: not 0, without check_input_liveness. */
    uint32_t check_foreign_every;
    /* The capture fails where its end would otherwise warn.
     * - UNPINNED: other code submitted a copy or fill of pageable host memory. A replay would read
     *   or overwrite the contents of that moment. Devices that can address pageable memory refuse
     *   it too.
     * - STATE: the graph is empty, or the function left annotation scopes open.
     * - A call that failed while the function went on, and work that ran at once on a stream in no
     *   capture, are warnings here too.
     * - ph_graph_import_cuda applies the rule about copies too. It is also refused (STATE) where a
     *   node addresses memory of this library that was freed before the import. */
    bool strict;
    /* this capture is compared with others, so that PH_DEBUG=breadcrumbs adds no nodes to it
     * (docs/reference/debugging.md); other switches hold */
    bool compared;
    /* The record is made at the end of the capture, not when somebody asks (inspect/record.h). For
     * programs that unload modules whose kernels are in the graph (cuModuleUnload, dlclose), or
     * that read the record of a device that is lost. */
    bool record_at_end;
    /* ph_break (breaks.h) is legal in the capture, which may then become several segments. A graph
     * that was captured with breaks cannot become a child graph, and has no slots or updates of its
     * own. */
    bool allow_breaks;
    /* The capture does not call the functions of its breaks: replays alone do. For captures whose
     * first replay follows, so that effects of the functions come once. ARGUMENT without
     * allow_breaks. */
    bool defer_breaks;
    /* The memory of the capture is planned (docs/reference/memory-plan.md): body runs twice, and
     * the second run gets each block at an offset that the first one's graph allows.
     * - For ph_graph_capture alone (else ARGUMENT): a begin has no function to run again. Not with
     *   allow_breaks (ARGUMENT).
     * - body releases what its run before left, and asks for the same blocks in the same order.
     *   After another order it runs a third time, without a plan, with a warning.
     * - Without `pool`, a first run whose memory has no gaps stays, and is the only one.
     * - Implies prepare: what eager work has cached goes back to the device first. */
    bool plan;
    /* For ph_graph_import_cuda alone (else ARGUMENT): the scopes of its nodes (annotation.h); NULL:
     * none. Read during the call. */
    const struct ph_import_scopes *scopes;
    uint64_t reserved[1];
} ph_capture_options;

/* Captures the work that body submits to stream, and to streams that join the capture by events.
 * Then instantiates, unless keep_graph is set.
 * - A failure of body aborts the capture. It is returned, and its error record is untouched, but
 *   that a record from before the capture is replaced.
 * - A capture is a transaction: after any failure, stream, routing, pools and graph are as before,
 *   and the stream can capture again at once. Blocks that body received stay valid until they are
 *   freed.
 * - Warnings, unless strict: an empty capture, and copies of pageable host memory by other code.
 * - Warnings, strict or not: a call that failed in body although body succeeds, and work that this
 *   thread submitted to a stream which is in no capture: that runs at once
 *   (docs/reference/capture-rules.md).
 * - Begin never synchronizes. It waits while another thread is inside ph_memcpy between pageable
 *   memory and this stream.
 * - Errors: STATE (see the table), DEFAULT_STREAM, POOL_BUSY, WRONG_DEVICE, CAPTURE (401: the
 *   stream is capturing already; 900 to 908).
 * - A C++ exception out of body aborts the capture, and goes on (docs/reference/errors.md).
 * - longjmp out of body is forbidden. After one, abort, reset and destroy give the stream back. */
typedef ph_status (*ph_capture_fn)(ph_stream *stream, void *user);
PH_CALL ph_graph_capture(ph_graph *graph, ph_stream *stream, const ph_capture_options *options,
                         ph_capture_fn body, void *user);

/* The open form of ph_graph_capture.
 * - end with a body other than PH_OK aborts the capture. It returns body, and leaves the error
 *   record as ph_graph_capture does.
 * - Threads: unless the mode is relaxed, the thread of begin must call end. Another thread gets
 *   CAPTURE, 908: the graph is FAILED, and the captured work is lost. The stream stays in the
 *   capture until its owner ends it, or any thread aborts, resets or destroys the graph. */
PH_CALL ph_graph_capture_begin(ph_graph *graph, ph_stream *stream,
                               const ph_capture_options *options);
PH_CALL ph_graph_capture_end(ph_graph *graph, ph_status body);
/* Ends and drops the capture of a CAPTURING graph, which is then NEW. Otherwise does nothing. */
PH_API void ph_graph_capture_abort(ph_graph *graph);

/* Makes the executable of the template, or makes it again. Needs keep_graph; otherwise the end of
 * the capture made it.
 * - An edited template is read again: its handle was given out (ph_graph_cuda), and CUDA's own
 *   calls edited it since. Record, dumps, inputs, kernels and node indices are then those of the
 *   edited template. A record from ph_graph_record before is gone. Nodes that remain keep their
 *   annotations.
 * - STATE, and nothing changes: the edit removed a node that the library added (cells, breadcrumbs,
 *   checks), or moved a node that has places of slots. */
PH_CALL ph_graph_instantiate(ph_graph *graph);

/* Uploads the executable of a graph with defer_upload, asynchronously, on a stream of the graph's
 * device.
 * - Earlier work of the stream runs first. Later replays on any stream wait for the upload, and
 *   cost as much as without defer_upload.
 * - An executable that is uploaded already is not uploaded again. The call then only checks for the
 *   errors below. The host device uploads nothing.
 * - ENDED: instantiates first.
 * - A failure leaves the executable usable: the first replay uploads it.
 * - ARGUMENT: NULL, or a destroyed stream. STATE: nothing was captured, or the capture is open.
 *   FAILED: the capture's own status and message. WRONG_DEVICE, DEVICE_MEMORY.
 * - CAPTURE: the stream is capturing (900), or is the legacy default stream while a blocking stream
 *   captures (906). The capture goes on. */
PH_CALL ph_graph_upload(ph_graph *graph, ph_stream *stream);
/* ph_graph_upload of each, in that order, with one question after the device's free memory between
 * two uploads, and one event behind all of them.
 * - ENDED: all of those are instantiated first, and their hooks run before the first upload.
 * - The first failure ends it. The message says which graph, where it is one's. The graphs before
 *   it may be uploaded. All stay usable, but one that a failed instantiation left FAILED.
 * - count 0: checks the stream alone. A graph may be there twice. */
PH_CALL ph_graph_upload_all(ph_graph *const *graphs, size_t count, ph_stream *stream);

/* Launches the whole graph, asynchronously, on any stream of its device.
 * - ENDED: instantiates first.
 * - Replays of one graph, and of graphs that share a pool, are ordered, also across streams.
 * - On a capturing stream nothing runs. A copy of the template becomes one child-graph node of that
 *   capture. Nodes that were set, enabled or updated since are there as captured. The capturing
 *   graph keeps the pools and kernels of this one. No replay hook runs. Nodes of graphs that share
 *   a pool are ordered, on all streams of the capture.
 * - STATE on a capturing stream: the graph writes memory of a shared pool that the capture was
 *   given and has not freed. The capture goes on.
 * - Errors: FAILED (the capture's own status and message), STALE_INPUT (check_input_liveness),
 *   WRONG_DEVICE.
 * - Threads: thread-safe against other graphs. */
PH_CALL ph_graph_replay(ph_graph *graph, ph_stream *stream);

/* Drops template, executable, pool references and registrations of this capture. The object can
 * capture again.
 * - Live blocks of its pool stay valid.
 * - CAPTURING: aborts the capture.
 * - The library waits for nothing, except for retained objects that asked for it.
 * - A GPU's driver may wait for launches of the executable that are in flight. NVIDIA's 580 does
 *   so, not always, for a launch behind a host function. So a thread that a replay in flight waits
 *   for must not reset, destroy or instantiate the graph. */
PH_CALL ph_graph_reset(ph_graph *graph);

/* The pool of the capture, borrowed; ph_pool_retain keeps it. Every call refuses the handle of a
 * pool whose last holder is gone (ARGUMENT). pools writes at most capacity pools, and sets *count
 * to their number; pools may be NULL for capacity 0. */
PH_CALL ph_graph_pool(ph_pool **out, ph_graph *graph);
PH_CALL ph_graph_pools(ph_pool **pools, size_t capacity, size_t *count, const ph_graph *graph);
/* Retains one more pool for the life of the graph. Legal only while it is capturing. A repeated
 * call is no error. */
PH_CALL ph_graph_retain_pool(ph_graph *graph, ph_pool *pool);

/* The graph whose capture the stream is in, borrowed. NULL: the stream is in no capture, or in a
 * capture that this library did not begin. Code that runs inside a capture uses it to retain pools
 * and objects. Legal in every state. Thread-safe, as far as the graph is used so. */
PH_CALL ph_stream_capturing_graph(ph_graph **out, const ph_stream *stream);

/* Calls release(object) when the graph is reset or destroyed, in order of registration.
 * - Graphs that run a copy of its nodes (replayed into their capture, ph_graph_update) hold the
 *   object too: then it is released at the reset of the last of them.
 * - synchronize: first waits for every stream that replayed the graph (blocks). Inside of a host
 *   function of a host device a thread of the library's does both.
 * - Legal in every state. Several threads may call it for one capture. */
typedef void (*ph_release_fn)(void *object);
PH_CALL ph_graph_retain(ph_graph *graph, ph_release_fn release, void *object, bool synchronize);

/* Gives the allocation around address to the graph. The allocation is one of ph_malloc or
 * ph_malloc_pinned.
 * - Once freed, its memory is not used again before the graph is reset or destroyed. It is no input
 *   (inspect/inputs.h).
 * - Legal from the begin of the capture on. An aborted capture releases it. A repeated call is no
 *   error.
 * - NOT_FOUND: no live allocation of the graph's device. */
PH_CALL ph_graph_hold_memory(ph_graph *graph, const void *address);

/* Writes the template as Graphviz DOT; verbose adds parameters. The file is replaced whole or not
 * at all (IO). Legal in any state that has a record. */
PH_CALL ph_graph_debug_dump(ph_graph *graph, const char *path, bool verbose);

/* Memory of a graph, in bytes. */
typedef struct ph_graph_memory {
    /* segments of all its pools; each graph counts a shared pool in full */
    size_t pool_reserved;
    size_t pool_allocated; /* the part of pool_reserved that blocks in use take */
    /* Device memory of the executable; 0 without an executable, and on the host device.
     * - Measured around instantiate and upload. Memory that other threads or processes allocate at
     *   that moment may be included.
     * - defer_upload: 0 until ph_graph_upload, or a change, then measured around that upload alone;
     *   0 where the first replay uploaded. */
    size_t executable;
    size_t executable_host; /* host memory of the executable, as far as the driver reports it */
    /* host memory of the template, the record once it is made, and the capture's allocation log (48
     * bytes for each block), as far as the driver reports it; also of the template that the last
     * ph_graph_update was given, which is kept where nobody has read it */
    size_t template_host;
    /* pinned host blocks that its copies keep from reuse, and the words that its breadcrumbs and
     * checks write */
    size_t pinned;
    size_t cells; /* device memory of its cells (cells.h), 512 bytes each */
    /* With `plan`: the bytes in which the planned blocks lie (0: there is no plan), and the largest
     * sum of the blocks that was alive at once (0: a plan ended, or none was asked for). */
    size_t planned, plan_bound;
    const char *plan_ended; /* why there is none although it was asked for; static. NULL: none */
    uint64_t reserved[2];
} ph_graph_memory;
PH_CALL ph_graph_get_memory(ph_graph_memory *out, ph_graph *graph);

/* ---- nodes ---- Change one node of the executable. Indices are the record's (inspect/record.h),
 * valid for the life of the capture.
 * - Changes apply to later replays. Replays in flight keep the old values.
 * - The graph needs an executable (READY). A new instantiate starts again from the template.
 * - set_launch keeps the kernel. config and args replace the old ones whole. config NULL: one block
 *   of one thread, as in ph_launch.
 * - set_memset takes elements of the captured size.
 * - NOT_FOUND: no such node. ARGUMENT: a node of another kind. */
PH_CALL ph_graph_node_set_launch(ph_graph *graph, size_t node, const ph_launch_config *config,
                                 const void *args, size_t args_size);
PH_CALL ph_graph_node_set_memcpy(ph_graph *graph, size_t node, void *dst, const void *src,
                                 size_t bytes);
PH_CALL ph_graph_node_set_memset(ph_graph *graph, size_t node, void *dst, uint32_t value,
                                 size_t count);
PH_CALL ph_graph_node_set_host(ph_graph *graph, size_t node, ph_host_fn fn, void *user);
/* Switches a kernel, memcpy or memset node on or off; other kinds: UNSUPPORTED. A disabled node
 * does nothing, and its edges still order the others. Memory that it would have written keeps its
 * old contents. */
PH_CALL ph_graph_node_set_enabled(ph_graph *graph, size_t node, bool enabled);
PH_CALL ph_graph_node_get_enabled(bool *out, ph_graph *graph, size_t node);

/* Gives the executable the parameters of another capture of the same shape.
 * - MISMATCH: the executable is as before. *out has the node that differs and the reason; out may
 *   be NULL. ph_graph_update_diff (inspect/diff.h) has all differences.
 * - `from` needs a template (ENDED or READY), and stays as it is. graph retains its kernels and
 *   objects (ph_graph_retain) until reset, and its pools until the next update. */
typedef enum ph_update_reason {
    PH_UPDATE_OK = 0,
    PH_UPDATE_TOPOLOGY = 2, /* CUDA's numbers: counts or dependencies differ */
    PH_UPDATE_NODE_TYPE = 3,
    PH_UPDATE_FUNCTION = 4, /* another kernel where that is not allowed */
    /* a parameter that cannot change: a memset's element size, a copy's kind */
    PH_UPDATE_PARAMETERS = 5,
    PH_UPDATE_UNSUPPORTED = 6
} ph_update_reason;
typedef struct ph_update_result {
    ph_update_reason reason;
    size_t node, from_node; /* record indices; SIZE_MAX: no single node is the cause */
    char message[256];
    uint64_t reserved[4];
} ph_update_result;
PH_CALL ph_graph_update(ph_graph *graph, ph_graph *from, ph_update_result *out);

/* ---- epochs ---- Every replay that may write a pool advances the epoch of the pool.
 * - epoch: the epoch of the graph's last replay; 0 before any.
 * - check_output asks whether address, in memory of the graph's capture, still has the result of
 *   the replay with this epoch. OVERWRITTEN: a later replay of this graph, or of a graph that
 *   shares its pool, may have written it; the message names both.
 * - NOT_FOUND: address is not memory of this graph's pools.
 * - Launches of raw handles are not counted. */
PH_API uint64_t ph_graph_epoch(const ph_graph *graph);
PH_CALL ph_graph_check_output(ph_graph *graph, const void *address, uint64_t epoch);

/* Makes the check of check_input_liveness once, for any graph that has a record. */
PH_CALL ph_graph_check_inputs(ph_graph *graph);

/* ---- hooks ---- Callbacks at points of a graph's life. No lock is held.
 * - graph NULL: a hook of the process, for every graph. It runs first. Its failure is logged and
 *   ignored.
 * - A failing hook of one graph: capture_prepare and capture_start fail the begin. capture_end and
 *   instantiate fail that call, and the graph is FAILED. replay_start stops the replay before the
 *   launch.
 * - Failures of replay_end and destroy are logged. replay_end runs even when the launch failed. */
typedef enum ph_graph_hook_point {
    PH_HOOK_CAPTURE_START = 1, /* the capture is live: submitted work is captured */
    PH_HOOK_CAPTURE_END = 2,   /* the template and the record exist, whatever keep_graph says */
    PH_HOOK_INSTANTIATE = 3,   /* the executable exists; before the template is hidden */
    PH_HOOK_REPLAY_START = 4,
    PH_HOOK_REPLAY_END = 5,
    /* reset or destroy of a graph that had an executable; exec_id identifies it */
    PH_HOOK_DESTROY = 6,
    /* Before a capture begins, once no check has refused it. For objects that must exist before a
     * capture: handles, workspaces, code. The graph has nothing yet. */
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
PH_API void ph_graph_hook_remove(ph_hook *hook); /* Takes NULL. Legal after the graph is gone. */

PH_END_DECLS
#endif
