/* SPDX-License-Identifier: MIT */
/* record/annotations.c: which scopes each node of a record was captured in. */
#include "record/annotations.h"
#include "base/alloc.h"
#include "record/record.h"
#include <string.h>

/* The lists of annotations between two changes: before the first, after it, and so on. Behind them
 * as many of those with the key PH__MADE_FOR in them, of which made_for is borrowed. */
static ph_status make_list(const char **made_for, ph_record *record, const ph__marks *marks,
                           ph__annotation *outer, const char *call)
{
    size_t count = (marks ? marks->changes.count : 0) + 1;
    record->annotations = ph__calloc(count, 2 * sizeof(ph__annotation *));
    if (record->annotations == NULL)
        return ph__fail_host_memory(call, "the annotations of the record");
    record->annotation_count = 2 * count;
    for (size_t i = 0; i < count; i++) {
        ph__annotation *own = i > 0 ? marks->changes.at[i - 1].annotation : NULL, *both;
        PH_TRY(ph__annotation_merge(&both, outer, own, call));
        ph_status status = ph__annotation_split(&made_for[i], &record->annotations[i], both, call);
        if (status == PH_OK && made_for[i])
            record->annotations[count + i] = both;
        else
            ph__annotation_release(both);
        PH_TRY(status);
    }
    return PH_OK;
}

/* How many changes come before the node of that place. Nodes mostly ask in the order of their
 * places, so that *at is near. */
static size_t changes_before(const ph__marks *marks, size_t place, size_t *at)
{
    while (marks && *at > 0 && marks->changes.at[*at - 1].from > place)
        --*at;
    while (marks && *at < marks->changes.count && marks->changes.at[*at].from <= place)
        ++*at;
    return *at;
}

static const ph__marks *marks_of_body(const ph__marks *marks, size_t place, size_t *at)
{
    size_t count = marks ? marks->nested.count : 0;
    while (*at > 0 && marks->nested.at[*at - 1].at >= place)
        --*at;
    while (*at < count && marks->nested.at[*at].at < place)
        ++*at;
    return *at < count && marks->nested.at[*at].at == place ? marks->nested.at[*at].marks : NULL;
}

/* The node that gives cells their values serves all of the graph, wherever the first one was
 * asked for. */
static bool writes_cells(const ph__record_node *node)
{
    const ph_kernel *kernel = node->kernel;
    return kernel && (kernel == atomic_load(&kernel->device->cells_kernels[0]) ||
                      kernel == atomic_load(&kernel->device->cells_kernels[1]));
}

static ph_status annotate_nodes(ph_record *record, const ph__marks *marks,
                                const char *const *made_for, const char *call)
{
    size_t at = 0, body_at = 0;
    for (size_t i = 0; i < record->node_count; i++) {
        ph__record_node *node = &record->nodes[i];
        size_t change = changes_before(marks, node->created, &at);
        ph__annotation *annotation = record->annotations[change];
        node->annotation = writes_cells(node) ? NULL : annotation;
        node->made_for = writes_cells(node) ? NULL : made_for[change];
        if (node->info.body)
            PH_TRY(ph__record_annotate((ph_record *)(uintptr_t)node->info.body,
                                       marks_of_body(marks, node->created, &body_at), annotation,
                                       call));
    }
    return PH_OK;
}

ph_status ph__record_annotate(ph_record *record, const ph__marks *marks, ph__annotation *outer,
                              const char *call)
{
    if (marks == NULL && outer == NULL)
        return PH_OK;
    const char **made_for =
        ph__calloc((marks ? marks->changes.count : 0) + 1, sizeof(const char *));
    if (made_for == NULL)
        return ph__fail_host_memory(call, "the annotations of the record");
    ph_status status = make_list(made_for, record, marks, outer, call);
    if (status == PH_OK)
        status = annotate_nodes(record, marks, made_for, call);
    ph__free(made_for);
    return status;
}

const char *ph__record_made_for(const ph__record_node *node)
{
    static const char *const own[][2] = {{"ph_core_cells_8", "values of the cells"},
                                         {"ph_core_cells_60", "values of the cells"},
                                         {"phonograph_breadcrumb", "breadcrumb"},
                                         {"phonograph_check_finite", "check for NaN and infinity"}};
    if (node->made_for || node->info.kind != PH_NODE_KERNEL)
        return node->made_for;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strcmp(node->info.name, own[i][0]) == 0)
            return own[i][1];
    return NULL;
}

static ph_status keep_list(ph_record *to, const ph_record *from, const char *call)
{
    to->annotations = ph__calloc(from->annotation_count + 1, sizeof(ph__annotation *));
    if (to->annotations == NULL)
        return ph__fail_host_memory(call, "the annotations of the record");
    for (size_t i = 0; i < from->annotation_count; i++)
        to->annotations[i] = ph__annotation_retain(from->annotations[i]);
    to->annotation_count = from->annotation_count;
    return PH_OK;
}

