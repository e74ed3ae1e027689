/* SPDX-License-Identifier: MIT */
/* python/module/tensors.c: slots that are set to tensors of another library. */
#include "tensors.h"
#include "arguments.h"
#include <phonograph/phonograph.h>
#include <string.h>

/* ---- DLPack's table of C functions, of its version 1 ---- */

enum {
    MAJOR = 1,
    CUDA = 2, /* kDLCUDA */
    INTEGER = 0,
    UNSIGNED = 1,
    COMPLEX = 5,
    BOOL = 6, /* codes of DLDataType */
    DIMENSIONS = 12,
    AT_ONCE = 16 /* tensors */
};

typedef struct dl_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_header {
    struct {
        uint32_t major, minor;
    } version;
    struct dl_header *previous;
} dl_header;

/* Borrows everything of the tensor: shape and strides live as long as it is not changed. */
typedef int view_of(void *object, dl_tensor *out);

typedef struct dl_table {
    dl_header header;
    void *allocate, *take, *give; /* managed tensors */
    view_of *view;                /* may be NULL */
    void *current_stream;
} dl_table;

/* ---- readers ---- */

static const char table_name[] = "dlpack_exchange_api", reader_name[] = "phonograph.tensor_reader";

typedef struct reader {
    view_of *view;
    PyObject *classes, *is_neg;
} reader;

static void end_reader(PyObject *capsule)
{
    reader *ended = PyCapsule_GetPointer(capsule, reader_name);
    Py_DECREF(ended->classes);
    Py_DECREF(ended->is_neg);
    PyMem_Free(ended);
}

static view_of *take_view(PyObject *capsule)
{
    const dl_header *header = PyCapsule_GetPointer(capsule, table_name);
    if (header == NULL)
        return NULL;
    while (header && header->version.major != MAJOR)
        header = header->previous;
    if (header == NULL || ((const dl_table *)header)->view == NULL) {
        PyErr_SetString(PyExc_ValueError, "tensor_reader: the table has no view of DLPack 1");
        return NULL;
    }
    return ((const dl_table *)header)->view;
}

PyObject *py_tensor_reader(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (!take_count("tensor_reader", count, 3))
        return NULL;
    if (!PyTuple_Check(arguments[1])) {
        PyErr_SetString(PyExc_TypeError, "tensor_reader: a tuple of classes is needed");
        return NULL;
    }
    view_of *view = take_view(arguments[0]);
    reader *made = view ? PyMem_Malloc(sizeof *made) : NULL;
    if (made == NULL)
        return view ? PyErr_NoMemory() : NULL;
    *made = (reader){view, arguments[1], arguments[2]};
    PyObject *capsule = PyCapsule_New(made, reader_name, end_reader);
    if (capsule == NULL) {
        PyMem_Free(made);
        return NULL;
    }
    Py_INCREF(made->classes);
    Py_INCREF(made->is_neg);
    return capsule;
}

/* ---- forms ---- */

/* Compared as bytes: there is no padding, and what a tensor does not have is 0. */
typedef struct form {
    int64_t slot;
    int32_t device, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    uint32_t unused;
    int64_t shape[DIMENSIONS];
} form;

static bool is_plain(const reader *read, PyObject *tensor)
{
    PyObject *class = (PyObject *)Py_TYPE(tensor);
    for (Py_ssize_t i = 0; i < PyTuple_Size(read->classes); i++)
        if (PyTuple_GetItem(read->classes, i) == class)
            return true;
    return false;
}

/* The stride of a dimension of one element has no meaning. */
static bool is_contiguous(const dl_tensor *view)
{
    int64_t expected = 1;
    for (int32_t d = view->ndim - 1; view->strides && d >= 0; d--) {
        if (view->shape[d] != 1 && view->strides[d] != expected)
            return false;
        expected *= view->shape[d];
    }
    return true;
}

