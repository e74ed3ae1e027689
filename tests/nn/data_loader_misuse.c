/* SPDX-License-Identifier: MIT */
/* tests/nn/data_loader_misuse.c: what data loaders refuse, and what is left where memory, threads
 * or the driver fail at any place. */
#include "base/sync.h"
#include "support/loaders.h"
#include "support/sweep.h"
#include "support/test.h"

enum {
    COUNT = 20,
    BATCH = 8
};

static t_scene scene;
static t_source source;

FIXTURE(open_world)
{
    t_scene_open(&scene);
    memset(&source, 0, sizeof source);
    return 0;
}

FIXTURE(close_world)
{
    t_scene_close(&scene);
    return 0;
}

/* ---- creation ---- */
static void refuse(const ph_data_loader_options *options, ph_status status, const char *part)
{
    ph_data_loader *loader = (ph_data_loader *)&scene;
    assert_error(ph_data_loader_create(&loader, scene.device, options), status, part);
    assert_null(loader);
}
/* One member of good options is this. */
#define REFUSE(member, value, status, part)                                                        \
    do {                                                                                           \
        ph_data_loader_options bad_ = t_loading(&source, COUNT, BATCH);                            \
        bad_.member = (value);                                                                     \
        refuse(&bad_, (status), (part));                                                           \
    } while (0)

TEST(test_options_that_mean_nothing)
{
    ph_data_loader *loader;
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    assert_error(ph_data_loader_create(NULL, scene.device, &options), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_data_loader_create(&loader, NULL, &options), PH_ERROR_ARGUMENT, "device");
    refuse(NULL, PH_ERROR_ARGUMENT, "options");
    REFUSE(count, 0, PH_ERROR_ARGUMENT, "count 0");
    REFUSE(count, -1, PH_ERROR_ARGUMENT, "count -1");
    REFUSE(batch_size, 0, PH_ERROR_ARGUMENT, "batch_size 0");
    REFUSE(fetch, NULL, PH_ERROR_ARGUMENT, "fetch is NULL");
    REFUSE(fields, NULL, PH_ERROR_ARGUMENT, "0 fields");
    REFUSE(field_count, 0, PH_ERROR_ARGUMENT, "0 fields");
    REFUSE(field_count, 17, PH_ERROR_ARGUMENT, "17 fields");
    REFUSE(threads, 257, PH_ERROR_ARGUMENT, "257 threads");
    REFUSE(threads, PH_ZERO, PH_ERROR_ARGUMENT, "threads");
    REFUSE(prefetch, 1025, PH_ERROR_ARGUMENT, "1025 batches ahead");
    REFUSE(prefetch, PH_ZERO, PH_ERROR_ARGUMENT, "prefetch");
    REFUSE(rank, 1, PH_ERROR_ARGUMENT, "rank 1 of a world of 0");
    REFUSE(reserved[3], 1, PH_ERROR_ARGUMENT, "reserved");
    options.batch_size = COUNT + 1;
    options.drop_last = true;
    refuse(&options, PH_ERROR_ARGUMENT, "no batch");
    assert_int_equal(atomic_load(&source.calls), 0);
}

static void refuse_field(ph_batch_field field, ph_status status, const char *part)
{
    const ph_batch_field fields[] = {t_fields[0], field};
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    options.fields = fields;
    options.drop_last = true;
    refuse(&options, status, part);
}

TEST(test_fields_that_cannot_be)
{
    refuse_field((ph_batch_field){.dtype = (ph_dtype)0}, PH_ERROR_ARGUMENT, "field 1: dtype ?");
    refuse_field((ph_batch_field){.dtype = PH_DTYPE_F32, .shape = {1, {-1}}}, PH_ERROR_ARGUMENT,
                 "field 1");
    refuse_field((ph_batch_field){.dtype = PH_DTYPE_F32, .shape = {8, {1, 1, 1, 1, 1, 1, 1, 1}}},
                 PH_ERROR_ARGUMENT, "rank 8");
    refuse_field((ph_batch_field){.dtype = PH_DTYPE_F32, .shape = {1, {INT64_MAX / 2}}},
                 PH_ERROR_SIZE, "field 1");
    refuse_field((ph_batch_field){.dtype = PH_DTYPE_F64, .shape = {1, {INT64_MAX / 20}}},
                 PH_ERROR_SIZE, "field 1");
}

static void refuse_into(ph_tensor *into, ph_status status, const char *part)
{
    refuse_field((ph_batch_field){.dtype = PH_DTYPE_F32, .shape = {1, {2}}, .into = into}, status,
                 part);
}

