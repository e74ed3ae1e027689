/* SPDX-License-Identifier: MIT */
/* tensor/products/products_learn.c: captures calls of cuBLASLt with made-up addresses, and finds
 * in what their kernels differ. */
#include "tensor/products/products_learn.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "tensor/products/cublaslt.h"
#include <string.h>

enum {
    CALLS = 4,           /* two on each stream */
    HIGH_ALIGNMENT = 512 /* bytes: of the allocator's blocks */
};

/* A kernel node may have these beside its parameters. */
static const int attribute_ids[] = {PH__CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
                                    PH__CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                    PH__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                    PH__CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY,
                                    PH__CU_LAUNCH_ATTRIBUTE_PRIORITY,
                                    PH__CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAINS,
                                    PH__CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
                                    PH__CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION,
                                    PH__CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_CARVEOUT};
enum {
    ATTRIBUTES = sizeof attribute_ids / sizeof attribute_ids[0]
};

/* A captured kernel as the driver tells it; its parameters live as long as its graph. */
typedef struct kernel_node {
    ph__cu_kernel_params params;
    ph__cu_launch_value attributes[ATTRIBUTES];
    int results[ATTRIBUTES]; /* of asking: an older driver does not know them all */
} kernel_node;

typedef struct layout {
    size_t count, bytes;
    size_t offsets[PH__PRODUCT_PARAMETERS], sizes[PH__PRODUCT_PARAMETERS];
} layout;

typedef struct lesson {
    ph__cublas *cublas;
    ph__product_plan *plan;
    const ph__product *like;
    ph__product_operands operands[CALLS];
    kernel_node nodes[CALLS];
    ph__cu_node last[2]; /* of each stream's capture */
    layout layout;
    unsigned char arguments[CALLS][PH__PRODUCT_BYTES];
} lesson;

/* ---- made-up addresses ---- */

/* A multiple of the alignment and of no higher power of two, among the addresses that a GPU has. */
static uint64_t make_up_address(ph__rng *numbers, uint64_t alignment)
{
    const uint64_t lowest = UINT64_C(1) << 44;
    uint64_t number = lowest | (ph__rng_next(numbers) & (lowest - 1));
    return (number & ~(2 * alignment - 1)) | alignment;
}

/* The least alignment for all in the first call, a high one in the second, mixtures then. */
static void make_up_operands(lesson *l)
{
    const uint64_t least = l->plan->kind.alignment;
    ph__rng numbers = {1};
    for (int call = 0; call < CALLS; call++)
        for (int i = 0; i < PH__PRODUCT_OPERANDS; i++) {
            bool high = call == 1 || (call > 1 && (call + i) % 2 == 0);
            l->operands[call].at[i] = make_up_address(&numbers, high ? HIGH_ALIGNMENT : least);
        }
    for (int call = 0; !l->like->bias && call < CALLS; call++)
        l->operands[call].at[3] = 0;
}

/* ---- captured calls ---- */
static bool is_full_edge(const ph__cu_edge *edge)
{
    static const ph__cu_edge full;
    return !edge || memcmp(edge, &full, sizeof full) == 0;
}

/* The node that the stream's next work depends on, where it is one that depends on the last one
 * alone: nothing else was captured since. */
static bool find_new_node(ph__cu_node *node, const ph__product_driver *driver, ph__cu_stream stream,
                          ph__cu_node last)
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
        status != PH__CU_CAPTURE_STATUS_ACTIVE || count != 1 || !is_full_edge(edges) ||
        ends[0] == last)
        return false;
    *node = ends[0];
    return driver->GraphNodeGetDependencies(*node, before, before_edges, &before_count) == 0 &&
           before_count == (last ? 1 : 0) && before[0] == last && is_full_edge(before_edges);
}

static bool read_new_node(kernel_node *out, const ph__product_driver *driver, ph__cu_stream stream,
                          ph__cu_node *last)
{
    int type = -1;
    ph__cu_node node;
    memset(out, 0, sizeof *out);
    if (!find_new_node(&node, driver, stream, *last) ||
        driver->GraphNodeGetType(node, &type) != 0 || type != PH_NODE_KERNEL ||
        driver->GraphKernelNodeGetParams(node, &out->params) != 0)
        return false;
    for (int i = 0; i < ATTRIBUTES; i++)
        out->results[i] =
            driver->GraphKernelNodeGetAttribute(node, attribute_ids[i], &out->attributes[i]);
    *last = node;
    return out->params.function && (out->params.params || out->params.extra);
}

