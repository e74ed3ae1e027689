/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/load.h: the driver's functions, loaded at run time. */
#ifndef PH_DRIVER_CUDA_LOAD_LOAD_H
#define PH_DRIVER_CUDA_LOAD_LOAD_H
#include "driver/cuda/load/abi_params.h"
#include "driver/driver.h"

/* The driver's functions, all there once ph__cuda_load has answered 0;
 * OPTIONAL ones may be NULL. */
typedef struct ph__cuda_functions {
#define PH__CU(name, version, need, parameters) int(*name) parameters;
#include "driver/cuda/load/symbols.def"
#undef PH__CU
} ph__cuda_functions;
extern ph__cuda_functions ph__cu;

/* Loads libcuda and initialises it, once in the process; later calls answer what the first did,
 * and a failed one sets the reason again (driver_set_reason): no library, which symbol is
 * missing and which driver it needs, cuInit's answer. Loads nothing else. */
int ph__cuda_load(void);
/* The driver's version as cuDriverGetVersion counts (13000); 0 before a load. */
int ph__cuda_version(void);

/* The thread's mode becomes relaxed around calls that are potentially unsafe and must not fail
 * for it. */
static inline int ph__cuda_relax(void)
{
    int mode = PH_CAPTURE_RELAXED;
    (void)ph__cu.ThreadExchangeStreamCaptureMode(&mode);
    return mode;
}
static inline void ph__cuda_unrelax(int mode)
{
    (void)ph__cu.ThreadExchangeStreamCaptureMode(&mode);
}

/* CUDA's own 2 means the GPU's memory as a rule; without words it would read as the host's. */
static inline int ph__cuda_report_memory(int result)
{
    if (result == PH__R_OUT_OF_MEMORY)
        ph__driver_set_reason("the GPU has no memory left for it");
    return result;
}
#endif
