/* SPDX-License-Identifier: MIT */
/* tests/nn/training_shortages.c: saving and loading trainings when host memory runs out, at every
 * place, and state.json with a byte changed, at every place: nothing is half done, and nothing is
 * left. */
#include "support/sweep.h"
#include "support/test.h"
#include "support/trainings.h"
#include <dirent.h>

static t_folder outer;
static char folder[128];

FIXTURE(make_folder)
{
    t_memory_folder_open(&outer);
    (void)snprintf(folder, sizeof folder, "%s/run", outer.path);
    return 0;
}

FIXTURE(drop_folder)
{
    t_remove_all(outer.path);
    return 0;
}

static size_t count_entries(void)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    assert_int_equal(closedir(dir), 0);
    return count - 2;
}

/* Two states; what is in memory is behind both. */
static t_print open_world(t_trained *t)
{
    t_trained_open(t, 7);
    t_trained_attach(t, folder, NULL);
    for (int i = 0; i < 2; i++) {
        t_trained_step(t, false);
        assert_ok(ph_training_save(t->training, NULL));
    }
    t_print saved = t_trained_print(t);
    t_trained_step(t, false);
    return saved;
}

TEST(a_save_without_memory_leaves_nothing)
{
    t_trained t;
    int64_t at = 0;
    t_print saved = open_world(&t);
    t_print now = t_trained_print(&t);
    t_trained_rest(&t);
    int64_t live = ph__alloc_live();
    for (ph_status status = PH_ERROR_HOST_MEMORY; status != PH_OK; at++) {
        ph__alloc_fail_after(at);
        status = ph_training_save(t.training, NULL);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status == PH_OK)
            break;
        assert_error(status, PH_ERROR_HOST_MEMORY, "memory");
        assert_int_equal(count_entries(), 4);
        assert_int_equal(ph__alloc_live(), live);
        if (at % 16 == 0)
            t_expect_print(&t, now, "a save without memory");
    }
    assert_true(at > 100);
    t_expect_print(&t, now, "saved at last");
    assert_ok(ph_training_load(t.training, 2, NULL));
    t_expect_print(&t, saved, "the state before");
    t_trained_close(&t);
}

/* The newest one is damaged, so that words about it are needed too. */
TEST(a_load_without_memory_changes_nothing)
{
    t_trained t;
    int64_t at = 0;
    char path[256];
    t_print saved = open_world(&t);
    assert_ok(ph_training_save(t.training, NULL));
    t_print now = t_trained_print(&t);
    (void)snprintf(path, sizeof path, "%s/000003/net.safetensors", folder);
    assert_int_equal(truncate(path, 9), 0);
    t_trained_rest(&t);
    t_log_start();
    for (ph_status status = PH_ERROR_HOST_MEMORY; status != PH_OK; at++) {
        ph__alloc_fail_after(at);
        status = ph_training_load(t.training, 0, NULL);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status == PH_OK)
            break;
        assert_error(status, PH_ERROR_HOST_MEMORY, "memory");
        t_expect_print(&t, now, "a load without memory");
    }
    t_log_stop();
    assert_true(at > 100);
    t_expect_print(&t, saved, "loaded at last");
    t_trained_close(&t);
}

TEST(a_list_of_parts_without_memory)
{
    t_trained t;
    ph_training *training = NULL;
    int64_t at = 0;
    t_trained_open(&t, 7);
    t_trained_rest(&t);
    int64_t live = ph__alloc_live();
    for (ph_status status = PH_ERROR_HOST_MEMORY; status != PH_OK; at++) {
        ph__alloc_fail_after(at);
        status = ph_training_create(&training, folder, NULL);
        if (status == PH_OK)
            status = ph_training_add_module(training, "net", t.net);
        if (status == PH_OK)
            status = ph_training_add_optimizer(training, "adamw", t.optimizer);
        if (status == PH_OK)
            status = ph_training_add_generator(training, "generator", t.generator);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        ph_training_destroy(training);
        training = NULL;
        if (status != PH_OK)
            assert_error(status, PH_ERROR_HOST_MEMORY, "memory");
        assert_int_equal(ph__alloc_live(), live);
    }
    assert_true(at > 5);
    t_trained_close(&t);
}

/* ---- when the driver fails ---- a save leaves the two states that are there; a load may have
 * loaded some parts, and the next one loads all. */
typedef struct world {
    t_trained t;
    t_print saved;
} world;

static ph_status save(void *user)
{
    world *w = user;
    return ph_training_save(w->t.training, NULL);
}

static ph_status load(void *user)
{
    world *w = user;
    return ph_training_load(w->t.training, 0, NULL);
}

static void reset(ph_status status, void *user)
{
    world *w = user;
    assert_int_equal(count_entries(), 4);
    if (status != PH_OK)
        return;
    assert_ok(ph_training_load(w->t.training, 0, NULL));
    t_expect_print(&w->t, w->saved, "when the driver fails");
}

TEST(a_driver_that_fails)
{
    world w;
    const t_swept saves = {.name = "ph_training_save", .run = save, .reset = reset, .user = &w},
                  loads = {.name = "ph_training_load", .run = load, .reset = reset, .user = &w};
    t_trained_open(&w.t, 7);
    t_trained_attach(&w.t, folder, &(ph_training_options){.keep = 2});
    t_trained_step(&w.t, false);
    assert_ok(ph_training_save(w.t.training, NULL));
    assert_ok(ph_training_save(w.t.training, NULL));
    w.saved = t_trained_print(&w.t);
    t_sweep_driver(&saves);
    t_sweep_driver(&loads);
    t_trained_close(&w.t);
}

/* A number that is another number is not seen; all else is: the state is passed over, or refused,
 * and then nothing has changed. */
TEST(a_state_with_a_byte_changed)
{
    t_trained t;
    char bytes[4096], path[256];
    t_print saved = open_world(&t);
    t_print now = t_trained_print(&t);
    int refused = 0, passed_over = 0;
    (void)snprintf(path, sizeof path, "%s/000002/state.json", folder);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    assert_int_equal(fclose(file), 0);
    assert_true(size > 400 && size < sizeof bytes);
    t_log_start();
    for (size_t i = 0; i < size; i += t_nightly() ? 1 : 7)
        for (int flip = 1; flip < 0x80; flip = flip * 4 + 1) {
            uint64_t loaded;
            bytes[i] = (char)(bytes[i] ^ flip);
            assert_non_null(file = fopen(path, "wb"));
            assert_int_equal(fwrite(bytes, 1, size, file), size);
            assert_int_equal(fclose(file), 0);
            bytes[i] = (char)(bytes[i] ^ flip);
            ph_status status = ph_training_load(t.training, 0, &loaded);
            if (status != PH_OK) {
                t_expect_print(&t, now, "refused");
                refused++;
                continue;
            }
            passed_over += loaded == 1;
            assert_non_null(file = fopen(path, "wb"));
            assert_int_equal(fwrite(bytes, 1, size, file), size);
            assert_int_equal(fclose(file), 0);
            assert_ok(ph_training_load(t.training, 0, NULL));
            t_expect_print(&t, saved, "loaded again");
            now = saved;
        }
    t_log_stop();
    assert_true(refused > 10 && passed_over > 50);
    t_trained_close(&t);
}

#define IN_FOLDER(name) cmocka_unit_test_setup_teardown(name, make_folder, drop_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_save_without_memory_leaves_nothing),
        IN_FOLDER(a_load_without_memory_changes_nothing),
        IN_FOLDER(a_list_of_parts_without_memory),
        IN_FOLDER(a_driver_that_fails),
        IN_FOLDER(a_state_with_a_byte_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
