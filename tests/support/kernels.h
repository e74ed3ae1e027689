/* SPDX-License-Identifier: MIT */
/* tests/support/kernels.h: the kernels of the tests, each in its form for the host device and in
 * CUDA C. */
#ifndef PH_TESTS_KERNELS_H
#define PH_TESTS_KERNELS_H
#include <phonograph/kernel.h>

typedef enum t_kernel_id {
    T_KERNEL_FILL_I32, /* the first four are those of a t_world: one element a thread, any grid */
    T_KERNEL_ADD_I32,
    T_KERNEL_FILL_F32,
    T_KERNEL_AXPY_F32,
    T_KERNEL_MIX, /* y[i] = 31 y[i] + x[(i + shift) mod n] + value */
    /* the same; on the host by relaxed atomics, for programs that are wrong on purpose */
    T_KERNEL_MIX_RACY,
    /* y = value - x, by way of shared memory; a block an element; args: t_add_i32 */
    T_KERNEL_NEGATE,
    T_KERNEL_ADD_ONE,      /* ++*y */
    T_KERNEL_PUT,          /* *y = value */
    T_KERNEL_COPY_FIRST,   /* *y = *x */
    T_KERNEL_IGNORE_WORDS, /* does nothing with 28 bytes: no padding is at their end */
    T_KERNEL_IGNORE_BYTES, /* does nothing with 33 bytes */
    T_KERNELS
} t_kernel_id;

/* Copy one to change it: the name only where the device is the host, as it is the function's
 * too. */
extern const ph_kernel_source t_kernel_sources[T_KERNELS];

/* Before any is created: the software libcuda of the tests runs a kernel's host form, and has to
 * be told. Does nothing elsewhere. */
void t_register_kernels(void);

/* nn_fake.c: from now on it is told those of libphonograph_nn too, where the test is linked with
 * that one. */
void t_register_nn_kernels(void);

/* Argument structs. */
struct t_fill_i32 {
    uint64_t n;
    int32_t *y;
    int32_t value;
};
struct t_add_i32 { /* y = x + value; y may be x */
    uint64_t n;
    const int32_t *x;
    int32_t *y;
    int32_t value;
};
struct t_fill_f32 {
    uint64_t n;
    float *y;
    float value;
};
struct t_axpy_f32 { /* y += a x */
    uint64_t n;
    const float *x;
    float *y;
    float a;
};
struct t_mix {
    uint64_t n;
    const uint32_t *x;
    uint32_t *y;
    uint32_t value, shift;
};
struct t_add_one {
    int32_t *y;
};
struct t_put {
    int32_t *y;
    int64_t value;
};
struct t_copy_first {
    const int32_t *x;
    int32_t *y;
};
#endif
