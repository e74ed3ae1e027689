/* SPDX-License-Identifier: MIT */
/* nn/module/traverse.h: visits everything below a module, by dotted names. */
#ifndef PH_NN_MODULE_TRAVERSE_H
#define PH_NN_MODULE_TRAVERSE_H
#include <phonograph/module.h>

typedef struct ph__walk ph__walk;
typedef struct ph__entry {
    ph__walk *walk;
    const char *own;   /* its own name, which is empty for a module: see ph__entry_name */
    ph_tensor *tensor; /* NULL: a module */
    ph_module *module; /* the one that holds the tensor, or the module itself */
    bool buffer;
} ph__entry;
typedef bool (*ph__entry_fn)(const ph__entry *entry, void *user);
/* Until visit gives false. Gives false then, and where there is no host memory. */
bool ph__module_walk(const ph_module *module, ph__entry_fn visit, void *user);
/* For the visit: the dotted name from the module that is walked, of a module with a dot behind it
 * that would join it to what it holds. It lasts until the visit returns, or asks again. NULL: no
 * host memory. */
char *ph__entry_name(const ph__entry *entry);
#endif
