/* SPDX-License-Identifier: MIT */
/* nn/optimizer/host.c: the optimizers' kernels: their host forms, whose formulas are those of
 * cuda/optimizer.cu, and what a launch takes. */
#include "nn/optimizer/optimizer.h"
#include "tensor/backend/kernels.h"
#include "tensor/backend/texts.h"
#include <math.h>

/* ---- the formulas ---- for each kind and dtype. */
#define HOST
#define FN(type) static inline __attribute__((always_inline)) type
typedef ph__update_args update_args;

#define T       float
#define ROOT(x) sqrtf(x)
#define SGD
#define NAME(x) x##_sgd_f32
#include "tensor/cuda/optimizer.cu"
#undef SGD
#undef NAME
#define ADAM
#define NAME(x) x##_adam_f32
#include "tensor/cuda/optimizer.cu"
#undef ADAM
#undef NAME
#undef T
#undef ROOT

#define T       double
#define ROOT(x) sqrt(x)
#define SGD
#define NAME(x) x##_sgd_f64
#include "tensor/cuda/optimizer.cu"
#undef SGD
#undef NAME
#define ADAM
#define NAME(x) x##_adam_f64
#include "tensor/cuda/optimizer.cu"
#undef ADAM
#undef NAME
#undef T
#undef ROOT

/* ---- blocks ---- */
/* The part of a tensor that one block updates. */
typedef struct part {
    uint32_t tensor;
    int64_t begin, end;
    double lr, bias1, bias2, steps;
} part;

static bool skips(const float *found_inf)
{
    return found_inf && *found_inf != 0;
}

static part part_of(const ph__update_args *a, uint64_t block)
{
    uint32_t low = 0, high = a->tensors;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (a->first[middle] <= block)
            low = middle;
        else
            high = middle;
    }
    int64_t begin = (int64_t)(block - a->first[low]) * PH__OPTIMIZER_CHUNK,
            end = begin + PH__OPTIMIZER_CHUNK;
    part p = {low, begin, end < a->count[low] ? end : a->count[low], a->lr, a->bias1, a->bias2, 0};
    if (a->lr_at)
        p.lr = ph__double_of(*a->lr_at);
    if (a->counters) {
        const double *counter = a->counters + (size_t)a->counter[low] * PH__OPTIMIZER_COUNTER;
        p.steps = counter[0];
        p.bias1 = counter[1];
        p.bias2 = counter[2];
    }
    if (a->steps && block == 0)
        ++*a->steps;
    return p;
}

/* flags is a constant in each loop, so that the compiler makes vectors of it. */
#define SGD_LOOPS(NAME, T)                                                                         \
    static void loop_sgd_##NAME(T *p, const T *g, T *s, int64_t count, T by, numbers_sgd_##NAME n, \
                                uint32_t flags)                                                    \
    {                                                                                              \
        switch (flags & 7) {                                                                       \
        case PH__UPDATE_STATE:                                                                     \
            for (int64_t i = 0; i < count; i++)                                                    \
                update_sgd_##NAME(p + i, g[i] * by, s + i, NULL, NULL, n, PH__UPDATE_STATE);       \
            break;                                                                                 \
        case PH__UPDATE_STATE | PH__UPDATE_FRESH:                                                  \
            for (int64_t i = 0; i < count; i++)                                                    \
                update_sgd_##NAME(p + i, g[i] * by, s + i, NULL, NULL, n,                          \
                                  PH__UPDATE_STATE | PH__UPDATE_FRESH);                            \
            break;                                                                                 \
        case PH__UPDATE_STATE | PH__UPDATE_NESTEROV:                                               \
            for (int64_t i = 0; i < count; i++)                                                    \
                update_sgd_##NAME(p + i, g[i] * by, s + i, NULL, NULL, n,                          \
                                  PH__UPDATE_STATE | PH__UPDATE_NESTEROV);                         \
            break;                                                                                 \
        case PH__UPDATE_STATE | PH__UPDATE_FRESH | PH__UPDATE_NESTEROV:                            \
            for (int64_t i = 0; i < count; i++)                                                    \
                update_sgd_##NAME(p + i, g[i] * by, s + i, NULL, NULL, n,                          \
                                  PH__UPDATE_STATE | PH__UPDATE_FRESH | PH__UPDATE_NESTEROV);      \
            break;                                                                                 \
        default:                                                                                   \
            for (int64_t i = 0; i < count; i++)                                                    \
                update_sgd_##NAME(p + i, g[i] * by, NULL, NULL, NULL, n, 0);                       \
        }                                                                                          \
    }                                                                                              \
    static void ph_sgd_##NAME(const ph_block_range *range, const void *args)                       \
    {                                                                                              \
        const ph__update_args *a = args;                                                           \
        T by = a->grad_scale ? (T)unscale_of_sgd_##NAME(*a->grad_scale) : (T)1;                    \
        for (uint64_t block = range->begin; !skips(a->found_inf) && block < range->end; block++) { \
            part at = part_of(a, block);                                                           \
            T *state = a->state0[at.tensor];                                                       \
            loop_sgd_##NAME((T *)a->param[at.tensor] + at.begin,                                   \
                            (const T *)a->grad[at.tensor] + at.begin,                              \
                            state ? state + at.begin : NULL, at.end - at.begin, by,                \
                            numbers_of_sgd_##NAME(a, at.lr, at.bias1, at.bias2),                   \
                            a->flags | fresh_by_counter_sgd_##NAME(at.steps));                     \
        }                                                                                          \
    }
