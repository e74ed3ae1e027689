/* SPDX-License-Identifier: MIT */
/* tests/cuda/two_gpus.c: two GPUs in one process: captures on both at once, what is of one
 * refused on the other, and the caller's own context left alone all the while. */
#include "base/sync.h"
#include "program.h"
#include "support/test.h"

enum {
    N = 500
};

typedef struct side {
    t_world world;
    ph_event *event;
    ph_graph *graph, *other;
    int32_t *x;
} side;
static side sides[2];

static void open_sides(void)
{
    static const char *const names[2] = {"cuda:0", "cuda:1"};
    for (int i = 0; i < 2; i++) {
        side *s = &sides[i];
        ph_device_info info;
        t_open(&s->world, names[i]);
        assert_ok(ph_device_get_info(&info, s->world.device));
        assert_string_equal(info.name, i ? "cuda:1" : "cuda");
        assert_int_equal(info.ordinal, i);
        assert_ok(ph_event_create(&s->event, s->world.device, NULL));
        assert_ok(ph_graph_create(&s->graph, NULL));
        assert_ok(ph_graph_create(&s->other, NULL));
        assert_ok(PH_NEW(&s->x, N, s->world.stream));
        assert_ok(t_fill(&s->world, s->world.stream, s->x, N, i));
        assert_ok(ph_stream_synchronize(s->world.stream));
    }
}

static void close_sides(void)
{
    for (int i = 0; i < 2; i++) {
        side *s = &sides[i];
        ph_graph_destroy(s->graph);
        ph_graph_destroy(s->other);
        ph_event_destroy(s->event);
        ph_free(s->x, NULL);
        t_close(&s->world);
    }
}

static ph_status add(side *s, int32_t value)
{
    return t_add(&s->world, s->world.stream, s->x, s->x, N, value);
}

/* Both captures are open at the same time on this thread; then both replay, in turn. */
static void capture_on_both(void)
{
    for (int i = 0; i < 2; i++)
        assert_ok(ph_graph_capture_begin(sides[i].graph, sides[i].world.stream, NULL));
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 2; i++)
            assert_ok(add(&sides[i], 10 * (i + 1)));
    for (int i = 0; i < 2; i++) {
        const ph_record *record;
        assert_ok(ph_graph_capture_end(sides[i].graph, PH_OK));
        assert_ok(ph_graph_record(&record, sides[i].graph));
        assert_int_equal(ph_record_node_count(record), 3);
    }
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < 2; i++)
            assert_ok(ph_graph_replay(sides[i].graph, sides[i].world.stream));
    t_all(sides[0].x, N, 120, sides[0].world.stream);
    t_all(sides[1].x, N, 241, sides[1].world.stream);
}

#define assert_wrong(call) assert_error((call), PH_ERROR_WRONG_DEVICE, "device")
static void refuse_each_others(void)
{
    for (int i = 0; i < 2; i++) {
        side *s = &sides[i], *o = &sides[1 - i];
        assert_wrong(t_fill(&s->world, o->world.stream, o->x, N, 1)); /* a kernel */
        assert_wrong(ph_graph_replay(s->graph, o->world.stream));
        assert_wrong(ph_event_record(s->event, o->world.stream));
        assert_wrong(ph_stream_wait_event(o->world.stream, s->event));
        assert_wrong(ph_stream_wait_stream(o->world.stream, s->world.stream));
        /* In a capture too, which goes on. */
        assert_ok(ph_graph_capture_begin(s->other, s->world.stream, NULL));
        assert_wrong(ph_graph_replay(o->graph, s->world.stream));
        assert_wrong(t_fill(&o->world, s->world.stream, s->x, N, 1));
        assert_ok(add(s, 1));
        assert_ok(ph_graph_capture_end(s->other, PH_OK));
        assert_ok(ph_graph_reset(s->other));
    }
}

static ph__cu_context current(void)
{
    ph__cu_context context;
    cu(CtxGetCurrent(&context));
    return context;
}

static void all_of_it(ph__cu_context expected)
{
    assert_ptr_equal(current(), expected);
    open_sides();
    assert_ptr_equal(current(), expected);
    capture_on_both();
    assert_ptr_equal(current(), expected);
    refuse_each_others();
    assert_ptr_equal(current(), expected);
    close_sides();
    assert_ptr_equal(current(), expected);
}

TEST(no_context_is_current)
{
    assert_int_equal(ph__cuda_load(), 0);
    all_of_it(NULL);
}

TEST(either_ones_context_is_current)
{
    for (int gpu = 0; gpu < 2; gpu++) {
        ph__cu_context context = primary(gpu);
        cu(CtxPushCurrent(context));
        all_of_it(context);
        pop(context);
        cu(DevicePrimaryCtxRelease(gpu));
    }
}

/* ---- a thread for each ---- */
typedef struct worker {
    side *side;
    pthread_t thread;
    char failure[512];
} worker;

static ph_status rounds_of(side *s)
{
    const ph_capture_options options = {.mode = PH_CAPTURE_THREAD_LOCAL};
    for (int i = 0; i < (t_nightly() ? 2000 : 100); i++) {
        PH_TRY(ph_graph_capture_begin(s->graph, s->world.stream, &options));
        PH_TRY(ph_graph_capture_end(s->graph, add(s, 1)));
        PH_TRY(ph_graph_replay(s->graph, s->world.stream));
        PH_TRY(ph_graph_replay(s->graph, s->world.stream));
        PH_TRY(ph_graph_reset(s->graph));
    }
    return ph_stream_synchronize(s->world.stream);
}

static void *work(void *argument)
{
    worker *w = argument;
    if (rounds_of(w->side) != PH_OK)
        memcpy(w->failure, ph_error_last()->message, sizeof w->failure);
    return NULL;
}

TEST(a_thread_for_each)
{
    worker workers[2];
    memset(workers, 0, sizeof workers);
    open_sides();
    for (int i = 0; i < 2; i++) {
        workers[i].side = &sides[i];
        assert_true(ph__thread_start(&workers[i].thread, "worker", work, &workers[i]));
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].failure[0])
            fail_msg("%s", workers[i].failure);
        t_all(sides[i].x, N, i + 2 * (t_nightly() ? 2000 : 100), sides[i].world.stream);
    }
    close_sides();
}

FIXTURE(check_all)
{
    if (fake_cuda() && (fake_cuda()->misuses() || left_behind()[0])) {
        print_error("%s%s\n", fake_cuda()->misuse_text(), left_behind());
        return -1;
    }
    return ph__alloc_live() == 0 ? 0 : -1;
}

int main(void)
{
    int count = 0;
    if (ph__cuda_load() == 0 && ph__cu.DeviceGetCount(&count) == 0 && count < 2) {
        print_message("skipped: it needs two GPUs, and this machine has %d\n", count);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_context_is_current),
        cmocka_unit_test(either_ones_context_is_current),
        cmocka_unit_test(a_thread_for_each),
    };
    return cmocka_run_group_tests_name("cuda.two_gpus", tests, NULL, check_all);
}
