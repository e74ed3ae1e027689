/* SPDX-License-Identifier: MIT */
/* driver/host/device/host.h: the insides of the host device: what its files share.
 *
 * Streams are queues of commands; each stream has a thread of its own that runs them in order
 * (started at the first command), so that a host function that blocks holds up its stream alone.
 * Order between streams is made of markers: a stream signals one and others wait for it. Under
 * chaos one scheduler thread runs all streams, in an order that the seed decides.
 *
 * Locks, in the order in which they may be taken: an executable's, capture_lock (all capture
 * state of the device), streams_lock, then one of the short ones (an event's, memory_lock,
 * chaos', and the spin locks of queues and of recycling), which nest in nothing. None is held
 * while user code runs. */
#ifndef PH_DRIVER_HOST_DEVICE_HOST_H
#define PH_DRIVER_HOST_DEVICE_HOST_H
#include "base/range_map.h"
#include "base/rng.h"
#include "base/sync.h"
#include "base/vec.h"
#include "driver/driver.h"
#include "driver/host/exec/plan.h"
#include "driver/host/exec/workers.h"
#include "driver/rules.h"

typedef struct ph__host_device ph__host_device;
typedef struct ph__host_stream ph__host_stream;
typedef struct ph__host_event ph__host_event;
typedef struct ph__host_kernel ph__host_kernel;
typedef struct ph__host_capture ph__host_capture; /* host_capture.c */
typedef struct ph__host_chaos ph__host_chaos;     /* host_chaos.c */
typedef struct ph__host_exec ph__host_exec;

/* What the next node of a stream depends on. The array is the graph's, never changes in [0,
 * count), and lives as long as it; block: private to host_graph.c. Zero is the empty set; sets
 * are copied by assignment and need no freeing. */
typedef struct ph__host_node_set {
    ph__drv_node *const *at;
    size_t count;
    struct ph__host_set_block *block;
} ph__host_node_set;

/* ---- markers (host_marker.c): "the work up to here is done". Counted; signalled once. ---- */
typedef struct ph__host_marker ph__host_marker;
/* create: NULL when out of memory. signal: once; takes the time, wakes who waits; the caller
 * keeps its reference. wait: blocks the calling thread (under chaos: the scheduler runs until
 * then). */
ph__host_marker *ph__host_marker_create(ph__host_device *device);
void ph__host_marker_signal(ph__host_marker *marker);
ph__host_marker *ph__host_marker_retain(ph__host_marker *marker);
void ph__host_marker_release(ph__host_marker *marker);
bool ph__host_marker_done(const ph__host_marker *marker);
uint64_t ph__host_marker_time(const ph__host_marker *marker); /* ns at which it was signalled */
void ph__host_marker_wait(ph__host_marker *marker);
/* Those that other devices still hold at close outlive the device. */
typedef struct ph__host_marker_pool ph__host_marker_pool;
ph__host_marker_pool *ph__host_marker_pool_create(void);
void ph__host_marker_pool_close(ph__host_marker_pool *pool); /* takes NULL */

/* ---- commands ---- embedded first in what they run; the stream owns it until run returns,
 * which may free or recycle it. */
typedef struct ph__host_command ph__host_command;
struct ph__host_command {
    void (*run)(ph__host_command *command); /* on the stream's thread, no lock held; may block */
    ph__host_command *next;
    ph__host_marker *wait, *signal; /* the stream's own; run is NULL for those two kinds */
};

/* Order against the legacy default stream (host_legacy.c), and a thread for the queue: to be
 * called before submitting work. 0 or 2. */
int ph__host_stream_enter(ph__host_stream *stream);
/* The first half of it alone, for work that may end up running inline. */
int ph__host_stream_order(ph__host_stream *stream);
/* Appends. Never fails, allocates nothing; the stream was entered before. Returns the command's
 * number, for ph__host_stream_wait. */
unsigned ph__host_stream_submit(ph__host_stream *stream, ph__host_command *command);
/* Makes the stream wait for / signal a marker (which it retains). 2 when out of memory. */
int ph__host_stream_wait_marker(ph__host_stream *stream, ph__host_marker *marker);
int ph__host_stream_signal_marker(ph__host_stream *stream, ph__host_marker *marker);
/* When the stream is idle (nothing queued or running, not under chaos): marks it busy and
 * returns true; the caller then runs its work itself and calls leave_inline. Work that others
 * submit meanwhile queues behind it. */
