/* SPDX-License-Identifier: MIT */
/* cuda/reduce.cu: a reduction. The pieces before it say which (reduce.def): PH_NAME, PH_T,
 * PH_SUM_* (WIDE, SAME, or INDEX: that is argmax), PH_PART_*, PH_START, PH_VALUE, PH_JOIN,
 * PH_END, and the form: PH_rows, PH_columns, PH_packed or PH_join. */
typedef f32 ph_f32;
typedef f64 ph_f64;
typedef f16 ph_f16;
typedef bf16 ph_bf16;
typedef i32 ph_i32;
typedef i64 ph_i64;
typedef u8 ph_u8;

enum {
    THREADS = 256,
    COLUMNS = 4, /* outputs of a thread */
    AHEAD = 4    /* loads under way at once */
};

struct reduce {
    f64 a, b;
    i64 outputs, length, segment;
    i64 kept_dim[8], kept_stride[8], gone_dim[8], gone_stride[8];
    u32 kept_rank, gone_rank, splits, width, steady, reserved;
};

/* ---- types ---- */
typedef ph_compute<PH_T>::type C_T;
template <class T> struct wide_of {
    typedef i64 type;
};
template <> struct wide_of<f32> {
    typedef f64 type;
};
template <> struct wide_of<f64> {
    typedef f64 type;
};
template <class T> struct is_float {
    enum {
        value = 0
    };
};
template <> struct is_float<f32> {
    enum {
        value = 1
    };
};
template <> struct is_float<f64> {
    enum {
        value = 1
    };
};
#if defined(PH_SUM_INDEX)
struct best {
    C_T value;
    i64 index;
};
typedef best A_T;
typedef best P_T;
typedef i64 T_OUT;
#else
#ifdef PH_SUM_WIDE
typedef wide_of<C_T>::type A_T;
#else
typedef C_T A_T;
#endif
#ifdef PH_PART_WIDE
typedef wide_of<C_T>::type P_T;
#else
typedef C_T P_T;
#endif
#endif

/* ---- what the expressions are made of ---- */
#define IS_NAN(p) ((p) != (p))
#define WIDEN(t)  ((A_T)(t))
#define ADD(p, q) ((i64)((u64)(p) + (u64)(q)))
#define ABS(p)    absolute(p)
#define SQRT(p)   sqrt(p)
#define POW(p, q) pow(p, q)
__device__ __forceinline__ f32 absolute(f32 x)
{
    return fabsf(x);
}
__device__ __forceinline__ f64 absolute(f64 x)
{
    return fabs(x);
}
template <class T> struct lowest;
template <> struct lowest<f32> {
    static __device__ __forceinline__ f32 value()
    {
        return -PH_INFINITY;
    }
};
template <> struct lowest<f64> {
    static __device__ __forceinline__ f64 value()
    {
        return -PH_INFINITY;
    }
};
template <> struct lowest<i32> {
    static __device__ __forceinline__ i32 value()
    {
        return -2147483647 - 1;
    }
};
template <> struct lowest<i64> {
    static __device__ __forceinline__ i64 value()
    {
        return -9223372036854775807ll - 1;
    }
};
template <> struct lowest<u8> {
    static __device__ __forceinline__ u8 value()
    {
        return 0;
    }
};
template <> struct lowest<ph_bool> {
    static __device__ __forceinline__ ph_bool value()
    {
        return false;
    }
};
#define LOWEST (lowest<C_T>::value())

