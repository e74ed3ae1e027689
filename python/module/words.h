/* SPDX-License-Identifier: MIT */
/* python/module/words.h: the words of a record that lie in given memory, all in one call. */
#ifndef PH_PYTHON_WORDS_H
#define PH_PYTHON_WORDS_H
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

/* words_in(record, ranges, no_kernels=False): a list of tuples (path, word, value, proved, kind,
 * node, name), of nested graphs too.
 * - ranges: bytes, as ranges.h has them. no_kernels: True: not the words of kernels.
 * - path: numbers of nodes, from the outermost graph to the node. word: its number in the node.
 * - kind: of the node, "kernel" and so on. node, name: of the node and of the word. */
PyObject *py_words_in(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
#endif
