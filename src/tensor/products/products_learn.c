/* SPDX-License-Identifier: MIT */
/* tensor/products/products_learn.c: captures calls of cuBLASLt with made-up addresses, and finds
 * in what their kernels differ. */
#include "tensor/products/products_learn.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "tensor/products/cublaslt.h"
#include "tensor/products/products_node.h"
#include <string.h>

enum {
    LOW, /* the least alignment that products of the plan have */
    HIGH,
    /* The last call is of the product's own operands. */
    MADE_UP = 7,
    CALLS = MADE_UP + 1,
    HIGH_ALIGNMENT = 512 /* bytes, or more: of the allocator's blocks */
};
/* Of any two operands each pair of alignments is there. In the last one a and b are the same. */
static const unsigned char alignments[MADE_UP][PH__PRODUCT_OPERANDS] = {
    {LOW, LOW, LOW, LOW},    {LOW, HIGH, HIGH, HIGH}, {HIGH, LOW, HIGH, HIGH},
    {HIGH, HIGH, LOW, HIGH}, {HIGH, HIGH, HIGH, LOW}, {HIGH, HIGH, HIGH, HIGH},
    {HIGH, HIGH, HIGH, HIGH}};

typedef struct lesson {
    ph__cublas *cublas;
    ph__product_plan *plan;
    const ph__product *like;
    ph__product_operands operands[CALLS];
    ph__product_node nodes[CALLS];
    ph__cu_node last[2]; /* of each stream's capture */
    ph__product_layout layout;
    unsigned char arguments[CALLS][PH__PRODUCT_BYTES];
    unsigned char differs[PH__PRODUCT_BYTES]; /* 0: a byte that is the same in all calls */
} lesson;

/* ---- made-up addresses ---- */
/* Addresses have 47 bits. */
static uint64_t make_up_number(ph__rng *numbers)
{
    return ph__rng_next(numbers) >> (64 - 47);
}

/* A multiple of no higher power of two. */
static uint64_t make_up_low(ph__rng *numbers, uint64_t alignment)
{
    return (make_up_number(numbers) & ~(2 * alignment - 1)) | alignment;
}

static uint64_t make_up_high(ph__rng *numbers)
{
    return make_up_number(numbers) & ~(uint64_t)(HIGH_ALIGNMENT - 1);
}

static uint64_t least_alignment(const lesson *l, int operand)
{
    const ph__product *p = l->like;
    const uint64_t alignment = l->plan->kind.alignment;
    const uint64_t element = operand == 2 && p->wide ? sizeof(float) : ph_dtype_size(p->dtype);
    return element > alignment ? element : alignment;
}

static void make_up_operands(lesson *l)
{
    ph__rng numbers = {1};
    for (int call = 0; call < MADE_UP; call++)
        for (int i = 0; i < PH__PRODUCT_OPERANDS; i++) {
            bool high = alignments[call][i] == HIGH;
            l->operands[call].at[i] =
                high ? make_up_high(&numbers) : make_up_low(&numbers, least_alignment(l, i));
        }
    l->operands[MADE_UP - 1].at[1] = l->operands[MADE_UP - 1].at[0];
    for (int call = 0; !l->like->bias && call < MADE_UP; call++)
        l->operands[call].at[PH__PRODUCT_BIAS_OPERAND] = 0;
    l->operands[MADE_UP] = ph__product_operands_of(l->like);
}

/* ---- captured calls ---- the streams take turns. */
static ph__product_answer capture_call(lesson *l, int call)
{
    ph__cu_stream stream = l->cublas->learning[call % 2];
    const uint64_t *at = l->operands[call].at;
    ph__product p = *l->like;
    p.a = (const void *)(uintptr_t)at[0];
    p.b = (const void *)(uintptr_t)at[1];
    p.c = (void *)(uintptr_t)at[2];
    p.bias = (const void *)(uintptr_t)at[PH__PRODUCT_BIAS_OPERAND];
    int result = ph__product_plan_call(l->cublas, l->plan, &p, NULL, stream);
    if (result != PH__LT_OK)
        return result == PH__LT_NOT_SUPPORTED ? PH__PRODUCT_NO : PH__PRODUCT_FAILED;
    /* The first call and the product's own ask for all attributes. */
    const ph__product_node *like = call > 0 && call < MADE_UP ? &l->nodes[0] : NULL;
    return ph__product_node_read(&l->nodes[call], &l->cublas->driver, stream, &l->last[call % 2],
                                 like);
}

/* ---- what the calls have in common ---- */
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

