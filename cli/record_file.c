/* SPDX-License-Identifier: MIT */
/* cli/record_file.c: from JSON to a record, with every field checked: what passes can be printed
 * without another look. */
#include "record_file.h"
#include "record_parts.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    VERSION = 1,
    /* as ph_record_create has it: bodies in one another, the outermost record not counted */
    DEEPEST_BODY = 31,
    MOST_ARGS = 1 << 20 /* bytes of a kernel's parameters, as ph_record_create has it */
};

/* ---- words ---- */

static ph_status read_allocation(file_word *word, const place *up, json_t *object)
{
    json_t *allocation = json_object_get(object, "allocation");
    place at = {.up = up, .key = "allocation", .index = NO_INDEX, .path = up->path};
    if (!allocation)
        return bad_field(up, "allocation", "is missing");
    if (json_is_null(allocation))
        return PH_OK;
    PH_TRY(get_object(&allocation, &at, allocation));
    PH_TRY(get_hex(&word->base, &at, allocation, "base"));
    PH_TRY(get_u64(&word->bytes, &at, allocation, "bytes", INT64_MAX));
    PH_TRY(get_u64(&word->base_offset, &at, allocation, "offset", INT64_MAX));
    PH_TRY(get_u64(&word->generation, &at, allocation, "generation", INT64_MAX));
    PH_TRY(get_u64s(word->pool, 2, &at, allocation, "pool", INT64_MAX));
    PH_TRY(get_bool(&word->pinned, &at, allocation, "pinned"));
    if (json_object_get(allocation, "foreign"))
        PH_TRY(get_bool(&word->foreign, &at, allocation, "foreign"));
    word->has_allocation = true;
    return PH_OK;
}

/* Behind the word before it, and inside a kernel's parameters. */
static ph_status check_offset(const file_node *node, const file_word *word, const place *at)
{
    if (node->kind == PH_NODE_KERNEL && word->offset >= node->args_size)
        return bad_field(at, "offset",
                         "is %" PRIu64 ", but there %s %" PRIu64 " byte%s of parameters",
                         word->offset, node->args_size == 1 ? "is" : "are", node->args_size,
                         node->args_size == 1 ? "" : "s");
    if (word > node->words && word->offset <= word[-1].offset)
        return bad_field(at, "offset",
                         "is %" PRIu64 ", not above that of the word before it, %" PRIu64,
                         word->offset, word[-1].offset);
    return PH_OK;
}

static ph_status read_word(file_word *word, const place *at, json_t *object)
{
    char shown[SHOWN_TEXT];
    PH_TRY(get_object(&object, at, object));
    PH_TRY(get_string(&word->name, at, object, "name"));
    PH_TRY(get_u64(&word->offset, at, object, "offset", INT64_MAX));
    PH_TRY(get_string(&word->kind, at, object, "kind"));
    if (strcmp(word->kind, "value") != 0 && strcmp(word->kind, "suspected") != 0 &&
        strcmp(word->kind, "proved") != 0)
        return bad_field(at, "kind", "is \"%s\", expected value, suspected or proved",
                         show_text(shown, word->kind));
    PH_TRY(get_hex(&word->value, at, object, "value"));
    PH_TRY(get_bool(&word->internal, at, object, "internal"));
    return read_allocation(word, at, object);
}

static ph_status read_words(file_node *node, const place *at, json_t *object)
{
    json_t *array;
    PH_TRY(get_array(&array, at, object, "words"));
    size_t count = json_array_size(array);
    node->words = calloc(count + 1, sizeof *node->words);
    if (!node->words)
        return record_no_memory(at);
    for (; node->word_count < count; node->word_count++) {
        place here = {.up = at, .key = "words", .index = node->word_count, .path = at->path};
        file_word *word = &node->words[node->word_count];
        PH_TRY(read_word(word, &here, json_array_get(array, node->word_count)));
        PH_TRY(check_offset(node, word, &here));
    }
    return PH_OK;
}

/* ---- nodes ---- */

static ph_status read_kind(file_node *node, const place *at, json_t *object)
{
    char shown[SHOWN_TEXT];
    PH_TRY(get_string(&node->kind_name, at, object, "kind"));
    for (int kind = PH_NODE_KERNEL; kind <= PH_NODE_CONDITIONAL; kind++) {
        node->kind = (ph_node_kind)kind;
        if (strcmp(node->kind_name, ph_node_kind_name(node->kind)) == 0)
            return PH_OK;
    }
    return bad_field(at, "kind", "is \"%s\", which is no kind of node",
                     show_text(shown, node->kind_name));
}

