/* SPDX-License-Identifier: MIT */
/* tests/graph/inputs_failures.c: the check of inputs when host allocations or driver calls fail,
 * and when other threads free what a graph reads while it is replayed. */
#include "support/sweep.h"

#include "base/alloc.h"
#include "base/sync.h"
#include "device/handles/device.h"
#include "device/handles/kernel.h"
#include "support/test.h"

enum {
    N = 256,
    BYTES = N * sizeof(int32_t),
    ANSWER = 999 /* of driver calls that fail */
};
static t_world world;
static int32_t *x, *y, *other;
static ph_kernel *untyped;
static const ph_capture_options checked = {.check_input_liveness = true, .check_foreign_every = 1};

FIXTURE(open_world)
{
    t_open(&world, NULL);
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(PH_NEW(&y, N, world.stream));
    assert_ok(t_fill(&world, world.stream, x, N, 1));
    assert_ok(t_fill(&world, world.stream, y, N, 1));
    assert_ok(ph_kernel_create(&untyped, world.device, &t_kernel_sources[T_KERNEL_COPY_FIRST]));
    void *at = NULL;
    assert_int_equal(world.device->driver->plain_alloc(&at, world.device->handle, BYTES), 0);
    other = at;
    assert_ok(ph_stream_synchronize(world.stream));
    return 0;
}

FIXTURE(close_world)
{
    assert_int_equal(world.device->driver->plain_free(world.device->handle, other), 0);
    ph_kernel_release(untyped);
    ph_free(x, world.stream);
    ph_free(y, world.stream);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

/* ---- failures ---- */
static ph_graph *graph, *outer;

static ph_status body(ph_stream *stream, void *user)
{
    struct t_copy_first pair = {other, y};
    (void)user;
    PH_TRY(ph_stream_declare_use(stream, x, "x"));
    PH_TRY(ph_stream_declare_use(stream, other, "other"));
    PH_TRY(ph_launch(stream, untyped, NULL, &pair, sizeof pair));
    return t_add(&world, stream, x, y, N, 1);
}

static ph_status nested(ph_stream *stream, void *user)
{
    (void)user;
    return ph_graph_replay(graph, stream);
}

static ph_status everything(void *user)
{
    char *text = NULL;
    size_t count = 0;
    int32_t *brief = NULL;
    struct t_add_i32 args = {N, other, y, 5};
    ph_launch_config config = t_config(N);
    ph_input_info info;
    (void)user;
    PH_TRY(ph_memory_record_sites(8));
    PH_TRY(PH_NEW(&brief, N, world.stream));
    ph_free(brief, world.stream);
    PH_TRY(ph_graph_create(&graph, NULL));
    PH_TRY(ph_graph_create(&outer, NULL));
    PH_TRY(ph_graph_capture(graph, world.stream, &checked, body, NULL));
    PH_TRY(ph_graph_capture(outer, world.stream, &checked, nested, NULL));
    PH_TRY(ph_graph_replay(outer, world.stream));
    PH_TRY(ph_graph_node_set_launch(graph, 1, &config, &args, sizeof args));
    PH_TRY(ph_graph_replay(graph, world.stream));
    PH_TRY(ph_graph_update(graph, graph, NULL));
    PH_TRY(ph_graph_check_inputs(graph));
    PH_TRY(ph_graph_input_count(&count, graph));
    for (size_t i = 0; i < count; i++)
        PH_TRY(ph_graph_input(&info, graph, i));
    PH_TRY(ph_graph_unseen(&text, graph));
    ph_string_free(text);
    return ph_stream_synchronize(world.stream);
}

static void reset(ph_status status, void *user)
{
    (void)user;
    if (status == PH_ERROR_DEVICE)
        assert_native(ANSWER);
    ph_graph_destroy(outer);
    ph_graph_destroy(graph);
    graph = outer = NULL;
    assert_ok(ph_memory_record_sites(0));
    assert_ok(ph_stream_synchronize(world.stream));
}

static const t_swept swept = {.name = "inputs", .run = everything, .reset = reset};

TEST(test_host_allocations)
{
    assert_true(t_sweep(&swept, &t_host_memory_fault).reached > 30);
}

TEST(test_driver_calls)
{
    assert_true(t_sweep(&swept, t_driver_fault(ANSWER)).reached > 20);
}

/* ---- threads ---- one frees and allocates, what graphs read and what they do not, while others
 * replay. */
enum {
    REPLAYERS = 2
};
typedef struct job {
    ph_graph *graph;
    ph_stream *stream;
    atomic_bool *stop;
    size_t refused, wrong;
} job;

static void *replay_until(void *user)
{
    job *j = user;
    do {
        ph_status status = ph_graph_replay(j->graph, j->stream);
        if (status == PH_ERROR_STALE_INPUT)
            j->refused++;
        else if (status != PH_OK)
            j->wrong++;
        else if (j->refused)
            j->wrong++; /* what is dead stays dead */
    } while (!atomic_load(j->stop));
    if (ph_graph_replay(j->graph, j->stream) == PH_ERROR_STALE_INPUT)
        j->refused++;
    return NULL;
}

TEST(test_freed_while_replayed)
{
    int32_t *shared, *targets[REPLAYERS + 1];
    pthread_t threads[REPLAYERS];
    job jobs[REPLAYERS + 1] = {0};
    atomic_bool stop = false;
    assert_ok(PH_NEW(&shared, N, world.stream));
    for (int i = 0; i <= REPLAYERS; i++)
        assert_ok(PH_NEW(&targets[i], N, world.stream));
    assert_ok(t_fill(&world, world.stream, shared, N, 1));
    assert_ok(ph_stream_synchronize(world.stream));
    for (int i = 0; i <= REPLAYERS; i++) {
        jobs[i].stop = &stop;
        assert_ok(ph_stream_create(&jobs[i].stream, world.device, NULL));
        assert_ok(ph_graph_create(&jobs[i].graph, NULL));
        assert_ok(ph_graph_capture_begin(jobs[i].graph, jobs[i].stream, &checked));
        /* The last one does not read what is freed. */
        assert_ok(t_add(&world, jobs[i].stream, i < REPLAYERS ? shared : x, targets[i], N, 1));
        assert_ok(ph_graph_capture_end(jobs[i].graph, PH_OK));
    }
    for (int i = 0; i < REPLAYERS; i++)
        assert_true(ph__thread_start(&threads[i], "replays", replay_until, &jobs[i]));
    for (int i = 0; i < (t_nightly() ? 20000 : 500); i++) {
        int32_t *brief;
        assert_ok(PH_NEW(&brief, N, world.stream));
        ph_free(brief, world.stream);
        assert_ok(ph_graph_replay(jobs[REPLAYERS].graph, jobs[REPLAYERS].stream));
    }
    ph_free(shared, world.stream);
    atomic_store(&stop, true);
    for (int i = 0; i < REPLAYERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(jobs[i].wrong, 0);
        assert_true(jobs[i].refused >= 1);
    }
    assert_ok(ph_graph_replay(jobs[REPLAYERS].graph, jobs[REPLAYERS].stream));
    for (int i = 0; i <= REPLAYERS; i++) {
        assert_ok(ph_stream_synchronize(jobs[i].stream));
        ph_graph_destroy(jobs[i].graph);
        ph_stream_destroy(jobs[i].stream);
        ph_free(targets[i], world.stream);
    }
}

/* Uses are declared on several streams of one capture, each by its own thread. */
typedef struct declaring {
    ph_stream *stream;
    int32_t *const *pointers;
    size_t count;
    ph_status status;
} declaring;

static void *declare_all(void *user)
{
    declaring *d = user;
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < d->count && d->status == PH_OK; i++)
            d->status = ph_stream_declare_use(d->stream, d->pointers[i], "use");
    return NULL;
}

