/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_batch.c: gradients that one backward of a graphed callable makes together, in
 * one block of memory, are tensors of their own; and what the nodes of several calls have in common
 * is right in passes that run inside others. */
#include "support/graphed_nets.h"
#include "support/test.h"
#include <phonograph/graph.h>
#include <phonograph/memory.h>

enum {
    PARAMETERS = 4, /* of GN_MLP */
    MOST = 4096
};

typedef struct bench {
    t_scene s;
    ph_module *net, *graphed;
    ph_tensor *parameters[PARAMETERS];
    size_t count;
} bench;

static bool collect(const char *name, ph_tensor *x, void *user)
{
    bench *b = user;
    (void)name;
    assert_true(b->count < PARAMETERS);
    b->parameters[b->count++] = x;
    return true;
}

static void bench_open(bench *b, const ph_graphed_options *options)
{
    b->count = 0;
    t_scene_open(&b->s);
    b->net = gn_net(&b->s, GN_MLP, 1);
    ph_tensor *sample = gn_sample(&b->s, gn_shape(GN_MLP), false);
    b->graphed = gn_graph_one(b->net, sample, options);
    ph_tensor_release(sample);
    ph_module_parameters(b->net, collect, b);
    assert_int_equal(b->count, PARAMETERS);
}

static void bench_close(bench *b)
{
    ph_module_release(b->graphed);
    ph_module_release(b->net);
    t_scene_close(&b->s);
}

static void run(const bench *b, ph_module *module, uint64_t seed)
{
    ph_tape *tape = b->s.tape;
    ph_module_zero_grad(b->net);
    ph_backward(tape,
                ph_sum(tape, ph_call(tape, module, gn_random(&b->s, gn_shape(GN_MLP), seed))));
    assert_ok(ph_tape_clear(tape));
}

static size_t read(const bench *b, const ph_tensor *x, float *values)
{
    size_t bytes = ph_tensor_bytes(x);
    assert_true(bytes <= MOST * sizeof *values);
    assert_ok(ph_tensor_read(b->s.tape, x, values, bytes));
    return bytes;
}

/* ---- one by one ---- */
TEST(a_gradient_outlives_the_others_of_its_backward)
{
    static float before[MOST], after[MOST];
    bench b;
    bench_open(&b, NULL);
    for (size_t i = 0; i < PARAMETERS; i++) {
        run(&b, b.graphed, 5);
        ph_tensor *kept = ph_tensor_retain(ph_tensor_grad(b.parameters[i]));
        size_t bytes = read(&b, kept, before);
        for (uint64_t seed = 6; seed < 9; seed++)
            run(&b, b.graphed, seed);
        ph_module_zero_grad(b.net);
        assert_int_equal(read(&b, kept, after), bytes);
        assert_memory_equal(after, before, bytes);
        ph_tensor_release(kept);
    }
    bench_close(&b);
}

TEST(memory_of_gradients_goes_with_the_last_of_them)
{
    bench b;
    bench_open(&b, NULL);
    run(&b, b.graphed, 5);
    ph_module_zero_grad(b.net);
    size_t before = t_allocated(&b.s);
    for (size_t i = 0; i < PARAMETERS; i++) {
        run(&b, b.graphed, 5);
        ph_tensor *kept = ph_tensor_retain(ph_tensor_grad(b.parameters[i]));
        ph_module_zero_grad(b.net);
        assert_true(t_allocated(&b.s) > before);
        ph_tensor_release(kept);
        assert_int_equal(t_allocated(&b.s), before);
    }
    bench_close(&b);
}

