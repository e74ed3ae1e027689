/* SPDX-License-Identifier: MIT */
/* tests/device/fork.c: a child of fork(): its own devices work on the host and are refused on a
 * GPU, whatever other threads were doing; what the parent made answers STATE, and nothing hangs. */
#include "support/fork.h"

#include "base/sync.h"
#include "support/test.h"

enum {
    N = 64,
    FORKS = 40
};

static t_world world;
static atomic_bool over;

FIXTURE(open_world)
{
    t_hold_context();
    t_open(&world, NULL);
    atomic_store(&over, false);
    return 0;
}

FIXTURE(close_world)
{
    t_close(&world);
    return 0;
}

static int wait_for(pid_t child)
{
    int status;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* ---- a device of the child's own ---- */
static ph_status body(ph_stream *stream, void *user)
{
    const t_world *own = user;
    int32_t *x;
    PH_TRY(ph_annotation_push(stream, "layer", NULL));
    PH_TRY(PH_NEW(&x, N, stream));
    PH_TRY(t_fill(own, stream, x, N, 3));
    ph_free(x, stream);
    return ph_annotation_pop(stream);
}

static void use_own_host_device(void)
{
    static t_world own;
    ph_graph *graph;
    int32_t *x, got[N];
    t_open(&own, NULL);
    WANT_OK(PH_NEW(&x, N, own.stream));
    WANT_OK(t_fill(&own, own.stream, x, N, 7));
    WANT_OK(ph_memcpy(got, x, sizeof got, own.stream));
    WANT_OK(ph_stream_synchronize(own.stream));
    for (int i = 0; i < N; i++)
        WANT(got[i] == 7);
    WANT_OK(ph_graph_create(&graph, NULL));
    WANT_OK(ph_graph_capture(graph, own.stream, &(ph_capture_options){.enable_annotations = true},
                             body, &own));
    WANT_OK(ph_graph_replay(graph, own.stream));
    WANT_OK(ph_stream_synchronize(own.stream));
    ph_graph_destroy(graph);
    ph_free(x, NULL);
    t_close(&own);
}

static void use_own_device(void)
{
    ph_device *device;
    alarm(HANGS_AFTER);
    if (t_on_host()) {
        use_own_host_device();
    } else {
        WANT(ph_device_open(&device, t_device_name(), NULL) == PH_ERROR_NOT_FOUND);
        WANT(strstr(ph_error_last()->message, "fork") != NULL);
        WANT_OK(ph_device_open(&device, "host:threads=1", NULL));
        ph_device_release(device);
    }
    _exit(0);
}

/* ---- what other threads do meanwhile ---- */
static void *allocate(void *user)
{
    (void)user;
    while (!atomic_load(&over)) {
        void *p = NULL;
        if (ph_malloc(&p, 1, 4096, world.stream) == PH_OK)
            ph_free(p, NULL);
    }
    return NULL;
}

static void *open_devices(void *user)
{
    (void)user;
    while (!atomic_load(&over)) {
        ph_device *device;
        ph_kernel *kernel = NULL;
        if (ph_device_open(&device, "host:threads=1", NULL) != PH_OK)
            continue;
        ph_ignore(ph_kernel_create(&kernel, device, &t_kernel_sources[T_KERNEL_FILL_I32]));
        ph_kernel_release(kernel);
        ph_device_release(device);
    }
    return NULL;
}

static ph_status ignore_hook(const ph_graph_hook_info *info, void *user)
{
    (void)info;
    (void)user;
    return PH_OK;
}

/* The registries of the process: hooks, log, annotated captures, sites. */
static void *register_things(void *user)
{
    ph_stream *stream = user;
    while (!atomic_load(&over)) {
        ph_hook *hook = NULL;
        ph_graph *graph;
        ph_ignore(ph_graph_hook_add(&hook, NULL, PH_HOOK_CAPTURE_START, ignore_hook, NULL));
        ph_graph_hook_remove(hook);
        ph_log_set(NULL, NULL);
        ph_ignore(ph_memory_record_sites(4));
        ph_ignore(ph_memory_record_sites(0));
        if (ph_graph_create(&graph, NULL) != PH_OK)
            continue;
        const ph_capture_options options = {.mode = PH_CAPTURE_THREAD_LOCAL,
                                            .enable_annotations = true};
        ph_ignore(ph_graph_capture(graph, stream, &options, body, &world));
        ph_graph_destroy(graph);
    }
    return NULL;
}

TEST(test_among_busy_threads)
{
    pthread_t threads[4];
    ph_stream *stream;
    if (HAS_TSAN) {
        print_message("skipped: under ThreadSanitizer a child of a program with threads cannot "
                      "start threads\n");
        skip();
    }
    assert_ok(ph_stream_create(&stream, world.device, NULL));
    void *(*const bodies[])(void *user) = {allocate, allocate, open_devices, register_things};
    for (int i = 0; i < 4; i++)
        assert_true(ph__thread_start(&threads[i], "test", bodies[i], stream));
    int failed = 0;
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0)
            use_own_device();
        int status = 0;
        failed += child < 0 || waitpid(child, &status, 0) != child || status != 0;
    }
    atomic_store(&over, true);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ph_stream_destroy(stream);
    assert_int_equal(failed, 0);
}

