/* SPDX-License-Identifier: MIT */
/* tests/tensor/transpose.c: matrices that are read along their columns: copies of every size of an
 * element, and products of TF32 of which a GPU transposes an operand first. */
#include "fake/fake_cuda.h"
#include "support/fused.h"
#include "support/op_check.h"
#include "support/tensors.h"
#include "support/test.h"

static bool runs_on_the_processor(void)
{
    return t_on_host() || fake_cuda();
}

FIXTURE(switch_back)
{
    ph_set_tf32(false);
    return 0;
}

/* ---- copies ---- */
typedef struct copied {
    t_scene s;
    ph_tensor *x; /* [rows, step]; of a row the first `columns` are copied */
    int64_t columns;
    ph_tensor *result;
} copied;

static ph_status copy_transposed(ph_stream *stream, void *user)
{
    copied *c = user;
    ph_tape *tape = c->s.tape;
    (void)stream;
    ph_tensor *part = ph_slice(tape, c->x, 1, 1, 1 + c->columns);
    ph_tensor *y = ph_contiguous(tape, ph_transpose(tape, part, 0, 1));
    PH_TRY(ph_tape_status(tape));
    c->result = ph_tensor_retain(y);
    return ph_tape_clear(tape);
}

static void expect_transposed(copied *c, const unsigned char *in, size_t size)
{
    const int64_t rows = ph_tensor_dim(c->x, 0), step = ph_tensor_dim(c->x, 1);
    const size_t bytes = ph_tensor_bytes(c->result);
    unsigned char *got = malloc(bytes);
    assert_non_null(got);
    assert_int_equal(bytes, (size_t)(rows * c->columns) * size);
    assert_ok(ph_tensor_read(c->s.tape, c->result, got, bytes));
    for (int64_t i = 0; i < c->columns; i++)
        for (int64_t k = 0; k < rows; k++)
            if (memcmp(got + (size_t)(i * rows + k) * size, in + (size_t)(k * step + 1 + i) * size,
                       size) != 0)
                fail_msg("element [%lld][%lld] of %zu bytes is another one's", (long long)i,
                         (long long)k, size);
    free(got);
    ph_tensor_release(c->result);
}

static void check_copy(ph_dtype dtype, int64_t rows, int64_t columns, int64_t step)
{
    copied c = {.columns = columns};
    const size_t size = ph_dtype_size(dtype), count = (size_t)(rows * step);
    unsigned char *in = malloc(count * size);
    ph_graph *graph;
    assert_non_null(in);
    t_scene_open(&c.s);
    ph__rng rng = {(uint64_t)(rows + columns)};
    for (size_t i = 0; i < count * size; i++) /* no NaN, whatever the dtype */
        in[i] = (unsigned char)(ph__rng_next(&rng) >> 40 & 0x3f);
    c.x = ph_tensor_retain(ph_from_memory(c.s.tape, dtype, PH_SHAPE(rows, step), in));
    assert_ok(ph_tape_clear(c.s.tape));
    assert_ok(copy_transposed(NULL, &c));
    expect_transposed(&c, in, size);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, c.s.stream, NULL, copy_transposed, &c));
    if (!t_on_host())
        assert_int_equal(t_count_named(graph, "ph_transpose_"),
                         size > 1 && rows >= 64 && columns >= 64);
    assert_ok(ph_graph_replay(graph, c.s.stream));
    expect_transposed(&c, in, size);
    ph_graph_destroy(graph);
    ph_tensor_release(c.x);
    t_scene_close(&c.s);
    free(in);
}

TEST(transposed_matrices_are_copied)
{
    static const ph_dtype dtypes[] = {PH_DTYPE_F32, PH_DTYPE_F64,  PH_DTYPE_F16,
                                      PH_DTYPE_I64, PH_DTYPE_BF16, PH_DTYPE_U8};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        check_copy(dtypes[i], 64, 64, 65);
        check_copy(dtypes[i], 63, 200, 201);
        check_copy(dtypes[i], 130, 65, 80);
        check_copy(dtypes[i], 65, 257, 300);
    }
}

/* ---- products ---- */

/* The gradient of a large weight, whose operands lie across k: a GPU copies one of them first. The
 * elements are small integers, which TF32 has, so that each sum is exact. */
static ph_tensor *integers_of(t_scene *s, ph_shape shape, uint64_t seed)
{
    ph__rng rng = {seed};
    int64_t count = ph_shape_count(&shape);
    float *data = malloc((size_t)count * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++)
        data[i] = (float)(ph__rng_next(&rng) % 9) - 4;
    ph_tensor *x = ph_tensor_retain(ph_from_memory(s->tape, PH_DTYPE_F32, shape, data));
    assert_ok(ph_tape_clear(s->tape));
    free(data);
    return x;
}

typedef struct across {
    t_scene s;
    ph_tensor *a, *b; /* [k, m], [k, n] */
    ph_tensor *result;
} across;

static ph_status multiply_across(ph_stream *stream, void *user)
{
    across *x = user;
    (void)stream;
    ph_tensor *c = ph_matmul(x->s.tape, ph_transpose(x->s.tape, x->a, 0, 1), x->b);
    PH_TRY(ph_tape_status(x->s.tape));
    x->result = ph_tensor_retain(c);
    return ph_tape_clear(x->s.tape);
}

static float *read_across(across *x)
{
    size_t bytes = ph_tensor_bytes(x->result);
    float *data = malloc(bytes);
    assert_non_null(data);
    assert_ok(ph_tensor_read(x->s.tape, x->result, data, bytes));
    ph_tensor_release(x->result);
    return data;
}

static void check_across(int64_t m, int64_t n, int64_t k)
{
    across x = {0};
    ph_device_info device;
    ph_graph *graph;
    t_scene_open(&x.s);
    assert_ok(ph_device_get_info(&device, x.s.device));
    x.a = integers_of(&x.s, PH_SHAPE(k, m), 1);
    x.b = integers_of(&x.s, PH_SHAPE(k, n), 2);
    assert_ok(multiply_across(NULL, &x));
    float *exact = read_across(&x);
    ph_set_tf32(true);
    assert_ok(multiply_across(NULL, &x));
    float *eager = read_across(&x);
    assert_memory_equal(eager, exact, (size_t)(m * n) * sizeof *exact);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, x.s.stream, NULL, multiply_across, &x));
    if (!runs_on_the_processor() && device.compute_capability == 90)
        assert_int_equal(t_count_named(graph, "ph_transpose_4"), 1);
    assert_ok(ph_graph_replay(graph, x.s.stream));
    float *replayed = read_across(&x);
    assert_memory_equal(replayed, exact, (size_t)(m * n) * sizeof *exact);
    ph_set_tf32(false);
    ph_graph_destroy(graph);
    free(exact);
    free(eager);
    free(replayed);
    ph_tensor_release(x.a);
    ph_tensor_release(x.b);
    t_scene_close(&x.s);
}

TEST(products_across_k_are_exact_for_small_integers)
{
    bool large = !runs_on_the_processor();
    check_across(large ? 768 : 48, large ? 1024 : 80, large ? 4096 : 256);
    check_across(large ? 1023 : 63, large ? 513 : 33, large ? 4103 : 131);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transposed_matrices_are_copied),
        cmocka_unit_test_teardown(products_across_k_are_exact_for_small_integers, switch_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
