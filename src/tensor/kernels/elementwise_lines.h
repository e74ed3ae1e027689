/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_lines.h: element-wise kernels on the host over long lines: of the last
 * dimension, along which each operand steps by 1 or stays. */
#ifndef PH_TENSOR_KERNELS_ELEMENTWISE_LINES_H
#define PH_TENSOR_KERNELS_ELEMENTWISE_LINES_H
#include "tensor/kernels/elementwise_pieces.h"

/* Whether ph__run_lines takes the work: the core can go through the tensors' own memory. */
bool ph__has_long_lines(const ph__element_job *j);
void ph__run_lines(const ph__element_job *j, int64_t begin, int64_t end);
#endif
