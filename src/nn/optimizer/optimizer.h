/* SPDX-License-Identifier: MIT */
/* nn/optimizer/optimizer.h: optimizers as their files share them: what kinds there are, and the
 * arguments of their kernels. */
#ifndef PH_NN_OPTIMIZER_OPTIMIZER_H
#define PH_NN_OPTIMIZER_OPTIMIZER_H
#include "base/sync.h"
#include "nn/module/module.h"
#include "tensor/tape/op.h"
#include <phonograph/optimizer.h>

enum {
    PH__OPTIMIZER_TENSORS = 64, /* of one launch; optimizer.cu knows it too, and the next one */
    PH__OPTIMIZER_CHUNK = 4096, /* elements of one block */
    PH__OPTIMIZER_THREADS = 256,
    PH__OPTIMIZER_STATES = 3, /* tensors of a parameter's shape that a kind may keep for it */
    PH__OPTIMIZER_MASK = 32,  /* words of 64 parameters of one launch of the counters' kernel */
    PH__OPTIMIZER_COUNTER = 3 /* numbers of one counter: steps, and what Adam makes of them */
};

/* The formula of a parameter's update, beside the numbers. */
enum {
    PH__UPDATE_STATE = 1,     /* SGD: there is a momentum */
    PH__UPDATE_FRESH = 2,     /* the state has no contents yet */
    PH__UPDATE_NESTEROV = 4,  /* SGD */
    PH__UPDATE_DECOUPLED = 8, /* Adam: the weights decay by themselves */
    PH__UPDATE_MAXIMIZE = 16, /* the gradients are turned around */
    PH__UPDATE_AMSGRAD = 32   /* Adam: the largest second moments are kept, and divide */
};

/* The same for every kind: one launch for up to so many tensors, whose blocks lie one behind the
 * other: those of tensor i from first[i] on. */
typedef struct ph__update_args {
    void *param[PH__OPTIMIZER_TENSORS];
    const void *grad[PH__OPTIMIZER_TENSORS];
    void *state0[PH__OPTIMIZER_TENSORS], *state1[PH__OPTIMIZER_TENSORS];
    const uint64_t *lr_at;  /* a cell with the bits of a double, or NULL: lr */
    const double *counters; /* PH__OPTIMIZER_COUNTER for each parameter, or NULL: bias1 and bias2 */
    int64_t *steps;         /* counted up by the first block; NULL: not by this launch */
    const float *grad_scale; /* gradients are divided by it, unwritten; NULL: 1 */
    const float *found_inf;  /* not 0: nothing is changed; NULL: 0 */
    int64_t count[PH__OPTIMIZER_TENSORS];
    double lr, weight_decay;
    double momentum, undampened; /* SGD */
    double beta1, beta2, eps;    /* Adam */
    double bias1, bias2;         /* 1 - beta1^t, sqrt(1 - beta2^t) */
    uint32_t first[PH__OPTIMIZER_TENSORS];
    uint32_t counter[PH__OPTIMIZER_TENSORS]; /* number of its counter */
    uint32_t tensors, flags;
    void *state2[PH__OPTIMIZER_TENSORS]; /* only kernels with PH__UPDATE_AMSGRAD take it */
} ph__update_args;

/* One thread a counter: those whose bit is set go on by one step. */
typedef struct ph__advance_args {
    double *counters;
    const float *found_inf; /* not 0: nothing is changed; NULL: 0 */
    double beta1, beta2;
    int64_t count;
    uint64_t mask[PH__OPTIMIZER_MASK];
} ph__advance_args;

