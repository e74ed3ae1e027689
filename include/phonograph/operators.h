/* SPDX-License-Identifier: MIT */
/* phonograph/operators.h: operators on tensors. An operator returns a tensor that the tape owns, or
 * NULL once the tape has failed (tape.h). Unless a comment says otherwise:
 * - Operands are of the tape's device and of one dtype. Cast first: no promotion is silent, except
 *   under the tape's autocast.
 * - Operands may have any strides, and may be empty. They broadcast as in NumPy. Results are
 *   contiguous.
 * - Every floating operand has a gradient.
 * - f16 and bf16 are computed and summed in f32.
 * - Results of eager, captured and replayed runs are equal to the bit. */
#ifndef PHONOGRAPH_OPERATORS_H
#define PHONOGRAPH_OPERATORS_H
#include <phonograph/tape.h>

PH_BEGIN_DECLS

/* Axes to reduce over, as PH_AXES(0, -1). Negative axes count from the end. A repeated axis is an
 * error. */
typedef struct ph_axes {
    size_t count;
    int axis[PH_MAX_RANK];
} ph_axes;
#ifndef __cplusplus
#define PH_AXES(...) ((ph_axes){sizeof((int[]){__VA_ARGS__}) / sizeof(int), {__VA_ARGS__}})
#endif

/* ---- factories ---- on the tape's device; no gradient. arange: count numbers begin, begin + step,
 * ...; not bool. For integer dtypes, begin and step must be integers. */
PH_API ph_tensor *ph_empty(ph_tape *tape, ph_dtype dtype, ph_shape shape);
PH_API ph_tensor *ph_zeros(ph_tape *tape, ph_dtype dtype, ph_shape shape);
PH_API ph_tensor *ph_full(ph_tape *tape, ph_dtype dtype, ph_shape shape, double value);
PH_API ph_tensor *ph_arange(ph_tape *tape, ph_dtype dtype, double begin, double step,
                            int64_t count);
/* A copy of host memory: ph_empty and ph_tensor_write. */
PH_API ph_tensor *ph_from_memory(ph_tape *tape, ph_dtype dtype, ph_shape shape, const void *data);

/* ---- views ---- A view shares memory with x. Nothing is copied. Any dtype.
 * - slice: [begin, end) with a step >= 1. Negative indices count from the end, and indices are
 *   clamped as in Python.
 * - reshape: one dimension may be -1. Copies where the strides do not allow a view.
 * - expand: dimensions of 1 become those of shape (stride 0). shape may have more dimensions in
 *   front.
 * - squeeze: removes the axis if its dimension is 1. PH_ALL_AXES: every dimension of 1.
 * - permute: axes[rank]. */
enum {
    PH_ALL_AXES = 1000
};
PH_API ph_tensor *ph_slice(ph_tape *tape, ph_tensor *x, int axis, int64_t begin, int64_t end);
PH_API ph_tensor *ph_slice_step(ph_tape *tape, ph_tensor *x, int axis, int64_t begin, int64_t end,
                                int64_t step);
/* A slice of one index, squeezed. */
PH_API ph_tensor *ph_select(ph_tape *tape, ph_tensor *x, int axis, int64_t index);
PH_API ph_tensor *ph_transpose(ph_tape *tape, ph_tensor *x, int axis0, int axis1);
PH_API ph_tensor *ph_permute(ph_tape *tape, ph_tensor *x, const int *axes, size_t count);
PH_API ph_tensor *ph_reshape(ph_tape *tape, ph_tensor *x, ph_shape shape);
PH_API ph_tensor *ph_flatten(ph_tape *tape, ph_tensor *x, int first_axis, int last_axis);
PH_API ph_tensor *ph_expand(ph_tape *tape, ph_tensor *x, ph_shape shape);
PH_API ph_tensor *ph_squeeze(ph_tape *tape, ph_tensor *x, int axis);
PH_API ph_tensor *ph_unsqueeze(ph_tape *tape, ph_tensor *x, int axis);

