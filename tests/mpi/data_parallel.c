/* SPDX-License-Identifier: MIT */
/* Networks on several ranks: gradients are the means over all, the same bits on each, eagerly and
 * replayed, whatever the buckets are. */
#include "training_net.h"

/* ---- training ---- */
typedef struct training {
    ph_module *net;
    ph_data_parallel *parallel; /* NULL: one rank, whole batches */
    ph_optimizer *optimizer;
    ph_tensor *x, *y;
} training;

static void fill_batch(const training *t, int step)
{
    float x[BATCH * IN], y[BATCH * OUT];
    size_t rows = t->parallel ? BATCH / team.size : BATCH,
           first = t->parallel ? team.rank * rows : 0;
    for (size_t i = 0; i < rows * IN; i++)
        x[i] = (float)(((first * IN + i) * 37 + (size_t)step * 11) % 23) / 11.0F - 1;
    for (size_t i = 0; i < rows * OUT; i++)
        y[i] = (float)(((first * OUT + i) * 17 + (size_t)step * 5) % 13) / 6.0F - 1;
    assert_ok(ph_tensor_write(tape, t->x, x, rows * IN * sizeof *x));
    assert_ok(ph_tensor_write(tape, t->y, y, rows * OUT * sizeof *y));
}

static ph_status step(ph_stream *stream, void *user)
{
    training *t = user;
    (void)stream;
    ph_optimizer_zero_grad(tape, t->optimizer);
    ph_tensor *loss = ph_mse(tape, ph_call(tape, t->net, t->x), t->y);
    if (t->parallel)
        ph_data_parallel_backward(tape, t->parallel, loss);
    else
        ph_backward(tape, loss);
    (void)ph_clip_grad_norm(tape, t->net, 0.5, NULL);
    ph_optimizer_step(tape, t->optimizer);
    return ph_tape_clear(tape);
}

static void open_training(training *t, bool alone, uint64_t bucket_bytes)
{
    const ph_data_parallel_options options = {.bucket_bytes = bucket_bytes};
    const ph_adam_options adam = {.lr = 0.02};
    int64_t rows = alone ? BATCH : BATCH / (int64_t)team.size;
    *t = (training){.net = new_net(alone ? 1 : 1 + team.rank)};
    if (!alone)
        assert_ok(ph_data_parallel_create(&t->parallel, t->net, team.comm, &options));
    assert_ok(ph_adam_create(&t->optimizer, t->net, &adam));
    assert_ok(ph_tensor_create(&t->x, team.device, PH_DTYPE_F32, PH_SHAPE(rows, IN)));
    assert_ok(ph_tensor_create(&t->y, team.device, PH_DTYPE_F32, PH_SHAPE(rows, OUT)));
}

static void close_training(training *t)
{
    ph_data_parallel_destroy(t->parallel);
    ph_optimizer_destroy(t->optimizer);
    ph_module_release(t->net);
    ph_tensor_release(t->x);
    ph_tensor_release(t->y);
}

/* The parameters after all steps. */
static void train(values *out, bool alone, bool graphed, uint64_t bucket_bytes)
{
    training t;
    ph_graph *graph;
    open_training(&t, alone, bucket_bytes);
    assert_ok(ph_graph_create(&graph, NULL));
    for (int i = 0; i < STEPS; i++) {
        fill_batch(&t, i);
        if (graphed && i == 1)
            assert_ok(ph_graph_capture(graph, team.stream, NULL, step, &t));
        assert_ok(graphed && i > 0 ? ph_graph_replay(graph, team.stream) : step(team.stream, &t));
    }
    read_values(out, t.net, false);
    ph_graph_destroy(graph);
    close_training(&t);
}

TEST(ranks_train_alike_eagerly_and_replayed)
{
    static values eager, replayed, small, alone;
    train(&eager, false, false, 0);
    train(&replayed, false, true, 0);
    train(&small, false, true, 256);
    train(&alone, true, false, 0);
    expect_same_on_all(&eager);
    assert_memory_equal(&eager, &replayed, sizeof eager);
    assert_memory_equal(&eager, &small, sizeof eager);
    expect_near(&eager, &alone, 1e-4F);
}

