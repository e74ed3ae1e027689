/* SPDX-License-Identifier: MIT */
/* cuda/cross_entropy.cu: the loss of rows of logits against class numbers. LOSS: a block reads a
 * row once, and keeps its maximum and one over its sum of exponentials; of a row's `width`
 * elements the first n are classes, and the others have no gradient. TOTAL: one block adds the
 * rows' terms. LOSS_GRAD: a block reads a piece of a row and writes its gradient. A row that is
 * ignored keeps 0; one whose target is no class keeps NaN. WIDE: logits are half types, the loss
 * and its gradient f32. SQUARES, SQUARES_TOTAL, SQUARES_GRAD: mean squared error. */
__device__ __forceinline__ i64 target_at(const void *targets, i64 wide, i64 i)
{
    return wide ? ((const i64 *)targets)[i] : (i64)((const i32 *)targets)[i];
}

#ifdef WIDE
typedef f32 L;
#else
typedef T L;
#endif

/* WARPS: rows are short, and a block of 8 warps has as many of them. */
#ifdef WARPS
#define ROW  ((i64)blockIdx.x * 8 + threadIdx.x / 32)
#define ME   ((int)LANE)
#define STEP 32
#else
#define ROW  ((i64)blockIdx.x)
#define ME   ((int)threadIdx.x)
#define STEP ((i64)blockDim.x)
#endif

#ifdef LOSS
enum {
    BATCH = sizeof(T) == 8 ? 2 : 4
};
PH_KERNEL __launch_bounds__(512)
    KERNEL(const T *logits, const void *targets, C *saved, C *terms, L *loss, i64 rows, i64 n,
           i64 width, i64 wide, i64 ignores, i64 ignored, i64 each)
{
    PH_WAIT();
    i64 row = ROW;
    if (row >= rows)
        return;
    i64 target = target_at(targets, wide, row);
    C most = 0, inverse = 0, term = 0;
    if (!(ignores && target == ignored)) {
        const T *x = logits + row * width;
        row_parts parts(x, n);
        i64 extra = parts.extra(ME);
        const T *xv = x + parts.head;
        const uint4 nothing = all_of(MINUS_INF);
        online all;
        for (i64 i = ME; i < parts.vectors; i += BATCH * STEP) {
            uint4 w[BATCH];
            C a[BATCH * V];
#pragma unroll
            for (int b = 0; b < BATCH; b++)
                w[b] = i + b * STEP < parts.vectors ? fetch(xv + (i + b * STEP) * V) : nothing;
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                C part[V];
                open(w[b], part);
#pragma unroll
                for (int k = 0; k < V; k++)
                    a[b * V + k] = part[k];
            }
            all.add(a);
        }
        if (extra >= 0)
            all.add_one(value(x + extra));
#ifdef WARPS
        all.unite_warp();
#else
        all.unite();
#endif
        bool inside = target >= 0 && target < n;
        most = all.most;
        inverse = inside ? C(1) / all.sum : NOT_A_NUMBER;
        if (ME == 0)
            term = inside ? log_of(all.sum) - (value(x + target) - most) : NOT_A_NUMBER;
    }
    if (ME != 0)
        return;
    saved[2 * row] = most;
    saved[2 * row + 1] = inverse;
    if (each)
        ph_put(loss + row, term);
    else
        terms[row] = term;
}
#endif

#ifdef TOTAL
PH_KERNEL __launch_bounds__(1024) KERNEL(const C *terms, const void *targets, L *loss, C *scale,
                                         i64 rows, i64 wide, i64 ignores, i64 ignored, i64 mean)
{
    PH_WAIT();
    C sum = 0;
    i32 count = 0;
#pragma unroll 4
    for (i64 i = threadIdx.x; i < rows; i += blockDim.x) {
        sum += terms[i];
        count += !(ignores && target_at(targets, wide, i) == ignored);
    }
    sum = ph_block_sum(sum);
    count = ph_block_sum(count);
    if (threadIdx.x != 0)
        return;
    ph_put(loss, mean ? sum / C(count) : sum);
    *scale = mean ? C(1) / C(count) : C(1);
}
#endif

#ifdef LOSS_GRAD
struct row_values {
    i64 n, width, target;
    C most, inverse, scale;
    bool take;
};
/* Elements [at, at + V) of a row; those outside it are left alone. w: what was read of them,
 * where they are all inside. */
__device__ __forceinline__ void write_gradient(const row_values &r, const T *x, T *d, i64 at,
                                               const uint4 &w, bool same)
{
    C factor = r.inverse * r.scale;
    if (at >= 0 && at + V <= r.n) {
        C a[V];
        open(w, a);
#pragma unroll
        for (int k = 0; k < V; k++) {
            C e = exp_of(a[k] - r.most);
            a[k] = at + k == r.target ? (e * r.inverse - C(1)) * r.scale : e * factor;
            if (!r.take)
                a[k] = C(0);
        }
        store_if(same, d + at, a);
    } else if (at < r.width) {
        for (int k = 0; k < V; k++) {
            if (at + k < 0 || at + k >= r.width)
                continue;
            if (at + k >= r.n) {
                ph_put(d + at + k, C(0));
                continue;
            }
            C e = r.take ? exp_of(value(x + at + k) - r.most) : C(0);
            C y = at + k == r.target ? (e * r.inverse - C(1)) * r.scale : e * factor;
            ph_put(d + at + k, r.take ? y : C(0));
        }
    }
}

