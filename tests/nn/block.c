/* SPDX-License-Identifier: MIT */
/* tests/nn/block.c: the transformer block against a float64 reference; its names, its gradients
 * by differences, what it refuses. */
#include "base/rng.h"
#include "support/nets.h"
#include "support/test.h"
#include <math.h>

enum {
    BATCH = 2,
    TIME = 5,
    WIDTH = 8,
    HEADS = 2,
    SIZE = BATCH * TIME * WIDTH,
    PARTS = 12
};

/* Parameters in the order of the walk. */
static const struct part {
    const char *name;
    int rows, columns; /* columns 0: a vector */
} parts[PARTS] = {
    {"norm1.weight", WIDTH, 0},          {"norm1.bias", WIDTH, 0},
    {"qkv.weight", 3 * WIDTH, WIDTH},    {"qkv.bias", 3 * WIDTH, 0},
    {"projection.weight", WIDTH, WIDTH}, {"projection.bias", WIDTH, 0},
    {"norm2.weight", WIDTH, 0},          {"norm2.bias", WIDTH, 0},
    {"up.weight", 4 * WIDTH, WIDTH},     {"up.bias", 4 * WIDTH, 0},
    {"down.weight", WIDTH, 4 * WIDTH},   {"down.bias", WIDTH, 0},
};
typedef struct weights {
    double at[PARTS][4 * WIDTH * WIDTH];
} weights;

static int count_of(int part)
{
    return parts[part].rows * (parts[part].columns ? parts[part].columns : 1);
}

/* ---- the reference ---- */
static void ref_norm(double *y, const double *x, const double *weight, const double *bias)
{
    double mean = 0, variance = 0;
    for (int i = 0; i < WIDTH; i++)
        mean += x[i] / WIDTH;
    for (int i = 0; i < WIDTH; i++)
        variance += (x[i] - mean) * (x[i] - mean) / WIDTH;
    for (int i = 0; i < WIDTH; i++)
        y[i] = (x[i] - mean) / sqrt(variance + 1e-5) * weight[i] + bias[i];
}

static void ref_linear(double *y, const double *x, const double *weight, const double *bias, int in,
                       int out)
{
    for (int o = 0; o < out; o++) {
        y[o] = bias[o];
        for (int i = 0; i < in; i++)
            y[o] += weight[o * in + i] * x[i];
    }
}

/* One row's mixture of the values of the rows that it sees. */
static void ref_attend(double *y, double (*qkv)[3 * WIDTH], int row, int seen)
{
    enum {
        D = WIDTH / HEADS
    };
    for (int h = 0; h < HEADS; h++) {
        double score[TIME], total = 0;
        for (int j = 0; j < seen; j++) {
            double dot = 0;
            for (int d = 0; d < D; d++)
                dot += qkv[row][h * D + d] * qkv[j][WIDTH + h * D + d];
            total += score[j] = exp(dot / sqrt(D));
        }
        for (int d = 0; d < D; d++) {
            y[h * D + d] = 0;
            for (int j = 0; j < seen; j++)
                y[h * D + d] += score[j] / total * qkv[j][2 * WIDTH + h * D + d];
        }
    }
}

