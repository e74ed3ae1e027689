/* SPDX-License-Identifier: MIT */
/* tests/device/misuse.c: what devices, streams, events, kernels and submitted work answer to bad
 * input: a status of its own, a message that names the call, cleared outputs, and nothing
 * changed. */
#include "support/support.h"
#include "support/test.h"
#include <phonograph/cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    N = 256
};

/* A pointer that a failed call has to clear. */
#define POISON(pointer) memset(&(pointer), 0xAB, sizeof(pointer))
/* The native code of the thread's record, and the driver call that it is of. */
#define assert_native_of(code, call)                                                               \
    do {                                                                                           \
        assert_native(code);                                                                       \
        assert_string_equal(ph_error_last()->native_call, call);                                   \
    } while (0)
#define REFUSED_OUT(pointer, call, status, part)                                                   \
    do {                                                                                           \
        POISON(pointer);                                                                           \
        assert_error(call, status, part);                                                          \
        assert_null(pointer);                                                                      \
    } while (0)

static bool has_gpu(void)
{
    ph_driver_info info;
    for (size_t i = 0; ph_driver_get_info(&info, i) == PH_OK; i++)
        if (strcmp(info.name, "cuda") == 0 && info.device_count > 0)
            return true;
    return false;
}

TEST(bad_device_names_and_options_are_refused)
{
    static const struct {
        const char *name;
        ph_status status;
        const char *part;
    } cases[] = {
        {"", PH_ERROR_NOT_FOUND, "host"},
        {"gpu", PH_ERROR_NOT_FOUND, "\"gpu\""},
        {"hostess", PH_ERROR_NOT_FOUND, "hostess"},
        {"Host", PH_ERROR_NOT_FOUND, "Host"},
        {"a name that is much longer than any device's name could ever be", PH_ERROR_NOT_FOUND,
         "no device"},
        {"host:3", PH_ERROR_NOT_FOUND, "host"},
        {"host:99999", PH_ERROR_ARGUMENT, "host:99999"},
        {"host:1x", PH_ERROR_ARGUMENT, "host:1x"},
        {"host:colour=7", PH_ERROR_ARGUMENT,
         "\"colour=7\" in device name \"host:colour=7\" is unknown"},
        {"auto:cuda", PH_ERROR_ARGUMENT, "\"cuda\" in device name \"auto:cuda\" is unknown"},
        {"host:threads", PH_ERROR_ARGUMENT, "\"threads\" in device name"},
        {"host:threads=", PH_ERROR_ARGUMENT, "threads"},
        {"host:threads=two", PH_ERROR_ARGUMENT, "two"},
        {"host:threads=-1", PH_ERROR_ARGUMENT, "threads"},
        {"host:threads=1025", PH_ERROR_ARGUMENT, "threads must be 0 to 1024"},
        {"host:chaos=99999999999999999999", PH_ERROR_ARGUMENT, "chaos must be a number"},
        {"host:memory=64x", PH_ERROR_ARGUMENT, "memory must be a number of bytes"},
        {"host:memory=99999999999g", PH_ERROR_ARGUMENT, "memory"},
        {"host:poison=maybe", PH_ERROR_ARGUMENT, "poison must be 0 or 1"},
        {"host:reuse=2", PH_ERROR_ARGUMENT, "reuse must be 0 or 1"},
        {"host:threads=2,,poison=1", PH_ERROR_ARGUMENT, "empty or far too long"},
        {"host:threads=2;chaos=1", PH_ERROR_ARGUMENT, "threads"},
    };
    ph_device *device;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        POISON(device);
        ph_status status = ph_device_open(&device, cases[i].name, NULL);
        if (status != cases[i].status)
            fail_msg("\"%s\" gave %s: %s", cases[i].name, ph_status_name(status),
                     ph_error_last()->message);
        assert_null(device);
        assert_non_null(strstr(ph_error_last()->message, "ph_device_open"));
        if (!strstr(ph_error_last()->message, cases[i].part))
            fail_msg("\"%s\": the message has no \"%s\": %s", cases[i].name, cases[i].part,
                     ph_error_last()->message);
    }
    ph_device_options reserved = {.reserved = {0, 0, 0, 1}}, threads = {.host_threads = 5000};
    assert_error(ph_device_open(NULL, "host", NULL), PH_ERROR_ARGUMENT, "ph_device_open: out");
    REFUSED_OUT(device, ph_device_open(&device, NULL, NULL), PH_ERROR_ARGUMENT,
                "ph_device_open: name");
    REFUSED_OUT(device, ph_device_open(&device, "host", &reserved), PH_ERROR_ARGUMENT,
                "ph_device_options");
    REFUSED_OUT(device, ph_device_open(&device, "host", &threads), PH_ERROR_ARGUMENT, "5000");
    if (!has_gpu()) {
        REFUSED_OUT(device, ph_device_open(&device, "cuda", NULL), PH_ERROR_NOT_FOUND, "cuda");
        assert_native_of(100, "cuInit");
    }
    REFUSED_OUT(device, ph_device_open(&device, "host:3", NULL), PH_ERROR_NOT_FOUND, "host:3");
    assert_native_of(101, "cuDeviceGet");
}

