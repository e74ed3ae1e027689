/* SPDX-License-Identifier: MIT */
/* cuda/indexing.cu: reading and writing where an index says. U is a word of an element's size
 * (TAKE, GATHER, WRITE, WINNERS_GRAD); T a dtype (ADD_COLUMNS, ADD_SORTED, ADD_PARTS). An index
 * is checked each time it is used. */
__device__ __forceinline__ i64 index_at(const void *index, i64 wide, i64 i)
{
    return wide ? ((const i64 *)index)[i] : (i64)((const i32 *)index)[i];
}

/* Where the elements of an index tensor point: n places along the axis, step apart; dim and
 * stride are those of the index tensor and of what it points into, with a stride of 0 along the
 * axis. */
struct places {
    i64 rank, n, step;
    i64 dim[8], stride[8];
};
/* Of element i of the index tensor, without the axis. */
__device__ __forceinline__ i64 place_of(const places &at, i64 i)
{
    i64 place = 0;
    for (int d = (int)at.rank - 1; d >= 0; d--) {
        i64 next;
        if (i < 0x7fffffff && at.dim[d] < 0x7fffffff)
            next = (i64)((u32)i / (u32)at.dim[d]);
        else
            next = i / at.dim[d];
        place += (i - next * at.dim[d]) * at.stride[d];
        i = next;
    }
    return place;
}
#define ITEM ((i64)blockIdx.x * blockDim.x + threadIdx.x)

#ifdef TAKE
/* out[o][i][r] = x[o][index[i]][r]: 512 words of a block. */
__device__ __forceinline__ void set_bad(uint4 *to, u64 bad)
{
    *to = make_uint4((u32)bad, (u32)(bad >> 32), (u32)bad, (u32)(bad >> 32));
}
template <class W> __device__ __forceinline__ void set_bad(W *to, u64 bad)
{
    *to = (W)bad;
}
template <class I>
__device__ __forceinline__ void take(const U *x, const void *index, U *out, I total, I n, I count,
                                     I inner, i64 wide, u64 bad)
{
    bool one = total == count * inner;
    U word[2];
#pragma unroll
    for (int k = 0; k < 2; k++) {
        I i = (I)blockIdx.x * 512 + k * 256 + threadIdx.x;
        if (i >= total)
            continue;
        I line = i / inner, r = i - line * inner, o = one ? 0 : line / count;
        i64 v = index_at(index, wide, line - o * count);
        if (v >= 0 && v < (i64)n)
            word[k] = x[((i64)o * n + v) * inner + r];
        else
            set_bad(&word[k], bad);
    }
#pragma unroll
    for (int k = 0; k < 2; k++) {
        I i = (I)blockIdx.x * 512 + k * 256 + threadIdx.x;
        if (i < total)
            out[i] = word[k];
    }
}
PH_KERNEL __launch_bounds__(256) KERNEL(const U *x, const void *index, U *out, i64 total, i64 n,
                                        i64 count, i64 inner, i64 wide, u64 bad)
{
    PH_WAIT();
    if (total < 0x7fff0000 && n < 0x7fff0000)
        take<u32>(x, index, out, (u32)total, (u32)n, (u32)count, (u32)inner, wide, bad);
    else
        take<i64>(x, index, out, total, n, count, inner, wide, bad);
}
#endif

#ifdef GATHER
PH_KERNEL __launch_bounds__(256)
    KERNEL(const U *x, const void *index, U *out, places at, i64 total, i64 wide, u64 bad)
{
    PH_WAIT();
    i64 i = ITEM;
    if (i >= total)
        return;
    i64 v = index_at(index, wide, i);
    out[i] = v >= 0 && v < at.n ? x[place_of(at, i) + v * at.step] : (U)bad;
}
#endif

#ifdef CLAIM
/* The last element in memory that points to a place gets it: 1 + its number; the order in which
 * they come does not matter. */
