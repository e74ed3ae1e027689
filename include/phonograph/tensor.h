/* SPDX-License-Identifier: MIT */
/* phonograph/tensor.h: tensors: a dtype, a shape, strides, and memory of a device. Creation,
 * contents, queries. */
#ifndef PHONOGRAPH_TENSOR_H
#define PHONOGRAPH_TENSOR_H
#include <phonograph/dtype.h>
#include <phonograph/memory.h>

PH_BEGIN_DECLS

typedef struct ph_tensor ph_tensor;
typedef struct ph_tape ph_tape; /* tape.h */

/* "f32"...; "?" for an unknown number. Static storage */
PH_API const char *ph_dtype_name(ph_dtype dtype);
PH_API size_t ph_dtype_size(ph_dtype dtype); /* bytes; 0 for an unknown number */
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

/* ---- creation and lifetime ---- A tensor is retained and released. Its views share its memory,
 * which goes with the last of them, in the order of the streams that used it. Threads: reference
 * counts are thread-safe; all else about one tensor is externally synchronised.
 *
 * create makes a contiguous tensor with undefined contents, from the device's caching allocator.
 * - The memory is in the order of the device's default stream. The first tape of another stream
 *   that uses the tensor waits, once, for the work of the default stream so far. This is refused
 *   beside an open capture with blocking streams (CAPTURE, 906).
 * - A capture cannot wait so. If the first use of a tensor is a capture, synchronize the default
 *   stream before it.
 * - Legal in a capture. Where the calling thread has exactly one capture open on the device, the
 *   memory is of that capture's pool, in the order of its stream (ph_memory_stream), and replays
 *   write it.
 * - Errors: ARGUMENT (dtype, shape), SIZE, DEVICE_MEMORY. */
PH_CALL ph_tensor_create(ph_tensor **out, ph_device *device, ph_dtype dtype, ph_shape shape);
/* Its memory is pinned host memory of the device, which host and device can address. */
PH_CALL ph_tensor_create_pinned(ph_tensor **out, ph_device *device, ph_dtype dtype, ph_shape shape);
/* A tensor over memory of the user that the device can address. release(user), which may be NULL,
 * is called when the last view is gone, in host order: synchronize its users first. strides: in
 * elements; NULL: contiguous. Where they put several elements at one address, the tensor is read
 * only: changes in place are refused (ARGUMENT). */
typedef void (*ph_tensor_release_fn)(void *user);
PH_CALL ph_tensor_wrap(ph_tensor **out, ph_device *device, ph_dtype dtype, ph_shape shape,
                       const int64_t *strides, void *data, ph_tensor_release_fn release,
                       void *user);
/* Keeps handle and memory, also after its tape is cleared. The history goes then: the tensor
 * becomes a leaf. Takes NULL, returns NULL. */
PH_API ph_tensor *ph_tensor_retain(ph_tensor *x);
PH_API void ph_tensor_release(ph_tensor *x); /* takes NULL */

/* ---- queries ---- All take NULL, and return 0, false, NULL or an empty shape for it. */
PH_API ph_device *ph_tensor_device(const ph_tensor *x); /* borrowed */
PH_API ph_dtype ph_tensor_dtype(const ph_tensor *x);
PH_API ph_shape ph_tensor_shape(const ph_tensor *x);
PH_API size_t ph_tensor_rank(const ph_tensor *x);
/* negative axes count from the end; 0: no such axis */
PH_API int64_t ph_tensor_dim(const ph_tensor *x, int axis);
PH_API int64_t ph_tensor_stride(const ph_tensor *x, int axis); /* in elements */
PH_API int64_t ph_tensor_count(const ph_tensor *x);            /* elements */
/* bytes of its elements, if contiguous */
PH_API size_t ph_tensor_bytes(const ph_tensor *x);
/* the address of the first element; NULL when empty */
PH_API void *ph_tensor_data(const ph_tensor *x);
PH_API bool ph_tensor_is_contiguous(const ph_tensor *x);
PH_API bool ph_tensor_is_pinned(const ph_tensor *x);
/* Counts the changes in place that operators, and the calls below, made to its memory. Views share
 * it. */
PH_API uint64_t ph_tensor_version(const ph_tensor *x);

/* ---- contents ---- Copies in the order of the tape's stream (tape.h). bytes must be
 * ph_tensor_bytes; x may have any strides. A failure fails the tape too (ph_tape_status).
 * - write: as ph_memcpy from host memory. A pageable source is read before the call returns. In a
 *   capture the source must be pinned (else UNPINNED: the message names the remedy, and the capture
 *   goes on).
 * - write to a leaf that requires a gradient is legal. STATE: a tensor with history while gradients
 *   are enabled, or read-only memory.
 * - read: into host memory. It waits for the copy. A capture refuses it (CAPTURE, 900); copy to a
 *   pinned tensor there.
 * - item: the single element of x as a double; i64 beyond 2^53 are rounded. Refused as read is. */
PH_CALL ph_tensor_write(ph_tape *tape, ph_tensor *x, const void *data, size_t bytes);
PH_CALL ph_tensor_read(ph_tape *tape, const ph_tensor *x, void *data, size_t bytes);
PH_CALL ph_tensor_item(double *out, ph_tape *tape, const ph_tensor *x);

/* The tensor as text, in PyTorch's style: large tensors show only their edges. Freed with
 * ph_string_free. Waits and fails as read does. */
PH_CALL ph_tensor_format(char **out, ph_tape *tape, const ph_tensor *x);

/* ---- gradients ---- See tape.h. set_requires_grad: only floating dtypes and leaves (ARGUMENT,
 * STATE). grad: borrowed; NULL: none was accumulated. set_grad: retains it; NULL drops it. Shape,
 * dtype and device are those of x (ARGUMENT). */
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
