/* SPDX-License-Identifier: MIT */
/* tests/tensor/gradient_sums.c: backward functions that add to the sum of gradients that is there:
 * the bits of sums of their own, and no kernels for them. */
#include "support/fused.h"

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
            meeting m = {s.tape, t_draw(&s, dtypes[d], shape, 11),
                         t_draw(&s, dtypes[d], PH_SHAPE(widths[i]), 12),
                         t_draw(&s, dtypes[d], shape, 13)};
            ph_tensor *want = ph_add(s.tape, ph_detach(s.tape, gradient_through(&m, false, true)),
                                     ph_detach(s.tape, gradient_through(&m, true, false)));
            ph_tensor *got = gradient_through(&m, true, true);
            assert_true(t_farthest(&s, got, want, 1) == 0);
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

TEST(no_kernel_adds_a_norms_gradient)
{
    t_scene s;
    ph_graph *graph;
    t_scene_open(&s);
    meeting m = {s.tape, t_draw(&s, PH_DTYPE_F32, PH_SHAPE(9, 64), 11),
                 t_draw(&s, PH_DTYPE_F32, PH_SHAPE(64), 12),
                 t_draw(&s, PH_DTYPE_F32, PH_SHAPE(9, 64), 13)};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, meet, &m));
    assert_int_equal(t_count_named(graph, "ph_add"), 1); /* forward's */
    assert_int_equal(t_count_named(graph, "ph_norm"), 3);
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
        tied_step t = {{s.tape, NULL, t_draw(&s, dtypes[d], PH_SHAPE(64, 24), 15),
                        t_draw(&s, dtypes[d], PH_SHAPE(80, 64), 16)},
                       NULL};
        ph_graph *graph;
        t.index = ph_tensor_retain(ph_from_memory(s.tape, PH_DTYPE_I32, PH_SHAPE(80), rows));
        ph_tensor *want =
            ph_add(s.tape, ph_detach(s.tape, tied_gradient(&t.m, t.index, false, true)),
                   ph_detach(s.tape, tied_gradient(&t.m, t.index, true, false)));
        ph_tensor *got = tied_gradient(&t.m, t.index, true, true);
        assert_true(t_farthest(&s, got, want, 1) == 0);
        assert_ok(ph_tape_clear(s.tape));
        assert_ok(ph_graph_create(&graph, NULL));
        assert_ok(ph_graph_capture(graph, s.stream, NULL, run_tied, &t));
        assert_int_equal(t_count_named(graph, "ph_add_flat") +
                             t_count_named(graph, "ph_add_scaled"),
                         dtypes[d] == PH_DTYPE_BF16);
        ph_graph_destroy(graph);
        ph_tensor_release(t.index);
        ph_tensor_release(t.m.w);
        ph_tensor_release(t.m.g);
    }
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_norms_gradient_adds_itself_to_the_sum),
        cmocka_unit_test(no_kernel_adds_a_norms_gradient),
        cmocka_unit_test(an_embeddings_gradient_adds_its_rows_to_the_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
