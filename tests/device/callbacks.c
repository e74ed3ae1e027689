/* SPDX-License-Identifier: MIT */
/* tests/device/callbacks.c: calls of the library from inside of host functions and bodies of
 * kernels: each is refused with 800, and none waits for its own caller. */
#include "fake/fake_cuda.h"
#include "support/support.h"
#include "support/test.h"
#include <string.h>
#include <unistd.h>

/* ---- calls that are made inside ---- */
typedef struct scene {
    ph_device *device;
    ph_stream *own, *other;
    ph_event *event, *spare;
    ph_graph *fill, *graph;
    ph_kernel *kernel;
    char *memory;
} scene;
static char pageable[64];

static void count_call(void *user)
{
    (void)user;
}

static ph_status synchronize_own(scene *s)
{
    return ph_stream_synchronize(s->own);
}
static ph_status synchronize_device(scene *s)
{
    return ph_device_synchronize(s->device);
}
static ph_status synchronize_event(scene *s)
{
    return ph_event_synchronize(s->event);
}
static ph_status fill_own(scene *s)
{
    return ph_memset(s->memory, 1, sizeof pageable, s->own);
}
static ph_status copy_own(scene *s)
{
    return ph_memcpy(pageable, s->memory, sizeof pageable, s->own);
}
static ph_status replay_own(scene *s)
{
    return ph_graph_replay(s->fill, s->own);
}
static ph_status synchronize_other(scene *s)
{
    return ph_stream_synchronize(s->other);
}
static ph_status fill_other(scene *s)
{
    return ph_memset(s->memory, 1, sizeof pageable, s->other);
}
static ph_status copy_other(scene *s)
{
    return ph_memcpy(pageable, s->memory, sizeof pageable, s->other);
}
static ph_status record_own(scene *s)
{
    return ph_event_record(s->spare, s->own);
}
static ph_status record_other(scene *s)
{
    return ph_event_record(s->spare, s->other);
}
static ph_status wait_own(scene *s)
{
    return ph_stream_wait_event(s->own, s->event);
}
static ph_status wait_for_other(scene *s)
{
    return ph_stream_wait_stream(s->own, s->other);
}
static ph_status wait_for_own(scene *s)
{
    return ph_stream_wait_stream(s->other, s->own);
}
static ph_status launch_host_own(scene *s)
{
    return ph_launch_host(s->own, count_call, NULL);
}
static ph_status query_event(scene *s)
{
    bool done;
    return ph_event_query(&done, s->event);
}
static ph_status copy_nothing(scene *s)
{
    return ph_memcpy(s->memory, s->memory, 0, s->own);
}
static ph_status capture_own(scene *s)
{
    return ph_graph_capture_begin(s->graph, s->own, NULL);
}
static ph_status allocate_own(scene *s)
{
    char *memory;
    return PH_NEW(&memory, 1, s->own);
}
static ph_status reset_graph(scene *s)
{
    return ph_graph_reset(s->fill);
}
static ph_status query_other(scene *s)
{
    bool done;
    return ph_stream_query(&done, s->other);
}
static ph_status begin_capture(scene *s)
{
    return ph_graph_capture_begin(s->graph, s->other, NULL);
}
static ph_status allocate(scene *s)
{
    char *memory;
    return PH_NEW(&memory, 1, s->other);
}
static ph_status open_device(scene *s)
{
    ph_device *device;
    (void)s;
    return ph_device_open(&device, t_device_name(), NULL);
}

/* Where a call is refused: by all callbacks of the host device; by host functions of a GPU as
 * well, since its driver refuses; within the call that runs an inline kernel. */