/* A piece is 256 threads of BATCH vectors of 16 bytes, aligned in memory: the first piece of a
 * row begins before it. */
enum {
    BATCH = 2
};
PH_KERNEL __launch_bounds__(256)
    KERNEL(const T *logits, const void *targets, const C *saved, const L *g, const C *scales,
           T *out, i64 rows, i64 n, i64 width, i64 wide, i64 ignores, i64 ignored, i64 each,
           i64 pieces)
{
    PH_WAIT();
#ifdef WARPS
    i64 row = ROW, piece = 0;
    if (row >= rows)
        return;
#else
    i64 row = blockIdx.x / (u32)pieces, piece = blockIdx.x - (u32)row * (u32)pieces;
#endif
    row_values r;
    r.n = n;
    r.width = width;
    r.target = target_at(targets, wide, row);
    r.take = !(ignores && r.target == ignored);
    const T *x = logits + row * width;
    T *d = out + row * width;
    bool same = same_alignment(x, d);
    i64 first = (piece * (BATCH * 256) + ME) * V - (i64)((u64)x / sizeof(T) % V);
    r.most = saved[2 * row];
    r.inverse = saved[2 * row + 1];
    r.scale = C(ph_get(g + (each ? row : 0))) * (scales ? *scales : C(1));
#ifdef WARPS
    for (; first < width; first += BATCH * STEP * V)
#endif
    {
        uint4 w[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            i64 at = first + b * STEP * V;
            w[b] = r.take && at >= 0 && at + V <= n ? fetch(x + at) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int b = 0; b < BATCH; b++)
            write_gradient(r, x, d, first + b * STEP * V, w[b], same);
    }
}
#endif

#ifdef SQUARES
/* A block adds the squares of PIECE differences. */
PH_KERNEL __launch_bounds__(256) KERNEL(const T *a, const T *b, C *parts, i64 n, i64 piece)
{
    PH_WAIT();
    i64 begin = blockIdx.x * piece, end = begin + piece < n ? begin + piece : n;
    bool vectors = (((u64)a | (u64)b) & 15) == 0;
    i64 whole = vectors ? (end - begin) / V : 0;
    C sum = 0;
    for (i64 i = threadIdx.x; i < whole; i += 256) {
        C x[V], y[V];
        open(fetch(a + begin + i * V), x);
        open(fetch(b + begin + i * V), y);
#pragma unroll
        for (int k = 0; k < V; k++)
            sum += (x[k] - y[k]) * (x[k] - y[k]);
    }
    for (i64 i = begin + whole * V + threadIdx.x; i < end; i += 256) {
        C d = value(a + i) - value(b + i);
        sum += d * d;
    }
    sum = ph_block_sum(sum);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = sum;
}
#endif

#ifdef SQUARES_TOTAL
PH_KERNEL __launch_bounds__(1024) KERNEL(const C *parts, T *loss, i64 count, i64 n)
{
    PH_WAIT();
    C sum = 0;
    for (i64 i = threadIdx.x; i < count; i += blockDim.x)
        sum += parts[i];
    sum = ph_block_sum(sum);
    if (threadIdx.x == 0)
        ph_put(loss, sum / C(n));
}
#endif

#ifdef SQUARES_GRAD
/* da, db: either may be NULL. */
PH_KERNEL __launch_bounds__(256)
    KERNEL(const T *a, const T *b, const T *g, T *da, T *db, i64 n, i64 piece)
{
    PH_WAIT();
    i64 begin = blockIdx.x * piece, end = begin + piece < n ? begin + piece : n;
    bool vectors = (((u64)a | (u64)b | (u64)da | (u64)db) & 15) == 0;
    i64 whole = vectors ? (end - begin) / V : 0;
    C factor = C(2) / C(n) * value(g);
    for (i64 i = threadIdx.x; i < whole; i += 256) {
        C x[V], y[V];
        open(fetch(a + begin + i * V), x);
        open(fetch(b + begin + i * V), y);
#pragma unroll
        for (int k = 0; k < V; k++) {
            x[k] = (x[k] - y[k]) * factor;
            y[k] = -x[k];
        }
        if (da)
            store(da + begin + i * V, x);
        if (db)
            store(db + begin + i * V, y);
    }
    for (i64 i = begin + whole * V + threadIdx.x; i < end; i += 256) {
        C d = (value(a + i) - value(b + i)) * factor;
        if (da)
            ph_put(da + i, d);
        if (db)
            ph_put(db + i, -d);
    }
}
#endif
