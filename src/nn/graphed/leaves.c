/* SPDX-License-Identifier: MIT */
/* nn/graphed/leaves.c: which of the leaves' own gradients the last node of backward may add to:
 * one launch must not write the same memory twice. */
#include "nn/graphed/leaves.h"
#include "nn/graphed/binding.h"
#include "nn/graphed/callable.h"
#include "nn/graphed/replay.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"

/* Whether the device reaches all of it: what the slots of gradients do not ask. */
static bool is_reached(const ph__callable *callable, const ph_tensor *grad)
{
    ph_allocation found = {0};
    if (__builtin_expect(grad->storage->kind == PH__STORAGE_CACHED, 1) || grad->count == 0)
        return true;
    if (ph_memory_lookup(&found, callable->set->device, grad->data) != PH_OK)
        return false;
    size_t offset = (uintptr_t)grad->data - (uintptr_t)found.base, bytes = ph_tensor_bytes(grad);
    return bytes <= found.requested && offset <= found.requested - bytes;
}

bool ph__grad_input_may_add(const ph__callable *callable, const ph_tensor *leaf)
{
    const ph_tensor *grad = leaf->leaf->grad;
    return callable->set->options.gradients == PH_GRAPHED_ACCUMULATE && grad && grad->contiguous &&
           grad->dtype == leaf->dtype && !grad->storage->read_only && !grad->overwrite_tag &&
           is_reached(callable, grad);
}

static const ph_tensor *own_gradient(const ph__grad_call *call, const ph__callable *callable,
                                     const ph__grad_input *grad_input)
{
    const ph_tensor *leaf = ph__grad_input_leaf(call, grad_input);
    if (!leaf || !call->needed[grad_input->operand] || !ph__grad_input_may_add(callable, leaf))
        return NULL;
    return leaf->leaf->grad->count > 0 ? leaf->leaf->grad : NULL;
}

/* Steps of a training are alike: the addresses are those of the step before. */
static bool have_moved(const ph__grad_call *call, const ph__callable *callable)
{
    for (size_t i = 0; i < callable->grad_input_count; i++) {
        const ph_tensor *grad = own_gradient(call, callable, &callable->grad_inputs[i]);
        if (grad && grad->data != callable->grad_inputs[i].added)
            return true;
    }
    return false;
}

static void move_down(const ph__callable *callable, size_t from, size_t count)
{
    size_t *order = callable->grad_input_order, moved = order[from];
    for (size_t child; (child = 2 * from + 1) < count; from = child) {
        if (child + 1 < count && callable->grad_inputs[order[child + 1]].added >
                                     callable->grad_inputs[order[child]].added)
            child++;
        if (callable->grad_inputs[order[child]].added <= callable->grad_inputs[moved].added)
            break;
        order[from] = order[child];
    }
    order[from] = moved;
}

/* A heap: there may be thousands, and qsort may take memory. */
static void sort_by_address(const ph__callable *callable, size_t count)
{
    size_t *order = callable->grad_input_order;
    for (size_t i = count / 2; i-- > 0;)
        move_down(callable, i, count);
    for (size_t last = count; last-- > 1;) {
        size_t highest = order[0];
        order[0] = order[last];
        order[last] = highest;
        move_down(callable, 0, last);
    }
}

static size_t collect_own_gradients(const ph__grad_call *call, ph__callable *callable)
{
    size_t count = 0;
    for (size_t i = 0; i < callable->grad_input_count; i++) {
        ph__grad_input *grad_input = &callable->grad_inputs[i];
        const ph_tensor *grad = own_gradient(call, callable, grad_input);
        grad_input->added = grad ? grad->data : NULL;
        grad_input->apart = false;
        if (grad)
            callable->grad_input_order[count++] = i;
    }
    return count;
}

/* Of those that overlap the first alone: the pass adds the others' gradients behind the launch,
 * one after the other. */
bool ph__callable_find_leaf_grads(const ph__grad_call *call, ph__callable *callable)
{
    if (callable->set->options.gradients != PH_GRAPHED_ACCUMULATE || !have_moved(call, callable))
        return true;
    size_t count = collect_own_gradients(call, callable);
    const char *end = NULL;
    sort_by_address(callable, count);
    for (size_t i = 0; i < count; i++) {
        ph__grad_input *grad_input = &callable->grad_inputs[callable->grad_input_order[i]];
        bool written = false;
        ph_status status = ph_graph_writes(&written, callable->backward.graph, grad_input->added,
                                           grad_input->bytes);
        ph_tape_check(call->tape, ph__callable_graph_failed(status, callable, &callable->backward));
        grad_input->apart = !written && grad_input->added >= end;
        if (grad_input->apart)
            end = grad_input->added + grad_input->bytes;
    }
    return !ph__tape_failed(call->tape);
}
