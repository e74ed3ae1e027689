/* SPDX-License-Identifier: MIT */
/* tensor/cudnn/cudnn_graph.c: descriptors of a graph of operations, and its plan. */
#include "tensor/cudnn/cudnn_graph.h"
#include "tensor/cudnn/cudnn.h"
#include <string.h>

enum {
    TOO_MANY = -1,  /* no cudnnStatus_t: the graph is larger than PH__CUDNN_MOST_.. */
    VIRTUAL = 1000, /* ids of tensors without memory come after this */
    ALIGNMENT = 16, /* of memory, in bytes */
    PROPOSALS = PH__BENCHMARK_LIMIT
};
static const unsigned unknown_notes = ~0u;

/* ---- descriptors ---- */
static void *new_descriptor(ph__cudnn_graph *g, int type)
{
    void *made = NULL;
    if (g->result)
        return NULL;
    if (g->made_count == PH__CUDNN_MOST_DESCRIPTORS) {
        g->result = TOO_MANY;
        return NULL;
    }
    g->result = ph__cudnn_library.BackendCreateDescriptor(type, &made);
    if (!g->result)
        g->made[g->made_count++] = made;
    return made;
}

static void set_attribute(ph__cudnn_graph *g, void *descriptor, int name, int type, int64_t count,
                          const void *values)
{
    if (!g->result)
        g->result = ph__cudnn_library.BackendSetAttribute(descriptor, name, type, count, values);
}

static void set_number(ph__cudnn_graph *g, void *descriptor, int name, int type, int value)
{
    set_attribute(g, descriptor, name, type, 1, &value);
}

static void set_descriptor(ph__cudnn_graph *g, void *descriptor, int name, void *value)
{
    set_attribute(g, descriptor, name, PH__CUDNN_TYPE_DESCRIPTOR, 1, &value);
}

static void finalize_descriptor(ph__cudnn_graph *g, void *descriptor)
{
    if (!g->result)
        g->result = ph__cudnn_library.BackendFinalize(descriptor);
}

/* ---- tensors ---- */
static void set_dimensions(ph__cudnn_tensor *out, const int64_t *dim, const int64_t *stride)
{
    int64_t dense = 1;
    for (int i = PH__CUDNN_DIMS - 1; i >= 0; i--) {
        out->dim[i] = dim[i];
        out->stride[i] = stride ? stride[i] : dense;
        dense *= dim[i];
    }
}

/* flag: the attribute that says that it is no memory of the device's; 0: it is. */
static ph__cudnn_tensor make_tensor(ph__cudnn_graph *g, int64_t id, int dtype, const int64_t *dim,
                                    const int64_t *stride, int flag)
{
    int64_t alignment = ALIGNMENT;
    bool yes = true;
    ph__cudnn_tensor out = {.dtype = dtype};
    set_dimensions(&out, dim, stride);
    void *d = out.descriptor = new_descriptor(g, PH__CUDNN_TENSOR);
    set_number(g, d, PH__CUDNN_TENSOR_DTYPE, PH__CUDNN_TYPE_DTYPE, dtype);
    set_attribute(g, d, PH__CUDNN_TENSOR_DIMENSIONS, PH__CUDNN_TYPE_I64, PH__CUDNN_DIMS, out.dim);
    set_attribute(g, d, PH__CUDNN_TENSOR_STRIDES, PH__CUDNN_TYPE_I64, PH__CUDNN_DIMS, out.stride);
    set_attribute(g, d, PH__CUDNN_TENSOR_ID, PH__CUDNN_TYPE_I64, 1, &id);
    set_attribute(g, d, PH__CUDNN_TENSOR_ALIGNMENT, PH__CUDNN_TYPE_I64, 1, &alignment);
    if (flag)
        set_attribute(g, d, flag, PH__CUDNN_TYPE_BOOL, 1, &yes);
    finalize_descriptor(g, d);
    return out;
}

ph__cudnn_tensor ph__cudnn_memory(ph__cudnn_graph *g, int64_t id, int dtype, const int64_t *dim,
                                  const int64_t *stride)
{
    return make_tensor(g, id, dtype, dim, stride, 0);
}

