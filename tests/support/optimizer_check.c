/* SPDX-License-Identifier: MIT */
/* tests/support/optimizer_check.c: random problems for optimizers, and their float64 reference. */
#include "support/optimizer_check.h"
#include <math.h>
#include <stdio.h>

/* ---- rules ---- */
void oc_describe(char text[200], const oc_rule *r)
{
    static const char *const names[] = {"sgd", "adam", "adamw"};
    (void)snprintf(
        text, 200,
        "%s lr %g momentum %g dampening %g weight_decay %g nesterov %d betas %g %g eps %g%s%s%s",
        names[r->kind], r->lr, r->momentum, r->dampening, r->weight_decay, r->nesterov, r->beta1,
        r->beta2, r->eps, r->not_capturable ? " not capturable" : "",
        r->maximize ? " maximize" : "", r->amsgrad ? " amsgrad" : "");
}

static double or_zero(double value)
{
    return value == 0 ? PH_ZERO : value;
}

ph_optimizer *oc_create(const oc_rule *r, ph_module *module)
{
    ph_optimizer *optimizer;
    ph_sgd_options sgd = {.lr = r->lr,
                          .momentum = r->momentum,
                          .dampening = r->dampening,
                          .weight_decay = r->weight_decay,
                          .nesterov = r->nesterov,
                          .maximize = r->maximize};
    ph_adam_options adam = {.lr = or_zero(r->lr),
                            .beta1 = or_zero(r->beta1),
                            .beta2 = or_zero(r->beta2),
                            .eps = or_zero(r->eps),
                            .weight_decay = or_zero(r->weight_decay),
                            .not_capturable = r->not_capturable,
                            .maximize = r->maximize,
                            .amsgrad = r->amsgrad};
    if (r->kind == OC_SGD)
        assert_ok(ph_sgd_create(&optimizer, module, &sgd));
    else if (r->kind == OC_ADAM)
        assert_ok(ph_adam_create(&optimizer, module, &adam));
    else
        assert_ok(ph_adamw_create(&optimizer, module, &adam));
    return optimizer;
}

oc_rule oc_adam_rule(unsigned number)
{
    return (oc_rule){.kind = number & 1 ? OC_ADAMW : OC_ADAM,
                     .lr = 0.05,
                     .beta1 = number & 2 ? 0.8 : 0.9,
                     .beta2 = number & 2 ? 0.95 : 0.999,
                     .eps = number & 4 ? 1e-3 : 1e-8,
                     .weight_decay = number & 4 ? 0.1 : 0,
                     .not_capturable = number & OC_ADAM_ON_HOST,
                     .maximize = number & 32,
                     .amsgrad = number & 64};
}

ph_dtype oc_adam_dtype(unsigned number)
{
    return number & 16 ? PH_DTYPE_F64 : PH_DTYPE_F32;
}

double oc_adam_bound(ph_dtype dtype)
{
    return dtype == PH_DTYPE_F32 ? 1e-5 : 1e-12;
}

static double gradient_of(const oc_param *x, const oc_rule *r, int64_t i)
{
    return r->maximize ? -x->g[i] : x->g[i];
}

static void reference_sgd(oc_param *x, const oc_rule *r, int64_t i)
{
    double g = gradient_of(x, r, i) + r->weight_decay * x->at[i];
    if (r->momentum != 0) {
        x->m[i] = x->steps == 0 ? g : r->momentum * x->m[i] + (1 - r->dampening) * g;
        g = r->nesterov ? g + r->momentum * x->m[i] : x->m[i];
    }
    x->at[i] -= r->lr * g;
}

static void reference_adam(oc_param *x, const oc_rule *r, int64_t i)
{
    double g = gradient_of(x, r, i), t = (double)x->steps + 1;
    if (r->kind == OC_ADAMW)
        x->at[i] -= r->lr * r->weight_decay * x->at[i];
    else
        g += r->weight_decay * x->at[i];
    x->m[i] = r->beta1 * x->m[i] + (1 - r->beta1) * g;
    x->v[i] = r->beta2 * x->v[i] + (1 - r->beta2) * g * g;
    x->largest[i] = fmax(x->largest[i], x->v[i]);
    double m = x->m[i] / (1 - pow(r->beta1, t));
    double v = (r->amsgrad ? x->largest[i] : x->v[i]) / (1 - pow(r->beta2, t));
    x->at[i] -= r->lr * m / (sqrt(v) + r->eps);
}

void oc_reference(oc_problem *p, const oc_rule *r)
{
    for (size_t k = 0; k < p->count; k++) {
        oc_param *x = &p->param[k];
        if (!ph_tensor_grad(x->tensor))
            continue;
        for (int64_t i = 0; i < x->count; i++)
            r->kind == OC_SGD ? reference_sgd(x, r, i) : reference_adam(x, r, i);
        x->steps++;
    }
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
