/* SPDX-License-Identifier: MIT */
/* tests/tensor/autocast_fused.c: operators that do autocast's casts themselves: results and
 * gradients beside those of casts in the code, and which kernels are there. */
#include "support/grads.h"
#include "support/test.h"
#include <math.h>
#include <string.h>

static const ph_autocast off, to_bf16 = {.dtype = PH_DTYPE_BF16};
static const ph_dtype halves[] = {PH_DTYPE_F16, PH_DTYPE_BF16};

/* Values that no half type holds exactly, the same for each seed. */
static ph_tensor *draw(t_scene *s, ph_dtype dtype, ph_shape shape, uint64_t seed)
{
    ph_generator *generator;
    ph_tape *tape;
    assert_ok(ph_generator_create(&generator, s->device, seed));
    assert_ok(ph_tape_create(&tape, s->stream, &(ph_tape_options){.generator = generator}));
    ph_tensor *x = ph_tensor_retain(ph_cast(tape, ph_randn(tape, PH_DTYPE_F32, shape), dtype));
    assert_ok(ph_tape_clear(tape));
    ph_tape_destroy(tape);
    ph_generator_release(generator);
    assert_ok(ph_tensor_set_requires_grad(x, true));
    return x;
}

/* In f32, whatever x is. */
static float *read_f32(t_scene *s, ph_tensor *x)
{
    float *values = malloc((size_t)ph_tensor_count(x) * sizeof *values);
    assert_non_null(values);
    ph_tensor *wide = ph_contiguous(s->tape, ph_cast(s->tape, ph_detach(s->tape, x), PH_DTYPE_F32));
    assert_ok(ph_tensor_read(s->tape, wide, values, ph_tensor_bytes(wide)));
    return values;
}

/* The largest difference, of `least` + absolute value. */
static double farthest(t_scene *s, ph_tensor *got, ph_tensor *want, double least)
{
    float *a = read_f32(s, got), *b = read_f32(s, want);
    double most = 0;
    assert_int_equal(ph_tensor_count(got), ph_tensor_count(want));
    for (int64_t i = 0; i < ph_tensor_count(got); i++) {
        double apart = fabs((double)a[i] - (double)b[i]) / (least + fabs((double)b[i]));
        assert_true(apart == apart); /* no NaN */
        most = apart > most ? apart : most;
    }
    free(a);
    free(b);
    return most;
}

/* ---- cross_entropy ---- rows that are long enough not to be cast. */
enum {
    ROWS = 5,
    WIDTH = 1500,
    CLASSES = 1433
};

static void check_loss(t_scene *s, ph_dtype dtype, ph_reduction reduction)
{
    static const int32_t targets[ROWS] = {0, 700, CLASSES - 1, -7, 3};
    const ph_cross_entropy_options options = {
        .reduction = reduction, .classes = CLASSES, .has_ignore_index = true, .ignore_index = -7};
    ph_tensor *x = draw(s, dtype, PH_SHAPE(ROWS, WIDTH), 1), *loss[2], *grad[2];
    ph_tensor *to = ph_from_memory(s->tape, PH_DTYPE_I32, PH_SHAPE(ROWS), targets);
    for (int i = 0; i < 2; i++) {
        (void)ph_tape_set_autocast(s->tape, i == 0 ? to_bf16 : off);
        loss[i] = ph_cross_entropy_with(s->tape, i == 0 ? x : ph_cast(s->tape, x, PH_DTYPE_F32), to,
                                        &options);
        ph_tensor *g = ph_full(s->tape, PH_DTYPE_F32, ph_tensor_shape(loss[i]), 0.37);
        ph_grad(s->tape, &grad[i], &x, 1, &loss[i], &g, 1, NULL);
        (void)ph_tape_set_autocast(s->tape, off);
    }
    assert_ok(ph_tape_status(s->tape));
    assert_int_equal(ph_tensor_dtype(loss[0]), PH_DTYPE_F32);
    assert_int_equal(ph_tensor_dtype(grad[0]), dtype);
    assert_true(farthest(s, loss[0], loss[1], 1e-3) < 2e-6);
    assert_true(farthest(s, grad[0], grad[1], 1e-6) <= (dtype == PH_DTYPE_F16 ? 1e-3 : 8e-3));
    assert_ok(ph_tape_clear(s->tape));
    ph_tensor_release(x);
}

TEST(a_loss_of_half_logits_is_that_of_their_cast)
{
    t_scene s;
    t_scene_open(&s);
    for (size_t d = 0; d < 2; d++) {
        check_loss(&s, halves[d], PH_REDUCTION_MEAN);
        check_loss(&s, halves[d], PH_REDUCTION_SUM);
        check_loss(&s, halves[d], PH_REDUCTION_NONE);
    }
    t_scene_close(&s);
}