ph__cudnn_tensor ph__cudnn_number(ph__cudnn_graph *g, int64_t id)
{
    static const int64_t one[PH__CUDNN_DIMS] = {1, 1, 1, 1};
    return make_tensor(g, id, PH__CUDNN_F32, one, NULL, PH__CUDNN_TENSOR_BY_VALUE);
}

ph__cudnn_tensor ph__cudnn_between(ph__cudnn_graph *g, int dtype, const int64_t *dim,
                                   const int64_t *stride)
{
    return make_tensor(g, VIRTUAL + ++g->ids, dtype, dim, stride, PH__CUDNN_TENSOR_VIRTUAL);
}

/* ---- operations ---- */
static void add_operation(ph__cudnn_graph *g, void *operation)
{
    finalize_descriptor(g, operation);
    if (!g->result && g->operations == PH__CUDNN_MOST_OPERATIONS)
        g->result = TOO_MANY;
    if (!g->result)
        g->operation[g->operations++] = operation;
}

static void *begin_pointwise(ph__cudnn_graph *g, int mode, int compute, int64_t axis,
                             const ph__cudnn_tensor *x, const ph__cudnn_tensor *y)
{
    void *by = new_descriptor(g, PH__CUDNN_POINTWISE);
    set_number(g, by, PH__CUDNN_POINTWISE_MODE, PH__CUDNN_TYPE_POINTWISE, mode);
    set_number(g, by, PH__CUDNN_POINTWISE_COMPUTE, PH__CUDNN_TYPE_DTYPE, compute);
    if (mode == PH__CUDNN_INDEX)
        set_attribute(g, by, PH__CUDNN_POINTWISE_AXIS, PH__CUDNN_TYPE_I64, 1, &axis);
    finalize_descriptor(g, by);
    void *operation = new_descriptor(g, PH__CUDNN_OPERATION_POINTWISE);
    set_descriptor(g, operation, PH__CUDNN_OPERATION_POINTWISE_BY, by);
    set_descriptor(g, operation, PH__CUDNN_OPERATION_POINTWISE_X, x->descriptor);
    set_descriptor(g, operation, PH__CUDNN_OPERATION_POINTWISE_Y, y->descriptor);
    return operation;
}

void ph__cudnn_pointwise(ph__cudnn_graph *g, int mode, int compute, const ph__cudnn_tensor *x,
                         const ph__cudnn_tensor *b, const ph__cudnn_tensor *y)
{
    void *operation = begin_pointwise(g, mode, compute, 0, x, y);
    if (b)
        set_descriptor(g, operation, PH__CUDNN_OPERATION_POINTWISE_B, b->descriptor);
    add_operation(g, operation);
}

void ph__cudnn_index(ph__cudnn_graph *g, int64_t axis, const ph__cudnn_tensor *x,
                     const ph__cudnn_tensor *y)
{
    add_operation(g, begin_pointwise(g, PH__CUDNN_INDEX, PH__CUDNN_F32, axis, x, y));
}

void ph__cudnn_select(ph__cudnn_graph *g, const ph__cudnn_tensor *x, const ph__cudnn_tensor *b,
                      const ph__cudnn_tensor *chosen, const ph__cudnn_tensor *y)
{
    void *operation = begin_pointwise(g, PH__CUDNN_SELECT, PH__CUDNN_F32, 0, x, y);
    set_descriptor(g, operation, PH__CUDNN_OPERATION_POINTWISE_B, b->descriptor);
    set_descriptor(g, operation, PH__CUDNN_OPERATION_POINTWISE_T, chosen->descriptor);
    add_operation(g, operation);
}