TEST(parameters_become_those_of_rank_0)
{
    static values mine, first;
    training t;
    ph_module *net = new_net(1);
    open_training(&t, false, 0);
    read_values(&mine, t.net, false);
    read_values(&first, net, false);
    assert_memory_equal(&mine, &first, sizeof mine);
    close_training(&t);
    ph_module_release(net);
}

static void pass(training *t, int number)
{
    fill_batch(t, number);
    ph_data_parallel_backward(tape, t->parallel, ph_mse(tape, ph_call(tape, t->net, t->x), t->y));
    assert_ok(ph_tape_clear(tape));
}

/* Each gradient stands in its bucket, at the same address in each step. */
TEST(gradients_are_views_of_the_buckets)
{
    training t;
    ph_data_parallel_info info;
    open_training(&t, false, 1);
    assert_ok(ph_data_parallel_get_info(&info, t.parallel));
    assert_int_equal(info.parameters, 4);
    assert_int_equal(info.buckets, 4);
    assert_true(info.bytes >= (IN * HIDDEN + HIDDEN + HIDDEN * OUT + OUT) * sizeof(float));
    ph_tensor *weight = ph_module_parameter(t.net, "0.weight");
    assert_non_null(weight);
    pass(&t, 0);
    const void *first = ph_tensor_data(ph_tensor_grad(weight));
    ph_module_zero_grad(t.net);
    pass(&t, 1);
    assert_ptr_equal(ph_tensor_data(ph_tensor_grad(weight)), first);
    close_training(&t);
}

/* Two micro-batches without sync and one with it give the mean of the sums. */
TEST(gradients_without_sync_stay_this_ranks)
{
    static values local, synced, each, want;
    training t;
    open_training(&t, false, 0);
    assert_true(ph_data_parallel_set_sync(t.parallel, false));
    pass(&t, 0);
    read_values(&local, t.net, true);
    assert_false(ph_data_parallel_set_sync(t.parallel, true));
    pass(&t, 1);
    read_values(&synced, t.net, true);
    expect_same_on_all(&synced);
    want = (values){.gradients = true};
    for (int i = 0; i < 2; i++) {
        ph_module_zero_grad(t.net);
        pass(&t, i);
        read_values(&each, t.net, true);
        for (size_t k = 0; k < each.count; k++)
            want.at[k] += each.at[k];
    }
    want.count = each.count;
    expect_near(&synced, &want, 1e-6F);
    assert_true(memcmp(&local, &each, sizeof local) != 0);
    close_training(&t);
}

/* x * w, and on all ranks but the last one plus w2 * w2: w2 is used twice, or not at all. */
typedef struct pair {
    ph_tensor *w, *w2;
} pair;

static void forward_pair(ph_tape *on, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const pair *p = self;
    out[0] = ph_mul(on, in[0], p->w);
    if (team.rank + 1 < team.size)
        out[0] = ph_add(on, out[0], ph_mul(on, p->w2, p->w2));
}

static ph_tensor *new_leaf(float value)
{
    ph_tensor *x;
    assert_ok(ph_tensor_create(&x, team.device, PH_DTYPE_F32, PH_SHAPE(2)));
    assert_ok(ph_tensor_write(tape, x, (float[]){value, value}, 8));
    assert_ok(ph_tensor_set_requires_grad(x, true));
    return x;
}

static void expect_values(const ph_tensor *x, float value)
{
    float host[2];
    assert_non_null(x);
    assert_ok(ph_tensor_read(tape, x, host, sizeof host));
    assert_true(fabsf(host[0] - value) < 1e-6F && fabsf(host[1] - value) < 1e-6F);
}

