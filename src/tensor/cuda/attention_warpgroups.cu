/* SPDX-License-Identifier: MIT */
/* cuda/attention_warpgroups.cu: the third of the texts of tiled attention, for compute capability
 * 9.0 alone (sm_90a): TF32 products by whole warpgroups, after "FlashAttention-3: Fast and Accurate
 * Attention with Asynchrony and Low-precision" (Shah et al. 2024).
 * - Two warpgroups of a block keep 128 rows, 64 each, and go through the rows of the other side in
 *   pieces of 64. D is 64. A third one brings the pieces, two ahead: the others never wait for
 *   memory, nor for each other, so that one multiplies while the other works on its sums.
 * - A tile in shared memory is made of rows of 128 bytes, 32 numbers; a wider one of several such
 *   parts, one behind the other. The 16 bytes c of row r lie at c ^ r % 8, as the tensor cores
 *   expect (128-byte swizzle).
 * - The tensor cores read 32-bit operands along rows alone. So a tile that is multiplied from both
 *   sides is stored twice: straight, and turned.
 * - A turned tile has other orders than its numbers: along its rows, in each eight, first the
 *   even ones, then the odd ones, so that a lane's sums are the operand of the next product without
 *   an exchange; and its rows are 0, 1, 8, 9, 16, 17, 24, 25, then 2 more, 4 more, 6 more, and the
 *   same from 32 on, so that one thread's four by four numbers go into both tiles without a
 *   conflict of banks. */
#define OWN_ROWS 128 /* of a block */
#define WORKERS  (OWN_ROWS * 2)
#define THREADS  (WORKERS + 128)
#define STEP     64 /* rows of a piece */
enum {
    TILE = STEP * D * 4, /* bytes */
    PART = STEP * 128    /* of a tile with STEP rows */
};

/* ---- meetings ---- of two warpgroups: the one that brings, and worker 0 or 1. */
enum {
    FULL = 1,  /* + 2 * place + worker: the piece is there */
    EMPTY = 5, /* the same: nobody reads the place any more */
    OWN = 9    /* + worker: the worker's own rows are there, for its four warps */
};
__device__ __forceinline__ void meet(u32 where, u32 threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(where), "r"(threads) : "memory");
}
/* The other side's meet() waits for this, this for nobody. */
__device__ __forceinline__ void announce(u32 where, u32 threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(where), "r"(threads) : "memory");
}
/* Of 168 registers a thread, those that bring give some to those that work. */
#define FEW  104
#define MANY 200
__device__ __forceinline__ void need_few_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(FEW));
}
__device__ __forceinline__ void need_many_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(MANY));
}

/* ---- tiles ---- A warp brings eight rows of 64, a thread four by four numbers of them: four
 * columns from my_column() on, of rows my_line(), my_line() + 2, + 4 and + 6 of the eight. */
__device__ __forceinline__ u32 my_column()
{
    const u32 lane = threadIdx.x % 32;
    return (lane / 16 * 8 + lane % 4 * 2 + lane / 8 % 2) * 4;
}
__device__ __forceinline__ u32 my_line()
{
    return threadIdx.x / 4 % 2;
}
struct block {
    float4 at[4];
};
/* Four numbers, or zeros, without a branch. */
__device__ __forceinline__ float4 four_at(const T *at, bool there)
{
    float4 x;
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n"
                 "mov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
                 "@p ld.global.v4.f32 {%0, %1, %2, %3}, [%4];\n}"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "l"(at), "r"((u32)there)
                 : "memory");
    return x;
}
/* Rows `eight` to `eight` + 7, of which those before `valid` are there; zeros for the rest, and for
 * columns from d on. */
__device__ __forceinline__ void load(block &out, u32 eight, const T *from, i64 stride, i64 valid,
                                     u32 d, bool vectors)
{
    const u32 c = my_column(), first = eight + my_line();
    const T *at = from + first * stride + c;
    if (vectors) {
#pragma unroll
        for (u32 m = 0; m < 4; m++)
            out.at[m] = four_at(at + 2 * m * stride, first + 2 * m < valid && c < d);
        return;
    }
#pragma unroll
    for (u32 m = 0; m < 4; m++, at += 2 * stride)
#pragma unroll
        for (u32 i = 0; i < 4; i++)
            (&out.at[m].x)[i] = first + 2 * m < valid && c + i < d ? at[i] : 0;
}
/* The tensor cores leave out the last 13 bits, so half of the 13th rounds, as cvt.rna does. No
 * carry may reach the sign of a NaN: rounded() does these, after one test for all numbers. */
