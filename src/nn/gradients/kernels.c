/* SPDX-License-Identifier: MIT */
/* nn/gradients/kernels.c: the kernels over gradients: their host forms, whose formulas are those
 * of cuda/gradients.cu, and what a launch takes. */
#include "nn/gradients/kernels.h"
#include "tensor/backend/each.h"
#include "tensor/backend/texts.h"
#include <float.h>
#include <math.h>

/* ---- blocks ---- the part of a tensor that one block has. */
typedef struct part {
    uint32_t tensor;
    int64_t begin, end;
} part;

static part part_of(const ph__gradients_args *a, uint64_t block)
{
    uint32_t low = 0, high = a->tensors;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (a->first[middle] <= block)
            low = middle;
        else
            high = middle;
    }
    int64_t begin = (int64_t)(block - a->first[low]) * PH__GRADIENT_CHUNK,
            end = begin + PH__GRADIENT_CHUNK;
    return (part){low, begin, end < a->count[low] ? end : a->count[low]};
}

/* Several blocks at once may have found one. */
static void note_infinity(float *found_inf)
{
    float found = 1;
    if (found_inf)
        __atomic_store(found_inf, &found, __ATOMIC_RELAXED);
}

/* The sums are in double whatever T is. */
static double larger_size(double most, double size)
{
    return size > most || size != size ? size : most;
}

/* ---- over gradients ---- */
#define EACH_BLOCK(T, a, block, range, g, n)                                                       \
    const ph__gradients_args *a = args;                                                            \
    for (uint64_t block = (range)->begin; block < (range)->end; block++) {                         \
        const part at = part_of(a, block);                                                         \
        T *g = (T *)a->grad[at.tensor] + at.begin;                                                 \
        const int64_t n = at.end - at.begin;

#define HOST_FORMS(NAME, T)                                                                        \
    static void ph_unscale_##NAME(const ph_block_range *range, const void *args)                   \
    {                                                                                              \
        EACH_BLOCK(T, a, block, range, g, n)                                                       \
        const T by = (T)(float)(1.0 / ((a->scale ? (double)*a->scale : 1.0) *                      \
                                       (a->scale2 ? (double)*a->scale2 : 1.0)));                   \
        T none = 0; /* x - x is 0, or NaN */                                                       \
        for (int64_t i = 0; i < n; i++)                                                            \
            none += g[i] * by - g[i] * by;                                                         \
        if (a->flags & PH__GRADIENTS_WRITE)                                                        \
            for (int64_t i = 0; i < n; i++)                                                        \
                g[i] = g[i] * by;                                                                  \
        if (none != 0 || none != none)                                                             \
            note_infinity(a->found_inf);                                                           \
    }                                                                                              \
    }                                                                                              \
    static double sum_##NAME(const T *g, int64_t n, uint32_t flags, double p)                      \
    {                                                                                              \
        double sum = 0;                                                                            \
        if (flags & PH__NORM_LARGEST)                                                              \
            for (int64_t i = 0; i < n; i++)                                                        \
                sum = larger_size(sum, fabs((double)g[i]));                                        \
        else if (flags & PH__NORM_SUM)                                                             \
            for (int64_t i = 0; i < n; i++)                                                        \
                sum += fabs((double)g[i]);                                                         \
        else if (flags & PH__NORM_SQUARES)                                                         \
            for (int64_t i = 0; i < n; i++)                                                        \
                sum += (double)g[i] * (double)g[i];                                                \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                sum += pow(fabs((double)g[i]), p);                                                 \
        return sum;                                                                                \
    }                                                                                              \
    static void ph_grad_norm_##NAME(const ph_block_range *range, const void *args)                 \
    {                                                                                              \
        EACH_BLOCK(T, a, block, range, g, n)                                                       \
        a->partial[block] = sum_##NAME(g, n, a->flags, a->number);                                 \
    }                                                                                              \
    }                                                                                              \
    static void ph_multiply_##NAME(const ph_block_range *range, const void *args)                  \
    {                                                                                              \
        EACH_BLOCK(T, a, block, range, g, n)                                                       \
        const T by = (T)*a->factor;                                                                \
        for (int64_t i = 0; by != 1 && i < n; i++)                                                 \
            g[i] = g[i] * by;                                                                      \
    }                                                                                              \
    }                                                                                              \
    static void ph_clamp_##NAME(const ph_block_range *range, const void *args)                     \
    {                                                                                              \
        EACH_BLOCK(T, a, block, range, g, n)                                                       \
        const T most = (T)a->number;                                                               \
        for (int64_t i = 0; i < n; i++)                                                            \
            g[i] = g[i] > most ? most : g[i] < -most ? -most : g[i];                               \
    }                                                                                              \
    }                                                                                              \
    static void ph_norm_end_##NAME(const ph_block_range *range, const void *args)                  \
    {                                                                                              \
        const ph__norm_args *a = args;                                                             \
        double sum = 0;                                                                            \
        (void)range;                                                                               \
        for (int64_t i = 0; i < a->count; i++)                                                     \
            sum = a->flags & PH__NORM_LARGEST ? larger_size(sum, a->partial[i])                    \
                                              : sum + a->partial[i];                               \
        if (a->flags & PH__NORM_SQUARES)                                                           \
            sum = sqrt(sum);                                                                       \
        else if (!(a->flags & (PH__NORM_LARGEST | PH__NORM_SUM)))                                  \
            sum = pow(sum, 1 / a->p);                                                              \
        const T norm = (T)sum, factor = (T)a->max_norm / (norm + (T)1e-6);                         \
        *(T *)a->norm = norm;                                                                      \
        *a->factor = factor > 1 ? 1.0 : (double)factor;                                            \
        if (a->nonfinite && !isfinite(norm)) {                                                     \
            *a->factor = 1;                                                                        \
            __atomic_fetch_add(a->nonfinite, 1, __ATOMIC_RELAXED);                                 \
        }                                                                                          \
    }
