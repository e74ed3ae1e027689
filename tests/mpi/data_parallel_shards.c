/* SPDX-License-Identifier: MIT */
/* Optimizers whose state is spread over the ranks: the same results as with all of it on each. */
#include "shard_training.h"
#include <stdio.h>
#include <unistd.h>

static void train(values *out, const ph_data_parallel_options *options, bool sgd, bool graphed,
                  double most)
{
    training t;
    open_training(&t, options, sgd);
    t.most = most;
    run_steps(&t, 0, STEPS, graphed);
    read_values(out, t.net, false);
    expect_same_on_all(out);
    close_training(&t);
}

TEST(steps_are_those_without_shards_to_the_bit)
{
    static values whole, shards;
    for (int i = 0; i < 8; i++) {
        ph_data_parallel_options options = {.bucket_bytes = i & 1 ? 256 : 0,
                                            .reduce_dtype = i & 4 ? PH_DTYPE_BF16 : 0};
        bool sgd = i & 2;
        train(&whole, &options, sgd, false, 0);
        options.shard_optimizer = true;
        train(&shards, &options, sgd, false, 0);
        assert_memory_equal(&whole, &shards, sizeof whole);
        train(&shards, &options, sgd, true, 0);
        assert_memory_equal(&whole, &shards, sizeof whole);
    }
}

/* The squares are added in another order. */
TEST(gradients_are_clipped_by_the_norm_over_all_ranks)
{
    static values whole, shards, replayed;
    const ph_data_parallel_options plain = {.bucket_bytes = 256},
                                   sharded = {.bucket_bytes = 256, .shard_optimizer = true};
    train(&whole, &plain, true, false, 0.01);
    train(&shards, &sharded, true, false, 0.01);
    train(&replayed, &sharded, true, true, 0.01);
    expect_near(&whole, &shards, 1e-5F);
    assert_memory_equal(&shards, &replayed, sizeof shards);
    train(&shards, &sharded, true, false, 0);
    assert_true(memcmp(&shards, &replayed, sizeof shards) != 0);
}

static void read_norm(float *norm, const training *t)
{
    fill_batch(t, 5);
    pass(t);
    ph_tensor *total = ph_data_parallel_clip_grad_norm(tape, t->parallel, 100);
    assert_ok(ph_tape_status(tape));
    assert_ok(ph_tensor_read(tape, total, norm, sizeof *norm));
    assert_ok(ph_tape_clear(tape));
}

TEST(the_norm_is_that_of_the_whole_gradient)
{
    const ph_data_parallel_options sharded = {.shard_optimizer = true};
    float norms[2];
    for (int i = 0; i < 2; i++) {
        training t;
        open_training(&t, i ? &sharded : NULL, true);
        read_norm(&norms[i], &t);
        close_training(&t);
    }
    assert_true(norms[0] > 0 && fabsf(norms[0] - norms[1]) <= norms[0] * 1e-6F);
}

/* ---- parts ---- */
static bool count_elements(const char *name, ph_tensor *x, void *user)
{
    (void)name;
    *(int64_t *)user += ph_tensor_count(x);
    return true;
}

static bool expect_prefix(const char *name, ph_tensor *x, void *user)
{
    char prefix[32];
    (void)x;
    (void)user;
    snprintf(prefix, sizeof prefix, "shard_%u_of_%u.", team.rank, team.size);
    assert_memory_equal(name, prefix, strlen(prefix));
    return true;
}