TEST(device_calls_refuse_bad_arguments_by_name)
{
    t_world world;
    ph_device_info info;
    ph_capture_mode mode = (ph_capture_mode)3;
    t_open(&world, NULL);
    assert_error(ph_device_get_info(NULL, world.device), PH_ERROR_ARGUMENT,
                 "ph_device_get_info: out");
    assert_error(ph_device_get_info(&info, NULL), PH_ERROR_ARGUMENT, "ph_device_get_info: device");
    assert_error(ph_driver_get_info(NULL, 0), PH_ERROR_ARGUMENT, "ph_driver_get_info: out");
    assert_error(ph_device_synchronize(NULL), PH_ERROR_ARGUMENT, "ph_device_synchronize: device");
    assert_error(ph_thread_exchange_capture_mode(NULL), PH_ERROR_ARGUMENT,
                 "ph_thread_exchange_capture_mode");
    assert_error(ph_thread_exchange_capture_mode(&mode), PH_ERROR_ARGUMENT, "3");
    assert_int_equal(mode, 3);
    mode = PH_CAPTURE_RELAXED;
    assert_ok(ph_thread_exchange_capture_mode(&mode));
    assert_int_equal(mode, PH_CAPTURE_GLOBAL); /* the refused call had not changed it */
    assert_ok(ph_thread_exchange_capture_mode(&mode));
    assert_null(ph_device_default_stream(NULL));
    assert_null(ph_device_retain(NULL));
    ph_device_release(NULL);
    t_close(&world);
}

