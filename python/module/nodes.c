/* SPDX-License-Identifier: MIT */
/* python/module/nodes.c: the nodes of a record as dicts. A record of 1,000 nodes has some 10^4
 * words: to write them as JSON and to read that takes ten times as long as to make the dicts. */
#include "nodes.h"
#include "word_dicts.h"

static PyObject *dims_of(const uint32_t dims[3])
{
    PyObject *items[3];
    for (int i = 0; i < 3; i++)
        items[i] = PyLong_FromUnsignedLong(dims[i]);
    return new_list(3, items);
}

static PyObject *indices_of(const size_t *indices, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *number = PyLong_FromSize_t(indices[i]);
        if (number == NULL || PyList_SetItem(list, (Py_ssize_t)i, number) != 0)
            Py_CLEAR(list);
    }
    return list;
}

/* The JSON writes a whole one of up to 17 digits as an integer, and it is read as that. */
static PyObject *real_of(double real)
{
    bool short_one = real > -1e17 && real < 1e17;
    return short_one && real == (double)(long long)real ? PyLong_FromDouble(real)
                                                        : PyFloat_FromDouble(real);
}

static PyObject *pair_value(build *b, const ph_annotation_pair *pair)
{
    bool finite = pair->real - pair->real == 0; /* JSON has no other numbers */
    switch (pair->type) {
    case PH_ANNOTATION_TEXT:
        return text_of(b, pair->text);
    case PH_ANNOTATION_INTEGER:
        return PyLong_FromLongLong(pair->integer);
    case PH_ANNOTATION_REAL:
        if (finite)
            return real_of(pair->real);
        break;
    case PH_ANNOTATION_BOOL:
        return PyBool_FromLong(pair->boolean);
    }
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *pairs_of(build *b, const ph_annotation_pair *pairs, size_t count)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < count; i++) {
        PyObject *key = text_of(b, pairs[i].key), *value = key ? pair_value(b, &pairs[i]) : NULL;
        if (value == NULL || PyDict_SetItem(dict, key, value) != 0)
            Py_CLEAR(dict);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return dict;
}

/* What stands in a node beside the members of ph_node_info. */
typedef struct extras {
    PyObject *words, *readable, *edge_kinds; /* owned; None: there are none */
    const ph_annotation_pair *pairs;
    size_t pair_count;
    const char *made_for;
} extras;

static bool put_extras(build *b, PyObject *dict, const extras *with)
{
    return (with->readable == Py_None ||
            PyDict_SetItem(dict, b->keys[KEY_DEMANGLED], with->readable) == 0) &&
           (with->pair_count == 0 ||
            put(b, dict, KEY_ANNOTATION, pairs_of(b, with->pairs, with->pair_count))) &&
           (!with->made_for || put(b, dict, KEY_MADE_FOR, text_of(b, with->made_for)));
}

