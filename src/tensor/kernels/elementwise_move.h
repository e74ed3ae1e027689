/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_move.h: elements of 1, 2, 4 or 8 bytes brought together, repeated,
 * spread out and transposed. */
#ifndef PH_TENSOR_KERNELS_ELEMENTWISE_MOVE_H
#define PH_TENSOR_KERNELS_ELEMENTWISE_MOVE_H
#include <stddef.h>
#include <stdint.h>

/* out[i * to_step] = in[i * from_step], for i < n; from_step 0 repeats one element. */
void ph__move_run(char *out, int64_t to_step, const char *in, int64_t from_step, size_t size,
                  int64_t n);
/* out[i][k] = in[k * step + i], tile by tile. */
void ph__transpose_tile(char *out, const char *in, int64_t step, size_t size, int64_t rows,
                        int64_t columns);
#endif