/* Whether its elements are what its memory has. Integers always are. */
static bool has_its_signs(const reader *read, const dl_tensor *view, PyObject *tensor)
{
    uint8_t code = view->dtype.code;
    if (code == INTEGER || code == UNSIGNED || code == BOOL)
        return true;
    PyObject *answer =
        code == COMPLEX ? NULL : PyObject_CallFunctionObjArgs(read->is_neg, tensor, NULL);
    Py_XDECREF(answer);
    return answer == Py_False;
}

/* The form of a tensor for a slot, and its address; false: it has none. No exception is left. */
static bool read_form(form *out, const void **address, const reader *read, int64_t slot,
                      PyObject *tensor)
{
    dl_tensor view;
    memset(out, 0, sizeof *out);
    if (!is_plain(read, tensor))
        return false;
    if (read->view(tensor, &view) != 0) {
        PyErr_Clear();
        return false;
    }
    if (view.device.type != CUDA || view.ndim > DIMENSIONS || !is_contiguous(&view))
        return false;
    *out = (form){.slot = slot,
                  .device = view.device.id,
                  .ndim = view.ndim,
                  .code = view.dtype.code,
                  .bits = view.dtype.bits,
                  .lanes = view.dtype.lanes};
    memcpy(out->shape, view.shape, (size_t)view.ndim * sizeof *view.shape);
    *address = (const char *)view.data + view.byte_offset;
    if (has_its_signs(read, &view, tensor))
        return true;
    PyErr_Clear();
    return false;
}

PyObject *py_tensor_form(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    form made;
    const void *address;
    if (!take_count("tensor_form", count, 3))
        return NULL;
    const reader *read = PyCapsule_GetPointer(arguments[0], reader_name);
    int64_t slot = read ? PyLong_AsLongLong(arguments[1]) : 0;
    if (PyErr_Occurred())
        return NULL;
    if (!read_form(&made, &address, read, slot, arguments[2]))
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((const char *)&made, sizeof made);
}

/* ---- setting ---- */

/* The value of one slot; false: the tensor has another form. */
static bool read_value(ph_slot_value *out, const reader *read, PyObject *bytes, PyObject *tensor)
{
    char *expected;
    Py_ssize_t size;
    form found;
    if (PyBytes_AsStringAndSize(bytes, &expected, &size) != 0 || size != (Py_ssize_t)sizeof found) {
        PyErr_Clear();
        return false;
    }
    memcpy(&found.slot, expected, sizeof found.slot);
    out->slot = (size_t)found.slot;
    return read_form(&found, &out->value, read, found.slot, tensor) &&
           memcmp(&found, expected, sizeof found) == 0;
}

PyObject *py_set_tensors(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    void *graph;
    ph_slot_value values[AT_ONCE];
    size_t given = 0;
    PyObject *name, *tensor;
    Py_ssize_t at = 0;
    if (!take_count("set_tensors", count, 4))
        return NULL;
    if (!take_pointer(&graph, arguments[0]))
        return NULL;
    const reader *read = PyCapsule_GetPointer(arguments[1], reader_name);
    if (read == NULL)
        return NULL;
    if (!PyDict_Check(arguments[2]) || !PyDict_Check(arguments[3])) {
        PyErr_SetString(PyExc_TypeError, "set_tensors: two dicts are needed");
        return NULL;
    }
    while (PyDict_Next(arguments[3], &at, &name, &tensor)) {
        PyObject *bytes = PyDict_GetItemWithError(arguments[2], name);
        if (bytes == NULL && PyErr_Occurred())
            return NULL;
        if (bytes == NULL || given == AT_ONCE)
            Py_RETURN_NONE;
        Py_INCREF(bytes); /* is_neg may run code of Python's */
        bool taken = read_value(&values[given++], read, bytes, tensor);
        Py_DECREF(bytes);
        if (!taken)
            Py_RETURN_NONE;
    }
    ph_status status;
    Py_BEGIN_ALLOW_THREADS status = ph_graph_slots_set(graph, values, given);
    Py_END_ALLOW_THREADS return PyLong_FromLong((long)status);
}
