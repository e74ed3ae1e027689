/* SPDX-License-Identifier: MIT */
/* tests/graph/culprit.c: a dead capture names the call that killed it. */
#include "support/fixture.h"

#include "base/sync.h"
#include "device/handles/device.h"
#include <phonograph/cuda.h>
#include <phonograph/foreign.h>
#include <string.h>

enum {
    N = 256
};
static t_world world;
static ph_graph *graph;
static int32_t *x;

WORLD(world, .graphs = {&graph}, .arrays = {{&x, N}}, .log = true);

static ph_status fill(ph_stream *stream, void *user)
{
    (void)user;
    return t_fill(&world, stream, x, N, 3);
}

/* As a foreign call does: straight at the driver, which kills the capture. */
__attribute__((noinline)) static void *kill_it(void *stream)
{
    const ph_stream *s = stream;
    assert_int_equal(s->device->driver->stream_synchronize(s->handle), 900);
    return NULL;
}

static void *kill_as_loader(void *stream)
{
    assert_int_equal(pthread_setname_np(pthread_self(), "loader"), 0);
    return kill_it(stream);
}

static void kill_from_loader(ph_stream *stream)
{
    pthread_t thread;
    assert_true(ph__thread_start(&thread, "loader", kill_as_loader, stream));
    pthread_join(thread, NULL);
}

static void assert_named(const char *call, int number)
{
    const ph_error *error = ph_error_last();
    assert_int_equal(error->status, PH_ERROR_CAPTURE);
    assert_int_equal(error->native_code, number);
    assert_string_equal(error->native_call, call);
    assert_non_null(strstr(error->message, call));
    assert_true(strlen(error->message) < sizeof error->message);
}

static void assert_usable(void)
{
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, fill, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 3, world.stream);
}

TEST(test_this_thread)
{
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(fill(world.stream, NULL));
    kill_it(world.stream);
    assert_error(ph_graph_capture_end(graph, PH_OK), PH_ERROR_CAPTURE,
                 "was killed (901) by cuStreamSynchronize");
    assert_named("cuStreamSynchronize", 900);
    assert_non_null(strstr(ph_error_last()->message, "on this thread"));
    assert_non_null(strstr(ph_error_last()->message, "can capture again"));
    assert_int_equal(t_log_count("was killed by cuStreamSynchronize"), 1);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_CAPTURE, "was killed (901)");
    assert_usable();
}

TEST(test_another_thread)
{
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    kill_from_loader(world.stream);
    assert_error(ph_graph_capture_end(graph, PH_OK), PH_ERROR_CAPTURE, "on thread \"loader\"");
    assert_named("cuStreamSynchronize", 900);
    assert_usable();
}

/* The tests are linked statically and export nothing, as a user's program may. The first
 * function that is named is the one that made the call; no frame of the library's or of CUDA's
 * is in front of it. */
TEST(test_frames_of_a_static_program)
{
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    kill_it(world.stream);
    assert_error(ph_graph_capture_end(graph, PH_OK), PH_ERROR_CAPTURE,
                 "on this thread, from kill_it+0x");
    assert_non_null(strstr(ph_error_last()->message, " < test_frames_of_a_static_program+0x"));
    assert_int_equal(t_log_count("on this thread, from kill_it+0x"), 1);
    assert_usable();
}

/* Work that meets the dead capture keeps its own number, and names the culprit. */
TEST(test_work_on_the_dead)
{
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    kill_from_loader(world.stream);
    assert_error(fill(world.stream, NULL), PH_ERROR_CAPTURE, "killed by cuStreamSynchronize (900");
    assert_native(901);
    assert_string_equal(ph_error_last()->native_call, "cuLaunchKernel");
    assert_error(ph_memset(x, 1, N, world.stream), PH_ERROR_CAPTURE, "thread \"loader\"");
    assert_native(901);
    assert_int_equal(t_log_count("was killed by"), 0);
    assert_status(ph_graph_capture_end(graph, PH_OK), PH_ERROR_CAPTURE);
    assert_named("cuStreamSynchronize", 900); /* not the launch that met it */
    assert_int_equal(t_log_count("was killed by"), 1);
    assert_usable();
}

static void *fail_elsewhere(void *code)
{
    ph_ignore(ph_fail_cuda(*(const int *)code, "cudaMalloc"));
    *(int *)code = strstr(ph_error_last()->message, "killed by cuStreamSynchronize (900") != NULL;
    return NULL;
}

/* Whether the message of another thread's failure names the culprit. */
static bool names_elsewhere(int code)
{
    pthread_t thread;
    assert_true(ph__thread_start(&thread, "other", fail_elsewhere, &code));
    pthread_join(thread, NULL);
    return code;
}

/* What other code failed with keeps its number, and has the culprit behind it. */
TEST(test_other_codes_failure)
{
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_error(ph_fail_cuda(2, "cudaMalloc"), PH_ERROR_DEVICE_MEMORY, "cudaMalloc gave 2");
    assert_null(strstr(ph_error_last()->message, "killed"));
    kill_it(world.stream);
    assert_error(ph_fail_cuda(901, "cudaMemcpyAsync"), PH_ERROR_CAPTURE,
                 "cudaMemcpyAsync gave 901");
    assert_native(901);
    assert_string_equal(ph_error_last()->native_call, "cudaMemcpyAsync");
    assert_non_null(strstr(ph_error_last()->message,
                           "; the capture is dead (901), killed by cuStreamSynchronize (900"));
    assert_error(ph_fail_cuda(1, "cublasSgemm"), PH_ERROR_ARGUMENT,
                 "killed by cuStreamSynchronize (900");
    assert_true(names_elsewhere(901));
    assert_false(names_elsewhere(2)); /* its own affair */
    assert_status(ph_graph_capture_end(graph, PH_OK), PH_ERROR_CAPTURE);
    (void)ph_fail_cuda(901, "cudaMemcpyAsync");
    assert_null(strstr(ph_error_last()->message, "killed"));
    assert_usable();
}