bool ph__host_stream_try_inline(ph__host_stream *stream);
void ph__host_stream_leave_inline(ph__host_stream *stream);

/* Command number `last` and all before it are done; wait blocks until then. */
bool ph__host_stream_done(ph__host_stream *stream, unsigned last);
void ph__host_stream_wait(ph__host_stream *stream, unsigned last);
void ph__host_streams_wait(ph__host_device *device); /* all work submitted before to any stream */

/* Recycled memory for a stream's commands, PH__HOST_COMMAND_BYTES each, contents undefined. NULL
 * when out of memory. */
enum {
    PH__HOST_COMMAND_BYTES = 448
};
void *ph__host_command_take(ph__host_stream *stream);
void ph__host_command_finish(ph__host_stream *stream, void *command); /* by its run function */
void ph__host_command_drop(ph__host_stream *stream, void *command);   /* it was never submitted */

/* One step of the chaos scheduler on this stream: runnable: it has a command that needs not
 * wait; run_one runs that. */
bool ph__host_stream_runnable(ph__host_stream *stream);
void ph__host_stream_run_one(ph__host_stream *stream);

/* Scratch for shared memory: one slice per thread of the device. reserve: commands submitted
 * from now on find `bytes` of it. 0 or 2. */
int ph__host_stream_reserve_scratch(ph__host_stream *stream, size_t bytes);
typedef struct ph__host_scratch ph__host_scratch; /* host_scratch.c */
typedef struct ph__host_slices {
    unsigned char *at; /* 64-byte aligned; NULL when there is none */
    size_t stride;
} ph__host_slices;
/* for the running command */
ph__host_slices ph__host_stream_scratch(const ph__host_stream *stream);

/* stop: the thread ends when the work is done. free: waits for that. For device_close and
 * reaping. */
void ph__host_stream_stop(ph__host_stream *stream);
void ph__host_stream_free(ph__host_stream *stream);

struct ph__host_device {
    ph__drv_device_options options; /* zeros replaced by what they stand for */
    ph__workers *workers;           /* NULL under chaos */
    ph__host_chaos *chaos;          /* NULL unless a seed was given */
    ph__host_stream *legacy;
    unsigned processors;
    /* pauses before a waiting thread sleeps; 0 where processors are short */
    unsigned spins;
    atomic_uint spinning;         /* stream threads that do so */
    pthread_mutex_t streams_lock; /* streams, their numbers and what streams say of themselves */
    /* in order of creation; destroyed ones until their work is done */
    PH__VEC(ph__host_stream *) streams;
    size_t destroyed_streams; /* how many of them are */
    uint64_t last_stream_id;
    ph__host_marker_pool *markers;
    atomic_int live_handles; /* streams, events, kernels, graphs, executables: 0 at close */

    pthread_mutex_t memory_lock;
    ph__range_map segments, pinned, plain; /* value: the buffer id, as a pointer-sized number */
    uint64_t memory_used;

    _Atomic(ph__host_kernel *) kept_kernels; /* until the device closes */

    pthread_mutex_t capture_lock;
    PH__VEC(ph__host_capture *) captures; /* open ones, invalidated ones included */
    atomic_uint open_captures;            /* their number, readable without the lock */
};

struct ph__host_stream {
    ph__host_device *device;
    int flags, priority;
    bool is_legacy;
    /* queue: host_queue.c. Commands are numbered from 1, wrapping; `running`: somebody owns the
     * right to run them. Paddings keep what the runner writes and what others write on lines of
     * their own. */
    char apart_1[64];
    ph__spinlock lock;
    bool running, exited;
    atomic_bool stopping, has_thread;
    atomic_uint submitted, sleeping;
    _Atomic(ph__host_command *) head; /* written under lock */
    ph__host_command *tail, *spare_commands;
    unsigned spare_count;
    size_t scratch_promised;
    char apart_2[64];
    atomic_uint completed, waiters;
    /* the runner's own: on their way to the spare ones */
    ph__host_command *finished, *finished_last;
    unsigned finished_count;
    ph__host_scratch *scratch; /* of the running command */
    char apart_3[64];
    pthread_t thread;
    /* under streams_lock */
    uint64_t id;
    unsigned users; /* threads that wait for it in ph__host_streams_wait */
    bool destroyed;
    /* implicit order: the last number that the legacy stream waits for */
    unsigned given_to_legacy;
    /* the last number of the legacy stream that this one waits for */
    atomic_uint taken_from_legacy;
    /* capture: host_capture.c, under capture_lock; `capturing` may be read without it */
    atomic_bool capturing; /* in a capture, active or invalidated */
    ph__host_capture *capture;
    ph__host_node_set terminals; /* what the next node depends on */
};

