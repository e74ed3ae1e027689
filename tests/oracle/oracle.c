/* SPDX-License-Identifier: MIT */
/* oracle/oracle.c: runs every operator and its gradients on fixed inputs and writes all of it into one safetensors file, which oracle.py
 * holds against PyTorch. usage: oracle DEVICE FILE */
#include "base/rng.h"
#include <phonograph/nn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_TENSORS = 4096,
    MOST_INPUTS = 3
};

typedef ph_tensor *(*apply_fn)(ph_tape *tape, ph_tensor *const *in);
typedef struct input {
    ph_shape shape;
    int64_t below; /* not 0: i64 in [0, below) */
} input;
typedef struct oracle_case {
    const char *name;
    apply_fn apply;
    input in[MOST_INPUTS];
    bool no_gradient;
} oracle_case;

static ph_named_tensor written[MOST_TENSORS];
static size_t written_count;

#define UNARY(name, expression)                                                                              \
    static ph_tensor *do_##name(ph_tape *t, ph_tensor *const *in)                                            \
    {                                                                                                        \
        ph_tensor *x = in[0];                                                                                \
        return expression;                                                                                   \
    }
#define BINARY(name, expression)                                                                             \
    static ph_tensor *do_##name(ph_tape *t, ph_tensor *const *in)                                            \
    {                                                                                                        \
        ph_tensor *a = in[0], *b = in[1];                                                                    \
        return expression;                                                                                   \
    }
#define TERNARY(name, expression)                                                                            \
    static ph_tensor *do_##name(ph_tape *t, ph_tensor *const *in)                                            \
    {                                                                                                        \
        ph_tensor *a = in[0], *b = in[1], *c = in[2];                                                        \
        return expression;                                                                                   \
    }

BINARY(add, ph_add(t, a, b))
BINARY(sub, ph_sub(t, a, b))
BINARY(mul, ph_mul(t, a, b))
BINARY(div, ph_div(t, a, ph_add_scalar(t, ph_abs(t, b), 0.5)))
BINARY(maximum, ph_maximum(t, a, b))
BINARY(minimum, ph_minimum(t, a, b))
UNARY(add_scalar, ph_add_scalar(t, x, 1.5))
UNARY(mul_scalar, ph_mul_scalar(t, x, -0.75))
UNARY(pow_scalar, ph_pow_scalar(t, x, 3))
UNARY(neg, ph_neg(t, x))
UNARY(abs, ph_abs(t, x))
UNARY(clamp, ph_clamp(t, x, -0.5, 0.5))
BINARY(eq, ph_eq(t, a, b))
BINARY(ne, ph_ne(t, a, b))
BINARY(lt, ph_lt(t, a, b))
BINARY(le, ph_le(t, a, b))
BINARY(gt, ph_gt(t, a, b))
BINARY(ge, ph_ge(t, a, b))
BINARY(where, ph_where(t, ph_gt(t, a, b), a, ph_mul_scalar(t, b, 2)))
UNARY(exp, ph_exp(t, x))
UNARY(log, ph_log(t, ph_add_scalar(t, ph_abs(t, x), 0.5)))
UNARY(sqrt, ph_sqrt(t, ph_add_scalar(t, ph_abs(t, x), 0.5)))
UNARY(rsqrt, ph_rsqrt(t, ph_add_scalar(t, ph_abs(t, x), 0.5)))
UNARY(square, ph_square(t, x))
UNARY(tanh, ph_tanh(t, x))
UNARY(sigmoid, ph_sigmoid(t, x))
UNARY(relu, ph_relu(t, x))
UNARY(gelu, ph_gelu(t, x))
UNARY(gelu_tanh, ph_gelu_tanh(t, x))
UNARY(silu, ph_silu(t, x))
UNARY(leaky_relu, ph_leaky_relu(t, x, 0.1))
BINARY(matmul, ph_matmul(t, a, b))
TERNARY(linear, ph_linear(t, a, b, c))
UNARY(sum, ph_sum(t, x))
UNARY(sum_over, ph_sum_over(t, x, PH_AXES(0, 2), false))
UNARY(mean, ph_mean(t, x))
UNARY(mean_over, ph_mean_over(t, x, PH_AXES(1), true))
UNARY(max, ph_max(t, x))
UNARY(max_over, ph_max_over(t, x, PH_AXES(0, 2), false))
UNARY(argmax, ph_argmax(t, x, 1, false))
UNARY(norm, ph_norm(t, x, 2))
UNARY(norm_over, ph_norm_over(t, x, 3, PH_AXES(0, 1), false))
UNARY(softmax, ph_softmax(t, x, 1))
UNARY(log_softmax, ph_log_softmax(t, x, -1))
TERNARY(layer_norm, ph_layer_norm(t, a, b, c, 1e-5))
BINARY(rms_norm, ph_rms_norm(t, a, b, 1e-5))
BINARY(cross_entropy, ph_cross_entropy(t, a, b))
BINARY(mse, ph_mse(t, a, b))
BINARY(embedding, ph_embedding(t, a, b))
BINARY(gather, ph_gather(t, a, 1, b))
TERNARY(scatter_add, ph_scatter_add(t, a, 1, b, c))
BINARY(index_select, ph_index_select(t, a, 1, b))
BINARY(concat, ph_concat(t, (ph_tensor *[]){a, b}, 2, 1))
BINARY(stack, ph_stack(t, (ph_tensor *[]){a, b}, 2, 1))
TERNARY(attention, ph_attention(t, a, b, c, NULL))
TERNARY(attention_causal, ph_attention(t, a, b, c, &(ph_attention_options){.causal = true}))

