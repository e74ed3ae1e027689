/* SPDX-License-Identifier: MIT */
/* comm/work/reduce.h: elements of several ranks become one, in the order of the ranks. */
#ifndef PH_COMM_WORK_REDUCE_H
#define PH_COMM_WORK_REDUCE_H
#include <phonograph/collectives.h>

/* 0 for an unknown type. */
size_t ph__element_bytes(ph_dtype dtype);
/* Whether the operation has a meaning for the type; both are known ones. */
bool ph__reduce_accepts(ph_dtype dtype, ph_reduce_op op);
/* out[i] = op over r of parts[r * stride + i], in elements. out may be the first part. */
void ph__reduce_parts(void *out, const void *parts, size_t stride, size_t ranks, size_t count,
                      ph_dtype dtype, ph_reduce_op op);
#endif
