/* SPDX-License-Identifier: MIT */
/* device/device.h: devices, streams, events, kernels and open captures as the layers above see
 * them. */
#ifndef PH_DEVICE_DEVICE_H
#define PH_DEVICE_DEVICE_H
#include "base/map.h"
#include "base/status.h"
#include "base/sync.h"
#include "base/vec.h"
#include "driver/driver.h"
#include "driver/rules.h"

typedef struct ph__capture ph__capture;
typedef struct ph__deferred ph__deferred;
typedef struct ph_annotation_scope ph__annotation; /* annotate.h */
typedef struct ph__marks ph__marks;

/* Work that waits until no capture is open: see ph__device_defer below. */
struct ph__deferred {
    ph__deferred *next;
    void (*fn)(ph__deferred *item);
};

/* What a layer above hangs on a device. destroy runs when the last reference to the device goes,
 * before the driver closes it. */
typedef struct ph__attachment {
    void (*destroy)(struct ph__attachment *attachment);
    /* stream is about to capture, or to join a capture: last chance to record events on it as
     * ordinary work. May be NULL. */
    ph_status (*before_capture)(struct ph__attachment *attachment, ph_stream *stream);
    /* The user destroyed the stream; the driver's stream, or another in its place, lives on
     * while it is retained: whoever took its handle before is done with it when this returns.
     * May be NULL. */
    void (*stream_destroyed)(struct ph__attachment *attachment, ph_stream *stream);
    /* The live allocation around an address, so that copies and fills stay inside it. May be
     * NULL. */
    bool (*find)(struct ph__attachment *attachment, ph_allocation *out, const void *address);
    /* A copy between these addresses was recorded in the capture. May be NULL. */
    void (*copy_captured)(struct ph__attachment *attachment, uint64_t capture_id, const void *dst,
                          const void *src);
    /* The device's last open capture has ended, or one capture has: called after the driver's
     * end, no lock held. May be NULL. */
    void (*capture_ended)(struct ph__attachment *attachment, uint64_t capture_id);
} ph__attachment;
enum {
    PH__ATTACH_MEMORY = 0,
    PH__ATTACH_COUNT = 1
};

/* What the layer that keeps memory knows of a stream: it alone looks inside, under its own lock.
 * All zero at first. */
typedef struct ph__stream_replays {
    ph_stream *previous, *next; /* among those that replays may be running on */
    /* pools whose last replay was on it: those first that no event is recorded behind */
    ph_pool *first_pool, *last_pool;
    size_t pool_count;
    /* what waits for work on it, in order; see memory/streams/waits.c */
    struct ph__use *first_use, *last_use;
    ph_stream *previous_awaited, *next_awaited; /* among the streams where there is any */
    struct ph__mseg *segments;                  /* of all pools, whose stream it is */
    bool listed;                                /* it is, and is retained for that */
    bool left;                                  /* a pool has gone since `behind` was recorded */
    bool in_left;                               /* it has to be looked at for that */
    ph_stream *next_left;
    /* behind the last replays of pools that have gone; NULL: not recorded */
    ph__drv_event *behind;
    uint64_t round; /* that it was last counted in */
} ph__stream_replays;

struct ph_stream {
    /* retained until the user destroys it: what a layer above retains does not keep the device;
     * the default stream, a part of the device, never does */
    ph_device *device;
    _Atomic(ph__drv_stream *)
        handle;  /* changes once, when a wrapped stream is destroyed: see ph__stream_hold */
    uint64_t id; /* unique in the process; the key of its memory blocks */
    int priority;
    bool blocking, is_default;
    /* the driver's stream is the user's, and may go when the user has destroyed this one */
    bool wrapped;
    atomic_int references; /* the user's one, and those of the layers above */
    atomic_bool destroyed; /* by the user */
    atomic_uint lane;      /* ph_stream_lane; 0: none has asked */
    /* Shared by calls that ask whether the stream is capturing before they submit; alone around a
     * capture's begin, and a wait by which the stream joins one. stream.h. */
    ph__shared_mutex asks;
    ph__deferred release; /* the driver's stream goes only when no capture can be in it */
    ph__stream_replays replays;
};

