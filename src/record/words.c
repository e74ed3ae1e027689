/* SPDX-License-Identifier: MIT */
/* record/words.c: which words of a node's parameters are addresses, and of what. */
#include "record/record.h"
#include <stdio.h>
#include <string.h>

enum {
    WORD = 8
};

static void next_of_param(ph__words *words, const ph_param *param, ph__word_slot *out)
{
    size_t end = param->offset + param->size, left = end - words->at;
    out->offset = words->at;
    out->size = left < WORD ? left : WORD;
    out->class = param->kind == PH_PARAM_ADDRESS && out->size == WORD ? PH__CLASS_ADDRESS : PH__CLASS_VALUE;
    out->param = param->name;
    out->piece = words->at - param->offset;
    words->at += out->size;
    if (words->at == end)
        words->param++;
}

/* The bytes before `limit` that no parameter covers. Short ones between typed parameters are padding, and no
 * word. */
static bool next_of_gap(ph__words *words, size_t limit, bool typed, ph__word_slot *out)
{
    size_t at = (words->at + WORD - 1) / WORD * WORD;
    bool whole = at < limit && limit - at >= WORD;
    if (!whole && (typed || at >= limit)) {
        words->at = limit;
        return false;
    }
    out->offset = at;
    out->size = whole ? WORD : limit - at;
    out->class = whole ? PH__CLASS_UNTYPED : PH__CLASS_VALUE;
    out->param = NULL;
    out->piece = 0;
    words->at = at + out->size;
    return true;
}

bool ph__words_next(ph__words *words, ph__word_slot *out)
{
    size_t count = words->kernel ? words->kernel->param_count : 0;
    while (words->at < words->args_size) {
        while (words->param < count && words->kernel->params[words->param].size == 0)
            words->param++;
        const ph_param *param = words->param < count ? &words->kernel->params[words->param] : NULL;
        if (param && words->at >= param->offset) {
            next_of_param(words, param, out);
            return true;
        }
        if (next_of_gap(words, param ? param->offset : words->args_size, count != 0, out))
            return true;
    }
    return false;
}

size_t ph__word_name(char *out, size_t size, const ph__word_slot *slot)
{
    int length;
    if (slot->param == NULL)
        length = snprintf(out, size, "+%zu", slot->offset);
    else if (slot->piece == 0)
        length = snprintf(out, size, "%s", slot->param);
    else
        length = snprintf(out, size, "%s+%zu", slot->param, slot->piece);
    return length < 0 ? 0 : (size_t)length;
}

/* True when the value lies in memory that the library knows. */
static bool look_up(ph_word *out, const ph_device *device, const ph__ranges *internal)
{
    ph_allocation found;
    const void *address = (const void *)(uintptr_t)out->value;
    if (out->value == 0)
        return false;
    out->internal = internal && ph__ranges_find(internal, (uintptr_t)out->value) != NULL;
    if (!ph__memory_find(&found, device, address))
        return out->internal;
    out->base = found.base;
    out->allocation_bytes = found.size;
    out->generation = found.generation;
    out->pool = ph_pool_get_id(found.pool);
    out->pinned = found.pinned;
    return true;
}

void ph__word_read(ph_word *out, const ph_device *device, const ph__ranges *internal,
                   const ph__word_slot *slot, const void *args)
{
    memset(out, 0, sizeof *out);
    out->offset = slot->offset;
    memcpy(&out->value, (const char *)args + slot->offset, slot->size);
    switch (slot->class) {
    case PH__CLASS_VALUE:
        break;
    case PH__CLASS_ADDRESS:
        out->kind = PH_WORD_PROVED;
        look_up(out, device, internal);
        break;
    case PH__CLASS_UNTYPED:
        out->kind = look_up(out, device, internal) ? PH_WORD_SUSPECTED : PH_WORD_VALUE;
        break;
    }
}

void ph__word_address(ph_word *out, const ph_device *device, const ph__ranges *internal, const char *name,
                      size_t offset, const void *address)
{
    memset(out, 0, sizeof *out);
    out->kind = PH_WORD_PROVED;
    out->name = name;
    out->offset = offset;
    out->value = (uint64_t)(uintptr_t)address;
    look_up(out, device, internal);
}

const char *ph__word_kind_name(ph_word_kind kind)
{
    static const char *const names[] = {"value", "suspected", "proved"};
    return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}
