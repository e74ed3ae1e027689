/* SPDX-License-Identifier: MIT */
/* digits/setup.c: the split, the first weights, and what lives on the device. */
#include "net.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is only needed until it is uploaded. */
struct upload {
    float *pixels;
    uint32_t *labels, *rows, *order;
};

static void upload_free(struct upload *u)
{
    free(u->pixels);
    free(u->labels);
    free(u->rows);
    free(u->order);
}

static void copy_images(float *pixels, uint32_t *labels, const digits *data, const uint32_t *rows,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(pixels + i * PIXELS, data->pixels + (size_t)rows[i] * PIXELS,
               PIXELS * sizeof *pixels);
        labels[i] = data->labels[rows[i]];
    }
}

/* A random quarter is held out. The rest is visited in a new order in each epoch; what does not
 * fill a batch waits for the next one. */
static ph_status split(trainer *t, struct upload *u, const digits *data, uint64_t *seed)
{
    size_t trained = t->steps_per_epoch * BATCH;
    u->rows = calloc(data->count, sizeof *u->rows);
    u->pixels = calloc(t->train_count, PIXELS * sizeof *u->pixels);
    u->labels = calloc(t->train_count, sizeof *u->labels);
    u->order = calloc(t->steps, BATCH * sizeof *u->order);
    t->test_pixels = calloc(t->test_count, PIXELS * sizeof *t->test_pixels);
    t->test_labels = calloc(t->test_count, sizeof *t->test_labels);
    if (!u->rows || !u->pixels || !u->labels || !u->order || !t->test_pixels || !t->test_labels)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory to arrange %zu images", data->count);

    random_order(seed, u->rows, data->count);
    copy_images(u->pixels, u->labels, data, u->rows, t->train_count);
    copy_images(t->test_pixels, t->test_labels, data, u->rows + t->train_count, t->test_count);
    for (size_t epoch = 0; epoch < t->epochs; epoch++) {
        random_order(seed, u->rows, t->train_count);
        memcpy(u->order + epoch * trained, u->rows, trained * sizeof *u->rows);
    }
    return PH_OK;
}

/* Uniform by the number of inputs (He); biases are 0. */
static float *first_weights(size_t inputs, size_t outputs, uint64_t *seed)
{
    float *w = calloc((inputs + 1) * outputs, sizeof *w);
    float bound = sqrtf(6.0f / (float)inputs);
    for (size_t i = 0; w && i < inputs * outputs; i++)
        w[i] = random_uniform(seed, -bound, bound);
    return w;
}

static ph_status make_objects(trainer *t, const char *device)
{
    PH_TRY(ph_device_open(&t->device, device, NULL));
    PH_TRY(ph_stream_create(&t->main, t->device, NULL));
    if (t->form == FORM_MODULES)
        return PH_OK;
    PH_TRY(ph_stream_create(&t->side, t->device, NULL));
    PH_TRY(ph_event_create(&t->loss_ready, t->device, NULL));
    PH_TRY(ph_event_create(&t->weights_read, t->device, NULL));
    PH_TRY(ph_event_create(&t->side_done, t->device, NULL));
    return kernels_create(t->kernels, t->device);
}

static ph_status make_buffers(trainer *t)
{
    PH_TRY(PH_NEW(&t->pixels, t->train_count * PIXELS, t->main));
    PH_TRY(PH_NEW(&t->labels, t->train_count, t->main));
    PH_TRY(PH_NEW(&t->held_out, t->test_count * PIXELS, t->main));
    PH_TRY(PH_NEW(&t->order, t->steps * BATCH, t->main));
    PH_TRY(PH_NEW(&t->step, 1, t->main));
    PH_TRY(PH_NEW(&t->losses, t->steps, t->main));
    if (t->form == FORM_MODULES)
        return PH_OK;
    PH_TRY(PH_NEW(&t->predicted, t->test_count, t->main));
    PH_TRY(PH_NEW(&t->w1, WEIGHTS1, t->main));
    PH_TRY(PH_NEW(&t->w2, WEIGHTS2, t->main));
    PH_TRY(PH_NEW(&t->velocity1, WEIGHTS1, t->main));
    return PH_NEW(&t->velocity2, WEIGHTS2, t->main);
}