SGD_LOOPS(f32, float)
SGD_LOOPS(f64, double)

#define ADAM_LOOPS(NAME, T)                                                                        \
    static void loop_adam_##NAME(T *p, const T *g, T *s, T *t, T *w, int64_t count, T by,          \
                                 numbers_adam_##NAME n, uint32_t flags)                            \
    {                                                                                              \
        switch (flags & (PH__UPDATE_FRESH | PH__UPDATE_AMSGRAD)) {                                 \
        case PH__UPDATE_FRESH:                                                                     \
            for (int64_t i = 0; i < count; i++)                                                    \
                update_adam_##NAME(p + i, g[i] * by, s + i, t + i, NULL, n, PH__UPDATE_FRESH);     \
            break;                                                                                 \
        case PH__UPDATE_AMSGRAD:                                                                   \
            for (int64_t i = 0; i < count; i++)                                                    \
                update_adam_##NAME(p + i, g[i] * by, s + i, t + i, w + i, n, PH__UPDATE_AMSGRAD);  \
            break;                                                                                 \
        case PH__UPDATE_FRESH | PH__UPDATE_AMSGRAD:                                                \
            for (int64_t i = 0; i < count; i++)                                                    \
                update_adam_##NAME(p + i, g[i] * by, s + i, t + i, w + i, n,                       \
                                   PH__UPDATE_FRESH | PH__UPDATE_AMSGRAD);                         \
            break;                                                                                 \
        default:                                                                                   \
            for (int64_t i = 0; i < count; i++)                                                    \
                update_adam_##NAME(p + i, g[i] * by, s + i, t + i, NULL, n, 0);                    \
        }                                                                                          \
    }                                                                                              \
    static void ph_adam_##NAME(const ph_block_range *range, const void *args)                      \
    {                                                                                              \
        const ph__update_args *a = args;                                                           \
        T by = a->grad_scale ? (T)unscale_of_adam_##NAME(*a->grad_scale) : (T)1;                   \
        for (uint64_t block = range->begin; !skips(a->found_inf) && block < range->end; block++) { \
            part at = part_of(a, block);                                                           \
            T *largest =                                                                           \
                a->flags & PH__UPDATE_AMSGRAD ? (T *)a->state2[at.tensor] + at.begin : NULL;       \
            loop_adam_##NAME((T *)a->param[at.tensor] + at.begin,                                  \
                             (const T *)a->grad[at.tensor] + at.begin,                             \
                             (T *)a->state0[at.tensor] + at.begin,                                 \
                             (T *)a->state1[at.tensor] + at.begin, largest, at.end - at.begin, by, \
                             numbers_of_adam_##NAME(a, at.lr, at.bias1, at.bias2),                 \
                             a->flags | fresh_by_counter_adam_##NAME(at.steps));                   \
        }                                                                                          \
    }
ADAM_LOOPS(f32, float)
ADAM_LOOPS(f64, double)

static void ph_optimizer_advance(const ph_block_range *range, const void *args)
{
    const ph__advance_args *a = args;
    int64_t end = (int64_t)range->end * range->block[0];
    end = end < a->count ? end : a->count;
    if (skips(a->found_inf))
        return;
    for (int64_t i = (int64_t)range->begin * range->block[0]; i < end; i++) {
        if (!(a->mask[i / 64] >> (i % 64) & 1))
            continue;
        double *counter = a->counters + i * PH__OPTIMIZER_COUNTER, steps = counter[0] + 1;
        counter[0] = steps;
        counter[1] = 1 - pow(a->beta1, steps);
        counter[2] = sqrt(1 - pow(a->beta2, steps));
    }
}

