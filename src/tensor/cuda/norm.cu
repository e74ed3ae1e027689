/* SPDX-License-Identifier: MIT */
/* cuda/norm.cu: layer_norm (centered) and rms_norm. Forward and, with GRAD, backward for x:
 * SMALL: a warp for each row; ROW: a block; both keep it in registers. LONG: a block that reads
 * its row several times, element by element: for rows of other alignments, and still longer
 * ones. PARTS: sums for weight and bias over some rows (with SMALL and GRAD: and the gradient
 * for x, from one reading of the rows); PARTS_TOTAL: over all. OUT: y, and so its gradient, is of
 * another type, a half one, where T is f32. In backward `plus` is added to the gradient of x, whose
 * memory it may be. */
#ifdef OUT
typedef OUT O;
typedef uint2 packed; /* of V elements of O */
#define NO_ELEMENTS make_uint2(0, 0)
__device__ __forceinline__ void open_out(const packed &w, C (&to)[V])
{
    unpack_pair(w.x, to[0], to[1], (const O *)0);
    unpack_pair(w.y, to[2], to[3], (const O *)0);
}
__device__ __forceinline__ void store_out(O *p, const C (&from)[V])
{
    *(packed *)p = make_uint2(pack_pair(from[0], from[1], (const O *)0),
                              pack_pair(from[2], from[3], (const O *)0));
}
__device__ __forceinline__ void stay_packed(packed &w)
{
    asm volatile("" : "+r"(w.x), "+r"(w.y));
}
#else
typedef T O;
typedef uint4 packed;
#define NO_ELEMENTS        make_uint4(0, 0, 0, 0)
#define open_out(w, to)    open(w, to)
#define store_out(p, from) store(p, from)
#endif
__device__ __forceinline__ packed fetch_out(const O *p)
{
    return *(const packed *)p;
}
/* Sums are rounded as those of two kernels are. */
__device__ __forceinline__ f32 exact_sum(f32 a, f32 b)
{
    return __fadd_rn(a, b);
}
__device__ __forceinline__ f64 exact_sum(f64 a, f64 b)
{
    return __dadd_rn(a, b);
}
/* Sums for weight and bias are the same in every kernel that makes them. */
__device__ __forceinline__ f32 add_product(f32 sum, f32 a, f32 b)
{
    return fmaf(a, b, sum);
}
__device__ __forceinline__ f64 add_product(f64 sum, f64 a, f64 b)
{
    return fma(a, b, sum);
}
/* As it would be read from memory again. */
__device__ __forceinline__ C stored(C x)
{
    T y;
    ph_put(&y, x);
    return ph_get(&y);
}
__device__ __forceinline__ C root_of(f32 x)
{
    return sqrtf(x);
}
__device__ __forceinline__ f64 root_of(f64 x)
{
    return sqrt(x);
}

#if defined SMALL || defined ROW || defined LONG
#ifdef SMALL
#define SUM(slot, x) ph_warp_sum(x)
#define SUMS(x, y)   (x = ph_warp_sum(x), y = ph_warp_sum(y))
#define ME           ((int)LANE)
#define WIDTH        32
#define THREADS      128
#define BLOCKS       4
enum {
    MANY = sizeof(T) == 2 ? 4 : 8 /* PACKS of the longest row, as normalization.c has it */
};
#else
#define SUM(slot, x) block_sum<slot>(x)
#define SUMS(x, y)   block_sums(x, y)
#define ME           ((int)threadIdx.x)
#define WIDTH        ((int)blockDim.x)
#define THREADS      512
#define BLOCKS       2
#endif

/* A thread's part of a row, as it was read: PACKS times 16 bytes. The row is a multiple of 16
 * bytes, and everything lies at one. */
__device__ __forceinline__ int place_of(int p)
{
    return (p * WIDTH + ME) * V;
}
/* Beyond the row: 0. */
__device__ __forceinline__ uint4 read(const T *row, int n, int p)
{
    return place_of(p) < n ? fetch(row + place_of(p)) : make_uint4(0, 0, 0, 0);
}
/* The compiler is not to keep it unpacked until its next use, in so many more registers. */
__device__ __forceinline__ void stay_packed(uint4 &w)
{
    asm volatile("" : "+r"(w.x), "+r"(w.y), "+r"(w.z), "+r"(w.w));
}
/* A parameter's part; NULL: otherwise. */
__device__ __forceinline__ void parameter(const T *row, int n, int p, C (&to)[V], C otherwise)
{
    if (row)
        open(read(row, n, p), to);
#pragma unroll
    for (int v = 0; v < V; v++)
        to[v] = row ? to[v] : otherwise;
}