HOST_FORMS(f32, float)
HOST_FORMS(f64, double)

/* ---- the scale ---- */
static void ph_scaler_update(const ph_block_range *range, const void *args)
{
    const ph__scaler_args *a = args;
    bool found = false;
    (void)range;
    for (uint32_t i = 0; i < a->count; i++) {
        found |= a->found_inf[i] != 0;
        a->found_inf[i] = 0;
    }
    if (a->sets) {
        *a->scale = a->from ? *a->from : (float)a->value;
    } else if (found) {
        const float less = (float)(*a->scale * a->backoff_factor);
        if (less >= FLT_MIN) /* its reciprocal is finite */
            *a->scale = less;
        *a->tracker = 0;
    } else if (*a->tracker + 1 >= a->growth_interval) {
        float grown = (float)(*a->scale * a->growth_factor);
        if (isfinite(grown))
            *a->scale = grown;
        *a->tracker = 0;
    } else {
        ++*a->tracker;
    }
}

/* ---- what a launch takes ---- */
#define ADDRESS_OF(array, i) PH_PARAM(ph__gradients_args, array[i], PH_PARAM_ADDRESS),
static const ph_param gradients_params[] = {
    PH__EACH_64(ADDRESS_OF, grad) PH_PARAM(ph__gradients_args, scale, PH_PARAM_ADDRESS),
    PH_PARAM(ph__gradients_args, scale2, PH_PARAM_ADDRESS),
    PH_PARAM(ph__gradients_args, found_inf, PH_PARAM_ADDRESS),
    PH_PARAM(ph__gradients_args, partial, PH_PARAM_ADDRESS),
    PH_PARAM(ph__gradients_args, factor, PH_PARAM_ADDRESS),
    PH_PARAM(ph__gradients_args, count, PH_PARAM_VALUE),
    PH_PARAM(ph__gradients_args, number, PH_PARAM_VALUE),
    PH_PARAM(ph__gradients_args, first, PH_PARAM_VALUE),
    PH_PARAM(ph__gradients_args, tensors, PH_PARAM_VALUE),
    PH_PARAM(ph__gradients_args, flags, PH_PARAM_VALUE)};
