/* SPDX-License-Identifier: MIT */
/* tensor/kernels/reduce_cores.h: cores of reductions on the host. */
#ifndef PH_TENSOR_KERNELS_REDUCE_CORES_H
#define PH_TENSOR_KERNELS_REDUCE_CORES_H
#include "tensor/kernels/elementwise_cores.h"

/* They work on arrays of the dtype that is computed in; a: the call's number.
 * - row: n elements into one accumulator; index: of the first, among the reduced ones.
 * - rows4 (NULL: none): four rows at a time, each as `row` has it, into an accumulator each; what
 *   lies between two rows stands in place of index, in elements.
 * - columns: element i into accumulator i; columns4, columns8 (NULL: none): of four or eight rows,
 *   with what lies between two of them in place of index.
 * - end: the result, in the type that is computed in, or an integer of its own. */
typedef void (*ph__reduce_core)(void *accumulators, const void *x, int64_t n, int64_t index,
                                double a);
typedef struct ph__reduce_cores {
    size_t accumulator;
    ph__reduce_core start; /* n accumulators */
    ph__reduce_core row, rows4, columns, columns4, columns8;
    ph__reduce_core join; /* accumulator i of x into accumulator i */
    void (*end)(void *out, const void *accumulator, double a, double b);
} ph__reduce_cores;
enum {
#define PH__REDUCE(name, ...) PH__REDUCE_##name,
#include "tensor/kernels/reduce.def"
#undef PH__REDUCE
    PH__REDUCE_argmax,
    PH__REDUCTIONS
};
/* Of the best level that this processor runs; type: a ph__core_type. */
const ph__reduce_cores *ph__reduce_cores_of(unsigned reduction, unsigned type);
/* Of a level, which the processor must run: at most ph__core_level(). */
const ph__reduce_cores *ph__reduce_cores_at(ph__core_level_number level, unsigned reduction,
                                            unsigned type);
#endif
