/* SPDX-License-Identifier: MIT */
/* inspect/races/accesses.c: reads from the words of nodes the memory that they use. */
#include "inspect/races/accesses.h"
#include "base/alloc.h"
#include "record/extent.h"
#include "record/foreign.h"
#include "record/sparse.h"
#include <string.h>

enum {
    MOST_ROWS = 4096 /* of a copy or fill, that are looked at one by one */
};

typedef struct collector {
    ph__accesses *out;
    const ph_record
        *record; /* of the graph: its bodies have no memory of other code of their own */
    ph__block_index blocks;
} collector;

/* ---- allocations ---- The word's own, or else the last one that the capture had there. */
static void find_block(const collector *c, ph__access *access, const ph_word *word)
{
    if (word->base) {
        access->base = (uintptr_t)word->base;
        access->block_bytes = word->allocation_bytes;
        return;
    }
    const ph__logged_allocation *block = ph__block_index_find(&c->blocks, (uintptr_t)word->value);
    if (block) {
        access->base = block->address;
        access->block_bytes = block->requested;
    }
}

/* All of the allocation; of memory that nobody knows, the first byte. */
static void use_block(ph__access *access)
{
    bool inside = access->block_bytes && access->address - access->base < access->block_bytes;
    access->begin = inside ? access->base : access->address;
    access->end = inside ? access->base + access->block_bytes : access->address + 1;
}

/* ---- nodes ---- */
static void declare_access(ph__access *access, uint64_t bytes)
{
    access->declared = true;
    access->begin = access->address;
    access->end = access->address + bytes;
}

static void read_kernel_word(ph__access *access, const ph__record_node *node, const ph_word *word)
{
    const ph_param *param =
        word->kind == PH_WORD_PROVED ? ph__record_param(node, word->offset) : NULL;
    uint64_t bytes = 0;
    use_block(access);
    access->writes = true;
    if (param == NULL || param->access.kind == PH_ACCESS_UNKNOWN)
        return;
    access->kind = param->access.kind;
    access->writes = access->kind != PH_ACCESS_IN;
    if (ph__record_extent(&bytes, node, param) && bytes <= UINT64_MAX - access->address)
        declare_access(access, bytes);
}

static void read_transfer_word(ph__access *access, const ph__record_node *node, const ph_word *word)
{
    bool source = node->info.kind == PH_NODE_MEMCPY && word->offset != 0;
    access->kind = source ? PH_ACCESS_IN : PH_ACCESS_OUT;
    access->writes = !source;
    use_block(access);
    if (node->rows == NULL && node->info.bytes <= UINT64_MAX - access->address)
        declare_access(access, node->info.bytes);
}

/* An access for each row; of too many, and of arrays, all of the allocation. */
static bool add_rows(const collector *c, const ph__access *access, const ph__drv_rows *rows)
{
    if (rows->rows == 0 || rows->planes == 0 || rows->rows > MOST_ROWS / rows->planes)
        return ph__vec_push(c->out, *access);
    for (size_t i = 0; i < rows->rows * rows->planes; i++) {
        ph__access row = *access;
        row.begin =
            access->address + i / rows->rows * rows->plane_pitch + i % rows->rows * rows->pitch;
        row.end = row.begin + rows->bytes;
        row.declared = true;
        if (row.end > row.begin && !ph__vec_push(c->out, row))
            return false;
    }
    return true;
}

static bool add_access(const collector *c, const ph__record_node *node, ph__access *access,
                       const ph_word *word)
{
    switch (node->info.kind) {
    case PH_NODE_KERNEL:
        read_kernel_word(access, node, word);
        break;
    case PH_NODE_MEMCPY:
    case PH_NODE_MEMSET:
        read_transfer_word(access, node, word);
        if (node->rows)
            return add_rows(c, access, &node->rows[access->kind == PH_ACCESS_IN]);
        break;
    default: /* operations on memory order others, and are left to what they order */
        return true;
    }
    return access->begin == access->end || ph__vec_push(c->out, *access);
}

static bool collect_node(const collector *c, const ph__flat_node *node, uint32_t index)
{
    for (size_t w = 0; w < node->at->info.word_count; w++) {
        ph_word room;
        const ph_word *word = ph__record_look_up_foreign(&room, c->record, node->at, w);
        ph__access access = {.address = word->value, .node = index, .word = (uint32_t)w};
        if (word->kind == PH_WORD_VALUE || word->value == 0)
            continue;
        find_block(c, &access, word);
        if (!add_access(c, node->at, &access, word))
            return false;
    }
    return true;
}

bool ph__accesses_collect(ph__accesses *out, const ph__flat *flat, const ph_record *record)
{
    collector c = {.out = out, .record = record};
    bool all = record->layout == NULL || ph__block_index_make(&c.blocks, record->layout);
    for (size_t n = 0; all && n < flat->nodes.count; n++)
        if (flat->nodes.at[n].at)
            all = collect_node(&c, &flat->nodes.at[n], (uint32_t)n);
    ph__block_index_free(&c.blocks);
    return all;
}
