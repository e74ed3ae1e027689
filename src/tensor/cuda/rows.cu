/* SPDX-License-Identifier: MIT */
/* cuda/rows.cu: what kernels that go along rows share. T is the dtype, C what it is computed in,
 * V how many fit 16 bytes. */
typedef ph_compute<T>::type C;
enum {
    V = 16 / sizeof(T)
};
#define LANE         (threadIdx.x & 31)
#define LOWEST       lowest_of(C())
#define MINUS_INF    C(-PH_INFINITY)
#define NOT_A_NUMBER C(PH_NAN)

__device__ __forceinline__ f32 lowest_of(f32)
{
    return -3.402823466e38f;
}
__device__ __forceinline__ f64 lowest_of(f64)
{
    return -1.7976931348623157e308;
}

/* The fast form errs by some 2^-22 of the result for each unit of the argument, far below what a
 * half type can hold. EXACT_EXP: results are not of T. */
__device__ __forceinline__ f32 exp_of(f32 x)
{
#ifdef EXACT_EXP
    return expf(x);
#else
    return sizeof(T) == 2 ? __expf(x) : expf(x);
#endif
}
__device__ __forceinline__ f64 exp_of(f64 x)
{
    return exp(x);
}
__device__ __forceinline__ f32 log_of(f32 x)
{
    return logf(x);
}
__device__ __forceinline__ f64 log_of(f64 x)
{
    return log(x);
}

/* ---- 16 bytes at a time ---- */
__device__ __forceinline__ void unpack(const uint4 &w, f32 (&to)[4], const f32 *)
{
    to[0] = __uint_as_float(w.x);
    to[1] = __uint_as_float(w.y);
    to[2] = __uint_as_float(w.z);
    to[3] = __uint_as_float(w.w);
}
__device__ __forceinline__ void unpack(const uint4 &w, f64 (&to)[2], const f64 *)
{
    to[0] = __hiloint2double((int)w.y, (int)w.x);
    to[1] = __hiloint2double((int)w.w, (int)w.z);
}
__device__ __forceinline__ void unpack_pair(u32 w, f32 &low, f32 &high, const f16 *)
{
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
        : "=f"(low), "=f"(high)
        : "r"(w));
}
__device__ __forceinline__ void unpack_pair(u32 w, f32 &low, f32 &high, const bf16 *)
{
    low = __uint_as_float(w << 16);
    high = __uint_as_float(w & 0xffff0000u);
}
template <class H>
__device__ __forceinline__ void unpack(const uint4 &w, f32 (&to)[8], const H *tag)
{
    unpack_pair(w.x, to[0], to[1], tag);
    unpack_pair(w.y, to[2], to[3], tag);
    unpack_pair(w.z, to[4], to[5], tag);
    unpack_pair(w.w, to[6], to[7], tag);
}

__device__ __forceinline__ uint4 pack(const f32 (&from)[4], const f32 *)
{
    return make_uint4(__float_as_uint(from[0]), __float_as_uint(from[1]), __float_as_uint(from[2]),
                      __float_as_uint(from[3]));
}
__device__ __forceinline__ uint4 pack(const f64 (&from)[2], const f64 *)
{
    return make_uint4((u32)__double2loint(from[0]), (u32)__double2hiint(from[0]),
                      (u32)__double2loint(from[1]), (u32)__double2hiint(from[1]));
}
template <class H> __device__ __forceinline__ u32 pack_pair_slowly(f32 low, f32 high)
{
    H l, h;
    ph_put(&l, low);
    ph_put(&h, high);
    return l.bits | (u32)h.bits << 16;
}
__device__ __forceinline__ u32 pack_pair(f32 low, f32 high, const f16 *)
{
#if __CUDA_ARCH__ >= 800
    u32 w;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
    return w;
#else
    return pack_pair_slowly<f16>(low, high);
#endif
}
__device__ __forceinline__ u32 pack_pair(f32 low, f32 high, const bf16 *)
{
#if __CUDA_ARCH__ >= 800
    u32 w;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
    return w;
#else
    return pack_pair_slowly<bf16>(low, high);
#endif
}
template <class H> __device__ __forceinline__ uint4 pack(const f32 (&from)[8], const H *tag)
{
    return make_uint4(pack_pair(from[0], from[1], tag), pack_pair(from[2], from[3], tag),
                      pack_pair(from[4], from[5], tag), pack_pair(from[6], from[7], tag));
}

__device__ __forceinline__ uint4 fetch(const T *p)
{
    return *(const uint4 *)p;
}
__device__ __forceinline__ void open(const uint4 &w, C (&to)[V])
{
    unpack(w, to, (const T *)0);
}
__device__ __forceinline__ void store(T *p, const C (&from)[V])
{
    *(uint4 *)p = pack(from, (const T *)0);
}
/* Where p may be anywhere. */
__device__ __forceinline__ void store_if(bool aligned, T *p, const C (&from)[V])
{
    if (aligned) {
        store(p, from);
        return;
    }
    for (int k = 0; k < V; k++)
        ph_put(p + k, from[k]);
}
__device__ __forceinline__ C value(const T *p)
{
    return ph_get(p);
}
/* From anywhere, when it is not aligned. */
__device__ __forceinline__ uint4 fetch_anywhere(bool aligned, const T *p)
{
    if (aligned)
        return fetch(p);
    C from[V];
    for (int k = 0; k < V; k++)
        from[k] = value(p + k);
    return pack(from, (const T *)0);
}
/* 16 bytes of one value. */
__device__ __forceinline__ uint4 all_of(C x)
{
    C from[V];
    for (int k = 0; k < V; k++)
        from[k] = x;
    return pack(from, (const T *)0);
}

