/* SPDX-License-Identifier: MIT */
/* device/annotate/imported.c: the marks of a graph whose scopes other code has kept. */
#include "device/annotate/imported.h"
#include "base/alloc.h"
#include "base/option.h"
#include "device/annotate/pairs.h"

static ph_status check_scopes(const ph_import_scopes *scopes, size_t node_count, const char *call)
{
    if (!PH__RESERVED_OK(scopes))
        return ph__fail_reserved(call, "ph_import_scopes");
    if (scopes->at == NULL && scopes->count)
        return ph__fail_null(call, "scopes->at");
    for (size_t i = 0; i < scopes->count; i++) {
        const ph_import_scope *scope = &scopes->at[i];
        if (scope->first_node >= node_count)
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: scope %zu begins at node %zu, and the graph has %zu; count the "
                           "nodes of this graph as cuGraphGetNodes lists them",
                           call, i, scope->first_node, node_count);
        if (i > 0 && scope->first_node <= scopes->at[i - 1].first_node)
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: scope %zu begins at node %zu, and the one before it at node %zu; "
                           "sort them, with one for each first node",
                           call, i, scope->first_node, scopes->at[i - 1].first_node);
        PH_TRY(ph__pairs_check(scope->pairs, scope->count, NULL, call));
    }
    return PH_OK;
}

static ph_status add_mark(ph__marks *marks, const ph_import_scope *scope, const char *call)
{
    const ph__pairs pairs = {scope->pairs, scope->count};
    ph__mark_at mark = {.from = scope->first_node};
    PH_TRY(ph__annotation_make(&mark.annotation, &pairs, 1, call));
    if (ph__vec_push(&marks->changes, mark))
        return PH_OK;
    ph__annotation_release(mark.annotation);
    return ph__fail_host_memory(call, "the annotations of the graph");
}

ph_status ph__marks_import(ph__marks **out, const ph_import_scopes *scopes, size_t node_count,
                           const char *call)
{
    *out = NULL;
    if (scopes == NULL || scopes->count == 0)
        return scopes && !PH__RESERVED_OK(scopes) ? ph__fail_reserved(call, "ph_import_scopes")
                                                  : PH_OK;
    PH_TRY(check_scopes(scopes, node_count, call));
    ph__marks *marks = ph__calloc(1, sizeof *marks);
    if (marks == NULL)
        return ph__fail_host_memory(call, "the annotations of the graph");
    atomic_init(&marks->references, 1);
    marks->resolved = true;
    ph_status status = PH_OK;
    for (size_t i = 0; i < scopes->count && status == PH_OK; i++)
        status = add_mark(marks, &scopes->at[i], call);
    if (status == PH_OK)
        *out = marks;
    else
        ph__marks_release(marks);
    return status;
}
