/* SPDX-License-Identifier: MIT */
/* cli/view_json.c: the page's data, column by column, each name and allocation once. */
#include "cli.h"
#include "view.h"
#include <inttypes.h>
#include <phonograph/version.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* words of a node that are no address; kernels of other libraries have hundreds */
    MOST_VALUES = 64
};

/* ---- text ---- */

/* What would not be seen is shown as cli_put_text shows it. Nothing is left that HTML could take
 * for its own end. */
void view_put_string(FILE *out, const char *text)
{
    char room[SHOWN_CHARACTER];
    (void)fputc('"', out);
    for (size_t bytes; *text; text += bytes) {
        const char *shown = cli_show_character(room, &bytes, text);
        for (; *shown; shown++)
            if (strchr("<>&\"\\", *shown))
                (void)fprintf(out, "\\u%04x", (unsigned)*shown);
            else
                (void)fputc(*shown, out);
    }
    (void)fputc('"', out);
}

/* Scalars, and arrays and objects of them, as our own code made or checked them. */
static void put_value(FILE *out, json_t *value)
{
    const char *key;
    json_t *element;
    size_t i;
    if (json_is_string(value))
        view_put_string(out, json_string_value(value));
    else if (json_is_integer(value))
        (void)fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value)) {
        char *text = json_dumps(value, JSON_ENCODE_ANY); /* a point, whatever the locale */
        (void)fputs(text ? text : "0", out);
        free(text);
    } else if (json_is_boolean(value))
        (void)fputs(json_is_true(value) ? "true" : "false", out);
    else if (json_is_array(value)) {
        (void)fputc('[', out);
        json_array_foreach(value, i, element)
        {
            (void)fputs(i ? "," : "", out);
            put_value(out, element);
        }
        (void)fputc(']', out);
    } else if (json_is_object(value)) {
        bool first = true;
        (void)fputc('{', out);
        json_object_foreach(value, key, element)
        {
            (void)fputs(first ? "" : ",", out);
            first = false;
            view_put_string(out, key);
            (void)fputc(':', out);
            put_value(out, element);
        }
        (void)fputc('}', out);
    } else
        (void)fputs("null", out);
}

/* An array of [key, value], so that no key can be one of JavaScript's own. */
static void put_pairs(FILE *out, json_t *object)
{
    const char *key;
    json_t *value;
    bool first = true;
    (void)fputc('[', out);
    json_object_foreach(object, key, value)
    {
        (void)fputs(first ? "[" : ",[", out);
        first = false;
        view_put_string(out, key);
        (void)fputc(',', out);
        if (json_is_null(value)) /* a real that is no number */
            (void)fputs("\"NaN\"", out);
        else
            put_value(out, value);
        (void)fputc(']', out);
    }
    (void)fputc(']', out);
}

/* ---- what occurs often ---- */

typedef struct writer {
    FILE *out;
    const view *v;
    json_t *names, *allocations; /* of each its number; keys in the order of the numbers */
    bool failed;                 /* no host memory */
} writer;

static json_int_t number_of(writer *w, json_t *numbers, const char *key)
{
    json_t *known = json_object_get(numbers, key);
    if (known)
        return json_integer_value(known);
    json_int_t number = (json_int_t)json_object_size(numbers);
    w->failed = json_object_set_new(numbers, key, json_integer(number)) != 0 || w->failed;
    return number;
}

/* An allocation's key is what is written of it. */
static json_int_t number_of_allocation(writer *w, const file_word *word)
{
    char text[200];
    if (!word->has_allocation)
        return -1;
    (void)snprintf(text, sizeof text,
                   "\"0x%" PRIx64 "\",%" PRIu64 ",%" PRIu64 ",\"%" PRIu64 ".%" PRIu64 "\",%d,%d",
                   word->base, word->bytes, word->generation, word->pool[0], word->pool[1],
                   word->pinned, word->foreign);
    return number_of(w, w->allocations, text);
}

/* ---- nodes ---- */

static void put_word(writer *w, const file_word *word)
{
    (void)fprintf(w->out,
                  "[%" JSON_INTEGER_FORMAT ",%d,%d,\"0x%" PRIx64 "\",%" JSON_INTEGER_FORMAT
                  ",%" PRIu64 ",%" PRIu64 "]",
                  number_of(w, w->names, word->name),
                  strcmp(word->kind, "proved") == 0 ? 2 : strcmp(word->kind, "suspected") == 0,
                  word->internal, word->value, number_of_allocation(w, word), word->base_offset,
                  word->offset);
}

