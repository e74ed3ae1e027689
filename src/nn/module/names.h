/* SPDX-License-Identifier: MIT */
/* nn/module/names.h: the dotted name of a module in another. */
#ifndef PH_NN_MODULE_NAMES_H
#define PH_NN_MODULE_NAMES_H
#include "base/text.h"
#include "nn/module/module.h"

/* Adds the dotted name that a module, or the one that it was graphed
 * from, has in another: of several the first, where children come before what is below them.
 * false: it is not below it. count: ways that were looked through, 0 while none was asked for
 * that is no near child. */
bool ph__module_add_name(ph__text *text, ph_module *in, const ph_module *module);
size_t ph__module_names_count(const ph_module *module);
void ph__module_names_free(ph__module_names *names); /* takes NULL */
#endif