#ifdef GRAD
/* A thread's sums for weight and bias, of its columns. */
template <int PACKS> struct column_sums {
    C weight[PACKS * V], bias[PACKS * V];
    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (int k = 0; k < PACKS * V; k++)
            weight[k] = bias[k] = C(0);
    }
    __device__ __forceinline__ void add(int k, C g, C z)
    {
        weight[k] = add_product(weight[k], g, z);
        bias[k] += g;
    }
};
struct no_sums {
    __device__ __forceinline__ void add(int, C, C)
    {
    }
};

/* `plus` is read before anything is written: dx may be the same memory, and so the compiler must
 * keep the order. */
template <int PACKS, class S>
__device__ __forceinline__ void run(const T *x, const T *w, const O *g, T *dx, const T *plus, int n,
                                    C mean, C scale, bool centered, S &sums)
{
    uint4 xs[PACKS], ps[PACKS];
    packed gs[PACKS];
    C first = 0, second = 0;
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        xs[p] = read(x, n, p);
        gs[p] = place_of(p) < n ? fetch_out(g + place_of(p)) : NO_ELEMENTS;
    }
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        C a[V], b[V], by[V];
        if (place_of(p) >= n)
            continue;
        open(xs[p], a);
        open_out(gs[p], b);
        parameter(w, n, p, by, C(1));
#pragma unroll
        for (int v = 0; v < V; v++) {
            C z = (a[v] - mean) * scale;
            first += b[v] * by[v];
            second += b[v] * by[v] * z;
            sums.add(p * V + v, b[v], z);
        }
    }
#pragma unroll
    for (int p = 0; p < PACKS; p++)
        ps[p] = plus ? read(plus, n, p) : make_uint4(0, 0, 0, 0);
    SUMS(first, second);
    first = centered ? first / C(n) : C(0);
    second /= C(n);
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        C a[V], b[V], by[V];
        if (place_of(p) >= n)
            continue;
        stay_packed(xs[p]);
        stay_packed(gs[p]);
        open(xs[p], a);
        open_out(gs[p], b);
        parameter(w, n, p, by, C(1));
#pragma unroll
        for (int v = 0; v < V; v++)
            a[v] = scale * (b[v] * by[v] - first - (a[v] - mean) * scale * second);
        if (plus) {
            open(ps[p], b);
#pragma unroll
            for (int v = 0; v < V; v++)
                a[v] = exact_sum(b[v], stored(a[v]));
        }
        store(dx + place_of(p), a);
    }
}
#else
template <int PACKS>
__device__ __forceinline__ void run(const T *x, const T *w, const T *b, O *y, int n, C *means,
                                    C *scales, C eps, bool centered)
{
    uint4 xs[PACKS];
    C mean = 0, square = 0;
#pragma unroll
    for (int p = 0; p < PACKS; p++)
        xs[p] = read(x, n, p);
    if (centered) {
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            C a[V];
            open(xs[p], a);
#pragma unroll
            for (int v = 0; v < V; v++)
                mean += a[v];
        }
        mean = SUM(0, mean) / C(n);
    }
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        C a[V];
        stay_packed(xs[p]);
        open(xs[p], a);
#pragma unroll
        for (int v = 0; v < V; v++)
            square += place_of(p) < n ? (a[v] - mean) * (a[v] - mean) : C(0);
    }
    C scale = C(1) / root_of(SUM(1, square) / C(n) + eps);
    if (ME == 0) {
        if (centered)
            *means = mean;
        *scales = scale;
    }
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        C a[V], by[V], plus[V];
        if (place_of(p) >= n)
            continue;
        stay_packed(xs[p]);
        open(xs[p], a);
        parameter(w, n, p, by, C(1));
        parameter(b, n, p, plus, C(-0.0)); /* which leaves a result of -0 as it is */
#pragma unroll
        for (int v = 0; v < V; v++)
            a[v] = (a[v] - mean) * scale * by[v] + plus[v];
        store_out(y + place_of(p), a);
    }
}
#endif
#endif

