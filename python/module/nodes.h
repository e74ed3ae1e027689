/* SPDX-License-Identifier: MIT */
/* python/module/nodes.h: the nodes of a record as dicts, all in one call. */
#ifndef PH_PYTHON_NODES_H
#define PH_PYTHON_NODES_H
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

/* record_nodes(record, ranges, memory_of): what json.loads of ph_record_json has as "nodes", and
 * "torch" in each word.
 * - ranges: as words_in takes them. torch: memory_of(value) of a word that lies in one, asked for
 *   about once for each value; else None. A word with it is "suspected" where it would be a value.
 * - None: a node has a body, or a text is no UTF-8; the JSON is the way then. */
PyObject *py_record_nodes(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
#endif
