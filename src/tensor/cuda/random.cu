/* SPDX-License-Identifier: MIT */
/* cuda/random.cu: random numbers, dropout and permutations. Behind draws.cu. T: the dtype; F:
 * the type to compute in; WORDS: of 32 bits, an element. One of FILL (a function of a pair),
 * NORMAL_OF (as well), POISSON, EVENTS, BERNOULLI (a function; T: the dtype of the
 * probabilities, OUT: an integer of the results' size), INTEGERS, RRELU (as FILL), DROPOUT,
 * DROPOUT_GRADIENT, PERMUTATION, SHORT_PERMUTATION says which kernel it is. A thread draws for
 * four elements. */
#define DRAW_PARAMETERS const u64 *seed_cell, const u64 *offset_cell, u64 seed, u64 offset
#define DRAW_BEGIN()                                                                               \
    PH_WAIT();                                                                                     \
    if (seed_cell)                                                                                 \
        seed = *seed_cell;                                                                         \
    offset = (offset_cell ? *offset_cell : 0) / 4 + offset / 4

template <int N> struct ph_word;
template <> struct ph_word<1> {
    typedef u32 type;
};
template <> struct ph_word<2> {
    typedef u64 type;
};

__device__ __forceinline__ void ph_draw_four(u32 *w, u64 seed, u64 block, u64 group)
{
    ph_words four = ph_philox(seed, block, group);
    for (int j = 0; j < 4; j++)
        w[j] = four.w[j];
}
__device__ __forceinline__ void ph_draw_four(u64 *w, u64 seed, u64 block, u64 group)
{
    ph_wide_four(w, seed, block, group);
}

/* Neighbours that are moved at once where they lie so that they can. */
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) ph_several {
    T at[N];
};
template <class T, int N> __device__ __forceinline__ bool ph_is_aligned(const T *p)
{
    return (u64)p % alignof(ph_several<T, N>) == 0;
}
template <class T, int N>
__device__ __forceinline__ void ph_load_several(ph_several<T, N> &x, const T *from, u64 n)
{
    if (n >= N && ph_is_aligned<T, N>(from)) {
        x = *(const ph_several<T, N> *)from;
        return;
    }
    for (int j = 0; j < N; j++)
        x.at[j] = j < n ? from[j] : T();
}
template <class T, int N>
__device__ __forceinline__ void ph_store_several(T *to, const ph_several<T, N> &x, u64 n)
{
    if (n >= N && ph_is_aligned<T, N>(to)) {
        *(ph_several<T, N> *)to = x;
        return;
    }
    for (int j = 0; j < N; j++)
        if (j < n)
            to[j] = x.at[j];
}

#define GROUP_BEGIN(size)                                                                          \
    u64 group = (u64)blockIdx.x * blockDim.x + threadIdx.x, first = group * size;                  \
    if (first >= count)                                                                            \
        return;                                                                                    \
    u64 n = count - first

#if defined FILL
PH_KERNEL KERNEL(T *out, DRAW_PARAMETERS, u64 count, f64 a, f64 b)
{
    DRAW_BEGIN();
    GROUP_BEGIN(4);
    ph_word<WORDS>::type w[4];
    F x[4];
    ph_several<T, 4> y;
    ph_draw_four(w, seed, offset, group);
    for (int j = 0; j < 4; j += 2)
        FILL(&x[j], &x[j + 1], w[j], w[j + 1], (F)a, (F)b);
    for (int j = 0; j < 4; j++)
        ph_put(&y.at[j], x[j]);
    ph_store_several(out + first, y, n);
}

#elif defined EVENTS
PH_KERNEL KERNEL(T *out, DRAW_PARAMETERS, u64 count, u64 threshold, u64 one)
{
    DRAW_BEGIN();
    GROUP_BEGIN(4);
    u32 w[4];
    ph_several<T, 4> y;
    ph_draw_four(w, seed, offset, group);
    for (int j = 0; j < 4; j++)
        y.at[j] = w[j] < threshold ? (T)one : (T)0;
    ph_store_several(out + first, y, n);
}

#elif defined NORMAL_OF
PH_KERNEL KERNEL(T *out, const T *mean, const T *deviation, DRAW_PARAMETERS, u64 count)
{
    DRAW_BEGIN();
    GROUP_BEGIN(4);
    ph_word<WORDS>::type w[4];
    F x[4];
    ph_several<T, 4> m, d, y;
    ph_load_several(m, mean + first, n);
    if (deviation)
        ph_load_several(d, deviation + first, n);
    ph_draw_four(w, seed, offset, group);
    for (int j = 0; j < 4; j += 2)
        NORMAL_OF(&x[j], &x[j + 1], w[j], w[j + 1], (F)0, (F)1);
    for (int j = 0; j < 4; j++)
        ph_put(&y.at[j], ph_get(&m.at[j]) + (deviation ? ph_get(&d.at[j]) * x[j] : x[j]));
    ph_store_several(out + first, y, n);
}

#elif defined POISSON
PH_KERNEL KERNEL(T *out, const T *rates, DRAW_PARAMETERS, u64 count)
{
    DRAW_BEGIN();
    GROUP_BEGIN(4);
    f64 rate[4], drawn[4];
    ph_several<T, 4> x, y;
    ph_load_several(x, rates + first, n);
    for (int j = 0; j < 4; j++)
        rate[j] = ph_get(&x.at[j]);
    ph_poisson_four(drawn, rate, seed, offset, group);
    for (int j = 0; j < 4; j++)
        ph_put(&y.at[j], (F)drawn[j]);
    ph_store_several(out + first, y, n);
}