#define S(...)                                                                                               \
    {                                                                                                        \
        {sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}}, 0                               \
    }
#define INDEX(n, ...)                                                                                        \
    {                                                                                                        \
        {sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}}, (n)                             \
    }
#define ONE(name)                                                                                            \
    {                                                                                                        \
#name, do_##name, {S(5, 33, 7) }, false                                                              \
    }
#define TWO(name)                                                                                            \
    {                                                                                                        \
#name, do_##name, {S(5, 33, 7), S(33, 1) }, false                                                    \
    }
#define TWO_PLAIN(name)                                                                                      \
    {                                                                                                        \
#name, do_##name, {S(5, 33, 7), S(33, 1) }, true                                                     \
    }
static const oracle_case cases[] = {
    TWO(add),
    TWO(sub),
    TWO(mul),
    TWO(div),
    TWO(maximum),
    TWO(minimum),
    ONE(add_scalar),
    ONE(mul_scalar),
    ONE(pow_scalar),
    ONE(neg),
    ONE(abs),
    ONE(clamp),
    TWO_PLAIN(eq),
    TWO_PLAIN(ne),
    TWO_PLAIN(lt),
    TWO_PLAIN(le),
    TWO_PLAIN(gt),
    TWO_PLAIN(ge),
    TWO(where),
    ONE(exp),
    ONE(log),
    ONE(sqrt),
    ONE(rsqrt),
    ONE(square),
    ONE(tanh),
    ONE(sigmoid),
    ONE(relu),
    ONE(gelu),
    ONE(gelu_tanh),
    ONE(silu),
    ONE(leaky_relu),
    {"matmul", do_matmul, {S(70, 130), S(130, 50)}, false},
    {"matmul_batched", do_matmul, {S(3, 1, 17, 40), S(2, 40, 9)}, false},
    {"linear", do_linear, {S(4, 20, 64), S(48, 64), S(48)}, false},
    ONE(sum),
    ONE(sum_over),
    ONE(mean),
    ONE(mean_over),
    ONE(max),
    ONE(max_over),
    {"argmax", do_argmax, {S(5, 33, 7)}, true},
    ONE(norm),
    ONE(norm_over),
    ONE(softmax),
    ONE(log_softmax),
    {"layer_norm", do_layer_norm, {S(6, 11, 768), S(768), S(768)}, false},
    {"rms_norm", do_rms_norm, {S(6, 11, 100), S(100)}, false},
    {"cross_entropy", do_cross_entropy, {S(37, 1003), INDEX(1003, 37)}, false},
    {"mse", do_mse, {S(9, 31), S(9, 31)}, false},
    {"embedding", do_embedding, {S(40, 24), INDEX(40, 6, 50)}, false},
    {"gather", do_gather, {S(8, 20, 6), INDEX(20, 8, 33, 6)}, false},
    {"scatter_add", do_scatter_add, {S(8, 20, 6), INDEX(20, 8, 33, 6), S(8, 33, 6)}, false},
    {"index_select", do_index_select, {S(8, 20, 6), INDEX(20, 45)}, false},
    {"concat", do_concat, {S(4, 7, 5), S(4, 9, 5)}, false},
    {"stack", do_stack, {S(4, 7), S(4, 7)}, false},
    {"attention", do_attention, {S(2, 3, 65, 64), S(2, 3, 90, 64), S(2, 3, 90, 64)}, false},
    {"attention_causal", do_attention_causal, {S(2, 3, 130, 64), S(2, 3, 130, 64), S(2, 3, 130, 64)}, false},
};

