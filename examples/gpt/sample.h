/* SPDX-License-Identifier: MIT */
/* gpt/sample.h: writing text with the model: a graph that draws one character, replayed. */
#ifndef GPT_SAMPLE_H
#define GPT_SAMPLE_H
#include "train.h"
#include <stdio.h>

typedef struct sampler {
    trainer *trainer;
    const corpus *text;
    double temperature;
    ph_generator *generator; /* of its own: samples leave the training's numbers alone */
    ph_graph *graph;
    ph_tensor *context; /* [1, time]: the characters before the next one */
    ph_tensor *drawn;   /* pinned: the character that the last replay drew */
} sampler;

ph_status sampler_create(sampler *s, trainer *t, const corpus *text, double temperature);
void sampler_destroy(sampler *s);

/* Behind the first characters of the text that is held out, which it does not write, count more.
 * The same seed and weights give the same text. The first call captures the graph. show: each
 * character is flushed. */
ph_status write_sample(sampler *s, int64_t count, uint64_t seed, FILE *out, bool show);
#endif
