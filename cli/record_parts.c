/* SPDX-License-Identifier: MIT */
/* cli/record_parts.c: what only some records or nodes have: annotations, times, blocks,
 * parameters as text. */
#include "record_parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_PAIRS = 1000 /* of an annotation, as ph_record_create has it */
};

const char *const record_summary_numbers[] = {"replays", "lane_count", "replay_ns",  "busy_ns",
                                              "idle_ns", "work_ns",    "critical_ns"};
const size_t record_summary_number_count =
    sizeof record_summary_numbers / sizeof record_summary_numbers[0];

ph_status record_no_memory(const place *at)
{
    return ph_fail(PH_ERROR_HOST_MEMORY, "%s: no memory to read it", at->path);
}

/* ---- annotations ---- */

static ph_status read_pair(ph_annotation_pair *pair, const place *at, const char *key,
                           const json_t *value)
{
    char shown[SHOWN_TEXT];
    pair->key = key;
    if (json_is_string(value)) {
        pair->text = json_string_value(value);
    } else if (json_is_integer(value)) {
        pair->type = PH_ANNOTATION_INTEGER;
        pair->integer = json_integer_value(value);
    } else if (json_is_real(value) || json_is_null(value)) { /* null: a real that is no number */
        pair->type = PH_ANNOTATION_REAL;
        pair->real = json_is_null(value) ? NAN : json_real_value(value);
    } else if (json_is_boolean(value)) {
        pair->type = PH_ANNOTATION_BOOL;
        pair->boolean = json_is_true(value);
    } else {
        return bad_field(at, NULL, "\"%s\" is neither text nor number, true nor false",
                         show_text(shown, key));
    }
    return key[0] ? PH_OK : bad_field(at, NULL, "has a key without a name");
}

/* There only where the node lies in a scope. */
ph_status record_read_annotation(file_node *node, const place *up, json_t *object)
{
    json_t *annotation = json_object_get(object, "annotation"), *value;
    place at = {.up = up, .key = "annotation", .index = NO_INDEX, .path = up->path};
    const char *key;
    if (!annotation)
        return PH_OK;
    PH_TRY(get_object(&annotation, &at, annotation));
    if (json_object_size(annotation) > MOST_PAIRS)
        return bad_field(&at, NULL, "has %zu pairs; at most %d are read",
                         json_object_size(annotation), MOST_PAIRS);
    node->annotation = calloc(json_object_size(annotation) + 1, sizeof *node->annotation);
    if (!node->annotation)
        return record_no_memory(&at);
    json_object_foreach(annotation, key, value)
    {
        PH_TRY(read_pair(&node->annotation[node->annotation_count], &at, key, value));
        node->annotation_count++;
    }
    return PH_OK;
}

/* ---- times, blocks, parameters ---- */

ph_status record_read_times(file_node *node, const place *up, json_t *object)
{
    json_t *times = json_object_get(object, "profile");
    place at = {.up = up, .key = "profile", .index = NO_INDEX, .path = up->path};
    if (!times || json_is_null(times))
        return PH_OK;
    PH_TRY(get_object(&times, &at, times));
    node->measured = true;
    PH_TRY(get_u64(&node->start_ns, &at, times, "start_ns", RECORD_MOST_EXACT));
    PH_TRY(get_u64(&node->run_ns, &at, times, "run_ns", RECORD_MOST_EXACT));
    PH_TRY(get_u64(&node->median_ns, &at, times, "median_ns", RECORD_MOST_EXACT));
    PH_TRY(get_u64(&node->least_ns, &at, times, "least_ns", RECORD_MOST_EXACT));
    PH_TRY(get_u64(&node->most_ns, &at, times, "most_ns", RECORD_MOST_EXACT));
    PH_TRY(get_u64(&node->slack_ns, &at, times, "slack_ns", RECORD_MOST_EXACT));
    PH_TRY(get_u64(&node->lane, &at, times, "lane", UINT32_MAX));
    return get_bool(&node->critical, &at, times, "critical");
}

/* Indices, each behind the one before it, as dependencies have it. */
static ph_status check_path(const place *at, json_t *summary, size_t nodes)
{
    json_t *array;
    if (!json_object_get(summary, "critical_path"))
        return PH_OK;
    PH_TRY(get_array(&array, at, summary, "critical_path"));
    json_int_t before = -1;
    for (size_t i = 0; i < json_array_size(array); i++) {
        place here = {.up = at, .key = "critical_path", .index = i, .path = at->path};
        const json_t *value = json_array_get(array, i);
        json_int_t node = json_integer_value(value);
        if (!json_is_integer(value))
            return bad_field(&here, NULL, "is no whole number");
        if (node < 0 || (uint64_t)node >= nodes)
            return bad_field(&here, NULL, "is %" JSON_INTEGER_FORMAT ", but there %s %zu node%s",
                             node, nodes == 1 ? "is" : "are", nodes, nodes == 1 ? "" : "s");
        if (node <= before)
            return bad_field(&here, NULL,
                             "is %" JSON_INTEGER_FORMAT ", not above the one before it", node);
        before = node;
    }
    return PH_OK;
}

