/* SPDX-License-Identifier: MIT */
/* tests/tensor/products.c: matrix products below the operators: every dtype, transposes,
 * batches, bias, sums into what was there, sizes of several tiles, strided rows; the same to the
 * bit in a graph; and the plain product, which stands in where no BLAS is. */
#include "tensor/products/products.h"
#include "support/op_check.h"
#include "support/tensors.h"
#include "support/test.h"
#include "tensor/core/tensor.h"
#include "tensor/products/products_plain.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct problem {
    ph_dtype dtype;
    bool transpose_a, transpose_b, bias, accumulate;
    int64_t m, n, k, batch, spare; /* spare: elements between rows */
} problem;

/* One side: doubles that the dtype holds exactly, and a tensor of them. */
typedef struct side {
    int64_t rows, row, stride,
        count; /* of the memory: rows of each matrix, their distance, the matrices' distance */
    double *values;
    ph_tensor *tensor;
} side;

static ph__rng rng = {7};

static void make_side(side *out, ph_tape *tape, ph_dtype dtype, int64_t batch, int64_t rows,
                      int64_t columns, int64_t spare)
{
    *out = (side){.rows = rows, .row = columns + spare, .stride = rows * (columns + spare)};
    out->count = batch * out->stride;
    out->values = malloc((size_t)out->count * sizeof *out->values);
    void *bytes = malloc((size_t)out->count * ph_dtype_size(dtype));
    for (int64_t i = 0; i < out->count; i++)
        out->values[i] = (double)(ph__rng_next(&rng) >> 52) * 0x1p-11 - 1;
    op_encode(bytes, dtype, out->values, out->count);
    op_decode(out->values, dtype, bytes, out->count);
    out->tensor = ph_from_memory(tape, dtype, PH_SHAPE(out->count), bytes);
    free(bytes);
}

static double from_side(const side *x, int64_t batch, int64_t i, int64_t j, bool transposed)
{
    return x->values[batch * x->stride + (transposed ? j * x->row + i : i * x->row + j)];
}

static bool submit(ph_tape *tape, const problem *p, ph_tensor *const in[4], const side *a,
                   const side *b, const side *c)
{
    ph__op op;
    const ph__product product = {.dtype = p->dtype,
                                 .transpose_a = p->transpose_a,
                                 .transpose_b = p->transpose_b,
                                 .m = p->m,
                                 .n = p->n,
                                 .k = p->k,
                                 .batch = p->batch,
                                 .a = ph_tensor_data(in[0]),
                                 .b = ph_tensor_data(in[1]),
                                 .c = ph_tensor_data(in[2]),
                                 .bias = p->bias ? ph_tensor_data(in[3]) : NULL,
                                 .lda = a->row,
                                 .ldb = b->row,
                                 .ldc = c->row,
                                 .stride_a = a->stride,
                                 .stride_b = b->stride,
                                 .stride_c = c->stride,
                                 .accumulate = p->accumulate};
    return ph__op_begin(&op, tape, "product", in, 4, 4) && ph__op_product(&op, &product);
}

/* Every element where there are few, else some. Elements between the rows must be as they were. */
static void compare(const problem *p, const double *got, const side *a, const side *b,
                    const side *c, const side *bias)
{
    const double places[] = {[PH_DTYPE_F32] = 1e-6,
                             [PH_DTYPE_F64] = 1e-14,
                             [PH_DTYPE_F16] = 1e-3,
                             [PH_DTYPE_BF16] = 8e-3};
    int64_t step = 1 + (int64_t)((double)c->count * (double)p->k / 4e6);
    for (int64_t at = 0; at < c->count; at += step) {
        int64_t batch = at / c->stride, i = at % c->stride / c->row, j = at % c->row;
        double want = p->accumulate ? c->values[at] : 0, size = 1 + fabs(want);
        if (j >= p->n) {
            assert_true(got[at] == c->values[at]);
            continue;
        }
        for (int64_t l = 0; l < p->k; l++) {
            double x = from_side(a, batch, i, l, p->transpose_a) *
                       from_side(b, batch, l, j, p->transpose_b);
            want += x;
            size += fabs(x);
        }
        want += p->bias ? bias->values[j] : 0;
        if (!(fabs(got[at] - want) <= places[p->dtype] * size))
            fail_msg("%s %lld x %lld x %lld, batch %lld of %lld, transposes %d %d, bias %d, "
                     "accumulate %d: "
                     "[%lld, %lld] is %.9g, not %.9g",
                     ph_dtype_name(p->dtype), (long long)p->m, (long long)p->n, (long long)p->k,
                     (long long)batch, (long long)p->batch, p->transpose_a, p->transpose_b, p->bias,
                     p->accumulate, (long long)i, (long long)j, got[at], want);
    }
}

