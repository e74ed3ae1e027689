/* SPDX-License-Identifier: MIT */
/* base/demangle.c: names of C++ functions as their authors wrote them. Code that has such names
 * mostly comes with a C++ runtime, and the runtime with the function that reads them: nothing of it
 * is needed here, and nothing is loaded for it. */
#include "base/demangle.h"
#include "base/line.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    LONGEST =
        4096 /* of a mangled name; it says more than its length, as parts stand for one another */
};

typedef char *demangle_fn(const char *name, char *buffer, size_t *size, int *status);

/* Of the C++ runtime that was found first; NULL: none yet, and one may be loaded later. */
static _Atomic(demangle_fn *) known;

/* Where its library can be made to stay loaded. */
static void keep_library(demangle_fn *demangle)
{
    Dl_info info;
    void *address;
    memcpy(&address, &demangle, sizeof address);
    if (!dladdr(address, &info))
        return;
    void *handle = dlopen(info.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE);
    if (!handle)
        return;
    (void)dlclose(handle);
    atomic_store_explicit(&known, demangle, memory_order_release);
}

/* A library that somebody loaded for himself alone is not among what all see. */
static demangle_fn *find_in(const char *library)
{
    demangle_fn *demangle = NULL;
    void *handle = library ? dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) : NULL;
    if (handle || !library)
        *(void **)&demangle = dlsym(library ? handle : RTLD_DEFAULT, "__cxa_demangle");
    if (demangle)
        keep_library(demangle);
    if (handle)
        (void)dlclose(handle);
    return demangle;
}

static demangle_fn *find_demangler(void)
{
    static const char *const libraries[] = {NULL, "libstdc++.so.6", "libc++abi.so.1"};
    demangle_fn *demangle = atomic_load_explicit(&known, memory_order_acquire);
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0] && !demangle; i++)
        demangle = find_in(libraries[i]);
    return demangle;
}

const char *ph__readable_name(char room[PH__READABLE], const char *name)
{
    int status = -1;
    if (strncmp(name, "_Z", 2) != 0 || strnlen(name, LONGEST) == LONGEST)
        return name;
    demangle_fn *demangle = find_demangler();
    char *text = demangle ? demangle(name, NULL, NULL, &status) : NULL;
    if (text && status == 0)
        ph__line_format(room, PH__READABLE, "%s", text);
    free(text); /* the runtime's own malloc gave it */
    return text && status == 0 ? room : name;
}
