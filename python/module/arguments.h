/* SPDX-License-Identifier: MIT */
/* python/module/arguments.h: the arguments of calls from Python, as C's. */
#ifndef PH_PYTHON_ARGUMENTS_H
#define PH_PYTHON_ARGUMENTS_H
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdbool.h>

/* All of them: false with an exception. */
static inline bool take_count(const char *name, Py_ssize_t count, Py_ssize_t expected)
{
    if (count == expected)
        return true;
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", name, expected, count);
    return false;
}

/* None is NULL. */
static inline bool take_pointer(void **out, PyObject *argument)
{
    if (argument == Py_None) {
        *out = NULL;
        return true;
    }
    *out = PyLong_AsVoidPtr(argument);
    return *out || !PyErr_Occurred();
}
#endif
