/* SPDX-License-Identifier: MIT */
/* cuda/update_adagrad.cu: the update of one element by ADAGRAD, ADADELTA or RMSPROP, in T:
 * torch.optim's formulas. What they define says update_sgd.cu. */
#undef VARIANTS
#undef VARIANT_MASK
#undef READS
#undef WRITES
#undef FRESH_BY

#ifdef ADAGRAD /* number: weight_decay, lr_decay, eps; state: sum; derived: what divides the rate */
#define VARIANTS(X)              X(0)
#define VARIANT_MASK             0
#define READS(k, flags)          ((k) == 0)
#define WRITES(k, flags)         ((k) == 0)
#define FRESH_BY(flags, derived) 0
typedef struct NAME(numbers) {
    T weight_decay, eps, size, sign;
} NAME(numbers);

FN(NAME(numbers))
NAME(numbers_of)(const double *number, double lr, const double *derived, int flags)
{
    NAME(numbers)
    n = {(T)number[0], (T)number[2], (T)(lr / derived[0]), (T)(flags & 16 ? -1 : 1)};
    return n;
}

FN(void) NAME(update)(T *p, T g, T *s, T *t, T *w, NAME(numbers) n, const int flags)
{
    (void)t;
    (void)w;
    (void)flags;
    const T decay = n.weight_decay * *p;
    g = n.sign * g + (n.weight_decay != 0 ? decay : 0); /* an infinity times 0 is a NaN */
    const T sum = *s + g * g;
    *s = sum;
    *p = *p - n.size * (g / (ROOT(sum) + n.eps));
}
#endif

#ifdef ADADELTA /* number: weight_decay, rho, eps; state: square_avg, acc_delta */
#define VARIANTS(X)              X(0)
#define VARIANT_MASK             0
#define READS(k, flags)          ((k) < 2)
#define WRITES(k, flags)         ((k) < 2)
#define FRESH_BY(flags, derived) 0
typedef struct NAME(numbers) {
    T lr, weight_decay, rho, less, eps, sign;
} NAME(numbers);

FN(NAME(numbers))
NAME(numbers_of)(const double *number, double lr, const double *derived, int flags)
{
    (void)derived;
    NAME(numbers)
    n = {(T)lr,        (T)number[0],
         (T)number[1], (T)(1 - number[1]),
         (T)number[2], (T)(flags & 16 ? -1 : 1)};
    return n;
}

FN(void) NAME(update)(T *p, T g, T *s, T *t, T *w, NAME(numbers) n, const int flags)
{
    (void)w;
    (void)flags;
    const T decay = n.weight_decay * *p;
    g = n.sign * g + (n.weight_decay != 0 ? decay : 0); /* an infinity times 0 is a NaN */
    const T v = n.rho * *s + n.less * g * g;
    const T delta = ROOT(*t + n.eps) / ROOT(v + n.eps) * g;
    *s = v;
    *t = n.rho * *t + n.less * delta * delta;
    *p = *p - n.lr * delta;
}
#endif

/* number: weight_decay, alpha, eps, momentum; state: square_avg, momentum_buffer (1), grad_avg
 * (64) */
#ifdef RMSPROP
#define VARIANTS(X)              X(0) X(1) X(64) X(65)
#define VARIANT_MASK             65
#define READS(k, flags)          ((k) == 0 || ((k) == 1 && (flags)&1) || ((k) == 2 && (flags)&64))
#define WRITES(k, flags)         READS(k, flags)
#define FRESH_BY(flags, derived) 0
typedef struct NAME(numbers) {
    T lr, weight_decay, alpha, less, eps, momentum, sign;
} NAME(numbers);

FN(NAME(numbers))
NAME(numbers_of)(const double *number, double lr, const double *derived, int flags)
{
    (void)derived;
    NAME(numbers)
    n = {(T)lr,
         (T)number[0],
         (T)number[1],
         (T)(1 - number[1]),
         (T)number[2],
         (T)number[3],
         (T)(flags & 16 ? -1 : 1)};
    return n;
}

/* From one number toward another, as torch.lerp computes it: all of the way is the other one to the
 * bit, however far it is. */
FN(T) NAME(toward)(T from, T to, T share)
{
    return share < (T)0.5 ? from + share * (to - from) : to - (to - from) * (1 - share);
}

FN(void) NAME(update)(T *p, T g, T *s, T *t, T *w, NAME(numbers) n, const int flags)
{
    const T decay = n.weight_decay * *p;
    g = n.sign * g + (n.weight_decay != 0 ? decay : 0); /* an infinity times 0 is a NaN */
    const T v = n.alpha * *s + n.less * g * g;
    T middle = 0, square, step;
    *s = v;
    if (flags & 64) {
        middle = NAME(toward)(*w, g, n.less);
        *w = middle;
    }
    square = middle * middle;
    step = g / (ROOT(v - (v - v == 0 ? square : 0)) + n.eps); /* none of an infinite moment */
    if (flags & 1) {
        step = n.momentum * *t + step;
        *t = step;
    }
    *p = *p - n.lr * step;
}
#endif