/* Of the whole block, to every thread: faster than the prelude's, but each once in a kernel
 * (SLOT tells them apart). */
template <int SLOT> __device__ __forceinline__ C block_sum(C x)
{
    __shared__ C part[32];
    x = ph_warp_sum(x);
    if (LANE == 0)
        part[threadIdx.x / 32] = x;
    __syncthreads();
    return ph_warp_sum(LANE < blockDim.x / 32 ? part[LANE] : C(0));
}
__device__ __forceinline__ void block_sums(C &x, C &y)
{
    __shared__ C parts[2][32];
    x = ph_warp_sum(x);
    y = ph_warp_sum(y);
    if (LANE == 0) {
        parts[0][threadIdx.x / 32] = x;
        parts[1][threadIdx.x / 32] = y;
    }
    __syncthreads();
    bool mine = LANE < blockDim.x / 32;
    x = ph_warp_sum(mine ? parts[0][LANE] : C(0));
    y = ph_warp_sum(mine ? parts[1][LANE] : C(0));
}

/* ---- a row ---- whose first element may lie anywhere: `head` elements up to a multiple of 16
 * bytes, `vectors` whole ones, and a tail; both ends together have fewer than 2 * V elements,
 * one for each of the first threads. */
struct row_parts {
    i64 n, vectors;
    int head, extras;
    __device__ row_parts(const T *row, i64 count)
    {
        int off = (int)((u64)row / sizeof(T) % V);
        n = count;
        head = off == 0 ? 0 : V - off;
        if (head > n)
            head = (int)n;
        vectors = (n - head) / V;
        extras = (int)(n - vectors * V);
    }
    /* The element of the ends that is thread t's; -1: none. */
    __device__ i64 extra(int t) const
    {
        return t >= extras ? -1 : t < head ? t : vectors * V + t;
    }
};
__device__ __forceinline__ bool same_alignment(const void *a, const void *b)
{
    return (((u64)a ^ (u64)b) & 15) == 0;
}

/* A row in registers, spread over `width` threads of which this is number `me`: up to E elements
 * each; VECTORS: 16 bytes side by side. */
template <int E, bool VECTORS> struct spread {
    __device__ static __forceinline__ int place(int k, int me, int width)
    {
        return VECTORS ? (k / V * width + me) * V + k % V : k * width + me;
    }
    /* Beyond the row: rest. */
    __device__ static __forceinline__ void load(const T *row, int n, int me, int width, C (&to)[E],
                                                C rest)
    {
        if (VECTORS) {
            uint4 w[(E + V - 1) / V];
#pragma unroll
            for (int k = 0; k < E / V; k++)
                w[k] = place(k * V, me, width) < n ? fetch(row + place(k * V, me, width))
                                                   : make_uint4(0, 0, 0, 0);
#pragma unroll
            for (int k = 0; k < E / V; k++) {
                C part[V];
                open(w[k], part);
#pragma unroll
                for (int v = 0; v < V; v++)
                    to[k * V + v] = place(k * V, me, width) < n ? part[v] : rest;
            }
        } else {
#pragma unroll
            for (int k = 0; k < E; k++)
                to[k] = place(k, me, width) < n ? value(row + place(k, me, width)) : rest;
        }
    }
    __device__ static __forceinline__ void save(T *row, int n, int me, int width,
                                                const C (&from)[E])
    {
        if (VECTORS) {
#pragma unroll
            for (int k = 0; k < E / V; k++) {
                C part[V];
#pragma unroll
                for (int v = 0; v < V; v++)
                    part[v] = from[k * V + v];
                if (place(k * V, me, width) < n)
                    store(row + place(k * V, me, width), part);
            }
        } else {
#pragma unroll
            for (int k = 0; k < E; k++)
                if (place(k, me, width) < n)
                    ph_put(row + place(k, me, width), from[k]);
        }
    }
};

/* Maximum and sum of exponentials in one pass (the online normaliser of Milakov and Gimelshein,
 * 2018). The maximum begins at the lowest finite number, so that rows of -infinity give NaN, as
 * 0 / 0. */
struct online {
    C most, sum;
    __device__ online() : most(LOWEST), sum(0)
    {
    }
    template <int N> __device__ __forceinline__ void add(const C (&x)[N])
    {
        C peak = most, more = 0;
#pragma unroll
        for (int k = 0; k < N; k++)
            peak = x[k] > peak ? x[k] : peak;
#pragma unroll
        for (int k = 0; k < N; k++)
            more += exp_of(x[k] - peak);
        sum = sum * exp_of(most - peak) + more;
        most = peak;
    }
    __device__ __forceinline__ void add_one(C x)
    {
        C one[1] = {x};
        add(one);
    }
    __device__ void unite_warp()
    {
        C peak = ph_warp_max(most);
        sum = ph_warp_sum(sum * exp_of(most - peak));
        most = peak;
    }
    /* Of all threads of the block; once. */
    __device__ void unite()
    {
        __shared__ C mosts[32], sums[32];
        unite_warp();
        if (LANE == 0) {
            mosts[threadIdx.x / 32] = most;
            sums[threadIdx.x / 32] = sum;
        }
        __syncthreads();
        bool mine = LANE < blockDim.x / 32;
        most = mine ? mosts[LANE] : LOWEST;
        sum = mine ? sums[LANE] : C(0);
        unite_warp();
    }
};
