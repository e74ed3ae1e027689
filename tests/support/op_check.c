/* SPDX-License-Identifier: MIT */
/* tests/support/op_check.c: one operator against its reference, its differences, and itself in a
 * graph. */
#include "support/op_check.h"
#include "tensor/core/guard.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Gradients are held against differences in each element of an input that has at most ALL; in
 * SAMPLES of a larger one. */
enum {
    ALL = 64,
    SAMPLES = 10,
    NIGHTLY_ALL = 1024,
    NIGHTLY_SAMPLES = 64
};

/* One trial in one dtype. Arrays hold what the dtype can hold; bytes are as read from the
 * device. */
typedef struct check {
    op_trial trial;
    const op_spec *spec;
    ph_device *device;
    ph_stream *stream;
    ph_tape *tape;
    op_array in[OP_MAX_INPUTS], weight[OP_MAX_OUTPUTS];
    ph_tensor *x[OP_MAX_INPUTS], *w[OP_MAX_OUTPUTS];
    ph_tensor *out[OP_MAX_OUTPUTS], *grad[OP_MAX_INPUTS];        /* of the last run; retained */
    void *out_bytes[OP_MAX_OUTPUTS], *grad_bytes[OP_MAX_INPUTS]; /* of the eager run */
    size_t outs;
} check;

static const char *shape_text(char *text, size_t size, const ph_shape *shape)
{
    int used = snprintf(text, size, "[");
    for (size_t i = 0; i < shape->rank; i++)
        used += snprintf(text + used, size - (size_t)used, "%s%lld", i ? ", " : "",
                         (long long)shape->dim[i]);
    snprintf(text + used, size - (size_t)used, "]");
    return text;
}

static void describe(const check *c)
{
    print_error("%s, %s, trial %zu:", c->spec->name, ph_dtype_name(c->trial.dtype), c->trial.index);
    for (size_t i = 0; i < c->spec->in_count; i++) {
        char text[128];
        print_error(" %s", shape_text(text, sizeof text, &c->trial.shape[i]));
    }
    print_error("\n");
}

#define require(c, condition, ...)                                                                 \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            describe(c);                                                                           \
            print_error(__VA_ARGS__);                                                              \
            fail();                                                                                \
        }                                                                                          \
    } while (0)

static ph_dtype input_dtype(const check *c, size_t i)
{
    return c->spec->in[i].dtype ? c->spec->in[i].dtype : c->trial.dtype;
}

static bool wants_gradient(const check *c, size_t i)
{
    return !c->spec->no_gradient && !c->spec->in[i].no_gradient &&
           ph_dtype_is_floating(input_dtype(c, i));
}

/* ---- inputs ---- */
static double random_unit(check *c)
{
    return (double)(ph__rng_next(&c->trial.rng) >> 11) * 0x1p-53;
}

static void round_to(ph_dtype dtype, double *values, int64_t count)
{
    void *bytes = malloc((size_t)count * 8 + 8);
    assert_non_null(bytes);
    op_encode(bytes, dtype, values, count);
    op_decode(values, dtype, bytes, count);
    free(bytes);
}

static void fill_input(check *c, size_t i)
{
    const op_input *spec = &c->spec->in[i];
    double low = c->trial.low[i], high = c->trial.high[i];
    ph_dtype dtype = input_dtype(c, i);
    op_array *a = &c->in[i];
    op_array_make(a, &c->trial.shape[i]);
    for (int64_t k = 0; k < a->count; k++) {
        double v = spec->distinct ? low + (high - low) * ((double)k + 0.5) / (double)a->count
                                  : low + (high - low) * random_unit(c);
        if (fabs(v) < spec->gap)
            v = v < 0 ? v - spec->gap : v + spec->gap;
        a->at[k] = ph_dtype_is_floating(dtype) ? v : floor(v);
    }
    for (int64_t k = a->count - 1; spec->distinct && k > 0; k--) {
        int64_t j = (int64_t)ph__rng_below(&c->trial.rng, (uint64_t)k + 1);
        double v = a->at[k];
        a->at[k] = a->at[j];
        a->at[j] = v;
    }
    if (c->spec->adjust)
        c->spec->adjust(a, i, &c->trial);
    round_to(dtype, a->at, a->count);
}

