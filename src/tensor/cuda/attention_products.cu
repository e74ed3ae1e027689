/* SPDX-License-Identifier: MIT */
/* cuda/attention_products.cu: the first of the texts of tiled attention: sizes, and products of
 * tiles.
 * - FORWARD, QUERIES or KEYS: the pass. D: the width of a tile (at least d). T: the elements.
 * - MATH_f16, MATH_bf16, MATH_tf32 (tensor cores) or MATH_f32 (none): the way of multiplication.
 * - A warp's 16 x 8n tile of sums has two rows a lane, g and g + 8 (g = lane / 4), and two columns
 *   in each 8, 2t and 2t + 1 (t = lane % 4), in the order of the tensor cores. */
#if defined(MATH_f32) || defined(MATH_tf32)
#define CHUNK 4 /* elements of 16 bytes */
#else
#define CHUNK 8
#endif
/* Rows of the other side. For TF32, 16 keep registers free for two wide tiles of sums. */
#if CHUNK == 8 && D <= 64
#define PIECE 64
#elif defined(KEYS) && defined(MATH_tf32) && D == 128
#define PIECE 16
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
#define ROWS 64 /* of a block */
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
__device__ __forceinline__ void multiply(f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, "
                 "%6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#else
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
#define HELD 1
struct held {
    u32 part[D / (2 * CHUNK)][4];
};
#else
#define HELD 0
struct held {
    const T *rows;
};
#endif

__device__ __forceinline__ const T *lane_of_rows(const T *rows)
{
    return rows + threadIdx.x % 16 * LD + threadIdx.x % 32 / 16 * CHUNK;
}

__device__ __forceinline__ void hold(held &out, const T *rows)
{
#if HELD
#pragma unroll
    for (u32 k = 0; k < D / (2 * CHUNK); k++)
        load_four(out.part[k], lane_of_rows(rows) + k * 2 * CHUNK);
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
#if HELD
        const u32(&x)[4] = a.part[k];
#else
        u32 x[4];
        load_four(x, a.rows + k * 2 * CHUNK);
#endif
#pragma unroll
        for (u32 j = 0; j < N; j += 2) {
            u32 y[4];
            load_four(y, from + 8 * j * LD + k * 2 * CHUNK);
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
        for (u32 j = 0; j < N; j++) {
            const u32 y0 = __float_as_uint(from[8 * i * LD + 8 * j]),
                      y1 = __float_as_uint(from[(8 * i + 1) * LD + 8 * j]);
            multiply(sum[j], x, y0, y1);
        }
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