static double ref_gelu(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static void ref_block(double *out, const double *in, const weights *w, bool causal)
{
    for (int b = 0; b < BATCH; b++) {
        double qkv[TIME][3 * WIDTH], normed[WIDTH], mixed[WIDTH], hidden[4 * WIDTH];
        const double *x = in + b * TIME * WIDTH;
        double *y = out + b * TIME * WIDTH;
        for (int t = 0; t < TIME; t++) {
            ref_norm(normed, x + t * WIDTH, w->at[0], w->at[1]);
            ref_linear(qkv[t], normed, w->at[2], w->at[3], WIDTH, 3 * WIDTH);
        }
        for (int t = 0; t < TIME; t++) {
            double *row = y + t * WIDTH, middle[WIDTH];
            ref_attend(mixed, qkv, t, causal ? t + 1 : TIME);
            ref_linear(row, mixed, w->at[4], w->at[5], WIDTH, WIDTH);
            for (int i = 0; i < WIDTH; i++)
                middle[i] = row[i] += x[t * WIDTH + i];
            ref_norm(normed, middle, w->at[6], w->at[7]);
            ref_linear(hidden, normed, w->at[8], w->at[9], WIDTH, 4 * WIDTH);
            for (int i = 0; i < 4 * WIDTH; i++)
                hidden[i] = ref_gelu(hidden[i]);
            ref_linear(row, hidden, w->at[10], w->at[11], 4 * WIDTH, WIDTH);
            for (int i = 0; i < WIDTH; i++)
                row[i] += middle[i];
        }
    }
}

/* ---- the block with random weights ---- */
typedef struct scene {
    t_scene s;
    ph_module *block;
    weights w;
    double x[SIZE];
    ph__rng rng;
} scene;

static double uniform(scene *c)
{
    return (double)(ph__rng_next(&c->rng) >> 11) * 0x1p-53 * 2 - 1;
}

static void open_scene(scene *c, const ph_block_options *options)
{
    c->rng.state = 3;
    t_scene_open(&c->s);
    assert_ok(ph_transformer_block_create(&c->block, c->s.device, WIDTH, HEADS, options));
    for (int k = 0; k < PARTS; k++) {
        float values[4 * WIDTH * WIDTH];
        for (int i = 0; i < count_of(k); i++)
            c->w.at[k][i] = (double)(values[i] = (float)(0.5 * uniform(c)));
        ph_tensor *x = ph_module_parameter(c->block, parts[k].name);
        if (x)
            assert_ok(ph_tensor_write(c->s.tape, x, values, ph_tensor_bytes(x)));
        for (int i = 0; !x && i < count_of(k); i++)
            c->w.at[k][i] = 0;
    }
    for (int i = 0; i < SIZE; i++)
        c->x[i] = (double)(float)uniform(c);
    assert_ok(ph_stream_synchronize(c->s.stream));
}

static void close_scene(scene *c)
{
    assert_ok(ph_tape_clear(c->s.tape));
    ph_module_release(c->block);
    t_scene_close(&c->s);
}

static ph_tensor *input_of(const scene *c)
{
    float values[SIZE];
    for (int i = 0; i < SIZE; i++)
        values[i] = (float)c->x[i];
    return ph_from_memory(c->s.tape, PH_DTYPE_F32, PH_SHAPE(BATCH, TIME, WIDTH), values);
}

static void expect_block(scene *c, bool causal)
{
    double want[SIZE];
    float got[SIZE];
    ref_block(want, c->x, &c->w, causal);
    ph_tensor *y = ph_call(c->s.tape, c->block, input_of(c));
    assert_ok(ph_tape_status(c->s.tape));
    assert_ok(ph_tensor_read(c->s.tape, y, got, sizeof got));
    for (int i = 0; i < SIZE; i++)
        if (!(fabs((double)got[i] - want[i]) <= 2e-6 * (1 + fabs(want[i]))))
            fail_msg("element %d is %.9g, expected %.9g", i, (double)got[i], want[i]);
}

TEST(a_block_matches_the_reference_with_each_option)
{
    static scene c;
    const ph_block_options options[] = {{.dropout = 0}, {.not_causal = true}, {.no_bias = true}};
    for (int i = 0; i < 3; i++) {
        open_scene(&c, &options[i]);
        expect_block(&c, !options[i].not_causal);
        close_scene(&c);
    }
}

/* sum(y * r) for fixed r. */
static double ref_loss(const scene *c, const double *r)
{
    double y[SIZE], sum = 0;
    ref_block(y, c->x, &c->w, true);
    for (int i = 0; i < SIZE; i++)
        sum += y[i] * r[i];
    return sum;
}

TEST(gradients_of_a_block_match_differences)
{
    static scene c;
    double r[SIZE];
    float values[SIZE], grad[4 * WIDTH * WIDTH];
    open_scene(&c, NULL);
    ph_tape *tape = c.s.tape;
    for (int i = 0; i < SIZE; i++)
        r[i] = (double)(values[i] = (float)uniform(&c));
    ph_tensor *factors = ph_from_memory(tape, PH_DTYPE_F32, PH_SHAPE(BATCH, TIME, WIDTH), values);
    ph_backward(tape, ph_sum(tape, ph_mul(tape, ph_call(tape, c.block, input_of(&c)), factors)));
    assert_ok(ph_tape_status(tape));
    for (int k = 0; k < PARTS; k++) {
        ph_tensor *g = ph_tensor_grad(ph_module_parameter(c.block, parts[k].name));
        assert_non_null(g);
        assert_ok(ph_tensor_read(tape, g, grad, ph_tensor_bytes(g)));
        for (int i = 0; i < count_of(k); i++) {
            double kept = c.w.at[k][i], h = 1e-5;
            c.w.at[k][i] = kept + h;
            double up = ref_loss(&c, r);
            c.w.at[k][i] = kept - h;
            double want = (up - ref_loss(&c, r)) / (2 * h);
            c.w.at[k][i] = kept;
            if (!(fabs((double)grad[i] - want) <= 2e-5 * (1 + fabs(want))))
                fail_msg("gradient of %s, element %d, is %.9g, expected %.9g", parts[k].name, i,
                         (double)grad[i], want);
        }
    }
    close_scene(&c);
}

typedef struct listing {
    int next;
} listing;

static bool compare(const char *name, ph_tensor *x, void *user)
{
    listing *l = user;
    assert_string_equal(name, parts[l->next].name);
    assert_int_equal(ph_tensor_dim(x, 0), parts[l->next].rows);
    assert_int_equal(ph_tensor_rank(x), parts[l->next].columns ? 2 : 1);
    assert_true(ph_tensor_requires_grad(x));
    l->next++;
    return true;
}

TEST(parameters_of_a_block_have_their_names)
{
    static scene c;
    listing l = {0};
    open_scene(&c, NULL);
    assert_string_equal(ph_module_name(c.block), "transformer_block");
    ph_module_parameters(c.block, compare, &l);
    assert_int_equal(l.next, PARTS);
    assert_string_equal(ph_module_name(ph_module_child(c.block, "dropout")), "dropout");
    close_scene(&c);
}

/* Dropout works in training, and is away in evaluation. */
TEST(dropout_of_a_block_acts_in_training_alone)
{
    static scene c;
    float a[SIZE], b[SIZE];
    open_scene(&c, &(ph_block_options){.dropout = 0.5});
    ph_tensor *y = ph_call(c.s.tape, c.block, input_of(&c)),
              *z = ph_call(c.s.tape, c.block, input_of(&c));
    assert_ok(ph_tensor_read(c.s.tape, y, a, sizeof a));
    assert_ok(ph_tensor_read(c.s.tape, z, b, sizeof b));
    assert_memory_not_equal(a, b, sizeof a);
    ph_module_train(c.block, false);
    expect_block(&c, true);
    close_scene(&c);
}

static ph_status step(ph_stream *stream, void *user)
{
    scene *c = user;
    ph_tape *tape = c->s.tape;
    (void)stream;
    ph_tensor *x = ph_module_parameter(c->block, "norm1.weight");
    ph_tensor *in = ph_expand(tape, ph_detach(tape, x), PH_SHAPE(BATCH, TIME, WIDTH));
    ph_backward(tape, ph_sum(tape, ph_call(tape, c->block, in)));
    return ph_tape_clear(tape);
}

/* Eager, captured and replayed: the same gradients to the bit. */
TEST(a_replayed_block_gives_the_bits_of_an_eager_one)
{
    static scene c;
    static float eager[3 * WIDTH * WIDTH], replayed[3 * WIDTH * WIDTH];
    ph_graph *graph;
    open_scene(&c, NULL);
    ph_tensor *weight = ph_module_parameter(c.block, "qkv.weight");
    assert_ok(step(c.s.stream, &c));
    assert_ok(ph_tensor_read(c.s.tape, ph_tensor_grad(weight), eager, sizeof eager));
    ph_module_zero_grad(c.block);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, c.s.stream, NULL, step, &c));
    for (int i = 0; i < 3; i++) {
        assert_ok(ph_graph_replay(graph, c.s.stream));
        assert_ok(ph_tensor_read(c.s.tape, ph_tensor_grad(weight), replayed, sizeof replayed));
        assert_memory_equal(eager, replayed, sizeof eager);
    }
    ph_module_zero_grad(c.block);
    ph_graph_destroy(graph);
    close_scene(&c);
}

