/* SPDX-License-Identifier: MIT */
/* tests/torch/allocator.c: the hooks of PyTorch's pluggable allocator, called as torch does. No C++
 * is in this process: what fails returns NULL, and the record says why. */
#include "support/support.h"
#include "support/test.h"

#include "base/alloc.h"
#include "device/handles/device.h"
#include "torch/devices.h"
#include "torch/filter.h"
#include "torch/hooks.h"
#include <phonograph/cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum {
    GPU = 3, /* as torch numbers it */
    N = 1000
};
static t_world world;
static ph_stream *side;
static int32_t *x;

FIXTURE(open_world)
{
    t_open(&world, NULL);
    assert_ok(ph_stream_create(&side, world.device, NULL));
    assert_ok(ph_torch_set_device(GPU, world.device));
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(t_fill(&world, world.stream, x, N, 1));
    assert_ok(ph_stream_synchronize(world.stream));
    (void)ph_fail(PH_ERROR_STATE, "none yet");
    return 0;
}

FIXTURE(close_world)
{
    ph_free(x, world.stream);
    ph__torch_devices_close();
    ph_stream_destroy(side);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

/* The stream as torch has it. */
static void *native(ph_stream *stream)
{
    struct CUstream_st *raw = NULL;
    if (t_on_host())
        return stream;
    assert_ok(ph_stream_cuda(&raw, stream));
    return raw;
}

static void *allocate(size_t bytes, ph_stream *stream)
{
    void *p = ph_torch_malloc((ptrdiff_t)bytes, GPU, native(stream));
    assert_non_null(p);
    return p;
}

static void release(void *pointer, ph_stream *stream)
{
    ph_torch_free(pointer, N, GPU, native(stream));
}

static ph_pool *pool_of(const void *address)
{
    ph_allocation found;
    assert_ok(ph_memory_lookup(&found, world.device, address));
    return found.pool;
}

static void expect_failure(ph_status status, const char *part)
{
    const ph_error *error = ph_error_last();
    assert_int_equal(error->status, status);
    assert_non_null(strstr(error->message, part));
    (void)ph_fail(PH_ERROR_STATE, "none yet");
}

static void expect_none(void)
{
    assert_string_equal(ph_error_last()->message, "none yet");
}

/* ---- filters, as a std::function has them ---- */
static int clones;
static bool manage(void *to, const void *from, int operation)
{
    if (operation == 2)
        memcpy(to, from, sizeof(void *));
    clones += operation == 2 ? 1 : operation == 3 ? -1 : 0;
    return false;
}

static bool is_the_stream(const void *functor, void *const *stream)
{
    void *wanted;
    memcpy(&wanted, functor, sizeof wanted);
    return wanted == NULL || wanted == *stream;
}

/* stream NULL: all streams. */
static void begin_pool(uint64_t number, void *stream)
{
    ph__filter filter = {.manage = manage, .call = is_the_stream};
    memcpy(filter.functor, &stream, sizeof(void *));
    ph_torch_begin_pool(GPU, 0, number, &filter);
}

/* ---- memory ---- */
TEST(test_memory_is_of_the_device)
{
    ph_allocation found;
    char *p = allocate(5000, world.stream), *q = allocate(100, world.stream);
    assert_ok(ph_memory_lookup(&found, world.device, p + 4999));
    assert_int_equal(found.requested, 5000);
    assert_null(found.pool);
    assert_ok(ph_memset(p, 1, 5000, world.stream));
    release(p, world.stream);
    assert_ptr_equal(allocate(5000, world.stream), p); /* in the order of the stream */
    release(p, world.stream);
    release(q, world.stream);
    void *legacy = ph_torch_malloc(64, GPU, NULL);
    assert_non_null(legacy);
    ph_torch_free(legacy, 64, GPU, NULL);
    assert_null(ph_torch_malloc(0, GPU, native(world.stream)));
    assert_null(ph_torch_malloc(-1, GPU, native(world.stream)));
    ph_torch_free(NULL, 0, GPU, NULL);
    expect_none();
    ph_torch_empty_cache();
    expect_none();
    assert_ok(ph_stream_synchronize(world.stream));
}

TEST(test_another_stream_is_waited_for)
{
    ph_memory_stats stats;
    t_gate gate = {0};
    void *p = allocate(4096, world.stream);
    assert_ok(t_gate_wait(&gate, side));
    ph_torch_record_stream(p, native(side));
    release(p, world.stream);
    ph_status status = ph_memory_get_stats(&stats, world.device);
    t_gate_open(&gate);
    assert_ok(status);
    assert_int_equal(stats.deferred, 1);
    ph_torch_record_stream(&stats, native(side)); /* memory of others: nothing happens */
    ph_torch_record_stream(NULL, native(side));
    assert_ok(ph_stream_synchronize(side));
    assert_ok(ph_memory_trim(world.device));
    assert_ok(ph_memory_get_stats(&stats, world.device));
    assert_int_equal(stats.deferred, 0);
}

TEST(test_a_fraction_is_a_limit)
{
    ph_device_info info;
    assert_ok(ph_device_get_info(&info, world.device));
    size_t half = (size_t)(info.memory_total / 2);
    ph_torch_memory_fraction(0.25, GPU);
    expect_none();
    assert_null(ph_torch_malloc((ptrdiff_t)half, GPU, native(world.stream)));
    expect_failure(PH_ERROR_POOL_LIMIT, "limit");
    ph_torch_memory_fraction(0, GPU);
    expect_failure(PH_ERROR_ARGUMENT, "at most 1");
    ph_torch_memory_fraction(1, GPU);
    expect_none();
}

TEST(test_numbers_of_gpus_are_checked)
{
    ph_device *device;
    assert_status(ph_torch_set_device(GPU, world.device), PH_ERROR_STATE);
    assert_status(ph_torch_set_device(-1, world.device), PH_ERROR_ARGUMENT);
    assert_status(ph_torch_set_device(64, NULL), PH_ERROR_ARGUMENT);
    assert_ok(ph_torch_device(&device, GPU));
    assert_ptr_equal(device, world.device);
    assert_status(ph_torch_device(&device, 64), PH_ERROR_ARGUMENT);
    assert_null(device);
    (void)ph_fail(PH_ERROR_STATE, "none yet");
    assert_null(ph_torch_malloc(64, 64, NULL));
    expect_failure(PH_ERROR_ARGUMENT, "GPU 64");
    ph_torch_begin_pool(-1, 0, 1, NULL);
    expect_failure(PH_ERROR_ARGUMENT, "GPU -1");
}

/* ---- pools ---- */
TEST(test_a_filter_routes_requests)
{
    uint64_t name[2];
    ph_pool_id id;
    begin_pool(7, native(world.stream));
    assert_int_equal(clones, 1);
    void *inside = allocate(512, world.stream), *outside = allocate(512, side);
    assert_null(pool_of(outside));
    assert_non_null(pool_of(inside));
    id = ph_pool_get_id(pool_of(inside));
    assert_true(ph_torch_pool_name(name, &id));
    assert_int_equal(name[0], 0);
    assert_int_equal(name[1], 7);
    ph_torch_end_pool(GPU, 0, 7);
    assert_int_equal(clones, 0);
    void *after = allocate(512, world.stream);
    assert_null(pool_of(after));
    begin_pool(7, NULL); /* the same again */
    void *again = allocate(512, side);
    assert_ptr_equal(pool_of(again), pool_of(inside));
    ph_torch_end_pool(GPU, 0, 7);
    release(again, side);
    release(after, world.stream);
    release(inside, world.stream);
    release(outside, side);
    ph_torch_release_pool(GPU, 0, 7);
    assert_true(ph_torch_pool_name(name, &id));
    ph_torch_release_pool(GPU, 0, 7);
    assert_false(ph_torch_pool_name(name, &id));
    expect_none();
}

TEST(test_an_empty_filter_routes_nothing)
{
    const ph__filter empty = {.manage = NULL};
    ph_torch_begin_pool(GPU, 0, 1, &empty);
    void *p = allocate(512, world.stream);
    assert_null(pool_of(p));
    release(p, world.stream);
    ph_torch_end_pool(GPU, 0, 1);
    ph_torch_release_pool(GPU, 0, 1);
    expect_none();
}

TEST(test_misuse_of_pools_is_refused)
{
    ph_pool_id none = {0, 99};
    uint64_t name[2];
    ph_torch_end_pool(GPU, 0, 1);
    expect_failure(PH_ERROR_STATE, "is not begun");
    ph_torch_release_pool(GPU, 0, 1);
    expect_failure(PH_ERROR_STATE, "release_pool");
    begin_pool(1, NULL);
    begin_pool(1, NULL);
    expect_failure(PH_ERROR_STATE, "begun already");
    assert_int_equal(clones, 1);
    ph_torch_release_pool(GPU, 0, 1);
    expect_failure(PH_ERROR_STATE, "as often as it was ended");
    ph_torch_end_pool(GPU, 0, 1);
    ph_torch_release_pool(GPU, 0, 1);
    expect_none();
    assert_false(ph_torch_pool_name(name, &none));
    assert_false(ph_torch_pool_name(NULL, &none));
}

/* ---- captures that torch begins ---- */
static const ph__driver *driver(void)
{
    return world.device->driver;
}

static void begin_capture(ph_stream *stream)
{
    assert_int_equal(driver()->capture_begin(stream->handle, PH_CAPTURE_GLOBAL), 0);
}

static ph__drv_graph *end_capture(ph_stream *stream)
{
    ph__drv_graph *template = NULL;
    assert_int_equal(driver()->capture_end(&template, stream->handle), 0);
    return template;
}

static void run(ph__drv_graph *template)
{
    ph__drv_exec *exec = NULL;
    ph__drv_node *failed;
    assert_int_equal(driver()->instantiate(&exec, template, 0, &failed), 0);
    assert_int_equal(driver()->exec_launch(exec, world.stream->handle), 0);
    assert_ok(ph_stream_synchronize(world.stream));
    driver()->exec_destroy(exec);
    driver()->graph_destroy(template);
}

TEST(test_a_graph_of_torch_has_its_pool)
{
    begin_pool(5, native(side));
    begin_capture(side);
    int32_t *y = allocate(N * sizeof *y, side);
    ph_pool *pool = pool_of(y);
    assert_non_null(pool);
    assert_ok(t_add(&world, side, x, y, N, 1));
    int32_t *z = allocate(N * sizeof *z, side);
    assert_ptr_equal(pool_of(z), pool);
    assert_ok(t_add(&world, side, y, z, N, 1));
    release(y, side);
    assert_ptr_equal(allocate(N * sizeof *y, side), y); /* again, in the graph's order */
    ph__drv_graph *template = end_capture(side);
    ph_torch_end_pool(GPU, 0, 5);
    expect_none();
    void *eager = allocate(N * sizeof *y, side);
    assert_null(pool_of(eager));
    release(eager, side);
    run(template);
    t_all(z, N, 3, world.stream);
    release(y, side);
    release(z, side);
    ph_torch_release_pool(GPU, 0, 5);
    ph_torch_empty_cache();
    expect_none();
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, world.device));
    assert_int_equal(stats.allocated, 4096); /* x alone */
}

