/* SPDX-License-Identifier: MIT */
/* tests/support/ptx.h: CUDA C text to PTX by NVRTC, without a GPU, and what its functions take. */
#ifndef PH_TESTS_PTX_H
#define PH_TESTS_PTX_H
#include <stdbool.h>
#include <stddef.h>

/* Of NVRTC: 0 is success everywhere. */
typedef struct t_nvrtc {
    int (*create)(void **program, const char *text, const char *name, int headers,
                  const char *const *header_texts, const char *const *header_names);
    int (*compile)(void *program, int count, const char *const *options);
    int (*log_size)(void *program, size_t *bytes);
    int (*log)(void *program, char *out);
    int (*ptx_size)(void *program, size_t *bytes);
    int (*ptx)(void *program, char *out);
    int (*destroy)(void **program);
    int (*arch_count)(int *count);
    int (*archs)(int *out);
} t_nvrtc;
bool t_nvrtc_load(t_nvrtc *n); /* false: it is not here */
/* The PTX, to be freed; more: one further option, which may name an architecture in the place of
 * arch, or NULL. NULL: it does not compile, or gives a
 * warning, and that was said. */
char *t_ptx_compile(const t_nvrtc *n, const char *text, const char *name, const char *more,
                    int arch);
/* The bytes of a struct with a member for each parameter of the function. */
size_t t_ptx_parameter_bytes(const char *ptx, const char *name);
#endif
