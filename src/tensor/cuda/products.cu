/* SPDX-License-Identifier: MIT */
/* cuda/products.cu: sums of the parts of a product that was split along k, with bias and what
 * was there before. T: the result's type. The parts are added in order. */
PH_KERNEL KERNEL(const ph_compute<T>::type *part, const T *bias, T *c, i64 rows_each, i64 n,
                 i64 ldc, i64 stride_c, u32 rows, u32 pieces, u32 parts, u32 accumulate)
{
    PH_WAIT();
    typedef ph_compute<T>::type C;
    u32 row = blockIdx.x / pieces, first = blockIdx.x % pieces * 1024;
    u32 matrix = row / (u32)rows_each;
    T *out = c + matrix * stride_c + (row - matrix * (u32)rows_each) * ldc;
    i64 step = (i64)rows * n;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        i64 j = first + threadIdx.x + 256 * i;
        if (j >= n)
            return;
        const C *from = part + row * n + j;
        C sum = bias ? ph_get(bias + j) : C(0);
        for (u32 p = 0; p < parts; p++)
            sum += from[p * step];
        if (accumulate)
            sum += ph_get(out + j);
        ph_put(out + j, sum);
    }
}
