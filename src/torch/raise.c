/* SPDX-License-Identifier: MIT */
/* torch/raise.c: errors as C++ exceptions, thrown by the function of libstdc++ that its own headers
 * call for that. */
#include "torch/raise.h"
#include <dlfcn.h>
#include <phonograph/status.h>
#include <stdio.h>
#include <string.h>

typedef void throw_fn(const char *text);

static throw_fn *find_throw(void)
{
    static const char name[] = "_ZSt21__throw_runtime_errorPKc"; /* std::__throw_runtime_error */
    throw_fn *function = NULL;
    void *found = dlsym(RTLD_DEFAULT, name);
    void *library = found ? NULL : dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD);
    if (library)
        found = dlsym(library, name);
    memcpy(&function, &found, sizeof function);
    return function;
}

void ph__raise_last(void)
{
    const ph_error *error = ph_error_last();
    char text[sizeof error->message + 32];
    throw_fn *function = error->status == PH_OK ? NULL : find_throw();
    bool shortage = error->status == PH_ERROR_DEVICE_MEMORY || error->status == PH_ERROR_POOL_LIMIT;
    (void)snprintf(text, sizeof text, "%s%s", shortage ? "CUDA out of memory. " : "",
                   error->message);
    if (function)
        function(text);
}
