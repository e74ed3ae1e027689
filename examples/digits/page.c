/* SPDX-License-Identifier: MIT */
/* digits/page.c: the report's page: headings, figures, the table. */
#include "report.h"

static double per_step(const run *r, const trainer *t)
{
    return (double)r->allocations / (double)t->steps;
}

static void put_header(FILE *out, const report *r)
{
    const trainer *t = r->trainer;
    (void)fputs("<header><h1>Handwritten digits, recorded once and replayed</h1>\n", out);
    (void)fprintf(out,
                  "<p>A %d-%d-%d network, on %s, trained twice from seed %llu: %zu epochs of %zu "
                  "batches of %d "
                  "images. ",
                  PIXELS, HIDDEN, CLASSES, t->form == FORM_MODULES ? "modules" : "plain kernels",
                  (unsigned long long)r->seed, t->epochs, t->steps_per_epoch, BATCH);
    put_device(out, t->device);
    (void)fputs("</p></header>\n", out);
}

/* No number where the machine's noise could have made it. */
static void put_ratio(FILE *out, const spread *ratio)
{
    if (spread_tells(ratio))
        (void)fprintf(out,
                      "<li><b>%.2f×</b><span>eager time per step, divided by replayed; %.2f× to "
                      "%.2f× in %zu rounds</span></li>\n",
                      ratio->median, ratio->lowest, ratio->highest, ratio->rounds);
    else
        (void)fprintf(out,
                      "<li><b>not told</b><span>which is faster: the difference cannot be told on "
                      "this machine; eager time per step, divided by replayed, was %.2f× to %.2f× "
                      "in %zu rounds</span></li>\n",
                      ratio->lowest, ratio->highest, ratio->rounds);
}

static void put_facts(FILE *out, const report *r)
{
    const trainer *t = r->trainer;
    (void)fputs("<ul class=\"facts\">\n", out);
    (void)fprintf(
        out,
        "<li><b>same bits</b><span>in all %zu losses and %d weights of both runs</span></li>\n",
        t->steps, WEIGHTS1 + WEIGHTS2);
    (void)fprintf(out, "<li><b>%.1f %%</b><span>of %zu held-out images read right</span></li>\n",
                  run_accuracy(r->replayed, t), t->test_count);
    put_ratio(out, &r->ratio);
    (void)fprintf(
        out,
        "<li><b>%g</b><span>device allocations in a replayed step; eager: %g</span></li>\n</ul>\n",
        per_step(r->replayed, t), per_step(r->eager, t));
}

static void put_table(FILE *out, const report *r)
{
    const trainer *t = r->trainer;
    const run *a = r->eager, *b = r->replayed;
    (void)fputs("<div class=\"scroll\"><table "
                "class=\"numbers\"><thead><tr><th></th><th>eager</th><th>replayed</th></tr>"
                "</thead><tbody>\n",
                out);
    (void)fprintf(
        out,
        "<tr><th scope=\"row\">time per step, median</th><td>%.1f µs</td><td>%.1f µs</td></tr>\n",
        a->step_us, b->step_us);
    (void)fprintf(out,
                  "<tr><th scope=\"row\">eager, divided by replayed, %zu rounds</th><td>median "
                  "%.2f</td><td>%.2f to %.2f</td></tr>\n",
                  r->ratio.rounds, r->ratio.median, r->ratio.lowest, r->ratio.highest);
    (void)fprintf(out,
                  "<tr><th scope=\"row\">allocations per step</th><td>%g</td><td>%g</td></tr>\n",
                  per_step(a, t), per_step(b, t));
    (void)fprintf(out, "<tr><th scope=\"row\">pool bytes</th><td>%zu</td><td>%zu</td></tr>\n",
                  a->pool_bytes, b->pool_bytes);
    (void)fprintf(
        out, "<tr><th scope=\"row\">of them in use at most</th><td>%zu</td><td>%zu</td></tr>\n",
        a->pool_peak, b->pool_peak);
    (void)fprintf(out, "<tr><th scope=\"row\">nodes, edges</th><td>–</td><td>%zu, %zu</td></tr>\n",
                  b->nodes, b->edges);
    (void)fprintf(
        out, "<tr><th scope=\"row\">capture and instantiate</th><td>–</td><td>%.0f µs</td></tr>\n",
        b->capture_us);
    (void)fprintf(out, "<tr><th scope=\"row\">last loss</th><td>%.6g</td><td>%.6g</td></tr>\n",
                  (double)a->losses[t->steps - 1], (double)b->losses[t->steps - 1]);
    (void)fprintf(
        out, "<tr><th scope=\"row\">accuracy, held out</th><td>%.2f %%</td><td>%.2f %%</td></tr>\n",
        run_accuracy(a, t), run_accuracy(b, t));
    (void)fputs(
        "</tbody></table></div>\n"
        "<p class=\"note\">Time per step: measured after both runs and in turns, at least 20 ms of "
        "each a round, whole epochs whose steps are submitted without waiting, then waited for; "
        "the median over the rounds. "
        "Pool bytes: eager, all that was taken from the device, images and weights included; "
        "replayed, the graph's own pool."
        "</p>\n",
        out);
}

void put_page(FILE *out, const report *r, const char *graph_drawing)
{
    begin_page(out, "Handwritten digits with phonograph");
    put_header(out, r);
    put_facts(out, r);
    (void)fputs("<main>\n<div>\n<section><h2>Loss</h2>\n", out);
    draw_losses(out, r);
    (void)fputs("</section>\n<section><h2>Time per step</h2>\n", out);
    draw_times(out, r);
    if (!spread_tells(&r->ratio))
        (void)fputs("<p class=\"note\">Medians of rounds that differ by more than the two do: this "
                    "machine cannot tell them apart.</p>\n",
                    out);
    (void)fputs("</section>\n<section><h2>Held-out digits</h2>\n", out);
    draw_digits(out, r);
    (void)fputs("</section>\n</div>\n<div>\n<section class=\"graph\"><h2>The captured step</h2>\n",
                out);
    (void)fputs(graph_drawing, out);
    (void)fputs("<p class=\"note\">A row is a layer: nodes that nothing orders against each other "
                "stand side "
                "by side. A column is "
                "a chain, as a stream was.</p>\n</section>\n<section><h2>Numbers</h2>\n",
                out);
    put_table(out, r);
    (void)fputs("</section>\n</div>\n</main>\n", out);
    end_page(out);
}