/* ---- what the parent made ---- */
typedef struct things {
    ph_stream *stream;
    ph_event *event;
    ph_graph *graph, *open;
    ph_pool *pool;
    ph_pool_checkpoint *checkpoint;
    int32_t *x;
    void *pinned;
} things;

static void make_things(things *t)
{
    assert_ok(ph_stream_create(&t->stream, world.device, NULL));
    assert_ok(ph_event_create(&t->event, world.device, NULL));
    assert_ok(ph_event_record(t->event, world.stream));
    assert_ok(PH_NEW(&t->x, N, world.stream));
    assert_ok(ph_malloc_pinned(&t->pinned, N, 4, world.stream));
    assert_ok(ph_graph_create(&t->graph, NULL));
    assert_ok(ph_graph_capture(t->graph, world.stream,
                               &(ph_capture_options){.enable_annotations = true}, body, &world));
    assert_ok(ph_pool_create(&t->pool, world.device, NULL));
    assert_ok(ph_pool_checkpoint_create(&t->checkpoint, t->pool));
    assert_ok(ph_graph_create(&t->open, NULL));
    assert_ok(ph_graph_capture_begin(t->open, t->stream,
                                     &(ph_capture_options){.enable_annotations = true}));
    assert_ok(t_fill(&world, t->stream, t->x, N, 1));
}

static void drop_things(things *t)
{
    assert_ok(ph_graph_capture_end(t->open, PH_OK));
    ph_graph_destroy(t->open);
    ph_graph_destroy(t->graph);
    ph_pool_checkpoint_destroy(t->checkpoint);
    ph_pool_release(t->pool);
    ph_free_pinned(t->pinned, world.stream);
    ph_free(t->x, world.stream);
    ph_event_destroy(t->event);
    ph_stream_destroy(t->stream);
}

static void use_streams(things *t)
{
    bool flag;
    float milliseconds;
    ph_stream *stream, *first = ph_device_default_stream(world.device);
    ph_event *event;
    ph_capture_info info;
    WANT_STATE(ph_device_synchronize(world.device));
    WANT_STATE(ph_device_get_info(&(ph_device_info){0}, world.device));
    WANT_STATE(ph_stream_create(&stream, world.device, NULL));
    WANT_STATE(ph_event_create(&event, world.device, NULL));
    ph_stream *const streams[] = {world.stream, t->stream, first};
    for (int i = 0; i < 3; i++) {
        ph_stream *s = streams[i];
        WANT_STATE(ph_stream_synchronize(s));
        WANT_STATE(ph_stream_query(&flag, s));
        WANT_STATE(ph_stream_get_capture_info(&info, s));
        WANT_STATE(ph_event_record(t->event, s));
        WANT_STATE(ph_stream_wait_event(s, t->event));
        WANT_STATE(ph_stream_wait_stream(s, world.stream));
        WANT_STATE(ph_memcpy(t->x, t->x + N / 2, 4, s));
        WANT_STATE(ph_memset(t->x, 0, 4, s));
        WANT_STATE(ph_memset_u32(t->x, 0, 1, s));
        WANT_STATE(ph_launch_host(s, t_gate_body, NULL));
        WANT_STATE(t_fill(&world, s, t->x, N, 1));
        WANT_STATE(ph_graph_replay(t->graph, s));
        WANT_STATE(ph_annotation_push(s, "scope", NULL));
        WANT(!ph_stream_is_capturing(s));
    }
    WANT_STATE(ph_event_query(&flag, t->event));
    WANT_STATE(ph_event_synchronize(t->event));
    WANT_STATE(ph_event_elapsed(&milliseconds, t->event, t->event));
}

static void use_memory(things *t)
{
    void *p = t;
    bool equal;
    char *text;
    ph_pool *pool;
    ph_kernel *kernel;
    ph_allocation found;
    ph_memory_stats stats;
    WANT_STATE(ph_malloc(&p, 1, 64, world.stream));
    WANT(p == NULL);
    WANT_STATE(ph_malloc_pinned(&p, 1, 64, world.stream));
    WANT_STATE(ph_malloc_at(&p, t->x, 64, world.stream));
    WANT_STATE(ph_record_stream(t->x, t->stream));
    WANT_STATE(ph_stream_wait_users(t->stream, t->x));
    WANT_STATE(ph_memory_lookup(&found, world.device, t->x));
    WANT_STATE(ph_memory_get_stats(&stats, world.device));
    WANT_STATE(ph_memory_reset_peaks(world.device));
    WANT_STATE(ph_memory_reset_accumulated(world.device));
    WANT_STATE(ph_memory_trim(world.device));
    WANT_STATE(ph_memory_set_limit(world.device, 0));
    WANT_STATE(ph_memory_snapshot(&text, world.device, NULL));
    WANT_STATE(ph_memory_record_history(world.device, 10));
    WANT_STATE(ph_pool_create(&pool, world.device, NULL));
    WANT_STATE(ph_pool_begin(t->pool));
    WANT_STATE(ph_pool_end(t->pool));
    WANT_STATE(ph_pool_trim(t->pool));
    WANT_STATE(ph_pool_stats(&stats, t->pool));
    WANT_STATE(ph_pool_checkpoint_restore(t->pool, t->checkpoint));
    WANT_STATE(ph_pool_check_live(&equal, t->pool, NULL, 0));
    WANT_STATE(ph_kernel_create(&kernel, world.device, &t_kernel_sources[T_KERNEL_FILL_I32]));
}

