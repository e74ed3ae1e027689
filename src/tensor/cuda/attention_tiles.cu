/* SPDX-License-Identifier: MIT */
/* cuda/attention_tiles.cu: the second of the texts of tiled attention: tiles from and to memory,
 * and the parameters of the kernels, which are those of tensor/operators/attention.h. */
#ifdef MATH_tf32
/* The chunks of COUNT rows that one thread brings. */
template <u32 COUNT> struct chunks {
    enum {
        EACH = (COUNT * (D / CHUNK) + 127) / 128
    };
    float4 at[EACH];
};
/* `COUNT` rows, of which `valid` are there; zeros for the rest, and for columns from d on. */
template <u32 COUNT>
__device__ __forceinline__ void load(chunks<COUNT> &out, const T *from, i64 stride, i64 valid,
                                     u32 d, bool vectors)
{
#pragma unroll
    for (u32 n = 0; n < chunks<COUNT>::EACH; n++) {
        const u32 i = threadIdx.x + 128 * n, row = i / (D / CHUNK), c = i % (D / CHUNK) * CHUNK;
        const T *at = from + row * stride + c;
        float4 x = {0, 0, 0, 0};
        if (row < COUNT && row < valid) {
            if (vectors) {
                if (c < d)
                    x = *(const float4 *)at;
            } else {
                x.x = c < d ? at[0] : 0;
                x.y = c + 1 < d ? at[1] : 0;
                x.z = c + 2 < d ? at[2] : 0;
                x.w = c + 3 < d ? at[3] : 0;
            }
        }
        out.at[n] = x;
    }
}
/* Into shared memory, rounded. */
template <u32 COUNT> __device__ __forceinline__ void store(T *to, const chunks<COUNT> &in)
{
#pragma unroll
    for (u32 n = 0; n < chunks<COUNT>::EACH; n++) {
        const u32 i = threadIdx.x + 128 * n, row = i / (D / CHUNK), c = i % (D / CHUNK) * CHUNK;
        if (row < COUNT)
            *(uint4 *)(to + row * LD + c) = make_uint4(rounded(in.at[n].x), rounded(in.at[n].y),
                                                       rounded(in.at[n].z), rounded(in.at[n].w));
    }
}
__device__ __forceinline__ void fetch_rows(T *to, const T *from, i64 stride, i64 valid, u32 d,
                                           bool vectors)
{
    chunks<ROWS> rows;
    load(rows, from, stride, valid, d, vectors);
    store(to, rows);
}
#else
/* `count` rows into shared memory, of which `valid` are there; zeros for the rest, and for
 * columns from d on. Arrives with finish(). */
__device__ __forceinline__ void fetch(T *to, const T *from, i64 stride, u32 count, i64 valid, u32 d,
                                      bool vectors)
{
    if (vectors) {
        for (u32 i = threadIdx.x; i < count * (D / CHUNK); i += 128) {
            u32 row = i / (D / CHUNK), c = i % (D / CHUNK) * CHUNK;
            bool there = row < valid && c < d;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                             (u32)__cvta_generic_to_shared(to + row * LD + c)),
                         "l"(there ? from + row * stride + c : from), "r"(there ? 16 : 0));
        }
        return;
    }
    for (u32 i = threadIdx.x; i < count * D; i += 128) {
        u32 row = i / D, c = i % D;
        T x = {};
        if (row < valid && c < d)
            x = from[row * stride + c];
        to[row * LD + c] = x;
    }
}
__device__ __forceinline__ void fetch_rows(T *to, const T *from, i64 stride, i64 valid, u32 d,
                                           bool vectors)
{
    fetch(to, from, stride, ROWS, valid, d, vectors);
}
#endif
/* One number, or 0. */
__device__ __forceinline__ void fetch_number(f32 *to, const f32 *from, bool there)
{
    asm volatile(
        "cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"((u32)__cvta_generic_to_shared(to)),
        "l"(from), "r"(there ? 4 : 0));
}
__device__ __forceinline__ void commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Of this thread's, all but the newest `left` commits have arrived. */
template <int LEFT> __device__ __forceinline__ void finish()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

/* Two neighbours of a row. */
__device__ __forceinline__ void put_two(T *row, u32 c, u32 d, f32 x, f32 y)
{
    T pair[2];
    ph_put(&pair[0], x);
    ph_put(&pair[1], y);
    if (d % 2 == 0 && c < d) {
        if (sizeof(T) == 2)
            *(u32 *)(row + c) = *(const u32 *)pair;
        else
            *(u64 *)(row + c) = *(const u64 *)pair;
        return;
    }
    if (c < d)
        row[c] = pair[0];
    if (c + 1 < d)
        row[c + 1] = pair[1];
}

/* The warp's 16 rows of sums times a factor for each of the lane's two; rows from `valid` on are
 * left out. */
__device__ __forceinline__ void put_rows(T *to, i64 stride, const f32 (&sum)[D / 8][4], f32 low,
                                         f32 high, i64 valid, u32 d)
{
    const u32 g = threadIdx.x % 32 / 4;
#pragma unroll
    for (u32 j = 0; j < D / 8; j++) {
        if (g < valid)
            put_two(to + g * stride, column(j), d, sum[j][0] * low, sum[j][1] * low);
        if (g + 8 < valid)
            put_two(to + (g + 8) * stride, column(j), d, sum[j][2] * high, sum[j][3] * high);
    }
}

template <int N> __device__ __forceinline__ void clear(f32 (&x)[N][4])
{
#pragma unroll
    for (u32 i = 0; i < N; i++)
#pragma unroll
        for (u32 e = 0; e < 4; e++)
            x[i][e] = 0;
}

__device__ __forceinline__ f32 power_of_two(f32 x)
{
    f32 y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#define PARAMETERS                                                                                 \
    const T *q, const T *k, const T *v, const T *g, T *o, f32 *lse, f32 *delta, T *dq, T *dk,      \
        T *dv, i64 q_b, i64 q_h, i64 q_t, i64 k_b, i64 k_h, i64 k_t, i64 v_b, i64 v_h, i64 v_t,    \
        i64 g_b, i64 g_h, i64 g_t, i64 o_b, i64 o_h, i64 o_t, i64 dq_b, i64 dq_h, i64 dq_t,        \
        i64 dk_b, i64 dk_h, i64 dk_t, i64 dv_b, i64 dv_h, i64 dv_t, f64 scale, u32 heads,          \
        u32 kv_heads, u32 tq, u32 tk, u32 d, u32 causal, u32 vectors, u32 rows

extern __shared__ __align__(16) unsigned char shared[];