PH_KERNEL __launch_bounds__(256)
    KERNEL(const void *index, u32 *winners, places at, i64 total, i64 wide)
{
    PH_WAIT();
    i64 i = ITEM;
    if (i >= total)
        return;
    i64 v = index_at(index, wide, i);
    if (v >= 0 && v < at.n)
        atomicMax(winners + place_of(at, i) + v * at.step, (u32)i + 1);
}
#endif

#ifdef WRITE
/* Winners write their element of src; src NULL: all write 0. */
PH_KERNEL __launch_bounds__(256) KERNEL(const U *src, const void *index, const u32 *winners, U *out,
                                        places at, i64 total, i64 wide)
{
    PH_WAIT();
    i64 i = ITEM;
    if (i >= total)
        return;
    i64 v = index_at(index, wide, i);
    if (v < 0 || v >= at.n)
        return;
    i64 place = place_of(at, i) + v * at.step;
    if (!src)
        out[place] = (U)0;
    else if (winners[place] == (u32)i + 1)
        out[place] = src[i];
}
#endif

#ifdef WINNERS_GRAD
PH_KERNEL __launch_bounds__(256) KERNEL(const U *g, const void *index, const u32 *winners, U *out,
                                        places at, i64 total, i64 wide)
{
    PH_WAIT();
    i64 i = ITEM;
    if (i >= total)
        return;
    i64 v = index_at(index, wide, i);
    i64 place = v >= 0 && v < at.n ? place_of(at, i) + v * at.step : -1;
    out[i] = place >= 0 && winners[place] == (u32)i + 1 ? g[place] : (U)0;
}
#endif

#ifdef ADD_COLUMNS
/* A thread goes along the axis, in order: nobody else adds to the places that it adds to. at: of
 * all but the axis. */
PH_KERNEL __launch_bounds__(128) KERNEL(const T *src, const void *index, T *out, places at,
                                        i64 columns, i64 length, i64 inner, i64 wide)
{
    PH_WAIT();
    i64 column = ITEM;
    if (column >= columns)
        return;
    i64 place = place_of(at, column), i = column / inner * inner * length + column % inner;
    for (i64 j = 0; j < length; j++, i += inner) {
        i64 v = index_at(index, wide, i);
        if (v >= 0 && v < at.n)
            out[place + v * at.step] += src[i];
    }
}
#endif

/* ---- sorting ---- the numbers 0.. of an index's elements by where they point (a key of 32
 * bits), stably: so equal ones stay in order. */
#ifdef KEYS
PH_KERNEL __launch_bounds__(256)
    KERNEL(const void *index, u32 *keys, u32 *order, places at, i64 total, i64 wide, i64 none)
{
    PH_WAIT();
    i64 i = ITEM;
    if (i >= total)
        return;
    i64 v = index_at(index, wide, i);
    keys[i] = v >= 0 && v < at.n ? (u32)(place_of(at, i) + v * at.step) : (u32)none;
    order[i] = (u32)i;
}
#endif

#ifdef RANK
/* A warp for each key counts those that come before it: total^2 / 32 steps of a warp in all. */
PH_KERNEL __launch_bounds__(256) KERNEL(const u32 *keys, u32 *sorted, u32 *order, i64 total)
{
    PH_WAIT();
    u32 me = blockIdx.x * 8 + threadIdx.x / 32, all = (u32)total, before = 0;
    if (me >= all)
        return;
    u32 key = keys[me];
    for (u32 i = threadIdx.x % 32; i < all; i += 32) {
        u32 other = keys[i];
        before += other < key || (other == key && i < me);
    }
    before = ph_warp_sum(before);
    if (threadIdx.x % 32 == 0) {
        sorted[before] = key;
        order[before] = me;
    }
}
#endif

