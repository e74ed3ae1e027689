/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_plan.c: keys whose captures are planned. */
#include "support/cached.h"

#include "base/alloc.h"
#include "support/test.h"

enum {
    MIB = 1 << 20,
    STEPS = 4
};

/* Blocks of which each lives until the next but one is there: a pool has gaps between them. */
static const size_t sizes[STEPS] = {3 * MIB, 5 * MIB, 4 * MIB, 7 * MIB};

typedef struct gappy {
    t_cached_work work; /* what it computes, by way of the blocks */
    size_t part;        /* of the sizes: one of it */
    int odd_body;       /* asks for something else in this one; 0: none */
    int failing_body;   /* fails with CALLER */
} gappy;

static t_cached s;
static ph_pool *pool;

static void open_with(const ph_capture_options *capture)
{
    ph_graph_cache_options options = {.capture = capture};
    t_cached_open(&s, NULL);
    ph_graph_cache_destroy(s.cache);
    assert_ok(ph_pool_create(&pool, s.world.device, NULL));
    options.pool = pool;
    assert_ok(ph_graph_cache_create(&s.cache, s.world.device, &options));
}

static void close_all(void)
{
    t_cached_close(&s);
    ph_pool_release(pool);
    assert_int_equal(ph__alloc_live(), 0);
}

/* y = x + value, through all of the blocks. */
static ph_status gappy_body(ph_stream *stream, void *user)
{
    gappy *g = user;
    t_cached_work *w = &g->work;
    const t_world *world = &w->scene->world;
    int32_t *at[STEPS] = {NULL};
    w->bodies++;
    if (w->bodies == g->failing_body)
        return ph_fail(PH_ERROR_CALLER, "the body gives up");
    for (int i = 0; i < STEPS; i++) {
        size_t bytes = sizes[i] / g->part + (w->bodies == g->odd_body ? 4096 : 0);
        PH_TRY(ph_malloc(&at[i], bytes, 1, stream));
        PH_TRY(t_add(world, stream, i ? at[i - 1] : w->x, at[i], T_CACHED_N, i ? 0 : w->value));
        if (i > 0)
            ph_free(at[i - 1], stream);
    }
    PH_TRY(ph_memcpy(w->y, at[STEPS - 1], T_CACHED_N * sizeof *w->y, stream));
    ph_free(at[STEPS - 1], stream);
    return t_add(world, stream, w->scene->total, w->scene->total, 1, 1);
}

static ph_status call_gappy(const char *key, gappy *g, ph_graph_cache_result *out)
{
    const void *pointers[] = {g->work.x, g->work.y};
    const ph_graph_cache_value values[] = {{.data = &g->work.value, .bytes = sizeof g->work.value}};
    const ph_graph_cache_call call = {.key = key,
                                      .key_bytes = strlen(key),
                                      .body = gappy_body,
                                      .user = g,
                                      .pointers = pointers,
                                      .pointer_count = 2,
                                      .values = values,
                                      .value_count = 1};
    g->work.scene = &s;
    return ph_graph_cache_run(s.cache, s.world.stream, &call, out);
}

static ph_graph_memory run_gappy(const char *key, gappy *g, int32_t x_value,
                                 ph_graph_cache_path path)
{
    ph_graph_memory memory = {0};
    ph_graph_cache_result result;
    assert_ok(call_gappy(key, g, &result));
    t_cached_expect(&s, &g->work, x_value);
    if (result.path != path)
        print_error("%s\n", result.reason);
    assert_int_equal(result.path, path);
    if (result.graph)
        assert_ok(ph_graph_get_memory(&memory, result.graph));
    return memory;
}

static ph_graph_memory capture_gappy(const char *key, gappy *g)
{
    run_gappy(key, g, 10, PH_CACHE_EAGER);
    run_gappy(key, g, 10, PH_CACHE_EAGER);
    return run_gappy(key, g, 10, PH_CACHE_CAPTURED);
}

static gappy gappy_of(size_t part)
{
    return (gappy){.work = {.x = s.buffers[1], .y = s.outputs[0], .value = 5}, .part = part};
}

/* Pointers and values that move are learned as ever. */
TEST(a_planned_key_is_learned_and_replayed)
{
    open_with(&(ph_capture_options){.plan = true, .mode = PH_CAPTURE_THREAD_LOCAL});
    gappy g = gappy_of(1);
    ph_graph_memory memory = capture_gappy("a", &g);
    assert_null(memory.plan_ended);
    assert_int_equal(memory.plan_bound, sizes[2] + sizes[3]);
    assert_true(memory.planned >= memory.plan_bound &&
                memory.planned <= memory.plan_bound + memory.plan_bound / 100 * 3);
    assert_int_equal(g.work.bodies, 4);
    run_gappy("a", &g, 10, PH_CACHE_REPLAYED);
    g.work.x = t_opposite(s.buffers[2], s.buffers[1]);
    run_gappy("a", &g, 20, PH_CACHE_LEARNED);
    assert_int_equal(g.work.bodies, 5);
    for (int i = 3; i < T_CACHED_BUFFERS; i++) {
        g.work.x = s.buffers[i];
        memory = run_gappy("a", &g, 10 * i, PH_CACHE_REPLAYED);
    }
    assert_true(memory.planned > 0);
    g.work.value = 0x01020304;
    run_gappy("a", &g, 70, PH_CACHE_LEARNED);
    g.work.value = 77;
    run_gappy("a", &g, 70, PH_CACHE_REPLAYED);
    close_all();
}