/* Of two backwards in turn, one of which a view keeps, and one of memory of its own. */
TEST(gradients_of_several_blocks_go_together)
{
    bench b;
    bench_open(&b, NULL);
    ph_optimizer *optimizer = gn_sgd(b.net);
    run(&b, b.graphed, 5);
    ph_module_zero_grad(b.net);
    size_t before = t_allocated(&b.s);
    for (int i = 0; i < 4; i++) {
        ph_tensor *older[PARAMETERS], *view, *own;
        run(&b, b.graphed, 5);
        for (size_t k = 0; k < PARAMETERS; k++)
            older[k] = ph_tensor_retain(ph_tensor_grad(b.parameters[k]));
        run(&b, b.graphed, 6);
        for (size_t k = 0; k < PARAMETERS; k++) {
            if (k % 2)
                assert_ok(ph_tensor_set_grad(b.parameters[k], older[k]));
            ph_tensor_release(older[k]);
        }
        view = ph_tensor_retain(ph_detach(b.s.tape, ph_tensor_grad(b.parameters[1])));
        own = ph_tensor_retain(ph_clone(b.s.tape, ph_tensor_grad(b.parameters[2])));
        if (i & 1)
            assert_ok(ph_tensor_set_grad(b.parameters[2], own));
        ph_tensor_release(own);
        assert_ok(ph_tape_clear(b.s.tape));
        if (i & 2)
            ph_optimizer_zero_grad(b.s.tape, optimizer);
        else
            ph_module_zero_grad(b.net);
        for (size_t k = 0; k < PARAMETERS; k++)
            assert_null(ph_tensor_grad(b.parameters[k]));
        assert_true(t_allocated(&b.s) > before);
        ph_tensor_release(view);
        assert_int_equal(t_allocated(&b.s), before);
    }
    ph_optimizer_destroy(optimizer);
    bench_close(&b);
}

TEST(a_change_of_one_gradient_is_no_change_of_the_others)
{
    bench b;
    bench_open(&b, NULL);
    run(&b, b.graphed, 5);
    ph_tensor_fill(b.s.tape, ph_tensor_grad(b.parameters[0]), 1);
    assert_ok(ph_tape_clear(b.s.tape));
    for (size_t i = 0; i < PARAMETERS; i++)
        assert_int_equal(ph_tensor_version(ph_tensor_grad(b.parameters[i])), i == 0);
    bench_close(&b);
}

TEST(each_gradient_may_be_used_on_another_stream)
{
    bench b;
    ph_stream *other;
    bench_open(&b, NULL);
    assert_ok(ph_stream_create(&other, b.s.device, NULL));
    for (size_t i = 0; i < PARAMETERS; i++) {
        run(&b, b.graphed, 5);
        assert_ok(ph_record_stream(ph_tensor_data(ph_tensor_grad(b.parameters[i])), other));
    }
    ph_module_zero_grad(b.net);
    assert_ok(ph_device_synchronize(b.s.device));
    ph_stream_destroy(other);
    bench_close(&b);
}

/* ---- liveness ---- a graph that reads a gradient of an earlier step. */
typedef struct reader {
    ph_graph *graph;
    void *to;
    const void *from;
} reader;

static ph_status read_gradient(ph_stream *stream, void *user)
{
    reader *r = user;
    return ph_memcpy(r->to, r->from, sizeof(float), stream);
}

static void reader_open(const bench *b, reader *r)
{
    const ph_capture_options options = {.check_input_liveness = true};
    r->from = ph_tensor_data(ph_tensor_grad(b->parameters[1]));
    assert_ok(ph_malloc(&r->to, sizeof(float), 1, b->s.stream));
    assert_ok(ph_graph_create(&r->graph, NULL));
    assert_ok(ph_graph_capture(r->graph, b->s.stream, &options, read_gradient, r));
    assert_ok(ph_graph_replay(r->graph, b->s.stream));
}

static void reader_close(const bench *b, reader *r)
{
    ph_graph_destroy(r->graph);
    ph_free(r->to, b->s.stream);
}

TEST(a_dead_gradient_is_seen_with_the_last_of_its_block)
{
    bench b;
    reader r;
    bench_open(&b, NULL);
    run(&b, b.graphed, 5);
    reader_open(&b, &r);
    t_zero_grad(b.parameters[1]);
    assert_ok(ph_graph_replay(r.graph, b.s.stream));
    ph_module_zero_grad(b.net);
    assert_error(ph_graph_replay(r.graph, b.s.stream), PH_ERROR_STALE_INPUT, "dead input");
    reader_close(&b, &r);
    bench_close(&b);
}

