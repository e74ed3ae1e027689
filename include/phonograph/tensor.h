/* SPDX-License-Identifier: MIT */
/* phonograph/tensor.h: tensors: a dtype, a shape, strides, and memory of a device; making them,
 * moving them, looking at them. */
#ifndef PHONOGRAPH_TENSOR_H
#define PHONOGRAPH_TENSOR_H
#include <phonograph/memory.h>

PH_BEGIN_DECLS

typedef struct ph_tensor ph_tensor;
typedef struct ph_tape ph_tape; /* tape.h */

/* f16 and bf16 are computed in f32. bool is one byte, 0 or 1. */
typedef enum ph_dtype {
    PH_DTYPE_F32 = 1,
    PH_DTYPE_F64 = 2,
    PH_DTYPE_F16 = 3,
    PH_DTYPE_BF16 = 4,
    PH_DTYPE_I32 = 5,
    PH_DTYPE_I64 = 6,
    PH_DTYPE_U8 = 7,
    PH_DTYPE_BOOL = 8
} ph_dtype;
/* "f32"...; "?" for a number that is none. Static storage */
PH_API const char *ph_dtype_name(ph_dtype dtype);
PH_API size_t ph_dtype_size(ph_dtype dtype); /* bytes; 0 for a number that is none */
PH_API bool ph_dtype_is_floating(ph_dtype dtype);

/* Dimensions, outermost first. A scalar has rank 0 and one element; a dimension of 0 makes an
 * empty tensor, which every operator takes. */
enum {
    PH_MAX_RANK = 8
};
typedef struct ph_shape {
    size_t rank;
    int64_t dim[PH_MAX_RANK];
} ph_shape;
/* PH_SHAPE(2, 3); PH_SCALAR. */
#ifndef __cplusplus
#define PH_SHAPE(...)                                                                              \
    ((ph_shape){sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}})
#define PH_SCALAR ((ph_shape){0, {0}})
#else
#define PH_SCALAR (ph_shape{})
#endif
PH_API bool ph_shape_equal(const ph_shape *a, const ph_shape *b);
/* elements; -1: a negative dimension, a rank beyond 8, or an overflow */
PH_API int64_t ph_shape_count(const ph_shape *shape);

/* ---- making and keeping ---- A tensor is retained and released; the memory behind it is shared
 * by its views and goes when the last of them does, in the order of the streams that used it.
 * Reference counts are thread-safe; everything else about one tensor is externally synchronised.
 *
 * create: contiguous, contents undefined, from the device's caching allocator, in stream order
 * of the device's default stream: the first tape of another stream that uses it waits, once, for
 * what that stream has to do by then (refused beside an open capture with blocking streams:
 * CAPTURE, 906). In a capture it cannot: synchronize the default stream before a capture that is
 * a tensor's first use. Errors: ARGUMENT (dtype, shape), SIZE, DEVICE_MEMORY. Legal in a
 * capture: where the calling thread has exactly one open on the device its memory is of that
 * capture's pool, in order of the capture's stream (ph_memory_stream), and replays write it. */
PH_CALL ph_tensor_create(ph_tensor **out, ph_device *device, ph_dtype dtype, ph_shape shape);
/* Its memory is pinned host memory of the device: both the host and the device can address it. */
PH_CALL ph_tensor_create_pinned(ph_tensor **out, ph_device *device, ph_dtype dtype, ph_shape shape);
/* Over memory of the user's that the device can address: release(user), which may be NULL, is
 * called when the last view is gone (in host order: synchronize what uses it first). strides: in
 * elements, NULL: contiguous. */
typedef void (*ph_tensor_release_fn)(void *user);
PH_CALL ph_tensor_wrap(ph_tensor **out, ph_device *device, ph_dtype dtype, ph_shape shape,
                       const int64_t *strides, void *data, ph_tensor_release_fn release,
                       void *user);
/* Keeps handle and memory, also past its tape's clear (history is dropped then: the tensor
 * becomes a leaf). Takes NULL, gives NULL. */
PH_API ph_tensor *ph_tensor_retain(ph_tensor *x);
PH_API void ph_tensor_release(ph_tensor *x); /* takes NULL */

/* ---- looking ---- all take NULL: 0, false, NULL, an empty shape. */
PH_API ph_device *ph_tensor_device(const ph_tensor *x); /* borrowed */
PH_API ph_dtype ph_tensor_dtype(const ph_tensor *x);
PH_API ph_shape ph_tensor_shape(const ph_tensor *x);
PH_API size_t ph_tensor_rank(const ph_tensor *x);
/* negative axes count from the end; 0 for one that is not there */
PH_API int64_t ph_tensor_dim(const ph_tensor *x, int axis);
PH_API int64_t ph_tensor_stride(const ph_tensor *x, int axis); /* in elements */
PH_API int64_t ph_tensor_count(const ph_tensor *x);            /* elements */
PH_API size_t ph_tensor_bytes(const ph_tensor *x);             /* of its elements, contiguous */
/* the address of its first element; NULL when empty */
PH_API void *ph_tensor_data(const ph_tensor *x);
PH_API bool ph_tensor_is_contiguous(const ph_tensor *x);
PH_API bool ph_tensor_is_pinned(const ph_tensor *x);
/* Counts the in-place changes that operators and the calls below made to its memory; views share
 * it. */
PH_API uint64_t ph_tensor_version(const ph_tensor *x);

/* ---- contents ---- in order of the tape's stream (tape.h). bytes must be ph_tensor_bytes; x
 * may have any strides. write: as ph_memcpy from host memory: a pageable source is read before
 * the call returns; in a capture only a pinned one is allowed (UNPINNED otherwise: the message
 * names the remedy, the capture goes on). A leaf that requires a gradient may be written; STATE:
 * a tensor with history, while gradients are enabled, and read-only memory. read: into host
 * memory; waits for it: refused in a capture (CAPTURE, 900), where the remedy is a copy to a
 * pinned tensor. item: the single element of x as a double (i64 beyond 2^53 are rounded);
 * refused like read. All three, and format, fail the tape as well (ph_tape_status). */
PH_CALL ph_tensor_write(ph_tape *tape, ph_tensor *x, const void *data, size_t bytes);
PH_CALL ph_tensor_read(ph_tape *tape, const ph_tensor *x, void *data, size_t bytes);
PH_CALL ph_tensor_item(double *out, ph_tape *tape, const ph_tensor *x);

/* As text, in PyTorch's manner (edges of large ones alone), freed with ph_string_free. Waits,
 * like read. */
PH_CALL ph_tensor_format(char **out, ph_tape *tape, const ph_tensor *x);

/* ---- gradients ---- see tape.h. set_requires_grad: floating dtypes and leaves only (ARGUMENT,
 * STATE). grad: borrowed; NULL when none has been accumulated. set_grad: retains it, NULL drops;
 * same shape, dtype and device (ARGUMENT). */
PH_CALL ph_tensor_set_requires_grad(ph_tensor *x, bool requires_grad);
PH_API bool ph_tensor_requires_grad(const ph_tensor *x);
PH_API bool ph_tensor_is_leaf(const ph_tensor *x);
PH_API ph_tensor *ph_tensor_grad(const ph_tensor *x);
PH_CALL ph_tensor_set_grad(ph_tensor *x, ph_tensor *grad);

PH_END_DECLS

#ifdef __cplusplus
template <class... Dims> inline ph_shape ph_make_shape(Dims... dims)
{
    return ph_shape{sizeof...(dims), {static_cast<int64_t>(dims)...}};
}
#define PH_SHAPE(...) ph_make_shape(__VA_ARGS__)
#endif
#endif
