/* SPDX-License-Identifier: MIT */
/* record/words.c: which words of a node's parameters are addresses, and of what. */
#include "record/words.h"
#include "memory/observe/lookup.h"
#include "memory/pool/pool.h"
#include "record/record.h"
#include <pthread.h>
#include <string.h>

enum {
    WORD = 8
};

static void next_of_param(ph__words *words, const ph_param *param, ph__word_slot *out)
{
    size_t end = param->offset + param->size, left = end - words->at;
    out->offset = words->at;
    out->size = left < WORD ? left : WORD;
    out->class =
        param->kind == PH_PARAM_ADDRESS && out->size == WORD ? PH__CLASS_ADDRESS : PH__CLASS_VALUE;
    out->param = param->name;
    out->piece = words->at - param->offset;
    words->at += out->size;
    if (words->at == end)
        words->param++;
}

/* The bytes before `limit` that no parameter covers. Short ones between typed parameters are
 * padding, and no word. */
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

static size_t append_text(char *out, size_t size, size_t used, const char *text, size_t length)
{
    if (used < size)
        memcpy(out + used, text, length < size - used ? length : size - used);
    return used + length;
}

static size_t append_number(char *out, size_t size, size_t used, size_t number)
{
    char digits[24];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    digits[--at] = '+';
    return append_text(out, size, used, digits + at, sizeof digits - at);
}

/* Kernels of other libraries have some hundred words each: their names are written once. */
enum {
    OFFSETS = PH__NAMED_OFFSETS / WORD
};
static char offset_names[OFFSETS][sizeof "+4088"];

static void name_offsets(void)
{
    for (size_t i = 0; i < OFFSETS; i++)
        offset_names[i][append_number(offset_names[i], sizeof offset_names[i], 0, i * WORD)] = '\0';
}

const char *ph__word_lasting_name(const ph__word_slot *slot)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (slot->param)
        return slot->piece == 0 ? slot->param : NULL;
    if (slot->offset % WORD != 0 || slot->offset / WORD >= OFFSETS)
        return NULL;
    (void)pthread_once(&once, name_offsets);
    return offset_names[slot->offset / WORD];
}

size_t ph__word_name(char *out, size_t size, const ph__word_slot *slot)
{
    size_t used = slot->param ? append_text(out, size, 0, slot->param, strlen(slot->param)) : 0;
    if (!slot->param || slot->piece != 0)
        used = append_number(out, size, used, slot->param ? slot->piece : slot->offset);
    if (size > 0)
        out[used < size ? used : size - 1] = '\0';
    return used;
}

bool ph__own_has(const ph__own_memory *own, uintptr_t address)
{
    if (own->capture && ph__ranges_find(own->capture, address))
        return true;
    for (const ph__node_memory *given = own->nodes; given; given = given->outer)
        for (size_t i = 0; i < given->spans.count; i++)
            if (address - given->spans.at[i].base < given->spans.at[i].size)
                return true;
    return false;
}

/* Looks it up into the place of the oldest that was met. NULL: there is none. */
static const ph_allocation *find_allocation(ph_pool_id *pool, ph__lookups *seen,
                                            const ph_device *device, const ph__past *past,
                                            uintptr_t address)
{
    enum {
        ROOM = sizeof seen->at / sizeof seen->at[0]
    };
    for (unsigned i = 0; i < seen->count; i++)
        if (address - (uintptr_t)seen->at[i].base < seen->at[i].size) {
            *pool = seen->pool[i];
            return &seen->at[i];
        }
    const unsigned next = seen->next;
    ph_allocation *found = &seen->at[next];
    if (past)
        ph__past_find(found, pool, past, &address, 1);
    else if (ph__memory_find(found, device, (const void *)address))
        *pool = ph__pool_id(found->pool);
    else
        *found = (ph_allocation){.base = NULL};
    if (next == seen->count)
        seen->count++;
    if (found->base == NULL) {
        found->size = 0; /* nobody meets it */
        return NULL;
    }
    seen->pool[next] = *pool;
    seen->next = (next + 1) % ROOM;
    return found;
}

bool ph__own_has_node_memory(const ph__own_memory *own)
{
    for (const ph__node_memory *given = own->nodes; given; given = given->outer)
        if (given->spans.count > 0)
            return true;
    return false;
}

/* Most words of other libraries' kernels are no addresses at all. */
static bool may_be_known(const ph__own_memory *own, uintptr_t address)
{
    return ph__memory_bounds_have(&own->seen->bounds, address) || ph__own_has_node_memory(own);
}

void ph__word_lies_in(ph_word *word, const ph_allocation *allocation)
{
    word->base = allocation->base;
    word->allocation_bytes = allocation->size;
    word->generation = allocation->generation;
    word->pinned = allocation->pinned;
    word->foreign = allocation->foreign;
}

static bool look_up_word(ph_word *out, const ph_device *device, const ph__own_memory *own);

/* Where nothing was met before. */
static __attribute__((noinline)) bool look_up_alone(ph_word *out, const ph_device *device,
                                                    const ph__own_memory *own)
{
    ph__lookups seen = {0};
    ph__own_memory with = own ? *own : (ph__own_memory){0};
    ph__memory_read_bounds(&seen.bounds, device);
    with.seen = &seen;
    return look_up_word(out, device, &with);
}

/* True when the value lies in memory that the library knows. */
static bool look_up_word(ph_word *out, const ph_device *device, const ph__own_memory *own)
{
    if (own == NULL || own->seen == NULL)
        return look_up_alone(out, device, own);
    if (out->value == 0 || !may_be_known(own, (uintptr_t)out->value))
        return false;
    out->internal = ph__own_has(own, (uintptr_t)out->value);
    const ph_allocation *found =
        find_allocation(&out->pool, own->seen, device, own->past, (uintptr_t)out->value);
    if (!found)
        return out->internal;
    ph__word_lies_in(out, found);
    return true;
}

void ph__word_look_up(ph_word *out, const ph_device *device, const ph__own_memory *own)
{
    if (look_up_word(out, device, own) && out->kind == PH_WORD_VALUE)
        out->kind = PH_WORD_SUSPECTED;
}

void ph__word_read(ph_word *out, const ph_device *device, const ph__own_memory *own,
                   const ph__word_slot *slot, const void *args, const char *name)
{
    ph__word_put(out, slot, args, name);
    if (slot->class != PH__CLASS_VALUE)
        ph__word_look_up(out, device, own);
}

void ph__word_address(ph_word *out, const ph_device *device, const ph__own_memory *own,
                      const char *name, size_t offset, const void *address)
{
    memset(out, 0, sizeof *out);
    out->kind = PH_WORD_PROVED;
    out->name = name;
    out->offset = offset;
    out->value = (uint64_t)(uintptr_t)address;
    look_up_word(out, device, own);
}

const char *ph__word_kind_name(ph_word_kind kind)
{
    static const char *const names[] = {"value", "suspected", "proved"};
    return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}
