/* SPDX-License-Identifier: MIT */
/* device/handles/captures.h: the list of the captures that are open on a device, and what they
 * keep. */
#ifndef PH_DEVICE_HANDLES_CAPTURES_H
#define PH_DEVICE_HANDLES_CAPTURES_H
#include "base/map.h"
#include "base/vec.h"
#include "device/handles/device.h"

typedef struct ph_annotation_scope ph__annotation; /* annotate/annotation.h */
typedef struct ph__marks ph__marks;                /* annotate/marks.h */

/* A stream that joined a capture by a call of this library. */
typedef struct ph__fork {
    const ph_stream *stream; /* an identity, never followed */
    bool waited;             /* another stream has waited for it since */
    char scope[40];          /* the name of the scope that it joined in; "" for none */
} ph__fork;

/* An open capture. The layer above embeds it; fields up to `owner` are written by begin and
 * read-only then. */
struct ph__capture {
    uint64_t id; /* the driver's */
    ph_capture_mode mode;
    uint64_t owner_thread;
    int process;             /* the process in which it began: a child of fork has a copy of it */
    uint64_t suspects_since; /* notes from here on may be about it */
    atomic_bool reported;    /* the log has the call that killed it */
    ph_device *device;
    ph_stream *stream;
    void *owner; /* the layer above's: its graph */
    /* The capture has begun, and has its id. Under the device's capture_lock. May be NULL. */
    void (*begun)(ph__capture *capture);
    /* The origin stream is being destroyed by the user: end the capture now (ph__capture_end).
     * No lock. */
    void (*lost)(ph__capture *capture);
    atomic_bool has_blocking; /* a stream ordered against the legacy default stream is in it */
    /* kernels launched in it, retained: key and value; under the device's capture_lock */
    ph__map kernels;
    ph__map events; /* likewise, the external ones that are nodes of it */
    ph__capture *next_reading;
    PH__VEC(ph__fork) forks; /* under the device's capture_lock */
    ph__map fork_of;         /* stream -> its place in forks, from 1; as forks */
    /* Calls of its thread that submitted to streams outside of it, and the first of them
     * (outside.h). As forks. */
    unsigned outside;
    const char *outside_call;
    const void *outside_stream; /* an identity, never followed */
    bool outside_elsewhere;     /* on another device */
    bool annotated;             /* set by the layer above before begin, as checks and scope are */
    /* its graph is told what memory it uses: counted in ph_device.open_checks */
    bool checks;
    ph__marks *marks; /* NULL: it is not annotated */
    /* A scope with this annotation has begun, or is about to end, on a stream that is in the
     * capture. What the function submits to the stream lies in the scope. No lock. May be NULL. */
    ph_status (*scope)(ph__capture *capture, ph_stream *stream, const ph__annotation *annotation,
                       bool begins, const char *call);
};

/* Puts the capture on the list; false: no host memory. unregister: takes it off, and runs what
 * waited for the last one to end. Launches that it recorded may still be about to have their
 * kernels kept: it is found for them until its kernels are released. */
bool ph__capture_register(ph_device *device, ph__capture *capture);
void ph__capture_unregister(ph_device *device, ph__capture *capture);

/* A capture of other code counts as an open one from enter to leave, and is not on the list. */
void ph__captures_enter(ph_device *device);
void ph__captures_leave(ph_device *device);

/* After its end: from here on no launch finds the capture, and its list of kernels is the caller's
 * alone. A launch that comes later has its kernel's code kept loaded. */
void ph__capture_close_kernels(ph__capture *capture);
/* Closes the list, and lets go of the kernels: when whoever reads the graph has retained them. */
void ph__capture_release_kernels(ph__capture *capture);

/* Of a capture that has ended, and whose kernels were not released: `to` has them from here on, the
 * events and the marks, as if it had been the capture. */
void ph__capture_move(ph__capture *to, ph__capture *from);

/* True while the capture is open. */
bool ph__capture_is_open(ph_device *device, uint64_t capture_id);
/* True when the capture, just seen on the stream, was not begun by this library. */
bool ph__capture_is_foreign(const ph_stream *stream, uint64_t capture_id);

/* The owner of an open capture, under capture_lock, which is held; NULL: not open. */
void *ph__capture_owner_locked(const ph_device *device, uint64_t capture_id);
/* Keeps kernels for a capture: ours retains them until its graph does (false: no host memory);
 * in another's their code stays loaded. */
bool ph__capture_keep_kernel(ph_stream *stream, ph_kernel *kernel, uint64_t capture_id);
/* The same for an event that is about to become a node: CUDA's executables crash on one that was
 * destroyed. In another's capture it is the user's to keep. */
bool ph__capture_keep_event(ph_device *device, ph_event *event, uint64_t capture_id);
/* Objects that a capture kept, with its references: the caller's from here on, key and value. Call
 * it after release_kernels. */
ph__map ph__capture_acquire_events(ph__capture *capture);

/* Runs fn(item) now when no capture is open on the device, else when the last one has ended, on
 * the thread that ended it, no lock held. The item is the caller's memory and must live until fn
 * is called. */
void ph__device_defer(ph_device *device, ph__deferred *item);
#endif
