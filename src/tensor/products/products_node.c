/* SPDX-License-Identifier: MIT */
/* tensor/products/products_node.c: reading captured kernels of cuBLASLt. */
#include "tensor/products/products_node.h"
#include "driver/result.h"
#include <string.h>

/* A kernel node may have these beside its parameters. */
static const int attribute_ids[PH__PRODUCT_NODE_ATTRIBUTES] = {
    PH__CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
    PH__CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
    PH__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
    PH__CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY,
    PH__CU_LAUNCH_ATTRIBUTE_PRIORITY,
    PH__CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAINS,
    PH__CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
    PH__CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION,
    PH__CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_CARVEOUT};

/* ---- the node ---- */
static bool is_full_edge(const ph__cu_edge *edge)
{
    static const ph__cu_edge full;
    return !edge || memcmp(edge, &full, sizeof full) == 0;
}

/* The node that the stream's next work depends on, where it is one that depends on the last one
 * alone: nothing else was captured since. */
static ph__product_answer find_new_node(ph__cu_node *node, const ph__product_driver *driver,
                                        ph__cu_stream stream, ph__cu_node last)
{
    int status = 0;
    uint64_t id;
    ph__cu_graph graph;
    const ph__cu_node *ends = NULL;
    const ph__cu_edge *edges = NULL;
    size_t count = 0, before_count = 2;
    ph__cu_node before[2] = {0};
    ph__cu_edge before_edges[2] = {0};
    if (driver->StreamGetCaptureInfo(stream, &status, &id, &graph, &ends, &edges, &count) != 0 ||
        status != PH__CU_CAPTURE_STATUS_ACTIVE)
        return PH__PRODUCT_FAILED;
    if (count != 1 || !is_full_edge(edges) || ends[0] == last)
        return PH__PRODUCT_NO;
    *node = ends[0];
    if (driver->GraphNodeGetDependencies(*node, before, before_edges, &before_count) != 0)
        return PH__PRODUCT_FAILED;
    return before_count == (last ? 1 : 0) && before[0] == last && is_full_edge(before_edges)
               ? PH__PRODUCT_YES
               : PH__PRODUCT_NO;
}

/* A driver answers INVALID_VALUE for an attribute that it does not know, which takes it twenty
 * times as long. */
static ph__product_answer read_attributes(ph__product_node *out, const ph__product_driver *driver,
                                          ph__cu_node node, const ph__product_node *like)
{
    for (int i = 0; i < PH__PRODUCT_NODE_ATTRIBUTES; i++) {
        out->results[i] = like ? like->results[i] : PH__R_OK;
        if (out->results[i] != PH__R_OK)
            continue;
        out->results[i] =
            driver->GraphKernelNodeGetAttribute(node, attribute_ids[i], &out->attributes[i]);
        if (out->results[i] != PH__R_OK && out->results[i] != PH__R_INVALID_VALUE)
            return PH__PRODUCT_FAILED;
    }
    return PH__PRODUCT_YES;
}

ph__product_answer ph__product_node_read(ph__product_node *out, const ph__product_driver *driver,
                                         ph__cu_stream stream, ph__cu_node *last,
                                         const ph__product_node *like)
{
    int type = -1;
    ph__cu_node node;
    memset(out, 0, sizeof *out);
    ph__product_answer answer = find_new_node(&node, driver, stream, *last);
    if (answer != PH__PRODUCT_YES)
        return answer;
    if (driver->GraphNodeGetType(node, &type) != 0)
        return PH__PRODUCT_FAILED;
    if (type != PH_NODE_KERNEL)
        return PH__PRODUCT_NO;
    if (driver->GraphKernelNodeGetParams(node, &out->params) != 0)
        return PH__PRODUCT_FAILED;
    answer = read_attributes(out, driver, node, like);
    if (answer != PH__PRODUCT_YES)
        return answer;
    *last = node;
    return out->params.function && (out->params.params || out->params.extra) ? PH__PRODUCT_YES
                                                                             : PH__PRODUCT_NO;
}

bool ph__product_nodes_match(const ph__product_node *x, const ph__product_node *y)
{
    return x->params.function == y->params.function && x->params.kernel == y->params.kernel &&
           x->params.context == y->params.context &&
           x->params.shared_bytes == y->params.shared_bytes &&
           !x->params.extra == !y->params.extra &&
           memcmp(x->params.grid, y->params.grid, sizeof x->params.grid) == 0 &&
           memcmp(x->params.block, y->params.block, sizeof x->params.block) == 0 &&
           memcmp(x->attributes, y->attributes, sizeof x->attributes) == 0 &&
           memcmp(x->results, y->results, sizeof x->results) == 0;
}

/* ---- its parameters ---- */
ph__product_answer ph__product_layout_read(ph__product_layout *out,
                                           const ph__product_driver *driver,
                                           ph__cu_function function)
{
    size_t offset, bytes;
    int result;
    *out = (ph__product_layout){0};
    while ((result = driver->FuncGetParamInfo(function, out->count, &offset, &bytes)) == 0) {
        if (out->count == PH__PRODUCT_PARAMETERS || offset + bytes > PH__PRODUCT_BYTES)
            return PH__PRODUCT_NO;
        out->offsets[out->count] = offset;
        out->sizes[out->count++] = bytes;
        out->bytes = offset + bytes > out->bytes ? offset + bytes : out->bytes;
    }
    /* Behind the last one, and for no other reason. */
    if (result != PH__R_INVALID_VALUE)
        return PH__PRODUCT_FAILED;
    return out->count > 0 ? PH__PRODUCT_YES : PH__PRODUCT_NO;
}

/* The markers of `extra` stand in any order, each before its value. */
static bool find_buffer(const void **buffer, size_t *bytes, void *const *extra)
{
    *buffer = NULL;
    *bytes = 0;
    for (; *extra != PH__CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == PH__CU_LAUNCH_PARAM_BUFFER_POINTER)
            *buffer = extra[1];
        else if (extra[0] == PH__CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1])
            *bytes = *(const size_t *)extra[1];
        else
            return false;
    }
    return *buffer != NULL;
}

bool ph__product_node_gather(unsigned char *out, const ph__product_layout *of,
                             const ph__product_node *node)
{
    const void *buffer = NULL;
    size_t bytes = 0;
    memset(out, 0, of->bytes);
    if (node->params.extra) {
        if (!find_buffer(&buffer, &bytes, node->params.extra) || bytes > of->bytes)
            return false;
        memcpy(out, buffer, bytes);
        return true;
    }
    for (size_t i = 0; i < of->count; i++)
        memcpy(out + of->offsets[i], node->params.params[i], of->sizes[i]);
    return true;
}

/* ---- its attributes ---- */
static const ph__cu_launch_value *attribute_of(const ph__product_node *node, int id)
{
    int i = 0;
    while (attribute_ids[i] != id)
        i++;
    return &node->attributes[i];
}

void ph__product_node_attributes(ph__product_kernel *out, const ph__product_node *node)
{
    static const int ids[PH__PRODUCT_ATTRIBUTES] = {
        PH__CU_LAUNCH_ATTRIBUTE_COOPERATIVE, PH__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        PH__CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY};
    static const ph__cu_launch_value none;
    for (int i = 0; i < PH__PRODUCT_ATTRIBUTES; i++) {
        const ph__cu_launch_value *value = attribute_of(node, ids[i]);
        ph__cu_launch_attribute *to = &out->attributes[out->attribute_count];
        if (memcmp(value, &none, sizeof none) == 0)
            continue;
        to->id = ids[i];
        to->value = *value;
        out->attribute_count++;
    }
}
