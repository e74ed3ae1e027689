/* SPDX-License-Identifier: MIT */
/* comm/nccl/control.c: bytes of the host between ranks over NCCL: piece by piece through memory of
 * the device, on a stream of its own. */
#include "comm/nccl/control.h"
#include "base/alloc.h"
#include "driver/fail.h"
#include <stdio.h>
#include <string.h>

enum {
    PIECE = 4096 /* bytes of each rank */
};

typedef struct control_channel control_channel;

/* Handed out as the engine's ph__transfer. */
typedef struct control_transfer {
    control_channel *channel;
    const unsigned char *send;
    unsigned char *receive;
    size_t bytes, at; /* of each rank; where the piece begins */
    bool in_nccl;     /* NCCL has not launched it yet */
} control_transfer;

/* Handed out as the engine's ph__channel. */
struct control_channel {
    ph__nccl *nccl;
    ph_device *device; /* of the communicator that has the channel */
    uint32_t rank, size;
    ph__drv_stream *stream;
    ph__drv_event *event;
    unsigned char *device_memory, *pinned; /* PIECE bytes for each rank */
    control_transfer transfer;             /* one at a time */
};

static _Thread_local char last_reason[PH__ENGINE_REASON];

static const char *get_reason(void)
{
    return last_reason;
}

static int fail_driver(int result, const char *what)
{
    (void)snprintf(last_reason, sizeof last_reason, "CUDA answered %d to %s", result, what);
    return PH__ENGINE_FAILED;
}

static size_t piece_of(const control_transfer *t)
{
    return t->bytes - t->at < PIECE ? t->bytes - t->at : PIECE;
}

static int start_copy(control_channel *channel, void *dst, const void *src, size_t bytes)
{
    const ph__drv_memcpy copy = {dst, src, bytes};
    int result = channel->device->driver->copy(channel->stream, &copy, NULL);
    return result == PH__R_OK ? 0 : fail_driver(result, "a copy");
}

static int call_nccl(control_channel *channel, size_t bytes)
{
    ph_capture_mode mode;
    ph__nccl_raw *raw = ph__nccl_enter(channel->nccl, &mode);
    if (raw == NULL) {
        (void)snprintf(last_reason, sizeof last_reason, "NCCL's communicator was aborted");
        return PH__ENGINE_FAILED;
    }
    unsigned char *all = channel->device_memory;
    int result =
        ph__nccl_api.AllGather(all + channel->rank * bytes, all, bytes, PH__NCCL_UINT8, raw,
                               channel->device->driver->stream_native(channel->stream));
    if (result != PH__NCCL_SUCCESS && result != PH__NCCL_IN_PROGRESS)
        ph__nccl_reason(last_reason, raw, result, "ncclAllGather");
    ph__nccl_leave(channel->nccl, mode);
    return result == PH__NCCL_SUCCESS || result == PH__NCCL_IN_PROGRESS ? 0 : PH__ENGINE_FAILED;
}

static int start_piece(control_transfer *t)
{
    control_channel *channel = t->channel;
    size_t bytes = piece_of(t), own = channel->rank * bytes;
    memcpy(channel->pinned + own, t->send + t->at, bytes);
    int result = start_copy(channel, channel->device_memory + own, channel->pinned + own, bytes);
    t->in_nccl = true;
    return result == 0 ? call_nccl(channel, bytes) : result;
}

static int read_piece(control_transfer *t)
{
    control_channel *channel = t->channel;
    const ph__driver *driver = channel->device->driver;
    size_t all = piece_of(t) * channel->size;
    t->in_nccl = false;
    int result = start_copy(channel, channel->pinned, channel->device_memory, all);
    if (result != 0)
        return result;
    result = driver->event_record(channel->event, channel->stream, PH__EVENT_RECORD_DEFAULT);
    return result == PH__R_OK ? 0 : fail_driver(result, "the record of an event");
}