#if defined LONG && !defined GRAD
PH_KERNEL __launch_bounds__(512)
    KERNEL(const T *x, const T *w, const T *b, O *y, C *means, C *scales, i64 rows, i64 n, f64 eps,
           i64 centered, i64 rows_a_block, const T *plus)
{
    PH_WAIT();
    i64 row = blockIdx.x;
    x += row * n;
    y += row * n;
    C mean = 0, square = 0;
    for (i64 i = ME; centered && i < n; i += WIDTH)
        mean += value(x + i);
    if (centered)
        mean = SUM(0, mean) / C(n);
    for (i64 i = ME; i < n; i += WIDTH) {
        C d = value(x + i) - mean;
        square += d * d;
    }
    C scale = C(1) / root_of(SUM(1, square) / C(n) + C(eps));
    if (ME == 0) {
        if (centered)
            means[row] = mean;
        scales[row] = scale;
    }
    for (i64 i = ME; i < n; i += WIDTH)
        ph_put(y + i, (value(x + i) - mean) * scale * (w ? value(w + i) : C(1)) +
                          (b ? value(b + i) : C(-0.0)));
}
#elif defined LONG
PH_KERNEL __launch_bounds__(512)
    KERNEL(const T *x, const T *w, const O *g, T *dx, const C *means, const C *scales, i64 rows,
           i64 n, f64 eps, i64 centered, i64 rows_a_block, const T *plus)
{
    PH_WAIT();
    i64 row = blockIdx.x;
    C mean = centered ? means[row] : C(0), scale = scales[row], first = 0, second = 0;
    x += row * n;
    g += row * n;
    dx += row * n;
    for (i64 i = ME; i < n; i += WIDTH) {
        C d = C(ph_get(g + i)) * (w ? value(w + i) : C(1));
        first += d;
        second += d * ((value(x + i) - mean) * scale);
    }
    SUMS(first, second);
    first = centered ? first / C(n) : C(0);
    second /= C(n);
    for (i64 i = ME; i < n; i += WIDTH) {
        C d = C(ph_get(g + i)) * (w ? value(w + i) : C(1));
        d = scale * (d - first - (value(x + i) - mean) * scale * second);
        ph_put(dx + i, plus ? exact_sum(value(plus + row * n + i), stored(d)) : d);
    }
}
#elif (defined SMALL || defined ROW) && !defined PARTS
PH_KERNEL __launch_bounds__(THREADS, BLOCKS)
#ifdef GRAD
    KERNEL(const T *x, const T *w, const O *b, T *y, const C *means, const C *scales, i64 rows,
           i64 n, f64 eps, i64 centered, i64 rows_a_block, const T *plus)
#else
    KERNEL(const T *x, const T *w, const T *b, O *y, C *means, C *scales, i64 rows, i64 n, f64 eps,
           i64 centered, i64 rows_a_block, const T *plus)
#endif
{
    PH_WAIT();
#ifdef SMALL
    i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= rows)
        return;
#else
    i64 row = blockIdx.x;
#endif
    x += row * n;
    y += row * n;
#ifdef GRAD
    b += row * n;
    plus = plus ? plus + row * n : plus;
    C mean = centered ? means[row] : C(0), scale = scales[row];
    no_sums none;
#define RUN(packs) run<packs>(x, w, b, y, plus, (int)n, mean, scale, centered != 0, none)
#else
#define RUN(packs) run<packs>(x, w, b, y, (int)n, means + row, scales + row, C(eps), centered != 0)
#endif
#ifdef SMALL
    if (n > MANY / 4 * 32 * V)
        RUN(MANY);
    else
        RUN(MANY / 4);
#else
    RUN(4);
#endif
}
#endif

#if defined PARTS && defined GRAD
/* A block has rows_a_block rows, of which each of its WARPS warps takes every one in so many: it
 * makes dx of them, and keeps its sums for weight and bias until the end. */
enum {
    WARPS = 4
};
template <int PACKS>
__device__ __forceinline__ void run_rows(const T *x, const T *w, const O *g, T *dx, const C *means,
                                         const C *scales, C *parts, i64 rows, i64 n,
                                         i64 rows_a_block, i64 row_blocks, const T *plus)
{
    __shared__ C part[WARPS][PACKS * 32 * V];
    column_sums<PACKS> sums;
    i64 block = blockIdx.x, end = (block + 1) * rows_a_block;
    end = end < rows ? end : rows;
    sums.clear();
    for (i64 row = block * rows_a_block + threadIdx.x / 32; row < end; row += WARPS)
        run<PACKS>(x + row * n, w, g + row * n, dx + row * n, plus ? plus + row * n : plus, (int)n,
                   means ? means[row] : C(0), scales[row], means != 0, sums);
    for (int which = 0; which < 2; which++) {
        __syncthreads();
#pragma unroll
        for (int p = 0; p < PACKS; p++)
#pragma unroll
            for (int v = 0; v < V; v++)
                part[threadIdx.x / 32][place_of(p) + v] =
                    which ? sums.bias[p * V + v] : sums.weight[p * V + v];
        __syncthreads();
        for (int column = threadIdx.x; column < n; column += 32 * WARPS) {
            C sum = 0;
#pragma unroll
            for (int k = 0; k < WARPS; k++)
                sum += part[k][column];
            parts[(which * row_blocks + block) * n + column] = sum;
        }
    }
}

