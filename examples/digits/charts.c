/* SPDX-License-Identifier: MIT */
/* digits/charts.c: the loss curves, the bars of the step times, and the pictures of digits, as
 * SVG. */
#include "report.h"
#include <math.h>

enum {
    WIDTH = 480,
    HEIGHT = 270,
    LEFT = 56,
    RIGHT = 14,
    TOP = 14,
    BOTTOM = 38,
    MOST_POINTS = 320,
    SHOWN = 24,
    SHOWN_WRONG = 8
};

/* ---- losses ---- on a logarithmic scale of whole decades. */

struct axes {
    int lowest, highest; /* powers of ten */
    size_t steps, stride;
};

/* The mean of the stride steps at `first`; what is not a positive number sits on the lowest
 * line. */
static double loss_at(const run *r, const struct axes *a, size_t first)
{
    double sum = 0;
    size_t end = first + a->stride < a->steps ? first + a->stride : a->steps;
    for (size_t step = first; step < end; step++)
        sum += (double)r->losses[step];
    double mean = sum / (double)(end - first);
    return isfinite(mean) && mean > 0 ? log10(mean) : a->lowest;
}

static struct axes fit_axes(const run *r, size_t steps)
{
    struct axes a = {
        .lowest = -5, .steps = steps, .stride = (steps + MOST_POINTS - 1) / MOST_POINTS};
    double low = 0, high = 0;
    for (size_t step = 0; step < steps; step += a.stride) {
        double loss = loss_at(r, &a, step);
        low = loss < low ? loss : low;
        high = loss > high ? loss : high;
    }
    a.lowest = low < -5 ? -5 : (int)floor(low);
    a.highest = high > 5 ? 5 : (int)ceil(high);
    if (a.lowest == a.highest)
        a.lowest--;
    return a;
}

static double x_of(const struct axes *a, double step)
{
    double last = a->steps > 1 ? (double)(a->steps - 1) : 1;
    return LEFT + step / last * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct axes *a, double log_loss)
{
    double part = (a->highest - log_loss) / (a->highest - a->lowest);
    part = part < 0 ? 0 : part > 1 ? 1 : part;
    return TOP + part * (HEIGHT - TOP - BOTTOM);
}

static void put_curve(FILE *out, const run *r, const struct axes *a, const char *class)
{
    (void)fprintf(out, "<polyline class=\"%s\" points=\"", class);
    for (size_t step = 0; step < a->steps; step += a->stride)
        (void)fprintf(out, "%.1f,%.1f ", x_of(a, (double)step), y_of(a, loss_at(r, a, step)));
    (void)fputs("\"/>\n", out);
}

static void put_grid(FILE *out, const struct axes *a, size_t epochs)
{
    for (int power = a->lowest; power <= a->highest; power++) {
        double y = y_of(a, power);
        (void)fprintf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, y, WIDTH - RIGHT);
        (void)fprintf(out, "<text class=\"tick end\" x=\"%d\" y=\"%.1f\">%g</text>\n", LEFT - 6,
                      y + 4, pow(10, power));
    }
    size_t every = (epochs + 5) / 6;
    for (size_t epoch = 0; epoch <= epochs; epoch += every)
        (void)fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\">%zu</text>\n",
                      LEFT + (double)epoch / (double)epochs * (WIDTH - LEFT - RIGHT),
                      HEIGHT - BOTTOM + 17, epoch);
    (void)fprintf(out, "<text class=\"tick\" x=\"%d\" y=\"%d\">epoch</text>\n",
                  (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4);
}

void draw_losses(FILE *out, const report *r)
{
    size_t steps = r->trainer->steps;
    struct axes a = fit_axes(r->eager, steps);
    (void)fprintf(
        out,
        "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"loss-title loss-desc\">\n"
        "<title id=\"loss-title\">Loss of each step, eager and replayed</title>\n"
        "<desc id=\"loss-desc\">Both curves are the same: from %.3g at the first of %zu steps to "
        "%.3g at the "
        "last, on a logarithmic scale.</desc>\n",
        WIDTH, HEIGHT, (double)r->eager->losses[0], steps, (double)r->eager->losses[steps - 1]);
    put_grid(out, &a, r->trainer->epochs);
    put_curve(out, r->eager, &a, "curve eager");
    put_curve(out, r->replayed, &a, "curve replayed");
    (void)fputs("</svg>\n<p class=\"key\"><span class=\"swatch eager\"></span>eager (wide) "
                "<span class=\"swatch replayed\"></span>replayed (thin, on top)</p>\n",
                out);
    if (a.stride > 1)
        (void)fprintf(out, "<p class=\"note\">Each point is the mean of %zu steps.</p>\n",
                      a.stride);
}

