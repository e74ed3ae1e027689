/* SPDX-License-Identifier: MIT */
/* tensor/core/quarantine.c: handles that were let go of, in order, as many as there is room for. */
#include "tensor/core/quarantine.h"
#include "base/alloc.h"
#include "base/config.h"
#include "base/environment.h"
#include "base/line.h"
#include "base/status.h"
#include "tensor/backend/backend.h"
#include "tensor/core/describe.h"
#include "tensor/core/released.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include <string.h>

enum {
    NAME_BYTES = 40
};

/* The oldest is at `next` once the ring is full. */
struct ph__quarantine {
    pthread_mutex_t lock;
    ph_tensor **ring;
    size_t capacity, count, next;
    ph__storage
        /* the resources of kept handles: no memory, of the backend, which is not retained */
        nothing;
};

typedef struct tracked {
    ph_tensor tensor;
    ph__going going;
    char name[NAME_BYTES];
} tracked;

ph_status ph__quarantine_asked(size_t *out, const char *call)
{
    const char *value = ph__environment("PH_QUARANTINE");
    uint64_t handles = 0;
    if (value && value[0] && !(ph__config_u64(value, &handles) && handles <= SIZE_MAX))
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: PH_QUARANTINE is '%.64s'; it is how many handles are kept, such as "
                       "100000, or not set",
                       call, value);
    *out = (size_t)handles;
    return PH_OK;
}

static ph__quarantine *make_quarantine(ph__backend *backend)
{
    ph__quarantine *quarantine = ph__calloc(1, sizeof *quarantine);
    if (!quarantine)
        return NULL;
    pthread_mutex_init(&quarantine->lock, NULL);
    quarantine->nothing = (ph__storage){.kind = PH__STORAGE_FOREIGN, .backend = backend};
    atomic_init(&quarantine->nothing.references, 1);
    return quarantine;
}

static void destroy_quarantine(ph__quarantine *quarantine)
{
    if (!quarantine)
        return;
    for (size_t i = 0; i < quarantine->count; i++)
        ph__free(quarantine->ring[i]);
    ph__free(quarantine->ring);
    pthread_mutex_destroy(&quarantine->lock);
    ph__free(quarantine);
}

static void destroy_quarantine_part(ph__backend *backend)
{
    destroy_quarantine(atomic_load_explicit(&backend->quarantine, memory_order_relaxed));
}
PH__BACKEND_PART(.order = PH__BACKEND_QUARANTINE, .destroy = destroy_quarantine_part)

/* In order of age, the oldest first. Under the lock. Gives what is to be freed. */
static ph_tensor **move_handles_to(ph__quarantine *quarantine, ph_tensor **ring, size_t capacity)
{
    ph_tensor **old = quarantine->ring;
    for (size_t i = 0; i < quarantine->count; i++)
        ring[i] = old[(quarantine->next + i) % quarantine->count];
    quarantine->ring = ring;
    quarantine->capacity = capacity;
    quarantine->next = 0;
    return old;
}

static ph_status enlarge_ring(ph__quarantine *quarantine, size_t handles, const char *call)
{
    ph_tensor **ring = ph__calloc(handles, sizeof(ph_tensor *));
    if (!ring)
        return ph__fail_host_memory(call, "a quarantine of handles");
    pthread_mutex_lock(&quarantine->lock);
    if (handles > quarantine->capacity)
        ring = move_handles_to(quarantine, ring, handles);
    pthread_mutex_unlock(&quarantine->lock);
    ph__free(ring);
    return PH_OK;
}

ph_status ph__quarantine_enlarge(ph__backend *backend, size_t handles, const char *call)
{
    if (handles == 0)
        return PH_OK;
    ph__quarantine *known = atomic_load_explicit(&backend->quarantine, memory_order_acquire);
    if (known)
        return enlarge_ring(known, handles, call);
    ph__quarantine *fresh = make_quarantine(backend), *none = NULL;
    if (!fresh)
        return ph__fail_host_memory(call, "a quarantine of handles");
    ph_status status = enlarge_ring(fresh, handles, call);
    if (status == PH_OK && atomic_compare_exchange_strong(&backend->quarantine, &none, fresh))
        return PH_OK;
    destroy_quarantine(fresh);
    return status == PH_OK ? enlarge_ring(none, handles, call) : status;
}

/* ---- handles ---- */
ph_tensor *ph__quarantine_alloc(void)
{
    tracked *made = ph__calloc(1, sizeof *made);
    return made ? &made->tensor : NULL;
}

void ph__quarantine_name(ph_tensor *x, const char *name)
{
    tracked *t = (tracked *)x; /* its first member */
    if (x->tracked && !t->name[0])
        ph__line_format(t->name, sizeof t->name, "%s", name);
}

void ph__quarantine_put(ph__backend *backend, ph_tensor *x, ph__going going)
{
    ph__quarantine *quarantine = atomic_load_explicit(&backend->quarantine, memory_order_acquire);
    ((tracked *)x)->going = going;
    x->storage = &quarantine->nothing;
    x->overwrite_tag = &ph__released_tag;
    x->sequence = 0;
    x->data = NULL;
    x->node = NULL;
    x->leaf = NULL;
    x->tape = NULL;
    x->count = 0;
    x->requires_grad = false;
    x->gone = true;
    pthread_mutex_lock(&quarantine->lock);
    ph_tensor *oldest = NULL;
    if (quarantine->count < quarantine->capacity) {
        quarantine->ring[quarantine->count++] = x;
    } else {
        oldest = quarantine->ring[quarantine->next];
        quarantine->ring[quarantine->next] = x;
        quarantine->next = (quarantine->next + 1) % quarantine->capacity;
    }
    pthread_mutex_unlock(&quarantine->lock);
    ph__free(oldest);
}

/* ---- misuse ---- */
static const char *const goings[] = {
    [PH__GOING_RELEASED] = "its last reference was released",
    [PH__GOING_WORK] = "the end of the work that it was made in let go of it",
    [PH__GOING_SCOPE] = "ph_tape_scope_end let go of it",
    [PH__GOING_CLEARED] = "ph_tape_clear let go of it",
    [PH__GOING_DESTROYED] = "ph_tape_destroy let go of it",
};

ph_status ph__quarantine_fail(const ph_tensor *x, const char *call, const char *what)
{
    const tracked *t = (const tracked *)x;
    char shape[PH__DESCRIBE];
    if (!x->tracked)
        return ph_fail(
            PH_ERROR_STATE,
            "%s: %s (%s) is gone: its last reference was released, or its tape was cleared; "
            "PH_QUARANTINE=100000 says which; ph_tensor_retain keeps a tensor longer",
            call, what, ph__describe_shape(shape, x->dtype, &x->shape));
    return ph_fail(
        PH_ERROR_STATE,
        "%s: %s (%s) is gone: '%s' made it, and %s; ph_tensor_retain keeps a tensor longer", call,
        what, ph__describe_shape(shape, x->dtype, &x->shape), t->name[0] ? t->name : "a pass",
        goings[t->going]);
}