enum {
    ON_HOST = 1,
    ON_GPU = 2,
    INLINE = 4
};
static const struct attempt {
    const char *name;
    ph_status (*call)(scene *s);
    int where;
} attempts[] = {
    {"ph_stream_synchronize", synchronize_own, ON_HOST | ON_GPU | INLINE},
    {"ph_device_synchronize", synchronize_device, ON_HOST | ON_GPU | INLINE},
    {"ph_event_synchronize", synchronize_event, ON_HOST | ON_GPU | INLINE},
    {"ph_memset", fill_own, ON_HOST | INLINE},
    {"ph_memcpy", copy_own, ON_HOST | ON_GPU | INLINE},
    {"ph_graph_replay", replay_own, ON_HOST | ON_GPU | INLINE},
    {"ph_stream_synchronize", synchronize_other, ON_HOST | ON_GPU | INLINE},
    {"ph_memset", fill_other, ON_HOST | INLINE},
    {"ph_memcpy", copy_other, ON_HOST | ON_GPU | INLINE},
    {"ph_stream_query", query_other, ON_HOST | ON_GPU | INLINE},
    {"ph_graph_capture_begin", begin_capture, ON_HOST | INLINE},
    {"ph_malloc", allocate, ON_HOST | INLINE},
    {"ph_event_record", record_own, ON_HOST | INLINE},
    {"ph_event_record", record_other, ON_HOST | INLINE},
    {"ph_stream_wait_event", wait_own, ON_HOST | INLINE},
    {"ph_stream_wait_stream", wait_for_other, ON_HOST | INLINE},
    {"ph_stream_wait_stream", wait_for_own, ON_HOST | INLINE},
    {"ph_launch_host", launch_host_own, ON_HOST | INLINE},
    {"ph_event_query", query_event, ON_HOST | INLINE},
    {"ph_memcpy", copy_nothing, ON_HOST | INLINE},
    {"ph_malloc", allocate_own, ON_HOST | INLINE},
    {"ph_graph_reset", reset_graph, ON_HOST | INLINE},
    {"ph_graph_capture_begin", capture_own, ON_HOST | INLINE},
    {"ph_device_open", open_device, ON_HOST | INLINE},
};
enum {
    ATTEMPTS = sizeof attempts / sizeof *attempts
};

/* What came of them; the callback has no argument of its own in a kernel. */
static scene *current;
static int at_where;
static atomic_bool asked;
static ph_error got[ATTEMPTS];

static void make_calls(void)
{
    if (atomic_exchange(&asked, true))
        return;
    for (size_t i = 0; i < ATTEMPTS; i++) {
        got[i] = (ph_error){.status = PH_OK};
        if ((attempts[i].where & at_where) && attempts[i].call(current) != PH_OK)
            got[i] = *ph_error_last();
    }
}

static void calling_function(void *user)
{
    (void)user;
    make_calls();
}

static void calling_kernel(const ph_block_range *range, const void *args)
{
    (void)range;
    (void)args;
    make_calls();
}

static void prepare(scene *s, int where)
{
    current = s;
    at_where = where;
    atomic_store(&asked, false);
}

static void expect_refusals(scene *s)
{
    assert_ok(ph_device_synchronize(s->device));
    assert_true(atomic_load(&asked));
    for (size_t i = 0; i < ATTEMPTS; i++) {
        if (!(attempts[i].where & at_where))
            continue;
        if (got[i].status != PH_ERROR_STATE || got[i].native_code != 800 ||
            strncmp(got[i].message, attempts[i].name, strlen(attempts[i].name)) != 0 ||
            !strstr(got[i].message, "host function"))
            fail_msg("attempt %zu of %s: %s, native %d: %s", i, attempts[i].name,
                     ph_status_name(got[i].status), got[i].native_code, got[i].message);
    }
}

/* ---- the scene ---- */
static ph_status fill_memory(ph_stream *stream, void *user)
{
    const scene *s = user;
    return ph_memset(s->memory, 7, sizeof pageable, stream);
}

static void open_scene(scene *s, const char *name, bool is_inline)
{
    const ph_kernel_source source = {
        .name = "calls", .host = calling_kernel, .host_inline = is_inline};
    alarm(100); /* a call that waits for itself ends the test */
    assert_ok(ph_device_open(&s->device, name, NULL));
    assert_ok(ph_stream_create(&s->own, s->device, NULL));
    assert_ok(ph_stream_create(&s->other, s->device, NULL));
    assert_ok(ph_event_create(&s->event, s->device, NULL));
    assert_ok(ph_event_create(&s->spare, s->device, NULL));
    assert_ok(PH_NEW(&s->memory, sizeof pageable, s->own));
    assert_ok(ph_graph_create(&s->fill, NULL));
    assert_ok(ph_graph_create(&s->graph, NULL));
    assert_ok(ph_graph_capture(s->fill, s->own, NULL, fill_memory, s));
    s->kernel = NULL;
    if (t_on_host())
        assert_ok(ph_kernel_create(&s->kernel, s->device, &source));
    assert_ok(ph_stream_synchronize(s->own));
}

/* The device goes on as if nothing had been tried. */
static void close_scene(scene *s)
{
    assert_ok(ph_graph_replay(s->fill, s->own));
    assert_ok(ph_memcpy(pageable, s->memory, sizeof pageable, s->own));
    assert_int_equal(pageable[sizeof pageable - 1], 7);
    ph_free(s->memory, s->own);
    ph_graph_destroy(s->fill);
    ph_graph_destroy(s->graph);
    ph_kernel_release(s->kernel);
    ph_event_destroy(s->event);
    ph_event_destroy(s->spare);
    ph_stream_destroy(s->own);
    ph_stream_destroy(s->other);
    ph_device_release(s->device);
}

