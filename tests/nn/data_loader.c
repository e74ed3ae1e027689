/* SPDX-License-Identifier: MIT */
/* tests/nn/data_loader.c: data loaders: which examples a batch has, that its tensors hold them
 * whatever the threads do, and that nothing is written while it is used. */
#include "support/loaders.h"
#include "support/test.h"

enum {
    COUNT = 100,
    BATCH = 8,
    LONG = 3000 /* longer than permutations that are sorted */
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

/* ---- order ---- */
TEST(test_batches_come_in_order_and_whole)
{
    source.slowest_ns = 300000;
    for (size_t threads = 1; threads <= 5; threads += 2)
        for (size_t prefetch = 1; prefetch <= 9; prefetch += 4) {
            ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
            options.threads = threads;
            options.prefetch = prefetch;
            ph_data_loader *loader = t_loader(&scene, &options);
            assert_int_equal(ph_data_loader_batch_count(loader), 13);
            for (uint64_t epoch = 0; epoch < 2; epoch++) {
                for (uint64_t i = 0; i < 13; i++) {
                    ph_batch batch = t_next(&scene, loader);
                    assert_int_equal(batch.epoch, epoch);
                    assert_int_equal(batch.number, i);
                    assert_int_equal(batch.count, i < 12 ? BATCH : COUNT % BATCH);
                    assert_int_equal(batch.index[0], i * BATCH);
                    t_expect_batch(&scene, &batch);
                }
                ph_batch end = t_next(&scene, loader);
                assert_int_equal(end.count, 0);
                assert_int_equal(end.number, 13);
                assert_int_equal(end.epoch, epoch);
                assert_null(end.tensor);
            }
            ph_data_loader_destroy(loader);
        }
    assert_in_range(atomic_load(&source.most_inside), 2, 5);
}

TEST(test_drop_last_leaves_the_rest_out)
{
    int64_t index[COUNT];
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    options.drop_last = true;
    ph_data_loader *loader = t_loader(&scene, &options);
    assert_int_equal(ph_data_loader_batch_count(loader), 12);
    assert_int_equal(t_epoch(&scene, loader, index), 12 * BATCH);
    ph_data_loader_destroy(loader);
}

TEST(test_none_is_begun_behind_the_last_epoch)
{
    int64_t index[COUNT];
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    options.epochs = 2;
    ph_data_loader *loader = t_loader(&scene, &options);
    assert_int_equal(t_epoch(&scene, loader, index), COUNT);
    assert_int_equal(t_epoch(&scene, loader, index), COUNT);
    for (int i = 0; i < 3; i++)
        assert_int_equal(t_next(&scene, loader).count, 0);
    ph_data_loader_destroy(loader);
    assert_int_equal(atomic_load(&source.calls), 26);
}

/* Exactly ph_randperm's numbers of a generator that is moved by 8 with each epoch. */
static void expect_shuffled(int64_t count, uint64_t seed)
{
    static int64_t index[LONG], want[LONG];
    ph_generator *generator;
    ph_data_loader_options options = t_loading(&source, count, T_MOST_ROWS);
    options.shuffle = true;
    options.seed = seed;
    ph_data_loader *loader = t_loader(&scene, &options);
    assert_ok(ph_generator_create(&generator, scene.device, seed));
    ph_tape_set_generator(scene.tape, generator);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        uint64_t offset;
        assert_ok(ph_generator_get_offset(&offset, generator));
        assert_int_equal(offset, 8 * epoch);
        ph_tensor *order = ph_randperm(scene.tape, count);
        assert_ok(ph_tensor_read(scene.tape, order, want, (size_t)count * sizeof *want));
        assert_ok(ph_tape_clear(scene.tape));
        assert_int_equal(t_epoch(&scene, loader, index), count);
        assert_memory_equal(index, want, (size_t)count * sizeof *want);
    }
    ph_tape_set_generator(scene.tape, NULL);
    ph_generator_release(generator);
    ph_data_loader_destroy(loader);
}

TEST(test_a_shuffled_epoch_is_randperm)
{
    const int64_t counts[] = {1, 2, 100, 1024, 1025, LONG};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        expect_shuffled(counts[i], 17 * i);
}

/* Elements rank, rank + world, ... of one order: together all of them, and equally many each. */
static void expect_ranks(uint32_t world, bool drop_last)
{
    int64_t whole[COUNT], index[COUNT];
    unsigned seen[COUNT] = {0};
    size_t total = 0, share = drop_last ? COUNT / world : (COUNT + world - 1) / world;
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    options.shuffle = true;
    options.seed = 5;
    ph_data_loader *loader = t_loader(&scene, &options);
    assert_int_equal(t_epoch(&scene, loader, whole), COUNT);
    ph_data_loader_destroy(loader);
    options.world = world;
    options.drop_last = drop_last;
    for (options.rank = 0; options.rank < world; options.rank++) {
        loader = t_loader(&scene, &options);
        size_t count = t_epoch(&scene, loader, index);
        ph_data_loader_destroy(loader);
        assert_int_equal(count, drop_last ? share / BATCH * BATCH : share);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(index[i], whole[(i * world + options.rank) % COUNT]);
            total += seen[index[i]]++ == 0;
        }
    }
    if (!drop_last)
        assert_int_equal(total, COUNT);
}

