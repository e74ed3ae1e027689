/* SPDX-License-Identifier: MIT */
/* Data-parallel networks whose gradients travel as f16 or bf16, and ranks that run out of inputs
 * before others. */
#include "training_net.h"

enum {
    ROWS = 2 /* of a rank's batch */
};

typedef struct training {
    ph_module *net;
    ph_data_parallel *parallel; /* NULL: one rank, which has the batches of all */
    ph_optimizer *optimizer;
} training;

static void open_training(training *t, const ph_data_parallel_options *options)
{
    const ph_adam_options adam = {.lr = 0.02};
    *t = (training){.net = new_net(1)};
    if (options)
        assert_ok(ph_data_parallel_create(&t->parallel, t->net, team.comm, options));
    assert_ok(ph_adam_create(&t->optimizer, t->net, &adam));
}

static void close_training(training *t)
{
    ph_data_parallel_destroy(t->parallel);
    ph_optimizer_destroy(t->optimizer);
    ph_module_release(t->net);
}

static ph_tensor *new_loss_of(const training *t, ph_tensor *x, ph_tensor *want)
{
    return ph_mse(tape, ph_call(tape, t->net, x), want);
}

/* The batches of some ranks for a step, one behind the other. */
static ph_tensor *new_loss(const training *t, unsigned first, unsigned count, int step)
{
    float x[4 * ROWS * IN], y[4 * ROWS * OUT];
    for (size_t i = 0; i < (size_t)count * ROWS * IN; i++)
        x[i] = (float)(((first * ROWS * IN + i) * 37 + (size_t)step * 11) % 23) / 11.0F - 1;
    for (size_t i = 0; i < (size_t)count * ROWS * OUT; i++)
        y[i] = (float)(((first * ROWS * OUT + i) * 17 + (size_t)step * 5) % 13) / 6.0F - 1;
    int64_t rows = (int64_t)count * ROWS;
    ph_tensor *in = ph_from_memory(tape, PH_DTYPE_F32, PH_SHAPE(rows, IN), x);
    ph_tensor *want = ph_from_memory(tape, PH_DTYPE_F32, PH_SHAPE(rows, OUT), y);
    return new_loss_of(t, in, want);
}

static void step_optimizer(const training *t)
{
    (void)ph_clip_grad_norm(tape, t->net, 0.5, NULL);
    ph_optimizer_step(tape, t->optimizer);
    ph_optimizer_zero_grad(tape, t->optimizer);
    assert_ok(ph_tape_clear(tape));
}

/* ---- reduce_dtype ---- */
static ph_tensor *gradient_of(const training *t)
{
    return ph_tensor_grad(ph_module_parameter(t->net, "0.weight"));
}

static void expect_values_of(ph_tensor *x, ph_dtype dtype)
{
    static float host[IN * HIDDEN], rounded[IN * HIDDEN];
    assert_ok(ph_tensor_read(tape, x, host, sizeof host));
    ph_tensor *back = ph_cast(tape, ph_cast(tape, x, dtype), PH_DTYPE_F32);
    assert_ok(ph_tensor_read(tape, back, rounded, sizeof rounded));
    assert_memory_equal(host, rounded, sizeof host);
}

static void expect_rounded_means(ph_dtype dtype, float most)
{
    static values exact, got;
    const ph_data_parallel_options plain = {.bucket_bytes = 256},
                                   rounded = {.bucket_bytes = 256, .reduce_dtype = dtype};
    ph_data_parallel_info info;
    training t[2];
    for (int i = 0; i < 2; i++) {
        open_training(&t[i], i ? &rounded : &plain);
        ph_data_parallel_backward(tape, t[i].parallel, new_loss(&t[i], team.rank, 1, 3));
        assert_ok(ph_tape_status(tape));
    }
    read_values(&exact, t[0].net, true);
    read_values(&got, t[1].net, true);
    expect_same_on_all(&got);
    expect_near(&got, &exact, most);
    assert_true(memcmp(&got, &exact, sizeof got) != 0);
    expect_values_of(gradient_of(&t[1]), dtype);
    assert_ok(ph_data_parallel_get_info(&info, t[1].parallel));
    assert_int_equal(info.reduced_bytes * 2, info.bytes);
    assert_ok(ph_tape_clear(tape));
    close_training(&t[0]);
    close_training(&t[1]);
}

