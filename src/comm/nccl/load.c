/* SPDX-License-Identifier: MIT */
/* comm/nccl/load.c: NCCL, loaded once, for the rest of the process: it has threads. */
#include "comm/nccl/load.h"
#include "base/environment.h"
#include "base/fork.h"
#include <dlfcn.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    bool ready;
    int version;
    pid_t process; /* found it */
} loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};
PH__FORK_LOCK(PH__FORK_NCCL, loaded.lock)
ph__nccl_functions ph__nccl_api;
ph__nccl_memory_functions ph__nccl_memory_api;

static const char *find_functions(ph__nccl_functions *out, void *library)
{
#define FIND(name, result, parameters)                                                             \
    *(void **)&out->name = dlsym(library, "nccl" #name);                                           \
    if (out->name == NULL)                                                                         \
        return "nccl" #name;
    PH__NCCL_FUNCTIONS(FIND)
#undef FIND
    return NULL;
}

static void find_memory_functions(void *library)
{
#define FIND(name, result, parameters)                                                             \
    *(void **)&ph__nccl_memory_api.name = dlsym(library, "nccl" #name);
    PH__NCCL_MEMORY_FUNCTIONS(FIND)
#undef FIND
}

static ph_status check_library(ph__nccl_functions *out, int *out_version, void *library,
                               const char *call)
{
    int version = 0;
    const char *missing = find_functions(out, library);
    if (missing)
        return ph_fail(PH_ERROR_UNSUPPORTED,
                       "%s: the NCCL that was found has no %s; install NCCL 2.18 or newer, or name "
                       "one in PH_NCCL",
                       call, missing);
    if (out->GetVersion(&version) != PH__NCCL_SUCCESS || version < PH__NCCL_OLDEST)
        return ph_fail(PH_ERROR_UNSUPPORTED,
                       "%s: the NCCL that was found is %d.%d; install 2.18 or newer, or name one "
                       "in PH_NCCL",
                       call, version / 10000, version / 100 % 100);
    *out_version = version;
    return PH_OK;
}

/* Under the lock. */
static ph_status open_nccl(const char *call)
{
    const char *named = ph__environment("PH_NCCL");
    const char *file = named && named[0] ? named : "libnccl.so.2";
    ph__nccl_functions found;
    int version = 0;
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *why = dlerror();
        return ph_fail(
            PH_ERROR_UNSUPPORTED,
            "%s: more GPUs than one need NCCL, and %s cannot be loaded (%.160s): install "
            "it, or name the file in PH_NCCL",
            call, file, why ? why : "not found");
    }
    ph_status status = check_library(&found, &version, library, call);
    if (status != PH_OK) {
        (void)dlclose(library);
        return status;
    }
    ph__nccl_api = found;
    if (version >= PH__NCCL_HAS_MEMORY)
        find_memory_functions(library);
    loaded.version = version;
    loaded.process = getpid();
    loaded.ready = true;
    return PH_OK;
}

int ph__nccl_version(void)
{
    return loaded.version;
}

ph_status ph__nccl_load(const char *call)
{
    pthread_mutex_lock(&loaded.lock);
    ph_status status = loaded.ready ? PH_OK : open_nccl(call);
    if (status == PH_OK && loaded.process != getpid())
        status = ph_fail(PH_ERROR_STATE,
                         "%s: the process was forked from one that uses NCCL, which does not work "
                         "in its children; fork before the first communicator",
                         call);
    pthread_mutex_unlock(&loaded.lock);
    return status;
}