#ifdef PH_SUM_INDEX
/* NaN is the largest; of those that tie the first. */
__device__ __forceinline__ best start_of(best *)
{
    best b = {LOWEST, 9223372036854775807ll};
    return b;
}
__device__ __forceinline__ best value_of(C_T t, i64 index, f64)
{
    best b = {t, index};
    return b;
}
__device__ __forceinline__ best join(best p, best q)
{
    const bool p_nan = IS_NAN(p.value), q_nan = IS_NAN(q.value);
    const bool ties = (p.value == q.value) | (p_nan & q_nan);
    const bool wins = (q.value > p.value) | (q_nan & !p_nan);
    return wins || (ties && q.index < p.index) ? q : p;
}
__device__ __forceinline__ i64 end_of(best p, f64, f64)
{
    return p.index;
}
#else
template <class T> __device__ __forceinline__ T start_of(T *)
{
    return (T)(PH_START);
}
__device__ __forceinline__ P_T value_of(C_T t, i64, f64 a)
{
    return (P_T)(PH_VALUE);
}
template <class T> __device__ __forceinline__ T join(T p, T q)
{
    return (T)(PH_JOIN);
}
#if defined(PH_SUM_WIDE)
/* Integers give i64, floats their own dtype. */
template <class T, int floating> struct result_of {
    typedef i64 type;
};
template <class T> struct result_of<T, 1> {
    typedef T type;
};
#ifdef PH_OF_sum_wide
typedef C_T T_OUT; /* f32 */
#else
typedef result_of<PH_T, is_float<C_T>::value>::type T_OUT;
#endif
#else
typedef PH_T T_OUT;
#endif
__device__ __forceinline__ ph_compute<T_OUT>::type end_of(A_T p, f64 a, f64 b)
{
    return (ph_compute<T_OUT>::type)(PH_END);
}
#endif
#define START start_of((A_T *)0)

/* ---- across threads ---- */
template <class T> __device__ __forceinline__ T from_lane(T x, int mask)
{
    union {
        T value;
        u32 words[(sizeof(T) + 3) / 4];
    } u;
    u.value = x;
#pragma unroll
    for (int i = 0; i < (int)((sizeof(T) + 3) / 4); i++)
        u.words[i] = __shfl_xor_sync(0xffffffffu, u.words[i], mask);
    return u.value;
}
__device__ __forceinline__ A_T across_warp(A_T x)
{
#pragma unroll
    for (int d = 16; d > 0; d >>= 1)
        x = join(x, from_lane(x, d));
    return x;
}
/* To every thread of the first warp. */
__device__ __forceinline__ A_T across_block(A_T x)
{
    __shared__ A_T part[THREADS / 32];
    x = across_warp(x);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = x;
    __syncthreads();
    return across_warp(threadIdx.x % 32 < THREADS / 32 ? part[threadIdx.x % 32] : START);
}

/* ---- places ---- */
__device__ __forceinline__ i64 place(u64 index, const i64 *dim, const i64 *stride, u32 rank)
{
    i64 at = 0;
    for (int d = (int)rank - 1; d > 0; d--) {
        const u64 n = (u64)dim[d];
        const u64 q = ((index | n) >> 32) == 0 ? (u64)((u32)index / (u32)n) : index / n;
        at += (i64)(index - q * n) * stride[d];
        index = q;
    }
    return at + (i64)index * stride[0];
}
__device__ __forceinline__ void put(void *out, const reduce &r, u64 output, u32 split, A_T x)
{
    if (r.splits > 1)
        ((A_T *)out)[output * r.splits + split] = x;
    else
        ph_put((T_OUT *)out + output, end_of(x, r.a, r.b));
}

#if defined(PH_rows)
/* ---- rows ---- several elements at once, where they lie so: 16 bytes, at most 8. */
enum {
    VEC = sizeof(PH_T) == 1 ? 8 : 16 / sizeof(PH_T)
};
template <int bytes> struct raw {
    typedef uint4 type;
};
template <> struct raw<8> {
    typedef uint2 type;
};
union pack {
    raw<sizeof(PH_T) * VEC>::type all;
    PH_T at[VEC];
};