#define HALF_STEP 0x1000
__device__ __forceinline__ void round_all(block &x)
{
    f32 finite = 0;
#pragma unroll
    for (u32 i = 0; i < 16; i++)
        finite = fmaf((&x.at[i / 4].x)[i % 4], 0.0f, finite);
    if (finite == 0) {
#pragma unroll
        for (u32 i = 0; i < 16; i++) {
            f32 &y = (&x.at[i / 4].x)[i % 4];
            y = __uint_as_float(__float_as_uint(y) + HALF_STEP);
        }
        return;
    }
#pragma unroll
    for (u32 i = 0; i < 16; i++) {
        f32 &y = (&x.at[i / 4].x)[i % 4];
        y = __uint_as_float(rounded(y));
    }
}
/* Of a result of arithmetic, whose only NaN is 0x7fffffff. */
__device__ __forceinline__ u32 rounded_result(f32 x)
{
    const i32 bits = __float_as_int(x), most = 0x7fffffff - HALF_STEP;
    return (u32)((bits < most ? bits : most) + HALF_STEP);
}
/* Into a tile whose parts are `part` bytes. */
__device__ __forceinline__ void put_straight(unsigned char *to, u32 eight, u32 part, const block &x)
{
    const u32 c = my_column() / 4, row = eight + my_line();
    unsigned char *at = to + c / 8 * part + row * 128;
#pragma unroll
    for (u32 m = 0; m < 4; m++)
        *(float4 *)(at + m * 256 + (c % 8 ^ (row + 2 * m) % 8) * 16) = x.at[m];
}
__device__ __forceinline__ void put_turned(unsigned char *to, u32 eight, const block &x)
{
    const u32 c = my_column() / 4, row = eight + my_line(), chunk = row / 8 % 4 * 2 + row % 2,
              first = c / 8 * 32 + c % 2 * 16 + c / 2 % 4 * 2;
    unsigned char *at = to + row / 32 * PART;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const u32 n = first + i / 2 * 8 + i % 2;
        const float4 four = {(&x.at[0].x)[i], (&x.at[1].x)[i], (&x.at[2].x)[i], (&x.at[3].x)[i]};
        *(float4 *)(at + n * 128 + (chunk ^ n % 8) * 16) = four;
    }
}
/* The tensor cores see earlier stores after the next barrier. */
__device__ __forceinline__ void publish()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/* A worker's own 64 rows, by its four warps. */
__device__ __forceinline__ void fetch_own(unsigned char *to, const T *from, i64 stride, i64 valid,
                                          u32 d, bool vectors)
{
#pragma unroll
    for (u32 n = 0; n < 2; n++) {
        const u32 eight = threadIdx.x / 32 % 4 * 8 + 32 * n;
        block x;
        load(x, eight, from, stride, valid, d, vectors);
        round_all(x);
        put_straight(to, eight, OWN_ROWS * 128, x);
    }
}
/* 64 rows of a piece, by the four warps that bring. */
struct piece {
    block half[2];
};
__device__ __forceinline__ void load_piece(piece &out, const T *from, i64 stride, i64 valid, u32 d,
                                           bool vectors)
{
#pragma unroll
    for (u32 n = 0; n < 2; n++)
        load(out.half[n], threadIdx.x / 32 % 4 * 8 + 32 * n, from, stride, valid, d, vectors);
}
/* nullptr: not in this form. */
__device__ __forceinline__ void store_piece(unsigned char *straight, unsigned char *turned,
                                            piece &x)
{
#pragma unroll
    for (u32 n = 0; n < 2; n++) {
        const u32 eight = threadIdx.x / 32 % 4 * 8 + 32 * n;
        round_all(x.half[n]);
        if (straight)
            put_straight(straight, eight, PART, x.half[n]);
        if (turned)
            put_turned(turned, eight, x.half[n]);
    }
}

/* ---- products ---- asynchronous: between start() and finish_products() nobody touches the sums
 * nor the operands. */
__device__ __forceinline__ void start()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void close()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* All but the newest LEFT groups. */
template <int LEFT> __device__ __forceinline__ void finish_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
/* The same, behind all arithmetic before it, which ptxas would move behind the wait without a
 * branch. `any` is the same in all lanes, and unknown to the compiler. */
template <int LEFT> __device__ __forceinline__ void finish_products_here(u32 any)
{
    if (any)
        asm volatile("wgmma.wait_group.sync.aligned %0; // here" ::"n"(LEFT) : "memory");
    else
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
/* No use of the numbers moves across this. */
__device__ __forceinline__ void pin(f32 (&x)[8][4])
{
#pragma unroll
    for (u32 i = 0; i < 32; i++)
        asm volatile("" : "+f"(x[i / 4][i % 4])::"memory");
}
/* Of a tile. + 2 for each 32 bytes (a step of eight along its rows) further. */
__device__ __forceinline__ u64 describe(u32 address)
{
    return (u64)1 << 62 | (u64)(1024 / 16) << 32 | (u64)1 << 16 | (address & 0x3ffff) >> 4;
}
#define FOUR_SUMS(c, j) "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
#define ALL_SUMS(c)                                                                                \
    FOUR_SUMS(c, 0), FOUR_SUMS(c, 1), FOUR_SUMS(c, 2), FOUR_SUMS(c, 3), FOUR_SUMS(c, 4),           \
        FOUR_SUMS(c, 5), FOUR_SUMS(c, 6), FOUR_SUMS(c, 7)
#define SUMS                                                                                       \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "  \
    "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define PRODUCT "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 " SUMS
/* 64 x 64 sums (+)= 64 x 8 numbers a times b, whose 64 rows are the sums' columns. */
__device__ __forceinline__ void multiply_eight(f32 (&c)[8][4], const u32 (&a)[4], u64 b, u32 add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n" PRODUCT
                 ", {%32, %33, %34, %35}, %36, p, 1, 1;\n}"
                 : ALL_SUMS(c)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add)
                 : "memory");
}
__device__ __forceinline__ void multiply_eight(f32 (&c)[8][4], u64 a, u64 b, u32 add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n" PRODUCT ", %32, %33, p, 1, 1;\n}"
                 : ALL_SUMS(c)
                 : "l"(a), "l"(b), "r"(add)
                 : "memory");
}

