/* SPDX-License-Identifier: MIT */
/* tensor/products/products_driver.c: finding the driver's functions that products call. */
#include "tensor/products/products_driver.h"
#include <dlfcn.h>
#include <string.h>

static bool find_function(ph__cu_get_proc_fn get_proc, const char *name, int version, void *out)
{
    void *address = NULL;
    int found = 0;
    if (get_proc(name, &address, version, PH__CU_GET_PROC_LEGACY_STREAM, &found) != 0)
        address = NULL;
    memcpy(out, &address, sizeof address);
    return address != NULL;
}

/* libphonograph has loaded it, as there is a device; the handle is closed again, which leaves the
 * driver loaded. */
bool ph__product_driver_find(ph__product_driver *out)
{
    ph__cu_get_proc_fn get_proc = NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libcuda.so", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    *(void **)&get_proc = dlsym(library, "cuGetProcAddress_v2");
    bool all = get_proc != NULL;
#define FIND(name, version, parameters)                                                            \
    all = all && find_function(get_proc, "cu" #name, version, &out->name);
    PH__PRODUCT_DRIVER_FUNCTIONS(FIND)
#undef FIND
    (void)dlclose(library);
    return all;
}