TEST(test_tensors_that_take_no_batch)
{
    t_scene other;
    ph_tensor *x;
    ph_tape *tape = scene.tape;
    t_scene_open(&other);
    refuse_into(ph_zeros(tape, PH_DTYPE_F64, PH_SHAPE(BATCH, 2)), PH_ERROR_ARGUMENT, "needs f32");
    refuse_into(ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(BATCH, 3)), PH_ERROR_ARGUMENT, "8 rows");
    refuse_into(ph_transpose(tape, ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(2, BATCH)), 0, 1),
                PH_ERROR_ARGUMENT, "not contiguous");
    assert_ok(ph_tensor_create(&x, scene.device, PH_DTYPE_F32, PH_SHAPE(BATCH, 2)));
    ph_tensor_fill(tape, x, 0);
    assert_ok(ph_tensor_set_requires_grad(x, true));
    refuse_into(ph_square(tape, x), PH_ERROR_ARGUMENT, "made by an operator");
    assert_ok(ph_tape_clear(tape));
    ph_data_loader_options uneven = t_loading(&source, COUNT, BATCH);
    const ph_batch_field fields[] = {{.dtype = PH_DTYPE_F32, .shape = {1, {2}}, .into = x}};
    uneven.fields = fields;
    uneven.field_count = 1;
    refuse(&uneven, PH_ERROR_ARGUMENT, "the last batch of an epoch has 4 rows");
    ph_tensor_release(x);
    assert_ok(ph_tensor_create(&x, other.device, PH_DTYPE_F32, PH_SHAPE(BATCH, 2)));
    /* A GPU has one device a process: both names are the same. */
    if (t_on_host())
        refuse_into(x, PH_ERROR_WRONG_DEVICE, "field 1");
    ph_tensor_release(x);
    t_scene_close(&other);
}

/* ---- calls ---- */
TEST(test_calls_without_what_they_need)
{
    ph_batch batch = {.count = 1};
    ph_data_loader_stats stats;
    ph_data_loader_position position;
    ph_device *host;
    ph_stream *stream;
    const ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    ph_data_loader *loader = t_loader(&scene, &options);
    assert_error(ph_data_loader_next(NULL, loader, scene.stream), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_data_loader_next(&batch, NULL, scene.stream), PH_ERROR_ARGUMENT, "loader");
    assert_error(ph_data_loader_next(&batch, loader, NULL), PH_ERROR_ARGUMENT, "stream");
    assert_int_equal(batch.count, 0);
    assert_error(ph_data_loader_release(NULL), PH_ERROR_ARGUMENT, "loader");
    assert_error(ph_data_loader_get_stats(NULL, loader), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_data_loader_get_stats(&stats, NULL), PH_ERROR_ARGUMENT, "loader");
    assert_error(ph_data_loader_get_position(NULL, loader), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_data_loader_get_position(&position, NULL), PH_ERROR_ARGUMENT, "loader");
    assert_error(ph_data_loader_set_position(NULL, &position), PH_ERROR_ARGUMENT, "loader");
    assert_error(ph_data_loader_set_position(loader, NULL), PH_ERROR_ARGUMENT, "position");
    assert_int_equal(ph_data_loader_batch_count(NULL), 0);
    assert_ok(ph_device_open(&host, "host:threads=1", NULL));
    assert_ok(ph_stream_create(&stream, host, NULL));
    assert_error(ph_data_loader_next(&batch, loader, stream), PH_ERROR_WRONG_DEVICE, "stream");
    ph_stream_destroy(stream);
    ph_device_release(host);
    assert_int_equal(t_next(&scene, loader).number, 0);
    ph_data_loader_destroy(loader);
}

#define REFUSE_POSITION(member, value, status, part)                                               \
    do {                                                                                           \
        ph_data_loader_position bad_ = good;                                                       \
        bad_.member = (value);                                                                     \
        assert_error(ph_data_loader_set_position(loader, &bad_), (status), (part));                \
    } while (0)

