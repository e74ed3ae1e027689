/* SPDX-License-Identifier: MIT */
/* memory/observe/labels.c: the texts of announced blocks, for messages. */
#include "memory/observe/labels.h"
#include "memory/state/announced.h"
#include "memory/state/memory_state.h"
#include "memory/state/short_cycle.h"
#include <string.h>

static void copy_cut(char *out, size_t size, const char *text)
{
    if (!out)
        return;
    size_t length = text ? strnlen(text, size - 1) : 0;
    if (length)
        memcpy(out, text, length);
    out[length] = '\0';
}

bool ph__labels_copy(char *label, char *ended, size_t size, const ph_device *device,
                     const void *base, uint64_t generation)
{
    ph__memory *memory = ph__memory_of(device);
    copy_cut(label, size, NULL);
    copy_cut(ended, size, NULL);
    if (!memory || generation == 0)
        return false;
    ph__memory_lock(memory);
    const ph__announced *block = ph__announced_known(memory, base, generation);
    if (block) {
        copy_cut(label, size, block->label);
        copy_cut(ended, size, block->ended);
    }
    ph__spin_unlock(&memory->lock);
    return block != NULL;
}
