/* SPDX-License-Identifier: MIT */
/* cuda/elementwise.cu: a function applied element by element. The pieces before it say which
 * (elementwise.def): PH_NAME, PH_T (and PH_FROM of a cast, or of a second operand), PH_OPERANDS_*,
 * PH_RESULT_*, PH_LET, PH_EXPRESSION, and the layout, PH_flat, PH_strided, or PH_two: two calls of
 * PH_flat with one operand each. */
typedef f32 ph_f32;
typedef f64 ph_f64;
typedef f16 ph_f16;
typedef bf16 ph_bf16;
typedef i32 ph_i32;
typedef i64 ph_i64;
typedef u8 ph_u8;
typedef u16 ph_u16;
typedef u32 ph_u32;
typedef u64 ph_u64;

/* ---- types ---- */
#ifdef PH_RESULT_BOOL
typedef ph_bool T_OUT;
#else
typedef PH_T T_OUT;
#endif
#if defined(PH_OPERANDS_V)
#define PH_ARITY 1
typedef PH_T T_X;
#elif defined(PH_OPERANDS_F)
#define PH_ARITY 1
typedef PH_FROM T_X;
#elif defined(PH_OPERANDS_VV)
#define PH_ARITY 2
typedef PH_T T_X;
typedef PH_T T_Y;
#elif defined(PH_OPERANDS_VH)
#define PH_ARITY 2
typedef PH_T T_X;
typedef PH_FROM T_Y;
#elif defined(PH_OPERANDS_VVV)
#define PH_ARITY 3
typedef PH_T T_X;
typedef PH_T T_Y;
typedef PH_T T_Z;
#elif defined(PH_OPERANDS_BV)
#define PH_ARITY 2
typedef ph_bool T_X;
typedef PH_T T_Y;
#elif defined(PH_OPERANDS_BVV)
#define PH_ARITY 3
typedef ph_bool T_X;
typedef PH_T T_Y;
typedef PH_T T_Z;
#else
#define PH_ARITY 0
#endif
#if PH_ARITY < 1
typedef u8 T_X;
#endif
#if PH_ARITY < 2
typedef u8 T_Y;
#endif
#if PH_ARITY < 3
typedef u8 T_Z;
#endif
typedef ph_compute<T_OUT>::type C_OUT;
typedef ph_compute<T_X>::type C_X;
typedef ph_compute<T_Y>::type C_Y;
typedef ph_compute<T_Z>::type C_Z;
#ifdef PH_OPERANDS_F
typedef C_X C_T;
#else
typedef ph_compute<PH_T>::type C_T;
#endif

/* The type of a scalar argument. */
template <class T> struct scalar_of {
    typedef i64 type;
};
template <> struct scalar_of<f32> {
    typedef f64 type;
};
template <> struct scalar_of<f64> {
    typedef f64 type;
};
typedef scalar_of<C_T>::type scalar;

/* ---- what expressions are made of ---- */
template <class T> struct wrapping {
    typedef T type;
};
template <> struct wrapping<i32> {
    typedef u32 type;
};
template <> struct wrapping<i64> {
    typedef u64 type;
};
typedef wrapping<C_T>::type W_T;
#define C(value)   ((C_T)(value))
#define ADD(p, q)  ((C_T)((W_T)(p) + (W_T)(q)))
#define SUB(p, q)  ((C_T)((W_T)(p) - (W_T)(q)))
#define MUL(p, q)  ((C_T)((W_T)(p) * (W_T)(q)))
#define NEG(p)     ((C_T)(-(W_T)(p)))
#define DIV(p, q)  divide(p, q)
#define IS_NAN(p)  ((p) != (p))
#define ABS(p)     absolute(p)
#define EXP(p)     exponential(p)
#define LOG(p)     logarithm(p)
#define SQRT(p)    root(p)
#define RSQRT(p)   inverse_root(p)
#define TANH(p)    tangent(p)
#define ERF(p)     error_function(p)
#define POW(p, q)  power(p, q)
#define SIGMOID(p) sigmoid<sizeof(PH_T) == 2>(p)
#define CAST(p)    cast_to<T_OUT, C_X>::of(p)

#define ONE_FUNCTION(name, single, twice)                                                          \
    __device__ __forceinline__ f32 name(f32 x)                                                     \
    {                                                                                              \
        return single(x);                                                                          \
    }                                                                                              \
    __device__ __forceinline__ f64 name(f64 x)                                                     \
    {                                                                                              \
        return twice(x);                                                                           \
    }
ONE_FUNCTION(exponential, expf, exp)
ONE_FUNCTION(logarithm, logf, log)
ONE_FUNCTION(root, sqrtf, sqrt)
ONE_FUNCTION(inverse_root, rsqrtf, rsqrt)
ONE_FUNCTION(tangent, tanhf, tanh)
ONE_FUNCTION(error_function, erff, erf)
ONE_FUNCTION(absolute, fabsf, fabs)
/* Rounded: the result will be, to 16 bits: then the fast exponential and quotient, some 2^-21
 * off, are as good. */
