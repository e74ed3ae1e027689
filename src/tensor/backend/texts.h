/* SPDX-License-Identifier: MIT */
/* tensor/backend/texts.h: the CUDA texts that the library embeds. */
#ifndef PH_TENSOR_BACKEND_TEXTS_H
#define PH_TENSOR_BACKEND_TEXTS_H

/* Texts of cuda/, embedded: ph__text_<name>, NUL-terminated. */
#define PH__TEXTS(X)                                                                               \
    X(prelude)                                                                                     \
    X(bundle)                                                                                      \
    X(factory)                                                                                     \
    X(elementwise)                                                                                 \
    X(reduce)                                                                                      \
    X(rows)                                                                                        \
    X(softmax)                                                                                     \
    X(cross_entropy)                                                                               \
    X(norm)                                                                                        \
    X(indexing)                                                                                    \
    X(attention_products)                                                                          \
    X(attention_tiles)                                                                             \
    X(attention)                                                                                   \
    X(attention_keys)                                                                              \
    X(attention_simple)                                                                            \
    X(attention_warpgroups)                                                                        \
    X(attention_warpgroups_queries)                                                                \
    X(attention_warpgroups_keys)                                                                   \
    X(products)                                                                                    \
    X(transpose)                                                                                   \
    X(draws)                                                                                       \
    X(random)                                                                                      \
    X(update_sgd)                                                                                  \
    X(update_adam)                                                                                 \
    X(update_adagrad)                                                                              \
    X(optimizer_count)                                                                             \
    X(optimizer)                                                                                   \
    X(gradients)
#define PH__TEXT_DECLARE(name)                                                                     \
    extern const char ph__text_##name[] __attribute__((visibility("hidden")));
PH__TEXTS(PH__TEXT_DECLARE)
#undef PH__TEXT_DECLARE
#endif
