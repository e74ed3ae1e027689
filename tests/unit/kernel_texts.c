/* SPDX-License-Identifier: MIT */
/* tests/unit/kernel_texts.c: the CUDA C texts of the tests' kernels compile, and take what their
 * argument structs hold. Needs NVRTC, not a GPU. */
#include "support/ptx.h"
#include "support/support.h"
#include "support/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(texts_compile_with_parameters_of_the_right_size)
{
    t_nvrtc n = {0};
    int archs[64], count = 0;
    if (!t_nvrtc_load(&n)) {
        print_message("skipped: NVRTC is not here to compile the texts\n");
        skip();
    }
    assert_int_equal(n.arch_count(&count), 0);
    assert_true(count > 0 && count <= 64);
    assert_int_equal(n.archs(archs), 0);
    for (int id = 0; id < T_KERNELS; id++) {
        const ph_kernel_source *source = &t_kernel_sources[id];
        assert_non_null(source->cuda);
        for (int a = 0; a < count; a++) {
            /* the oldest, and the one that is measured on */
            if (archs[a] != archs[0] && archs[a] != 90)
                continue;
            char *ptx =
                t_ptx_compile(&n, source->cuda, source->name, source->cuda_options, archs[a]);
            assert_non_null(ptx);
            assert_int_equal(t_ptx_parameter_bytes(ptx, source->name), source->args_size);
            free(ptx);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_compile_with_parameters_of_the_right_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
