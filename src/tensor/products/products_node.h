/* SPDX-License-Identifier: MIT */
/* tensor/products/products_node.h: captured kernels of cuBLASLt, as the driver tells them. */
#ifndef PH_TENSOR_PRODUCTS_PRODUCTS_NODE_H
#define PH_TENSOR_PRODUCTS_PRODUCTS_NODE_H
#include "tensor/products/products_kernel.h"

enum {
    PH__PRODUCT_NODE_ATTRIBUTES = 9
};
/* A kernel node: its parameters live as long as its graph. */
typedef struct ph__product_node {
    ph__cu_kernel_params params;
    ph__cu_launch_value attributes[PH__PRODUCT_NODE_ATTRIBUTES];
    int results[PH__PRODUCT_NODE_ATTRIBUTES]; /* of asking: older drivers do not know them all */
} ph__product_node;

/* The places of a function's parameters in one struct. */
typedef struct ph__product_layout {
    size_t count, bytes;
    size_t offsets[PH__PRODUCT_PARAMETERS], sizes[PH__PRODUCT_PARAMETERS];
} ph__product_layout;

/* A call of the driver may fail for want of memory, say: what was asked is not known then. */
typedef enum ph__product_answer {
    PH__PRODUCT_YES,
    PH__PRODUCT_NO,
    PH__PRODUCT_FAILED
} ph__product_answer;

/* The node that a call has captured since *last, NULL at first, where it is one kernel behind a
 * full edge; *last becomes it. NO: other work was captured. like: another node, whose attributes
 * that the driver does not know are not asked for again; NULL: all are. */
ph__product_answer ph__product_node_read(ph__product_node *out, const ph__product_driver *driver,
                                         ph__cu_stream stream, ph__cu_node *last,
                                         const ph__product_node *like);
/* The same function, sizes, attributes, and way of giving parameters. */
bool ph__product_nodes_match(const ph__product_node *x, const ph__product_node *y);
/* NO: more parameters than a ph__product_kernel has room for, or none. */
ph__product_answer ph__product_layout_read(ph__product_layout *out,
                                           const ph__product_driver *driver,
                                           ph__cu_function function);
/* All parameters, of->bytes, each at its offset; what a buffer is too short for is zeros. False:
 * they are given in a way that is not known. */
bool ph__product_node_gather(unsigned char *out, const ph__product_layout *of,
                             const ph__product_node *node);
/* Copies the attributes of a launch: clusters, cooperation. Others are the stream's or the
 * function's. */
void ph__product_node_attributes(ph__product_kernel *out, const ph__product_node *node);
#endif
