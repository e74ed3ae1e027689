/* SPDX-License-Identifier: MIT */
/* tests/tensor/tf32.c: products and attention of f32 where TF32 is allowed: within its error of
 * a float64 reference, forward and backward; the same in a graph and its replays, to the bit;
 * and on the host device, which has no TF32, what they are without. */
#include "fake/fake_cuda.h"
#include "support/attention_reference.h"
#include "support/fused.h"
#include "support/op_check.h"
#include "support/tensors.h"
#include "support/test.h"
#include <stdio.h>

/* TF32 has 10 explicit bits of mantissa: an operand that is rounded to it is off by at most
 * 2^-11 of itself, and a product of two by 2^-10. Sums are of f32: 2^-20 is 16 roundings, which
 * is the root of the number of terms. */
#define UNIT (0x1p-10 + 0x1p-20)
static const t_units units = {UNIT, UNIT, 0x1p-24, 1e-7};

enum {
    MATMUL,
    LINEAR,
    ATTENTION,
    RESULTS = 4 /* the operator's, and the gradients of three operands */
};

typedef struct work {
    t_scene s;
    int kind;
    bool causal;
    ph_tensor *in[3], *g;
    ph_tensor *result[RESULTS]; /* of the last run; retained */
    double scale;               /* 0: the usual one */
    const char *form;           /* on a GPU, of attention; NULL: any */
    double *want[RESULTS], *bound[RESULTS];
} work;

static bool runs_on_the_processor(void)
{
    return t_on_host() || fake_cuda();
}

static ph_status run(ph_stream *stream, void *user)
{
    work *w = user;
    ph_tape *tape = w->s.tape;
    ph_tensor *out, *grads[3] = {NULL};
    (void)stream;
    if (w->kind == MATMUL)
        out = ph_matmul(tape, w->in[0], w->in[1]);
    else if (w->kind == LINEAR)
        out = ph_linear(tape, w->in[0], w->in[1], w->in[2]);
    else
        out = ph_attention(tape, w->in[0], w->in[1], w->in[2],
                           &(ph_attention_options){.causal = w->causal, .scale = w->scale});
    ph_grad(tape, grads, w->in, w->kind == MATMUL ? 2 : 3, &out, &w->g, 1, NULL);
    PH_TRY(ph_tape_status(tape));
    w->result[0] = ph_tensor_retain(out);
    for (int i = 0; i < 3; i++)
        w->result[1 + i] = grads[i] ? ph_tensor_retain(grads[i]) : NULL;
    return ph_tape_clear(tape);
}

static void drop_results(work *w)
{
    for (int i = 0; i < RESULTS; i++) {
        ph_tensor_release(w->result[i]);
        w->result[i] = NULL;
    }
}

static float *read_result(work *w, int i)
{
    size_t bytes = ph_tensor_bytes(w->result[i]);
    float *data = malloc(bytes + 8);
    assert_non_null(data);
    assert_ok(ph_tensor_read(w->s.tape, w->result[i], data, bytes));
    return data;
}

static void read_results(work *w, float *out[RESULTS])
{
    for (int i = 0; i < RESULTS; i++)
        out[i] = w->result[i] ? read_result(w, i) : NULL;
}

static void free_results(float *results[RESULTS])
{
    for (int i = 0; i < RESULTS; i++)
        free(results[i]);
}

static bool results_equal(work *w, float *const want[RESULTS])
{
    bool equal = true;
    for (int i = 0; i < RESULTS; i++) {
        if (!w->result[i])
            continue;
        float *got = read_result(w, i);
        equal = equal && memcmp(got, want[i], ph_tensor_bytes(w->result[i])) == 0;
        free(got);
    }
    return equal;
}

/* ---- what is asserted of each ---- */
static void check_bounds(const work *w, float *const got[RESULTS])
{
    static const char *const names[] = {"matmul", "linear", "attention"};
    for (int i = 0; i < RESULTS; i++)
        for (int64_t n = 0; w->result[i] && n < ph_tensor_count(w->result[i]); n++)
            if (!(fabs((double)got[i][n] - w->want[i][n]) <= w->bound[i][n]))
                fail_msg("%s: element %lld of result %d is %.9g, the reference %.9g, within %.3g",
                         names[w->kind], (long long)n, i, (double)got[i][n], w->want[i][n],
                         w->bound[i][n]);
}

