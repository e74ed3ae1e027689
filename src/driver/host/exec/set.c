/* SPDX-License-Identifier: MIT */
/* driver/host/exec/set.c: changing single nodes of an executable. */
#include "driver/host/exec/changes.h"
#include "driver/host/exec/exec.h"
#include "driver/host/resource/rules.h"
#include "driver/host/stream/entries.h"
#include <string.h>

/* The parameters' slot of a node of the template, with the executable's lock held; NULL, and no
 * lock: there is no such node of that kind. */
static ph__exec_slot *open_slot(ph__host_exec *exec, ph__drv_node *handle, ph_node_kind kind)
{
    const ph__host_node *node = ph__host_node_of(handle);
    if (!exec || !node || node->graph != exec->graph || node->work.kind != kind)
        return NULL;
    ph__exec_upload_first(exec);
    pthread_mutex_lock(&exec->lock);
    return &exec->params->slots[node->slot];
}

static void close_slot(ph__host_exec *exec, const ph__exec_slot *slot)
{
    ph__exec_note(exec, slot->index);
    pthread_mutex_unlock(&exec->lock);
}

/* For kinds whose parameters are one struct. */
static int set_struct(ph__drv_exec *handle, ph__drv_node *node, ph_node_kind kind,
                      const void *value)
{
    ph__host_exec *exec = (ph__host_exec *)handle;
    if (!exec || !value)
        return PH__R_INVALID_VALUE;
    int result = ph__host_rule(exec->device, PH__RULE_EXEC_SET);
    if (result)
        return result;
    ph__exec_slot *slot = open_slot(exec, node, kind);
    if (!slot)
        return PH__R_INVALID_VALUE;
    memcpy(slot->args, value, slot->args_size);
    close_slot(exec, slot);
    return PH__R_OK;
}

/* args_size: what the node must take; SIZE_MAX: whatever it takes. */
static int set_launch(ph__drv_exec *handle, ph__drv_node *node, const ph__drv_launch *launch,
                      size_t args_size)
{
    ph__host_exec *exec = (ph__host_exec *)handle;
    if (!exec || !launch || !node || ph__host_node_of(node)->work.kind != PH_NODE_KERNEL)
        return PH__R_INVALID_VALUE;
    ph__drv_launch limits = *launch;
    /* whether there are arguments is seen below: an update may have brought another kernel */
    limits.args = launch;
    int result = ph__host_check_launch(ph__host_node_of(node)->work.kernel, &limits);
    if (!result)
        result = ph__host_rule(exec->device, PH__RULE_EXEC_SET);
    if (result)
        return result;
    ph__exec_slot *slot = open_slot(exec, node, PH_NODE_KERNEL);
    if (!slot)
        return PH__R_INVALID_VALUE;
    if ((slot->args_size > 0 && !launch->args) ||
        (args_size != SIZE_MAX && args_size != slot->args_size)) {
        pthread_mutex_unlock(&exec->lock);
        return PH__R_INVALID_VALUE;
    }
    memcpy(slot->grid, launch->grid, sizeof slot->grid);
    memcpy(slot->block, launch->block, sizeof slot->block);
    slot->shared_bytes = launch->shared_bytes;
    if (slot->args_size > 0)
        memcpy(slot->args, launch->args, slot->args_size);
    close_slot(exec, slot);
    return PH__R_OK;
}

int ph__host_exec_set_kernel(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_launch *launch)
{
    return set_launch(exec, node, launch, SIZE_MAX);
}

/* Every kernel here is this library's. */
int ph__host_exec_set_args(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_launch *launch,
                           size_t args_size)
{
    return set_launch(exec, node, launch, args_size);
}

int ph__host_exec_set_copy(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_memcpy *copy)
{
    return set_struct(exec, node, PH_NODE_MEMCPY, copy);
}

/* The element's size belongs to the node, as in CUDA. It never changes, so the template's is the
 * executable's. */
int ph__host_exec_set_fill(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_memset *fill)
{
    if (!node || !fill || ph__host_node_of(node)->work.kind != PH_NODE_MEMSET)
        return PH__R_INVALID_VALUE;
    const ph__drv_memset *captured = ph__host_node_of(node)->work.args;
    if (captured->value_size != fill->value_size) {
        ph__driver_set_reason("the node fills %u-byte elements, and that cannot change to %u",
                              captured->value_size, fill->value_size);
        return PH__R_INVALID_VALUE;
    }
    return set_struct(exec, node, PH_NODE_MEMSET, fill);
}

int ph__host_exec_set_host(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_host *host)
{
    if (!host || !host->fn)
        return PH__R_INVALID_VALUE;
    return set_struct(exec, node, PH_NODE_HOST, host);
}

static bool can_be_disabled(const ph__host_node *node)
{
    return node->work.kind == PH_NODE_KERNEL || node->work.kind == PH_NODE_MEMCPY ||
           node->work.kind == PH_NODE_MEMSET;
}

int ph__host_exec_set_enabled(ph__drv_exec *handle, ph__drv_node *node, bool enabled)
{
    ph__host_exec *exec = (ph__host_exec *)handle;
    if (!exec || !node || !can_be_disabled(ph__host_node_of(node)))
        return PH__R_INVALID_VALUE;
    int result = ph__host_rule(exec->device, PH__RULE_EXEC_ENABLE);
    if (result)
        return result;
    ph__exec_slot *slot = open_slot(exec, node, ph__host_node_of(node)->work.kind);
    if (!slot)
        return PH__R_INVALID_VALUE;
    slot->enabled = enabled;
    close_slot(exec, slot);
    return PH__R_OK;
}

int ph__host_exec_get_enabled(bool *out, ph__drv_exec *handle, ph__drv_node *node)
{
    ph__host_exec *exec = (ph__host_exec *)handle;
    if (!out || !exec || !node || !can_be_disabled(ph__host_node_of(node)))
        return PH__R_INVALID_VALUE;
    const ph__exec_slot *slot = open_slot(exec, node, ph__host_node_of(node)->work.kind);
    if (!slot)
        return PH__R_INVALID_VALUE;
    *out = slot->enabled;
    pthread_mutex_unlock(&exec->lock);
    return PH__R_OK;
}
