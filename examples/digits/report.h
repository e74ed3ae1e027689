/* SPDX-License-Identifier: MIT */
/* digits/report.h: the HTML report: one file, no network, drawings as inline SVG. */
#ifndef DIGITS_REPORT_H
#define DIGITS_REPORT_H
#include "html.h"
#include "train.h"

typedef struct report {
    const trainer *trainer;
    const run *eager, *replayed;
    spread ratio;            /* of eager step times, divided by replayed ones */
    const ph_record *record; /* of the captured step */
    uint64_t seed;
} report;

/* Replaces the file at path (replace_file). */
ph_status report_write(const report *r, const char *path);

/* Every loss of the run, a line each, to the last bit; the file is replaced as the report is. */
ph_status losses_write(const run *r, const trainer *t, const char *path);

/* The parts; each writes one SVG drawing or more. Errors stay in the stream. */
void draw_losses(FILE *out, const report *r);
void draw_times(FILE *out, const report *r);
void draw_digits(FILE *out, const report *r);
void put_page(FILE *out, const report *r, const char *graph_drawing);
#endif
