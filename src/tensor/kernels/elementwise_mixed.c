/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_mixed.c: the kernels that add f32 and a half type. */
#include "tensor/kernels/elementwise_mixed.h"
#include "tensor/backend/texts.h"
#include "tensor/core/tensor.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/elementwise_cores.h"
#include "tensor/kernels/elementwise_host.h"

static const ph_param addresses[] = {{"out", PH_PARAM_ADDRESS, 0, 8, {0}},
                                     {"x", PH_PARAM_ADDRESS, 8, 8, {0}},
                                     {"y", PH_PARAM_ADDRESS, 16, 8, {0}}};

#define DEFINE_LAYOUT(layout, half)                                                                \
    static void add_##layout##_f32_##half(const ph_block_range *range, const void *args)           \
    {                                                                                              \
        ph__elementwise_host_##layout(range, args, &info_##half);                                  \
    }                                                                                              \
    static const char *const layout##_##half##_text[] = {                                          \
        "#define PH_NAME ph_add_" #layout "_f32_" #half "\n#define PH_" #layout                    \
        " 1\n#define PH_T ph_f32\n#define PH_FROM ph_" #half                                       \
        "\n#define PH_OPERANDS_VH 1\n#define PH_RESULT_SAME 1\n#define PH_LET x\n"                 \
        "#define PH_EXPRESSION ADD(t, y)\n",                                                       \
        ph__text_elementwise, NULL};                                                               \
    static ph__kernel_def layout##_##half##_def = {.name = "ph_add_" #layout "_f32_" #half,        \
                                                   .cuda = layout##_##half##_text,                 \
                                                   .host = add_##layout##_f32_##half,              \
                                                   .args_size = 3 * sizeof(void *) +               \
                                                                sizeof(ph__elementwise_##layout),  \
                                                   .params = addresses,                            \
                                                   .param_count = 3};
#define DEFINE(half, HALF)                                                                         \
    static const ph__elementwise_info info_##half = {                                              \
        .arity = 2,                                                                                \
        .dtype = {PH_DTYPE_F32, PH_DTYPE_F32, PH_DTYPE_##HALF},                                    \
        .core = PH__CORE_add,                                                                      \
        .type = PH__CORE_F32};                                                                     \
    DEFINE_LAYOUT(flat, half)                                                                      \
    DEFINE_LAYOUT(strided, half)
DEFINE(f16, F16)
DEFINE(bf16, BF16)
ph__kernel_def *const ph__mixed_kernels[] = {&flat_f16_def, &strided_f16_def, &flat_bf16_def,
                                             &strided_bf16_def, NULL};

bool ph__elementwise_add_mixed(ph__op *op, ph_tensor *out, ph_tensor *x, ph_tensor *y)
{
    bool f16 = y->dtype == PH_DTYPE_F16;
    return ph__elementwise_launch_kernels(
        op, f16 ? &flat_f16_def : &flat_bf16_def, f16 ? &strided_f16_def : &strided_bf16_def, out,
        (ph_tensor *[]){x, y}, 2, (ph__scalar){0}, (ph__scalar){0});
}
