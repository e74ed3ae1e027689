/* SPDX-License-Identifier: MIT */
/* record/json.c: the record as JSON; docs/reference/record.md describes each field. */
#include "base/json.h"
#include "base/alloc.h"
#include "base/demangle.h"
#include "base/text.h"
#include "base/text_file.h"
#include "device/annotate/pairs.h"
#include "record/annotations.h"
#include "record/foreign.h"
#include "record/json.h"
#include "record/origin.h"
#include "record/read.h"
#include "record/record.h"
#include "record/words.h"
#include <string.h>

static void put_u64(ph__json *json, const char *key, uint64_t value)
{
    ph__json_key(json, key);
    ph__json_u64(json, value);
}

static void put_hex(ph__json *json, const char *key, uint64_t value)
{
    ph__json_key(json, key);
    ph__json_hex(json, value);
}

static void put_string(ph__json *json, const char *key, const char *value)
{
    ph__json_key(json, key);
    ph__json_string(json, value);
}

static void put_bool(ph__json *json, const char *key, bool value)
{
    ph__json_key(json, key);
    ph__json_bool(json, value);
}

static void put_dims(ph__json *json, const char *key, const uint32_t dims[3])
{
    ph__json_key(json, key);
    ph__json_open(json, '[');
    for (int i = 0; i < 3; i++)
        ph__json_u64(json, dims[i]);
    ph__json_close(json, ']');
}

static void put_indices(ph__json *json, const char *key, const size_t *indices, size_t count)
{
    ph__json_key(json, key);
    ph__json_open(json, '[');
    for (size_t i = 0; i < count; i++)
        ph__json_u64(json, indices[i]);
    ph__json_close(json, ']');
}

/* Only where one is not full, which is rare. */
static void put_edge_kinds(ph__json *json, const ph__record_node *node)
{
    bool all_full = true;
    for (size_t d = 0; d < node->info.dependency_count; d++)
        all_full = all_full && node->dependency_kinds[d] == PH_EDGE_FULL;
    if (all_full)
        return;
    ph__json_key(json, "dependency_kinds");
    ph__json_open(json, '[');
    for (size_t d = 0; d < node->info.dependency_count; d++)
        ph__json_string(json, ph__edge_kind_name(node->dependency_kinds[d]));
    ph__json_close(json, ']');
}

static void put_allocation(ph__json *json, const ph_word *word)
{
    ph__json_key(json, "allocation");
    if (word->base == NULL) {
        ph__json_string(json, NULL);
        return;
    }
    ph__json_open(json, '{');
    put_hex(json, "base", (uint64_t)(uintptr_t)word->base);
    put_u64(json, "bytes", word->allocation_bytes);
    put_u64(json, "offset", word->value - (uint64_t)(uintptr_t)word->base);
    put_u64(json, "generation", word->generation);
    ph__json_key(json, "pool");
    ph__json_open(json, '[');
    ph__json_u64(json, word->pool.first);
    ph__json_u64(json, word->pool.second);
    ph__json_close(json, ']');
    put_bool(json, "pinned", word->pinned);
    if (word->foreign)
        put_bool(json, "foreign", true);
    ph__json_close(json, '}');
}

static void put_word(ph__json *json, const ph_word *word)
{
    ph__json_open(json, '{');
    put_string(json, "name", word->name);
    put_u64(json, "offset", word->offset);
    put_string(json, "kind", ph__word_kind_name(word->kind));
    put_hex(json, "value", word->value);
    put_bool(json, "internal", word->internal);
    put_allocation(json, word);
    ph__json_close(json, '}');
}

/* Two digits a byte. Bytes that no word covers are padding between typed parameters, of which
 * callers seldom know what it holds: 00. */
static void put_args(ph__json *json, const ph__record_node *node)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *bytes = node->info.args;
    size_t size = node->info.args_size;
    char *text = ph__alloc(2 * size + 1);
    json->text.failed = json->text.failed || text == NULL;
    if (text == NULL)
        return;
    memset(text, '0', 2 * size);
    text[2 * size] = 0;
    ph__words words = {node->kernel, size, 0, 0};
    ph__word_slot slot;
    while (ph__words_next(&words, &slot))
        for (size_t i = slot.offset; i < slot.offset + slot.size; i++) {
            text[2 * i] = digits[bytes[i] >> 4];
            text[2 * i + 1] = digits[bytes[i] & 15];
        }
    ph__json_key(json, "args");
    ph__json_string(json, text);
    ph__free(text);
}

static void put_kernel(ph__json *json, const ph__record_node *node)
{
    const ph_node_info *info = &node->info;
    put_dims(json, "grid", info->grid);
    put_dims(json, "block", info->block);
    put_u64(json, "shared_bytes", info->shared_bytes);
    put_u64(json, "args_size", info->args_size);
    put_args(json, node);
}

/* Where readable names stand that were written lately: graphs have few kernels and many nodes, and
 * to read a C++ name takes longer than the rest of a node. */
enum {
    NAMES = 32
};
typedef struct names {
    struct {
        const char *name;  /* NULL: none */
        size_t begin, end; /* equal: it is as readable as it is */
    } at[NAMES];
} names;

static size_t place_of(const char *name)
{
    uint32_t hash = 2166136261U; /* FNV-1a */
    while (*name)
        hash = (hash ^ (unsigned char)*name++) * 16777619U;
    return hash % NAMES;
}

