/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_move.c: elements of 1, 2, 4 or 8 bytes brought together, repeated,
 * spread out and transposed. */
#include "tensor/kernels/elementwise_move.h"
#include <string.h>

enum {
    PAGES = 256
};

static int64_t smaller_extent(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#define MOVE(type)                                                                                 \
    do {                                                                                           \
        type *to = (type *)(void *)out;                                                            \
        const type *from = (const type *)(const void *)in;                                         \
        for (int64_t i = 0; i < n; i++)                                                            \
            to[i * to_step] = from[i * from_step];                                                 \
    } while (0)

#define REPEAT(type)                                                                               \
    do {                                                                                           \
        type *to = (type *)(void *)out;                                                            \
        const type one = *(const type *)(const void *)in;                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            to[i] = one;                                                                           \
    } while (0)

static void repeat_run(char *out, const char *in, size_t size, int64_t n)
{
    if (size == 4)
        REPEAT(uint32_t);
    else if (size == 2)
        REPEAT(uint16_t);
    else if (size == 8)
        REPEAT(uint64_t);
    else
        memset(out, *in, (size_t)n);
}

void ph__move_run(char *out, int64_t to_step, const char *in, int64_t from_step, size_t size,
                  int64_t n)
{
    if (to_step == 1 && from_step == 1)
        memcpy(out, in, (size_t)n * size);
    else if (to_step == 1 && from_step == 0 && n > 0)
        repeat_run(out, in, size, n);
    else if (size == 4)
        MOVE(uint32_t);
    else if (size == 2)
        MOVE(uint16_t);
    else if (size == 8)
        MOVE(uint64_t);
    else
        MOVE(uint8_t);
}

/* Tiles are a cache line wide either way: whole lines are read once and written once; and so many k
 * at a time that their pages are still known when the next lines of them are read. */
#define TURN_TILE(high, wide)                                                                      \
    do {                                                                                           \
        for (int64_t c = 0; c < (wide); c++)                                                       \
            for (int64_t r = 0; r < (high); r++)                                                   \
                tile[r][c] = from[(k + c) * step + i + r];                                         \
        for (int64_t r = 0; r < (high); r++)                                                       \
            memcpy(to + (i + r) * columns + k, tile[r], (size_t)(wide) * sizeof tile[0][0]);       \
    } while (0)
#define TURN(type)                                                                                 \
    do {                                                                                           \
        enum {                                                                                     \
            TILE = 64 / sizeof(type)                                                               \
        };                                                                                         \
        const type *from = (const type *)(const void *)in;                                         \
        type *to = (type *)(void *)out, tile[TILE][TILE];                                          \
        const int64_t high = smaller_extent(TILE, rows - i);                                       \
        for (int64_t k = first; k < stop; k += TILE) {                                             \
            const int64_t wide = smaller_extent(TILE, stop - k);                                   \
            if (high == TILE && wide == TILE) /* of known size */                                  \
                TURN_TILE(TILE, TILE);                                                             \
            else                                                                                   \
                TURN_TILE(high, wide);                                                             \
        }                                                                                          \
    } while (0)

void ph__transpose_tile(char *out, const char *in, int64_t step, size_t size, int64_t rows,
                        int64_t columns)
{
    for (int64_t first = 0; first < columns; first += PAGES) {
        const int64_t stop = smaller_extent(first + PAGES, columns);
        for (int64_t i = 0; i < rows; i += 64 / (int64_t)size) {
            if (size == 4)
                TURN(uint32_t);
            else if (size == 2)
                TURN(uint16_t);
            else if (size == 8)
                TURN(uint64_t);
            else
                TURN(uint8_t);
        }
    }
}