static void check(ph_status status, const char *what)
{
    if (status == PH_OK)
        return;
    fprintf(stderr, "oracle: %s: %s: %s\n", what, ph_status_name(status), ph_error_last()->message);
    exit(1);
}

static ph_tensor *keep(const char *name, ph_dtype dtype, const char *kind, size_t index, ph_tensor *x)
{
    char *text = malloc(64);
    if (!text || written_count == MOST_TENSORS)
        exit(1);
    snprintf(text, 64, "%s:%s.%s%zu", name, ph_dtype_name(dtype), kind, index);
    written[written_count].name = text;
    written[written_count++].tensor = ph_tensor_retain(x);
    return x;
}

/* Normal values, the same on every device: sums of uniforms, from the tests' own generator. */
static ph_tensor *values(ph_tape *tape, ph__rng *rng, ph_dtype dtype, const ph_shape *shape, int64_t below)
{
    size_t count = (size_t)ph_shape_count(shape);
    ph_tensor *x;
    if (below > 0) {
        int64_t *at = malloc(count * sizeof *at);
        for (size_t i = 0; at && i < count; i++)
            at[i] = (int64_t)ph__rng_below(rng, (uint64_t)below);
        x = ph_from_memory(tape, PH_DTYPE_I64, *shape, at);
        free(at);
        return x;
    }
    double *at = malloc(count * sizeof *at);
    for (size_t i = 0; at && i < count; i++) {
        at[i] = -2;
        for (int k = 0; k < 4; k++)
            at[i] += (double)(ph__rng_next(rng) >> 11) * 0x1p-53;
        at[i] *= 1.7;
    }
    x = ph_cast(tape, ph_from_memory(tape, PH_DTYPE_F64, *shape, at), dtype);
    free(at);
    return x;
}

static void run(ph_tape *tape, const oracle_case *c, ph_dtype dtype)
{
    ph__rng rng = {dtype};
    ph_tensor *in[MOST_INPUTS] = {NULL}, *leaf[MOST_INPUTS], *grad[MOST_INPUTS];
    size_t leaves = 0, place[MOST_INPUTS];
    ph_tape_set_grad_enabled(tape, false);
    for (size_t i = 0; i < MOST_INPUTS && c->in[i].shape.rank > 0; i++) {
        in[i] = keep(c->name, dtype, "in", i, values(tape, &rng, dtype, &c->in[i].shape, c->in[i].below));
        if (c->in[i].below > 0 || c->no_gradient)
            continue;
        check(ph_tensor_set_requires_grad(in[i], true), c->name);
        place[leaves] = i;
        leaf[leaves++] = in[i];
    }
    ph_tape_set_grad_enabled(tape, true);
    ph_tensor *out = keep(c->name, dtype, "out", 0, c->apply(tape, in));
    if (leaves > 0) {
        ph_shape shape = ph_tensor_shape(out);
        ph_tensor *weight = keep(c->name, dtype, "weight", 0, values(tape, &rng, dtype, &shape, 0));
        ph_grad(tape, grad, leaf, leaves, &out, &weight, 1, NULL);
        for (size_t i = 0; i < leaves; i++)
            keep(c->name, dtype, "grad", place[i], grad[i]);
    }
    check(ph_tape_clear(tape), c->name);
}

int main(int argc, char **argv)
{
    static const ph_dtype dtypes[] = {PH_DTYPE_F32, PH_DTYPE_F64, PH_DTYPE_F16, PH_DTYPE_BF16};
    ph_device *device;
    ph_stream *stream;
    ph_tape *tape;
    if (argc != 3) {
        fputs("usage: oracle DEVICE FILE\n", stderr);
        return 2;
    }
    check(ph_device_open(&device, argv[1], NULL), argv[1]);
    check(ph_stream_create(&stream, device, NULL), "stream");
    check(ph_tape_create(&tape, stream, NULL), "tape");
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
            run(tape, &cases[i], dtypes[d]);
    check(ph_safetensors_write(tape, argv[2], written, written_count), argv[2]);
    printf("%zu cases, %zu tensors in %s\n", 4 * sizeof cases / sizeof cases[0], written_count, argv[2]);
    for (size_t i = 0; i < written_count; i++) {
        ph_tensor_release(written[i].tensor);
        free((void *)(uintptr_t)written[i].name);
    }
    ph_tape_destroy(tape);
    ph_stream_destroy(stream);
    ph_device_release(device);
    return 0;
}
