/* SPDX-License-Identifier: MIT */
/* oracle/oracle_more.c: cases of operators beyond oracle.c's: views, casts, masks, options of
 * losses and of attention, operands with strides, and empty ones. */
#include "oracle.h"
#include <math.h>

/* ---- views ---- times themselves: the gradient must come back through the view */
static ph_tensor *squared(ph_tape *t, ph_tensor *x)
{
    return ph_mul(t, x, x);
}

static ph_tensor *do_permute_reshape(ph_tape *t, ph_tensor *const *in)
{
    ph_tensor *x = ph_permute(t, in[0], (int[]){2, 0, 1}, 3);
    return squared(t, ph_reshape(t, x, PH_SHAPE(35, 33)));
}

/* One of the parts is not used. */
static ph_tensor *do_split(ph_tape *t, ph_tensor *const *in)
{
    ph_tensor *part[4];
    ph_split(t, part, in[0], 1, (int64_t[]){10, 10, 10, 3}, 4);
    ph_tensor *sum = ph_add(t, ph_mul_scalar(t, part[0], 3), ph_mul_scalar(t, part[1], -0.5));
    return ph_add(t, sum, part[2]);
}

static ph_tensor *do_split_concat(ph_tape *t, ph_tensor *const *in)
{
    ph_tensor *part[3];
    ph_split(t, part, in[0], -1, (int64_t[]){2, 1, 4}, 3);
    return ph_concat(t, (ph_tensor *[]){ph_mul_scalar(t, part[2], 3), part[0], squared(t, part[1])},
                     3, 2);
}

UNARY(slice_step, squared(t, ph_slice_step(t, x, 1, 3, 30, 4)))
UNARY(slice_negative, squared(t, ph_slice(t, x, -1, -4, -1)))
UNARY(select, squared(t, ph_select(t, x, 1, -2)))
UNARY(expand, squared(t, ph_expand(t, x, PH_SHAPE(5, 33, 7))))
UNARY(flatten, squared(t, ph_flatten(t, ph_transpose(t, x, 0, 2), 0, 1)))
UNARY(squeeze, squared(t, ph_squeeze(t, ph_unsqueeze(t, x, 1), 2)))

/* ---- casts ---- */
static ph_tensor *there_and_back(ph_tape *t, ph_tensor *x, ph_dtype dtype)
{
    return ph_cast(t, ph_cast(t, x, dtype), ph_tensor_dtype(x));
}

UNARY(cast_f16, ph_cast(t, x, PH_DTYPE_F16))
UNARY(cast_bf16, ph_cast(t, x, PH_DTYPE_BF16))
UNARY(cast_f32, ph_cast(t, x, PH_DTYPE_F32))
UNARY(cast_f64, ph_cast(t, x, PH_DTYPE_F64))
UNARY(cast_i32, ph_cast(t, x, PH_DTYPE_I32))
UNARY(cast_bool, ph_cast(t, ph_cast(t, x, PH_DTYPE_I32), PH_DTYPE_BOOL))
UNARY(cast_f16_back, there_and_back(t, x, PH_DTYPE_F16))
UNARY(cast_bf16_back, there_and_back(t, x, PH_DTYPE_BF16))
UNARY(cast_f64_back, there_and_back(t, x, PH_DTYPE_F64))
UNARY(cast_i32_back, there_and_back(t, x, PH_DTYPE_I32))

/* ---- masks and scatter ---- */
static ph_tensor *positive(ph_tape *t, ph_tensor *x)
{
    return ph_gt(t, x, ph_neg(t, x));
}

BINARY(logical_and, ph_logical_and(t, positive(t, a), positive(t, b)))
BINARY(logical_or, ph_logical_or(t, positive(t, a), positive(t, b)))
UNARY(logical_not, ph_logical_not(t, positive(t, x)))
UNARY(masked_fill, ph_masked_fill(t, x, positive(t, x), -2.5))
UNARY(masked_fill_row, ph_masked_fill(t, x, positive(t, ph_select(t, x, 0, 1)), -2.5))
UNARY(masked_softmax, ph_softmax(t, ph_masked_fill(t, x, positive(t, x), (double)-INFINITY), 1))
TERNARY(scatter, ph_scatter(t, a, 1, b, c))

