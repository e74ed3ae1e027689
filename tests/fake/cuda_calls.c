/* SPDX-License-Identifier: MIT */
/* tests/fake/cuda_calls.c: the way into the software libcuda: symbols, counted calls, faults,
 * what tests may ask. */
#include "cuda_inside.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef void (*any_function)(void);
static const struct {
    const char *name;
    int version;
    any_function function;
} symbols[FAKE_CALLS] = {
#define PH__CU(name, version, need, parameters) {"cu" #name, version, (any_function)fake_##name},
#include "cuda_programs.def"
#include "driver/cuda/load/symbols.def"
#undef PH__CU
};

int64_t fake_environment(const char *name, int64_t otherwise)
{
    const char *value = getenv(name);
    return value && *value ? strtoll(value, NULL, 10) : otherwise;
}

int fake_version(void)
{
    return (int)fake_environment("FAKE_CUDA_VERSION", 13000);
}

bool fake_is_missing(const char *name)
{
    const char *at = getenv("FAKE_CUDA_MISSING");
    size_t length = strlen(name);
    while (at && *at) {
        size_t word = strcspn(at, ",");
        if (word == length && strncmp(at, name, length) == 0)
            return true;
        at += word + (at[word] == ',');
    }
    return false;
}

/* ---- symbols ---- */
enum {
    FOUND,
    UNKNOWN_SYMBOL,
    TOO_OLD
};

static int find_symbol(const char *name, void **function, int version, int *status)
{
    *function = NULL;
    *status = UNKNOWN_SYMBOL;
    for (int i = 0; i < FAKE_CALLS; i++) {
        if (strcmp(symbols[i].name, name) != 0 || fake_is_missing(name))
            continue;
        if (symbols[i].version > version || symbols[i].version > fake_version()) {
            *status = TOO_OLD;
            continue;
        }
        memcpy(function, &symbols[i].function, sizeof *function);
        *status = FOUND;
    }
    return *status == FOUND ? 0 : PH__R_NOT_FOUND;
}

EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                               int *status);
EXPORT int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags);
EXPORT int cuDriverGetVersion(int *version);

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
    int ignored;
    if (!name || !function || flags > 2)
        return PH__R_INVALID_VALUE;
    return find_symbol(name, function, version, status ? status : &ignored);
}

int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}

int cuDriverGetVersion(int *version)
{
    return fake_DriverGetVersion(version);
}

const char *fake_name(fake_call call)
{
    return symbols[call].name;
}

/* ---- faults ---- */
static atomic_int_least64_t calls, misuses, until_failure = -1, until_loss = -1;
static atomic_int_least64_t calls_of[FAKE_CALLS];
static atomic_int failure, loss, lost;
static atomic_bool initialised;
static struct {
    atomic_int result, times;
} failing[FAKE_CALLS];

/* What clean-up and its surroundings are made of. */
static bool is_exempt(fake_call call)
{
    switch (call) {
    case FAKE_CALL_CtxGetCurrent:
    case FAKE_CALL_CtxPushCurrent:
    case FAKE_CALL_CtxPopCurrent:
    case FAKE_CALL_ThreadExchangeStreamCaptureMode:
    case FAKE_CALL_DevicePrimaryCtxRelease:
    case FAKE_CALL_StreamDestroy:
    case FAKE_CALL_EventDestroy:
    case FAKE_CALL_MemFree:
    case FAKE_CALL_MemFreeHost:
    case FAKE_CALL_MemAddressFree:
    case FAKE_CALL_MemRelease:
    case FAKE_CALL_MemUnmap:
    case FAKE_CALL_ModuleUnload:
    case FAKE_CALL_GraphDestroy:
    case FAKE_CALL_GraphExecDestroy:
    case FAKE_CALL_LogsUnregisterCallback:
        return true;
    default:
        return false;
    }
}

static bool needs_no_context(fake_call call)
{
    switch (call) {
    case FAKE_CALL_Init:
    case FAKE_CALL_DriverGetVersion:
    case FAKE_CALL_DeviceGetCount:
    case FAKE_CALL_DeviceGet:
    case FAKE_CALL_DeviceGetName:
    case FAKE_CALL_DeviceGetAttribute:
    case FAKE_CALL_CtxGetCurrent:
    case FAKE_CALL_CtxPushCurrent:
    case FAKE_CALL_CtxPopCurrent:
    case FAKE_CALL_ThreadExchangeStreamCaptureMode:
    case FAKE_CALL_LogsRegisterCallback:
    case FAKE_CALL_LogsUnregisterCallback:
        return true;
    default:
        return false;
    }
}

static int injected_here(fake_call call)
{
    int times = atomic_load(&failing[call].times);
    while (times > 0)
        if (atomic_compare_exchange_weak(&failing[call].times, &times, times - 1))
            return atomic_load(&failing[call].result);
    return 0;
}

/* Counts down to the call that it is: true for that one. */
static bool is_turn(atomic_int_least64_t *until)
{
    int_least64_t left = atomic_load(until);
    while (left >= 0)
        if (atomic_compare_exchange_weak(until, &left, left - 1))
            return left == 0;
    return false;
}