/* A tensor with these values whose axes lie in memory in a random order, with gaps that hold
 * NaN. */
static ph_tensor *strided(check *c, const op_array *a, ph_dtype dtype, bool contiguous)
{
    size_t rank = a->shape.rank;
    int order[PH_MAX_RANK], place[PH_MAX_RANK];
    int64_t step[PH_MAX_RANK], offset[PH_MAX_RANK];
    ph_shape base = {.rank = rank};
    for (size_t i = 0; i < rank; i++)
        order[i] = (int)i;
    bool plain = contiguous || op_random(&c->trial, 0, 2) == 0;
    for (size_t i = 0; i < rank; i++) {
        size_t j = plain ? i : i + (size_t)op_random(&c->trial, 0, (int64_t)(rank - i) - 1);
        int swap = order[i];
        order[i] = order[j];
        order[j] = swap;
        step[i] = plain ? 1 : op_random(&c->trial, 1, 2);
        offset[i] = plain ? 0 : op_random(&c->trial, 0, 1);
    }
    for (size_t i = 0; i < rank; i++) {
        place[order[i]] = (int)i;
        base.dim[i] = a->shape.dim[order[i]] * step[i] + offset[i];
    }
    op_array values;
    op_array_make(&values, &base);
    for (int64_t k = 0; k < values.count; k++)
        values.at[k] = ph_dtype_is_floating(dtype) ? (double)NAN : 101;
    int64_t index[PH_MAX_RANK] = {0}, k = 0;
    if (a->count > 0)
        do {
            int64_t at = 0;
            for (size_t i = 0; i < rank; i++)
                at = at * base.dim[i] + index[order[i]] * step[i] + offset[i];
            values.at[at] = a->at[k++];
        } while (op_next(index, &a->shape));
    void *bytes = malloc((size_t)values.count * 8 + 8);
    assert_non_null(bytes);
    op_encode(bytes, dtype, values.at, values.count);
    bool before = ph_tape_set_grad_enabled(c->tape, false);
    ph_tensor *x = ph_from_memory(c->tape, dtype, base, bytes);
    for (size_t i = 0; i < rank; i++)
        x = ph_slice_step(c->tape, x, (int)i, offset[i],
                          offset[i] + a->shape.dim[order[i]] * step[i], step[i]);
    x = ph_tensor_retain(ph_permute(c->tape, x, place, rank));
    ph_tape_set_grad_enabled(c->tape, before);
    assert_ok(ph_tape_clear(c->tape));
    assert_non_null(x);
    free(bytes);
    free(values.at);
    return x;
}

static void make_inputs(check *c)
{
    for (size_t i = 0; i < c->spec->in_count; i++) {
        fill_input(c, i);
        c->x[i] = strided(c, &c->in[i], input_dtype(c, i), c->spec->in[i].contiguous);
        if (wants_gradient(c, i))
            assert_ok(ph_tensor_set_requires_grad(c->x[i], true));
    }
}

/* ---- runs ---- */
static bool any_gradient(const check *c)
{
    bool any = false;
    for (size_t i = 0; i < c->spec->in_count; i++)
        any |= wants_gradient(c, i);
    return any;
}

/* The weights that outputs are summed with are made by the first run, which sees the outputs'
 * shapes. */
static void make_weights(check *c)
{
    for (size_t i = 0; i < c->outs; i++) {
        if (c->w[i] || !ph_dtype_is_floating(ph_tensor_dtype(c->out[i])))
            continue;
        ph_shape shape = ph_tensor_shape(c->out[i]);
        op_array_make(&c->weight[i], &shape);
        for (int64_t k = 0; k < c->weight[i].count; k++)
            c->weight[i].at[k] = 2 * random_unit(c) - 1;
        round_to(ph_tensor_dtype(c->out[i]), c->weight[i].at, c->weight[i].count);
        c->w[i] = strided(c, &c->weight[i], ph_tensor_dtype(c->out[i]), false);
    }
}

