/* SPDX-License-Identifier: MIT */
/* python/module/dicts.h: what the dicts of a record are made of: keys, texts and values, each made
 * once and met again. */
#ifndef PH_PYTHON_DICTS_H
#define PH_PYTHON_DICTS_H
#include "arguments.h"
#include "ranges.h"
#include <phonograph/phonograph.h>

enum {
    TEXTS = 256, /* texts and values that were met lately, by their hash */
    VALUES = 4096,
    FORMS = 256 /* words of one name and offset */
};
enum {
    KEY_INDEX,
    KEY_KIND,
    KEY_NAME,
    KEY_DEMANGLED,
    KEY_ANNOTATION,
    KEY_MADE_FOR,
    KEY_GRID,
    KEY_BLOCK,
    KEY_SHARED_BYTES,
    KEY_ARGS_SIZE,
    KEY_ARGS,
    KEY_DST,
    KEY_SRC,
    KEY_VALUE,
    KEY_VALUE_SIZE,
    KEY_BYTES,
    KEY_DEPENDENCIES,
    KEY_DEPENDENCY_KINDS,
    KEY_DEPENDENTS,
    KEY_WORDS,
    KEY_OFFSET,
    KEY_INTERNAL,
    KEY_ALLOCATION,
    KEY_TORCH,
    KEY_BASE,
    KEY_GENERATION,
    KEY_POOL,
    KEY_PINNED,
    KEY_FOREIGN,
    KEY_COUNT
};

/* memory: what memory_of said, or None; NULL: no value is known here. allocation: of the word that
 * is, or NULL; words of one value share the dict, as they do that of memory. */
typedef struct known_value {
    uint64_t value;
    PyObject *text, *memory, *allocation;
    uint64_t generation; /* of the allocation */
} known_value;

/* The record is not changed meanwhile, so that a text of it is known by its place. */
typedef struct build {
    const ph_record *record;
    ranges ranges;
    PyObject *memory_of, *keys[KEY_COUNT];
    /* A dict is copied, and changed where it differs: the plain word, which others are made from;
     * that of the same name and offset; and the last node, by what keys it has. */
    PyObject *word;
    struct {
        const char *name;
        size_t offset;
        PyObject *word;
    } forms[FORMS];
    PyObject *node;
    unsigned node_keys;
    struct {
        const char *text;
        PyObject *object, *readable; /* readable: of names alone; NULL: not asked for */
    } texts[TEXTS];
    known_value values[VALUES];
    bool as_json; /* something stands in the record that is left to the JSON */
} build;

/* ---- functions ---- Those that return objects give new references, or NULL with an exception; of
 * a text also where the JSON is the way. */

/* False with an exception; it is to be closed then, too. */
bool open_build(build *b);
void close_build(build *b);
PyObject *text_of(build *b, const char *text);
/* None: the name is as readable as it is. */
PyObject *readable_of(build *b, const ph_node_info *node);
/* "0x...", as the JSON has addresses. */
PyObject *address_of(const void *address);
/* What is known of a value. Borrowed; NULL with an exception. */
known_value *value_of(build *b, uint64_t value);
/* Takes the value over, which may be NULL. False with an exception. */
bool put(const build *b, PyObject *dict, int key, PyObject *value);
/* Takes the items over, any of which may be NULL. */
PyObject *new_list(Py_ssize_t count, PyObject *const *items);
#endif
