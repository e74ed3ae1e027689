/* SPDX-License-Identifier: MIT */
/* tests/tensor/views.c: views: what they show, what they refuse, their gradients; random chains
 * of them beside a plain model. */
#include "base/rng.h"
#include "support/tensors.h"
#include "support/test.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"

enum {
    MOST = 4096
};

TEST(slices_share_memory_and_clamp_their_bounds)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = t_counting(s.tape, PH_SHAPE(3, 4));
    t_expect_values(s.tape, ph_slice(s.tape, x, 0, 1, 3), PH_SHAPE(2, 4), 4, 5, 6, 7, 8, 9, 10, 11);
    t_expect_values(s.tape, ph_slice(s.tape, x, 1, 1, 2), PH_SHAPE(3, 1), 1, 5, 9);
    t_expect_values(s.tape, ph_slice(s.tape, x, -1, -2, 100), PH_SHAPE(3, 2), 2, 3, 6, 7, 10, 11);
    t_expect_values(s.tape, ph_slice(s.tape, x, 0, -100, -2), PH_SHAPE(1, 4), 0, 1, 2, 3);
    t_expect_values(s.tape, ph_slice_step(s.tape, x, 1, 0, 4, 3), PH_SHAPE(3, 2), 0, 3, 4, 7, 8,
                    11);
    t_expect_values(s.tape, ph_slice_step(s.tape, x, 1, 1, 4, INT64_MAX), PH_SHAPE(3, 1), 1, 5, 9);
    ph_tensor *none = ph_slice(s.tape, x, 0, 2, 1);
    assert_int_equal(ph_tensor_dim(none, 0), 0);
    assert_int_equal(ph_tensor_dim(none, 1), 4);
    assert_null(ph_tensor_data(none));
    assert_int_equal(ph_tensor_count(ph_slice(s.tape, x, 0, 3, 3)), 0);
    assert_int_equal(ph_tensor_count(ph_slice(s.tape, x, 0, INT64_MIN, INT64_MIN)), 0);
    assert_ptr_equal(ph_tensor_data(ph_slice(s.tape, x, 0, 1, 2)), (char *)ph_tensor_data(x) + 16);
    t_expect_values(s.tape, ph_select(s.tape, x, 0, -1), PH_SHAPE(4), 8, 9, 10, 11);
    t_expect_values(s.tape, ph_select(s.tape, ph_select(s.tape, x, 1, 2), 0, 1), PH_SCALAR, 6);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

