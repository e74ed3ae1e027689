/* SPDX-License-Identifier: MIT */
/* nn/optimizer/update.h: kinds of optimizers, and the kernels that update parameters: their
 * arguments, and what their host forms share. */
#ifndef PH_NN_OPTIMIZER_UPDATE_H
#define PH_NN_OPTIMIZER_UPDATE_H
#include "nn/optimizer/count.h"
#include "tensor/backend/kernels.h"
#include "tensor/backend/texts.h"
#include <math.h>

enum {
    PH__OPTIMIZER_TENSORS = 64, /* of one launch; optimizer.cu knows it too, and the next one */
    PH__OPTIMIZER_CHUNK = 4096, /* elements of one block */
    PH__OPTIMIZER_THREADS = 256,
    PH__OPTIMIZER_STATES = 3 /* tensors of a parameter's shape that a kind may keep for it */
};

/* Flags of a parameter's update, beside the numbers; the formulas know the bits. */
enum {
    PH__UPDATE_STATE = 1,     /* SGD, RMSprop: there is a momentum */
    PH__UPDATE_FRESH = 2,     /* SGD, Adam: the state has no contents yet */
    PH__UPDATE_NESTEROV = 4,  /* SGD */
    PH__UPDATE_DECOUPLED = 8, /* the weights decay by themselves */
    PH__UPDATE_MAXIMIZE = 16, /* the gradients are turned around */
    PH__UPDATE_AMSGRAD = 32,  /* Adam: the largest second moments are kept, and divide */
    PH__UPDATE_CENTERED = 64  /* RMSprop */
};

/* The same for every kind: one launch for up to so many tensors, whose blocks lie one behind the
 * other: those of tensor i from first[i] on. A kernel takes it up to the last state it knows. */
typedef struct ph__update_args {
    void *param[PH__OPTIMIZER_TENSORS];
    const void *grad[PH__OPTIMIZER_TENSORS];
    const uint64_t *lr_at;   /* a cell with the bits of a double, or NULL: lr */
    double *counters;        /* counted on by the first block of each tensor; or NULL: derived */
    int64_t *steps;          /* counted up by the first block; NULL: not by this launch */
    const float *grad_scale; /* divides the gradients; NULL: 1 */
    const float *found_inf;  /* not 0: nothing is changed, nor counted; NULL: 0 */
    int64_t count[PH__OPTIMIZER_TENSORS];
    double lr, number[PH__COUNT_NUMBERS], derived[PH__COUNT_DERIVED];
    uint32_t first[PH__OPTIMIZER_TENSORS];
    uint32_t counter[PH__OPTIMIZER_TENSORS]; /* number of its counter */
    uint32_t tensors, flags;
    void *state[PH__OPTIMIZER_STATES][PH__OPTIMIZER_TENSORS];
} ph__update_args;

/* A new optimizer is one more of these, and its formulas. */
typedef struct ph__optimizer_kind {
    const char *name;
    const char *state_names[PH__OPTIMIZER_STATES]; /* in files; NULL: none */
    const char *kept_names[PH__COUNT_KEPT];        /* of what its counters keep beside the steps */
    /* each parameter counts its steps. Where not, and there is a rule, they are counted from the
     * first step on that the device may skip */
    bool counts;
    ph__count_rule rule; /* of the numbers that counters give to the update */
    /* bits of the states whose first contents are written before the first step: the settings
     * say what, or it is the learning rate */
    uint32_t filled, filled_with_lr;
    uint32_t kept_with_lr; /* bits of the kept numbers that are the learning rate before a step */
    ph__kernel_def *update[2];  /* f32, f64 */
    ph__kernel_def *amsgrad[2]; /* the same, with PH__UPDATE_AMSGRAD */
} ph__optimizer_kind;

/* ---- host forms ---- */
/* The part of a tensor that one block updates. */
typedef struct ph__update_part {
    uint32_t tensor;
    int64_t begin, count;
    double lr, derived[PH__COUNT_DERIVED];
} ph__update_part;
bool ph__update_skips(const ph__update_args *args);
/* The factor of scaled gradients: the reciprocal of the scale. */
float ph__update_unscale(const ph__update_args *args);
/* Counts, where the block is the one that does. */
ph__update_part ph__update_part_of(const ph__update_args *args, uint64_t block);

