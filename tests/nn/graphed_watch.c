/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_watch.c: memory outside of the graphs that calls read and change: what eager
 * calls refuse is refused, and nothing is read while it is written. */
#include "support/graphed_nets.h"
#include "support/test.h"

typedef struct buffered {
    ph_tensor *buffer;
} buffered;

static ph_module *buffered_open(const t_scene *s, buffered *self, ph_shape shape,
                                ph_forward_fn forward)
{
    ph_module *module;
    const ph_parameter buffer = {"buffer", &self->buffer};
    const ph_module_desc desc = {.name = "buffered",
                                 .forward = forward,
                                 .self = self,
                                 .buffers = &buffer,
                                 .buffer_count = 1};
    assert_ok(ph_tensor_create(&self->buffer, s->device, PH_DTYPE_F32, shape));
    ph_tensor_fill(s->tape, self->buffer, 1);
    assert_ok(ph_tape_clear(s->tape));
    assert_ok(ph_module_create(&module, s->device, &desc));
    return module;
}

/* ---- changed between forward and backward ---- */
static void sigmoid_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    out[0] = ph_sigmoid(tape, in[0]);
}

/* Backward of a sigmoid reads its output, of a product none. */
TEST(backward_refuses_an_output_that_was_changed_in_place)
{
    t_scene s;
    t_scale scale;
    t_scene_open(&s);
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 0, 0);
    ph_module *plain[2] = {gn_function(&s, "sigmoid", sigmoid_forward, NULL, 1, 1),
                           t_scale_open(&s, &scale, 3)};
    for (int i = 0; i < 2; i++) {
        ph_module *graphed = gn_graph_one(plain[i], x, NULL);
        for (int round = 0; round < 2; round++) {
            ph_tensor *y = ph_call(s.tape, graphed, x);
            ph_tensor_fill(s.tape, ph_detach(s.tape, y), 5);
            ph_backward(s.tape, ph_sum(s.tape, y));
            if (i == 0)
                t_expect_failure(&s, PH_ERROR_STATE, "an output of call");
            else
                t_expect_grad(&s, x, 3, 6);
            assert_ok(ph_tape_clear(s.tape));
            t_zero_grad(x);
            ph_backward(s.tape, ph_sum(s.tape, ph_call(s.tape, graphed, x)));
            if (i == 0)
                t_expect_grad(&s, x, 0.25F, 0.25F);
            assert_ok(ph_tape_clear(s.tape));
            t_zero_grad(x);
        }
        ph_module_release(graphed);
        ph_module_release(plain[i]);
    }
    ph_tensor_release(x);
    t_scene_close(&s);
}

static void product_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    out[0] = ph_mul(tape, in[0], ((buffered *)self)->buffer);
}

TEST(backward_refuses_a_buffer_that_was_changed_in_place)
{
    t_scene s;
    buffered self;
    t_scene_open(&s);
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 1, 2);
    ph_module *plain = buffered_open(&s, &self, PH_SHAPE(2), product_forward);
    ph_module *graphed = gn_graph_one(plain, x, NULL);
    ph_tensor *y = ph_call(s.tape, graphed, x);
    ph_tensor_fill(s.tape, self.buffer, 100);
    ph_backward(s.tape, ph_sum(s.tape, y));
    t_expect_failure(&s, PH_ERROR_STATE, "or a buffer, that it reads was changed in place");
    ph_backward(s.tape, ph_sum(s.tape, ph_call(s.tape, graphed, x)));
    t_expect_grad(&s, x, 100, 100);
    ph_module_release(graphed);
    ph_module_release(plain);
    ph_tensor_release(self.buffer);
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* ---- changed by the module ---- */
static void counting_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    ph_tensor_add(tape, ((buffered *)self)->buffer, in[0], 1);
    out[0] = ph_square(tape, in[0]);
}

/* A replay is a change: who saved the buffer before hears of it. */
TEST(a_replay_counts_a_version_of_the_buffer_it_writes)
{
    t_scene s;
    buffered self;
    t_scene_open(&s);
    ph_module *plain = buffered_open(&s, &self, PH_SHAPE(2), counting_forward);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), false), *leaf = t_leaf(&s, PH_SHAPE(2), 1, 1);
    ph_module *graphed = gn_graph_one(plain, x, NULL);
    ph_tensor *y = ph_mul(s.tape, leaf, self.buffer);
    uint64_t before = ph_tensor_version(self.buffer);
    (void)ph_call(s.tape, graphed, x);
    assert_int_equal(ph_tensor_version(self.buffer), before + 1);
    ph_backward(s.tape, ph_sum(s.tape, y));
    t_expect_failure(&s, PH_ERROR_STATE, "changed in place");
    ph_module_release(graphed);
    ph_module_release(plain);
    ph_tensor_release(self.buffer);
    ph_tensor_release(x);
    ph_tensor_release(leaf);
    t_scene_close(&s);
}

/* buffer[1:] += in: an input that lies in the buffer itself is copied before. */
static void moving_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    ph_tensor *buffer = ((buffered *)self)->buffer;
    ph_tensor_add(tape, ph_slice(tape, buffer, 0, 1, 9), in[0], 1);
    out[0] = ph_clone(tape, buffer);
}