static void use_graphs(things *t)
{
    const ph_record *record;
    ph_graph *graph;
    size_t count;
    WANT_STATE(ph_graph_instantiate(t->graph));
    WANT_STATE(ph_graph_upload(t->graph, world.stream));
    WANT_STATE(ph_graph_record(&record, t->graph));
    WANT_STATE(ph_graph_check_inputs(t->graph));
    WANT_STATE(ph_graph_reset(t->graph));
    WANT_STATE(ph_graph_capture_end(t->open, PH_OK));
    ph_graph_capture_abort(t->open);
    WANT_OK(ph_graph_create(&graph, NULL));
    WANT_STATE(ph_graph_capture(graph, world.stream, NULL, body, &world));
    WANT_STATE(ph_graph_update(t->graph, graph, NULL));
    ph_graph_destroy(graph);
    WANT_OK(ph_get_kernel_annotations(NULL, 0, &count));
    WANT(count == 0);
}

/* The child's own work beside the parent's handles. */
static void mix(things *t)
{
    static t_world own;
    int32_t *y;
    if (!t_on_host() || HAS_TSAN)
        return;
    t_open(&own, NULL);
    WANT_OK(PH_NEW(&y, N, own.stream));
    WANT_STATE(ph_launch(own.stream, world.fill_i32, NULL, NULL, 0));
    WANT_STATE(ph_stream_wait_event(own.stream, t->event));
    WANT_STATE(ph_stream_wait_stream(own.stream, world.stream));
    WANT_OK(t_fill(&own, own.stream, y, N, 1));
    ph_free(y, own.stream);
    t_close(&own);
}

static void use_things(things *t)
{
    alarm(HANGS_AFTER);
    t_log_start();
    use_streams(t);
    use_memory(t);
    use_graphs(t);
    mix(t);
    ph_free(t->x, NULL);
    ph_free(t->x, world.stream);
    ph_device_free(world.device, t->x);
    ph_free_pinned(t->pinned, NULL);
    ph_free_pinned(t->pinned, world.stream);
    ph_graph_destroy(t->open);
    ph_graph_destroy(t->graph);
    ph_pool_checkpoint_destroy(t->checkpoint);
    ph_pool_release(t->pool);
    ph_event_destroy(t->event);
    ph_stream_destroy(t->stream);
    ph_kernel_release(world.fill_i32);
    ph_stream_destroy(world.stream);
    ph_device_release(world.device);
    WANT(t_log_count("") == 0);
    _exit(0);
}

/* While its stream waits, so that waiting for it would be for ever. */
TEST(test_parents_objects)
{
    things t;
    t_gate gate = {0};
    make_things(&t);
    assert_ok(t_gate_wait(&gate, world.stream));
    pid_t child = fork();
    if (child == 0)
        use_things(&t);
    int status = -1;
    pid_t ended = child < 0 ? -1 : waitpid(child, &status, 0);
    t_gate_open(&gate); /* before anything can fail */
    drop_things(&t);
    assert_ok(ph_stream_synchronize(world.stream)); /* the gate goes */
    assert_int_equal(ended, child);
    assert_int_equal(status, 0);
}

/* A child's child: its parent's devices are lost as well. */
TEST(a_grandchild_cannot_use_devices_of_its_parents)
{
    if (!t_on_host() || HAS_TSAN)
        return;
    pid_t child = fork();
    if (child == 0) {
        static t_world own;
        alarm(HANGS_AFTER);
        t_open(&own, NULL);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            WANT_STATE(ph_stream_synchronize(own.stream));
            WANT_STATE(ph_stream_synchronize(world.stream));
            WANT_STATE(ph_memory_trim(own.device));
            WANT_STATE(ph_memory_trim(world.device));
            use_own_device();
        }
        int status;
        WANT(waitpid(grandchild, &status, 0) == grandchild && status == 0);
        WANT_OK(ph_stream_synchronize(own.stream));
        t_close(&own);
        _exit(0);
    }
    assert_int_equal(wait_for(child), 0);
    assert_ok(ph_stream_synchronize(world.stream));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_parents_objects),
        IN_WORLD(test_among_busy_threads),
        IN_WORLD(a_grandchild_cannot_use_devices_of_its_parents),
    };
    return cmocka_run_group_tests_name("fork", tests, NULL, NULL);
}
