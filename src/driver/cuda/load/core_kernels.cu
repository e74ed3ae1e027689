/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/core_kernels.cu: the kernels of the library itself. What is loaded is
 * core_kernels.h, made of this text by `tests/unit/core_kernels --print` of a build folder; the
 * test of that name says when the two differ. */

/* The test gives other meanings to them and runs the text on the host. */
#ifndef CORE_KERNEL
#define CORE_KERNEL extern "C" __global__
#define CORE_DEVICE static __device__
#define CORE_GLOBAL static __device__
#define CORE_SHARED __shared__
#define CORE_SHORT                                                                                 \
    _Pragma("unroll 1") /* the loop behind it: the text is compiled when a device is opened */
#endif

/* Fills count elements of 1 byte (at any address) or 4 bytes (at multiples of 4), 16 bytes a
 * store where that is aligned. Any grid of blocks of at least 16 threads does it. */
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

/* Write count words, each where its cell says: one block of at least as many threads. Their
 * arguments are ph__drv_cells of driver.h, with room for so many. */
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

/* ---- finding places ---- What watches a graph's replays writes pinned host memory, which is
 * read while replays run, or after the device was lost. As captured these kernels have no memory
 * to write, and do nothing. */
CORE_GLOBAL unsigned long long phonograph_ticks;

/* Grows with each call, on the whole device: tells what came after what. */
CORE_DEVICE unsigned long long next_tick(void)
{
    return atomicAdd(&phonograph_ticks, 1ULL) + 1;
}

/* One thread. Has reached the host before any node behind it begins. */
CORE_KERNEL void phonograph_breadcrumb(unsigned long long table, unsigned long long number)
{
    volatile unsigned long long *at = (volatile unsigned long long *)table + number;
    if (table == 0)
        return;
    *at = next_tick();
    __threadfence_system();
}

/* The findings of a block. The kernels' arguments are ph__drv_finite of driver.h. */
typedef struct part {
    unsigned long long tick, bad, first, bits;
} part;

/* By ph_number_type, of the word of 32 bits that has the number, or half of it: the exponent's
 * bits, all of them set in a NaN or an infinity. */
CORE_DEVICE unsigned exponent_of(unsigned type)
{
    return type == 0 ? 0x7f800000u : type == 1 ? 0x7ff00000u : type == 2 ? 0x7c00u : 0x7f80u;
}

CORE_DEVICE unsigned long long bits_at(unsigned long long address, unsigned type,
                                       unsigned long long index)
{
    if (type == 1)
        return ((const unsigned long long *)address)[index];
    return type == 0 ? ((const unsigned *)address)[index]
                     : ((const unsigned short *)address)[index];
}

CORE_DEVICE int is_bad(unsigned long long bits, unsigned type)
{
    unsigned exponent = exponent_of(type), word = (unsigned)(type == 1 ? bits >> 32 : bits);
    return (word & exponent) == exponent;
}

/* Whether a word may have something bad in it: one number, two of them, or a half: the upper one
 * tells. */
CORE_DEVICE int may_be_bad(unsigned word, unsigned type, unsigned exponent)
{
    return (word & exponent) == exponent || (type >= 2 && (word >> 16 & exponent) == exponent);
}

typedef struct found {
    unsigned long long bad, first;
} found;

CORE_DEVICE void look(found *f, unsigned long long address, unsigned type, unsigned long long begin,
                      unsigned long long end)
{
    CORE_SHORT
    for (unsigned long long i = begin; i < end; i++)
        if (is_bad(bits_at(address, type, i), type)) {
            f->bad++;
            if (i < f->first)
                f->first = i;
        }
}

/* Numbers at an address that is a multiple of their size, in pieces of 16 bytes where that is
 * aligned, and what is before and behind those. Any grid does it; each block has a part. */
CORE_KERNEL void phonograph_check_finite(unsigned long long address, unsigned long long count,
                                         unsigned type, unsigned number, unsigned long long parts)
{
    CORE_SHARED found all;
    found mine = {0, ~0ULL};
    unsigned size = type == 0 ? 4 : type == 1 ? 8 : 2, exponent = exponent_of(type);
    unsigned long long thread = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    unsigned long long threads = gridDim.x * (unsigned long long)blockDim.x;
    unsigned long long head = ((0 - address) & 15) / size, each = 16 / size;
    (void)number;
    if (parts == 0)
        return;
    if (threadIdx.x == 0)
        all = mine;
    __syncthreads();
    if (head > count)
        head = count;
    unsigned long long wide = (count - head) / each;
    const uint4 *body = (const uint4 *)(address + head * size);
    CORE_SHORT
    for (unsigned long long i = thread; i < wide + 2; i += threads) {
        unsigned long long begin = head + i * each, end = begin + each;
        if (i < wide) {
            uint4 v = body[i];
            if (!may_be_bad(v.y, type, exponent) && !may_be_bad(v.w, type, exponent) &&
                (type == 1 ||
                 (!may_be_bad(v.x, type, exponent) && !may_be_bad(v.z, type, exponent))))
                continue;
        } else {
            begin = i == wide ? 0 : head + wide * each;
            end = i == wide ? head : count;
        }
        look(&mine, address, type, begin, end);
    }
    if (mine.bad) {
        atomicAdd(&all.bad, mine.bad);
        atomicMin(&all.first, mine.first);
    }
    __syncthreads();
    if (threadIdx.x)
        return;
    volatile part *at = (volatile part *)parts + blockIdx.x;
    at->bad = all.bad;
    at->first = all.first;
    at->bits = all.bad ? bits_at(address, type, all.first) : 0;
    __threadfence_system();
    at->tick = next_tick();
    __threadfence_system();
}
