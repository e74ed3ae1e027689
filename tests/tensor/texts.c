/* SPDX-License-Identifier: MIT */
/* tests/tensor/texts.c: every CUDA text of the library compiles, without a warning, for each
 * architecture that it is meant for, and its function takes what the argument struct holds.
 * Needs NVRTC, not a GPU. The short tier compiles some of each family, for one of the
 * architectures in turn. */
#include "tensor/backend/texts.h"
#include "base/text.h"
#include "nn/gradients/kernels.h"
#include "nn/optimizer/adagrad.h"
#include "nn/optimizer/adam.h"
#include "nn/optimizer/sgd.h"
#include "support/ptx.h"
#include "support/support.h"
#include "support/test.h"
#include "tensor/kernels/bundle.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/elementwise_cast.h"
#include "tensor/kernels/elementwise_kernels.h"
#include "tensor/kernels/elementwise_mixed.h"
#include "tensor/kernels/reduce.h"
#include "tensor/kernels/reduce_kernels.h"
#include "tensor/kernels/transpose.h"
#include "tensor/operators/attention.h"
#include "tensor/products/products.h"
#include "tensor/products/products_sum.h"
#include <phonograph/nn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The tables of PH__KERNEL_FAMILY. */
extern ph__kernel_def *const ph__factory_kernels[];
extern ph__kernel_def *const ph__softmax_kernels[];
extern ph__kernel_def *const ph__cross_entropy_kernels[];
extern ph__kernel_def *const ph__mse_kernels[];
extern ph__kernel_def *const ph__norm_kernels[];
extern ph__kernel_def *const ph__indexing_kernels[];
extern ph__kernel_def *const ph__sort_kernels[];
extern ph__kernel_def *const ph__add_sorted_kernels[];
extern ph__kernel_def *const ph__random_kernels[];
extern ph__kernel_def *const ph__dropout_kernels[];
extern ph__kernel_def *const ph__rrelu_kernels[];
extern ph__kernel_def *const ph__randperm_kernels[];

static const struct family {
    const char *name;
    ph__kernel_def *const *kernels;
} families[] = {
    {"elementwise", ph__elementwise_kernels},
    {"cast", ph__cast_kernels},
    {"mixed", ph__mixed_kernels},
    {"reduce", ph__reduce_kernels},
    {"factory", ph__factory_kernels},
    {"bundle", ph__bundle_kernels},
    {"softmax", ph__softmax_kernels},
    {"cross_entropy", ph__cross_entropy_kernels},
    {"mse", ph__mse_kernels},
    {"norm", ph__norm_kernels},
    {"indexing", ph__indexing_kernels},
    {"sort", ph__sort_kernels},
    {"add_sorted", ph__add_sorted_kernels},
    {"attention", ph__attention_kernels},
    {"transpose", ph__transpose_kernels},
    {"product_sum", ph__product_sum_kernels},
    {"random", ph__random_kernels},
    {"dropout", ph__dropout_kernels},
    {"rrelu", ph__rrelu_kernels},
    {"randperm", ph__randperm_kernels},
    {"optimizer_sgd", ph__sgd_kernels},
    {"optimizer_adam", ph__adam_kernels},
    {"optimizer_adagrad", ph__adagrad_kernels},
    {"optimizer_count", ph__count_kernels},
    {"gradients", ph__gradient_kernels},
};

enum {
    FAMILIES = sizeof families / sizeof families[0],
    ARCHS = 3
};
static const int wanted[ARCHS] = {80, 90, 100};

/* The fake of the tests has no compiler. */
static bool compiles(const t_nvrtc *n, int *archs, int *count)
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

static char *join(const ph__kernel_def *def)
{
    ph__text text = {0};
    ph__text_add(&text, ph__text_prelude);
    for (size_t i = 0; def->cuda[i]; i++)
        ph__text_add(&text, def->cuda[i]);
    char *whole = ph__text_detach(&text);
    assert_non_null(whole);
    return whole;
}

/* Each parameter that the def calls an address is one of 64 bits: nothing else is said of the
 * others. */
static void check_params(const ph__kernel_def *def)
{
    size_t end = 0;
    assert_true(def->args_size <= 4096 && def->args_size > 0);
    assert_non_null(def->host);
    for (size_t i = 0; i < def->param_count; i++) {
        const ph_param *p = &def->params[i];
        if (p->offset < end || p->offset + p->size > def->args_size ||
            (p->kind == PH_PARAM_ADDRESS && p->size != 8))
            fail_msg("%s: parameter %zu is not in order, or not inside the arguments", def->name,
                     i);
        end = p->offset + p->size;
    }
}

/* The one architecture of a text that names it, else NULL. */
static const char *own_architecture(const ph__kernel_def *def)
{
    const char *options = def->cuda_options;
    return options && strncmp(options, "--gpu-architecture=", 19) == 0 ? options + 19 : NULL;
}

/* A text that names its architecture is compiled once, to its machine code. */
static bool is_taken(const ph__kernel_def *def, size_t k, size_t step, int arch, bool turn)
{
    const char *own = own_architecture(def);
    char name[16];
    (void)snprintf(name, sizeof name, "sm_%da", arch);
    if (own)
        return strcmp(own, name) == 0;
    return k % step == 0 && (t_nightly() || turn);
}

/* The short tier takes every so-manieth kernel of a family. */
static size_t step_of(ph__kernel_def *const *kernels)
{
    size_t count = 0;
    while (kernels[count])
        count++;
    return t_nightly() ? 1 : count / 5 + 1;
}

static bool is_right(const t_nvrtc *n, const ph__kernel_def *def, int arch)
{
    char *text = join(def), *ptx = t_ptx_compile(n, text, def->name, def->cuda_options, arch);
    size_t bytes = ptx ? t_ptx_parameter_bytes(ptx, def->name) : 0;
    bool compiled = ptx != NULL;
    free(text);
    free(ptx);
    if (compiled && bytes != def->args_size)
        print_error("%s for compute_%d takes %zu bytes of arguments, its struct has %zu\n",
                    def->name, arch, bytes, def->args_size);
    return bytes == def->args_size;
}

TEST(texts_compile_for_every_architecture)
{
    t_nvrtc n = {0};
    int archs[64], count = 0;
    size_t wrong = 0;
    if (!t_nvrtc_load(&n) || !compiles(&n, archs, &count)) {
        print_message("skipped: NVRTC is not here to compile the texts\n");
        skip();
    }
    for (size_t f = 0; f < FAMILIES; f++) {
        assert_non_null(families[f].kernels[0]);
        const size_t step = step_of(families[f].kernels);
        for (size_t k = 0; families[f].kernels[k]; k++) {
            const ph__kernel_def *def = families[f].kernels[k];
            for (int a = 0; a < count; a++) {
                if (is_taken(def, k, step, archs[a], (size_t)a == k / step % (size_t)count))
                    wrong += !is_right(&n, def, archs[a]);
            }
        }
    }
    assert_int_equal(wrong, 0);
}

/* Names are what NVRTC's results are kept by, and what records show. */
TEST(kernels_have_names_of_their_own)
{
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
        cmocka_unit_test(texts_compile_for_every_architecture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
