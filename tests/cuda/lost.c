/* SPDX-License-Identifier: MIT */
/* tests/cuda/lost.c: a device that is lost: every call that needs it says so, and everything can be
 * destroyed. */
#include "fake.h"
#include "support/scenes.h"
#include "support/test.h"

enum {
    N = T_SCENE_N
};

#define assert_lost(call) assert_error((call), PH_ERROR_DEVICE, "the device is lost")
#define assert_lost_out(pointer, call)                                                             \
    do {                                                                                           \
        memset(&(pointer), 0xAB, sizeof(pointer));                                                 \
        assert_lost(call);                                                                         \
        assert_null(pointer);                                                                      \
    } while (0)

static t_scene scene;
static int64_t live;

static void open_scene(void)
{
    live = ph__alloc_live();
    t_scene_open(&scene, NULL, NULL);
}

/* Nothing of the library's is left; what CUDA held went with the context. */
static void close_scene(void)
{
    t_scene_close(&scene);
    assert_int_equal(ph__alloc_live(), live);
    fake_cuda()->reset();
}

static ph_status body(ph_stream *stream, void *user)
{
    (void)user;
    return t_fill(&scene.world, stream, scene.x, N, 1);
}

static void nothing(void *user)
{
    (void)user;
}

static void work_is_refused(void)
{
    int32_t host[N];
    assert_lost(t_fill(&scene.world, scene.a, scene.x, N, 1));
    assert_lost(ph_memcpy(scene.y, scene.x, sizeof host, scene.a));
    assert_lost(ph_memcpy(host, scene.x, sizeof host, scene.a));
    assert_lost(ph_memset(scene.x, 0, sizeof host, scene.a));
    assert_lost(ph_memset_u32(scene.x, 7, N, scene.a));
    assert_lost(ph_launch_host(scene.a, nothing, NULL));
}

static void waiting_is_refused(void)
{
    bool done = true;
    float milliseconds = 0;
    assert_lost(ph_stream_synchronize(scene.a));
    assert_lost(ph_stream_query(&done, scene.a));
    assert_false(done);
    assert_lost(ph_device_synchronize(scene.world.device));
    assert_lost(ph_event_record(scene.event, scene.a));
    assert_lost(ph_stream_wait_event(scene.b, scene.event));
    assert_lost(ph_event_query(&done, scene.event));
    assert_lost(ph_event_synchronize(scene.event));
    assert_lost(ph_event_elapsed(&milliseconds, scene.start, scene.stop));
}

static void making_is_refused(void)
{
    ph_stream *stream;
    ph_event *event;
    ph_kernel *kernel;
    ph_device *device;
    ph_device_info info;
    void *memory;
    assert_lost_out(stream, ph_stream_create(&stream, scene.world.device, NULL));
    assert_lost_out(event, ph_event_create(&event, scene.world.device, NULL));
    assert_lost_out(kernel,
                    ph_kernel_create(&kernel, scene.world.device, &t_kernel_sources[T_KERNEL_PUT]));
    assert_lost_out(memory, ph_malloc(&memory, 1, 64u << 20, scene.a));
    assert_lost_out(memory, ph_malloc_pinned(&memory, 1, 64u << 20, scene.a));
    assert_lost(ph_device_get_info(&info, scene.world.device));
    assert_lost_out(device, ph_device_open(&device, "cuda", NULL));
}

static void graphs_are_refused(void)
{
    ph_stream *stream = scene.a;
    struct t_fill_i32 args = {N, scene.x, 5};
    ph_launch_config config = t_config(N);
    assert_lost(ph_graph_replay(scene.graph, stream));
    assert_lost(ph_graph_node_set_launch(scene.graph, 0, &config, &args, sizeof args));
    assert_lost(ph_graph_node_set_enabled(scene.graph, 0, false));
    assert_lost(ph_graph_capture(scene.other, stream, NULL, body, NULL));
    assert_false(ph_stream_is_capturing(stream));
    assert_lost(ph_graph_instantiate(scene.kept));
}

static void every_call_says_so(int number)
{
    open_scene();
    assert_ok(ph_graph_capture(scene.graph, scene.a, NULL, body, NULL));
    assert_ok(ph_graph_capture(scene.kept, scene.a, NULL, body, NULL));
    assert_ok(ph_event_record(scene.event, scene.a));
    assert_ok(ph_event_record(scene.start, scene.a));
    assert_ok(ph_event_record(scene.stop, scene.a));
    assert_ok(ph_device_synchronize(scene.world.device));
    fake_cuda()->lose(number);
    work_is_refused();
    waiting_is_refused();
    making_is_refused();
    graphs_are_refused();
    close_scene();
}

TEST(an_illegal_address)
{
    NEED_FAKE();
    every_call_says_so(PH__R_ILLEGAL_ADDRESS);
}

TEST(a_failed_launch)
{
    NEED_FAKE();
    every_call_says_so(PH__R_LAUNCH_FAILED);
}