/* An optimizer; a new one is one more of these, and its kernels. */
typedef struct ph__optimizer_kind {
    const char *name;
    const char *state_names[PH__OPTIMIZER_STATES]; /* in files; NULL: none */
    bool counts;                                   /* each parameter counts its steps */
    ph__kernel_def *update[2];                     /* f32, f64 */
    ph__kernel_def *amsgrad[2];                    /* the same, with PH__UPDATE_AMSGRAD */
} ph__optimizer_kind;
extern const ph__optimizer_kind ph__optimizer_sgd, ph__optimizer_adam, ph__optimizer_adamw;
extern ph__kernel_def ph__optimizer_advance;
extern ph__kernel_def *const ph__optimizer_kernels[]; /* all of them, NULL-terminated */

/* One parameter. */
typedef struct ph__trained {
    char *name;
    ph_tensor *param;                       /* retained */
    ph_tensor *state[PH__OPTIMIZER_STATES]; /* retained; NULL until its first step */
    bool started;                           /* the state has contents */
    uint64_t steps;                         /* counted on the host, where not_capturable says so */
    /* in a step: contiguous, the tape's; NULL: takes no part */
    ph_tensor *grad;
} ph__trained;

typedef struct ph__lr_cell ph__lr_cell;
struct ph_optimizer {
    atomic_int references; /* the user's, and one for each graph that captured a step */
    const ph__optimizer_kind *kind;
    ph_device *device;       /* retained */
    atomic_uint_fast64_t lr; /* bits of a double */
    double weight_decay, momentum, dampening, beta1, beta2, eps;
    uint32_t flags;
    bool on_host; /* not_capturable */
    size_t state_count;
    PH__VEC(ph__trained) params;
    ph_tensor *steps; /* i64, scalar */
    /* f64 [params, PH__OPTIMIZER_COUNTER]; NULL where nothing counts, or the host does. A kind
     * that does not count has them from the first step on that the device may skip */
    ph_tensor *counters;
    ph_tensor *grad_scale; /* f32 scalar, the user's; NULL: none was ever set */
    bool scales;           /* grad_scale counts */
    ph_tensor *nonfinite;  /* norms of gradients that were not: nn/gradients/clip_failure.h */
    ph_tensor **operands;  /* room for all tensors of a step */
    ph__spinlock lock;     /* of cells */
    ph__lr_cell *cells;    /* of captures that are open */
};

/* ---- optimizer.c ---- */
ph_optimizer *ph__optimizer_retain(ph_optimizer *optimizer);
static inline double ph__double_of(uint64_t bits)
{
    union {
        uint64_t bits;
        double value;
    } both = {bits};
    return both.value;
}
static inline uint64_t ph__bits_of(double value)
{
    union {
        double value;
        uint64_t bits;
    } both = {value};
    return both.bits;
}
/* The state tensors that p has not yet, contents undefined, of the tape's stream. */
ph_status ph__optimizer_make_state(const ph_optimizer *optimizer, ph__trained *p, ph_tape *tape);
/* Counters of a kind that has none by itself, where there are none yet: 1 for what has begun, 0
 * for others. From then on its steps are counted too. Of the tape's stream. */
ph_status ph__optimizer_make_counters(ph_optimizer *optimizer, ph_tape *tape);

/* ---- step.c ---- ph_optimizer_step in the name of call, on a tape that has not failed.
 * grad_scale, found_inf: scalars of the device in f32, or NULL. Gradients are divided by the
 * first (multiplied by its reciprocal, rounded to f32), and stay as they are. Where the second is
 * not 0 when the device gets there, parameters, state and counters stay as they are. Of an
 * optimizer whose steps the host counts, found_inf is read: the call waits. Legal in a capture
 * (memory that the graph must keep is the caller's matter). */
void ph__optimizer_step(ph_tape *tape, ph_optimizer *optimizer, ph_tensor *grad_scale,
                        ph_tensor *found_inf, const char *call);

/* ---- optimizer_cell.c ---- the cell with the learning rate of the capture that stream is in;
 * made by the first call in it. Keeps the optimizer for as long as the graph has the capture. */
ph_status ph__optimizer_cell(uint64_t **out, ph_optimizer *optimizer, ph_stream *stream,
                             uint64_t capture);
#endif