TEST(stream_calls_refuse_bad_arguments_by_name)
{
    t_world world, other;
    ph_stream *stream;
    bool done;
    ph_capture_info info;
    struct CUstream_st *cuda;
    ph_stream_options reserved = {.reserved = {1}};
    t_open(&world, NULL);
    t_open(&other, NULL);
    assert_error(ph_stream_create(NULL, world.device, NULL), PH_ERROR_ARGUMENT,
                 "ph_stream_create: out");
    REFUSED_OUT(stream, ph_stream_create(&stream, NULL, NULL), PH_ERROR_ARGUMENT,
                "ph_stream_create: device");
    REFUSED_OUT(stream, ph_stream_create(&stream, world.device, &reserved), PH_ERROR_ARGUMENT,
                "ph_stream_create");
    assert_error(ph_stream_synchronize(NULL), PH_ERROR_ARGUMENT, "ph_stream_synchronize: stream");
    assert_error(ph_stream_query(NULL, world.stream), PH_ERROR_ARGUMENT, "ph_stream_query: done");
    done = true;
    assert_error(ph_stream_query(&done, NULL), PH_ERROR_ARGUMENT, "ph_stream_query: stream");
    assert_false(done);
    memset(&info, 0xFF, sizeof info);
    assert_error(ph_stream_get_capture_info(NULL, world.stream), PH_ERROR_ARGUMENT,
                 "ph_stream_get_capture_info");
    assert_error(ph_stream_get_capture_info(&info, NULL), PH_ERROR_ARGUMENT,
                 "ph_stream_get_capture_info");
    assert_int_equal(info.status, PH_CAPTURE_NONE);
    assert_int_equal(info.id, 0);
    assert_error(ph_stream_wait_event(world.stream, NULL), PH_ERROR_ARGUMENT,
                 "ph_stream_wait_event: event");
    assert_error(ph_stream_wait_stream(NULL, world.stream), PH_ERROR_ARGUMENT,
                 "ph_stream_wait_stream");
    assert_error(ph_stream_wait_stream(world.stream, NULL), PH_ERROR_ARGUMENT,
                 "ph_stream_wait_stream");
    char words[256];
    ph_device_info device;
    assert_ok(ph_device_get_info(&device, world.device));
    (void)snprintf(words, sizeof words,
                   "fill_i32 is of one device (%s), the stream of another (%s)", device.name,
                   device.name);
    assert_error(ph_launch(other.stream, world.fill_i32, NULL, NULL, 0), PH_ERROR_WRONG_DEVICE,
                 words);
    assert_error(ph_stream_wait_stream(world.stream, other.stream), PH_ERROR_WRONG_DEVICE,
                 "ph_stream_wait_stream");
    if (t_on_host())
        REFUSED_OUT(cuda, ph_stream_cuda(&cuda, world.stream), PH_ERROR_UNSUPPORTED,
                    "ph_stream_cuda");
    REFUSED_OUT(cuda, ph_stream_cuda(&cuda, NULL), PH_ERROR_ARGUMENT, "ph_stream_cuda: stream");
    assert_error(ph_stream_cuda(NULL, world.stream), PH_ERROR_ARGUMENT, "ph_stream_cuda: out");
    REFUSED_OUT(cuda, ph_stream_lend_cuda(&cuda, NULL), PH_ERROR_ARGUMENT,
                "ph_stream_lend_cuda: stream");
    assert_error(ph_stream_lend_cuda(NULL, world.stream), PH_ERROR_ARGUMENT,
                 "ph_stream_lend_cuda: out");
    assert_null(ph_stream_device(NULL));
    assert_int_equal(ph_stream_priority(NULL), 0);
    assert_false(ph_stream_is_capturing(NULL));
    assert_false(ph_device_is_capturing(NULL));
    ph_stream_destroy(NULL);
    /* a part of the device: nothing happens */
    ph_stream_destroy(ph_device_default_stream(world.device));
    assert_ok(ph_stream_synchronize(ph_device_default_stream(world.device)));
    t_close(&other);
    t_close(&world);
}