struct ph__host_event {
    ph__host_device *device;
    int flags;
    pthread_mutex_t lock;
    ph__host_marker *marker; /* the last record; NULL: never recorded */
    /* recorded in a capture: its id and the stream's nodes then; 0: outside. Under capture_lock;
     * the id may be read without it. */
    _Atomic uint64_t capture_id;
    ph__host_node_set captured;
    atomic_int references; /* event nodes and the handle */
};

struct ph__host_kernel {
    ph__host_device *device;
    atomic_int references; /* the handle, submitted launches, nodes, the device when it is kept */
    atomic_bool kept;
    ph__host_kernel *next_kept;
    char *name;
    ph_host_kernel_fn fn;
    size_t args_size;
    bool brief; /* ph_kernel_source.host_brief */
};
void ph__host_kernel_retain(ph__host_kernel *kernel);
void ph__host_kernel_release(
    ph__host_kernel *kernel); /* what retain took; handles go through kernel_destroy */
void ph__host_kernels_drop_kept(ph__host_device *device); /* at close */
void ph__host_event_retain(ph__host_event *event);
void ph__host_event_release(ph__host_event *event);
/* Makes marker (retained) the event's last record, outside any capture. */
void ph__host_event_set_marker(ph__host_event *event, ph__host_marker *marker);
ph__host_marker *
ph__host_event_marker(ph__host_event *event); /* retained for the caller; NULL: never recorded */

enum {
    PH__HOST_SHARED_BYTES = 232448 /* that a block can have, as on an H200 */
};
/* CUDA's limits: 0 or 1, with a reason. */
int ph__host_check_launch(const ph__host_kernel *kernel, const ph__drv_launch *launch);
/* Runs all blocks of a grid: on the calling thread, helped by the workers when it proves long;
 * under chaos in random pieces. */
void ph__host_run_grid(ph__host_device *device, const ph__host_kernel *kernel,
                       const ph__drv_launch *launch, ph__host_slices scratch);

ph__memory_kind ph__host_memory_kind(ph__host_device *device, const void *address);
void ph__host_memory_free_all(ph__host_device *device); /* at close */

/* Work as functions of a kernel's shape, for eager commands and plans alike (host_work.c). args:
 * ph__drv_memcpy, ph__drv_memset, ph__drv_host. */
void ph__host_copy_fn(const ph_block_range *range, const void *args);
void ph__host_fill_fn(const ph_block_range *range, const void *args);
void ph__host_crumb_fn(const ph_block_range *range, const void *args);
void ph__host_finite_fn(const ph_block_range *range, const void *args);
void ph__host_host_fn(const ph_block_range *range, const void *args);
void ph__host_empty_fn(const ph_block_range *range, const void *args);

/* ---- capture (host_capture.c), for the files that submit work ---- */

/* Applies a rule of the table for the calling thread to every open capture of the device: those
 * that it offends are invalidated, and the number returned; 0: go on. Cheap when no capture is
 * open. */
int ph__host_rule(ph__host_device *device, ph__rule rule);
/* For rows that speak of one capture: `own` is applied to the capture that the stream is in (the
 * event was recorded in, when that one is still open), `other` to every other open capture.
 * own's number is returned before other's. */
int ph__host_rule_stream(ph__host_stream *stream, ph__rule own, ph__rule other);
int ph__host_rule_event(ph__host_event *event, ph__rule own, ph__rule other);
/* The same for work on the legacy default stream: 906 where a blocking stream captures (rule: the
 * _LEGACY_BLOCKING row). */
int ph__host_rule_legacy(ph__host_device *device, ph__rule rule);
ph_capture_mode ph__host_thread_mode(void);

/* Records one node on a capturing stream, depending on the stream's terminals, and makes it the
 * only terminal. The graph keeps copies of the parameters and retains kernel or event. 901: the
 * capture is invalidated; 2: out of memory (capture unchanged). 401: not capturing. */
int ph__host_record_kernel(ph__host_stream *stream, ph__host_kernel *kernel,
                           const ph__drv_launch *launch);