static bool capture_call(lesson *l, int call)
{
    ph__cu_stream stream = l->cublas->learning[call / 2];
    const uint64_t *at = l->operands[call].at;
    ph__product p = *l->like;
    p.a = (const void *)(uintptr_t)at[0];
    p.b = (const void *)(uintptr_t)at[1];
    p.c = (void *)(uintptr_t)at[2];
    p.bias = (const void *)(uintptr_t)at[3];
    return ph__product_plan_call(l->cublas, l->plan, &p, NULL, stream) == PH__LT_OK &&
           read_new_node(&l->nodes[call], &l->cublas->driver, stream, &l->last[call / 2]);
}

/* ---- what the calls have in common ---- */
static bool is_same_kernel(const kernel_node *x, const kernel_node *y)
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

static bool read_layout(layout *out, const ph__product_driver *driver, ph__cu_function function)
{
    size_t offset, bytes;
    while (driver->FuncGetParamInfo(function, out->count, &offset, &bytes) == 0) {
        if (out->count == PH__PRODUCT_PARAMETERS || offset + bytes > PH__PRODUCT_BYTES)
            return false;
        out->offsets[out->count] = offset;
        out->sizes[out->count++] = bytes;
        out->bytes = offset + bytes > out->bytes ? offset + bytes : out->bytes;
    }
    return out->count > 0;
}

/* The markers of `extra` stand in any order, each before its value. False: another one is there. */
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

/* Padding is zeros, as is what a buffer is too short for. */
static bool gather_arguments(unsigned char *out, const layout *of, const kernel_node *node)
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

/* The operand whose address, plus the same number in each call, the words at the offset are;
 * PH__PRODUCT_OPERANDS: none. */
static uint32_t find_operand(uint64_t *added, const lesson *l, size_t offset)
{
    uint64_t words[CALLS];
    for (int call = 0; call < CALLS; call++)
        memcpy(&words[call], &l->arguments[call][offset], sizeof words[call]);
    uint32_t operand = 0;
    for (; operand < PH__PRODUCT_OPERANDS; operand++) {
        int same = 1;
        *added = words[0] - l->operands[0].at[operand];
        while (same < CALLS && words[same] - l->operands[same].at[operand] == *added)
            same++;
        if (l->operands[0].at[operand] && same == CALLS)
            break;
    }
    return operand;
}

static bool is_constant(const lesson *l, size_t offset, size_t bytes)
{
    int same = 1;
    while (same < CALLS &&
           memcmp(&l->arguments[0][offset], &l->arguments[same][offset], bytes) == 0)
        same++;
    return same == CALLS;
}

/* Each word is constant, or a part of an address; and each operand is there. */
static bool find_addresses(ph__product_kernel *out, const lesson *l)
{
    size_t offset = 0, bytes = l->layout.bytes;
    bool found[PH__PRODUCT_OPERANDS] = {0};
    while (offset < bytes) {
        uint64_t added = 0;
        size_t word = bytes - offset < 4 ? bytes - offset : 4;
        bool wide = bytes - offset >= 8 && !is_constant(l, offset, 8);
        uint32_t operand = wide ? find_operand(&added, l, offset) : PH__PRODUCT_OPERANDS;
        if (operand == PH__PRODUCT_OPERANDS) {
            if (!is_constant(l, offset, word))
                return false;
            offset += word;
            continue;
        }
        if (out->address_count == PH__PRODUCT_ADDRESSES)
            return false;
        found[operand] = true;
        out->addresses[out->address_count++] =
            (ph__product_address){(uint32_t)offset, operand, added};
        offset += 8;
    }
    for (int i = 0; i < PH__PRODUCT_OPERANDS; i++)
        if (!found[i] && l->operands[0].at[i])
            return false;
    return true;
}

/* ---- the kernel ---- */
static const ph__cu_launch_value *attribute_of(const kernel_node *node, int id)
{
    int i = 0;
    while (attribute_ids[i] != id)
        i++;
    return &node->attributes[i];
}

/* The attributes that a launch asks for. Others are the stream's or the function's: where that is
 * not so, the launch below gives another node. */
static void copy_attributes(ph__product_kernel *out, const kernel_node *node)
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

