/* SPDX-License-Identifier: MIT */
/* tests/support/nvtx.h: the part of NVTX that is in each binary which uses it, for tests. */
#ifndef PH_TESTS_NVTX_H
#define PH_TESTS_NVTX_H
#include "device/annotate/nvtx_abi.h"

static ph__nvtx_function core[PH__NVTX_CORE_SIZE], core2[PH__NVTX_CORE2_SIZE];
static ph__nvtx_function *core_places[PH__NVTX_CORE_SIZE], *core2_places[PH__NVTX_CORE2_SIZE];
static ph__nvtx_function others[PH__NVTX_MOST_FUNCTIONS], *other_places[PH__NVTX_MOST_FUNCTIONS];
static uint32_t tool_version;

static inline void not_started(void)
{
}

static inline int find_functions(int module, ph__nvtx_function ***places, unsigned *count)
{
    if (module <= 0 || module >= PH__NVTX_MODULES)
        return 0;
    *places = module == PH__NVTX_MODULE_CORE    ? core_places
              : module == PH__NVTX_MODULE_CORE2 ? core2_places
                                                : other_places;
    *count = PH__NVTX_MOST_FUNCTIONS;
    return 1;
}

static inline void set_version(uint32_t version)
{
    tool_version = version;
}

static inline const void *find_table(uint32_t number)
{
    static const ph__nvtx_callbacks callbacks = {sizeof callbacks, find_functions};
    static const ph__nvtx_version_info version = {sizeof version, PH__NVTX_VERSION, 0, set_version};
    return number == PH__NVTX_TABLE_CALLBACKS ? (const void *)&callbacks
           : number == PH__NVTX_TABLE_VERSION ? (const void *)&version
                                              : NULL;
}

/* What no tool took does nothing from then on. */
static inline int start_nvtx(int (*start)(const void *(*find)(uint32_t number)))
{
    for (size_t i = 0; i < PH__NVTX_MOST_FUNCTIONS; i++) {
        core[i] = core2[i] = others[i] = not_started;
        core_places[i] = &core[i];
        core2_places[i] = &core2[i];
        other_places[i] = &others[i];
    }
    int started = start(find_table);
    for (size_t i = 0; i < PH__NVTX_MOST_FUNCTIONS; i++) {
        core[i] = core[i] == not_started ? NULL : core[i];
        core2[i] = core2[i] == not_started ? NULL : core2[i];
    }
    return started;
}

static inline int push(const char *name)
{
    return ((int (*)(const char *))core[PH__NVTX_RANGE_PUSH_A])(name);
}

static inline int pop(void)
{
    return ((int (*)(void))core[PH__NVTX_RANGE_POP])();
}

static inline int push_in(ph__nvtx_domain domain, int type, const void *message)
{
    const ph__nvtx_event event = {.version = PH__NVTX_VERSION,
                                  .size = sizeof event,
                                  .message_type = type,
                                  .message = message};
    return ((ph__nvtx_push_fn)core2[PH__NVTX_DOMAIN_RANGE_PUSH])(domain, &event);
}

static inline int pop_in(ph__nvtx_domain domain)
{
    return ((ph__nvtx_pop_fn)core2[PH__NVTX_DOMAIN_RANGE_POP])(domain);
}

static inline ph__nvtx_domain create(const char *name)
{
    return ((ph__nvtx_create_fn)core2[PH__NVTX_DOMAIN_CREATE])(name);
}

static inline void *register_in(ph__nvtx_domain domain, const char *text)
{
    return ((void *(*)(ph__nvtx_domain, const char *))core2[PH__NVTX_DOMAIN_REGISTER_A])(domain,
                                                                                         text);
}
#endif
