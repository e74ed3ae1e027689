/* SPDX-License-Identifier: MIT */
/* tests/threads/executables_memory.c: what other threads allocate while an executable is made is
 * not counted as its memory. */
#include "support/support.h"
#include "support/test.h"
#include <pthread.h>
#include <stdatomic.h>

enum {
    EXECUTABLES = 300,
    BLOCK = 64 << 20
};

static t_world w;
static atomic_bool stopping;

static ph_status body(ph_stream *stream, void *user)
{
    return ph_memset(user, 1, 64, stream);
}

/* Segments come and go. */
static void *allocate(void *user)
{
    ph_stream *stream = user;
    while (!atomic_load(&stopping)) {
        void *block;
        assert_ok(ph_malloc(&block, 1, BLOCK, stream));
        ph_free(block, stream);
        assert_ok(ph_memory_trim(w.device));
    }
    return NULL;
}

TEST(memory_of_other_threads_is_no_executables)
{
    pthread_t thread;
    ph_stream *side;
    char *place;
    size_t most = 0;
    t_open(&w, NULL);
    assert_ok(ph_stream_create(&side, w.device, NULL));
    assert_ok(ph_malloc(&place, 1, 64, w.stream));
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, &(ph_graph_options){.keep_graph = true}));
    assert_ok(ph_graph_capture(graph, w.stream, NULL, body, place));
    assert_int_equal(pthread_create(&thread, NULL, allocate, side), 0);
    for (int i = 0; i < EXECUTABLES; i++) {
        ph_graph_memory memory;
        assert_ok(ph_graph_instantiate(graph));
        assert_ok(ph_graph_get_memory(&memory, graph));
        most = memory.executable > most ? memory.executable : most;
    }
    atomic_store(&stopping, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(most < BLOCK / 2);
    ph_graph_destroy(graph);
    ph_free(place, w.stream);
    ph_stream_destroy(side);
    t_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_other_threads_is_no_executables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
