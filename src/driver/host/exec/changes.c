/* SPDX-License-Identifier: MIT */
/* driver/host/exec/changes.c: changes of parameters on their way to the image of a launch. */
#include "driver/host/exec/changes.h"
#include <string.h>

void ph__exec_note(ph__host_exec *exec, size_t index)
{
    ph__exec_slot *slot = &exec->params->slots[index];
    if (slot->dirty)
        return;
    slot->dirty = true;
    exec->dirty[exec->dirty_count++] = (uint32_t)index;
}

static void forget_dirty(ph__host_exec *exec)
{
    for (size_t i = 0; i < exec->dirty_count; i++)
        exec->params->slots[exec->dirty[i]].dirty = false;
    exec->dirty_count = 0;
}

static void image_release(ph__exec_image *image)
{
    if (--image->references == 0)
        ph__exec_image_free(image);
}

void ph__exec_replace(ph__host_exec *exec, ph__exec_params *params, ph__exec_image *image)
{
    forget_dirty(exec);
    if (params != exec->params) {
        ph__exec_params_free(exec->params);
        exec->params = params;
    }
    image_release(exec->image);
    exec->image = image;
}

/* Nothing is in flight: the image takes everything now. What it took stays taken when a later
 * one fails. */
static bool apply_now(ph__host_exec *exec)
{
    while (exec->dirty_count > 0) {
        ph__exec_slot *slot = &exec->params->slots[exec->dirty[exec->dirty_count - 1]];
        if (!ph__exec_image_apply(exec->image, slot))
            return false;
        if (slot->shared_bytes > exec->image->shared_max)
            exec->image->shared_max = slot->shared_bytes;
        slot->dirty = false;
        exec->dirty_count--;
    }
    return true;
}

static size_t pad_patch(size_t bytes)
{
    return (bytes + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t);
}

/* The launch carries them. Sums of sizes that were allocated before cannot overflow. */
static bool make_patches(ph__host_exec *exec, ph__exec_launch *launch)
{
    size_t header = pad_patch(exec->dirty_count * sizeof(ph__exec_slot)), bytes = header;
    for (size_t i = 0; i < exec->dirty_count; i++)
        bytes += pad_patch(exec->params->slots[exec->dirty[i]].args_size);
    if (bytes > launch->patch_capacity) {
        ph__exec_slot *larger = ph__alloc(bytes);
        if (!larger)
            return false;
        ph__free(launch->patches);
        exec->launch_bytes += bytes - launch->patch_capacity;
        launch->patches = larger;
        launch->patch_capacity = bytes;
    }
    unsigned char *args = (unsigned char *)launch->patches + header;
    for (size_t i = 0; i < exec->dirty_count; i++) {
        ph__exec_slot *patch = &launch->patches[i];
        *patch = exec->params->slots[exec->dirty[i]];
        if (patch->args_size > 0)
            memcpy(args, patch->args, patch->args_size);
        patch->args = args;
        args += pad_patch(patch->args_size);
    }
    launch->patch_count = exec->dirty_count;
    return true;
}

static bool image_accepts_all(const ph__host_exec *exec)
{
    for (size_t i = 0; i < exec->dirty_count; i++) {
        const ph__exec_slot *slot = &exec->params->slots[exec->dirty[i]];
        if (slot->shared_bytes > exec->image->shared_max ||
            !ph__exec_slot_accepts(&exec->image->params->slots[slot->index], slot))
            return false;
    }
    return true;
}

bool ph__exec_prepare_image(ph__host_exec *exec, ph__exec_launch *launch)
{
    if (!exec->last)
        return apply_now(exec);
    if (image_accepts_all(exec)) {
        if (!make_patches(exec, launch))
            return false;
        forget_dirty(exec);
        return true;
    }
    ph__exec_image *image = ph__exec_image_create(exec, exec->params);
    if (!image)
        return false;
    ph__exec_replace(exec, exec->params, image);
    return true;
}
