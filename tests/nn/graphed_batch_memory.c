/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_batch_memory.c: memory of gradients that one backward of a graphed callable
 * makes in one block: what lives on keeps nothing that is dead, and where no block has room each
 * gradient has memory of its own. */
#include "support/graphed_nets.h"
#include "support/test.h"
#include <phonograph/memory.h>

enum {
    CHAIN = 3,
    WIDE = 512,
    HOLE = 1 << 20,
    HOLES = 128
};

/* ---- what lives on keeps nothing that is dead ---- */
typedef struct chain {
    t_scene s;
    ph_module *nets[CHAIN], *graphed[CHAIN];
} chain;

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
    run_chain(c, c->nets, true); /* what first runs allocate, such as workspaces, stays */
    run_chain(c, c->graphed, true);
    zero_chain(c);
}

static void chain_close(chain *c)
{
    for (size_t i = 0; i < CHAIN; i++) {
        ph_module_release(c->graphed[i]);
        ph_module_release(c->nets[i]);
    }
    t_scene_close(&c->s);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_leaves_keep_no_gradient_of_what_lies_between),
        cmocka_unit_test(a_new_gradient_keeps_none_that_was_added_to_an_older_one),
        cmocka_unit_test(a_sum_of_gradients_keeps_none_that_was_added_to_it),
        cmocka_unit_test(gradients_are_made_one_by_one_where_no_block_has_room_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