static void put_words(writer *w, const file_node *node)
{
    size_t values = 0, written = 0;
    (void)fputc('[', w->out);
    for (size_t i = 0; i < node->word_count; i++) {
        if (strcmp(node->words[i].kind, "value") == 0 && values++ >= MOST_VALUES)
            continue;
        (void)fputs(written++ ? "," : "", w->out);
        put_word(w, &node->words[i]);
    }
    (void)fputc(']', w->out);
}

static void put_edges(writer *w, size_t node)
{
    size_t from, i = 0;
    bool programmatic;
    (void)fputc('[', w->out);
    for (; view_edge(&from, &programmatic, w->v, node, i); i++)
        (void)fprintf(w->out, "%s%zu", i ? "," : "", from);
    (void)fputc(']', w->out);
}

static void put_programmatic(writer *w, size_t node)
{
    const file_node *file = w->v->nodes[node].file;
    const char *comma = "";
    (void)fputc('[', w->out);
    for (size_t i = 0; file->programmatic && i < file->dependency_count; i++)
        if (file->programmatic[i]) {
            (void)fprintf(w->out, "%s%zu", comma, i);
            comma = ",";
        }
    (void)fputc(']', w->out);
}

static void put_shape(writer *w, const file_node *n)
{
    if (n->kind == PH_NODE_KERNEL)
        (void)fprintf(w->out, "[%u,%u,%u,%u,%u,%u,%" PRIu64 ",%" PRIu64 "]", n->grid[0], n->grid[1],
                      n->grid[2], n->block[0], n->block[1], n->block[2], n->shared_bytes,
                      n->args_size);
    else
        (void)fputc('0', w->out);
}

static void put_times(writer *w, const file_node *n)
{
    if (n->measured)
        (void)fprintf(w->out,
                      "[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
                      ",%d,%" PRIu64 "]",
                      n->start_ns, n->median_ns, n->least_ns, n->most_ns, n->slack_ns, n->lane,
                      n->critical, n->run_ns);
    else
        (void)fputc('0', w->out);
}

/* One object a node, with short keys: there may be tens of thousands. */
static void put_node(writer *w, size_t node)
{
    const view_node *n = &w->v->nodes[node];
    (void)fprintf(w->out,
                  "{\"k\":%d,\"n\":%" JSON_INTEGER_FORMAT ",\"p\":%lld,\"a\":%lld,\"b\":%" PRIu64
                  ",\"s\":",
                  (int)n->file->kind,
                  number_of(w, w->names, n->file->demangled ? n->file->demangled : n->file->name),
                  n->parent == VIEW_NONE ? -1LL : (long long)n->parent,
                  n->annotation == VIEW_NONE ? -1LL : (long long)n->annotation, n->file->bytes);
    put_shape(w, n->file);
    if (n->file->demangled)
        (void)fprintf(w->out, ",\"r\":%" JSON_INTEGER_FORMAT,
                      number_of(w, w->names, n->file->name));
    if (n->file->made_for)
        (void)fprintf(w->out, ",\"m\":%" JSON_INTEGER_FORMAT,
                      number_of(w, w->names, n->file->made_for));
    (void)fputs(",\"d\":", w->out);
    put_edges(w, node);
    if (n->file->programmatic) {
        (void)fputs(",\"l\":", w->out);
        put_programmatic(w, node);
    }
    (void)fputs(",\"t\":", w->out);
    put_times(w, n->file);
    (void)fputs(",\"w\":", w->out);
    put_words(w, n->file);
    (void)fputc('}', w->out);
}

/* ---- the rest ---- */

static void put_grouping(FILE *out, const view *v, const view_grouping *g)
{
    (void)fprintf(out, "{\"kind\":\"%s\",\"by\":", g->kind);
    view_put_string(out, g->by);
    (void)fputs(",\"labels\":[", out);
    for (size_t i = 0; i < g->count; i++) {
        (void)fputs(i ? "," : "", out);
        view_put_string(out, g->labels[i]);
    }
    (void)fputs("],\"of\":[", out);
    for (size_t n = 0; n < v->count; n++)
        (void)fprintf(out, "%s%lld", n ? "," : "",
                      g->of[n] == VIEW_NONE ? -1LL : (long long)g->of[n]);
    (void)fputs("]}\n", out);
}

