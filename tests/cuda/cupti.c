/* SPDX-License-Identifier: MIT */
/* tests/cuda/cupti.c: with PH_CULPRIT=cupti NVIDIA's CUPTI tells which call of other code killed
 * a capture, as on drivers that have no log callback. */
#include "base/sync.h"
#include "program.h"
#include "support/fixture.h"
#include <phonograph/cuda.h>
#include <stdlib.h>

static t_world world;
static ph_graph *graph;
static int32_t *x;

enum {
    N = 64
};

WORLD(world, .graphs = {&graph}, .arrays = {{&x, N}}, .log = true);

/* As other code does: past the library, straight at the driver. */
static void *wait_for_stream(void *stream)
{
    assert_int_equal(ph__cu.StreamSynchronize(stream), PH__R_CAPTURE_UNSUPPORTED);
    return NULL;
}

static struct CUstream_st *raw(void)
{
    struct CUstream_st *stream;
    assert_ok(ph_stream_cuda(&stream, world.stream));
    return stream;
}

static void assert_named(const char *call, const char *thread)
{
    char killed[96];
    (void)snprintf(killed, sizeof killed, "was killed (901) by %s", call);
    assert_error(ph_graph_capture_end(graph, PH_OK), PH_ERROR_CAPTURE, killed);
    assert_native(PH__R_CAPTURE_UNSUPPORTED);
    assert_string_equal(ph_error_last()->native_call, call);
    assert_non_null(strstr(ph_error_last()->message, thread));
}

static ph_status fill(ph_stream *stream, void *user)
{
    (void)user;
    return t_fill(&world, stream, x, N, 3);
}

static void assert_usable(void)
{
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, fill, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 3, world.stream);
}

TEST(a_killing_call_on_this_thread_is_named)
{
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(fill(world.stream, NULL));
    wait_for_stream(raw());
    assert_named("cuStreamSynchronize", "on this thread");
    assert_usable();
}

/* A function whose exported name has a version. */
TEST(a_versioned_call)
{
    ph__cu_pointer address;
    ph__cu_context context = primary(0);
    cu(CtxPushCurrent(context));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_int_equal(ph__cu.MemAlloc(&address, 256), PH__R_CAPTURE_UNSUPPORTED);
    assert_named("cuMemAlloc", "on this thread");
    pop(context);
    cu(DevicePrimaryCtxRelease(0));
    assert_usable();
}

TEST(a_killing_call_on_another_thread_is_named_with_it)
{
    pthread_t thread;
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_true(ph__thread_start(&thread, "loader", wait_for_stream, raw()));
    pthread_join(thread, NULL);
    assert_named("cuStreamSynchronize", "on thread \"loader\"");
    assert_usable();
}

/* The library looks for CUPTI when the first capture begins, and says once what came of it. */
typedef enum outcome {
    FOUND,
    MISSING,
    REFUSED
} outcome;

static outcome look_for_it(void)
{
    open_world(NULL);
    assert_ok(ph_graph_capture(graph, world.stream, NULL, fill, NULL));
    outcome found = t_log_count("PH_CULPRIT") > 0 ? REFUSED : FOUND;
    if (t_log_count("PH_CULPRIT=cupti: libcupti.so, a part of the CUDA toolkit, cannot be loaded") >
        0)
        found = MISSING;
    t_log_stop();
    ph_graph_destroy(graph);
    ph_free(x, world.stream);
    t_close(&world);
    return found;
}

int main(void)
{
    const char *wish = getenv("PH_CULPRIT");
    if (!wish || strcmp(wish, "cupti") != 0) {
        print_error("PH_CULPRIT must be \"cupti\"\n");
        return 1;
    }
    outcome found = look_for_it();
    if (found == MISSING) {
        print_message("skipped: libcupti.so, a part of the CUDA toolkit, is not found here\n");
        return 77;
    }
    if (found == REFUSED) {
        print_error("libcupti.so is here, but CUPTI is not used: run it alone, and look at the "
                    "library's log\n");
        return 1;
    }
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_killing_call_on_this_thread_is_named),
        IN_WORLD(a_versioned_call),
        IN_WORLD(a_killing_call_on_another_thread_is_named_with_it),
    };
    return cmocka_run_group_tests_name("cuda.cupti", tests, NULL, NULL);
}