/* sum = own rows * tile', begun. Both stay in shared memory: ptxas 13.0 lets the left operand of a
 * later product overwrite one that registers keep from piece to piece. */
__device__ __forceinline__ void begin_rows(f32 (&sum)[8][4], u64 own, u64 tile)
{
#pragma unroll
    for (u32 k = 0; k < 8; k++)
        multiply_eight(sum, own + (k / 4 * (OWN_ROWS * 128) + k % 4 * 32) / 16,
                       tile + (k / 4 * PART + k % 4 * 32) / 16, k > 0);
    close();
}
/* Numbers p, which were sums, as the left operand. */
__device__ __forceinline__ void round_sums(u32 (&out)[8][4], const f32 (&p)[8][4])
{
#pragma unroll
    for (u32 k = 0; k < 8; k++) {
        out[k][0] = rounded_result(p[k][0]);
        out[k][1] = rounded_result(p[k][2]);
        out[k][2] = rounded_result(p[k][1]);
        out[k][3] = rounded_result(p[k][3]);
    }
}
/* The same of weights. A NaN becomes 0: the row's total is NaN then, and all results with it. */
__device__ __forceinline__ void round_weights(u32 (&out)[8][4], const f32 (&p)[8][4])
{
#pragma unroll
    for (u32 k = 0; k < 8; k++) {
        out[k][0] = __float_as_uint(p[k][0]) + HALF_STEP;
        out[k][1] = __float_as_uint(p[k][2]) + HALF_STEP;
        out[k][2] = __float_as_uint(p[k][1]) + HALF_STEP;
        out[k][3] = __float_as_uint(p[k][3]) + HALF_STEP;
    }
}
/* sum += p * b, begun; `turned` has b. */
__device__ __forceinline__ void begin_mix(f32 (&sum)[8][4], const u32 (&p)[8][4], u64 turned)
{
#pragma unroll
    for (u32 k = 0; k < 8; k++)
        multiply_eight(sum, p[k], turned + (k / 4 * PART + k % 4 * 32) / 16, 1);
    close();
}
__device__ __forceinline__ void zero(f32 (&x)[8][4])
{
#pragma unroll
    for (u32 i = 0; i < 32; i++)
        x[i / 4][i % 4] = 0;
}

/* ---- results ---- */
/* Sums of a product with a turned tile: a warp's 16 rows times a factor for each of the lane's two;
 * rows from `valid` on are left out. Where 16 bytes can be written at a time, neighbours exchange
 * numbers so that 32 are written together. */
__device__ __forceinline__ void put_sums(T *to, i64 stride, const f32 (&sum)[8][4], f32 low,
                                         f32 high, i64 valid, u32 d)
{
    const u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const bool fours = ((u64)to | (u64)stride * 4 | d * 4) % 16 == 0;
#pragma unroll
    for (u32 n = 0; n < 4; n++) {
        const u32 r = n % 2, half = n / 2, c = 32 * half + 8 * t;
        const f32 factor = r ? high : low;
        T *row = to + (g + 8 * r) * stride;
        f32 x[8];
#pragma unroll
        for (u32 i = 0; i < 8; i++)
            x[i] = sum[4 * half + i / 2][2 * r + i % 2] * factor;
        if (!fours) {
            if (g + 8 * r < valid)
#pragma unroll
                for (u32 i = 0; i < 8; i += 2)
                    put_two(row, c + i, d, x[i], x[i + 1]);
            continue;
        }
        const bool odd = t % 2;
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            const f32 other = __shfl_xor_sync(0xffffffffu, odd ? x[i] : x[4 + i], 1);
            /* then: first, of an even lane's eight; second, of an odd one's */
            x[i] = odd ? other : x[i];
            x[4 + i] = odd ? x[4 + i] : other;
        }
        const u32 first = odd ? c - 4 : c, second = odd ? c + 4 : c + 8;
        if (g + 8 * r < valid) {
            if (first < d)
                *(float4 *)(row + first) = make_float4(x[0], x[1], x[2], x[3]);
            if (second < d)
                *(float4 *)(row + second) = make_float4(x[4], x[5], x[6], x[7]);
        }
    }
}