/* Joins this thread's part of the elements [begin, end) of the row at x. */
__device__ __forceinline__ A_T along(const PH_T *x, const reduce &r, u64 begin, u64 end, u32 lane,
                                     u32 lanes)
{
    A_T sum = START;
    u64 done = begin;
    const i64 step = r.gone_stride[r.gone_rank - 1];
    if (r.steady && ((u64)(x + begin) & (sizeof(pack) - 1)) == 0) {
        const u64 all = (end - begin) / VEC;
        for (u64 i = lane; i < all; i += (u64)lanes * AHEAD) {
            pack p[AHEAD];
#pragma unroll
            for (int u = 0; u < AHEAD; u++) {
                const u64 at = begin + (i + (u64)u * lanes) * VEC;
                if (i + (u64)u * lanes < all)
                    p[u].all =
                        *(const raw<sizeof(PH_T) * VEC>::type *)(x + (r.gone_rank == 1
                                                                          ? (i64)at
                                                                          : place(at, r.gone_dim,
                                                                                  r.gone_stride,
                                                                                  r.gone_rank)));
            }
            P_T part = start_of((P_T *)0);
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
                if (i + (u64)u * lanes < all)
#pragma unroll
                    for (int k = 0; k < VEC; k++)
                        part = join(part,
                                    value_of(ph_get(&p[u].at[k]),
                                             (i64)(begin + (i + (u64)u * lanes) * VEC + k), r.a));
            sum = join(sum, (A_T)part);
        }
        done = begin + all * VEC;
    }
    for (u64 i = done + lane; i < end; i += (u64)lanes * AHEAD) {
        C_T v[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            const u64 at = i + (u64)u * lanes;
            if (at < end)
                v[u] = ph_get(x + (r.gone_rank == 1
                                       ? (i64)at * step
                                       : place(at, r.gone_dim, r.gone_stride, r.gone_rank)));
        }
        P_T part = start_of((P_T *)0);
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            if (i + (u64)u * lanes < end)
                part = join(part, value_of(v[u], (i64)(i + (u64)u * lanes), r.a));
        sum = join(sum, (A_T)part);
    }
    return sum;
}

PH_KERNEL PH_NAME(void *out, const PH_T *x, reduce r)
{
    PH_WAIT();
    const u32 lanes = THREADS / r.width, lane = threadIdx.x & (lanes - 1),
              split = blockIdx.x % r.splits;
    const u64 output = (u64)(blockIdx.x / r.splits) * r.width + threadIdx.x / lanes;
    const bool there = output < (u64)r.outputs;
    const u64 begin = (u64)split * (u64)r.segment;
    const u64 end = begin + (u64)r.segment < (u64)r.length ? begin + (u64)r.segment : (u64)r.length;
    A_T sum = START;
    if (there)
        sum = along(x + place(output, r.kept_dim, r.kept_stride, r.kept_rank), r, begin, end, lane,
                    lanes);
    if (lanes == THREADS)
        sum = across_block(sum);
    else if (lanes == 32)
        sum = across_warp(sum);
    if (there && lane == 0)
        put(out, r, output, split, sum);
}
#elif defined(PH_columns) || defined(PH_packed)
/* ---- columns ---- threads side by side take outputs side by side, those behind each other
 * every n-th reduced element. Packed: a thread's outputs are next to each other, and read at once.
 * The order in which an output's elements are summed is the same in both. */
#ifdef PH_packed
#define APART  1u /* between two outputs of a thread */
#define OWN    (lane * COLUMNS)
#define BOUNDS __launch_bounds__(THREADS, 4)
template <int bytes> struct block_of {
    typedef uint4 type;
};
template <> struct block_of<8> {
    typedef uint2 type;
};
union pack {
    block_of<sizeof(PH_T) * COLUMNS>::type all;
    PH_T at[COLUMNS];
};

/* Joins a group of AHEAD elements of each output, `step` elements between two of them. all: none is
 * beyond the end. */
