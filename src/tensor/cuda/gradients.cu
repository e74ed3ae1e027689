/* SPDX-License-Identifier: MIT */
/* cuda/gradients.cu: gradients of many tensors in one launch: UNSCALE, NORM, MULTIPLY, CLAMP;
 * NORM_END, what the norms of all blocks come to; UPDATE, the scale of a gradient scaler. T is
 * f32 or f64. The host forms are nn/gradients/kernels.c. */
#define TENSORS 64
#define CHUNK   8192
struct list_args {
    T *grad[TENSORS];
    const f32 *scale, *scale2;
    f32 *found_inf;
    f64 *partial;
    const f64 *factor;
    i64 count[TENSORS];
    f64 number;
    u32 first[TENSORS];
    u32 tensors, flags;
};

__device__ __forceinline__ bool finite(f64 x)
{
    return x - x == 0;
}

#if defined UNSCALE || defined NORM || defined MULTIPLY || defined CLAMP
#define V (16 / (int)sizeof(T))
struct alignas(16) vector {
    T at[V];
};

/* The last tensor that begins at or before this block. */
__device__ __forceinline__ u32 tensor_of(const list_args &a, u32 block)
{
    u32 low = 0, high = a.tensors;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (a.first[middle] <= block)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* f takes each element of the block's part, and gives what is written in its place. */
template <bool WRITES, class F> __device__ __forceinline__ void each(const list_args &a, F f)
{
    u32 i = tensor_of(a, blockIdx.x);
    i64 begin = (i64)(blockIdx.x - a.first[i]) * CHUNK, left = a.count[i] - begin;
    int n = left < CHUNK ? (int)left : CHUNK, vectors = 0;
    T *g = a.grad[i] + begin;
    if (((u64)g & 15) == 0)
        vectors = n / V;
    for (int k = threadIdx.x; k < vectors; k += blockDim.x) {
        vector x = ((vector *)g)[k];
#pragma unroll
        for (int j = 0; j < V; j++)
            x.at[j] = f(x.at[j]);
        if (WRITES)
            ((vector *)g)[k] = x;
    }
    for (int k = vectors * V + threadIdx.x; k < n; k += blockDim.x) {
        T x = f(g[k]);
        if (WRITES)
            g[k] = x;
    }
}
#endif

#ifdef UNSCALE
PH_KERNEL KERNEL(const __grid_constant__ list_args a)
{
    PH_WAIT();
    bool found = false;
    const T by =
        (T)(f32)(1.0 / ((a.scale ? (f64)*a.scale : 1.0) * (a.scale2 ? (f64)*a.scale2 : 1.0)));
    auto look = [&](T x) {
        const T y = x * by;
        found |= !(y - y == 0);
        return y;
    };
    if (a.flags & 1)
        each<true>(a, look);
    else
        each<false>(a, look);
    if (found && a.found_inf)
        *a.found_inf = 1;
}
#endif

#ifdef NORM
PH_KERNEL KERNEL(const __grid_constant__ list_args a)
{
    PH_WAIT();
    f64 sum = 0;
    bool none = false; /* there is a NaN */
    if (a.flags & 1)
        each<false>(a, [&](T x) {
            f64 size = fabs((f64)x);
            none |= size != size;
            sum = size > sum ? size : sum;
            return x;
        });
    else if (a.flags & 2)
        each<false>(a, [&](T x) {
            sum += fabs((f64)x);
            return x;
        });
    else if (a.flags & 4)
        each<false>(a, [&](T x) {
            sum += (f64)x * (f64)x;
            return x;
        });
    else
        each<false>(a, [&](T x) {
            sum += pow(fabs((f64)x), a.number);
            return x;
        });
    sum = a.flags & 1 ? ph_block_max(sum, 0.0) : ph_block_sum(sum);
    none = __syncthreads_or(none);
    if (threadIdx.x == 0)
        a.partial[blockIdx.x] = none ? (f64)PH_NAN : sum;
}
#endif

#ifdef MULTIPLY
PH_KERNEL KERNEL(const __grid_constant__ list_args a)
{
    PH_WAIT();
    const T by = (T)*a.factor;
    if (by == 1)
        return;
    each<true>(a, [&](T x) { return x * by; });
}
#endif

#ifdef CLAMP
PH_KERNEL KERNEL(const __grid_constant__ list_args a)
{
    PH_WAIT();
    const T most = (T)a.number;
    each<true>(a, [&](T x) { return x > most ? most : x < -most ? -most : x; });
}
#endif

#ifdef NORM_END
struct norm_args {
    const f64 *partial;
    T *norm;
    f64 *factor;
    i64 *nonfinite;
    i64 count;
    f64 p, max_norm;
    u64 flags;
};
PH_KERNEL KERNEL(const __grid_constant__ norm_args a)
{
    PH_WAIT();
    f64 sum = 0;
    bool none = false;
    for (i64 i = threadIdx.x; i < a.count; i += blockDim.x) {
        f64 x = a.partial[i];
        none |= x != x;
        if (a.flags & 1)
            sum = x > sum ? x : sum;
        else
            sum += x;
    }
    sum = a.flags & 1 ? ph_block_max(sum, 0.0) : ph_block_sum(sum);
    none = __syncthreads_or(none);
    if (threadIdx.x != 0)
        return;
    if (a.flags & 4)
        sum = sqrt(sum);
    else if (!(a.flags & 3))
        sum = pow(sum, 1 / a.p);
    const T norm = none ? (T)PH_NAN : (T)sum;
    const T factor = (T)a.max_norm / (norm + (T)1e-6);
    *a.norm = norm;
    *a.factor = factor > 1 ? 1.0 : (f64)factor;
    if (a.nonfinite && !finite((f64)norm)) {
        *a.factor = 1;
        ++*a.nonfinite;
    }
}
#endif

#ifdef UPDATE
struct scaler_args {
    f32 *scale;
    i64 *tracker;
    f32 *found_inf;
    const f32 *from;
    f64 growth_factor, backoff_factor, value;
    i64 growth_interval;
    u32 count, sets;
};
PH_KERNEL KERNEL(const __grid_constant__ scaler_args a)
{
    PH_WAIT();
    bool found = false;
    if (blockIdx.x != 0 || threadIdx.x != 0)
        return;
    for (u32 i = 0; i < a.count; i++) {
        found |= a.found_inf[i] != 0;
        a.found_inf[i] = 0;
    }
    if (a.sets) {
        *a.scale = a.from ? *a.from : (f32)a.value;
    } else if (found) {
        const f32 less = (f32)(*a.scale * a.backoff_factor);
        if (less >= 1.17549435e-38f) /* 2^-126: its reciprocal is finite */
            *a.scale = less;
        *a.tracker = 0;
    } else if (*a.tracker + 1 >= a.growth_interval) {
        f32 grown = (f32)(*a.scale * a.growth_factor);
        if (finite((f64)grown))
            *a.scale = grown;
        *a.tracker = 0;
    } else {
        ++*a.tracker;
    }
}
#endif