#elif defined BERNOULLI
PH_KERNEL KERNEL(OUT *out, const T *p, DRAW_PARAMETERS, u64 count, u64 one)
{
    DRAW_BEGIN();
    GROUP_BEGIN(4);
    ph_word<WORDS>::type w[4];
    ph_several<T, 4> x;
    ph_several<OUT, 4> y;
    ph_load_several(x, p + first, n);
    ph_draw_four(w, seed, offset, group);
    for (int j = 0; j < 4; j++)
        y.at[j] = BERNOULLI(w[j], ph_get(&x.at[j])) ? (OUT)one : (OUT)0;
    ph_store_several(out + first, y, n);
}

#elif defined INTEGERS
PH_KERNEL KERNEL(T *out, DRAW_PARAMETERS, u64 count, u64 low, u64 range)
{
    DRAW_BEGIN();
    GROUP_BEGIN(4);
    u64 w[4];
    ph_several<T, 4> y;
    ph_draw_four(w, seed, offset, group);
    for (int j = 0; j < 4; j++)
        ph_put(&y.at[j], (F)(i64)ph_below(w[j], low, range));
    ph_store_several(out + first, y, n);
}

#elif defined RRELU
/* The slopes are rounded to the dtype first: backward finds those that forward had. */
PH_KERNEL KERNEL(T *y, const T *x, T *slopes, DRAW_PARAMETERS, u64 count, f64 low, f64 width)
{
    DRAW_BEGIN();
    GROUP_BEGIN(4);
    ph_word<WORDS>::type w[4];
    F drawn[4];
    ph_several<T, 4> from, to, slope;
    ph_load_several(from, x + first, n);
    ph_draw_four(w, seed, offset, group);
    for (int j = 0; j < 4; j += 2)
        RRELU(&drawn[j], &drawn[j + 1], w[j], w[j + 1], (F)low, (F)width);
    for (int j = 0; j < 4; j++) {
        F value = ph_get(&from.at[j]);
        ph_put(&slope.at[j], value > (F)0 ? (F)1 : drawn[j]);
        ph_put(&to.at[j], value * ph_get(&slope.at[j]));
    }
    ph_store_several(y + first, to, n);
    if (slopes)
        ph_store_several(slopes + first, slope, n);
}

#elif defined DROPOUT
/* Eight elements a thread, whose mask is a byte. */
PH_KERNEL KERNEL(T *y, const T *x, u8 *mask, DRAW_PARAMETERS, u64 count, u64 threshold, f64 scale)
{
    DRAW_BEGIN();
    GROUP_BEGIN(8);
    u32 w[8], kept = 0;
    ph_several<T, 8> from, to;
    ph_load_several(from, x + first, n);
    ph_draw_four(w, seed, offset, 2 * group);
    ph_draw_four(w + 4, seed, offset, 2 * group + 1);
    for (int j = 0; j < 8; j++) {
        bool keep = w[j] >= threshold;
        kept |= (u32)keep << j;
        ph_put(&to.at[j], keep ? ph_get(&from.at[j]) * (F)scale : (F)0);
    }
    ph_store_several(y + first, to, n);
    if (mask)
        mask[group] = (u8)kept;
}

#elif defined DROPOUT_GRADIENT
PH_KERNEL KERNEL(T *dx, const T *dy, const u8 *mask, u64 count, f64 scale)
{
    PH_WAIT();
    GROUP_BEGIN(8);
    ph_several<T, 8> from, to;
    ph_load_several(from, dy + first, n);
    u32 kept = mask[group];
    for (int j = 0; j < 8; j++)
        ph_put(&to.at[j], kept >> j & 1 ? ph_get(&from.at[j]) * (F)scale : (F)0);
    ph_store_several(dx + first, to, n);
}

#elif defined PERMUTATION
PH_KERNEL KERNEL(i64 *out, DRAW_PARAMETERS, u64 count, u32 high_bits, u32 low_bits)
{
    __shared__ u32 keys[PH_SHUFFLE_STEPS];
    DRAW_BEGIN();
    if (threadIdx.x < PH_SHUFFLE_STEPS / 4)
        ph_draw_four(keys + 4 * threadIdx.x, seed, offset, threadIdx.x);
    __syncthreads();
    u64 end = ((u64)blockIdx.x + 1) * 4 * blockDim.x;
    for (u64 i = (u64)blockIdx.x * 4 * blockDim.x + threadIdx.x; i < end && i < count;
         i += blockDim.x)
        out[i] = (i64)ph_shuffled(i, count, keys, high_bits, low_bits);
}

#elif defined SHORT_PERMUTATION
/* One block: each number goes to where its key stands among all keys. */
PH_KERNEL KERNEL(i64 *out, DRAW_PARAMETERS, u64 count)
{
    __shared__ u64 keys[1024];
    DRAW_BEGIN();
    if (4 * threadIdx.x < count)
        ph_draw_four(keys + 4 * threadIdx.x, seed, offset, threadIdx.x);
    __syncthreads();
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) {
        u64 key = keys[i];
        u32 place = 0;
        for (u32 j = 0; j < count; j++)
            place += keys[j] < key || (keys[j] == key && j < i);
        out[place] = i;
    }
}
#endif
