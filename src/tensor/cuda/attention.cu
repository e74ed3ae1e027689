/* SPDX-License-Identifier: MIT */
/* cuda/attention.cu: attention by tiles, after "FlashAttention-2: Faster Attention with Better
 * Parallelism and Work Partitioning" (Dao 2023): the values between the two products never leave
 * the registers. The arguments are those of tensor/operators/attention.h.
 * - FORWARD, QUERIES or KEYS: the pass. D: the width of a tile (at least d). T: the elements.
 * - MATH_f16, MATH_bf16, MATH_tf32 (tensor cores) or MATH_f32 (none): the way of multiplication.
 * - A block of four warps keeps 64 rows, 16 a warp, and goes through the rows of the other side in
 *   pieces. The next piece is fetched while one is computed.
 * - A warp's 16 x 8n tile of sums has two rows a lane, g and g + 8 (g = lane / 4), and two columns
 *   in each 8, 2t and 2t + 1 (t = lane % 4), in the order of the tensor cores. */
#if defined(MATH_f32) || defined(MATH_tf32)
#define CHUNK 4 /* elements of 16 bytes */
#else
#define CHUNK 8
#endif
#if CHUNK == 8 && D <= 64
#define PIECE 64
#elif defined(KEYS) && defined(MATH_tf32) && D == 128
#define PIECE 16 /* more would not fit the registers */
#else
#define PIECE 32
#endif
/* Blocks of a multiprocessor that registers are kept free for, where that spills none to speak
 * of. */
#if CHUNK == 4 || D > 64
#define BOUNDS __launch_bounds__(128)
#elif defined(FORWARD)
#define BOUNDS __launch_bounds__(128, 4)
#else
#define BOUNDS __launch_bounds__(128, 3)
#endif
#define ROWS 64
/* Of a row in shared memory: no two rows of eight begin in the same bank. */
#define LD     (D + CHUNK)
#define LOG2_E 1.4426950408889634f
#define LN_2   0.6931471805599453f

/* ---- products of tiles ---- */
#ifdef MATH_f32
struct held {
    const T *rows;
};
__device__ __forceinline__ void hold(held &out, const T *rows)
{
    out.rows = rows;
}

/* sum += rows (16 x D) * b', b having 8 N rows. */
template <int N>
__device__ __forceinline__ void multiply_rows(f32 (&sum)[N][4], const held &a, const T *b)
{
    const u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const T *a0 = a.rows + g * LD, *a1 = a0 + 8 * LD, *b0 = b + 2 * t * LD;
#pragma unroll 1
    for (u32 k = 0; k < D; k += 4) {
        const float4 x0 = *(const float4 *)(a0 + k), x1 = *(const float4 *)(a1 + k);
#pragma unroll
        for (u32 j = 0; j < N; j++)
#pragma unroll
            for (u32 e = 0; e < 2; e++) {
                const float4 y = *(const float4 *)(b0 + (8 * j + e) * LD + k);
                sum[j][e] += x0.x * y.x;
                sum[j][e] += x0.y * y.y;
                sum[j][e] += x0.z * y.z;
                sum[j][e] += x0.w * y.w;
                sum[j][e + 2] += x1.x * y.x;
                sum[j][e + 2] += x1.y * y.y;
                sum[j][e + 2] += x1.z * y.z;
                sum[j][e + 2] += x1.w * y.w;
            }
    }
}

/* sum (16 x 8 N) += p (16 x 8 K) * b, b having 8 K rows. The sum's columns are as column() says:
 * four neighbours in each 16. */
