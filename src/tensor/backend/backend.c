/* SPDX-License-Identifier: MIT */
/* tensor/backend/backend.c: one backend a device: found or made, and gone with the last that
 * needs it. */
#include "tensor/backend/backend.h"
#include "base/alloc.h"
#include "base/fork.h"
#include "base/status.h"

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static ph__backend *registry;
static ph_hook *prepare_hook; /* while the registry has any; under its lock */

/* ---- parts ---- */
static ph__backend_part *parts; /* in order; whole once the library is loaded */

void ph__backend_part_add(ph__backend_part *part)
{
    ph__backend_part **at = &parts;
    while (*at && (*at)->order < part->order)
        at = &(*at)->next;
    part->next = *at;
    *at = part;
}

static ph_status create_backend_parts(ph__backend *backend, const char *call)
{
    ph_status status = PH_OK;
    for (const ph__backend_part *part = parts; part && status == PH_OK; part = part->next)
        if (part->create)
            status = part->create(backend, call);
    return status;
}

static void destroy_parts(ph__backend *backend)
{
    for (const ph__backend_part *part = parts; part; part = part->next)
        if (part->destroy)
            part->destroy(backend);
}

void ph__backend_expect_work(ph__backend *backend)
{
    if (atomic_load_explicit(&backend->had_tape, memory_order_relaxed) ||
        atomic_exchange_explicit(&backend->had_tape, true, memory_order_relaxed))
        return;
    for (const ph__backend_part *part = parts; part; part = part->next)
        if (part->expect)
            part->expect(backend);
}

/* ---- fork ---- backends come across whole, and the child lets them and their tapes be. */

static void lock_backends(void)
{
    for (ph__backend *backend = registry; backend; backend = backend->next)
        pthread_mutex_lock(&backend->lock);
}

static void unlock_backends(void)
{
    for (ph__backend *backend = registry; backend; backend = backend->next)
        pthread_mutex_unlock(&backend->lock);
}

static void abandon_backends(void)
{
    unlock_backends();
    for (ph__backend *backend = registry; backend; backend = backend->next) {
        backend->forked = true;
        for (const ph__backend_part *part = parts; part; part = part->next)
            if (part->forked)
                part->forked(backend);
    }
    registry = NULL;
}
PH__FORK_PART(.order = PH__FORK_BACKENDS, .lock = &registry_lock, .prepare = lock_backends,
              .parent = unlock_backends, .child = abandon_backends)

static ph_status make_backend(ph__backend **out, ph_device *device, const char *call)
{
    ph__backend *backend = ph__calloc(1, sizeof *backend);
    if (!backend)
        return ph__fail_host_memory(call, "what is kept for the device");
    ph_status status = ph_device_get_info(&backend->info, device);
    backend->device = device;
    backend->cuda = backend->info.kind == PH_DEVICE_CUDA;
    backend->ordinal = (int32_t)backend->info.ordinal;
    if (status == PH_OK)
        status = create_backend_parts(backend, call);
    if (status != PH_OK) {
        destroy_parts(backend);
        ph__free(backend);
        return status;
    }
    atomic_init(&backend->references, 1);
    ph_device_retain(device);
    pthread_mutex_init(&backend->lock, NULL);
    *out = backend;
    return PH_OK;
}

/* The backend is in no registry, and nobody has it. Takes NULL. */
static void destroy_backend(ph__backend *backend)
{
    if (!backend)
        return;
    for (size_t i = 0; i < PH__KERNEL_SLOTS; i++)
        ph_kernel_release(atomic_load_explicit(&backend->kernels[i], memory_order_relaxed));
    destroy_parts(backend);
    for (size_t i = 0; i < backend->idle.count; i++)
        ph_stream_destroy(backend->idle.at[i]);
    ph__vec_free(&backend->idle);
    pthread_mutex_destroy(&backend->lock);
    ph_device_release(backend->device);
    ph__free(backend);
}

/* One that has no reference left is about to leave the registry: it is not taken up again. */
static bool acquire_backend(ph__backend *backend)
{
    int references = atomic_load_explicit(&backend->references, memory_order_relaxed);
    while (references > 0)
        if (atomic_compare_exchange_weak_explicit(&backend->references, &references, references + 1,
                                                  memory_order_acquire, memory_order_relaxed))
            return true;
    return false;
}

