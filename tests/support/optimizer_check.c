/* SPDX-License-Identifier: MIT */
/* tests/support/optimizer_check.c: random problems for optimizers, beside their reference. */
#include "support/optimizer_check.h"
#include <math.h>
#include <stdio.h>

/* ---- the reference ---- */
void oc_reference_some(oc_problem *p, const oc_rule *r, uint64_t mask)
{
    for (size_t k = 0; k < p->count; k++) {
        oc_param *x = &p->param[k];
        if (!ph_tensor_grad(x->tensor) || (k < 64 && !(mask >> k & 1)))
            continue;
        oc_begin(r, &x->own, x->v, x->count);
        for (int64_t i = 0; i < x->count; i++) {
            oc_element e = {x->at[i], x->m[i], x->v[i], x->largest[i]};
            oc_update(r, &x->own, &e, x->g[i]);
            x->at[i] = e.at;
            x->m[i] = e.m;
            x->v[i] = e.v;
            x->largest[i] = e.w;
        }
        oc_end(r, &x->own);
    }
}

void oc_reference(oc_problem *p, const oc_rule *r)
{
    oc_reference_some(p, r, UINT64_MAX);
}

/* ---- problems ---- */
double oc_uniform(oc_problem *p)
{
    return (double)(ph__rng_next(&p->rng) >> 11) * 0x1p-53 * 2 - 1;
}

/* Random values, as the dtype has them, into memory and the reference. */
static void random_values(oc_problem *p, void *memory, double *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double x = oc_uniform(p);
        if (p->dtype == PH_DTYPE_F32)
            x = ((float *)memory)[i] = (float)x;
        else
            ((double *)memory)[i] = x;
        values[i] = x;
    }
}

static void *checked(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    assert_non_null(memory);
    return memory;
}

static void make_tensor(oc_problem *p, oc_param *x, ph_shape shape, bool aligned)
{
    if (aligned) {
        assert_ok(ph_tensor_create(&x->tensor, p->scene.device, p->dtype, shape));
        return;
    }
    size_t bytes = (size_t)x->count * ph_dtype_size(p->dtype);
    assert_ok(ph_malloc(&x->memory, bytes + 8, 1, p->scene.stream));
    assert_ok(ph_tensor_wrap(&x->tensor, p->scene.device, p->dtype, shape, NULL,
                             (char *)x->memory + 8, NULL, NULL));
}

static void make_param(oc_problem *p, oc_param *x, ph_shape shape, bool aligned)
{
    x->count = ph_shape_count(&shape);
    size_t count = (size_t)x->count;
    make_tensor(p, x, shape, aligned);
    x->at = checked(count, sizeof *x->at);
    x->m = checked(count, sizeof *x->m);
    x->v = checked(count, sizeof *x->v);
    x->g = checked(count, sizeof *x->g);
    x->largest = checked(count, sizeof *x->largest);
    void *memory = checked(count, sizeof(double));
    random_values(p, memory, x->at, x->count);
    assert_ok(ph_tensor_write(p->scene.tape, x->tensor, memory, ph_tensor_bytes(x->tensor)));
    free(memory);
}

static void no_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)tape;
    (void)self;
    out[0] = in[0];
}

void oc_open(oc_problem *p, ph_dtype dtype, const ph_shape *shapes, size_t count, uint64_t seed)
{
    static const ph_shape mixture[] = {{1, {7}},       {2, {3, 5}}, {0, {0}},    {1, {4096}},
                                       {2, {129, 65}}, {1, {0}},    {1, {4097}}, {1, {1000}}};
    char names[OC_MOST][8];
    ph_parameter parameters[OC_MOST];
    *p = (oc_problem){.dtype = dtype, .count = shapes ? count : 8, .rng = {seed}};
    t_scene_open(&p->scene);
    for (size_t i = 0; i < p->count; i++) {
        make_param(p, &p->param[i], shapes ? shapes[i] : mixture[i], shapes || i != 7);
        (void)snprintf(names[i], sizeof names[i], "p%u", (unsigned)i);
        parameters[i] = (ph_parameter){names[i], &p->param[i].tensor};
    }
    ph_module_desc desc = {.name = "parameters",
                           .forward = no_forward,
                           .parameters = parameters,
                           .parameter_count = p->count};
    assert_ok(ph_module_create(&p->module, p->scene.device, &desc));
    assert_ok(ph_stream_synchronize(p->scene.stream));
}

void oc_close(oc_problem *p)
{
    assert_ok(ph_tape_clear(p->scene.tape));
    assert_ok(ph_stream_synchronize(p->scene.stream));
    ph_module_release(p->module);
    for (size_t i = 0; i < p->count; i++) {
        oc_param *x = &p->param[i];
        ph_tensor_release(x->tensor);
        ph_free(x->memory, p->scene.stream);
        free(x->at);
        free(x->m);
        free(x->v);
        free(x->g);
        free(x->largest);
    }
    t_scene_close(&p->scene);
}

