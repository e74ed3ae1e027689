/* SPDX-License-Identifier: MIT */
/* tests/threads/windows_stress.c: captures that begin and end on one thread while another submits
 * work of all kinds to the stream, both at full speed. Each call either came before a capture, and
 * did its work, or is in it, with all that its replays need. */
#include "windows.h"

typedef struct submitter {
    ph_stream *stream;
    ph_graph *graph; /* one node, replayed beside the others */
    atomic_bool stop;
    char failure[1024];
} submitter;

/* What a capturing stream refuses is no failure. */
static ph_status pass_refused(ph_status status)
{
    return status == PH_ERROR_CAPTURE && ph_error_last()->native_code == 900 ? PH_OK : status;
}

static ph_status copy_both_kinds(ph_stream *stream, unsigned round)
{
    int32_t *pinned, pageable[16] = {0};
    PH_TRY(ph_malloc_pinned(&pinned, N, sizeof *pinned, stream));
    memset(pinned, 1, BYTES);
    PH_TRY(ph_memcpy(x, pinned, BYTES, stream));
    ph_free_pinned(pinned, stream);
    ph_status status = ph_memcpy(round % 4 < 2 ? (void *)x : pageable,
                                 round % 4 < 2 ? (void *)pageable : x, sizeof pageable, stream);
    return status == PH_ERROR_UNPINNED ? PH_OK : status;
}

static ph_status record_event(ph_stream *stream, unsigned round)
{
    ph_event *event;
    PH_TRY(ph_event_create(&event, world.device, &(ph_event_options){.external = round % 2}));
    ph_status status = ph_event_record(event, stream);
    ph_event_destroy(event);
    return status;
}

static ph_status launch(ph_stream *stream)
{
    ph_kernel *kernel;
    PH_TRY(ph_kernel_create(&kernel, world.device, &t_kernel_sources[T_KERNEL_ADD_ONE]));
    ph_status status = ph_launch(stream, kernel, NULL, &x, sizeof x);
    ph_kernel_release(kernel);
    return status;
}

static ph_status wait_for(ph_stream *stream, unsigned round)
{
    bool done;
    PH_TRY(pass_refused(ph_stream_query(&done, stream)));
    if (round % 8 == 3)
        PH_TRY(pass_refused(ph_stream_synchronize(stream)));
    if (round % 8 == 7)
        PH_TRY(pass_refused(ph_device_synchronize(world.device)));
    return PH_OK;
}

static ph_status submit_all_kinds(submitter *s, unsigned round)
{
    PH_TRY(copy_both_kinds(s->stream, round));
    PH_TRY(record_event(s->stream, round));
    PH_TRY(wait_for(s->stream, round));
    PH_TRY(ph_memset(x, 1, BYTES, s->stream));
    PH_TRY(ph_graph_replay(s->graph, s->stream));
    return launch(s->stream);
}

static void *submit(void *argument)
{
    submitter *s = argument;
    for (unsigned round = 0; !atomic_load(&s->stop); round++)
        if (submit_all_kinds(s, round) != PH_OK) {
            memcpy(s->failure, ph_error_last()->message, sizeof ph_error_last()->message);
            break;
        }
    return NULL;
}

static ph_status linger(ph_stream *stream, void *user)
{
    (void)stream;
    for (int i = 0; i < *(int *)user; i++)
        sched_yield();
    return PH_OK;
}

static void check_nodes(void)
{
    const ph_record *record;
    bool copies = false;
    assert_ok(ph_graph_record(&record, graph));
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        ph_node_info info;
        assert_ok(ph_record_node(&info, record, i));
        copies = copies || info.kind == PH_NODE_MEMCPY;
        if (info.kind == PH_NODE_KERNEL)
            assert_string_equal(info.name, t_kernel_sources[T_KERNEL_ADD_ONE].name);
    }
    assert_true(!copies || pinned_kept() > 0);
}

/* Work that came between the join and the capture's end is not joined: such a capture is
 * refused. */
static bool capture_once(ph_capture_fn body, void *user)
{
    const ph_capture_options options = {.mode = PH_CAPTURE_RELAXED};
    ph_status status = ph_graph_capture(graph, world.stream, &options, body, user);
    if (status == PH_ERROR_CAPTURE && ph_error_last()->native_code == 904)
        return false;
    assert_ok(status);
    return true;
}

static void capture_beside(submitter *s, ph_capture_fn body, int *yields)
{
    pthread_t thread;
    assert_true(ph__thread_start(&thread, "submit", submit, s));
    for (int i = 0, rounds = t_nightly() ? 20000 : 500; i < rounds; i++) {
        *yields = i % 8;
        if (capture_once(body, yields)) {
            check_nodes();
            /* on the submitter's stream: both write x */
            assert_ok(ph_graph_replay(graph, s->stream));
        }
        assert_ok(ph_graph_reset(graph));
    }
    atomic_store(&s->stop, true);
    pthread_join(thread, NULL);
    if (s->failure[0])
        fail_msg("%s", s->failure);
    assert_int_equal(t_log_count("pageable"), 0);
}

TEST(test_all_at_full_speed)
{
    static submitter s; /* outlives a failed assertion */
    static int yields;
    s.stream = world.stream;
    assert_ok(ph_graph_create(&s.graph, NULL));
    assert_ok(ph_graph_capture(s.graph, world.stream, NULL, add_one, NULL));
    capture_beside(&s, linger, &yields);
    ph_graph_destroy(s.graph);
}

static submitter on_side;

static ph_status join_side(ph_stream *stream, void *user)
{
    PH_TRY(ph_stream_wait_stream(on_side.stream, stream));
    PH_TRY(linger(stream, user));
    return ph_stream_wait_stream(stream, on_side.stream);
}

TEST(test_all_on_a_stream_that_joins)
{
    static int yields;
    assert_ok(ph_stream_create(&on_side.stream, world.device, NULL));
    assert_ok(ph_graph_create(&on_side.graph, NULL));
    assert_ok(ph_graph_capture(on_side.graph, on_side.stream, NULL, add_one, NULL));
    capture_beside(&on_side, join_side, &yields);
    ph_graph_destroy(on_side.graph);
    ph_stream_destroy(on_side.stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_all_at_full_speed),
        IN_WORLD(test_all_on_a_stream_that_joins),
    };
    return cmocka_run_group_tests_name("threads.windows_stress", tests, NULL, NULL);
}
