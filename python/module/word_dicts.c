/* SPDX-License-Identifier: MIT */
/* python/module/word_dicts.c: the words of a node as dicts. There are some ten of a node, and most
 * are numbers: such a dict is a copy of another with one member changed. */
#include "word_dicts.h"
#include <string.h>

static bool fill_allocation(const build *b, PyObject *dict, const ph_word *word)
{
    PyObject *pool[] = {PyLong_FromUnsignedLongLong(word->pool.first),
                        PyLong_FromUnsignedLongLong(word->pool.second)};
    PyObject *pair = new_list(2, pool);
    uint64_t offset = word->value - (uint64_t)(uintptr_t)word->base;
    bool done = put(b, dict, KEY_BASE, address_of(word->base)) &&
                put(b, dict, KEY_BYTES, PyLong_FromSize_t(word->allocation_bytes)) &&
                put(b, dict, KEY_OFFSET, PyLong_FromUnsignedLongLong(offset)) &&
                put(b, dict, KEY_GENERATION, PyLong_FromUnsignedLongLong(word->generation)) &&
                pair && PyDict_SetItem(dict, b->keys[KEY_POOL], pair) == 0 &&
                put(b, dict, KEY_PINNED, PyBool_FromLong(word->pinned)) &&
                (!word->foreign || put(b, dict, KEY_FOREIGN, PyBool_FromLong(true)));
    Py_XDECREF(pair);
    return done;
}

/* Borrowed. */
static PyObject *allocation_of(const build *b, known_value *value, const ph_word *word)
{
    if (value->allocation && value->generation == word->generation)
        return value->allocation;
    Py_CLEAR(value->allocation);
    value->generation = word->generation;
    value->allocation = PyDict_New();
    if (value->allocation && !fill_allocation(b, value->allocation, word))
        Py_CLEAR(value->allocation);
    return value->allocation;
}

/* A word with that name and offset. Borrowed. */
static PyObject *form_of(build *b, const ph_word *word)
{
    size_t place = word->offset / 8 % FORMS;
    PyObject **form = &b->forms[place].word;
    if (*form && b->forms[place].name == word->name && b->forms[place].offset == word->offset)
        return *form;
    Py_CLEAR(*form);
    *form = PyDict_Copy(b->word);
    b->forms[place].name = word->name;
    b->forms[place].offset = word->offset;
    if (*form && (!put(b, *form, KEY_NAME, text_of(b, word->name)) ||
                  !put(b, *form, KEY_OFFSET, PyLong_FromSize_t(word->offset))))
        Py_CLEAR(*form);
    return *form;
}

/* What tells it from a number. */
static bool fill_address(build *b, PyObject *dict, const ph_word *word, known_value *value)
{
    static const char *const kinds[] = {"value", "suspected", "proved"};
    ph_word_kind kind = word->kind;
    if (kind == PH_WORD_VALUE && value->memory != Py_None)
        kind = PH_WORD_SUSPECTED;
    PyObject *allocation = word->base ? allocation_of(b, value, word) : Py_None;
    return put(b, dict, KEY_KIND, text_of(b, kinds[kind])) && allocation &&
           PyDict_SetItem(dict, b->keys[KEY_ALLOCATION], allocation) == 0 &&
           PyDict_SetItem(dict, b->keys[KEY_TORCH], value->memory) == 0 &&
           (!word->internal || PyDict_SetItem(dict, b->keys[KEY_INTERNAL], Py_True) == 0);
}

static PyObject *word_of(build *b, const ph_word *word)
{
    known_value *value = value_of(b, word->value);
    PyObject *form = value ? form_of(b, word) : NULL, *dict = form ? PyDict_Copy(form) : NULL;
    bool number = value && word->kind == PH_WORD_VALUE && word->base == NULL &&
                  value->memory == Py_None && !word->internal;
    if (dict && (PyDict_SetItem(dict, b->keys[KEY_VALUE], value->text) != 0 ||
                 (!number && !fill_address(b, dict, word, value))))
        Py_CLEAR(dict);
    return dict;
}

/* The parameters' bytes, out of the words: those that no word covers are 0. */
static void take_bytes(unsigned char *bytes, const ph_node_info *node, const ph_word *word)
{
    size_t left = word->offset < node->args_size ? node->args_size - word->offset : 0;
    memcpy(bytes + word->offset, &word->value, left < 8 ? left : 8);
}

PyObject *words_of(build *b, const ph_node_info *node, unsigned char *bytes)
{
    PyObject *list = PyList_New((Py_ssize_t)node->word_count);
    for (size_t w = 0; list && w < node->word_count; w++) {
        ph_word word;
        PyObject *dict = NULL;
        if (ph_record_word(&word, b->record, node->index, w) != PH_OK)
            PyErr_SetString(PyExc_RuntimeError, "record_nodes: a word cannot be read");
        else
            dict = word_of(b, &word);
        if (dict && bytes)
            take_bytes(bytes, node, &word);
        if (dict == NULL || PyList_SetItem(list, (Py_ssize_t)w, dict) != 0)
            Py_CLEAR(list);
    }
    return list;
}