/* What is allocated for a loss under autocast: no copy of the logits in f32. */
TEST(a_loss_of_half_logits_copies_none)
{
    t_scene s;
    ph_memory_stats stats;
    int64_t targets[16] = {0};
    t_scene_open(&s);
    ph_tensor *x = draw(&s, PH_DTYPE_BF16, PH_SHAPE(16, 65536), 2);
    ph_tensor *to = ph_from_memory(s.tape, PH_DTYPE_I64, PH_SHAPE(16), targets);
    (void)ph_tape_set_autocast(s.tape, to_bf16);
    assert_ok(ph_memory_reset_peaks(s.device));
    size_t before = t_allocated(&s);
    ph_tensor *loss = ph_cross_entropy(s.tape, x, to), *grad;
    ph_grad(s.tape, &grad, &x, 1, &loss, NULL, 1, NULL);
    assert_ok(ph_tape_status(s.tape));
    assert_ok(ph_memory_get_stats(&stats, s.device));
    assert_in_range(stats.allocated_peak - before, ph_tensor_bytes(x), ph_tensor_bytes(x) * 5 / 4);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* ---- products ---- */
/* Gradients of f32 operands are not rounded to bf16: they are as near to those of f32 operands that
 * hold the rounded values as sums in f32 are. */
static void check_products(t_scene *s, bool linear)
{
    ph_tensor *in[3] = {draw(s, PH_DTYPE_F32, PH_SHAPE(96, 40), 3),
                        draw(s, PH_DTYPE_F32, linear ? PH_SHAPE(24, 40) : PH_SHAPE(40, 24), 4),
                        draw(s, PH_DTYPE_F32, PH_SHAPE(24), 5)};
    ph_tensor *g = draw(s, PH_DTYPE_BF16, PH_SHAPE(96, 24), 6), *grad[2][3];
    size_t count = linear ? 3 : 2;
    for (int i = 0; i < 2; i++) {
        ph_tensor *of[3];
        for (size_t k = 0; k < count; k++)
            of[k] = i == 0 ? in[k]
                           : ph_cast(s->tape, ph_cast(s->tape, in[k], PH_DTYPE_BF16), PH_DTYPE_F32);
        (void)ph_tape_set_autocast(s->tape, i == 0 ? to_bf16 : off);
        ph_tensor *y = linear ? ph_linear(s->tape, of[0], of[1], of[2])
                              : ph_matmul(s->tape, of[0], of[1]),
                  *gy = i == 0 ? g : ph_cast(s->tape, g, PH_DTYPE_F32);
        ph_grad(s->tape, grad[i], i == 0 ? in : of, count, &y, &gy, 1, NULL);
        (void)ph_tape_set_autocast(s->tape, off);
    }
    assert_ok(ph_tape_status(s->tape));
    for (size_t k = 0; k < count; k++) {
        assert_int_equal(ph_tensor_dtype(grad[0][k]), PH_DTYPE_F32);
        assert_true(farthest(s, grad[0][k], grad[1][k], 1) < 1e-5);
    }
    assert_ok(ph_tape_clear(s->tape));
    for (size_t k = 0; k < 3; k++)
        ph_tensor_release(in[k]);
    ph_tensor_release(g);
}

TEST(gradients_of_cast_operands_are_not_rounded)
{
    t_scene s;
    t_scene_open(&s);
    check_products(&s, true);
    check_products(&s, false);
    t_scene_close(&s);
}

/* A cast in the code is an operator like any other: its gradient is of its dtype. */
TEST(gradients_of_casts_in_the_code_are_of_their_dtype)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = draw(&s, PH_DTYPE_F32, PH_SHAPE(64, 40), 7),
              *w = draw(&s, PH_DTYPE_BF16, PH_SHAPE(24, 40), 8), *grad;
    (void)ph_tape_set_autocast(s.tape, to_bf16);
    ph_tensor *y = ph_linear(s.tape, ph_cast(s.tape, x, PH_DTYPE_BF16), w, NULL);
    ph_tensor *g = ph_full(s.tape, PH_DTYPE_BF16, ph_tensor_shape(y), 0.7);
    ph_grad(s.tape, &grad, &x, 1, &y, &g, 1, NULL);
    (void)ph_tape_set_autocast(s.tape, off);
    ph_tensor *rounded = ph_cast(s.tape, ph_cast(s.tape, grad, PH_DTYPE_BF16), PH_DTYPE_F32);
    assert_true(farthest(&s, grad, rounded, 1) == 0);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    ph_tensor_release(w);
    t_scene_close(&s);
}

