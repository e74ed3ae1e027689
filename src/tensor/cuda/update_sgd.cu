/* SPDX-License-Identifier: MIT */
/* cuda/update_sgd.cu: the update of one element by SGD, ASGD, RPROP or LION, in T: torch.optim's
 * formulas, and that of Lion (Chen et al. 2023, Symbolic Discovery of Optimization Algorithms).
 * C and CUDA alike: nn/optimizer/sgd.c takes it in as well as NVRTC. NAME, FN, ROOT: of who takes
 * it in. Each of them defines:
 *
 *   - VARIANTS(X): the flags for each of which there is a loop; VARIANT_MASK has all of their bits
 *   - FRESH_BY(flags, derived): 2, a flag more (the state has no contents yet), where the counter
 *     says so
 *   - READS(k, flags), WRITES(k, flags): whether the update takes and changes state k
 *   - numbers, and numbers_of, which makes them from the options and from derived, the counter's
 *   - update: one element. s, t, w: its states 0, 1 and 2 */
#undef VARIANTS
#undef VARIANT_MASK
#undef READS
#undef WRITES
#undef FRESH_BY

/* number: weight_decay, momentum, dampening; state: momentum_buffer; derived: whether this is the
 * first step, where the device counts */
#ifdef SGD
#define VARIANTS(X)              X(0) X(1) X(3) X(5) X(7)
#define VARIANT_MASK             7
#define READS(k, flags)          ((k) == 0 && ((flags)&3) == 1)
#define WRITES(k, flags)         ((k) == 0 && (flags)&1)
#define FRESH_BY(flags, derived) ((flags)&1 && (derived)[0] != 0 ? 2 : 0)
typedef struct NAME(numbers) {
    T lr, weight_decay, momentum, undampened, sign;
} NAME(numbers);

FN(NAME(numbers))
NAME(numbers_of)(const double *number, double lr, const double *derived, int flags)
{
    (void)derived;
    NAME(numbers)
    n = {(T)lr, (T)number[0], (T)number[1], (T)(1 - number[2]), (T)(flags & 16 ? -1 : 1)};
    return n;
}

FN(void) NAME(update)(T *p, T g, T *s, T *t, T *w, NAME(numbers) n, const int flags)
{
    (void)t;
    (void)w;
    const T decay = n.weight_decay * *p;
    g = n.sign * g + (n.weight_decay != 0 ? decay : 0); /* an infinity times 0 is a NaN */
    if (flags & 1) {
        const T m = flags & 2 ? g : n.momentum * *s + n.undampened * g;
        *s = m;
        g = flags & 4 ? g + n.momentum * m : m;
    }
    *p = *p - n.lr * g;
}
#endif

#ifdef ASGD /* number: weight_decay, lambd; state: ax; derived: eta, mu */
#define VARIANTS(X)              X(0)
#define VARIANT_MASK             0
#define READS(k, flags)          ((k) == 0)
#define WRITES(k, flags)         ((k) == 0)
#define FRESH_BY(flags, derived) 0
typedef struct NAME(numbers) {
    T weight_decay, keep, eta, mu, sign;
} NAME(numbers);

FN(NAME(numbers))
NAME(numbers_of)(const double *number, double lr, const double *derived, int flags)
{
    (void)lr;
    NAME(numbers)
    n = {(T)number[0], (T)(1 - number[1] * derived[0]), (T)derived[0], (T)derived[1],
         (T)(flags & 16 ? -1 : 1)};
    return n;
}

FN(void) NAME(update)(T *p, T g, T *s, T *t, T *w, NAME(numbers) n, const int flags)
{
    (void)t;
    (void)w;
    (void)flags;
    const T decay = n.weight_decay * *p;
    g = n.sign * g + (n.weight_decay != 0 ? decay : 0); /* an infinity times 0 is a NaN */
    const T x = *p * n.keep - n.eta * g;
    *p = x;
    *s = n.mu == 1 ? x : *s + (x - *s) * n.mu;
}
#endif

/* number: etaminus, etaplus, the smallest and the largest step; state: prev, step_size */
#ifdef RPROP
#define VARIANTS(X)              X(0)
#define VARIANT_MASK             0
#define READS(k, flags)          ((k) < 2)
#define WRITES(k, flags)         ((k) < 2)
#define FRESH_BY(flags, derived) 0
typedef struct NAME(numbers) {
    T less, more, least, most, sign;
} NAME(numbers);

FN(NAME(numbers))
NAME(numbers_of)(const double *number, double lr, const double *derived, int flags)
{
    (void)lr;
    (void)derived;
    NAME(numbers)
    n = {(T)number[0], (T)number[1], (T)number[2], (T)number[3], (T)(flags & 16 ? -1 : 1)};
    return n;
}

/* A gradient that has turned its sign changes nothing, and is forgotten. */
FN(void) NAME(update)(T *p, T g, T *s, T *t, T *w, NAME(numbers) n, const int flags)
{
    (void)w;
    (void)flags;
    g = n.sign * g;
    const T turn = g * *s;
    T step = *t * (turn > 0 ? n.more : turn < 0 ? n.less : 1);
    step = step < n.least ? n.least : step;
    step = step > n.most ? n.most : step;
    g = turn < 0 ? 0 : g;
    *p = *p - (T)((g > 0) - (g < 0)) * step;
    *s = g;
    *t = step;
}
#endif

#ifdef LION /* number: weight_decay, beta1, beta2; state: exp_avg */
#define VARIANTS(X)              X(0)
#define VARIANT_MASK             0
#define READS(k, flags)          ((k) == 0)
#define WRITES(k, flags)         ((k) == 0)
#define FRESH_BY(flags, derived) 0
typedef struct NAME(numbers) {
    T lr, keep, beta1, less1, beta2, less2, sign;
} NAME(numbers);

FN(NAME(numbers))
NAME(numbers_of)(const double *number, double lr, const double *derived, int flags)
{
    (void)derived;
    NAME(numbers)
    n = {(T)lr,
         (T)(1 - lr * number[0]),
         (T)number[1],
         (T)(1 - number[1]),
         (T)number[2],
         (T)(1 - number[2]),
         (T)(flags & 16 ? -1 : 1)};
    return n;
}

FN(void) NAME(update)(T *p, T g, T *s, T *t, T *w, NAME(numbers) n, const int flags)
{
    (void)t;
    (void)w;
    (void)flags;
    g = n.sign * g;
    const T c = n.beta1 * *s + n.less1 * g;
    /* the sign of a NaN is a NaN */
    *p = *p * n.keep - n.lr * (c > 0 ? 1 : c < 0 ? -1 : c);
    *s = n.beta2 * *s + n.less2 * g;
}
#endif
