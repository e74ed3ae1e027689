/* SPDX-License-Identifier: MIT */
/* tensor/products/cublaslt.h: the functions of cuBLASLt. */
#ifndef PH_TENSOR_PRODUCTS_CUBLASLT_H
#define PH_TENSOR_PRODUCTS_CUBLASLT_H
#include "tensor/products/cublaslt_abi.h"
#include <phonograph/device.h>
#include <phonograph/status.h>

/* Of the process; set by the first load. */
extern ph__lt_functions ph__cublaslt;
/* A failure is tried again: PH_CUBLASLT may have been set since. */
ph_status ph__cublaslt_load(void);
/* The library may allocate and load at first calls: its own memory, in nobody's graph. */
ph_capture_mode ph__cublaslt_begin_relaxed(void);
void ph__cublaslt_end_relaxed(ph_capture_mode mode);
/* result: the cublasStatus_t of call; what: "when the product was submitted". */
ph_status ph__cublaslt_fail(int result, const char *call, const char *what);
#endif
