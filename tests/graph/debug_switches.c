/* SPDX-License-Identifier: MIT */
/* tests/graph/debug_switches.c: PH_DEBUG and PH_DEBUG_RECORD: programs that were not changed, each
 * in a process of its own, with the switches in its environment. */
#include "support/command.h"
#include "support/support.h"
#include "support/test.h"
#include <phonograph/cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    N = 64
};

/* ---- the programs ---- what they see is their output. */
static t_world world;
static ph_graph *graph;
static int32_t *x;

static ph_status add_in_scope(ph_stream *stream, void *leave_open)
{
    PH_TRY(ph_annotation_push(stream, "outer", NULL));
    PH_TRY(t_add(&world, stream, x, x, N, 1));
    return leave_open ? PH_OK : ph_annotation_pop(stream);
}

static const char *word(ph_status status)
{
    return status == PH_OK ? "OK" : ph_status_name(status);
}

static void print_nodes(void)
{
    const ph_record *record;
    const ph_annotation_pair *pairs;
    size_t marked = 0, count;
    assert_ok(ph_graph_record(&record, graph));
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        assert_ok(ph_record_annotation(&pairs, &count, record, i));
        marked += count > 0;
    }
    printf("nodes %zu, marked %zu\n", ph_record_node_count(record), marked);
}

static int capture_and_free(const ph_capture_options *options, void *leave_open)
{
    t_open(&world, NULL);
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(t_fill(&world, world.stream, x, N, 0));
    assert_ok(ph_graph_create(&graph, NULL));
    ph_status status = ph_graph_capture(graph, world.stream, options, add_in_scope, leave_open);
    printf("capture %s\n", word(status));
    if (status == PH_OK) {
        print_nodes();
        ph_log_write(PH_LOG_INFO, "a line of information");
        ph_log_write(PH_LOG_WARNING, "a line that warns");
        ph_free(x, world.stream);
        printf("replay %s\n", word(ph_graph_replay(graph, world.stream)));
    } else {
        ph_free(x, world.stream);
    }
    ph_annotation_unwind(0);
    ph_graph_destroy(graph);
    t_close(&world);
    return 0;
}

static int run_program(const char *which)
{
    const ph_capture_options compared = {.compared = true};
    if (strcmp(which, "plain") == 0)
        return capture_and_free(NULL, NULL);
    if (strcmp(which, "compared") == 0)
        return capture_and_free(&compared, NULL);
    if (strcmp(which, "leaves a scope open") == 0)
        return capture_and_free(NULL, &world);
    ph_device *device;
    ph_status status = ph_device_open(&device, t_device_name(), NULL);
    printf("open %s: %s\n", word(status), ph_error_last()->message);
    ph_device_release(device);
    return 0;
}

/* ---- the tests ---- */
static void expect(const char *debug, const char *which, const char *out, const char *err)
{
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    assert_int_equal(debug ? setenv("PH_DEBUG", debug, 1) : unsetenv("PH_DEBUG"), 0);
    t_result result = t_run(&(t_command){.argv = {self, which}});
    if (result.status != 0 || strcmp(result.out, out) != 0 ||
        (err ? strstr(result.err, err) == NULL : result.err[0] != '\0'))
        fail_msg("PH_DEBUG=%s %s: status %d, output: %s, errors: %s", debug ? debug : "(none)",
                 which, result.status, result.out, result.err);
    t_result_free(&result);
}

TEST(test_without_switches_nothing_is_added)
{
    static const char plain[] = "capture OK\nnodes 1, marked 0\nreplay OK\n";
    expect(NULL, "plain", plain, "warning: a line that warns\n");
    expect("", "plain", plain, "a line that warns");
    expect(" , ", "plain", plain, "a line that warns");
}

TEST(test_liveness_finds_what_was_freed)
{
    expect("liveness,log=off", "plain",
           "capture OK\nnodes 1, marked 0\nreplay PH_ERROR_STALE_INPUT\n", NULL);
}

TEST(test_annotations_and_breadcrumbs_mark_nodes)
{
    expect("annotations,log=off", "plain", "capture OK\nnodes 1, marked 1\nreplay OK\n", NULL);
    expect("breadcrumbs,log=off", "plain", "capture OK\nnodes 4, marked 3\nreplay OK\n", NULL);
    expect("breadcrumbs,log=off", "compared", "capture OK\nnodes 1, marked 1\nreplay OK\n", NULL);
}

TEST(test_strict_fails_what_was_a_warning)
{
    expect("log=off", "leaves a scope open", "capture OK\nnodes 1, marked 0\nreplay OK\n", NULL);
    expect("strict,log=off", "leaves a scope open", "capture PH_ERROR_STATE\n", NULL);
}

TEST(test_the_log_has_levels)
{
    static const char plain[] = "capture OK\nnodes 1, marked 0\nreplay OK\n";
    expect("log=info", "plain", plain, "phonograph: info: a line of information\n");
    expect("log=warning", "plain", plain, "phonograph: warning: a line that warns\n");
    expect("log=off", "plain", plain, NULL);
}

/* Not silence: the first call says the word. */
TEST(test_a_word_that_is_none_is_an_error)
{
    static const char *const wrong[][2] = {{"livenes", "livenes"},
                                           {"strict,on", "on"},
                                           {"log=loud", "log=loud"},
                                           {"log=", "log="},
                                           {"strict;liveness", "strict;liveness"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char out[400];
        (void)snprintf(out, sizeof out,
                       "open PH_ERROR_ARGUMENT: ph_device_open: the environment's PH_DEBUG has the "
                       "word \"%s\"; words are liveness, annotations, breadcrumbs, strict, "
                       "log=off, log=warning and log=info, with commas between them\n",
                       wrong[i][1]);
        expect(wrong[i][0], "open", out, NULL);
    }
}

TEST(test_each_capture_leaves_its_record)
{
    size_t size;
    t_folder_create();
    assert_int_equal(setenv("PH_DEBUG_RECORD", t_path(""), 1), 0);
    expect("log=off", "plain", "capture OK\nnodes 1, marked 0\nreplay OK\n", NULL);
    assert_int_equal(t_count_files(), 1);
    expect("log=off", "plain", "capture OK\nnodes 1, marked 0\nreplay OK\n", NULL);
    assert_int_equal(t_count_files(), 2);
    t_write(t_path("file"), "", 0);
    assert_int_equal(setenv("PH_DEBUG_RECORD", t_path("file"), 1), 0);
    expect(NULL, "plain", "capture OK\nnodes 1, marked 0\nreplay OK\n", "PH_DEBUG_RECORD: ");
    free(t_read_file(t_path("file"), &size));
    assert_int_equal(size, 0);
    assert_int_equal(unsetenv("PH_DEBUG_RECORD"), 0);
    t_folder_remove();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_switches_nothing_is_added),
        cmocka_unit_test(test_liveness_finds_what_was_freed),
        cmocka_unit_test(test_annotations_and_breadcrumbs_mark_nodes),
        cmocka_unit_test(test_strict_fails_what_was_a_warning),
        cmocka_unit_test(test_the_log_has_levels),
        cmocka_unit_test(test_a_word_that_is_none_is_an_error),
        cmocka_unit_test(test_each_capture_leaves_its_record),
    };
    if (argc > 1)
        return run_program(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
