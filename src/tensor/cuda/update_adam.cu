/* SPDX-License-Identifier: MIT */
/* cuda/update_adam.cu: the update of one element by ADAM (Adam and AdamW; with AMSGRAD: with the
 * largest second moments), NADAM, RADAM or ADAMAX, in T: torch.optim's formulas. What they define
 * says update_sgd.cu. number: weight_decay, beta1, beta2, eps. */
#undef VARIANTS
#undef VARIANT_MASK
#undef READS
#undef WRITES
#undef FRESH_BY

/* From one number toward another, as torch.lerp computes it: all of the way is the other one to the
 * bit, however far it is. */
FN(T) NAME(toward)(T from, T to, T share)
{
    return share < (T)0.5 ? from + share * (to - from) : to - (to - from) * (1 - share);
}

#ifdef ADAM /* state: exp_avg, exp_avg_sq, max_exp_avg_sq; derived: bias1, the root of bias2 */
#ifdef AMSGRAD
#define VARIANTS(X)      X(32) X(34)
#define VARIANT_MASK     34
#define READS(k, flags)  (!((flags)&2))
#define WRITES(k, flags) true
#else
#define VARIANTS(X)      X(0) X(2)
#define VARIANT_MASK     2
#define READS(k, flags)  ((k) < 2 && !((flags)&2))
#define WRITES(k, flags) ((k) < 2)
#endif
#define FRESH_BY(flags, derived) 0
typedef struct NAME(numbers) {
    T keep, weight_decay, less1, beta2, less2, root, eps, size, sign;
} NAME(numbers);

FN(NAME(numbers))
NAME(numbers_of)(const double *number, double lr, const double *derived, int flags)
{
    const bool decoupled = flags & 8;
    NAME(numbers)
    n = {(T)(decoupled ? 1 - lr * number[0] : 1),
         (T)(decoupled ? 0 : number[0]),
         (T)(1 - number[1]),
         (T)number[2],
         (T)(1 - number[2]),
         (T)derived[1],
         (T)number[3],
         (T)(lr / derived[0]),
         (T)(flags & 16 ? -1 : 1)};
    return n;
}

FN(void) NAME(update)(T *p, T g, T *s, T *t, T *w, NAME(numbers) n, const int flags)
{
    const T x = *p * n.keep, before = flags & 2 ? 0 : *s;
    const T decay = n.weight_decay * x;
    g = n.sign * g + (n.weight_decay != 0 ? decay : 0); /* an infinity times 0 is a NaN */
    const T m = NAME(toward)(before, g, n.less1),
            v = (flags & 2 ? 0 : n.beta2 * *t) + n.less2 * g * g;
    T large = v;
    *s = m;
    *t = v;
    if (flags & 32) { /* no number is larger than a NaN */
        large = flags & 2 || v > *w || v != v ? v : *w;
        *w = large;
    }
    *p = x - n.size * (m / (ROOT(large) / n.root + n.eps));
}
#endif

/* state: exp_avg, exp_avg_sq; derived: the shares of g and of exp_avg, the root of bias2 */
#ifdef NADAM
#define VARIANTS(X)              X(0)
#define VARIANT_MASK             0
#define READS(k, flags)          ((k) < 2)
#define WRITES(k, flags)         ((k) < 2)
#define FRESH_BY(flags, derived) 0
typedef struct NAME(numbers) {
    T keep, weight_decay, less1, beta2, less2, root, eps, size, ahead, sign;
} NAME(numbers);

FN(NAME(numbers))
NAME(numbers_of)(const double *number, double lr, const double *derived, int flags)
{
    const bool decoupled = flags & 8;
    NAME(numbers)
    n = {(T)(decoupled ? 1 - lr * number[0] : 1),
         (T)(decoupled ? 0 : number[0]),
         (T)(1 - number[1]),
         (T)number[2],
         (T)(1 - number[2]),
         (T)derived[2],
         (T)number[3],
         (T)(lr * derived[0]),
         (T)(lr * derived[1]),
         (T)(flags & 16 ? -1 : 1)};
    return n;
}

