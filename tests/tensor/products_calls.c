/* SPDX-License-Identifier: MIT */
/* tests/tensor/products_calls.c: how often a captured product asks the driver which capture its
 * stream is in: once for its result's memory, and once more for a workspace, where it needs one. */
#include "fake/fake_cuda.h"
#include "support/tensors.h"
#include "support/test.h"

typedef struct network {
    ph_tape *tape;
    int layers;
    ph_tensor *x, *weight, *bias, *out;
    int64_t asked; /* by the layers of the last run; 0 where nobody counts */
} network;

static int64_t count(void)
{
    return t_on_host() || !fake_cuda() ? 0 : fake_cuda()->calls_of("cuStreamGetCaptureInfo");
}

static ph_status run(ph_stream *stream, void *user)
{
    network *n = user;
    ph_tensor *x = n->x;
    (void)stream;
    int64_t before = count();
    for (int i = 0; i < n->layers; i++)
        x = ph_linear(n->tape, x, n->weight, n->bias);
    n->asked = count() - before;
    ph_tensor_copy(n->tape, n->out, x);
    return ph_tape_clear(n->tape);
}

static ph_tensor *parameter(ph_tape *tape, ph_shape shape)
{
    return ph_tensor_retain(ph_full(tape, PH_DTYPE_F32, shape, 1.0 / 64));
}

static double last_element(const network *n)
{
    double value;
    int64_t elements = ph_tensor_count(n->out);
    ph_tensor *flat = ph_reshape(n->tape, n->out, PH_SHAPE(elements));
    ph_tensor *last = ph_slice(n->tape, flat, 0, elements - 1, elements);
    assert_ok(ph_tensor_item(&value, n->tape, ph_reshape(n->tape, last, PH_SCALAR)));
    assert_ok(ph_tape_clear(n->tape));
    return value;
}

/* Captures, and replays what was captured; gives how often a layer asked, rounded up. */
static int64_t asked_by_a_layer(int layers, int64_t rows, int64_t width)
{
    t_scene s;
    ph_graph *graph;
    t_scene_open(&s);
    network n = {.tape = s.tape,
                 .layers = layers,
                 .x = parameter(s.tape, PH_SHAPE(rows, width)),
                 .weight = parameter(s.tape, PH_SHAPE(width, width)),
                 .bias = parameter(s.tape, PH_SHAPE(width)),
                 .out = parameter(s.tape, PH_SHAPE(rows, width))};
    assert_ok(ph_tape_clear(s.tape));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, run, &n));
    assert_ok(ph_graph_replay(graph, s.stream));
    double expected = 1.0 / 64;
    for (int i = 0; i < layers; i++)
        expected = (expected * (double)width + 1) / 64;
    assert_true(last_element(&n) == expected);
    ph_graph_destroy(graph);
    ph_tensor_release(n.x);
    ph_tensor_release(n.weight);
    ph_tensor_release(n.bias);
    ph_tensor_release(n.out);
    t_scene_close(&s);
    return (n.asked + layers - 1) / layers;
}

TEST(a_small_product_asks_for_the_capture_once)
{
    assert_true(asked_by_a_layer(3, 8, 16) <= 1);
}

TEST(products_with_a_workspace)
{
    assert_true(asked_by_a_layer(2, 132, 512) <= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_product_asks_for_the_capture_once),
        cmocka_unit_test(products_with_a_workspace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
