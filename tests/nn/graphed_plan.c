/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_plan.c: graphed callables in planned memory give what others give, to the bit,
 * in at most 1.03 times what is alive at once: that is read from the pool of equal callables that
 * have no plan. */
#include "support/graphed_nets.h"
#include "support/test.h"

enum {
    MOST = 6,
    STEPS = 3
};

static ph_stream *side;

/* Equal nets in a row, each a callable. */
typedef struct net_kind {
    const char *name;
    int count;
    gn_kind kind;
    int64_t width, rows; /* of transformer blocks; 0: as the kind has it */
    bool inference;
    ph_forward_fn forward; /* of modules without parameters; NULL: of the kind */
} net_kind;

typedef struct row {
    t_scene s;
    net_kind net;
    ph_autocast autocast;
    ph_pool *pool;
    ph_module *nets[MOST], *graphed[MOST];
    ph_optimizer *optimizers[MOST];
    size_t peak; /* of what was alive in the pool at once while they were made */
} row;

static void seed_default(const row *r)
{
    ph_generator *generator;
    assert_ok(ph_generator_default(&generator, r->s.device));
    assert_ok(ph_generator_seed(generator, 7));
    ph_generator_release(generator);
}

static ph_shape shape_of(const net_kind *net)
{
    return net->width ? PH_SHAPE(2, net->rows, net->width) : gn_shape(net->kind);
}

static ph_module *make_net(const t_scene *s, const net_kind *net, uint64_t seed)
{
    ph_module *block;
    ph_generator *generator;
    if (net->forward)
        return gn_function(s, net->name, net->forward, NULL, 1, 1);
    if (!net->width)
        return gn_net(s, net->kind, seed);
    assert_ok(ph_generator_create(&generator, s->device, seed));
    const ph_block_options options = {.generator = generator};
    assert_ok(ph_transformer_block_create(&block, s->device, net->width, 4, &options));
    ph_generator_release(generator);
    return block;
}

static bool freeze(const char *name, ph_tensor *x, void *user)
{
    (void)name;
    (void)user;
    assert_ok(ph_tensor_set_requires_grad(x, false));
    return true;
}

static void row_open(row *r, const t_scene *s, const net_kind *net, ph_graphed_options options)
{
    ph_sample samples[MOST];
    ph_tensor *x = gn_sample(s, shape_of(net), !net->inference);
    ph_memory_stats stats;
    *r = (row){.s = *s, .net = *net, .autocast = options.autocast};
    assert_ok(ph_pool_create(&r->pool, s->device, NULL));
    for (int i = 0; i < net->count; i++) {
        r->nets[i] = make_net(s, net, 5 + (uint64_t)i);
        if (net->inference)
            ph_module_parameters(r->nets[i], freeze, NULL);
        if (!net->inference && !net->forward)
            r->optimizers[i] = gn_sgd(r->nets[i]);
        samples[i] = (ph_sample){.tensors = &x, .count = 1};
    }
    options.pool = r->pool;
    seed_default(r);
    assert_ok(
        ph_make_graphed_callables(r->graphed, r->nets, samples, (size_t)net->count, &options));
    assert_ok(ph_pool_stats(&stats, r->pool));
    r->peak = stats.allocated_peak;
    ph_tensor_release(x);
}

static void row_close(row *r)
{
    for (int i = 0; i < r->net.count; i++) {
        ph_optimizer_destroy(r->optimizers[i]);
        ph_module_release(r->graphed[i]);
        ph_module_release(r->nets[i]);
    }
    ph_pool_release(r->pool);
}

/* The forwards in order, and one backward through all of them. Gives the last output. */
static ph_tensor *run_row(row *r, uint64_t seed)
{
    ph_tape *tape = r->s.tape;
    seed_default(r);
    ph_tensor *x = gn_random(&r->s, shape_of(&r->net), 2 * seed);
    assert_ok(ph_tensor_set_requires_grad(x, !r->net.inference));
    const ph_autocast before = ph_tape_set_autocast(tape, r->autocast);
    for (int i = 0; i < r->net.count; i++)
        x = ph_call(tape, r->graphed[i], x);
    (void)ph_tape_set_autocast(tape, before);
    ph_tensor *out = ph_tensor_retain(ph_clone(tape, x));
    if (!r->net.inference) {
        for (int i = 0; i < r->net.count && r->optimizers[i]; i++)
            ph_optimizer_zero_grad(tape, r->optimizers[i]);
        ph_backward(tape, ph_mse(tape, ph_cast(tape, x, PH_DTYPE_F32),
                                 gn_random(&r->s, shape_of(&r->net), 2 * seed + 1)));
        for (int i = 0; i < r->net.count && r->optimizers[i]; i++)
            ph_optimizer_step(tape, r->optimizers[i]);
    }
    assert_ok(ph_tape_clear(tape));
    return out;
}

