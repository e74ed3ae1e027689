/* SPDX-License-Identifier: MIT */
/* tests/cuda/module.h: for tests of kernels that this library did not load: a module of the
 * program's, in the context of the device under test. */
#ifndef PH_TESTS_CUDA_MODULE_H
#define PH_TESTS_CUDA_MODULE_H
#include "program.h"

static t_world world;
static ph__cu_context own; /* of the device of the world, retained here too */
static ph__cu_module module;

/* Opens the world. No context is current before or after. */
static inline void module_open(const char *ptx)
{
    t_open(&world, NULL);
    own = primary(0);
    cu(CtxPushCurrent(own));
    cu(ModuleLoadDataEx(&module, ptx, 0, NULL, NULL));
    pop(own);
}

static inline ph__cu_function module_function(const char *name)
{
    ph__cu_function function;
    cu(CtxPushCurrent(own));
    cu(ModuleGetFunction(&function, module, name));
    pop(own);
    return function;
}

/* Closes the world as well; nothing may be left of the library's. */
static inline void module_close(void)
{
    cu(CtxPushCurrent(own));
    cu(ModuleUnload(module));
    pop(own);
    t_close(&world);
    cu(DevicePrimaryCtxRelease(0));
    assert_int_equal(ph__alloc_live(), 0);
}
#endif
