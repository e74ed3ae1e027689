/* SPDX-License-Identifier: MIT */
/* tests/support/graphed_nets.c: networks in equal copies, and comparing what they give. */
#include "support/graphed_nets.h"
#include "fake/fake_cuda.h"
#include <stdio.h>

/* ---- tensors ---- */
ph_tensor *gn_random(const t_scene *s, ph_shape shape, uint64_t seed)
{
    size_t count = (size_t)ph_shape_count(&shape);
    float *values = calloc(count + 1, sizeof *values);
    ph__rng rng = {seed};
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)((double)(ph__rng_next(&rng) >> 11) * 0x1p-52 - 1);
    ph_tensor *x = ph_from_memory(s->tape, PH_DTYPE_F32, shape, values);
    free(values);
    return x;
}

ph_tensor *gn_sample(const t_scene *s, ph_shape shape, bool requires_grad)
{
    ph_tensor *x = ph_tensor_retain(gn_random(s, shape, 77));
    assert_ok(ph_tape_clear(s->tape));
    assert_ok(ph_tensor_set_requires_grad(x, requires_grad));
    return x;
}

/* ---- networks ---- */
enum {
    ROWS = 6,
    WIDTH = 16,
    HEADS = 2
};

static size_t make_children(ph_module **child, gn_kind kind, ph_device *device,
                            const ph_layer_options *layer)
{
    size_t count = 0;
    assert_ok(ph_linear_create_with(&child[count++], device, WIDTH, 2 * WIDTH, layer));
    if (kind == GN_NORM)
        assert_ok(ph_layer_norm_create(&child[count++], device, 2 * WIDTH, layer));
    if (kind == GN_NORM)
        assert_ok(ph_activation_create(&child[count++], device, "gelu", ph_gelu));
    if (kind == GN_MLP)
        assert_ok(ph_activation_create(&child[count++], device, "relu", ph_relu));
    if (kind == GN_DROPOUT)
        assert_ok(ph_dropout_create(&child[count++], device, 0.3));
    assert_ok(ph_linear_create_with(&child[count++], device, 2 * WIDTH, WIDTH, layer));
    if (kind == GN_DROPOUT)
        assert_ok(ph_dropout_create(&child[count++], device, 0.2));
    return count;
}

ph_module *gn_net(const t_scene *s, gn_kind kind, uint64_t seed)
{
    ph_module *net, *child[4];
    ph_generator *generator;
    assert_ok(ph_generator_create(&generator, s->device, seed));
    if (kind == GN_BLOCK) {
        const ph_block_options options = {.dropout = 0.1, .generator = generator};
        assert_ok(ph_transformer_block_create(&net, s->device, WIDTH, HEADS, &options));
    } else {
        const ph_layer_options layer = {.generator = generator};
        size_t count = make_children(child, kind, s->device, &layer);
        assert_ok(ph_sequential_create(&net, child, count));
        for (size_t i = 0; i < count; i++)
            ph_module_release(child[i]);
    }
    ph_generator_release(generator);
    return net;
}

ph_shape gn_shape(gn_kind kind)
{
    return kind == GN_BLOCK ? PH_SHAPE(2, ROWS, WIDTH) : PH_SHAPE(ROWS, WIDTH);
}

const char *gn_name(gn_kind kind)
{
    static const char *const names[GN_KINDS] = {"mlp", "norm", "block", "dropout"};
    return names[kind];
}

ph_module *gn_function(const t_scene *s, const char *name, ph_forward_fn forward, void *self,
                       size_t in_count, size_t out_count)
{
    ph_module *module;
    const ph_module_desc desc = {.name = name,
                                 .forward = forward,
                                 .self = self,
                                 .in_count = in_count,
                                 .out_count = out_count};
    assert_ok(ph_module_create(&module, s->device, &desc));
    return module;
}

/* ---- graphing ---- */
ph_module *gn_graph(ph_module *module, ph_tensor *const *in, size_t count,
                    const ph_graphed_options *options)
{
    ph_module *graphed = NULL;
    const ph_sample sample = {.tensors = in, .count = count};
    assert_ok(ph_make_graphed_callables(&graphed, &module, &sample, 1, options));
    assert_non_null(graphed);
    assert_true(ph_module_is_graphed(graphed));
    return graphed;
}

ph_module *gn_graph_one(ph_module *module, ph_tensor *x, const ph_graphed_options *options)
{
    return gn_graph(module, &x, 1, options);
}

ph_graphed_info gn_info(const ph_module *graphed)
{
    ph_graphed_info info;
    assert_ok(ph_graphed_callable_info(&info, graphed));
    return info;
}

ph_graphed_input gn_input(const ph_module *graphed, size_t index, bool grad_outputs)
{
    ph_graphed_input input;
    assert_ok(ph_graphed_callable_input(&input, graphed, index, grad_outputs));
    assert_non_null(input.reason);
    return input;
}

/* ---- comparing ---- */
static unsigned char *bytes_of(const t_scene *s, const ph_tensor *x, const char *what)
{
    if (!x)
        fail_msg("%s: there is no tensor", what);
    unsigned char *bytes = calloc(1, ph_tensor_bytes(x) + 1);
    assert_non_null(bytes);
    assert_ok(ph_tensor_read(s->tape, x, bytes, ph_tensor_bytes(x)));
    return bytes;
}

