/* SPDX-License-Identifier: MIT */
/* tests/fault/device_memory.c: the device has no memory: the n-th segment and all after it are
 * refused in every scenario; small devices; limits. */
#include "device/handles/device.h"
#include "support/scenes.h"
#include "support/test.h"
#include <string.h>

/* The scene's driver with the entries that take memory counted and refused. */
static ph__driver counting;
static const ph__driver *beneath;
static atomic_llong until_refusal, refusals;

static bool refused(void)
{
    if (atomic_fetch_sub(&until_refusal, 1) > 0)
        return false;
    atomic_fetch_add(&refusals, 1);
    return true;
}

static int segment_create(void **out, ph__drv_device *device, size_t bytes)
{
    return refused() ? PH__R_OUT_OF_MEMORY : beneath->segment_create(out, device, bytes);
}

static int plain_alloc(void **out, ph__drv_device *device, size_t bytes)
{
    return refused() ? PH__R_OUT_OF_MEMORY : beneath->plain_alloc(out, device, bytes);
}

static int pinned_alloc(void **out, ph__drv_device *device, size_t bytes)
{
    return refused() ? PH__R_OUT_OF_MEMORY : beneath->pinned_alloc(out, device, bytes);
}

static void prepare(ph_device *device)
{
    atomic_store(&until_refusal, INT64_MAX);
    beneath = device->driver;
    counting = *beneath;
    counting.segment_create = segment_create;
    counting.plain_alloc = plain_alloc;
    counting.pinned_alloc = pinned_alloc;
    device->driver = &counting;
}

static void arm(int64_t n)
{
    atomic_store(&refusals, 0);
    atomic_store(&until_refusal, n);
}

static bool disarm(void)
{
    atomic_store(&until_refusal, INT64_MAX);
    return atomic_load(&refusals) != 0;
}

static bool expects(ph_status status)
{
    /* the second: pinned memory */
    return status == PH_ERROR_DEVICE_MEMORY || status == PH_ERROR_HOST_MEMORY;
}

static const t_fault fault = {"device allocation", prepare, arm, disarm, expects};

TEST(memory_scenarios_survive_every_device_shortage)
{
    t_sweep_all(t_scenarios_memory, &fault, NULL);
}

TEST(graph_scenarios_survive_every_device_shortage)
{
    t_sweep_all(t_scenarios_graph, &fault, NULL);
}

/* The status of a refused segment is the device's, never the host's. */
TEST(the_status_names_the_device)
{
    t_scene scene;
    void *block;
    ph_memory_stats stats;
    t_scene_open(&scene, NULL, prepare);
    arm(0);
    assert_error(ph_malloc(&block, 1, 50u << 20, scene.a), PH_ERROR_DEVICE_MEMORY, "out of memory");
    assert_null(block);
    (void)disarm();
    assert_ok(ph_memory_get_stats(&stats, scene.world.device));
    assert_int_equal(stats.ooms, 1);
    assert_ok(ph_malloc(&block, 1, 50u << 20, scene.a));
    ph_free(block, NULL);
    t_scene_close(&scene);
}

/* ---- a small device ---- filled to the brim, one block given back, the same size again. */
static void open_small(t_world *world)
{
    ph_device *device;
    assert_ok(t_open_small(&device, 64u << 20));
    t_open_world(world, device);
}

TEST(filled_to_the_brim)
{
    enum {
        MOST = 64
    };
    t_world world;
    void *blocks[MOST], *more;
    size_t count = 0;
    ph_status status = PH_OK;
    open_small(&world);
    for (; count < MOST; count++) {
        status = ph_malloc(&blocks[count], 1, 4u << 20, world.stream);
        if (status != PH_OK)
            break;
    }
    assert_int_equal(status, t_shortage());
    assert_non_null(strstr(ph_error_last()->message, t_shortage_words()));
    assert_null(blocks[count]);
    assert_true(count >= 10 && count <= 16);
    ph_free(blocks[0], NULL);
    assert_ok(ph_malloc(&more, 1, 4u << 20, world.stream));
    assert_ok(ph_memset(more, 1, 4u << 20, world.stream));
    ph_free(more, NULL);
    for (size_t i = 1; i < count; i++)
        ph_free(blocks[i], NULL);
    /* Cached small pieces are given back for one large request: a retry, not a failure. */
    ph_memory_stats stats;
    assert_ok(ph_malloc(&more, 1, 60u << 20, world.stream));
    ph_free(more, NULL);
    assert_ok(ph_memory_get_stats(&stats, world.device));
    assert_true(stats.retries >= 1);
    assert_int_equal(stats.ooms, 1);
    t_close(&world);
}

