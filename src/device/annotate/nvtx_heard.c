/* SPDX-License-Identifier: MIT */
/* device/annotate/nvtx_heard.c: this library as the tool that NVTX tells of a program's ranges,
 * in front of the tool that was there.
 *
 * NVTX loads the library that NVTX_INJECTION64_PATH names and asks it to fill a table of
 * functions, once for each binary that uses NVTX. The next tool fills the table first, so that
 * it gets everything as ever; then the few functions that begin and end ranges get ours in front
 * of theirs. */
#include "base/alloc.h"
#include "base/environment.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/map.h"
#include "device/annotate/nvtx.h"
#include "device/annotate/nvtx_abi.h"
#include "device/annotate/ranges.h"
#include "device/annotate/wide.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* The next tool's functions; NULL where it took none, or there is no tool. */
static struct {
    pthread_mutex_t lock;
    bool known;
    ph__nvtx_function core[PH__NVTX_MOST_FUNCTIONS], core2[PH__NVTX_MOST_FUNCTIONS];
    ph__map texts;   /* by hash: intern */
    ph__map strings; /* by hash: registered strings, of a domain and a handle each */
    ph__map own;     /* the next tool's handles of the domain own_domain */
} next = {.lock = PTHREAD_MUTEX_INITIALIZER};
PH__FORK_LOCK(PH__FORK_NVTX, next.lock)

/* ---- words ---- */

/* One copy of each text, for good: names of domains and registered strings are few, however often a
 * program asks for them. Lock held; NULL: no host memory. */
typedef struct interned {
    struct interned *other; /* of the same hash */
    char text[];
} interned;

static const char *intern_text(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    interned *first = ph__map_get(&next.texts, hash);
    for (const interned *known = first; known; known = known->other)
        if (strcmp(known->text, text) == 0)
            return known->text;
    interned *fresh = ph__alloc(sizeof *fresh + strlen(text) + 1);
    if (!fresh)
        return NULL;
    (void)strcpy(fresh->text, text);
    fresh->other = first;
    if (ph__map_put(&next.texts, hash, fresh))
        return fresh->text;
    ph__free(fresh);
    return NULL;
}

/* A handle is of its domain: tools may number the strings of each. Handles that are made here are
 * texts, the same in every domain: theirs is no_domain. */
typedef struct string {
    struct string *other; /* of the same hash */
    const void *domain, *handle;
    const char *text; /* NULL: there was no host memory for it */
} string;
static const char no_domain;