/* ---- losses ---- */
static ph_tensor *loss(ph_tape *t, ph_tensor *const *in, ph_cross_entropy_options options)
{
    return ph_cross_entropy_with(t, in[0], in[1], &options);
}

#define LOSS(name, ...)                                                                            \
    static ph_tensor *do_##name(ph_tape *t, ph_tensor *const *in)                                  \
    {                                                                                              \
        return loss(t, in, (ph_cross_entropy_options){__VA_ARGS__});                               \
    }

LOSS(cross_entropy_sum, .reduction = PH_REDUCTION_SUM)
LOSS(cross_entropy_none, .reduction = PH_REDUCTION_NONE)
LOSS(cross_entropy_ignore, .has_ignore_index = true, .ignore_index = 3)
LOSS(cross_entropy_ignore_sum, .reduction = PH_REDUCTION_SUM, .has_ignore_index = true,
     .ignore_index = 3)
LOSS(cross_entropy_ignore_none, .reduction = PH_REDUCTION_NONE, .has_ignore_index = true,
     .ignore_index = 3)
LOSS(cross_entropy_classes, .classes = 19)

/* ---- attention ---- */
static ph_tensor *attention(ph_tape *t, ph_tensor *const *in, ph_attention_options options)
{
    return ph_attention(t, in[0], in[1], in[2], &options);
}

/* Of [batch, length, heads, d], as a layer has them. */
static ph_tensor *do_attention_strided(ph_tape *t, ph_tensor *const *in)
{
    ph_tensor *view[3];
    for (int i = 0; i < 3; i++)
        view[i] = ph_transpose(t, in[i], 1, 2);
    return attention(t, view, (ph_attention_options){.causal = true});
}

static ph_tensor *do_attention_plain(ph_tape *t, ph_tensor *const *in)
{
    return attention(t, in, (ph_attention_options){0});
}

static ph_tensor *do_attention_with_causal(ph_tape *t, ph_tensor *const *in)
{
    return attention(t, in, (ph_attention_options){.causal = true});
}

static ph_tensor *do_attention_scale(ph_tape *t, ph_tensor *const *in)
{
    return attention(t, in, (ph_attention_options){.scale = 0.3});
}

/* ---- operands with strides ---- */
static ph_tensor *do_linear_strided(ph_tape *t, ph_tensor *const *in)
{
    return ph_linear(t, ph_transpose(t, in[0], 0, 2), ph_transpose(t, in[1], 0, 1), in[2]);
}

static ph_tensor *do_layer_norm_strided(ph_tape *t, ph_tensor *const *in)
{
    return ph_layer_norm(t, ph_transpose(t, in[0], 0, 2), in[1], in[2], 1e-5);
}

static ph_tensor *do_index_strided(ph_tape *t, ph_tensor *const *in)
{
    return ph_embedding(t, ph_transpose(t, in[0], 0, 1), ph_transpose(t, in[1], 0, 1));
}

BINARY(matmul_left, ph_matmul(t, ph_transpose(t, a, 0, 1), b))
BINARY(matmul_right, ph_matmul(t, a, ph_transpose(t, b, -1, -2)))
BINARY(matmul_both, ph_matmul(t, ph_transpose(t, a, -1, -2), ph_transpose(t, b, -1, -2)))
BINARY(matmul_sliced, ph_matmul(t, ph_slice_step(t, a, 1, 0, 80, 2), ph_slice(t, b, 1, 3, 30)))
BINARY(add_strided, ph_add(t, ph_transpose(t, a, 0, 2), ph_slice_step(t, b, 1, 0, 66, 2)))
BINARY(mul_strided, ph_mul(t, ph_transpose(t, a, 0, 2), b))
UNARY(softmax_strided, ph_softmax(t, ph_transpose(t, x, 0, 2), -1))
UNARY(softmax_strided_middle, ph_softmax(t, ph_transpose(t, x, 0, 1), 1))
UNARY(gelu_strided, ph_gelu(t, ph_slice_step(t, x, 1, 1, 33, 3)))
UNARY(sum_strided, ph_sum_over(t, ph_transpose(t, x, 0, 2), PH_AXES(0, 1), false))
UNARY(max_strided, ph_max_over(t, ph_transpose(t, x, 0, 2), PH_AXES(1), true))
BINARY(cross_entropy_strided, ph_cross_entropy(t, ph_transpose(t, a, 0, 1), b))

