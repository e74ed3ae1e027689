/* SPDX-License-Identifier: MIT */
/* digits/report.h: the HTML report: one file, no network, drawings as inline SVG. */
#ifndef DIGITS_REPORT_H
#define DIGITS_REPORT_H
#include "train.h"
#include <stdio.h>

typedef struct report {
    const trainer *trainer;
    const run *eager, *replayed;
    const ph_record *record; /* of the captured step */
    uint64_t seed;
} report;

/* Replaces the file at path, whole or not at all; what is no regular file (a device, a pipe) is
 * written in place. */
ph_status report_write(const report *r, const char *path);

/* Every loss of the run, a line each, to the last bit; the file is replaced as the report is. */
ph_status losses_write(const run *r, const trainer *t, const char *path);

/* The parts; each writes one SVG drawing or more. Errors stay in the stream. */
void draw_losses(FILE *out, const report *r);
void draw_times(FILE *out, const report *r);
void draw_digits(FILE *out, const report *r);
ph_status draw_graph(FILE *out, const ph_record *record); /* HOST_MEMORY */
void put_page(FILE *out, const report *r, const char *graph_drawing);

/* Text as HTML: & < > " are escaped. */
void put_text(FILE *out, const char *text);

/* Writes text to path as report_write says. */
ph_status replace_file(const char *path, const char *text, size_t bytes);
#endif