/* The error record is the caller's: destroying leaves it alone. */
TEST(destroying_says_nothing)
{
    NEED_FAKE();
    open_scene();
    assert_ok(ph_graph_capture(scene.graph, scene.a, NULL, body, NULL));
    fake_cuda()->lose(PH__R_ILLEGAL_ADDRESS);
    (void)ph_fail(PH_ERROR_CALLER, "mine");
    t_scene_close(&scene);
    assert_string_equal(ph_error_last()->message, "mine");
    assert_int_equal(ph__alloc_live(), live);
    fake_cuda()->reset();
}

/* ---- in the middle of something ---- */
static ph_status body_that_loses(ph_stream *stream, void *user)
{
    PH_TRY(body(stream, user));
    fake_cuda()->lose(PH__R_ILLEGAL_ADDRESS);
    return body(stream, user);
}

TEST(in_a_capture)
{
    NEED_FAKE();
    open_scene();
    t_log_start();
    assert_lost(ph_graph_capture(scene.graph, scene.a, NULL, body_that_loses, NULL));
    assert_int_equal(ph_graph_get_state(scene.graph), PH_GRAPH_FAILED);
    assert_lost(ph_graph_replay(scene.graph, scene.a));
    t_log_stop();
    close_scene();
}

TEST(with_a_capture_left_open)
{
    NEED_FAKE();
    open_scene();
    t_log_start();
    assert_ok(ph_graph_capture_begin(scene.graph, scene.a, NULL));
    assert_ok(body(scene.a, NULL));
    fake_cuda()->lose(PH__R_ILLEGAL_ADDRESS);
    ph_graph_destroy(scene.graph);
    scene.graph = NULL;
    ph_stream_destroy(scene.b);
    scene.b = NULL;
    close_scene();
    t_log_stop();
}

/* ---- breadcrumbs ---- in b's scope a host function holds the replay. */
static t_gate gate;

static ph_status marked_body(ph_stream *stream, void *user)
{
    PH_TRY(ph_annotation_push(stream, "a", NULL));
    PH_TRY(body(stream, user));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(ph_annotation_push(stream, "b", NULL));
    PH_TRY(t_gate_wait(&gate, stream));
    PH_TRY(ph_finite_check(stream, scene.x, PH_NUMBER_F32, N, "x"));
    return ph_annotation_pop(stream);
}

TEST(where_it_was_can_still_be_read)
{
    const ph_capture_options options = {.enable_annotations = true, .breadcrumbs = true};
    ph_progress at = {0};
    ph_finite_result found;
    NEED_FAKE();
    open_scene();
    gate = (t_gate){.open = 0};
    assert_ok(ph_graph_capture(scene.graph, scene.a, &options, marked_body, NULL));
    assert_ok(ph_graph_breadcrumbs_enable(scene.graph, true));
    assert_ok(ph_finite_enable(scene.graph, true));
    assert_ok(ph_graph_replay(scene.graph, scene.a));
    while (ph_graph_where(&at, scene.graph) != PH_OK || at.passed < 3)
        continue;
    fake_cuda()->lose(PH__R_ILLEGAL_ADDRESS);
    int64_t calls = fake_cuda()->calls();
    assert_lost(ph_stream_synchronize(scene.a));
    assert_ok(ph_graph_where(&at, scene.graph));
    assert_int_equal(at.open_count, 1);
    assert_string_equal(at.open[0], "b");
    assert_int_equal(at.passed, 3);
    assert_ok(ph_finite_at(&found, scene.graph, 0));
    assert_false(found.ran);
    assert_int_equal(fake_cuda()->calls(), calls + 1); /* the synchronize */
    assert_lost(ph_graph_breadcrumbs_enable(scene.graph, false));
    assert_lost(ph_finite_enable(scene.graph, false));
    t_gate_open(&gate);
    t_log_start();
    close_scene();
    t_log_stop();
}

/* Scenarios that were running when it went, at each call: an error that says so, and nothing
 * left. */
static int64_t lose_during(const t_scenario *scenario)
{
    for (int64_t n = 0;; n++) {
        open_scene();
        fake_cuda()->lose_after(n, PH__R_LAUNCH_FAILED);
        ph_status status = scenario->run(&scene);
        bool was_lost = fake_cuda()->is_lost();
        fake_cuda()->lose_after(-1, 0);
        if (status != PH_OK &&
            (!was_lost || !strstr(ph_error_last()->message, "the device is lost")))
            fail_msg("%s, lost at call %lld: %s", scenario->name, (long long)n,
                     ph_error_last()->message);
        close_scene();
        if (!was_lost)
            return n;
    }
}

TEST(at_any_moment)
{
    NEED_FAKE();
    static const t_scenario *const lists[] = {t_scenarios_device, t_scenarios_memory,
                                              t_scenarios_graph};
    int64_t losses = 0;
    t_log_start();
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const t_scenario *scenario = lists[i]; scenario->name; scenario++)
            losses += lose_during(scenario);
    t_log_stop();
    print_message("the device was lost %lld times\n", (long long)losses);
    assert_true(losses > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_illegal_address),
        cmocka_unit_test(a_failed_launch),
        cmocka_unit_test(destroying_says_nothing),
        cmocka_unit_test(in_a_capture),
        cmocka_unit_test(with_a_capture_left_open),
        cmocka_unit_test(where_it_was_can_still_be_read),
        cmocka_unit_test(at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
