/* SPDX-License-Identifier: MIT */
/* bench/cuda/raw.c: finds the driver's functions. */
#include "cuda/raw.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

raw_functions raw;

/* A function's address comes as a data pointer. */
static const char *find(void *library, const char *symbol, void *function)
{
    static char reason[128];
    void *address = dlsym(library, symbol);
    memcpy(function, &address, sizeof address);
    if (address)
        return NULL;
    (void)snprintf(reason, sizeof reason, "libcuda.so.1 has no %s", symbol);
    return reason;
}

const char *raw_load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const char *reason = NULL;
    if (!library)
        return "there is no libcuda.so.1";
#define RAW_FIND(member, symbol, parameters)                                                       \
    if (!reason)                                                                                   \
        reason = find(library, symbol, &raw.member);
    RAW_FUNCTIONS(RAW_FIND)
#undef RAW_FIND
    return reason;
}

void raw_check(int result, const char *call)
{
    if (result == 0)
        return;
    (void)fprintf(stderr, "%s gave %d\n", call, result);
    exit(1);
}