TEST(event_calls_refuse_bad_arguments_by_name)
{
    t_world world, other;
    ph_event *event, *plain, *timed, *foreign;
    ph_event_options reserved = {.reserved = {0, 1}}, timing = {.timing = true};
    bool done = true;
    float ms = 5;
    t_open(&world, NULL);
    t_open(&other, NULL);
    assert_error(ph_event_create(NULL, world.device, NULL), PH_ERROR_ARGUMENT,
                 "ph_event_create: out");
    REFUSED_OUT(event, ph_event_create(&event, NULL, NULL), PH_ERROR_ARGUMENT,
                "ph_event_create: device");
    REFUSED_OUT(event, ph_event_create(&event, world.device, &reserved), PH_ERROR_ARGUMENT,
                "ph_event_options");
    assert_ok(ph_event_create(&plain, world.device, NULL));
    assert_ok(ph_event_create(&timed, world.device, &timing));
    assert_ok(ph_event_create(&foreign, other.device, &timing));
    assert_error(ph_event_record(NULL, world.stream), PH_ERROR_ARGUMENT, "ph_event_record: event");
    assert_error(ph_event_record(plain, NULL), PH_ERROR_ARGUMENT, "ph_event_record: stream");
    assert_error(ph_event_record(plain, other.stream), PH_ERROR_WRONG_DEVICE, "ph_event_record");
    assert_error(ph_stream_wait_event(NULL, plain), PH_ERROR_ARGUMENT,
                 "ph_stream_wait_event: stream");
    assert_error(ph_stream_wait_event(other.stream, plain), PH_ERROR_WRONG_DEVICE,
                 "ph_stream_wait_event");
    assert_error(ph_event_query(NULL, plain), PH_ERROR_ARGUMENT, "ph_event_query: done");
    assert_error(ph_event_query(&done, NULL), PH_ERROR_ARGUMENT, "ph_event_query: event");
    assert_false(done);
    assert_error(ph_event_synchronize(NULL), PH_ERROR_ARGUMENT, "ph_event_synchronize: event");
    assert_ok(ph_event_query(&done, plain)); /* never recorded: done */
    assert_true(done);
    assert_ok(ph_event_synchronize(plain));
    assert_ok(ph_stream_wait_event(world.stream, plain));

    assert_error(ph_event_elapsed(NULL, timed, timed), PH_ERROR_ARGUMENT,
                 "ph_event_elapsed: milliseconds");
    assert_error(ph_event_elapsed(&ms, NULL, timed), PH_ERROR_ARGUMENT, "ph_event_elapsed");
    assert_true(ms == 0);
    assert_error(ph_event_elapsed(&ms, timed, NULL), PH_ERROR_STATE,
                 "ph_event_elapsed"); /* timed comes first */
    assert_error(ph_event_elapsed(&ms, plain, timed), PH_ERROR_ARGUMENT, "timing");
    assert_error(ph_event_elapsed(&ms, timed, timed), PH_ERROR_STATE, "never recorded");
    assert_ok(ph_event_record(timed, world.stream));
    assert_ok(ph_event_record(foreign, other.stream));
    assert_ok(ph_event_synchronize(timed));
    assert_ok(ph_event_synchronize(foreign));
    assert_error(ph_event_elapsed(&ms, timed, foreign), PH_ERROR_WRONG_DEVICE, "ph_event_elapsed");
    t_gate gate = {0};
    assert_ok(t_gate_wait(&gate, world.stream));
    assert_ok(ph_event_record(timed, world.stream));
    assert_error(ph_event_elapsed(&ms, timed, timed), PH_ERROR_STATE, "not complete");
    t_gate_open(&gate);
    ph_event_destroy(NULL);
    ph_event_destroy(plain);
    ph_event_destroy(timed);
    ph_event_destroy(foreign);
    t_close(&other);
    t_close(&world);
}

/* ---- kernels ---- */
static void nothing(const ph_block_range *range, const void *args)
{
    (void)range;
    (void)args;
}

