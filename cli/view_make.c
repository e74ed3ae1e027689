/* SPDX-License-Identifier: MIT */
/* cli/view_make.c: from a record and its bodies to one list of nodes, with annotations and times checked. */
#include "view.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What a number of JavaScript holds exactly: 104 days of nanoseconds. */
static const uint64_t most_exact = ((uint64_t)1 << 53) - 1;

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
    node->annotation = number ? (size_t)json_integer_value(number) : json_array_size(v->annotations);
    if (!number)
        good = json_array_append(v->annotations, annotation) == 0 &&
               json_object_set_new(seen, text, json_integer((json_int_t)node->annotation)) == 0;
    free(text);
    return good ? PH_OK : view_no_memory(v);
}

/* ---- times ---- */

static ph_status read_times(view_node *node, const place *up)
{
    json_t *times = json_object_get(node->json, "profile");
    place at = {.up = up, .key = "profile", .index = NO_INDEX, .path = up->path};
    if (!times || json_is_null(times))
        return PH_OK;
    PH_TRY(get_object(&times, &at, times));
    node->measured = true;
    PH_TRY(get_u64(&node->start_ns, &at, times, "start_ns", most_exact));
    PH_TRY(get_u64(&node->run_ns, &at, times, "run_ns", most_exact));
    PH_TRY(get_u64(&node->median_ns, &at, times, "median_ns", most_exact));
    PH_TRY(get_u64(&node->least_ns, &at, times, "least_ns", most_exact));
    PH_TRY(get_u64(&node->most_ns, &at, times, "most_ns", most_exact));
    PH_TRY(get_u64(&node->slack_ns, &at, times, "slack_ns", most_exact));
    PH_TRY(get_u64(&node->lane, &at, times, "lane", UINT32_MAX));
    return get_bool(&node->critical, &at, times, "critical");
}

/* Only what the page knows is passed on. */
static ph_status read_summary(view *v, const place *up, json_t *record)
{
    static const char *const numbers[] = {"replays", "lane_count", "replay_ns",  "busy_ns",
                                          "idle_ns", "work_ns",    "critical_ns"};
    json_t *summary = json_object_get(record, "profile");
    place at = {.up = up, .key = "profile", .index = NO_INDEX, .path = up->path};
    if (!summary || json_is_null(summary))
        return PH_OK;
    PH_TRY(get_object(&summary, &at, summary));
    v->profile = json_object();
    bool good = v->profile != NULL;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        uint64_t number;
        if (!json_object_get(summary, numbers[i]))
            continue;
        PH_TRY(get_u64(&number, &at, summary, numbers[i], most_exact));
        good = good && json_object_set_new(v->profile, numbers[i], json_integer((json_int_t)number)) == 0;
    }
    if (json_object_get(summary, "source")) {
        const char *source;
        PH_TRY(get_string(&source, &at, summary, "source"));
        good = good && json_object_set_new(v->profile, "source", json_string(source)) == 0;
    }
    return good ? PH_OK : view_no_memory(v);
}

/* ---- memory ---- */

static ph_status read_block(view *v, const place *at, json_t *object, json_t *seen)
{
    uint64_t base, bytes;
    char key[64];
    PH_TRY(get_object(&object, at, object));
    PH_TRY(get_hex(&base, at, object, "base"));
    PH_TRY(get_u64(&bytes, at, object, "bytes", most_exact));
    (void)snprintf(key, sizeof key, "0x%" PRIx64 " %" PRIu64, base, bytes);
    if (json_object_get(seen, key))
        return PH_OK;
    bool good = json_object_set_new(seen, key, json_null()) == 0;
    *strchr(key, ' ') = '\0';
    json_t *block = json_pack("[s, I]", key, (json_int_t)bytes);
    return good && json_array_append_new(v->blocks, block) == 0 ? PH_OK : view_no_memory(v);
}

/* There in the records of captures alone. */
static ph_status read_blocks(view *v, const place *up, json_t *record, json_t *seen)
{
    json_t *array;
    v->blocks = json_array();
    if (!v->blocks)
        return view_no_memory(v);
    if (!json_object_get(record, "blocks"))
        return PH_OK;
    PH_TRY(get_array(&array, up, record, "blocks"));
    for (size_t i = 0; i < json_array_size(array); i++) {
        place at = {.up = up, .key = "blocks", .index = i, .path = up->path};
        PH_TRY(read_block(v, &at, json_array_get(array, i), seen));
    }
    return PH_OK;
}

/* ---- the list ---- */

static ph_status add_nodes(view *v, const file_record *record, json_t *object, size_t parent, json_t *seen)
{
    json_t *array = json_object_get(object, "nodes");
    size_t base = v->count;
    v->count += record->node_count;
    for (size_t n = 0; n < record->node_count; n++) {
        place outer = {.index = NO_INDEX, .path = v->path};
        place at = {
            .up = &outer, .key = parent == VIEW_NONE ? "nodes" : "body.nodes", .index = n, .path = v->path};
        view_node *node = &v->nodes[base + n];
        *node = (view_node){.file = &record->nodes[n],
                            .json = json_array_get(array, n),
                            .base = base,
                            .parent = parent,
                            .annotation = VIEW_NONE};
        PH_TRY(read_annotation(v, node, seen));
        PH_TRY(read_times(node, &at));
    }
    for (size_t n = 0; n < record->node_count; n++)
        if (record->nodes[n].body)
            PH_TRY(add_nodes(v, record->nodes[n].body, json_object_get(v->nodes[base + n].json, "body"),
                             base + n, seen));
    return PH_OK;
}

static bool any_times(const view *v)
{
    for (size_t n = 0; n < v->count; n++)
        if (v->nodes[n].measured)
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
    place at = {.index = NO_INDEX, .path = path};
    v->nodes = calloc(count_nodes(record) + 1, sizeof *v->nodes);
    v->annotations = json_array();
    json_t *seen = json_object(), *blocks = json_object();
    ph_status st = v->nodes && v->annotations && seen && blocks ? PH_OK : view_no_memory(v);
    v->outer = record->node_count;
    if (st == PH_OK)
        st = read_summary(v, &at, record->json);
    if (st == PH_OK)
        st = read_blocks(v, &at, record->json, blocks);
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