static void check_graph(work *w, float *const eager[RESULTS])
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, w->s.stream, NULL, run, w));
    for (int replay = 0; replay < 3; replay++) {
        for (int i = 0; i < RESULTS; i++)
            if (w->result[i])
                assert_ok(ph_memset(ph_tensor_data(w->result[i]), 0xEE,
                                    ph_tensor_bytes(w->result[i]), w->s.stream));
        assert_ok(ph_graph_replay(graph, w->s.stream));
        assert_true(results_equal(w, eager));
    }
    static const char *const passes[] = {"forward", "queries", "keys"};
    for (size_t i = 0; w->form && !runs_on_the_processor() && i < 3; i++) {
        char name[80];
        (void)snprintf(name, sizeof name, "ph_attention_%s_tf32_%s", passes[i], w->form);
        assert_int_equal(t_count_named(graph, name), 1);
    }
    drop_results(w);
    ph_graph_destroy(graph);
}

/* On a GPU the switch is no empty one where the product is large. */
static void check(work *w, bool differs_on_a_gpu)
{
    float *eager[RESULTS];
    assert_false(ph_tf32());
    ph_set_tf32(true);
    assert_ok(run(w->s.stream, w));
    read_results(w, eager);
    check_bounds(w, eager);
    drop_results(w);
    check_graph(w, eager);
    ph_set_tf32(false);
    assert_ok(run(w->s.stream, w));
    if (runs_on_the_processor())
        assert_true(results_equal(w, eager));
    else if (differs_on_a_gpu)
        assert_false(results_equal(w, eager));
    drop_results(w);
    free_results(eager);
}

/* A failed test leaves the switch as the others want it. */
FIXTURE(switch_back)
{
    ph_set_tf32(false);
    return 0;
}

/* ---- operands ---- */
static double *drawn(int64_t count, ph__rng *rng)
{
    double *out = t_doubles(count);
    for (int64_t i = 0; i < count; i++)
        out[i] = (double)((float)(ph__rng_next(rng) >> 40) * 0x1p-23f - 1);
    return out;
}

static ph_tensor *tensor_of(t_scene *s, ph_shape shape, const double *values, bool leaf)
{
    int64_t count = ph_shape_count(&shape);
    float *data = malloc((size_t)count * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++)
        data[i] = (float)values[i];
    ph_tensor *x = ph_tensor_retain(ph_from_memory(s->tape, PH_DTYPE_F32, shape, data));
    assert_ok(ph_tensor_set_requires_grad(x, leaf));
    assert_ok(ph_tape_clear(s->tape));
    free(data);
    return x;
}

static void close_work(work *w)
{
    for (int i = 0; i < 3; i++)
        ph_tensor_release(w->in[i]);
    ph_tensor_release(w->g);
    t_scene_close(&w->s);
}

/* ---- products ---- */

/* A matrix and how it is gone through: element [i][j] is at[i * row + j * column]. */
typedef struct matrix {
    const double *at;
    int64_t row, column;
} matrix;

static void product(double *want, double *bound, matrix a, matrix b, int64_t m, int64_t n,
                    int64_t k)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0, size = 0;
            for (int64_t c = 0; c < k; c++) {
                double term = a.at[i * a.row + c * a.column] * b.at[c * b.row + j * b.column];
                sum += term;
                size += fabs(term);
            }
            want[i * n + j] = sum;
            bound[i * n + j] = UNIT * size;
        }
}