template <bool rounded, class T> __device__ __forceinline__ T sigmoid(T x)
{
    return rounded ? T(__fdividef(1.0f, 1.0f + __expf(-(f32)x))) : T(1) / (T(1) + exponential(-x));
}
template <class T> __device__ __forceinline__ T absolute(T x)
{
    return x < 0 ? NEG(x) : x;
}
__device__ __forceinline__ u8 absolute(u8 x)
{
    return x;
}
/* Roots are roots: of -inf NaN, of -0 what sqrt and rsqrt give; pow has inf and 0 there. */
__device__ __forceinline__ f32 power(f32 x, f32 y)
{
    return y == 0.5f ? sqrtf(x) : y == -0.5f ? rsqrtf(x) : powf(x, y);
}
__device__ __forceinline__ f64 power(f64 x, f64 y)
{
    return y == 0.5 ? sqrt(x) : y == -0.5 ? rsqrt(x) : pow(x, y);
}
__device__ __forceinline__ f32 divide(f32 x, f32 y)
{
    return x / y;
}
__device__ __forceinline__ f64 divide(f64 x, f64 y)
{
    return x / y;
}
/* By 0: 0. The smallest number by -1 is itself. */
template <class T> __device__ __forceinline__ T divide(T x, T y)
{
    return y == 0 ? T(0) : T(-1) < T(0) && y == T(-1) ? NEG(x) : T(x / y);
}

/* ---- casts ---- floats to integers are cut, saturate, and NaN is 0; f64 and integers are
 * rounded once to f16 and bf16. */
template <class T> struct is_float {
    enum {
        value = 0
    };
};
template <> struct is_float<f32> {
    enum {
        value = 1
    };
};
template <> struct is_float<f64> {
    enum {
        value = 1
    };
};
template <class T> __device__ __forceinline__ T cut(f64 x, f64 low, f64 high, T highest)
{
    return x != x ? T(0) : x >= high ? highest : x <= low ? T(low) : T(x);
}
template <class To, class From> struct cast_to {
    static __device__ __forceinline__ To of(From x)
    {
        return To(x);
    }
};
template <class From> struct cast_to<ph_bool, From> {
    static __device__ __forceinline__ ph_bool of(From x)
    {
        return x != From(0);
    }
};
#define CUT(to, low, high, highest)                                                                \
    template <class From> struct cast_to<to, From> {                                               \
        static __device__ __forceinline__ to of(From x)                                            \
        {                                                                                          \
            return is_float<From>::value ? cut<to>(f64(x), low, high, highest) : to(x);            \
        }                                                                                          \
    };
CUT(i32, -2147483648.0, 2147483647.0, 2147483647)
CUT(i64, -9223372036854775808.0, 9223372036854775808.0, 9223372036854775807ll)
CUT(u8, 0.0, 255.0, u8(255))
/* A second rounding of it gives what one rounding of x would. */
__device__ __forceinline__ f32 to_odd(f64 x)
{
    f32 y = __double2float_rz(x);
    return f64(y) != x && x == x ? __uint_as_float(__float_as_uint(y) | 1u) : y;
}
__device__ __forceinline__ f32 to_odd(f32 x)
{
    return x;
}
template <class T> __device__ __forceinline__ f32 to_odd(T x)
{
    return to_odd(f64(x));
}
#define ROUND(to)                                                                                  \
    template <class From> struct cast_to<to, From> {                                               \
        static __device__ __forceinline__ f32 of(From x)                                           \
        {                                                                                          \
            return to_odd(x);                                                                      \
        }                                                                                          \
    };
ROUND(f16)
ROUND(bf16)

/* ---- the function ---- */
__device__ __forceinline__ C_OUT apply(C_X x, C_Y y, C_Z z, C_T a, C_T b)
{
    const auto t = PH_LET;
    return (C_OUT)(PH_EXPRESSION);
}

