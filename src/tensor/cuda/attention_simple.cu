/* SPDX-License-Identifier: MIT */
/* cuda/attention_simple.cu: attention by one warp for each query (or key): for what
 * cuda/attention.cu does not take. FORWARD, QUERIES or KEYS says which pass; the arguments are
 * those of tensor/operators/attention.h. */
enum {
    ROWS = 8, /* of a block of four warps */
    PARTS = 8 /* elements of a row, of at most 256, that a lane has */
};
typedef ph_compute<T>::type C;

__device__ __forceinline__ void read_row(C out[PARTS], const T *row, u32 d)
{
    u32 lane = threadIdx.x & 31;
#pragma unroll
    for (u32 i = 0; i < PARTS; i++)
        out[i] = lane + 32 * i < d ? ph_get(row + lane + 32 * i) : C(0);
}

__device__ __forceinline__ void write_row(T *row, const C x[PARTS], u32 d)
{
    u32 lane = threadIdx.x & 31;
#pragma unroll
    for (u32 i = 0; i < PARTS; i++)
        if (lane + 32 * i < d)
            ph_put(row + lane + 32 * i, x[i]);
}

__device__ __forceinline__ C dot(const C a[PARTS], const C b[PARTS])
{
    C sum = 0;
#pragma unroll
    for (u32 i = 0; i < PARTS; i++)
        sum += a[i] * b[i];
    return ph_warp_sum(sum);
}

__device__ __forceinline__ void add(C sum[PARTS], C factor, const C x[PARTS])
{
#pragma unroll
    for (u32 i = 0; i < PARTS; i++)
        sum[i] += factor * x[i];
}

__device__ __forceinline__ f32 power(f32 x)
{
    return expf(x);
}
__device__ __forceinline__ f64 power(f64 x)
{
    return exp(x);
}
__device__ __forceinline__ f32 logarithm(f32 x)
{
    return logf(x);
}
__device__ __forceinline__ f64 logarithm(f64 x)
{
    return log(x);
}

PH_KERNEL KERNEL(const T *q, const T *k, const T *v, const T *g, T *o, C *lse, C *delta, T *dq,
                 T *dk, T *dv, i64 q_b, i64 q_h, i64 q_t, i64 k_b, i64 k_h, i64 k_t, i64 v_b,
                 i64 v_h, i64 v_t, i64 g_b, i64 g_h, i64 g_t, i64 o_b, i64 o_h, i64 o_t, i64 dq_b,
                 i64 dq_h, i64 dq_t, i64 dk_b, i64 dk_h, i64 dk_t, i64 dv_b, i64 dv_h, i64 dv_t,
                 f64 scale, u32 heads, u32 kv_heads, u32 tq, u32 tk, u32 d, u32 causal, u32 vectors,
                 u32 rows)
{
    PH_WAIT();
    const C lowest = -C(PH_INFINITY), s = C(scale);
    const u32 warp = threadIdx.x / 32, group = heads / kv_heads;
#ifdef KEYS
    const u32 groups = gridDim.x / ((tk + ROWS - 1) / ROWS), index = blockIdx.x % groups;
    const u32 batch = index / kv_heads, kv_head = index % kv_heads;
    for (u32 key = blockIdx.x / groups * ROWS + warp;
         key < tk && key < (blockIdx.x / groups + 1) * ROWS; key += 4) {
        C my_k[PARTS], my_v[PARTS], sum_k[PARTS] = {}, sum_v[PARTS] = {};
        read_row(my_k, k + batch * k_b + kv_head * k_h + key * k_t, d);
        read_row(my_v, v + batch * v_b + kv_head * v_h + key * v_t, d);
        i64 first = causal ? (i64)key - ((i64)tk - (i64)tq) : 0;
        for (u32 member = 0; member < group; member++) {
            u32 head = kv_head * group + member;
            i64 row = ((i64)batch * heads + head) * tq;
            for (u32 i = first < 0 ? 0 : (u32)first; i < tq; i++) {
                C x[PARTS], y[PARTS], l = lse[row + i];
                if (l == lowest)
                    continue;
                read_row(x, q + batch * q_b + head * q_h + i * q_t, d);
                read_row(y, g + batch * g_b + head * g_h + i * g_t, d);
                C p = power(dot(x, my_k) * s - l), dp = dot(y, my_v);
                add(sum_v, p, y);
                add(sum_k, p * (dp - delta[row + i]) * s, x);
            }
        }
        write_row(dk + batch * dk_b + kv_head * dk_h + key * dk_t, sum_k, d);
        write_row(dv + batch * dv_b + kv_head * dv_h + key * dv_t, sum_v, d);
    }
#else
    const u32 tiles = (tq + ROWS - 1) / ROWS, groups = gridDim.x / tiles,
              index = blockIdx.x % groups;
    const u32 batch = index / heads, head = index % heads,
              first = (tiles - 1 - blockIdx.x / groups) * ROWS;
    for (u32 i = first + warp; i < tq && i < first + ROWS; i += 4) {
        i64 row = (i64)index * tq + i, end = causal ? (i64)i + (i64)tk - (i64)tq + 1 : tk;
        const T *next_k = k + batch * k_b + head / group * k_h,
                *next_v = v + batch * v_b + head / group * v_h;
        C mine[PARTS], x[PARTS], y[PARTS], sum[PARTS] = {};
        read_row(mine, q + batch * q_b + head * q_h + i * q_t, d);
#ifdef FORWARD
        C most = lowest, total = 0;
        for (i64 j = 0; j < end; j++, next_k += k_t, next_v += v_t) {
            read_row(x, next_k, d);
            read_row(y, next_v, d);
            C score = dot(mine, x) * s, high = score > most ? score : most;
            C p = score == lowest ? C(0) : power(score - high),
              factor = most == lowest ? C(0) : power(most - high);
            total = total * factor + p;
            most = high;
#pragma unroll
            for (u32 c = 0; c < PARTS; c++)
                sum[c] = sum[c] * factor + p * y[c];
        }
#pragma unroll
        for (u32 c = 0; c < PARTS; c++)
            sum[c] = total == 0 ? C(0) : sum[c] / total;
        write_row(o + batch * o_b + head * o_h + i * o_t, sum, d);
        if (threadIdx.x % 32 == 0)
            lse[row] = total == 0 ? lowest : most + logarithm(total);
#else
        C my_g[PARTS], my_delta, l = lse[row];
        read_row(my_g, g + batch * g_b + head * g_h + i * g_t, d);
        read_row(x, o + batch * o_b + head * o_h + i * o_t, d);
        my_delta = dot(my_g, x);
        if (threadIdx.x % 32 == 0)
            delta[row] = my_delta;
        if (!dq)
            continue;
        for (i64 j = 0; j < end && l != lowest; j++, next_k += k_t, next_v += v_t) {
            read_row(x, next_k, d);
            read_row(y, next_v, d);
            C p = power(dot(mine, x) * s - l);
            add(sum, p * (dot(my_g, y) - my_delta) * s, x);
        }
        write_row(dq + batch * dq_b + head * dq_h + i * dq_t, sum, d);
#endif
    }
#endif
}
