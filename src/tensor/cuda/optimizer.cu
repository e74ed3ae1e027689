/* SPDX-License-Identifier: MIT */
/* cuda/optimizer.cu: a step of an optimizer over many tensors in one launch. Before it stand the
 * formulas of one kind (update_sgd.cu and the others); T is f32 or f64, STATES the number of
 * state tensors that the arguments have. nn/optimizer/update.c is the host form: the same blocks,
 * the same bits, since nothing is contracted. */
#define TENSORS 64
#define CHUNK   4096
#define COUNTER 8
struct update_args {
    T *param[TENSORS];
    const T *grad[TENSORS];
    const f64 *lr_at;
    f64 *counters;
    i64 *steps;
    const f32 *grad_scale, *found_inf;
    i64 count[TENSORS];
    f64 lr, number[5], derived[3];
    u32 first[TENSORS], counter[TENSORS];
    u32 tensors, flags;
    T *state[STATES][TENSORS];
};

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
    int vectors = 0;
    if ((((u64)p | (u64)g | (WRITES(0, FLAGS) ? (u64)s : 0) | (WRITES(1, FLAGS) ? (u64)t : 0) |
          (WRITES(2, FLAGS) ? (u64)w : 0)) &
         15) == 0)
        vectors = n / V;
#pragma unroll 2
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
        vector vp = ((vector *)p)[i], vg = ((const vector *)g)[i], vs, vt, vw;
        if (READS(0, FLAGS))
            vs = ((vector *)s)[i];
        if (READS(1, FLAGS))
            vt = ((vector *)t)[i];
        if (READS(2, FLAGS))
            vw = ((vector *)w)[i];
#pragma unroll
        for (int k = 0; k < V; k++)
            update(&vp.at[k], vg.at[k] * unscale, &vs.at[k], &vt.at[k], &vw.at[k], of, FLAGS);
        ((vector *)p)[i] = vp;
        if (WRITES(0, FLAGS))
            ((vector *)s)[i] = vs;
        if (WRITES(1, FLAGS))
            ((vector *)t)[i] = vt;
        if (WRITES(2, FLAGS))
            ((vector *)w)[i] = vw;
    }
    for (int i = vectors * V + threadIdx.x; i < n; i += blockDim.x) {
        T unused = 0;
        update(p + i, g[i] * unscale, WRITES(0, FLAGS) ? s + i : &unused,
               WRITES(1, FLAGS) ? t + i : &unused, WRITES(2, FLAGS) ? w + i : &unused, of, FLAGS);
    }
}

PH_KERNEL KERNEL(const __grid_constant__ update_args a)
{
    PH_WAIT();
    if (a.found_inf && *a.found_inf != 0)
        return;
    u32 i = tensor_of(a, blockIdx.x);
    i64 begin = (i64)(blockIdx.x - a.first[i]) * CHUNK, left = a.count[i] - begin;
    int n = left < CHUNK ? (int)left : CHUNK;
    f64 derived[3] = {a.derived[0], a.derived[1], a.derived[2]};
    if (a.counters) {
        f64 *c = a.counters + (u64)a.counter[i] * COUNTER;
        derived[0] = c[5];
        derived[1] = c[6];
        derived[2] = c[7];
        if (begin == 0 && threadIdx.x == 0) { /* no block reads these */
            c[0] += 1;
            c[1] = c[3];
            c[2] = c[4];
        }
    }
    if (a.steps && blockIdx.x == 0 && threadIdx.x == 0)
        ++*a.steps;
    const numbers of = numbers_of(a.number, a.lr_at ? *a.lr_at : a.lr, derived, (int)a.flags);
    const T unscale = a.grad_scale ? (T)(f32)(1.0 / (f64)*a.grad_scale) : (T)1;
    T *state[3] = {nullptr, nullptr, nullptr};
#pragma unroll
    for (int k = 0; k < STATES; k++)
        state[k] = a.state[k][i] + begin;
    T *p = a.param[i] + begin;
    const T *g = a.grad[i] + begin;
    switch ((a.flags | FRESH_BY(a.flags, derived)) & VARIANT_MASK) {
#define CASE(FLAGS)                                                                                \
    case FLAGS:                                                                                    \
        run<FLAGS>(p, g, state[0], state[1], state[2], n, unscale, of);                            \
        break;
        VARIANTS(CASE)
    }
}