/* ---- several elements at once ---- as many as make up 16 bytes of the widest type, at most 8. */
enum {
    WIDEST_XY = sizeof(T_X) > sizeof(T_Y) ? sizeof(T_X) : sizeof(T_Y),
    WIDEST_Z = sizeof(T_Z) > sizeof(T_OUT) ? sizeof(T_Z) : sizeof(T_OUT),
    WIDEST = WIDEST_XY > WIDEST_Z ? WIDEST_XY : WIDEST_Z,
    VEC = WIDEST == 1 ? 8 : 16 / WIDEST,
    ITEMS = 2048,
    THREADS = 256,
    PACKS = ITEMS / THREADS / VEC
};
template <int bytes> struct raw {
    typedef uint4 type;
};
template <> struct raw<8> {
    typedef uint2 type;
};
template <> struct raw<4> {
    typedef u32 type;
};
template <> struct raw<2> {
    typedef u16 type;
};
template <> struct raw<1> {
    typedef u8 type;
};
template <class T> union pack {
    typename raw<sizeof(T) * VEC>::type all;
    T at[VEC];
};
template <class T> __device__ __forceinline__ bool is_aligned(const T *p)
{
    return ((u64)p & (sizeof(pack<T>) - 1)) == 0;
}
/* step 0: one element for all. whole: aligned; count: how many of them there are. */
template <class T>
__device__ __forceinline__ void load(pack<T> &to, const T *p, u32 step, bool whole, i32 count)
{
    if (step == 0) {
        if (count > 0) {
            const T one = *p;
#pragma unroll
            for (int k = 0; k < VEC; k++)
                to.at[k] = one;
        }
    } else if (whole && count >= VEC) {
        to.all = *(const typename raw<sizeof(T) * VEC>::type *)p;
    } else {
#pragma unroll
        for (int k = 0; k < VEC; k++)
            if (k < count)
                to.at[k] = p[k];
    }
}
template <class T>
__device__ __forceinline__ void store(T *p, const pack<T> &from, bool whole, i32 count)
{
    if (whole && count >= VEC) {
        *(typename raw<sizeof(T) * VEC>::type *)p = from.all;
    } else {
#pragma unroll
        for (int k = 0; k < VEC; k++)
            if (k < count)
                p[k] = from.at[k];
    }
}
__device__ __forceinline__ void apply_pack(pack<T_OUT> &out, const pack<T_X> &x, const pack<T_Y> &y,
                                           const pack<T_Z> &z, C_T a, C_T b)
{
#pragma unroll
    for (int k = 0; k < VEC; k++)
        ph_put(&out.at[k], apply(PH_ARITY > 0 ? ph_get(&x.at[k]) : C_X(),
                                 PH_ARITY > 1 ? ph_get(&y.at[k]) : C_Y(),
                                 PH_ARITY > 2 ? ph_get(&z.at[k]) : C_Z(), a, b));
}

/* ---- kernels ---- */
#if PH_ARITY == 0
#define ADDRESSES T_OUT *out
#elif PH_ARITY == 1
#define ADDRESSES T_OUT *out, const T_X *x
#elif PH_ARITY == 2
#define ADDRESSES T_OUT *out, const T_X *x, const T_Y *y
#else
#define ADDRESSES T_OUT *out, const T_X *x, const T_Y *y, const T_Z *z
#endif
/* Words for the operands that there are. */
#if PH_ARITY > 0
#define WITH_X(...) __VA_ARGS__
#else
#define WITH_X(...)
#endif
#if PH_ARITY > 1
#define WITH_Y(...) __VA_ARGS__
#else
#define WITH_Y(...)
#endif
#if PH_ARITY > 2
#define WITH_Z(...) __VA_ARGS__
#else
#define WITH_Z(...)
#endif

#ifdef PH_flat
struct flat {
    scalar a, b;
    i64 n;
    u32 step[4];
};

PH_KERNEL PH_NAME(ADDRESSES, flat f)
{
    PH_WAIT();
    const u64 base = (u64)blockIdx.x * ITEMS;
    const C_T a = (C_T)f.a, b = (C_T)f.b;
    const u32 left = f.n - base < ITEMS ? (u32)(f.n - base) : ITEMS;
    out += base;
    WITH_X(x += base * f.step[1]);
    WITH_Y(y += base * f.step[2]);
    WITH_Z(z += base * f.step[3]);
    const bool whole = is_aligned(out) WITH_X(&&(f.step[1] == 0 || is_aligned(x)))
        WITH_Y(&&(f.step[2] == 0 || is_aligned(y))) WITH_Z(&&(f.step[3] == 0 || is_aligned(z)));
    pack<T_X> px[PACKS];
    pack<T_Y> py[PACKS];
    pack<T_Z> pz[PACKS];
#pragma unroll
    for (u32 p = 0; p < PACKS; p++) {
        WITH_X(const u32 i = (p * THREADS + threadIdx.x) * VEC;)
        WITH_X(load(px[p], x + i * f.step[1], f.step[1], whole, (i32)(left - i)));
        WITH_Y(load(py[p], y + i * f.step[2], f.step[2], whole, (i32)(left - i)));
        WITH_Z(load(pz[p], z + i * f.step[3], f.step[3], whole, (i32)(left - i)));
    }
#pragma unroll
    for (u32 p = 0; p < PACKS; p++) {
        const u32 i = (p * THREADS + threadIdx.x) * VEC;
        pack<T_OUT> result;
        apply_pack(result, px[p], py[p], pz[p], a, b);
        store(out + i, result, whole, (i32)(left - i));
    }
}
#elif defined PH_two
struct two {
    i64 n, other_n;
};