typedef struct recording {
    ph_tape *tape;
    const problem *problem;
    ph_tensor *const *in;
    const side *a, *b, *c;
} recording;

static ph_status record(ph_stream *stream, void *user)
{
    const recording *r = user;
    (void)stream;
    (void)submit(r->tape, r->problem, r->in, r->a, r->b, r->c);
    return ph_tape_status(r->tape);
}

static void read_side(void *bytes, ph_tape *tape, const problem *p, const side *c)
{
    assert_ok(ph_tensor_read(tape, c->tensor, bytes, (size_t)c->count * ph_dtype_size(p->dtype)));
}

static void replay_gives(const void *bytes, ph_tape *tape, const problem *p, ph_tensor *const in[4],
                         const side *a, const side *b, const side *c)
{
    size_t size = (size_t)c->count * ph_dtype_size(p->dtype);
    void *begin = malloc(size), *again = malloc(size);
    op_encode(begin, p->dtype, c->values, c->count);
    ph_graph *graph;
    recording r = {tape, p, in, a, b, c};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, ph_tape_stream(tape), NULL, record, &r));
    assert_ok(ph_tensor_write(tape, c->tensor, begin, size));
    assert_ok(ph_graph_replay(graph, ph_tape_stream(tape)));
    read_side(again, tape, p, c);
    assert_memory_equal(again, bytes, size);
    ph_graph_destroy(graph);
    free(begin);
    free(again);
}

static void try_problem(ph_tape *tape, const problem *p)
{
    side a, b, c, bias;
    make_side(&a, tape, p->dtype, p->batch, p->transpose_a ? p->k : p->m,
              p->transpose_a ? p->m : p->k, p->spare);
    make_side(&b, tape, p->dtype, p->batch, p->transpose_b ? p->n : p->k,
              p->transpose_b ? p->k : p->n, p->spare);
    make_side(&c, tape, p->dtype, p->batch, p->m, p->n, p->spare);
    make_side(&bias, tape, p->dtype, 1, 1, p->n, 0);
    ph_tensor *const in[4] = {a.tensor, b.tensor, c.tensor, bias.tensor};
    assert_ok(ph_tape_status(tape));
    if (!submit(tape, p, in, &a, &b, &c))
        assert_ok(ph_tape_status(tape));
    void *bytes = malloc((size_t)c.count * ph_dtype_size(p->dtype));
    double *got = malloc((size_t)c.count * sizeof *got);
    read_side(bytes, tape, p, &c);
    op_decode(got, p->dtype, bytes, c.count);
    compare(p, got, &a, &b, &c, &bias);
    replay_gives(bytes, tape, p, in, &a, &b, &c);
    assert_ok(ph_tape_clear(tape));
    free(bytes);
    free(got);
    free(a.values);
    free(b.values);
    free(c.values);
    free(bias.values);
}

static const ph_dtype dtypes[] = {PH_DTYPE_F32, PH_DTYPE_F64, PH_DTYPE_F16, PH_DTYPE_BF16};

static void with_tape(void (*body)(ph_tape *tape))
{
    t_world world;
    ph_tape *tape;
    t_open(&world, NULL);
    assert_ok(ph_tape_create(&tape, world.stream, NULL));
    body(tape);
    ph_tape_destroy(tape);
    t_close(&world);
}

static void try_small(ph_tape *tape)
{
    for (size_t i = 0; i < (t_nightly() ? 2000 : 200); i++) {
        uint64_t bits = ph__rng_next(&rng);
        try_problem(tape, &(problem){.dtype = dtypes[i % 4],
                                     .transpose_a = bits & 1,
                                     .transpose_b = bits & 2,
                                     .bias = bits & 4,
                                     .accumulate = bits & 8,
                                     .spare = bits & 16 ? 3 : 0,
                                     .m = 1 + (int64_t)(bits >> 8 & 31),
                                     .n = 1 + (int64_t)(bits >> 16 & 31),
                                     .k = 1 + (int64_t)(bits >> 24 & 31),
                                     .batch = 1 + (int64_t)(bits >> 32 & 3)});
    }
}

/* Several tiles on either device, edges of tiles, and a k that is split. */
static void try_large(ph_tape *tape)
{
    static const int64_t sizes[][3] = {{300, 280, 129}, {128, 128, 128}, {129, 513, 7},
                                       {700, 33, 260},  {17, 19, 4100},  {1, 1000, 300}};
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
            for (int t = 0; t < 4; t += t_nightly() ? 1 : 3)
                try_problem(tape, &(problem){.dtype = dtypes[i],
                                             .transpose_a = t & 1,
                                             .transpose_b = t & 2,
                                             .bias = j % 2,
                                             .accumulate = t == 3 && j % 3 == 0,
                                             .m = sizes[j][0],
                                             .n = sizes[j][1],
                                             .k = sizes[j][2],
                                             .batch = 1});
}