int ph__host_record_copy(ph__host_stream *stream, const ph__drv_memcpy *copy, uint64_t *capture_id);
int ph__host_record_fill(ph__host_stream *stream, const ph__drv_memset *fill);
int ph__host_record_host(ph__host_stream *stream, const ph__drv_host *host);
int ph__host_record_event_node(ph__host_stream *stream, ph__host_event *event, bool wait);

/* event_record on a capturing stream, and stream_wait_event where the event or the stream is in
 * a capture (else *handled = false and nothing was done). */
int ph__host_capture_event_record(ph__host_event *event, ph__host_stream *stream);
int ph__host_capture_wait(bool *handled, ph__host_stream *stream, ph__host_event *event, int flags);
/* True when the event's last record was in a capture (open or over); then event queries are 907. */
bool ph__host_event_captured(ph__host_event *event);
/* A stream that is in a capture is being destroyed: the capture is invalidated and the stream
 * leaves it. */
void ph__host_capture_stream_gone(ph__host_stream *stream);

/* Chaos (host_chaos.c): one thread runs the commands of all streams, one at a time, in an order
 * that the seed decides. It runs while somebody waits, and when nothing was submitted for a
 * while; a program of one thread therefore sees the same order each time. */
ph__host_chaos *ph__host_chaos_create(ph__host_device *device, uint64_t seed);
void ph__host_chaos_destroy(ph__host_chaos *chaos);   /* takes NULL; all streams are idle */
void ph__host_chaos_submitted(ph__host_chaos *chaos); /* a stream has new work */
/* Runs until done(context), which is asked on the scheduler's thread. On that thread itself it
 * runs other streams meanwhile. */
void ph__host_chaos_wait(ph__host_chaos *chaos, bool (*done)(void *context), void *context);
/* For queries: runs a few commands, or none, as the seed says, and waits a moment for them. */
void ph__host_chaos_query(ph__host_chaos *chaos);
ph__rng *ph__host_chaos_rng(ph__host_chaos *chaos); /* on the scheduler thread only */

/* The driver's entries, put into ph__driver_host by host_driver.c. */
int ph__host_device_open(ph__drv_device **out, uint32_t ordinal,
                         const ph__drv_device_options *options);
void ph__host_device_close(ph__drv_device *device);
int ph__host_device_info(ph__drv_device_info *out, ph__drv_device *device);
int ph__host_device_synchronize(ph__drv_device *device);
ph__drv_stream *ph__host_stream_default(ph__drv_device *device);
int ph__host_stream_create(ph__drv_stream **out, ph__drv_device *device, int flags, int priority);
void ph__host_stream_destroy(ph__drv_stream *stream);
int ph__host_stream_synchronize(ph__drv_stream *stream);
int ph__host_stream_wait_idle(ph__drv_stream *stream);
int ph__host_stream_query(ph__drv_stream *stream);
int ph__host_stream_wait_event(ph__drv_stream *stream, ph__drv_event *event, int flags);
int ph__host_stream_wrap(ph__drv_stream **out, ph__drv_device *device, void *native, int *priority,
                         int *flags);
int ph__host_stream_ordinal(uint32_t *ordinal, void *native);
int ph__host_event_create(ph__drv_event **out, ph__drv_device *device, int flags);
void ph__host_event_destroy(ph__drv_event *event);
int ph__host_event_record(ph__drv_event *event, ph__drv_stream *stream, int flags);
int ph__host_event_query(ph__drv_event *event);
int ph__host_event_synchronize(ph__drv_event *event);
int ph__host_event_elapsed(float *milliseconds, ph__drv_event *start, ph__drv_event *end);
int ph__host_segment_create(void **out, ph__drv_device *device, size_t bytes);
void ph__host_segment_destroy(ph__drv_device *device, void *address, size_t bytes);
int ph__host_plain_alloc(void **out, ph__drv_device *device, size_t bytes);
int ph__host_plain_free(ph__drv_device *device, void *address);
int ph__host_pinned_alloc(void **out, ph__drv_device *device, size_t bytes);
int ph__host_pinned_free(ph__drv_device *device, void *address);
int ph__host_pointer_mapped(uintptr_t *base, size_t *bytes, ph__drv_device *device,
                            const void *address);
int ph__host_pointer_info(ph__drv_pointer *out, ph__drv_device *device, const void *address);
int ph__host_kernel_create(ph__drv_kernel **out, ph__drv_device *device,
                           const ph_kernel_source *source);
