/* SPDX-License-Identifier: MIT */
/* oracle/oracle_autocast.c: operators, and a small network, on a tape whose autocast is on: to
 * f16, and to bf16. */
#include "oracle.h"
#include <stdio.h>
#include <string.h>

/* Each is run once for each word of dtypes, which has a letter for each input: f: f32, h: the
 * dtype to cast to, i: an index. The case's name is autocast/WHAT/WORD. */
typedef struct entry {
    const char *what, *dtypes;
    oracle_input in[ORACLE_INPUTS];
    oracle_operator apply; /* NULL: oracle.c's */
    bool no_gradient, no_cache;
    double weight; /* as in oracle_case */
} entry;

/* ---- operators ---- of operands as they come, where oracle.c's change theirs by an operator
 * more */
static ph_tensor *do_div(ph_tape *t, ph_tensor *const *in)
{
    return ph_div(t, in[0], in[1]);
}

static ph_tensor *do_log(ph_tape *t, ph_tensor *const *in)
{
    return ph_log(t, in[0]);
}

static ph_tensor *do_rsqrt(ph_tape *t, ph_tensor *const *in)
{
    return ph_rsqrt(t, in[0]);
}

static ph_tensor *do_sqrt(ph_tape *t, ph_tensor *const *in)
{
    return ph_sqrt(t, in[0]);
}

static ph_tensor *do_pow_2(ph_tape *t, ph_tensor *const *in)
{
    return ph_pow_scalar(t, in[0], 2);
}

static ph_tensor *do_mul_rank_0(ph_tape *t, ph_tensor *const *in)
{
    return ph_mul(t, in[0], ph_reshape(t, in[1], (ph_shape){0}));
}

static ph_tensor *do_where(ph_tape *t, ph_tensor *const *in)
{
    return ph_where(t, ph_gt(t, in[0], in[1]), in[0], in[1]);
}

/* ---- a network ---- of one block, called twice with the same weights: w1, b1, w2, b2, scale,
 * shift */
static ph_tensor *block(ph_tape *t, ph_tensor *x, ph_tensor *const *w)
{
    ph_tensor *h = ph_gelu(t, ph_linear(t, x, w[0], w[1]));
    h = ph_linear(t, h, w[2], w[3]);
    return ph_layer_norm(t, ph_add(t, x, h), w[4], w[5], 1e-5);
}

static ph_tensor *do_net(ph_tape *t, ph_tensor *const *in)
{
    return ph_cross_entropy(t, block(t, block(t, in[0], in + 1), in + 1), in[7]);
}

#define POSITIVE(...)                                                                              \
    {                                                                                              \
        .shape = SHAPE(__VA_ARGS__), .shift = 4                                                    \
    }
#define SCALED(by, ...)                                                                            \
    {                                                                                              \
        .shape = SHAPE(__VA_ARGS__), .scale = (by)                                                 \
    }
#define TIES(...)                                                                                  \
    {                                                                                              \
        .shape = SHAPE(__VA_ARGS__), .ties = true                                                  \
    }
#define ENTRY(name, words, ...)                                                                    \
    {                                                                                              \
        .what = #name, .dtypes = words, .in = { __VA_ARGS__ }                                      \
    }
#define OWN(name, words, ...)                                                                      \
    {                                                                                              \
        .what = #name, .dtypes = words, .apply = do_##name, .in = { __VA_ARGS__ }                  \
    }
#define COMPARISON(name)                                                                           \
    {                                                                                              \
        .what = #name, .dtypes = "fh hf", .in = {TIES(5, 33, 7), TIES(33, 1)}, .no_gradient = true \
    }
/* The weight is what the loss is scaled by, so that gradients stay in f16's range. */
#define NET(name, ...)                                                                             \
    {                                                                                              \
        .what = #name, .dtypes = "fffffffi", .apply = do_net,                                      \
        .in = {S(48, 40), SCALED(0.16, 96, 40), S(96), SCALED(0.1, 40, 96), S(40), S(40),          \
               S(40),     INDEX(40, 48)},                                                          \
        .weight = 512, __VA_ARGS__                                                                 \
    }