ph_status record_check_summary(const place *up, json_t *object, size_t nodes)
{
    json_t *summary = json_object_get(object, "profile");
    place at = {.up = up, .key = "profile", .index = NO_INDEX, .path = up->path};
    const char *source;
    uint64_t number;
    if (!summary || json_is_null(summary))
        return PH_OK;
    PH_TRY(get_object(&summary, &at, summary));
    for (size_t i = 0; i < record_summary_number_count; i++)
        if (json_object_get(summary, record_summary_numbers[i]))
            PH_TRY(get_u64(&number, &at, summary, record_summary_numbers[i], RECORD_MOST_EXACT));
    if (json_object_get(summary, "source"))
        PH_TRY(get_string(&source, &at, summary, "source"));
    return check_path(&at, summary, nodes);
}

ph_status record_read_origin(file_record *record, const place *up, json_t *object)
{
    json_t *origin = json_object_get(object, "origin");
    place at = {.up = up, .key = "origin", .index = NO_INDEX, .path = up->path};
    file_origin *to = &record->origin;
    const struct {
        const char *key, **text;
    } fields[] = {{"program", &to->program},
                  {"graph", &to->graph},
                  {"date", &to->date},
                  {"device", &to->device},
                  {"description", &to->description},
                  {"driver", &to->driver},
                  {"library", &to->library},
                  {"driver_version", &to->driver_version}};
    if (!origin || json_is_null(origin))
        return PH_OK;
    PH_TRY(get_object(&origin, &at, origin));
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (json_object_get(origin, fields[i].key))
            PH_TRY(get_string(fields[i].text, &at, origin, fields[i].key));
    return PH_OK;
}

ph_status record_read_verdict(file_record *record, const place *up, json_t *object)
{
    json_t *verdict = json_object_get(object, "verdict");
    place at = {.up = up, .key = "verdict", .index = NO_INDEX, .path = up->path};
    if (!verdict || json_is_null(verdict))
        return PH_OK;
    PH_TRY(get_object(&verdict, &at, verdict));
    PH_TRY(get_bool(&record->worth, &at, verdict, "worth"));
    return get_string(&record->verdict, &at, verdict, "sentence");
}

static ph_status read_race(file_race *race, const place *at, json_t *object, size_t nodes)
{
    uint64_t first, second;
    const uint64_t most = nodes ? nodes - 1 : 0;
    PH_TRY(get_object(&object, at, object));
    PH_TRY(get_bool(&race->certain, at, object, "certain"));
    PH_TRY(get_u64(&second, at, object, "second", most));
    PH_TRY(get_u64(&first, at, object, "first", second));
    PH_TRY(get_string(&race->text, at, object, "text"));
    race->first = (size_t)first;
    race->second = (size_t)second;
    return nodes ? PH_OK : bad_field(at, NULL, "is a race, but there are no nodes");
}

ph_status record_read_races(file_record *record, const place *up, json_t *object)
{
    json_t *races = json_object_get(object, "races"), *array;
    place at = {.up = up, .key = "races", .index = NO_INDEX, .path = up->path};
    file_races *to = &record->races;
    if (!races || json_is_null(races))
        return PH_OK;
    PH_TRY(get_object(&races, &at, races));
    PH_TRY(get_u64(&to->certain, &at, races, "certain", RECORD_MOST_EXACT));
    PH_TRY(get_u64(&to->possible, &at, races, "possible", RECORD_MOST_EXACT));
    PH_TRY(get_u64(&to->found, &at, races, "found", RECORD_MOST_EXACT));
    PH_TRY(get_array(&array, &at, races, "list"));
    to->looked = true;
    to->at = calloc(json_array_size(array) + 1, sizeof *to->at);
    if (!to->at)
        return record_no_memory(&at);
    for (; to->count < json_array_size(array); to->count++) {
        place here = {.up = &at, .key = "list", .index = to->count, .path = at.path};
        PH_TRY(read_race(&to->at[to->count], &here, json_array_get(array, to->count),
                         record->node_count));
    }
    return PH_OK;
}

ph_status record_check_blocks(const place *up, json_t *object)
{
    json_t *array;
    uint64_t number;
    if (!json_object_get(object, "blocks"))
        return PH_OK;
    PH_TRY(get_array(&array, up, object, "blocks"));
    for (size_t i = 0; i < json_array_size(array); i++) {
        place at = {.up = up, .key = "blocks", .index = i, .path = up->path};
        json_t *block;
        PH_TRY(get_object(&block, &at, json_array_get(array, i)));
        PH_TRY(get_hex(&number, &at, block, "base"));
        PH_TRY(get_u64(&number, &at, block, "bytes", RECORD_MOST_EXACT));
    }
    return PH_OK;
}

ph_status record_check_args(const file_node *node, const place *at, json_t *object)
{
    const char *text;
    if (!json_object_get(object, "args"))
        return PH_OK;
    PH_TRY(get_string(&text, at, object, "args"));
    size_t digits = strspn(text, "0123456789abcdefABCDEF");
    if (text[digits] != '\0')
        return bad_field(at, "args", "is no hexadecimal number from character %zu on", digits);
    if (digits != 2 * node->args_size)
        return bad_field(at, "args",
                         "has %zu digits, but there are %zu bytes of parameters, two digits each",
                         digits, (size_t)node->args_size);
    return PH_OK;
}
