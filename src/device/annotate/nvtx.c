/* SPDX-License-Identifier: MIT */
/* device/annotate/nvtx.c: finding the tool that listens to NVTX ranges, as NVIDIA's own headers
 * do: the environment names a library, which is told where to ask for the places of the
 * functions that it takes over. No part of NVTX is needed for that. */
#include "device/annotate/nvtx.h"
#include "base/environment.h"
#include "base/log.h"
#include <dlfcn.h>
#include <phonograph/annotation.h>
#include <pthread.h>
#include <string.h>

bool ph__nvtx_listens;

/* Of all that a tool may take over; three of them are called. */
static ph__nvtx_function functions[PH__NVTX_MODULES][PH__NVTX_MOST_FUNCTIONS];
static ph__nvtx_function *places[PH__NVTX_MODULES][PH__NVTX_MOST_FUNCTIONS + 1];
static ph__nvtx_domain domain;
static ph__nvtx_push_fn push;
static ph__nvtx_pop_fn pop;

static int find_functions(int module, ph__nvtx_function ***out, unsigned *count)
{
    static const unsigned sizes[PH__NVTX_MODULES] = {
        [PH__NVTX_MODULE_CORE] = PH__NVTX_CORE_SIZE,
        [PH__NVTX_MODULE_CUDA] = PH__NVTX_CUDA_SIZE,
        [PH__NVTX_MODULE_OPENCL] = PH__NVTX_OPENCL_SIZE,
        [PH__NVTX_MODULE_CUDART] = PH__NVTX_CUDART_SIZE,
        [PH__NVTX_MODULE_CORE2] = PH__NVTX_CORE2_SIZE,
        [PH__NVTX_MODULE_SYNC] = PH__NVTX_SYNC_SIZE};
    if (module <= 0 || module >= PH__NVTX_MODULES)
        return 0;
    if (count)
        *count = sizes[module];
    if (out)
        *out = places[module];
    return 1;
}

static void set_tool_version(uint32_t version)
{
    (void)version;
}

static const void *find_table(uint32_t number)
{
    static const ph__nvtx_callbacks callbacks = {sizeof callbacks, find_functions};
    static const ph__nvtx_version_info version = {sizeof version, PH__NVTX_VERSION, 0,
                                                  set_tool_version};
    if (number == PH__NVTX_TABLE_CALLBACKS)
        return &callbacks;
    return number == PH__NVTX_TABLE_VERSION ? &version : NULL;
}

static bool replace_start(ph__nvtx_start_fn start)
{
    ph__nvtx_create_fn create;
    for (size_t m = 0; m < PH__NVTX_MODULES; m++) /* number 0 has no place */
        for (size_t f = 1; f < PH__NVTX_MOST_FUNCTIONS; f++)
            places[m][f] = &functions[m][f];
    if (!start(find_table))
        return false;
    memcpy(&create, &functions[PH__NVTX_MODULE_CORE2][PH__NVTX_DOMAIN_CREATE], sizeof create);
    memcpy(&push, &functions[PH__NVTX_MODULE_CORE2][PH__NVTX_DOMAIN_RANGE_PUSH], sizeof push);
    memcpy(&pop, &functions[PH__NVTX_MODULE_CORE2][PH__NVTX_DOMAIN_RANGE_POP], sizeof pop);
    if (create)
        domain = create("phonograph");
    return push && pop;
}

/* A tool that started stays loaded. NULL, with a warning where it cannot be loaded: there is
 * none. */
static ph__nvtx_start_fn tool_named(const char *variable)
{
    ph__nvtx_start_fn start;
    const char *path = ph__environment(variable);
    if (!path || path[0] == '\0')
        return NULL;
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        const char *error = dlerror();
        PH__LOG_ONCE(PH_LOG_WARNING,
                     "%s: the tool's library cannot be loaded, and gets no ranges: %s", variable,
                     error ? error : path);
        return NULL;
    }
    void *address = dlsym(library, "InitializeInjectionNvtx2");
    memcpy(&start, &address, sizeof start);
    return start;
}

ph__nvtx_start_fn ph__nvtx_find_tool(void)
{
    ph__nvtx_start_fn start = tool_named("NVTX_INJECTION64_PATH");
    if (start == InitializeInjectionNvtx2)
        start = tool_named("PH_NVTX_NEXT");
    return start == InitializeInjectionNvtx2 ? NULL : start;
}

static void find_tool(void)
{
    ph__nvtx_start_fn start = ph__nvtx_find_tool();
    ph__nvtx_listens = start && replace_start(start);
}

void ph__nvtx_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, find_tool);
}

void ph__nvtx_push(const char *name)
{
    const ph__nvtx_event event = {.version = PH__NVTX_VERSION,
                                  .size = sizeof event,
                                  .message_type = PH__NVTX_MESSAGE_ASCII,
                                  .message = name};
    (void)push(domain, &event);
}

void ph__nvtx_pop(void)
{
    (void)pop(domain);
}