template <int K, int N>
__device__ __forceinline__ void multiply_mix(f32 (&sum)[N][4], const f32 (&p)[K][4], const T *b)
{
    const u32 lane = threadIdx.x % 32, t = lane % 4;
#pragma unroll
    for (u32 i = 0; i < K; i++)
#pragma unroll
        for (u32 r = 0; r < 8; r++) {
            f32 x0 = __shfl_sync(0xffffffffu, p[i][r % 2], lane / 4 * 4 + r / 2);
            f32 x1 = __shfl_sync(0xffffffffu, p[i][r % 2 + 2], lane / 4 * 4 + r / 2);
            const T *row = b + (8 * i + r) * LD + 4 * t;
#pragma unroll
            for (u32 j = 0; j < N; j += 2) {
                const float4 y = *(const float4 *)(row + 8 * j);
                sum[j][0] += x0 * y.x;
                sum[j][1] += x0 * y.y;
                sum[j + 1][0] += x0 * y.z;
                sum[j + 1][1] += x0 * y.w;
                sum[j][2] += x1 * y.x;
                sum[j][3] += x1 * y.y;
                sum[j + 1][2] += x1 * y.z;
                sum[j + 1][3] += x1 * y.w;
            }
        }
}

/* The first of the two columns of a lane in tile j of what multiply_mix gives. */
__device__ __forceinline__ u32 column(u32 j)
{
    return j / 2 * 16 + threadIdx.x % 4 * 4 + j % 2 * 2;
}
#else
__device__ __forceinline__ void load_four(u32 (&out)[4], const T *at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"((u32)__cvta_generic_to_shared(at)));
}