/* The blocks of the second come behind those of the first. */
PH_KERNEL PH_NAME(T_OUT *out, const T_X *x, T_OUT *other_out, const T_X *other_x, two t)
{
    PH_WAIT();
    const u32 first = (u32)((t.n + ITEMS - 1) / ITEMS);
    const bool other = blockIdx.x >= first;
    const u64 base = (u64)(other ? blockIdx.x - first : blockIdx.x) * ITEMS;
    const i64 n = other ? t.other_n : t.n;
    const u32 left = n - base < ITEMS ? (u32)(n - base) : ITEMS;
    out = (other ? other_out : out) + base;
    x = (other ? other_x : x) + base;
    const bool whole = is_aligned(out) && is_aligned(x);
    pack<T_X> px[PACKS];
#pragma unroll
    for (u32 p = 0; p < PACKS; p++) {
        const u32 i = (p * THREADS + threadIdx.x) * VEC;
        load(px[p], x + i, 1, whole, (i32)(left - i));
    }
#pragma unroll
    for (u32 p = 0; p < PACKS; p++) {
        const u32 i = (p * THREADS + threadIdx.x) * VEC;
        pack<T_OUT> result;
        apply_pack(result, px[p], pack<T_Y>(), pack<T_Z>(), C_T(), C_T());
        store(out + i, result, whole, (i32)(left - i));
    }
}
#else
struct strided {
    scalar a, b;
    i64 n;
    i64 dim[8];
    i64 stride[4][8];
    u32 magic[8], shift[8];
    u32 rank, small, vec, reserved;
};

/* Where index i is, in each tensor. */
__device__ __forceinline__ void place(i64 *at, const strided &s, u64 i)
{
    at[0] = at[1] = at[2] = at[3] = 0;
    for (int d = (int)s.rank - 1; d >= 0; d--) {
        u64 k = i;
        if (d > 0) {
            u64 q =
                s.small ? (__umulhi((u32)i, s.magic[d]) + (u32)i) >> s.shift[d] : i / (u64)s.dim[d];
            k = i - q * (u64)s.dim[d];
            i = q;
        }
        k = d == (int)s.rank - 1 ? k * s.vec : k;
#pragma unroll
        for (int o = 0; o <= PH_ARITY; o++)
            at[o] += (i64)k * s.stride[o][d];
    }
}

PH_KERNEL PH_NAME(ADDRESSES, strided s)
{
    PH_WAIT();
    const C_T a = (C_T)s.a, b = (C_T)s.b;
    const u32 items = ITEMS / s.vec;
    WITH_X(const u32 last = s.rank - 1;)
    const u64 base = (u64)blockIdx.x * items;
    const bool whole = is_aligned(out) WITH_X(&&(s.stride[1][last] == 0 || is_aligned(x)))
        WITH_Y(&&(s.stride[2][last] == 0 || is_aligned(y)))
            WITH_Z(&&(s.stride[3][last] == 0 || is_aligned(z)));
    if (s.vec == VEC) {
        pack<T_X> px[PACKS];
        pack<T_Y> py[PACKS];
        pack<T_Z> pz[PACKS];
        i64 to[PACKS];
#pragma unroll
        for (u32 p = 0; p < PACKS; p++) {
            const u64 i = base + p * THREADS + threadIdx.x;
            i64 at[4];
            if (i >= (u64)s.n)
                break;
            place(at, s, i);
            to[p] = at[0];
            WITH_X(load(px[p], x + at[1], (u32)s.stride[1][last], whole, VEC));
            WITH_Y(load(py[p], y + at[2], (u32)s.stride[2][last], whole, VEC));
            WITH_Z(load(pz[p], z + at[3], (u32)s.stride[3][last], whole, VEC));
        }
#pragma unroll
        for (u32 p = 0; p < PACKS; p++) {
            pack<T_OUT> result;
            if (base + p * THREADS + threadIdx.x >= (u64)s.n)
                break;
            apply_pack(result, px[p], py[p], pz[p], a, b);
            store(out + to[p], result, whole, VEC);
        }
        return;
    }
    for (u32 i = threadIdx.x; i < items && base + i < (u64)s.n; i += THREADS) {
        i64 at[4];
        place(at, s, base + i);
        C_X vx = C_X();
        C_Y vy = C_Y();
        C_Z vz = C_Z();
        WITH_X(vx = ph_get(x + at[1]));
        WITH_Y(vy = ph_get(y + at[2]));
        WITH_Z(vz = ph_get(z + at[3]));
        ph_put(out + at[0], apply(vx, vy, vz, a, b));
    }
}
#endif
