/* SPDX-License-Identifier: MIT */
/* graphed/common/common.c: opening a device with the digits on it, small networks, and
 * comparisons. */
#include "common.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the digits ---- shuffled once, so that any run of rows is a fair batch. */
static ph_status upload(common *c, const digits *data)
{
    uint64_t state = 1;
    size_t n = data->count;
    uint32_t *order = malloc(n * sizeof *order);
    float *images = malloc(n * PIXELS * sizeof *images);
    int64_t *labels = malloc(n * sizeof *labels);
    ph_status st = order && images && labels
                       ? PH_OK
                       : ph_fail(PH_ERROR_HOST_MEMORY, "no memory for %zu images", n);
    if (st == PH_OK) {
        random_order(&state, order, n);
        for (size_t i = 0; i < n; i++) {
            memcpy(images + i * PIXELS, data->pixels + order[i] * (size_t)PIXELS,
                   PIXELS * sizeof *images);
            labels[i] = data->labels[order[i]];
        }
        c->count = (int64_t)n;
        c->train = c->count * 3 / 4;
        c->images = ph_tensor_retain(
            ph_from_memory(c->tape, PH_DTYPE_F32, PH_SHAPE(c->count, PIXELS), images));
        c->labels =
            ph_tensor_retain(ph_from_memory(c->tape, PH_DTYPE_I64, PH_SHAPE(c->count), labels));
        st = ph_tape_clear(c->tape);
    }
    free(order);
    free(images);
    free(labels);
    return st;
}

ph_status common_open(common *c, int argc, char **argv)
{
    digits data;
    ph_device_info info;
    *c = (common){0};
    PH_TRY(ph_device_open(&c->device, argc > 1 ? argv[1] : "auto", NULL));
    PH_TRY(ph_device_get_info(&info, c->device));
    printf("on %s\n", info.description);
    PH_TRY(ph_stream_create(&c->stream, c->device, NULL));
    PH_TRY(ph_tape_create(&c->tape, c->stream, NULL));
    PH_TRY(digits_read(&data, argc > 2 ? argv[2] : GRAPHED_DIGITS));
    ph_status st = upload(c, &data);
    digits_free(&data);
    return st;
}

void common_close(common *c)
{
    ph_tensor_release(c->images);
    ph_tensor_release(c->labels);
    ph_tape_destroy(c->tape);
    ph_stream_destroy(c->stream);
    ph_device_release(c->device);
    *c = (common){0};
}

int common_end(const char *program, ph_status status)
{
    if (status == PH_OK)
        return 0;
    fprintf(stderr, "%s: %s: %s\n", program, ph_status_name(status), ph_error_last()->message);
    return 1;
}

/* ---- networks ---- */
enum {
    MOST_LAYERS = 16
};

/* layers[*made] is there if status says so. */
static ph_status counted(size_t *made, ph_status status)
{
    if (status == PH_OK)
        (*made)++;
    return status;
}

static ph_status make_layers(ph_module **layers, size_t *made, const common *c,
                             const int64_t *widths, size_t count, double dropout,
                             ph_generator *generator)
{
    ph_layer_options options = {.generator = generator};
    for (size_t i = 0; i + 1 < count; i++) {
        if (i > 0)
            PH_TRY(counted(made, ph_activation_create(&layers[*made], c->device, "relu", ph_relu)));
        if (i > 0 && dropout > 0)
            PH_TRY(counted(made, ph_dropout_create(&layers[*made], c->device, dropout)));
        PH_TRY(counted(made, ph_linear_create_with(&layers[*made], c->device, widths[i],
                                                   widths[i + 1], &options)));
    }
    return PH_OK;
}

ph_status common_network(ph_module **out, const common *c, const int64_t *widths, size_t count,
                         double dropout, uint64_t seed)
{
    ph_module *layers[MOST_LAYERS];
    ph_generator *generator = NULL;
    size_t made = 0;
    *out = NULL;
    if (3 * count > MOST_LAYERS)
        return ph_fail(PH_ERROR_ARGUMENT, "%zu widths are too many", count);
    PH_TRY(ph_generator_create(&generator, c->device, seed));
    ph_status st = make_layers(layers, &made, c, widths, count, dropout, generator);
    if (st == PH_OK)
        st = ph_sequential_create(out, layers, made);
    for (size_t i = 0; i < made; i++)
        ph_module_release(layers[i]); /* the sequence retains them */
    ph_generator_release(generator);
    return st;
}

ph_tensor *common_batch(const common *c, ph_tensor *rows, int64_t index, int64_t size)
{
    return ph_slice(c->tape, rows, 0, index * size, (index + 1) * size);
}

ph_tensor *common_right(ph_tape *tape, ph_tensor *logits, ph_tensor *labels)
{
    ph_tensor *right = ph_eq(tape, ph_argmax(tape, logits, -1, false), labels);
    return ph_mean(tape, ph_cast(tape, right, PH_DTYPE_F32));
}

/* ---- comparisons ---- */
ph_status common_distance(double *out, ph_tape *tape, ph_tensor *a, ph_tensor *b)
{
    bool before = ph_tape_set_grad_enabled(tape, false);
    ph_status st = ph_tensor_item(out, tape, ph_max(tape, ph_abs(tape, ph_sub(tape, a, b))));
    ph_tape_set_grad_enabled(tape, before);
    return st;
}

ph_status common_same(bool *out, ph_tape *tape, const ph_tensor *a, const ph_tensor *b)
{
    size_t bytes = ph_tensor_bytes(a);
    *out = false;
    if (bytes != ph_tensor_bytes(b))
        return PH_OK;
    char *copies = malloc(2 * bytes + 1);
    if (!copies)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory to compare %zu bytes", bytes);
    ph_status st = ph_tensor_read(tape, a, copies, bytes);
    if (st == PH_OK)
        st = ph_tensor_read(tape, b, copies + bytes, bytes);
    *out = st == PH_OK && memcmp(copies, copies + bytes, bytes) == 0;
    free(copies);
    return st;
}