#ifdef MATH_tf32
__device__ __forceinline__ u32 rounded(f32 x)
{
    u32 y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ void round_four(u32 (&x)[4])
{
#pragma unroll
    for (u32 i = 0; i < 4; i++)
        x[i] = rounded(__uint_as_float(x[i]));
}
__device__ __forceinline__ void multiply(f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, "
                 "%6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#else
__device__ __forceinline__ void round_four(u32 (&)[4])
{
}
#ifdef MATH_f16
#define HALF "f16"
#else
#define HALF "bf16"
#endif
__device__ __forceinline__ void multiply(f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." HALF "." HALF
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ u32 two_halves(f32 low, f32 high)
{
    u32 x;
    asm("cvt.rn." HALF "x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
    return x;
}
#endif

/* The warp's own 16 rows: in registers where there is room, else read again each time. */
#if (CHUNK == 8 && D <= 64) || (defined(FORWARD) && D * 4 / CHUNK <= 64)
struct held {
    u32 part[D / (2 * CHUNK)][4];
};
#define HELD_IN_REGISTERS 1
#else
struct held {
    const T *rows;
};
#define HELD_IN_REGISTERS 0
#endif

__device__ __forceinline__ const T *lane_of_rows(const T *rows)
{
    return rows + threadIdx.x % 16 * LD + threadIdx.x % 32 / 16 * CHUNK;
}

__device__ __forceinline__ void hold(held &out, const T *rows)
{
#if HELD_IN_REGISTERS
#pragma unroll
    for (u32 k = 0; k < D / (2 * CHUNK); k++) {
        load_four(out.part[k], lane_of_rows(rows) + k * 2 * CHUNK);
        round_four(out.part[k]);
    }
#else
    out.rows = lane_of_rows(rows);
#endif
}

template <int N>
__device__ __forceinline__ void multiply_rows(f32 (&sum)[N][4], const held &a, const T *b)
{
    const u32 lane = threadIdx.x % 32;
    const T *from = b + (lane % 8 + lane / 16 * 8) * LD + lane / 8 % 2 * CHUNK;
#pragma unroll
    for (u32 k = 0; k < D / (2 * CHUNK); k++) {
#if HELD_IN_REGISTERS
        const u32(&x)[4] = a.part[k];
#else
        u32 x[4];
        load_four(x, a.rows + k * 2 * CHUNK);
        round_four(x);
#endif
#pragma unroll
        for (u32 j = 0; j < N; j += 2) {
            u32 y[4];
            load_four(y, from + 8 * j * LD + k * 2 * CHUNK);
            round_four(y);
            multiply(sum[j], x, y[0], y[1]);
            multiply(sum[j + 1], x, y[2], y[3]);
        }
    }
}

template <int K, int N>
__device__ __forceinline__ void multiply_mix(f32 (&sum)[N][4], const f32 (&p)[K][4], const T *b)
{
#ifdef MATH_tf32
    /* The order along k is free: the lane's columns 2t and 2t + 1 of p are taken for the t and t
     * + 4 that the instruction means, and the same rows of b with them. */
    const u32 lane = threadIdx.x % 32;
    const T *from = b + 2 * (lane % 4) * LD + lane / 4;
#pragma unroll
    for (u32 i = 0; i < K; i++) {
        const u32 x[4] = {rounded(p[i][0]), rounded(p[i][2]), rounded(p[i][1]), rounded(p[i][3])};
#pragma unroll
        for (u32 j = 0; j < N; j++)
            multiply(sum[j], x, rounded(from[8 * i * LD + 8 * j]),
                     rounded(from[(8 * i + 1) * LD + 8 * j]));
    }
#else
    const u32 lane = threadIdx.x % 32;
    const T *from = b + lane % 16 * LD + lane / 16 * 8;
#pragma unroll
    for (u32 i = 0; i < K; i += 2) {
        const u32 x[4] = {two_halves(p[i][0], p[i][1]), two_halves(p[i][2], p[i][3]),
                          two_halves(p[i + 1][0], p[i + 1][1]),
                          two_halves(p[i + 1][2], p[i + 1][3])};
#pragma unroll
        for (u32 j = 0; j < N; j += 2) {
            u32 y[4];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(y[0]), "=r"(y[1]), "=r"(y[2]), "=r"(y[3])
                         : "r"((u32)__cvta_generic_to_shared(from + 8 * i * LD + 8 * j)));
            multiply(sum[j], x, y[0], y[1]);
            multiply(sum[j + 1], x, y[2], y[3]);
        }
    }
#endif
}

__device__ __forceinline__ u32 column(u32 j)
{
    return 8 * j + threadIdx.x % 4 * 2;
}
#endif

/* ---- memory ---- */

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

#ifndef KEYS
/* ---- blocks of queries ---- of the forward pass, and of the gradient of q. */
PH_KERNEL BOUNDS KERNEL(PARAMETERS)
{
    PH_WAIT();
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, tiles = (tq + ROWS - 1) / ROWS,
              groups = gridDim.x / tiles;
    const u32 index = blockIdx.x % groups, batch = index / heads, head = index % heads,
              kv_head = head / (heads / kv_heads);
    /* of the block, of the warp */
    const u32 first = (tiles - 1 - blockIdx.x / groups) * ROWS, mine = first + warp * 16;
    /* a causal row i sees i + more keys */
    const i64 row = (i64)index * tq, more = (i64)tk - (i64)tq + 1;
    const i64 last = first + ROWS < tq ? first + ROWS : tq,
              end = causal && last - 1 + more < tk ? last - 1 + more : (i64)tk;
    const u32 pieces = end > 0 ? (u32)((end + PIECE - 1) / PIECE) : 0;
    const f32 factor = (f32)(scale * LOG2_E);
    const T *keys = k + batch * k_b + kv_head * k_h, *values = v + batch * v_b + kv_head * v_h;
    T *tile_q = (T *)shared, *stage = tile_q + ROWS * LD;
#ifdef QUERIES
    T *tile_g = stage;
    stage += ROWS * LD;
    __shared__ f32 deltas[ROWS];
    fetch(tile_g, g + batch * g_b + head * g_h + first * g_t, g_t, ROWS, (i64)tq - first, d,
          vectors);
#endif
    fetch(tile_q, q + batch * q_b + head * q_h + first * q_t, q_t, ROWS, (i64)tq - first, d,
          vectors);
    if (pieces > 0) {
        fetch(stage, keys, k_t, PIECE, tk, d, vectors);
        fetch(stage + PIECE * LD, values, v_t, PIECE, tk, d, vectors);
    }
    commit();
    f32 sum[D / 8][4];
    clear(sum);
    held rows_q;
#ifdef FORWARD
    f32 most[2] = {-PH_INFINITY, -PH_INFINITY}, total[2] = {0, 0};
#else
    held rows_g;
    f32 my_lse[2], my_delta[2];
    /* Eight rows at a time, of which all loads are on their way before the first sum. */
#pragma unroll 1
    for (u32 base = 0; base < 16 && mine + base < tq; base += 8) {
        f32 part[8];
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            const u32 at = mine + base + i < tq ? mine + base + i : tq - 1;
            const T *x = o + batch * o_b + head * o_h + at * o_t,
                    *y = g + batch * g_b + head * g_h + at * g_t;
            part[i] = 0;
#pragma unroll
            for (u32 c = lane; c < D; c += 32) {
                const u32 place = c < d ? c : 0;
                const f32 product = ph_get(x + place) * ph_get(y + place);
                part[i] += c < d ? product : 0;
            }
        }
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            part[i] = ph_warp_sum(part[i]);
            if (lane == i && mine + base + i < tq)
                delta[row + mine + base + i] = deltas[warp * 16 + base + i] = part[i];
        }
    }
    if (!dq) {
        finish<0>();
        return;
    }
    __syncwarp();
#pragma unroll
    for (u32 e = 0; e < 2; e++) {
        u32 i = lane / 4 + 8 * e;
        f32 l = mine + i < tq ? lse[row + mine + i] : -PH_INFINITY;
        my_lse[e] = l == -PH_INFINITY ? PH_INFINITY : l * LOG2_E;
        my_delta[e] = mine + i < tq ? deltas[warp * 16 + i] : 0;
    }
#endif
    for (u32 piece = 0; piece < pieces; piece++) {
        T *tile_k = stage + piece % 2 * 2 * PIECE * LD, *tile_v = tile_k + PIECE * LD;
        const i64 from = (i64)piece * PIECE;
        if (piece + 1 < pieces) {
            T *next = stage + (piece + 1) % 2 * 2 * PIECE * LD;
            fetch(next, keys + (from + PIECE) * k_t, k_t, PIECE, (i64)tk - from - PIECE, d,
                  vectors);
            fetch(next + PIECE * LD, values + (from + PIECE) * v_t, v_t, PIECE,
                  (i64)tk - from - PIECE, d, vectors);
            commit();
            finish<1>();
        } else {
            finish<0>();
        }
        __syncthreads();
        if (piece == 0) {
            hold(rows_q, tile_q + warp * 16 * LD);
#ifdef QUERIES
            hold(rows_g, tile_g + warp * 16 * LD);
#endif
        }
        if (mine < tq && (!causal || from < (i64)mine + 15 + more)) {
            f32 s[PIECE / 8][4];
            clear(s);
            multiply_rows(s, rows_q, tile_k);
            const i64 seen = causal ? mine + more : (i64)tk; /* by the warp's first row */
            /* A factor of 0 would make NaN of a hidden key's infinity: the products become 0
             * instead. */
#ifdef FORWARD
            if (factor <= 0)
#pragma unroll
                for (u32 j = 0; j < PIECE / 8; j++)
#pragma unroll
                    for (u32 e = 0; e < 4; e++)
                        s[j][e] *= factor < 0 ? -1.0f : 0.0f;
            const f32 size = factor == 0 ? 1 : fabsf(factor);
            const bool flipped = false;
#else
            if (factor == 0)
#pragma unroll
                for (u32 j = 0; j < PIECE / 8; j++)
#pragma unroll
                    for (u32 e = 0; e < 4; e++)
                        s[j][e] *= 0.0f;
            const f32 slope = factor == 0 ? 1 : factor;
            const bool flipped = factor < 0;
#endif
            if (from + PIECE > seen || from + PIECE > tk) {
#pragma unroll
                for (u32 j = 0; j < PIECE / 8; j++)
#pragma unroll
                    for (u32 e = 0; e < 4; e++) {
                        i64 key = from + 8 * j + lane % 4 * 2 + e % 2,
                            mine_sees = seen + (causal ? lane / 4 + e / 2 * 8 : 0);
                        if (key >= mine_sees || key >= tk)
                            s[j][e] = flipped ? PH_INFINITY : -PH_INFINITY;
                    }
            }
#ifdef FORWARD
#pragma unroll
            for (u32 e = 0; e < 2; e++) {
                f32 high = -PH_INFINITY, all = 0;
#pragma unroll
                for (u32 j = 0; j < PIECE / 8; j++)
                    high = fmaxf(high, fmaxf(s[j][2 * e], s[j][2 * e + 1]));
                high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 1));
                high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 2));
                high = fmaxf(most[e], high * size);
                f32 base = high == -PH_INFINITY ? 0 : high, shrink = power_of_two(most[e] - base);
                most[e] = high;
#pragma unroll
                for (u32 j = 0; j < PIECE / 8; j++) {
                    s[j][2 * e] = power_of_two(fmaf(s[j][2 * e], size, -base));
                    s[j][2 * e + 1] = power_of_two(fmaf(s[j][2 * e + 1], size, -base));
                    all += s[j][2 * e] + s[j][2 * e + 1];
                }
                total[e] = total[e] * shrink + all;
#pragma unroll
                for (u32 j = 0; j < D / 8; j++) {
                    sum[j][2 * e] *= shrink;
                    sum[j][2 * e + 1] *= shrink;
                }
            }
            multiply_mix(sum, s, tile_v);
