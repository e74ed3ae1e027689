/* SPDX-License-Identifier: MIT */
/* python/module/calls.c: phonograph._calls, the dozen calls that programs make most, for Python's
 * limited API. phonograph/hot.py has the same calls by ctypes.
 *
 * - A function takes what the C call takes: integers, or None for NULL. It returns the status, or
 *   the result, as an integer.
 * - instances and those of tensors are no calls of C's: see objects.h and tensors.h.
 * - Calls that may wait, or run or wait for a callback, release Python's lock. */
#include "arguments.h"
#include "nodes.h"
#include "objects.h"
#include "tensors.h"
#include "words.h"
#include <phonograph/phonograph.h>

/* ---- arguments ---- */

static bool take_pointers(const char *name, void **out, PyObject *const *arguments,
                          Py_ssize_t count, Py_ssize_t expected)
{
    if (!take_count(name, count, expected))
        return false;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!take_pointer(&out[i], arguments[i]))
            return false;
    return true;
}

static bool take_size(size_t *out, PyObject *argument)
{
    *out = PyLong_AsSize_t(argument);
    return *out != SIZE_MAX || !PyErr_Occurred();
}

/* ---- calls ---- */

/* A call of two handles that returns a status. */
#define PAIR_CALL(call, first, second)                                                             \
    static PyObject *py_##call(PyObject *module, PyObject *const *arguments, Py_ssize_t count)     \
    {                                                                                              \
        (void)module;                                                                              \
        void *at[2];                                                                               \
        if (!take_pointers(#call, at, arguments, count, 2))                                        \
            return NULL;                                                                           \
        ph_status status;                                                                          \
        Py_BEGIN_ALLOW_THREADS status = call((first *)at[0], (second *)at[1]);                     \
        Py_END_ALLOW_THREADS return PyLong_FromLong((long)status);                                 \
    }
PAIR_CALL(ph_graph_replay, ph_graph, ph_stream)
PAIR_CALL(ph_event_record, ph_event, ph_stream)
PAIR_CALL(ph_stream_wait_event, ph_stream, ph_event)
PAIR_CALL(ph_stream_wait_stream, ph_stream, ph_stream)

static PyObject *py_ph_graph_replay_with(PyObject *module, PyObject *const *arguments,
                                         Py_ssize_t count)
{
    (void)module;
    void *at[3];
    size_t values;
    if (!take_count("ph_graph_replay_with", count, 4) ||
        !take_pointers("ph_graph_replay_with", at, arguments, 3, 3) ||
        !take_size(&values, arguments[3]))
        return NULL;
    ph_status status;
    Py_BEGIN_ALLOW_THREADS status = ph_graph_replay_with(at[0], at[1], at[2], values);
    Py_END_ALLOW_THREADS return PyLong_FromLong((long)status);
}

static PyObject *py_ph_launch(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    void *at[4];
    size_t size;
    if (!take_count("ph_launch", count, 5) || !take_pointers("ph_launch", at, arguments, 4, 4) ||
        !take_size(&size, arguments[4]))
        return NULL;
    ph_status status;
    Py_BEGIN_ALLOW_THREADS status = ph_launch(at[0], at[1], at[2], at[3], size);
    Py_END_ALLOW_THREADS return PyLong_FromLong((long)status);
}

static PyObject *py_ph_memcpy(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    void *dst, *src, *stream;
    size_t bytes;
    if (!take_count("ph_memcpy", count, 4) || !take_pointer(&dst, arguments[0]) ||
        !take_pointer(&src, arguments[1]) || !take_size(&bytes, arguments[2]) ||
        !take_pointer(&stream, arguments[3]))
        return NULL;
    ph_status status;
    Py_BEGIN_ALLOW_THREADS status = ph_memcpy(dst, src, bytes, stream);
    Py_END_ALLOW_THREADS return PyLong_FromLong((long)status);
}

static PyObject *py_ph_memset(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    void *dst, *stream;
    size_t value, bytes;
    if (!take_count("ph_memset", count, 4) || !take_pointer(&dst, arguments[0]) ||
        !take_size(&value, arguments[1]) || !take_size(&bytes, arguments[2]) ||
        !take_pointer(&stream, arguments[3]))
        return NULL;
    if (value > UINT8_MAX) {
        PyErr_SetString(PyExc_OverflowError, "ph_memset: the value of a byte is at most 255");
        return NULL;
    }
    ph_status status;
    Py_BEGIN_ALLOW_THREADS status = ph_memset(dst, (uint8_t)value, bytes, stream);
    Py_END_ALLOW_THREADS return PyLong_FromLong((long)status);
}

/* ---- short calls: Python's lock is kept ---- */

static PyObject *py_ph_graph_epoch(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    void *graph;
    if (!take_pointers("ph_graph_epoch", &graph, arguments, count, 1))
        return NULL;
    return PyLong_FromUnsignedLongLong(ph_graph_epoch(graph));
}

static PyObject *py_ph_graph_get_state(PyObject *module, PyObject *const *arguments,
                                       Py_ssize_t count)
{
    (void)module;
    void *graph;
    if (!take_pointers("ph_graph_get_state", &graph, arguments, count, 1))
        return NULL;
    return PyLong_FromLong((long)ph_graph_get_state(graph));
}

static PyObject *py_ph_stream_is_capturing(PyObject *module, PyObject *const *arguments,
                                           Py_ssize_t count)
{
    (void)module;
    void *stream;
    if (!take_pointers("ph_stream_is_capturing", &stream, arguments, count, 1))
        return NULL;
    return PyBool_FromLong(ph_stream_is_capturing(stream));
}

static PyObject *py_ph_graph_check_output(PyObject *module, PyObject *const *arguments,
                                          Py_ssize_t count)
{
    (void)module;
    void *at[2];
    if (!take_count("ph_graph_check_output", count, 3) ||
        !take_pointers("ph_graph_check_output", at, arguments, 2, 2))
        return NULL;
    unsigned long long epoch = PyLong_AsUnsignedLongLong(arguments[2]);
    if (epoch == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    ph_status status;
    Py_BEGIN_ALLOW_THREADS status = ph_graph_check_output(at[0], at[1], epoch);
    Py_END_ALLOW_THREADS return PyLong_FromLong((long)status);
}

/* ---- module ---- */

#define METHOD(call)                                                                               \
    {                                                                                              \
#call, (PyCFunction)(void (*)(void))py_##call, METH_FASTCALL, NULL                         \
    }
static PyMethodDef methods[] = {METHOD(ph_event_record),
                                METHOD(ph_graph_check_output),
                                METHOD(ph_graph_epoch),
                                METHOD(ph_graph_get_state),
                                METHOD(ph_graph_replay),
                                METHOD(ph_graph_replay_with),
                                METHOD(ph_launch),
                                METHOD(ph_memcpy),
                                METHOD(ph_memset),
                                METHOD(ph_stream_is_capturing),
                                METHOD(ph_stream_wait_event),
                                METHOD(ph_stream_wait_stream),
                                {"instances", py_instances, METH_O, NULL},
                                METHOD(record_nodes),
                                METHOD(set_tensors),
                                METHOD(tensor_form),
                                METHOD(tensor_reader),
                                METHOD(words_in),
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "_calls",
                                        "The calls that programs make most.",
                                        0,
                                        methods,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

PyMODINIT_FUNC PyInit__calls(void); /* Python looks it up by this name */
PyMODINIT_FUNC PyInit__calls(void)
{
    return PyModule_Create(&definition);
}