/* The driver may give the handle of a destroyed node to a new one. Nodes stand in order of
 * creation, so one that was there before stands behind all that were made before it. */
typedef struct survivors {
    const ph__record_node **at; /* by place in the order of creation: what it was, or NULL */
    size_t count;
} survivors;

static bool same_kind_of_work(const ph__record_node *a, const ph__record_node *b)
{
    return a->info.kind == b->info.kind && a->kernel == b->kernel &&
           (a->info.name == NULL || b->info.name == NULL ||
            strcmp(a->info.name, b->info.name) == 0);
}

static void drop_new_nodes(survivors *s)
{
    size_t newest = 0;
    for (size_t i = 0; i < s->count; i++) {
        const ph__record_node *before = s->at[i];
        if (before && before->created < newest)
            s->at[i] = NULL;
        else if (before)
            newest = before->created;
    }
}

static bool find_survivors(survivors *out, const ph_record *to, const ph__map *nodes,
                           const ph__driver *driver)
{
    for (size_t i = 0; i < to->node_count; i++)
        if (to->nodes[i].created >= out->count)
            out->count = to->nodes[i].created + 1;
    out->at = ph__calloc(out->count + 1, sizeof *out->at);
    for (size_t i = 0; out->at && i < to->node_count; i++) {
        const ph__record_node *node = &to->nodes[i], *before;
        before = ph__map_get(nodes, (uint64_t)(uintptr_t)driver->node_native(node->handle));
        if (before && same_kind_of_work(node, before))
            out->at[node->created] = before;
    }
    if (out->at)
        drop_new_nodes(out);
    return out->at != NULL;
}

static ph_status inherit_annotations(ph_record *to, const survivors *s, const ph__driver *driver,
                                     const char *call)
{
    for (size_t i = 0; i < to->node_count; i++) {
        ph__record_node *node = &to->nodes[i];
        const ph__record_node *before = s->at[node->created];
        if (before == NULL)
            continue;
        node->annotation = before->annotation;
        node->made_for = before->made_for;
        if (node->info.body && before->info.body)
            PH_TRY(ph__record_inherit((ph_record *)(uintptr_t)node->info.body, before->info.body,
                                      driver, call));
    }
    return PH_OK;
}

ph_status ph__record_inherit(ph_record *to, const ph_record *from, const ph__driver *driver,
                             const char *call)
{
    ph__map nodes = {0};
    bool mapped = ph__map_reserve(&nodes, from->node_count);
    for (size_t i = 0; i < from->node_count && mapped; i++)
        mapped =
            ph__map_put(&nodes, (uint64_t)(uintptr_t)driver->node_native(from->nodes[i].handle),
                        (void *)(uintptr_t)&from->nodes[i]);
    ph_status status = mapped ? keep_list(to, from, call)
                              : ph__fail_host_memory(call, "the annotations of the record");
    survivors found = {0};
    if (status == PH_OK && !find_survivors(&found, to, &nodes, driver))
        status = ph__fail_host_memory(call, "the annotations of the record");
    if (status == PH_OK)
        status = inherit_annotations(to, &found, driver, call);
    ph__free(found.at);
    ph__map_free(&nodes);
    return status;
}

void ph__record_drop_annotations(ph_record *record)
{
    for (size_t i = 0; i < record->annotation_count; i++)
        ph__annotation_release(record->annotations[i]);
    ph__free(record->annotations);
    record->annotations = NULL;
    record->annotation_count = 0;
}

/* Annotations that the outer and the inner one are in are shared with others, and counted here
 * all the same. */
size_t ph__record_annotation_bytes(const ph_record *record)
{
    size_t bytes = record->annotation_count * sizeof(ph__annotation *);
    for (size_t i = 0; i < record->annotation_count; i++)
        if (record->annotations[i] &&
            (i == 0 || record->annotations[i] != record->annotations[i - 1]))
            bytes += sizeof *record->annotations[i] +
                     record->annotations[i]->count * sizeof *record->annotations[i]->pairs;
    return bytes;
}

ph_status ph_record_annotation(const ph_annotation_pair **pairs, size_t *count,
                               const ph_record *record, size_t node)
{
    static const char call[] = "ph_record_annotation";
    if (pairs == NULL)
        return ph__fail_null(call, "pairs");
    *pairs = NULL;
    if (count == NULL)
        return ph__fail_null(call, "count");
    *count = 0;
    if (record == NULL)
        return ph__fail_null(call, "record");
    if (node >= record->node_count)
        return ph_fail(PH_ERROR_NOT_FOUND,
                       "%s: node %zu does not exist; the record has %zu node%s, numbered from 0",
                       call, node, record->node_count, record->node_count == 1 ? "" : "s");
    const ph__annotation *annotation = record->nodes[node].annotation;
    *pairs = annotation ? annotation->pairs : NULL;
    *count = annotation ? annotation->count : 0;
    return PH_OK;
}