/* Two graphs of one pool: its memory stays until both are gone. */
TEST(test_graphs_share_a_pool)
{
    int32_t *first;
    ph__drv_graph *templates[2];
    uint64_t name[2];
    ph_pool_id id = {0, 0};
    for (size_t i = 0; i < 2; i++) {
        begin_pool(5, native(side));
        begin_capture(side);
        int32_t *y = allocate(N * sizeof *y, side);
        first = i ? first : y;
        assert_ptr_equal(y, first);
        id = ph_pool_get_id(pool_of(y));
        assert_ok(t_add(&world, side, x, y, N, (int32_t)i));
        release(y, side);
        templates[i] = end_capture(side);
        ph_torch_end_pool(GPU, 0, 5);
    }
    run(templates[0]);
    ph_torch_release_pool(GPU, 0, 5);
    assert_true(ph_torch_pool_name(name, &id));
    run(templates[1]);
    t_all(first, N, 2, world.stream);
    ph_torch_release_pool(GPU, 0, 5);
    assert_false(ph_torch_pool_name(name, &id));
    expect_none();
}

/* The release waits for the device, which would kill the capture. */
TEST(test_a_release_in_a_capture_is_put_off)
{
    ph_memory_stats stats;
    begin_pool(5, native(world.stream));
    release(allocate(64, world.stream), world.stream);
    ph_torch_end_pool(GPU, 0, 5);
    begin_pool(6, native(side));
    begin_capture(side);
    int32_t *y = allocate(N * sizeof *y, side);
    assert_ok(t_add(&world, side, x, y, N, 1));
    ph_torch_release_pool(GPU, 0, 5);
    driver()->graph_destroy(end_capture(side));
    ph_torch_end_pool(GPU, 0, 6);
    release(y, side);
    ph_torch_release_pool(GPU, 0, 6);
    ph_torch_empty_cache();
    assert_ok(ph_memory_get_stats(&stats, world.device));
    assert_int_equal(stats.segments, 1); /* that of x */
}

