/* SPDX-License-Identifier: MIT */
/* device/annotate/scopes.c: the scopes of a thread: opening, closing, and resuming what is open
 * elsewhere. */
#include "device/annotate/ambient.h"
#include "device/annotate/annotation.h"
#include "device/annotate/marks.h"
#include "device/annotate/pairs.h"
#include "device/annotate/stack.h"
#include "device/handles/device.h"
#include <string.h>

/* ---- opening and closing ---- */
/* Reports a capture's scopes to the layer above. */
static ph_status report_scope(ph_stream *stream, bool begins, const char *call)
{
    if (atomic_load_explicit(&ph__marks_reported, memory_order_relaxed) == 0)
        return PH_OK;
    ph__capture *capture;
    PH_TRY(ph__marks_find(&capture, stream, call));
    const ph__annotation *annotation = ph__scope_annotation();
    return capture && capture->scope && annotation
               ? capture->scope(capture, stream, annotation, begins, call)
               : PH_OK;
}

/* A scope that says why a library adds nodes (PH__MADE_FOR), and nothing else. */
static bool is_quiet(const ph__pairs *given, size_t count)
{
    bool any = false;
    for (size_t s = 0; s < count; s++)
        for (size_t i = 0; i < given[s].count; i++) {
            if (strcmp(given[s].at[i].key, PH__MADE_FOR) != 0)
                return false;
            any = true;
        }
    return any;
}

/* Takes the annotation over; given: what it has that the outer ones need not give. */
static ph_status open_scope(ph_stream *stream, ph__annotation *annotation, const ph__pairs *given,
                            size_t count, bool forward_only, const char *call)
{
    ph__scope *scope = ph__scope_new();
    if (scope == NULL) {
        ph__annotation_release(annotation);
        return ph__fail_host_memory(call, "the scope");
    }
    bool quiet = is_quiet(given, count);
    *scope = (ph__scope){.annotation = annotation, .forward_only = forward_only, .quiet = quiet};
    ph__scope_push(scope, given, quiet ? 0 : count);
    ph_status status = ph__marks_change(stream, call);
    if (status == PH_OK && !quiet)
        status = report_scope(stream, true, call);
    if (status == PH_OK)
        return PH_OK;
    /* The failure is told already, and marks that could not be set back are set at the next
     * submission. */
    ph_error failure;
    ph__error_save(&failure);
    ph__scope_pop();
    ph_ignore(ph__marks_change(NULL, call));
    ph__error_restore(&failure);
    return status;
}

static ph_status check_scope(const ph_stream *stream, const char *name,
                             const ph_annotation_options *options, const char *call)
{
    PH_TRY(ph__stream_check(stream, call));
    if (!PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_annotation_options");
    PH_TRY(ph__pairs_check(options->pairs, options->count, name, call));
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
    PH_TRY(check_scope(stream, name, options, call));
    ph_annotation_pair own[2] = {{.key = "name", .text = name},
                                 {.key = "stream", .type = PH_ANNOTATION_INTEGER}};
    bool lane = options->lane && !ph__pairs_have(options->pairs, options->count, "stream");
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
    ph_status status = scope->quiet ? PH_OK : report_scope(stream, false, call);
    ph_error failure;
    if (status != PH_OK)
        ph__error_save(&failure);
    scope->over = true;
    if (scope == ph__thread_ambient.top)
        ph__scope_pop_ended();
    ph_status changed = ph__marks_change(NULL, call);
    if (status != PH_OK)
        ph__error_restore(&failure);
    return status != PH_OK ? status : changed;
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
    PH_TRY(ph__pairs_check(pairs, count, NULL, call));
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
        ph__scopes_unheard += top->heard && !top->over;
        ph__scope_pop();
    }
    while (ph__thread_ambient.top && ph__thread_ambient.top->over)
        ph__scope_pop();
    ph_ignore(ph__marks_change(NULL, "ph_annotation_unwind"));
    ph__error_restore(&saved);
}
