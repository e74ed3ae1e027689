/* SPDX-License-Identifier: MIT */
/* cli/view_groups.c: which nodes are drawn as one when they are folded: by annotation, by a key
 * of it, by order; bodies always. */
#include "view.h"
#include <stdlib.h>
#include <string.h>

enum {
    FEW_NODES = 64, /* so many without annotations are drawn one by one */
    LEAST_BLOCK = 25,
    MOST_BLOCKS = 200
};

bool view_edge(size_t *from, bool *programmatic, const view *v, size_t node, size_t i)
{
    const view_node *n = &v->nodes[node];
    *programmatic = false;
    if (i < n->file->dependency_count) {
        *from = n->base + n->file->dependencies[i];
        *programmatic = n->file->programmatic && n->file->programmatic[i];
        return true;
    }
    *from = n->parent;
    return n->file->dependency_count == 0 && i == 0 && n->parent != VIEW_NONE;
}

/* ---- making one ---- */

typedef struct maker {
    const view *v;
    view_grouping *g;
    json_t *last;  /* of each key the group that was made last */
    size_t *ranks; /* of the groups: an edge leads to a higher one, so that there is no cycle */
} maker;

static bool add_group(maker *m, const char *label, size_t rank)
{
    view_grouping *g = m->g;
    if (g->count == g->capacity) {
        size_t capacity = 2 * g->capacity + 64;
        char **labels = realloc(g->labels, capacity * sizeof *labels);
        g->labels = labels ? labels : g->labels;
        size_t *ranks = realloc(m->ranks, capacity * sizeof *ranks);
        m->ranks = ranks ? ranks : m->ranks;
        if (!labels || !ranks)
            return false;
        g->capacity = capacity;
    }
    char *copy = strdup(label);
    if (!copy)
        return false;
    g->labels[g->count] = copy;
    m->ranks[g->count++] = rank;
    return true;
}

/* Into the group of the key that was made last where no cycle comes of it, else into a new one.
 * A node without a group counts as one of its own. */
static bool place_node(maker *m, size_t node, size_t *own_ranks, const char *key, const char *label)
{
    json_t *known = key ? json_object_get(m->last, key) : NULL;
    size_t group = known ? (size_t)json_integer_value(known) : VIEW_NONE;
    size_t from, above = 0;
    bool fits = known != NULL, programmatic;
    for (size_t i = 0; view_edge(&from, &programmatic, m->v, node, i); i++) {
        size_t other = m->g->of[from];
        size_t rank = other == VIEW_NONE ? own_ranks[from] : m->ranks[other];
        above = rank + 1 > above ? rank + 1 : above;
        fits = fits && (other == group || rank < m->ranks[group]);
    }
    own_ranks[node] = above;
    m->g->of[node] = fits ? group : VIEW_NONE;
    if (fits || !key)
        return true;
    m->g->of[node] = m->g->count;
    return json_object_set_new(m->last, key, json_integer((json_int_t)m->g->count)) == 0 &&
           add_group(m, label, above);
}

/* text: malloc'd; VIEW_NONE names a key of none. */
typedef bool (*name_group)(char **key, char **label, const view *v, size_t node, const char *by);

static char *text_of_body(const view *v, size_t node)
{
    size_t parent = v->nodes[node].parent;
    char *text = NULL;
    if (asprintf(&text, "body of %zu: %s", parent, v->nodes[parent].file->name) < 0)
        return NULL;
    return text;
}

static ph_status make(view *v, const char *kind, const char *by, name_group name)
{
    view_grouping *g = &v->groupings[v->grouping_count];
    maker m = {.v = v, .g = g, .last = json_object()};
    size_t *own_ranks = calloc(v->count + 1, sizeof *own_ranks);
    *g = (view_grouping){.kind = kind, .by = strdup(by), .of = calloc(v->count + 1, sizeof *g->of)};
    v->grouping_count++;
    bool good = m.last && own_ranks && g->by && g->of;
    for (size_t n = 0; n < v->count && good; n++) {
        char *key = NULL, *label = NULL;
        if (v->nodes[n].parent != VIEW_NONE) {
            label = text_of_body(v, n);
            good = label != NULL && asprintf(&key, "body %zu", v->nodes[n].parent) >= 0;
        } else
            good = name(&key, &label, v, n, by);
        good = good && place_node(&m, n, own_ranks, key, label);
        free(key);
        free(label);
    }
    json_decref(m.last);
    free(m.ranks);
    free(own_ranks);
    return good ? PH_OK : view_no_memory(v);
}

/* ---- what they are called ---- */

/* null: a real that is no number (docs/reference/record.md). */
static char *text_of_value(const json_t *value)
{
    if (json_is_string(value) || json_is_null(value))
        return strdup(json_is_null(value) ? "NaN" : json_string_value(value));
    return json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
}

/* Backward, of what forward is not told of; NULL: no such phase. */
static const char *phase_of(const json_t *annotation)
{
    const char *phase = json_string_value(json_object_get(annotation, "autograd_phase"));
    return phase && strcmp(phase, "forward") != 0 ? phase : NULL;
}

/* "block1 (backward), layer=3": the name first, with its phase, then the other pairs. The page says
 * the same (data.js). */