/* ---- what a launch takes ---- */
#define EACH_10(X, array, tens)                                                                    \
    X(array, tens##0)                                                                              \
    X(array, tens##1)                                                                              \
    X(array, tens##2)                                                                              \
    X(array, tens##3)                                                                              \
    X(array, tens##4)                                                                              \
    X(array, tens##5) X(array, tens##6) X(array, tens##7) X(array, tens##8) X(array, tens##9)
#define EACH(X, array)                                                                             \
    EACH_10(X, array, )                                                                            \
    EACH_10(X, array, 1)                                                                           \
    EACH_10(X, array, 2)                                                                           \
    EACH_10(X, array, 3)                                                                           \
    EACH_10(X, array, 4) EACH_10(X, array, 5) X(array, 60) X(array, 61) X(array, 62) X(array, 63)
#define ADDRESS(array, i) PH_PARAM(ph__update_args, array[i], PH_PARAM_ADDRESS),
#define VALUE(member)     PH_PARAM(ph__update_args, member, PH_PARAM_VALUE)
static const ph_param update_params[] = {EACH(ADDRESS, param) EACH(ADDRESS, grad)
                                             EACH(ADDRESS, state0) EACH(ADDRESS, state1)
                                                 PH_PARAM(ph__update_args, lr_at, PH_PARAM_ADDRESS),
                                         PH_PARAM(ph__update_args, counters, PH_PARAM_ADDRESS),
                                         PH_PARAM(ph__update_args, steps, PH_PARAM_ADDRESS),
                                         PH_PARAM(ph__update_args, grad_scale, PH_PARAM_ADDRESS),
                                         PH_PARAM(ph__update_args, found_inf, PH_PARAM_ADDRESS),
                                         VALUE(count),
                                         VALUE(lr),
                                         VALUE(weight_decay),
                                         VALUE(momentum),
                                         VALUE(undampened),
                                         VALUE(beta1),
                                         VALUE(beta2),
                                         VALUE(eps),
                                         VALUE(bias1),
                                         VALUE(bias2),
                                         VALUE(first),
                                         VALUE(counter),
                                         VALUE(tensors),
                                         VALUE(flags),
                                         EACH(ADDRESS, state2)};
static const ph_param advance_params[] = {PH_PARAM(ph__advance_args, counters, PH_PARAM_ADDRESS),
                                          PH_PARAM(ph__advance_args, found_inf, PH_PARAM_ADDRESS),
                                          PH_PARAM(ph__advance_args, beta1, PH_PARAM_VALUE),
                                          PH_PARAM(ph__advance_args, beta2, PH_PARAM_VALUE),
                                          PH_PARAM(ph__advance_args, count, PH_PARAM_VALUE),
                                          PH_PARAM(ph__advance_args, mask, PH_PARAM_VALUE)};

/* state2 is the last parameter: kernels without it have all parameters before it. */
enum {
    UPDATE_PARAMS = sizeof update_params / sizeof update_params[0],
    PLAIN_PARAMS = UPDATE_PARAMS - PH__OPTIMIZER_TENSORS,
    PLAIN_SIZE = offsetof(ph__update_args, state2)
};
#define DEF(kernel, defines, host_form, size, parameters, count)                                   \
    {                                                                                              \
        .name = #kernel,                                                                           \
        .cuda = (const char *const[]){"#define KERNEL " #kernel "\n" defines, ph__text_optimizer,  \
                                      NULL},                                                       \
        .host = host_form, .args_size = size, .params = parameters, .param_count = count,          \
        .cuda_options = "-fmad=false"                                                              \
    }
#define UPDATE_DEF(kind, KIND, NAME)                                                               \
    static ph__kernel_def kind##_##NAME =                                                          \
        DEF(ph_##kind##_##NAME, "#define T " #NAME "\n#define " #KIND "\n", ph_##kind##_##NAME,    \
            PLAIN_SIZE, update_params, PLAIN_PARAMS);
#define AMSGRAD_DEF(NAME)                                                                          \
    static ph__kernel_def amsgrad_##NAME =                                                         \
        DEF(ph_amsgrad_##NAME, "#define T " #NAME "\n#define ADAM\n#define AMSGRAD\n",             \
            ph_adam_##NAME, sizeof(ph__update_args), update_params, UPDATE_PARAMS);
UPDATE_DEF(sgd, SGD, f32)
UPDATE_DEF(sgd, SGD, f64)
UPDATE_DEF(adam, ADAM, f32)
UPDATE_DEF(adam, ADAM, f64)
AMSGRAD_DEF(f32)
AMSGRAD_DEF(f64)
ph__kernel_def ph__optimizer_advance =
    DEF(ph_optimizer_advance, "#define T f64\n#define ADVANCE\n", ph_optimizer_advance,
        sizeof(ph__advance_args), advance_params, sizeof advance_params / sizeof advance_params[0]);

ph__kernel_def *const ph__optimizer_kernels[] = {
    &sgd_f32, &sgd_f64, &adam_f32, &adam_f64, &amsgrad_f32, &amsgrad_f64, &ph__optimizer_advance,
    NULL};

const ph__optimizer_kind ph__optimizer_sgd = {
    .name = "sgd", .state_names = {"momentum_buffer"}, .update = {&sgd_f32, &sgd_f64}};
#define ADAM_KIND(NAME)                                                                            \
    {                                                                                              \
        .name = NAME, .state_names = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}, .counts = true,  \
        .update = {&adam_f32, &adam_f64}, .amsgrad = {                                             \
            &amsgrad_f32,                                                                          \
            &amsgrad_f64                                                                           \
        }                                                                                          \
    }
const ph__optimizer_kind ph__optimizer_adam = ADAM_KIND("adam");
const ph__optimizer_kind ph__optimizer_adamw = ADAM_KIND("adamw");