TEST(test_declared_by_threads)
{
    enum {
        MANY = 40
    };
    const ph_capture_options relaxed = {.check_input_liveness = true, .mode = PH_CAPTURE_RELAXED};
    int32_t *pointers[MANY];
    pthread_t threads[2];
    ph_graph *made;
    ph_stream *side;
    size_t count;
    assert_ok(ph_graph_create(&made, NULL));
    assert_ok(ph_stream_create(&side, world.device, NULL));
    for (int i = 0; i < MANY; i++)
        assert_ok(PH_NEW(&pointers[i], N, world.stream));
    assert_ok(ph_graph_capture_begin(made, world.stream, &relaxed));
    assert_ok(t_fill(&world, world.stream, y, N, 1));
    assert_ok(ph_stream_wait_stream(side, world.stream));
    declaring both[2] = {{world.stream, pointers, 30, PH_OK}, {side, pointers + 10, 30, PH_OK}};
    for (int i = 0; i < 2; i++)
        assert_true(ph__thread_start(&threads[i], "declares", declare_all, &both[i]));
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_ok(ph_stream_wait_stream(world.stream, side));
    assert_ok(ph_graph_capture_end(made, PH_OK));
    assert_ok(both[0].status);
    assert_ok(both[1].status);
    assert_ok(ph_graph_input_count(&count, made));
    assert_int_equal(count, MANY + 1);
    for (int i = 0; i < MANY; i++)
        ph_free(pointers[i], world.stream);
    assert_error(ph_graph_replay(made, world.stream), PH_ERROR_STALE_INPUT, "40 dead inputs");
    ph_graph_destroy(made);
    ph_stream_destroy(side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_host_allocations),
        IN_WORLD(test_driver_calls),
        IN_WORLD(test_freed_while_replayed),
        IN_WORLD(test_declared_by_threads),
    };
    return cmocka_run_group_tests_name("graph.inputs_failures", tests, NULL, NULL);
}