struct ph_device {
    /* What every submission looks at stands together. */
    const ph__driver *driver; /* through ph__driver_faulty */
    ph__drv_device *handle;
    atomic_uint open_captures; /* their number, readable without the lock */
    ph__shared_mutex syncs;    /* by waits for the whole device; alone: a capture begins */
    /* Kernels and host functions of this library's calls that captures recorded: which memory
     * they address is known when their graph is read. */
    _Atomic uint64_t captured_calls;
    atomic_uint open_checks; /* of them, those whose graphs are told what memory they use */
    /* captures that this library did not begin are possible: the driver is always asked */
    atomic_bool foreign;
    bool forked; /* opened by the process that this one was forked from: ph__device_check */
    atomic_int references;
    uint32_t ordinal;
    ph_device *next_open;      /* in the list of the process, oldest first */
    ph_device_options options; /* settings of the name included */
    char name[96];
    size_t segment_granularity;
    int priority_lowest, priority_highest;
    ph_stream default_stream;
    /* The library's own, made when first asked for: few and many cells; what watches replays. */
    _Atomic(ph_kernel *) cells_kernels[2];
    _Atomic(ph_kernel *) watch_kernels[PH__WATCH_KERNELS];
    /* around each launch of a graph with cells; before the replay locks of pools */
    ph__mutex cells_lock;
    pthread_mutex_t attach_lock;
    _Atomic(ph__attachment *) attached[PH__ATTACH_COUNT];
    pthread_mutex_t capture_lock; /* open captures and the deferred queue */
    PH__VEC(ph__capture *) captures;
    ph__capture *reading; /* those that are over, and whose graphs are being read */
    ph__deferred *deferred_first, *deferred_last;
    atomic_uint legacy_calls;   /* between ph__legacy_enter and leave */
    atomic_uint legacy_waiters; /* those that wait for them */
};

struct ph_event {
    ph_device *device; /* retained */
    ph__drv_event *handle;
    bool timing, external;
    atomic_int references; /* the user's, and those of captures and graphs that it is a node of */
    atomic_bool recorded;
    /* of the capture that the last record was in; 0: outside */
    _Atomic uint64_t capture_id;
    atomic_bool foreign; /* that capture was not this library's */
    /* what it was last recorded on: an identity, never followed */
    _Atomic(const ph_stream *) recorder;
};

struct ph_kernel {
    ph_device *device; /* retained */
    ph__drv_kernel *handle;
    atomic_int references;
    char *name;
    size_t args_size;
    /* the capture that retained it last: its later launches there need not look */
    _Atomic uint64_t kept_in;
    ph_param *params; /* names included in one allocation */
    size_t param_count;
};

/* ---- devices ---- returns what is attached, making it (under a lock, once) with create when
 * there is none: NULL with the record set. */
ph__attachment *ph__device_attach(ph_device *device, int slot,
                                  ph__attachment *(*create)(ph_device *device));
static inline ph__attachment *ph__device_attached(const ph_device *device, int slot)
{
    return atomic_load_explicit(&((ph_device *)(uintptr_t)device)->attached[slot],
                                memory_order_acquire);
}

/* STATE for what belongs to a device that was opened before a fork, in the child. There calls on
 * it must stop here: locks may be held by threads that the child does not have, and what they
 * guard may be half changed. What destroys does nothing there. */
ph_status ph__fail_forked(const ph_device *device, const char *call);
static inline ph_status ph__device_check(const ph_device *device, const char *call)
{
    return __builtin_expect(device->forked, 0) ? ph__fail_forked(device, call) : PH_OK;
}

/* The oldest open device of a driver (as devices have it: through ph__driver_faulty) and
 * ordinal, retained; NULL: none. */
ph_device *ph__device_find_open(const ph__driver *driver, uint32_t ordinal);

/* The open device that comes behind that one, which is retained (NULL: the first); retained.
 * NULL: none. */
ph_device *ph__device_next_open(const ph_device *after);

/* Whether the address is in a live allocation of another open device. */
bool ph__device_others_have(const ph_device *device, const void *address);

/* WRONG_DEVICE: what stands where, both by name. Two opens of one name are two devices, and the
 * message says so. */
ph_status ph__fail_devices(const char *call, const char *what, const ph_device *device,
                           const char *other_what, const ph_device *other);

/* ---- streams ---- */
/* Keeps the driver's stream, also after the user's destroy, but not the device: release before
 * that goes. */
ph_stream *ph__stream_retain(ph_stream *stream);
void ph__stream_release(ph_stream *stream);
/* The id of the capture that the stream is in, active or invalidated, begun by whomever; 0:
 * none. Two atomic loads when the device can have no capture open. */