/* ---- step times ---- */

static void put_bar(FILE *out, const run *r, double longest, int y)
{
    double width = longest > 0 ? r->step_us / longest * (WIDTH - 96 - 90) : 0;
    (void)fprintf(out, "<text class=\"label end\" x=\"86\" y=\"%d\">%s</text>", y + 22, r->name);
    (void)fprintf(
        out, "<rect class=\"bar %s\" x=\"96\" y=\"%d\" width=\"%.1f\" height=\"34\" rx=\"4\"/>",
        r->name, y, width);
    (void)fprintf(out, "<text class=\"label\" x=\"%.1f\" y=\"%d\">%.1f µs</text>\n", 104 + width,
                  y + 22, r->step_us);
}

void draw_times(FILE *out, const report *r)
{
    double longest =
        r->eager->step_us > r->replayed->step_us ? r->eager->step_us : r->replayed->step_us;
    (void)fprintf(
        out,
        "<svg viewBox=\"0 0 %d 100\" role=\"img\" aria-labelledby=\"time-title time-desc\">\n"
        "<title id=\"time-title\">Time per step</title>\n"
        "<desc id=\"time-desc\">%.1f microseconds eager, %.1f replayed.</desc>\n",
        WIDTH, r->eager->step_us, r->replayed->step_us);
    put_bar(out, r->eager, longest, 8);
    put_bar(out, r->replayed, longest, 56);
    (void)fputs("</svg>\n", out);
}

/* ---- digits ---- a few wrong ones first, then right ones. */

/* One path for each darkness, as there are only DARKEST of them. */
static void put_pixels(FILE *out, const float *pixels)
{
    for (int dark = 1; dark <= DARKEST; dark++) {
        bool open = false;
        for (int i = 0; i < PIXELS; i++) {
            if ((int)lroundf(pixels[i] * DARKEST) != dark)
                continue;
            if (!open)
                (void)fprintf(out, "<path fill-opacity=\"%.2f\" d=\"", (double)dark / DARKEST);
            open = true;
            (void)fprintf(out, "M%d %dh1v1h-1z", i % SIDE, i / SIDE);
        }
        if (open)
            (void)fputs("\"/>", out);
    }
}

static void put_digit(FILE *out, const trainer *t, size_t image, uint32_t predicted)
{
    uint32_t label = t->test_labels[image];
    bool right = label == predicted;
    (void)fprintf(
        out,
        "<figure class=\"%s\"><svg viewBox=\"0 0 8 8\" role=\"img\" shape-rendering=\"crispEdges\">"
        "<title>a %u, read as %u</title>",
        right ? "right" : "wrong", label, predicted);
    put_pixels(out, t->test_pixels + image * PIXELS);
    if (right)
        (void)fprintf(
            out, "</svg><figcaption><span aria-hidden=\"true\">✓ </span>%u</figcaption></figure>\n",
            predicted);
    else
        (void)fprintf(out,
                      "</svg><figcaption><span aria-hidden=\"true\">✗ </span>%u, is "
                      "%u</figcaption></figure>\n",
                      predicted, label);
}

static size_t put_digits(FILE *out, const report *r, bool right, size_t most)
{
    size_t shown = 0;
    for (size_t i = 0; i < r->trainer->test_count && shown < most; i++) {
        uint32_t predicted = r->replayed->predicted[i];
        if ((predicted == r->trainer->test_labels[i]) != right)
            continue;
        put_digit(out, r->trainer, i, predicted);
        shown++;
    }
    return shown;
}

void draw_digits(FILE *out, const report *r)
{
    (void)fputs("<div class=\"digits\">\n", out);
    size_t wrong = put_digits(out, r, false, SHOWN_WRONG);
    (void)put_digits(out, r, true, SHOWN - wrong);
    (void)fputs("</div>\n", out);
}