#else
            f32 ds[PIECE / 8][4];
            clear(ds);
            multiply_rows(ds, rows_g, tile_v);
#pragma unroll
            for (u32 j = 0; j < PIECE / 8; j++)
#pragma unroll
                for (u32 e = 0; e < 4; e++)
                    ds[j][e] = power_of_two(s[j][e] * slope - my_lse[e / 2]) *
                               (ds[j][e] - my_delta[e / 2]);
            multiply_mix(sum, ds, tile_k);
#endif
        }
        __syncthreads();
    }
    const i64 valid = (i64)tq - mine;
#ifdef FORWARD
    f32 inverse[2];
#pragma unroll
    for (u32 e = 0; e < 2; e++) {
        total[e] += __shfl_xor_sync(0xffffffffu, total[e], 1);
        total[e] += __shfl_xor_sync(0xffffffffu, total[e], 2);
        inverse[e] = total[e] == 0 ? 0 : 1 / total[e];
        u32 i = lane / 4 + 8 * e;
        if (lane % 4 == 0 && i < valid)
            lse[row + mine + i] = total[e] == 0 ? -PH_INFINITY : most[e] * LN_2 + logf(total[e]);
    }
    put_rows(o + batch * o_b + head * o_h + mine * o_t, o_t, sum, inverse[0], inverse[1], valid, d);