TEST(transposed_and_permuted_views_keep_their_elements)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = t_counting(s.tape, PH_SHAPE(2, 3));
    t_expect_values(s.tape, ph_transpose(s.tape, x, 0, 1), PH_SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
    t_expect_values(s.tape, ph_transpose(s.tape, x, -1, -1), PH_SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    ph_tensor *y = ph_permute(s.tape, t_counting(s.tape, PH_SHAPE(1, 2, 3)), (int[]){2, 0, -2}, 3);
    t_expect_values(s.tape, y, PH_SHAPE(3, 1, 2), 0, 3, 1, 4, 2, 5);
    assert_non_null(ph_permute(s.tape, ph_full(s.tape, PH_DTYPE_F32, PH_SCALAR, 1), NULL, 0));
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

TEST(reshapes_are_views_where_strides_allow)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = t_counting(s.tape, PH_SHAPE(2, 1, 3)), *y;
    ph_tensor *turned = ph_transpose(s.tape, x, 0, 2); /* [3, 1, 2] */
    y = ph_reshape(s.tape, x, PH_SHAPE(3, -1));
    t_expect_values(s.tape, y, PH_SHAPE(3, 2), 0, 1, 2, 3, 4, 5);
    assert_ptr_equal(ph_tensor_data(y), ph_tensor_data(x));
    y = ph_reshape(s.tape, turned, PH_SHAPE(6)); /* no strides do that: a copy */
    t_expect_values(s.tape, y, PH_SHAPE(6), 0, 3, 1, 4, 2, 5);
    assert_ptr_not_equal(ph_tensor_data(y), ph_tensor_data(x));
    y = ph_reshape(s.tape, turned, PH_SHAPE(3, 1, 1, 2)); /* these do */
    t_expect_values(s.tape, y, PH_SHAPE(3, 1, 1, 2), 0, 3, 1, 4, 2, 5);
    assert_ptr_equal(ph_tensor_data(y), ph_tensor_data(x));
    t_expect_values(s.tape, ph_reshape(s.tape, ph_slice(s.tape, x, 2, 1, 2), PH_SHAPE(-1)),
                    PH_SHAPE(2), 1, 4);
    t_expect_values(
        s.tape,
        ph_reshape(s.tape, ph_slice(s.tape, ph_slice(s.tape, x, 2, 1, 2), 0, 1, 2), PH_SCALAR),
        PH_SCALAR, 4);
    assert_int_equal(
        ph_tensor_dim(
            ph_reshape(s.tape, ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(0, 3)), PH_SHAPE(5, -1)), 1),
        0);
    y = ph_flatten(s.tape, t_counting(s.tape, PH_SHAPE(2, 2, 2)), 1, -1);
    t_expect_values(s.tape, y, PH_SHAPE(2, 4), 0, 1, 2, 3, 4, 5, 6, 7);
    assert_int_equal(
        ph_tensor_rank(ph_flatten(s.tape, t_counting(s.tape, PH_SHAPE(2, 2, 2)), 0, -1)), 1);
    assert_int_equal(ph_tensor_rank(ph_flatten(s.tape, t_counting(s.tape, PH_SCALAR), 0, -1)), 1);
    t_expect_values(s.tape, ph_squeeze(s.tape, x, 1), PH_SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    /* it is not 1 */
    t_expect_values(s.tape, ph_squeeze(s.tape, x, 0), PH_SHAPE(2, 1, 3), 0, 1, 2, 3, 4, 5);
    assert_int_equal(
        ph_tensor_rank(ph_squeeze(s.tape, t_counting(s.tape, PH_SHAPE(1, 1)), PH_ALL_AXES)), 0);
    t_expect_values(s.tape, ph_unsqueeze(s.tape, turned, -1), PH_SHAPE(3, 1, 2, 1), 0, 3, 1, 4, 2,
                    5);
    t_expect_values(s.tape, ph_unsqueeze(s.tape, t_counting(s.tape, PH_SHAPE(2)), 0),
                    PH_SHAPE(1, 2), 0, 1);
    y = ph_expand(s.tape, t_counting(s.tape, PH_SHAPE(2, 1)), PH_SHAPE(2, 2, 3));
    t_expect_values(s.tape, y, PH_SHAPE(2, 2, 3), 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1);
    assert_int_equal(ph_tensor_stride(y, 0), 0);
    assert_int_equal(
        ph_tensor_count(ph_expand(s.tape, t_counting(s.tape, PH_SHAPE(1)), PH_SHAPE(0))), 0);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

static void expect_refused(t_scene *s, ph_tensor *y, const char *words)
{
    assert_null(y);
    assert_error(ph_tape_clear(s->tape), PH_ERROR_ARGUMENT, words);
}

TEST(misuse_is_refused)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = ph_tensor_retain(t_counting(s.tape, PH_SHAPE(2, 3)));
    ph_tensor *many =
        ph_tensor_retain(ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(1, 1, 1, 1, 1, 1, 1, 1)));
    assert_ok(ph_tape_clear(s.tape));
    expect_refused(&s, ph_slice(s.tape, x, 2, 0, 1), "slice: there is no axis 2 (got f32[2, 3])");
    expect_refused(&s, ph_slice(s.tape, NULL, 0, 0, 1), "slice: operand 0 is NULL");
    expect_refused(&s, ph_slice_step(s.tape, x, 0, 0, 1, 0), "a step of 0");
    expect_refused(&s, ph_slice_step(s.tape, x, 0, 0, 1, -1), "a step of -1");
    expect_refused(&s, ph_select(s.tape, x, 0, 2), "select: index 2 is outside axis 0");
    expect_refused(&s, ph_select(s.tape, x, 0, -3), "index -3");
    expect_refused(&s, ph_select(s.tape, x, -3, 0), "no axis -3");
    expect_refused(&s, ph_transpose(s.tape, x, 0, 2), "transpose: there is no axis 2");
    expect_refused(&s, ph_transpose(s.tape, x, 5, 0), "no axis 5");
    expect_refused(&s, ph_permute(s.tape, x, (int[]){0}, 1),
                   "permute: 1 axes are named (got f32[2, 3])");
    expect_refused(&s, ph_permute(s.tape, x, NULL, 2), "axes is NULL");
    expect_refused(&s, ph_permute(s.tape, x, (int[]){0, -2}, 2), "axis -2 is named twice");
    expect_refused(&s, ph_permute(s.tape, x, (int[]){0, 2}, 2), "no axis 2");
    expect_refused(&s, ph_reshape(s.tape, x, PH_SHAPE(4)),
                   "reshape: the new shape has another number of elements: to f32[4] with 4, from "
                   "a tensor with 6");
    expect_refused(&s, ph_reshape(s.tape, x, PH_SHAPE(-1, -1)), "more than one dimension");
    expect_refused(&s, ph_reshape(s.tape, x, PH_SHAPE(-1, 4)),
                   "of the new shape: to f32[-1, 4], from a tensor with 6");
    expect_refused(&s, ph_reshape(s.tape, x, PH_SHAPE(-1, 0)), "could be anything");
    expect_refused(&s, ph_reshape(s.tape, x, PH_SHAPE(-2, -3)), "negative");
    expect_refused(&s, ph_reshape(s.tape, x, (ph_shape){.rank = 9}), "more than 8 dimensions (9)");
    expect_refused(&s, ph_flatten(s.tape, x, 1, 0), "flatten: axis 1 comes behind axis 0");
    expect_refused(&s, ph_flatten(s.tape, x, 0, 2), "no axis 2");
    expect_refused(&s, ph_squeeze(s.tape, x, 2), "no axis 2");
    expect_refused(&s, ph_unsqueeze(s.tape, x, 3), "no axis 3");
    expect_refused(&s, ph_unsqueeze(s.tape, many, 0), "8 dimensions already");
    expect_refused(&s, ph_expand(s.tape, x, PH_SHAPE(3)), "fewer dimensions");
    expect_refused(&s, ph_expand(s.tape, x, PH_SHAPE(2, 4)), "dimension 1 cannot become 4");
    expect_refused(&s, ph_expand(s.tape, x, PH_SHAPE(-1, 2, 3)), "is none");
    ph_tensor_release(x);
    ph_tensor_release(many);
    t_scene_close(&s);
}

