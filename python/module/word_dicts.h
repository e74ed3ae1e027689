/* SPDX-License-Identifier: MIT */
/* python/module/word_dicts.h: the words of a node as dicts. */
#ifndef PH_PYTHON_WORD_DICTS_H
#define PH_PYTHON_WORD_DICTS_H
#include "dicts.h"

/* A list of them. bytes: NULL, or gets the kernel's parameters: those that no word covers are
 * left as they are. It has room for 8 bytes more. */
PyObject *words_of(build *b, const ph_node_info *node, unsigned char *bytes);
#endif
