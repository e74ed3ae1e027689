/* SPDX-License-Identifier: MIT */
/* gpt/page.c: the report: curves of the losses, the learning rate, the gradient scaler's scale
 * and the time per step, samples through the training, and the captured step. */
#include "../digits/html.h"
#include "run.h"
#include <math.h>
#include <stdlib.h>

enum {
    WIDTH = 480,
    HEIGHT = 270,
    LEFT = 56,
    RIGHT = 14,
    TOP = 14,
    BOTTOM = 38,
    LINES = 5
};

/* ---- curves ---- of one value over the steps, from 0 or from a little below the least. */
typedef double (*value_fn)(const log_row *row);

static double loss_of(const log_row *row)
{
    return row->loss;
}
static double validation_of(const log_row *row)
{
    return row->validation;
}
static double time_of(const log_row *row)
{
    return row->step_ms;
}
static double rate_of(const log_row *row)
{
    return row->rate;
}
static double exponent_of(const log_row *row)
{
    return log2(row->scale);
}

typedef struct axes {
    double last_step, low, high;
} axes;

static void widen(axes *a, const training_log *log, value_fn value)
{
    for (size_t i = 0; i < log->count; i++) {
        double y = value(&log->rows[i]);
        if (!isfinite(y))
            continue;
        a->low = fmin(a->low, y);
        a->high = fmax(a->high, y);
    }
}

/* Down to a whole line, of 1, 2 or 5 times a power of ten. */
static double line_height(axes *a)
{
    double rough = (a->high - a->low) / LINES, unit = pow(10, floor(log10(rough > 0 ? rough : 1)));
    double height = rough <= unit       ? unit
                    : rough <= 2 * unit ? 2 * unit
                    : rough <= 5 * unit ? 5 * unit
                                        : 10 * unit;
    a->low = floor(a->low / height) * height;
    a->high = ceil(a->high / height) * height;
    if (a->high <= a->low)
        a->high = a->low + height;
    return height;
}

static double x_of(const axes *a, double step)
{
    return LEFT + step / a->last_step * (WIDTH - LEFT - RIGHT);
}

static double y_of(const axes *a, double value)
{
    return TOP + (a->high - value) / (a->high - a->low) * (HEIGHT - TOP - BOTTOM);
}

static void put_grid(FILE *out, axes *a)
{
    double height = line_height(a);
    for (double value = a->low; value < a->high + height / 2; value += height) {
        (void)fprintf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, y_of(a, value),
                      WIDTH - RIGHT);
        (void)fprintf(out, "<text class=\"tick end\" x=\"%d\" y=\"%.1f\">%g</text>\n", LEFT - 6,
                      y_of(a, value) + 4, value);
    }
    for (int i = 0; i <= 4; i++)
        (void)fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\">%.0f</text>\n",
                      x_of(a, a->last_step * i / 4), HEIGHT - BOTTOM + 17, a->last_step * i / 4);
    (void)fprintf(out, "<text class=\"tick\" x=\"%d\" y=\"%d\">step</text>\n",
                  (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4);
}

static void put_curve(FILE *out, const axes *a, const training_log *log, value_fn value,
                      const char *class)
{
    (void)fprintf(out, "<polyline class=\"curve %s\" points=\"", class);
    for (size_t i = 0; i < log->count; i++)
        if (isfinite(value(&log->rows[i])))
            (void)fprintf(out, "%.1f,%.1f ", x_of(a, (double)log->rows[i].step),
                          y_of(a, value(&log->rows[i])));
    (void)fputs("\"/>\n", out);
}

static void begin_drawing(FILE *out, const char *name, const char *title)
{
    (void)fprintf(out,
                  "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"%s\">\n<title "
                  "id=\"%s\">%s</title>\n",
                  WIDTH, HEIGHT, name, name, title);
}

static void draw_losses(FILE *out, const run *r)
{
    axes a = {(double)r->options->steps, INFINITY, -INFINITY};
    widen(&a, &r->log, loss_of);
    widen(&a, &r->log, validation_of);
    begin_drawing(out, "losses", "Loss of the batches, and of the text that is held out");
    put_grid(out, &a);
    put_curve(out, &a, &r->log, loss_of, "replayed");
    put_curve(out, &a, &r->log, validation_of, "eager");
    (void)fputs("</svg>\n<p class=\"key\"><span class=\"swatch replayed\"></span>batches (thin) "
                "<span class=\"swatch eager\"></span>text that is held out (wide)</p>\n",
                out);
}

/* One curve, from 0. */
static void draw_one(FILE *out, const run *r, value_fn value, const char *name, const char *title,
                     const char *note)
{
    axes a = {(double)r->options->steps, 0, 0};
    widen(&a, &r->log, value);
    begin_drawing(out, name, title);
    put_grid(out, &a);
    put_curve(out, &a, &r->log, value, "replayed");
    (void)fprintf(out, "</svg>\n<p class=\"note\">%s</p>\n", note);
}

static void draw_all(FILE *out, const run *r)
{
    (void)fputs("<section><h2>Loss</h2>\n", out);
    draw_losses(out, r);
    (void)fputs("</section>\n<section><h2>Learning rate</h2>\n", out);
    draw_one(out, r, rate_of, "rates", "Learning rate",
             "A warm-up, then half a cosine: the schedule sets it between the replays.");
    if (r->options->f16) {
        (void)fputs("</section>\n<section><h2>Gradient scale</h2>\n", out);
        draw_one(out, r, exponent_of, "scales", "Scale, as a power of two",
                 "The exponent of the scale, behind the step: gradients that are not finite halve "
                 "it, and the device skips the step.");
    }
    (void)fputs("</section>\n<section><h2>Time per step</h2>\n", out);
    draw_one(out, r, time_of, "times", "Milliseconds per step",
             "Milliseconds per step, of the steps between two rows of the log; validation and "
             "samples are left out.");
    (void)fputs("</section>\n", out);
}

