/* SPDX-License-Identifier: MIT */
/* python/module/tensors.h: slots that are set to tensors of another library, whose class has
 * DLPack's table of C functions: a call for each tensor in the place of some ten of Python's. */
#ifndef PH_PYTHON_TENSORS_H
#define PH_PYTHON_TENSORS_H
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

/* tensor_reader(table, classes, is_neg): a capsule for the calls below.
 * - table: the class's __dlpack_c_exchange_api__. ValueError: it has no such function of DLPack 1.
 * - classes: a tuple; objects of exactly these are read, as a subclass may mean something else.
 * - is_neg: of a tensor of real numbers, whether its memory has them with another sign. */
PyObject *py_tensor_reader(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
/* tensor_form(reader, slot, tensor): the number of a slot, and dtype, shape and device of what it
 * takes, as bytes. None: set_tensors does not take such tensors. */
PyObject *py_tensor_form(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
/* set_tensors(graph, reader, forms, tensors, launch): ph_graph_slots_set of the addresses of
 * tensors, and a launch.
 * - forms, tensors: dicts by name.
 * - launch: None, or as bytes the addresses of cuStreamIsCapturing and cuGraphLaunch, a
 *   CUgraphExec, a ph_device and the number of the GPU. It is launched on the current stream of the
 *   tensors' library.
 * - Returns the status, or -1: the values were set, and it was launched. 0 with a launch: the
 *   values were set, and nothing was launched, as the stream captures or the driver refused.
 * - None: a tensor has another form than its slot, or is not contiguous, or there is no such slot;
 *   nothing was set. */
PyObject *py_set_tensors(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
#endif