uint64_t ph__stream_capture_id(const ph_stream *stream);
/* The same with capture_lock held. */
uint64_t ph__stream_capture_id_locked(const ph_stream *stream);
/* Whether the driver says that the stream is in no capture; false also when it does not answer. */
bool ph__stream_is_free(const ph_stream *stream);
/* The same for calls that can fail: a driver that does not answer is their failure, not "none". */
ph_status ph__stream_find_capture(uint64_t *out, const ph_stream *stream, const char *call);
/* PH_OK for a stream that may be used: not NULL, not destroyed. */
ph_status ph__stream_check(const ph_stream *stream, const char *call);
/* Around a short driver call on a retained stream that its user may be destroying on another
 * thread: a wrapped one's handle stays until unhold. Or hold capture_lock, or a pool's replay
 * lock. */
static inline void ph__stream_hold(const ph_stream *stream)
{
    if (stream->wrapped)
        pthread_mutex_lock(&stream->device->capture_lock);
}
static inline void ph__stream_unhold(const ph_stream *stream)
{
    if (stream->wrapped)
        pthread_mutex_unlock(&stream->device->capture_lock);
}
/* Waits for the retained stream's work, which may be destroyed meanwhile; not at all while it is
 * in a capture of somebody else's, which waiting would kill. Failures are its user's to see. */
void ph__stream_wait(ph_stream *stream);
/* A stream of the user's own, given as the driver's handle; takes the reference to the device
 * over on success. */
ph_status ph__stream_wrap(ph_stream **out, ph_device *device, void *native, const char *call);

/* ---- kernels ---- finds our kernel by the driver's handle, for the record: borrowed, NULL for
 * a foreign one. The registry holds no references. */
ph_kernel *ph__kernel_of(const ph_device *device, const ph__drv_kernel *handle);
/* The library's kernel that writes cells, with room for so many (PH__CELLS_FEW, PH__CELLS_MANY):
 * a part of the device, which it does not retain. */
ph_status ph__device_cells_kernel(ph_kernel **out, ph_device *device, unsigned room,
                                  const char *call);
/* Likewise that which watches replays. */
ph_status ph__device_watch_kernel(ph_kernel **out, ph_device *device, ph__watch_kernel which,
                                  const char *call);
void ph__device_drop_own_kernels(ph_device *device); /* before the driver closes it */
/* Checks CUDA's limits, fills zeros with ones. */
ph_status ph__launch_prepare(ph__drv_launch *out, const ph_kernel *kernel,
                             const ph_launch_config *config, const void *args, size_t args_size,
                             const char *call);
/* Checks a copy or fill against allocations and overlap, as ph_memcpy and ph_memset do.
 * pageable: whether a side is pageable memory; NULL where that is refused. */
ph_status ph__copy_check(bool *pageable, ph_device *device, const ph__drv_memcpy *copy,
                         const char *call);
ph_status ph__fill_check(ph_device *device, const ph__drv_memset *fill, const char *call);

/* ---- captures ---- one that is open. The graph layer embeds it; fields up to `owner` are
 * written by begin and read-only then. */
/* A stream that joined a capture by a call of this library. */
typedef struct ph__fork {
    const ph_stream *stream; /* an identity, never followed */
    bool waited;             /* another stream has waited for it since */
    char scope[40];          /* the name of the scope that it joined in; "" for none */
} ph__fork;

struct ph__capture {
    uint64_t id; /* the driver's */
    ph_capture_mode mode;
    uint64_t owner_thread;
    int process;             /* that it began in: a child of fork has a copy of it */
    uint64_t suspects_since; /* notes from here on may be about it */
    atomic_bool reported;    /* what killed it was said to the log */
    ph_device *device;
    ph_stream *stream;
    void *owner; /* the layer above's: its graph */
    /* The capture has begun, and has its id. Under the device's capture_lock. May be NULL. */
    void (*begun)(ph__capture *capture);
    /* The origin stream is being destroyed by the user: end the capture now (ph__capture_end).
     * No lock. */
    void (*lost)(ph__capture *capture);
    atomic_bool has_blocking; /* a stream ordered against the legacy default stream is in it */
    /* those launched in it, retained: key and value; under the device's capture_lock */
    ph__map kernels;
    ph__map events; /* likewise, the external ones that are nodes of it */
    ph__capture *next_reading;
    PH__VEC(ph__fork) forks; /* under the device's capture_lock */
    ph__map fork_of;         /* stream -> its place in forks, from 1; as forks */
    bool annotated;          /* set by the layer above before begin, as checks and scope are */
    /* its graph is told what memory it uses: counted in ph_device.open_checks */
    bool checks;
    ph__marks *marks; /* NULL: it is not annotated */
    /* A scope with this annotation has begun, or is about to end, on a stream that is in the
     * capture. What the function submits to the stream lies in the scope. No lock. May be NULL. */
    ph_status (*scope)(ph__capture *capture, ph_stream *stream, const ph__annotation *annotation,
                       bool begins, const char *call);
};

