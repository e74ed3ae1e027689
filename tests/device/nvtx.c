/* SPDX-License-Identifier: MIT */
/* tests/device/nvtx.c: what a tool hears that listens to NVTX ranges. */
#include "support/fixture.h"

#include "base/alloc.h"
#include "fake/nvtx_tool.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    N = 16
};
static t_world world;
static int32_t *x;
static nvtx_tool_heard_fn *heard;
static nvtx_tool_forget_fn *forget;

static const t_fixture fixture = {.world = &world, .arrays = {{&x, N}}};

FIXTURE(open_world)
{
    void *library = dlopen(PH_TEST_NVTX_TOOL, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *functions[] = {dlsym(library, "nvtx_tool_heard"), dlsym(library, "nvtx_tool_forget")};
    memcpy(&heard, &functions[0], sizeof heard);
    memcpy(&forget, &functions[1], sizeof forget);
    assert_true(heard && forget);
    t_fixture_open(&fixture);
    return 0;
}

FIXTURE(close_world)
{
    t_fixture_close(&fixture);
    return 0;
}

static ph_status body(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_annotation_push(stream, "layer", NULL));
    PH_TRY(t_fill(&world, stream, x, N, 1));
    return ph_annotation_pop(stream);
}

TEST(test_ranges_of_replays)
{
    ph_graph *first, *second;
    char want[128];
    unsigned long long id;
    assert_ok(ph_graph_create(&first, NULL));
    assert_ok(ph_graph_create(&second, NULL));
    assert_ok(ph_graph_capture(first, world.stream, NULL, body, NULL));
    assert_ok(ph_graph_capture(second, world.stream, NULL, body, NULL));
    forget();
    assert_ok(ph_graph_replay(first, world.stream));
    assert_int_equal(sscanf(heard(), "+graph %llu-", &id), 1);
    assert_ok(ph_graph_replay(second, world.stream));
    assert_ok(ph_graph_replay(first, world.stream));
    (void)snprintf(want, sizeof want, "+graph %llu-+graph %llu-+graph %llu-", id, id + 1, id);
    assert_string_equal(heard(), want);
    assert_ok(ph_stream_synchronize(world.stream));
    ph_graph_destroy(first);
    ph_graph_destroy(second);
}

TEST(test_ranges_of_scopes)
{
    const ph_annotation_pair pair = {.key = "k", .type = PH_ANNOTATION_INTEGER};
    const ph_annotation_options options = {.pairs = &pair, .count = 1};
    forget();
    assert_ok(ph_annotation_push(world.stream, "outer", NULL));
    assert_ok(body(world.stream, NULL));
    assert_ok(ph_annotation_pop(world.stream));
    assert_ok(ph_annotation_push(world.stream, NULL, &options)); /* without a name */
    assert_ok(ph_annotation_push(world.stream, "deep", NULL));
    ph_annotation_unwind(0);
    assert_string_equal(heard(), "+outer+layer--+k=0+deep--");
    assert_ok(ph_stream_synchronize(world.stream));
}

/* A scope without a name is called by its own pairs, and not by the name of the scope around it. */
TEST(test_ranges_of_nameless_scopes)
{
    const ph_annotation_pair pairs[] = {
        {.key = "layer", .type = PH_ANNOTATION_INTEGER, .integer = 3},
        {.key = "part", .text = "head"},
        {.key = "rate", .type = PH_ANNOTATION_REAL, .real = 0.5},
        {.key = "last", .type = PH_ANNOTATION_BOOL, .boolean = true}};
    const ph_annotation_pair named = {.key = "name", .text = "by a pair"};
    char want[64];
    uint32_t lane;
    forget();
    assert_ok(ph_annotation_push(world.stream, "outer", NULL));
    assert_ok(ph_annotation_push(world.stream, NULL,
                                 &(ph_annotation_options){.pairs = pairs, .count = 4}));
    ph_annotation_scope *mark = ph_annotation_current();
    assert_ok(ph_annotation_pop(world.stream));
    assert_string_equal(heard(), "+outer+layer=3 part=head rate=0.5 last=true-");
    forget();
    assert_ok(ph_annotation_push(world.stream, NULL,
                                 &(ph_annotation_options){.pairs = &named, .count = 1}));
    assert_ok(ph_annotation_push(world.stream, "outer",
                                 &(ph_annotation_options){.pairs = pairs, .count = 1}));
    ph_annotation_unwind(1);
    assert_string_equal(heard(), "+by a pair+outer--");
    assert_ok(ph_stream_lane(&lane, world.stream));
    (void)snprintf(want, sizeof want, "+stream=%u-", (unsigned)lane);
    forget();
    assert_ok(ph_annotation_push(world.stream, NULL, &(ph_annotation_options){.lane = true}));
    assert_ok(ph_annotation_pop(world.stream));
    assert_string_equal(heard(), want);
    /* What is taken along has the names of all scopes that were open; where nothing is, and
     * nothing added, there is no range to end. */
    forget();
    assert_ok(ph_annotation_resume(world.stream, mark, NULL, 0));
    assert_ok(ph_annotation_resume(world.stream, NULL, &pairs[0], 1));
    assert_ok(ph_annotation_resume(world.stream, NULL, NULL, 0));
    ph_annotation_unwind(0);
    assert_string_equal(heard(), "+outer+layer=3---");
    ph_annotation_release(mark);
}