TEST(test_input_in_buffer)
{
    t_scene s;
    buffered self;
    t_scene_open(&s);
    ph_module *plain = buffered_open(&s, &self, PH_SHAPE(9), moving_forward);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(8), false);
    ph_module *graphed = gn_graph_one(plain, x, NULL);
    assert_true(gn_input(graphed, 0, false).rebound);
    ph_tensor_fill(s.tape, self.buffer, 1);
    ph_tensor *y = ph_call(s.tape, graphed, ph_slice(s.tape, self.buffer, 0, 0, 8));
    t_expect_values(s.tape, y, PH_SHAPE(9), 1, 2, 2, 2, 2, 2, 2, 2, 2);
    ph_module_release(graphed);
    ph_module_release(plain);
    ph_tensor_release(self.buffer);
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* ---- gradients ---- */
typedef struct pair {
    ph_tensor *a, *b;
} pair;

static void pair_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const pair *p = self;
    out[0] = ph_mul(tape, in[0], ph_add(tape, p->a, p->b));
}

/* Both leaves have the same gradient: each its own. */
TEST(test_one_gradient_for_two)
{
    t_scene s;
    ph_module *plain;
    t_scene_open(&s);
    pair p = {t_leaf(&s, PH_SHAPE(2), 1, 2), t_leaf(&s, PH_SHAPE(2), 1, 2)};
    const ph_parameter parameters[] = {{"a", &p.a}, {"b", &p.b}};
    const ph_module_desc desc = {.name = "pair",
                                 .forward = pair_forward,
                                 .self = &p,
                                 .parameters = parameters,
                                 .parameter_count = 2};
    assert_ok(ph_module_create(&plain, s.device, &desc));
    ph_tensor *x = ph_tensor_retain(t_input(&s, 4, 8));
    for (int ways = PH_GRAPHED_COPY; ways <= PH_GRAPHED_BORROW; ways++) {
        ph_module *graphed =
            gn_graph_one(plain, x, &(ph_graphed_options){.gradients = (ph_graphed_gradients)ways});
        ph_backward(s.tape, ph_sum(s.tape, ph_call(s.tape, graphed, x)));
        assert_ok(ph_tape_status(s.tape));
        ph_tensor_scale(s.tape, ph_tensor_grad(p.a), 0.5);
        t_expect_grad(&s, p.a, 2, 4);
        t_expect_grad(&s, p.b, 4, 8);
        t_zero_grad(p.a);
        t_zero_grad(p.b);
        assert_ok(ph_tape_clear(s.tape));
        ph_module_release(graphed);
    }
    ph_module_release(plain);
    ph_tensor_release(x);
    ph_tensor_release(p.a);
    ph_tensor_release(p.b);
    t_scene_close(&s);
}

/* Where all gradients are empty, no node hands them out. */
TEST(test_all_gradients_are_empty)
{
    t_scene s;
    ph_tensor *x;
    t_scene_open(&s);
    assert_ok(ph_tensor_create(&x, s.device, PH_DTYPE_F32, PH_SHAPE(0, 4)));
    assert_ok(ph_tensor_set_requires_grad(x, true));
    ph_module *plain = gn_function(&s, "sigmoid", sigmoid_forward, NULL, 1, 1);
    for (int ways = PH_GRAPHED_COPY; ways <= PH_GRAPHED_BORROW; ways++) {
        ph_module *graphed =
            gn_graph_one(plain, x, &(ph_graphed_options){.gradients = (ph_graphed_gradients)ways});
        ph_backward(s.tape, ph_sum(s.tape, ph_call(s.tape, graphed, x)));
        assert_ok(ph_tape_status(s.tape));
        assert_non_null(ph_tensor_grad(x));
        t_zero_grad(x);
        assert_ok(ph_tape_clear(s.tape));
        ph_module_release(graphed);
    }
    ph_module_release(plain);
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* ---- readers that are not done ---- */
static void square_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    out[0] = ph_mul(tape, in[0], in[0]);
}

/* An output is read on another stream, which is held up; the next call comes behind that. */
TEST(test_reader_on_another_stream)
{
    t_scene s;
    ph_stream *other;
    ph_tape *reader;
    t_scene_open(&s);
    assert_ok(ph_stream_create(&other, s.device, NULL));
    assert_ok(ph_tape_create(&reader, other, NULL));
    ph_module *plain = gn_function(&s, "square", square_forward, NULL, 1, 1);
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 2, 3), *next = t_leaf(&s, PH_SHAPE(2), 5, 7);
    ph_module *graphed = gn_graph_one(plain, x, NULL);
    /* A kernel that is loaded while a host function runs can wait for it. */
    t_expect_values(reader, ph_relu(reader, ph_detach(reader, x)), PH_SHAPE(2), 2, 3);
    assert_ok(ph_tape_clear(reader));
    for (int round = 0; round < 3; round++) {
        /* opens by itself in the end: no call here may wait for it */
        t_gate gate = {.behind = true};
        ph_tensor *y = ph_call(s.tape, graphed, x);
        assert_ok(ph_stream_wait_stream(other, s.stream));
        assert_ok(t_gate_wait_guarded(&gate, other));
        ph_tensor *seen = ph_relu(reader, ph_detach(reader, y));
        (void)ph_call(s.tape, graphed, next);
        t_gate_open(&gate);
        t_expect_values(reader, seen, PH_SHAPE(2), 4, 9);
        assert_ok(ph_tape_clear(s.tape));
        assert_ok(ph_tape_clear(reader));
    }
    ph_tape_destroy(reader);
    ph_tensor_release(x);
    ph_tensor_release(next);
    ph_module_release(plain);
    ph_module_release(graphed);
    assert_ok(ph_stream_synchronize(other));
    ph_stream_destroy(other);
    t_scene_close(&s);
}

