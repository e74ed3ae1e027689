/* SPDX-License-Identifier: MIT */
/* tensor/backend/each.h: X(array, i) for each i of an argument array, to list its elements as the
 * parameters of a kernel. */
#ifndef PH_TENSOR_BACKEND_EACH_H
#define PH_TENSOR_BACKEND_EACH_H

/* clang-format off */
#define PH__EACH_10(X, array, tens)                                                                \
    X(array, tens##0) X(array, tens##1) X(array, tens##2) X(array, tens##3) X(array, tens##4)      \
    X(array, tens##5) X(array, tens##6) X(array, tens##7) X(array, tens##8) X(array, tens##9)
#define PH__EACH_60(X, array)                                                                      \
    PH__EACH_10(X, array, ) PH__EACH_10(X, array, 1) PH__EACH_10(X, array, 2)                      \
    PH__EACH_10(X, array, 3) PH__EACH_10(X, array, 4) PH__EACH_10(X, array, 5)
#define PH__EACH_64(X, array)                                                                      \
    PH__EACH_60(X, array) X(array, 60) X(array, 61) X(array, 62) X(array, 63)
#define PH__EACH_96(X, array)                                                                      \
    PH__EACH_60(X, array) PH__EACH_10(X, array, 6) PH__EACH_10(X, array, 7)                        \
    PH__EACH_10(X, array, 8)                                                                       \
    X(array, 90) X(array, 91) X(array, 92) X(array, 93) X(array, 94) X(array, 95)
/* clang-format on */
#endif