static void put_readable(ph__json *json, const ph_record *record, const char *name, names *known)
{
    char room[PH__READABLE];
    if (record->made || strncmp(name, "_Z", 2) != 0)
        return;
    size_t place = place_of(name), begin = known->at[place].begin, end = known->at[place].end;
    if (known->at[place].name && strcmp(known->at[place].name, name) == 0) {
        if (begin < end) {
            ph__json_key(json, "demangled");
            ph__json_repeat(json, begin, end);
        }
        return;
    }
    known->at[place].name = name;
    known->at[place].begin = known->at[place].end = 0;
    const char *readable = ph__readable_name(room, name);
    if (readable == name)
        return;
    ph__json_key(json, "demangled");
    known->at[place].begin = json->text.length;
    ph__json_string(json, readable);
    known->at[place].end = json->text.length;
}

static void put_node(ph__json *json, const ph_record *record, const ph__record_node *node,
                     const ph__record_more *more, names *known)
{
    const ph_node_info *info = &node->info;
    ph__json_open(json, '{');
    put_u64(json, "index", info->index);
    put_string(json, "kind", ph_node_kind_name(info->kind));
    put_string(json, "name", info->name);
    put_readable(json, record, info->name, known);
    if (node->annotation)
        ph__pairs_to_json(json, node->annotation->pairs, node->annotation->count);
    if (ph__record_made_for(node))
        put_string(json, "made_for", ph__record_made_for(node));
    if (info->kind == PH_NODE_KERNEL)
        put_kernel(json, node);
    bool memory = info->kind == PH_NODE_MEM_ALLOC || info->kind == PH_NODE_MEM_FREE;
    if (info->kind == PH_NODE_MEMCPY || info->kind == PH_NODE_MEMSET || memory)
        put_hex(json, "dst", (uint64_t)(uintptr_t)info->dst);
    if (info->kind == PH_NODE_MEMCPY)
        put_hex(json, "src", (uint64_t)(uintptr_t)info->src);
    if (info->kind == PH_NODE_MEMSET) {
        put_u64(json, "value", info->value);
        put_u64(json, "value_size", info->value_size);
    }
    if (info->kind == PH_NODE_MEMCPY || info->kind == PH_NODE_MEMSET ||
        info->kind == PH_NODE_MEM_ALLOC)
        put_u64(json, "bytes", info->bytes);
    put_indices(json, "dependencies", node->dependencies, info->dependency_count);
    put_edge_kinds(json, node);
    put_indices(json, "dependents", node->dependents, info->dependent_count);
    ph__json_key(json, "words");
    ph__json_open(json, '[');
    for (size_t w = 0; w < info->word_count; w++) {
        ph_word room;
        put_word(json, ph__record_look_up_foreign(&room, record, node, w));
    }
    ph__json_close(json, ']');
    if (info->body) {
        ph__json_key(json, "body");
        ph__record_to_json(json, info->body);
    }
    if (more)
        more->node(json, info->index, more->user);
    ph__json_close(json, '}');
}

/* Device memory alone: pinned blocks are in the words that hold them. */
static void put_blocks(ph__json *json, const ph__layout *layout)
{
    ph__json_key(json, "blocks");
    ph__json_open(json, '[');
    for (size_t i = 0; i < layout->list.count; i++) {
        if (layout->list.at[i].pinned)
            continue;
        ph__json_open(json, '{');
        put_hex(json, "base", layout->list.at[i].address);
        put_u64(json, "bytes", layout->list.at[i].size);
        ph__json_close(json, '}');
    }
    ph__json_close(json, ']');
}

void ph__record_to_json_with(ph__json *json, const ph_record *record, const ph__record_more *more)
{
    names known = {0};
    ph__json_open(json, '{');
    put_string(json, "format", "phonograph.record");
    put_u64(json, "version", 1);
    put_u64(json, "node_count", record->node_count);
    put_u64(json, "edge_count", record->edge_count);
    ph__record_origin_to_json(json, record);
    if (record->layout && !record->layout->lost)
        put_blocks(json, record->layout);
    if (more)
        more->top(json, more->user);
    ph__json_key(json, "nodes");
    ph__json_open(json, '[');
    for (size_t i = 0; i < record->node_count; i++)
        put_node(json, record, &record->nodes[i], more, &known);
    ph__json_close(json, ']');
    ph__json_close(json, '}');
}

void ph__record_to_json(ph__json *json, const ph_record *record)
{
    ph__record_to_json_with(json, record, NULL);
}

ph_status ph_record_json(char **out, const ph_record *record)
{
    ph__json json = {0};
    if (out == NULL)
        return ph__fail_null("ph_record_json", "out");
    *out = NULL;
    if (record == NULL)
        return ph__fail_null("ph_record_json", "record");
    ph__record_to_json(&json, record);
    *out = ph__text_detach(&json.text);
    return *out ? PH_OK : ph__fail_host_memory("ph_record_json", "the text");
}

ph_status ph_record_dump(const ph_record *record, const char *path)
{
    ph__json json = {0};
    if (record == NULL)
        return ph__fail_null("ph_record_dump", "record");
    if (path == NULL)
        return ph__fail_null("ph_record_dump", "path");
    ph__record_to_json(&json, record);
    ph__text_add(&json.text, "\n");
    ph_status status = ph__text_write_file(&json.text, path, "ph_record_dump");
    ph__text_free(&json.text);
    return status;
}
