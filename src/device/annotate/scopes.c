/* SPDX-License-Identifier: MIT */
/* device/annotate/scopes.c: the scopes of a thread: opening, closing, and taking along what is
 * open; lanes of streams. */
#include "device/annotate/scopes.h"
#include "base/alloc.h"
#include "base/fork.h"
#include "base/log.h"
#include "device/annotate/nvtx.h"
#include "device/annotate/nvtx_heard.h"
#include <string.h>

typedef struct ph__scope {
    struct ph__scope *outer;
    ph__annotation *annotation; /* with all that the outer ones give; NULL: nothing */
    uint64_t serial;
    bool forward_only;  /* who takes along what is open takes the outer one's */
    bool ranged;        /* a tool was told of it */
    bool heard;         /* a range that the program told NVTX of */
    bool over;          /* it has ended, and goes with what was begun inside it */
    const void *domain; /* of a heard one */
} ph__scope;

_Thread_local ph__ambient ph__thread_ambient;

/* Ranges of the program's that are open and have no scope: the innermost ones. */
static _Thread_local size_t unheard;

/* Scopes that a thread leaves open when it ends go with it. */
static pthread_key_t leftovers;
static pthread_once_t leftovers_once = PTHREAD_ONCE_INIT;

/* Of the outermost scopes, which are most of all. */
enum {
    FEW = 4
};
static _Thread_local ph__scope few[FEW];

static ph__scope *new_scope(void)
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

static void pop(void)
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
static void pop_ended(void)
{
    do
        pop();
    while (ph__thread_ambient.top && ph__thread_ambient.top->over);
}

static void on_thread_end(void *unused)
{
    (void)unused;
    while (ph__thread_ambient.top)
        pop();
}

static void make_leftovers(void)
{
    (void)pthread_key_create(&leftovers, on_thread_end);
}

/* What a tool shows of a scope: the last name among what it was given, or else its pairs; one
 * that was given nothing has no range. */
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
    char *pairs = name ? NULL : ph__text_take(&text);
    if (any)
        ph__nvtx_push(name ? name : pairs ? pairs : "(no memory for the name)");
    ph__free(pairs);
    ph__text_free(&text);
    return any;
}

static void push(ph__scope *scope, const ph__pairs *given, size_t count)
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

ph__annotation *ph__scope_annotation(void)
{
    const ph__scope *top = ph__thread_ambient.top;
    return top ? top->annotation : NULL;
}

ph__annotation *ph__scope_at(size_t outwards)
{
    const ph__scope *scope = ph__thread_ambient.top;
    for (; scope && outwards > 0; outwards--)
        scope = scope->outer;
    return scope ? scope->annotation : NULL;
}

/* ---- opening and closing ---- */
/* What the layer above wants to know of a capture's scopes. */
static ph_status tell(ph_stream *stream, bool begins, const char *call)
{
    if (atomic_load_explicit(&ph__marks_told, memory_order_relaxed) == 0)
        return PH_OK;
    ph__capture *capture;
    PH_TRY(ph__marks_find(&capture, stream, call));
    const ph__annotation *annotation = ph__scope_annotation();
    return capture && capture->scope && annotation
               ? capture->scope(capture, stream, annotation, begins, call)
               : PH_OK;
}

/* Takes the annotation over; given: what it has that the outer ones need not give. */
static ph_status open_scope(ph_stream *stream, ph__annotation *annotation, const ph__pairs *given,
                            size_t count, bool forward_only, const char *call)
{
    ph__scope *scope = new_scope();
    if (scope == NULL) {
        ph__annotation_release(annotation);
        return ph__fail_host_memory(call, "the scope");
    }
    *scope = (ph__scope){.annotation = annotation, .forward_only = forward_only};
    push(scope, given, count);
    ph_status status = ph__marks_change(stream, call);
    if (status == PH_OK)
        status = tell(stream, true, call);
    if (status == PH_OK)
        return PH_OK;
    /* The failure is told already, and marks that could not be set back are set at the next
     * submission. */
    ph_error failure;
    ph__error_save(&failure);
    pop();
    ph_ignore(ph__marks_change(NULL, call));
    ph__error_restore(&failure);
    return status;
}

static ph_status find_pair(const ph_annotation_pair *pairs, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(pairs[i].key, key) == 0)
            return PH_ERROR_ARGUMENT;
    return PH_OK;
}

