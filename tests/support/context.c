/* SPDX-License-Identifier: MIT */
/* tests/support/context.c: keeps a GPU's context between tests that open the device again and
 * again. */
#include "support/support.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static int (*release)(int device);
static int held_device;

static void release_context(void)
{
    (void)release(held_device);
}

/* A function's address comes as a data pointer. */
static bool find(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

/* On a driver that has no such functions nothing is held. */
static void hold_context(void)
{
    int (*init)(unsigned flags), (*get)(int *device, int ordinal),
        (*retain)(void **context, int device);
    void *context;
    const char *name = getenv("PH_TEST_DEVICE"), *colon = name ? strchr(name, ':') : NULL;
    if (!name || strncmp(name, "cuda", 4) != 0)
        return;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library || !find(library, "cuInit", &init) || !find(library, "cuDeviceGet", &get) ||
        !find(library, "cuDevicePrimaryCtxRetain", &retain) ||
        !find(library, "cuDevicePrimaryCtxRelease_v2", &release))
        return;
    if (init(0) == 0 && get(&held_device, colon ? atoi(colon + 1) : 0) == 0 &&
        retain(&context, held_device) == 0)
        (void)atexit(release_context);
}

void t_hold_context(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, hold_context);
}
