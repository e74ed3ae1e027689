/* SPDX-License-Identifier: MIT */
/* tests/support/ptx.c: NVRTC, loaded where it is, and what a function of its PTX takes. */
#include "support/ptx.h"
#include "support/support.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *open_nvrtc(void)
{
    static const char *const names[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12",
                                        "/usr/local/cuda/lib64/libnvrtc.so",
                                        "/opt/cuda/lib64/libnvrtc.so"};
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof names / sizeof names[0]; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

/* A function's address comes as a data pointer. */
static bool find(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

bool t_nvrtc_load(t_nvrtc *n)
{
    void *library = open_nvrtc();
    return library && find(library, "nvrtcCreateProgram", &n->create) &&
           find(library, "nvrtcCompileProgram", &n->compile) &&
           find(library, "nvrtcGetProgramLogSize", &n->log_size) &&
           find(library, "nvrtcGetProgramLog", &n->log) &&
           find(library, "nvrtcGetPTXSize", &n->ptx_size) &&
           find(library, "nvrtcGetPTX", &n->ptx) &&
           find(library, "nvrtcDestroyProgram", &n->destroy) &&
           find(library, "nvrtcGetNumSupportedArchs", &n->arch_count) &&
           find(library, "nvrtcGetSupportedArchs", &n->archs);
}

static char *text_of(void *program, int (*size)(void *, size_t *), int (*get)(void *, char *))
{
    size_t bytes = 0;
    assert_int_equal(size(program, &bytes), 0);
    char *text = calloc(1, bytes + 1);
    assert_non_null(text);
    assert_int_equal(get(program, text), 0);
    return text;
}

char *t_ptx_compile(const t_nvrtc *n, const char *text, const char *name, const char *more,
                    int arch)
{
    char option[64];
    const char *options[2] = {option, more};
    const bool own = more && strncmp(more, "--gpu-architecture", 18) == 0;
    void *program;
    (void)snprintf(option, sizeof option, "--gpu-architecture=compute_%d", arch);
    assert_int_equal(n->create(&program, text, name, 0, NULL, NULL), 0);
    int result = n->compile(program, more && !own ? 2 : 1, own ? options + 1 : options);
    char *log = text_of(program, n->log_size, n->log), *ptx = NULL;
    if (result != 0 || strstr(log, "warning"))
        print_error("%s for compute_%d: %s\n", name, arch, log);
    else
        ptx = text_of(program, n->ptx_size, n->ptx);
    free(log);
    assert_int_equal(n->destroy(&program), 0);
    return ptx;
}

/* One parameter's declaration, up to its end: ".param .u64 .ptr .align 1 name", ".param .align 4
 * .b8 name[28]". */
static void take_parameter(const char *text, const char *end, size_t *bytes, size_t *alignment)
{
    const char *array = memchr(text, '[', (size_t)(end - text));
    const char *align = strstr(text, ".align "), *type = strchr(text + 1, '.');
    if (array) {
        *bytes = strtoul(array + 1, NULL, 10);
        *alignment = align && align < end ? strtoul(align + strlen(".align "), NULL, 10) : 1;
        return;
    }
    assert_non_null(type);
    *bytes = *alignment = strtoul(type + 2, NULL, 10) / 8; /* .u64, .f32 */
    assert_true(*bytes >= 1 && *bytes <= 8);
}

size_t t_ptx_parameter_bytes(const char *ptx, const char *name)
{
    char entry[128];
    size_t end = 0, most = 1, bytes, alignment;
    (void)snprintf(entry, sizeof entry, ".entry %s(", name);
    const char *at = strstr(ptx, entry), *close;
    if (!at)
        fail_msg("%s: the text has no such function", name);
    at += strlen(entry);
    for (close = strchr(at, ')'); (at = strstr(at, ".param")) != NULL && at < close; at++) {
        const char *next = at + strcspn(at, ",)");
        take_parameter(at, next, &bytes, &alignment);
        end = (end + alignment - 1) / alignment * alignment + bytes;
        most = alignment > most ? alignment : most;
    }
    return (end + most - 1) / most * most;
}
