/* SPDX-License-Identifier: MIT */
/* tests/graph/upload_all.c: ph_graph_upload_all: as ph_graph_upload of each, with fewer questions,
 * in one order with replays; and what is left where one of them fails. */
#include "support/uploads.h"

#include "fake/fake_cuda.h"
#include "support/test.h"
#include <phonograph/breaks.h>
#include <sched.h>

enum {
    GRAPHS = 4
};
static const ph_graph_options keep_defer = {.keep_graph = true, .defer_upload = true};
static ph_graph *graphs[GRAPHS];

static void capture_graphs(const ph_graph_options *options)
{
    for (int i = 0; i < GRAPHS; i++)
        graphs[i] = captured(options);
}

static void destroy_graphs(void)
{
    for (int i = 0; i < GRAPHS; i++)
        ph_graph_destroy(graphs[i]);
}

static void assert_all_replay(void)
{
    for (int i = 0; i < GRAPHS; i++)
        assert_replays(graphs[i], i % 2 ? world.stream : other, 1);
}

/* ---- calls of libcuda ---- none are counted where there is none, or a real one. */
static int64_t calls_of(const char *name)
{
    return fake_cuda() ? fake_cuda()->calls_of(name) : 0;
}

typedef struct calls {
    int64_t upload, info, event, record, wait;
} calls;

static calls made(void)
{
    return (calls){calls_of("cuGraphUpload"), calls_of("cuMemGetInfo"), calls_of("cuEventCreate"),
                   calls_of("cuEventRecordWithFlags"), calls_of("cuStreamSynchronize")};
}

static void assert_calls(const calls *before, int upload, int info, int event)
{
    calls now = made();
    if (!fake_cuda())
        return;
    assert_int_equal(now.upload - before->upload, upload);
    assert_int_equal(now.info - before->info, info);
    assert_int_equal(now.event - before->event, event);
    assert_int_equal(now.record - before->record, event);
    assert_int_equal(now.wait - before->wait, 0);
}

/* ---- tests ---- */
TEST(each_has_the_bytes_that_it_takes_alone)
{
    ph_graph *alone = captured(&defer);
    assert_ok(ph_graph_upload(alone, other));
    capture_graphs(&defer);
    calls before = made();
    assert_ok(ph_graph_upload_all(graphs, GRAPHS, other));
    assert_calls(&before, GRAPHS, GRAPHS + 1, 1);
    for (int i = 0; i < GRAPHS && fake_cuda(); i++) {
        assert_true(executable_of(graphs[i]) > 0);
        assert_int_equal(executable_of(graphs[i]), executable_of(alone));
    }
    assert_all_replay();
    before = made();
    assert_ok(ph_graph_upload_all(graphs, GRAPHS, world.stream));
    assert_calls(&before, 0, 0, 0);
    destroy_graphs();
    ph_graph_destroy(alone);
}

/* Those that are uploaded stay as they are, and no graph is uploaded twice. */
TEST(those_that_need_none)
{
    capture_graphs(&defer);
    assert_ok(ph_graph_upload(graphs[1], other));
    ph_graph *given[GRAPHS + 1] = {graphs[0], graphs[1], graphs[2], graphs[0], graphs[3]};
    calls before = made();
    assert_ok(ph_graph_upload_all(given, GRAPHS + 1, other));
    assert_calls(&before, GRAPHS - 1, GRAPHS, 1);
    assert_all_replay();
    destroy_graphs();
    assert_ok(ph_graph_upload_all(NULL, 0, other));
}

TEST(those_without_an_executable_get_one)
{
    capture_graphs(&keep_defer);
    assert_ok(ph_graph_upload_all(graphs, GRAPHS, other));
    for (int i = 0; i < GRAPHS; i++)
        assert_int_equal(ph_graph_get_state(graphs[i]), PH_GRAPH_READY);
    assert_all_replay();
    destroy_graphs();
}

