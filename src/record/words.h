/* SPDX-License-Identifier: MIT */
/* record/words.h: the words of a launch's arguments, and what they address. */
#ifndef PH_RECORD_WORDS_H
#define PH_RECORD_WORDS_H
#include "base/map.h"
#include "base/vec.h"
#include "device/handles/kernel.h"
#include "memory/observe/lookup.h"
#include "memory/observe/moment.h"
#include <phonograph/inspect/record.h>
#include <string.h>

/* Memory that the memory nodes of a record give, and those of the one that it is nested in. */
typedef struct ph__node_memory_range {
    uintptr_t base;
    size_t size;
} ph__node_memory_range;
typedef struct ph__node_memory {
    const struct ph__node_memory *outer;
    PH__VEC(ph__node_memory_range) spans;
} ph__node_memory;

/* Allocations that were met last: words of one capture address few of them. */
typedef struct ph__lookups {
    ph__memory_bounds
        bounds; /* nothing that the library knows lies outside, but what memory nodes give */
    unsigned next, count;
    ph_allocation at[4];
    ph_pool_id pool[4];
} ph__lookups;

/* Memory that is a graph's own, so that words which address it are internal. Any of them may
 * be NULL. */
typedef struct ph__own_memory {
    const ph__ranges *capture; /* memory that the capture was given out of its pool */
    /* in bodies: the same, and what the captures of nested graphs were given */
    const ph__ranges *nested;
    const ph__node_memory *nodes; /* while a record is built */
    ph__lookups *seen;            /* likewise */
    const ph__past *past;         /* the moment that is looked at; NULL: now */
} ph__own_memory;

/* ---- words ---- walks the words of a launch's arguments: of a typed kernel each parameter, cut
 * into pieces of 8 bytes, at its own offset; what no parameter covers, and all of an untyped
 * kernel, by aligned words of 8 bytes. */
typedef enum ph__word_class {
    PH__CLASS_VALUE,
    PH__CLASS_ADDRESS,
    PH__CLASS_UNTYPED
} ph__word_class;
typedef struct ph__word_slot {
    ph__word_class class;
    size_t offset, size;
    const char *param; /* NULL where no parameter covers it */
    size_t piece;      /* bytes into the parameter */
} ph__word_slot;
typedef struct ph__words {
    const ph_kernel *kernel; /* NULL: a foreign one */
    size_t args_size, at, param;
} ph__words;
bool ph__words_next(ph__words *words, ph__word_slot *out);
/* As snprintf, for which it is on the path of captures: the slot's name, "x", "x+8" or "+16". */
size_t ph__word_name(char *out, size_t size, const ph__word_slot *slot);
/* A name that needs no copy: the parameter's, which lives as long as the kernel, or that of an
 * offset that kernels can have; NULL: there is none. */
const char *ph__word_lasting_name(const ph__word_slot *slot);
enum {
    PH__NAMED_OFFSETS = 4096 /* all that are smaller, and whole words, have a name that lasts */
};
/* Whether memory nodes give any: it may lie where the library knows of nothing. */
bool ph__own_has_node_memory(const ph__own_memory *own);
bool ph__own_has(const ph__own_memory *own, uintptr_t address);
void ph__word_lies_in(ph_word *word, const ph_allocation *allocation); /* but for its pool */
/* The word as far as the arguments say it: all but what it addresses, which look_up finds. */
static inline void ph__word_put(ph_word *out, const ph__word_slot *slot, const void *args,
                                const char *name)
{
    const char *at = (const char *)args + slot->offset;
    *out = (ph_word){.name = name,
                     .offset = slot->offset,
                     .kind = slot->class == PH__CLASS_ADDRESS ? PH_WORD_PROVED : PH_WORD_VALUE};
    if (slot->size == sizeof out->value) /* as nearly all */
        memcpy(&out->value, at, sizeof out->value);
    else
        memcpy(&out->value, at, slot->size);
}
void ph__word_look_up(ph_word *out, const ph_device *device, const ph__own_memory *own);
/* Both: classifies it, and writes all of it. */
void ph__word_read(ph_word *out, const ph_device *device, const ph__own_memory *own,
                   const ph__word_slot *slot, const void *args, const char *name);
/* A word that is an address for certain: a field of a memcpy or memset. name: static storage. */
void ph__word_address(ph_word *out, const ph_device *device, const ph__own_memory *own,
                      const char *name, size_t offset, const void *address);
const char *ph__word_kind_name(ph_word_kind kind);
#endif
