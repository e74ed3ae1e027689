/* SPDX-License-Identifier: MIT */
/* tests/graph/pageable.c: pageable host memory in copies that other code submits to a capture,
 * and captures that are strict about what their end would only warn of. */
#include "support/fixture.h"

#include "device/handles/device.h"
#include <phonograph/cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 256,
    BYTES = N * sizeof(int32_t)
};
static t_world world;
static ph_graph *graph;
static int32_t *x;
static int32_t pageable[N];
static const ph_capture_options strict = {.strict = true};

WORLD(world, .graphs = {&graph}, .arrays = {{&x, N, T_INTS, 1}}, .log = true);

/* As code that does not know this library. */
static ph_status copy_straight(ph_stream *stream, void *dst, const void *src)
{
    const ph__drv_memcpy copy = {dst, src, BYTES};
    return ph_fail_cuda(world.device->driver->copy(stream->handle, &copy, NULL), "cuMemcpyAsync");
}

static ph_status read_pageable(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_add(&world, stream, x, x, N, 1));
    return copy_straight(stream, x, pageable);
}

static ph_status write_pageable(ph_stream *stream, void *user)
{
    (void)user;
    return copy_straight(stream, pageable, x);
}

static void check_told(const char *what)
{
    char address[32];
    (void)snprintf(address, sizeof address, "%p", (void *)pageable);
    assert_int_equal(t_log_count(what), 1);
    assert_int_equal(t_log_count(address), 1);
    /* the mapping: of the program's own file */
    assert_int_equal(t_log_count("/graph/pageable"), 1);
    assert_int_equal(t_log_count("ph_capture_options.strict"), 1);
}

TEST(test_source_is_told)
{
    assert_ok(ph_graph_capture(graph, world.stream, NULL, read_pageable, NULL));
    check_told("ph_graph_capture: node 1 (memcpy of 1024 bytes) reads pageable host memory at ");
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
}

TEST(test_target_is_told)
{
    assert_ok(ph_graph_capture(graph, world.stream, NULL, write_pageable, NULL));
    check_told("ph_graph_capture: node 0 (memcpy of 1024 bytes) writes pageable host memory at ");
}

static ph_status fill_pageable(ph_stream *stream, void *user)
{
    const ph__drv_memset fill = {pageable, 0, 4, N};
    (void)user;
    return ph_fail_cuda(world.device->driver->fill(stream->handle, &fill), "cuMemsetD32Async");
}

/* Captured with any address; where the device cannot write there, the replay is its end. */
TEST(test_fill_is_told)
{
    assert_ok(ph_graph_capture(graph, world.stream, NULL, fill_pageable, NULL));
    check_told("ph_graph_capture: node 0 (memset of 1024 bytes) writes pageable host memory at ");
}

static ph_status read_in_scope(ph_stream *stream, void *user)
{
    PH_TRY(ph_annotation_push(stream, "loader", NULL));
    ph_status status = read_pageable(stream, user);
    PH_TRY(ph_annotation_pop(stream));
    return status;
}

TEST(test_scope_is_named)
{
    const ph_capture_options annotated = {.enable_annotations = true};
    assert_ok(ph_graph_capture(graph, world.stream, &annotated, read_in_scope, NULL));
    check_told("node 1 (memcpy of 1024 bytes, scope \"loader\") reads pageable host memory at ");
}

static ph_status replay_inside(ph_stream *stream, void *user)
{
    PH_TRY(t_add(&world, stream, x, x, N, 1));
    return ph_graph_replay(user, stream);
}

TEST(test_nested_graph)
{
    ph_graph *inner;
    assert_ok(ph_graph_create(&inner, NULL));
    assert_ok(ph_graph_capture(inner, world.stream, NULL, read_pageable, NULL));
    t_log_start();
    assert_ok(ph_graph_capture(graph, world.stream, NULL, replay_inside, inner));
    check_told(
        "node 1 of the graph in node 1 (memcpy of 1024 bytes) reads pageable host memory at ");
    ph_graph_destroy(inner);
}

static ph_status read_often(ph_stream *stream, void *user)
{
    for (int i = 0; i < *(int *)user; i++)
        PH_TRY(copy_straight(stream, x, pageable));
    return PH_OK;
}

TEST(test_many_are_counted)
{
    int times = 30;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, read_often, &times));
    assert_int_equal(t_log_count("reads pageable host memory"), 8);
    assert_int_equal(
        t_log_count("22 more copies and fills of the graph are of pageable host memory"), 1);
}