/* ---- sums of f32 and a half type ---- of other layouts, too. */
TEST(sums_of_two_dtypes_are_those_of_casts)
{
    t_scene s;
    t_scene_open(&s);
    for (size_t d = 0; d < 2; d++)
        for (int turned = 0; turned < 2; turned++) {
            ph_tensor *x = draw(&s, PH_DTYPE_F32, PH_SHAPE(33, 70), 9),
                      *y = draw(&s, halves[d], PH_SHAPE(70, 33), 10), *sum[2];
            for (int i = 0; i < 2; i++) {
                ph_tensor *b = ph_transpose(s.tape, y, 0, 1);
                (void)ph_tape_set_autocast(s.tape, i == 0 ? to_bf16 : off);
                b = i == 0 ? b : ph_cast(s.tape, b, PH_DTYPE_F32);
                sum[i] = turned ? ph_add(s.tape, b, x) : ph_add(s.tape, x, b);
                (void)ph_tape_set_autocast(s.tape, off);
            }
            assert_int_equal(ph_tensor_dtype(sum[0]), PH_DTYPE_F32);
            assert_true(farthest(&s, sum[0], sum[1], 1) == 0);
            assert_ok(ph_tape_clear(s.tape));
            ph_tensor_release(x);
            ph_tensor_release(y);
        }
    t_scene_close(&s);
}

/* ---- norms ---- whose gradient meets another one: added by the same kernel, the same bits. */
typedef struct meeting {
    ph_tape *tape;
    ph_tensor *x, *w, *g;
} meeting;

/* The gradient of x through the norm, beside it, or both. */
static ph_tensor *gradient_through(const meeting *m, bool norm, bool beside)
{
    ph_tensor *y = norm ? ph_layer_norm(m->tape, m->x, m->w, NULL, 1e-5) : NULL,
              *z = beside ? ph_mul_scalar(m->tape, m->x, 0.7) : NULL, *grads[2],
              *x[] = {m->x, m->w};
    ph_tensor *sum = y && z ? ph_add(m->tape, y, z) : y ? y : z, *g = m->g;
    ph_grad(m->tape, grads, x, norm ? 2 : 1, &sum, &g, 1, NULL);
    return grads[0];
}

TEST(a_norms_gradient_adds_itself_to_the_sum)
{
    static const ph_dtype dtypes[] = {PH_DTYPE_F32, PH_DTYPE_F64, PH_DTYPE_F16, PH_DTYPE_BF16};
    static const int64_t widths[] = {64, 70, 1024, 5000, 9001}, rows[] = {9, 4100};
    t_scene s;
    t_scene_open(&s);
    for (size_t d = 0; d < 4; d++)
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
            ph_shape shape = PH_SHAPE(rows[widths[i] == 64], widths[i]);
            meeting m = {s.tape, draw(&s, dtypes[d], shape, 11),
                         draw(&s, dtypes[d], PH_SHAPE(widths[i]), 12),
                         draw(&s, dtypes[d], shape, 13)};
            ph_tensor *want = ph_add(s.tape, ph_detach(s.tape, gradient_through(&m, false, true)),
                                     ph_detach(s.tape, gradient_through(&m, true, false)));
            ph_tensor *got = gradient_through(&m, true, true);
            assert_true(farthest(&s, got, want, 1) == 0);
            assert_ok(ph_tape_clear(s.tape));
            ph_tensor_release(m.x);
            ph_tensor_release(m.w);
            ph_tensor_release(m.g);
        }
    t_scene_close(&s);
}

static ph_status meet(ph_stream *stream, void *user)
{
    const meeting *m = user;
    (void)stream;
    (void)gradient_through(m, true, true);
    return ph_tape_clear(m->tape);
}

static size_t count_named(ph_graph *graph, const char *begin)
{
    const ph_record *record;
    size_t named = 0;
    assert_ok(ph_graph_record(&record, graph));
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        ph_node_info node;
        assert_ok(ph_record_node(&node, record, i));
        named += node.name && strncmp(node.name, begin, strlen(begin)) == 0;
    }
    return named;
}

TEST(no_kernel_adds_a_norms_gradient)
{
    t_scene s;
    ph_graph *graph;
    t_scene_open(&s);
    meeting m = {s.tape, draw(&s, PH_DTYPE_F32, PH_SHAPE(9, 64), 11),
                 draw(&s, PH_DTYPE_F32, PH_SHAPE(64), 12),
                 draw(&s, PH_DTYPE_F32, PH_SHAPE(9, 64), 13)};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, meet, &m));
    assert_int_equal(count_named(graph, "ph_add"), 1); /* forward's */
    assert_int_equal(count_named(graph, "ph_norm"), 3);
    ph_graph_destroy(graph);
    ph_tensor_release(m.x);
    ph_tensor_release(m.w);
    ph_tensor_release(m.g);
    t_scene_close(&s);
}

/* ---- an embedding ---- whose weight is a head's, too: its gradient goes to the rows that it has
 * alone, behind a product that gives all of them. */