/* x [m, k] by y [k, n], or, as linear has it, [n, k] transposed, plus a bias. */
static void check_product(int kind, int64_t m, int64_t n, int64_t k)
{
    work w = {.kind = kind};
    ph__rng rng = {(uint64_t)(m + n + k)};
    double *x = drawn(m * k, &rng), *y = drawn(n * k, &rng), *bias = drawn(n, &rng),
           *g = drawn(m * n, &rng);
    int64_t counts[RESULTS] = {m * n, m * k, n * k, n};
    bool linear = kind == LINEAR;
    matrix left = {x, k, 1}, right = linear ? (matrix){y, 1, k} : (matrix){y, n, 1},
           grad = {g, n, 1};
    matrix turned_left = {x, 1, k}, turned_right = {y, right.column, right.row},
           turned_grad = {g, 1, n};
    t_scene_open(&w.s);
    for (int i = 0; i < RESULTS; i++) {
        w.want[i] = t_doubles(counts[i]);
        w.bound[i] = t_doubles(counts[i]);
    }
    product(w.want[0], w.bound[0], left, right, m, n, k);
    product(w.want[1], w.bound[1], grad, turned_right, m, k, n);
    if (linear)
        product(w.want[2], w.bound[2], turned_grad, left, n, k, m);
    else
        product(w.want[2], w.bound[2], turned_left, grad, k, n, m);
    for (int64_t i = 0; linear && i < m * n; i++) {
        w.want[0][i] += bias[i % n];
        w.bound[0][i] += 0x1p-20 * fabs(bias[i % n]);
        w.want[3][i % n] += g[i];
        w.bound[3][i % n] += 0x1p-20 * fabs(g[i]); /* a sum of f32 */
    }
    w.in[0] = tensor_of(&w.s, PH_SHAPE(m, k), x, true);
    w.in[1] = tensor_of(&w.s, linear ? PH_SHAPE(n, k) : PH_SHAPE(k, n), y, true);
    w.in[2] = tensor_of(&w.s, PH_SHAPE(n), bias, true);
    w.g = tensor_of(&w.s, PH_SHAPE(m, n), g, false);
    check(&w, m % 128 == 0 && n % 128 == 0 && k % 128 == 0);
    for (int i = 0; i < RESULTS; i++) {
        free(w.want[i]);
        free(w.bound[i]);
    }
    free(x);
    free(y);
    free(bias);
    free(g);
    close_work(&w);
}

/* Sizes that tensor cores take as they are, and some that they do not; none so small that
 * roundings cannot even out. */
static void check_sizes(int kind)
{
    check_product(kind, 128, 128, 256);
    check_product(kind, 70, 96, 130);
    check_product(kind, 65, 67, 131);
    if (!runs_on_the_processor())
        check_product(kind, 512, 384, 640);
}

TEST(matmul_is_near)
{
    check_sizes(MATMUL);
}

TEST(linear_is_near)
{
    check_sizes(LINEAR);
}

/* Long sums and few results, which algorithms with scratch of their own divide. */
TEST(deep_products_are_near)
{
    check_product(MATMUL, 96, 96, 4096);
}

/* ---- attention ---- */
static void check_attention(t_attention a, const char *form)
{
    work w = {.kind = ATTENTION, .causal = a.causal, .scale = a.scale, .form = form};
    ph__rng rng = {(uint64_t)(a.tq + a.d)};
    t_scene_open(&w.s);
    t_attention_make(&a);
    a.scale = w.scale != 0 ? w.scale : a.scale;
    free(a.g);
    a.g = drawn(t_attention_count(&a, 0), &rng);
    for (int i = 0; i < 3; i++) {
        free(a.in[i]);
        a.in[i] = drawn(t_attention_count(&a, i + 1), &rng);
        w.in[i] =
            tensor_of(&w.s, i == 0 ? PH_SHAPE(a.heads, a.tq, a.d) : PH_SHAPE(a.kv_heads, a.tk, a.d),
                      a.in[i], true);
    }
    w.g = tensor_of(&w.s, PH_SHAPE(a.heads, a.tq, a.d), a.g, false);
    t_attention_reference(&a, &units);
    memcpy(w.want, a.want, sizeof w.want);
    memcpy(w.bound, a.bound, sizeof w.bound);
    check(&w, a.d <= 128);
    t_attention_free(&a);
    close_work(&w);
}

/* The tiles' three widths, and the simple form's, which has no TF32. */
TEST(attention_is_near)
{
    static const int64_t widths[] = {24, 64, 128, 200};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        check_attention((t_attention){2, 1, 140, 140, widths[i], .causal = true}, NULL);
        check_attention((t_attention){2, 2, 70, 140, widths[i], .causal = false}, NULL);
    }
}

static ph_device_info device_info(void)
{
    ph_device_info device;
    t_scene s;
    t_scene_open(&s);
    assert_ok(ph_device_get_info(&device, s.device));
    t_scene_close(&s);
    return device;
}

