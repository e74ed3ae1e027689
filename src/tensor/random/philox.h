/* SPDX-License-Identifier: MIT */
/* tensor/random/philox.h: random words on the host, and what they become: cuda/draws.cu as C;
 * and two forms of each kernel's loop. */
#ifndef PH_TENSOR_RANDOM_PHILOX_H
#define PH_TENSOR_RANDOM_PHILOX_H
#include "base/half.h"
#include "tensor/generator/generator.h"
#include <math.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t i32;
typedef int64_t i64;
typedef float f32;
typedef double f64;

#define PH_FN        static inline __attribute__((always_inline, unused))
#define ph_bits      ph__bits_of_float
#define ph_of_bits   ph__float_of_bits
#define ph_sqrt_f32  __builtin_sqrtf
#define ph_sqrt_f64  __builtin_sqrt
#define ph_exp_f32   expf
#define ph_exp_f64   exp
#define ph_floor_f32 floorf
#define ph_floor_f64 floor
PH_FN u64 ph_bits64(f64 x)
{
    u64 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
PH_FN f64 ph_of_bits64(u64 bits)
{
    f64 x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
#include "tensor/cuda/draws.cu"

/* A block draws for so many elements, four a thread of a GPU's. */
enum {
    PH__DRAW_THREADS = 256,
    PH__DRAW_ELEMENTS = 4 * PH__DRAW_THREADS
};

/* The members that every kernel's arguments have for its draw, in this order; and what they are
 * set to. */
#define PH__DRAW_MEMBERS                                                                           \
    const uint64_t *seed_cell, *offset_cell;                                                       \
    uint64_t seed, offset
#define PH__DRAW_VALUES(draw)                                                                      \
    .seed_cell = (draw).seed_cell, .offset_cell = (draw).offset_cell, .seed = (draw).seed,         \
    .offset = (draw).offset
#define PH__DRAW_SEED(args) ((args)->seed_cell ? *(args)->seed_cell : (args)->seed)
#define PH__DRAW_BLOCK(args)                                                                       \
    (((args)->offset_cell ? *(args)->offset_cell : 0) / 4 + (args)->offset / 4)

/* The words of `groups` groups from `group` on, in the order of their elements; u64: of two
 * words each. */
void ph__words_u32(u32 *words, u64 seed, u64 block, u64 group, size_t groups);
void ph__words_u64(u64 *words, u64 seed, u64 block, u64 group, size_t groups);

/* Elements of a block: from *first on; 0: none. */
PH_FN size_t ph__draw_part(u64 *first, u64 block, u64 count)
{
    *first = block * PH__DRAW_ELEMENTS;
    u64 rest = *first < count ? count - *first : 0;
    return rest < PH__DRAW_ELEMENTS ? (size_t)rest : PH__DRAW_ELEMENTS;
}

/* PH__HOST_KERNEL(name) { ... of range and args ... }: a kernel's host form, compiled once for
 * every processor and once for those with AVX2, which have no fused products either: both give
 * the same bits. */
#if defined(__x86_64__)
#define PH__HOST_WIDE(name)                                                                        \
    __attribute__((target("avx2"))) static void name##_wide(const ph_block_range *range,           \
                                                            const void *args)                      \
    {                                                                                              \
        name##_body(range, args);                                                                  \
    }
#define PH__HOST_CHOOSE(name) (__builtin_cpu_supports("avx2") ? name##_wide : name##_body)
#else
#define PH__HOST_WIDE(name)
#define PH__HOST_CHOOSE(name) name##_body
#endif
#define PH__HOST_KERNEL(name)                                                                      \
    PH_FN void name##_body(const ph_block_range *range, const void *args);                         \
    PH__HOST_WIDE(name)                                                                            \
    static void name(const ph_block_range *range, const void *args)                                \
    {                                                                                              \
        PH__HOST_CHOOSE(name)(range, args);                                                        \
    }                                                                                              \
    PH_FN void name##_body(const ph_block_range *range, const void *args)
#endif