static ph__product_kernel *make_kernel(lesson *l)
{
    const kernel_node *node = &l->nodes[CALLS - 1];
    for (int call = 0; call < CALLS - 1; call++)
        if (!is_same_kernel(&l->nodes[call], node))
            return NULL;
    if (!read_layout(&l->layout, &l->cublas->driver, node->params.function))
        return NULL;
    for (int call = 0; call < CALLS; call++)
        if (!gather_arguments(l->arguments[call], &l->layout, &l->nodes[call]))
            return NULL;
    ph__product_kernel *made = ph__calloc(1, sizeof *made + l->layout.bytes);
    if (made && !find_addresses(made, l)) {
        ph__free(made);
        return NULL;
    }
    if (!made)
        return NULL;
    made->function = node->params.function;
    made->shared_bytes = node->params.shared_bytes;
    made->in_buffer = node->params.extra != NULL;
    memcpy(made->grid, node->params.grid, sizeof made->grid);
    memcpy(made->block, node->params.block, sizeof made->block);
    copy_attributes(made, node);
    made->parameter_count = l->layout.count;
    made->bytes = l->layout.bytes;
    for (size_t i = 0; i < l->layout.count; i++)
        made->offsets[i] = (uint32_t)l->layout.offsets[i];
    memcpy(made->arguments, l->arguments[CALLS - 1], l->layout.bytes);
    return made;
}

/* A launch with the operands of another call, which is not what `arguments` are of, and one with
 * those of the last: the nodes of these calls come again. */
static bool is_proved(lesson *l, const ph__product_kernel *kernel)
{
    const ph__product_driver *driver = &l->cublas->driver;
    for (int call = CALLS - 2; call < CALLS; call++) {
        kernel_node node;
        if (ph__product_kernel_launch(kernel, driver, &l->operands[call], l->cublas->learning[1]) !=
                0 ||
            !read_new_node(&node, driver, l->cublas->learning[1], &l->last[1]) ||
            !is_same_kernel(&node, &l->nodes[call]))
            return false;
        unsigned char arguments[PH__PRODUCT_BYTES];
        if (!gather_arguments(arguments, &l->layout, &node) ||
            memcmp(arguments, l->arguments[call], l->layout.bytes) != 0)
            return false;
    }
    return true;
}

static ph__product_kernel *learn_from_calls(lesson *l)
{
    make_up_operands(l);
    for (int call = 0; call < CALLS; call++)
        if (!capture_call(l, call))
            return NULL;
    ph__product_kernel *made = make_kernel(l);
    if (made && !is_proved(l, made)) {
        ph__free(made);
        made = NULL;
    }
    return made;
}

/* ---- the streams ---- */
static bool have_streams(ph__cublas *cublas)
{
    for (int i = 0; i < 2; i++)
        if (!cublas->learning[i] && cublas->driver.StreamCreateWithPriority(
                                        &cublas->learning[i], PH__CU_STREAM_NON_BLOCKING, 0) != 0) {
            cublas->learning[i] = NULL;
            return false;
        }
    return true;
}

ph__product_kernel *ph__product_learn(ph__cublas *cublas, ph__product_plan *plan,
                                      const ph__product *like)
{
    const ph__product_driver *driver = &cublas->driver;
    lesson *l = ph__calloc(1, sizeof *l);
    ph__product_kernel *made = NULL;
    bool ended = true;
    if (!l)
        return NULL;
    *l = (lesson){.cublas = cublas, .plan = plan, .like = like};
    ph_capture_mode mode = ph__cublaslt_begin_relaxed();
    if (have_streams(cublas) &&
        driver->StreamBeginCapture(cublas->learning[0], PH__CU_CAPTURE_MODE_RELAXED) == 0) {
        bool both =
            driver->StreamBeginCapture(cublas->learning[1], PH__CU_CAPTURE_MODE_RELAXED) == 0;
        made = both ? learn_from_calls(l) : NULL;
        for (int i = 0; i < 1 + both; i++) {
            ph__cu_graph graph = NULL;
            ended &= driver->StreamEndCapture(cublas->learning[i], &graph) == 0;
            if (graph)
                (void)driver->GraphDestroy(graph);
        }
    }
    ph__cublaslt_end_relaxed(mode);
    ph__free(l);
    if (!ended) {
        ph__free(made);
        made = NULL;
    }
    return made;
}
