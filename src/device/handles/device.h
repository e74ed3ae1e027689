/* SPDX-License-Identifier: MIT */
/* device/handles/device.h: the devices that are open, their references, and what is attached to
 * them. */
#ifndef PH_DEVICE_HANDLES_DEVICE_H
#define PH_DEVICE_HANDLES_DEVICE_H
#include "base/status.h"
#include "base/sync.h"
#include "base/vec.h"
#include "device/handles/stream.h"
#include "driver/driver.h"
#include "driver/reason.h"

typedef struct ph__capture ph__capture;         /* captures.h */
typedef struct ph__failed_work ph__failed_work; /* failed.h */

/* An object that a layer above attaches to a device. destroy runs when the last reference to the
 * device goes, before the driver closes it. */
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

struct ph_device {
    /* The members that every submission reads stand together. */
    const ph__driver *driver; /* the table that it was opened with (drivers.h) */
    ph__drv_device *handle;
    atomic_uint open_captures; /* their number, readable without the lock */
    ph__shared_mutex syncs;    /* by waits for the whole device; alone: a capture begins */
    /* Kernels and host functions of this library's calls that captures recorded: which memory
     * they address is known when their graph is read. */
    _Atomic uint64_t captured_calls;
    atomic_uint open_checks; /* of them, those whose graphs are told what memory they use */
    /* captures that this library did not begin are possible: the driver is always asked */
    atomic_bool foreign;
    ph__deferred closing; /* the end, on a thread of its own (later.h) */
    bool forked; /* opened by the process that this one was forked from: ph__device_check */
    atomic_int references;
    uint32_t ordinal;
    ph_device *next_open;      /* in the list of the process, oldest first */
    ph_device_options options; /* settings of the name included */
    char name[96];
    size_t segment_granularity;
    int priority_lowest, priority_highest;
    ph_stream default_stream;
    /* The library's own, made when first asked for: few and many cells; those of probe nodes. */
    _Atomic(ph_kernel *) cells_kernels[2];
    _Atomic(ph_kernel *) probe_kernels[PH__PROBE_KERNELS];
    /* around each launch of a graph with cells; before the replay locks of pools */
    ph__mutex cells_lock;
    pthread_mutex_t attach_lock;
    _Atomic(ph__attachment *) attached[PH__ATTACH_COUNT];
    pthread_mutex_t capture_lock; /* open captures and the deferred queue */
    ph__mutex ending; /* around the driver's end of a capture, and reads of what it would free */
    PH__VEC(ph__capture *) captures;
    ph__capture *reading; /* captures that are over, and whose graphs are being read */
    ph__deferred *deferred_first, *deferred_last;
    atomic_uint legacy_calls;   /* between ph__legacy_enter and leave */
    atomic_uint legacy_waiters; /* the streams that wait for them */
    atomic_uint failed_count;   /* of `failed`, readable without the lock */
    ph__mutex failed_lock;
    ph__failed_work *failed; /* oldest first */
};

/* The captures that are registered on all devices of the process (captures.h). */
extern atomic_uint ph__captures_open __attribute__((visibility("hidden")));

/* Puts a device that was opened just now on the list of the process. */
void ph__device_enter_list(ph_device *device);

/* Returns what is attached, making it (under a lock, once) with create when
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
/* STATE, too, with CUDA's number 800, on a thread of the host device that runs a host function or
 * the body of a kernel: the call could wait for that (driver/callback.h). */
ph_status ph__device_refuse(const ph_device *device, const char *call);
/* One load: devices of before a fork count as threads with a reason. */
static inline bool ph__device_may_refuse(void)
{
    return __builtin_expect(ph__driver_may_have_reason(), 0);
}
static inline ph_status ph__device_check(const ph_device *device, const char *call)
{
    return ph__device_may_refuse() ? ph__device_refuse(device, call) : PH_OK;
}

/* The oldest open device with that table (drivers.h) and ordinal, retained; NULL: none. */
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
#endif
