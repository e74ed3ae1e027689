/* SPDX-License-Identifier: MIT */
/* python/module/dicts.c: keys, texts and values of the dicts of a record. */
#include "dicts.h"
#include <string.h>

enum {
    NAME = 1024 /* bytes, of a readable one */
};
static const char *const key_texts[KEY_COUNT] = {[KEY_INDEX] = "index",
                                                 [KEY_KIND] = "kind",
                                                 [KEY_NAME] = "name",
                                                 [KEY_DEMANGLED] = "demangled",
                                                 [KEY_ANNOTATION] = "annotation",
                                                 [KEY_MADE_FOR] = "made_for",
                                                 [KEY_GRID] = "grid",
                                                 [KEY_BLOCK] = "block",
                                                 [KEY_SHARED_BYTES] = "shared_bytes",
                                                 [KEY_ARGS_SIZE] = "args_size",
                                                 [KEY_ARGS] = "args",
                                                 [KEY_DST] = "dst",
                                                 [KEY_SRC] = "src",
                                                 [KEY_VALUE] = "value",
                                                 [KEY_VALUE_SIZE] = "value_size",
                                                 [KEY_BYTES] = "bytes",
                                                 [KEY_DEPENDENCIES] = "dependencies",
                                                 [KEY_DEPENDENCY_KINDS] = "dependency_kinds",
                                                 [KEY_DEPENDENTS] = "dependents",
                                                 [KEY_WORDS] = "words",
                                                 [KEY_OFFSET] = "offset",
                                                 [KEY_INTERNAL] = "internal",
                                                 [KEY_ALLOCATION] = "allocation",
                                                 [KEY_TORCH] = "torch",
                                                 [KEY_BASE] = "base",
                                                 [KEY_GENERATION] = "generation",
                                                 [KEY_POOL] = "pool",
                                                 [KEY_PINNED] = "pinned",
                                                 [KEY_FOREIGN] = "foreign"};

static size_t place_of(build *b, const char *text)
{
    size_t place = ((uintptr_t)text >> 3) % TEXTS;
    if (b->texts[place].text != text) {
        Py_CLEAR(b->texts[place].object);
        Py_CLEAR(b->texts[place].readable);
        b->texts[place].text = text;
    }
    return place;
}

static PyObject *strict_text(build *b, const char *text)
{
    PyObject *made = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "strict");
    if (made == NULL && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
        PyErr_Clear();
        b->as_json = true;
    }
    return made;
}

PyObject *text_of(build *b, const char *text)
{
    size_t place = place_of(b, text);
    if (b->texts[place].object == NULL)
        b->texts[place].object = strict_text(b, text);
    Py_XINCREF(b->texts[place].object);
    return b->texts[place].object;
}

PyObject *readable_of(build *b, const ph_node_info *node)
{
    char room[NAME];
    size_t place = place_of(b, node->name);
    if (b->texts[place].readable == NULL) {
        if (strncmp(node->name, "_Z", 2) != 0 ||
            ph_record_readable_name(room, sizeof room, b->record, node->index) != PH_OK ||
            strncmp(room, node->name, sizeof room - 1) == 0) { /* room may have it cut */
            b->texts[place].readable = Py_None;
            Py_INCREF(Py_None);
        } else
            b->texts[place].readable = strict_text(b, room);
    }
    Py_XINCREF(b->texts[place].readable);
    return b->texts[place].readable;
}

static PyObject *hex_of(uint64_t value)
{
    char room[2 + 16], *at = room + sizeof room;
    do
        *--at = "0123456789abcdef"[value % 16];
    while (value /= 16);
    *--at = 'x';
    *--at = '0';
    return PyUnicode_FromStringAndSize(at, room + sizeof room - at);
}

PyObject *address_of(const void *address)
{
    return hex_of((uint64_t)(uintptr_t)address);
}

static PyObject *memory_of(const build *b, uint64_t value)
{
    if (!ranges_have(&b->ranges, value)) {
        Py_INCREF(Py_None);
        return Py_None;
    }
    PyObject *number = PyLong_FromUnsignedLongLong(value);
    PyObject *memory = number ? PyObject_CallFunctionObjArgs(b->memory_of, number, NULL) : NULL;
    Py_XDECREF(number);
    return memory;
}

/* Kernels that follow one another have the same addresses and numbers. */
known_value *value_of(build *b, uint64_t value)
{
    known_value *known = &b->values[(value * UINT64_C(0x9e3779b97f4a7c15)) >> 52];
    if (known->memory && known->value == value)
        return known;
    Py_CLEAR(known->text);
    Py_CLEAR(known->memory);
    Py_CLEAR(known->allocation);
    known->value = value;
    known->text = hex_of(value);
    known->memory = known->text ? memory_of(b, value) : NULL;
    return known->memory ? known : NULL;
}

bool put(const build *b, PyObject *dict, int key, PyObject *value)
{
    bool done = value && PyDict_SetItem(dict, b->keys[key], value) == 0;
    Py_XDECREF(value);
    return done;
}

PyObject *new_list(Py_ssize_t count, PyObject *const *items)
{
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; i < count; i++)
        if (list == NULL)
            Py_XDECREF(items[i]);
        else if (items[i])
            (void)PyList_SetItem(list, i, items[i]);
        else
            Py_CLEAR(list);
    return list;
}

/* ---- begin and end ---- */

bool open_build(build *b)
{
    for (int i = 0; i < KEY_COUNT; i++) {
        b->keys[i] = PyUnicode_InternFromString(key_texts[i]);
        if (b->keys[i] == NULL)
            return false;
    }
    static const int in_order[] = {KEY_NAME,     KEY_OFFSET,     KEY_KIND, KEY_VALUE,
                                   KEY_INTERNAL, KEY_ALLOCATION, KEY_TORCH};
    b->word = PyDict_New();
    for (size_t i = 0; b->word && i < sizeof in_order / sizeof in_order[0]; i++)
        if (PyDict_SetItem(b->word, b->keys[in_order[i]], Py_None) != 0)
            return false;
    return b->word && put(b, b->word, KEY_KIND, text_of(b, "value")) &&
           PyDict_SetItem(b->word, b->keys[KEY_INTERNAL], Py_False) == 0;
}

void close_build(build *b)
{
    for (int i = 0; i < KEY_COUNT; i++)
        Py_XDECREF(b->keys[i]);
    for (int i = 0; i < TEXTS; i++) {
        Py_XDECREF(b->texts[i].object);
        Py_XDECREF(b->texts[i].readable);
    }
    for (int i = 0; i < VALUES; i++) {
        Py_XDECREF(b->values[i].text);
        Py_XDECREF(b->values[i].memory);
        Py_XDECREF(b->values[i].allocation);
    }
    for (int i = 0; i < FORMS; i++)
        Py_XDECREF(b->forms[i].word);
    Py_XDECREF(b->node);
    Py_XDECREF(b->word);
    PyMem_Free(b);
}