static void put_keys(FILE *out, json_t *numbers, bool as_strings)
{
    const char *key;
    json_t *number;
    bool first = true;
    (void)fputc('[', out);
    json_object_foreach(numbers, key, number)
    {
        (void)fputs(first ? "" : ",\n", out);
        first = false;
        if (as_strings)
            view_put_string(out, key);
        else
            (void)fprintf(out, "[%s]", key);
    }
    (void)fputc(']', out);
}

static void put_origin(FILE *out, const file_origin *origin)
{
    const struct {
        const char *key, *text;
    } fields[] = {{"program", origin->program},
                  {"graph", origin->graph},
                  {"date", origin->date},
                  {"device", origin->device},
                  {"description", origin->description},
                  {"driver", origin->driver},
                  {"driver_version", origin->driver_version},
                  {"library", origin->library}};
    (void)fputc('{', out);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        (void)fprintf(out, "%s\"%s\":", i ? "," : "", fields[i].key);
        view_put_string(out, fields[i].text ? fields[i].text : "");
    }
    (void)fputc('}', out);
}

static void put_races(FILE *out, const file_races *races)
{
    (void)fputs(",\"races\":", out);
    if (!races->looked) {
        (void)fputs("null", out);
        return;
    }
    (void)fprintf(out, "{\"certain\":%" PRIu64 ",\"possible\":%" PRIu64 ",\"list\":[",
                  races->certain, races->possible);
    for (size_t i = 0; i < races->count; i++) {
        const file_race *race = &races->at[i];
        (void)fprintf(out, "%s[%d,%zu,%zu,", i ? ",\n" : "", race->certain, race->first,
                      race->second);
        view_put_string(out, race->text);
        (void)fputc(']', out);
    }
    (void)fputs("]}", out);
}

static void put_head(FILE *out, const view *v)
{
    const char *slash = strrchr(v->path, '/');
    json_t *annotation;
    size_t i;
    (void)fputs("{\"file\":", out);
    view_put_string(out, slash && slash[1] ? slash + 1 : v->path);
    (void)fputs(",\"version\":", out);
    view_put_string(out, ph_version());
    (void)fputs(",\"origin\":", out);
    put_origin(out, &v->record->origin);
    (void)fprintf(out, ",\"worth\":%d,\"verdict\":", v->record->worth);
    view_put_string(out, v->record->verdict ? v->record->verdict : "");
    put_races(out, &v->record->races);
    (void)fprintf(out, ",\"outer\":%zu,\"edges\":%zu,\"left\":[%zu,%zu],\"kinds\":[", v->outer,
                  v->record->edge_count, v->left_nodes, v->left_blocks);
    for (int kind = PH_NODE_KERNEL; kind <= PH_NODE_CONDITIONAL; kind++)
        (void)fprintf(out, "%s\"%s\"", kind ? "," : "", ph_node_kind_name((ph_node_kind)kind));
    (void)fputs("],\n\"annotations\":[", out);
    json_array_foreach(v->annotations, i, annotation)
    {
        (void)fputs(i ? ",\n" : "", out);
        put_pairs(out, annotation);
    }
    (void)fputs("],\n\"profile\":", out);
    put_value(out, v->profile);
    (void)fputs(",\n\"blocks\":", out);
    put_value(out, v->blocks);
}

bool view_put_json(FILE *out, const view *v, json_t *layouts)
{
    writer w = {out, v, json_object(), json_object(), false};
    w.failed = !w.names || !w.allocations;
    put_head(out, v);
    (void)fputs(",\n\"nodes\":[", out);
    for (size_t n = 0; n < v->count; n++) {
        (void)fputs(n ? ",\n" : "\n", out);
        put_node(&w, n);
    }
    (void)fputs("],\n\"groupings\":[", out);
    for (size_t i = 0; i < v->grouping_count; i++) {
        (void)fputs(i ? "," : "", out);
        put_grouping(out, v, &v->groupings[i]);
    }
    (void)fputs("],\n\"names\":", out);
    put_keys(out, w.names, true);
    (void)fputs(",\n\"allocations\":", out);
    put_keys(out, w.allocations, false);
    (void)fputs(",\n\"layouts\":", out);
    put_value(out, layouts);
    (void)fputs("}\n", out);
    json_decref(w.names);
    json_decref(w.allocations);
    return !w.failed;
}
