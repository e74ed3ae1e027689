/* SPDX-License-Identifier: MIT */
/* digits/report.c: puts the report together in memory and writes it to its file, whole or not at
 * all. */
#include "report.h"
#include <stdlib.h>

static ph_status graph_text(char **text, const ph_record *record)
{
    size_t bytes = 0;
    FILE *out = open_memstream(text, &bytes);
    if (!out)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for the report");
    ph_status st = draw_graph(out, record);
    ph_status finished = finish_text(out);
    return st != PH_OK ? st : finished;
}

ph_status report_write(const report *r, const char *path)
{
    char *drawing = NULL, *page = NULL;
    size_t bytes = 0;
    ph_status st = graph_text(&drawing, r->record);
    FILE *out = st == PH_OK ? open_memstream(&page, &bytes) : NULL;
    if (st == PH_OK && !out)
        st = ph_fail(PH_ERROR_HOST_MEMORY, "no memory for the report");
    if (out) {
        put_page(out, r, drawing);
        st = finish_text(out);
    }
    if (st == PH_OK)
        st = replace_file(path, page, bytes);
    free(page);
    free(drawing);
    return st;
}

ph_status losses_write(const run *r, const trainer *t, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for the losses");
    for (size_t step = 0; step < t->steps; step++)
        (void)fprintf(out, "%.9g\n", (double)r->losses[step]);
    ph_status st = finish_text(out);
    if (st == PH_OK)
        st = replace_file(path, text, bytes);
    free(text);
    return st;
}
