/* SPDX-License-Identifier: MIT */
/* cli/record_cut.c: a record whose later nodes were left out, made whole in itself: its counts, and
 * no edge leads out of it. What fits no record stays, for the reader to refuse. */
#include "record_parts.h"

/* Those of a list that name nodes which are there. False: no host memory. */
static bool keep_below(json_t *owner, const char *key, size_t count)
{
    json_t *indices = json_object_get(owner, key), *index, *kept;
    size_t i;
    if (!json_is_array(indices))
        return true;
    bool good = (kept = json_array()) != NULL;
    json_array_foreach(indices, i, index)
    {
        if (!json_is_integer(index) || json_integer_value(index) < (json_int_t)count)
            good = good && json_array_append(kept, index) == 0;
    }
    return json_object_set_new(owner, key, kept) == 0 && good;
}

/* Races between nodes that are there. */
static bool keep_races(json_t *record, size_t count)
{
    json_t *races = json_object_get(record, "races"), *list = json_object_get(races, "list"), *race,
           *kept;
    size_t i;
    if (!json_is_array(list))
        return true;
    bool good = (kept = json_array()) != NULL;
    json_array_foreach(list, i, race)
    {
        const json_t *second = json_object_get(race, "second");
        if (!json_is_integer(second) || json_integer_value(second) < (json_int_t)count)
            good = good && json_array_append(kept, race) == 0;
    }
    return json_object_set_new(races, "list", kept) == 0 && good;
}

static bool fit_record(json_t *record, json_int_t nodes_before)
{
    bool good = true;
    json_t *nodes = json_object_get(record, "nodes"), *node;
    json_t *node_count = json_object_get(record, "node_count");
    size_t i, count = json_array_size(nodes), edges = 0;
    bool is_short = json_is_integer(node_count) && json_integer_value(node_count) == nodes_before &&
                    nodes_before > (json_int_t)count;
    json_array_foreach(nodes, i, node)
    {
        json_t *body = json_object_get(node, "body");
        if (is_short)
            good = keep_below(node, "dependents", count) && good;
        edges += json_array_size(json_object_get(node, "dependencies"));
        if (body)
            good =
                fit_record(body, json_integer_value(json_object_get(body, "node_count"))) && good;
    }
    if (!is_short)
        return good;
    good = keep_below(json_object_get(record, "profile"), "critical_path", count) && good;
    good = keep_races(record, count) && good;
    (void)json_integer_set(node_count, (json_int_t)count);
    (void)json_integer_set(json_object_get(record, "edge_count"), (json_int_t)edges);
    return good;
}

bool record_fit_to_cut(json_t *record, const cut *bounds)
{
    return fit_record(record, (json_int_t)bounds->outer);
}
