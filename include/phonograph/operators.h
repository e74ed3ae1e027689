/* SPDX-License-Identifier: MIT */
/* phonograph/operators.h: operators on tensors. Each gives a tensor that the tape owns, or NULL
 * once the tape has failed (tape.h).
 *
 * Unless a comment says otherwise: operands are of the tape's device and of one dtype (cast
 * first: nothing is promoted silently, but where the tape's autocast is on); they may have any
 * strides; results are contiguous; operands broadcast as in NumPy; empty tensors are taken; and
 * there is a gradient for every floating operand. f16 and bf16 are computed and summed in f32.
 * Results are the same, to the bit, eager, captured and replayed. */
#ifndef PHONOGRAPH_OPERATORS_H
#define PHONOGRAPH_OPERATORS_H
#include <phonograph/tape.h>

PH_BEGIN_DECLS

/* Axes to reduce over; negative ones count from the end; a repeated one is an error. PH_AXES(0,
 * -1). */
typedef struct ph_axes {
    size_t count;
    int axis[PH_MAX_RANK];
} ph_axes;
#ifndef __cplusplus
#define PH_AXES(...) ((ph_axes){sizeof((int[]){__VA_ARGS__}) / sizeof(int), {__VA_ARGS__}})
#endif

/* ---- factories ---- on the tape's device; no gradient. arange: begin, begin + step, ... count
 * of them; not bool, and for integers both must be integers. */
PH_API ph_tensor *ph_empty(ph_tape *tape, ph_dtype dtype, ph_shape shape);
PH_API ph_tensor *ph_zeros(ph_tape *tape, ph_dtype dtype, ph_shape shape);
PH_API ph_tensor *ph_full(ph_tape *tape, ph_dtype dtype, ph_shape shape, double value);
PH_API ph_tensor *ph_arange(ph_tape *tape, ph_dtype dtype, double begin, double step,
                            int64_t count);
/* A copy of host memory: ph_empty and ph_tensor_write. */
PH_API ph_tensor *ph_from_memory(ph_tape *tape, ph_dtype dtype, ph_shape shape, const void *data);

/* ---- views ---- share memory with x; nothing is copied, any dtype. slice: [begin, end) with a
 * step >= 1; negative indices count from the end; clamped as in Python. reshape: one dimension
 * may be -1; copies where strides do not allow a view. expand: dimensions of 1 become those of
 * shape (stride 0), which may have more dimensions in front. squeeze: takes the axis out if it
 * is 1; PH_ALL_AXES: every 1. permute: axes[rank]. */
enum {
    PH_ALL_AXES = 1000
};
PH_API ph_tensor *ph_slice(ph_tape *tape, ph_tensor *x, int axis, int64_t begin, int64_t end);
PH_API ph_tensor *ph_slice_step(ph_tape *tape, ph_tensor *x, int axis, int64_t begin, int64_t end,
                                int64_t step);
PH_API ph_tensor *ph_select(ph_tape *tape, ph_tensor *x, int axis,
                            int64_t index); /* slice of one, squeezed */
PH_API ph_tensor *ph_transpose(ph_tape *tape, ph_tensor *x, int axis0, int axis1);
PH_API ph_tensor *ph_permute(ph_tape *tape, ph_tensor *x, const int *axes, size_t count);
PH_API ph_tensor *ph_reshape(ph_tape *tape, ph_tensor *x, ph_shape shape);
PH_API ph_tensor *ph_flatten(ph_tape *tape, ph_tensor *x, int first_axis, int last_axis);
PH_API ph_tensor *ph_expand(ph_tape *tape, ph_tensor *x, ph_shape shape);
PH_API ph_tensor *ph_squeeze(ph_tape *tape, ph_tensor *x, int axis);
PH_API ph_tensor *ph_unsqueeze(ph_tape *tape, ph_tensor *x, int axis);

/* ---- copies and casts ---- contiguous: x itself when it is. cast: any dtype to any; floats to
 * integers truncate and saturate (NaN: 0), integers to smaller ones wrap around, to bool: is not
 * 0; no copy when the dtype is x's already. to_device: from another device (or a pinned tensor)
 * to the tape's: what wrote x must be complete or be ordered before the tape's stream by the
 * caller; between a host device and a GPU the copy is from pageable memory: refused in a capture
 * (UNPINNED: the message names the remedy: pinned tensors). x must be contiguous there, and has
 * a gradient only where it is of the tape's own device (STATE otherwise, while gradients are
 * enabled). */
