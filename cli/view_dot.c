/* SPDX-License-Identifier: MIT */
/* cli/view_dot.c: Graphviz places the nodes of graphs that are not too large: `dot`, run once
 * with all groups open and once with all of them folded. It is told numbers and sizes, never a
 * name out of the file. */
#include "view.h"
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_NODES = 1000,
    MOST_EDGES = 3000,
    LONGEST_MS = 5000,
    STEP_MS = 5,
    NODE_WIDTH = 200, /* as the page draws them (layout.js) */
    NODE_HEIGHT = 36,
    INCH = 72
};

/* ---- what dot reads ---- */

static bool is_folded(const view_grouping *g, size_t node, bool fold)
{
    return fold && g->of[node] != VIEW_NONE;
}

static void put_end(FILE *out, const view_grouping *g, size_t node, bool fold)
{
    if (is_folded(g, node, fold))
        (void)fprintf(out, "g%zu", g->of[node]);
    else
        (void)fprintf(out, "n%zu", node);
}

static bool depends_on_own_group(const view *v, const view_grouping *g, size_t node)
{
    size_t from;
    bool programmatic, inside = false;
    for (size_t i = 0; view_edge(&from, &programmatic, v, node, i); i++)
        inside = inside || g->of[from] == g->of[node];
    return inside;
}

/* An open group is a cluster with a heading above its first nodes, and below what those depend
 * on: clusters then stand below each other. */
static void put_clusters(FILE *out, const view *v, const view_grouping *g)
{
    for (size_t group = 0; group < g->count; group++)
        (void)fprintf(out, "subgraph cluster_%zu { g%zu; }\n", group, group);
    for (size_t n = 0; n < v->count; n++) {
        size_t from, group = g->of[n];
        bool programmatic;
        if (group == VIEW_NONE)
            continue;
        (void)fprintf(out, "subgraph cluster_%zu { n%zu; }\n", group, n);
        if (depends_on_own_group(v, g, n))
            continue;
        (void)fprintf(out, "g%zu -> n%zu [style=invis, weight=2];\n", group, n);
        for (size_t i = 0; view_edge(&from, &programmatic, v, n, i); i++)
            (void)fprintf(out, "n%zu -> g%zu [style=invis];\n", from, group);
    }
}

static void put_dot(FILE *out, const view *v, bool fold)
{
    const view_grouping *g = &v->groupings[0];
    (void)fprintf(out,
                  "strict digraph g {\nnodesep=0.25; ranksep=0.3;\n"
                  "node [shape=box, fixedsize=true, width=%.3f, height=%.3f, label=\"\"];\nedge "
                  "[arrowhead=none, tailport=s, headport=n];\n",
                  (double)NODE_WIDTH / INCH, (double)NODE_HEIGHT / INCH);
    if (!fold)
        put_clusters(out, v, g);
    for (size_t n = 0; n < v->count; n++) {
        size_t from;
        bool programmatic;
        put_end(out, g, n, fold);
        (void)fputs(";\n", out);
        for (size_t i = 0; view_edge(&from, &programmatic, v, n, i); i++) {
            if (is_folded(g, n, fold) && g->of[from] == g->of[n])
                continue;
            put_end(out, g, from, fold);
            (void)fputs(" -> ", out);
            put_end(out, g, n, fold);
            (void)fputs(";\n", out);
        }
    }
    (void)fputs("}\n", out);
}

/* ---- running it ---- */

static bool wait_for(pid_t child)
{
    int status = 0;
    for (int waited = 0; waited < LONGEST_MS; waited += STEP_MS) {
        pid_t got = waitpid(child, &status, WNOHANG);
        if (got != 0)
            return got == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        (void)nanosleep(&(struct timespec){.tv_nsec = STEP_MS * 1000000L}, NULL);
    }
    (void)kill(child, SIGKILL);
    (void)waitpid(child, &status, 0);
    return false;
}

static bool run_dot(FILE *in, FILE *out)
{
    static char name[] = "dot", format[] = "-Tplain";
    char *argv[] = {name, format, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    bool started =
        posix_spawn_file_actions_adddup2(&actions, fileno(in), STDIN_FILENO) == 0 &&
        posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO) == 0 &&
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
        posix_spawnp(&child, argv[0], &actions, NULL, argv, environ) == 0;
    (void)posix_spawn_file_actions_destroy(&actions);
    return started && wait_for(child);
}

/* ---- what dot writes ---- numbers in inches, y upwards, separated by blanks, with a point in
 * any locale. */

typedef struct words {
    char *at; /* in a line that is cut up */
} words;

static char *next_word(words *w)
{
    return strtok_r(NULL, " \n", &w->at);
}

