/* SPDX-License-Identifier: MIT */
/* tests/fake/nvtx_tool.c: a tool that listens to NVTX ranges, as Nsight Systems does, and notes
 * them. */
#include "nvtx_tool.h"
#include "device/annotate/nvtx_abi.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char heard[4096];
static int the_domain, domains;

/* With NVTX_TOOL_NUMBERS in the environment: each domain that is created is one of its own, whose
 * registered strings are numbered from 1; one that was destroyed is the next that is created. */
enum {
    MOST_DOMAINS = 8
};
static struct {
    bool used;
    uintptr_t strings;
} numbered[MOST_DOMAINS + 1]; /* the last: the default domain */

static void note(const char *mark, const char *name)
{
    pthread_mutex_lock(&lock);
    size_t length = strlen(heard);
    (void)snprintf(heard + length, sizeof heard - length, "%s%s", mark, name);
    pthread_mutex_unlock(&lock);
}

static ph__nvtx_domain create(const char *name)
{
    domains++;
    if (domains > 1 || strcmp(name, "phonograph") != 0)
        note("!", "domain");
    return (ph__nvtx_domain)(void *)&the_domain;
}

static ph__nvtx_domain create_numbered(const char *name)
{
    (void)name;
    for (int i = 0; i < MOST_DOMAINS; i++)
        if (!numbered[i].used) {
            numbered[i].used = true;
            numbered[i].strings = 0;
            return (ph__nvtx_domain)(void *)&numbered[i];
        }
    return NULL;
}

static void destroy_numbered(ph__nvtx_domain domain)
{
    for (int i = 0; i < MOST_DOMAINS; i++)
        if ((void *)domain == &numbered[i])
            numbered[i].used = false;
}

static void *register_numbered(ph__nvtx_domain domain, const char *text)
{
    (void)text;
    for (int i = 0; i < MOST_DOMAINS; i++)
        if ((void *)domain == &numbered[i])
            return (void *)++numbered[i].strings;
    return (void *)++numbered[MOST_DOMAINS].strings;
}

static int push_numbered(ph__nvtx_domain domain, const ph__nvtx_event *event)
{
    (void)domain;
    (void)event;
    return 0;
}

static int pop_numbered(ph__nvtx_domain domain)
{
    (void)domain;
    return 0;
}

static int push(ph__nvtx_domain domain, const ph__nvtx_event *event)
{
    if ((void *)domain != &the_domain || event->version != 3 || event->size != sizeof *event ||
        event->message_type != PH__NVTX_MESSAGE_ASCII)
        note("!", "push");
    note("+", event->message);
    return 0;
}

static int pop(ph__nvtx_domain domain)
{
    note((void *)domain == &the_domain ? "-" : "!", "");
    return 0;
}

EXPORT nvtx_tool_heard_fn nvtx_tool_heard;
const char *nvtx_tool_heard(void)
{
    return heard;
}

EXPORT nvtx_tool_forget_fn nvtx_tool_forget;
void nvtx_tool_forget(void)
{
    pthread_mutex_lock(&lock);
    heard[0] = 0;
    pthread_mutex_unlock(&lock);
}

static void put(ph__nvtx_function **places, int at, const void *fn)
{
    memcpy(places[at], fn, sizeof(ph__nvtx_function));
}

static int take_numbered(ph__nvtx_function **places)
{
    static void *(*const register_fn)(ph__nvtx_domain, const char *) = register_numbered;
    static void (*const destroy_fn)(ph__nvtx_domain) = destroy_numbered;
    static const ph__nvtx_push_fn push_fn = push_numbered;
    static const ph__nvtx_pop_fn pop_fn = pop_numbered;
    static const ph__nvtx_create_fn create_fn = create_numbered;
    put(places, PH__NVTX_DOMAIN_RANGE_PUSH, &push_fn);
    put(places, PH__NVTX_DOMAIN_RANGE_POP, &pop_fn);
    put(places, PH__NVTX_DOMAIN_REGISTER_A, &register_fn);
    put(places, PH__NVTX_DOMAIN_CREATE, &create_fn);
    put(places, PH__NVTX_DOMAIN_DESTROY, &destroy_fn);
    return 1;
}

EXPORT int InitializeInjectionNvtx2(ph__nvtx_table_fn find_table);
int InitializeInjectionNvtx2(ph__nvtx_table_fn find_table)
{
    const ph__nvtx_callbacks *callbacks = find_table(PH__NVTX_TABLE_CALLBACKS);
    const ph__nvtx_version_info *version = find_table(PH__NVTX_TABLE_VERSION);
    static const ph__nvtx_push_fn push_fn = push;
    static const ph__nvtx_pop_fn pop_fn = pop;
    static const ph__nvtx_create_fn create_fn = create;
    ph__nvtx_function **places;
    unsigned count;
    if (!callbacks || !version || find_table(99) || version->version != 3)
        return 0;
    version->set_tool_version(3);
    for (int module = 1; module < PH__NVTX_MODULES; module++)
        if (!callbacks->functions(module, &places, &count) || count == 0)
            return 0;
    if (callbacks->functions(0, &places, &count) ||
        callbacks->functions(PH__NVTX_MODULES, &places, &count) ||
        !callbacks->functions(PH__NVTX_MODULE_CORE2, &places, &count) ||
        count != PH__NVTX_CORE2_SIZE)
        return 0;
    if (getenv("NVTX_TOOL_NUMBERS"))
        return take_numbered(places);
    put(places, PH__NVTX_DOMAIN_RANGE_PUSH, &push_fn);
    put(places, PH__NVTX_DOMAIN_RANGE_POP, &pop_fn);
    put(places, PH__NVTX_DOMAIN_CREATE, &create_fn);
    return 1;
}