/* ---- gradients ---- */
static void write_gradient(oc_problem *p, oc_param *x)
{
    void *memory = checked((size_t)x->count, sizeof(double));
    random_values(p, memory, x->g, x->count);
    if (!ph_tensor_grad(x->tensor)) {
        ph_tensor *grad;
        assert_ok(ph_tensor_create(&grad, p->scene.device, p->dtype, ph_tensor_shape(x->tensor)));
        assert_ok(ph_tensor_set_grad(x->tensor, grad));
        ph_tensor_release(grad);
    }
    assert_ok(ph_tensor_write(p->scene.tape, ph_tensor_grad(x->tensor), memory,
                              ph_tensor_bytes(x->tensor)));
    free(memory);
}

void oc_gradients(oc_problem *p, uint64_t mask)
{
    for (size_t i = 0; i < p->count; i++)
        if (i >= 64 || mask >> i & 1)
            write_gradient(p, &p->param[i]);
        else
            assert_ok(ph_tensor_set_grad(p->param[i].tensor, NULL));
}

void oc_strided_gradients(oc_problem *p)
{
    oc_gradients(p, UINT64_MAX);
    for (size_t i = 0; i < p->count; i++) {
        ph_tensor *x = p->param[i].tensor, *grad = ph_tensor_grad(x);
        if (ph_tensor_rank(x) != 2)
            continue;
        ph_tensor *turned = ph_contiguous(p->scene.tape, ph_transpose(p->scene.tape, grad, 0, 1));
        assert_ok(ph_tensor_set_grad(x, ph_transpose(p->scene.tape, turned, 0, 1)));
        assert_false(ph_tensor_is_contiguous(ph_tensor_grad(x)));
    }
    assert_ok(ph_tape_clear(p->scene.tape));
}

/* ---- results ---- */
static void *read_param(oc_problem *p, const oc_param *x)
{
    void *memory = checked((size_t)x->count, sizeof(double));
    assert_ok(ph_tensor_read(p->scene.tape, x->tensor, memory, ph_tensor_bytes(x->tensor)));
    return memory;
}

void oc_compare(oc_problem *p, double bound, const char *what)
{
    for (size_t k = 0; k < p->count; k++) {
        const oc_param *x = &p->param[k];
        void *memory = read_param(p, x);
        for (int64_t i = 0; i < x->count; i++) {
            double got =
                p->dtype == PH_DTYPE_F32 ? (double)((float *)memory)[i] : ((double *)memory)[i];
            if (!(fabs(got - x->at[i]) <= bound * (1 + fabs(x->at[i]))))
                fail_msg("%s: parameter %zu, element %lld: %.17g, expected %.17g", what, k,
                         (long long)i, got, x->at[i]);
        }
        free(memory);
    }
}

unsigned char *oc_bits(oc_problem *p, size_t *bytes)
{
    *bytes = 0;
    for (size_t k = 0; k < p->count; k++)
        *bytes += ph_tensor_bytes(p->param[k].tensor);
    unsigned char *all = checked(*bytes, 1), *at = all;
    for (size_t k = 0; k < p->count; k++) {
        size_t size = ph_tensor_bytes(p->param[k].tensor);
        assert_ok(ph_tensor_read(p->scene.tape, p->param[k].tensor, at, size));
        at += size;
    }
    return all;
}

void oc_equal(oc_problem *a, oc_problem *b, const char *what)
{
    size_t bytes_a, bytes_b;
    unsigned char *x = oc_bits(a, &bytes_a), *y = oc_bits(b, &bytes_b);
    assert_int_equal(bytes_a, bytes_b);
    for (size_t i = 0; i < bytes_a; i++)
        if (x[i] != y[i])
            fail_msg("%s: byte %zu of the parameters differs", what, i);
    free(x);
    free(y);
}

/* ---- steps ---- */
ph_status oc_step(oc_problem *p, ph_optimizer *optimizer)
{
    ph_optimizer_step(p->scene.tape, optimizer);
    return ph_tape_clear(p->scene.tape);
}

ph_status oc_capture_body(ph_stream *stream, void *capture)
{
    const oc_capture *c = capture;
    (void)stream;
    return oc_step(c->problem, c->optimizer);
}

ph_graph *oc_capture_step(oc_problem *p, ph_optimizer *optimizer)
{
    ph_graph *graph;
    oc_capture c = {p, optimizer};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, p->scene.stream, NULL, oc_capture_body, &c));
    return graph;
}