static const entry entries[] = {
    /* to the dtype */
    ENTRY(matmul, "ff fh hf", S(70, 130), S(130, 50)),
    ENTRY(matmul_batched, "ff", S(3, 1, 17, 40), S(2, 40, 9)),
    ENTRY(linear, "fff hff", S(4, 20, 64), S(48, 64), S(48)),
    ENTRY(attention, "fff", S(2, 3, 65, 64), S(2, 3, 90, 64), S(2, 3, 90, 64)),
    ENTRY(attention_causal, "fff hff", S(2, 3, 130, 64), S(2, 3, 130, 64), S(2, 3, 130, 64)),
    /* to f32 */
    ENTRY(exp, "f h", S(5, 33, 7)),
    OWN(log, "f h", POSITIVE(5, 33, 7)),
    OWN(rsqrt, "f h", POSITIVE(5, 33, 7)),
    ENTRY(pow_scalar, "f h", S(5, 33, 7)),
    OWN(pow_2, "f h", S(5, 33, 7)),
    ENTRY(square, "f h", S(5, 33, 7)),
    ENTRY(softmax, "f h", S(5, 33, 7)),
    ENTRY(log_softmax, "f h", S(5, 33, 7)),
    ENTRY(cross_entropy, "fi hi", S(37, 1003), INDEX(1003, 37)),
    ENTRY(mse, "ff hh fh", S(9, 31), S(9, 31)),
    ENTRY(sum, "f h", S(5, 33, 7)),
    ENTRY(sum_over, "f h", S(5, 33, 7)),
    ENTRY(norm, "f h", S(5, 33, 7)),
    ENTRY(norm_over, "f h", S(5, 33, 7)),
    ENTRY(layer_norm, "fff hhh hff", S(6, 11, 768), S(768), S(768)),
    ENTRY(rms_norm, "ff hh hf", S(6, 11, 100), S(100)),
    /* to the widest */
    ENTRY(add, "fh hf hh", S(5, 33, 7), S(33, 1)),
    ENTRY(sub, "fh hf hh", S(5, 33, 7), S(33, 1)),
    ENTRY(mul, "fh hf hh", S(5, 33, 7), S(33, 1)),
    OWN(mul_rank_0, "hf", S(5, 33, 7), S(1)),
    OWN(div, "fh hf hh", S(5, 33, 7), POSITIVE(33, 1)),
    ENTRY(maximum, "fh hf", S(5, 33, 7), S(33, 1)),
    ENTRY(minimum, "fh hf", S(5, 33, 7), S(33, 1)),
    COMPARISON(eq),
    COMPARISON(ne),
    COMPARISON(lt),
    COMPARISON(le),
    COMPARISON(gt),
    COMPARISON(ge),
    OWN(where, "fh hf hh", S(5, 33, 7), S(33, 1)),
    ENTRY(concat, "fh hf hh", S(4, 7, 5), S(4, 9, 5)),
    ENTRY(stack, "fh hf hh", S(4, 7), S(4, 7)),
    ENTRY(scatter_add, "fih hif hih", S(8, 20, 6), INDEX(20, 8, 33, 6), S(8, 33, 6)),
    /* as they are */
    OWN(sqrt, "h", POSITIVE(5, 33, 7)),
    ENTRY(tanh, "f h", S(5, 33, 7)),
    ENTRY(gelu, "f h", S(5, 33, 7)),
    ENTRY(mean, "f h", S(5, 33, 7)),
    ENTRY(max_over, "h", S(5, 33, 7)),
    ENTRY(embedding, "fi", S(40, 24), INDEX(40, 6, 50)),
    /* all of them together */
    NET(net, .no_cache = false),
    NET(net_no_cache, .no_cache = true),
};

static void run_entry(ph_tape *tape, const entry *e, const char *word, size_t length,
                      ph_dtype dtype)
{
    char name[48];
    snprintf(name, sizeof name, "autocast/%s/%.*s", e->what, (int)length, word);
    oracle_case c = {.name = name,
                     .apply = e->apply ? e->apply : oracle_find(e->what),
                     .no_gradient = e->no_gradient,
                     .weight = e->weight};
    for (size_t i = 0; i < length; i++) {
        c.in[i] = e->in[i];
        if (word[i] == 'f')
            c.in[i].dtype = PH_DTYPE_F32;
    }
    oracle_run(tape, &c, dtype, (ph_autocast){.dtype = dtype, .no_cache = e->no_cache});
}

size_t oracle_run_autocast(ph_tape *tape)
{
    static const ph_dtype dtypes[] = {PH_DTYPE_F16, PH_DTYPE_BF16};
    size_t count = 0;
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
            const char *word = entries[i].dtypes;
            while (*word) {
                size_t length = strcspn(word, " ");
                run_entry(tape, &entries[i], word, length, dtypes[d]);
                count++;
                word += length + (word[length] == ' ');
            }
        }
    }
    return count;
}
