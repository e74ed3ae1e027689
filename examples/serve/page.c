/* SPDX-License-Identifier: MIT */
/* serve/page.c: the report: how each step was done, the batch and its padding, memory. */
#include "../digits/html.h"
#include "serve.h"
#include <stdlib.h>
#include <string.h>

enum {
    CHART_WIDTH = 900,
    CHART_HEIGHT = 120
};

static const struct {
    ph_graph_cache_path path;
    const char *name, *color;
} ways[] = {{PH_CACHE_REPLAYED, "replayed", "#4c78a8"},
            {PH_CACHE_LEARNED, "captured to learn", "#f58518"},
            {PH_CACHE_CAPTURED, "captured", "#e45756"},
            {PH_CACHE_EAGER, "eager", "#bab0ac"}};
enum {
    WAYS = sizeof ways / sizeof ways[0]
};

static size_t count_way(const serving *s, ph_graph_cache_path path)
{
    size_t count = 0;
    for (size_t i = 0; i < s->steps; i++)
        count += s->notes[i].path == path;
    return count;
}

static int compare_times(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double median_time(const serving *s)
{
    double median = 0, *times = malloc((s->steps + 1) * sizeof *times);
    if (!times)
        return 0;
    for (size_t i = 0; i < s->steps; i++)
        times[i] = s->notes[i].us;
    qsort(times, s->steps, sizeof *times, compare_times);
    median = s->steps ? times[s->steps / 2] : 0;
    free(times);
    return median;
}

static void put_legend(FILE *out, const serving *s)
{
    (void)fputs("<table><tr><th>a step was</th><th>steps</th></tr>\n", out);
    for (size_t w = 0; w < WAYS; w++)
        (void)fprintf(out,
                      "<tr><td><svg width=\"12\" height=\"12\"><rect width=\"12\" height=\"12\" "
                      "fill=\"%s\"/></svg> %s</td><td>%zu</td></tr>\n",
                      ways[w].color, ways[w].name, count_way(s, ways[w].path));
    (void)fputs("</table>\n", out);
}

/* A bar for each step: rows, and above them the padding. */
static void put_batches(FILE *out, const serving *s)
{
    double width = (double)CHART_WIDTH / (double)(s->steps ? s->steps : 1);
    (void)fprintf(out,
                  "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"rows of each step\">\n",
                  CHART_WIDTH, CHART_HEIGHT);
    for (size_t i = 0; i < s->steps; i++) {
        const step_note *note = &s->notes[i];
        double unit = (double)CHART_HEIGHT / MOST_ROWS, x = (double)i * width;
        double rows = (double)note->rows * unit, all = (double)note->bucket * unit;
        const char *color = ways[WAYS - 1].color;
        for (size_t w = 0; w < WAYS; w++)
            if (ways[w].path == note->path)
                color = ways[w].color;
        (void)fprintf(out,
                      "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" "
                      "fill=\"#eeeeee\"/><rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" "
                      "height=\"%.1f\" fill=\"%s\"/>\n",
                      x, CHART_HEIGHT - all, width, all, x, CHART_HEIGHT - rows, width, rows,
                      color);
    }
    (void)fputs("</svg>\n", out);
}

static void put_memory(FILE *out, const serving *s)
{
    size_t most = 1;
    for (size_t i = 0; i < s->steps; i++)
        most = s->notes[i].bytes > most ? s->notes[i].bytes : most;
    (void)fprintf(out,
                  "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"memory of graphs\">"
                  "<polyline fill=\"none\" stroke=\"#4c78a8\" points=\"",
                  CHART_WIDTH, CHART_HEIGHT);
    for (size_t i = 0; i < s->steps; i++)
        (void)fprintf(out, "%.1f,%.1f ",
                      (double)i * CHART_WIDTH / (double)(s->steps > 1 ? s->steps - 1 : 1),
                      (CHART_HEIGHT - 4) * (1 - (double)s->notes[i].bytes / (double)most) + 2);
    (void)fprintf(out, "\"/></svg>\n<p>At most %.1f MiB.</p>\n", (double)most / (1 << 20));
}

static size_t count_padding(const serving *s)
{
    size_t padding = 0;
    for (size_t i = 0; i < s->steps; i++)
        padding += s->notes[i].bucket - s->notes[i].rows;
    return padding;
}

static size_t count_rows(const serving *s)
{
    size_t rows = 0;
    for (size_t i = 0; i < s->steps; i++)
        rows += s->notes[i].rows;
    return rows;
}

static ph_status put_page(FILE *out, const serving *eager, const serving *cached)
{
    char *table;
    PH_TRY(ph_graph_cache_text(&table, cached->cache));
    begin_page(out, "serve: a decoder behind a cache of graphs");
    put_device(out, cached->decoder->device);
    (void)fprintf(
        out,
        "<p>%zu requests, %zu steps, %zu tokens. A step takes %.1f us eagerly and %.1f us "
        "through the cache (medians, one run of each; the first steps of a key are "
        "eager). Padding: %zu rows, %.1f %% of all.</p>\n",
        cached->count, cached->steps, count_rows(cached), median_time(eager), median_time(cached),
        count_padding(cached),
        100.0 * (double)count_padding(cached) /
            (double)(count_padding(cached) + count_rows(cached)));
    (void)fputs("<h2>Rows of each step, with padding above them</h2>\n", out);
    put_batches(out, cached);
    put_legend(out, cached);
    (void)fputs("<h2>Memory of executables and of the pool</h2>\n", out);
    put_memory(out, cached);
    (void)fputs("<h2>The cache</h2>\n<pre>", out);
    put_text(out, table);
    (void)fputs("</pre>\n", out);
    end_page(out);
    ph_string_free(table);
    return PH_OK;
}

ph_status write_report(const char *path, const serving *eager, const serving *cached)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return ph_fail(PH_ERROR_HOST_MEMORY, "serve: no memory for the report");
    ph_status status = put_page(out, eager, cached);
    ph_status written = finish_text(out);
    if (status == PH_OK)
        status = written;
    if (status == PH_OK)
        status = replace_file(path, text, bytes);
    free(text);
    return status;
}