TEST(test_strict_fails)
{
    assert_error(
        ph_graph_capture(graph, world.stream, &strict, read_pageable, NULL), PH_ERROR_UNPINNED,
        "the capture is strict, and node 1 (memcpy of 1024 bytes) reads pageable host memory at ");
    assert_native(900);
    assert_non_null(strstr(ph_error_last()->message, "/graph/pageable"));
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_FAILED);
    assert_int_equal(t_log_count(""), 0);
    assert_ok(ph_graph_reset(graph));
    /* not kept from before */
    assert_ok(ph_graph_capture(graph, world.stream, NULL, read_pageable, NULL));
    assert_int_equal(t_log_count("reads pageable host memory"), 1);
}

static ph_status nothing(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    return PH_OK;
}

static ph_status leave_scope_open(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_annotation_push(stream, "left", NULL));
    return t_add(&world, stream, x, x, N, 1);
}

TEST(test_strict_about_the_rest)
{
    size_t depth = ph_annotation_depth();
    assert_error(ph_graph_capture(graph, world.stream, &strict, nothing, NULL), PH_ERROR_STATE,
                 "the capture is strict, and the graph is empty");
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STATE,
                 "wrong stream or device? call ph_graph_reset, then capture again");
    assert_ok(ph_graph_reset(graph));
    assert_error(
        ph_graph_capture(graph, world.stream, &strict, leave_scope_open, NULL), PH_ERROR_STATE,
        "the capture is strict, and the function left 1 scope open (\"left\"); ph_annotation_pop");
    ph_annotation_unwind(depth);
    assert_int_equal(t_log_count(""), 0);
    assert_false(ph_stream_is_capturing(world.stream));
}

/* Memory that captures may copy: the library's, in use or freed in the body, and what only a
 * pool's own functions know. */
static ph_status own_segment(void **out, size_t bytes, ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    *out = aligned_alloc(512, bytes);
    return *out ? PH_OK : ph_fail(PH_ERROR_HOST_MEMORY, "no memory");
}

static void give_segment(void *pointer, size_t bytes, void *user)
{
    (void)bytes;
    (void)user;
    free(pointer);
}

static ph_status copy_what_is_legal(ph_stream *stream, void *user)
{
    int32_t *scratch, *pinned;
    PH_TRY(PH_NEW(&scratch, N, stream));
    PH_TRY(copy_straight(stream, scratch, x));
    PH_TRY(copy_straight(stream, x, scratch));
    ph_free(scratch, stream);
    PH_TRY(ph_malloc_pinned(&pinned, N, sizeof *pinned, stream));
    PH_TRY(copy_straight(stream, pinned, x));
    ph_free_pinned(pinned, stream);
    return user ? copy_straight(stream, x, user) : PH_OK;
}

TEST(test_legal_copies_pass)
{
    int32_t *pinned;
    assert_ok(ph_malloc_pinned(&pinned, N, sizeof *pinned, world.stream));
    assert_ok(ph_graph_capture(graph, world.stream, &strict, copy_what_is_legal, pinned));
    assert_int_equal(t_log_count(""), 0);
    ph_free_pinned(pinned, world.stream);
}

TEST(test_segments_of_a_pools_own)
{
    ph_pool *pool;
    const ph_pool_options options = {.alloc = own_segment, .free = give_segment};
    t_host_only("a GPU cannot use memory of malloc");
    assert_ok(ph_pool_create(&pool, world.device, &options));
    const ph_capture_options with = {.strict = true, .pool = pool};
    assert_ok(ph_graph_capture(graph, world.stream, &with, copy_what_is_legal, NULL));
    assert_int_equal(t_log_count(""), 0);
    assert_ok(ph_graph_reset(graph));
    ph_pool_release(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_source_is_told),    IN_WORLD(test_target_is_told),
        IN_WORLD(test_scope_is_named),    IN_WORLD(test_fill_is_told),
        IN_WORLD(test_nested_graph),      IN_WORLD(test_many_are_counted),
        IN_WORLD(test_strict_fails),      IN_WORLD(test_strict_about_the_rest),
        IN_WORLD(test_legal_copies_pass), IN_WORLD(test_segments_of_a_pools_own),
    };
    return cmocka_run_group_tests_name("graph.pageable", tests, NULL, NULL);
}
