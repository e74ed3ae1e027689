/* SPDX-License-Identifier: MIT */
/* oracle/oracle.c: runs every operator and its gradients on fixed inputs and writes all of it
 * into one safetensors file, which oracle.py holds against PyTorch. usage: oracle DEVICE FILE */
#include "oracle.h"
#include "base/rng.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_TENSORS = 1 << 15
};

static ph_named_tensor written[MOST_TENSORS];
static size_t written_count;

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

#define ONE(which)                                                                                 \
    {                                                                                              \
        .name = #which, .apply = do_##which, .in = { S(5, 33, 7) }                                 \
    }
#define TWO(which)                                                                                 \
    {                                                                                              \
        .name = #which, .apply = do_##which, .in = { S(5, 33, 7), S(33, 1) }                       \
    }
#define TWO_PLAIN(which)                                                                           \
    {                                                                                              \
        .name = #which, .apply = do_##which, .in = {S(5, 33, 7), S(33, 1)}, .no_gradient = true    \
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
    {.name = "matmul", .apply = do_matmul, .in = {S(70, 130), S(130, 50)}},
    {.name = "matmul_batched", .apply = do_matmul, .in = {S(3, 1, 17, 40), S(2, 40, 9)}},
    {.name = "linear", .apply = do_linear, .in = {S(4, 20, 64), S(48, 64), S(48)}},
    ONE(sum),
    ONE(sum_over),
    ONE(mean),
    ONE(mean_over),
    ONE(max),
    ONE(max_over),
    {.name = "argmax", .apply = do_argmax, .in = {S(5, 33, 7)}, .no_gradient = true},
    ONE(norm),
    ONE(norm_over),
    ONE(softmax),
    ONE(log_softmax),
    {.name = "layer_norm", .apply = do_layer_norm, .in = {S(6, 11, 768), S(768), S(768)}},
    {.name = "rms_norm", .apply = do_rms_norm, .in = {S(6, 11, 100), S(100)}},
    {.name = "cross_entropy", .apply = do_cross_entropy, .in = {S(37, 1003), INDEX(1003, 37)}},
    {.name = "mse", .apply = do_mse, .in = {S(9, 31), S(9, 31)}},
    {.name = "embedding", .apply = do_embedding, .in = {S(40, 24), INDEX(40, 6, 50)}},
    {.name = "gather", .apply = do_gather, .in = {S(8, 20, 6), INDEX(20, 8, 33, 6)}},
    {.name = "scatter_add",
     .apply = do_scatter_add,
     .in = {S(8, 20, 6), INDEX(20, 8, 33, 6), S(8, 33, 6)}},
    {.name = "index_select", .apply = do_index_select, .in = {S(8, 20, 6), INDEX(20, 45)}},
    {.name = "concat", .apply = do_concat, .in = {S(4, 7, 5), S(4, 9, 5)}},
    {.name = "stack", .apply = do_stack, .in = {S(4, 7), S(4, 7)}},
    {.name = "attention",
     .apply = do_attention,
     .in = {S(2, 3, 65, 64), S(2, 3, 90, 64), S(2, 3, 90, 64)}},
    {.name = "attention_causal",
     .apply = do_attention_causal,
     .in = {S(2, 3, 130, 64), S(2, 3, 130, 64), S(2, 3, 130, 64)}},
};

void oracle_check(ph_status status, const char *what)
{
    if (status == PH_OK)
        return;
    fprintf(stderr, "oracle: %s: %s: %s\n", what, ph_status_name(status), ph_error_last()->message);
    exit(1);
}

ph_tensor *oracle_keep(const char *name, ph_dtype dtype, const char *kind, size_t index,
                       ph_tensor *x)
{
    char *text = malloc(64);
    if (!text || written_count == MOST_TENSORS) {
        fprintf(stderr, "oracle: %s: there is no room for more than %d tensors\n", name,
                MOST_TENSORS);
        exit(1);
    }
    snprintf(text, 64, "%s:%s.%s%zu", name, ph_dtype_name(dtype), kind, index);
    written[written_count].name = text;
    written[written_count++].tensor = ph_tensor_retain(x);
    return x;
}

oracle_operator oracle_find(const char *name)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, name) == 0)
            return cases[i].apply;
    fprintf(stderr, "oracle: there is no case %s\n", name);
    exit(1);
}

/* Normal values, the same on every device: sums of uniforms, from the tests' own generator. */
static double next_value(ph__rng *rng, const oracle_input *input)
{
    double value = -2;
    for (int k = 0; k < 4; k++)
        value += (double)(ph__rng_next(rng) >> 11) * 0x1p-53;
    value *= 1.7;
    if (input->ties)
        return (double)(int)(value * 4) / 4 + (ph__rng_below(rng, 4) == 0 ? 0x1p-14 : 0);
    return value * (input->scale != 0 ? input->scale : 1) + input->shift;
}

