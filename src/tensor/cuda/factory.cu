/* SPDX-License-Identifier: MIT */
/* cuda/factory.cu: tensors from nothing. T is the dtype; INTEGER is defined for integers. */
PH_KERNEL KERNEL(T *y, i64 n, f64 begin, f64 step)
{
    PH_WAIT();
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
#ifdef INTEGER
    y[i] = (T)((u64)(i64)begin + (u64)i * (u64)(i64)step);
#else
    f64 value = __dadd_rn(begin, __dmul_rn((f64)i, step));
    ph_put(y + i, (ph_compute<T>::type)value);
#endif
}
