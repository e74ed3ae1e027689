/* SPDX-License-Identifier: MIT */
/* python/module/words.c: the words of a record that lie in given memory. A kernel of a vendor's
 * library has hundreds of words, of which few are addresses: its parameters are looked through as
 * they are, and what lies in no range is not described. */
#include "words.h"
#include "arguments.h"
#include "ranges.h"
#include <phonograph/phonograph.h>
#include <string.h>

enum {
    DEEPEST = 64 /* bodies in bodies; the library has a limit of its own below it */
};

typedef struct search {
    ranges ranges;
    bool no_kernels;
    PyObject *list;
    size_t path[DEEPEST], depth;
} search;

static PyObject *text_of(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject *path_of(const search *s)
{
    PyObject *path = PyTuple_New((Py_ssize_t)s->depth);
    for (size_t i = 0; path && i < s->depth; i++) {
        PyObject *number = PyLong_FromSize_t(s->path[i]);
        if (number == NULL || PyTuple_SetItem(path, (Py_ssize_t)i, number) != 0)
            Py_CLEAR(path);
    }
    return path;
}

/* All functions from here on: false with an exception. */
static bool add_word(search *s, const ph_node_info *node, size_t number, const ph_word *word)
{
    PyObject *parts[] = {path_of(s),
                         PyLong_FromSize_t(number),
                         PyLong_FromUnsignedLongLong(word->value),
                         PyBool_FromLong(word->kind == PH_WORD_PROVED),
                         text_of(ph_node_kind_name(node->kind)),
                         text_of(node->name),
                         text_of(word->name)};
    enum {
        COUNT = sizeof parts / sizeof parts[0]
    };
    PyObject *tuple = PyTuple_New(COUNT);
    bool done = tuple != NULL;
    for (Py_ssize_t i = 0; i < COUNT; i++) {
        done = done && parts[i];
        if (tuple)
            (void)PyTuple_SetItem(tuple, i, parts[i]); /* takes NULL too */
        else
            Py_XDECREF(parts[i]);
    }
    done = done && PyList_Append(s->list, tuple) == 0;
    Py_XDECREF(tuple);
    return done;
}

static bool look_at(search *s, const ph_record *record, const ph_node_info *node, size_t number)
{
    ph_word word;
    if (ph_record_word(&word, record, node->index, number) != PH_OK) {
        PyErr_SetString(PyExc_RuntimeError, "words_in: a word of the record cannot be read");
        return false;
    }
    return !ranges_have(&s->ranges, word.value) || add_word(s, node, number, &word);
}

/* A kernel without declared parameters has a word for each aligned 8 bytes. */
static bool is_regular(const ph_record *record, const ph_node_info *node)
{
    ph_word last;
    size_t count = node->word_count;
    return node->kind == PH_NODE_KERNEL && node->args && count > 0 &&
           count == (node->args_size + 7) / 8 &&
           ph_record_word(&last, record, node->index, count - 1) == PH_OK &&
           last.offset == 8 * (count - 1);
}

static bool look_through(search *s, const ph_record *record, const ph_node_info *node)
{
    bool regular = is_regular(record, node);
    for (size_t w = 0; w < node->word_count; w++) {
        uint64_t value = 0;
        size_t left = regular ? node->args_size - 8 * w : 0;
        if (regular)
            memcpy(&value, (const char *)node->args + 8 * w, left < 8 ? left : 8);
        if ((!regular || ranges_have(&s->ranges, value)) && !look_at(s, record, node, w))
            return false;
    }
    return true;
}

static bool search_record(search *s, const ph_record *record)
{
    ph_node_info node;
    if (s->depth == DEEPEST) {
        PyErr_SetString(PyExc_RecursionError, "words_in: graphs are nested too deep");
        return false;
    }
    s->depth++;
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        s->path[s->depth - 1] = i;
        if (ph_record_node(&node, record, i) != PH_OK ||
            (!(s->no_kernels && node.kind == PH_NODE_KERNEL) && !look_through(s, record, &node)) ||
            (node.body && !search_record(s, node.body)))
            return false;
    }
    s->depth--;
    return true;
}

PyObject *py_words_in(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    void *record;
    search s = {0};
    (void)module;
    if ((count != 2 && !take_count("words_in", count, 3)) || !take_pointer(&record, arguments[0]) ||
        !take_ranges(&s.ranges, arguments[1]))
        return NULL;
    int no_kernels = count == 3 ? PyObject_IsTrue(arguments[2]) : 0;
    if (no_kernels < 0)
        return NULL;
    s.no_kernels = no_kernels != 0;
    s.list = PyList_New(0);
    if (s.list && !search_record(&s, record))
        Py_CLEAR(s.list);
    return s.list;
}