void ph__cudnn_matmul(ph__cudnn_graph *g, const ph__cudnn_tensor *a, const ph__cudnn_tensor *b,
                      const ph__cudnn_tensor *y)
{
    void *by = new_descriptor(g, PH__CUDNN_MATMUL);
    set_number(g, by, PH__CUDNN_MATMUL_COMPUTE, PH__CUDNN_TYPE_DTYPE, PH__CUDNN_F32);
    finalize_descriptor(g, by);
    void *operation = new_descriptor(g, PH__CUDNN_OPERATION_MATMUL);
    set_descriptor(g, operation, PH__CUDNN_OPERATION_MATMUL_A, a->descriptor);
    set_descriptor(g, operation, PH__CUDNN_OPERATION_MATMUL_B, b->descriptor);
    set_descriptor(g, operation, PH__CUDNN_OPERATION_MATMUL_C, y->descriptor);
    set_descriptor(g, operation, PH__CUDNN_OPERATION_MATMUL_BY, by);
    add_operation(g, operation);
}

void ph__cudnn_reduce(ph__cudnn_graph *g, int how, const ph__cudnn_tensor *x,
                      const ph__cudnn_tensor *y)
{
    void *by = new_descriptor(g, PH__CUDNN_REDUCTION);
    set_number(g, by, PH__CUDNN_REDUCTION_COMPUTE, PH__CUDNN_TYPE_DTYPE, PH__CUDNN_F32);
    set_number(g, by, PH__CUDNN_REDUCTION_OPERATOR, PH__CUDNN_TYPE_REDUCTION, how);
    finalize_descriptor(g, by);
    void *operation = new_descriptor(g, PH__CUDNN_OPERATION_REDUCTION);
    set_descriptor(g, operation, PH__CUDNN_OPERATION_REDUCTION_X, x->descriptor);
    set_descriptor(g, operation, PH__CUDNN_OPERATION_REDUCTION_Y, y->descriptor);
    set_descriptor(g, operation, PH__CUDNN_OPERATION_REDUCTION_BY, by);
    add_operation(g, operation);
}

void ph__cudnn_transpose(ph__cudnn_graph *g, const ph__cudnn_tensor *x, const ph__cudnn_tensor *y)
{
    void *operation = new_descriptor(g, PH__CUDNN_OPERATION_RESHAPE);
    set_descriptor(g, operation, PH__CUDNN_OPERATION_RESHAPE_X, x->descriptor);
    set_descriptor(g, operation, PH__CUDNN_OPERATION_RESHAPE_Y, y->descriptor);
    add_operation(g, operation);
}

/* ---- plans ---- */
static void *describe_operations(ph__cudnn_graph *g, void *handle)
{
    void *all = new_descriptor(g, PH__CUDNN_OPERATIONS);
    set_attribute(g, all, PH__CUDNN_OPERATIONS_HANDLE, PH__CUDNN_TYPE_HANDLE, 1, &handle);
    set_attribute(g, all, PH__CUDNN_OPERATIONS_LIST, PH__CUDNN_TYPE_DESCRIPTOR, g->operations,
                  g->operation);
    finalize_descriptor(g, all);
    return all;
}

/* How many there are. */
static int64_t ask_for_proposals(ph__cudnn_graph *g, void *handle, void *out[PROPOSALS])
{
    int64_t found = 0;
    void *operations = describe_operations(g, handle),
         *heuristics = new_descriptor(g, PH__CUDNN_HEURISTICS);
    set_descriptor(g, heuristics, PH__CUDNN_HEURISTICS_OPERATIONS, operations);
    set_number(g, heuristics, PH__CUDNN_HEURISTICS_MODE, PH__CUDNN_TYPE_HEURISTICS,
               PH__CUDNN_HEURISTICS_A);
    finalize_descriptor(g, heuristics);
    for (int i = 0; i < PROPOSALS; i++)
        out[i] = new_descriptor(g, PH__CUDNN_CONFIGURATION);
    if (!g->result)
        g->result = ph__cudnn_library.BackendGetAttribute(heuristics, PH__CUDNN_HEURISTICS_RESULTS,
                                                          PH__CUDNN_TYPE_DESCRIPTOR, PROPOSALS,
                                                          &found, out);
    return g->result ? 0 : found < PROPOSALS ? found : PROPOSALS;
}