/* A body that gives up on the dead capture keeps its own words; the log has the culprit. */
TEST(a_body_keeps_its_words_and_the_log_the_culprit)
{
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    kill_it(world.stream);
    assert_error(ph_graph_capture_end(graph, ph_fail(PH_ERROR_CALLER, "own words")),
                 PH_ERROR_CALLER, "own words");
    assert_int_equal(t_log_count("was killed by cuStreamSynchronize"), 1);
    assert_usable();
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    kill_it(world.stream);
    ph_graph_capture_abort(graph);
    assert_int_equal(t_log_count("was killed by cuStreamSynchronize"), 2);
    assert_usable();
}

/* A capture that is well has no culprit, though calls failed meanwhile, nor is an earlier
 * capture's a later one's. */
TEST(test_nobody_to_blame)
{
    ph_graph *other;
    ph_stream *stream;
    assert_ok(ph_graph_create(&other, NULL));
    assert_ok(ph_stream_create(&stream, world.device, NULL));
    ph_capture_options relaxed = {.mode = PH_CAPTURE_RELAXED};
    assert_ok(ph_graph_capture_begin(graph, world.stream, &relaxed));
    assert_ok(ph_graph_capture_begin(other, stream, &relaxed));
    assert_ok(fill(world.stream, NULL));
    kill_it(stream);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_int_equal(t_log_count("was killed by"), 0);
    assert_status(ph_graph_capture_end(other, PH_OK), PH_ERROR_CAPTURE);
    assert_named("cuStreamSynchronize", 900);
    assert_int_equal(t_log_count("was killed by"), 1);
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, fill, NULL));
    assert_int_equal(t_log_count("was killed by"), 1);
    ph_graph_destroy(other);
    ph_stream_destroy(stream);
}

/* ---- captures of other code ---- begun and ended straight at the driver */
static uint64_t begin_theirs(void)
{
    const ph_stream *s = world.stream;
    uint64_t id = 0;
    assert_int_equal(s->device->driver->capture_begin(s->handle, PH_CAPTURE_GLOBAL), 0);
    assert_int_equal(s->device->driver->capture_id(&id, s->handle), 0);
    assert_true(id != 0);
    return id;
}

static int end_theirs(void)
{
    const ph_stream *s = world.stream;
    ph__drv_graph *template = NULL;
    int result = s->device->driver->capture_end(&template, s->handle);
    if (template)
        s->device->driver->graph_destroy(template);
    return result;
}

TEST(a_watch_names_what_killed_a_capture_of_other_code)
{
    ph_culprit_watch *watch;
    char *text;
    assert_ok(ph_culprit_watch_begin(&watch, world.device, begin_theirs()));
    kill_from_loader(world.stream);
    assert_int_equal(end_theirs(), 901);
    assert_ok(ph_culprit_watch_end(&text, watch));
    assert_non_null(text);
    assert_non_null(strstr(text, "cuStreamSynchronize (900"));
    assert_non_null(strstr(text, "thread \"loader\""));
    assert_non_null(strstr(text, "kill_it+0x"));
    ph_string_free(text);
    assert_usable();
}

TEST(a_watch_of_a_capture_that_is_well_names_nothing)
{
    ph_culprit_watch *watch;
    char *text = (char *)&watch;
    assert_ok(ph_culprit_watch_begin(&watch, world.device, begin_theirs()));
    assert_int_equal(end_theirs(), 0);
    assert_ok(ph_culprit_watch_end(&text, watch));
    assert_null(text);
    assert_ok(ph_culprit_watch_begin(&watch, world.device, 1));
    assert_ok(ph_culprit_watch_end(NULL, watch));
}

TEST(misuse_of_a_watch_is_refused)
{
    ph_culprit_watch *watch = (ph_culprit_watch *)(void *)&world;
    char *text = (char *)&world;
    assert_error(ph_culprit_watch_begin(NULL, world.device, 1), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_culprit_watch_begin(&watch, NULL, 1), PH_ERROR_ARGUMENT, "device");
    assert_null(watch);
    assert_error(ph_culprit_watch_begin(&watch, world.device, 0), PH_ERROR_ARGUMENT,
                 "capture_id is 0");
    assert_error(ph_culprit_watch_end(&text, NULL), PH_ERROR_ARGUMENT, "watch");
    assert_null(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_this_thread),
        IN_WORLD(test_another_thread),
        IN_WORLD(test_frames_of_a_static_program),
        IN_WORLD(test_work_on_the_dead),
        IN_WORLD(test_other_codes_failure),
        IN_WORLD(a_body_keeps_its_words_and_the_log_the_culprit),
        IN_WORLD(test_nobody_to_blame),
        IN_WORLD(a_watch_names_what_killed_a_capture_of_other_code),
        IN_WORLD(a_watch_of_a_capture_that_is_well_names_nothing),
        IN_WORLD(misuse_of_a_watch_is_refused),
    };
    return cmocka_run_group_tests_name("graph.culprit", tests, NULL, NULL);
}