static uint64_t hash_of(const void *domain, const void *handle)
{
    uint64_t hash = ((uintptr_t)domain + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (uintptr_t)handle;
    return hash ? hash : 1;
}

/* Lock held. */
static string *find_string(const void *domain, const void *handle)
{
    string *known = ph__map_get(&next.strings, hash_of(domain, handle));
    while (known && (known->domain != domain || known->handle != handle))
        known = known->other;
    return known;
}

/* Lock held. Without host memory the string has no name here, and none of an earlier one. */
static void put_string(const void *domain, const void *handle, const char *text)
{
    string *known = find_string(domain, handle);
    if (known) {
        known->text = text;
        return;
    }
    uint64_t hash = hash_of(domain, handle);
    string *fresh = text ? ph__alloc(sizeof *fresh) : NULL;
    if (!fresh)
        return;
    *fresh = (string){ph__map_get(&next.strings, hash), domain, handle, text};
    if (!ph__map_put(&next.strings, hash, fresh))
        ph__free(fresh);
}

static const char *registered_string(const void *domain, const void *handle)
{
    pthread_mutex_lock(&next.lock);
    const string *known = find_string(domain, handle);
    if (!known)
        known = find_string(&no_domain, handle);
    const char *text = known ? known->text : NULL;
    pthread_mutex_unlock(&next.lock);
    return text;
}

/* made: by the next tool, whose handle is the program's; else it is the text itself. */
static void *remember_handle(bool made, const void *domain, void *handle, const char *text)
{
    pthread_mutex_lock(&next.lock);
    const char *kept = intern_text(text);
    if (!made)
        handle = (void *)(uintptr_t)kept;
    if (handle)
        put_string(made ? domain : &no_domain, handle, kept);
    pthread_mutex_unlock(&next.lock);
    return handle;
}

static void push_event(const void *domain, const ph__nvtx_event *event)
{
    char name[PH__WIDE_BYTES];
    const char *text = NULL;
    if (event && event->message_type == PH__NVTX_MESSAGE_ASCII) {
        text = event->message;
    } else if (event && event->message_type == PH__NVTX_MESSAGE_UNICODE && event->message) {
        ph__wide_to_utf8(name, (const wchar_t *)(const void *)event->message);
        text = name;
    } else if (event && event->message_type == PH__NVTX_MESSAGE_REGISTERED) {
        text = registered_string(domain, event->message);
    }
    ph__scope_push_range(domain, text ? text : "");
}

/* ---- the functions ---- each calls the next tool's, whose answer is the program's. */

#define NEXT(type, module, number) ((type)next.module[number])

static int push_ex(const ph__nvtx_event *event)
{
    push_event(NULL, event);
    int (*theirs)(const ph__nvtx_event *) =
        NEXT(int (*)(const ph__nvtx_event *), core, PH__NVTX_RANGE_PUSH_EX);
    return theirs ? theirs(event) : PH__NVTX_NO_LEVEL;
}

static int push_ascii(const char *message)
{
    ph__scope_push_range(NULL, message ? message : "");
    int (*theirs)(const char *) = NEXT(int (*)(const char *), core, PH__NVTX_RANGE_PUSH_A);
    return theirs ? theirs(message) : PH__NVTX_NO_LEVEL;
}

static int push_wide(const wchar_t *message)
{
    char name[PH__WIDE_BYTES] = "";
    if (message)
        ph__wide_to_utf8(name, message);
    ph__scope_push_range(NULL, name);
    int (*theirs)(const wchar_t *) = NEXT(int (*)(const wchar_t *), core, PH__NVTX_RANGE_PUSH_W);
    return theirs ? theirs(message) : PH__NVTX_NO_LEVEL;
}

static int pop_range(void)
{
    ph__scope_pop_range(NULL);
    int (*theirs)(void) = NEXT(int (*)(void), core, PH__NVTX_RANGE_POP);
    return theirs ? theirs() : PH__NVTX_NO_LEVEL;
}

/* Ranges by copies of this library have this domain, and become no scopes: each copy makes the
 * domain, and a tool may give each a handle of its own. */
static const char own_domain[] = "phonograph";
static atomic_bool any_own; /* only then is the lock taken */

static bool is_own(ph__nvtx_domain domain)
{
    if (!domain || !atomic_load_explicit(&any_own, memory_order_acquire))
        return false;
    pthread_mutex_lock(&next.lock);
    bool own = ph__map_get(&next.own, (uintptr_t)domain) != NULL;
    pthread_mutex_unlock(&next.lock);
    return own;
}

static int domain_push(ph__nvtx_domain domain, const ph__nvtx_event *event)
{
    if (!is_own(domain))
        push_event(domain, event);
    ph__nvtx_push_fn theirs = NEXT(ph__nvtx_push_fn, core2, PH__NVTX_DOMAIN_RANGE_PUSH);
    return theirs ? theirs(domain, event) : PH__NVTX_NO_LEVEL;
}

static int domain_pop(ph__nvtx_domain domain)
{
    if (!is_own(domain))
        ph__scope_pop_range(domain);
    ph__nvtx_pop_fn theirs = NEXT(ph__nvtx_pop_fn, core2, PH__NVTX_DOMAIN_RANGE_POP);
    return theirs ? theirs(domain) : PH__NVTX_NO_LEVEL;
}

static void *register_ascii(ph__nvtx_domain domain, const char *text)
{
    void *(*theirs)(ph__nvtx_domain, const char *) =
        NEXT(void *(*)(ph__nvtx_domain, const char *), core2, PH__NVTX_DOMAIN_REGISTER_A);
    void *handle = theirs ? theirs(domain, text) : NULL;
    return text ? remember_handle(theirs != NULL, domain, handle, text) : handle;
}

static void *register_wide(ph__nvtx_domain domain, const wchar_t *text)
{
    char name[PH__WIDE_BYTES];
    void *(*theirs)(ph__nvtx_domain, const wchar_t *) =
        NEXT(void *(*)(ph__nvtx_domain, const wchar_t *), core2, PH__NVTX_DOMAIN_REGISTER_W);
    void *handle = theirs ? theirs(domain, text) : NULL;
    if (!text)
        return handle;
    ph__wide_to_utf8(name, text);
    return remember_handle(theirs != NULL, domain, handle, name);
}

/* Where no tool makes domains, a handle is the name: two of one name are one. The handle of a
 * domain that was destroyed may come again, for one of another name. */
static ph__nvtx_domain note_domain(bool made, ph__nvtx_domain theirs, const char *name)
{
    ph__nvtx_domain domain = theirs;
    bool own = strcmp(name, own_domain) == 0, kept = true;
    pthread_mutex_lock(&next.lock);
    if (!made)
        domain = (ph__nvtx_domain)(uintptr_t)intern_text(name);
    if (domain && own)
        kept = ph__map_put(&next.own, (uintptr_t)domain, (void *)(uintptr_t)own_domain);
    else if (domain)
        (void)ph__map_remove(&next.own, (uintptr_t)domain);
    if (domain && own && kept)
        atomic_store_explicit(&any_own, true, memory_order_release);
    pthread_mutex_unlock(&next.lock);
    if (!kept)
        PH__LOG_ONCE(PH_LOG_WARNING,
                     "NVTX: no host memory to know the domain \"%s\" by: ranges of "
                     "a copy of this library become scopes",
                     own_domain);
    return domain;
}

static ph__nvtx_domain create_ascii(const char *name)
{
    ph__nvtx_create_fn theirs = NEXT(ph__nvtx_create_fn, core2, PH__NVTX_DOMAIN_CREATE);
    return note_domain(theirs != NULL, theirs ? theirs(name) : NULL, name ? name : "");
}

static ph__nvtx_domain create_wide(const wchar_t *text)
{
    char name[PH__WIDE_BYTES] = "";
    ph__nvtx_domain (*theirs)(const wchar_t *) =
        NEXT(ph__nvtx_domain(*)(const wchar_t *), core2, PH__NVTX_DOMAIN_CREATE_W);
    if (text)
        ph__wide_to_utf8(name, text);
    return note_domain(theirs != NULL, theirs ? theirs(text) : NULL, name);
}

/* ---- taking over ---- */

typedef struct ours {
    int module;
    unsigned number;
    ph__nvtx_function function;
} ours;
static const ours functions[] = {
    {PH__NVTX_MODULE_CORE, PH__NVTX_RANGE_PUSH_EX, (ph__nvtx_function)push_ex},
    {PH__NVTX_MODULE_CORE, PH__NVTX_RANGE_PUSH_A, (ph__nvtx_function)push_ascii},
    {PH__NVTX_MODULE_CORE, PH__NVTX_RANGE_PUSH_W, (ph__nvtx_function)push_wide},
    {PH__NVTX_MODULE_CORE, PH__NVTX_RANGE_POP, (ph__nvtx_function)pop_range},
    {PH__NVTX_MODULE_CORE2, PH__NVTX_DOMAIN_RANGE_PUSH, (ph__nvtx_function)domain_push},
    {PH__NVTX_MODULE_CORE2, PH__NVTX_DOMAIN_RANGE_POP, (ph__nvtx_function)domain_pop},
    {PH__NVTX_MODULE_CORE2, PH__NVTX_DOMAIN_REGISTER_A, (ph__nvtx_function)register_ascii},
    {PH__NVTX_MODULE_CORE2, PH__NVTX_DOMAIN_REGISTER_W, (ph__nvtx_function)register_wide},
    {PH__NVTX_MODULE_CORE2, PH__NVTX_DOMAIN_CREATE, (ph__nvtx_function)create_ascii},
    {PH__NVTX_MODULE_CORE2, PH__NVTX_DOMAIN_CREATE_W, (ph__nvtx_function)create_wide}};
enum {
    OURS = sizeof functions / sizeof functions[0]
};

/* Where a binary of the program keeps one of its functions; NULL: it has none of that number. */
static ph__nvtx_function *place_of(const ph__nvtx_callbacks *callbacks, const ours *of)
{
    ph__nvtx_function **places;
    unsigned count;
    bool there = callbacks->functions(of->module, &places, &count) && of->number < count;
    return there ? places[of->number] : NULL;
}

static ph__nvtx_function *kept_function(const ours *of)
{
    return of->module == PH__NVTX_MODULE_CORE ? &next.core[of->number] : &next.core2[of->number];
}

/* Places that the next tool left unchanged are functions that it did not take. False: for another
 * binary it took other functions, and there is one place for each. */
static bool keep_theirs(ph__nvtx_function *const places[OURS], const ph__nvtx_function before[OURS])
{
    bool same = true;
    pthread_mutex_lock(&next.lock);
    for (size_t i = 0; i < OURS; i++) {
        ph__nvtx_function theirs = places[i] && *places[i] != before[i] ? *places[i] : NULL;
        if (!next.known)
            *kept_function(&functions[i]) = theirs;
        same = same && *kept_function(&functions[i]) == theirs;
    }
    next.known = true;
    pthread_mutex_unlock(&next.lock);
    return same;
}

int InitializeInjectionNvtx2(const void *(*find_table)(uint32_t number))
{
    ph__nvtx_function *places[OURS], before[OURS] = {0};
    const ph__nvtx_callbacks *callbacks = find_table ? find_table(PH__NVTX_TABLE_CALLBACKS) : NULL;
    const ph__nvtx_version_info *version = find_table ? find_table(PH__NVTX_TABLE_VERSION) : NULL;
    if (!callbacks || !callbacks->functions)
        return 0;
    for (size_t i = 0; i < OURS; i++) {
        places[i] = place_of(callbacks, &functions[i]);
        before[i] = places[i] ? *places[i] : NULL;
    }
    ph__nvtx_start_fn start = ph__nvtx_find_tool();
    bool listening = start && start(find_table);
    if (!keep_theirs(places, before)) {
        PH__LOG_ONCE(
            PH_LOG_WARNING,
            "NVTX: the tool behind this library has functions of its own for each binary; ranges "
            "of this one reach that tool, and become no scopes");
        return listening;
    }
    for (size_t i = 0; i < OURS; i++)
        if (places[i])
            *places[i] = functions[i].function;
    if (!listening && version && version->set_tool_version)
        version->set_tool_version(PH__NVTX_VERSION);
    return 1;
}

/* ---- in front of a tool ---- PH_NVTX_SCOPES=1: this library puts itself where NVTX looks, before
 * the program runs. */

static void stand_in_front(void)
{
    Dl_info here;
    const char *before = ph__environment("NVTX_INJECTION64_PATH");
    if (dladdr(own_domain, &here) == 0 || !here.dli_fname)
        return;
    void *library = dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!library || !dlsym(library, "InitializeInjectionNvtx2")) {
        ph__log(PH_LOG_WARNING,
                "PH_NVTX_SCOPES: NVTX loads shared libraries alone, and this one is a part "
                "of the program; link the shared one");
        return;
    }
    if (before && before[0] && strcmp(before, here.dli_fname) != 0)
        (void)setenv("PH_NVTX_NEXT", before, 1);
    (void)setenv("NVTX_INJECTION64_PATH", here.dli_fname, 1);
}

__attribute__((constructor)) static void read_scopes_wish(void)
{
    const char *wish = ph__environment("PH_NVTX_SCOPES");
    if (wish && strcmp(wish, "1") == 0)
        stand_in_front();
}
