/* SPDX-License-Identifier: MIT */
/* cuda/softmax.cu: softmax and log_softmax, forward (x gives y) and, with GRAD, backward (x is
 * the result, g its gradient, y the operand's). SMALL: a warp for each row; ROW: a block for
 * each row; COLUMNS: rows that lie across memory. */
#ifdef GRAD
#define SUMMAND(x, g) (log ? (g) : (x) * (g))
#define RESULT(x, g)  (log ? (g)-exp_of(x) * sum : (x) * ((g)-sum))
#else
#define RESULT(x) (log ? ((x)-most) - shift : exp_of((x)-most) * scale)
#endif

#ifdef SMALL
template <int E, bool VECTORS> struct small {
    typedef spread<E, VECTORS> at;
#ifdef GRAD
    __device__ static void run(const T *x, const T *g, T *y, int n, bool log)
    {
        C a[E], b[E], sum = 0;
        at::load(x, n, LANE, 32, a, C(0));
        at::load(g, n, LANE, 32, b, C(0));
#pragma unroll
        for (int k = 0; k < E; k++)
            sum += SUMMAND(a[k], b[k]);
        sum = ph_warp_sum(sum);
#pragma unroll
        for (int k = 0; k < E; k++)
            a[k] = RESULT(a[k], b[k]);
        at::save(y, n, LANE, 32, a);
    }
#else
    __device__ static void run(const T *x, const T *, T *y, int n, bool log)
    {
        C a[E], most = LOWEST, sum = 0;
        at::load(x, n, LANE, 32, a, MINUS_INF);
#pragma unroll
        for (int k = 0; k < E; k++)
            most = a[k] > most ? a[k] : most;
        most = ph_warp_max(most);
#pragma unroll
        for (int k = 0; k < E; k++) {
            C e = exp_of(a[k] - most);
            sum += e;
            a[k] = log ? a[k] - most : e;
        }
        sum = ph_warp_sum(sum);
        C scale = C(1) / sum, shift = log_of(sum);
#pragma unroll
        for (int k = 0; k < E; k++)
            a[k] = log ? a[k] - shift : a[k] * scale;
        at::save(y, n, LANE, 32, a);
    }
#endif
};

PH_KERNEL __launch_bounds__(128)
    KERNEL(const T *x, const T *g, T *y, i64 rows, i64 n, i64 inner, i64 log, i64 cached)
{
    PH_WAIT();
    i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= rows)
        return;
    bool vectors = n % V == 0 && (((u64)x | (u64)y) & 15) == 0;
    x += row * n;
    y += row * n;
#ifdef GRAD
    vectors = vectors && ((u64)g & 15) == 0;
    g += row * n;
#endif
    if (vectors && n > 256)
        small<32, true>::run(x, g, y, (int)n, log != 0);
    else if (vectors)
        small<8, true>::run(x, g, y, (int)n, log != 0);
    else if (n > 256)
        small<32, false>::run(x, g, y, (int)n, log != 0);
    else
        small<8, false>::run(x, g, y, (int)n, log != 0);
}
#endif

#ifdef ROW
/* The row is read once where it fits the block's shared memory: what a thread read it keeps there
 * (cached). A thread has BATCH loads under way. */
extern __shared__ uint4 kept[];