/* By 8 bits at a time; a block has a tile of 2048 keys. */
#ifdef COUNT
PH_KERNEL __launch_bounds__(256)
    KERNEL(const u32 *keys, u32 *counts, i64 total, i64 shift, i64 tiles)
{
    __shared__ u32 count[256];
    PH_WAIT();
    count[threadIdx.x] = 0;
    __syncthreads();
    for (int k = 0; k < 8; k++) {
        i64 i = (i64)blockIdx.x * 2048 + k * 256 + threadIdx.x;
        if (i < total)
            atomicAdd(&count[keys[i] >> shift & 255], 1u);
    }
    __syncthreads();
    counts[threadIdx.x * tiles + blockIdx.x] = count[threadIdx.x];
}
#endif

#ifdef OFFSETS
/* Each count becomes the sum of those before it. One block. */
PH_KERNEL __launch_bounds__(1024) KERNEL(u32 *counts, i64 total)
{
    __shared__ u32 sums[32];
    PH_WAIT();
    u32 carry = 0, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (i64 base = 0; base < total; base += 1024) {
        i64 i = base + threadIdx.x;
        u32 mine = i < total ? counts[i] : 0, upto = mine, before = 0, all = 0;
        for (int d = 1; d < 32; d <<= 1) {
            u32 y = __shfl_up_sync(0xffffffffu, upto, d);
            upto += lane >= (u32)d ? y : 0;
        }
        if (lane == 31)
            sums[warp] = upto;
        __syncthreads();
        for (int w = 0; w < 32; w++) {
            before += (u32)w < warp ? sums[w] : 0;
            all += sums[w];
        }
        __syncthreads();
        if (i < total)
            counts[i] = carry + before + upto - mine;
        carry += all;
    }
}
#endif

#ifdef MOVE
PH_KERNEL __launch_bounds__(256)
    KERNEL(const u32 *keys, const u32 *order, const u32 *offsets, u32 *keys_out, u32 *order_out,
           i64 total, i64 shift, i64 tiles)
{
    __shared__ u32 next[8][257]; /* of each warp and digit; 256: beyond the end */
    PH_WAIT();
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    i64 first = (i64)blockIdx.x * 2048 + warp * 256 + lane;
    for (u32 i = threadIdx.x; i < 8 * 257; i += 256)
        ((u32 *)next)[i] = 0;
    __syncthreads();
    for (int k = 0; k < 8; k++) {
        i64 i = first + k * 32;
        if (i < total)
            atomicAdd(&next[warp][keys[i] >> shift & 255], 1u);
    }
    __syncthreads();
    u32 sum = offsets[threadIdx.x * tiles + blockIdx.x];
    for (int w = 0; w < 8; w++) {
        u32 mine = next[w][threadIdx.x];
        next[w][threadIdx.x] = sum;
        sum += mine;
    }
    __syncthreads();
    for (int k = 0; k < 8; k++) {
        i64 i = first + k * 32;
        u32 key = i < total ? keys[i] : 0, digit = i < total ? key >> shift & 255 : 256;
        u32 same = __match_any_sync(0xffffffffu, digit), before = __popc(same & ((1u << lane) - 1));
        u32 place = next[warp][digit] + before;
        __syncwarp();
        if (before == 0)
            next[warp][digit] += __popc(same);
        __syncwarp();
        if (i < total) {
            keys_out[place] = key;
            order_out[place] = order[i];
        }
    }
}
#endif

/* ---- adding what is sorted ---- out[o][key][r] gets the sum of src[o][order][r] over the
 * elements of that key, in order. A job, of one warp, is a run of at most 32 of them that begins
 * at a multiple of 32 from the key's first, and 32 * WIDTH columns. A key that has one run is
 * done with; of others, each run leaves its sum in parts: [o][2][runs][inner], 0: first runs, 1:
 * others, by slot / 32, which no two share. */
