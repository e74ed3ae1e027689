/* SPDX-License-Identifier: MIT */
/* digits/page.c: the report's page: style, headings, figures, the table. */
#include "report.h"

static const char style[] =
    ":root{color-scheme:light "
    "dark;--page:#f5f6f8;--card:#fff;--ink:#1a1f29;--soft:#5a6372;--line:#dde1e8;"
    "--eager:#d9730d;--replayed:#1a66c9;--good:#1d7a3e;--bad:#c22f2f;--lane0:#e8f0fb;--lane1:#"
    "fdf0e2}\n"
    "@media(prefers-color-scheme:dark){:root{--page:#12151b;--card:#1b2029;--ink:#e8ebf0;--soft:#"
    "a2abb9;--"
    "line:#333b48;"
    "--eager:#f0974a;--replayed:#6ea8f5;--good:#5fc585;--bad:#f27f7f;--lane0:#1d2c42;--lane1:#"
    "3a2c1c}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;padding:2rem 1rem "
    "3rem;max-width:70rem;background:var(--page);color:var(--ink);"
    "font:1rem/1.5 system-ui,sans-serif}\n"
    "h1{font-size:1.7rem;line-height:1.2;margin:0 0 .3rem}h2{font-size:1.1rem;margin:0 0 .6rem}\n"
    "header p{margin:0;color:var(--soft)}\n"
    ".facts{display:grid;grid-template-columns:repeat(4,minmax(0,1fr));gap:1rem;margin:1.4rem 0 "
    "1rem;padding:0;"
    "list-style:none}\n"
    ".facts li,section{background:var(--card);border:1px solid "
    "var(--line);border-radius:.7rem;padding:1rem "
    "1.1rem}\n"
    ".facts b{display:block;font-size:1.5rem;line-height:1.25}.facts "
    "span{color:var(--soft);font-size:.9rem}\n"
    "main{display:grid;grid-template-columns:1fr 1fr;gap:1rem;align-items:start}\n"
    "main>div{display:grid;gap:1rem;min-width:0}section{min-width:0}\n"
    "@media(max-width:52rem){main{grid-template-columns:minmax(0,1fr)}.facts{grid-template-columns:"
    "1fr "
    "1fr}}\n"
    "@media(max-width:30rem){.digits{grid-template-columns:repeat(4,minmax(0,1fr))!important}}\n"
    "svg{display:block;width:100%;height:auto}svg text{fill:var(--ink);font:13px "
    "system-ui,sans-serif;text-anchor:middle}\n"
    "svg .tick{fill:var(--soft);font-size:12px}svg .end{text-anchor:end}svg "
    ".label{text-anchor:start;font-size:15px}\n"
    "svg .label.end{text-anchor:end}\n"
    ".grid{stroke:var(--line);fill:none}.curve{fill:none;stroke-linejoin:round}\n"
    ".curve.eager{stroke:var(--eager);stroke-width:4.5;opacity:.55}.curve.replayed{stroke:var(--"
    "replayed);"
    "stroke-width:1.2}\n"
    ".bar.eager{fill:var(--eager)}.bar.replayed{fill:var(--replayed)}\n"
    ".swatch{display:inline-block;width:1.4rem;height:.3rem;border-radius:.2rem;margin:0 .4rem "
    ".2rem "
    "0;vertical-align:middle}\n"
    ".swatch.eager{background:var(--eager);height:.5rem}.swatch.replayed{background:var(--replayed)"
    ";margin-"
    "left:1rem}\n"
    ".edge{fill:none;stroke:var(--soft);stroke-width:1.4}.tip{fill:var(--soft)}\n"
    ".node rect{stroke:var(--line);stroke-width:1}.lane0 rect{fill:var(--lane0)}.lane1 "
    "rect{fill:var(--lane1)}\n"
    ".node text.small{fill:var(--soft);font-size:11px}.graph svg{max-width:30rem;margin:0 auto}\n"
    ".key,.note{margin:.5rem 0 0;color:var(--soft);font-size:.9rem}\n"
    ".digits{display:grid;grid-template-columns:repeat(6,minmax(0,1fr));gap:.7rem}\n"
    "figure{margin:0;text-align:center;font-size:.85rem}\n"
    "figure svg{border:2px solid var(--good);border-radius:.35rem;fill:var(--ink);padding:2px}\n"
    "figure.wrong "
    "svg{border-color:var(--bad)}figure.wrong{color:var(--bad)}figure.right{color:var(--good)}\n"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:"
    "tabular-nums;"
    "font-size:.93rem}\n"
    "th,td{padding:.35rem .5rem;border-bottom:1px solid "
    "var(--line);text-align:left;vertical-align:top}\n"
    "thead th{color:var(--soft);font-weight:600}tbody th{font-weight:400}.numbers td,.numbers "
    "thead "
    "th+th{text-align:right}\n"
    "@media(max-width:30rem){.numbers{font-size:.82rem}.numbers th,.numbers td{padding:.35rem "
    ".2rem}}\n"
    "details{margin-top:.8rem}summary{cursor:pointer;color:var(--soft)}\n";

static double per_step(const run *r, const trainer *t)
{
    return (double)r->allocations / (double)t->steps;
}

static void put_header(FILE *out, const report *r)
{
    const trainer *t = r->trainer;
    ph_device_info info = {0};
    if (ph_device_get_info(&info, t->device) != PH_OK)
        info = (ph_device_info){.name = "unknown"};
    (void)fputs("<header><h1>Handwritten digits, recorded once and replayed</h1>\n", out);
    (void)fprintf(out,
                  "<p>A %d-%d-%d network, on %s, trained twice from seed %llu: %zu epochs of %zu "
                  "batches of %d "
                  "images. Device <code>",
                  PIXELS, HIDDEN, CLASSES, t->form == FORM_MODULES ? "modules" : "plain kernels",
                  (unsigned long long)r->seed, t->epochs, t->steps_per_epoch, BATCH);
    put_text(out, info.name);
    (void)fputs("</code>", out);
    if (info.description[0]) {
        (void)fputs(": ", out);
        put_text(out, info.description);
    }
    if (info.threads > 0) /* of the host device */
        (void)fprintf(out, ", %u thread%s", info.threads, info.threads == 1 ? "" : "s");
    (void)fprintf(out, ". phonograph %s.</p></header>\n", ph_version());
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
    (void)fprintf(out,
                  "<li><b>%.2f×</b><span>eager time per step, divided by replayed</span></li>\n",
                  r->replayed->step_us > 0 ? r->eager->step_us / r->replayed->step_us : 0);
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
        "<p class=\"note\">Time per step: an epoch's steps are submitted without waiting, then "
        "waited for; the median over epochs. "
        "Pool bytes: eager, all that was taken from the device, images and weights included; "
        "replayed, the graph's own pool."
        "</p>\n",
        out);
}

void put_page(FILE *out, const report *r, const char *graph_drawing)
{
    (void)fprintf(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<title>Handwritten digits with phonograph</title>\n<style>\n%s</style>\n</head>\n<body>\n",
        style);
    put_header(out, r);
    put_facts(out, r);
    (void)fputs("<main>\n<div>\n<section><h2>Loss</h2>\n", out);
    draw_losses(out, r);
    (void)fputs("</section>\n<section><h2>Time per step</h2>\n", out);
    draw_times(out, r);
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
    (void)fputs("</section>\n</div>\n</main>\n</body>\n</html>\n", out);
}