static ph_status read_dims(uint32_t dims[3], const place *at, json_t *object, const char *key)
{
    uint64_t wide[3];
    PH_TRY(get_u64s(wide, 3, at, object, key, UINT32_MAX));
    for (size_t i = 0; i < 3; i++)
        dims[i] = (uint32_t)wide[i];
    return PH_OK;
}

static ph_status read_parameters(file_node *node, const place *at, json_t *object)
{
    if (node->kind == PH_NODE_KERNEL) {
        PH_TRY(read_dims(node->grid, at, object, "grid"));
        PH_TRY(read_dims(node->block, at, object, "block"));
        PH_TRY(get_u64(&node->shared_bytes, at, object, "shared_bytes", INT64_MAX));
        return get_u64(&node->args_size, at, object, "args_size", MOST_ARGS);
    }
    if (node->kind == PH_NODE_MEMCPY || node->kind == PH_NODE_MEMSET) {
        PH_TRY(get_hex(&node->dst, at, object, "dst"));
        PH_TRY(get_u64(&node->bytes, at, object, "bytes", INT64_MAX));
    }
    if (node->kind == PH_NODE_MEM_ALLOC || node->kind == PH_NODE_MEM_FREE)
        PH_TRY(get_hex(&node->dst, at, object, "dst"));
    if (node->kind == PH_NODE_MEM_ALLOC)
        return get_u64(&node->bytes, at, object, "bytes", INT64_MAX);
    if (node->kind == PH_NODE_MEMCPY)
        return get_hex(&node->src, at, object, "src");
    if (node->kind == PH_NODE_MEMSET) {
        PH_TRY(get_u64(&node->value, at, object, "value", UINT32_MAX));
        PH_TRY(get_u64(&node->value_size, at, object, "value_size", UINT32_MAX));
        if (node->value_size != 1 && node->value_size != 2 && node->value_size != 4)
            return bad_field(at, "value_size", "is %" PRIu64 ", expected 1, 2 or 4",
                             node->value_size);
    }
    return PH_OK;
}

