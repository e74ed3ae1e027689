/* SPDX-License-Identifier: MIT */
/* device/annotate/stack.c: the stack of a thread's scopes. */
#include "device/annotate/stack.h"
#include "base/alloc.h"
#include "base/text.h"
#include "device/annotate/nvtx.h"
#include "device/annotate/pairs.h"
#include <pthread.h>
#include <string.h>

/* Ranges of the program's that are open and have no scope: the innermost ones. */
_Thread_local size_t ph__scopes_unheard;

/* Scopes that a thread leaves open when it ends go with it. */
static pthread_key_t leftovers;
static pthread_once_t leftovers_once = PTHREAD_ONCE_INIT;

/* Of the outermost scopes, which are most of all. */
enum {
    FEW = 4
};
static _Thread_local ph__scope few[FEW];

ph__scope *ph__scope_new(void)
{
    size_t depth = ph__thread_ambient.depth;
    return depth < FEW ? &few[depth] : ph__alloc(sizeof(ph__scope));
}

/* The thread's depth is without it already. */
static void free_scope(ph__scope *scope)
{
    ph__annotation_release(scope->annotation);
    if (ph__thread_ambient.depth >= FEW)
        ph__free(scope);
}

void ph__scope_pop(void)
{
    ph__ambient *ambient = &ph__thread_ambient;
    ph__scope *scope = ambient->top;
    ambient->top = scope->outer;
    ambient->serial = scope->outer ? scope->outer->serial : 0;
    ambient->depth--;
    if (scope->ranged)
        ph__nvtx_pop();
    free_scope(scope);
}

/* The innermost scope, and those around it that have ended already. */
void ph__scope_pop_ended(void)
{
    do
        ph__scope_pop();
    while (ph__thread_ambient.top && ph__thread_ambient.top->over);
}

static void on_thread_end(void *unused)
{
    (void)unused;
    while (ph__thread_ambient.top)
        ph__scope_pop();
}

static void make_leftovers(void)
{
    (void)pthread_key_create(&leftovers, on_thread_end);
}

/* Opens the range that a tool shows for a scope. Its name is the last name among the given pairs,
 * or else the pairs; a scope without pairs has no range. */
static bool start_range(const ph__pairs *given, size_t count)
{
    const char *name = NULL;
    ph__text text = {0};
    for (size_t s = 0; s < count; s++)
        for (size_t i = 0; i < given[s].count; i++) {
            const ph_annotation_pair *pair = &given[s].at[i];
            if (pair->type == PH_ANNOTATION_TEXT && strcmp(pair->key, "name") == 0)
                name = pair->text;
            ph__text_add(&text, text.length ? " " : "");
            ph__pair_to_text(&text, pair);
        }
    bool any = name || text.length > 0 || text.failed;
    char *pairs = name ? NULL : ph__text_detach(&text);
    if (any)
        ph__nvtx_push(name ? name : pairs ? pairs : "(no memory for the name)");
    ph__free(pairs);
    ph__text_free(&text);
    return any;
}

void ph__scope_push(ph__scope *scope, const ph__pairs *given, size_t count)
{
    static _Atomic uint64_t last_serial;
    ph__ambient *ambient = &ph__thread_ambient;
    if (ambient->top == NULL) {
        (void)pthread_once(&leftovers_once, make_leftovers);
        (void)pthread_setspecific(leftovers, ambient);
    }
    scope->serial = atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed) + 1;
    scope->outer = ambient->top;
    ambient->top = scope;
    ambient->serial = scope->serial;
    ambient->depth++;
    scope->ranged = !scope->heard && ph__nvtx_on() && start_range(given, count);
}