static size_t reserved(void)
{
    ph_memory_stats stats;
    assert_ok(ph_pool_stats(&stats, pool));
    return stats.reserved;
}

/* The largest first: the others have their blocks in its place. */
TEST(planned_keys_take_what_the_largest_takes)
{
    static const char *const keys[] = {"a", "b", "c", "d"};
    size_t taken[2];
    for (int plan = 0; plan < 2; plan++) {
        open_with(&(ph_capture_options){.plan = plan, .mode = PH_CAPTURE_THREAD_LOCAL});
        gappy g[4];
        for (size_t i = 0; i < 4; i++) {
            g[i] = gappy_of(i + 1);
            capture_gappy(keys[i], &g[i]);
            if (i == 0)
                taken[plan] = reserved();
            else if (plan)
                assert_int_equal(reserved(), taken[plan]);
        }
        for (size_t i = 0; i < 8; i++)
            run_gappy(keys[i % 4], &g[i % 4], 10, PH_CACHE_REPLAYED);
        close_all();
    }
    assert_true(taken[1] < taken[0]);
}

TEST(a_body_that_asks_for_something_else_is_captured_without_a_plan)
{
    open_with(&(ph_capture_options){.plan = true, .mode = PH_CAPTURE_THREAD_LOCAL});
    gappy g = gappy_of(1);
    g.odd_body = 4;
    ph_graph_memory memory = capture_gappy("a", &g);
    assert_non_null(memory.plan_ended);
    assert_int_equal(memory.planned, 0);
    assert_int_equal(g.work.bodies, 5);
    run_gappy("a", &g, 10, PH_CACHE_REPLAYED);
    close_all();
}

/* In either run of the capture. Its failure is the call's, and it is not called again. */
TEST(a_body_that_gives_up_in_a_planned_capture)
{
    for (int run = 3; run <= 4; run++) {
        ph_graph_cache_result result;
        open_with(&(ph_capture_options){.plan = true, .mode = PH_CAPTURE_THREAD_LOCAL});
        gappy g = gappy_of(1);
        g.failing_body = run;
        run_gappy("a", &g, 10, PH_CACHE_EAGER);
        run_gappy("a", &g, 10, PH_CACHE_EAGER);
        assert_int_equal(call_gappy("a", &g, &result), PH_ERROR_CALLER);
        assert_int_equal(g.work.bodies, run);
        t_all(s.total, 1, s.calls, s.world.stream);
        run_gappy("a", &g, 10, PH_CACHE_CAPTURED);
        close_all();
    }
}

/* A capture that is refused: the device does the work once, as it is. */
TEST(a_refused_planned_capture_runs_as_it_is)
{
    open_with(&(ph_capture_options){.plan = true, .mode = PH_CAPTURE_THREAD_LOCAL});
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5, .synchronizes = true};
    for (int i = 0; i < 4; i++)
        t_cached_run(&s, "a", &w, 10, PH_CACHE_EAGER);
    assert_int_equal(w.bodies, 5);
    close_all();
}

/* The device cannot be waited for then. */
TEST(a_planned_key_waits_for_other_captures_to_end)
{
    ph_graph *other;
    ph_graph_cache_result result;
    ph_stream *stream;
    open_with(&(ph_capture_options){.plan = true, .mode = PH_CAPTURE_THREAD_LOCAL});
    gappy g = gappy_of(1);
    run_gappy("a", &g, 10, PH_CACHE_EAGER);
    run_gappy("a", &g, 10, PH_CACHE_EAGER);
    assert_ok(ph_stream_create(&stream, s.world.device, NULL));
    assert_ok(ph_graph_create(&other, NULL));
    assert_ok(ph_graph_capture_begin(other, stream,
                                     &(ph_capture_options){.mode = PH_CAPTURE_THREAD_LOCAL}));
    assert_ok(t_add(&s.world, stream, s.buffers[1], s.outputs[1], T_CACHED_N, 1));
    assert_ok(call_gappy("a", &g, &result));
    assert_int_equal(result.path, PH_CACHE_EAGER);
    assert_non_null(strstr(result.reason, "planned capture waits"));
    assert_int_equal(g.work.bodies, 3);
    assert_ok(ph_graph_capture_end(other, PH_OK));
    t_cached_expect(&s, &g.work, 10);
    assert_true(run_gappy("a", &g, 10, PH_CACHE_CAPTURED).planned > 0);
    ph_graph_destroy(other);
    ph_stream_destroy(stream);
    close_all();
}

TEST(a_plan_is_of_one_capture)
{
    ph_graph_cache *cache;
    const ph_capture_options capture = {.plan = true, .allow_breaks = true};
    open_with(NULL);
    assert_int_equal(ph_graph_cache_create(&cache, s.world.device,
                                           &(ph_graph_cache_options){.capture = &capture}),
                     PH_ERROR_ARGUMENT);
    assert_non_null(strstr(ph_error_last()->message, "plan"));
    assert_non_null(strstr(ph_error_last()->message, "allow_breaks"));
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_planned_key_is_learned_and_replayed),
        cmocka_unit_test(planned_keys_take_what_the_largest_takes),
        cmocka_unit_test(a_body_that_asks_for_something_else_is_captured_without_a_plan),
        cmocka_unit_test(a_body_that_gives_up_in_a_planned_capture),
        cmocka_unit_test(a_refused_planned_capture_runs_as_it_is),
        cmocka_unit_test(a_planned_key_waits_for_other_captures_to_end),
        cmocka_unit_test(a_plan_is_of_one_capture),
    };
    return cmocka_run_group_tests_name("graph.cache_plan", tests, NULL, NULL);
}
