/* SPDX-License-Identifier: MIT */
/* tests/support/nn_fake.c: the kernels of libphonograph_nn on the software libcuda, which runs
 * their host forms: in place of their text, which its NVRTC does not understand, it compiles a
 * head that takes as many bytes. */
#include "fake/fake_cuda.h"
#include "support/kernels.h"
#include "tensor/backend/kernels.h"
#include <stdio.h>

/* Tests of the core are not linked with that library. */
#pragma weak ph__kernel_stand_in

static const char *stand_in(const ph__kernel_def *def)
{
    static _Thread_local char text[512];
    fake_cuda()->register_kernel(def->name, def->host);
    bool words = def->args_size % 8 == 0;
    (void)snprintf(text, sizeof text,
                   "struct all_args { %s at[%zu]; };\n"
                   "extern \"C\" __global__ void %s(struct all_args args) { }\n",
                   words ? "unsigned long long" : "unsigned char",
                   words ? def->args_size / 8 : def->args_size, def->name);
    return text;
}

void t_register_nn_kernels(void)
{
    const char *(**hook)(const ph__kernel_def *) = &ph__kernel_stand_in;
    if (hook && fake_cuda())
        *hook = stand_in;
}
