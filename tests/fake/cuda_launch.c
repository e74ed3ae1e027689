/* SPDX-License-Identifier: MIT */
/* tests/fake/cuda_launch.c: work of the software libcuda: launches, copies, fills, host
 * functions. */
#include "cuda_inside.h"
#include "driver/host/stream/wait.h"
#include <string.h>

static const ph__driver *const host = &ph__driver_host;

/* ---- arguments ---- */
static int args_of_buffer(unsigned char *out, const fake_entry *entry, void **extra)
{
    const void *buffer = NULL;
    size_t size = SIZE_MAX;
    for (; *extra != PH__CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == PH__CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == PH__CU_LAUNCH_PARAM_BUFFER_SIZE)
            memcpy(&size, extra[1], sizeof size);
        else
            return PH__R_INVALID_VALUE;
    }
    if (!buffer || size != entry->end) {
        ph__driver_set_reason("Parameter buffer size is not what the function takes: %zu, not %zu",
                              entry->end, size);
        return PH__R_INVALID_VALUE;
    }
    memcpy(out, buffer, size);
    return 0;
}

int fake_args(unsigned char out[FAKE_ARGS], ph__cu_function function, void **params, void **extra)
{
    const fake_entry *entry = &function->entry;
    memset(out, 0, FAKE_ARGS);
    if (params && extra)
        return PH__R_INVALID_VALUE;
    if (extra)
        return args_of_buffer(out, entry, extra);
    if (!params)
        return entry->count ? PH__R_INVALID_VALUE : 0;
    for (size_t i = 0; i < entry->count; i++)
        memcpy(out + entry->params[i].offset, params[i], entry->params[i].bytes);
    return 0;
}

int fake_check_shared(ph__cu_function function, unsigned shared_bytes)
{
    if (shared_bytes <= (unsigned)function->most_shared)
        return 0;
    ph__driver_set_reason("%u bytes of dynamic shared memory, and the function is set up for %d",
                          shared_bytes, function->most_shared);
    return PH__R_INVALID_VALUE;
}

/* ---- waiting ---- */
static pthread_once_t asked_once = PTHREAD_ONCE_INIT;
static atomic_bool waits;

static void ask(void)
{
    atomic_store(&waits, fake_environment("FAKE_CUDA_LAUNCHES_WAIT", 0) != 0);
}

void fake_launches_wait(bool wait)
{
    (void)pthread_once(&asked_once, ask);
    atomic_store(&waits, wait);
}

int fake_submitted(const fake_target *target, int result)
{
    (void)pthread_once(&asked_once, ask);
    ph__host_stream *stream = (ph__host_stream *)target->stream;
    if (result == 0 && atomic_load(&waits) && !atomic_load(&stream->capturing))
        ph__host_queue_wait(stream, atomic_load(&stream->submitted));
    return result;
}

/* ---- launches ---- */
static int check_function(ph__cu_function function, const fake_target *target)
{
    if (!fake_find(FAKE_FUNCTION, function))
        return PH__R_INVALID_HANDLE;
    return function->object.context == target->context ? 0 : PH__R_INVALID_HANDLE;
}

/* The node that the launch has become, if it has become one. */
static int note_node(const fake_target *target, ph__cu_function function,
                     const fake_launch_form *form)
{
    ph__drv_capture capture;
    int result = host->capture_get(&capture, target->stream);
    if (result || capture.status != PH_CAPTURE_ACTIVE || capture.dependency_count != 1)
        return result;
    return fake_node_note(capture.dependencies[0], function, form);
}

static int launch(ph__cu_function function, const ph__cu_launch_config *config,
                  fake_launch_form form, void **params, void **extra, const char *call)
{
    unsigned char args[FAKE_ARGS];
    fake_target target;
    ph__drv_launch work = {.shared_bytes = config->shared_bytes, .args = args};
    memcpy(work.grid, config->grid, sizeof work.grid);
    memcpy(work.block, config->block, sizeof work.block);
    int result = fake_target_of(&target, config->stream, call);
    if (!result)
        result = check_function(function, &target);
    if (!result)
        result = fake_args(args, function, params, extra);
    if (!result)
        result = fake_check_shared(function, config->shared_bytes);
    if (!result)
        result = fake_submitted(&target, host->launch(target.stream, function->kernel, &work));
    form.with_extra = extra != NULL;
    return result ? result : note_node(&target, function, &form);
}