/* One block and several, of one piece and several of the other side, and tails of them; rows that
 * see nothing; rows that do not begin at multiples of 16 bytes; either sign of the scale. */
TEST(warpgroups_are_near)
{
    const ph_device_info device = device_info();
    const char *form = device.compute_capability == 90 ? "64_warpgroups" : NULL;
    check_attention((t_attention){2, 2, 64, 64, 64, .causal = true}, form);
    check_attention((t_attention){3, 3, 130, 75, 40, .causal = false}, form);
    check_attention((t_attention){2, 2, 130, 130, 64, .causal = true}, form);
    check_attention((t_attention){3, 1, 270, 330, 64, .causal = true}, form);
    check_attention((t_attention){3, 3, 330, 140, 36, .causal = true}, form);
    check_attention((t_attention){3, 1, 260, 200, 33, .causal = false}, form);
    check_attention((t_attention){3, 3, 300, 300, 64, .causal = true, .scale = -0.4}, form);
}

/* Blocks of more than one round on a GPU. */
TEST(many_heads_are_near)
{
    const ph_device_info device = device_info();
    const char *form = device.compute_capability == 90 ? "64_warpgroups" : NULL;
    const int64_t heads = device.multiprocessors > 16 ? device.multiprocessors : 2;
    check_attention((t_attention){heads, heads, 130, 75, 40, .causal = false}, form);
    check_attention((t_attention){heads, heads, 130, 130, 64, .causal = true}, form);
}

/* The result, with `last` in each number of the last key. */
static float *with_last_key(t_scene *s, const int64_t sizes[4], float last)
{
    const int64_t heads = sizes[0], tq = sizes[1], tk = sizes[2], d = sizes[3];
    ph__rng rng = {7};
    double *q = drawn(heads * tq * d, &rng), *k = drawn(heads * tk * d, &rng),
           *v = drawn(heads * tk * d, &rng);
    for (int64_t h = 1; h <= heads; h++)
        for (int64_t c = 1; c <= d; c++)
            k[h * tk * d - c] = (double)last;
    ph_tensor *x = tensor_of(s, PH_SHAPE(heads, tq, d), q, false),
              *y = tensor_of(s, PH_SHAPE(heads, tk, d), k, false),
              *z = tensor_of(s, PH_SHAPE(heads, tk, d), v, false);
    ph_tensor *o = ph_attention(s->tape, x, y, z, &(ph_attention_options){.causal = true});
    float *out = malloc((size_t)(heads * tq * d) * sizeof *out);
    assert_non_null(out);
    assert_ok(ph_tensor_read(s->tape, o, out, (size_t)(heads * tq * d) * sizeof *out));
    ph_tensor_release(x);
    ph_tensor_release(y);
    ph_tensor_release(z);
    free(q);
    free(k);
    free(v);
    return out;
}

/* The last key is seen by the last row alone, and counts nothing for the others, whatever it
 * holds. */
TEST(hidden_keys_count_nothing)
{
    const int64_t sizes[4] = {3, 300, 300, 64}, row = 300 * 64;
    t_scene s;
    t_scene_open(&s);
    ph_set_tf32(true);
    float *zero = with_last_key(&s, sizes, 0), *infinite = with_last_key(&s, sizes, INFINITY);
    for (int64_t h = 0; h < sizes[0]; h++) {
        const size_t bytes = (size_t)(row - 64) * sizeof *zero;
        assert_memory_equal(zero + h * row, infinite + h * row, bytes);
        for (int64_t c = row - 64; c < row; c++)
            assert_false(fabsf(infinite[h * row + c]) < INFINITY);
    }
    free(zero);
    free(infinite);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(matmul_is_near, switch_back),
        cmocka_unit_test_teardown(linear_is_near, switch_back),
        cmocka_unit_test_teardown(deep_products_are_near, switch_back),
        cmocka_unit_test_teardown(attention_is_near, switch_back),
        cmocka_unit_test_teardown(warpgroups_are_near, switch_back),
        cmocka_unit_test_teardown(many_heads_are_near, switch_back),
        cmocka_unit_test_teardown(hidden_keys_count_nothing, switch_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
