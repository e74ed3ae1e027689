/* SPDX-License-Identifier: MIT */
/* The memory of data-parallel networks: graphs keep the buckets that they address, and optimizers
 * of shards have a part of the state. */
#include "shard_training.h"

enum {
    BLOCKS = 64,
    BLOCK = 512, /* bytes: what the allocator gives for a bucket */
    WIDTH = 256  /* of a layer whose state is large beside such blocks */
};

static uint64_t used_memory(void)
{
    ph_memory_stats stats;
    assert_ok(ph_device_synchronize(team.device));
    assert_ok(ph_memory_get_stats(&stats, team.device));
    return stats.active_bytes[PH_MEMORY_ALL].current;
}

/* ---- graphs ---- */
/* Blocks that would be the buckets' memory if those were free. */
static void take_blocks(void **blocks)
{
    ph_stream *stream = ph_memory_stream(team.device);
    for (int i = 0; i < BLOCKS; i++) {
        assert_ok(ph_malloc(&blocks[i], BLOCK, 1, stream));
        assert_ok(ph_memset(blocks[i], 0xA5, BLOCK, stream));
    }
    assert_ok(ph_stream_synchronize(stream));
}

static void give_blocks(void **blocks)
{
    static unsigned char host[BLOCK], want[BLOCK];
    ph_stream *stream = ph_memory_stream(team.device);
    memset(want, 0xA5, sizeof want);
    assert_ok(ph_device_synchronize(team.device));
    for (int i = 0; i < BLOCKS; i++) {
        t_read(host, blocks[i], BLOCK, stream);
        assert_memory_equal(host, want, BLOCK);
        ph_free(blocks[i], stream);
    }
}

static void capture_steps(ph_graph **graph, training *t, const ph_data_parallel_options *options)
{
    open_training(t, options, false);
    fill_batch(t, 0);
    assert_ok(step(team.stream, t));
    assert_ok(ph_graph_create(graph, NULL));
    assert_ok(ph_graph_capture(*graph, team.stream, NULL, step, t));
}

/* gone: the network is destroyed before the replays. */
static void replay_steps(values *out, const ph_data_parallel_options *options, bool gone)
{
    training t;
    ph_graph *graph;
    void *blocks[BLOCKS];
    capture_steps(&graph, &t, options);
    if (gone) {
        ph_optimizer_zero_grad(tape, t.optimizer);
        ph_data_parallel_destroy(t.parallel);
        ph_optimizer_destroy(t.optimizer);
        t.parallel = NULL;
        t.optimizer = NULL;
        take_blocks(blocks);
    }
    for (int i = 1; i < STEPS; i++) {
        fill_batch(&t, i);
        assert_ok(ph_graph_replay(graph, team.stream));
    }
    if (gone)
        give_blocks(blocks);
    read_values(out, t.net, false);
    expect_same_on_all(out);
    ph_graph_destroy(graph);
    close_training(&t);
}

TEST(graphs_keep_the_buckets_of_a_network_that_is_gone)
{
    static values want, got;
    for (int i = 0; i < 4; i++) {
        const ph_data_parallel_options options = {.bucket_bytes = 256,
                                                  .reduce_dtype = i & 1 ? PH_DTYPE_F16 : 0,
                                                  .shard_optimizer = i & 2};
        uint64_t before = used_memory();
        replay_steps(&want, &options, false);
        replay_steps(&got, &options, true);
        assert_memory_equal(&want, &got, sizeof got);
        assert_int_equal(used_memory(), before);
    }
}

/* ---- shards ---- */
/* Bytes that the first step of a layer's optimizer takes. */
static uint64_t state_memory(bool sharded)
{
    const ph_data_parallel_options options = {.shard_optimizer = sharded};
    ph_module *net;
    ph_data_parallel *parallel;
    ph_optimizer *optimizer;
    assert_ok(ph_linear_create(&net, team.device, WIDTH, WIDTH));
    assert_ok(ph_data_parallel_create(&parallel, net, team.comm, &options));
    assert_ok(ph_adam_create(&optimizer, sharded ? ph_data_parallel_shards(parallel) : net, NULL));
    ph_tensor *x = ph_full(tape, PH_DTYPE_F32, PH_SHAPE(1, WIDTH), team.rank);
    ph_data_parallel_backward(tape, parallel, ph_sum(tape, ph_call(tape, net, x)));
    assert_ok(ph_tape_clear(tape));
    uint64_t before = used_memory();
    ph_optimizer_step(tape, optimizer);
    assert_ok(ph_tape_clear(tape));
    uint64_t after = used_memory();
    ph_optimizer_destroy(optimizer);
    ph_data_parallel_destroy(parallel);
    ph_module_release(net);
    return after - before;
}

TEST(each_rank_has_its_part_of_the_state_alone)
{
    const uint64_t elements = (uint64_t)WIDTH * WIDTH + WIDTH, slack = UINT64_C(8) * BLOCK;
    uint64_t whole = state_memory(false), part = state_memory(true);
    assert_true(whole >= 2 * elements * sizeof(float));
    assert_true(part <= whole / team.size + slack);
}

int main(void)
{
#define IN_TEAM(name) cmocka_unit_test_setup_teardown(name, open_team, close_team)
    const struct CMUnitTest tests[] = {
        IN_TEAM(graphs_keep_the_buckets_of_a_network_that_is_gone),
        IN_TEAM(each_rank_has_its_part_of_the_state_alone),
    };
    return t_ranks(tests);
}