FAKE(LaunchKernel,
     (ph__cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
      unsigned block_y, unsigned block_z, unsigned shared_bytes, ph__cu_stream stream,
      void **params, void **extra),
     (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params,
      extra))
{
    ph__cu_launch_config config = {.grid = {grid_x, grid_y, grid_z},
                                   .block = {block_x, block_y, block_z},
                                   .shared_bytes = shared_bytes,
                                   .stream = stream};
    return launch(function, &config, (fake_launch_form){0}, params, extra, "cuLaunchKernel");
}

FAKE(LaunchKernelEx,
     (const ph__cu_launch_config *config, ph__cu_function function, void **params, void **extra),
     (config, function, params, extra))
{
    fake_launch_form form = {0};
    if (!config || (config->attribute_count && !config->attributes))
        return PH__R_INVALID_VALUE;
    for (unsigned i = 0; i < config->attribute_count; i++) {
        const ph__cu_launch_attribute *attribute = &config->attributes[i];
        if (attribute->id == PH__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            memcpy(form.cluster, attribute->value.bytes, sizeof form.cluster);
        else if (attribute->id == PH__CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN)
            memcpy(&form.sync_domain, attribute->value.bytes, sizeof form.sync_domain);
        else if (attribute->id == PH__CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            form.programmatic = attribute->value.programmatic_serialization_allowed != 0;
        else
            return PH__R_NOT_SUPPORTED;
    }
    return launch(function, config, form, params, extra, "cuLaunchKernelEx");
}

FAKE(LaunchHostFunc, (ph__cu_stream stream, ph__cu_host_fn fn, void *user), (stream, fn, user))
{
    fake_target target;
    ph__drv_host work = {.fn = fn, .user = user};
    int result = fn ? fake_target_of(&target, stream, "cuLaunchHostFunc") : PH__R_INVALID_VALUE;
    return result ? result : host->host(target.stream, &work);
}

/* ---- copies and fills ---- */
static void *pointer_of(ph__cu_pointer address)
{
    return (void *)(uintptr_t)address;
}

FAKE(Memcpy, (ph__cu_pointer dst, ph__cu_pointer src, size_t bytes), (dst, src, bytes))
{
    ph__cu_context context;
    ph__drv_memcpy copy = {.dst = pointer_of(dst), .src = pointer_of(src), .bytes = bytes};
    int result = fake_current(&context, "cuMemcpy");
    return result ? result : host->copy_sync(context->device, &copy);
}

FAKE(MemcpyAsync, (ph__cu_pointer dst, ph__cu_pointer src, size_t bytes, ph__cu_stream stream),
     (dst, src, bytes, stream))
{
    fake_target target;
    ph__drv_memcpy copy = {.dst = pointer_of(dst), .src = pointer_of(src), .bytes = bytes};
    int result = fake_target_of(&target, stream, "cuMemcpyAsync");
    return result ? result : fake_submitted(&target, host->copy(target.stream, &copy, NULL));
}

static int fill(ph__cu_stream stream, const ph__drv_memset *work, const char *call)
{
    fake_target target;
    ph__drv_pointer pointer;
    int result = fake_target_of(&target, stream, call);
    if (!result && work->count && !fake_context_at(work->dst, &pointer)) {
        ph__driver_set_reason("the address to fill is no memory of a context");
        result = PH__R_INVALID_VALUE;
    }
    return result ? result : fake_submitted(&target, host->fill(target.stream, work));
}

FAKE(MemsetD8Async, (ph__cu_pointer dst, unsigned char value, size_t count, ph__cu_stream stream),
     (dst, value, count, stream))
{
    ph__drv_memset work = {.dst = pointer_of(dst), .value = value, .value_size = 1, .count = count};
    return fill(stream, &work, "cuMemsetD8Async");
}

FAKE(MemsetD32Async, (ph__cu_pointer dst, unsigned value, size_t count, ph__cu_stream stream),
     (dst, value, count, stream))
{
    ph__drv_memset work = {.dst = pointer_of(dst), .value = value, .value_size = 4, .count = count};
    return fill(stream, &work, "cuMemsetD32Async");
}
