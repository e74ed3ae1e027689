/* SPDX-License-Identifier: MIT */
/* driver/cuda/core_kernels.cu: the kernels of the library itself. What is loaded is core_kernels.h, made of this text by
 * `tests/unit/core_kernels --print` of a build folder; the test of that name says when the two differ. */

/* The test gives another meaning to it and runs the text on the host. */
#ifndef CORE_KERNEL
#define CORE_KERNEL extern "C" __global__
#endif

/* Fills count elements of 1 byte (at any address) or 4 bytes (at multiples of 4), 16 bytes a store where that is aligned. Any grid of
 * blocks of at least 16 threads does it. */
CORE_KERNEL void ph_core_fill(unsigned long long dst, unsigned value, unsigned value_size,
                              unsigned long long count)
{
    unsigned long long bytes = count * value_size, head = (0 - dst) & 15;
    unsigned long long thread = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    unsigned long long threads = gridDim.x * (unsigned long long)blockDim.x;
    unsigned word = value_size == 1 ? (value & 0xff) * 0x01010101u : value;
    if (head > bytes)
        head = bytes;
    /* Both the wide stores and the bytes after them begin at an element's first byte. */
    unsigned long long wide = (bytes - head) / 16, tail = head + wide * 16;
    uint4 *body = (uint4 *)(dst + head);
    for (unsigned long long i = thread; i < wide; i += threads)
        body[i] = make_uint4(word, word, word, word);
    unsigned char byte = (unsigned char)(word >> 8 * (thread & 3));
    if (thread < head)
        ((unsigned char *)dst)[thread] = byte;
    if (thread < bytes - tail)
        ((unsigned char *)dst)[tail + thread] = byte;
}

/* Write count words, each where its cell says: one block of at least as many threads. Their arguments are ph__drv_cells of driver.h, with
 * room for so many. */
typedef struct cell {
    unsigned long long at, value;
} cell;
typedef struct few_cells {
    unsigned long long count;
    cell cells[8];
} few_cells;
typedef struct many_cells {
    unsigned long long count;
    cell cells[60];
} many_cells;

CORE_KERNEL void ph_core_cells_8(const few_cells few)
{
    if (threadIdx.x < few.count)
        *(unsigned long long *)few.cells[threadIdx.x].at = few.cells[threadIdx.x].value;
}

CORE_KERNEL void ph_core_cells_60(const many_cells many)
{
    if (threadIdx.x < many.count)
        *(unsigned long long *)many.cells[threadIdx.x].at = many.cells[threadIdx.x].value;
}
