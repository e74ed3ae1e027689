/* SPDX-License-Identifier: MIT */
/* tests/tensor/views_captured.c: each kind of view with a consumer, forward and gradient, in a
 * graph: to the bit what it is outside of one, with the values of then and with others. Values
 * are small integers, so that what comes out is exact, also in bf16. */
#include "support/op_check.h"
#include "support/tensors.h"
#include "support/test.h"

enum {
    OUTS = 3, /* the most that a view gives (of split) */
    MOST = 256
};

/* The views of x; what is not there stays NULL. */
typedef void (*view_fn)(ph_tape *tape, ph_tensor *out[OUTS], ph_tensor *x);

typedef struct run_state {
    t_scene s;
    view_fn view;
    ph_tensor *x, *weight[OUTS];
    ph_tensor *square[OUTS], *sum, *grad; /* of the last run; retained */
    double values[MOST], factors[OUTS][MOST];
    int64_t from[OUTS][MOST], counts[OUTS]; /* which element of x each of a view is */
} run_state;

/* y = view(x); the sum of a weighting of y y, and its gradient. */
static ph_status run(ph_stream *stream, void *user)
{
    run_state *r = user;
    ph_tape *tape = r->s.tape;
    ph_tensor *views[OUTS] = {NULL}, *sum = NULL, *grad = NULL;
    (void)stream;
    r->view(tape, views, r->x);
    for (int i = 0; i < OUTS && views[i]; i++) {
        ph_tensor *square = ph_mul(tape, views[i], views[i]);
        ph_tensor *part = ph_sum(tape, ph_mul(tape, square, r->weight[i]));
        sum = sum ? ph_add(tape, sum, part) : part;
        r->square[i] = square ? ph_tensor_retain(square) : NULL;
    }
    ph_grad(tape, &grad, &r->x, 1, &sum, NULL, 1, NULL);
    r->sum = sum ? ph_tensor_retain(sum) : NULL;
    r->grad = grad ? ph_tensor_retain(grad) : NULL;
    return ph_tape_clear(tape);
}

/* ---- what is expected ---- */
static int64_t small(ph__rng *rng, int64_t most)
{
    return (int64_t)ph__rng_below(rng, (uint64_t)(2 * most + 1)) - most;
}

static void draw(double *out, int64_t count, int64_t most, ph__rng *rng)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = (double)small(rng, most);
}

/* From a view of 0, 1, 2, ...: what a view by itself shows is held to be right elsewhere. */
static void find_elements(run_state *r, ph_shape shape, ph_dtype dtype, ph__rng *rng)
{
    ph_tensor *views[OUTS] = {NULL};
    float numbers[MOST];
    uint64_t bytes[MOST];
    r->view(r->s.tape, views, t_counting(r->s.tape, shape));
    assert_ok(ph_tape_status(r->s.tape));
    for (int i = 0; i < OUTS && views[i]; i++) {
        int64_t count = r->counts[i] = ph_tensor_count(views[i]);
        assert_true(count > 0 && count <= MOST);
        assert_ok(ph_tensor_read(r->s.tape, views[i], numbers, (size_t)count * sizeof *numbers));
        for (int64_t n = 0; n < count; n++)
            r->from[i][n] = (int64_t)numbers[n];
        draw(r->factors[i], count, 2, rng);
        op_encode(bytes, dtype, r->factors[i], count);
        r->weight[i] =
            ph_tensor_retain(ph_from_memory(r->s.tape, dtype, ph_tensor_shape(views[i]), bytes));
    }
    assert_ok(ph_tape_clear(r->s.tape));
}

static void assert_holds(run_state *r, const ph_tensor *x, ph_dtype dtype, const double *values,
                         int64_t count, const char *what)
{
    uint64_t got[MOST] = {0};
    double numbers[MOST];
    assert_int_equal(ph_tensor_count(x), count);
    assert_ok(ph_tensor_read(r->s.tape, x, got, ph_tensor_bytes(x)));
    op_decode(numbers, dtype, got, count);
    for (int64_t n = 0; n < count; n++)
        if (numbers[n] != values[n])
            fail_msg("%s, %s: element %lld is %g, and should be %g", what, ph_dtype_name(dtype),
                     (long long)n, numbers[n], values[n]);
}

