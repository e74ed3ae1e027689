/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_batch.c: gradients that one backward of a graphed callable makes together, in
 * one block of memory, are tensors of their own; and what the nodes of several calls have in common
 * is right in passes that run inside others. */
#include "support/graphed_nets.h"
#include "support/test.h"
#include <phonograph/memory.h>

enum {
    PARAMETERS = 4, /* of GN_MLP */
    MOST = 4096,
    CHAIN = 3,
    WIDE = 512,
    HOLE = 1 << 20,
    HOLES = 128
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

/* ---- what lives on keeps nothing that is dead ---- */
typedef struct chain {
    t_scene s;
    ph_module *nets[CHAIN], *graphed[CHAIN];
} chain;

/* common: a part of all of them, or NULL. */
static ph_module *chain_net(const t_scene *s, ph_module *common, uint64_t seed)
{
    ph_module *own = gn_net(s, GN_MLP, seed), *both;
    if (!common)
        return own;
    assert_ok(ph_sequential_create(&both, (ph_module *[]){own, common}, 2));
    ph_module_release(own);
    return both;
}

static void chain_open(chain *c, bool with_common)
{
    ph_sample samples[CHAIN];
    t_scene_open(&c->s);
    ph_tensor *sample = gn_sample(&c->s, gn_shape(GN_MLP), true);
    ph_module *common = with_common ? gn_net(&c->s, GN_MLP, CHAIN + 1) : NULL;
    for (size_t i = 0; i < CHAIN; i++) {
        c->nets[i] = chain_net(&c->s, common, i + 1);
        samples[i] = (ph_sample){.tensors = &sample, .count = 1};
    }
    assert_ok(ph_make_graphed_callables(c->graphed, c->nets, samples, CHAIN, NULL));
    ph_tensor_release(sample);
    ph_module_release(common);
}

static void chain_close(chain *c)
{
    for (size_t i = 0; i < CHAIN; i++) {
        ph_module_release(c->graphed[i]);
        ph_module_release(c->nets[i]);
    }
    t_scene_close(&c->s);
}

/* The bytes that gradients keep after it. */
static size_t run_chain(const chain *c, ph_module *const *modules, bool input_is_leaf)
{
    ph_tape *tape = c->s.tape;
    ph_tensor *leaf = gn_sample(&c->s, gn_shape(GN_MLP), input_is_leaf), *x = leaf;
    const size_t before = t_allocated(&c->s);
    for (size_t i = 0; i < CHAIN; i++)
        x = ph_call(tape, modules[i], x);
    ph_backward(tape, ph_sum(tape, x));
    assert_ok(ph_tape_clear(tape));
    assert_ok(ph_device_synchronize(c->s.device));
    size_t kept = t_allocated(&c->s) - before;
    ph_tensor_release(leaf);
    return kept;
}

static void zero_chain(const chain *c)
{
    for (size_t i = 0; i < CHAIN; i++)
        ph_module_zero_grad(c->nets[i]);
}

TEST(gradients_of_leaves_keep_no_gradient_of_what_lies_between)
{
    chain c;
    chain_open(&c, false);
    size_t want = run_chain(&c, c.nets, false);
    zero_chain(&c);
    assert_int_equal(run_chain(&c, c.graphed, false), want);
    zero_chain(&c);
    chain_close(&c);
}

TEST(a_new_gradient_keeps_none_that_was_added_to_an_older_one)
{
    chain c;
    chain_open(&c, false);
    run_chain(&c, c.graphed, false); /* from here on parameters have gradients, and inputs none */
    size_t want = run_chain(&c, c.nets, true);
    assert_true(want > 0);
    assert_int_equal(run_chain(&c, c.graphed, true), want);
    zero_chain(&c);
    chain_close(&c);
}

TEST(a_sum_of_gradients_keeps_none_that_was_added_to_it)
{
    chain c;
    chain_open(&c, true);
    size_t want = run_chain(&c, c.nets, false);
    zero_chain(&c);
    assert_int_equal(run_chain(&c, c.graphed, false), want);
    zero_chain(&c);
    chain_close(&c);
}

/* ---- no memory for a block ---- */
typedef struct holes {
    void *blocks[HOLES];
    size_t count;
} holes;

/* No memory is left but in holes of 1 MiB, no two of them side by side. */
static void holes_open(const t_scene *s, holes *h)
{
    ph_memory_stats stats;
    h->count = 0;
    assert_ok(ph_memory_trim(s->device));
    assert_ok(ph_memory_get_stats(&stats, s->device));
    assert_ok(ph_memory_set_limit(s->device, stats.reserved + (HOLES / 2 * (size_t)HOLE)));
    while (h->count < HOLES && ph_malloc(&h->blocks[h->count], HOLE, 1, s->stream) == PH_OK)
        h->count++;
    assert_in_range(h->count, 16, HOLES - 1);
    for (size_t i = 0; i < h->count; i += 2) {
        ph_free(h->blocks[i], s->stream);
        h->blocks[i] = NULL;
    }
    assert_ok(ph_stream_synchronize(s->stream));
}

static void holes_close(const t_scene *s, holes *h)
{
    for (size_t i = 0; i < h->count; i++)
        ph_free(h->blocks[i], s->stream);
    assert_ok(ph_memory_set_limit(s->device, 0));
}

static void run_wide(const t_scene *s, ph_module *module)
{
    ph_backward(s->tape,
                ph_sum(s->tape, ph_call(s->tape, module, gn_random(s, PH_SHAPE(2, WIDE), 3))));
    assert_ok(ph_tape_clear(s->tape));
}

TEST(gradients_are_made_one_by_one_where_no_block_has_room_for_all)
{
    t_scene s;
    ph_module *layers[2], *net;
    holes h;
    t_scene_open(&s);
    for (int i = 0; i < 2; i++)
        assert_ok(ph_linear_create(&layers[i], s.device, WIDE, WIDE)); /* weight: 1 MiB */
    assert_ok(ph_sequential_create(&net, layers, 2));
    ph_tensor *sample = gn_sample(&s, PH_SHAPE(2, WIDE), false);
    ph_module *graphed = gn_graph_one(net, sample, NULL);
    run_wide(&s, graphed);
    ph_module_zero_grad(net);
    holes_open(&s, &h);
    void *two;
    assert_int_equal(ph_malloc(&two, 2 * (size_t)HOLE, 1, s.stream), PH_ERROR_POOL_LIMIT);
    assert_error(ph_memory_set_limit(NULL, 0), PH_ERROR_ARGUMENT, "device");
    for (int i = 0; i < 2; i++) {
        ph_module_zero_grad(net);
        run_wide(&s, graphed);
        assert_int_equal(ph_error_last()->status, PH_ERROR_ARGUMENT);
    }
    holes_close(&s, &h);
    ph_module_zero_grad(net);
    ph_tensor_release(sample);
    ph_module *const made[] = {graphed, net, layers[0], layers[1]};
    for (int i = 0; i < 4; i++)
        ph_module_release(made[i]);
    t_scene_close(&s);
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
        cmocka_unit_test(a_change_of_one_gradient_is_no_change_of_the_others),
        cmocka_unit_test(each_gradient_may_be_used_on_another_stream),
        cmocka_unit_test(gradients_of_leaves_keep_no_gradient_of_what_lies_between),
        cmocka_unit_test(a_new_gradient_keeps_none_that_was_added_to_an_older_one),
        cmocka_unit_test(a_sum_of_gradients_keeps_none_that_was_added_to_it),
        cmocka_unit_test(gradients_are_made_one_by_one_where_no_block_has_room_for_all),
        cmocka_unit_test(a_pass_inside_another_leaves_that_ones_gradients_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