TEST(test_positions_of_other_loaders)
{
    ph_data_loader_position good, now;
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    options.epochs = 4;
    ph_data_loader *loader = t_loader(&scene, &options);
    ph_batch batch = t_next(&scene, loader);
    assert_ok(ph_data_loader_get_position(&good, loader));
    REFUSE_POSITION(count, COUNT + 1, PH_ERROR_MISMATCH, "count 21, and this one has 20");
    REFUSE_POSITION(batch_size, 4, PH_ERROR_MISMATCH, "batch_size 4");
    REFUSE_POSITION(world, 2, PH_ERROR_MISMATCH, "world 2");
    REFUSE_POSITION(shuffle, 1, PH_ERROR_MISMATCH, "shuffle");
    REFUSE_POSITION(drop_last, 1, PH_ERROR_MISMATCH, "drop_last");
    REFUSE_POSITION(batch, 4, PH_ERROR_ARGUMENT, "batch 4 of an epoch that has 3");
    REFUSE_POSITION(epoch, 4, PH_ERROR_ARGUMENT, "there are 4 epochs");
    REFUSE_POSITION(epoch, UINT64_MAX, PH_ERROR_ARGUMENT, "epochs");
    REFUSE_POSITION(reserved[0], 1, PH_ERROR_ARGUMENT, "reserved");
    assert_ok(ph_data_loader_get_position(&now, loader));
    assert_memory_equal(&now, &good, sizeof now);
    t_expect_batch(&scene, &batch);
    good.epoch = 4;
    good.batch = 0;
    assert_ok(ph_data_loader_set_position(loader, &good));
    assert_int_equal(t_next(&scene, loader).count, 0);
    ph_data_loader_destroy(loader);
    options.epochs = 0;
    loader = t_loader(&scene, &options);
    REFUSE_POSITION(epoch, UINT64_MAX / 2, PH_ERROR_ARGUMENT, "beyond");
    ph_data_loader_destroy(loader);
}

/* ---- failures ---- One field goes into a tensor, the other is kept by the caller for a while, so
 * that memory is taken for it anew. */
static ph_tensor *into;

FIXTURE(open_swept)
{
    t_scene_open(&scene);
    memset(&source, 0, sizeof source);
    assert_ok(ph_tensor_create(&into, scene.device, PH_DTYPE_F32, PH_SHAPE(BATCH, T_WIDTH)));
    return 0;
}

FIXTURE(close_swept)
{
    ph_tensor_release(into);
    t_scene_close(&scene);
    return 0;
}

static ph_status take_two_epochs(ph_data_loader *loader)
{
    ph_batch batch;
    ph_tensor *kept = NULL;
    for (int i = 0; i < 6; i++) {
        ph_status status = ph_data_loader_next(&batch, loader, scene.stream);
        ph_tensor_release(kept);
        PH_TRY(status);
        kept = batch.count > 0 ? ph_tensor_retain(batch.tensor[1]) : NULL;
    }
    return ph_stream_synchronize(scene.stream);
}

static ph_status load_swept(void *user)
{
    (void)user;
    const ph_batch_field fields[] = {{.dtype = PH_DTYPE_F32, .shape = {1, {T_WIDTH}}, .into = into},
                                     {.dtype = PH_DTYPE_I64}};
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    ph_data_loader *loader;
    options.fields = fields;
    options.threads = 1;
    options.prefetch = 1;
    options.epochs = 2;
    options.drop_last = true;
    PH_TRY(ph_data_loader_create(&loader, scene.device, &options));
    ph_status status = take_two_epochs(loader);
    ph_data_loader_destroy(loader);
    return status;
}

static void reset_swept(ph_status status, void *user)
{
    (void)user;
    if (status == PH_OK)
        assert_in_range(atomic_load(&source.calls), 4, 1000);
    atomic_store(&source.calls, 0);
    assert_int_equal(atomic_load(&source.inside), 0);
}

static const t_swept swept = {.name = "data loader",
                              .open = open_swept,
                              .close = close_swept,
                              .run = load_swept,
                              .reset = reset_swept,
                              .may_do_less = true};

/* Of the loader's three threads each is refused once; what had been made goes. */
TEST(test_threads_that_the_system_refuses)
{
    const ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    for (int64_t n = 0; n < 3; n++) {
        ph_data_loader *loader;
        assert_ok(ph_stream_synchronize(scene.stream));
        ph__thread_fail_after(n);
        ph_status status = ph_data_loader_create(&loader, scene.device, &options);
        ph__thread_fail_after(INT64_MAX);
        assert_status(status, PH_ERROR_HOST_MEMORY);
        assert_non_null(strstr(ph_error_last()->message, "the system refused thread"));
        assert_null(loader);
    }
    ph_data_loader *loader = t_loader(&scene, &options);
    assert_int_equal(t_next(&scene, loader).count, BATCH);
    ph_data_loader_destroy(loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_options_that_mean_nothing),  IN_WORLD(test_fields_that_cannot_be),
        IN_WORLD(test_tensors_that_take_no_batch), IN_WORLD(test_calls_without_what_they_need),
        IN_WORLD(test_positions_of_other_loaders), IN_WORLD(test_threads_that_the_system_refuses),
        T_SWEEP(test_without_host_memory, &swept), T_SWEEP(test_when_the_driver_fails, &swept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
