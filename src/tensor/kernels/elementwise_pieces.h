/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_pieces.h: the work of an element-wise kernel on the host, and operands
 * of any strides and dtypes brought together piece by piece. */
#ifndef PH_TENSOR_KERNELS_ELEMENTWISE_PIECES_H
#define PH_TENSOR_KERNELS_ELEMENTWISE_PIECES_H
#include "tensor/kernels/elementwise_host.h"

enum {
    PH__PIECE = 512, /* elements */
    PH__SIDE_OUT = 0,
    PH__SIDES = 4
};

/* An operand, or the output (index 0), as the pieces see it. */
typedef struct ph__side {
    char *at; /* of the first element */
    /* bytes of an element; half: 1 + the column of its conversion to f32, or 0 */
    size_t size, half;
    bool dense, uniform; /* element i is at at + i * size; all elements are one */
    const int64_t *stride;
} ph__side;

typedef struct ph__element_job {
    const ph__elementwise_info *info;
    ph__core_table cores;
    ph__side sides[PH__SIDES];
    ph__scalar a, b;
    const int64_t *dim;
    size_t rank;
} ph__element_job;

typedef union ph__piece_buffer {
    uint8_t bytes[PH__PIECE * 8];
    double align;
} ph__piece_buffer;

/* The element that a buffer is full of, so many times. */
typedef struct ph__repeated {
    const char *at;
    int64_t n;
} ph__repeated;

/* Of the element at position, the last dimension running fastest. */
void ph__find_index(int64_t index[PH_MAX_RANK], const ph__element_job *j, int64_t position);
/* Moves n elements from position on between their places in s and an array. */
void ph__move_piece(const ph__element_job *j, const ph__side *s, char *array, int64_t position,
                    int64_t n, bool into_array);
/* n times the first element of s, in the type that is computed in. */
void ph__repeat_element(const ph__element_job *j, const ph__side *s, ph__piece_buffer *to,
                        int64_t n);
/* Elements [begin, end) of any layout. */
void ph__run_pieces(const ph__element_job *j, int64_t begin, int64_t end);
#endif