static ph_tensor *tied_gradient(meeting *m, ph_tensor *index, bool embedding, bool head)
{
    ph_tensor *x = ph_embedding(m->tape, m->w, index), *grad;
    ph_tensor *hidden = embedding ? x : ph_detach(m->tape, x),
              *weight = head ? m->w : ph_detach(m->tape, m->w);
    ph_tensor *y = ph_linear(m->tape, hidden, weight, NULL);
    ph_grad(m->tape, &grad, &m->w, 1, &y, &m->g, 1, NULL);
    return grad;
}

typedef struct tied_step {
    meeting m;
    ph_tensor *index;
} tied_step;

static ph_status run_tied(ph_stream *stream, void *user)
{
    tied_step *t = user;
    (void)stream;
    (void)tied_gradient(&t->m, t->index, true, true);
    return ph_tape_clear(t->m.tape);
}

TEST(an_embeddings_gradient_adds_its_rows_to_the_sum)
{
    static const ph_dtype dtypes[] = {PH_DTYPE_F32, PH_DTYPE_F64, PH_DTYPE_BF16};
    int32_t rows[80];
    t_scene s;
    for (int i = 0; i < 80; i++)
        rows[i] = i < 50 ? 7 : i * i % 60;
    t_scene_open(&s);
    for (size_t d = 0; d < 3; d++) {
        tied_step t = {{s.tape, NULL, draw(&s, dtypes[d], PH_SHAPE(64, 24), 15),
                        draw(&s, dtypes[d], PH_SHAPE(80, 64), 16)},
                       NULL};
        ph_graph *graph;
        t.index = ph_tensor_retain(ph_from_memory(s.tape, PH_DTYPE_I32, PH_SHAPE(80), rows));
        ph_tensor *want =
            ph_add(s.tape, ph_detach(s.tape, tied_gradient(&t.m, t.index, false, true)),
                   ph_detach(s.tape, tied_gradient(&t.m, t.index, true, false)));
        ph_tensor *got = tied_gradient(&t.m, t.index, true, true);
        assert_true(farthest(&s, got, want, 1) == 0);
        assert_ok(ph_tape_clear(s.tape));
        assert_ok(ph_graph_create(&graph, NULL));
        assert_ok(ph_graph_capture(graph, s.stream, NULL, run_tied, &t));
        assert_int_equal(count_named(graph, "ph_add_flat") + count_named(graph, "ph_add_scaled"),
                         dtypes[d] == PH_DTYPE_BF16);
        ph_graph_destroy(graph);
        ph_tensor_release(t.index);
        ph_tensor_release(t.m.w);
        ph_tensor_release(t.m.g);
    }
    t_scene_close(&s);
}

/* ---- a transformer block ---- its norms give what products read, and attention's gradients lie in
 * one tensor: no kernel casts an activation or copies heads. */
typedef struct block_step {
    ph_tape *tape;
    ph_module *block;
    ph_tensor *x;
} block_step;

static ph_status run_block(ph_stream *stream, void *user)
{
    const block_step *b = user;
    (void)stream;
    ph_module_zero_grad(b->block);
    ph_backward(b->tape, ph_sum(b->tape, ph_call(b->tape, b->block, b->x)));
    return ph_tape_clear(b->tape);
}

TEST(a_block_casts_its_weights_alone)
{
    t_scene s;
    ph_graph *graph;
    t_scene_open(&s);
    block_step b = {.tape = s.tape, .x = draw(&s, PH_DTYPE_F32, PH_SHAPE(2, 16, 64), 14)};
    assert_ok(ph_transformer_block_create(&b.block, s.device, 64, 2, NULL));
    (void)ph_tape_set_autocast(s.tape, to_bf16);
    assert_ok(run_block(s.stream, &b));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, run_block, &b));
    assert_int_equal(count_named(graph, "ph_copy"), 0);
    /* four weights and their biases; and the gradients that enter the two residual paths */
    assert_int_equal(count_named(graph, "ph_cast_f32_bf16"), 8 + 2);
    assert_int_equal(count_named(graph, "ph_cast_bf16_f32"), 0);
    ph_graph_destroy(graph);
    ph_module_release(b.block);
    ph_tensor_release(b.x);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loss_of_half_logits_is_that_of_their_cast),
        cmocka_unit_test(a_loss_of_half_logits_copies_none),
        cmocka_unit_test(gradients_of_cast_operands_are_not_rounded),
        cmocka_unit_test(gradients_of_casts_in_the_code_are_of_their_dtype),
        cmocka_unit_test(sums_of_two_dtypes_are_those_of_casts),
        cmocka_unit_test(a_norms_gradient_adds_itself_to_the_sum),
        cmocka_unit_test(no_kernel_adds_a_norms_gradient),
        cmocka_unit_test(an_embeddings_gradient_adds_its_rows_to_the_sum),
        cmocka_unit_test(a_block_casts_its_weights_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
