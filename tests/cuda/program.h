/* SPDX-License-Identifier: MIT */
/* tests/cuda/program.h: for tests that call CUDA as a user's program does, on a GPU as on the
 * software libcuda: also functions that the library does not use. */
#ifndef PH_TESTS_CUDA_PROGRAM_H
#define PH_TESTS_CUDA_PROGRAM_H
#include "fake.h"

typedef struct program_functions {
#define PH__CU(name, version, need, parameters) int(*name) parameters;
#include "fake/cuda_programs.def"
#undef PH__CU
} program_functions;
static program_functions program;

static inline void program_find(void *function, const char *name, int version)
{
    ph__cu_get_proc_fn get_proc;
    int found;
    void *address = NULL, *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *get = dlsym(library, "cuGetProcAddress_v2");
    assert_non_null(get);
    memcpy(&get_proc, &get, sizeof get);
    assert_int_equal(get_proc(name, &address, version, PH__CU_GET_PROC_LEGACY_STREAM, &found), 0);
    assert_non_null(address);
    memcpy(function, &address, sizeof address);
}

/* Before the first use of `program`. */
static inline void program_load(void)
{
    assert_int_equal(ph__cuda_load(), 0);
#define PH__CU(name, version, need, parameters) program_find(&program.name, "cu" #name, version);
#include "fake/cuda_programs.def"
#undef PH__CU
}

#define program(call) assert_int_equal(program.call, 0)
#endif
