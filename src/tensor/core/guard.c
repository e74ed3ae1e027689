/* SPDX-License-Identifier: MIT */
/* tensor/core/guard.c: guard zones around memory, poison in it, and looking at the zones later. */
#include "tensor/core/guard.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/fork.h"
#include "base/status.h"
#include "tensor/backend/backend.h"
#include <string.h>

enum {
    ZONE_BYTES = 256,
    ZONE_VALUE = 0xA7,
    POISON = 0xFF
};

struct ph__guarded {
    ph__backend *backend; /* retained */
    char *base;           /* zone, bytes, zone */
    size_t bytes;
    bool released;
    ph__guarded *next;
};

atomic_bool ph__guards_are_on;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
PH__FORK_LOCK(PH__FORK_GUARDS, lock)
static ph__guarded *all;

void ph__storage_debug(bool on)
{
    atomic_store(&ph__guards_are_on, on);
}

char *ph__guarded_data(const ph__guarded *guarded)
{
    return guarded->base + ZONE_BYTES;
}

char *ph__guarded_base(const ph__guarded *guarded)
{
    return guarded->base;
}

static ph_status fill_zones(const ph__guarded *guarded, ph_stream *stream)
{
    PH_TRY(ph_memset(guarded->base, ZONE_VALUE, ZONE_BYTES, stream));
    return ph_memset(ph__guarded_data(guarded) + guarded->bytes, ZONE_VALUE, ZONE_BYTES, stream);
}

/* In a capture the poison is part of the graph. The zones are not: a graph that is never
 * replayed must not leave them as they were. */
static ph_status fill_guarded(const ph__guarded *guarded, ph_stream *stream)
{
    PH_TRY(ph_memset(ph__guarded_data(guarded), POISON, guarded->bytes, stream));
    if (!ph_stream_is_capturing(stream))
        return fill_zones(guarded, stream);
    ph_stream *aside;
    PH_TRY(ph_stream_create(&aside, guarded->backend->device, NULL));
    ph_status status = fill_zones(guarded, aside);
    ph_stream_destroy(aside);
    return status;
}

static void destroy_guarded(ph__guarded *guarded)
{
    ph_free(guarded->base, NULL);
    ph__backend_release(guarded->backend);
    ph__free(guarded);
}

ph_status ph__guarded_create(ph__guarded **out, ph__backend *backend, size_t bytes,
                             ph_stream *stream)
{
    static const char call[] = "a tensor with guard zones";
    size_t all_bytes;
    if (!ph__add(bytes, 2 * ZONE_BYTES, &all_bytes))
        return ph_fail(PH_ERROR_SIZE, "%s: %zu bytes are too many", call, bytes);
    ph__guarded *guarded = ph__calloc(1, sizeof *guarded);
    if (!guarded)
        return ph__fail_host_memory(call, "its note");
    guarded->backend = ph__backend_retain(backend);
    guarded->bytes = bytes;
    ph_status status = ph_malloc(&guarded->base, all_bytes, 1, stream);
    if (status == PH_OK)
        status = fill_guarded(guarded, stream);
    if (status != PH_OK) {
        destroy_guarded(guarded);
        return status;
    }
    pthread_mutex_lock(&lock);
    guarded->next = all;
    all = guarded;
    pthread_mutex_unlock(&lock);
    *out = guarded;
    return PH_OK;
}

void ph__guarded_release(ph__guarded *guarded)
{
    pthread_mutex_lock(&lock);
    guarded->released = true;
    pthread_mutex_unlock(&lock);
}

static ph_status check_zone(const ph__guarded *guarded, const char *zone, const char *where)
{
    unsigned char bytes[ZONE_BYTES];
    PH_TRY(
        ph_memcpy(bytes, zone, sizeof bytes, ph_device_default_stream(guarded->backend->device)));
    for (size_t i = 0; i < sizeof bytes; i++)
        if (bytes[i] != ZONE_VALUE)
            return ph_fail(
                PH_ERROR_STATE,
                "something wrote %s a tensor's %zu bytes at %p: the byte at %td is 0x%02x", where,
                guarded->bytes, (void *)ph__guarded_data(guarded),
                zone + i - ph__guarded_data(guarded), bytes[i]);
    return PH_OK;
}

/* Takes those of the device that were released out of the list; the others stay where they are. */
static ph__guarded *unlink_released(const ph_device *device)
{
    ph__guarded *released = NULL;
    for (ph__guarded **at = &all; *at;) {
        ph__guarded *guarded = *at;
        if (!guarded->released || guarded->backend->device != device) {
            at = &guarded->next;
            continue;
        }
        *at = guarded->next;
        guarded->next = released;
        released = guarded;
    }
    return released;
}

/* The lock is held throughout: this is for tests, and nothing in it calls the user. */
bool ph__storage_debug_check(ph_device *device)
{
    ph_status status = ph_device_synchronize(device);
    pthread_mutex_lock(&lock);
    for (ph__guarded *guarded = all; guarded && status == PH_OK; guarded = guarded->next)
        if (guarded->backend->device == device) {
            status = check_zone(guarded, guarded->base, "before");
            if (status == PH_OK)
                status = check_zone(guarded, ph__guarded_data(guarded) + guarded->bytes, "behind");
        }
    ph__guarded *released = unlink_released(device);
    pthread_mutex_unlock(&lock);
    while (released) {
        ph__guarded *next = released->next;
        destroy_guarded(released);
        released = next;
    }
    return status == PH_OK;
}
