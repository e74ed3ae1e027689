/* SPDX-License-Identifier: MIT */
/* driver/cuda/capture/cupti.h: CUPTI: the library, and its reports of failed driver calls. */
#ifndef PH_DRIVER_CUDA_CAPTURE_CUPTI_H
#define PH_DRIVER_CUDA_CAPTURE_CUPTI_H
#include <stdbool.h>

/* Makes CUPTI report; for good. false: why not, in words. */
bool ph__cuda_cupti_start(char why[256]);
/* The library, loaded for good; NULL: there is none. ours: this library
 * itself is CUPTI's one subscriber. */
void *ph__cuda_cupti_open(void);
bool ph__cuda_cupti_is_ours(void);
#endif
