/* SPDX-License-Identifier: MIT */
/* tests/tensor/quarantine_calls.h: every public call that takes a tensor, with one that is gone in
 * each place: x. Names that are used beside it are those of quarantine.c. */
#ifndef PH_TESTS_QUARANTINE_CALLS_H
#define PH_TESTS_QUARANTINE_CALLS_H

/* ---- calls ---- of a tape, of a status, and of neither: each with the gone tensor in every place.
 */
#define TAPE_CALLS(X)                                                                              \
    X(ph_optimizer_set_grad_scale, (ph_optimizer_set_grad_scale(t, optimizer, x), 0))              \
    X(ph_grad_scaler_scale, ph_grad_scaler_scale(t, scaler, x))                                    \
    X(ph_grad_scaler_update_from, (ph_grad_scaler_update_from(t, scaler, x), 0))                   \
    X(ph_detach, ph_detach(t, x))                                                                  \
    X(ph_slice, ph_slice(t, x, 0, 0, 1))                                                           \
    X(ph_slice_step, ph_slice_step(t, x, 0, 0, 2, 1))                                              \
    X(ph_select, ph_select(t, x, 0, 0))                                                            \
    X(ph_transpose, ph_transpose(t, x, 0, 0))                                                      \
    X(ph_permute, ph_permute(t, x, (const int[]){0}, 1))                                           \
    X(ph_reshape, ph_reshape(t, x, PH_SHAPE(1, 2)))                                                \
    X(ph_flatten, ph_flatten(t, x, 0, 0))                                                          \
    X(ph_expand, ph_expand(t, x, PH_SHAPE(3, 2)))                                                  \
    X(ph_squeeze, ph_squeeze(t, x, 0))                                                             \
    X(ph_unsqueeze, ph_unsqueeze(t, x, 0))                                                         \
    X(ph_clone, ph_clone(t, x))                                                                    \
    X(ph_contiguous, ph_contiguous(t, x))                                                          \
    X(ph_cast, ph_cast(t, x, PH_DTYPE_F64))                                                        \
    X(ph_to_device, ph_to_device(t, x))                                                            \
    X(ph_tensor_fill, ph_tensor_fill(t, x, 1))                                                     \
    X(ph_tensor_copy, ph_tensor_copy(t, x, y))                                                     \
    X(ph_tensor_copy, ph_tensor_copy(t, y, x))                                                     \
    X(ph_tensor_add, ph_tensor_add(t, x, y, 1))                                                    \
    X(ph_tensor_add, ph_tensor_add(t, y, x, 1))                                                    \
    X(ph_tensor_scale, ph_tensor_scale(t, x, 1))                                                   \
    X(ph_add, ph_add(t, x, y))                                                                     \
    X(ph_add, ph_add(t, y, x))                                                                     \
    X(ph_sub, ph_sub(t, x, y))                                                                     \
    X(ph_mul, ph_mul(t, y, x))                                                                     \
    X(ph_div, ph_div(t, x, y))                                                                     \
    X(ph_maximum, ph_maximum(t, x, y))                                                             \
    X(ph_minimum, ph_minimum(t, y, x))                                                             \
    X(ph_add_scalar, ph_add_scalar(t, x, 1))                                                       \
    X(ph_mul_scalar, ph_mul_scalar(t, x, 1))                                                       \
    X(ph_pow_scalar, ph_pow_scalar(t, x, 2))                                                       \
    X(ph_neg, ph_neg(t, x))                                                                        \
    X(ph_abs, ph_abs(t, x))                                                                        \
    X(ph_clamp, ph_clamp(t, x, 0, 1))                                                              \
    X(ph_eq, ph_eq(t, x, y))                                                                       \
    X(ph_ne, ph_ne(t, y, x))                                                                       \
    X(ph_lt, ph_lt(t, x, y))                                                                       \
    X(ph_le, ph_le(t, x, y))                                                                       \
    X(ph_gt, ph_gt(t, x, y))                                                                       \
    X(ph_ge, ph_ge(t, x, y))                                                                       \
    X(ph_logical_and, ph_logical_and(t, b->b, x))                                                  \
    X(ph_logical_or, ph_logical_or(t, b->b, x))                                                    \
    X(ph_logical_not, ph_logical_not(t, x))                                                        \
    X(ph_where, ph_where(t, b->b, x, y))                                                           \
    X(ph_where, ph_where(t, b->b, y, x))                                                           \
    X(ph_where, ph_where(t, x, y, y))                                                              \
    X(ph_masked_fill, ph_masked_fill(t, x, b->b, 1))                                               \
    X(ph_masked_fill, ph_masked_fill(t, y, x, 1))                                                  \
    X(ph_exp, ph_exp(t, x))                                                                        \
    X(ph_log, ph_log(t, x))                                                                        \
    X(ph_sqrt, ph_sqrt(t, x))                                                                      \
    X(ph_rsqrt, ph_rsqrt(t, x))                                                                    \
    X(ph_square, ph_square(t, x))                                                                  \
    X(ph_tanh, ph_tanh(t, x))                                                                      \
    X(ph_sigmoid, ph_sigmoid(t, x))                                                                \
    X(ph_relu, ph_relu(t, x))                                                                      \
    X(ph_gelu, ph_gelu(t, x))                                                                      \
    X(ph_gelu_tanh, ph_gelu_tanh(t, x))                                                            \
    X(ph_silu, ph_silu(t, x))                                                                      \
    X(ph_leaky_relu, ph_leaky_relu(t, x, 0.1))                                                     \
    X(ph_matmul, ph_matmul(t, x, y))                                                               \
    X(ph_matmul, ph_matmul(t, y, x))                                                               \
    X(ph_linear, ph_linear(t, x, y, NULL))                                                         \
    X(ph_linear, ph_linear(t, y, x, NULL))                                                         \
    X(ph_linear, ph_linear(t, ph_ones2(b), ph_ones2(b), x))                                        \
    X(ph_sum, ph_sum(t, x))                                                                        \
    X(ph_sum_over, ph_sum_over(t, x, PH_AXES(0), false))                                           \
    X(ph_mean, ph_mean(t, x))                                                                      \
    X(ph_mean_over, ph_mean_over(t, x, PH_AXES(0), false))                                         \
    X(ph_max, ph_max(t, x))                                                                        \
    X(ph_max_over, ph_max_over(t, x, PH_AXES(0), false))                                           \
    X(ph_argmax, ph_argmax(t, x, 0, false))                                                        \
    X(ph_norm, ph_norm(t, x, 2))                                                                   \
    X(ph_norm_over, ph_norm_over(t, x, 2, PH_AXES(0), false))                                      \
    X(ph_softmax, ph_softmax(t, x, 0))                                                             \
    X(ph_log_softmax, ph_log_softmax(t, x, 0))                                                     \
    X(ph_layer_norm, ph_layer_norm(t, x, y, y, 1e-5))                                              \
    X(ph_layer_norm, ph_layer_norm(t, y, x, y, 1e-5))                                              \
    X(ph_layer_norm, ph_layer_norm(t, y, y, x, 1e-5))                                              \
    X(ph_rms_norm, ph_rms_norm(t, y, x, 1e-5))                                                     \
    X(ph_cross_entropy, ph_cross_entropy(t, x, b->i))                                              \
    X(ph_cross_entropy, ph_cross_entropy(t, ph_ones2(b), x))                                       \
    X(ph_cross_entropy_with, ph_cross_entropy_with(t, x, b->i, NULL))                              \
    X(ph_mse, ph_mse(t, x, y))                                                                     \
    X(ph_mse, ph_mse(t, y, x))                                                                     \
    X(ph_embedding, ph_embedding(t, x, b->i))                                                      \
    X(ph_embedding, ph_embedding(t, ph_ones2(b), x))                                               \
    X(ph_gather, ph_gather(t, x, 0, b->i))                                                         \
    X(ph_gather, ph_gather(t, y, 0, x))                                                            \
    X(ph_scatter, ph_scatter(t, x, 0, b->i, y))                                                    \
    X(ph_scatter, ph_scatter(t, y, 0, b->i, x))                                                    \
    X(ph_scatter_add, ph_scatter_add(t, y, 0, x, y))                                               \
    X(ph_index_select, ph_index_select(t, x, 0, b->i))                                             \
    X(ph_index_select, ph_index_select(t, y, 0, x))                                                \
    X(ph_concat, ph_concat(t, (ph_tensor *[]){y, x}, 2, 0))                                        \
    X(ph_concat, ph_concat(t, (ph_tensor *[]){x, y}, 2, 0))                                        \
    X(ph_stack, ph_stack(t, (ph_tensor *[]){y, x}, 2, 0))                                          \
    X(ph_split, ph_split(t, out, x, 0, (const int64_t[]){1, 1}, 2))                                \
    X(ph_attention, ph_attention(t, x, x, x, NULL))                                                \
    X(ph_normal_of, ph_normal_of(t, x, y))                                                         \
    X(ph_normal_of, ph_normal_of(t, y, x))                                                         \
    X(ph_poisson, ph_poisson(t, x))                                                                \
    X(ph_bernoulli, ph_bernoulli(t, x))                                                            \
    X(ph_tensor_uniform, ph_tensor_uniform(t, x, 0, 1))                                            \
    X(ph_tensor_normal, ph_tensor_normal(t, x, 0, 1))                                              \
    X(ph_tensor_exponential, ph_tensor_exponential(t, x, 1))                                       \
    X(ph_tensor_log_normal, ph_tensor_log_normal(t, x, 0, 1))                                      \
    X(ph_tensor_cauchy, ph_tensor_cauchy(t, x, 0, 1))                                              \
    X(ph_tensor_geometric, ph_tensor_geometric(t, x, 0.5))                                         \
    X(ph_tensor_random, ph_tensor_random(t, x, 0, 2))                                              \
    X(ph_tensor_bernoulli, ph_tensor_bernoulli(t, x, 0.5))                                         \
    X(ph_tensor_bernoulli_of, ph_tensor_bernoulli_of(t, x, y))                                     \
    X(ph_tensor_bernoulli_of, ph_tensor_bernoulli_of(t, b->b, x))                                  \
    X(ph_dropout, ph_dropout(t, x, 0.5))                                                           \
    X(ph_rrelu, ph_rrelu(t, x, 0.1, 0.2))                                                          \
    X(ph_backward, ph_backward(t, x))                                                              \
    X(ph_backward_from, ph_backward_from(t, &x, NULL, 1, NULL))                                    \
    X(ph_backward_from, ph_backward_from(t, (ph_tensor *[]){ph_neg(t, y)}, &x, 1, NULL))           \
    X(ph_grad, ph_grad(t, out, &x, 1, (ph_tensor *[]){ph_sum(t, y)}, NULL, 1, &unused))            \
    X(ph_grad, ph_grad(t, out, &y, 1, &x, NULL, 1, NULL))                                          \
    X(ph_tape_scope_end, ph_tape_scope_end(t, ph_tape_scope_begin(t), &x, 1))                      \
    X(ph_custom_call, ph_custom_call(t, &custom, out, 1, &x, 1))                                   \
    X(ph_custom_save, ph_custom_call(t, &saving, out, 1, &y, 1))                                   \
    X(ph_checkpoint, ph_checkpoint(t, identity, NULL, out, 1, &x, 1))                              \
    X(ph_call, ph_call(t, module, x))                                                              \
    X(ph_call_n, ph_call_n(t, module, out, 1, &x, 1))                                              \
    X(ph_call_structured, ph_call_structured(t, module, out, 1, &x, 1, NULL, NULL))

