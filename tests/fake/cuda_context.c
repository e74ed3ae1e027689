/* SPDX-License-Identifier: MIT */
/* tests/fake/cuda_context.c: contexts of the software libcuda, and what is in them. */
#include "cuda_inside.h"
#include "driver/host/stream/wait.h"
#include <string.h>
#include <time.h>

static struct CUctx_st primary[FAKE_GPUS] = {{.gpu = 0, .primary = true},
                                             {.gpu = 1, .primary = true}};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* references and what follows from them */
static ph__map others;                                   /* contexts that are not primary */
static fake_cuda_counts left_behind;

static _Thread_local struct {
    ph__cu_context at[FAKE_CUDA_STACK];
    size_t count;
} stack;

/* ---- what is left when a context goes ---- */
static void count_objects(fake_cuda_counts *out)
{
    out->streams += fake_live(FAKE_STREAM);
    out->events += fake_live(FAKE_EVENT);
    out->modules += fake_live(FAKE_MODULE);
    out->graphs += fake_live(FAKE_GRAPH);
    out->execs += fake_live(FAKE_EXEC);
}

static void end_objects(ph__cu_context context, fake_cuda_counts *left)
{
    const ph__driver *host = &ph__driver_host;
    ph__cu_exec exec;
    fake_graph *graph;
    ph__cu_event event;
    ph__cu_stream stream;
    for (; (exec = fake_take_any(FAKE_EXEC, context)); left->execs++)
        fake_exec_end(exec);
    for (; (stream = fake_take_any(FAKE_STREAM, context)); left->streams++) {
        ph__drv_graph *captured = fake_captured(stream->stream, false);
        fake_graph_forget(captured);
        host->stream_destroy(stream->stream);
        ph__free(stream);
    }
    for (; (graph = fake_take_any(FAKE_GRAPH, context)); left->graphs++)
        fake_graph_end(graph);
    for (; (event = fake_take_any(FAKE_EVENT, context)); left->events++) {
        host->event_destroy(event->event);
        ph__free(event);
    }
    for (ph__cu_module module; (module = fake_take_any(FAKE_MODULE, context)); left->modules++)
        fake_module_end(module);
}

static void add_counts(fake_cuda_counts *to, const fake_cuda_counts *from)
{
    to->streams += from->streams;
    to->events += from->events;
    to->modules += from->modules;
    to->graphs += from->graphs;
    to->execs += from->execs;
    to->memories += from->memories;
    to->mappings += from->mappings;
    to->reservations += from->reservations;
    to->plain += from->plain;
    to->pinned += from->pinned;
}

/* Under the lock. */
static void close_context(ph__cu_context context)
{
    fake_cuda_counts left = {0};
    ph__host_streams_wait(fake_host(context));
    end_objects(context, &left);
    fake_alloc_count(&left, context);
    if (context->primary)
        fake_vmm_clear(context, &left);
    fake_modules_clear(context);
    ph__driver_host.device_close(context->device);
    context->device = NULL;
    add_counts(&left_behind, &left);
}

static int open_context(ph__cu_context context)
{
    ph__drv_device_options options = {
        .threads = 2,
        .memory_bytes = (uint64_t)fake_environment("FAKE_CUDA_MEMORY", INT64_C(1) << 30)};
    return ph__driver_host.device_open(&context->device, 0, &options);
}

