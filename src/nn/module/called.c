/* SPDX-License-Identifier: MIT */
/* nn/module/called.c: in which module of the network a tape failed. */
#include "nn/module/called.h"
#include "base/alloc.h"
#include "base/line.h"
#include "nn/module/module.h"
#include "nn/module/names.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"

/* Adds the dotted name of a call's module in the outermost one that it is below, and gives that.
 * A graphed module, which hands on to its original, is one with it. */
static ph_module *add_called_name(ph__text *name, const ph__called *called)
{
    const ph__called *outer = called->outer;
    if (!outer)
        return called->module;
    ph_module *top = add_called_name(name, outer);
    if (outer->module->original == called->module)
        return top;
    size_t length = name->length;
    ph__text_add(name, length ? "." : "");
    if (ph__module_add_name(name, outer->module, called->module))
        return top;
    name->length = 0;
    return called->module;
}

void ph__called_failed(ph_tape *tape)
{
    ph__text name = {0};
    char words[256];
    if (tape->placed)
        return;
    tape->placed = true;
    const ph_module *top = add_called_name(&name, tape->called);
    char *path = ph__text_detach(&name);
    bool below = path && path[0];
    ph__line_format(words, sizeof words, "; in %s%smodule %s", below ? path : "",
                    below ? " of " : "", top->name);
    ph__tape_add_to_error(tape, words);
    ph__free(path);
}
