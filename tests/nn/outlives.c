/* SPDX-License-Identifier: MIT */
/* tests/nn/outlives.c: a graph that captured a step is replayed when all that it was captured
 * with is gone. */
#include "support/nets.h"
#include "support/test.h"
#include "tensor/backend/kernels.h"
#include "tensor/core/tensor.h"
#include "tensor/generator/generator.h"
#include "tensor/tape/tape.h"
#include <math.h>

enum {
    SIDE = 64,
    COUNT = SIDE * SIDE
};

/* Memory is the test's own, so that no tensor holds anything. */
typedef struct step {
    t_scene *s;
    float *x, *w, *gradient, *loss;
} step;

static ph_tensor *around(const step *p, float *data, ph_shape shape)
{
    ph_tensor *x;
    assert_ok(ph_tensor_wrap(&x, p->s->device, PH_DTYPE_F32, shape, NULL, data, NULL, NULL));
    return x;
}

/* cuBLASLt's kernels stay with the context when its handle goes; those of the software one go
 * with the handle. */
static ph_tensor *product(ph_tape *tape, ph_tensor *x, ph_tensor *w)
{
    return ph__kernel_stand_in ? ph_mul(tape, x, w) : ph_matmul(tape, x, w);
}

/* loss = mean(dropout(x w)^2), and w's gradient. */
static ph_status run(ph_stream *stream, void *user)
{
    const step *p = user;
    ph_tape *tape = p->s->tape;
    (void)stream;
    ph_tensor *x = around(p, p->x, PH_SHAPE(SIDE, SIDE)),
              *w = around(p, p->w, PH_SHAPE(SIDE, SIDE));
    ph_tensor *gradient = around(p, p->gradient, PH_SHAPE(SIDE, SIDE)),
              *out = around(p, p->loss, PH_SCALAR);
    assert_ok(ph_tensor_set_requires_grad(w, true));
    ph_tensor *loss = ph_mean(tape, ph_square(tape, ph_dropout(tape, product(tape, x, w), 0.5)));
    ph_backward(tape, loss);
    ph_tensor_copy(tape, gradient, ph_tensor_grad(w));
    ph_tensor_copy(tape, out, ph_detach(tape, loss));
    ph_tensor_release(x);
    ph_tensor_release(w);
    ph_tensor_release(gradient);
    ph_tensor_release(out);
    return ph_tape_clear(tape);
}

TEST(test_all_gone)
{
    t_scene s;
    t_scene_open(&s);
    ph_device *device = s.device;
    ph_stream *stream;
    ph_graph *graph;
    step p = {.s = &s};
    float values[COUNT], losses[3], eager;
    assert_ok(ph_stream_create(&stream, device, NULL));
    assert_ok(ph_malloc(&p.x, COUNT, sizeof(float), s.stream));
    assert_ok(ph_malloc(&p.w, COUNT, sizeof(float), s.stream));
    assert_ok(ph_malloc(&p.gradient, COUNT, sizeof(float), s.stream));
    assert_ok(ph_malloc(&p.loss, 1, sizeof(float), s.stream));
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)(i % 7 - 3) / 8;
    assert_ok(ph_memcpy(p.x, values, sizeof values, s.stream));
    assert_ok(ph_memcpy(p.w, values, sizeof values, s.stream));
    ph_generator *own;
    assert_ok(ph_generator_create(&own, device, 5));
    ph_tape_set_generator(s.tape, own);
    assert_ok(run(s.stream, &p));
    t_read(&eager, p.loss, sizeof eager, s.stream);
    assert_ok(ph_generator_seed(own, 5));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, run, &p));
    ph_generator_release(own);
    /* the last of this library on the device: kernels and products go with it */
    ph_tape_destroy(s.tape);
    for (int i = 0; i < 3; i++) {
        assert_ok(ph_graph_replay(graph, stream));
        t_read(&losses[i], p.loss, sizeof losses[i], stream);
        assert_true(isfinite(losses[i]) && losses[i] > 0);
    }
    assert_memory_equal(&losses[0], &eager, sizeof eager);
    assert_memory_not_equal(&losses[0], &losses[1], sizeof *losses); /* other masks */
    ph_graph_destroy(graph);
    ph_free(p.x, NULL);
    ph_free(p.w, NULL);
    ph_free(p.gradient, NULL);
    ph_free(p.loss, NULL);
    ph_stream_destroy(stream);
    ph_stream_destroy(s.stream);
    ph_device_release(device);
}

/* With an optimizer: the graph keeps that, and the parameters. */
typedef struct training {
    t_scene *s;
    ph_module *module;
    ph_optimizer *optimizer;
    float *x, *loss;
} training;

static ph_status train(ph_stream *stream, void *user)
{
    const training *t = user;
    const step p = {.s = t->s};
    ph_tape *tape = t->s->tape;
    (void)stream;
    ph_tensor *x = around(&p, t->x, PH_SHAPE(SIDE, SIDE)), *out = around(&p, t->loss, PH_SCALAR);
    ph_optimizer_zero_grad(tape, t->optimizer);
    ph_tensor *loss = ph_mse(tape, ph_call(tape, t->module, x), x);
    ph_backward(tape, loss);
    ph_optimizer_step(tape, t->optimizer);
    ph_tensor_copy(tape, out, ph_detach(tape, loss));
    ph_tensor_release(x);
    ph_tensor_release(out);
    return ph_tape_clear(tape);
}

TEST(test_with_optimizer)
{
    t_scene s;
    t_scene_open(&s);
    ph_device *device = s.device;
    ph_stream *stream;
    ph_graph *graph;
    training t = {.s = &s};
    float values[COUNT], first, last = 0;
    assert_ok(ph_stream_create(&stream, device, NULL));
    assert_ok(ph_malloc(&t.x, COUNT, sizeof(float), s.stream));
    assert_ok(ph_malloc(&t.loss, 1, sizeof(float), s.stream));
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)(i % 7 - 3) / 8;
    assert_ok(ph_memcpy(t.x, values, sizeof values, s.stream));
    assert_ok(ph_linear_create(&t.module, device, SIDE, SIDE));
    assert_ok(ph_adamw_create(&t.optimizer, t.module, NULL));
    assert_ok(train(s.stream, &t));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, train, &t));
    t_read(&first, t.loss, sizeof first, s.stream);
    ph_optimizer_destroy(t.optimizer);
    ph_module_release(t.module);
    ph_tape_destroy(s.tape);
    ph_stream_destroy(s.stream);
    for (int i = 0; i < 20; i++) {
        assert_ok(ph_graph_replay(graph, stream));
        t_read(&last, t.loss, sizeof last, stream);
    }
    assert_true(last < first);
    ph_free(t.x, NULL);
    ph_free(t.loss, NULL);
    ph_device_release(device); /* the graph holds it */
    ph_stream_destroy(stream);
    ph_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_gone),
                                       cmocka_unit_test(test_with_optimizer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