static ph_status forward(check *c)
{
    memset(c->out, 0, sizeof c->out);
    memset(c->grad, 0, sizeof c->grad);
    c->spec->apply(c->tape, c->out, c->x, &c->trial);
    PH_TRY(ph_tape_status(c->tape));
    for (size_t i = 0; i < c->outs; i++) {
        if (!c->out[i])
            return ph_fail(PH_ERROR_CALLER, "%s: output %zu is NULL, and the tape has not failed",
                           c->spec->name, i);
        ph_tensor_retain(c->out[i]);
    }
    return PH_OK;
}

static ph_status both(ph_stream *stream, void *user)
{
    check *c = user;
    (void)stream;
    PH_TRY(forward(c));
    if (any_gradient(c)) {
        ph_tensor *in[OP_MAX_INPUTS], *grads[OP_MAX_INPUTS] = {NULL}, *out[OP_MAX_OUTPUTS],
                                      *w[OP_MAX_OUTPUTS];
        size_t ins = 0, outs = 0, from[OP_MAX_INPUTS];
        for (size_t i = 0; i < c->spec->in_count; i++)
            if (wants_gradient(c, i)) {
                from[ins] = i;
                in[ins++] = c->x[i];
            }
        for (size_t i = 0; i < c->outs; i++)
            if (c->w[i]) {
                out[outs] = c->out[i];
                w[outs++] = c->w[i];
            }
        ph_grad_options options = {.allow_unused = true};
        ph_grad(c->tape, grads, in, ins, out, w, outs, &options);
        for (size_t i = 0; i < ins; i++)
            c->grad[from[i]] = ph_tensor_retain(grads[i]);
    }
    return ph_tape_clear(c->tape);
}

static void drop_results(check *c)
{
    for (size_t i = 0; i < OP_MAX_OUTPUTS; i++) {
        ph_tensor_release(c->out[i]);
        c->out[i] = NULL;
    }
    for (size_t i = 0; i < OP_MAX_INPUTS; i++) {
        ph_tensor_release(c->grad[i]);
        c->grad[i] = NULL;
    }
}

static void *read_bytes(check *c, const ph_tensor *x)
{
    size_t bytes = ph_tensor_bytes(x);
    void *data = malloc(bytes + 8);
    assert_non_null(data);
    assert_ok(ph_tensor_read(c->tape, x, data, bytes));
    return data;
}

/* ---- comparisons ---- */
static double bound_of(const check *c, ph_dtype dtype, bool gradient)
{
    static const double usual[OP_DTYPES] = {[PH_DTYPE_F32] = 2e-6,
                                            [PH_DTYPE_F64] = 1e-14,
                                            [PH_DTYPE_F16] = 2e-3,
                                            [PH_DTYPE_BF16] = 1.6e-2};
    double bound = c->spec->bound[dtype] > 0 ? c->spec->bound[dtype] : usual[dtype];
    if (!gradient)
        return bound;
    if (c->spec->gradient_bound[dtype] > 0)
        return c->spec->gradient_bound[dtype];
    double least = dtype == PH_DTYPE_F64 ? 2e-6 : dtype == PH_DTYPE_F32 ? 1e-5 : 0;
    return fmax(4 * bound, least);
}

static bool near(double got, double want, double bound)
{
    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= bound * (1 + fabs(want));
}

static void compare_outputs(check *c, const op_array *want)
{
    for (size_t i = 0; i < c->outs; i++) {
        ph_dtype dtype = ph_tensor_dtype(c->out[i]);
        ph_shape shape = ph_tensor_shape(c->out[i]);
        require(c, ph_shape_equal(&shape, &want[i].shape),
                "output %zu has another shape than the reference\n", i);
        double *got = malloc((size_t)want[i].count * sizeof *got + 8);
        assert_non_null(got);
        op_decode(got, dtype, c->out_bytes[i], want[i].count);
        double bound = bound_of(c, dtype, false);
        /* What the reference says beyond the dtype's range is an infinity there. */
        round_to(dtype == PH_DTYPE_F16 || !ph_dtype_is_floating(dtype) ? dtype : PH_DTYPE_F64,
                 want[i].at, want[i].count);
        for (int64_t k = 0; k < want[i].count; k++)
            require(c, near(got[k], want[i].at[k], bound),
                    "output %zu, element %lld: %.9g, reference %.9g\n", i, (long long)k, got[k],
                    want[i].at[k]);
        free(got);
    }
}