TEST(test_waiting_for_users)
{
    t_scene s;
    t_scene_open(&s);
    ph_graph *graph;
    void *block;
    assert_ok(ph_malloc(&block, 64, 1, s.stream));
    assert_ok(ph_stream_wait_users(s.stream, block));
    assert_ok(ph_stream_wait_users(s.stream, (char *)block + 8));
    assert_error(ph_stream_wait_users(s.stream, &s), PH_ERROR_NOT_FOUND, "ph_stream_wait_users");
    assert_status(ph_stream_wait_users(NULL, block), PH_ERROR_ARGUMENT);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, s.stream, NULL));
    assert_error(ph_stream_wait_users(s.stream, block), PH_ERROR_STATE, "capturing");
    ph_graph_capture_abort(graph);
    ph_graph_destroy(graph);
    ph_free(block, s.stream);
    t_scene_close(&s);
}

static void shifted_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    out[0] = ph_tanh(tape, ph_add(tape, in[0], ((const t_scale *)self)->weight));
}

static void call_graphed(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    out[0] = ph_call(tape, user, in[0]);
}

/* Backward reads nothing of the parameter, and the second run of the function does. */
TEST(a_parameter_that_a_checkpointed_call_reads_must_not_change)
{
    t_scene s;
    t_scale self;
    ph_module *plain, *graphed;
    t_scene_open(&s);
    self.weight = t_leaf(&s, PH_SHAPE(2), 1, 2);
    const ph_parameter weight = {"weight", &self.weight};
    assert_ok(ph_module_create(&plain, s.device,
                               &(ph_module_desc){.name = "shifted",
                                                 .forward = shifted_forward,
                                                 .self = &self,
                                                 .parameters = &weight,
                                                 .parameter_count = 1}));
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 3, 4), *y;
    graphed = gn_graph_one(plain, x, NULL);
    for (int i = 0; i < 6; i++) {
        bool changes = i % 3 == 2;
        ph_checkpoint(s.tape, call_graphed, graphed, &y, 1, &x, 1);
        ph_tape_set_grad_enabled(s.tape, false);
        if (changes)
            ph_tensor_scale(s.tape, self.weight, -4);
        ph_tape_set_grad_enabled(s.tape, true);
        ph_backward(s.tape, ph_sum(s.tape, y));
        if (changes)
            t_expect_failure(&s, PH_ERROR_STATE, "checkpoint: a leaf that shifted read, f32[2]");
        assert_ok(ph_tape_clear(s.tape));
    }
    ph_tensor_release(x);
    ph_module_release(graphed);
    ph_module_release(plain);
    ph_tensor_release(self.weight);
    t_scene_close(&s);
}

/* Backward of a square reads the call's own input alone, which is kept for it: several calls may
 * come before. */
TEST(test_nothing_but_inputs_is_saved)
{
    t_scene s;
    t_scene_open(&s);
    ph_module *plain = gn_function(&s, "square", square_forward, NULL, 1, 1);
    ph_tensor *a = t_leaf(&s, PH_SHAPE(2), 2, 3), *b = t_leaf(&s, PH_SHAPE(2), 5, 7);
    ph_module *graphed = gn_graph_one(plain, a, NULL);
    ph_tensor *first = ph_clone(s.tape, ph_call(s.tape, graphed, a));
    ph_tensor *second = ph_clone(s.tape, ph_call(s.tape, graphed, b));
    ph_backward(s.tape, ph_sum(s.tape, ph_add(s.tape, first, second)));
    t_expect_grad(&s, a, 4, 6);
    t_expect_grad(&s, b, 10, 14);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(a);
    ph_tensor_release(b);
    ph_module_release(plain);
    ph_module_release(graphed);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backward_refuses_an_output_that_was_changed_in_place),
        cmocka_unit_test(backward_refuses_a_buffer_that_was_changed_in_place),
        cmocka_unit_test(a_replay_counts_a_version_of_the_buffer_it_writes),
        cmocka_unit_test(test_input_in_buffer),
        cmocka_unit_test(test_one_gradient_for_two),
        cmocka_unit_test(test_all_gradients_are_empty),
        cmocka_unit_test(test_reader_on_another_stream),
        cmocka_unit_test(a_parameter_that_a_checkpointed_call_reads_must_not_change),
        cmocka_unit_test(test_waiting_for_users),
        cmocka_unit_test(test_nothing_but_inputs_is_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