/* ---- empty operands ---- */
BINARY(empty_add, ph_add(t, a, b))
UNARY(empty_sum, ph_sum(t, x))
UNARY(empty_sum_rows, ph_sum_over(t, x, PH_AXES(0), false))
UNARY(empty_sum_columns, ph_sum_over(t, x, PH_AXES(1), false))
UNARY(empty_mean, ph_mean(t, x))
UNARY(empty_softmax, ph_softmax(t, x, 1))
UNARY(empty_slice, squared(t, ph_slice(t, x, 1, 4, 2)))
BINARY(empty_matmul, ph_matmul(t, a, b))
BINARY(empty_concat, ph_concat(t, (ph_tensor *[]){a, b}, 2, 0))

#define CASE(which, ...)                                                                           \
    {                                                                                              \
        .name = #which, .apply = do_##which, .in = { __VA_ARGS__ }                                 \
    }
#define PLAIN(which, ...)                                                                          \
    {                                                                                              \
        .name = #which, .apply = do_##which, .in = {__VA_ARGS__}, .no_gradient = true              \
    }
#define ATTENTION(which, how, ...)                                                                 \
    {                                                                                              \
        .name = "attention_" #which, .apply = do_attention_##how, .in = { __VA_ARGS__ }            \
    }
/* Of some hundreds, so that what is behind the point goes. */
#define LARGE(...)                                                                                 \
    {                                                                                              \
        .shape = SHAPE(__VA_ARGS__), .scale = 100                                                  \
    }
#define UNIQUE(n, ...)                                                                             \
    {                                                                                              \
        .shape = SHAPE(__VA_ARGS__), .below = (n), .unique = true                                  \
    }