static int injected_next(fake_call call)
{
    if (is_exempt(call))
        return 0;
    atomic_fetch_add(&calls, 1);
    if (is_turn(&until_loss))
        atomic_store(&lost, atomic_load(&loss));
    return is_turn(&until_failure) ? atomic_load(&failure) : 0;
}

int fake_enter(fake_call call)
{
    ph__driver_clear_reason();
    atomic_fetch_add(&calls_of[call], 1);
    if (call == FAKE_CALL_Init)
        atomic_store(&initialised, true);
    else if (call != FAKE_CALL_DriverGetVersion && !atomic_load(&initialised))
        return FAKE_NOT_INITIALIZED;
    int result = injected_here(call), next = injected_next(call);
    if (atomic_load(&lost) && !needs_no_context(call)) {
        ph__driver_set_reason("the context is lost");
        return atomic_load(&lost);
    }
    return result ? result : next;
}

/* ---- misuse ---- */
static pthread_mutex_t misuse_lock = PTHREAD_MUTEX_INITIALIZER;
static char misuse_words[256];

void fake_misuse(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&misuse_lock);
    (void)vsnprintf(misuse_words, sizeof misuse_words, format, args);
    pthread_mutex_unlock(&misuse_lock);
    va_end(args);
    atomic_fetch_add(&misuses, 1);
}

static void print_counts(const char *what, const fake_cuda_counts *counts)
{
    const struct {
        const char *name;
        int64_t count;
    } all[] = {{"contexts", counts->contexts},
               {"streams", counts->streams},
               {"events", counts->events},
               {"modules", counts->modules},
               {"graphs", counts->graphs},
               {"execs", counts->execs},
               {"memories", counts->memories},
               {"mappings", counts->mappings},
               {"reservations", counts->reservations},
               {"plain bytes", counts->plain},
               {"pinned bytes", counts->pinned}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].count)
            (void)fprintf(stderr, "libcuda of the tests: %s %lld %s\n", what,
                          (long long)all[i].count, all[i].name);
}

/* Whoever used it must have used it well, and given everything back. */
__attribute__((destructor)) static void report(void)
{
    fake_cuda_counts live, left;
    static const fake_cuda_counts none;
    if (fake_environment("FAKE_CUDA_LENIENT", 0))
        return;
    fake_count(&live, &left);
    if (memcmp(&live, &none, sizeof none) == 0 && memcmp(&left, &none, sizeof none) == 0 &&
        atomic_load(&misuses) == 0)
        return;
    print_counts("at the end of the process there still are", &live);
    print_counts("contexts that had been given back still had", &left);
    if (atomic_load(&misuses))
        (void)fprintf(stderr, "libcuda of the tests: %lld misuses, the last: %s\n",
                      (long long)misuses, misuse_words);
    _exit(97);
}

/* ---- the controls ---- */
static void fail_after(int64_t n, int result)
{
    atomic_store(&until_failure, -1);
    atomic_store(&failure, result);
    atomic_store(&until_failure, n < 0 ? -1 : n);
}

static int call_named(const char *name)
{
    for (int i = 0; i < FAKE_CALLS; i++)
        if (strcmp(symbols[i].name, name) == 0)
            return i;
    (void)fprintf(stderr, "fake libcuda: it has no %s\n", name);
    abort();
}

static void fail_call(const char *name, int result, int times)
{
    int call = call_named(name);
    atomic_store(&failing[call].times, 0);
    atomic_store(&failing[call].result, result);
    atomic_store(&failing[call].times, times);
}

static int64_t count_calls(void)
{
    return atomic_load(&calls);
}

static int64_t count_calls_of(const char *name)
{
    return atomic_load(&calls_of[call_named(name)]);
}

static void lose(int result)
{
    atomic_store(&lost, result);
}

static void lose_after(int64_t n, int result)
{
    atomic_store(&until_loss, -1);
    atomic_store(&loss, result);
    atomic_store(&until_loss, n < 0 ? -1 : n);
}

static bool is_lost(void)
{
    return atomic_load(&lost) != 0;
}

static void reset(void)
{
    fail_after(-1, 0);
    lose_after(-1, 0);
    lose(0);
    fake_launches_wait(false);
    fake_tell_time(-1);
    for (int i = 0; i < FAKE_CALLS; i++)
        atomic_store(&failing[i].times, 0);
    fake_contexts_reset();
    atomic_store(&misuses, 0);
}

static int64_t count_misuses(void)
{
    return atomic_load(&misuses);
}

static const char *misuse_text(void)
{
    return misuse_words;
}

extern const fake_cuda_controls fake_cuda_exports;
EXPORT const fake_cuda_controls fake_cuda_exports = {
    .register_kernel = fake_register_kernel,
    .fail_after = fail_after,
    .calls = count_calls,
    .fail_call = fail_call,
    .calls_of = count_calls_of,
    .lose = lose,
    .lose_after = lose_after,
    .is_lost = is_lost,
    .launches_wait = fake_launches_wait,
    .reset = reset,
    .tell_time = fake_tell_time,
    .count = fake_count,
    .misuses = count_misuses,
    .misuse_text = misuse_text,
    .demoted_launches = fake_demoted_launches,
    .watch_nodes = fake_watch_nodes,
    .node_id = fake_node_id,
    .exec_id = fake_exec_id,
    .context_stack = fake_context_stack,
    .context_create = fake_context_create,
    .context_destroy = fake_context_destroy,
};