template <bool all>
__device__ __forceinline__ void join_group(A_T *sum, const PH_T *x, bool aligned, i64 step, u64 i,
                                           u64 end, u32 lines, f64 a)
{
    pack p[AHEAD];
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
        if (all || i + u * lines < end) {
            if (aligned)
                p[u].all = *(const block_of<sizeof(PH_T) * COLUMNS>::type *)(x + u * step);
            else
#pragma unroll
                for (int k = 0; k < COLUMNS; k++)
                    p[u].at[k] = x[u * step + k];
        }
#pragma unroll
    for (int k = 0; k < COLUMNS; k++) {
        P_T joined = start_of((P_T *)0);
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            if (all || i + u * lines < end)
                joined = join(joined, value_of(ph_get(&p[u].at[k]), (i64)(i + u * lines), a));
        sum[k] = join(sum[k], (A_T)joined);
    }
}
__device__ __forceinline__ void down(A_T *sum, const PH_T *x, const reduce &r, u64 begin, u64 end,
                                     u32 line, u32 lines, u64 column, u64 columns)
{
    const bool aligned = ((u64)x & (sizeof(pack) - 1)) == 0;
    const i64 stride = r.gone_stride[0], step = (i64)lines * stride;
    u64 i = begin + line;
    if (column >= columns)
        return;
    x += (i64)i * stride;
    for (; i + (AHEAD - 1) * lines < end; i += AHEAD * lines, x += AHEAD * step)
        join_group<true>(sum, x, aligned, step, i, end, lines, r.a);
    if (i < end)
        join_group<false>(sum, x, aligned, step, i, end, lines, r.a);
}
#else
#define APART r.width
#define OWN   lane
#define BOUNDS
__device__ __forceinline__ void down(A_T *sum, const PH_T *x, const reduce &r, u64 begin, u64 end,
                                     u32 line, u32 lines, u64 column, u64 columns)
{
    for (u64 i = begin + line; i < end; i += (u64)lines * AHEAD) {
        C_T v[AHEAD][COLUMNS];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            const u64 at = i + (u64)u * lines;
            const PH_T *from =
                x + (r.gone_rank == 1 ? (i64)at * r.gone_stride[0]
                                      : place(at, r.gone_dim, r.gone_stride, r.gone_rank));
#pragma unroll
            for (int k = 0; k < COLUMNS; k++)
                if (at < end && column + k * r.width < columns)
                    v[u][k] = ph_get(from + k * r.width);
        }
#pragma unroll
        for (int k = 0; k < COLUMNS; k++) {
            P_T joined = start_of((P_T *)0);
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
                if (i + (u64)u * lines < end && column + k * r.width < columns)
                    joined = join(joined, value_of(v[u][k], (i64)(i + (u64)u * lines), r.a));
            sum[k] = join(sum[k], (A_T)joined);
        }
    }
}
#endif

PH_KERNEL BOUNDS PH_NAME(void *out, const PH_T *x, reduce r)
{
    PH_WAIT();
    __shared__ A_T part[COLUMNS][THREADS];
    const u32 lane = threadIdx.x & (r.width - 1), line = threadIdx.x / r.width,
              lines = THREADS / r.width;
    const u64 columns = (u64)r.kept_dim[r.kept_rank - 1];
    const u32 across = (u32)((columns + r.width * COLUMNS - 1) / (r.width * COLUMNS)),
              places = gridDim.x / r.splits;
    const u32 split = blockIdx.x / places, where = blockIdx.x % places;
    const u64 first = (u64)(where / across) * columns,
              column = (u64)(where % across) * r.width * COLUMNS + OWN;
    const u64 begin = (u64)split * (u64)r.segment;
    const u64 end = begin + (u64)r.segment < (u64)r.length ? begin + (u64)r.segment : (u64)r.length;
    A_T sum[COLUMNS];
    x += place(first, r.kept_dim, r.kept_stride, r.kept_rank) + (i64)column;
#pragma unroll
    for (int k = 0; k < COLUMNS; k++)
        sum[k] = START;
    down(sum, x, r, begin, end, line, lines, column, columns);
#pragma unroll
    for (int k = 0; k < COLUMNS; k++)
        part[k][threadIdx.x] = sum[k];
    __syncthreads();
    for (u32 half = lines / 2; half > 0; half /= 2) {
        if (line < half)
#pragma unroll
            for (int k = 0; k < COLUMNS; k++)
                part[k][threadIdx.x] =
                    join(part[k][threadIdx.x], part[k][threadIdx.x + half * r.width]);
        __syncthreads();
    }
    if (line == 0)
#pragma unroll
        for (int k = 0; k < COLUMNS; k++)
            if (column + k * APART < columns)
                put(out, r, first + column + k * APART, split, part[k][lane]);
}
#else
/* ---- joining what several blocks have made of one output ---- */
PH_KERNEL PH_NAME(void *out, const A_T *x, reduce r)
{
    PH_WAIT();
    const u32 lanes = THREADS / r.width, lane = threadIdx.x & (lanes - 1);
    const u64 output = (u64)blockIdx.x * r.width + threadIdx.x / lanes;
    const bool there = output < (u64)r.outputs;
    A_T sum = START;
    for (u64 i = lane; there && i < (u64)r.length; i += lanes)
        sum = join(sum, x[output * (u64)r.length + i]);
    if (lanes == THREADS)
        sum = across_block(sum);
    else if (lanes == 32)
        sum = across_warp(sum);
    if (there && lane == 0)
        put(out, r, output, 0, sum);
}
#endif