/* ---- random chains ---- the model: which element of x each element of the view is. */
typedef struct model {
    ph_shape shape;
    float at[MOST];
} model;

static void index_of(int64_t index[PH_MAX_RANK], int64_t n, const ph_shape *shape)
{
    for (size_t i = shape->rank; i-- > 0;) {
        index[i] = n % shape->dim[i];
        n /= shape->dim[i];
    }
}

static int64_t number_of(const int64_t *index, const ph_shape *shape)
{
    int64_t n = 0;
    for (size_t i = 0; i < shape->rank; i++)
        n = n * shape->dim[i] + index[i];
    return n;
}

/* Another shape; from(index in it) is the index that it shows. */
typedef struct change {
    int kind, a, b;
    int64_t begin, step;
    int axes[PH_MAX_RANK];
    ph_shape shape;
} change;

static int64_t source_of(const model *m, const change *c, const int64_t *index)
{
    int64_t from[PH_MAX_RANK] = {0};
    size_t front = c->kind == 3 ? c->shape.rank - m->shape.rank : 0;
    switch (c->kind) {
    case 0: /* slice */
        memcpy(from, index, sizeof from);
        from[c->a] = c->begin + index[c->a] * c->step;
        break;
    case 1: /* permute */
        for (size_t i = 0; i < m->shape.rank; i++)
            from[c->axes[i]] = index[i];
        break;
    case 2: /* reshape */
        index_of(from, number_of(index, &c->shape), &m->shape);
        break;
    case 3: /* expand */
        for (size_t i = 0; i < m->shape.rank; i++)
            from[i] = m->shape.dim[i] == 1 ? 0 : index[i + front];
        break;
    case 4: /* select */
        for (int i = 0, k = 0; i < (int)m->shape.rank; i++)
            from[i] = i == c->a ? c->begin : index[k++];
        break;
    }
    return number_of(from, &m->shape);
}