static ph_graph_memory memory_of(const row *r, int i, bool backward)
{
    ph_graph_memory memory = {0};
    ph_graph *graphs[2];
    assert_ok(ph_graphed_callable_graphs(&graphs[0], &graphs[1], r->graphed[i]));
    if (graphs[backward])
        assert_ok(ph_graph_get_memory(&memory, graphs[backward]));
    else
        assert_true(r->net.inference && backward);
    return memory;
}

static size_t whole_segments(size_t bytes)
{
    const size_t segment = (size_t)2 << 20;
    return (bytes + segment - 1) / segment * segment;
}

static void expect_planned(const row *planned, const row *plain)
{
    for (int i = 0; i < planned->net.count; i++)
        for (int backward = 0; backward < (planned->net.inference ? 1 : 2); backward++) {
            ph_graph_memory memory = memory_of(planned, i, backward);
            if (memory.plan_ended)
                fail_msg("%s: %s", planned->net.name, memory.plan_ended);
            assert_true(memory.planned > 0);
            assert_int_equal(memory.plan_bound, plain->peak);
            assert_true((double)memory.planned <= 1.03 * (double)plain->peak);
            assert_int_equal(memory.pool_reserved, whole_segments(memory.planned));
            assert_true(gn_input(planned->graphed[i], 0, false).rebound ==
                        gn_input(plain->graphed[i], 0, false).rebound);
            memory = memory_of(plain, i, backward);
            assert_null(memory.plan_ended);
            assert_int_equal(memory.planned, 0);
        }
}

static void compare_rows(const net_kind *net, ph_graphed_options options)
{
    t_scene s;
    row planned, plain;
    t_scene_open(&s);
    assert_ok(ph_stream_create(&side, s.device, NULL));
    row_open(&plain, &s, net, options);
    options.plan = true;
    row_open(&planned, &s, net, options);
    expect_planned(&planned, &plain);
    for (uint64_t i = 0; i < STEPS; i++) {
        ph_tensor *want = run_row(&plain, i), *got = run_row(&planned, i);
        gn_expect_same(&s, got, want, net->name);
        ph_tensor_release(want);
        ph_tensor_release(got);
        for (int k = 0; k < net->count; k++)
            gn_expect_same_parameters(&s, planned.nets[k], plain.nets[k], net->name);
    }
    row_close(&planned);
    row_close(&plain);
    ph_stream_destroy(side);
    t_scene_close(&s);
}

static const ph_graphed_options defaults;

TEST(planned_nets_have_the_same_bits)
{
    for (int kind = 0; kind < GN_KINDS; kind++)
        for (int count = 1; count <= 3; count += 2)
            compare_rows(
                &(net_kind){.name = gn_name((gn_kind)kind), .kind = (gn_kind)kind, .count = count},
                defaults);
}

TEST(blocks_of_gpt_sizes_take_what_is_alive_at_once)
{
    static const net_kind nets[] = {
        {.name = "1 x 64", .count = 1, .width = 64, .rows = 32},
        {.name = "2 x 128", .count = 2, .width = 128, .rows = 32},
        {.name = "6 x 96", .count = MOST, .width = 96, .rows = 24},
        {.name = "4 x 64, long", .count = 4, .width = 64, .rows = 64},
    };
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        net_kind net = nets[i];
        net.rows /= t_on_host() ? 1 : 8; /* the software device is slow */
        compare_rows(&net, defaults);
    }
}

/* Of more sizes: what they take alone. */
TEST(twenty_four_makings_take_what_is_alive_at_once)
{
    for (int width = 48; width <= 96; width += 16)
        for (int rows = 16; rows <= 64; rows *= 4)
            for (int count = 1; count <= 3; count++) {
                t_scene s;
                row planned, plain;
                const net_kind net = {.name = "a size",
                                      .count = count,
                                      .width = width,
                                      .rows = rows / (t_on_host() ? 1 : 8)};
                t_scene_open(&s);
                row_open(&plain, &s, &net, defaults);
                row_open(&planned, &s, &net, (ph_graphed_options){.plan = true});
                expect_planned(&planned, &plain);
                row_close(&planned);
                row_close(&plain);
                t_scene_close(&s);
            }
}

static bool add_bytes(const char *name, ph_tensor *x, void *sum)
{
    (void)name;
    *(size_t *)sum += ph_tensor_bytes(x);
    return true;
}