PH_KERNEL __launch_bounds__(32 * WARPS, 3)
    KERNEL(const T *x, const T *w, const O *g, T *dx, const C *means, const C *scales, C *parts,
           i64 rows, i64 n, i64 rows_a_block, i64 row_blocks, i64 tiles, const T *plus)
{
    PH_WAIT();
#define RUN_ROWS(packs)                                                                            \
    run_rows<packs>(x, w, g, dx, means, scales, parts, rows, n, rows_a_block, row_blocks, plus)
    if (n > MANY * 3 / 4 * 32 * V)
        RUN_ROWS(MANY);
    else if (n > MANY / 4 * 32 * V)
        RUN_ROWS(MANY * 3 / 4);
    else
        RUN_ROWS(MANY / 4);
}
#elif defined PARTS
/* A block has 32 * V columns and rows_a_block rows, of which each of its 4 or 8 warps takes every
 * fourth or eighth: as the kernel above has its rows, where it could do the work. */
template <bool VECTORS>
__device__ __forceinline__ void add_rows(const T *x, const O *g, const C *means, const C *scales,
                                         i64 row, i64 end, i64 n, i64 column, C (&weight)[V],
                                         C (&bias)[V])
{
    const u32 warps = blockDim.x / 32;
#pragma unroll 4
    for (; row < end; row += warps) {
        C a[V], b[V], mean = means ? means[row] : C(0), scale = scales[row];
        if (VECTORS) {
            if (column >= n)
                continue;
            open(fetch(x + row * n + column), a);
            open_out(fetch_out(g + row * n + column), b);
        } else {
#pragma unroll
            for (int k = 0; k < V; k++) {
                bool in = column + 32 * k < n;
                a[k] = in ? value(x + row * n + column + 32 * k) : C(0);
                b[k] = in ? C(ph_get(g + row * n + column + 32 * k)) : C(0);
            }
        }
#pragma unroll
        for (int k = 0; k < V; k++) {
            weight[k] = add_product(weight[k], b[k], (a[k] - mean) * scale);
            bias[k] += b[k];
        }
    }
}

PH_KERNEL __launch_bounds__(256, 4)
    KERNEL(const T *x, const T *w, const O *g, T *dx, const C *means, const C *scales, C *parts,
           i64 rows, i64 n, i64 rows_a_block, i64 row_blocks, i64 tiles, const T *plus)
{
    __shared__ C sums[2][8][32 * V];
    PH_WAIT();
    u32 block = blockIdx.x / (u32)tiles, tile = blockIdx.x - block * (u32)tiles,
        warp = threadIdx.x / 32;
    i64 end = (block + 1) * rows_a_block, row = block * rows_a_block + warp;
    end = end < rows ? end : rows;
    C weight[V], bias[V];
#pragma unroll
    for (int k = 0; k < V; k++)
        weight[k] = bias[k] = C(0);
    bool vectors = n % V == 0 && (((u64)x | (u64)g) & 15) == 0;
    if (vectors)
        add_rows<true>(x, g, means, scales, row, end, n, (i64)tile * 32 * V + LANE * V, weight,
                       bias);
    else
        add_rows<false>(x, g, means, scales, row, end, n, (i64)tile * 32 * V + LANE, weight, bias);
#pragma unroll
    for (int k = 0; k < V; k++) {
        int place = vectors ? LANE * V + k : LANE + 32 * k;
        sums[0][warp][place] = weight[k];
        sums[1][warp][place] = bias[k];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * 32 * V; i += blockDim.x) {
        int which = i / (32 * V), place = i % (32 * V);
        i64 column = (i64)tile * 32 * V + place;
        C sum = 0;
        for (int k = 0; k < blockDim.x / 32; k++)
            sum += sums[which][k][place];
        if (column < n)
            parts[(which * row_blocks + block) * n + column] = sum;
    }
}
#endif

#ifdef PARTS_TOTAL
/* A block has 32 columns of weight's (the first half of the blocks) or bias's gradient; each of
 * 32 slices adds every 32nd block of rows. */
PH_KERNEL __launch_bounds__(1024)
    KERNEL(const C *parts, T *weight, T *bias, i64 n, i64 row_blocks, i64 tiles)
{
    __shared__ C sums[32][33];
    PH_WAIT();
    int which = blockIdx.x >= tiles, slice = threadIdx.x / 32;
    i64 tile = blockIdx.x - which * tiles, column = tile * 32 + LANE;
    T *out = which ? bias : weight;
    if (!out)
        return;
    C sum = 0;
#pragma unroll 4
    for (i64 b = slice; column < n && b < row_blocks; b += 32)
        sum += parts[(which * row_blocks + b) * n + column];
    sums[slice][LANE] = sum;
    __syncthreads();
    sum = ph_warp_sum(sums[LANE][slice]);
    if (LANE == 0 && tile * 32 + slice < n)
        ph_put(out + tile * 32 + slice, sum);
}
#endif