static char *text_of_annotation(json_t *annotation)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    const char *key, *name = json_string_value(json_object_get(annotation, "name"));
    const char *phase = name ? phase_of(annotation) : NULL;
    bool phased = name && json_is_string(json_object_get(annotation, "autograd_phase"));
    json_t *value;
    if (!out)
        return NULL;
    if (name)
        (void)fprintf(out, "%s%s%s%s", name, phase ? " (" : "", phase ? phase : "",
                      phase ? ")" : "");
    json_object_foreach(annotation, key, value)
    {
        bool said =
            (name && strcmp(key, "name") == 0) || (phased && strcmp(key, "autograd_phase") == 0);
        char *shown = said ? NULL : text_of_value(value);
        if (shown)
            (void)fprintf(out, "%s%s=%s", ftell(out) > 0 ? ", " : "", key, shown);
        free(shown);
    }
    bool good = !ferror(out);
    if (fclose(out) == 0 && good)
        return text;
    free(text);
    return NULL;
}

/* Nodes without an annotation: as the library says that it made them for. */
static bool name_unmarked(char **key, char **label, const view_node *node)
{
    const char *made_for = node->file->made_for;
    *label = strdup(made_for ? made_for : "not annotated");
    return *label && asprintf(key, "-%s", made_for ? made_for : "") >= 0;
}

static bool name_by_annotation(char **key, char **label, const view *v, size_t node, const char *by)
{
    (void)by;
    size_t annotation = v->nodes[node].annotation;
    if (annotation == VIEW_NONE)
        return name_unmarked(key, label, &v->nodes[node]);
    *label = text_of_annotation(json_array_get(v->annotations, annotation));
    return *label && asprintf(key, "%zu", annotation) >= 0;
}

/* Modules are called "block0.attention": all of block0 is one group, its backward another. */
static bool name_by_part(char **key, char **label, const view *v, size_t node, const char *by)
{
    (void)by;
    json_t *annotation = json_array_get(v->annotations, v->nodes[node].annotation);
    const char *name = json_string_value(json_object_get(annotation, "name"));
    const char *phase = phase_of(annotation);
    if (!annotation)
        return name_unmarked(key, label, &v->nodes[node]);
    if (!name)
        return (*label = strdup("without a name")) != NULL && (*key = strdup("")) != NULL;
    int length = (int)strcspn(name, ".");
    return asprintf(label, "%.*s%s%s%s", length, name, phase ? " (" : "", phase ? phase : "",
                    phase ? ")" : "") >= 0 &&
           asprintf(key, "=%.*s %s", length, name, phase ? phase : "") >= 0;
}

static bool any_parts(const view *v)
{
    size_t index;
    json_t *annotation;
    bool any = false;
    json_array_foreach(v->annotations, index, annotation)
    {
        const char *name = json_string_value(json_object_get(annotation, "name"));
        any = any || (name && strchr(name, '.'));
    }
    return any;
}

static bool name_by_key(char **key, char **label, const view *v, size_t node, const char *by)
{
    json_t *annotation = json_array_get(v->annotations, v->nodes[node].annotation);
    json_t *value = json_object_get(annotation, by);
    if (!value)
        return asprintf(label, "without %s", by) >= 0 && (*key = strdup("")) != NULL;
    char *text = text_of_value(value);
    bool good = text && asprintf(label, "%s=%s", by, text) >= 0 && asprintf(key, "=%s", text) >= 0;
    free(text);
    return good;
}

static bool name_by_order(char **key, char **label, const view *v, size_t node, const char *by)
{
    (void)by;
    size_t block = (v->outer + MOST_BLOCKS - 1) / MOST_BLOCKS;
    block = block < LEAST_BLOCK ? LEAST_BLOCK : block;
    size_t first = node / block * block, last = first + block - 1;
    last = last < v->outer ? last : v->outer - 1;
    return asprintf(label, "nodes %zu to %zu", first, last) >= 0 &&
           asprintf(key, "%zu", first) >= 0;
}

static bool name_none(char **key, char **label, const view *v, size_t node, const char *by)
{
    (void)key;
    (void)label;
    (void)v;
    (void)node;
    (void)by;
    return true;
}

/* Every key that some annotation has, in the order in which they come. */
static ph_status group_by_keys(view *v)
{
    json_t *keys = json_object(), *annotation, *value;
    size_t index;
    const char *key;
    bool good = keys != NULL;
    json_array_foreach(v->annotations, index, annotation)
        json_object_foreach(annotation, key, value) good =
            good && json_object_set_new(keys, key, json_null()) == 0;
    ph_status st = good ? PH_OK : view_no_memory(v);
    json_object_foreach(keys, key, value) if (st == PH_OK && v->grouping_count + 2 < VIEW_GROUPINGS)
        st = make(v, "key", key, name_by_key);
    json_decref(keys);
    return st;
}

ph_status view_group(view *v)
{
    bool annotated = json_array_size(v->annotations) > 0;
    if (any_parts(v))
        PH_TRY(make(v, "part", "", name_by_part));
    if (annotated)
        PH_TRY(make(v, "annotation", "", name_by_annotation));
    else if (v->outer <= FEW_NODES)
        PH_TRY(make(v, "nothing", "", name_none));
    PH_TRY(make(v, "order", "", name_by_order));
    if (annotated)
        PH_TRY(group_by_keys(v));
    if (annotated || v->outer > FEW_NODES)
        PH_TRY(make(v, "nothing", "", name_none));
    return PH_OK;
}

void view_groups_free(view *v)
{
    for (size_t i = 0; i < v->grouping_count; i++) {
        view_grouping *g = &v->groupings[i];
        for (size_t n = 0; n < g->count; n++)
            free(g->labels[n]);
        free(g->labels);
        free(g->of);
        free(g->by);
    }
}