static const ph_param norm_params[] = {PH_PARAM(ph__norm_args, partial, PH_PARAM_ADDRESS),
                                       PH_PARAM(ph__norm_args, norm, PH_PARAM_ADDRESS),
                                       PH_PARAM(ph__norm_args, factor, PH_PARAM_ADDRESS),
                                       PH_PARAM(ph__norm_args, nonfinite, PH_PARAM_ADDRESS),
                                       PH_PARAM(ph__norm_args, count, PH_PARAM_VALUE),
                                       PH_PARAM(ph__norm_args, p, PH_PARAM_VALUE),
                                       PH_PARAM(ph__norm_args, max_norm, PH_PARAM_VALUE),
                                       PH_PARAM(ph__norm_args, flags, PH_PARAM_VALUE)};
static const ph_param scaler_params[] = {PH_PARAM(ph__scaler_args, scale, PH_PARAM_ADDRESS),
                                         PH_PARAM(ph__scaler_args, tracker, PH_PARAM_ADDRESS),
                                         PH_PARAM(ph__scaler_args, found_inf, PH_PARAM_ADDRESS),
                                         PH_PARAM(ph__scaler_args, from, PH_PARAM_ADDRESS),
                                         PH_PARAM(ph__scaler_args, growth_factor, PH_PARAM_VALUE),
                                         PH_PARAM(ph__scaler_args, backoff_factor, PH_PARAM_VALUE),
                                         PH_PARAM(ph__scaler_args, value, PH_PARAM_VALUE),
                                         PH_PARAM(ph__scaler_args, growth_interval, PH_PARAM_VALUE),
                                         PH_PARAM(ph__scaler_args, count, PH_PARAM_VALUE),
                                         PH_PARAM(ph__scaler_args, sets, PH_PARAM_VALUE)};

#define DEF(kernel, defines, type, parameters)                                                     \
    {                                                                                              \
        .name = #kernel,                                                                           \
        .cuda = (const char *const[]){"#define KERNEL " #kernel "\n" defines, ph__text_gradients,  \
                                      NULL},                                                       \
        .host = kernel, .args_size = sizeof(type), .params = parameters,                           \
        .param_count = sizeof parameters / sizeof parameters[0], .cuda_options = "-fmad=false"     \
    }
#define DEFS(NAME)                                                                                 \
    ph__kernel_def ph__unscale_##NAME = DEF(ph_unscale_##NAME,                                     \
                                            "#define T " #NAME "\n"                                \
                                            "#define UNSCALE\n",                                   \
                                            ph__gradients_args, gradients_params);                 \
    ph__kernel_def ph__norm_##NAME = DEF(ph_grad_norm_##NAME,                                      \
                                         "#define T " #NAME "\n"                                   \
                                         "#define NORM\n",                                         \
                                         ph__gradients_args, gradients_params);                    \
    ph__kernel_def ph__multiply_##NAME = DEF(ph_multiply_##NAME,                                   \
                                             "#define T " #NAME "\n"                               \
                                             "#define MULTIPLY\n",                                 \
                                             ph__gradients_args, gradients_params);                \
    ph__kernel_def ph__clamp_##NAME = DEF(ph_clamp_##NAME,                                         \
                                          "#define T " #NAME "\n"                                  \
                                          "#define CLAMP\n",                                       \
                                          ph__gradients_args, gradients_params);                   \
    ph__kernel_def ph__norm_end_##NAME = DEF(ph_norm_end_##NAME,                                   \
                                             "#define T " #NAME "\n"                               \
                                             "#define NORM_END\n",                                 \
                                             ph__norm_args, norm_params);
DEFS(f32)
DEFS(f64)
ph__kernel_def ph__scaler_update =
    DEF(ph_scaler_update, "#define T f32\n#define UPDATE\n", ph__scaler_args, scaler_params);

ph__kernel_def *const ph__gradient_kernels[] = {
    &ph__unscale_f32,  &ph__unscale_f64,  &ph__norm_f32,      &ph__norm_f64,
    &ph__multiply_f32, &ph__multiply_f64, &ph__clamp_f32,     &ph__clamp_f64,
    &ph__norm_end_f32, &ph__norm_end_f64, &ph__scaler_update, NULL};