/* Each element is one rank's, and the largest part is little larger than the others. */
TEST(each_element_is_stepped_by_one_rank)
{
    const ph_data_parallel_options options = {.bucket_bytes = 256, .shard_optimizer = true};
    int64_t all = 0, mine = 0, sum, largest;
    training t;
    open_training(&t, &options, false);
    ph_module_parameters(t.net, count_elements, &all);
    ph_module_parameters(ph_data_parallel_shards(t.parallel), count_elements, &mine);
    ph_module_parameters(ph_data_parallel_shards(t.parallel), expect_prefix, NULL);
    ph_tensor *count = ph_full(tape, PH_DTYPE_I64, PH_SHAPE(1), (double)mine);
    ph_tensor *total = ph_tensor_all_reduce(tape, team.comm, count, PH_REDUCE_SUM);
    ph_tensor *most = ph_tensor_all_reduce(tape, team.comm, count, PH_REDUCE_MAX);
    assert_ok(ph_tensor_read(tape, total, &sum, sizeof sum));
    assert_ok(ph_tensor_read(tape, most, &largest, sizeof largest));
    assert_int_equal(sum, all);
    assert_true(mine > 0 && largest < all);
    assert_ok(ph_tape_clear(tape));
    close_training(&t);
}

/* ---- agreement ---- */
TEST(an_infinity_in_one_part_makes_all_ranks_skip_the_step)
{
    static values before, after;
    const ph_data_parallel_options options = {.bucket_bytes = 256, .shard_optimizer = true};
    double scale;
    training t;
    open_training(&t, &options, false);
    assert_ok(ph_grad_scaler_create(&t.scaler, team.device, NULL));
    read_values(&before, t.net, false);
    for (int i = 0; i < 2; i++) {
        fill_batch(&t, i);
        if (i == 0 && team.rank == team.size - 1)
            ph_tensor_fill(tape, ph_select(tape, t.x, 0, 0), INFINITY);
        assert_ok(step(team.stream, &t));
        assert_ok(ph_grad_scaler_get_scale(&scale, tape, t.scaler));
        assert_true(scale == 32768);
        read_values(&after, t.net, false);
        expect_same_on_all(&after);
        assert_true((memcmp(&before, &after, sizeof before) == 0) == (i == 0));
    }
    close_training(&t);
}

TEST(ranks_without_inputs_step_their_parts)
{
    static values got;
    const ph_data_parallel_options options = {.shard_optimizer = true, .uneven_inputs = true};
    bool passed = true;
    training t;
    open_training(&t, &options, false);
    run_steps(&t, 0, 1 + (int)team.rank, false);
    while (passed) {
        ph_optimizer_zero_grad(tape, t.optimizer);
        assert_ok(ph_data_parallel_join(&passed, tape, t.parallel));
        if (passed) {
            ph_optimizer_step(tape, t.optimizer);
            ph_data_parallel_gather(tape, t.parallel);
        }
        assert_ok(ph_tape_clear(tape));
    }
    read_values(&got, t.net, false);
    expect_same_on_all(&got);
    close_training(&t);
}

/* ---- files ---- */
/* The same folder on all ranks, which have one parent. */
static void name_file(char *out, size_t size, const char *kind, unsigned rank)
{
    snprintf(out, size, "/tmp/phonograph-shards-%d-%u-%s", (int)getppid(), rank % team.size, kind);
}

TEST(each_rank_saves_and_loads_its_own_state)
{
    static values straight, again;
    const ph_data_parallel_options options = {.shard_optimizer = true};
    char model[64], own[64], others[64];
    training t;
    name_file(model, sizeof model, "model", team.rank);
    name_file(own, sizeof own, "state", team.rank);
    name_file(others, sizeof others, "state", team.rank + 1);
    open_training(&t, &options, false);
    run_steps(&t, 0, 3, false);
    assert_ok(ph_module_save(t.net, model));
    assert_ok(ph_optimizer_save(t.optimizer, own));
    run_steps(&t, 3, 6, true);
    read_values(&straight, t.net, false);
    close_training(&t);
    open_training(&t, &options, false);
    assert_ok(ph_module_load(t.net, model, NULL));
    ph_data_parallel_gather(tape, t.parallel);
    assert_ok(ph_optimizer_load(t.optimizer, own));
    run_steps(&t, 3, 6, true);
    read_values(&again, t.net, false);
    assert_memory_equal(&straight, &again, sizeof again);
    assert_ok(ph_comm_barrier(team.comm, 0));
    assert_true(ph_optimizer_load(t.optimizer, others) != PH_OK);
    assert_non_null(strstr(ph_error_last()->message, "shard_"));
    assert_ok(ph_comm_barrier(team.comm, 0));
    close_training(&t);
    unlink(model);
    unlink(own);
}

