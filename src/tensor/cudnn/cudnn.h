/* SPDX-License-Identifier: MIT */
/* tensor/cudnn/cudnn.h: cuDNN, where it is there: found at run time, a handle for each device. */
#ifndef PH_TENSOR_CUDNN_CUDNN_H
#define PH_TENSOR_CUDNN_CUDNN_H
#include "base/sync.h"
#include "tensor/backend/backend.h"
#include "tensor/cudnn/cudnn_abi.h"

/* Of the process; set where a ph__cudnn has a handle. */
extern ph__cudnn_functions ph__cudnn_library;

enum {
    PH__CUDNN_BUCKETS = 256
};
struct ph__cudnn_plan; /* cudnn_plan.h */
struct ph__cudnn {
    ph_device *device; /* borrowed */
    void *handle;      /* NULL: there is no cuDNN, or it is not to be used */
    ph__mutex lock;    /* of the handle, which is one thread's at a time: to build, to submit */
    _Atomic(struct ph__cudnn_plan *) plans[PH__CUDNN_BUCKETS]; /* read without a lock; they stay */
};

/* The backend's, made at first use; a device without cuDNN has one too. NULL: the record is set.
 * Legal in a capture, as building a plan is: memory of cuDNN's own belongs to no graph. */
ph__cudnn *ph__cudnn_of(ph__backend *backend);
#endif
