/* SPDX-License-Identifier: MIT */
/* tensor/products/cublaslt.c: cuBLASLt, loaded once, for the rest of the process. */
#include "tensor/products/cublaslt.h"
#include "base/environment.h"
#include "base/fork.h"
#include "base/status.h"
#include "tensor/products/cublaslt_abi.h"
#include <dlfcn.h>
#include <string.h>

/* A failure is tried again:
 * PH_CUBLASLT may have been set since. */
static struct {
    pthread_mutex_t lock;
    bool ready;
} lt = {.lock = PTHREAD_MUTEX_INITIALIZER};
ph__lt_functions ph__cublaslt;
PH__FORK_LOCK(PH__FORK_PRODUCTS_CUDA, lt.lock)

static const char *find_library_functions(ph__lt_functions *out, void *library)
{
#define FIND(name, result, parameters)                                                             \
    *(void **)&out->name = dlsym(library, "cublasLt" #name);                                       \
    if (!out->name)                                                                                \
        return "cublasLt" #name;
    PH__LT_FUNCTIONS(FIND)
#undef FIND
    return NULL;
}

static void *open_library(void)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so",
                                        "/usr/local/cuda/lib64/libcublasLt.so"};
    const char *own = ph__environment("PH_CUBLASLT");
    void *library = own && own[0] ? dlopen(own, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

ph_status ph__cublaslt_load(void)
{
    pthread_mutex_lock(&lt.lock);
    void *library = lt.ready ? NULL : open_library();
    const char *missing = library ? find_library_functions(&ph__cublaslt, library) : NULL;
    if (library && !missing)
        lt.ready = true;
    else if (library)
        (void)dlclose(library);
    bool ready = lt.ready;
    pthread_mutex_unlock(&lt.lock);
    if (ready)
        return PH_OK;
    if (missing)
        return ph__fail_native(PH_ERROR_UNSUPPORTED, 0, NULL,
                               "the cuBLASLt that was found has no %s; name another in PH_CUBLASLT",
                               missing);
    return ph__fail_native(
        PH_ERROR_UNSUPPORTED, 0, NULL,
        "cuBLASLt cannot be loaded (libcublasLt.so.13 or .12): install it, it comes with the "
        "CUDA toolkit; or name it in PH_CUBLASLT");
}

ph_capture_mode ph__cublaslt_begin_relaxed(void)
{
    ph_capture_mode mode = PH_CAPTURE_RELAXED;
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    return mode;
}

void ph__cublaslt_end_relaxed(ph_capture_mode mode)
{
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
}

ph_status ph__cublaslt_fail(int result, const char *call, const char *what)
{
    return ph__fail_native(result == PH__LT_ALLOC_FAILED ? PH_ERROR_DEVICE_MEMORY : PH_ERROR_DEVICE,
                           result, call, "%s answered %d (cublasStatus_t) %s", call, result, what);
}