FN(void) NAME(update)(T *p, T g, T *s, T *t, T *w, NAME(numbers) n, const int flags)
{
    (void)w;
    (void)flags;
    const T x = *p * n.keep;
    const T decay = n.weight_decay * x;
    g = n.sign * g + (n.weight_decay != 0 ? decay : 0); /* an infinity times 0 is a NaN */
    const T m = NAME(toward)(*s, g, n.less1), v = n.beta2 * *t + n.less2 * g * g;
    const T under = ROOT(v) / n.root + n.eps;
    *s = m;
    *t = v;
    *p = x - n.size * (g / under) - n.ahead * (m / under);
}
#endif

#ifdef RADAM /* state: exp_avg, exp_avg_sq; derived: bias1, the rectification (0: none yet) */
#define VARIANTS(X)              X(0)
#define VARIANT_MASK             0
#define READS(k, flags)          ((k) < 2)
#define WRITES(k, flags)         ((k) < 2)
#define FRESH_BY(flags, derived) 0
typedef struct NAME(numbers) {
    T keep, weight_decay, less1, beta2, less2, eps, size, rectified, sign;
} NAME(numbers);

FN(NAME(numbers))
NAME(numbers_of)(const double *number, double lr, const double *derived, int flags)
{
    const bool decoupled = flags & 8;
    NAME(numbers)
    n = {(T)(decoupled ? 1 - lr * number[0] : 1),
         (T)(decoupled ? 0 : number[0]),
         (T)(1 - number[1]),
         (T)number[2],
         (T)(1 - number[2]),
         (T)number[3],
         (T)(lr / derived[0]),
         (T)derived[1],
         (T)(flags & 16 ? -1 : 1)};
    return n;
}

FN(void) NAME(update)(T *p, T g, T *s, T *t, T *w, NAME(numbers) n, const int flags)
{
    (void)w;
    (void)flags;
    const T x = *p * n.keep;
    const T decay = n.weight_decay * x;
    g = n.sign * g + (n.weight_decay != 0 ? decay : 0); /* an infinity times 0 is a NaN */
    const T m = NAME(toward)(*s, g, n.less1), v = n.beta2 * *t + n.less2 * g * g;
    *s = m;
    *t = v;
    *p = x - n.size * m * (n.rectified != 0 ? n.rectified / (ROOT(v) + n.eps) : 1);
}
#endif

#ifdef ADAMAX /* state: exp_avg, exp_inf; derived: bias1 */
#define VARIANTS(X)              X(0)
#define VARIANT_MASK             0
#define READS(k, flags)          ((k) < 2)
#define WRITES(k, flags)         ((k) < 2)
#define FRESH_BY(flags, derived) 0
typedef struct NAME(numbers) {
    T weight_decay, less1, beta2, eps, size, sign;
} NAME(numbers);

FN(NAME(numbers))
NAME(numbers_of)(const double *number, double lr, const double *derived, int flags)
{
    NAME(numbers)
    n = {(T)number[0], (T)(1 - number[1]),   (T)number[2],
         (T)number[3], (T)(lr / derived[0]), (T)(flags & 16 ? -1 : 1)};
    return n;
}

FN(void) NAME(update)(T *p, T g, T *s, T *t, T *w, NAME(numbers) n, const int flags)
{
    (void)w;
    (void)flags;
    const T decay = n.weight_decay * *p;
    g = n.sign * g + (n.weight_decay != 0 ? decay : 0); /* an infinity times 0 is a NaN */
    const T m = NAME(toward)(*s, g, n.less1), old = n.beta2 * *t, own = (g < 0 ? -g : g) + n.eps;
    const T large = old > own || old != old ? old : own; /* no number is larger than a NaN */
    *s = m;
    *t = large;
    *p = *p - n.size * (m / large);
}
#endif
