/* SPDX-License-Identifier: MIT */
/* nn/optimizer/optimizer.h: optimizers as their files share them: groups of parameters, and what
 * is kept for each parameter. */
#ifndef PH_NN_OPTIMIZER_OPTIMIZER_H
#define PH_NN_OPTIMIZER_OPTIMIZER_H
#include "base/sync.h"
#include "nn/module/module.h"
#include "nn/optimizer/cell.h"
#include "nn/optimizer/update.h"
#include "tensor/core/batch.h"
#include <phonograph/optimizer.h>

/* The options of a group, whatever the kind. */
typedef struct ph__optimizer_settings {
    double lr, number[PH__COUNT_NUMBERS]; /* the formulas say which */
    double initial[PH__OPTIMIZER_STATES]; /* contents of the states that are filled */
    uint32_t flags;
    uint32_t states; /* a bit for each state that is kept */
    bool on_host;    /* not_capturable */
    bool odd_first;  /* SGD: the first step has a formula of its own */
} ph__optimizer_settings;

typedef struct ph__optimizer_group {
    ph__optimizer_settings settings;
    atomic_uint_fast64_t lr; /* bits of a double: as it is now */
    double step_lr;          /* of the step under way */
    size_t param_count;
} ph__optimizer_group;

/* One parameter. */
typedef struct ph__trained {
    char *name;
    size_t group;
    ph_tensor *param;                       /* retained */
    ph_tensor *state[PH__OPTIMIZER_STATES]; /* retained; NULL until its first step */
    bool started;                           /* the states have contents */
    double counter[PH__COUNT_SIZE];         /* where the group counts on the host */
    /* in a step: contiguous, the tape's; NULL: takes no part */
    ph_tensor *grad;
} ph__trained;

struct ph_optimizer {
    atomic_int references; /* the user's, and one for each graph that captured a step */
    const ph__optimizer_kind *kind;
    ph_device *device; /* retained */
    /* the groups of the options, and one for the parameters that none of them names */
    ph__optimizer_group *groups;
    size_t group_count;
    PH__VEC(ph__trained) params;
    ph_tensor *steps; /* i64, scalar */
    /* f64 [params, PH__COUNT_SIZE]; NULL where nothing counts on the device. A kind that does not
     * count has them from the first step on that the device may skip */
    ph_tensor *counters;
    ph_tensor *grad_scale; /* f32 scalar, the user's; NULL: none was ever set */
    bool scales;           /* grad_scale counts */
    ph_tensor *nonfinite;  /* norms of gradients that were not: nn/gradients/clip_failure.h */
    ph_tensor **operands;  /* room for all tensors of a step */
    ph__spinlock lock;     /* of cells */
    ph__lr_cell *cells;    /* of captures that are open */
};

/* How options of a kind are read. outer: what a group takes where its options have 0, and NULL
 * for the options that hold the groups. */
typedef struct ph__optimizer_parts {
    const ph_parameter_choice *parameters;
    const void *groups; /* of the same type as the options */
    size_t group_count, size;
} ph__optimizer_parts;
#define PH__OPTIMIZER_PARTS(o)                                                                     \
    (ph__optimizer_parts)                                                                          \
    {                                                                                              \
        (o)->parameters, (o)->groups, (o)->group_count, sizeof *(o)                                \
    }
typedef struct ph__optimizer_form {
    const ph__optimizer_kind *kind;
    const char *call;
    const void *defaults; /* the options that NULL stands for; NULL: it is refused */
    ph_status (*read)(ph__optimizer_settings *out, ph__optimizer_parts *parts, const void *options,
                      const ph__optimizer_settings *outer, const char *call);
} ph__optimizer_form;
ph_status ph__optimizer_create(ph_optimizer **out, ph_module *module, const void *options,
                               const ph__optimizer_form *form);
ph_optimizer *ph__optimizer_retain(ph_optimizer *optimizer);

static inline ph__optimizer_group *ph__group_of(const ph_optimizer *optimizer, const ph__trained *p)
{
    return &optimizer->groups[p->group];
}
/* Where a launch finds the device's counters; NULL: the group counts on the host, or not. */
double *ph__optimizer_counters(const ph_optimizer *optimizer, const ph__optimizer_group *group);
/* The state tensors that p has not yet, of the tape's stream, in the batch where it has room
 * (NULL: there is none); contents of those that its kind fills are written anew unless p has
 * started. */
ph_status ph__optimizer_make_state(const ph_optimizer *optimizer, ph__trained *p, ph_tape *tape,
                                   ph__tensor_batch *batch);
/* The contents of state k of p before its first step; lr: the rate of that step. */
double ph__optimizer_first_content(const ph_optimizer *optimizer, const ph__trained *p, size_t k,
                                   double lr);
/* Counters of a kind that has none by itself, where there are none yet: 1 for what has begun, 0
 * for others. From then on its steps are counted too. Of the tape's stream. */
ph_status ph__optimizer_make_counters(ph_optimizer *optimizer, ph_tape *tape);
/* STATE: a parameter whose gradients are those of its shards, which another optimizer steps. */
ph_status ph__optimizer_check_parts(const ph_optimizer *optimizer, const char *call);
#endif
