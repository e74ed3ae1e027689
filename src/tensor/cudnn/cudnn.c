/* SPDX-License-Identifier: MIT */
/* tensor/cudnn/cudnn.c: cuDNN, loaded once for the rest of the process, and a handle of it for each
 * device. */
#include "tensor/cudnn/cudnn.h"
#include "base/alloc.h"
#include "base/environment.h"
#include "base/fork.h"
#include "base/status.h"
#include "tensor/cudnn/cudnn_plan.h"
#include <dlfcn.h>
#include <phonograph/cuda.h>
#include <string.h>

enum {
    OLDEST = 91000 /* 9.10: the first that masks with -infinity */
};

/* A failure is tried again: PH_CUDNN may have been set since. */
static struct {
    pthread_mutex_t lock;
    bool ready;
} loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};
ph__cudnn_functions ph__cudnn_library;
PH__FORK_LOCK(PH__FORK_CUDNN, loaded.lock)

static bool find_cudnn_functions(ph__cudnn_functions *out, void *library)
{
#define FIND(name, result, parameters)                                                             \
    *(void **)&out->name = dlsym(library, "cudnn" #name);                                          \
    if (!out->name)                                                                                \
        return false;
    PH__CUDNN_FUNCTIONS(FIND)
#undef FIND
    return out->GetVersion() >= OLDEST;
}

static bool load_library(const char *own)
{
    static const char *const names[] = {"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9"};
    void *library = own ? dlopen(own, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; !own && !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    bool found = library && find_cudnn_functions(&ph__cudnn_library, library);
    if (library && !found)
        (void)dlclose(library);
    return found;
}

/* *there: it is to be used. A library that nobody named may be missing, or too old. */
static ph_status find_cudnn(bool *there)
{
    const char *own = ph__environment("PH_CUDNN");
    own = own && own[0] ? own : NULL;
    *there = false;
    if (own && strcmp(own, "none") == 0)
        return PH_OK;
    pthread_mutex_lock(&loaded.lock);
    *there = loaded.ready = loaded.ready || load_library(own);
    pthread_mutex_unlock(&loaded.lock);
    if (*there || !own)
        return PH_OK;
    return ph__fail_native(PH_ERROR_UNSUPPORTED, 0, NULL,
                           "PH_CUDNN names \"%s\", which is no cuDNN 9.10 or later of the 9 series "
                           "that can be loaded; name another, or \"none\"",
                           own);
}

/* A cuDNN that gives no handle, for want of memory or of a driver that is new enough, is not
 * used. */
static void *make_handle(ph_device *device)
{
    void *handle = NULL;
    if (ph_context_push_cuda(device) != PH_OK)
        return NULL;
    ph_capture_mode mode = PH_CAPTURE_RELAXED;
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    if (ph__cudnn_library.Create(&handle) != PH__CUDNN_OK)
        handle = NULL;
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    ph_context_pop_cuda(device);
    return handle;
}

static ph__cudnn *create_cudnn(ph__backend *backend)
{
    bool there;
    if (find_cudnn(&there) != PH_OK)
        return NULL;
    ph__cudnn *cudnn = ph__calloc(1, sizeof *cudnn);
    if (!cudnn) {
        ph_ignore(ph__fail_host_memory("attention", "cuDNN's state"));
        return NULL;
    }
    ph_error saved;
    ph__error_save(&saved);
    cudnn->device = backend->device;
    cudnn->handle = there ? make_handle(backend->device) : NULL;
    ph__error_restore(&saved);
    return cudnn;
}

ph__cudnn *ph__cudnn_of(ph__backend *backend)
{
    ph__cudnn *cudnn = atomic_load_explicit(&backend->cudnn, memory_order_acquire);
    if (cudnn)
        return cudnn;
    pthread_mutex_lock(&backend->lock);
    cudnn = atomic_load_explicit(&backend->cudnn, memory_order_relaxed);
    if (!cudnn) {
        cudnn = create_cudnn(backend);
        atomic_store_explicit(&backend->cudnn, cudnn, memory_order_release);
    }
    pthread_mutex_unlock(&backend->lock);
    return cudnn;
}

/* ---- a part of the backend ---- */
static void destroy_cudnn_part(ph__backend *backend)
{
    ph__cudnn *cudnn = atomic_load_explicit(&backend->cudnn, memory_order_relaxed);
    if (!cudnn)
        return;
    ph_error saved;
    ph__error_save(&saved);
    if (cudnn->handle) {
        bool pushed = ph_context_push_cuda(cudnn->device) == PH_OK;
        ph_capture_mode mode = PH_CAPTURE_RELAXED;
        ph_ignore(ph_thread_exchange_capture_mode(&mode));
        ph__cudnn_plans_free(cudnn);
        (void)ph__cudnn_library.Destroy(cudnn->handle);
        ph_ignore(ph_thread_exchange_capture_mode(&mode));
        if (pushed)
            ph_context_pop_cuda(cudnn->device);
    }
    ph__free(cudnn);
    ph__error_restore(&saved);
}
PH__BACKEND_PART(.order = PH__BACKEND_CUDNN, .destroy = destroy_cudnn_part)