/* ---- copies and casts ----
 * - contiguous: x itself when it is contiguous.
 * - cast: any dtype to any; no copy to the dtype of x. Floats to integers truncate and saturate
 *   (NaN: 0). Integers to smaller ones wrap around. To bool: whether the number is not 0.
 * - to_device: from another device, or a pinned tensor, to the tape's device. Work that writes x
 *   must be complete, or the caller must order it before the tape's stream. There x must be
 *   contiguous, and has a gradient only on the tape's own device (else STATE, while gradients are
 *   enabled).
 * - to_device between a host device and a GPU copies pageable memory. A capture refuses this
 *   (UNPINNED); the message names pinned tensors as the remedy. */
PH_API ph_tensor *ph_clone(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_contiguous(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_cast(ph_tape *tape, ph_tensor *x, ph_dtype dtype);
PH_API ph_tensor *ph_to_device(ph_tape *tape, ph_tensor *x);

/* ---- in place ---- These calls change the memory of dst, and count up its version.
 * - STATE: a tensor that requires a gradient, while gradients are enabled.
 * - copy: src is cast and broadcast to dst. src may be of another device, as in to_device; then
 *   dtypes and shapes are equal, and both are contiguous.
 * - add: dst += alpha * src. scale: dst *= factor. */
PH_API void ph_tensor_fill(ph_tape *tape, ph_tensor *dst, double value); /* cast as by ph_cast */
PH_API void ph_tensor_copy(ph_tape *tape, ph_tensor *dst, ph_tensor *src);
PH_API void ph_tensor_add(ph_tape *tape, ph_tensor *dst, ph_tensor *src, double alpha);
PH_API void ph_tensor_scale(ph_tape *tape, ph_tensor *dst, double factor);

/* ---- arithmetic ---- add, sub, mul, maximum and minimum take all dtypes but bool.
 * - Division of floats; division of integers truncates, and by 0 gives 0.
 * - Integers wrap around.
 * - With an integer dtype, a scalar that is no integer (0.5) is an error. */
PH_API ph_tensor *ph_add(ph_tape *tape, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_sub(ph_tape *tape, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_mul(ph_tape *tape, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_div(ph_tape *tape, ph_tensor *a, ph_tensor *b);
/* maximum, minimum: NaN if either is NaN; equal operands share the gradient equally. */
PH_API ph_tensor *ph_maximum(ph_tape *tape, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_minimum(ph_tape *tape, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_add_scalar(ph_tape *tape, ph_tensor *x, double value);
PH_API ph_tensor *ph_mul_scalar(ph_tape *tape, ph_tensor *x, double value);
/* floats; the exponents 0.5 and -0.5 are roots, which give NaN for -inf */
PH_API ph_tensor *ph_pow_scalar(ph_tape *tape, ph_tensor *x, double exponent);
PH_API ph_tensor *ph_neg(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_abs(ph_tape *tape, ph_tensor *x); /* the gradient at 0 is 0 */
/* NaN where x or a bound is NaN */
PH_API ph_tensor *ph_clamp(ph_tape *tape, ph_tensor *x, double low, double high);

/* ---- comparison and choice ---- Comparisons give bool, and have no gradient. where: cond is bool;
 * a and b have one dtype. masked_fill: x where mask is false. */
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

/* ---- products ---- of floats.
 * - matmul: [.., m, k] by [.., k, n]. Leading dimensions broadcast. A vector on either side is as
 *   in NumPy.
 * - linear: x [.., in] by the transpose of weight [out, in], plus bias [out] (or NULL).
 * - f32 on a GPU is IEEE f32, unless ph_set_tf32 allows TF32. The switch holds for the process and
 *   for later products (PyTorch's allow_tf32). */
PH_API ph_tensor *ph_matmul(ph_tape *tape, ph_tensor *a, ph_tensor *b);
PH_API ph_tensor *ph_linear(ph_tape *tape, ph_tensor *x, ph_tensor *weight, ph_tensor *bias);
PH_API void ph_set_tf32(bool allowed);
PH_API bool ph_tf32(void);

/* ---- reductions ---- over all axes, or over the named axes. keep: reduced axes stay, with 1
 * element. An empty list of axes reduces nothing.
 * - sum of bool and integers gives i64. mean and norm take floats.
 * - norm: (sum |x|^p)^(1/p), p > 0, or INFINITY.
 * - mean of nothing is NaN; max of nothing is an error.
 * - max: equal maxima share the gradient equally. argmax: i64, the first of equal maxima, no
 *   gradient.
 * - Sums are in f64; of floats of 32 bits or fewer, groups of up to 32 elements are added in f32
 *   first. They do not depend on the number of threads. */
PH_API ph_tensor *ph_sum(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_sum_over(ph_tape *tape, ph_tensor *x, ph_axes axes, bool keep);
PH_API ph_tensor *ph_mean(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_mean_over(ph_tape *tape, ph_tensor *x, ph_axes axes, bool keep);
PH_API ph_tensor *ph_max(ph_tape *tape, ph_tensor *x);
PH_API ph_tensor *ph_max_over(ph_tape *tape, ph_tensor *x, ph_axes axes, bool keep);
PH_API ph_tensor *ph_argmax(ph_tape *tape, ph_tensor *x, int axis, bool keep);
PH_API ph_tensor *ph_norm(ph_tape *tape, ph_tensor *x, double p);
PH_API ph_tensor *ph_norm_over(ph_tape *tape, ph_tensor *x, double p, ph_axes axes, bool keep);

/* ---- normalisation and losses ----
 * - layer_norm, rms_norm: over the last axis. weight [last] and bias [last] may be NULL. eps 0 is
 *   1e-5; PH_ZERO is none.
 * - Norms cannot take rows with magnitudes above about 1e19 (f64: 1e154), whose squares the dtype
 *   cannot hold (docs/reference/operators.md).
 * - cross_entropy: the mean over the rows of logits [.., classes], with targets [..] of i64 or i32
 *   class numbers. A row whose target is ignore_index does not count. Any other number outside [0,
 *   classes) makes the loss, and the gradient of that row's classes, NaN.
 * - mse: the mean of (a - b)^2. */
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
    /* The number of elements of the last dimension that are classes; 0: all. Further elements do
     * not count, are no targets either, and have the gradient 0. For heads that are padded so that
     * products are fast. */
    int64_t classes;
    uint64_t reserved[4];
} ph_cross_entropy_options;
PH_API ph_tensor *ph_cross_entropy(ph_tape *tape, ph_tensor *logits, ph_tensor *targets);
PH_API ph_tensor *ph_cross_entropy_with(ph_tape *tape, ph_tensor *logits, ph_tensor *targets,
                                        const ph_cross_entropy_options *options);
/* The mean of (a - b)^2. Operands broadcast, as in PyTorch, but without its warning: where [8, 1]
 * meets [8], all pairs count. */
PH_API ph_tensor *ph_mse(ph_tape *tape, ph_tensor *a, ph_tensor *b);

/* ---- indexing ---- index is i64 or i32.
 * - An index out of range reads NaN (0 for integers), and writes nothing. It never touches other
 *   memory.
 * - Gradients of repeated indices are summed in a fixed order.
 * - embedding: rows of weight [n, d] by index [..].
 * - gather: out[i][j] = x[index[i][j]][j] for axis 0.
 * - scatter: a copy of x with out[index[i][j]][j] = src[i][j]. Of repeated indices, the last in
 *   memory order wins. scatter_add adds.
 * - index_select: whole slices along an axis by a 1-d index. */
PH_API ph_tensor *ph_embedding(ph_tape *tape, ph_tensor *weight, ph_tensor *index);
PH_API ph_tensor *ph_gather(ph_tape *tape, ph_tensor *x, int axis, ph_tensor *index);
PH_API ph_tensor *ph_scatter(ph_tape *tape, ph_tensor *x, int axis, ph_tensor *index,
                             ph_tensor *src);
PH_API ph_tensor *ph_scatter_add(ph_tape *tape, ph_tensor *x, int axis, ph_tensor *index,
                                 ph_tensor *src);
PH_API ph_tensor *ph_index_select(ph_tape *tape, ph_tensor *x, int axis, ph_tensor *index);
PH_API ph_tensor *ph_concat(ph_tape *tape, ph_tensor *const *tensors, size_t count, int axis);
PH_API ph_tensor *ph_stack(ph_tape *tape, ph_tensor *const *tensors, size_t count, int axis);
/* Views of x, of sizes[i] along axis. The sizes must add up to the dimension. */
PH_API void ph_split(ph_tape *tape, ph_tensor **out, ph_tensor *x, int axis, const int64_t *sizes,
                     size_t count);

/* ---- attention ---- softmax(q k' * scale) v for q [.., heads, tq, d], k and v [.., kv_heads, tk,
 * d].
 * - One fused operator with O(tq) extra memory, forward and backward; on some GPUs cuDNN's, which
 *   takes up to 256 MiB more for a backward pass (docs/reference/operators.md). After
 *   "FlashAttention-2" (Dao, 2023).
 * - causal: row i sees columns up to i + tk - tq. Rows that see no column give 0.
 * - scale 0: 1/sqrt(d). PH_ZERO: 0, so that all columns count alike.
 * - kv_heads must divide heads. d is at most 256. */
typedef struct ph_attention_options {
    bool causal;
    double scale;
    uint64_t reserved[4];
} ph_attention_options;
PH_API ph_tensor *ph_attention(ph_tape *tape, ph_tensor *q, ph_tensor *k, ph_tensor *v,
                               const ph_attention_options *options);

/* ---- algorithms whose results repeat ---- PyTorch's use_deterministic_algorithms, but true until
 * somebody says otherwise: the same work gives the same bits, eager, captured and replayed.
 * - false allows attention's backward by cuDNN to add up the gradient of q atomically, which is
 *   faster. Its last bits then differ from run to run, and from replay to replay. All else stays as
 *   it is.
 * - The switch holds for the process and for later calls, backward's included. A graph keeps what
 *   it was captured with. Thread-safe. Legal in a capture. */
PH_API void ph_set_deterministic_algorithms(bool only);
PH_API bool ph_deterministic_algorithms(void);

/* ---- the fastest algorithm ---- PyTorch's torch.backends.cudnn.benchmark, for products too; false
 * until somebody says otherwise. cuBLASLt and cuDNN propose several algorithms for a product, and
 * for attention with its backward. Of each shape, with its dtypes, strides and alignment:
 * - false: the first use on a device takes the first proposal.
 * - true: the first use times them with its operands, at most 10 of each of the library's searches,
 *   and takes the fastest. It waits for the stream, takes up to some seconds (cuDNN compiles what
 *   it proposes), and meanwhile allocates 64 MiB and scratch in the pool that the calling thread's
 *   allocations come from (memory.h).
 * - The choice stays for the device's work, captured or not, whatever the switch says later, until
 *   the device's last tape and tensor are gone. So turn it on before the first step.
 * - A first use in a capture times nothing and takes the first. So does one beside a capture: while
 *   the calling thread captures on the device, or another one in a mode that forbids to wait.
 * - Accuracy and repetition are as before: no narrower types, no sums in another order than
 *   ph_set_deterministic_algorithms allows.
 * - Another proposal sums in another order. So the last bits may differ between two processes, or
 *   two GPUs, as with PyTorch; while the choice stays the same work gives the same bits.
 * - The host device has one algorithm, and times nothing.
 * - The switch holds for the process and for later calls, backward's included. Thread-safe. Legal
 *   in a capture. */
PH_API void ph_set_benchmark(bool on);
PH_API bool ph_benchmark(void);

PH_END_DECLS

#ifdef __cplusplus
template <class... Axes> inline ph_axes ph_make_axes(Axes... axes)
{
    return ph_axes{sizeof...(axes), {static_cast<int>(axes)...}};
}
#define PH_AXES(...) ph_make_axes(__VA_ARGS__)
#endif
#endif