/* Unique: each column along axis 1 begins anywhere and goes on by 7: as below has not got that
 * divisor, no number comes again before all have been there. */
static void draw_index(ph__rng *rng, const oracle_input *input, int64_t *at, size_t count)
{
    for (size_t i = 0; i < count; i++)
        at[i] = (int64_t)ph__rng_below(rng, (uint64_t)input->below);
    if (!input->unique)
        return;
    int64_t rows = input->shape.dim[1], columns = input->shape.dim[2];
    for (int64_t i = columns; i < (int64_t)count; i++)
        if (i / columns % rows != 0)
            at[i] = (at[i - columns] + 7) % input->below;
}

ph_tensor *oracle_values(ph_tape *tape, ph__rng *rng, ph_dtype dtype, const oracle_input *input)
{
    size_t count = (size_t)ph_shape_count(&input->shape);
    ph_tensor *x;
    if (input->below > 0) {
        int64_t *at = malloc(count * sizeof *at);
        if (at)
            draw_index(rng, input, at, count);
        x = ph_from_memory(tape, PH_DTYPE_I64, input->shape, at);
        free(at);
        return x;
    }
    double *at = malloc(count * sizeof *at);
    for (size_t i = 0; at && i < count; i++)
        at[i] = next_value(rng, input);
    x = ph_cast(tape, ph_from_memory(tape, PH_DTYPE_F64, input->shape, at), dtype);
    free(at);
    return x;
}

static void run_backward(ph_tape *tape, const oracle_case *c, ph_dtype dtype, ph__rng *rng,
                         ph_tensor *out, ph_tensor *const *in)
{
    oracle_input like = {.shape = ph_tensor_shape(out), .scale = c->weight};
    ph_tensor *leaf[ORACLE_INPUTS], *grad[ORACLE_INPUTS];
    size_t leaves = 0, place[ORACLE_INPUTS];
    for (size_t i = 0; i < ORACLE_INPUTS && in[i]; i++) {
        if (!ph_tensor_requires_grad(in[i]))
            continue;
        place[leaves] = i;
        leaf[leaves++] = in[i];
    }
    ph_tensor *weight = oracle_keep(c->name, dtype, "weight", 0,
                                    oracle_values(tape, rng, ph_tensor_dtype(out), &like));
    ph_grad(tape, grad, leaf, leaves, &out, &weight, 1, NULL);
    for (size_t i = 0; i < leaves; i++)
        oracle_keep(c->name, dtype, "grad", place[i], grad[i]);
}

void oracle_run(ph_tape *tape, const oracle_case *c, ph_dtype dtype, ph_autocast autocast)
{
    ph__rng rng = {dtype};
    ph_tensor *in[ORACLE_INPUTS] = {NULL};
    ph_tape_set_grad_enabled(tape, false);
    for (size_t i = 0; i < ORACLE_INPUTS && c->in[i].shape.rank > 0; i++) {
        ph_dtype own = c->in[i].dtype ? c->in[i].dtype : dtype;
        in[i] = oracle_keep(c->name, dtype, "in", i, oracle_values(tape, &rng, own, &c->in[i]));
        if (c->in[i].below == 0 && !c->no_gradient)
            oracle_check(ph_tensor_set_requires_grad(in[i], true), c->name);
    }
    ph_tape_set_grad_enabled(tape, true);
    autocast = ph_tape_set_autocast(tape, autocast);
    ph_tensor *out = oracle_keep(c->name, dtype, "out", 0, c->apply(tape, in));
    ph_tape_set_autocast(tape, autocast);
    oracle_check(ph_tape_status(tape), c->name);
    if (!c->no_gradient)
        run_backward(tape, c, dtype, &rng, out, in);
    oracle_check(ph_tape_clear(tape), c->name);
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
    oracle_check(ph_device_open(&device, argv[1], NULL), argv[1]);
    oracle_check(ph_stream_create(&stream, device, NULL), "stream");
    oracle_check(ph_tape_create(&tape, stream, NULL), "tape");
    size_t count = 0;
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++, count++)
            oracle_run(tape, &cases[i], dtypes[d], (ph_autocast){0});
        count += oracle_run_more(tape, dtypes[d]);
    }
    count += oracle_run_autocast(tape) + oracle_run_optimizers(tape);
    oracle_check(ph_safetensors_write(tape, argv[2], written, written_count), argv[2]);
    printf("%zu cases, %zu tensors in %s\n", count, written_count, argv[2]);
    for (size_t i = 0; i < written_count; i++) {
        ph_tensor_release(written[i].tensor);
        free((void *)(uintptr_t)written[i].name);
    }
    ph_tape_destroy(tape);
    ph_stream_destroy(stream);
    ph_device_release(device);
    return 0;
}