#if defined ADD_SORTED || defined ADD_PARTS
#ifdef WHOLE
typedef T C;
enum {
    WIDTH = 1
};
__device__ __forceinline__ C value(const T *p)
{
    return *p;
}
#else
enum {
    WIDTH = V
};
#endif
struct job {
    i64 outer, column;
    u32 slot;
    bool vectors;
};
__device__ __forceinline__ bool find_job(job &j, i64 number, i64 total, i64 tiles, i64 jobs)
{
    if (number >= jobs)
        return false;
    u32 lane = threadIdx.x % 32;
    i64 line = number / tiles;
    j.column = (number - line * tiles) * (32 * WIDTH) + (j.vectors ? lane * WIDTH : lane);
    j.outer = line / total;
    j.slot = (u32)(line - j.outer * total);
    return true;
}
__device__ __forceinline__ void give(T *out, bool onto, C sum)
{
    C all = onto ? (C)(value(out) + sum) : sum;
    ph_put(out, all);
}
#endif

#if defined ADD_SORTED || defined ADD_PARTS
/* How far from a slot, downwards or upwards, keys are the slot's, at most `limit` far: each step
 * of a warp looks at 32 of them. */
__device__ __forceinline__ u32 reach(const u32 *keys, u32 slot, int sign, u32 limit, u32 key)
{
    u32 low = 0, high = limit + 1, step;
    do {
        step = (high - low + 31) / 32;
        u32 far = low + (threadIdx.x % 32 + 1) * step;
        bool same = far < high && keys[slot + sign * (int)far] == key;
        low += __popc(__ballot_sync(0xffffffffu, same)) * step;
        high = low + step < high ? low + step : high;
    } while (step > 1);
    return low;
}
#endif

#ifdef ADD_SORTED
/* Whether slot begins a run; length: of the run, up to 33: more follow. number: of the run's
 * element that is the lane's. What may be needed is read at once. */
__device__ __forceinline__ bool find_run(const u32 *keys, const u32 *order, u32 slot, u32 total,
                                         u32 key, int &length, bool &first, u32 &number)
{
    u32 lane = threadIdx.x % 32, mine = slot + lane < total ? keys[slot + lane] : ~key;
    u32 before = slot > 0 ? keys[slot - 1] : ~key, far = slot >= 32 ? keys[slot - 32] : ~key;
    u32 after = slot + 32 < total ? keys[slot + 32] : ~key;
    number = slot + lane < total ? order[slot + lane] : 0;
    first = before != key;
    if (!first) {
        if (far != key)
            return false;
        if (reach(keys, slot, -1, slot, key) % 32 != 0)
            return false;
    }
    u32 equal = __ballot_sync(0xffffffffu, mine == key);
    length = equal == 0xffffffffu ? 32 + (after == key) : __ffs((int)~equal) - 1;
    return true;
}
template <bool VECTORS>
__device__ __forceinline__ void add_run(const T *src, i64 inner, i64 column, u32 number, int length,
                                        C (&sum)[WIDTH])
{
#pragma unroll
    for (int k = 0; k < WIDTH; k++)
        sum[k] = C(0);
#pragma unroll 8
    for (int r = 0; r < length; r++) {
        const T *row = src + (i64)__shfl_sync(0xffffffffu, number, r) * inner + column;
        if (VECTORS) {
#ifndef WHOLE
            C a[WIDTH];
            if (column < inner) {
                open(fetch(row), a);
#pragma unroll
                for (int k = 0; k < WIDTH; k++)
                    sum[k] += a[k];
            }
#endif
        } else {
#pragma unroll
            for (int k = 0; k < WIDTH; k++)
                if (column + 32 * k < inner)
                    sum[k] += value(row + 32 * k);
        }
    }
}
PH_KERNEL __launch_bounds__(128, 6)
    KERNEL(const T *src, const u32 *keys, const u32 *order, T *out, C *parts, i64 total, i64 n,
           i64 inner, i64 tiles, i64 jobs, i64 onto)
{
    PH_WAIT();
    job j;
    int length = 0;
    bool first = false;
    j.vectors = WIDTH > 1 && inner % WIDTH == 0 && ((u64)src & 15) == 0;
    if (!find_job(j, (i64)blockIdx.x * 4 + threadIdx.x / 32, total, tiles, jobs))
        return;
    u32 key = keys[j.slot], number;
    if (key >= n || !find_run(keys, order, j.slot, (u32)total, key, length, first, number))
        return;
    bool alone = first && length < 33;
    length = length < 32 ? length : 32;
    C sum[WIDTH];
    src += j.outer * total * inner;
    if (j.vectors)
        add_run<true>(src, inner, j.column, number, length, sum);
    else
        add_run<false>(src, inner, j.column, number, length, sum);
    T *to = out + (j.outer * n + key) * inner;
    C *part = parts + ((j.outer * 2 + !first) * ((total + 31) / 32) + j.slot / 32) * inner;
#ifndef WHOLE
    if (alone && !onto && j.vectors && ((u64)out & 15) == 0) {
        if (j.column < inner)
            store(to + j.column, sum);
        return;
    }
#endif
#pragma unroll
    for (int k = 0; k < WIDTH; k++) {
        i64 column = j.column + (j.vectors ? k : 32 * k);
        if (column >= inner)
            continue;
        if (alone)
            give(to + column, onto != 0, sum[k]);
        else
            part[column] = sum[k];
    }
}
#endif

