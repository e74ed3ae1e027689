/* SPDX-License-Identifier: MIT */
/* python/module/objects.c: the objects of a class among all that Python's collector knows, some
 * 10^5 in a program with torch, of which gc.get_objects() alone makes a list. */
#include "objects.h"
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum {
    KNOWN = 256, /* types */
    FIRST = 1024 /* objects */
};

typedef struct search {
    PyTypeObject *wanted;
    struct {
        PyTypeObject *type;
        bool matches;
    } known[KNOWN];
    PyObject **found; /* each retained */
    size_t count, capacity;
    bool failed; /* no host memory */
} search;

/* A type that is looked up again and again is compared once. */
static bool is_wanted(search *s, PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    size_t at = ((uintptr_t)type >> 4) % KNOWN;
    if (s->known[at].type != type) {
        s->known[at].type = type;
        s->known[at].matches = PyType_IsSubtype(type, s->wanted);
    }
    return s->known[at].matches;
}

/* Nothing here makes an object of Python's, as the collector goes through its lists meanwhile. */
static int visit(PyObject *object, void *user)
{
    search *s = user;
    if (!is_wanted(s, object))
        return 1;
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : FIRST;
        PyObject **grown = realloc(s->found, capacity * sizeof *grown);
        s->failed = grown == NULL;
        if (s->failed)
            return 0;
        s->found = grown;
        s->capacity = capacity;
    }
    Py_INCREF(object);
    s->found[s->count++] = object;
    return 1;
}

/* Python 3.12 and newer, outside of its limited API. */
typedef void visit_all(int (*callback)(PyObject *object, void *user), void *user);

static bool visit_list(search *s)
{
    PyObject *gc = PyImport_ImportModule("gc");
    PyObject *all = gc ? PyObject_CallMethod(gc, "get_objects", NULL) : NULL;
    Py_XDECREF(gc);
    if (!all)
        return false;
    Py_ssize_t count = PyList_Size(all);
    for (Py_ssize_t i = 0; i < count && !s->failed; i++)
        (void)visit(PyList_GetItem(all, i), s);
    Py_DECREF(all);
    return true;
}

static PyObject *take_list(search *s)
{
    PyObject *list = s->failed ? PyErr_NoMemory() : PyList_New((Py_ssize_t)s->count);
    for (size_t i = 0; i < s->count; i++)
        if (!list || PyList_SetItem(list, (Py_ssize_t)i, s->found[i]) != 0)
            Py_DECREF(s->found[i]);
    free(s->found);
    return list;
}

PyObject *py_instances(PyObject *module, PyObject *wanted)
{
    search s = {.wanted = (PyTypeObject *)wanted};
    visit_all *all = NULL;
    (void)module;
    if (!PyType_Check(wanted)) {
        PyErr_SetString(PyExc_TypeError, "instances: a class is needed");
        return NULL;
    }
    *(void **)&all = dlsym(RTLD_DEFAULT, "PyUnstable_GC_VisitObjects");
    if (all)
        all(visit, &s);
    else if (!visit_list(&s))
        return NULL;
    return take_list(&s);
}
