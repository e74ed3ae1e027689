/* SPDX-License-Identifier: MIT */
/* tests/graph/kernels.c: kernels that their user lets go of while they are being captured. */
#include "base/sync.h"
#include "support/support.h"
#include "support/test.h"
#include <phonograph/graph.h>
#include <phonograph/inspect/record.h>
#include <string.h>

static ph_kernel *create_put(ph_device *device)
{
    ph_kernel *kernel;
    assert_ok(ph_kernel_create(&kernel, device, &t_kernel_sources[T_KERNEL_PUT]));
    return kernel;
}

TEST(released_in_the_capture)
{
    t_world world;
    ph_graph *graph;
    const ph_record *record;
    ph_node_info node;
    ph_word word;
    int32_t *y;
    t_open(&world, NULL);
    assert_ok(PH_NEW(&y, 1, world.stream));
    struct t_put args = {y, 5};
    assert_ok(ph_graph_create(&graph, NULL));
    for (int round = 0; round < 2; round++) {
        ph_kernel *kernel = create_put(world.device);
        assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
        assert_ok(ph_launch(world.stream, kernel, NULL, &args, sizeof args));
        assert_ok(ph_launch(world.stream, kernel, NULL, &args, sizeof args));
        ph_kernel_release(kernel);
        if (round == 0) { /* an aborted capture lets go of it, too */
            ph_graph_capture_abort(graph);
            continue;
        }
        assert_ok(ph_graph_capture_end(graph, PH_OK));
    }
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_record_node(&node, record, 0));
    assert_string_equal(node.name, "put");
    assert_int_equal(node.word_count, 2);
    assert_ok(ph_record_word(&word, record, 0, 0));
    assert_int_equal(word.kind, PH_WORD_PROVED);
    args.value = 9;
    assert_ok(ph_graph_node_set_launch(graph, 1, NULL, &args, sizeof args));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, 1, 9, world.stream);
    ph_graph_destroy(graph);
    ph_free(y, world.stream);
    t_close(&world);
}

typedef struct handover {
    _Atomic(ph_kernel *) kernel;
    atomic_bool over;
} handover;

static void *release_all(void *user)
{
    handover *h = user;
    while (!atomic_load(&h->over))
        ph_kernel_release(atomic_exchange(&h->kernel, NULL));
    ph_kernel_release(atomic_exchange(&h->kernel, NULL));
    return NULL;
}

TEST(released_by_another_thread)
{
    t_world world;
    ph_graph *graph;
    handover h = {.kernel = NULL};
    pthread_t thread;
    int32_t *y;
    int rounds = t_nightly() ? 50000 : 3000;
    t_open(&world, NULL);
    assert_ok(PH_NEW(&y, 1, world.stream));
    struct t_put args = {y, 5};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_true(ph__thread_start(&thread, "test", release_all, &h));
    int failed = 0;
    for (int i = 0; i < rounds; i++) {
        ph_kernel *kernel = create_put(world.device);
        assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
        ph_status body = ph_launch(world.stream, kernel, NULL, &args, sizeof args);
        while (atomic_load(&h.kernel))
            ph__pause();
        atomic_store(&h.kernel, kernel);
        failed += ph_graph_capture_end(graph, body) != PH_OK ||
                  ph_graph_replay(graph, world.stream) != PH_OK;
        assert_ok(ph_graph_reset(graph));
    }
    atomic_store(&h.over, true);
    pthread_join(thread, NULL);
    assert_int_equal(failed, 0);
    t_all(y, 1, 5, world.stream);
    ph_graph_destroy(graph);
    ph_free(y, world.stream);
    t_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(released_in_the_capture),
        cmocka_unit_test(released_by_another_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