static bool next_pixels(json_int_t *out, words *w)
{
    char *word = next_word(w), *end;
    if (!word)
        return false;
    /* By hand, so that the locale has no say. */
    bool negative = *word == '-';
    double value = (double)strtol(word += negative, &end, 10), digit = 0.1;
    if (*end == '.')
        for (end++; *end >= '0' && *end <= '9'; end++, digit /= 10)
            value += (*end - '0') * digit;
    if (*end != '\0' && *end != 'e')
        return false;
    if (!(value < 1e6))
        return false;
    value *= INCH;
    *out = (json_int_t)(value + 0.5) * (negative ? -1 : 1);
    return true;
}

static bool append_point(json_t *array, words *w, json_int_t height)
{
    json_int_t x, y;
    return next_pixels(&x, w) && next_pixels(&y, w) &&
           json_array_append_new(array, json_integer(x)) == 0 &&
           json_array_append_new(array, json_integer(height - y)) == 0;
}

/* "n12 1.5 2.5 ...": {"n12": [x, y]}, the middle of the box. */
static bool read_node(json_t *nodes, words *w, json_int_t height)
{
    char *name = next_word(w);
    json_t *point = json_array();
    bool good = name && append_point(point, w, height);
    return json_object_set_new(nodes, name ? name : "", point) == 0 && good;
}

/* "n1 n2 4 x1 y1 ...": ["n1", "n2", x1, y1, ...], control points of a curve. */
static bool read_edge(json_t *edges, words *w, json_int_t height)
{
    char *from = next_word(w), *to = from ? next_word(w) : NULL, *count = to ? next_word(w) : NULL;
    json_t *edge = json_array();
    bool good = count && json_array_append_new(edge, json_string(from)) == 0 &&
                json_array_append_new(edge, json_string(to)) == 0;
    for (long i = good ? strtol(count, NULL, 10) : 0; i > 0 && good; i--)
        good = append_point(edge, w, height);
    char *style = good && next_word(w) ? w->at : NULL;
    if (good && style && strstr(style, "invis")) {
        json_decref(edge);
        return true;
    }
    return json_array_append_new(edges, edge) == 0 && good;
}

/* NULL: not what dot writes. */
static json_t *read_plain(FILE *in)
{
    char *line = NULL;
    size_t size = 0;
    json_int_t width = 0, height = 0;
    json_t *layout = json_object(), *nodes = json_object(), *edges = json_array();
    bool good = layout && nodes && edges, ended = false;
    while (good && !ended && getline(&line, &size, in) > 0) {
        words w = {NULL};
        char *what = strtok_r(line, " \n", &w.at);
        if (what && strcmp(what, "graph") == 0)
            good = next_word(&w) && next_pixels(&width, &w) && next_pixels(&height, &w);
        else if (what && strcmp(what, "node") == 0)
            good = read_node(nodes, &w, height);
        else if (what && strcmp(what, "edge") == 0)
            good = read_edge(edges, &w, height);
        else
            ended = true;
    }
    free(line);
    good = good && ended && json_object_set_new(layout, "width", json_integer(width)) == 0 &&
           json_object_set_new(layout, "height", json_integer(height)) == 0 &&
           json_object_set(layout, "nodes", nodes) == 0 &&
           json_object_set(layout, "edges", edges) == 0;
    json_decref(nodes);
    json_decref(edges);
    if (good)
        return layout;
    json_decref(layout);
    return NULL;
}

static json_t *lay_out(const view *v, bool fold)
{
    json_t *layout = NULL;
    FILE *in = tmpfile(), *out = tmpfile();
    if (in && out) {
        put_dot(in, v, fold);
        if (!ferror(in) && fflush(in) == 0 && fseek(in, 0, SEEK_SET) == 0 && run_dot(in, out) &&
            fseek(out, 0, SEEK_SET) == 0)
            layout = read_plain(out);
    }
    if (in)
        (void)fclose(in);
    if (out)
        (void)fclose(out);
    return layout;
}

ph_status view_layouts(json_t **out, const view *v)
{
    *out = NULL;
    if (v->count == 0 || v->count > MOST_NODES || v->edge_count > MOST_EDGES)
        return PH_OK;
    json_t *open = lay_out(v, false);
    if (!open)
        return PH_OK;
    json_t *layouts = json_object(), *folded = v->groupings[0].count > 0 ? lay_out(v, true) : NULL;
    bool good = json_object_set_new(layouts, "open", open) == 0;
    if (folded)
        good = json_object_set_new(layouts, "folded", folded) == 0 && good;
    if (good) {
        *out = layouts;
        return PH_OK;
    }
    json_decref(layouts);
    return view_no_memory(v);
}
