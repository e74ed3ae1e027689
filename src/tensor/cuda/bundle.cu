/* SPDX-License-Identifier: MIT */
/* cuda/bundle.cu: many contiguous pairs of memory copied, or added, in one launch: a block does
 * one chunk of one pair. */
#define PAIRS   96
#define CHUNK   16384
#define THREADS 256
#define EACH    (CHUNK / 16 / THREADS)
struct bundle_args {
    const char *src[PAIRS];
    char *dst[PAIRS];
    u64 count[PAIRS];
    u32 first[PAIRS + 1];
    u32 used;
    u8 dtype[PAIRS], op[PAIRS];
};

/* The last pair that begins at or before the block: empty ones begin where the next one does. */
__device__ __forceinline__ u32 pair_of(const bundle_args &a, u32 block)
{
    u32 low = 0, high = a.used;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (a.first[middle] <= block)
            low = middle;
        else
            high = middle;
    }
    return low;
}

template <class T> struct alignas(16) vector {
    T at[16 / sizeof(T)];
};

/* The operation on each element. The vector form reads dst before anything is written. */
template <class T> struct copies {
    typedef T type;
    static const bool reads = false;
    __device__ static __forceinline__ void one(T *dst, const T *src)
    {
        *dst = *src;
    }
};
template <class T> struct adds {
    typedef T type;
    static const bool reads = true;
    __device__ static __forceinline__ void one(T *dst, const T *src)
    {
        ph_put(dst, ph_get(dst) + ph_get(src));
    }
};

template <class DO, int N>
__device__ __forceinline__ void run_vectors(uint4 *__restrict__ dst, const uint4 *__restrict__ src,
                                            u32 at)
{
    typedef typename DO::type T;
    union both {
        uint4 whole;
        vector<T> parts;
    };
    both from[N], to[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        from[i].whole = src[at + i * THREADS];
#pragma unroll
    for (int i = 0; DO::reads && i < N; i++)
        to[i].whole = dst[at + i * THREADS];
#pragma unroll
    for (int i = 0; i < N; i++) {
#pragma unroll
        for (int k = 0; k < 16 / (int)sizeof(T); k++)
            DO::one(&to[i].parts.at[k], &from[i].parts.at[k]);
        dst[at + i * THREADS] = to[i].whole;
    }
}

template <class DO>
__device__ __forceinline__ void run(char *dst_, const char *src_, u64 begin, u64 count)
{
    typedef typename DO::type T;
    const u32 whole = CHUNK / sizeof(T), n = count - begin < whole ? (u32)(count - begin) : whole;
    T *__restrict__ dst = (T *)dst_ + begin;
    const T *__restrict__ src = (const T *)src_ + begin;
    u32 vectors = (((u64)dst | (u64)src) & 15) == 0 ? n / (16 / (u32)sizeof(T)) : 0;
    if (vectors == CHUNK / 16) {
        run_vectors<DO, EACH>((uint4 *)dst, (const uint4 *)src, threadIdx.x);
        return;
    }
    for (u32 i = threadIdx.x; i < vectors; i += THREADS)
        run_vectors<DO, 1>((uint4 *)dst, (const uint4 *)src, i);
#pragma unroll 4
    for (u32 i = vectors * (16 / (u32)sizeof(T)) + threadIdx.x; i < n; i += THREADS)
        DO::one(dst + i, src + i);
}

/* Dtypes as ph_dtype counts them, from 1 on; of those that are floating one can be added. */
PH_KERNEL __launch_bounds__(THREADS) ph_nn_bundle(const __grid_constant__ bundle_args a)
{
    const u32 i = pair_of(a, blockIdx.x), chunk = blockIdx.x - a.first[i];
    const u32 dtype = a.dtype[i], op = a.op[i];
    const char *src = a.src[i];
    char *dst = a.dst[i];
    const u64 count = a.count[i];
    PH_WAIT();
    if (op == 2)
        return;
#define RUN(DO, T) run<DO<T>>(dst, src, (u64)chunk * (CHUNK / sizeof(T)), count)
    switch (op == 1 && dtype <= 4 ? dtype : dtype + 100) {
    case 1:
        RUN(adds, f32);
        break;
    case 2:
        RUN(adds, f64);
        break;
    case 3:
        RUN(adds, f16);
        break;
    case 4:
        RUN(adds, bf16);
        break;
    case 101: /* f32, i32 */
    case 105:
        RUN(copies, u32);
        break;
    case 102: /* f64, i64 */
    case 106:
        RUN(copies, u64);
        break;
    case 103: /* f16, bf16 */
    case 104:
        RUN(copies, u16);
        break;
    default: /* u8, bool */
        RUN(copies, u8);
    }
}
