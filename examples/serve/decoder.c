/* SPDX-License-Identifier: MIT */
/* serve/decoder.c: the launches of a step. Nothing in here knows of graphs. */
#include "decoder.h"
#include <stdlib.h>
#include <string.h>

/* Products of a layer, by their order in the weights. */
enum {
    QUERY,
    KEY,
    VALUE,
    OUT,
    UP,
    DOWN,
    PRODUCTS
};
static const int32_t inputs_of[PRODUCTS] = {WIDTH, WIDTH, WIDTH, WIDTH, WIDTH, INNER};
static const int32_t outputs_of[PRODUCTS] = {WIDTH, WIDTH, WIDTH, WIDTH, INNER, WIDTH};
enum {
    LAYER_FLOATS = 4 * WIDTH * WIDTH + 2 * WIDTH * INNER,
    TABLE_FLOATS = WIDTH * TOKENS,
    WEIGHTS = LAYERS * LAYER_FLOATS + 2 * TABLE_FLOATS
};

size_t decoder_cache_floats(void)
{
    return (size_t)LAYERS * 2 * MOST_STEPS * WIDTH;
}

/* Numbers from -0.2 to 0.2, the same in every run. */
static ph_status make_weights(decoder *d)
{
    uint32_t random = 2463534242u;
    float *host = malloc(WEIGHTS * sizeof *host);
    if (!host)
        return ph_fail(PH_ERROR_HOST_MEMORY, "serve: no memory for the weights");
    for (size_t i = 0; i < WEIGHTS; i++) {
        random ^= random << 13, random ^= random >> 17, random ^= random << 5;
        host[i] = ((float)(random >> 8) / (float)(1 << 24) - 0.5f) * 0.4f;
    }
    ph_status status = PH_NEW(&d->weights, WEIGHTS, d->stream);
    if (status == PH_OK)
        status = ph_memcpy(d->weights, host, WEIGHTS * sizeof *host, d->stream);
    if (status == PH_OK)
        status = ph_stream_synchronize(d->stream);
    free(host);
    return status;
}

ph_status decoder_open(decoder *d, ph_device *device)
{
    memset(d, 0, sizeof *d);
    d->device = ph_device_retain(device);
    PH_TRY(ph_stream_create(&d->stream, device, NULL));
    for (int i = 0; i < KERNELS; i++)
        PH_TRY(ph_kernel_create(&d->kernels[i], device, &kernel_sources[i]));
    PH_TRY(PH_NEW(&d->tokens, MOST_ROWS, d->stream));
    PH_TRY(ph_memset(d->tokens, 0, MOST_ROWS * sizeof *d->tokens, d->stream));
    return make_weights(d);
}

void decoder_close(decoder *d)
{
    ph_free(d->weights, NULL);
    ph_free(d->tokens, NULL);
    for (int i = 0; i < KERNELS; i++)
        ph_kernel_release(d->kernels[i]);
    ph_stream_destroy(d->stream);
    ph_device_release(d->device);
}

/* ---- a step ---- */
/* The memory of a step, which it allocates and frees. */
typedef struct rooms {
    float *x, *query, *key, *value, *out, *inner, *scores;
} rooms;

static ph_status submit_product(const decoder_step *s, ph_stream *stream, const float *in,
                                const float *weight, float *out, int which, bool add)
{
    struct product_args args = {in,  weight,     out, inputs_of[which], outputs_of[which],
                                add, which == UP};
    ph_launch_config config = {.grid = {(uint32_t)s->bucket},
                               .block = {(uint32_t)outputs_of[which]}};
    return ph_launch(stream, s->of->kernels[PRODUCT], &config, &args, sizeof args);
}

static ph_status submit_attention(const decoder_step *s, ph_stream *stream, const rooms *r,
                                  size_t layer)
{
    ph_launch_config config = {.grid = {1}, .block = {WIDTH}};
    for (size_t row = 0; row < s->bucket; row++) {
        size_t at = row * WIDTH;
        float *keys = s->rows[row].cache + layer * 2 * MOST_STEPS * WIDTH;
        struct attend_args args = {r->query + at,
                                   r->key + at,
                                   r->value + at,
                                   keys,
                                   keys + (size_t)MOST_STEPS * WIDTH,
                                   r->out + at,
                                   s->rows[row].position};
        PH_TRY(ph_launch(stream, s->of->kernels[ATTEND], &config, &args, sizeof args));
    }
    return PH_OK;
}

static ph_status submit_layer(const decoder_step *s, ph_stream *stream, const rooms *r,
                              size_t layer)
{
    const float *weights[PRODUCTS], *at = s->of->weights + layer * LAYER_FLOATS;
    for (int i = 0; i < PRODUCTS; i++) {
        weights[i] = at;
        at += inputs_of[i] * outputs_of[i];
    }
    PH_TRY(submit_product(s, stream, r->x, weights[QUERY], r->query, QUERY, false));
    PH_TRY(submit_product(s, stream, r->x, weights[KEY], r->key, KEY, false));
    PH_TRY(submit_product(s, stream, r->x, weights[VALUE], r->value, VALUE, false));
    PH_TRY(submit_attention(s, stream, r, layer));
    PH_TRY(submit_product(s, stream, r->out, weights[OUT], r->x, OUT, true));
    PH_TRY(submit_product(s, stream, r->x, weights[UP], r->inner, UP, false));
    return submit_product(s, stream, r->inner, weights[DOWN], r->x, DOWN, true);
}

static ph_status submit_ends(const decoder_step *s, ph_stream *stream, const rooms *r)
{
    const decoder *d = s->of;
    const float *table = d->weights + (size_t)LAYERS * LAYER_FLOATS, *head = table + TABLE_FLOATS;
    struct embed_args embed = {d->tokens, table, r->x};
    struct product_args scores = {r->x, head, r->scores, WIDTH, TOKENS, 0, 0};
    struct choose_args choose = {r->scores, d->tokens};
    ph_launch_config rows = {.grid = {(uint32_t)s->bucket}, .block = {WIDTH}},
                     wide = {.grid = {(uint32_t)s->bucket}, .block = {TOKENS}},
                     thin = {.grid = {(uint32_t)s->bucket}, .block = {1}};
    PH_TRY(ph_launch(stream, d->kernels[EMBED], &rows, &embed, sizeof embed));
    for (size_t layer = 0; layer < LAYERS; layer++)
        PH_TRY(submit_layer(s, stream, r, layer));
    PH_TRY(ph_launch(stream, d->kernels[PRODUCT], &wide, &scores, sizeof scores));
    return ph_launch(stream, d->kernels[CHOOSE], &thin, &choose, sizeof choose);
}

ph_status decoder_submit(ph_stream *stream, void *step)
{
    const decoder_step *s = step;
    rooms r = {0};
    float **all[] = {&r.x, &r.query, &r.key, &r.value, &r.out};
    ph_status status = PH_OK;
    for (size_t i = 0; i < sizeof all / sizeof all[0] && status == PH_OK; i++)
        status = PH_NEW(all[i], s->bucket * WIDTH, stream);
    if (status == PH_OK)
        status = PH_NEW(&r.inner, s->bucket * INNER, stream);
    if (status == PH_OK)
        status = PH_NEW(&r.scores, s->bucket * TOKENS, stream);
    if (status == PH_OK)
        status = submit_ends(s, stream, &r);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ph_free(*all[i], stream);
    ph_free(r.inner, stream);
    ph_free(r.scores, stream);
    return status;
}
