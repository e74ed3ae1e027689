/* SPDX-License-Identifier: MIT */
/* cuda/prelude.cu: what every CUDA text of this library begins with: types, conversions,
 * reductions in a warp and a block, and the wait of a programmatic launch. Header-free, for
 * NVRTC. */
typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
struct f16 {
    u16 bits;
};
struct bf16 {
    u16 bits;
};
typedef bool ph_bool;

/* Our kernels are launched before the one before them has ended: nothing of its may be touched
 * until this. */
#if __CUDA_ARCH__ >= 900
#define PH_WAIT() asm volatile("griddepcontrol.wait;" ::: "memory")
#else
#define PH_WAIT()
#endif
#define PH_KERNEL   extern "C" __global__ void
#define PH_INFINITY __int_as_float(0x7f800000)
#define PH_NAN      __int_as_float(0x7fc00000)

/* The type to compute in. */
template <class T> struct ph_compute {
    typedef T type;
};
template <> struct ph_compute<f16> {
    typedef f32 type;
};
template <> struct ph_compute<bf16> {
    typedef f32 type;
};

template <class T> __device__ __forceinline__ T ph_get(const T *p)
{
    return *p;
}
__device__ __forceinline__ f32 ph_get(const f16 *p)
{
    f32 x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(p->bits));
    return x;
}
__device__ __forceinline__ f32 ph_get(const bf16 *p)
{
    return __uint_as_float((u32)p->bits << 16);
}
template <class T> __device__ __forceinline__ void ph_put(T *p, T x)
{
    *p = x;
}
__device__ __forceinline__ void ph_put(f16 *p, f32 x)
{
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(p->bits) : "f"(x));
}
__device__ __forceinline__ void ph_put(bf16 *p, f32 x)
{
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(p->bits) : "f"(x));
#else
    u32 u = __float_as_uint(x);
    p->bits = (u & 0x7fffffffu) > 0x7f800000u ? (u16)0x7fff
                                              : (u16)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
#endif
}

/* Sums and maxima: the lanes and warps are added in a fixed order, so that a result never
 * depends on timing. */
template <class T> __device__ __forceinline__ T ph_warp_sum(T x)
{
    for (int d = 16; d > 0; d >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}
template <class T> __device__ __forceinline__ T ph_warp_max(T x)
{
    for (int d = 16; d > 0; d >>= 1) {
        T y = __shfl_xor_sync(0xffffffffu, x, d);
        x = y > x ? y : x;
    }
    return x;
}
/* Of the whole block, to every thread; blockDim.x a multiple of 32, at most 1024. */
template <class T> __device__ __forceinline__ T ph_block_sum(T x)
{
    __shared__ T part[32];
    x = ph_warp_sum(x);
    __syncthreads();
    if ((threadIdx.x & 31) == 0)
        part[threadIdx.x >> 5] = x;
    __syncthreads();
    x = threadIdx.x % 32 < blockDim.x / 32 ? part[threadIdx.x % 32] : T(0);
    return ph_warp_sum(x);
}
template <class T> __device__ __forceinline__ T ph_block_max(T x, T lowest)
{
    __shared__ T part[32];
    x = ph_warp_max(x);
    __syncthreads();
    if ((threadIdx.x & 31) == 0)
        part[threadIdx.x >> 5] = x;
    __syncthreads();
    x = threadIdx.x % 32 < blockDim.x / 32 ? part[threadIdx.x % 32] : lowest;
    return ph_warp_max(x);
}