TEST(bad_kernel_sources_are_refused)
{
    t_world world;
    ph_kernel *kernel;
    const bool on_host = t_on_host();
    const ph_param overlap[] = {{"a", PH_PARAM_VALUE, 0, 8, {0}}, {"b", PH_PARAM_VALUE, 4, 8, {0}}};
    const ph_param outside[] = {{"a", PH_PARAM_VALUE, 8, 16, {0}}};
    const ph_param overflow[] = {{"a", PH_PARAM_VALUE, 8, SIZE_MAX, {0}}};
    const ph_param short_address[] = {{"a", PH_PARAM_ADDRESS, 0, 4, {0}}};
    const ph_param empty[] = {{"a", PH_PARAM_VALUE, 0, 0, {0}}};
    const ph_param unordered[] = {{"a", PH_PARAM_VALUE, 8, 8, {0}},
                                  {"b", PH_PARAM_VALUE, 0, 8, {0}}};
    const ph_param unknown[] = {{"a", (ph_param_kind)2, 0, 8, {0}}};
    const ph_param reserved[] = {{"a", PH_PARAM_VALUE, 0, 8, {.reserved = {0, 3}}}};
    const struct {
        ph_kernel_source source;
        ph_status status;
        const char *part;
    } cases[] = {
        {{.host = nothing}, PH_ERROR_ARGUMENT, "name"},
        {{.name = "", .host = nothing}, PH_ERROR_ARGUMENT, "name"},
        {{.name = "k", .host = nothing, .reserved = {0, 1}}, PH_ERROR_ARGUMENT, "ph_kernel_source"},
        {{.name = "k", .cuda = on_host ? "void k() {}" : NULL, .host = on_host ? NULL : nothing},
         PH_ERROR_UNSUPPORTED,
         on_host ? "host" : "k"},
        {{.name = "k", .host = nothing, .args_size = 4097}, PH_ERROR_ARGUMENT, "4097"},
        {{.name = "k", .host = nothing, .args_size = 16, .param_count = 1},
         PH_ERROR_ARGUMENT,
         "params"},
        {{.name = "k", .host = nothing, .args_size = 16, .params = overlap, .param_count = 2},
         PH_ERROR_ARGUMENT,
         "b"},
        {{.name = "k", .host = nothing, .args_size = 16, .params = outside, .param_count = 1},
         PH_ERROR_ARGUMENT,
         "16"},
        {{.name = "k", .host = nothing, .args_size = 16, .params = overflow, .param_count = 1},
         PH_ERROR_ARGUMENT,
         "a"},
        {{.name = "k", .host = nothing, .args_size = 16, .params = short_address, .param_count = 1},
         PH_ERROR_ARGUMENT,
         "address"},
        {{.name = "k", .host = nothing, .args_size = 16, .params = empty, .param_count = 1},
         PH_ERROR_ARGUMENT,
         "a"},
        {{.name = "k", .host = nothing, .args_size = 16, .params = unordered, .param_count = 2},
         PH_ERROR_ARGUMENT,
         "b"},
        {{.name = "k", .host = nothing, .args_size = 16, .params = unknown, .param_count = 1},
         PH_ERROR_ARGUMENT,
         "a"},
        {{.name = "k", .host = nothing, .args_size = 16, .params = reserved, .param_count = 1},
         PH_ERROR_ARGUMENT,
         "a"},
    };
    t_open(&world, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        REFUSED_OUT(kernel, ph_kernel_create(&kernel, world.device, &cases[i].source),
                    cases[i].status, cases[i].part);
        assert_non_null(strstr(ph_error_last()->message, "ph_kernel_create"));
        if (cases[i].source.args_size > 4096)
            assert_native_of(1, "cuLaunchKernel");
    }
    ph_kernel_source good = {.name = "k", .host = nothing};
    assert_error(ph_kernel_create(NULL, world.device, &good), PH_ERROR_ARGUMENT,
                 "ph_kernel_create: out");
    REFUSED_OUT(kernel, ph_kernel_create(&kernel, NULL, &good), PH_ERROR_ARGUMENT,
                "ph_kernel_create: device");
    REFUSED_OUT(kernel, ph_kernel_create(&kernel, world.device, NULL), PH_ERROR_ARGUMENT,
                "ph_kernel_create: source");
    assert_null(ph_kernel_retain(NULL));
    ph_kernel_release(NULL);
    assert_string_equal(ph_kernel_name(NULL), "");
    t_close(&world);
}

