/* SPDX-License-Identifier: MIT */
/* python/module/objects.h: the objects of a class that Python's collector knows. */
#ifndef PH_PYTHON_OBJECTS_H
#define PH_PYTHON_OBJECTS_H
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

/* instances(class): a list of them, those of its subclasses included. */
PyObject *py_instances(PyObject *module, PyObject *wanted);
#endif