static PyObject *hex_text(const unsigned char *bytes, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    char *text = PyMem_Malloc(2 * size + 1);
    if (text == NULL)
        return PyErr_NoMemory();
    for (size_t i = 0; i < size; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    PyObject *made = PyUnicode_FromStringAndSize(text, (Py_ssize_t)(2 * size));
    PyMem_Free(text);
    return made;
}

static bool put_kernel(const build *b, PyObject *dict, const ph_node_info *node,
                       const unsigned char *bytes)
{
    return put(b, dict, KEY_GRID, dims_of(node->grid)) &&
           put(b, dict, KEY_BLOCK, dims_of(node->block)) &&
           put(b, dict, KEY_SHARED_BYTES, PyLong_FromSize_t(node->shared_bytes)) &&
           put(b, dict, KEY_ARGS_SIZE, PyLong_FromSize_t(node->args_size)) &&
           put(b, dict, KEY_ARGS, hex_text(bytes, node->args_size));
}

static bool put_memory(const build *b, PyObject *dict, const ph_node_info *node)
{
    bool copy = node->kind == PH_NODE_MEMCPY, fill = node->kind == PH_NODE_MEMSET;
    bool given = node->kind == PH_NODE_MEM_ALLOC, freed = node->kind == PH_NODE_MEM_FREE;
    return (!(copy || fill || given || freed) || put(b, dict, KEY_DST, address_of(node->dst))) &&
           (!copy || put(b, dict, KEY_SRC, address_of(node->src))) &&
           (!fill || (put(b, dict, KEY_VALUE, PyLong_FromUnsignedLong(node->value)) &&
                      put(b, dict, KEY_VALUE_SIZE, PyLong_FromUnsignedLong(node->value_size)))) &&
           (!(copy || fill || given) || put(b, dict, KEY_BYTES, PyLong_FromSize_t(node->bytes)));
}

/* None where all are full, as nearly always. */
static PyObject *edge_kinds_of(build *b, const ph_node_info *node)
{
    bool all_full = true;
    ph_edge_kind kind;
    for (size_t d = 0; d < node->dependency_count && all_full; d++)
        all_full =
            ph_record_edge(&kind, b->record, node->index, d) != PH_OK || kind == PH_EDGE_FULL;
    if (all_full) {
        Py_INCREF(Py_None);
        return Py_None;
    }
    PyObject *list = PyList_New((Py_ssize_t)node->dependency_count);
    for (size_t d = 0; list && d < node->dependency_count; d++) {
        bool full =
            ph_record_edge(&kind, b->record, node->index, d) != PH_OK || kind == PH_EDGE_FULL;
        PyObject *name = text_of(b, full ? "full" : "programmatic");
        if (name == NULL || PyList_SetItem(list, (Py_ssize_t)d, name) != 0)
            Py_CLEAR(list);
    }
    return list;
}

/* In the order of the JSON. */
static bool fill_node(build *b, PyObject *dict, const ph_node_info *node, const extras *with,
                      const unsigned char *bytes)
{
    const size_t *before = ph_record_dependencies(b->record, node->index),
                 *behind = ph_record_dependents(b->record, node->index);
    return put(b, dict, KEY_INDEX, PyLong_FromSize_t(node->index)) &&
           put(b, dict, KEY_KIND, text_of(b, ph_node_kind_name(node->kind))) &&
           put(b, dict, KEY_NAME, text_of(b, node->name)) && put_extras(b, dict, with) &&
           (!bytes || put_kernel(b, dict, node, bytes)) && put_memory(b, dict, node) &&
           put(b, dict, KEY_DEPENDENCIES, indices_of(before, node->dependency_count)) &&
           (with->edge_kinds == Py_None ||
            PyDict_SetItem(dict, b->keys[KEY_DEPENDENCY_KINDS], with->edge_kinds) == 0) &&
           put(b, dict, KEY_DEPENDENTS, indices_of(behind, node->dependent_count)) &&
           PyDict_SetItem(dict, b->keys[KEY_WORDS], with->words) == 0;
}

/* A copy of the last node has room for all keys, where it has the same. */
static PyObject *start_node(build *b, const ph_node_info *node, const extras *with)
{
    unsigned keys = (unsigned)node->kind << 4 | (with->readable != Py_None ? 8U : 0U) |
                    (with->pair_count != 0 ? 4U : 0U) | (with->made_for != NULL ? 2U : 0U) |
                    (with->edge_kinds != Py_None ? 1U : 0U);
    if (b->node && b->node_keys == keys)
        return PyDict_Copy(b->node);
    b->node_keys = keys;
    return PyDict_New();
}

static PyObject *make_node(build *b, const ph_node_info *node, unsigned char *bytes)
{
    extras with = {.words = words_of(b, node, bytes),
                   .readable = readable_of(b, node),
                   .edge_kinds = edge_kinds_of(b, node),
                   .made_for = ph_record_made_for(b->record, node->index)};
    if (ph_record_annotation(&with.pairs, &with.pair_count, b->record, node->index) != PH_OK)
        with.pair_count = 0;
    bool taken = with.words && with.readable && with.edge_kinds;
    PyObject *dict = taken ? start_node(b, node, &with) : NULL;
    if (dict && !fill_node(b, dict, node, &with, bytes))
        Py_CLEAR(dict);
    Py_XDECREF(b->node);
    b->node = dict;
    Py_XINCREF(dict);
    Py_XDECREF(with.words);
    Py_XDECREF(with.readable);
    Py_XDECREF(with.edge_kinds);
    return dict;
}

static PyObject *node_of(build *b, const ph_node_info *node)
{
    unsigned char *bytes = NULL;
    if (node->kind == PH_NODE_KERNEL) {
        bytes = PyMem_Calloc(node->args_size + 8, 1);
        if (bytes == NULL)
            return PyErr_NoMemory();
    }
    PyObject *dict = make_node(b, node, bytes);
    PyMem_Free(bytes);
    return dict;
}

/* ---- the call ---- */

static PyObject *nodes_of(build *b)
{
    size_t count = ph_record_node_count(b->record);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        ph_node_info node;
        PyObject *dict = NULL;
        if (ph_record_node(&node, b->record, i) != PH_OK)
            PyErr_SetString(PyExc_RuntimeError, "record_nodes: a node cannot be read");
        else if (node.body)
            b->as_json = true;
        else
            dict = node_of(b, &node);
        if (dict == NULL || PyList_SetItem(list, (Py_ssize_t)i, dict) != 0)
            Py_CLEAR(list);
    }
    return list;
}

PyObject *py_record_nodes(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    void *record;
    ranges found;
    (void)module;
    if (!take_count("record_nodes", count, 3) || !take_pointer(&record, arguments[0]) ||
        !take_ranges(&found, arguments[1]))
        return NULL;
    build *b = PyMem_Calloc(1, sizeof *b);
    if (b == NULL)
        return PyErr_NoMemory();
    b->record = record;
    b->ranges = found;
    b->memory_of = arguments[2];
    PyObject *list = open_build(b) ? nodes_of(b) : NULL;
    bool as_json = b->as_json && !PyErr_Occurred();
    close_build(b);
    if (list == NULL && as_json)
        Py_RETURN_NONE;
    return list;
}