/* Nothing that the stream was given is done while the gate is closed, however often one looks. */
static void assert_waits(ph_stream *stream, const t_gate *gate)
{
    bool done = false;
    for (int i = 0; i < 500 && !done; i++) {
        assert_ok(ph_stream_query(&done, stream));
        sched_yield();
    }
    if (t_gate_held(gate))
        assert_false(done);
}

/* One event is behind all of them: it is there for the last graph when the others have gone. */
TEST(replays_of_each_come_after_it)
{
    for (int which = 0; which < GRAPHS; which++) {
        t_gate gate = {.behind = true};
        capture_graphs(&defer);
        assert_ok(t_gate_wait_guarded(&gate, other));
        assert_ok(ph_graph_upload_all(graphs, GRAPHS, other));
        for (int i = 0; i < GRAPHS; i++)
            if (i != which) {
                ph_graph_destroy(graphs[i]);
                graphs[i] = NULL;
            }
        assert_ok(ph_graph_replay(graphs[which], world.stream));
        assert_waits(world.stream, &gate);
        t_gate_open(&gate);
        t_all(x, N, 1, world.stream);
        ph_graph_destroy(graphs[which]);
        assert_ok(ph_stream_synchronize(other));
    }
}

static ph_status pause_it(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    return PH_OK;
}

static ph_status with_a_break(ph_stream *stream, void *user)
{
    PH_TRY(ones(stream, user));
    PH_TRY(ph_break(stream, pause_it, NULL));
    return ones(stream, user);
}

TEST(segments_are_uploaded)
{
    ph_graph *whole, *plain = captured(&defer);
    assert_ok(ph_graph_create(&whole, &defer));
    assert_ok(ph_graph_capture(whole, world.stream, &(ph_capture_options){.allow_breaks = true},
                               with_a_break, NULL));
    const calls before = made();
    assert_ok(ph_graph_upload_all((ph_graph *[]){plain, whole}, 2, other));
    assert_calls(&before, 3, 4, 1);
    assert_replays(whole, world.stream, 1);
    assert_replays(plain, world.stream, 1);
    ph_graph_destroy(plain);
    ph_graph_destroy(whole);
}

/* ---- refusals ---- */
TEST(misuse_is_refused)
{
    ph_graph *fresh;
    capture_graphs(&defer);
    assert_error(ph_graph_upload_all(NULL, 1, other), PH_ERROR_ARGUMENT, "graphs is NULL");
    assert_error(ph_graph_upload_all(graphs, GRAPHS, NULL), PH_ERROR_ARGUMENT,
                 "ph_graph_upload_all");
    assert_ok(ph_graph_create(&fresh, &defer));
    ph_graph *given[] = {graphs[0], graphs[1], fresh};
    calls before = made();
    assert_error(ph_graph_upload_all(given, 3, other), PH_ERROR_STATE,
                 "ph_graph_upload_all: graph 2: ph_graph_upload: called without");
    given[2] = NULL;
    assert_error(ph_graph_upload_all(given, 3, other), PH_ERROR_ARGUMENT, "graph 2");
    assert_calls(&before, 0, 0, 0);
    assert_all_replay();
    ph_graph_destroy(fresh);
    destroy_graphs();
}

TEST(a_capturing_stream_is_refused)
{
    ph_graph *outer;
    capture_graphs(&defer);
    assert_ok(ph_graph_create(&outer, NULL));
    assert_ok(ph_graph_capture_begin(outer, other, NULL));
    assert_error(ph_graph_upload_all(graphs, GRAPHS, other), PH_ERROR_CAPTURE, "graph 0");
    assert_native(900);
    assert_ok(ph_graph_upload_all(graphs, GRAPHS, world.stream));
    assert_ok(t_fill(&world, other, x, N, 5));
    assert_ok(ph_graph_capture_end(outer, PH_OK));
    assert_all_replay();
    assert_replays(outer, world.stream, 5);
    ph_graph_destroy(outer);
    destroy_graphs();
}

/* ---- hooks ---- */
static ph_status destroy_inside(const ph_graph_hook_info *info, void *user)
{
    (void)user;
    ph_graph_destroy(info->graph);
    return PH_OK;
}