#define STATUS_CALLS(X)                                                                            \
    X(ph_tensor_write, ph_tensor_write(t, x, "12345678", 8))                                       \
    X(ph_tensor_read, ph_tensor_read(t, x, bytes, 8))                                              \
    X(ph_tensor_item, ph_tensor_item(&number, t, x))                                               \
    X(ph_tensor_format, ph_tensor_format(&text, t, x))                                             \
    X(ph_tensor_set_requires_grad, ph_tensor_set_requires_grad(x, true))                           \
    X(ph_tensor_set_grad, ph_tensor_set_grad(x, y))                                                \
    X(ph_tensor_set_grad, ph_tensor_set_grad(x, NULL))                                             \
    X(ph_tensor_set_grad, ph_tensor_set_grad(y, x))                                                \
    X(ph_tensor_hook_add, ph_tensor_hook_add(&hook, x, same, NULL))                                \
    X(ph_npy_write, ph_npy_write(t, x, t_inside(&folder, "x.npy")))                                \
    X(ph_safetensors_write,                                                                        \
      ph_safetensors_write(t, t_inside(&folder, "x.st"), &(ph_named_tensor){"x", x}, 1))           \
    X(ph_safetensors_read_into, ph_safetensors_read_into(t, x, file, "y"))                         \
    X(ph_tensor_to_dlpack, ph_tensor_to_dlpack(&managed, t, x, NULL))                              \
    X(ph_tensor_to_dlpack_unversioned, ph_tensor_to_dlpack_unversioned(&unversioned, t, x, NULL))  \
    X(ph_module_create, ph_module_create(&fresh, b->s.device, &desc))                              \
    X(ph_make_graphed_callables,                                                                   \
      ph_make_graphed_callables(&fresh, &module, &(ph_sample){.tensors = &x, .count = 1}, 1,       \
                                NULL))

