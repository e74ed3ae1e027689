/* SPDX-License-Identifier: MIT */
/* base/backtrace.h: return addresses of the calling functions, where the C library has them. */
#ifndef PH_BASE_BACKTRACE_H
#define PH_BASE_BACKTRACE_H
#include <limits.h> /* __GLIBC__ */
#ifdef __GLIBC__
#include <execinfo.h>
#endif

/* As backtrace() of glibc, in the frame of the caller: the number of frames, innermost first. 0
 * under another C library, such as musl. */
__attribute__((always_inline)) static inline int ph__backtrace(void **frames, int most)
{
#ifdef __GLIBC__
    return backtrace(frames, most);
#else
    (void)frames, (void)most;
    return 0;
#endif
}
#endif