#ifdef GRAD
enum {
    BATCH = 2
};
PH_KERNEL __launch_bounds__(1024, 1)
    KERNEL(const T *x, const T *g, T *y, i64 rows, i64 n, i64 inner, i64 log, i64 cached)
{
    PH_WAIT();
    x += blockIdx.x * n;
    g += blockIdx.x * n;
    y += blockIdx.x * n;
    row_parts parts(x, n);
    bool same_g = same_alignment(x, g), same_y = same_alignment(x, y);
    i64 extra = parts.extra((int)threadIdx.x), step = blockDim.x;
    const T *xv = x + parts.head, *gv = g + parts.head;
    C sum = 0;
    if (extra >= 0)
        sum = SUMMAND(value(x + extra), value(g + extra));
    for (i64 i = threadIdx.x; i < parts.vectors; i += BATCH * step) {
        uint4 w[BATCH], u[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            bool in = i + b * step < parts.vectors;
            w[b] = in ? fetch(xv + (i + b * step) * V) : make_uint4(0, 0, 0, 0);
            u[b] = in ? fetch_anywhere(same_g, gv + (i + b * step) * V) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            C a[V], c[V];
            open(w[b], a);
            open(u[b], c);
            if (cached && i + b * step < parts.vectors) {
                kept[2 * (i + b * step)] = w[b];
                kept[2 * (i + b * step) + 1] = u[b];
            }
#pragma unroll
            for (int k = 0; k < V; k++)
                sum += SUMMAND(a[k], c[k]);
        }
    }
    sum = block_sum<0>(sum);
    if (extra >= 0)
        ph_put(y + extra, RESULT(value(x + extra), value(g + extra)));
    for (i64 i = threadIdx.x; i < parts.vectors; i += step) {
        C a[V], c[V];
        open(cached ? kept[2 * i] : fetch(xv + i * V), a);
        open(cached ? kept[2 * i + 1] : fetch_anywhere(same_g, gv + i * V), c);
#pragma unroll
        for (int k = 0; k < V; k++)
            a[k] = RESULT(a[k], c[k]);
        store_if(same_y, y + parts.head + i * V, a);
    }
}
#else
enum {
    BATCH = sizeof(T) == 8 ? 2 : 4
};
PH_KERNEL __launch_bounds__(1024, 1)
    KERNEL(const T *x, const T *g, T *y, i64 rows, i64 n, i64 inner, i64 log, i64 cached)
{
    PH_WAIT();
    x += blockIdx.x * n;
    y += blockIdx.x * n;
    row_parts parts(x, n);
    bool same_y = same_alignment(x, y);
    i64 extra = parts.extra((int)threadIdx.x), step = blockDim.x;
    const T *xv = x + parts.head;
    const uint4 nothing = all_of(MINUS_INF);
    online all;
    if (extra >= 0)
        all.add_one(value(x + extra));
    for (i64 i = threadIdx.x; i < parts.vectors; i += BATCH * step) {
        uint4 w[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++)
            w[b] = i + b * step < parts.vectors ? fetch(xv + (i + b * step) * V) : nothing;
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            C a[V];
            if (cached && i + b * step < parts.vectors)
                kept[i + b * step] = w[b];
            open(w[b], a);
            all.add(a);
        }
    }
    all.unite();
    C most = all.most, scale = C(1) / all.sum, shift = log_of(all.sum);
    if (extra >= 0)
        ph_put(y + extra, RESULT(value(x + extra)));
    for (i64 i = threadIdx.x; i < parts.vectors; i += step) {
        C a[V];
        open(cached ? kept[i] : fetch(xv + i * V), a);
#pragma unroll
        for (int k = 0; k < V; k++)
            a[k] = RESULT(a[k]);
        store_if(same_y, y + parts.head + i * V, a);
    }
}
#endif
#endif

#ifdef COLUMNS
/* A block has 32 columns, neighbours in memory, in 8 slices: each takes every eighth element. */
PH_KERNEL __launch_bounds__(256)
    KERNEL(const T *x, const T *g, T *y, i64 rows, i64 n, i64 inner, i64 log, i64 cached)
{
    __shared__ C part[2][8][32];
    PH_WAIT();
    i64 column = (i64)blockIdx.x * 32 + LANE;
    int slice = (int)(threadIdx.x / 32);
    bool mine = column < rows;
    i64 first = mine ? column / inner * n * inner + column % inner : 0;
    x += first;
    y += first;
#ifdef GRAD
    g += first;
    C sum = 0;
    for (i64 j = slice; mine && j < n; j += 8)
        sum += SUMMAND(value(x + j * inner), value(g + j * inner));
    part[0][slice][LANE] = sum;
    __syncthreads();
    sum = 0;
    for (int s = 0; s < 8; s++)
        sum += part[0][s][LANE];
    for (i64 j = slice; mine && j < n; j += 8)
        ph_put(y + j * inner, RESULT(value(x + j * inner), value(g + j * inner)));
#else
    online mine_alone;
    for (i64 j = slice; mine && j < n; j += 8)
        mine_alone.add_one(value(x + j * inner));
    part[0][slice][LANE] = mine_alone.most;
    part[1][slice][LANE] = mine_alone.sum;
    __syncthreads();
    C most = LOWEST, sum = 0;
    for (int s = 0; s < 8; s++)
        most = part[0][s][LANE] > most ? part[0][s][LANE] : most;
    for (int s = 0; s < 8; s++)
        sum += part[1][s][LANE] * exp_of(part[0][s][LANE] - most);
    C scale = C(1) / sum, shift = log_of(sum);
    for (i64 j = slice; mine && j < n; j += 8)
        ph_put(y + j * inner, RESULT(value(x + j * inner)));
#endif
}
#endif