static void check_values(run_state *r, ph_dtype dtype)
{
    double sum = 0, grad[MOST] = {0}, square[MOST];
    for (int i = 0; i < OUTS && r->weight[i]; i++) {
        for (int64_t n = 0; n < r->counts[i]; n++) {
            double x = r->values[r->from[i][n]], factor = r->factors[i][n];
            square[n] = x * x;
            sum += factor * square[n];
            grad[r->from[i][n]] += 2 * x * factor;
        }
        assert_holds(r, r->square[i], dtype, square, r->counts[i], "product");
    }
    assert_true(sum >= -256 && sum <= 256); /* bf16 has these integers */
    assert_holds(r, r->sum, dtype, &sum, 1, "sum");
    assert_holds(r, r->grad, dtype, grad, ph_tensor_count(r->x), "gradient");
}

/* ---- runs ---- */

/* All results' bytes, one behind the other. */
static size_t read_all(run_state *r, uint64_t *out)
{
    size_t used = 0;
    for (int i = 0; i < OUTS + 2; i++) {
        ph_tensor *x = i < OUTS ? r->square[i] : i == OUTS ? r->sum : r->grad;
        if (x == NULL)
            continue;
        assert_ok(ph_tensor_read(r->s.tape, x, (char *)out + used, ph_tensor_bytes(x)));
        used += ph_tensor_bytes(x);
    }
    return used;
}

static void spoil_all(run_state *r)
{
    for (int i = 0; i < OUTS + 2; i++) {
        ph_tensor *x = i < OUTS ? r->square[i] : i == OUTS ? r->sum : r->grad;
        if (x && ph_tensor_is_contiguous(x))
            assert_ok(ph_memset(ph_tensor_data(x), 0xEE, ph_tensor_bytes(x), r->s.stream));
    }
}

static void drop_results(run_state *r)
{
    for (int i = 0; i < OUTS; i++) {
        ph_tensor_release(r->square[i]);
        r->square[i] = NULL;
    }
    ph_tensor_release(r->sum);
    ph_tensor_release(r->grad);
    r->sum = r->grad = NULL;
}

/* Other values for x, in place. */
static void change(run_state *r, ph_dtype dtype, ph__rng *rng)
{
    uint64_t bytes[MOST];
    int64_t count = ph_tensor_count(r->x);
    draw(r->values, count, 3, rng);
    op_encode(bytes, dtype, r->values, count);
    bool before = ph_tape_set_grad_enabled(r->s.tape, false);
    assert_ok(ph_tensor_write(r->s.tape, r->x, bytes, ph_tensor_bytes(r->x)));
    (void)ph_tape_set_grad_enabled(r->s.tape, before);
    assert_ok(ph_stream_synchronize(r->s.stream));
}

static void check_dtype(view_fn view, ph_shape shape, ph_dtype dtype)
{
    static uint64_t eager[(OUTS + 2) * MOST], got[(OUTS + 2) * MOST];
    run_state *r = calloc(1, sizeof *r);
    ph__rng rng = {7};
    ph_graph *graph;
    assert_non_null(r);
    r->view = view;
    t_scene_open(&r->s);
    find_elements(r, shape, dtype, &rng);
    assert_ok(ph_tensor_create(&r->x, r->s.device, dtype, shape));
    change(r, dtype, &rng);
    assert_ok(ph_tensor_set_requires_grad(r->x, true));
    assert_ok(run(r->s.stream, r));
    check_values(r, dtype);
    size_t bytes = read_all(r, eager);
    drop_results(r);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, r->s.stream, NULL, run, r));
    for (int replay = 0; replay < 2; replay++) {
        spoil_all(r);
        assert_ok(ph_graph_replay(graph, r->s.stream));
        assert_int_equal(read_all(r, got), bytes);
        assert_memory_equal(got, eager, bytes);
    }
    change(r, dtype, &rng);
    spoil_all(r);
    assert_ok(ph_graph_replay(graph, r->s.stream));
    check_values(r, dtype);
    drop_results(r);
    ph_graph_destroy(graph);
    ph_tensor_release(r->x);
    for (int i = 0; i < OUTS; i++)
        ph_tensor_release(r->weight[i]);
    t_scene_close(&r->s);
    free(r);
}

static void check(view_fn view, ph_shape shape)
{
    check_dtype(view, shape, PH_DTYPE_F32);
    check_dtype(view, shape, PH_DTYPE_BF16);
}