#ifdef ADD_PARTS
/* A block for each multiple of 32, as slot, and 32 * WIDTH columns: it adds the runs of the key
 * there, if it has several and this is its first such slot. Each of 8 warps adds every eighth
 * run. */
PH_KERNEL __launch_bounds__(256) KERNEL(const u32 *keys, const C *parts, T *out, i64 total, i64 n,
                                        i64 inner, i64 tiles, i64 jobs, i64 onto)
{
    __shared__ C sums[8][32 * WIDTH];
    PH_WAIT();
    job j;
    j.vectors = false;
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, all = (u32)total;
    i64 line = blockIdx.x / tiles;
    j.column = (blockIdx.x - line * tiles) * (32 * WIDTH);
    j.outer = line / ((total + 31) / 32);
    u32 slot = (u32)(line - j.outer * ((total + 31) / 32)) * 32, key = keys[slot];
    u32 same = __ballot_sync(0xffffffffu, slot > lane && keys[slot - 1 - lane] == key);
    if (key >= n || same == 0xffffffffu)
        return;
    u32 head = slot - (u32)(__ffs((int)~same) - 1);
    if (head + 32 >= all || keys[head + 32] != key)
        return;
    u32 end = slot + reach(keys, slot, 1, all - 1 - slot, key) + 1;
    i64 runs = (total + 31) / 32;
    const C *first = parts + (j.outer * 2 * runs + head / 32) * inner + j.column;
    const C *others = parts + (j.outer * 2 + 1) * runs * inner + j.column;
    C sum[WIDTH];
#pragma unroll
    for (int k = 0; k < WIDTH; k++)
        sum[k] = warp == 0 && j.column + k * 32 + lane < inner ? first[k * 32 + lane] : C(0);
#pragma unroll 4
    for (u32 s = head + 32 * (warp + (warp == 0) * 8); s < end; s += 256) {
#pragma unroll
        for (int k = 0; k < WIDTH; k++)
            if (j.column + k * 32 + lane < inner)
                sum[k] += others[(i64)(s / 32) * inner + k * 32 + lane];
    }
#pragma unroll
    for (int k = 0; k < WIDTH; k++)
        sums[warp][k * 32 + lane] = sum[k];
    __syncthreads();
    for (int i = threadIdx.x; i < 32 * WIDTH; i += 256) {
        C whole = 0;
        for (int w = 0; w < 8; w++)
            whole += sums[w][i];
        if (j.column + i < inner)
            give(out + (j.outer * n + key) * inner + j.column + i, onto != 0, whole);
    }
}
#endif