static double loss(check *c)
{
    op_array out[OP_MAX_OUTPUTS] = {{.count = 0}};
    double sum = 0;
    c->spec->reference(out, c->in, &c->trial);
    for (size_t i = 0; i < c->outs; i++) {
        for (int64_t k = 0; c->w[i] && k < out[i].count; k++)
            sum += out[i].at[k] * c->weight[i].at[k];
        free(out[i].at);
    }
    return sum;
}

static double difference(check *c, double *at)
{
    double x = *at, h = 1e-5 * fmax(1, fabs(x));
    *at = x + h;
    double up = loss(c);
    *at = x - h;
    double down = loss(c);
    *at = x;
    return (up - down) / (2 * h);
}

/* One element of each of `samples` parts of an input, which are as even as they can be. */
static int64_t sample(ph__rng *rng, int64_t i, int64_t samples, int64_t count)
{
    int64_t begin = i * count / samples, end = (i + 1) * count / samples;
    return begin + (int64_t)ph__rng_below(rng, (uint64_t)(end - begin));
}

static int64_t samples_of(int64_t count)
{
    if (count <= (t_nightly() ? NIGHTLY_ALL : ALL))
        return count;
    return t_nightly() ? NIGHTLY_SAMPLES : SAMPLES;
}

static void compare_gradients(check *c)
{
    /* not the trial's, whose draws stay the same for any number of samples */
    ph__rng rng = {c->trial.index};
    for (size_t i = 0; i < c->spec->in_count; i++) {
        if (!wants_gradient(c, i))
            continue;
        op_array *a = &c->in[i];
        ph_dtype dtype = input_dtype(c, i);
        double *got = calloc((size_t)a->count + 1, sizeof *got), bound = bound_of(c, dtype, true);
        assert_non_null(got);
        if (c->grad[i]) {
            ph_shape shape = ph_tensor_shape(c->grad[i]);
            require(c, ph_shape_equal(&shape, &a->shape),
                    "the gradient of input %zu has another shape than the input\n", i);
            require(c, ph_tensor_dtype(c->grad[i]) == dtype,
                    "the gradient of input %zu has another dtype than the input\n", i);
            op_decode(got, dtype, c->grad_bytes[i], a->count);
        }
        int64_t samples = samples_of(a->count);
        for (int64_t j = 0; j < samples; j++) {
            int64_t k = sample(&rng, j, samples, a->count);
            double want = difference(c, &a->at[k]);
            require(c, near(got[k], want, bound),
                    "gradient of input %zu, element %lld: %.9g, differences give %.9g\n", i,
                    (long long)k, got[k], want);
        }
        free(got);
    }
}

/* ---- a graph ---- */
static void compare_bytes(check *c, const ph_tensor *x, const void *want, const char *what,
                          size_t i)
{
    if (!x || !want) {
        require(c, !x == !want, "%s %zu is there in one of the eager and the captured run only\n",
                what, i);
        return;
    }
    void *got = read_bytes(c, x);
    require(c, memcmp(got, want, ph_tensor_bytes(x)) == 0,
            "%s %zu: a replay differs from the eager run\n", what, i);
    free(got);
}

static void spoil(check *c, ph_tensor *x)
{
    if (x && ph_tensor_bytes(x) > 0 && ph_tensor_is_contiguous(x))
        assert_ok(ph_memset(ph_tensor_data(x), 0xEE, ph_tensor_bytes(x), c->stream));
}

/* Outputs that are views of inputs are not to be spoiled, as replays would not make them again. */
static bool is_own(const check *c, const ph_tensor *x)
{
    for (size_t i = 0; x && i < c->spec->in_count; i++)
        if (x->storage == c->x[i]->storage)
            return false;
    for (size_t i = 0; x && i < c->outs; i++)
        if (c->w[i] && x->storage == c->w[i]->storage)
            return false;
    return x != NULL;
}