FAKE(DevicePrimaryCtxRetain, (ph__cu_context * context, ph__cu_device device), (context, device))
{
    if (!context)
        return PH__R_INVALID_VALUE;
    if (!fake_is_device(device))
        return PH__R_INVALID_DEVICE;
    ph__cu_context found = &primary[device];
    pthread_mutex_lock(&lock);
    int result = found->device ? 0 : open_context(found);
    if (!result) {
        found->references++;
        *context = found;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

FAKE(DevicePrimaryCtxRelease, (ph__cu_device device), (device))
{
    if (!fake_is_device(device))
        return PH__R_INVALID_DEVICE;
    ph__cu_context found = &primary[device];
    pthread_mutex_lock(&lock);
    int result = found->references ? 0 : PH__R_INVALID_CONTEXT;
    if (!result && --found->references == 0)
        close_context(found);
    pthread_mutex_unlock(&lock);
    return result;
}

ph__cu_context fake_context_of(int gpu)
{
    return gpu >= 0 && gpu < FAKE_GPUS && primary[gpu].device ? &primary[gpu] : NULL;
}

bool fake_is_context(ph__cu_context context)
{
    if (context == &primary[0] || context == &primary[1])
        return true;
    pthread_mutex_lock(&lock);
    bool found = context && ph__map_get(&others, (uintptr_t)context);
    pthread_mutex_unlock(&lock);
    return found;
}

ph__cu_context fake_other_context(const ph__host_device *device)
{
    size_t cursor = 0;
    uint64_t key;
    void *other;
    ph__cu_context found = NULL;
    pthread_mutex_lock(&lock);
    while (!found && ph__map_next(&others, &cursor, &key, &other))
        if (fake_host(other) == device)
            found = other;
    pthread_mutex_unlock(&lock);
    return found;
}

ph__cu_context fake_context_at(const void *address, ph__drv_pointer *pointer)
{
    size_t cursor = 0;
    uint64_t key;
    void *other;
    ph__cu_context found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < FAKE_GPUS && !found; i++)
        if (primary[i].device &&
            ph__driver_host.pointer_info(pointer, primary[i].device, address) == 0 &&
            pointer->kind != PH__MEMORY_PAGEABLE)
            found = &primary[i];
    while (!found && ph__map_next(&others, &cursor, &key, &other))
        if (ph__driver_host.pointer_info(pointer, ((ph__cu_context)other)->device, address) == 0 &&
            pointer->kind != PH__MEMORY_PAGEABLE)
            found = other;
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---- the current context ---- */
static ph__cu_context top(void)
{
    return stack.count ? stack.at[stack.count - 1] : NULL;
}

int fake_current(ph__cu_context *out, const char *call)
{
    *out = top();
    if (*out && (*out)->device)
        return 0;
    ph__driver_set_reason("no context is current on this thread");
    fake_misuse("%s: no context is current on the calling thread", call);
    return PH__R_INVALID_CONTEXT;
}

int fake_expect(ph__cu_context context, const char *call)
{
    ph__cu_context current;
    int result = fake_current(&current, call);
    if (!result && current != context)
        fake_misuse("%s: another context than the handle's is current", call);
    return result;
}

FAKE(CtxGetCurrent, (ph__cu_context * context), (context))
{
    if (!context)
        return PH__R_INVALID_VALUE;
    *context = top();
    return 0;
}

FAKE(CtxPushCurrent, (ph__cu_context context), (context))
{
    if (!fake_is_context(context) || stack.count == FAKE_CUDA_STACK)
        return PH__R_INVALID_CONTEXT;
    stack.at[stack.count++] = context;
    return 0;
}

FAKE(CtxPopCurrent, (ph__cu_context * context), (context))
{
    if (stack.count == 0)
        return PH__R_INVALID_CONTEXT;
    stack.count--;
    if (context)
        *context = stack.at[stack.count];
    return 0;
}

FAKE(CtxGetDevice, (ph__cu_device * device), (device))
{
    ph__cu_context current;
    int result = device ? fake_current(&current, "cuCtxGetDevice") : PH__R_INVALID_VALUE;
    if (!result)
        *device = current->gpu;
    return result;
}

FAKE(CtxSynchronize, (void), ())
{
    ph__cu_context current;
    int result = fake_current(&current, "cuCtxSynchronize");
    return result ? result : ph__driver_host.device_synchronize(current->device);
}

FAKE(CtxGetStreamPriorityRange, (int *lowest, int *highest), (lowest, highest))
{
    ph__cu_context current;
    ph__drv_device_info info;
    int result = fake_current(&current, "cuCtxGetStreamPriorityRange");
    if (!result)
        result = ph__driver_host.device_info(&info, current->device);
    if (result)
        return result;
    if (lowest)
        *lowest = info.priority_lowest;
    if (highest)
        *highest = info.priority_highest;
    return 0;
}

FAKE(MemGetInfo, (size_t * free_bytes, size_t *total_bytes), (free_bytes, total_bytes))
{
    ph__cu_context current;
    ph__drv_device_info info;
    int result = fake_current(&current, "cuMemGetInfo");
    if (!result)
        result = ph__driver_host.device_info(&info, current->device);
    if (result)
        return result;
    *free_bytes = info.memory_free;
    *total_bytes = info.memory_total;
    return 0;
}

/* ---- capture rules that are CUDA's alone ---- */
int fake_unsafe(ph__cu_context context, const char *call)
{
    ph__host_device *device = fake_host(context);
    int first = 0;
    pthread_mutex_lock(&device->capture_lock);
    for (size_t i = 0; i < device->captures.count; i++) {
        ph__host_capture *capture = device->captures.at[i];
        int number = ph__rule_driver(PH__RULE_PLAIN_ALLOC, capture->thread == ph__thread_id(),
                                     capture->mode, ph__host_thread_mode());
        if (number == 0)
            continue;
        ph__host_capture_invalidate(capture, number, call, "");
        first = first ? first : number;
    }
    pthread_mutex_unlock(&device->capture_lock);
    if (first)
        ph__driver_set_reason("the call may do what a capture must not see");
    return first;
}

/* ---- controls ---- */
void fake_count(fake_cuda_counts *live, fake_cuda_counts *left)
{
    if (left)
        *left = (fake_cuda_counts){0};
    if (live) {
        *live = (fake_cuda_counts){0};
        count_objects(live);
        fake_vmm_count(live);
    }
    /* A process that dies in the middle of a call comes here too. */
    struct timespec limit;
    (void)clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 2;
    if (pthread_mutex_timedlock(&lock, &limit) != 0)
        return;
    for (int i = 0; live && i < FAKE_GPUS; i++) {
        live->contexts += primary[i].references > 0;
        if (primary[i].device)
            fake_alloc_count(live, &primary[i]);
    }
    if (left)
        *left = left_behind;
    pthread_mutex_unlock(&lock);
}

size_t fake_context_stack(void *out[FAKE_CUDA_STACK])
{
    for (size_t i = 0; i < stack.count; i++)
        out[i] = stack.at[i];
    return stack.count;
}

int fake_context_create(void **out, int gpu)
{
    ph__cu_context context = ph__calloc(1, sizeof *context);
    int result = context ? 0 : PH__R_OUT_OF_MEMORY;
    if (!result) {
        context->gpu = gpu;
        context->references = 1;
        result = open_context(context);
    }
    if (result) {
        ph__free(context);
        return result;
    }
    pthread_mutex_lock(&lock);
    (void)ph__map_put(&others, (uintptr_t)context, context);
    pthread_mutex_unlock(&lock);
    *out = context;
    return 0;
}

void fake_context_destroy(void *handle)
{
    ph__cu_context context = handle;
    pthread_mutex_lock(&lock);
    if (ph__map_remove(&others, (uintptr_t)context)) {
        close_context(context);
        ph__free(context);
    }
    if (others.count == 0)
        ph__map_free(&others);
    pthread_mutex_unlock(&lock);
}

void fake_contexts_reset(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < FAKE_GPUS; i++) {
        primary[i].references = 0;
        if (primary[i].device)
            close_context(&primary[i]);
    }
    left_behind = (fake_cuda_counts){0};
    pthread_mutex_unlock(&lock);
    stack.count = 0;
}