PH_API ph_tensor *ph_clone(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_contiguous(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_cast(ph_tape *tape, ph_tensor *x, ph_dtype dtype);
PH_API ph_tensor *ph_to_device(ph_tape *tape, ph_tensor *x);

/* ---- in place ---- change dst's memory and count its version up. Not on a tensor that requires
 * a gradient while gradients are enabled (STATE). copy: src is cast and broadcast to dst; it may
 * be of another device, as in to_device (same dtype and shape, contiguous then). add: dst +=
 * alpha * src. scale: dst *= factor. */
PH_API void ph_tensor_fill(ph_tape *tape, ph_tensor *dst, double value);
PH_API void ph_tensor_copy(ph_tape *tape, ph_tensor *dst, ph_tensor *src);
PH_API void ph_tensor_add(ph_tape *tape, ph_tensor *dst, ph_tensor *src, double alpha);
PH_API void ph_tensor_scale(ph_tape *tape, ph_tensor *dst, double factor);

/* ---- arithmetic ---- all dtypes but bool (add, sub, mul, maximum, minimum); division is for
 * floats, and truncates for integers (by 0: 0). Integers wrap around; a number that is none of
 * them (0.5) is an error with an integer dtype. */
PH_API ph_tensor *ph_add(ph_tape *tape, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_sub(ph_tape *tape, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_mul(ph_tape *tape, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_div(ph_tape *tape, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_maximum(ph_tape *tape, ph_tensor *a,
                             ph_tensor *b); /* NaN if either is; ties share the gradient equally */
PH_API ph_tensor *ph_minimum(ph_tape *tape, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_add_scalar(ph_tape *tape, ph_tensor *x, double value);
PH_API ph_tensor *ph_mul_scalar(ph_tape *tape, ph_tensor *x, double value);
/* floats; 0.5 and -0.5 are roots, of -inf NaN */
PH_API ph_tensor *ph_pow_scalar(ph_tape *tape, ph_tensor *x, double exponent);
PH_API ph_tensor *ph_neg(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_abs(ph_tape *tape, ph_tensor *x); /* gradient at 0: 0 */
/* NaN where x is, or a bound */
PH_API ph_tensor *ph_clamp(ph_tape *tape, ph_tensor *x, double low, double high);

/* ---- comparison and choice ---- give bool, no gradient. where: cond is bool; a, b of one
 * dtype. masked_fill: x where mask is false. */
PH_API ph_tensor *ph_eq(ph_tape *tape, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_ne(ph_tape *tape, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_lt(ph_tape *tape, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_le(ph_tape *tape, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_gt(ph_tape *tape, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_ge(ph_tape *tape, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_logical_and(ph_tape *tape, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_logical_or(ph_tape *tape, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_logical_not(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_where(ph_tape *tape, ph_tensor *cond, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_masked_fill(ph_tape *tape, ph_tensor *x, ph_tensor *mask, double value);

/* ---- functions of one element ---- floats. gelu: x * Phi(x) by erf; gelu_tanh: the usual
 * approximation by tanh. */
PH_API ph_tensor *ph_exp(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_log(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_sqrt(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_rsqrt(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_square(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_tanh(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_sigmoid(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_relu(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_gelu(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_gelu_tanh(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_silu(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_leaky_relu(ph_tape *tape, ph_tensor *x, double slope);

/* ---- products ---- floats. matmul: [.., m, k] by [.., k, n], leading dimensions broadcast; a
 * vector on either side as in NumPy. linear: x [.., in] by weight [out, in] transposed, plus
 * bias [out] (or NULL). f32 on a GPU: in IEEE f32 unless ph_set_tf32 allows TF32 (a process-wide
 * switch for the products that follow; PyTorch's allow_tf32). */
PH_API ph_tensor *ph_matmul(ph_tape *tape, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_linear(ph_tape *tape, ph_tensor *x, ph_tensor *weight, ph_tensor *bias);
PH_API void ph_set_tf32(bool allowed);
PH_API bool ph_tf32(void);

/* ---- reductions ---- over all axes, or over those named (keep: they stay, with 1 element; none
 * named: nothing is reduced). sum of bool and integers gives i64; mean, norm: floats. mean of
 * nothing is NaN, max of nothing an error. max: gradient to all that tie, shared equally.
 * argmax: i64, first of ties, no gradient. norm: (sum |x|^p)^(1/p), p > 0, or INFINITY. Sums are
 * pairwise or in f64 and do not depend on the number of threads. */
PH_API ph_tensor *ph_sum(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_sum_over(ph_tape *tape, ph_tensor *x, ph_axes axes, bool keep);
PH_API ph_tensor *ph_mean(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_mean_over(ph_tape *tape, ph_tensor *x, ph_axes axes, bool keep);
PH_API ph_tensor *ph_max(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_max_over(ph_tape *tape, ph_tensor *x, ph_axes axes, bool keep);
PH_API ph_tensor *ph_argmax(ph_tape *tape, ph_tensor *x, int axis, bool keep);
PH_API ph_tensor *ph_norm(ph_tape *tape, ph_tensor *x, double p);
PH_API ph_tensor *ph_norm_over(ph_tape *tape, ph_tensor *x, double p, ph_axes axes, bool keep);

/* ---- normalisation and losses ---- layer_norm, rms_norm: over the last axis; weight [last] and
 * bias [last] may be NULL; eps 0 is 1e-5, PH_ZERO none; rows with magnitudes above about 1e19
 * (f64: 1e154), of which a square is no number of the dtype, are beyond them
 * (docs/reference/operators.md). cross_entropy: mean over the rows of logits [.., classes] against
 * targets [..] of i64 or i32 class numbers; a row whose target is ignore_index takes no part; any
 * other number outside [0, classes) makes the loss (and that row's gradient) NaN. mse: mean of
 * (a-b)^2. */
PH_API ph_tensor *ph_softmax(ph_tape *tape, ph_tensor *x, int axis);
PH_API ph_tensor *ph_log_softmax(ph_tape *tape, ph_tensor *x, int axis);
PH_API ph_tensor *ph_layer_norm(ph_tape *tape, ph_tensor *x, ph_tensor *weight, ph_tensor *bias,
                                double eps);
PH_API ph_tensor *ph_rms_norm(ph_tape *tape, ph_tensor *x, ph_tensor *weight, double eps);
typedef enum ph_reduction {
    PH_REDUCTION_MEAN = 0,
    PH_REDUCTION_SUM = 1,
    PH_REDUCTION_NONE = 2
} ph_reduction;
typedef struct ph_cross_entropy_options {
    ph_reduction reduction;
    bool has_ignore_index;
    int64_t ignore_index;
    /* so many of the last dimension's elements are classes; what is behind them takes no part
     * and has gradient 0: for heads that are padded so that products are fast. 0: all */
    int64_t classes;
    uint64_t reserved[4];
} ph_cross_entropy_options;
PH_API ph_tensor *ph_cross_entropy(ph_tape *tape, ph_tensor *logits, ph_tensor *targets);
PH_API ph_tensor *ph_cross_entropy_with(ph_tape *tape, ph_tensor *logits, ph_tensor *targets,
                                        const ph_cross_entropy_options *options);
PH_API ph_tensor *ph_mse(ph_tape *tape, ph_tensor *a, ph_tensor *b);

/* ---- indexing ---- index: i64 or i32. An index out of range gives NaN (0 for integers) where
 * it reads, and is dropped where it would write: it never touches other memory. Gradients of
 * repeated indices are summed in a fixed order. embedding: rows of weight [n, d] by index [..].
 * gather: out[i][j] = x[index[i][j]][j] for axis 0. scatter: a copy of x with
 * out[index[i][j]][j] = src[i][j]; of repeated indices the last in memory order wins.
 * scatter_add: adds. index_select: whole slices along an axis by a 1-d index. */
PH_API ph_tensor *ph_embedding(ph_tape *tape, ph_tensor *weight, ph_tensor *index);
PH_API ph_tensor *ph_gather(ph_tape *tape, ph_tensor *x, int axis, ph_tensor *index);
PH_API ph_tensor *ph_scatter(ph_tape *tape, ph_tensor *x, int axis, ph_tensor *index,
                             ph_tensor *src);
PH_API ph_tensor *ph_scatter_add(ph_tape *tape, ph_tensor *x, int axis, ph_tensor *index,
                                 ph_tensor *src);
PH_API ph_tensor *ph_index_select(ph_tape *tape, ph_tensor *x, int axis, ph_tensor *index);
PH_API ph_tensor *ph_concat(ph_tape *tape, ph_tensor *const *tensors, size_t count, int axis);
PH_API ph_tensor *ph_stack(ph_tape *tape, ph_tensor *const *tensors, size_t count, int axis);
/* Views of x, sizes[i] along axis; they must add up. */
PH_API void ph_split(ph_tape *tape, ph_tensor **out, ph_tensor *x, int axis, const int64_t *sizes,
                     size_t count);

/* ---- attention ---- softmax(q k' * scale) v for q [.., heads, tq, d], k and v [.., kv_heads,
 * tk, d], in one fused operator of O(tq) extra memory, forward and backward (after
 * "FlashAttention-2", Dao 2023). causal: row i sees columns up to i + tk - tq. scale 0:
 * 1/sqrt(d); PH_ZERO: 0, all columns count alike. kv_heads must divide heads. Rows that see
 * nothing give 0. d at most 256. */
typedef struct ph_attention_options {
    bool causal;
    double scale;
    uint64_t reserved[4];
} ph_attention_options;
PH_API ph_tensor *ph_attention(ph_tape *tape, ph_tensor *q, ph_tensor *k, ph_tensor *v,
                               const ph_attention_options *options);

PH_END_DECLS

#ifdef __cplusplus
template <class... Axes> inline ph_axes ph_make_axes(Axes... axes)
{
    return ph_axes{sizeof...(axes), {static_cast<int>(axes)...}};
}
#define PH_AXES(...) ph_make_axes(__VA_ARGS__)
#endif
#endif
