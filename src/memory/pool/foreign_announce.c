/* SPDX-License-Identifier: MIT */
/* memory/pool/foreign_announce.c: blocks of another allocator, announced and ended. */
#include "base/alloc.h"
#include "memory/pool/attach.h"
#include "memory/state/announced.h"
#include "memory/state/memory_state.h"
#include "memory/state/short_cycle.h"
#include <phonograph/foreign.h>
#include <string.h>

enum {
    TEXT_MOST = 4095
};

static size_t text_length(const char *text)
{
    return text ? strnlen(text, TEXT_MOST) : 0;
}

static ph__announced *make_announced(const ph_foreign_block *from)
{
    size_t length = text_length(from->label);
    ph__announced *block = ph__calloc(1, sizeof *block + length + 1);
    if (!block)
        return NULL;
    block->address = (uintptr_t)from->address;
    block->size = from->bytes;
    block->pinned = from->pinned;
    if (length)
        memcpy(block->label, from->label, length);
    return block;
}

static char *copy_text(const char *text)
{
    size_t length = text_length(text);
    char *copy = ph__alloc(length + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

/* Lock held. */
static bool range_overlaps(const ph__range_map *map, uintptr_t address, size_t size)
{
    const ph__range *next = ph__range_map_from(map, address);
    return next && (next->base <= address || next->base - address < size);
}

static ph_status check_announcement(const ph_foreign_block *block, const char *call)
{
    if (!block)
        return ph__fail_null(call, "block");
    if (!block->address)
        return ph__fail_null(call, "block->address");
    if (block->bytes == 0)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: the block at %p has 0 bytes; announce what has some",
                       call, block->address);
    if (block->bytes > UINTPTR_MAX - (uintptr_t)block->address)
        return ph_fail(PH_ERROR_SIZE, "%s: %zu bytes at %p leave the address space", call,
                       block->bytes, block->address);
    return PH_OK;
}

static ph_status fail_own(const ph_foreign_block *block, const ph_device *device, const char *call)
{
    return ph_fail(PH_ERROR_ARGUMENT,
                   "%s: %zu bytes at %p overlap memory of this library's allocator on device %s, "
                   "which knows its own blocks; announce those of other allocators",
                   call, block->bytes, block->address, device->name);
}

static ph_status announce_block(uint64_t *generation, ph__memory *memory,
                                const ph_foreign_block *block, const char *call)
{
    ph__announced *made = make_announced(block);
    if (!made)
        return ph__fail_host_memory(call, "the announced block");
    ph__memory_lock(memory);
    bool own = range_overlaps(&memory->segments, made->address, made->size) ||
               range_overlaps(&memory->pinned, made->address, made->size);
    bool added = !own && ph__announced_add(memory, made);
    if (added && generation)
        *generation = made->generation;
    ph__announced *gone = ph__announced_detach_gone(memory);
    ph__spin_unlock(&memory->lock);
    ph__announced_free(gone);
    if (added)
        return PH_OK;
    ph__free(made);
    return own ? fail_own(block, memory->device, call)
               : ph__fail_host_memory(call, "the announced block");
}

ph_status ph_foreign_announce(uint64_t *generation, ph_device *device,
                              const ph_foreign_block *block)
{
    static const char call[] = "ph_foreign_announce";
    if (generation)
        *generation = 0;
    if (!device)
        return ph__fail_null(call, "device");
    PH_TRY(check_announcement(block, call));
    ph__memory *memory = ph__memory_attach(device, call);
    return memory ? announce_block(generation, memory, block, call) : ph_error_last()->status;
}

static bool end_block(ph__memory *memory, uintptr_t address, uint64_t generation, char **where)
{
    ph__memory_lock(memory);
    ph__announced *block = ph__announced_find(memory, address);
    bool found =
        block && block->address == address && (generation == 0 || block->generation == generation);
    if (found) {
        ph__announced_end(memory, block, *where);
        *where = NULL;
    }
    ph__announced *gone = ph__announced_detach_gone(memory);
    ph__spin_unlock(&memory->lock);
    ph__announced_free(gone);
    return found;
}

/* Without host memory for the text the block ends all the same. */
ph_status ph_foreign_end(ph_device *device, const void *address, uint64_t generation,
                         const char *where)
{
    static const char call[] = "ph_foreign_end";
    if (!device)
        return ph__fail_null(call, "device");
    if (!address)
        return ph__fail_null(call, "address");
    PH_TRY(ph__device_check(device, call));
    ph__memory *memory = ph__memory_of(device);
    char *text = memory && where ? copy_text(where) : NULL;
    bool ended = memory && end_block(memory, (uintptr_t)address, generation, &text);
    ph__free(text);
    return ended ? PH_OK
                 : ph_fail(PH_ERROR_NOT_FOUND,
                           "%s: no block %llu is announced at %p of device %s; it has ended, or "
                           "another one was announced there since",
                           call, (unsigned long long)generation, address, device->name);
}

/* The room is made without the lock. */
static char *copy_label(ph__memory *memory, uintptr_t address, bool *found)
{
    char *copy = ph__alloc(TEXT_MOST + 1);
    ph__memory_lock(memory);
    const ph__announced *block = ph__announced_find(memory, address);
    *found = block != NULL;
    if (block && copy)
        strcpy(copy, block->label);
    ph__spin_unlock(&memory->lock);
    if (*found)
        return copy;
    ph__free(copy);
    return NULL;
}

ph_status ph_foreign_label(char **out, const ph_device *device, const void *address)
{
    static const char call[] = "ph_foreign_label";
    bool found = false;
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!device)
        return ph__fail_null(call, "device");
    PH_TRY(ph__device_check(device, call));
    ph__memory *memory = ph__memory_of(device);
    if (memory)
        *out = copy_label(memory, (uintptr_t)address, &found);
    if (!found)
        return ph_fail(PH_ERROR_NOT_FOUND,
                       "%s: no block is announced at %p of device %s (ph_foreign_announce)", call,
                       address, device->name);
    return *out ? PH_OK : ph__fail_host_memory(call, "the label");
}

size_t ph_foreign_count(const ph_device *device)
{
    ph__memory *memory = device && !device->forked ? ph__memory_of(device) : NULL;
    if (!memory)
        return 0;
    ph__memory_lock(memory);
    size_t count = memory->announced.blocks.count;
    ph__spin_unlock(&memory->lock);
    return count;
}