TEST(test_a_capture_without_a_pool_is_refused)
{
    ph_capture_info info;
    begin_capture(side);
    assert_ok(ph_stream_get_capture_info(&info, side));
    assert_null(ph_torch_malloc(64, GPU, native(side)));
    expect_failure(PH_ERROR_CAPTURE, "ph_pool_capture_begin");
    driver()->graph_destroy(end_capture(side));
}

/* ---- threads ---- */
static atomic_int wrong;
static void *work(void *argument)
{
    ph_stream *stream = argument;
    void *raw = t_on_host() ? stream : NULL;
    struct CUstream_st *cuda = NULL;
    if (!t_on_host() && ph_stream_cuda(&cuda, stream) == PH_OK)
        raw = cuda;
    for (int i = 0; i < 500; i++) {
        void *p = ph_torch_malloc(64 + i, GPU, raw);
        if (p == NULL)
            atomic_fetch_add(&wrong, 1);
        ph_torch_free(p, 64 + i, GPU, raw);
    }
    return NULL;
}

TEST(test_threads_allocate_beside_a_begun_pool)
{
    pthread_t threads[4];
    begin_pool(9, native(side));
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, work, i % 2 ? (void *)side : (void *)world.stream),
            0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ph_torch_end_pool(GPU, 0, 9);
    ph_torch_release_pool(GPU, 0, 9);
    assert_int_equal(atomic_load(&wrong), 0);
    expect_none();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_memory_is_of_the_device),
        IN_WORLD(test_another_stream_is_waited_for),
        IN_WORLD(test_a_fraction_is_a_limit),
        IN_WORLD(test_numbers_of_gpus_are_checked),
        IN_WORLD(test_a_filter_routes_requests),
        IN_WORLD(test_an_empty_filter_routes_nothing),
        IN_WORLD(test_misuse_of_pools_is_refused),
        IN_WORLD(test_a_graph_of_torch_has_its_pool),
        IN_WORLD(test_graphs_share_a_pool),
        IN_WORLD(test_a_release_in_a_capture_is_put_off),
        IN_WORLD(test_a_capture_without_a_pool_is_refused),
        IN_WORLD(test_threads_allocate_beside_a_begun_pool),
    };
    return cmocka_run_group_tests_name("torch.allocator", tests, NULL, NULL);
}