TEST(a_dead_gradient_is_seen_at_once_under_a_quarantine)
{
    bench b;
    reader r;
    ph_tape *tape;
    bench_open(&b, NULL);
    assert_ok(ph_tape_create(&tape, b.s.stream, &(ph_tape_options){.quarantine = 1}));
    run(&b, b.graphed, 5);
    reader_open(&b, &r);
    t_zero_grad(b.parameters[1]);
    assert_error(ph_graph_replay(r.graph, b.s.stream), PH_ERROR_STALE_INPUT, "dead input");
    reader_close(&b, &r);
    ph_tape_destroy(tape);
    bench_close(&b);
}

/* ---- passes inside others ---- a hook runs the same callable, forward and backward, while an
 * older call of it is still to come in the pass around. */
typedef struct inner {
    ph_module *module;
    ph_tensor *u, *v; /* leaves */
    int runs;
} inner;

static ph_tensor *run_inner_pass(ph_tape *tape, ph_tensor *grad, void *user)
{
    inner *n = user;
    bool before = ph_tape_set_grad_enabled(tape, true);
    ph_tensor *y = ph_call(tape, n->module, n->v);
    ph_backward(tape, ph_sum(tape, ph_mul(tape, n->u, y)));
    ph_tape_set_grad_enabled(tape, before);
    n->runs++;
    return grad;
}

static void run_outer_pass(t_scene *s, ph_module *module, ph_tensor *u, ph_tensor *v, ph_tensor *x)
{
    inner n = {module, u, v, 0};
    ph_tensor_hook *hook;
    ph_tensor *first = ph_relu(s->tape, ph_call(s->tape, module, x));
    assert_ok(ph_tensor_hook_add(&hook, first, run_inner_pass, &n));
    ph_backward(s->tape, ph_sum(s->tape, ph_call(s->tape, module, first)));
    assert_ok(ph_tape_status(s->tape));
    ph_tensor_hook_remove(hook);
    assert_ok(ph_tape_clear(s->tape));
    assert_int_equal(n.runs, 1);
}

TEST(a_pass_inside_another_leaves_that_ones_gradients_alone)
{
    t_scene s;
    t_scale scale;
    t_scene_open(&s);
    ph_module *plain = t_scale_open(&s, &scale, 3); /* weight: 3, 6 */
    ph_tensor *sample = gn_sample(&s, PH_SHAPE(2), true), *u = t_leaf(&s, PH_SHAPE(2), 5, 7),
              *v = t_leaf(&s, PH_SHAPE(2), 1, 2), *x = t_leaf(&s, PH_SHAPE(2), 2, 4);
    ph_module *graphed = gn_graph_one(plain, sample, NULL), *both[] = {plain, graphed};
    for (int i = 0; i < 2; i++) {
        run_outer_pass(&s, both[i], u, v, x);
        t_expect_grad(&s, scale.weight, 2 * 3 * 2 + 5 * 1, 2 * 6 * 4 + 7 * 2);
        t_expect_grad(&s, x, 9, 36);
        t_expect_grad(&s, u, 3, 12);
        t_expect_grad(&s, v, 15, 42);
        ph_tensor *const leaves[] = {scale.weight, x, u, v};
        for (int k = 0; k < 4; k++)
            t_zero_grad(leaves[k]);
    }
    ph_tensor *const made[] = {sample, u, v, x};
    for (int i = 0; i < 4; i++)
        ph_tensor_release(made[i]);
    ph_module_release(graphed);
    ph_module_release(plain);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gradient_outlives_the_others_of_its_backward),
        cmocka_unit_test(memory_of_gradients_goes_with_the_last_of_them),
        cmocka_unit_test(gradients_of_several_blocks_go_together),
        cmocka_unit_test(a_change_of_one_gradient_is_no_change_of_the_others),
        cmocka_unit_test(each_gradient_may_be_used_on_another_stream),
        cmocka_unit_test(a_dead_gradient_is_seen_with_the_last_of_its_block),
        cmocka_unit_test(a_dead_gradient_is_seen_at_once_under_a_quarantine),
        cmocka_unit_test(a_pass_inside_another_leaves_that_ones_gradients_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
