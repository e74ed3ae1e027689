/* SPDX-License-Identifier: MIT */
/* tensor/kernels/reduce_cores.c: the loops of reduce.def and of argmax over arrays, for each
 * type that is computed in. */
#include "tensor/kernels/reduce_cores.h"
#include "tensor/kernels/math.h"
#include "tensor/kernels/reduce.h"
#include <math.h>

enum {
    /* accumulators side by side in a row: a fixed order of joining, which vectors of any width
     * keep */
    LANES = 32
};

#define PH__LEVEL base
#define PH__LEVEL_TARGET
#include "tensor/kernels/reduce_level.h"

#if defined(__x86_64__)
#define PH__LEVEL        avx2
#define PH__LEVEL_TARGET __attribute__((target("avx2")))
#include "tensor/kernels/reduce_level.h"

#define PH__LEVEL        avx512
#define PH__LEVEL_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2")))
#include "tensor/kernels/reduce_level.h"

const ph__reduce_cores *ph__reduce_cores_of(unsigned reduction, unsigned type)
{
    switch (ph__core_level()) {
    case PH__CORE_AVX512:
        return ph__reduce_avx512[reduction][type];
    case PH__CORE_AVX2:
        return ph__reduce_avx2[reduction][type];
    default:
        return ph__reduce_base[reduction][type];
    }
}
#else
const ph__reduce_cores *ph__reduce_cores_of(unsigned reduction, unsigned type)
{
    return ph__reduce_base[reduction][type];
}
#endif