/* The same in a capture: cached memory of the default pool may not be given back then, so the
 * request fails, and the capture ends with that failure; afterwards everything works. */
typedef struct request {
    void *block;
    size_t bytes;
} request;

static ph_status request_body(ph_stream *stream, void *user)
{
    request *r = user;
    PH_TRY(ph_malloc(&r->block, 1, r->bytes, stream));
    return ph_memset(r->block, 0, r->bytes, stream);
}

TEST(brim_in_a_capture)
{
    t_world world;
    ph_graph *graph;
    request r = {NULL, 100u << 20};
    open_small(&world);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_capture(graph, world.stream, NULL, request_body, &r), t_shortage(),
                 t_shortage_words());
    assert_null(r.block);
    assert_false(ph_stream_is_capturing(world.stream));
    assert_ok(ph_graph_reset(graph));
    r.bytes = 30u << 20;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, request_body, &r));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    ph_free(r.block, NULL);
    ph_graph_destroy(graph);
    void *block;
    assert_ok(ph_malloc(&block, 1, 50u << 20, world.stream)); /* the dead graph's pool makes room */
    ph_free(block, NULL);
    t_close(&world);
}

/* ---- limits ---- */
TEST(the_limit_of_the_device)
{
    t_world world;
    void *block, *more;
    ph_memory_stats stats;
    t_open(&world, NULL);
    assert_ok(ph_memory_set_limit(world.device, 32u << 20));
    assert_ok(ph_malloc(&block, 1, 20u << 20, world.stream));
    assert_error(ph_malloc(&more, 1, 20u << 20, world.stream), PH_ERROR_POOL_LIMIT, "limit");
    assert_null(more);
    ph_free(block, NULL);
    assert_ok(ph_malloc(&block, 1, 20u << 20, world.stream));
    assert_ok(ph_memory_get_stats(&stats, world.device));
    assert_true(stats.reserved <= 32u << 20);
    assert_ok(ph_memory_set_limit(world.device, 0));
    assert_ok(ph_malloc(&more, 1, 20u << 20, world.stream));
    ph_free(more, NULL);
    ph_free(block, NULL);
    t_close(&world);
}

TEST(the_limit_of_a_pool)
{
    t_world world;
    ph_pool *pool;
    ph_pool_options options = {.limit = 24u << 20};
    void *block, *more;
    t_open(&world, NULL);
    assert_ok(ph_pool_create(&pool, world.device, &options));
    assert_ok(ph_pool_begin(pool));
    assert_ok(ph_malloc(&block, 1, 20u << 20, world.stream));
    assert_error(ph_malloc(&more, 1, 20u << 20, world.stream), PH_ERROR_POOL_LIMIT, "limit");
    assert_null(more);
    assert_ok(ph_pool_end(pool));
    assert_ok(ph_malloc(&more, 1, 20u << 20, world.stream));
    ph_free(more, NULL);
    ph_free(block, NULL);
    ph_pool_release(pool);
    t_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_scenarios_survive_every_device_shortage),
        cmocka_unit_test(graph_scenarios_survive_every_device_shortage),
        cmocka_unit_test(the_status_names_the_device),
        cmocka_unit_test(filled_to_the_brim),
        cmocka_unit_test(brim_in_a_capture),
        cmocka_unit_test(the_limit_of_the_device),
        cmocka_unit_test(the_limit_of_a_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