static void check_graph(check *c)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    ph_status status = ph_graph_capture(graph, c->stream, NULL, both, c);
    require(c, status == PH_OK, "the capture failed: %s\n", ph_error_last()->message);
    for (int replay = 0; replay < 2; replay++) {
        for (size_t i = 0; i < c->outs; i++)
            if (is_own(c, c->out[i]))
                spoil(c, c->out[i]);
        for (size_t i = 0; i < c->spec->in_count; i++)
            if (is_own(c, c->grad[i]))
                spoil(c, c->grad[i]);
        assert_ok(ph_graph_replay(graph, c->stream));
        for (size_t i = 0; i < c->outs; i++)
            compare_bytes(c, c->out[i], c->out_bytes[i], "output", i);
        for (size_t i = 0; i < c->spec->in_count; i++)
            compare_bytes(c, c->grad[i], c->grad_bytes[i], "gradient", i);
    }
    drop_results(c);
    ph_graph_destroy(graph);
}

static void run_trial(check *c)
{
    op_array want[OP_MAX_OUTPUTS] = {{.count = 0}};
    make_inputs(c);
    ph_status status = forward(c);
    require(c, status == PH_OK, "the forward pass failed: %s\n", ph_error_last()->message);
    make_weights(c);
    drop_results(c);
    assert_ok(ph_tape_clear(c->tape));

    status = both(c->stream, c);
    require(c, status == PH_OK, "the eager run failed: %s\n", ph_error_last()->message);
    for (size_t i = 0; i < c->outs; i++)
        c->out_bytes[i] = read_bytes(c, c->out[i]);
    for (size_t i = 0; i < c->spec->in_count; i++)
        c->grad_bytes[i] = c->grad[i] ? read_bytes(c, c->grad[i]) : NULL;
    c->spec->reference(want, c->in, &c->trial);
    compare_outputs(c, want);
    compare_gradients(c);
    drop_results(c);
    check_graph(c);

    for (size_t i = 0; i < OP_MAX_OUTPUTS; i++) {
        free(want[i].at);
        free(c->weight[i].at);
        free(c->out_bytes[i]);
        ph_tensor_release(c->w[i]);
    }
    for (size_t i = 0; i < OP_MAX_INPUTS; i++) {
        free(c->in[i].at);
        free(c->grad_bytes[i]);
        ph_tensor_release(c->x[i]);
    }
    require(c, ph__storage_debug_check(c->device),
            "memory outside the tensors was written, see the log\n");
}

void op_check(ph_device *device, const op_spec *spec)
{
    static const ph_dtype usual[] = {PH_DTYPE_F32, PH_DTYPE_F64, PH_DTYPE_F16, PH_DTYPE_BF16,
                                     (ph_dtype)0};
    const ph_dtype *dtypes = spec->dtypes[0] ? spec->dtypes : usual;
    ph_stream *stream;
    ph_tape *tape;
    assert_ok(ph_stream_create(&stream, device, NULL));
    assert_ok(ph_tape_create(&tape, stream, NULL));
    ph__storage_debug(true);
    for (size_t d = 0; dtypes[d]; d++)
        for (size_t k = 0; k < (spec->trials ? spec->trials : 12); k++) {
            check c = {.spec = spec,
                       .device = device,
                       .stream = stream,
                       .tape = tape,
                       .outs = spec->out_count ? spec->out_count : 1};
            c.trial.spec = spec;
            c.trial.index = k;
            c.trial.dtype = dtypes[d];
            c.trial.rng.state = k * 1000 + dtypes[d];
            for (size_t i = 0; i < spec->in_count; i++) {
                bool usual_range = spec->in[i].low == 0 && spec->in[i].high == 0;
                c.trial.low[i] = usual_range ? -2 : spec->in[i].low;
                c.trial.high[i] = usual_range ? 2 : spec->in[i].high;
            }
            spec->shapes(&c.trial);
            run_trial(&c);
        }
    ph__storage_debug(false);
    ph_tape_destroy(tape);
    ph_stream_destroy(stream);
}
