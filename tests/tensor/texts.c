/* SPDX-License-Identifier: MIT */
/* tests/tensor/texts.c: every CUDA text of the library compiles, without a warning, for each architecture
 * that it is meant for, and its function takes what the argument struct holds. Needs NVRTC, not a GPU. The
 * short tier compiles some of each family, for one of the architectures in turn. */
#include "base/text.h"
#include "nn/optimizer.h"
#include "support/support.h"
#include "tensor/attention.h"
#include "tensor/elementwise.h"
#include "tensor/products.h"
#include "tensor/reduce.h"
#include <dlfcn.h>
#include <phonograph/nn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern ph__kernel_def *const ph__randperm_kernels[];

static const struct family {
    const char *name;
    ph__kernel_def *const *kernels;
} families[] = {
    {"elementwise", ph__elementwise_kernels},
    {"cast", ph__cast_kernels},
    {"reduce", ph__reduce_kernels},
    {"factory", ph__factory_kernels},
    {"softmax", ph__softmax_kernels},
    {"cross_entropy", ph__cross_entropy_kernels},
    {"mse", ph__mse_kernels},
    {"norm", ph__norm_kernels},
    {"indexing", ph__indexing_kernels},
    {"sort", ph__sort_kernels},
    {"attention", ph__attention_kernels},
    {"product_sum", ph__product_sum_kernels},
    {"random", ph__random_kernels},
    {"dropout", ph__dropout_kernels},
    {"randperm", ph__randperm_kernels},
    {"optimizer", ph__optimizer_kernels},
};

enum {
    FAMILIES = sizeof families / sizeof families[0],
    ARCHS = 3
};
static const int wanted[ARCHS] = {80, 90, 100};

/* ---- NVRTC ---- 0 is success everywhere. */
typedef struct nvrtc {
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
} nvrtc;