/* No backward keeps memory of gradients that it has copied out; borrowed ones are kept. */
TEST(gradients_that_are_copied_share_memory)
{
    t_scene s;
    row copied, borrowed;
    size_t bytes = 0;
    const net_kind net = {.name = "mlp", .kind = GN_MLP, .count = 3};
    t_scene_open(&s);
    row_open(&copied, &s, &net, defaults);
    row_open(&borrowed, &s, &net, (ph_graphed_options){.gradients = PH_GRAPHED_BORROW});
    ph_module_parameters(copied.nets[0], add_bytes, &bytes);
    assert_true(copied.peak + 2 * bytes <= borrowed.peak);
    row_close(&copied);
    row_close(&borrowed);
    t_scene_close(&s);
}

/* Their temporaries share memory, as no two of the graphs run at once. */
TEST(inference_takes_the_largest_and_not_the_sum)
{
    net_kind net = {.name = "inference", .width = 64, .inference = true};
    net.rows = t_on_host() ? 32 : 4;
    for (net.count = 1; net.count <= MOST; net.count += 5)
        compare_rows(&net, defaults);
}

TEST(each_mode_of_gradients_and_inputs_has_a_plan)
{
    const net_kind nets[] = {{.name = "block", .kind = GN_BLOCK, .count = 2},
                             {.name = "norm", .kind = GN_NORM, .count = 2}};
    for (int gradients = PH_GRAPHED_COPY; gradients <= PH_GRAPHED_BORROW; gradients++)
        for (int inputs = PH_GRAPHED_AUTO; inputs <= PH_GRAPHED_REBIND; inputs++)
            compare_rows(&nets[inputs % 2],
                         (ph_graphed_options){.gradients = (ph_graphed_gradients)gradients,
                                              .inputs = (ph_graphed_inputs)inputs,
                                              .check_input_liveness = gradients == 0,
                                              .warmup_iterations = gradients == 1 ? PH_ZERO : 0});
}

TEST(modules_under_autocast_have_a_plan)
{
    compare_rows(&(net_kind){.name = "autocast", .kind = GN_MLP, .count = 1},
                 (ph_graphed_options){.autocast = {.dtype = PH_DTYPE_BF16, .no_cache = true}});
}

/* y = 2 x + (2 x + 1)^2: the first term is copied on the side stream, beside the second one. */
static void beside_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    ph_stream *stream = ph_tape_stream(tape);
    void *scratch = NULL;
    ph_tensor *twice = ph_mul_scalar(tape, in[0], 2);
    ph_tensor *copy = ph_empty(tape, PH_DTYPE_F32, ph_tensor_shape(in[0]));
    if (!twice || !copy)
        return;
    const size_t bytes = ph_tensor_bytes(copy);
    (void)self;
    ph_tape_check(tape, ph_stream_wait_stream(side, stream));
    ph_tape_check(tape, ph_malloc(&scratch, 1, bytes, side));
    ph_tape_check(tape, ph_memcpy(scratch, ph_tensor_data(twice), bytes, side));
    ph_tensor *more = ph_add_scalar(tape, twice, 1);
    ph_tensor *square = ph_mul(tape, more, more);
    ph_tape_check(tape, ph_stream_wait_stream(stream, side));
    ph_tape_check(tape, ph_memcpy(ph_tensor_data(copy), scratch, bytes, stream));
    ph_tape_check(tape, ph_record_stream(scratch, stream));
    ph_free(scratch, side);
    out[0] = ph_add(tape, copy, square);
}

TEST(nets_on_two_streams_have_a_plan)
{
    for (int count = 1; count <= 4; count++) {
        net_kind net = {
            .name = "beside", .count = count, .kind = GN_MLP, .forward = beside_forward};
        compare_rows(&net, defaults);
        net.inference = true;
        compare_rows(&net, defaults);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planned_nets_have_the_same_bits),
        cmocka_unit_test(blocks_of_gpt_sizes_take_what_is_alive_at_once),
        cmocka_unit_test(twenty_four_makings_take_what_is_alive_at_once),
        cmocka_unit_test(gradients_that_are_copied_share_memory),
        cmocka_unit_test(inference_takes_the_largest_and_not_the_sum),
        cmocka_unit_test(each_mode_of_gradients_and_inputs_has_a_plan),
        cmocka_unit_test(modules_under_autocast_have_a_plan),
        cmocka_unit_test(nets_on_two_streams_have_a_plan),
    };
    return cmocka_run_group_tests_name("nn.graphed_plan", tests, NULL, NULL);
}