/* ---- misuse ---- */
static void expect_tape(ph_status status, const char *part)
{
    assert_error(ph_tape_clear(tape), status, part);
}

TEST(calls_that_would_be_of_a_part_are_refused)
{
    const ph_data_parallel_options options = {.shard_optimizer = true};
    ph_optimizer *optimizer;
    training t;
    open_training(&t, &options, false);
    fill_batch(&t, 0);
    pass(&t);
    assert_ok(ph_tape_clear(tape));
    assert_null(ph_tensor_grad(ph_module_parameter(t.net, "0.weight")));
    assert_null(ph_clip_grad_norm(tape, t.net, 1, NULL));
    expect_tape(PH_ERROR_STATE, "0.weight is that of its shards");
    ph_clip_grad_value(tape, t.net, 1);
    expect_tape(PH_ERROR_STATE, "is that of its shards");
    assert_null(ph_clip_grad_norm(tape, stepped(&t), 1, NULL));
    expect_tape(PH_ERROR_STATE, "is a part of it");
    assert_null(ph_optimizer_clip_grad_norm(tape, t.optimizer, 1, NULL));
    expect_tape(PH_ERROR_STATE, "call ph_data_parallel_clip_grad_norm");
    assert_error(ph_adam_create(&optimizer, t.net, NULL), PH_ERROR_STATE,
                 "give the optimizer ph_data_parallel_shards");
    assert_null(ph_call(tape, stepped(&t), t.x));
    expect_tape(PH_ERROR_STATE, "cannot be called");
    assert_null(ph_data_parallel_clip_grad_norm(tape, t.parallel, -1));
    expect_tape(PH_ERROR_ARGUMENT, "max_norm is -1");
    pass(&t);
    expect_tape(PH_ERROR_STATE, "still have the gradients of the last pass");
    ph_optimizer_step(tape, t.optimizer);
    ph_optimizer_zero_grad(tape, t.optimizer);
    pass(&t);
    expect_tape(PH_ERROR_STATE, "changed since the last ph_data_parallel_gather");
    ph_data_parallel_gather(tape, t.parallel);
    pass(&t);
    assert_ok(ph_tape_clear(tape));
    ph_data_parallel_destroy(t.parallel);
    t.parallel = NULL;
    assert_ok(ph_adam_create(&optimizer, t.net, NULL));
    ph_optimizer_destroy(optimizer);
    close_training(&t);
}

TEST(a_network_with_fewer_elements_than_ranks_take_is_refused)
{
    const ph_data_parallel_options options = {.shard_optimizer = true};
    ph_data_parallel *parallel;
    ph_module *small;
    assert_ok(
        ph_linear_create_with(&small, team.device, 2, 1, &(ph_layer_options){.no_bias = true}));
    assert_error(ph_data_parallel_create(&parallel, small, team.comm, &options), PH_ERROR_ARGUMENT,
                 "would have no element");
    assert_null(parallel);
    ph_module_release(small);
}

int main(void)
{
#define IN_TEAM(name) cmocka_unit_test_setup_teardown(name, open_team, close_team)
    const struct CMUnitTest tests[] = {
        IN_TEAM(steps_are_those_without_shards_to_the_bit),
        IN_TEAM(gradients_are_clipped_by_the_norm_over_all_ranks),
        IN_TEAM(the_norm_is_that_of_the_whole_gradient),
        IN_TEAM(each_element_is_stepped_by_one_rank),
        IN_TEAM(an_infinity_in_one_part_makes_all_ranks_skip_the_step),
        IN_TEAM(ranks_without_inputs_step_their_parts),
        IN_TEAM(each_rank_saves_and_loads_its_own_state),
        IN_TEAM(calls_that_would_be_of_a_part_are_refused),
        IN_TEAM(a_network_with_fewer_elements_than_ranks_take_is_refused),
    };
    return t_ranks(tests);
}
