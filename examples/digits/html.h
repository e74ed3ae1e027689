/* SPDX-License-Identifier: MIT */
/* digits/html.h: pages of one file, without a network; the reports of gpt take it too. */
#ifndef DIGITS_HTML_H
#define DIGITS_HTML_H
#include <phonograph/phonograph.h>
#include <stdio.h>

/* Everything up to the page's contents, and behind them. Errors stay in the stream. */
void begin_page(FILE *out, const char *title);
void end_page(FILE *out);

/* Text as HTML: & < > " are escaped. */
void put_text(FILE *out, const char *text);
/* "Device <code>host</code>: ..., 2 threads. phonograph 0.1.0." */
void put_device(FILE *out, const ph_device *device);

/* A captured graph as a drawing, and its nodes as a table. Errors: HOST_MEMORY. */
ph_status draw_graph(FILE *out, const ph_record *record);

/* Closes a memory stream; its text is valid only when everything that was put into it fitted. */
ph_status finish_text(FILE *stream);
/* Replaces the file at path, whole or not at all; what is no regular file (a device, a pipe) is
 * written in place. */
ph_status replace_file(const char *path, const char *text, size_t bytes);
#endif