TEST(gradients_are_rounded_on_their_way_and_equal_on_all_ranks)
{
    expect_rounded_means(PH_DTYPE_F16, 1e-3F);
    expect_rounded_means(PH_DTYPE_BF16, 1e-2F);
}

/* One rank's gradient is beyond f16, and the mean is not. */
TEST(gradients_are_divided_before_they_are_rounded)
{
    const ph_data_parallel_options options = {.reduce_dtype = PH_DTYPE_F16};
    static values got;
    training t;
    open_training(&t, &options);
    ph_tensor *loss = ph_sum(tape, ph_module_parameter(t.net, "2.bias"));
    ph_data_parallel_backward(tape, t.parallel, ph_mul_scalar(tape, loss, team.rank ? 0 : 1e5));
    assert_ok(ph_tape_status(tape));
    float host[OUT], want = 1e5F / (float)team.size;
    assert_ok(ph_tensor_read(tape, ph_tensor_grad(ph_module_parameter(t.net, "2.bias")), host,
                             sizeof host));
    assert_true(fabsf(host[0] - want) <= want / 1024);
    read_values(&got, t.net, true);
    expect_same_on_all(&got);
    assert_ok(ph_tape_clear(tape));
    close_training(&t);
}

static ph_tensor *fixed[2];

static ph_status rounded_step(ph_stream *stream, void *user)
{
    training *t = user;
    (void)stream;
    ph_optimizer_zero_grad(tape, t->optimizer);
    ph_data_parallel_backward(tape, t->parallel, new_loss_of(t, fixed[0], fixed[1]));
    ph_optimizer_step(tape, t->optimizer);
    return ph_tape_clear(tape);
}

TEST(rounded_passes_are_the_same_when_replayed)
{
    const ph_data_parallel_options options = {.reduce_dtype = PH_DTYPE_BF16};
    static values after[2];
    for (int i = 0; i < 2; i++) {
        assert_ok(
            ph_tensor_create(&fixed[i], team.device, PH_DTYPE_F32, PH_SHAPE(ROWS, i ? OUT : IN)));
        ph_tensor_fill(tape, fixed[i], 0.25 + team.rank);
    }
    for (int graphed = 0; graphed < 2; graphed++) {
        ph_graph *graph;
        training t;
        open_training(&t, &options);
        assert_ok(ph_graph_create(&graph, NULL));
        assert_ok(rounded_step(team.stream, &t));
        if (graphed)
            assert_ok(ph_graph_capture(graph, team.stream, NULL, rounded_step, &t));
        for (int i = 0; i < 5; i++)
            assert_ok(graphed ? ph_graph_replay(graph, team.stream)
                              : rounded_step(team.stream, &t));
        read_values(&after[graphed], t.net, false);
        assert_ok(ph_graph_reset(graph));
        ph_graph_destroy(graph);
        close_training(&t);
    }
    expect_same_on_all(&after[0]);
    assert_memory_equal(&after[0], &after[1], sizeof after[0]);
    ph_tensor_release(fixed[0]);
    ph_tensor_release(fixed[1]);
}

/* ---- ranks that run out of inputs ---- */
/* Rank r has 1 + 2r batches in each of two epochs. */
static int batches_of(unsigned rank)
{
    return 1 + 2 * (int)rank;
}

