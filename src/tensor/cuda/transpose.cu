/* SPDX-License-Identifier: MIT */
/* cuda/transpose.cu: out[c][r] = in[r][c], tile by tile, so that reads and writes are of whole
 * lines. T: an element. A block has 256 threads and a tile of 64 x 64. */
#define TILE 64
PH_KERNEL KERNEL(T *out, const T *in, i64 rows, i64 columns, i64 step, u32 across)
{
    PH_WAIT();
    __shared__ T tile[TILE][TILE + 1];
    const u32 x = threadIdx.x % TILE, y = threadIdx.x / TILE;
    const i64 row = (i64)(blockIdx.x / across) * TILE, column = (i64)(blockIdx.x % across) * TILE;
#pragma unroll
    for (u32 i = 0; i < TILE; i += 256 / TILE)
        if (row + y + i < rows && column + x < columns)
            tile[y + i][x] = in[(row + y + i) * step + column + x];
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < TILE; i += 256 / TILE)
        if (column + y + i < columns && row + x < rows)
            out[(column + y + i) * rows + row + x] = tile[x][y + i];
}