/* Refuses what must not reach the driver, tells the attachments (before_capture), begins,
 * registers. On failure nothing is open. */
ph_status ph__capture_begin(ph__capture *capture, ph_stream *stream, ph_capture_mode mode,
                            const char *call);
/* Lets go of the kernels that were launched in it: after its end, when whoever reads the graph
 * has retained them. */
void ph__capture_release_kernels(ph__capture *capture);
/* Ends it at the driver and closes the registration, whatever the outcome, except for the wrong
 * thread (CAPTURE, 908; drop false): then it stays open. drop: ends it for good from any thread
 * (abort): the driver's graph is destroyed, *graph is NULL, errors are not reported. Afterwards
 * runs deferred work if it was the last one, and the attachments' capture_ended. */
ph_status ph__capture_end(ph__drv_graph **graph, ph__capture *capture, bool drop, const char *call);

/* The public column of the table for the calling thread and every open capture of the device:
 * PH_OK, or CAPTURE with the number and a message that names the call, the capture and the
 * remedy. The captures survive. */
ph_status ph__rule_check(ph_device *device, ph__rule rule);
const char *ph__capture_mode_name(ph_capture_mode mode); /* as the docs write it */
/* The refusal of the row for one capture (by id), for calls that know which capture they would
 * disturb. */
ph_status ph__rule_refuse(ph_device *device, ph__rule rule, uint64_t capture_id);
/* True while the capture is open. */
bool ph__capture_is_open(ph_device *device, uint64_t capture_id);
/* True when the capture, just seen on the stream, was not begun by this library. */
bool ph__capture_is_foreign(const ph_stream *stream, uint64_t capture_id);
/* CAPTURE, 401, for a stream that is capturing already. */
ph_status ph__capture_check_free(const ph_stream *stream, const char *call);
/* The owner of an open capture, under capture_lock, which is held; NULL: not open. */
void *ph__capture_owner_locked(const ph_device *device, uint64_t capture_id);
/* Keeps kernels for a capture: ours retains them until its graph does (false: no host memory);
 * in another's their code stays loaded. */
bool ph__capture_keep_kernel(ph_stream *stream, ph_kernel *kernel, uint64_t capture_id);
/* The same for an event that is about to become a node: CUDA's executables crash on one that was
 * destroyed. In another's capture it is the user's to keep. */
bool ph__capture_keep_event(ph_device *device, ph_event *event, uint64_t capture_id);
/* What a capture kept, with its references: the caller's from here on, key and value. After
 * release_kernels. */
ph__map ph__capture_take_events(ph__capture *capture);
void ph__events_release(ph__map *events);
void ph__event_retain(ph_event *event);

/* ---- culprits ---- fails a driver call on a stream: as ph__driver_fail, but for 901, where the
 * message names what killed the capture, if that is known. */
ph_status ph__stream_fail(int result, const ph_stream *stream, const char *driver_call,
                          const char *format, ...) PH_PRINTF(4, 5);
/* The end of a capture failed with 901: the record names the culprit, its call and number, where
 * they are known. */
ph_status ph__capture_fail_dead(ph__capture *capture, const char *call);
/* Says to the log, once, what killed the capture, with the whole backtrace. No lock held. */
void ph__capture_report(ph__capture *capture);
/* From now on the end of the process says it of captures that are open then, and dead. */
void ph__captures_watch_exit(void);
/* Puts behind the record's message which call killed the open capture of the calling thread
 * (any: of any thread), if one is dead. */
void ph__error_add_culprit(bool any);

/* ---- deferred work ---- runs fn(item) now when no capture is open on the device, else when the
 * last one has ended, on the thread that ended it, no lock held. The item is the caller's memory
 * and must live until fn is called. */
void ph__device_defer(ph_device *device, ph__deferred *item);

/* Calls a driver entry with the calling thread's capture mode exchanged to relaxed: for what is
 * legal then, and for what the public rules have let pass, which a capture that begins at this
 * moment must survive. */
void ph__relaxed_begin(ph_device *device, ph_capture_mode *saved);
void ph__relaxed_end(ph_device *device, ph_capture_mode saved);
#endif