TEST(small_products_of_any_form_match_f64)
{
    with_tape(try_small);
}

TEST(large_products_of_any_form_match_f64)
{
    with_tape(try_large);
}

/* ---- the plain product ---- */
static void try_plain(ph_dtype dtype, int64_t m, int64_t n, int64_t k, bool turned_a, bool turned_b)
{
    ph_dtype compute = dtype == PH_DTYPE_F64 ? PH_DTYPE_F64 : PH_DTYPE_F32;
    double *values[3];
    int64_t counts[3] = {m * k, k * n, m * n};
    void *bytes[3], *scratch = malloc(ph__plain_scratch(compute));
    for (int i = 0; i < 3; i++) {
        ph_dtype own = i < 2 ? dtype : compute;
        values[i] = malloc((size_t)counts[i] * sizeof(double));
        bytes[i] = malloc((size_t)counts[i] * ph_dtype_size(own));
        for (int64_t j = 0; j < counts[i]; j++)
            values[i][j] = (double)(ph__rng_next(&rng) >> 52) * 0x1p-11 - 1;
        op_encode(bytes[i], own, values[i], counts[i]);
        op_decode(values[i], own, bytes[i], counts[i]);
    }
    const ph__view a = {bytes[0], dtype, turned_a ? 1 : k, turned_a ? m : 1},
                   b = {bytes[1], dtype, turned_b ? 1 : n, turned_b ? k : 1};
    ph__plain_product(&a, &b, m, n, k, bytes[2], n, scratch);
    for (int64_t i = 0; i < m * n; i++) {
        double want = values[2][i], got;
        for (int64_t l = 0; l < k; l++)
            want +=
                values[0][i / n * a.row + l * a.column] * values[1][l * b.row + i % n * b.column];
        op_decode(&got, compute, (char *)bytes[2] + (size_t)i * ph_dtype_size(compute), 1);
        assert_true(fabs(got - want) <= (compute == PH_DTYPE_F64 ? 1e-13 : 2e-6) * (double)(k + 1));
    }
    for (int i = 0; i < 3; i++) {
        free(values[i]);
        free(bytes[i]);
    }
    free(scratch);
}

TEST(plain_products_match_f64_at_tile_borders)
{
    for (size_t i = 0; i < 4; i++)
        for (int t = 0; t < 4; t++) {
            try_plain(dtypes[i], 1, 1, 1, t & 1, t & 2);
            try_plain(dtypes[i], 7, 17, 5, t & 1, t & 2);
            try_plain(dtypes[i], PH__PLAIN_TILE, PH__PLAIN_TILE, 2 * PH__PLAIN_K + 3, t & 1, t & 2);
            try_plain(dtypes[i], 50, 127, 130, t & 1, t & 2);
        }
}

/* ---- captures ---- */
typedef struct pair {
    ph_tape *tape;
    ph_tensor *a, *b, *out; /* out: of the last run, retained */
} pair;

static ph_status two_products(ph_stream *stream, void *user)
{
    pair *p = user;
    (void)stream;
    p->out = ph_tensor_retain(ph_matmul(p->tape, ph_matmul(p->tape, p->a, p->b), p->b));
    return ph_tape_clear(p->tape);
}

/* The product library keeps nothing in the graphs' pools, and nothing for each graph. */
TEST(captures_leave_memory_flat)
{
    t_scene s;
    t_scene_open(&s);
    ph_memory_stats first = {0}, last = {0};
    pair p = {.tape = s.tape};
    p.a = ph_tensor_retain(ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(96, 160), 0.5));
    p.b = ph_tensor_retain(ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(160, 160), 0.25));
    assert_ok(two_products(s.stream, &p));
    ph_tensor_release(p.out);
    for (int i = 0; i < 100; i++) {
        ph_graph *graph;
        assert_ok(ph_graph_create(&graph, NULL));
        assert_ok(ph_graph_capture(graph, s.stream, NULL, two_products, &p));
        assert_ok(ph_graph_replay(graph, s.stream));
        assert_ok(ph_stream_synchronize(s.stream));
        ph_tensor_release(p.out);
        ph_graph_destroy(graph);
        assert_ok(ph_memory_trim(s.device));
        assert_ok(ph_memory_get_stats(i == 0 ? &first : &last, s.device));
    }
    assert_int_equal(last.reserved, first.reserved);
    assert_int_equal(last.allocated, first.allocated);
    ph_tensor_release(p.a);
    ph_tensor_release(p.b);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_products_of_any_form_match_f64),
        cmocka_unit_test(large_products_of_any_form_match_f64),
        cmocka_unit_test(plain_products_match_f64_at_tile_borders),
        cmocka_unit_test(captures_leave_memory_flat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