/* ---- numbers ---- */
static double last_validation(const training_log *log)
{
    for (size_t i = log->count; i-- > 0;)
        if (isfinite(log->rows[i].validation))
            return log->rows[i].validation;
    return (double)NAN;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static ph_status median_time(double *out, const training_log *log)
{
    size_t count = 0;
    double *times = calloc(log->count + 1, sizeof *times);
    if (!times)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for the report");
    for (size_t i = 0; i < log->count; i++)
        if (isfinite(log->rows[i].step_ms))
            times[count++] = log->rows[i].step_ms;
    qsort(times, count, sizeof *times, by_value);
    *out = count ? times[count / 2] : (double)NAN;
    free(times);
    return PH_OK;
}

static void put_number(FILE *out, const char *format, double value, const char *what)
{
    (void)fputs("<li><b>", out);
    if (isnan(value))
        (void)fputs("–", out);
    else
        (void)fprintf(out, format, value);
    (void)fprintf(out, "</b><span>%s</span></li>\n", what);
}

/* In the last row. */
static void put_scaler(FILE *out, const run *r)
{
    const training_log *log = &r->log;
    const log_row *last = log->count ? &log->rows[log->count - 1] : NULL;
    if (!last || !r->options->f16)
        return;
    put_number(out, "%g", last->scale, "scale of the gradients");
    put_number(out, "%.0f", (double)last->skipped, "steps skipped");
}

static ph_status put_facts(FILE *out, const run *r)
{
    const trainer *t = &r->trainer;
    double step_ms = (double)NAN;
    ph_data_loader_stats stats;
    PH_TRY(median_time(&step_ms, &r->log));
    PH_TRY(ph_data_loader_get_stats(&stats, t->loader));
    (void)fputs("<ul class=\"facts\">\n", out);
    put_number(out, "%.3f", r->last, "loss of the last batch");
    put_number(out, "%.3f", last_validation(&r->log), "loss of the text that is held out");
    put_number(out, "%.3g ms", step_ms, "per step, median");
    put_scaler(out, r);
    put_number(out, "%.3g ms", (double)stats.waited_ns * 1e-6,
               "waited for batches in the whole training");
    (void)fputs("</ul>\n", out);
    return PH_OK;
}

static void put_header(FILE *out, const run *r, const corpus *text)
{
    const trainer *t = &r->trainer;
    const model_shape *s = &t->shape;
    (void)fputs("<header><h1>A model that learns to write, one graph a step</h1>\n", out);
    (void)fprintf(out,
                  "<p>%lld parameters in %lld layers of width %lld, %lld heads; %lld steps of %lld "
                  "stretches of %lld characters, seed %llu; %lld characters in %lld files. ",
                  (long long)r->parameters, (long long)s->layers, (long long)s->width,
                  (long long)s->heads, (long long)r->options->steps, (long long)t->batch,
                  (long long)s->time, (unsigned long long)r->options->seed, (long long)text->count,
                  (long long)text->files);
    put_device(out, t->device);
    (void)fputs("</p></header>\n", out);
}

static void put_samples(FILE *out, const run *r)
{
    for (int i = 0; i < SAMPLES; i++) {
        if (!r->samples[i])
            continue;
        (void)fprintf(out, "<h3>Behind %lld steps</h3>\n<pre class=\"scroll\">",
                      (long long)r->sample_steps[i]);
        put_text(out, r->samples[i]);
        (void)fputs("</pre>\n", out);
    }
}

static ph_status put_graph(FILE *out, ph_graph *graph)
{
    const ph_record *record;
    if (ph_graph_get_state(graph) != PH_GRAPH_READY)
        return PH_OK;
    PH_TRY(ph_graph_record(&record, graph));
    (void)fprintf(out,
                  "<section class=\"graph\"><h2>The captured step</h2>\n<p class=\"note\">%zu "
                  "nodes, %zu edges: forward, loss, backward and the optimizer. A row is a layer, "
                  "a column a chain, as a stream was.</p>\n<details><summary>The "
                  "drawing</summary>\n",
                  ph_record_node_count(record), ph_record_edge_count(record));
    ph_status status = draw_graph(out, record);
    (void)fputs("</details>\n</section>\n", out);
    return status;
}

static ph_status put_page(FILE *out, const run *r, const corpus *text)
{
    begin_page(out, "Learning to write with phonograph");
    put_header(out, r, text);
    PH_TRY(put_facts(out, r));
    (void)fputs("<main>\n<div>\n", out);
    draw_all(out, r);
    PH_TRY(put_graph(out, r->trainer.graph));
    (void)fputs("</div>\n<div>\n<section><h2>What it writes</h2>\n<p class=\"note\">Behind the "
                "same beginning, which it has not read in training, with the same random "
                "numbers.</p>\n",
                out);
    put_samples(out, r);
    (void)fputs("</section>\n</div>\n</main>\n", out);
    end_page(out);
    return PH_OK;
}

ph_status report_write(const run *r, const corpus *text, const char *path)
{
    char *page = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&page, &bytes);
    if (!out)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for the report");
    ph_status status = put_page(out, r, text), finished = finish_text(out);
    if (status == PH_OK)
        status = finished;
    if (status == PH_OK)
        status = replace_file(path, page, bytes);
    free(page);
    return status;
}
