/* SPDX-License-Identifier: MIT */
/* comm/engine/load.c: the search for the plug-in over MPI. */
#include "comm/engine/load.h"
#include "base/environment.h"
#include "base/fork.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char plug_in[] = "libphonograph_mpi.so";
static struct {
    pthread_mutex_t lock;
    const ph__engine *found;    /* stays to the end of the process, as its library does */
    const ph__engine *replaced; /* for tests */
    pid_t process;              /* of the search */
} loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};
PH__FORK_LOCK(PH__FORK_ENGINES, loaded.lock)
static atomic_bool given_up;

void ph__engine_give_up(const ph__engine *engine)
{
    if (engine->give_up && !atomic_exchange(&given_up, true))
        engine->give_up();
}

bool ph__engine_is_given_up(const ph__engine *engine)
{
    return engine->give_up && atomic_load_explicit(&given_up, memory_order_relaxed);
}

/* Beside this library, or the program that has it inside; else as the loader finds it. */
static void *open_beside(void)
{
    Dl_info own;
    char path[4096];
    const char *folder_end =
        dladdr(&loaded, &own) && own.dli_fname ? strrchr(own.dli_fname, '/') : NULL;
    void *library = NULL;
    if (folder_end &&
        (size_t)snprintf(path, sizeof path, "%.*s/%s", (int)(folder_end - own.dli_fname),
                         own.dli_fname, plug_in) < sizeof path)
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return library ? library : dlopen(plug_in, RTLD_NOW | RTLD_LOCAL);
}

static ph_status fail_load(const char *named, const char *call)
{
    const char *why = dlerror();
    return ph_fail(
        PH_ERROR_UNSUPPORTED,
        "%s: more ranks than one need MPI, and %s cannot be loaded (%.160s): install an MPI and "
        "build the library with it, or name the file in PH_COMM_MPI",
        call, named ? named : plug_in, why ? why : "not found");
}

static ph_status open_plug_in(const ph__engine **out, const char *call)
{
    const char *named = ph__environment("PH_COMM_MPI");
    void *library = named && named[0] ? dlopen(named, RTLD_NOW | RTLD_LOCAL) : open_beside();
    if (library == NULL)
        return fail_load(named && named[0] ? named : NULL, call);
    ph__engine_table_fn *table = NULL;
    *(void **)&table = dlsym(library, "ph__engine_table");
    *out = table ? table(PH__ENGINE_VERSION) : NULL;
    if (*out)
        return PH_OK;
    (void)dlclose(library);
    return ph_fail(PH_ERROR_UNSUPPORTED,
                   "%s: %s is of another version of the library; install both from one build", call,
                   named && named[0] ? named : plug_in);
}

/* Under the lock. */
static ph_status find_engine(const ph__engine **out, const char *call)
{
    if (atomic_load(&given_up))
        return ph_fail(PH_ERROR_PEER,
                       "%s: an earlier communicator of the process has failed, and MPI cannot be "
                       "used after that; start the program again",
                       call);
    if (loaded.replaced) {
        *out = loaded.replaced;
        return PH_OK;
    }
    if (loaded.found == NULL) {
        PH_TRY(open_plug_in(&loaded.found, call));
        loaded.process = getpid();
    }
    if (loaded.process != getpid())
        return ph_fail(PH_ERROR_STATE,
                       "%s: the process was forked from one that uses MPI, which does not work in "
                       "its children; fork before the first communicator",
                       call);
    *out = loaded.found;
    return PH_OK;
}

ph_status ph__engine_load(const ph__engine **out, const char *call)
{
    *out = NULL;
    pthread_mutex_lock(&loaded.lock);
    ph_status status = find_engine(out, call);
    pthread_mutex_unlock(&loaded.lock);
    return status;
}

void ph__engine_replace(const ph__engine *engine)
{
    pthread_mutex_lock(&loaded.lock);
    loaded.replaced = engine;
    atomic_store(&given_up, false);
    pthread_mutex_unlock(&loaded.lock);
}