static ph_status check_pairs(const ph_annotation_pair *pairs, size_t count, const char *name,
                             const char *call)
{
    if (pairs == NULL && count)
        return ph__fail_null(call, "pairs");
    for (size_t i = 0; i < count; i++) {
        const ph_annotation_pair *pair = &pairs[i];
        if (pair->key == NULL || pair->key[0] == '\0')
            return ph_fail(PH_ERROR_ARGUMENT, "%s: pair %zu has no key", call, i);
        if ((unsigned)pair->type > PH_ANNOTATION_BOOL)
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: \"%s\" has type %d, which is none of ph_annotation_type", call,
                           pair->key, (int)pair->type);
        if (pair->type == PH_ANNOTATION_TEXT && pair->text == NULL)
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: \"%s\" is a text (PH_ANNOTATION_TEXT, as a pair is whose type is "
                           "not set), and its text "
                           "is NULL",
                           call, pair->key);
        if (find_pair(pairs, i, pair->key) != PH_OK || (name && strcmp(pair->key, "name") == 0))
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: \"%s\" is given twice; a scope has one value for a key", call,
                           pair->key);
    }
    return PH_OK;
}

static ph_status check(const ph_stream *stream, const char *name,
                       const ph_annotation_options *options, const char *call)
{
    PH_TRY(ph__stream_check(stream, call));
    if (!PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_annotation_options");
    PH_TRY(check_pairs(options->pairs, options->count, name, call));
    if (name == NULL && options->count == 0 && !options->lane)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: the scope has neither a name nor pairs, and would say nothing", call);
    return PH_OK;
}

ph_status ph_annotation_push(ph_stream *stream, const char *name,
                             const ph_annotation_options *options)
{
    static const char call[] = "ph_annotation_push";
    static const ph_annotation_options defaults;
    options = options ? options : &defaults;
    PH_TRY(check(stream, name, options, call));
    ph_annotation_pair own[2] = {{.key = "name", .text = name},
                                 {.key = "stream", .type = PH_ANNOTATION_INTEGER}};
    bool lane = options->lane && find_pair(options->pairs, options->count, "stream") == PH_OK;
    uint32_t number = 0;
    if (lane)
        PH_TRY(ph_stream_lane(&number, stream));
    own[1].integer = number;
    ph__annotation *outer = ph__scope_annotation(), *annotation;
    const ph__pairs sources[] = {{outer ? outer->pairs : NULL, outer ? outer->count : 0},
                                 {own, name != NULL},
                                 {options->pairs, options->count},
                                 {own + 1, lane}};
    PH_TRY(ph__annotation_make(&annotation, sources, 4, call));
    return open_scope(stream, annotation, sources + 1, 3, options->forward_only, call);
}

ph_status ph_annotation_pop(ph_stream *stream)
{
    static const char call[] = "ph_annotation_pop";
    if (stream == NULL)
        return ph__fail_null(call, "stream");
    if (ph__thread_ambient.top == NULL)
        return ph_fail(
            PH_ERROR_STATE,
            "%s: the calling thread has no scope open; scopes belong to the thread that began them",
            call);
    ph__scope *scope = ph__thread_ambient.top;
    while (scope && (scope->heard || scope->over))
        scope = scope->outer;
    if (scope == NULL)
        return ph_fail(
            PH_ERROR_STATE,
            "%s: the scopes that the calling thread has open are NVTX ranges of the program's, "
            "which end where it ends them",
            call);
    ph_status status = tell(stream, false, call);
    ph_error failure;
    if (status != PH_OK)
        ph__error_save(&failure);
    scope->over = true;
    if (scope == ph__thread_ambient.top)
        pop_ended();
    ph_status changed = ph__marks_change(NULL, call);
    if (status != PH_OK)
        ph__error_restore(&failure);
    return status != PH_OK ? status : changed;
}

/* ---- ranges that NVTX was told of ---- */

void ph__scope_push_range(const void *domain, const char *name)
{
    static const char call[] = "an NVTX range";
    const ph_annotation_pair own = {.key = "name", .text = name};
    ph__annotation *outer = ph__scope_annotation(), *annotation = NULL;
    const ph__pairs sources[] = {{outer ? outer->pairs : NULL, outer ? outer->count : 0},
                                 {&own, 1}};
    ph_error saved;
    ph__error_save(&saved);
    bool good = unheard == 0 && ph__annotation_make(&annotation, sources, 2, call) == PH_OK;
    ph__scope *scope = good ? new_scope() : NULL;
    if (scope) {
        *scope = (ph__scope){.annotation = annotation, .heard = true, .domain = domain};
        push(scope, NULL, 0);
        ph_ignore(ph__marks_change(NULL, call)); /* else at the next submission */
    } else {
        if (unheard++ == 0)
            PH__LOG_ONCE(PH_LOG_WARNING,
                         "the NVTX range \"%.80s\" becomes no scope: no host memory", name);
        ph__annotation_release(annotation);
    }
    ph__error_restore(&saved);
}

void ph__scope_pop_range(const void *domain)
{
    ph__scope *scope = ph__thread_ambient.top;
    if (unheard > 0) {
        unheard--;
        return;
    }
    while (scope && (!scope->heard || scope->over || scope->domain != domain))
        scope = scope->outer;
    if (!scope)
        return;
    ph_error saved;
    ph__error_save(&saved);
    scope->over = true;
    if (scope == ph__thread_ambient.top)
        pop_ended();
    ph_ignore(ph__marks_change(NULL, "an NVTX range"));
    ph__error_restore(&saved);
}

size_t ph_annotation_depth(void)
{
    return ph__thread_ambient.depth;
}

/* Where a mark cannot be set now, it is at the next submission. */
void ph_annotation_unwind(size_t depth)
{
    if (ph__thread_ambient.depth <= depth)
        return;
    ph_error saved;
    ph__error_save(&saved);
    while (ph__thread_ambient.depth > depth) {
        /* Its end is still to come, and must end no other. */
        const ph__scope *top = ph__thread_ambient.top;
        unheard += top->heard && !top->over;
        pop();
    }
    while (ph__thread_ambient.top && ph__thread_ambient.top->over)
        pop();
    ph_ignore(ph__marks_change(NULL, "ph_annotation_unwind"));
    ph__error_restore(&saved);
}

/* ---- taking along ---- */
ph_annotation_scope *ph_annotation_current(void)
{
    const ph__scope *scope = ph__thread_ambient.top;
    while (scope && scope->forward_only)
        scope = scope->outer;
    bool gives = scope && scope->annotation && scope->annotation->era == ph__annotations_era();
    return gives ? ph__annotation_retain(scope->annotation) : NULL;
}

ph_annotation_scope *ph_annotation_retain(ph_annotation_scope *mark)
{
    return ph__annotation_retain(mark);
}

void ph_annotation_release(ph_annotation_scope *mark)
{
    ph__annotation_release(mark);
}

ph_status ph_annotation_resume(ph_stream *stream, ph_annotation_scope *mark,
                               const ph_annotation_pair *pairs, size_t count)
{
    static const char call[] = "ph_annotation_resume";
    PH_TRY(ph__stream_check(stream, call));
    PH_TRY(check_pairs(pairs, count, NULL, call));
    ph__annotation *outer = ph__scope_annotation(), *annotation = NULL;
    bool is_void = mark && mark->era != ph__annotations_era();
    /* looked through, by who takes along what is open too */
    if (is_void || (mark == NULL && count == 0))
        return open_scope(stream, ph__annotation_retain(outer), NULL, 0, true, call);
    const ph__pairs sources[] = {{outer ? outer->pairs : NULL, outer ? outer->count : 0},
                                 {mark ? mark->pairs : NULL, mark ? mark->count : 0},
                                 {pairs, count}};
    PH_TRY(ph__annotation_make(&annotation, sources, 3, call));
    return open_scope(stream, annotation, sources + 1, 2, false, call);
}

/* ---- lanes ---- */
static pthread_mutex_t lanes_lock = PTHREAD_MUTEX_INITIALIZER;
PH__FORK_LOCK(PH__FORK_LANES, lanes_lock)

ph_status ph_stream_lane(uint32_t *out, ph_stream *stream)
{
    static unsigned next = 60;
    static const char call[] = "ph_stream_lane";
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = 0;
    PH_TRY(ph__stream_check(stream, call));
    unsigned lane = atomic_load_explicit(&stream->lane, memory_order_relaxed);
    if (lane == 0) {
        pthread_mutex_lock(&lanes_lock);
        lane = atomic_load_explicit(&stream->lane, memory_order_relaxed);
        if (lane == 0) {
            lane = next++;
            atomic_store_explicit(&stream->lane, lane, memory_order_relaxed);
        }
        pthread_mutex_unlock(&lanes_lock);
    }
    *out = lane;
    return PH_OK;
}
