/* SPDX-License-Identifier: MIT */
/* device/handles/stream.h: streams: their references, and the capture that they are in. */
#ifndef PH_DEVICE_HANDLES_STREAM_H
#define PH_DEVICE_HANDLES_STREAM_H
#include "base/sync.h"
#include "driver/driver.h"
#include <stdatomic.h>
#include <stdbool.h>

/* Work that waits until no capture is open: ph__device_defer (captures.h). */
typedef struct ph__deferred ph__deferred;
struct ph__deferred {
    ph__deferred *next;
    void (*fn)(ph__deferred *item);
};

/* Data of a stream for the layer that keeps memory, which alone reads it, under its own lock. All
 * zero at first. */
typedef struct ph__stream_replays {
    ph_stream *previous, *next; /* among those that replays may be running on */
    /* pools whose last replay was on it: those first that no event is recorded behind */
    ph_pool *first_pool, *last_pool;
    size_t pool_count;
    /* uses that wait for work on the stream, in order; see memory/streams/waits.c */
    struct ph__use *first_use, *last_use;
    ph_stream *previous_awaited, *next_awaited; /* among the streams where there is any */
    struct ph__mseg *segments;                  /* of all pools, whose stream it is */
    bool listed;                                /* the stream is listed, and retained for that */
    bool left;                                  /* a pool has gone since `behind` was recorded */
    /* the stream is on the list of next_left for that */
    bool in_left;
    ph_stream *next_left;
    /* behind the last replays of pools that have gone; NULL: not recorded */
    ph__drv_event *behind;
    uint64_t round; /* the round in which it was last counted */
} ph__stream_replays;

struct ph_stream {
    /* retained until the user destroys it: what a layer above retains does not keep the device;
     * the default stream, a part of the device, never does */
    ph_device *device;
    _Atomic(ph__drv_stream *)
        handle;  /* changes once, when a wrapped stream is destroyed: ph__stream_hold */
    uint64_t id; /* unique in the process; the key of its memory blocks */
    int priority;
    bool blocking, is_default;
    /* the driver's stream is the user's, and may go when the user has destroyed this one */
    bool wrapped;
    atomic_int references; /* the user's one, and those of the layers above */
    atomic_bool destroyed; /* by the user */
    atomic_uint lane;      /* ph_stream_lane; 0: none has asked */
    /* Shared by calls that ask whether the stream is capturing before they submit; alone around a
     * capture's begin, and a wait by which the stream joins one. */
    ph__shared_mutex asks;
    ph__deferred release; /* the driver's stream goes only when no capture can be in it */
    ph__stream_replays replays;
};

/* Makes the device's default stream out of the driver's. */
void ph__stream_init_default(ph_device *device);
uint64_t ph__stream_next_id(void);

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
#endif
