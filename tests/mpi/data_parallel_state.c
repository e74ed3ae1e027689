/* SPDX-License-Identifier: MIT */
/* Optimizers of shards, saved as one file, which is that of an optimizer without shards. */
#include "shard_training.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The same on all ranks, which have one parent. */
static const char *name_file(const char *kind)
{
    static char names[4][64];
    static int next;
    char *name = names[next++ % 4];
    snprintf(name, sizeof names[0], "/tmp/phonograph-state-%d-%s", (int)getppid(), kind);
    return name;
}

static void meet(void)
{
    assert_ok(ph_comm_barrier(team.comm, 0));
}

static void remove_file(const char *name)
{
    meet();
    if (team.rank == 0)
        unlink(name);
    meet();
}

static char *read_file(const char *name, size_t *size)
{
    static char bytes[1 << 16];
    FILE *file = fopen(name, "rb");
    assert_non_null(file);
    *size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(*size > 0 && *size < sizeof bytes);
    char *copy = malloc(*size);
    assert_non_null(copy);
    return memcpy(copy, bytes, *size);
}

static void save_after(const char *name, const ph_data_parallel_options *options, bool sgd,
                       int steps)
{
    training t;
    open_training(&t, options, sgd);
    run_steps(&t, 0, steps, false);
    assert_ok(ph_data_parallel_save_optimizer(t.parallel, t.optimizer, name));
    close_training(&t);
}

TEST(a_saved_file_is_that_of_an_optimizer_without_shards)
{
    for (int i = 0; i < 8; i++) {
        ph_data_parallel_options options = {.bucket_bytes = i & 1 ? 256 : 0};
        const char *whole = name_file("whole"), *shards = name_file("shards");
        size_t sizes[2];
        save_after(whole, &options, i & 2, i & 4 ? 3 : 0);
        options.shard_optimizer = true;
        save_after(shards, &options, i & 2, i & 4 ? 3 : 0);
        char *want = read_file(whole, &sizes[0]), *got = read_file(shards, &sizes[1]);
        assert_int_equal(sizes[0], sizes[1]);
        assert_memory_equal(want, got, sizes[0]);
        free(want);
        free(got);
        remove_file(whole);
        remove_file(shards);
    }
}

static void save_both(const training *t, const char *model, const char *saved)
{
    if (team.rank == 0)
        assert_ok(ph_module_save(t->net, model));
    assert_ok(ph_data_parallel_save_optimizer(t->parallel, t->optimizer, saved));
}

static void load_both(const training *t, const char *model, const char *saved)
{
    assert_ok(ph_module_load(t->net, model, NULL));
    ph_data_parallel_gather(tape, t->parallel);
    assert_ok(ph_data_parallel_load_optimizer(t->parallel, t->optimizer, saved));
}

/* Buckets of another size give the ranks other parts. */
TEST(a_loaded_state_goes_on_where_it_was_saved)
{
    static values straight, again;
    const char *model = name_file("model"), *saved = name_file("state");
    for (int i = 0; i < 4; i++) {
        ph_data_parallel_options options = {.shard_optimizer = i != 1};
        training t;
        open_training(&t, &options, i == 3);
        run_steps(&t, 0, 3, false);
        save_both(&t, model, saved);
        run_steps(&t, 3, 6, false);
        read_values(&straight, t.net, false);
        close_training(&t);
        options = (ph_data_parallel_options){.shard_optimizer = true, .bucket_bytes = 256};
        open_training(&t, &options, i == 3);
        if (i & 2)
            run_steps(&t, 6, 9, true); /* state and steps that the load replaces */
        load_both(&t, model, saved);
        run_steps(&t, 3, 6, true);
        read_values(&again, t.net, false);
        expect_same_on_all(&again);
        assert_memory_equal(&straight, &again, sizeof again);
        close_training(&t);
        remove_file(model);
        remove_file(saved);
    }
}

TEST(an_older_graph_replays_with_the_loaded_state)
{
    static values straight, again;
    const char *model = name_file("model"), *saved = name_file("state");
    const ph_data_parallel_options options = {.shard_optimizer = true};
    training t;
    ph_graph *graph;
    open_training(&t, &options, false);
    run_steps(&t, 0, 2, false);
    save_both(&t, model, saved);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, team.stream, NULL, step, &t));
    for (int round = 0; round < 2; round++) {
        for (int i = 2; i < 5; i++) {
            fill_batch(&t, i);
            assert_ok(ph_graph_replay(graph, team.stream));
        }
        read_values(round ? &again : &straight, t.net, false);
        load_both(&t, model, saved);
    }
    assert_memory_equal(&straight, &again, sizeof again);
    ph_graph_destroy(graph);
    close_training(&t);
    remove_file(model);
    remove_file(saved);
}

/* ---- misuse ---- */
static void expect_step_kept(const training *t, uint64_t steps)
{
    uint64_t now;
    assert_ok(ph_optimizer_steps(&now, tape, t->optimizer));
    assert_int_equal(now, steps);
}