/* Without host memory for the words the range is there all the same. */
TEST(test_ranges_without_host_memory)
{
    const ph_annotation_pair pair = {.key = "k", .type = PH_ANNOTATION_INTEGER};
    size_t lost = 0, told = 0;
    for (int64_t n = 0; n < 8 && !told; n++) {
        forget();
        ph__alloc_fail_after(n);
        ph_status status = ph_annotation_push(world.stream, NULL,
                                              &(ph_annotation_options){.pairs = &pair, .count = 1});
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status != PH_OK) {
            assert_string_equal(heard(), "");
            continue;
        }
        assert_ok(ph_annotation_pop(world.stream));
        lost += strcmp(heard(), "+(no memory for the name)-") == 0;
        told += strcmp(heard(), "+k=0-") == 0;
        assert_int_equal(lost + told > 0, 1);
    }
    assert_true(lost > 0);
    assert_int_equal(told, 1);
}

/* A replay into a capture launches nothing, so that no range is told of it. */
static ph_status replays(ph_stream *stream, void *user)
{
    return ph_graph_replay(user, stream);
}

TEST(test_no_range_of_a_nested_graph)
{
    ph_graph *inner, *outer;
    assert_ok(ph_graph_create(&inner, NULL));
    assert_ok(ph_graph_create(&outer, NULL));
    assert_ok(ph_graph_capture(inner, world.stream, NULL, body, NULL));
    forget();
    assert_ok(ph_graph_capture(outer, world.stream, NULL, replays, inner));
    assert_string_equal(heard(), "");
    ph_graph_destroy(inner);
    ph_graph_destroy(outer);
}

/* In a process of its own, as the tool is looked for once. */
TEST(test_a_tool_that_cannot_be_loaded)
{
    pid_t child = fork();
    if (child == 0) {
        assert_int_equal(setenv("PH_TEST_NVTX_MISSING", "1", 1), 0);
        (void)execl("/proc/self/exe", "nvtx", (char *)NULL);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

TEST(test_without_a_tool)
{
    ph_graph *graph;
    t_world alone;
    t_log_start();
    t_open(&alone, NULL);
    assert_int_equal(t_log_count("cannot be loaded, and gets no ranges"), 1);
    t_log_stop();
    world = alone;
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    ph_graph_destroy(graph);
    ph_free(x, world.stream);
    t_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges_of_replays),
        cmocka_unit_test(test_ranges_of_scopes),
        cmocka_unit_test(test_ranges_of_nameless_scopes),
        cmocka_unit_test(test_ranges_without_host_memory),
        cmocka_unit_test(test_no_range_of_a_nested_graph),
        cmocka_unit_test(test_a_tool_that_cannot_be_loaded),
    };
    const struct CMUnitTest alone[] = {cmocka_unit_test(test_without_a_tool)};
    bool missing = getenv("PH_TEST_NVTX_MISSING") != NULL;
    if (setenv("NVTX_INJECTION64_PATH", missing ? "/nowhere/libtool.so" : PH_TEST_NVTX_TOOL, 1) !=
        0)
        return 1;
    return missing ? cmocka_run_group_tests(alone, NULL, NULL)
                   : cmocka_run_group_tests(tests, open_world, close_world);
}
