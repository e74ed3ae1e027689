/* SPDX-License-Identifier: MIT */
/* tests/support/loaders.h: a data set that says which example is which, a fetch function over it
 * that may be slow or fail, and what a batch holds. */
#ifndef PH_TESTS_LOADERS_H
#define PH_TESTS_LOADERS_H
#include "base/clock.h"
#include "support/tensors.h"

enum {
    T_WIDTH = 3,
    T_MOST_ROWS = 64
};

/* Of the first so many calls for one batch, each fails. */
typedef struct t_source {
    uint64_t slowest_ns; /* each call takes a time up to that */
    uint64_t failing_epoch, failing_batch;
    atomic_int failures;
    ph_status failure;
    atomic_uint calls, inside, most_inside;
    t_gate gate; /* closed: calls for gated_batch of any epoch, and later ones, wait */
    bool gated;
    uint64_t gated_batch;
    ph_data_loader *_Atomic loader; /* not NULL: fetch calls it, which must fail */
    atomic_int exits;               /* so many calls end their thread */
} t_source;

/* Row of example i: {i, i + 0.25, i + 0.5} of f32, and 7 i of i64. */
static inline void t_fill_row(const ph_fetch_request *request, size_t row)
{
    float *x = (float *)request->data[0] + row * T_WIDTH;
    int64_t i = request->index[row];
    for (int k = 0; k < T_WIDTH; k++)
        x[k] = (float)i + 0.25F * (float)k;
    ((int64_t *)request->data[1])[row] = 7 * i;
}

static inline void t_count_inside(t_source *source, int by)
{
    unsigned now = atomic_fetch_add(&source->inside, (unsigned)by) + (unsigned)by;
    unsigned most = atomic_load(&source->most_inside);
    while (now > most && now < 1000 &&
           !atomic_compare_exchange_weak(&source->most_inside, &most, now)) {
    }
}

static inline bool t_takes(atomic_int *left)
{
    return atomic_load(left) > 0 && atomic_fetch_sub(left, 1) > 0;
}

static inline ph_status t_fail_maybe(t_source *source, const ph_fetch_request *request)
{
    if (request->epoch != source->failing_epoch || request->batch != source->failing_batch)
        return PH_OK;
    if (t_takes(&source->exits))
        pthread_exit(NULL);
    if (!t_takes(&source->failures))
        return PH_OK;
    return source->failure
               ? source->failure
               : ph_fail(PH_ERROR_IO, "example %lld is torn", (long long)request->index[0]);
}

static inline void t_call_loader(ph_data_loader *loader)
{
    ph_data_loader_position position = {0};
    if (!loader)
        return;
    assert_error(ph_data_loader_release(loader), PH_ERROR_STATE, "fetch function");
    assert_error(ph_data_loader_set_position(loader, &position), PH_ERROR_STATE, "fetch function");
    ph_data_loader_destroy(loader);
}

static inline ph_status t_fetch(const ph_fetch_request *request, void *user)
{
    t_source *source = user;
    atomic_fetch_add(&source->calls, 1);
    t_count_inside(source, 1);
    t_call_loader(atomic_load(&source->loader));
    if (source->gated && request->batch >= source->gated_batch)
        t_gate_body(&source->gate);
    if (source->slowest_ns > 0)
        ph__sleep_ns((request->batch * 7919 + request->epoch * 104729 + 13) * 1000 %
                     source->slowest_ns);
    for (size_t row = 0; row < request->count; row++)
        t_fill_row(request, row);
    t_count_inside(source, -1);
    return t_fail_maybe(source, request);
}

static const ph_batch_field t_fields[] = {{.dtype = PH_DTYPE_F32, .shape = {1, {T_WIDTH}}},
                                          {.dtype = PH_DTYPE_I64}};

/* fields NULL: those. */
static inline ph_data_loader_options t_loading(t_source *source, int64_t count, int64_t batch_size)
{
    return (ph_data_loader_options){.count = count,
                                    .batch_size = batch_size,
                                    .fields = t_fields,
                                    .field_count = 2,
                                    .fetch = t_fetch,
                                    .user = source,
                                    .threads = 3,
                                    .prefetch = 4};
}

static inline ph_data_loader *t_loader(const t_scene *scene, const ph_data_loader_options *options)
{
    ph_data_loader *loader;
    assert_ok(ph_data_loader_create(&loader, scene->device, options));
    return loader;
}

/* The tensors of a batch hold what its examples are. Waits. */
static inline void t_expect_batch(const t_scene *scene, const ph_batch *batch)
{
    float x[T_MOST_ROWS * T_WIDTH];
    int64_t y[T_MOST_ROWS];
    assert_in_range(batch->count, 1, T_MOST_ROWS);
    assert_int_equal(batch->tensor_count, 2);
    assert_int_equal(ph_tensor_dim(batch->tensor[0], 0), batch->count);
    assert_int_equal(ph_tensor_dim(batch->tensor[0], 1), T_WIDTH);
    assert_int_equal(ph_tensor_rank(batch->tensor[1]), 1);
    assert_ok(
        ph_tensor_read(scene->tape, batch->tensor[0], x, batch->count * T_WIDTH * sizeof x[0]));
    assert_ok(ph_tensor_read(scene->tape, batch->tensor[1], y, batch->count * sizeof y[0]));
    for (size_t row = 0; row < batch->count; row++) {
        assert_int_equal(y[row], 7 * batch->index[row]);
        for (size_t k = 0; k < T_WIDTH; k++)
            assert_true(x[row * T_WIDTH + k] == (float)batch->index[row] + 0.25F * (float)k);
    }
}

static inline ph_batch t_next(const t_scene *scene, ph_data_loader *loader)
{
    ph_batch batch;
    assert_ok(ph_data_loader_next(&batch, loader, scene->stream));
    return batch;
}

/* The examples of the whole epoch into index, which has room for them; its end is taken too. */
static inline size_t t_epoch(const t_scene *scene, ph_data_loader *loader, int64_t *index)
{
    size_t count = 0;
    for (ph_batch batch; (batch = t_next(scene, loader)).count > 0;) {
        t_expect_batch(scene, &batch);
        memcpy(index + count, batch.index, batch.count * sizeof *index);
        count += batch.count;
    }
    return count;
}
#endif