/* ---- the views ---- */
static void slice(ph_tape *tape, ph_tensor *out[OUTS], ph_tensor *x)
{
    out[0] = ph_slice(tape, x, 1, 1, 3);
    out[1] = ph_slice(tape, x, 0, -2, INT64_MAX); /* some elements twice */
}

static void slice_step(ph_tape *tape, ph_tensor *out[OUTS], ph_tensor *x)
{
    out[0] = ph_slice_step(tape, x, 1, 1, 5, 2);
    out[1] = ph_slice_step(tape, ph_slice_step(tape, x, 0, 0, 3, 2), 1, 0, 5, 3);
}

static void select_one(ph_tape *tape, ph_tensor *out[OUTS], ph_tensor *x)
{
    out[0] = ph_select(tape, x, 0, 1);
    out[1] = ph_select(tape, x, 1, -1);
}

static void transpose(ph_tape *tape, ph_tensor *out[OUTS], ph_tensor *x)
{
    out[0] = ph_transpose(tape, x, 0, 1);
    out[1] = ph_transpose(tape, x, -1, 0);
}

static void permute(ph_tape *tape, ph_tensor *out[OUTS], ph_tensor *x)
{
    out[0] = ph_permute(tape, x, (int[]){2, 0, 1}, 3);
}

static void reshape_view(ph_tape *tape, ph_tensor *out[OUTS], ph_tensor *x)
{
    out[0] = ph_reshape(tape, x, PH_SHAPE(4, -1));
    if (out[0])
        assert_ptr_equal(ph_tensor_data(out[0]), ph_tensor_data(x));
}

static void reshape_copy(ph_tape *tape, ph_tensor *out[OUTS], ph_tensor *x)
{
    out[0] = ph_reshape(tape, ph_transpose(tape, x, 0, 1), PH_SHAPE(-1));
    if (out[0])
        assert_ptr_not_equal(ph_tensor_data(out[0]), ph_tensor_data(x));
}

static void flatten(ph_tape *tape, ph_tensor *out[OUTS], ph_tensor *x)
{
    out[0] = ph_flatten(tape, x, 1, -1);
    out[1] = ph_flatten(tape, ph_transpose(tape, x, 0, 2), 0, 1); /* a copy */
}

static void expand(ph_tape *tape, ph_tensor *out[OUTS], ph_tensor *x)
{
    out[0] = ph_expand(tape, x, PH_SHAPE(2, 3, 4));
}

static void squeeze(ph_tape *tape, ph_tensor *out[OUTS], ph_tensor *x)
{
    out[0] = ph_squeeze(tape, x, 1);
    out[1] = ph_squeeze(tape, x, PH_ALL_AXES);
}

static void unsqueeze(ph_tape *tape, ph_tensor *out[OUTS], ph_tensor *x)
{
    out[0] = ph_unsqueeze(tape, x, 1);
    out[1] = ph_unsqueeze(tape, x, -1);
}

static void split(ph_tape *tape, ph_tensor *out[OUTS], ph_tensor *x)
{
    ph_split(tape, out, x, 1, (const int64_t[]){1, 3, 2}, 3);
}

TEST(captured_slices_match_eager_ones)
{
    check(slice, PH_SHAPE(3, 4));
    check(slice_step, PH_SHAPE(3, 5));
    check(select_one, PH_SHAPE(3, 4));
    check(split, PH_SHAPE(2, 6));
}

TEST(captured_transposes_match_eager_ones)
{
    check(transpose, PH_SHAPE(2, 3, 2));
    check(permute, PH_SHAPE(2, 3, 4));
}

TEST(captured_reshapes_match_eager_ones)
{
    check(reshape_view, PH_SHAPE(2, 6));
    check(reshape_copy, PH_SHAPE(3, 4));
    check(flatten, PH_SHAPE(2, 2, 3));
    check(squeeze, PH_SHAPE(3, 1, 4));
    check(unsqueeze, PH_SHAPE(3, 4));
}

TEST(captured_expands_match_eager_ones)
{
    check(expand, PH_SHAPE(3, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captured_slices_match_eager_ones),
        cmocka_unit_test(captured_transposes_match_eager_ones),
        cmocka_unit_test(captured_reshapes_match_eager_ones),
        cmocka_unit_test(captured_expands_match_eager_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