TEST(files_that_do_not_fit_are_refused_on_all_ranks)
{
    const ph_data_parallel_options options = {.shard_optimizer = true};
    const char *sgd = name_file("sgd"), *adam = name_file("adam");
    training t;
    ph_optimizer *amsgrad;
    save_after(sgd, &options, true, 1);
    open_training(&t, &options, false);
    run_steps(&t, 0, 1, false);
    assert_error(ph_data_parallel_load_optimizer(t.parallel, t.optimizer, sgd), PH_ERROR_MISMATCH,
                 "is missing");
    assert_ok(ph_adam_create(&amsgrad, stepped(&t), &(ph_adam_options){.amsgrad = true}));
    assert_ok(ph_data_parallel_save_optimizer(t.parallel, amsgrad, adam));
    assert_error(ph_data_parallel_load_optimizer(t.parallel, t.optimizer, adam), PH_ERROR_MISMATCH,
                 "max_exp_avg_sq is unexpected");
    ph_optimizer_destroy(amsgrad);
    ph_tensor *x = ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(2));
    const ph_named_tensor other = {"other.exp_avg", x};
    if (team.rank == 0)
        assert_ok(ph_safetensors_write(tape, adam, &other, 1));
    assert_ok(ph_tape_clear(tape));
    meet();
    assert_error(ph_data_parallel_load_optimizer(t.parallel, t.optimizer, adam), PH_ERROR_MISMATCH,
                 "other.exp_avg is unexpected");
    expect_step_kept(&t, 1);
    close_training(&t);
    remove_file(sgd);
    remove_file(adam);
}

TEST(a_rank_that_fails_fails_the_others)
{
    const ph_data_parallel_options options = {.shard_optimizer = true};
    const char *name = name_file("one");
    training t;
    open_training(&t, &options, false);
    run_steps(&t, 0, 2, false);
    assert_ok(ph_data_parallel_save_optimizer(t.parallel, t.optimizer, name));
    run_steps(&t, 2, 3, false);
    bool last = team.rank == team.size - 1;
    ph_status status =
        ph_data_parallel_load_optimizer(t.parallel, t.optimizer, last ? "/none/such" : name);
    assert_error(status, last ? PH_ERROR_IO : PH_ERROR_PEER, last ? "/none/such" : "failed");
    expect_step_kept(&t, 3);
    status = ph_data_parallel_save_optimizer(t.parallel, t.optimizer, "/none/such");
    assert_error(status, team.rank == 0 ? PH_ERROR_IO : PH_ERROR_PEER,
                 team.rank == 0 ? "/none/such" : "rank 0 failed");
    close_training(&t);
    remove_file(name);
}

TEST(optimizers_that_differ_are_refused)
{
    const ph_data_parallel_options options = {.shard_optimizer = true};
    const char *name = name_file("differs");
    training t;
    ph_module *other = new_net(1);
    ph_optimizer *optimizer;
    open_training(&t, &options, team.rank == 1);
    assert_error(ph_data_parallel_save_optimizer(t.parallel, t.optimizer, name), PH_ERROR_MISMATCH,
                 "rank 1 has an optimizer of kind");
    assert_ok(ph_sgd_create(&optimizer, other, &(ph_sgd_options){.lr = 1}));
    assert_error(ph_data_parallel_save_optimizer(t.parallel, optimizer, name), PH_ERROR_ARGUMENT,
                 "0.weight is no shard of this network");
    assert_error(ph_data_parallel_load_optimizer(t.parallel, optimizer, name), PH_ERROR_ARGUMENT,
                 "0.weight is no shard of this network");
    ph_optimizer_destroy(optimizer);
    close_training(&t);
    open_training(&t, &options, false);
    fill_batch(&t, 0);
    pass(&t);
    if (team.rank == 0)
        ph_optimizer_step(tape, t.optimizer);
    assert_ok(ph_tape_clear(tape));
    assert_error(ph_data_parallel_save_optimizer(t.parallel, t.optimizer, name), PH_ERROR_MISMATCH,
                 "have made different steps");
    close_training(&t);
    ph_module_release(other);
}

static ph_status save_in_capture(ph_stream *stream, void *user)
{
    const training *t = user;
    (void)stream;
    return ph_data_parallel_save_optimizer(t->parallel, t->optimizer, name_file("captured"));
}

static ph_status load_in_capture(ph_stream *stream, void *user)
{
    const training *t = user;
    (void)stream;
    return ph_data_parallel_load_optimizer(t->parallel, t->optimizer, name_file("captured"));
}

TEST(captures_refuse_both)
{
    const ph_data_parallel_options options = {.shard_optimizer = true};
    training t;
    ph_graph *graph;
    open_training(&t, &options, false);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_capture(graph, team.stream, NULL, save_in_capture, &t), PH_ERROR_CAPTURE,
                 "ph_data_parallel_save_optimizer");
    assert_ok(ph_graph_reset(graph));
    assert_error(ph_graph_capture(graph, team.stream, NULL, load_in_capture, &t), PH_ERROR_CAPTURE,
                 "ph_data_parallel_load_optimizer");
    ph_graph_destroy(graph);
    close_training(&t);
}

int main(void)
{
#define IN_TEAM(name) cmocka_unit_test_setup_teardown(name, open_team, close_team)
    const struct CMUnitTest tests[] = {
        IN_TEAM(a_saved_file_is_that_of_an_optimizer_without_shards),
        IN_TEAM(a_loaded_state_goes_on_where_it_was_saved),
        IN_TEAM(an_older_graph_replays_with_the_loaded_state),
        IN_TEAM(files_that_do_not_fit_are_refused_on_all_ranks),
        IN_TEAM(a_rank_that_fails_fails_the_others),
        IN_TEAM(optimizers_that_differ_are_refused),
        IN_TEAM(captures_refuse_both),
    };
    return t_ranks(tests);
}