/* The piece is in pinned memory. *done: it was the last one. */
static int receive_piece(control_transfer *t, bool *done)
{
    size_t bytes = piece_of(t);
    for (uint32_t rank = 0; rank < t->channel->size; rank++)
        memcpy(t->receive + rank * t->bytes + t->at, t->channel->pinned + rank * bytes, bytes);
    t->at += bytes;
    *done = t->at == t->bytes;
    return *done ? 0 : start_piece(t);
}

static int push_transfer(control_transfer *t, bool *done)
{
    control_channel *channel = t->channel;
    bool launched;
    if (ph__nccl_test(channel->nccl, &launched, last_reason) != 0)
        return PH__ENGINE_FAILED;
    if (t->in_nccl)
        return launched ? read_piece(t) : 0;
    int result = channel->device->driver->event_query(channel->event);
    if (result == PH__R_NOT_READY)
        return 0;
    return result == PH__R_OK ? receive_piece(t, done) : fail_driver(result, "a query");
}

static int test_transfer(ph__transfer *raw, bool *done)
{
    control_transfer *transfer = (control_transfer *)raw;
    ph_capture_mode mode = PH_CAPTURE_RELAXED;
    *done = false;
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    int result = push_transfer(transfer, done);
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    return result;
}

static int start_all_gather(ph__transfer **out, ph__channel *raw, const void *send, void *receive,
                            size_t bytes)
{
    control_channel *channel = (control_channel *)raw;
    ph_capture_mode mode = PH_CAPTURE_RELAXED;
    channel->transfer = (control_transfer){channel, send, receive, bytes, 0, false};
    *out = (ph__transfer *)&channel->transfer;
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    int result = start_piece(&channel->transfer);
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    return result;
}

/* ---- channels ---- */
static void close_channel(ph__channel *raw)
{
    control_channel *channel = (control_channel *)raw;
    const ph__driver *driver = channel->device->driver;
    ph_capture_mode mode = PH_CAPTURE_RELAXED;
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    if (channel->stream)
        driver->stream_destroy(channel->stream);
    if (channel->event)
        driver->event_destroy(channel->event);
    if (channel->pinned)
        (void)driver->pinned_free(channel->device->handle, channel->pinned);
    if (channel->device_memory)
        (void)driver->plain_free(channel->device->handle, channel->device_memory);
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    ph__free(channel);
}

static int make_parts(control_channel *channel)
{
    const ph__driver *driver = channel->device->driver;
    ph__drv_device *handle = channel->device->handle;
    size_t bytes = (size_t)PIECE * channel->size;
    void *memory = NULL, *pinned = NULL;
    int result = driver->stream_create(&channel->stream, handle, PH__STREAM_NON_BLOCKING, 0);
    if (result == PH__R_OK)
        result = driver->event_create(&channel->event, handle, PH__EVENT_DISABLE_TIMING);
    if (result == PH__R_OK)
        result = driver->plain_alloc(&memory, handle, bytes);
    if (result == PH__R_OK)
        result = driver->pinned_alloc(&pinned, handle, bytes);
    channel->device_memory = memory;
    channel->pinned = pinned;
    return result;
}

ph__channel *ph__nccl_open_channel(ph__nccl *nccl, ph_device *device, uint32_t rank, uint32_t size,
                                   const char *call)
{
    ph_capture_mode mode = PH_CAPTURE_RELAXED;
    control_channel *channel = ph__calloc(1, sizeof *channel);
    if (channel == NULL) {
        ph_ignore(ph__fail_host_memory(call, "the communicator"));
        return NULL;
    }
    channel->nccl = nccl;
    channel->device = device;
    channel->rank = rank;
    channel->size = size;
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    int result = make_parts(channel);
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    if (result == PH__R_OK)
        return (ph__channel *)channel;
    close_channel((ph__channel *)channel);
    ph_ignore(ph__driver_fail(result, NULL, "%s: what the ranks exchange words by", call));
    return NULL;
}

const ph__engine ph__nccl_control = {.version = PH__ENGINE_VERSION,
                                     .name = "NCCL",
                                     .close = close_channel,
                                     .all_gather = start_all_gather,
                                     .test = test_transfer,
                                     .reason = get_reason};
