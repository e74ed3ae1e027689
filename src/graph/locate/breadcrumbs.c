/* SPDX-License-Identifier: MIT */
/* graph/locate/breadcrumbs.c: the scopes of a capture, by their paths, and the breadcrumbs at the
 * beginning and the end of each. */
#include "graph/locate/breadcrumbs.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/text.h"
#include "device/annotate/pairs.h"
#include "graph/locate/locate.h"
#include "graph/locate/probes.h"
#include "graph/object/graph.h"
#include <string.h>

/* ---- paths ---- */
static bool has_pair(const ph__annotation *annotation, const ph_annotation_pair *pair)
{
    for (size_t i = 0; annotation && i < annotation->count; i++)
        if (ph__pair_same(&annotation->pairs[i], pair))
            return true;
    return false;
}

/* The scope's own part of its path: its name, or, where it has none of its own, the pairs that
 * it adds. */
static void add_scope_part(ph__text *text, const ph__annotation *annotation,
                           const ph__annotation *outer)
{
    const char *name = ph__annotation_name(annotation);
    bool first = true;
    if (name[0] && strcmp(name, ph__annotation_name(outer)) != 0) {
        ph__text_add(text, name);
        return;
    }
    for (size_t i = 0; i < annotation->count; i++) {
        const ph_annotation_pair *pair = &annotation->pairs[i];
        if (has_pair(outer, pair) || strcmp(pair->key, "name") == 0)
            continue;
        ph__text_add(text, first ? "" : " ");
        ph__pair_to_text(text, pair);
        first = false;
    }
    if (first)
        ph__text_add(text, name);
}

char *ph__located_path(void)
{
    ph__text text = {0};
    const ph__annotation *outer = NULL;
    ph__text_add(&text, "");
    for (size_t left = ph__thread_ambient.depth; left-- > 0;) {
        const ph__annotation *annotation = ph__scope_at(left);
        if (annotation == NULL || annotation == outer)
            continue; /* a scope that says nothing */
        if (text.length)
            ph__text_add(&text, "/");
        add_scope_part(&text, annotation, outer);
        outer = annotation;
    }
    return ph__text_detach(&text);
}

/* The innermost first, in quotes; NULL: no host memory. Freed by the caller. */
static char *list_scopes(size_t count)
{
    enum {
        LISTED = 3
    };
    ph__text text = {0};
    for (size_t i = 0; i < count && i < LISTED; i++) {
        const ph__annotation *annotation = ph__scope_at(i);
        const ph__annotation *outer = i + 1 < ph__thread_ambient.depth ? ph__scope_at(i + 1) : NULL;
        ph__text_add(&text, i ? "\", \"" : "\"");
        if (annotation)
            add_scope_part(&text, annotation, outer);
    }
    ph__text_add(&text, "\"");
    if (count > LISTED)
        ph__text_format(&text, " and %zu more", count - LISTED);
    return ph__text_detach(&text);
}

static const char no_names[] = "no memory for the names";

ph_status ph__fail_scopes_left(size_t count, const char *call)
{
    char *names = list_scopes(count);
    ph_status status = ph_fail(
        PH_ERROR_STATE,
        "%s: the capture is strict, and the function left %zu scope%s open (%s); "
        "ph_annotation_pop, or ph_annotation_unwind, ends %s, also now",
        call, count, count == 1 ? "" : "s", names ? names : no_names, count == 1 ? "it" : "them");
    ph__free(names);
    return status;
}

void ph__scopes_left(size_t count, const char *call)
{
    char *names = list_scopes(count);
    ph__log(PH_LOG_WARNING,
            "%s: the function left %zu scope%s open (%s): %s what this thread captures from now "
            "on; ph_annotation_pop, "
            "or ph_annotation_unwind",
            call, count, count == 1 ? "" : "s", names ? names : no_names,
            count == 1 ? "it marks" : "they mark");
    ph__free(names);
}

/* ---- scopes ---- under the device's capture_lock ---- */
static void add_breadcrumb(ph__probe_failure *f, ph__locate *locate, ph_stream *stream,
                           size_t scope, bool ends, const char *call)
{
    ph__probe_node node = {.scope = scope, .ends = ends};
    node.args.breadcrumb.number = locate->breadcrumbs.nodes.count + 1;
    ph__probe_add(f, &locate->breadcrumbs, stream, &node, call);
}

static void begin_scope(ph__probe_failure *f, ph_graph *graph, ph_stream *stream, const char *call)
{
    ph__locate *locate = ph__locate_get(graph);
    if (!locate || !ph__vec_reserve(&locate->scopes, 1) ||
        !ph__vec_reserve(&locate->shown, locate->scopes.count + 1)) {
        f->result = PH__R_OUT_OF_MEMORY;
        return;
    }
    ph__located_scope scope = {ph__located_path(), ph__thread_ambient.serial,
                               locate->breadcrumbs.nodes.count, SIZE_MAX};
    if (scope.path)
        add_breadcrumb(f, locate, stream, locate->scopes.count, false, call);
    else
        f->result = PH__R_OUT_OF_MEMORY;
    if (ph__probe_failed(f))
        ph__free(scope.path);
    else
        locate->scopes.at[locate->scopes.count++] = scope;
}

/* Nothing for a scope that began elsewhere. */
static void end_scope(ph__probe_failure *f, ph_graph *graph, ph_stream *stream, const char *call)
{
    ph__locate *locate = graph->locate;
    size_t i = locate ? locate->scopes.count : 0;
    while (i > 0 && locate->scopes.at[i - 1].serial != ph__thread_ambient.serial)
        i--;
    if (i == 0)
        return;
    size_t breadcrumb = locate->breadcrumbs.nodes.count;
    add_breadcrumb(f, locate, stream, i - 1, true, call);
    if (!ph__probe_failed(f))
        locate->scopes.at[i - 1].last = breadcrumb;
}

ph_status ph__locate_scope(ph__capture *capture, ph_stream *stream,
                           const ph__annotation *annotation, bool begins, const char *call)
{
    ph__probe_failure f = {PH_OK, PH__R_OK, ""};
    ph_graph *graph = capture->owner;
    bool held;
    (void)annotation; /* the path has it */
    PH_TRY(ph__marks_enter(&held, stream, call));
    pthread_mutex_lock(&stream->device->capture_lock);
    if (begins)
        begin_scope(&f, graph, stream, call);
    else
        end_scope(&f, graph, stream, call);
    pthread_mutex_unlock(&stream->device->capture_lock);
    ph__marks_leave(held);
    return ph__probe_report(&f, stream, call);
}
