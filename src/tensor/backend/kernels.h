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
ph_kernel *ph__kernel_make_first(ph__backend *backend, ph__kernel_def *def);
/* Slot 0 is nobody's: its kernel is NULL. */
static inline ph_kernel *ph__kernel_get(ph__backend *backend, ph__kernel_def *def)
{
    int slot = atomic_load_explicit(&def->slot, memory_order_acquire);
    ph_kernel *kernel = atomic_load_explicit(&backend->kernels[slot], memory_order_acquire);
    return kernel ? kernel : ph__kernel_make_first(backend, def);
}
/* For tests over a software libcuda and NVRTC, which know neither C++ nor these kernels: takes
 * note of def's host form before it is created on a GPU, and gives the CUDA text to create it
 * from, read at once; NULL: its own. Itself NULL at first. */
extern const char *(*ph__kernel_stand_in)(const ph__kernel_def *def);

/* Defines a NULL-terminated table of all kernels of a file: ph__<name>_kernels. Its readers compile
 * them all. */
#define PH__KERNEL_FAMILY(name)                                                                    \
    extern ph__kernel_def *const ph__##name##_kernels[];                                           \
    ph__kernel_def *const ph__##name##_kernels[]
#endif