#define LOOKS(X)                                                                                   \
    X(ph_tensor_retain, ph_tensor_retain(x) == NULL)                                               \
    X(ph_tensor_release, (ph_tensor_release(x), true))                                             \
    X(ph_tensor_device, ph_tensor_device(x) == NULL)                                               \
    X(ph_tensor_dtype, ph_tensor_dtype(x) == (ph_dtype)0)                                          \
    X(ph_tensor_shape, ph_tensor_shape(x).rank == 0)                                               \
    X(ph_tensor_rank, ph_tensor_rank(x) == 0)                                                      \
    X(ph_tensor_dim, ph_tensor_dim(x, 0) == 0)                                                     \
    X(ph_tensor_stride, ph_tensor_stride(x, 0) == 0)                                               \
    X(ph_tensor_count, ph_tensor_count(x) == 0)                                                    \
    X(ph_tensor_bytes, ph_tensor_bytes(x) == 0)                                                    \
    X(ph_tensor_data, ph_tensor_data(x) == NULL)                                                   \
    X(ph_tensor_is_contiguous, !ph_tensor_is_contiguous(x))                                        \
    X(ph_tensor_is_pinned, !ph_tensor_is_pinned(x))                                                \
    X(ph_tensor_version, ph_tensor_version(x) == 0)                                                \
    X(ph_tensor_requires_grad, !ph_tensor_requires_grad(x))                                        \
    X(ph_tensor_is_leaf, !ph_tensor_is_leaf(x))                                                    \
    X(ph_tensor_grad, ph_tensor_grad(x) == NULL)
#endif
