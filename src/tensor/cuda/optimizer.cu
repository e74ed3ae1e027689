/* SPDX-License-Identifier: MIT */
/* cuda/optimizer.cu: a step of SGD (SGD) or of Adam and AdamW (ADAM) over many tensors in one
 * launch; T is f32 or f64. AMSGRAD: with the largest second moments, which have a kernel of
 * their own: one for both would take more registers of all steps. ADVANCE: the kernel that
 * counts steps. The formulas are C as well: nn/optimizer/host.c takes them in (HOST). Nothing is
 * contracted, so that both give the same bits. */
#ifndef HOST
#define FN(type) __device__ __forceinline__ type
#define NAME(x)  x
#define ROOT(x)  ph_root(x)
__device__ __forceinline__ f32 ph_root(f32 x)
{
    return __fsqrt_rn(x);
}
__device__ __forceinline__ f64 ph_root(f64 x)
{
    return __dsqrt_rn(x);
}

#define TENSORS 64
#define CHUNK   4096
struct update_args {
    T *param[TENSORS];
    const T *grad[TENSORS];
    T *state0[TENSORS], *state1[TENSORS];
    const f64 *lr_at, *counters;
    i64 *steps;
    const f32 *grad_scale, *found_inf;
    i64 count[TENSORS];
    f64 lr, weight_decay, momentum, undampened, beta1, beta2, eps, bias1, bias2;
    u32 first[TENSORS], counter[TENSORS];
    u32 tensors, flags;
#ifdef AMSGRAD
    T *state2[TENSORS];
#endif
};

#endif

/* torch.optim's formulas in T; the numbers are made in double. */
#if defined SGD || defined ADAM
/* The factor of scaled gradients: the reciprocal, rounded to f32. */
FN(float) NAME(unscale_of)(float scale)
{
    return (float)(1.0 / (double)scale);
}

/* Where steps are counted before the update: 2 (the state has no contents yet) in the first one.
 * For Adam zeros are as good. */
FN(unsigned) NAME(fresh_by_counter)(double steps)
{
#ifdef SGD
    return steps == 1 ? 2 : 0;
#else
    (void)steps;
    return 0;
#endif
}
#endif

#ifdef SGD
typedef struct NAME(numbers) {
    T lr, weight_decay, momentum, undampened, sign;
} NAME(numbers);

FN(NAME(numbers)) NAME(numbers_of)(const update_args *a, double lr, double bias1, double bias2)
{
    (void)bias1;
    (void)bias2;
    NAME(numbers)
    n = {(T)lr, (T)a->weight_decay, (T)a->momentum, (T)a->undampened, (T)(a->flags & 16 ? -1 : 1)};
    return n;
}

FN(void) NAME(update)(T *p, T g, T *s, T *unused, T *unused_too, NAME(numbers) n, const int flags)
{
    (void)unused;
    (void)unused_too;
    g = n.sign * g + n.weight_decay * *p;
    if (flags & 1) {
        const T m = flags & 2 ? g : n.momentum * *s + n.undampened * g;
        *s = m;
        g = flags & 4 ? g + n.momentum * m : m;
    }
    *p = *p - n.lr * g;
}
#endif
#ifdef ADAM
typedef struct NAME(numbers) {
    T keep, weight_decay, less1, beta2, less2, root, eps, size, sign;
} NAME(numbers);

FN(NAME(numbers)) NAME(numbers_of)(const update_args *a, double lr, double bias1, double bias2)
{
    const bool decoupled = a->flags & 8;
    NAME(numbers)
    n = {(T)(decoupled ? 1 - lr * a->weight_decay : 1),
         (T)(decoupled ? 0 : a->weight_decay),
         (T)(1 - a->beta1),
         (T)a->beta2,
         (T)(1 - a->beta2),
         (T)bias2,
         (T)a->eps,
         (T)(lr / bias1),
         (T)(a->flags & 16 ? -1 : 1)};
    return n;
}

FN(void) NAME(update)(T *p, T g, T *s, T *t, T *largest, NAME(numbers) n, const int flags)
{
    const T x = *p * n.keep, before = flags & 2 ? 0 : *s;
    g = n.sign * g + n.weight_decay * x;
    const T m = before + n.less1 * (g - before),
            v = (flags & 2 ? 0 : n.beta2 * *t) + n.less2 * g * g;
    T large = v;
    *s = m;
    *t = v;
    if (flags & 32) { /* no number is larger than a NaN */
        large = flags & 2 || v > *largest || v != v ? v : *largest;
        *largest = large;
    }
    *p = x - n.size * (m / (ROOT(large) / n.root + n.eps));
}
#endif