static void apply(model *m, const change *c)
{
    static model next;
    next.shape = c->shape;
    int64_t count = ph_shape_count(&c->shape);
    for (int64_t n = 0; n < count; n++) {
        int64_t index[PH_MAX_RANK] = {0};
        index_of(index, n, &c->shape);
        next.at[n] = m->at[source_of(m, c, index)];
    }
    *m = next;
}

static int64_t below(ph__rng *rng, int64_t n)
{
    return (int64_t)ph__rng_below(rng, (uint64_t)n);
}

static void draw_reshape(change *c, const ph_shape *from, ph__rng *rng)
{
    int64_t left = ph_shape_count(from);
    c->shape = PH_SCALAR;
    while (left > 1 && c->shape.rank < 4) {
        int64_t dim = 2 + below(rng, 4);
        if (left % dim == 0) {
            c->shape.dim[c->shape.rank++] = dim;
            left /= dim;
        } else if (below(rng, 3) == 0) {
            c->shape.dim[c->shape.rank++] = 1;
        } else if (below(rng, 4) == 0) {
            break;
        }
    }
    if (left > 1 || below(rng, 4) == 0)
        c->shape.dim[c->shape.rank++] = left;
}

static bool draw(change *c, const ph_shape *from, ph__rng *rng)
{
    *c = (change){.kind = (int)below(rng, 5), .shape = *from, .step = 1};
    int rank = (int)from->rank;
    if (rank == 0 && c->kind != 2)
        return false;
    c->a = rank ? (int)below(rng, rank) : 0;
    switch (c->kind) {
    case 0:
        c->begin = below(rng, from->dim[c->a]);
        c->step = 1 + below(rng, 2);
        c->shape.dim[c->a] = 1 + below(rng, (from->dim[c->a] - 1 - c->begin) / c->step + 1);
        return true;
    case 1:
        for (int i = 0; i < rank; i++)
            c->axes[i] = i;
        for (int i = rank - 1; i > 0; i--) {
            int k = (int)below(rng, i + 1), kept = c->axes[i];
            c->axes[i] = c->axes[k];
            c->axes[k] = kept;
        }
        for (int i = 0; i < rank; i++)
            c->shape.dim[i] = from->dim[c->axes[i]];
        return true;
    case 2:
        draw_reshape(c, from, rng);
        return c->shape.rank <= 5;
    case 3:
        if (rank < 5 && below(rng, 2)) {
            c->shape.rank = from->rank + 1;
            memcpy(c->shape.dim + 1, from->dim, (size_t)rank * sizeof *from->dim);
            c->shape.dim[0] = 1 + below(rng, 3);
        }
        for (size_t i = 0; i < from->rank; i++)
            if (from->dim[i] == 1)
                c->shape.dim[i + c->shape.rank - from->rank] = 1 + below(rng, 3);
        return ph_shape_count(&c->shape) <= MOST;
    default:
        c->begin = below(rng, from->dim[c->a]);
        c->shape.rank--;
        memmove(c->shape.dim + c->a, c->shape.dim + c->a + 1,
                (size_t)(rank - 1 - c->a) * sizeof *from->dim);
        return true;
    }
}

static ph_tensor *view(ph_tape *tape, ph_tensor *x, const change *c)
{
    switch (c->kind) {
    case 0:
        return ph_slice_step(tape, x, c->a, c->begin,
                             c->begin + (c->shape.dim[c->a] - 1) * c->step + 1, c->step);
    case 1:
        return ph_permute(tape, x, c->axes, ph_tensor_rank(x));
    case 2:
        return ph_reshape(tape, x, c->shape);
    case 3:
        return ph_expand(tape, x, c->shape);
    default:
        return ph_select(tape, x, c->a, c->begin);
    }
}

