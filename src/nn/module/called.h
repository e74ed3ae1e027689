/* SPDX-License-Identifier: MIT */
/* nn/module/called.h: a call of a module that is under way. */
#ifndef PH_NN_MODULE_CALLED_H
#define PH_NN_MODULE_CALLED_H
#include <phonograph/module.h>

/* Lies on the stack of who makes the call. */
struct ph__called {
    const struct ph__called *outer;
    ph_module *module;
};
/* The tape has failed in tape->called: the message says where that is, unless a call inside it has
 * said so. */
void ph__called_failed(ph_tape *tape);
#endif
