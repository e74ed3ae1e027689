/* SPDX-License-Identifier: MIT */
/* nn/gradients/scaler.h: the gradient scaler as its files share it. */
#ifndef PH_NN_GRADIENTS_SCALER_H
#define PH_NN_GRADIENTS_SCALER_H
#include "base/sync.h"
#include "nn/optimizer/optimizer.h"
#include <phonograph/grad_scaler.h>

/* The state of an optimizer's gradients since the last update. */
typedef enum ph__scaler_stage {
    PH__SCALER_READY = 0,
    PH__SCALER_UNSCALED = 1,
    PH__SCALER_DIVIDED = 2, /* and divided by the optimizer's grad_scale, for a step */
    PH__SCALER_STEPPED = 3
} ph__scaler_stage;

/* One optimizer of a scaler. */
typedef struct ph__scaled_optimizer {
    ph_optimizer *optimizer; /* retained; NULL: the place is free */
    ph_tensor *found_inf;    /* a view of the scaler's flags; retained */
    ph__scaler_stage stage;  /* under the scaler's lock */
    bool checked;            /* a gradient was looked at since the last update; so is this */
    bool dirty;              /* a failed call may have left a flag behind */
} ph__scaled_optimizer;

typedef struct ph__scaler_capture ph__scaler_capture; /* scaler_capture.h */
struct ph_grad_scaler {
    atomic_int references; /* the user's, and one for each graph that captured a call */
    ph_device *device;     /* retained */
    double growth_factor, backoff_factor;
    int64_t growth_interval;
    bool disabled, fused;
    bool scaled; /* ph_grad_scaler_scale was called */
    /* f32 scalar; i64 scalar; f32 [PH_GRAD_SCALER_OPTIMIZERS], all 0 after an update */
    ph_tensor *scale, *tracker, *found_inf;
    ph__spinlock lock; /* of stages, and of captures */
    ph__scaled_optimizer optimizers[PH_GRAD_SCALER_OPTIMIZERS];
    ph__scaler_capture *captures; /* open ones */
};

ph_grad_scaler *ph__grad_scaler_retain(ph_grad_scaler *scaler);
/* For a call with a tape: the tape has not failed, and there are a scaler and operand, what the
 * call takes beside it (its name: what). Else the tape has failed, where there is one. */
bool ph__grad_scaler_check(ph_tape *tape, const ph_grad_scaler *scaler, const void *operand,
                           const char *what, const char *call);
#endif