static ph_status submit_function(ph_stream *stream, void *user)
{
    (void)user;
    return ph_launch_host(stream, calling_function, NULL);
}

static ph_status submit_kernel(ph_stream *stream, void *user)
{
    const scene *s = user;
    return ph_launch(stream, s->kernel, &(ph_launch_config){.grid = {4}}, NULL, 0);
}

/* The event is that of work behind the callback: a gate in front keeps it from running before. */
static void run_eager(scene *s, ph_capture_fn submit, int where)
{
    t_gate gate = {0};
    prepare(s, where);
    assert_ok(t_gate_wait(&gate, s->own));
    assert_ok(submit(s->own, s));
    assert_ok(ph_event_record(s->event, s->own));
    t_gate_open(&gate);
    expect_refusals(s);
}

static void run_replayed(scene *s, ph_capture_fn submit, int where)
{
    t_gate gate = {0};
    assert_ok(ph_graph_capture(s->graph, s->own, NULL, submit, s));
    prepare(s, where & ~(int)INLINE);
    assert_ok(t_gate_wait(&gate, s->own));
    assert_ok(ph_graph_replay(s->graph, s->own));
    assert_ok(ph_event_record(s->event, s->own));
    t_gate_open(&gate);
    expect_refusals(s);
    assert_ok(ph_graph_reset(s->graph));
}

static bool is_gpu(void)
{
    return !t_on_host() && !fake_cuda();
}

TEST(host_functions_are_refused)
{
    scene s;
    if (is_gpu()) {
        print_message("skipped: CUDA need not refuse calls in host functions\n");
        skip();
    }
    open_scene(&s, t_device_name(), false);
    run_eager(&s, submit_function, t_on_host() ? ON_HOST : ON_GPU);
    run_replayed(&s, submit_function, t_on_host() ? ON_HOST : ON_GPU);
    close_scene(&s);
}

TEST(bodies_of_kernels_are_refused)
{
    t_host_only("bodies of kernels are not on the host elsewhere");
    static const char *const names[] = {"host:threads=2", "host:chaos=7", "host:threads=1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int is_inline = 0; is_inline < 2; is_inline++) {
            scene s;
            open_scene(&s, names[i], is_inline);
            run_eager(&s, submit_kernel, ON_HOST);
            run_replayed(&s, submit_kernel, ON_HOST);
            run_eager(&s, submit_function, ON_HOST);
            close_scene(&s);
        }
}

/* On an idle stream they run within the call of the thread that submits them. */
TEST(inline_kernels_do_not_wait_for_themselves)
{
    t_host_only("inline kernels are the host device's");
    scene s;
    open_scene(&s, "host:threads=2", true);
    t_gate gate = {0};
    assert_ok(t_gate_wait(&gate, s.other));
    assert_ok(ph_event_record(s.event, s.other));
    prepare(&s, INLINE);
    assert_ok(submit_kernel(s.own, &s));
    assert_true(atomic_load(&asked)); /* it ran */
    t_gate_open(&gate);
    expect_refusals(&s);
    close_scene(&s);
}

TEST(inline_replays_do_not_wait_for_themselves)
{
    t_host_only("inline kernels are the host device's");
    scene s;
    open_scene(&s, "host:threads=2", true);
    assert_ok(ph_graph_capture(s.graph, s.own, NULL, submit_kernel, &s));
    prepare(&s, 0);
    for (int i = 0; i < 100; i++) { /* until it is known to be short */
        assert_ok(ph_graph_replay(s.graph, s.own));
        assert_ok(ph_stream_synchronize(s.own));
    }
    t_gate gate = {0};
    assert_ok(t_gate_wait(&gate, s.other));
    assert_ok(ph_event_record(s.event, s.other));
    prepare(&s, INLINE);
    assert_ok(ph_graph_replay(s.graph, s.own));
    assert_ok(ph_stream_synchronize(s.own));
    t_gate_open(&gate);
    expect_refusals(&s);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_functions_are_refused),
        cmocka_unit_test(bodies_of_kernels_are_refused),
        cmocka_unit_test(inline_kernels_do_not_wait_for_themselves),
        cmocka_unit_test(inline_replays_do_not_wait_for_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
