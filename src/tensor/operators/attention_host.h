/* SPDX-License-Identifier: MIT */
/* tensor/operators/attention_host.h: host forms of the kernels of attention. */
#ifndef PH_TENSOR_OPERATORS_ATTENTION_HOST_H
#define PH_TENSOR_OPERATORS_ATTENTION_HOST_H
#include <phonograph/kernel.h>

void ph__attention_forward_f32(const ph_block_range *range, const void *args);
void ph__attention_forward_f64(const ph_block_range *range, const void *args);
void ph__attention_forward_f16(const ph_block_range *range, const void *args);
void ph__attention_forward_bf16(const ph_block_range *range, const void *args);
void ph__attention_queries_f32(const ph_block_range *range, const void *args);
void ph__attention_queries_f64(const ph_block_range *range, const void *args);
void ph__attention_queries_f16(const ph_block_range *range, const void *args);
void ph__attention_queries_bf16(const ph_block_range *range, const void *args);
void ph__attention_keys_f32(const ph_block_range *range, const void *args);
void ph__attention_keys_f64(const ph_block_range *range, const void *args);
void ph__attention_keys_f16(const ph_block_range *range, const void *args);
void ph__attention_keys_bf16(const ph_block_range *range, const void *args);

/* Of scratch that a block of the host forms takes; at most 232448. */
size_t ph__attention_host_scratch(bool f64, uint32_t rows, uint32_t d);
#endif
