/* SPDX-License-Identifier: MIT */
/* graph/inputs/inputs_declared.c: memory that the caller says a capture uses:
 * ph_stream_declare_use. */
#include "graph/inputs/inputs_declared.h"
#include "base/alloc.h"
#include "base/line.h"
#include "graph/object/graph.h"
#include "memory/observe/hold.h"
#include "memory/observe/lookup.h"
#include "memory/pool/pool.h"
#include <string.h>

/* Generations, buffer ids and addresses, told apart by bits that none of them reaches. */
#define KEY_BUFFER  ((uint64_t)1 << 62)
#define KEY_ADDRESS ((uint64_t)1 << 63)

static uint64_t key_of(const ph__declared *declared)
{
    if (declared->generation)
        return declared->generation;
    return declared->base ? declared->buffer_id | KEY_BUFFER : declared->address | KEY_ADDRESS;
}

static const ph__declared *find_declared(const ph__declarations *in, uint64_t key)
{
    size_t at = in->at.count ? (size_t)(uintptr_t)ph__map_get(&in->at, key) : 0;
    return at ? &in->list.at[at - 1] : NULL;
}

const ph__declared *ph__declared_find(const ph__declarations *in, const ph_word *word)
{
    return word->generation ? find_declared(in, word->generation) : NULL;
}

const ph__declared *ph__declared_foreign(const ph__declarations *in, uint64_t buffer_id)
{
    return find_declared(in, buffer_id | KEY_BUFFER);
}

bool ph__declarations_add(ph__declarations *to, const ph__declared *declared)
{
    uint64_t key = key_of(declared);
    if (find_declared(to, key))
        return true;
    if (!ph__vec_reserve(&to->list, 1) ||
        !ph__map_put(&to->at, key, (void *)(uintptr_t)(to->list.count + 1)))
        return false;
    to->list.at[to->list.count++] = *declared;
    return true;
}

bool ph__declarations_copy(ph__declarations *to, const ph__declarations *from)
{
    bool copied = true;
    for (size_t i = 0; i < from->list.count && copied; i++)
        copied = ph__declarations_add(to, &from->list.at[i]);
    return copied;
}

void ph__declarations_free(ph__declarations *in)
{
    ph__vec_free(&in->list);
    ph__map_free(&in->at);
}

/* Looks up the present allocation at the address. */
static ph_status look_up_memory(ph__declared *out, ph_device *device, const void *address,
                                const char *call)
{
    ph_allocation found;
    ph__drv_pointer where;
    out->address = (uintptr_t)address;
    if (ph__memory_find(&found, device, address)) {
        out->base = found.base;
        out->bytes = found.size;
        out->requested = found.requested;
        out->generation = found.generation;
        out->pool = ph__pool_id(found.pool);
        out->pinned = found.pinned;
        out->announced = found.foreign;
        return PH_OK;
    }
    if (ph__memory_is_reserved(device, address))
        return ph__fail_not_live(call, address, device);
    int result = device->driver->pointer_info(&where, device->handle, address);
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_POINTER_GET_ATTRIBUTE, "%s: address %p", call,
                               address);
    if (where.kind == PH__MEMORY_PAGEABLE)
        return PH_OK;
    out->base = (const void *)where.base;
    out->bytes = where.size;
    out->buffer_id = where.buffer_id;
    out->pinned = where.kind == PH__MEMORY_PINNED;
    return PH_OK;
}

/* Where a graph that checks is capturing: its pool, and the first generation that it may have been
 * given. */
typedef struct own_pool {
    ph_pool_id id;
    uint64_t from;
} own_pool;

static bool checks_inputs(ph_device *device, uint64_t capture_id, own_pool *own)
{
    pthread_mutex_lock(&device->capture_lock);
    const ph_graph *graph = ph__capture_owner_locked(device, capture_id);
    bool checking = graph && graph->liveness;
    if (checking)
        *own = (own_pool){ph__pool_id(graph->own->pool), ph__pool_record_from(graph->own->pool)};
    pthread_mutex_unlock(&device->capture_lock);
    return checking;
}

static ph_status declare_use(ph_stream *stream, const void *address, const char *name,
                             const char *call)
{
    ph_device *device = stream->device;
    ph__declared declared = {0};
    own_pool own = {{0, 0}, 0};
    uint64_t id = ph__stream_capture_id(stream);
    if (id == 0 || !checks_inputs(device, id, &own))
        return PH_OK;
    PH_TRY(look_up_memory(&declared, device, address, call));
    if (declared.generation >= own.from && !declared.pinned &&
        declared.pool.first == own.id.first && declared.pool.second == own.id.second)
        return PH_OK;
    ph__line_format(declared.name, sizeof declared.name, "%s", name ? name : "declared");
    pthread_mutex_lock(&device->capture_lock);
    ph_graph *graph = ph__capture_owner_locked(device, id);
    bool added = !graph || ph__declarations_add(&graph->declared, &declared);
    pthread_mutex_unlock(&device->capture_lock);
    return added ? PH_OK : ph__fail_host_memory(call, "the use");
}

/* While no capture of the device checks, the driver is not asked: operators call this for each
 * operand. */
ph_status ph_stream_declare_use(ph_stream *stream, const void *address, const char *name)
{
    static const char call[] = "ph_stream_declare_use";
    PH_TRY(ph__stream_check(stream, call));
    if (address == NULL ||
        atomic_load_explicit(&stream->device->open_checks, memory_order_relaxed) == 0)
        return PH_OK;
    return declare_use(stream, address, name, call);
}

ph_status ph__declarations_pass(const ph_graph *graph, const ph__declarations *from,
                                uint64_t capture_id, const char *call)
{
    ph_device *device = graph->device;
    bool added = true;
    pthread_mutex_lock(&device->capture_lock);
    ph_graph *outer = ph__capture_owner_locked(device, capture_id);
    if (outer)
        added = ph__declarations_copy(&outer->declared, from);
    pthread_mutex_unlock(&device->capture_lock);
    return added ? PH_OK : ph__fail_host_memory(call, "the uses of the graph");
}