TEST(test_ranks_share_an_epoch)
{
    for (uint32_t world = 2; world <= 7; world++) {
        expect_ranks(world, false);
        expect_ranks(world, true);
    }
}

/* ---- memory ---- */
/* The stream is held behind a gate when it gets three batches of a loader with two places: each is
 * still there when it comes to what was submitted for it. */
TEST(test_a_batch_is_not_overwritten_before_its_work_is_done)
{
    enum {
        TAKEN = 3
    };
    float *kept, got[TAKEN][BATCH * T_WIDTH];
    t_gate gate = {0};
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    options.prefetch = 1;
    options.threads = 1;
    ph_data_loader *loader = t_loader(&scene, &options);
    assert_ok(PH_NEW(&kept, sizeof got / sizeof(float), scene.stream));
    assert_ok(t_gate_wait_guarded(&gate, scene.stream));
    for (size_t i = 0; i < TAKEN; i++) {
        ph_batch batch = t_next(&scene, loader);
        assert_ok(ph_memcpy(kept + i * BATCH * T_WIDTH, ph_tensor_data(batch.tensor[0]),
                            sizeof got[0], scene.stream));
    }
    t_gate_open(&gate);
    assert_ok(ph_memcpy(got, kept, sizeof got, scene.stream));
    assert_ok(ph_stream_synchronize(scene.stream));
    for (size_t i = 0; i < sizeof got / sizeof(float); i++)
        assert_true(got[i / (BATCH * T_WIDTH)][i % (BATCH * T_WIDTH)] ==
                    (float)(i / T_WIDTH) + 0.25F * (float)(i % T_WIDTH));
    ph_free(kept, scene.stream);
    ph_data_loader_destroy(loader);
}

/* The streams of a chaotic device run in any order that events allow: each batch is read from other
 * memory, which the work of two streams has in its hands at once. */
static void load_in_chaos(uint64_t seed)
{
    enum {
        TAKEN = 12
    };
    t_scene chaos;
    float *kept, got[TAKEN][BATCH * T_WIDTH];
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    const ph_device_options how = {.host_chaos_seed = seed, .debug_poison = true};
    assert_ok(ph_device_open(&chaos.device, "host", &how));
    assert_ok(ph_stream_create(&chaos.stream, chaos.device, NULL));
    assert_ok(ph_tape_create(&chaos.tape, chaos.stream, NULL));
    options.prefetch = 1 + seed % 3;
    ph_data_loader *loader = t_loader(&chaos, &options);
    assert_ok(PH_NEW(&kept, sizeof got / sizeof(float), chaos.stream));
    for (size_t i = 0; i < TAKEN; i++) {
        ph_batch batch = t_next(&chaos, loader);
        assert_ok(ph_memcpy(kept + i * BATCH * T_WIDTH, ph_tensor_data(batch.tensor[0]),
                            sizeof got[0], chaos.stream));
    }
    assert_ok(ph_memcpy(got, kept, sizeof got, chaos.stream));
    assert_ok(ph_stream_synchronize(chaos.stream));
    for (size_t i = 0; i < TAKEN * BATCH; i++)
        for (size_t k = 0; k < T_WIDTH; k++)
            assert_true(got[i / BATCH][i % BATCH * T_WIDTH + k] == (float)i + 0.25F * (float)k);
    ph_free(kept, chaos.stream);
    ph_data_loader_destroy(loader);
    t_scene_close(&chaos);
}

TEST(test_every_legal_order_gives_the_same_contents)
{
    t_host_only("chaos is the host device's");
    for (uint64_t seed = 1; seed <= (t_nightly() ? 2000 : 60); seed++)
        load_in_chaos(seed);
}