TEST(a_parameter_may_be_used_twice_on_one_rank_and_not_at_all_on_another)
{
    pair p = {new_leaf(3), new_leaf(5)};
    const ph_parameter parameters[] = {{"w", &p.w}, {"w2", &p.w2}};
    const ph_module_desc desc = {.name = "pair",
                                 .forward = forward_pair,
                                 .self = &p,
                                 .parameters = parameters,
                                 .parameter_count = 2};
    const ph_data_parallel_options options = {.bucket_bytes = 1};
    ph_module *module;
    ph_data_parallel *parallel;
    assert_ok(ph_module_create(&module, team.device, &desc));
    assert_ok(ph_data_parallel_create(&parallel, module, team.comm, &options));
    for (int i = 0; i < 2; i++) {
        float rank = (float)team.rank;
        ph_tensor *x = ph_from_memory(tape, PH_DTYPE_F32, PH_SHAPE(2), (float[]){rank, rank});
        ph_module_zero_grad(module);
        ph_data_parallel_backward(tape, parallel, ph_sum(tape, ph_call(tape, module, x)));
        assert_ok(ph_tape_clear(tape));
        float ranks = (float)team.size;
        expect_values(ph_tensor_grad(p.w), (ranks - 1) / 2);
        expect_values(ph_tensor_grad(p.w2), 10 * (ranks - 1) / ranks);
    }
    ph_data_parallel_destroy(parallel);
    ph_module_release(module);
    ph_tensor_release(p.w);
    ph_tensor_release(p.w2);
}

/* Its collectives may be fewer than those of the other ranks, whose next ones would meet others. */
TEST(a_pass_behind_one_that_failed_is_refused)
{
    training t;
    open_training(&t, false, 0);
    fill_batch(&t, 0);
    ph_data_parallel_backward(tape, t.parallel, ph_call(tape, t.net, t.x));
    assert_error(ph_tape_clear(tape), PH_ERROR_ARGUMENT, "more than one element");
    ph_tensor *loss = ph_mse(tape, ph_call(tape, t.net, t.x), t.y);
    ph_data_parallel_backward(tape, t.parallel, loss);
    if (team.size > 1)
        assert_error(ph_tape_clear(tape), PH_ERROR_STATE, "an earlier pass failed on this rank");
    else
        assert_ok(ph_tape_clear(tape));
    close_training(&t);
}

/* One rank has a gradient that is no number: all skip the step, and halve the scale. */
TEST(a_gradient_scaler_is_agreed_on)
{
    static values before, after;
    training t;
    ph_grad_scaler *scaler;
    double scale;
    open_training(&t, false, 0);
    assert_ok(ph_grad_scaler_create(&scaler, team.device, NULL));
    read_values(&before, t.net, false);
    fill_batch(&t, 0);
    if (team.rank == team.size - 1)
        ph_tensor_fill(tape, t.x, INFINITY);
    ph_tensor *loss = ph_mse(tape, ph_call(tape, t.net, t.x), t.y);
    ph_data_parallel_backward(tape, t.parallel, ph_grad_scaler_scale(tape, scaler, loss));
    ph_grad_scaler_step(tape, scaler, t.optimizer);
    ph_grad_scaler_update(tape, scaler);
    assert_ok(ph_tape_clear(tape));
    assert_ok(ph_grad_scaler_get_scale(&scale, tape, scaler));
    assert_true(scale == 32768);
    read_values(&after, t.net, false);
    assert_memory_equal(&before, &after, sizeof before);
    ph_grad_scaler_destroy(scaler);
    close_training(&t);
}

int main(void)
{
#define IN_TEAM(name) cmocka_unit_test_setup_teardown(name, open_team, close_team)
    const struct CMUnitTest tests[] = {
        IN_TEAM(ranks_train_alike_eagerly_and_replayed),
        IN_TEAM(parameters_become_those_of_rank_0),
        IN_TEAM(gradients_are_views_of_the_buckets),
        IN_TEAM(gradients_without_sync_stay_this_ranks),
        IN_TEAM(a_parameter_may_be_used_twice_on_one_rank_and_not_at_all_on_another),
        IN_TEAM(a_pass_behind_one_that_failed_is_refused),
        IN_TEAM(a_gradient_scaler_is_agreed_on),
    };
    return t_ranks(tests);
}