static ph__backend *find_backend(const ph_device *device)
{
    for (ph__backend *backend = registry; backend; backend = backend->next)
        if (backend->device == device && acquire_backend(backend))
            return backend;
    return NULL;
}

static ph_status before_capture(const ph_graph_hook_info *info, void *user)
{
    (void)user;
    pthread_mutex_lock(&registry_lock);
    ph__backend *backend = find_backend(ph_stream_device(info->stream));
    pthread_mutex_unlock(&registry_lock);
    for (const ph__backend_part *part = parts; part && backend; part = part->next)
        if (part->before_capture)
            part->before_capture(backend);
    ph__backend_release(backend);
    return PH_OK;
}

static ph_status enter_registry(ph__backend *backend)
{
    if (!prepare_hook)
        PH_TRY(
            ph_graph_hook_add(&prepare_hook, NULL, PH_HOOK_CAPTURE_PREPARE, before_capture, NULL));
    backend->next = registry;
    registry = backend;
    return PH_OK;
}

ph_status ph__backend_of(ph__backend **out, ph_device *device, const char *call)
{
    ph_status status = PH_OK;
    pthread_mutex_lock(&registry_lock);
    *out = find_backend(device);
    if (!*out) {
        status = make_backend(out, device, call);
        if (status == PH_OK)
            status = enter_registry(*out);
        if (status != PH_OK)
            destroy_backend(*out);
        if (status != PH_OK)
            *out = NULL;
    }
    pthread_mutex_unlock(&registry_lock);
    return status;
}

static void leave_registry(const ph__backend *backend)
{
    pthread_mutex_lock(&registry_lock);
    ph__backend **at = &registry;
    while (*at != backend)
        at = &(*at)->next;
    *at = backend->next;
    if (!registry) {
        ph_graph_hook_remove(prepare_hook);
        prepare_hook = NULL;
    }
    pthread_mutex_unlock(&registry_lock);
}

ph_status ph__backend_lend_stream(ph_stream **out, ph__backend *backend)
{
    *out = NULL;
    pthread_mutex_lock(&backend->lock);
    if (backend->idle.count > 0)
        *out = backend->idle.at[--backend->idle.count];
    pthread_mutex_unlock(&backend->lock);
    return *out ? PH_OK : ph_stream_create(out, backend->device, NULL);
}

void ph__backend_give_back_stream(ph__backend *backend, ph_stream *stream)
{
    if (!stream)
        return;
    pthread_mutex_lock(&backend->lock);
    bool kept = ph__vec_push(&backend->idle, stream);
    pthread_mutex_unlock(&backend->lock);
    if (!kept)
        ph_stream_destroy(stream);
}

void ph__backend_end(ph__backend *backend)
{
    if (backend->forked)
        return;
    leave_registry(backend);
    destroy_backend(backend);
}

/* From a GPU straight into memory that the host can address, whatever device that is of. The
 * block may still be in use by what its own stream did before. */
static ph_status copy_to_host(void *dst, ph_stream *stream, const ph__backend *from,
                              const void *src, size_t bytes)
{
    PH_TRY(ph_stream_synchronize(stream));
    return ph_memcpy(dst, src, bytes, ph_device_default_stream(from->device));
}

static ph_status copy_by_way_of_host(void *dst, ph_stream *stream, const ph__backend *from,
                                     const void *src, size_t bytes)
{
    ph_stream *source = ph_device_default_stream(from->device);
    void *aside;
    PH_TRY(ph_malloc_pinned(&aside, bytes, 1, source));
    ph_status status = ph_memcpy(aside, src, bytes, source);
    if (status == PH_OK)
        status = ph_stream_synchronize(source);
    if (status == PH_OK)
        status = ph_memcpy(dst, aside, bytes, stream);
    if (status == PH_OK)
        status = ph_stream_synchronize(stream);
    ph_free_pinned(aside, NULL);
    return status;
}

ph_status ph__backend_copy(ph__backend *to, void *dst, ph_stream *stream, const ph__backend *from,
                           const void *src, size_t bytes)
{
    if (bytes == 0)
        return PH_OK;
    if (!from->cuda)
        return ph_memcpy(dst, src, bytes, stream);
    return to->cuda ? copy_by_way_of_host(dst, stream, from, src, bytes)
                    : copy_to_host(dst, stream, from, src, bytes);
}