TEST(misuse_is_refused)
{
    static scene c;
    ph_module *block;
    ph_device *device;
    open_scene(&c, NULL);
    device = c.s.device;
    ph_block_options reserved = {.reserved = {1}}, bad = {.dropout = 2};
    assert_error(ph_transformer_block_create(NULL, device, 8, 2, NULL), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_transformer_block_create(&block, NULL, 8, 2, NULL), PH_ERROR_ARGUMENT,
                 "device");
    assert_error(ph_transformer_block_create(&block, device, 8, 3, NULL), PH_ERROR_ARGUMENT,
                 "3 does not divide 8");
    assert_error(ph_transformer_block_create(&block, device, 0, 1, NULL), PH_ERROR_ARGUMENT,
                 "heads");
    assert_error(ph_transformer_block_create(&block, device, 8, 0, NULL), PH_ERROR_ARGUMENT,
                 "heads");
    assert_error(ph_transformer_block_create(&block, device, 8, 2, &reserved), PH_ERROR_ARGUMENT,
                 "reserved");
    assert_error(ph_transformer_block_create(&block, device, 8, 2, &bad), PH_ERROR_ARGUMENT,
                 "probability");
    assert_null(block);
    assert_null(ph_call(c.s.tape, c.block, ph_zeros(c.s.tape, PH_DTYPE_F32, PH_SHAPE(3, WIDTH))));
    t_expect_failure(&c.s, PH_ERROR_ARGUMENT, "must be [batch, time, width], and has rank 2");
    assert_null(
        ph_call(c.s.tape, c.block, ph_zeros(c.s.tape, PH_DTYPE_F32, PH_SHAPE(1, 3, WIDTH + 1))));
    assert_status(ph_tape_clear(c.s.tape), PH_ERROR_ARGUMENT);
    close_scene(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_matches_the_reference_with_each_option),
        cmocka_unit_test(gradients_of_a_block_match_differences),
        cmocka_unit_test(parameters_of_a_block_have_their_names),
        cmocka_unit_test(dropout_of_a_block_acts_in_training_alone),
        cmocka_unit_test(a_replayed_block_gives_the_bits_of_an_eager_one),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
