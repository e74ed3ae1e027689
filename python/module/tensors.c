/* SPDX-License-Identifier: MIT */
/* python/module/tensors.c: slots that are set to tensors of another library. */
#include "tensors.h"
#include "arguments.h"
#include <phonograph/cuda.h>
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
typedef int stream_of(int device_type, int32_t device_id, void **out);

typedef struct dl_table {
    dl_header header;
    void *allocate, *take, *give; /* managed tensors */
    view_of *view;                /* may be NULL */
    stream_of *current_stream;
} dl_table;

/* ---- readers ---- */

static const char table_name[] = "dlpack_exchange_api", reader_name[] = "phonograph.tensor_reader";

typedef struct reader {
    view_of *view;
    stream_of *current_stream;
    PyObject *classes, *is_neg;
} reader;

static void end_reader(PyObject *capsule)
{
    reader *ended = PyCapsule_GetPointer(capsule, reader_name);
    Py_DECREF(ended->classes);
    Py_DECREF(ended->is_neg);
    PyMem_Free(ended);
}

static const dl_table *take_table(PyObject *capsule)
{
    const dl_header *header = PyCapsule_GetPointer(capsule, table_name);
    if (header == NULL)
        return NULL;
    while (header && header->version.major != MAJOR)
        header = header->previous;
    const dl_table *table = (const dl_table *)header;
    if (table && table->view && table->current_stream)
        return table;
    PyErr_SetString(PyExc_ValueError, "tensor_reader: the table has no view of DLPack 1");
    return NULL;
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
    const dl_table *table = take_table(arguments[0]);
    reader *made = table ? PyMem_Malloc(sizeof *made) : NULL;
    if (made == NULL)
        return table ? PyErr_NoMemory() : NULL;
    *made = (reader){table->view, table->current_stream, arguments[1], arguments[2]};
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

/* How many values there are; -1: none, as a tensor has another form; -2: with an exception. */
static int read_values(ph_slot_value *values, const reader *read, PyObject *forms,
                       PyObject *tensors)
{
    int given = 0;
    PyObject *name, *tensor;
    Py_ssize_t at = 0;
    while (PyDict_Next(tensors, &at, &name, &tensor)) {
        PyObject *bytes = PyDict_GetItemWithError(forms, name);
        if (bytes == NULL && PyErr_Occurred())
            return -2;
        if (bytes == NULL || given == AT_ONCE)
            return -1;
        Py_INCREF(bytes); /* is_neg may run code of Python's */
        bool taken = read_value(&values[given++], read, bytes, tensor);
        Py_DECREF(bytes);
        if (!taken)
            return -1;
    }
    return given;
}

/* ---- launching ---- */

/* As Python packs it: phonograph/torch/capture.py. */
typedef struct launch {
    int (*is_capturing)(void *stream, int *out);
    int (*launch)(void *exec, void *stream);
    void *exec;
    ph_device *device;
    int64_t number;
} launch;

static bool take_launch(launch *out, PyObject *bytes)
{
    char *text;
    Py_ssize_t size;
    if (bytes == Py_None)
        return true;
    if (PyBytes_AsStringAndSize(bytes, &text, &size) != 0)
        return false;
    if (size != (Py_ssize_t)sizeof *out) {
        PyErr_SetString(PyExc_ValueError, "set_tensors: the launch has another size");
        return false;
    }
    memcpy(out, text, sizeof *out);
    return true;
}

/* On the stream that is the other library's current one. Where it captures, or anything fails,
 * nothing is launched, and the library's own replay has the word. */
static bool launch_on(const launch *of, void *stream)
{
    int capturing = 0;
    if (ph_context_push_cuda(of->device) != PH_OK)
        return false;
    bool done = of->is_capturing(stream, &capturing) == 0 && capturing == 0 &&
                of->launch(of->exec, stream) == 0;
    ph_context_pop_cuda(of->device);
    return done;
}

PyObject *py_set_tensors(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    void *graph, *stream = NULL;
    ph_slot_value values[AT_ONCE];
    launch how = {0};
    if (!take_count("set_tensors", count, 5) || !take_pointer(&graph, arguments[0]))
        return NULL;
    const reader *read = PyCapsule_GetPointer(arguments[1], reader_name);
    if (read == NULL || !take_launch(&how, arguments[4]))
        return NULL;
    if (!PyDict_Check(arguments[2]) || !PyDict_Check(arguments[3])) {
        PyErr_SetString(PyExc_TypeError, "set_tensors: two dicts are needed");
        return NULL;
    }
    int given = read_values(values, read, arguments[2], arguments[3]);
    if (given == -2)
        return NULL;
    if (given == -1)
        Py_RETURN_NONE;
    if (how.launch && read->current_stream(CUDA, (int32_t)how.number, &stream) != 0) {
        PyErr_Clear();
        how.launch = NULL;
    }
    ph_status status = PH_OK;
    bool launched = false;
    Py_BEGIN_ALLOW_THREADS if (given) status = ph_graph_slots_set(graph, values, (size_t)given);
    launched = status == PH_OK && how.launch && launch_on(&how, stream);
    Py_END_ALLOW_THREADS return PyLong_FromLong(launched ? -1 : (long)status);
}