static ph_status reset_other(const ph_graph_hook_info *info, void *user)
{
    (void)info;
    ph_graph *before = user;
    PH_TRY(ph_graph_reset(before));
    return ph_graph_capture(before, world.stream, NULL, ones, NULL);
}

/* None is uploaded before all hooks have run, and what these took away is said. */
TEST(hooks_that_take_graphs_away)
{
    ph_hook *hook;
    capture_graphs(&keep_defer);
    assert_ok(ph_graph_hook_add(&hook, graphs[1], PH_HOOK_INSTANTIATE, destroy_inside, NULL));
    calls before = made();
    assert_error(ph_graph_upload_all(graphs, GRAPHS, other), PH_ERROR_STATE,
                 "graph 1: the graph was destroyed");
    assert_calls(&before, 0, 0, 0);
    ph_graph_hook_remove(hook);
    graphs[1] = captured(&keep_defer);
    assert_ok(ph_graph_hook_add(&hook, graphs[1], PH_HOOK_INSTANTIATE, reset_other, graphs[0]));
    assert_error(ph_graph_upload_all(graphs, GRAPHS, other), PH_ERROR_STATE,
                 "has no executable any more");
    ph_graph_hook_remove(hook);
    assert_all_replay();
    destroy_graphs();
}

/* ---- failures of libcuda ---- */
static void need_software(void)
{
    if (fake_cuda())
        return;
    print_message("skipped: the software libcuda alone fails one call when it is told to\n");
    skip();
}

/* What an upload that failed has left is uploaded, and replays. */
static void upload_again(void)
{
    assert_ok(ph_graph_upload_all(graphs, GRAPHS, other));
    assert_all_replay();
    destroy_graphs();
}

TEST(what_is_before_the_one_that_fails_is_uploaded)
{
    static const struct {
        const char *name;
        int answer;
        ph_status status;
    } faults[] = {{"cuGraphUpload", 2, PH_ERROR_DEVICE_MEMORY},
                  {"cuMemGetInfo", 999, PH_ERROR_DEVICE},
                  {"cuEventCreate", 999, PH_ERROR_DEVICE},
                  {"cuEventRecordWithFlags", 999, PH_ERROR_DEVICE}};
    need_software();
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        capture_graphs(&defer);
        fake_cuda()->fail_call(faults[i].name, faults[i].answer, 1);
        assert_error(ph_graph_upload_all(graphs, GRAPHS, other), faults[i].status,
                     "ph_graph_upload_all");
        fake_cuda()->fail_call(faults[i].name, 0, 0);
        upload_again();
    }
}

/* The first replay elsewhere records it. */
TEST(replays_come_after_an_upload_without_an_event)
{
    need_software();
    for (int all = 0; all < 2; all++) {
        t_gate gate = {.behind = true};
        capture_graphs(&defer);
        assert_ok(t_gate_wait_guarded(&gate, other));
        fake_cuda()->fail_call("cuEventRecordWithFlags", 999, 2);
        assert_int_equal(all ? ph_graph_upload_all(graphs, GRAPHS, other)
                             : ph_graph_upload(graphs[0], other),
                         PH_ERROR_DEVICE);
        assert_error(ph_graph_replay(graphs[0], world.stream), PH_ERROR_DEVICE,
                     "behind the upload of the executable");
        fake_cuda()->fail_call("cuEventRecordWithFlags", 0, 0);
        assert_ok(ph_graph_replay(graphs[0], world.stream));
        assert_waits(world.stream, &gate);
        t_gate_open(&gate);
        upload_again();
    }
}

/* The stream is kept until the event is recorded. */
TEST(a_late_event_outlives_the_handle_of_its_stream)
{
    need_software();
    ph_stream *gone;
    assert_ok(ph_stream_create(&gone, world.device, NULL));
    capture_graphs(&defer);
    fake_cuda()->fail_call("cuEventRecordWithFlags", 999, 1);
    assert_int_equal(ph_graph_upload_all(graphs, GRAPHS, gone), PH_ERROR_DEVICE);
    fake_cuda()->fail_call("cuEventRecordWithFlags", 0, 0);
    ph_stream_destroy(gone);
    assert_all_replay();
    destroy_graphs();
    assert_int_equal(fake_cuda()->misuses(), 0);
}

