/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/load.c: finding libcuda and its functions at run time, and what depends on
 * whether it is there yet. */
#include "driver/cuda/load/load.h"
#include "base/fork.h"
#include "base/line.h"
#include "driver/cuda/load/entries.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

ph__cuda_functions ph__cu;

/* The outcome of the one load, for every later call. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int outcome;
static atomic_int driver_version;
static char why[256];
static atomic_bool ready;  /* calls can be made */
static atomic_bool forked; /* this process is a child of one that had initialised CUDA */

static int give_up(int result, const char *format, ...) PH_PRINTF(2, 3);
static int give_up(int result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ph__line_vformat(why, sizeof why, format, args);
    va_end(args);
    return result;
}

/* ---- the list ---- */

#define REQUIRED true
#define OPTIONAL false
static const struct symbol {
    const char *name;
    int version;
    bool required;
    size_t offset; /* in ph__cuda_functions */
} symbols[] = {
#define PH__CU(name, version, need, parameters)                                                    \
    {"cu" #name, version, need, offsetof(ph__cuda_functions, name)},
#include "driver/cuda/load/symbols.def"
#undef PH__CU
};
enum {
    SYMBOL_COUNT = sizeof symbols / sizeof symbols[0]
};
_Static_assert(sizeof(ph__cuda_functions) == SYMBOL_COUNT * sizeof(void *),
               "a function for each symbol");
_Static_assert(sizeof(void *) == sizeof(ph__cu.Init), "functions are found as addresses");

/* The CUDA version that has all that is required. */
static int needed_version(void)
{
    int needed = 0;
    for (size_t i = 0; i < SYMBOL_COUNT; i++)
        if (symbols[i].required && symbols[i].version > needed)
            needed = symbols[i].version;
    return needed;
}

static void version_words(char out[24], int version)
{
    if (version > 0)
        (void)snprintf(out, 24, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    else
        (void)snprintf(out, 24, "of unknown version");
}

static int too_old(const char *symbol)
{
    char words[24];
    int needed = needed_version();
    version_words(words, driver_version);
    return give_up(PH__R_NO_DEVICE,
                   "the NVIDIA driver (%s) has no %s: version %d.%d or newer is needed%s", words,
                   symbol, needed / 1000, needed % 1000 / 10,
                   driver_version >= needed ? "; this one should have it: install it anew" : "");
}

/* Each as it was in its version, so that later changes of a function's form do not concern us. */
static int resolve_functions(ph__cu_get_proc_fn get_proc)
{
    for (size_t i = 0; i < SYMBOL_COUNT; i++) {
        void *address = NULL;
        int found = 0;
        int result = get_proc(symbols[i].name, &address, symbols[i].version,
                              PH__CU_GET_PROC_LEGACY_STREAM, &found);
        if (result != PH__R_OK)
            address = NULL;
        if (!address && symbols[i].required)
            return too_old(symbols[i].name);
        memcpy((char *)&ph__cu + symbols[i].offset, &address, sizeof address);
    }
    return PH__R_OK;
}

/* ---- loading ---- */

static void *open_library(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library)
        return library;
    const char *error = dlerror();
    (void)give_up(
        PH__R_NO_DEVICE,
        "NVIDIA's driver library cannot be loaded (%s): install the driver; a container must be "
        "started with access to the GPU",
        error ? error : "libcuda.so.1");
    return dlopen("libcuda.so", RTLD_NOW | RTLD_LOCAL);
}

static const char *remedy_of_result(int result)
{
    switch (result) {
    case PH__R_NO_DEVICE:
        return "there is no GPU, CUDA_VISIBLE_DEVICES hides it, or the container was started "
               "without it";
    case PH__CU_R_NOT_INITIALIZED:
        return "this process may be a child of one that had used CUDA before the fork, which "
               "cannot use it";
    case PH__CU_R_STUB_LIBRARY:
        return "the toolkit's stub was found instead of the driver's library: take its folder out "
               "of "
               "LD_LIBRARY_PATH";
    case PH__CU_R_SYSTEM_NOT_READY:
        return "a service of the system is not running yet, such as nvidia-fabricmanager";
    case PH__CU_R_SYSTEM_DRIVER_MISMATCH:
        return "the driver was replaced while it was in use: restart the machine";
    case PH__CU_R_COMPAT_NOT_SUPPORTED:
        return "take CUDA's compatibility library out of LD_LIBRARY_PATH";
    case PH__CU_R_OPERATING_SYSTEM:
    case PH__CU_R_UNKNOWN:
        return "the kernel module or its files in /dev may be missing: nvidia-smi and "
               "nvidia-modprobe may say more";
    default:
        return "nvidia-smi may say more";
    }
}

static int fail_load(const char *call, int result)
{
    char words[24];
    version_words(words, driver_version);
    return give_up(result, "%s of the NVIDIA driver (%s) gave %d (%s: %s): %s", call, words, result,
                   ph__result_name(result), ph__result_text(result), remedy_of_result(result));
}

/* get_proc NULL: a driver from before 12.0, of which only the version is wanted. */
static int read_version(void *library, ph__cu_get_proc_fn get_proc)
{
    int (*get_version)(int *version) = NULL;
    int version = 0, found = 0;
    void *address = dlsym(library, "cuDriverGetVersion");
    if (!address && get_proc)
        (void)get_proc("cuDriverGetVersion", &address, 2020, PH__CU_GET_PROC_LEGACY_STREAM, &found);
    memcpy(&get_version, &address, sizeof address);
    int result = get_version ? get_version(&version) : PH__R_OK;
    atomic_store(&driver_version, version);
    return result == PH__R_OK ? PH__R_OK : fail_load("cuDriverGetVersion", result);
}

static void in_child(void)
{
    if (atomic_exchange(&ready, false))
        atomic_store(&forked, true);
}
PH__FORK_PART(.order = PH__FORK_CUDA, .child = in_child)

/* The library stays loaded whatever comes: it may have started threads. */
static int load_libcuda(void)
{
    void *library = open_library();
    if (!library)
        return PH__R_NO_DEVICE;
    ph__cu_get_proc_fn get_proc = NULL;
    void *address = dlsym(library, "cuGetProcAddress_v2");
    memcpy(&get_proc, &address, sizeof address);
    int result = read_version(library, get_proc);
    if (result != PH__R_OK)
        return result;
    if (!get_proc)
        return too_old("cuGetProcAddress_v2");
    result = resolve_functions(get_proc);
    if (result != PH__R_OK)
        return result;
    result = ph__cu.Init(0);
    return result == PH__R_OK ? PH__R_OK : fail_load("cuInit", result);
}

static void load_once(void)
{
    outcome = load_libcuda();
    if (outcome == PH__R_OK)
        atomic_store(&ready, true);
}

/* ---- the thread's mode ---- CUDA keeps it. One that was exchanged before the driver was there
 * waits here, and is given to the driver when the thread loads it or exchanges again, whichever
 * comes first. */

static _Thread_local bool has_waiting;
static _Thread_local ph_capture_mode waiting;

static void give_waiting_mode(void)
{
    int mode = (int)waiting;
    if (has_waiting)
        (void)ph__cu.ThreadExchangeStreamCaptureMode(&mode);
    has_waiting = false;
}

int ph__cuda_thread_exchange_mode(ph__drv_device *device, ph_capture_mode *mode)
{
    (void)device;
    ph_capture_mode next = *mode, before = has_waiting ? waiting : PH_CAPTURE_GLOBAL;
    if (!atomic_load_explicit(&ready, memory_order_acquire)) {
        waiting = next;
        has_waiting = true;
        *mode = before;
        return PH__R_OK;
    }
    int exchanged = (int)next;
    int result = ph__cu.ThreadExchangeStreamCaptureMode(&exchanged);
    if (result != PH__R_OK)
        return result;
    *mode = has_waiting ? before : (ph_capture_mode)exchanged;
    has_waiting = false;
    return PH__R_OK;
}

/* ---- what the other files ask ---- */

int ph__cuda_load(void)
{
    (void)pthread_once(&once, load_once);
    if (atomic_load(&forked)) {
        ph__driver_set_reason(
            "this process was forked from one that had initialised CUDA, and cannot use it: "
            "fork first, or start a new program");
        return PH__CU_R_NOT_INITIALIZED;
    }
    if (outcome != PH__R_OK)
        ph__driver_set_reason("%s", why);
    else
        give_waiting_mode();
    return outcome;
}

int ph__cuda_version(void)
{
    return atomic_load(&driver_version);
}