/* Of every batch, handle or view: none changes, also when the loader is gone. */
TEST(test_tensors_that_are_kept_stay_as_they_are)
{
    ph_tensor *kept[13][2];
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    options.prefetch = 2;
    ph_data_loader *loader = t_loader(&scene, &options);
    for (int i = 0; i < 13; i++) {
        ph_batch batch = t_next(&scene, loader);
        kept[i][0] = i % 2 ? ph_tensor_retain(ph_slice(scene.tape, batch.tensor[0], 0, 0, 1))
                           : ph_tensor_retain(batch.tensor[0]);
        kept[i][1] = ph_tensor_retain(batch.tensor[1]);
        assert_ok(ph_tape_clear(scene.tape));
    }
    ph_data_loader_destroy(loader);
    for (int i = 0; i < 13; i++) {
        float x[BATCH * T_WIDTH];
        int64_t y[BATCH];
        assert_ok(ph_tensor_read(scene.tape, kept[i][0], x, ph_tensor_bytes(kept[i][0])));
        assert_ok(ph_tensor_read(scene.tape, kept[i][1], y, ph_tensor_bytes(kept[i][1])));
        assert_true(x[0] == (float)(i * BATCH));
        assert_int_equal(y[0], 7 * i * BATCH);
        ph_tensor_release(kept[i][0]);
        ph_tensor_release(kept[i][1]);
    }
}

TEST(test_memory_stays_flat)
{
    ph_memory_stats before, after;
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    ph_data_loader *loader = t_loader(&scene, &options);
    assert_ok(ph_memory_get_stats(&before, scene.device));
    for (int i = 0; i < (t_nightly() ? 20000 : 400); i++)
        (void)t_next(&scene, loader);
    assert_ok(ph_memory_get_stats(&after, scene.device));
    assert_int_equal(after.allocated, before.allocated);
    assert_int_equal(after.allocated_peak, before.allocated_peak);
    assert_int_equal(after.pinned, before.pinned);
    ph_data_loader_destroy(loader);
}

/* ---- fields ---- */
static ph_status fetch_many(const ph_fetch_request *request, void *user)
{
    (void)user;
    assert_null(request->data[1]);
    for (size_t row = 0; row < request->count; row++) {
        ((uint8_t *)request->data[0])[row] = (uint8_t)request->index[row];
        for (int k = 0; k < 4; k++)
            ((int32_t *)request->data[2])[row * 4 + (size_t)k] = k - (int32_t)request->index[row];
    }
    return PH_OK;
}

TEST(test_fields_have_any_dtype_and_shape)
{
    const ph_batch_field fields[] = {{.dtype = PH_DTYPE_U8, .shape = {1, {1}}},
                                     {.dtype = PH_DTYPE_F64, .shape = {2, {0, 5}}},
                                     {.dtype = PH_DTYPE_I32, .shape = {3, {2, 1, 2}}}};
    ph_data_loader_options options = t_loading(NULL, 10, 5);
    options.fields = fields;
    options.field_count = 3;
    options.fetch = fetch_many;
    ph_data_loader *loader = t_loader(&scene, &options);
    (void)t_next(&scene, loader);
    ph_batch batch = t_next(&scene, loader);
    uint8_t bytes[5];
    int32_t words[20];
    assert_ok(ph_tensor_read(scene.tape, batch.tensor[0], bytes, sizeof bytes));
    assert_int_equal(ph_tensor_bytes(batch.tensor[1]), 0);
    assert_int_equal(ph_tensor_dim(batch.tensor[1], -1), 5);
    assert_ok(ph_tensor_read(scene.tape, batch.tensor[2], words, sizeof words));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(bytes[i], 5 + i);
        assert_int_equal(words[4 * i + 3], 3 - 5 - i);
    }
    ph_data_loader_destroy(loader);
}

/* ---- waiting ---- */
TEST(test_what_was_waited_for_is_counted)
{
    ph_data_loader_stats stats;
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    source.slowest_ns = 4000000;
    options.threads = 1;
    options.prefetch = 2;
    ph_data_loader *loader = t_loader(&scene, &options);
    for (int i = 0; i < 10; i++)
        (void)t_next(&scene, loader);
    assert_ok(ph_data_loader_get_stats(&stats, loader));
    assert_int_equal(stats.batches, 10);
    assert_in_range(stats.waits, 1, 10);
    assert_true(stats.waited_ns > 0 && stats.fetch_ns > 0);
    assert_in_range(stats.fetches, 10, 13);
    assert_in_range(stats.ready, 0, 2);
    ph_data_loader_destroy(loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_batches_come_in_order_and_whole),
        IN_WORLD(test_drop_last_leaves_the_rest_out),
        IN_WORLD(test_none_is_begun_behind_the_last_epoch),
        IN_WORLD(test_a_shuffled_epoch_is_randperm),
        IN_WORLD(test_ranks_share_an_epoch),
        IN_WORLD(test_a_batch_is_not_overwritten_before_its_work_is_done),
        IN_WORLD(test_every_legal_order_gives_the_same_contents),
        IN_WORLD(test_tensors_that_are_kept_stay_as_they_are),
        IN_WORLD(test_memory_stays_flat),
        IN_WORLD(test_fields_have_any_dtype_and_shape),
        IN_WORLD(test_what_was_waited_for_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
