/* SPDX-License-Identifier: MIT */
/* base/error_text.c: strerror_r has two forms, that of POSIX and that of glibc. */
#include "base/error_text.h"
#include <string.h>

const char *ph__error_text(int number, char *buffer, size_t size)
{
#ifdef __GLIBC__
    return strerror_r(number, buffer, size);
#else
    return strerror_r(number, buffer, size) == 0 ? buffer : "unknown error";
#endif
}