/* Nodes come behind all that they depend on. */
static ph_status check_side(const place *here, json_int_t number, size_t node, size_t count,
                            bool before)
{
    if (number < 0 || (uint64_t)number >= count)
        return bad_field(here, NULL, "is %" JSON_INTEGER_FORMAT ", but there %s %zu node%s", number,
                         count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
    if (before && (uint64_t)number >= node)
        return bad_field(here, NULL,
                         "is %" JSON_INTEGER_FORMAT
                         ", but a node depends only on nodes before it (this is node %zu)",
                         number, node);
    if (!before && (uint64_t)number <= node)
        return bad_field(here, NULL,
                         "is %" JSON_INTEGER_FORMAT
                         ", but only nodes behind a node depend on it (this is node %zu)",
                         number, node);
    return PH_OK;
}

/* Ascending indices of other nodes, before this one or behind it. */
static ph_status read_indices(size_t **out, size_t *out_count, const place *at, json_t *object,
                              const char *key, size_t count, bool before)
{
    json_t *array;
    PH_TRY(get_array(&array, at, object, key));
    *out_count = json_array_size(array);
    *out = calloc(*out_count + 1, sizeof **out);
    if (!*out)
        return record_no_memory(at);
    for (size_t i = 0; i < *out_count; i++) {
        place here = {.up = at, .key = key, .index = i, .path = at->path};
        const json_t *value = json_array_get(array, i);
        if (!json_is_integer(value))
            return bad_field(&here, NULL, "is no whole number");
        PH_TRY(check_side(&here, json_integer_value(value), at->index, count, before));
        (*out)[i] = (size_t)json_integer_value(value);
        if (i > 0 && (*out)[i] <= (*out)[i - 1])
            return bad_field(&here, NULL, "is %zu, not above the one before it", (*out)[i]);
    }
    return PH_OK;
}

/* There only where a dependency is not full. */
static ph_status read_edge_kinds(file_node *node, const place *at, json_t *object)
{
    json_t *array;
    if (!json_object_get(object, "dependency_kinds"))
        return PH_OK;
    PH_TRY(get_array(&array, at, object, "dependency_kinds"));
    if (json_array_size(array) != node->dependency_count)
        return bad_field(at, "dependency_kinds", "has not one entry for each dependency");
    node->programmatic = calloc(node->dependency_count + 1, sizeof *node->programmatic);
    if (!node->programmatic)
        return record_no_memory(at);
    for (size_t d = 0; d < node->dependency_count; d++) {
        place here = {.up = at, .key = "dependency_kinds", .index = d, .path = at->path};
        const char *kind = json_string_value(json_array_get(array, d));
        node->programmatic[d] = kind && strcmp(kind, "programmatic") == 0;
        if (!node->programmatic[d] && (!kind || strcmp(kind, "full") != 0))
            return bad_field(&here, NULL, "is neither full nor programmatic");
    }
    return PH_OK;
}

static ph_status read_record(file_record *record, const place *at, json_t *object, int depth);

static ph_status read_body(file_node *node, const place *up, json_t *object, int depth)
{
    json_t *body = json_object_get(object, "body");
    place at = {.up = up, .key = "body", .index = NO_INDEX, .path = up->path};
    if (!body)
        return PH_OK;
    if (node->kind != PH_NODE_GRAPH)
        return bad_field(&at, NULL, "belongs to a graph node only");
    if (depth == DEEPEST_BODY)
        return bad_field(&at, NULL, "bodies are nested deeper than %d", DEEPEST_BODY);
    node->body = calloc(1, sizeof *node->body);
    return node->body ? read_record(node->body, &at, body, depth + 1) : record_no_memory(&at);
}

static ph_status read_node(file_node *node, const place *at, json_t *object, size_t count,
                           int depth)
{
    uint64_t index;
    PH_TRY(get_object(&object, at, object));
    PH_TRY(get_u64(&index, at, object, "index", INT64_MAX));
    if (index != at->index)
        return bad_field(at, "index", "is %llu, expected the place in the list",
                         (unsigned long long)index);
    PH_TRY(read_kind(node, at, object));
    PH_TRY(get_string(&node->name, at, object, "name"));
    if (json_object_get(object, "demangled"))
        PH_TRY(get_string(&node->demangled, at, object, "demangled"));
    if (json_object_get(object, "made_for"))
        PH_TRY(get_string(&node->made_for, at, object, "made_for"));
    PH_TRY(read_parameters(node, at, object));
    PH_TRY(read_indices(&node->dependencies, &node->dependency_count, at, object, "dependencies",
                        count, true));
    PH_TRY(read_edge_kinds(node, at, object));
    PH_TRY(read_indices(&node->dependents, &node->dependent_count, at, object, "dependents", count,
                        false));
    PH_TRY(read_words(node, at, object));
    if (node->kind == PH_NODE_KERNEL)
        PH_TRY(record_check_args(node, at, object));
    PH_TRY(record_read_annotation(node, at, object));
    PH_TRY(record_read_times(node, at, object));
    return read_body(node, at, object, depth);
}

/* ---- records ---- */

static ph_status no_such_edge(const place *at, size_t node, const char *key, size_t other)
{
    place here = {.up = at, .key = "nodes", .index = node, .path = at->path};
    return bad_field(&here, key, "disagrees with node %zu", other);
}

/* Each edge is said twice; walking up the nodes meets the dependents of each in their own order. */
static ph_status check_edges(const file_record *record, const place *at, size_t *met)
{
    size_t edges = 0;
    for (size_t n = 0; n < record->node_count; n++) {
        const file_node *node = &record->nodes[n];
        edges += node->dependency_count;
        for (size_t d = 0; d < node->dependency_count; d++) {
            size_t from = node->dependencies[d];
            const file_node *other = &record->nodes[from];
            if (met[from] == other->dependent_count || other->dependents[met[from]] != n)
                return no_such_edge(at, n, "dependencies", from);
            met[from]++;
        }
    }
    for (size_t n = 0; n < record->node_count; n++)
        if (met[n] != record->nodes[n].dependent_count)
            return no_such_edge(at, n, "dependents", record->nodes[n].dependents[met[n]]);
    if (edges != record->edge_count)
        return bad_field(at, "edge_count", "is %zu, but there %s %zu edge%s", record->edge_count,
                         edges == 1 ? "is" : "are", edges, edges == 1 ? "" : "s");
    return PH_OK;
}

/* A file that was never meant to be a record, rather than one with a fault. */
static ph_status check_is_record(const char *path, const json_t *json)
{
    if (!json_is_object(json))
        return ph_fail(PH_ERROR_IO, "%s is no phonograph record: it is no object", path);
    if (!json_object_get(json, "format") && json_object_get(json, "traceEvents"))
        return ph_fail(PH_ERROR_IO,
                       "%s is no phonograph record: it looks like ph_profile_dump_trace's, a trace "
                       "for Perfetto; "
                       "this command wants ph_profile_dump_record's",
                       path);
    if (!json_object_get(json, "format"))
        return ph_fail(PH_ERROR_IO, "%s is no phonograph record: it has no \"format\"", path);
    return PH_OK;
}

static ph_status read_header(const place *at, json_t *object, uint64_t *nodes, uint64_t *edges)
{
    char shown[SHOWN_TEXT];
    const char *format;
    uint64_t version;
    PH_TRY(get_string(&format, at, object, "format"));
    if (strcmp(format, "phonograph.record") != 0)
        return bad_field(at, "format", "is \"%s\", expected \"phonograph.record\"",
                         show_text(shown, format));
    PH_TRY(get_u64(&version, at, object, "version", INT64_MAX));
    if (version != VERSION)
        return ph_fail(PH_ERROR_UNSUPPORTED,
                       "%s: a record of version %llu; this command reads version %d", at->path,
                       (unsigned long long)version, VERSION);
    PH_TRY(get_u64(nodes, at, object, "node_count", INT64_MAX));
    return get_u64(edges, at, object, "edge_count", INT64_MAX);
}

static ph_status read_record(file_record *record, const place *at, json_t *object, int depth)
{
    json_t *array;
    uint64_t count, edges;
    PH_TRY(get_object(&object, at, object));
    PH_TRY(read_header(at, object, &count, &edges));
    PH_TRY(get_array(&array, at, object, "nodes"));
    if (json_array_size(array) != count)
        return bad_field(at, "node_count", "is %llu, but there %s %zu node%s",
                         (unsigned long long)count, json_array_size(array) == 1 ? "is" : "are",
                         json_array_size(array), json_array_size(array) == 1 ? "" : "s");
    record->edge_count = (size_t)edges;
    record->nodes = calloc((size_t)count + 1, sizeof *record->nodes);
    if (!record->nodes)
        return record_no_memory(at);
    record->node_count = (size_t)count;
    for (size_t n = 0; n < count; n++) {
        place here = {.up = at, .key = "nodes", .index = n, .path = at->path};
        PH_TRY(read_node(&record->nodes[n], &here, json_array_get(array, n), (size_t)count, depth));
    }
    PH_TRY(record_read_origin(record, at, object));
    PH_TRY(record_read_verdict(record, at, object));
    PH_TRY(record_read_races(record, at, object));
    PH_TRY(record_check_summary(at, object, (size_t)count));
    PH_TRY(record_check_blocks(at, object));
    size_t *met = calloc((size_t)count + 1, sizeof *met);
    ph_status st = met ? check_edges(record, at, met) : record_no_memory(at);
    free(met);
    return st;
}

ph_status file_record_read(file_record **out, const char *path)
{
    return file_record_read_some(out, path, NULL);
}

ph_status file_record_read_some(file_record **out, const char *path, cut *bounds)
{
    place at = {.index = NO_INDEX, .path = load_name(path)};
    json_t *json;
    bool fits = true;
    *out = NULL;
    PH_TRY(load_json(&json, path, bounds));
    if (bounds && cut_is_short(bounds))
        fits = record_fit_to_cut(json, bounds);
    file_record *record = fits ? calloc(1, sizeof *record) : NULL;
    if (!record) {
        json_decref(json);
        return record_no_memory(&at);
    }
    record->json = json;
    ph_status st = check_is_record(at.path, json);
    if (st == PH_OK)
        st = read_record(record, &at, json, 0);
    if (st == PH_OK)
        *out = record;
    else
        file_record_free(record);
    return st;
}

void file_record_free(file_record *record)
{
    if (!record)
        return;
    for (size_t n = 0; n < record->node_count; n++) {
        file_node *node = &record->nodes[n];
        free(node->dependencies);
        free(node->dependents);
        free(node->programmatic);
        free(node->words);
        free(node->annotation);
        file_record_free(node->body);
    }
    free(record->nodes);
    free(record->races.at);
    json_decref(record->json);
    free(record);
}