static void run_epoch(const training *t, int epoch, int *joined)
{
    int passes = 0;
    bool passed = true;
    for (; passes < batches_of(team.rank); passes++) {
        ph_data_parallel_backward(tape, t->parallel,
                                  new_loss(t, team.rank, 1, 100 * epoch + passes));
        step_optimizer(t);
    }
    for (; passed; *joined += passed) {
        assert_ok(ph_data_parallel_join(&passed, tape, t->parallel));
        if (passed)
            step_optimizer(t);
    }
}

/* One rank that has the batches of those that have one. */
static void run_epoch_alone(const training *t, int epoch, bool divide_by_active)
{
    for (int step = 0; step < batches_of(team.size - 1); step++) {
        unsigned first = 0;
        while (batches_of(first) <= step)
            first++;
        unsigned active = team.size - first;
        double share = divide_by_active ? 1 : (double)active / team.size;
        ph_tensor *loss = new_loss(t, first, active, 100 * epoch + step);
        ph_backward(tape, ph_mul_scalar(tape, loss, share));
        step_optimizer(t);
    }
}

static void expect_uneven(const ph_data_parallel_options *options)
{
    static values together, alone;
    training t, one;
    int joined = 0;
    open_training(&t, options);
    open_training(&one, NULL);
    for (int epoch = 0; epoch < 2; epoch++) {
        run_epoch(&t, epoch, &joined);
        run_epoch_alone(&one, epoch, options->divide_by_active);
    }
    assert_int_equal(joined, 2 * (batches_of(team.size - 1) - batches_of(team.rank)));
    read_values(&together, t.net, false);
    read_values(&alone, one.net, false);
    expect_same_on_all(&together);
    expect_near(&together, &alone, options->reduce_dtype ? 2e-2F : 1e-4F);
    close_training(&t);
    close_training(&one);
}

/* Parameters and the optimizer's moments stay the same on all, so the second epoch is right too. */
TEST(ranks_without_inputs_step_as_the_others_do)
{
    expect_uneven(&(ph_data_parallel_options){.uneven_inputs = true});
    expect_uneven(&(ph_data_parallel_options){.uneven_inputs = true, .divide_by_active = true});
    expect_uneven(&(ph_data_parallel_options){
        .uneven_inputs = true, .divide_by_active = true, .bucket_bytes = 128});
    expect_uneven(&(ph_data_parallel_options){
        .uneven_inputs = true, .divide_by_active = true, .reduce_dtype = PH_DTYPE_BF16});
}

/* Gradients of micro-batches that were not reduced yet are part of the next pass. */
TEST(gradients_of_a_rank_that_joins_count)
{
    const ph_data_parallel_options options = {.uneven_inputs = true};
    static values got, want;
    training t[2];
    bool passed;
    for (int k = 0; k < 2; k++) {
        open_training(&t[k], &options);
        bool joins = k == 0 && team.rank == 0;
        ph_data_parallel_set_sync(t[k].parallel, !joins);
        ph_data_parallel_backward(tape, t[k].parallel, new_loss(&t[k], team.rank, 1, 7));
        ph_data_parallel_set_sync(t[k].parallel, true);
        if (joins)
            assert_ok(ph_data_parallel_join(&passed, tape, t[k].parallel));
        assert_ok(ph_tape_clear(tape));
    }
    read_values(&got, t[0].net, true);
    read_values(&want, t[1].net, true);
    expect_same_on_all(&got);
    expect_near(&got, &want, 1e-6F);
    close_training(&t[0]);
    close_training(&t[1]);
}

int main(void)
{
#define IN_TEAM(name) cmocka_unit_test_setup_teardown(name, open_team, close_team)
    const struct CMUnitTest tests[] = {
        IN_TEAM(gradients_are_rounded_on_their_way_and_equal_on_all_ranks),
        IN_TEAM(gradients_are_divided_before_they_are_rounded),
        IN_TEAM(rounded_passes_are_the_same_when_replayed),
        IN_TEAM(ranks_without_inputs_step_as_the_others_do),
        IN_TEAM(gradients_of_a_rank_that_joins_count),
    };
    return t_ranks(tests);
}