#define PH__UPDATE_CASE(FLAGS)                                                                     \
    case FLAGS:                                                                                    \
        for (int64_t i = 0; i < count; i++)                                                        \
            NAME(update)                                                                           \
        (p + i, g[i] * by, WRITES(0, FLAGS) ? s[0] + i : NULL, WRITES(1, FLAGS) ? s[1] + i : NULL, \
         WRITES(2, FLAGS) ? s[2] + i : NULL, n, FLAGS);                                            \
        break;
/* NAME(ph), the host form of the formulas that were taken in last. The flags are a constant in
 * each loop, so that the compiler makes vectors of it. */
#define PH__UPDATE_HOST_FORM                                                                       \
    static void NAME(loop)(T * p, const T *g, T *const s[PH__OPTIMIZER_STATES], int64_t count,     \
                           T by, NAME(numbers) n, uint32_t flags)                                  \
    {                                                                                              \
        switch (flags & VARIANT_MASK) {                                                            \
            VARIANTS(PH__UPDATE_CASE)                                                              \
        }                                                                                          \
    }                                                                                              \
    static void NAME(ph)(const ph_block_range *range, const void *args)                            \
    {                                                                                              \
        const ph__update_args *a = args;                                                           \
        T by = (T)ph__update_unscale(a);                                                           \
        for (uint64_t block = range->begin; !ph__update_skips(a) && block < range->end; block++) { \
            ph__update_part at = ph__update_part_of(a, block);                                     \
            T *state[PH__OPTIMIZER_STATES] = {NULL};                                               \
            for (size_t k = 0; k < PH__OPTIMIZER_STATES; k++)                                      \
                if (WRITES(k, (int)(a->flags & VARIANT_MASK)))                                     \
                    state[k] = (T *)a->state[k][at.tensor] + at.begin;                             \
            NAME(loop)                                                                             \
            ((T *)a->param[at.tensor] + at.begin, (const T *)a->grad[at.tensor] + at.begin, state, \
             at.count, by, NAME(numbers_of)(a->number, at.lr, at.derived, (int)a->flags),          \
             a->flags | (uint32_t)FRESH_BY(a->flags, at.derived));                                 \
        }                                                                                          \
    }

/* ---- kernels ---- */
extern const ph_param ph__update_params[];
/* Of arguments with so many states. */
#define PH__UPDATE_PARAMS(states) (2 * PH__OPTIMIZER_TENSORS + 13 + (states)*PH__OPTIMIZER_TENSORS)
#define PH__UPDATE_SIZE(states)                                                                    \
    (offsetof(ph__update_args, state) + (states) * sizeof(void *[PH__OPTIMIZER_TENSORS]))
/* A kernel of this name and host form; text: of its formulas; define: which of them. */
#define PH__UPDATE_KERNEL(kernel, host_form, dtype, root, text, define, states)                    \
    {                                                                                              \
        .name = #kernel,                                                                           \
        .cuda = (const char *const[]){"#define KERNEL " #kernel "\n#define T " #dtype              \
                                      "\n#define ROOT " #root "\n#define STATES " #states          \
                                      "\n#define NAME(x) x\n"                                      \
                                      "#define FN(type) __device__ __forceinline__ type\n" define, \
                                      text, ph__text_optimizer, NULL},                             \
        .host = host_form, .args_size = PH__UPDATE_SIZE(states), .params = ph__update_params,      \
        .param_count = PH__UPDATE_PARAMS(states), .cuda_options = "-fmad=false"                    \
    }
/* The two kernels of a kind, f32 and f64: ph_<kind>_f32, from formulas of these names; define:
 * "#define KIND\n". */
#define PH__UPDATE_KERNELS(kind, define, text, states)                                             \
    static ph__kernel_def kind##_f32 = PH__UPDATE_KERNEL(ph_##kind##_f32, ph_##kind##_f32, f32,    \
                                                         __fsqrt_rn, text, define, states);        \
    static ph__kernel_def kind##_f64 = PH__UPDATE_KERNEL(ph_##kind##_f64, ph_##kind##_f64, f64,    \
                                                         __dsqrt_rn, text, define, states);
#endif