static const oracle_case cases[] = {
    CASE(slice_step, S(5, 33, 7)),
    CASE(slice_negative, S(5, 33, 7)),
    CASE(select, S(5, 33, 7)),
    CASE(permute_reshape, S(5, 33, 7)),
    CASE(expand, S(33, 1)),
    CASE(flatten, S(5, 33, 7)),
    CASE(squeeze, S(5, 1, 7)),
    CASE(split, S(5, 33, 7)),
    CASE(split_concat, S(5, 33, 7)),
    CASE(cast_f16, S(5, 33, 7)),
    CASE(cast_bf16, S(5, 33, 7)),
    CASE(cast_f32, S(5, 33, 7)),
    CASE(cast_f64, S(5, 33, 7)),
    PLAIN(cast_i32, LARGE(5, 33, 7)),
    PLAIN(cast_bool, S(5, 33, 7)),
    CASE(cast_f16_back, S(5, 33, 7)),
    CASE(cast_bf16_back, S(5, 33, 7)),
    CASE(cast_f64_back, S(5, 33, 7)),
    PLAIN(cast_i32_back, LARGE(5, 33, 7)),
    PLAIN(logical_and, S(5, 33, 7), S(33, 1)),
    PLAIN(logical_or, S(5, 33, 7), S(33, 1)),
    PLAIN(logical_not, S(5, 33, 7)),
    CASE(masked_fill, S(5, 33, 7)),
    CASE(masked_fill_row, S(5, 33, 7)),
    CASE(masked_softmax, S(5, 33, 7)),
    CASE(scatter, S(8, 20, 6), UNIQUE(20, 8, 13, 6), S(8, 13, 6)),
    CASE(cross_entropy_sum, S(37, 103), INDEX(103, 37)),
    CASE(cross_entropy_none, S(37, 1003), INDEX(1003, 37)),
    CASE(cross_entropy_ignore, S(200, 19), INDEX(19, 200)),
    CASE(cross_entropy_ignore_sum, S(200, 19), INDEX(19, 200)),
    CASE(cross_entropy_ignore_none, S(200, 19), INDEX(19, 200)),
    CASE(cross_entropy_classes, S(37, 24), INDEX(19, 37)),
    ATTENTION(grouped, plain, S(2, 6, 65, 64), S(2, 2, 90, 64), S(2, 2, 90, 64)),
    ATTENTION(grouped_causal, with_causal, S(2, 6, 130, 64), S(2, 2, 130, 64), S(2, 2, 130, 64)),
    ATTENTION(d24, plain, S(2, 3, 65, 24), S(2, 3, 90, 24), S(2, 3, 90, 24)),
    ATTENTION(d128, plain, S(2, 3, 65, 128), S(2, 3, 90, 128), S(2, 3, 90, 128)),
    ATTENTION(d200, plain, S(2, 3, 65, 200), S(2, 3, 90, 200), S(2, 3, 90, 200)),
    ATTENTION(d24_causal, with_causal, S(2, 3, 130, 24), S(2, 3, 130, 24), S(2, 3, 130, 24)),
    ATTENTION(d128_causal, with_causal, S(2, 3, 130, 128), S(2, 3, 130, 128), S(2, 3, 130, 128)),
    ATTENTION(d200_causal, with_causal, S(2, 3, 130, 200), S(2, 3, 130, 200), S(2, 3, 130, 200)),
    ATTENTION(longer_keys, with_causal, S(2, 3, 65, 64), S(2, 3, 90, 64), S(2, 3, 90, 64)),
    ATTENTION(scale, scale, S(2, 3, 65, 64), S(2, 3, 90, 64), S(2, 3, 90, 64)),
    ATTENTION(strided, strided, S(2, 70, 3, 64), S(2, 70, 3, 64), S(2, 70, 3, 64)),
    CASE(matmul_left, S(130, 70), S(130, 50)),
    CASE(matmul_right, S(70, 130), S(50, 130)),
    CASE(matmul_both, S(3, 40, 17), S(3, 9, 40)),
    CASE(matmul_sliced, S(17, 80), S(40, 33)),
    CASE(linear_strided, S(64, 20, 4), S(64, 48), S(48)),
    CASE(add_strided, S(7, 33, 5), S(5, 66, 7)),
    CASE(mul_strided, S(7, 33, 5), S(33, 7)),
    CASE(softmax_strided, S(33, 7, 5)),
    CASE(softmax_strided_middle, S(33, 7, 5)),
    CASE(layer_norm_strided, S(96, 11, 6), S(96), S(96)),
    CASE(gelu_strided, S(5, 33, 7)),
    CASE(sum_strided, S(5, 33, 7)),
    CASE(max_strided, S(5, 33, 7)),
    CASE(cross_entropy_strided, S(103, 37), INDEX(103, 37)),
    CASE(index_strided, S(24, 40), INDEX(40, 6, 50)),
    CASE(empty_add, S(0, 5), S(5)),
    CASE(empty_sum, S(0, 5)),
    CASE(empty_sum_rows, S(0, 5)),
    CASE(empty_sum_columns, S(0, 5)),
    CASE(empty_mean, S(0, 5)),
    CASE(empty_softmax, S(0, 5)),
    CASE(empty_slice, S(3, 5)),
    CASE(empty_matmul, S(4, 0), S(0, 3)),
    CASE(empty_concat, S(0, 5), S(3, 5)),
};

size_t oracle_run_more(ph_tape *tape, ph_dtype dtype)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        oracle_run(tape, &cases[i], dtype, (ph_autocast){0});
    return sizeof cases / sizeof cases[0];
}
