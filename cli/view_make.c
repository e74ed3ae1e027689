/* SPDX-License-Identifier: MIT */
/* cli/view_make.c: from a record and its bodies to one list of nodes, with annotations and
 * blocks, each once. */
#include "record_parts.h"
#include "view.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

ph_status view_no_memory(const view *v)
{
    return ph_fail(PH_ERROR_HOST_MEMORY, "%s: no memory to show it", v->path);
}

static size_t count_nodes(const file_record *record)
{
    size_t count = record->node_count;
    for (size_t n = 0; n < record->node_count; n++)
        if (record->nodes[n].body)
            count += count_nodes(record->nodes[n].body);
    return count;
}

/* ---- annotations ---- */

/* seen: the text of each annotation that was met, and its number. */
static ph_status read_annotation(view *v, view_node *node, json_t *seen)
{
    json_t *annotation = json_object_get(node->json, "annotation");
    if (node->file->annotation_count == 0)
        return PH_OK;
    char *text = json_dumps(annotation, JSON_COMPACT);
    if (!text)
        return view_no_memory(v);
    json_t *number = json_object_get(seen, text);
    bool good = true;
    node->annotation =
        number ? (size_t)json_integer_value(number) : json_array_size(v->annotations);
    if (!number)
        good = json_array_append(v->annotations, annotation) == 0 &&
               json_object_set_new(seen, text, json_integer((json_int_t)node->annotation)) == 0;
    free(text);
    return good ? PH_OK : view_no_memory(v);
}

/* ---- times ---- */

/* Only what the page knows is passed on; the reader has checked it. */
static ph_status read_summary(view *v, json_t *record)
{
    json_t *summary = json_object_get(record, "profile");
    if (!json_is_object(summary))
        return PH_OK;
    v->profile = json_object();
    bool good = v->profile != NULL;
    for (size_t i = 0; i < record_summary_number_count; i++) {
        json_t *number = json_object_get(summary, record_summary_numbers[i]);
        good = good &&
               (!number || json_object_set(v->profile, record_summary_numbers[i], number) == 0);
    }
    json_t *source = json_object_get(summary, "source");
    good = good && (!source || json_object_set(v->profile, "source", source) == 0);
    return good ? PH_OK : view_no_memory(v);
}

/* ---- memory ---- */

static ph_status read_block(view *v, const json_t *object, json_t *seen)
{
    uint64_t base = strtoull(json_string_value(json_object_get(object, "base")), NULL, 16);
    uint64_t bytes = (uint64_t)json_integer_value(json_object_get(object, "bytes"));
    char key[64];
    (void)snprintf(key, sizeof key, "0x%" PRIx64 " %" PRIu64, base, bytes);
    if (json_object_get(seen, key))
        return PH_OK;
    bool good = json_object_set_new(seen, key, json_null()) == 0;
    *strchr(key, ' ') = '\0';
    json_t *block = json_pack("[s, I]", key, (json_int_t)bytes);
    return good && json_array_append_new(v->blocks, block) == 0 ? PH_OK : view_no_memory(v);
}

/* There in the records of captures alone. */
static ph_status read_blocks(view *v, const json_t *record, json_t *seen)
{
    const json_t *array = json_object_get(record, "blocks");
    v->blocks = json_array();
    if (!v->blocks)
        return view_no_memory(v);
    for (size_t i = 0; i < json_array_size(array); i++)
        PH_TRY(read_block(v, json_array_get(array, i), seen));
    return PH_OK;
}

/* ---- the list ---- */

static ph_status add_nodes(view *v, const file_record *record, json_t *object, size_t parent,
                           json_t *seen)
{
    json_t *array = json_object_get(object, "nodes");
    size_t base = v->count;
    v->count += record->node_count;
    for (size_t n = 0; n < record->node_count; n++) {
        view_node *node = &v->nodes[base + n];
        *node = (view_node){.file = &record->nodes[n],
                            .json = json_array_get(array, n),
                            .base = base,
                            .parent = parent,
                            .annotation = VIEW_NONE};
        PH_TRY(read_annotation(v, node, seen));
    }
    for (size_t n = 0; n < record->node_count; n++)
        if (record->nodes[n].body)
            PH_TRY(add_nodes(v, record->nodes[n].body,
                             json_object_get(v->nodes[base + n].json, "body"), base + n, seen));
    return PH_OK;
}

static bool any_times(const view *v)
{
    for (size_t n = 0; n < v->count; n++)
        if (v->nodes[n].file->measured)
            return true;
    return false;
}

static size_t count_edges(const view *v)
{
    size_t edges = 0, from;
    bool programmatic;
    for (size_t n = 0; n < v->count; n++)
        for (size_t i = 0; view_edge(&from, &programmatic, v, n, i); i++)
            edges++;
    return edges;
}

ph_status view_make(view *v, file_record *record, const char *path)
{
    *v = (view){.record = record, .path = path};
    v->nodes = calloc(count_nodes(record) + 1, sizeof *v->nodes);
    v->annotations = json_array();
    json_t *seen = json_object(), *blocks = json_object();
    ph_status st = v->nodes && v->annotations && seen && blocks ? PH_OK : view_no_memory(v);
    v->outer = record->node_count;
    if (st == PH_OK)
        st = read_summary(v, record->json);
    if (st == PH_OK)
        st = read_blocks(v, record->json, blocks);
    if (st == PH_OK)
        st = add_nodes(v, record, record->json, VIEW_NONE, seen);
    json_decref(seen);
    json_decref(blocks);
    PH_TRY(st);
    if (!v->profile && any_times(v) && !(v->profile = json_object()))
        return view_no_memory(v);
    v->edge_count = count_edges(v);
    return view_group(v);
}

void view_free(view *v)
{
    view_groups_free(v);
    free(v->nodes);
    json_decref(v->annotations);
    json_decref(v->blocks);
    json_decref(v->profile);
    file_record_free(v->record);
}