/* A proposal that does not build is none: the graph goes on. */
static void *build_plan(ph__cudnn_graph *g, void *handle, void *proposal, int64_t *workspace)
{
    int64_t count = 0;
    void *plan = new_descriptor(g, PH__CUDNN_PLAN);
    set_attribute(g, plan, PH__CUDNN_PLAN_HANDLE, PH__CUDNN_TYPE_HANDLE, 1, &handle);
    set_descriptor(g, plan, PH__CUDNN_PLAN_CONFIGURATION, proposal);
    if (g->result || ph__cudnn_library.BackendFinalize(plan) != PH__CUDNN_OK ||
        ph__cudnn_library.BackendGetAttribute(plan, PH__CUDNN_PLAN_WORKSPACE, PH__CUDNN_TYPE_I64, 1,
                                              &count, workspace) != PH__CUDNN_OK)
        return NULL;
    return plan;
}

/* A bit for each numerical note of a proposal's engine, or unknown_notes, which has all. */
static unsigned notes_of(ph__cudnn_graph *g, void *proposal)
{
    int note[PH__CUDNN_NOTES];
    int64_t count = 0;
    unsigned notes = 0;
    void *engine = new_descriptor(g, PH__CUDNN_ENGINE);
    if (g->result ||
        ph__cudnn_library.BackendGetAttribute(proposal, PH__CUDNN_CONFIGURATION_ENGINE,
                                              PH__CUDNN_TYPE_DESCRIPTOR, 1, &count,
                                              &engine) != PH__CUDNN_OK ||
        ph__cudnn_library.BackendGetAttribute(engine, PH__CUDNN_ENGINE_NOTES, PH__CUDNN_TYPE_NOTE,
                                              PH__CUDNN_NOTES, &count, note) != PH__CUDNN_OK)
        return unknown_notes;
    for (int64_t i = 0; i < count && i < PH__CUDNN_NOTES; i++)
        notes |= 1u << note[i];
    return notes;
}

/* Whether it is as exact as what the first one's notes say (it is exact, where they are not known),
 * and repeats where it has to. */
static bool may_compete(unsigned notes, unsigned first, bool any_order)
{
    const unsigned narrow = 1u << PH__CUDNN_NOTE_NARROWED | 1u << PH__CUDNN_NOTE_NARROW_SUMS;
    return (notes & narrow & ~(first == unknown_notes ? 0 : first)) == 0 &&
           (any_order || !(notes & 1u << PH__CUDNN_NOTE_ANY_ORDER));
}

static void put_preferred_first(ph__cudnn_graph *g, void **proposal, int64_t found, int preferred)
{
    if (preferred <= 0 || preferred >= found ||
        !may_compete(notes_of(g, proposal[preferred]), notes_of(g, proposal[0]), false))
        return;
    void *first = proposal[preferred];
    memmove(proposal + 1, proposal, (size_t)preferred * sizeof *proposal);
    proposal[0] = first;
}

int ph__cudnn_graph_plans(ph__cudnn_built *out, ph__cudnn_graph *g, void *handle,
                          const ph__cudnn_search *search)
{
    void *proposal[PROPOSALS];
    int64_t found = ask_for_proposals(g, handle, proposal);
    unsigned first = 0;
    int built = 0;
    put_preferred_first(g, proposal, found, search->preferred);
    for (int64_t i = 0; i < found && built < search->wanted; i++) {
        unsigned notes = search->wanted > 1 ? notes_of(g, proposal[i]) : 0;
        if (built > 0 && !may_compete(notes, first, search->any_order))
            continue;
        ph__cudnn_built made = {0};
        made.plan = build_plan(g, handle, proposal[i], &made.workspace);
        if (!made.plan || made.workspace < 0 || made.workspace > search->most)
            continue;
        first = built == 0 ? notes : first;
        out[built++] = made;
    }
    return built;
}

void ph__cudnn_graph_drop(ph__cudnn_graph *g, void *descriptor)
{
    for (int i = 0; i < g->made_count; i++)
        if (g->made[i] == descriptor) {
            g->made[i] = g->made[--g->made_count];
            (void)ph__cudnn_library.BackendDestroyDescriptor(descriptor);
            return;
        }
}

void ph__cudnn_graph_free(ph__cudnn_graph *g)
{
    while (g->made_count > 0)
        (void)ph__cudnn_library.BackendDestroyDescriptor(g->made[--g->made_count]);
}