static void check_gradient(t_scene *s, ph_tensor *x, ph_tensor *y, const model *m, ph__rng *rng)
{
    static float grad[MOST], want[MOST];
    int64_t count = ph_shape_count(&m->shape);
    memset(want, 0, sizeof want);
    for (int64_t n = 0; n < count; n++) {
        grad[n] = (float)below(rng, 8);
        want[(size_t)m->at[n]] += grad[n];
    }
    ph_tensor *g = ph_from_memory(s->tape, PH_DTYPE_F32, m->shape, grad);
    ph_backward_from(s->tape, &y, &g, 1, NULL);
    assert_ok(ph_tape_status(s->tape));
    t_expect(s->tape, ph_tensor_grad(x), ph_tensor_shape(x), want);
    assert_ok(ph_tensor_set_grad(x, NULL));
}

static size_t views_seen, gradients_seen;

static void run_chain(t_scene *s, uint64_t seed)
{
    static model m;
    ph__rng rng = {seed};
    m.shape = (ph_shape){.rank = 1 + (size_t)below(&rng, 3)};
    for (size_t i = 0; i < m.shape.rank; i++)
        m.shape.dim[i] = 1 + below(&rng, 6);
    int64_t count = ph_shape_count(&m.shape);
    for (int64_t n = 0; n < count; n++)
        m.at[n] = (float)n;
    ph_tensor *x = ph_tensor_retain(ph_from_memory(s->tape, PH_DTYPE_F32, m.shape, m.at)), *y = x;
    assert_ok(ph_tensor_set_requires_grad(x, true));
    for (int steps = 1 + (int)below(&rng, 6); steps > 0; steps--) {
        change c;
        if (!draw(&c, &m.shape, &rng))
            continue;
        y = view(s->tape, y, &c);
        apply(&m, &c);
        views_seen++;
        assert_ok(ph_tape_status(s->tape));
        t_expect(s->tape, y, m.shape, m.at);
    }
    if (y != x) {
        check_gradient(s, x, y, &m, &rng);
        gradients_seen++;
    }
    ph_tensor_release(x);
    assert_ok(ph_tape_clear(s->tape));
}

TEST(random_chains_of_views_match_their_reference)
{
    t_scene s;
    t_scene_open(&s);
    uint64_t chains = t_nightly() ? 20000 : 400;
    for (uint64_t seed = 1; seed <= chains; seed++)
        run_chain(&s, seed);
    assert_true(views_seen > 2 * chains && gradients_seen > chains / 2);
    t_scene_close(&s);
}

static ph_status all_views(t_scene *s, ph_tensor *x)
{
    ph_tape *t = s->tape;
    ph_tensor *y = ph_transpose(t, ph_slice(t, x, 0, 1, 3), 0, 1);
    y = ph_flatten(t, ph_unsqueeze(t, ph_reshape(t, y, PH_SHAPE(2, 4)), 0), 0, 1);
    ph_tensor *g = ph_full(t, PH_DTYPE_F32, PH_SHAPE(4), 1);
    y = ph_select(t, ph_squeeze(t, y, PH_ALL_AXES), 0, 1);
    ph_backward_from(t, &y, &g, 1, NULL);
    return ph_tape_clear(t);
}

TEST(views_without_host_memory_fail_and_leak_nothing)
{
    for (int64_t n = 0;; n++) {
        t_scene s;
        t_scene_open(&s);
        ph_tensor *x;
        assert_ok(ph_tensor_create(&x, s.device, PH_DTYPE_F32, PH_SHAPE(3, 4)));
        assert_ok(ph_tensor_write(s.tape, x, (const float[12]){0}, 48));
        assert_ok(ph_tensor_set_requires_grad(x, true));
        ph__alloc_fail_after(n);
        ph_status status = all_views(&s, x);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        ph_tensor_release(x);
        t_scene_close(&s);
        if (status == PH_OK) {
            assert_true(n > 20);
            break;
        }
        assert_int_equal(status, PH_ERROR_HOST_MEMORY);
    }
}

int main(void)
{
    t_hold_context();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_share_memory_and_clamp_their_bounds),
        cmocka_unit_test(transposed_and_permuted_views_keep_their_elements),
        cmocka_unit_test(reshapes_are_views_where_strides_allow),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(random_chains_of_views_match_their_reference),
        cmocka_unit_test(views_without_host_memory_fail_and_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
