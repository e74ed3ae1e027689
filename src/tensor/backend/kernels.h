/* SPDX-License-Identifier: MIT */
/* tensor/backend/kernels.h: kernels of this library: defined once for both devices, created at a
 * device's first use of them. */
#ifndef PH_TENSOR_BACKEND_KERNELS_H
#define PH_TENSOR_BACKEND_KERNELS_H
#include "tensor/backend/backend.h"

/* A kernel definition: static, one for each kernel and dtype.
 * - The CUDA text is the prelude (cuda/prelude.cu) followed by the pieces, in order. Its function
 *   `name` is extern "C", has the argument struct's members as parameters in order, and begins with
 *   PH_WAIT(), since it is launched programmatically.
 * - The host form gets the same grid. A block does the same part of the work on both devices, so
 *   that results do not depend on the device's number of threads. It never waits for anything
 *   (host_inline).
 * - params names every address in the arguments. */
typedef struct ph__kernel_def {
    const char *name;
    const char *const *cuda; /* NULL-terminated pieces */
    ph_host_kernel_fn host;
    size_t args_size;
    const ph_param *params;
    size_t param_count;
    const char *cuda_options; /* for NVRTC; may be NULL */
    atomic_int slot;          /* 0 until it is first asked for */
} ph__kernel_def;

/* The device's kernel: borrowed for the backend's life. NULL: the record is set. The usual case
 * is one atomic load. */
ph_kernel *ph__kernel_get(ph__backend *backend, ph__kernel_def *def);
/* For tests over a software libcuda and NVRTC, which know neither C++ nor these kernels: takes
 * note of def's host form before it is created on a GPU, and gives the CUDA text to create it
 * from, read at once; NULL: its own. Itself NULL at first. */
extern const char *(*ph__kernel_stand_in)(const ph__kernel_def *def);

/* Texts of cuda/, embedded: ph__text_<name>, NUL-terminated. */
#define PH__TEXTS(X)                                                                               \
    X(prelude)                                                                                     \
    X(bundle)                                                                                      \
    X(factory)                                                                                     \
    X(elementwise)                                                                                 \
    X(reduce)                                                                                      \
    X(rows)                                                                                        \
    X(softmax)                                                                                     \
    X(cross_entropy)                                                                               \
    X(norm)                                                                                        \
    X(indexing)                                                                                    \
    X(attention)                                                                                   \
    X(attention_simple)                                                                            \
    X(products)                                                                                    \
    X(draws)                                                                                       \
    X(random)                                                                                      \
    X(optimizer)
#define PH__TEXT_DECLARE(name)                                                                     \
    extern const char ph__text_##name[] __attribute__((visibility("hidden")));
PH__TEXTS(PH__TEXT_DECLARE)
#undef PH__TEXT_DECLARE

extern ph__kernel_def *const ph__random_kernels[];
extern ph__kernel_def *const ph__randperm_kernels[];
extern ph__kernel_def *const ph__dropout_kernels[];
extern ph__kernel_def *const ph__rrelu_kernels[];
extern ph__kernel_def *const ph__softmax_kernels[];
extern ph__kernel_def *const ph__cross_entropy_kernels[];
extern ph__kernel_def *const ph__mse_kernels[];
extern ph__kernel_def *const ph__norm_kernels[];
extern ph__kernel_def *const ph__indexing_kernels[];
extern ph__kernel_def *const ph__sort_kernels[];
/* factory.c; NULL-terminated, as every family has one */
extern ph__kernel_def *const ph__factory_kernels[];
#endif