void ph__host_kernel_destroy(ph__drv_kernel *kernel);
int ph__host_kernel_wrap(ph__drv_kernel **out, ph__drv_device *device, void *native,
                         size_t *args_size, const char **name);
int ph__host_kernel_cells(ph__drv_kernel **out, ph__drv_device *device, unsigned room);
int ph__host_kernel_watch(ph__drv_kernel **out, ph__drv_device *device, ph__watch_kernel which);
void ph__host_kernel_keep(ph__drv_kernel *kernel);
int ph__host_launch(ph__drv_stream *stream, ph__drv_kernel *kernel, const ph__drv_launch *launch);
int ph__host_copy(ph__drv_stream *stream, const ph__drv_memcpy *copy, uint64_t *capture_id);
int ph__host_fill(ph__drv_stream *stream, const ph__drv_memset *fill);
int ph__host_host(ph__drv_stream *stream, const ph__drv_host *host);
int ph__host_copy_sync(ph__drv_device *device, const ph__drv_memcpy *copy);
int ph__host_child(ph__drv_stream *stream, ph__drv_graph *graph);
int ph__host_capture_root(ph__drv_node **out, ph__drv_stream *stream, ph__drv_kernel *kernel,
                          const ph__drv_launch *launch);
int ph__host_capture_depend(ph__drv_stream *stream, ph__drv_node *node);
int ph__host_context_push(ph__drv_device *device);
void ph__host_context_pop(ph__drv_device *device);
int ph__host_thread_exchange_mode(ph__drv_device *device, ph_capture_mode *mode);
int ph__host_capture_begin(ph__drv_stream *stream, ph_capture_mode mode);
int ph__host_capture_position(uint64_t *position, ph__drv_stream *stream);
size_t ph__host_graph_position(ph__drv_graph *graph, uint64_t position);
int ph__host_capture_end(ph__drv_graph **graph, ph__drv_stream *stream);
int ph__host_capture_get(ph__drv_capture *out, ph__drv_stream *stream);
int ph__host_capture_id(uint64_t *id, ph__drv_stream *stream);
void ph__host_capture_drop(ph__drv_stream *stream); /* host_capture.c */
void ph__host_graph_destroy(ph__drv_graph *graph);
int ph__host_graph_import(ph__drv_graph **out, ph__drv_device *device, void *native);
void *ph__host_graph_native(ph__drv_graph *graph);
size_t ph__host_graph_host_bytes(ph__drv_graph *graph);
int ph__host_graph_nodes(ph__drv_node *const **nodes, size_t *count, ph__drv_graph *graph);
int ph__host_graph_lower(ph__drv_graph *graph);
int ph__host_graph_look_again(ph__drv_graph **out, ph__drv_graph *graph);
int ph__host_node_info(ph__drv_node_info *out, ph__drv_node *node);
int ph__host_instantiate(ph__drv_exec **out, ph__drv_graph *graph, int flags,
                         ph__drv_node **failed);
void ph__host_exec_destroy(ph__drv_exec *exec);
void *ph__host_exec_native(ph__drv_exec *exec);
void ph__host_exec_memory(ph__drv_memory *out, ph__drv_exec *exec);
void ph__host_exec_tools_id(uint64_t *out, ph__drv_exec *exec, ph__drv_node *node);
int ph__host_exec_upload(ph__drv_exec *exec, ph__drv_stream *stream);
int ph__host_exec_launch(ph__drv_exec *exec, ph__drv_stream *stream);
int ph__host_exec_update(ph__drv_exec *exec, ph__drv_graph *graph, ph__drv_update *out);
int ph__host_exec_set_kernel(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_launch *launch);
int ph__host_exec_set_args(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_launch *launch,
                           size_t args_size);
int ph__host_exec_set_copy(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_memcpy *copy);
int ph__host_exec_set_fill(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_memset *fill);
int ph__host_exec_set_host(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_host *host);
int ph__host_exec_set_enabled(ph__drv_exec *exec, ph__drv_node *node, bool enabled);
int ph__host_exec_get_enabled(bool *out, ph__drv_exec *exec, ph__drv_node *node);
int ph__host_profile_open(ph__drv_profile **out, ph__drv_exec *exec, ph_profile_source *source);
int ph__host_profile_read(const ph__drv_span **spans, size_t *count, ph__drv_profile *profile);
void ph__host_profile_close(ph__drv_profile *profile);
#endif