static ph_status fill_buffers(trainer *t, const struct upload *u)
{
    PH_TRY(ph_memcpy(t->pixels, u->pixels, t->train_count * PIXELS * sizeof *t->pixels, t->main));
    PH_TRY(ph_memcpy(t->labels, u->labels, t->train_count * sizeof *t->labels, t->main));
    PH_TRY(ph_memcpy(t->held_out, t->test_pixels, t->test_count * PIXELS * sizeof *t->held_out,
                     t->main));
    PH_TRY(ph_memcpy(t->order, u->order, t->steps * BATCH * sizeof *t->order, t->main));
    return trainer_reset(t);
}

static ph_status reset_weights(trainer *t)
{
    PH_TRY(ph_memcpy(t->w1, t->first_w1, WEIGHTS1 * sizeof *t->w1, t->main));
    PH_TRY(ph_memcpy(t->w2, t->first_w2, WEIGHTS2 * sizeof *t->w2, t->main));
    PH_TRY(ph_memset(t->velocity1, 0, WEIGHTS1 * sizeof *t->velocity1, t->main));
    return ph_memset(t->velocity2, 0, WEIGHTS2 * sizeof *t->velocity2, t->main);
}

ph_status trainer_reset(trainer *t)
{
    PH_TRY(ph_memset(t->losses, 0, t->steps * sizeof *t->losses, t->main));
    PH_TRY(ph_memset(t->step, 0, sizeof *t->step, t->main));
    PH_TRY(t->net ? net_reset(t) : reset_weights(t));
    return ph_stream_synchronize(t->main);
}

static ph_status create(trainer *t, struct upload *u, const char *device, const digits *data,
                        uint64_t seed)
{
    PH_TRY(split(t, u, data, &seed));
    t->first_w1 = first_weights(PIXELS, HIDDEN, &seed);
    t->first_w2 = first_weights(HIDDEN, CLASSES, &seed);
    if (!t->first_w1 || !t->first_w2)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for the first weights");
    PH_TRY(make_objects(t, device));
    PH_TRY(make_buffers(t));
    if (t->form == FORM_MODULES)
        PH_TRY(net_create(t));
    return fill_buffers(t, u);
}

ph_status trainer_create(trainer *t, enum form form, const char *device, const digits *data,
                         size_t epochs, uint64_t seed)
{
    *t = (trainer){.form = form, .epochs = epochs, .test_count = data->count / 4};
    t->train_count = data->count - t->test_count;
    t->steps_per_epoch = t->train_count / BATCH;
    t->steps = epochs * t->steps_per_epoch;
    if (t->steps_per_epoch == 0 || t->test_count == 0)
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%zu images are too few: a quarter is held out, and a batch takes %d of the rest",
            data->count, BATCH);
    struct upload u = {0};
    ph_status st = create(t, &u, device, data, seed);
    upload_free(&u);
    if (st != PH_OK)
        trainer_destroy(t);
    return st;
}

void trainer_destroy(trainer *t)
{
    ph_graph_destroy(t->graph);
    net_destroy(t);
    ph_free(t->pixels, NULL);
    ph_free(t->labels, NULL);
    ph_free(t->held_out, NULL);
    ph_free(t->predicted, NULL);
    ph_free(t->order, NULL);
    ph_free(t->step, NULL);
    ph_free(t->losses, NULL);
    ph_free(t->w1, NULL);
    ph_free(t->w2, NULL);
    ph_free(t->velocity1, NULL);
    ph_free(t->velocity2, NULL);
    kernels_release(t->kernels);
    ph_event_destroy(t->loss_ready);
    ph_event_destroy(t->weights_read);
    ph_event_destroy(t->side_done);
    ph_stream_destroy(t->side);
    ph_stream_destroy(t->main);
    ph_device_release(t->device);
    free(t->test_pixels);
    free(t->test_labels);
    free(t->first_w1);
    free(t->first_w2);
    *t = (trainer){0};
}
