/* SPDX-License-Identifier: MIT */
/* tensor/operators/attention_graph.h: attention as graphs of cuDNN's operations: what a plan of one
 * depends on, and the operands of its calls. */
#ifndef PH_TENSOR_OPERATORS_ATTENTION_GRAPH_H
#define PH_TENSOR_OPERATORS_ATTENTION_GRAPH_H
#include "tensor/cudnn/cudnn_plan.h"

/* The words of a key. */
enum {
    PH__ATTENTION_BATCH,
    PH__ATTENTION_HEADS,
    PH__ATTENTION_KV_HEADS,
    PH__ATTENTION_ROWS, /* queries */
    PH__ATTENTION_KEYS,
    PH__ATTENTION_WIDTH,
    PH__ATTENTION_Q_STRIDES,                               /* of batch, heads, rows */
    PH__ATTENTION_K_STRIDES = PH__ATTENTION_Q_STRIDES + 3, /* and so on */
    PH__ATTENTION_V_STRIDES = PH__ATTENTION_K_STRIDES + 3,
    PH__ATTENTION_G_STRIDES = PH__ATTENTION_V_STRIDES + 3,
    PH__ATTENTION_O_STRIDES = PH__ATTENTION_G_STRIDES + 3,
    PH__ATTENTION_DQ_STRIDES = PH__ATTENTION_O_STRIDES + 3,
    PH__ATTENTION_DK_STRIDES = PH__ATTENTION_DQ_STRIDES + 3,
    PH__ATTENTION_DV_STRIDES = PH__ATTENTION_DK_STRIDES + 3,
    PH__ATTENTION_DTYPE = PH__ATTENTION_DV_STRIDES + 3,
    PH__ATTENTION_CAUSAL,
    PH__ATTENTION_PASS /* ph__attention_pass */
};
_Static_assert((int)PH__ATTENTION_PASS < (int)PH__CUDNN_KEY_WORDS, "all of it is in the key");

typedef enum ph__attention_pass {
    PH__ATTENTION_FORWARD,
    PH__ATTENTION_ORDERED, /* backward, every sum in a fixed order */
    PH__ATTENTION_ATOMIC   /* backward, dq by atomic additions */
} ph__attention_pass;

/* Ids of memory and numbers. */
enum {
    PH__ATTENTION_Q = 1,
    PH__ATTENTION_K,
    PH__ATTENTION_V,
    PH__ATTENTION_O,
    PH__ATTENTION_LSE,
    PH__ATTENTION_G,
    PH__ATTENTION_DQ,
    PH__ATTENTION_DK,
    PH__ATTENTION_DV,
    PH__ATTENTION_DELTA,
    PH__ATTENTION_SCALE,
    PH__ATTENTION_HIDDEN, /* the score of what is not seen: -infinity */
    PH__ATTENTION_ONE,
    PH__ATTENTION_DQ_SUM /* of the atomic pass: dq in f32 */
};

/* A ph__cudnn_describe. */
void ph__attention_describe(ph__cudnn_graph *graph, const ph__cudnn_key *key);
#endif