static uint64_t eight_bytes(const unsigned char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Zeros are behind the last parameter. */
static void find_differences(lesson *l)
{
    for (size_t i = 0; i < l->layout.bytes; i += sizeof(uint64_t)) {
        uint64_t differs = 0;
        for (int call = 1; call < CALLS; call++)
            differs |= eight_bytes(&l->arguments[0][i]) ^ eight_bytes(&l->arguments[call][i]);
        memcpy(&l->differs[i], &differs, sizeof differs);
    }
}

static bool is_constant(const lesson *l, size_t offset, size_t bytes)
{
    static const unsigned char same[8];
    return memcmp(&l->differs[offset], same, bytes) == 0;
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
static void fill_kernel(ph__product_kernel *out, const lesson *l)
{
    const ph__product_node *node = &l->nodes[MADE_UP];
    out->function = node->params.function;
    out->shared_bytes = node->params.shared_bytes;
    out->in_buffer = node->params.extra != NULL;
    memcpy(out->grid, node->params.grid, sizeof out->grid);
    memcpy(out->block, node->params.block, sizeof out->block);
    ph__product_node_attributes(out, node);
    out->parameter_count = l->layout.count;
    out->bytes = l->layout.bytes;
    for (size_t i = 0; i < l->layout.count; i++)
        out->offsets[i] = (uint32_t)l->layout.offsets[i];
    memcpy(out->arguments, l->arguments[0], l->layout.bytes);
}

static ph__product_answer make_kernel(ph__product_kernel **out, lesson *l)
{
    for (int call = 1; call < CALLS; call++)
        if (!ph__product_nodes_match(&l->nodes[0], &l->nodes[call]))
            return PH__PRODUCT_NO;
    ph__product_answer answer =
        ph__product_layout_read(&l->layout, &l->cublas->driver, l->nodes[0].params.function);
    for (int call = 0; answer == PH__PRODUCT_YES && call < CALLS; call++)
        if (!ph__product_node_gather(l->arguments[call], &l->layout, &l->nodes[call]))
            answer = PH__PRODUCT_NO;
    if (answer != PH__PRODUCT_YES)
        return answer;
    *out = ph__calloc(1, sizeof **out + l->layout.bytes);
    if (!*out)
        return PH__PRODUCT_FAILED;
    find_differences(l);
    if (!find_addresses(*out, l))
        return PH__PRODUCT_NO;
    fill_kernel(*out, l);
    return PH__PRODUCT_YES;
}

/* Launches with the operands of the last calls become the nodes of these calls again. */
static ph__product_answer check_launches(lesson *l, const ph__product_kernel *kernel)
{
    const ph__product_driver *driver = &l->cublas->driver;
    for (int call = MADE_UP - 1; call < CALLS; call++) {
        unsigned char arguments[PH__PRODUCT_BYTES];
        ph__product_node node;
        ph__cu_stream stream = l->cublas->learning[call % 2];
        if (ph__product_kernel_launch(kernel, driver, &l->operands[call], stream) != 0)
            return PH__PRODUCT_FAILED;
        ph__product_answer answer =
            ph__product_node_read(&node, driver, stream, &l->last[call % 2], &l->nodes[call]);
        if (answer != PH__PRODUCT_YES)
            return answer;
        if (!ph__product_nodes_match(&node, &l->nodes[call]) ||
            !ph__product_node_gather(arguments, &l->layout, &node) ||
            memcmp(arguments, l->arguments[call], l->layout.bytes) != 0)
            return PH__PRODUCT_NO;
    }
    return PH__PRODUCT_YES;
}

static ph__product_answer learn_from_calls(ph__product_kernel **out, lesson *l)
{
    ph__product_answer answer = PH__PRODUCT_YES;
    make_up_operands(l);
    for (int call = 0; answer == PH__PRODUCT_YES && call < CALLS; call++)
        answer = capture_call(l, call);
    if (answer == PH__PRODUCT_YES)
        answer = make_kernel(out, l);
    return answer == PH__PRODUCT_YES ? check_launches(l, *out) : answer;
}

/* ---- the captures ---- */
bool ph__product_streams_create(ph__cublas *cublas)
{
    bool made = true;
    for (int i = 0; made && i < 2; i++)
        made = cublas->driver.StreamCreateWithPriority(&cublas->learning[i],
                                                       PH__CU_STREAM_NON_BLOCKING, 0) == 0;
    return made;
}

void ph__product_streams_destroy(ph__cublas *cublas)
{
    for (int i = 0; i < 2; i++)
        if (cublas->learning[i])
            (void)cublas->driver.StreamDestroy(cublas->learning[i]);
}

static ph__product_answer learn_in_captures(ph__product_kernel **out, lesson *l)
{
    const ph__product_driver *driver = &l->cublas->driver;
    ph__product_answer answer = PH__PRODUCT_YES;
    int open = 0;
    for (; answer == PH__PRODUCT_YES && open < 2; open += answer == PH__PRODUCT_YES)
        if (driver->StreamBeginCapture(l->cublas->learning[open], PH__CU_CAPTURE_MODE_RELAXED) != 0)
            answer = PH__PRODUCT_FAILED;
    if (answer == PH__PRODUCT_YES)
        answer = learn_from_calls(out, l);
    for (int i = 0; i < open; i++) {
        ph__cu_graph graph = NULL;
        if (driver->StreamEndCapture(l->cublas->learning[i], &graph) != 0 &&
            answer == PH__PRODUCT_YES)
            answer = PH__PRODUCT_FAILED;
        if (graph)
            (void)driver->GraphDestroy(graph);
    }
    return answer;
}

ph__product_kernel *ph__product_learn(bool *differ, ph__cublas *cublas, ph__product_plan *plan,
                                      const ph__product *like)
{
    ph__product_kernel *made = NULL;
    lesson *l = ph__calloc(1, sizeof *l);
    *differ = false;
    if (!l)
        return NULL;
    *l = (lesson){.cublas = cublas, .plan = plan, .like = like};
    ph_capture_mode mode = ph__cublaslt_begin_relaxed();
    ph__product_answer answer = learn_in_captures(&made, l);
    ph__cublaslt_end_relaxed(mode);
    ph__free(l);
    if (answer == PH__PRODUCT_YES)
        return made;
    ph__free(made);
    *differ = answer == PH__PRODUCT_NO;
    return NULL;
}