#ifndef HOST
#ifdef ADVANCE
struct advance_args {
    f64 *counters;
    const f32 *found_inf;
    f64 beta1, beta2;
    i64 count;
    u64 mask[32];
};
PH_KERNEL KERNEL(const __grid_constant__ advance_args a)
{
    PH_WAIT();
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (a.found_inf && *a.found_inf != 0)
        return;
    if (i >= a.count || !(a.mask[i / 64] >> i % 64 & 1))
        return;
    f64 *c = a.counters + i * 3, t = c[0] + 1;
    c[0] = t;
    c[1] = 1 - pow(a.beta1, t);
    c[2] = sqrt(1 - pow(a.beta2, t));
}
#else
#define V (16 / (int)sizeof(T))
struct alignas(16) vector {
    T at[V];
};

/* The last tensor that begins at or before this block. */
__device__ __forceinline__ u32 tensor_of(const update_args &a, u32 block)
{
    u32 low = 0, high = a.tensors;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (a.first[middle] <= block)
            low = middle;
        else
            high = middle;
    }
    return low;
}

template <int FLAGS>
__device__ __forceinline__ void run(T *__restrict__ p, const T *__restrict__ g, T *__restrict__ s,
                                    T *__restrict__ t, T *__restrict__ w, int n, T unscale,
                                    const numbers &of)
{
#ifdef SGD
    const bool reads = (FLAGS & 3) == 1, writes0 = FLAGS & 1, writes1 = false, reads1 = false;
#else
    const bool reads = !(FLAGS & 2), writes0 = true, writes1 = true, reads1 = reads;
#endif
#ifdef AMSGRAD
    const int flags = FLAGS | 32;
    const bool writes2 = true, reads2 = reads;
#else
    const int flags = FLAGS;
    const bool writes2 = false, reads2 = false;
#endif
    int vectors = 0;
    if ((((u64)p | (u64)g | (writes0 ? (u64)s : 0) | (writes1 ? (u64)t : 0) |
          (writes2 ? (u64)w : 0)) &
         15) == 0)
        vectors = n / V;
#pragma unroll 2
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
        vector vp = ((vector *)p)[i], vg = ((const vector *)g)[i], vs, vt, vw;
        if (reads)
            vs = ((vector *)s)[i];
        if (reads1)
            vt = ((vector *)t)[i];
        if (reads2)
            vw = ((vector *)w)[i];
#pragma unroll
        for (int k = 0; k < V; k++)
            update(&vp.at[k], vg.at[k] * unscale, &vs.at[k], &vt.at[k], &vw.at[k], of, flags);
        ((vector *)p)[i] = vp;
        if (writes0)
            ((vector *)s)[i] = vs;
        if (writes1)
            ((vector *)t)[i] = vt;
        if (writes2)
            ((vector *)w)[i] = vw;
    }
    for (int i = vectors * V + threadIdx.x; i < n; i += blockDim.x) {
        T unused = 0;
        update(p + i, g[i] * unscale, writes0 ? s + i : &unused, writes1 ? t + i : &unused,
               writes2 ? w + i : &unused, of, flags);
    }
}

PH_KERNEL KERNEL(const __grid_constant__ update_args a)
{
    PH_WAIT();
    if (a.found_inf && *a.found_inf != 0)
        return;
    u32 i = tensor_of(a, blockIdx.x), flags = a.flags;
    i64 begin = (i64)(blockIdx.x - a.first[i]) * CHUNK, left = a.count[i] - begin;
    int n = left < CHUNK ? (int)left : CHUNK;
    f64 rate = a.lr_at ? *a.lr_at : a.lr, bias1 = a.bias1, bias2 = a.bias2;
    if (a.counters) {
        bias1 = a.counters[a.counter[i] * 3 + 1];
        bias2 = a.counters[a.counter[i] * 3 + 2];
        flags |= fresh_by_counter(a.counters[a.counter[i] * 3]);
    }
    if (a.steps && blockIdx.x == 0 && threadIdx.x == 0)
        ++*a.steps;
    const numbers of = numbers_of(&a, rate, bias1, bias2);
    T *p = a.param[i] + begin, *s = a.state0[i] + begin, *t = a.state1[i] + begin, *w = nullptr;
#ifdef AMSGRAD
    w = a.state2[i] + begin;
#endif
    const T *g = a.grad[i] + begin;
    const T unscale = a.grad_scale ? (T)unscale_of(*a.grad_scale) : (T)1;
    switch (flags & 7) {
#ifdef SGD
    case 0:
    case 2:
    case 4:
    case 6:
        run<0>(p, g, s, t, w, n, unscale, of);
        break;
    case 1:
        run<1>(p, g, s, t, w, n, unscale, of);
        break;
    case 3:
        run<3>(p, g, s, t, w, n, unscale, of);
        break;
    case 5:
        run<5>(p, g, s, t, w, n, unscale, of);
        break;
    default:
        run<7>(p, g, s, t, w, n, unscale, of);
#else
    case 2:
        run<2>(p, g, s, t, w, n, unscale, of);
        break;
    default:
        run<0>(p, g, s, t, w, n, unscale, of);
#endif
    }
}
#endif
#endif