TEST(bad_launches_are_refused_and_write_nothing)
{
    t_world world, other;
    int32_t *memory;
    t_open(&world, NULL);
    t_open(&other, NULL);
    assert_ok(PH_NEW(&memory, N, world.stream));
    assert_ok(t_fill(&world, world.stream, memory, N, 3));
    struct t_fill_i32 args = {N, memory, 4};
    ph_kernel *kernel = world.fill_i32;
    ph_launch_config good = t_config(N);
#define LAUNCH(config, size) ph_launch(world.stream, kernel, (config), &args, (size))
    assert_error(ph_launch(NULL, kernel, &good, &args, sizeof args), PH_ERROR_ARGUMENT,
                 "ph_launch: stream");
    assert_error(ph_launch(world.stream, NULL, &good, &args, sizeof args), PH_ERROR_ARGUMENT,
                 "ph_launch: kernel");
    assert_error(ph_launch(world.stream, kernel, &good, NULL, sizeof args), PH_ERROR_ARGUMENT,
                 "ph_launch: args");
    assert_error(LAUNCH(&good, sizeof args - 1), PH_ERROR_ARGUMENT, "fill_i32");
    assert_error(LAUNCH(&good, 0), PH_ERROR_ARGUMENT, "fill_i32");
    assert_error(ph_launch(world.stream, other.fill_i32, &good, &args, sizeof args),
                 PH_ERROR_WRONG_DEVICE, "ph_launch");
    static const ph_launch_config bad[] = {
        {.block = {1025, 1, 1}},
        {.block = {1, 1025, 1}},
        {.block = {1, 1, 65}},
        {.block = {33, 32, 1}},
        {.block = {UINT32_MAX, UINT32_MAX, UINT32_MAX}},
        {.grid = {UINT32_C(1) << 31, 1, 1}},
        {.grid = {1, 65536, 1}},
        {.grid = {1, 1, 65536}},
        {.shared_bytes = 232449},
        {.shared_bytes = SIZE_MAX},
        {.reserved = {0, 0, 0, 1}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_error(LAUNCH(&bad[i], sizeof args), PH_ERROR_ARGUMENT, "ph_launch");
#undef LAUNCH
    assert_error(ph_launch_host(NULL, t_gate_body, NULL), PH_ERROR_ARGUMENT,
                 "ph_launch_host: stream");
    assert_error(ph_launch_host(world.stream, NULL, NULL), PH_ERROR_ARGUMENT, "ph_launch_host: fn");
    t_all(memory, N, 3, world.stream); /* none of these ran */
    ph_free(memory, NULL);
    t_close(&other);
    t_close(&world);
}

/* ---- copies and fills ---- */
TEST(bad_copies_and_fills_are_refused)
{
    t_world world, other;
    int32_t *a, *b, host[N] = {0};
    ph_allocation where;
    t_open(&world, NULL);
    t_open(&other, NULL);
    assert_ok(PH_NEW(&a, N, world.stream));
    assert_ok(PH_NEW(&b, N, world.stream));
    assert_ok(t_fill(&world, world.stream, a, N, 3));
    assert_ok(t_fill(&world, world.stream, b, N, 4));
    assert_ok(ph_memory_lookup(&where, world.device, a));
    const size_t bytes = sizeof host;
    assert_error(ph_memcpy(NULL, a, bytes, world.stream), PH_ERROR_ARGUMENT, "ph_memcpy: dst");
    assert_error(ph_memcpy(a, NULL, bytes, world.stream), PH_ERROR_ARGUMENT, "ph_memcpy: src");
    assert_error(ph_memcpy(a, b, bytes, NULL), PH_ERROR_ARGUMENT, "ph_memcpy: stream");
    assert_error(ph_memcpy(a, a, bytes, world.stream), PH_ERROR_ARGUMENT, "overlap");
    assert_native_of(1, "cuMemcpyAsync");
    assert_error(ph_memcpy(a, a + 1, bytes - 4, world.stream), PH_ERROR_ARGUMENT, "overlap");
    assert_native_of(1, "cuMemcpyAsync");
    assert_error(ph_memcpy(a + 1, a, bytes - 4, world.stream), PH_ERROR_ARGUMENT, "overlap");
    assert_native_of(1, "cuMemcpyAsync");
    assert_error(ph_memcpy(a, host, SIZE_MAX, world.stream), PH_ERROR_SIZE, "ph_memcpy");
    assert_native_of(1, "cuMemcpyAsync");
    assert_error(ph_memcpy(a, host, SIZE_MAX / 2, world.stream), PH_ERROR_SIZE, "ph_memcpy");
    assert_native_of(1, "cuMemcpyAsync");
    assert_error(ph_memcpy(host, a, (size_t)1 << 40, world.stream), PH_ERROR_SIZE, "ph_memcpy");
    assert_native_of(1, "cuMemcpyAsync");
    assert_error(ph_memcpy(host, a, where.size + 1, world.stream), PH_ERROR_SIZE, "ph_memcpy");
    assert_native_of(1, "cuMemcpyAsync");
    assert_error(ph_memset(NULL, 0, bytes, world.stream), PH_ERROR_ARGUMENT, "ph_memset: dst");
    assert_error(ph_memset(a, 0, bytes, NULL), PH_ERROR_ARGUMENT, "ph_memset: stream");
    assert_error(ph_memset(a, 0, SIZE_MAX, world.stream), PH_ERROR_SIZE, "ph_memset");
    assert_native_of(1, "cuMemsetAsync");
    assert_error(ph_memset(a, 0, where.size + 1, world.stream), PH_ERROR_SIZE, "ph_memset");
    assert_native_of(1, "cuMemsetAsync");
    assert_error(ph_memset(host, 1, bytes, world.stream), PH_ERROR_ARGUMENT,
                 "is neither device nor pinned memory of the stream's device (");
    assert_native_of(1, "cuMemsetAsync");
    assert_error(ph_memset_u32(NULL, 0, N, world.stream), PH_ERROR_ARGUMENT, "ph_memset_u32: dst");
    assert_error(ph_memset_u32(a, 0, N, NULL), PH_ERROR_ARGUMENT, "ph_memset_u32: stream");
    assert_error(ph_memset_u32((char *)a + 2, 0, 1, world.stream), PH_ERROR_ARGUMENT, "aligned");
    assert_native_of(1, "cuMemsetAsync");
    assert_error(ph_memset_u32(a, 0, SIZE_MAX / 2, world.stream), PH_ERROR_SIZE, "overflow");
    assert_native_of(1, "cuMemsetAsync");
    /* Memory of another device of the host is not this device's memory; devices of one GPU share
     * its addresses. */
    if (t_on_host()) {
        assert_error(ph_memset(a, 1, bytes, other.stream), PH_ERROR_ARGUMENT,
                     "every ph_device_open makes a device of its own: use memory of this one");
        assert_native_of(1, "cuMemsetAsync");
    }
    assert_ok(ph_memcpy(NULL, NULL, 0, world.stream));
    assert_ok(ph_memset(NULL, 0, 0, world.stream));
    assert_ok(ph_memset_u32(NULL, 0, 0, world.stream));
    t_all(a, N, 3, world.stream);
    t_all(b, N, 4, world.stream);
    ph_free(a, NULL);
    ph_free(b, NULL);
    t_close(&other);
    t_close(&world);
}

/* ---- the record ---- */
TEST(clean_up_leaves_the_record)
{
    t_world world;
    ph_stream *stream;
    ph_event *event;
    ph_graph *graph, *open;
    ph_pool *pool;
    ph_kernel *kernel;
    void *block, *pinned;
    t_open(&world, NULL);
    assert_ok(ph_stream_create(&stream, world.device, NULL));
    assert_ok(ph_event_create(&event, world.device, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_create(&open, NULL));
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    assert_ok(ph_kernel_create(&kernel, world.device, &t_kernel_sources[T_KERNEL_ADD_ONE]));
    assert_ok(ph_malloc(&block, 1, 1000, stream));
    assert_ok(ph_malloc_pinned(&pinned, 1, 1000, stream));
    assert_ok(ph_graph_capture_begin(open, stream, NULL));
    assert_error(ph_launch(NULL, kernel, NULL, NULL, 0), PH_ERROR_ARGUMENT, "ph_launch");
    const ph_error before = *ph_error_last();
    t_log_start();
    ph_free(&world, NULL); /* no allocation: goes to the log */
    ph_free(block, stream);
    ph_free_pinned(pinned, stream);
    ph_graph_capture_abort(open);
    ph_graph_destroy(open);
    ph_graph_destroy(graph);
    ph_pool_release(pool);
    ph_kernel_release(kernel);
    ph_event_destroy(event);
    ph_stream_destroy(stream);
    ph_graph_hook_remove(NULL);
    ph_pool_checkpoint_destroy(NULL);
    ph_string_free(NULL);
    t_close(&world);
    assert_true(ph_error_last()->status == before.status);
    assert_string_equal(ph_error_last()->message, before.message);
    assert_int_equal(ph_error_last()->native_code, before.native_code);
    t_log_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_device_names_and_options_are_refused),
        cmocka_unit_test(device_calls_refuse_bad_arguments_by_name),
        cmocka_unit_test(stream_calls_refuse_bad_arguments_by_name),
        cmocka_unit_test(event_calls_refuse_bad_arguments_by_name),
        cmocka_unit_test(bad_kernel_sources_are_refused),
        cmocka_unit_test(bad_launches_are_refused_and_write_nothing),
        cmocka_unit_test(bad_copies_and_fills_are_refused),
        cmocka_unit_test(clean_up_leaves_the_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
