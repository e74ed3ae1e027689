/* SPDX-License-Identifier: MIT */
/* tests/fake/cuda_programs.c: what programs make in graphs and the library does not: nodes that
 * take and give memory back, fills of several rows. The host driver has no such nodes: others
 * stand for them, and what they are is noted here. */
#include "cuda_inside.h"
#include "driver/host/stream/wait.h"
#include <string.h>

static const ph__driver *const host = &ph__driver_host;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fake_special *specials;

const fake_special *fake_special_of(const ph__drv_node *node)
{
    pthread_mutex_lock(&lock);
    const fake_special *found = specials;
    while (found && found->node != node)
        found = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

/* A graph's memory goes with the graph, also where the program frees it. */
static bool is_of_graph(const void *memory)
{
    pthread_mutex_lock(&lock);
    const fake_special *found = specials;
    while (found && (found->kind != PH_NODE_MEM_ALLOC || found->memory != memory))
        found = found->next;
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

bool fake_special_in(const ph__drv_graph *graph)
{
    pthread_mutex_lock(&lock);
    const fake_special *found = specials;
    while (found && found->graph != graph)
        found = found->next;
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

/* A capture must not see it. */
static int relaxed(ph_capture_mode *mode)
{
    *mode = PH_CAPTURE_RELAXED;
    return host->thread_exchange_mode(NULL, mode);
}

static void give_memory(ph__cu_context context, void *memory)
{
    ph_capture_mode mode;
    if (!memory || relaxed(&mode))
        return;
    (void)host->plain_free(context->device, memory);
    (void)host->thread_exchange_mode(NULL, &mode);
}

static int take_memory(void **memory, ph__cu_context context, size_t bytes)
{
    ph_capture_mode mode;
    int result = relaxed(&mode);
    if (result)
        return result;
    result = host->plain_alloc(memory, context->device, bytes);
    (void)host->thread_exchange_mode(NULL, &mode);
    return result;
}

/* The memory that a graph takes is there for as long as the graph. */
static void free_special(fake_special *special)
{
    if (special->kind == PH_NODE_MEM_ALLOC)
        give_memory(special->context, special->memory);
    ph__free(special->ops);
    ph__free(special);
}

void fake_special_forget(const ph__drv_graph *graph)
{
    fake_special *mine = NULL;
    pthread_mutex_lock(&lock);
    for (fake_special **at = &specials; *at;) {
        fake_special *special = *at;
        if (special->graph != graph) {
            at = &special->next;
            continue;
        }
        *at = special->next;
        special->next = mine;
        mine = special;
    }
    pthread_mutex_unlock(&lock);
    while (mine) {
        fake_special *next = mine->next;
        free_special(mine);
        mine = next;
    }
}

static void note(fake_special *special, ph__host_node *node)
{
    special->node = node->self;
    special->graph = (ph__drv_graph *)node->graph;
    pthread_mutex_lock(&lock);
    special->next = specials;
    specials = special;
    pthread_mutex_unlock(&lock);
}

/* ---- memory ---- on a stream that is capturing a node, else at once. */
static bool is_capturing(const fake_target *target)
{
    return atomic_load(&((ph__host_stream *)target->stream)->capturing);
}

static int record_work(fake_special *special, const fake_target *target, const ph__host_work *what)
{
    ph__host_stream *stream = (ph__host_stream *)target->stream;
    const ph__host_work work = *what;
    ph__host_node *node = NULL;
    int result = PH__R_ILLEGAL_STATE;
    pthread_mutex_lock(&stream->device->capture_lock);
    if (stream->capture && stream->capture->killed) {
        result = ph__host_capture_dead(stream->capture);
    } else if (stream->capture) {
        node = ph__host_graph_add(stream->capture->graph, &work, &stream->terminals);
        result = node ? 0 : PH__R_OUT_OF_MEMORY;
    }
    if (node)
        stream->terminals = ph__host_set_of(node);
    pthread_mutex_unlock(&stream->device->capture_lock);
    if (result)
        return result;
    note(special, node);
    return fake_graph_of(special->graph) ? 0 : PH__R_OUT_OF_MEMORY;
}

static int record(fake_special *special, const fake_target *target)
{
    const ph__host_work nothing = {.kind = PH_NODE_EMPTY};
    return record_work(special, target, &nothing);
}

static int record_memory(const fake_target *target, ph_node_kind kind, void *memory, size_t bytes)
{
    fake_special *special = ph__calloc(1, sizeof *special);
    if (!special)
        return PH__R_OUT_OF_MEMORY;
    special->kind = kind;
    special->context = target->context;
    special->memory = memory;
    special->bytes = bytes;
    int result = record(special, target);
    if (result && !special->node)
        ph__free(special);
    return result;
}

FAKE(MemAllocAsync, (ph__cu_pointer * address, size_t bytes, ph__cu_stream stream),
     (address, bytes, stream))
{
    fake_target target;
    void *memory = NULL;
    int result =
        address && bytes ? fake_target_of(&target, stream, "cuMemAllocAsync") : PH__R_INVALID_VALUE;
    if (!result)
        result = take_memory(&memory, target.context, bytes);
    if (result)
        return result;
    if (is_capturing(&target))
        result = record_memory(&target, PH_NODE_MEM_ALLOC, memory, bytes);
    if (result)
        give_memory(target.context, memory);
    else
        *address = (uintptr_t)memory;
    return result;
}

FAKE(MemFreeAsync, (ph__cu_pointer address, ph__cu_stream handle), (address, handle))
{
    fake_target target;
    void *memory = (void *)(uintptr_t)address;
    int result = address ? fake_target_of(&target, handle, "cuMemFreeAsync") : PH__R_INVALID_VALUE;
    if (result)
        return result;
    if (is_capturing(&target))
        return record_memory(&target, PH_NODE_MEM_FREE, memory, 0);
    if (is_of_graph(memory))
        return 0;
    ph__host_stream *stream = (ph__host_stream *)target.stream;
    ph__host_queue_wait(stream, atomic_load(&stream->submitted));
    give_memory(target.context, memory);
    return 0;
}

/* ---- batch memory operations ---- writes, in captures alone. */
static void write_words(void *user)
{
    const fake_special *special = user;
    for (unsigned i = 0; i < special->op_count; i++) {
        const ph__cu_mem_op *op = &special->ops[i];
        size_t bytes =
            op->operation == PH__CU_MEM_OP_WRITE_VALUE_64 ? sizeof(uint64_t) : sizeof(uint32_t);
        memcpy((void *)(uintptr_t)op->at.address, &op->at.value, bytes);
    }
}

FAKE(StreamBatchMemOp, (ph__cu_stream handle, unsigned count, ph__cu_mem_op *ops, unsigned flags),
     (handle, count, ops, flags))
{
    fake_target target;
    int result = count && count < 256 && ops && !flags
                     ? fake_target_of(&target, handle, "cuStreamBatchMemOp")
                     : PH__R_INVALID_VALUE;
    if (!result && !is_capturing(&target))
        result = PH__R_NOT_SUPPORTED;
    for (unsigned i = 0; i < count && !result; i++)
        if (ops[i].operation != PH__CU_MEM_OP_WRITE_VALUE_32 &&
            ops[i].operation != PH__CU_MEM_OP_WRITE_VALUE_64)
            result = PH__R_NOT_SUPPORTED;
    if (result)
        return result;
    fake_special *special = ph__calloc(1, sizeof *special);
    if (special)
        special->ops = ph__alloc(count * sizeof *ops);
    if (!special || !special->ops) {
        ph__free(special);
        return PH__R_OUT_OF_MEMORY;
    }
    memcpy(special->ops, ops, count * sizeof *ops);
    special->kind = PH_NODE_BATCH_MEM_OP;
    special->context = target.context;
    special->op_count = count;
    const ph__drv_host call = {write_words, special};
    const ph__host_work work = {.kind = PH_NODE_HOST, .args = &call, .args_size = sizeof call};
    result = record_work(special, &target, &work);
    if (result && !special->node)
        free_special(special);
    return result;
}

/* ---- graphs that no capture made ---- */
FAKE(GraphCreate, (ph__cu_graph * out, unsigned flags), (out, flags))
{
    ph__cu_context context;
    int result = out && flags == 0 ? fake_current(&context, "cuGraphCreate") : PH__R_INVALID_VALUE;
    if (result)
        return result;
    ph__drv_graph *graph = (ph__drv_graph *)ph__host_graph_create(fake_host(context));
    fake_graph *object = graph ? fake_graph_of(graph) : NULL;
    if (!object) {
        host->graph_destroy(graph);
        return PH__R_OUT_OF_MEMORY;
    }
    fake_recount(&object->object, false);
    *out = (ph__cu_graph)graph;
    return 0;
}

static void fill_rows(void *user)
{
    const ph__cu_fill_params *fill = user;
    for (size_t row = 0; row < fill->height; row++)
        for (size_t i = 0; i < fill->width; i++)
            memcpy((char *)(uintptr_t)fill->dst + row * fill->pitch + i * fill->element_bytes,
                   &fill->value, fill->element_bytes);
}

static int add_rows(ph__host_node **out, ph__host_graph *graph, const ph__host_node_set *after,
                    const ph__cu_fill_params *params, ph__cu_context context)
{
    fake_special *special = ph__calloc(1, sizeof *special);
    if (!special)
        return PH__R_OUT_OF_MEMORY;
    special->kind = PH_NODE_MEMSET;
    special->context = context;
    special->fill = *params;
    const ph__drv_host call = {fill_rows, &special->fill};
    const ph__host_work work = {.kind = PH_NODE_HOST, .args = &call, .args_size = sizeof call};
    *out = ph__host_graph_add(graph, &work, after);
    if (!*out) {
        ph__free(special);
        return PH__R_OUT_OF_MEMORY;
    }
    note(special, *out);
    return 0;
}

static int add_fill(ph__host_node **out, ph__host_graph *graph, const ph__host_node_set *after,
                    const ph__cu_fill_params *params)
{
    const ph__drv_memset fill = {(void *)(uintptr_t)params->dst, params->value,
                                 params->element_bytes, params->width};
    const ph__host_work work = {.kind = PH_NODE_MEMSET, .args = &fill, .args_size = sizeof fill};
    *out = ph__host_graph_add(graph, &work, after);
    return *out ? 0 : PH__R_OUT_OF_MEMORY;
}

FAKE(GraphAddMemsetNode,
     (ph__cu_node * out, ph__cu_graph handle, const ph__cu_node *dependencies, size_t count,
      const ph__cu_fill_params *params, ph__cu_context context),
     (out, handle, dependencies, count, params, context))
{
    ph__host_graph *graph = (ph__host_graph *)handle;
    ph__host_node *node = NULL;
    ph__host_node_set after = {0},
                      named = {.at = (ph__drv_node *const *)dependencies, .count = count};
    if (!out || !fake_find(FAKE_GRAPH, handle) || !params || !params->width || !params->height ||
        !fake_is_context(context) ||
        params->pitch < (params->height > 1) * params->width * params->element_bytes)
        return PH__R_INVALID_VALUE;
    pthread_mutex_lock(&graph->device->capture_lock);
    int result = ph__host_set_unite(graph, &after, &named) ? 0 : PH__R_OUT_OF_MEMORY;
    if (!result && params->height > 1)
        result = add_rows(&node, graph, &after, params, context);
    else if (!result)
        result = add_fill(&node, graph, &after, params);
    pthread_mutex_unlock(&graph->device->capture_lock);
    if (!result)
        *out = (ph__cu_node)node->self;
    return result;
}
