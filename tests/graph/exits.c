/* SPDX-License-Identifier: MIT */
/* tests/graph/exits.c: a program that exits inside a capture, as error macros of other code do:
 * the call that had killed the capture is said, once. The program runs itself for that. */
#include "support/support.h"

#include "device/handles/device.h"
#include "support/command.h"
#include "support/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char said[] =
    "is open as the program exits, and was killed by cuStreamSynchronize (900";

/* ---- the program that exits ---- */
static const char *how;

static void to_output(ph_log_level level, const char *message, void *user)
{
    (void)level;
    printf("%s: %s\n", (const char *)user, message);
}

static void exit_in_child(void)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        exit(0);
    if (waitpid(child, &status, 0) != child || status != 0)
        exit(9);
}

static ph_status body(ph_stream *stream, void *user)
{
    (void)user;
    if (strcmp(how, "alive") != 0)
        (void)stream->device->driver->stream_synchronize(stream->handle);
    if (strcmp(how, "ended") == 0)
        return PH_OK;
    if (strcmp(how, "forked") == 0)
        exit_in_child();
    exit(3);
}

static int run_and_exit(void)
{
    static char name[] = "callback";
    ph_device *device;
    ph_stream *stream;
    ph_graph *graph;
    if (strcmp(how, "callback") == 0)
        ph_log_set(to_output, name);
    if (ph_device_open(&device, t_device_name(), NULL) != PH_OK ||
        ph_stream_create(&stream, device, NULL) != PH_OK || ph_graph_create(&graph, NULL) != PH_OK)
        return 8;
    ph_ignore(ph_graph_capture(graph, stream, NULL, body, NULL));
    ph_graph_destroy(graph);
    ph_stream_destroy(stream);
    ph_device_release(device);
    return 4;
}

/* ---- the tests ---- */
static size_t count(const char *text, const char *part)
{
    size_t found = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        found++;
    return found;
}

static t_result run(const char *which)
{
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    return t_run(&(t_command){.argv = {self, which}});
}

static void check(const char *which, int status, size_t in_out, size_t in_err)
{
    t_result result = run(which);
    if (result.status != status || count(result.out, said) != in_out ||
        count(result.err, said) != in_err)
        fail_msg("%s: status %d, output: %s, errors: %s", which, result.status, result.out,
                 result.err);
    t_result_free(&result);
}

TEST(test_the_culprit_is_said_once)
{
    check("dead", 3, 0, 1);
}

TEST(test_the_callback_is_told)
{
    check("callback", 3, 1, 0);
}

TEST(test_a_capture_that_is_well_has_none)
{
    check("alive", 3, 0, 0);
}

/* Its end has said it. */
TEST(test_nothing_after_the_end)
{
    check("ended", 4, 0, 0);
}

TEST(test_a_child_of_fork_is_silent)
{
    check("forked", 3, 0, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_culprit_is_said_once),
        cmocka_unit_test(test_the_callback_is_told),
        cmocka_unit_test(test_a_capture_that_is_well_has_none),
        cmocka_unit_test(test_nothing_after_the_end),
        cmocka_unit_test(test_a_child_of_fork_is_silent),
    };
    if (argc > 1) {
        how = argv[1];
        return run_and_exit();
    }
    /* a program that exits there leaves its objects */
    if (setenv("FAKE_CUDA_LENIENT", "1", 1) != 0)
        return 1;
    return cmocka_run_group_tests_name("graph.exits", tests, NULL, NULL);
}