void gn_expect_same(const t_scene *s, const ph_tensor *got, const ph_tensor *want, const char *what)
{
    if (ph_tape_status(s->tape) != PH_OK)
        fail_msg("%s: the tape has failed: %s", what, ph_error_last()->message);
    unsigned char *a = bytes_of(s, got, what), *b = bytes_of(s, want, what);
    ph_shape x = ph_tensor_shape(got), y = ph_tensor_shape(want);
    if (!ph_shape_equal(&x, &y) || ph_tensor_dtype(got) != ph_tensor_dtype(want))
        fail_msg("%s: another shape or dtype", what);
    for (size_t i = 0; i < ph_tensor_bytes(got); i++)
        if (a[i] != b[i]) {
            float f, g;
            memcpy(&f, a + i / 4 * 4, sizeof f);
            memcpy(&g, b + i / 4 * 4, sizeof g);
            fail_msg("%s: byte %zu differs; as f32: %.9g, expected %.9g", what, i, (double)f,
                     (double)g);
        }
    free(a);
    free(b);
}

typedef struct comparison {
    const t_scene *s;
    const ph_module *other;
    const char *what;
    size_t count;
} comparison;

static bool compare(const char *name, ph_tensor *got, void *user)
{
    comparison *c = user;
    char text[200];
    ph_tensor *want = ph_module_parameter(c->other, name);
    (void)snprintf(text, sizeof text, "%s: %s", c->what, name);
    gn_expect_same(c->s, got, want, text);
    (void)snprintf(text, sizeof text, "%s: gradient of %s", c->what, name);
    if (!ph_tensor_grad(got) != !ph_tensor_grad(want))
        fail_msg("%s: one is there, the other is not", text);
    if (ph_tensor_grad(got))
        gn_expect_same(c->s, ph_tensor_grad(got), ph_tensor_grad(want), text);
    c->count++;
    return true;
}

void gn_expect_same_parameters(const t_scene *s, const ph_module *got, const ph_module *want,
                               const char *what)
{
    comparison c = {s, want, what, 0};
    ph_module_parameters(got, compare, &c);
    assert_int_equal(c.count, ph_module_parameter_count(want));
}

void gn_train_step(const t_scene *s, ph_module *module, ph_optimizer *optimizer, ph_shape shape,
                   uint64_t seed)
{
    ph_optimizer_zero_grad(s->tape, optimizer);
    ph_tensor *y = ph_call(s->tape, module, gn_random(s, shape, 2 * seed));
    ph_backward(s->tape, ph_mse(s->tape, y, gn_random(s, shape, 2 * seed + 1)));
    ph_optimizer_step(s->tape, optimizer);
    assert_ok(ph_tape_clear(s->tape));
}

ph_optimizer *gn_sgd(ph_module *module)
{
    ph_optimizer *optimizer;
    assert_ok(ph_sgd_create(&optimizer, module, &(ph_sgd_options){.lr = 0.1}));
    return optimizer;
}

/* ---- an address that nobody sees ---- */
typedef struct hidden_args {
    uint64_t count, half;
    float *y;
} hidden_args;

static void hidden_double(const ph_block_range *range, const void *args)
{
    const hidden_args *p = args;
    const float *x = (const float *)(uintptr_t)(p->half * 2);
    uint64_t end = range->end * range->block[0];
    for (uint64_t i = range->begin * range->block[0]; i < end && i < p->count; i++)
        p->y[i] = 2 * x[i];
}

static const ph_param hidden_params[] = {PH_PARAM(hidden_args, count, PH_PARAM_VALUE),
                                         PH_PARAM(hidden_args, half, PH_PARAM_VALUE),
                                         PH_PARAM(hidden_args, y, PH_PARAM_ADDRESS)};
static const ph_kernel_source hidden_source = {
    .name = "hidden_double",
    .cuda = "extern \"C\" __global__ void "
            "hidden_double(unsigned long long n, unsigned long long half, float *y) { "
            "unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; "
            "if (i < n) y[i] = 2 * ((const float *)(half * 2))[i]; }",
    .host = hidden_double,
    .args_size = sizeof(hidden_args),
    .params = hidden_params,
    .param_count = 3};

void gn_hidden_open(gn_hidden *hidden, ph_device *device)
{
    fake_cuda_register(&hidden_source);
    assert_ok(ph_kernel_create(&hidden->kernel, device, &hidden_source));
}

void gn_hidden_close(gn_hidden *hidden)
{
    ph_kernel_release(hidden->kernel);
}

void gn_hidden_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *hidden)
{
    const gn_hidden *h = hidden;
    out[0] = ph_empty(tape, PH_DTYPE_F32, ph_tensor_shape(in[0]));
    if (!out[0])
        return;
    hidden_args args = {(uint64_t)ph_tensor_count(in[0]),
                        (uint64_t)(uintptr_t)ph_tensor_data(in[0]) / 2, ph_tensor_data(out[0])};
    const ph_launch_config config = t_config(args.count);
    ph_tape_check(tape, ph_launch(ph_tape_stream(tape), h->kernel, &config, &args, sizeof args));
}