/* An event on the default stream would kill a capture with a blocking stream. */
TEST(a_late_event_harms_no_capture)
{
    need_software();
    ph_stream *blocking;
    ph_graph *open;
    ph_stream *const legacy = ph_device_default_stream(world.device);
    assert_ok(ph_stream_create(&blocking, world.device, &(ph_stream_options){.blocking = true}));
    assert_ok(ph_graph_create(&open, NULL));
    capture_graphs(&defer);
    fake_cuda()->fail_call("cuEventRecordWithFlags", 999, 1);
    assert_int_equal(ph_graph_upload(graphs[0], legacy), PH_ERROR_DEVICE);
    fake_cuda()->fail_call("cuEventRecordWithFlags", 0, 0);
    assert_ok(ph_graph_capture_begin(open, blocking, NULL));
    assert_error(ph_graph_replay(graphs[0], world.stream), PH_ERROR_CAPTURE,
                 "ph_graph_replay: the event behind the upload of the executable");
    assert_ok(t_fill(&world, blocking, x, N, 1));
    assert_ok(ph_graph_capture_end(open, PH_OK));
    assert_ok(ph_graph_replay(graphs[0], world.stream));
    assert_all_replay();
    ph_graph_destroy(open);
    ph_stream_destroy(blocking);
    destroy_graphs();
}

/* The n-th call of libcuda has no memory. Executables before one that fails are ordered before
 * their replays. */
static bool fail_nth(int64_t n, int64_t *uploaded)
{
    t_gate gate = {.behind = true};
    capture_graphs(&defer);
    assert_ok(t_gate_wait_guarded(&gate, other));
    const int64_t before = calls_of("cuGraphUpload"), called = fake_cuda()->calls();
    fake_cuda()->fail_after(n, 2);
    const ph_status status = ph_graph_upload_all(graphs, GRAPHS, other);
    fake_cuda()->fail_after(-1, 0);
    const bool reached = fake_cuda()->calls() - called > n;
    *uploaded = calls_of("cuGraphUpload") - before;
    assert_true(reached == (status != PH_OK));
    if (reached && *uploaded < GRAPHS && executable_of(graphs[0]) > 0) {
        assert_ok(ph_graph_replay(graphs[0], world.stream));
        assert_waits(world.stream, &gate);
    }
    t_gate_open(&gate);
    assert_ok(ph_graph_upload_all(graphs, GRAPHS, other));
    assert_all_replay();
    destroy_graphs();
    return reached;
}

TEST(a_call_in_the_middle_fails)
{
    int64_t uploaded = 0, seen = 0; /* seen: bits of how many were tried before one failed */
    need_software();
    for (int64_t n = 0; fail_nth(n, &uploaded); n++)
        seen |= INT64_C(1) << uploaded;
    assert_int_equal(uploaded, GRAPHS);
    assert_int_equal(seen, (1 << (GRAPHS + 1)) - 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(each_has_the_bytes_that_it_takes_alone),
        CASE(those_that_need_none),
        CASE(those_without_an_executable_get_one),
        CASE(replays_of_each_come_after_it),
        CASE(segments_are_uploaded),
        CASE(misuse_is_refused),
        CASE(a_capturing_stream_is_refused),
        CASE(hooks_that_take_graphs_away),
        CASE(what_is_before_the_one_that_fails_is_uploaded),
        CASE(replays_come_after_an_upload_without_an_event),
        CASE(a_late_event_outlives_the_handle_of_its_stream),
        CASE(a_late_event_harms_no_capture),
        CASE(a_call_in_the_middle_fails),
    };
    return cmocka_run_group_tests_name("graph.upload_all", tests, NULL, NULL);
}
