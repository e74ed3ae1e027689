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
    g = n.sign * g + n.weight_decay * *p;
    if (flags & 1) {
        const T m = flags & 2 ? g : n.momentum * *s + n.undampened * g;
        *s = m;
        g = flags & 4 ? g + n.momentum * m : m;
    }
    *p = *p - n.lr * g;
}
#endif