static void *open_nvrtc(void)
{
    static const char *const names[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12",
                                        "/usr/local/cuda/lib64/libnvrtc.so", "/opt/cuda/lib64/libnvrtc.so"};
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

static bool load(nvrtc *n)
{
    void *library = open_nvrtc();
    return library && find(library, "nvrtcCreateProgram", &n->create) &&
           find(library, "nvrtcCompileProgram", &n->compile) &&
           find(library, "nvrtcGetProgramLogSize", &n->log_size) &&
           find(library, "nvrtcGetProgramLog", &n->log) && find(library, "nvrtcGetPTXSize", &n->ptx_size) &&
           find(library, "nvrtcGetPTX", &n->ptx) && find(library, "nvrtcDestroyProgram", &n->destroy) &&
           find(library, "nvrtcGetNumSupportedArchs", &n->arch_count) &&
           find(library, "nvrtcGetSupportedArchs", &n->archs);
}

/* The fake of the tests has no compiler. */
static bool compiles(const nvrtc *n, int *archs, int *count)
{
    int all[64];
    if (n->arch_count(count) != 0 || *count < 1 || *count > 64 || n->archs(all) != 0)
        return false;
    int have = 0;
    for (int i = 0; i < *count; i++)
        for (int w = 0; w < ARCHS; w++)
            if (all[i] == wanted[w])
                archs[have++] = all[i];
    *count = have;
    return have > 0;
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

static char *join(const ph__kernel_def *def)
{
    ph__text text = {0};
    ph__text_add(&text, ph__text_prelude);
    for (size_t i = 0; def->cuda[i]; i++)
        ph__text_add(&text, def->cuda[i]);
    char *whole = ph__text_take(&text);
    assert_non_null(whole);
    return whole;
}

/* NULL: it does not compile, and that was said. */
static char *compile(const nvrtc *n, const ph__kernel_def *def, int arch)
{
    char option[64];
    const char *options[2] = {option, def->cuda_options};
    void *program;
    char *text = join(def);
    (void)snprintf(option, sizeof option, "--gpu-architecture=compute_%d", arch);
    assert_int_equal(n->create(&program, text, def->name, 0, NULL, NULL), 0);
    int result = n->compile(program, def->cuda_options ? 2 : 1, options);
    char *log = text_of(program, n->log_size, n->log), *ptx = NULL;
    if (result != 0 || strstr(log, "warning"))
        print_error("%s for compute_%d: %s\n", def->name, arch, log);
    else
        ptx = text_of(program, n->ptx_size, n->ptx);
    free(log);
    assert_int_equal(n->destroy(&program), 0);
    free(text);
    return ptx;
}

/* ---- what it takes ---- one parameter's declaration, up to its end: ".param .u64 .ptr .align 1 name",
 * ".param .align 4 .b8 name[28]". */
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

/* The bytes of a struct with a member for each parameter. */
static size_t parameter_bytes(const char *ptx, const char *name)
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

/* Each parameter that the def calls an address is one of 64 bits: nothing else is said of the others. */
static void check_params(const ph__kernel_def *def)
{
    size_t end = 0;
    assert_true(def->args_size <= 4096 && def->args_size > 0);
    assert_non_null(def->host);
    for (size_t i = 0; i < def->param_count; i++) {
        const ph_param *p = &def->params[i];
        if (p->offset < end || p->offset + p->size > def->args_size ||
            (p->kind == PH_PARAM_ADDRESS && p->size != 8))
            fail_msg("%s: parameter %zu is not in order, or not inside the arguments", def->name, i);
        end = p->offset + p->size;
    }
}

/* The short tier takes every so-manieth kernel of a family. */
static size_t step_of(ph__kernel_def *const *kernels)
{
    size_t count = 0;
    while (kernels[count])
        count++;
    return t_nightly() ? 1 : count / 5 + 1;
}

static bool is_right(const nvrtc *n, const ph__kernel_def *def, int arch)
{
    char *ptx = compile(n, def, arch);
    size_t bytes = ptx ? parameter_bytes(ptx, def->name) : 0;
    free(ptx);
    if (ptx && bytes != def->args_size)
        print_error("%s for compute_%d takes %zu bytes of arguments, its struct has %zu\n", def->name, arch,
                    bytes, def->args_size);
    return bytes == def->args_size;
}

static void texts_compile(void **state)
{
    (void)state;
    nvrtc n = {0};
    int archs[64], count = 0;
    size_t wrong = 0;
    if (!load(&n) || !compiles(&n, archs, &count)) {
        print_message("skipped: NVRTC is not here to compile the texts\n");
        skip();
    }
    for (size_t f = 0; f < FAMILIES; f++) {
        assert_non_null(families[f].kernels[0]);
        const size_t step = step_of(families[f].kernels);
        for (size_t k = 0; families[f].kernels[k]; k++) {
            const ph__kernel_def *def = families[f].kernels[k];
            for (int a = 0; a < count; a++) {
                if (k % step != 0 || (!t_nightly() && (size_t)a != k / step % (size_t)count))
                    continue;
                wrong += !is_right(&n, def, archs[a]);
            }
        }
    }
    assert_int_equal(wrong, 0);
}

/* Names are what NVRTC's results are kept by, and what records show. */
static void kernels_have_names_of_their_own(void **state)
{
    (void)state;
    for (size_t f = 0; f < FAMILIES; f++) {
        for (size_t k = 0; families[f].kernels[k]; k++) {
            const ph__kernel_def *def = families[f].kernels[k];
            check_params(def);
            for (size_t g = 0; g <= f; g++)
                for (size_t m = 0; families[g].kernels[m] && (g < f || m < k); m++)
                    if (strcmp(families[g].kernels[m]->name, def->name) == 0)
                        fail_msg("%s of %s is also a kernel of %s", def->name, families[f].name,
                                 families[g].name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_have_names_of_their_own),
        cmocka_unit_test(texts_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
