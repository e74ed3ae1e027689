/* SPDX-License-Identifier: MIT */
/* A small language model on several ranks: the same bits on all, eagerly and replayed, near those
 * of one rank that has the batches of all. */
#include "support/ranks.h"
#include "support/test.h"
#include <math.h>
#include <phonograph/nn.h>
#include <string.h>

enum {
    WORDS = 24,
    WIDTH = 32,
    HEADS = 4,
    TIME = 8,
    BATCH = 4, /* sequences, over all ranks */
    STEPS = 8,
    MOST = 40000 /* values of all parameters */
};
static t_team team;
static ph_tape *tape;

FIXTURE(open_team)
{
    t_team_open(&team, 20000);
    assert_ok(ph_tape_create(&tape, team.stream, NULL));
    return 0;
}

FIXTURE(close_team)
{
    ph_tape_destroy(tape);
    t_team_close(&team);
    return 0;
}

typedef struct training {
    ph_module *net;
    ph_data_parallel *parallel; /* NULL: one rank, whole batches */
    ph_optimizer *optimizer;
    ph_tensor *words, *next;
    int64_t sequences, first; /* of the batch */
} training;

typedef struct values {
    float at[MOST];
    size_t count;
} values;

static ph_module *new_model(void)
{
    ph_generator *generator;
    ph_module *parts[5], *net;
    assert_ok(ph_generator_create(&generator, team.device, 3));
    const ph_layer_options layer = {.generator = generator};
    const ph_block_options block = {.generator = generator};
    assert_ok(ph_embedding_create(&parts[0], team.device, WORDS, WIDTH, &layer));
    for (int i = 1; i < 3; i++)
        assert_ok(ph_transformer_block_create(&parts[i], team.device, WIDTH, HEADS, &block));
    assert_ok(ph_layer_norm_create(&parts[3], team.device, WIDTH, &layer));
    assert_ok(ph_linear_create_with(&parts[4], team.device, WIDTH, WORDS, &layer));
    assert_ok(ph_sequential_create(&net, parts, 5));
    for (size_t i = 0; i < 5; i++)
        ph_module_release(parts[i]);
    ph_generator_release(generator);
    return net;
}

static void open_training(training *t, bool alone, bool sharded)
{
    const ph_data_parallel_options options = {.bucket_bytes = 16 << 10, .shard_optimizer = sharded};
    /* Adam makes full steps of the rounding errors of gradients that are zero (of a key's bias) */
    const ph_sgd_options sgd = {.lr = 0.1, .momentum = 0.9};
    *t = (training){.net = new_model(), .sequences = alone ? BATCH : BATCH / (int64_t)team.size};
    t->first = alone ? 0 : t->sequences * (int64_t)team.rank;
    if (!alone)
        assert_ok(ph_data_parallel_create(&t->parallel, t->net, team.comm, &options));
    assert_ok(ph_sgd_create(&t->optimizer, sharded ? ph_data_parallel_shards(t->parallel) : t->net,
                            &sgd));
    assert_ok(ph_tensor_create(&t->words, team.device, PH_DTYPE_I64, PH_SHAPE(t->sequences, TIME)));
    assert_ok(ph_tensor_create(&t->next, team.device, PH_DTYPE_I64, PH_SHAPE(t->sequences * TIME)));
}

static void close_training(training *t)
{
    ph_data_parallel_destroy(t->parallel);
    ph_optimizer_destroy(t->optimizer);
    ph_module_release(t->net);
    ph_tensor_release(t->words);
    ph_tensor_release(t->next);
}

static int64_t word_at(int step, int64_t sequence, int64_t at)
{
    return (step * 7 + sequence * 5 + at * (sequence + 3)) % WORDS;
}

static void fill_batch(const training *t, int step)
{
    int64_t words[BATCH * TIME], next[BATCH * TIME];
    for (int64_t i = 0; i < t->sequences * TIME; i++) {
        words[i] = word_at(step, t->first + i / TIME, i % TIME);
        next[i] = word_at(step, t->first + i / TIME, i % TIME + 1);
    }
    assert_ok(ph_tensor_write(tape, t->words, words, ph_tensor_bytes(t->words)));
    assert_ok(ph_tensor_write(tape, t->next, next, ph_tensor_bytes(t->next)));
}

static ph_status step(ph_stream *stream, void *user)
{
    training *t = user;
    (void)stream;
    ph_optimizer_zero_grad(tape, t->optimizer);
    ph_tensor *scores = ph_call(tape, t->net, t->words);
    scores = ph_reshape(tape, scores, PH_SHAPE(t->sequences * TIME, WORDS));
    ph_tensor *loss = ph_cross_entropy(tape, scores, t->next);
    if (t->parallel)
        ph_data_parallel_backward(tape, t->parallel, loss);
    else
        ph_backward(tape, loss);
    ph_optimizer_step(tape, t->optimizer);
    if (t->parallel)
        ph_data_parallel_gather(tape, t->parallel);
    return ph_tape_clear(tape);
}

static bool read_one(const char *name, ph_tensor *x, void *user)
{
    values *v = user;
    (void)name;
    assert_true(v->count + (size_t)ph_tensor_count(x) <= MOST);
    assert_ok(ph_tensor_read(tape, x, v->at + v->count, ph_tensor_bytes(x)));
    v->count += (size_t)ph_tensor_count(x);
    return true;
}

static void train(values *out, bool alone, bool graphed, bool sharded)
{
    training t;
    ph_graph *graph;
    open_training(&t, alone, sharded);
    assert_ok(ph_graph_create(&graph, NULL));
    for (int i = 0; i < STEPS; i++) {
        fill_batch(&t, i);
        if (graphed && i == 1)
            assert_ok(ph_graph_capture(graph, team.stream, NULL, step, &t));
        assert_ok(graphed && i > 0 ? ph_graph_replay(graph, team.stream) : step(team.stream, &t));
    }
    *out = (values){.count = 0};
    ph_module_parameters(t.net, read_one, out);
    ph_graph_destroy(graph);
    close_training(&t);
}

static void expect_same_on_all(const values *v)
{
    ph_tensor *mine = ph_from_memory(tape, PH_DTYPE_F32, PH_SHAPE((int64_t)v->count), v->at);
    ph_tensor *roots = ph_tensor_broadcast(tape, team.comm, mine, 0);
    static float host[MOST];
    assert_ok(ph_tensor_read(tape, roots, host, v->count * sizeof *host));
    assert_memory_equal(host, v->at, v->count * sizeof *host);
    assert_ok(ph_tape_clear(tape));
}

TEST(a_language_model_trains_alike_on_all_ranks)
{
    static values eager, other, alone;
    train(&eager, false, false, false);
    expect_same_on_all(&eager);
    for (int i = 1; i < 4; i++) {
        train(&other, false, i & 1, i & 2);
        assert_memory_equal(&eager, &other, sizeof eager);
    }
    train(&alone, true, false, false);
    assert_int_equal(eager.count, alone.count);
    for (size_t i = 0; i < eager.count; i++)
        assert_true(fabsf(eager.at[i] - alone.at[i]) <= 1e-4F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(
        a_language_model_trains_alike_on_all_ranks, open_team, close_team)};
    return t_ranks(tests);
}
