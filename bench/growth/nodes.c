/* SPDX-License-Identifier: MIT */
/* bench/growth/nodes.c: what is done with a graph of n nodes. */
#include "growth/growth.h"
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    FORKED = 100 /* of so many nodes the second half is on another stream */
};

static ph_status body(ph_stream *stream, void *user)
{
    growth_world *w = user;
    for (size_t i = 0; i < w->n; i++) {
        if (i % FORKED == FORKED / 2)
            PH_TRY(ph_stream_wait_stream(w->other, stream));
        PH_TRY(growth_launch(w, i % FORKED < FORKED / 2 ? stream : w->other, i));
        if (i % FORKED == FORKED - 1 || (i == w->n - 1 && i % FORKED >= FORKED / 2))
            PH_TRY(ph_stream_wait_stream(stream, w->other));
    }
    return PH_OK;
}

static void make_graph(ph_graph **graph)
{
    const ph_graph_options keep = {.keep_graph = true};
    OK(ph_graph_create(graph, &keep));
}

static void prepare_capture(growth_world *w)
{
    make_graph(&w->graph);
}

static void work_capture(growth_world *w)
{
    OK(ph_graph_capture(w->graph, w->stream, NULL, body, w));
}

static void prepare_graph(growth_world *w)
{
    const ph_capture_options check = {.check_input_liveness = true};
    make_graph(&w->graph);
    OK(ph_graph_capture(w->graph, w->stream, &check, body, w));
}

static void work_instantiate(growth_world *w)
{
    OK(ph_graph_instantiate(w->graph));
}

static void prepare_exec(growth_world *w)
{
    prepare_graph(w);
    OK(ph_graph_instantiate(w->graph));
    for (int i = 0; i < 5; i++)
        OK(ph_graph_replay(w->graph, w->stream));
    OK(ph_stream_synchronize(w->stream));
}

static void work_replay(growth_world *w)
{
    OK(ph_graph_replay(w->graph, w->stream));
    OK(ph_stream_synchronize(w->stream));
}

static void work_reset(growth_world *w)
{
    OK(ph_graph_reset(w->graph));
}

static void work_check(growth_world *w)
{
    OK(ph_graph_check_inputs(w->graph));
}

static void finish_graph(growth_world *w)
{
    ph_graph_destroy(w->graph);
}

static const ph_record *record_of(ph_graph *graph)
{
    const ph_record *record;
    OK(ph_graph_record(&record, graph));
    return record;
}

static void make_path(growth_world *w, const char *suffix)
{
    (void)snprintf(w->path, sizeof w->path, "/tmp/bench_growth.%d.%s", (int)getpid(), suffix);
}

static void prepare_dump(growth_world *w)
{
    prepare_graph(w);
    make_path(w, "json");
}

static void work_dump(growth_world *w)
{
    OK(ph_record_dump(record_of(w->graph), w->path));
}

static void work_dot(growth_world *w)
{
    char *text;
    OK(ph_record_dot(&text, record_of(w->graph), true));
    ph_string_free(text);
}

static void finish_dump(growth_world *w)
{
    (void)unlink(w->path);
    finish_graph(w);
}

/* The second one lacks the last node, and has another one first. */
static ph_status shifted_body(ph_stream *stream, void *user)
{
    growth_world *w = user;
    PH_TRY(ph_memset(w->x[0], 0, 4, stream));
    w->n--;
    ph_status status = body(stream, w);
    w->n++;
    return status;
}

static void prepare_diff(growth_world *w)
{
    prepare_graph(w);
    make_graph(&w->second);
    OK(ph_graph_capture(w->second, w->stream, NULL, shifted_body, w));
}

static void work_diff(growth_world *w)
{
    ph_diff *diff;
    OK(ph_graph_diff(&diff, w->graph, w->second));
    ph_diff_destroy(diff);
}

static void finish_diff(growth_world *w)
{
    ph_graph_destroy(w->second);
    finish_graph(w);
}

/* The command line program that was built beside this one. */
static void command_path(char *out, size_t size)
{
    char self[512];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    char *end = strrchr(self, '/');
    if (end)
        *end = '\0';
    (void)snprintf(out, size, "%s/../bin/phonograph", self);
}

static void prepare_view(growth_world *w)
{
    prepare_dump(w);
    work_dump(w);
}

static void work_view(growth_world *w)
{
    char command[600], page[80];
    int status = 1;
    pid_t child;
    command_path(command, sizeof command);
    (void)snprintf(page, sizeof page, "%s.html", w->path);
    char *const argv[] = {command, "view", w->path, "-o", page, NULL};
    if (posix_spawn(&child, command, NULL, NULL, argv, environ) != 0 ||
        waitpid(child, &status, 0) != child || status != 0) {
        (void)fprintf(stderr, "%s view failed; build the target phonograph_cli\n", command);
        exit(1);
    }
    (void)unlink(page);
}

const growth_case growth_nodes[] = {
    {"capture", 1000, 1000000, prepare_capture, work_capture, finish_graph},
    {"instantiate", 1000, 1000000, prepare_graph, work_instantiate, finish_graph},
    {"replay", 1000, 1000000, prepare_exec, work_replay, finish_graph},
    {"reset", 1000, 1000000, prepare_exec, work_reset, finish_graph},
    {"dump", 1000, 1000000, prepare_dump, work_dump, finish_dump},
    {"dot", 1000, 1000000, prepare_graph, work_dot, finish_graph},
    {"diff", 1000, 1000000, prepare_diff, work_diff, finish_diff},
    {"check", 1000, 1000000, prepare_exec, work_check, finish_graph},
    {"view", 1000, 1000000, prepare_view, work_view, finish_dump},
    {NULL, 0, 0, NULL, NULL, NULL},
};
