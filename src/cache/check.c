/* SPDX-License-Identifier: MIT */
/* cache/check.c: the arguments of calls, and whether a capture may be planned. */
#include "cache/check.h"
#include "base/ended.h"
#include "device/capture/refuse.h"
#include "device/handles/device.h"
#include "device/handles/stream.h"

enum {
    KEY_BYTES = 4096,
    POINTERS = 65536,
    VALUES = 64,
    VALUE_BYTES = 256
};

ph_status ph__cache_check_there(const ph_graph_cache *cache, const char *name)
{
    if (!cache)
        return ph__fail_null(name, "cache");
    return cache->device ? PH_OK : ph__fail_ended(name, "the cache");
}

ph_status ph__cache_check(const ph_graph_cache *cache, const ph_stream *stream, const char *name)
{
    PH_TRY(ph__cache_check_there(cache, name));
    PH_TRY(ph__stream_check(stream, name));
    return stream->device == cache->device
               ? PH_OK
               : ph__fail_devices(name, "the cache", cache->device, "the stream", stream->device);
}

ph_status ph__cache_check_key(const void *key, size_t key_bytes, const char *name)
{
    if (!key)
        return ph__fail_null(name, "key");
    return key_bytes >= 1 && key_bytes <= KEY_BYTES
               ? PH_OK
               : ph_fail(PH_ERROR_ARGUMENT, "%s: a key of %zu bytes; it has 1 to %d", name,
                         key_bytes, (int)KEY_BYTES);
}

static ph_status check_values(const ph_graph_cache_call *call, const char *name)
{
    if (call->value_count > VALUES)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %zu values; a call has at most %d", name,
                       call->value_count, (int)VALUES);
    if (call->value_count && !call->values)
        return ph__fail_null(name, "values");
    for (size_t i = 0; i < call->value_count; i++) {
        const ph_graph_cache_value *value = &call->values[i];
        if (!value->data)
            return ph_fail(PH_ERROR_ARGUMENT, "%s: value %zu has no data", name, i);
        if (value->bytes == 0 || value->bytes > VALUE_BYTES)
            return ph_fail(PH_ERROR_ARGUMENT, "%s: value %zu has %zu bytes; it has 1 to %d", name,
                           i, value->bytes, (int)VALUE_BYTES);
    }
    return PH_OK;
}

ph_status ph__cache_check_call(const ph_graph_cache_call *call, const char *name)
{
    if (!call)
        return ph__fail_null(name, "call");
    if (!PH__RESERVED_OK(call))
        return ph__fail_reserved(name, "ph_graph_cache_call");
    PH_TRY(ph__cache_check_key(call->key, call->key_bytes, name));
    if (!call->body)
        return ph__fail_null(name, "body");
    if (call->pointer_count > POINTERS)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %zu pointers; a call has at most %d", name,
                       call->pointer_count, (int)POINTERS);
    if (call->pointer_count && !call->pointers)
        return ph__fail_null(name, "pointers");
    return check_values(call, name);
}

ph_status ph__cache_check_entry(const ph__cache_entry *entry, const ph_graph_cache_call *call,
                                const char *name)
{
    if (entry->pointer_count != call->pointer_count || entry->value_count != call->value_count)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: %zu pointers and %zu values; earlier calls of the key had %zu and %zu: "
                       "what differs so belongs into the key",
                       name, call->pointer_count, call->value_count, entry->pointer_count,
                       entry->value_count);
    for (size_t i = 0; i < call->value_count; i++)
        if (entry->value_sizes[i] != call->values[i].bytes)
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: value %zu has %zu bytes, and %u in earlier calls of the key: what "
                           "differs so belongs into the key",
                           name, i, call->values[i].bytes, entry->value_sizes[i]);
    return PH_OK;
}

/* A plan waits for the device, which an open capture forbids. */
const char *ph__cache_no_plan_now(const ph_graph_cache *cache)
{
    ph_error before;
    if (!cache->capture.plan)
        return NULL;
    ph__error_save(&before);
    if (ph__rule_check(cache->device, PH__RULE_DEVICE_SYNC) == PH_OK)
        return NULL;
    ph__error_restore(&before);
    return "a planned capture waits for the device, on which another capture is open";
}
