/* SPDX-License-Identifier: MIT */
/* tensor/products/products_kernel.c: launches of the kernel that a plan has learned. */
#include "tensor/products/products_kernel.h"
#include <string.h>

ph__product_operands ph__product_operands_of(const ph__product *p)
{
    return (ph__product_operands){
        {(uintptr_t)p->a, (uintptr_t)p->b, (uintptr_t)p->c, (uintptr_t)p->bias}};
}

int ph__product_kernel_launch(const ph__product_kernel *kernel, const ph__product_driver *driver,
                              const ph__product_operands *operands, struct CUstream_st *stream)
{
    _Alignas(16) unsigned char arguments[PH__PRODUCT_BYTES];
    void *parameters[PH__PRODUCT_PARAMETERS];
    memcpy(arguments, kernel->arguments, kernel->bytes);
    for (size_t i = 0; i < kernel->address_count; i++) {
        const ph__product_address *address = &kernel->addresses[i];
        uint64_t word = operands->at[address->operand] + address->added;
        memcpy(arguments + address->offset, &word, sizeof word);
    }
    for (size_t i = 0; i < kernel->parameter_count; i++)
        parameters[i] = arguments + kernel->offsets[i];
    size_t bytes = kernel->bytes;
    void *buffer[] = {PH__CU_LAUNCH_PARAM_BUFFER_POINTER, arguments,
                      PH__CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, PH__CU_LAUNCH_PARAM_END};
    ph__cu_launch_attribute attributes[PH__PRODUCT_ATTRIBUTES];
    memcpy(attributes, kernel->attributes, sizeof attributes);
    ph__cu_launch_config config = {.shared_bytes = kernel->shared_bytes,
                                   .stream = stream,
                                   .attributes = attributes,
                                   .attribute_count = kernel->attribute_count};
    memcpy(config.grid, kernel->grid, sizeof config.grid);
    memcpy(config.block, kernel->block, sizeof config.block);
    return kernel->in_buffer ? driver->LaunchKernelEx(&config, kernel->function, NULL, buffer)
                             : driver->LaunchKernelEx(&config, kernel->function, parameters, NULL);
}