#else
    put_rows(dq + batch * dq_b + head * dq_h + mine * dq_t, dq_t, sum, (f32)scale, (f32)scale,
             valid, d);
#endif
}
#else
/* ---- blocks of keys ---- the gradients of k and v: sums over the queries of all heads that
 * share them. Tiles are transposed: keys are rows. */
PH_KERNEL BOUNDS KERNEL(PARAMETERS)
{
    PH_WAIT();
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, tiles = (tk + ROWS - 1) / ROWS,
              groups = gridDim.x / tiles;
    const u32 index = blockIdx.x % groups, batch = index / kv_heads, kv_head = index % kv_heads,
              members = heads / kv_heads;
    const u32 first = blockIdx.x / groups * ROWS, mine = first + warp * 16;
    /* the first query that sees a key of the block */
    const i64 more = (i64)tk - (i64)tq + 1, sees = causal ? (i64)first - more + 1 : 0;
    const u32 begin = sees > 0 ? (u32)(sees / PIECE) : 0, end = (tq + PIECE - 1) / PIECE,
              each = begin < end ? end - begin : 0;
    const f32 factor = (f32)(scale * LOG2_E);
    T *tile_k = (T *)shared, *tile_v = tile_k + ROWS * LD, *stage = tile_v + ROWS * LD;
    /* lse and delta of a piece's queries, of two pieces */
    f32 *numbers = (f32 *)(stage + 4 * PIECE * LD);
    const auto fetch_queries = [&](u32 step) {
        const u32 head = kv_head * members + step / each, from = (begin + step % each) * PIECE;
        const i64 row = ((i64)batch * heads + head) * tq;
        T *to = stage + step % 2 * 2 * PIECE * LD;
        fetch(to, q + batch * q_b + head * q_h + from * q_t, q_t, PIECE, (i64)tq - from, d,
              vectors);
        fetch(to + PIECE * LD, g + batch * g_b + head * g_h + from * g_t, g_t, PIECE,
              (i64)tq - from, d, vectors);
        if (threadIdx.x < PIECE) {
            f32 *number = numbers + step % 2 * 2 * PIECE + threadIdx.x;
            const u32 i = from + threadIdx.x;
            fetch_number(number, lse + row + (i < tq ? i : 0), i < tq);
            fetch_number(number + PIECE, delta + row + (i < tq ? i : 0), i < tq);
        }
        commit();
    };
    /* Each thread prepares the numbers that it has fetched: in powers of two, and so that missing
     * rows count nothing. */
    const auto prepare_numbers = [&](u32 step) {
        if (threadIdx.x < PIECE) {
            f32 *number = numbers + step % 2 * 2 * PIECE + threadIdx.x;
            const f32 l = *number;
            const bool there =
                (begin + step % each) * PIECE + threadIdx.x < tq && l != -PH_INFINITY;
            *number = there ? l * LOG2_E : PH_INFINITY;
        }
    };
    f32 sum_k[D / 8][4], sum_v[D / 8][4];
    clear(sum_k);
    clear(sum_v);
    fetch(tile_k, k + batch * k_b + kv_head * k_h + first * k_t, k_t, ROWS, (i64)tk - first, d,
          vectors);
    fetch(tile_v, v + batch * v_b + kv_head * v_h + first * v_t, v_t, ROWS, (i64)tk - first, d,
          vectors);
    held rows_k, rows_v;
    const u32 steps = each * members;
    if (steps > 0)
        fetch_queries(0);
    for (u32 step = 0; step < steps; step++) {
        if (step + 1 < steps) {
            fetch_queries(step + 1);
            finish<1>();
        } else {
            finish<0>();
        }
        prepare_numbers(step);
        __syncthreads();
        if (step == 0) {
            hold(rows_k, tile_k + warp * 16 * LD);
            hold(rows_v, tile_v + warp * 16 * LD);
        }
        const T *tile_q = stage + step % 2 * 2 * PIECE * LD, *tile_g = tile_q + PIECE * LD;
        const f32 *lses = numbers + step % 2 * 2 * PIECE, *deltas = lses + PIECE;
        const i64 from = (i64)(begin + step % each) * PIECE;
        if (mine < tk && (!causal || mine < from + PIECE - 1 + more)) {
            f32 s[PIECE / 8][4], ds[PIECE / 8][4];
            clear(s);
            clear(ds);
            multiply_rows(s, rows_k, tile_q);
            multiply_rows(ds, rows_v, tile_g);
            const bool hides = causal && (i64)mine + 15 >= from + more;
#pragma unroll
            for (u32 j = 0; j < PIECE / 8; j++)
#pragma unroll
                for (u32 e = 0; e < 4; e++) {
                    const u32 i = 8 * j + lane % 4 * 2 + e % 2;
                    s[j][e] = power_of_two(s[j][e] * factor - lses[i]);
                    if (hides && (i64)mine + lane / 4 + e / 2 * 8 >= from + i + more)
                        s[j][e] = 0;
                    ds[j][e] = s[j][e] * (ds[j][e] - deltas[i]);
                }
            multiply_mix(sum_v, s, tile_g);
            multiply_mix(sum_k, ds, tile_q);
        }
        __syncthreads();
    }
    const i64 valid = (i64)tk - mine;
    put_rows(dk + batch * dk_b + kv_head * dk_h + mine * dk_t, dk_t, sum_k, (f32)scale, (f32)scale,
             valid, d);
    put_rows(dv + batch * dv_b + kv_head * dv_h + mine * dv_t, dv_t, sum_v, 1, 1, valid, d);
}
#endif
