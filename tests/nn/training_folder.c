/* SPDX-License-Identifier: MIT */
/* tests/nn/training_folder.c: the folder of a training: who may save there, readers beside it, what
 * killed processes have left, folders that cannot be written, and disks that are full. */
#include "support/test.h"
#include "support/trainings.h"
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum {
    MANY = 400 /* states that a reader sees come and go */
};

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

static const char *inside(const char *name)
{
    static char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* A training of one number needs no device. */
static ph_training *open_numbers(int64_t *value, const ph_training_options *options)
{
    ph_training *training;
    assert_ok(ph_training_create(&training, folder, options));
    assert_ok(ph_training_add_integer(training, "value", value));
    return training;
}

static int exit_status(pid_t child)
{
    int status;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* ---- who saves ---- */
TEST(one_saves_and_others_read)
{
    int64_t value = 5, read = 0;
    ph_training *other;
    ph_training *training = open_numbers(&value, NULL);
    assert_ok(ph_training_save(training, NULL));
    assert_error(ph_training_create(&other, folder, NULL), PH_ERROR_STATE,
                 "is held by another process, or by another ph_training");
    assert_null(other);
    pid_t child = fork();
    if (child == 0)
        _exit(ph_training_create(&other, folder, NULL) == PH_ERROR_STATE ? 0 : 1);
    assert_int_equal(exit_status(child), 0);
    ph_training *reader = open_numbers(&read, &(ph_training_options){.read_only = true});
    assert_ok(ph_training_load(reader, 0, NULL));
    assert_int_equal(read, 5);
    assert_error(ph_training_save(reader, NULL), PH_ERROR_STATE, "was opened read_only");
    ph_training_destroy(reader);
    ph_training_destroy(training);
    ph_training_destroy(open_numbers(&value, NULL)); /* the lock has gone with it */
}

/* A child has the open file of the lock, and must not think that the lock is its own. */
TEST(children_do_not_save)
{
    int64_t value = 5;
    ph_training *training = open_numbers(&value, NULL), *again;
    pid_t child = fork();
    if (child == 0)
        _exit(ph_training_save(training, NULL) == PH_ERROR_STATE &&
                      strstr(ph_error_last()->message, "forked this one")
                  ? 0
                  : 1);
    assert_int_equal(exit_status(child), 0);
    assert_ok(ph_training_save(training, NULL));
    assert_error(ph_training_create(&again, folder, NULL), PH_ERROR_STATE, "is held by");
    ph_training_destroy(training);
}

/* Each load finds a whole state, though each save removes the one before. */
TEST(a_reader_beside_finds_whole_states)
{
    int64_t value = 0;
    ph_training *training = open_numbers(&value, &(ph_training_options){.keep = 1});
    assert_ok(ph_training_save(training, NULL));
    pid_t child = fork();
    if (child == 0) {
        int64_t got = 0, before = 0;
        ph_training *reader;
        if (ph_training_create(&reader, folder, &(ph_training_options){.read_only = true}) ||
            ph_training_add_integer(reader, "value", &got))
            _exit(1);
        for (int loads = 0; before < MANY; before = got, loads++)
            if (ph_training_load(reader, 0, NULL) != PH_OK || got < before) {
                (void)fprintf(stderr, "load %d: %s; %lld behind %lld\n", loads,
                              ph_error_last()->message, (long long)got, (long long)before);
                _exit(2);
            }
        ph_training_destroy(reader);
        ph_training_destroy(training);
        _exit(0);
    }
    while (value < MANY) {
        value++;
        assert_ok(ph_training_save(training, NULL));
    }
    assert_int_equal(exit_status(child), 0);
    ph_training_destroy(training);
}

/* ---- what is there ---- */
static size_t count_entries(void)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        count++;
    assert_int_equal(closedir(dir), 0);
    return count - 2;
}

static void touch(const char *name)
{
    FILE *file = fopen(inside(name), "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

TEST(what_killed_processes_left_is_removed_and_all_else_stays)
{
    int64_t value = 5;
    ph_training *training = open_numbers(&value, NULL);
    assert_int_equal(mkdir(inside(".saving"), 0777), 0);
    touch(".saving/net.safetensors");
    assert_int_equal(mkdir(inside(".removing"), 0777), 0);
    touch(".removing/state.json");
    assert_int_equal(mkdir(inside(".removing/deeper"), 0777), 0);
    touch(".removing/deeper/file");
    touch(".phonograph-1-2.tmp");
    touch("notes.txt");
    assert_int_equal(mkdir(inside("0000001"), 0777), 0); /* no name of a state */
    assert_int_equal(symlink("notes.txt", inside("link")), 0);
    uint64_t number;
    assert_ok(ph_training_save(training, &number));
    assert_int_equal(number, 1);
    /* 000001, latest, lock, and the three of the user's */
    assert_int_equal(count_entries(), 6);
    ph_training_destroy(training);
}

/* What a user keeps in a state goes with it; what a link leads to stays. */
TEST(old_states_go_with_all_that_is_in_them)
{
    int64_t value = 5;
    ph_training *training = open_numbers(&value, &(ph_training_options){.keep = 1});
    assert_int_equal(mkdir(inside("elsewhere"), 0777), 0);
    touch("elsewhere/file");
    assert_ok(ph_training_save(training, NULL));
    assert_int_equal(mkdir(inside("000001/plots"), 0777), 0);
    touch("000001/plots/loss.png");
    assert_int_equal(symlink("../elsewhere", inside("000001/link")), 0);
    assert_ok(ph_training_save(training, NULL));
    assert_int_not_equal(access(inside("000001"), F_OK), 0);
    assert_int_equal(access(inside("elsewhere/file"), F_OK), 0);
    assert_int_equal(count_entries(), 4);
    ph_training_destroy(training);
}

/* ---- folders that cannot be used ---- */
TEST(folders_that_cannot_be_made_or_written_are_named)
{
    ph_training *training;
    int64_t value = 0;
    assert_error(ph_training_create(&training, "/nonexistent/run", NULL), PH_ERROR_IO,
                 "cannot make /nonexistent/run: No such file");
    assert_native(ENOENT);
    (void)snprintf(outer.name, sizeof outer.name, "%s/file", outer.path);
    FILE *file = fopen(outer.name, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_error(ph_training_create(&training, outer.name, NULL), PH_ERROR_IO, "/file/lock");
    /* A reader of a folder that is not there yet finds nothing, and makes nothing. */
    training = open_numbers(&value, &(ph_training_options){.read_only = true});
    assert_error(ph_training_load(training, 0, NULL), PH_ERROR_NOT_FOUND, folder);
    assert_int_not_equal(access(folder, F_OK), 0);
    ph_training_destroy(training);
}

TEST(a_folder_that_may_not_be_written)
{
    int64_t value = 5;
    bool root = geteuid() == 0;
    ph_training *training = open_numbers(&value, NULL), *other;
    assert_ok(ph_training_save(training, NULL));
    assert_int_equal(chmod(outer.path, 0755), 0);
    assert_int_equal(chmod(folder, 0555), 0);
    if (root)
        assert_int_equal(seteuid(65534), 0);
    ph_status save = ph_training_save(training, NULL);
    ph_error failed = *ph_error_last();
    ph_training_destroy(training);
    ph_status create = ph_training_create(&other, folder, NULL);
    ph_error refused = *ph_error_last();
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(save, PH_ERROR_IO);
    assert_int_equal(failed.native_code, EACCES);
    assert_non_null(strstr(failed.message, ".saving: Permission denied"));
    if (root) { /* the lock is another user's */
        assert_int_equal(create, PH_ERROR_IO);
        assert_non_null(strstr(refused.message, "/lock: Permission denied"));
    } else {
        assert_int_equal(create, PH_OK);
        ph_training_destroy(other);
    }
    training = open_numbers(&value, NULL);
    value = 0;
    assert_ok(ph_training_load(training, 0, NULL));
    assert_int_equal(value, 5);
    ph_training_destroy(training);
}

/* ---- a full disk ---- files may have so many bytes, and no more: at every place. */
TEST(a_full_disk_leaves_the_states_before)
{
    t_trained t;
    struct rlimit before;
    rlim_t limit = 0;
    int failures = 0;
    t_trained_open(&t, 7);
    t_trained_attach(&t, folder, NULL);
    t_trained_step(&t, false);
    assert_ok(ph_training_save(t.training, NULL));
    t_print saved = t_trained_print(&t);
    t_trained_step(&t, false);
    t_print now = t_trained_print(&t);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    for (ph_status status = PH_ERROR_IO; status != PH_OK; limit += t_nightly() ? 7 : 101) {
        uint64_t number = 77;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, before.rlim_max}), 0);
        status = ph_training_save(t.training, &number);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        if (status == PH_OK)
            break;
        failures++;
        assert_error(status, PH_ERROR_IO, "ph_training_save: ");
        assert_native(EFBIG);
        assert_int_equal(number, 77);
        assert_int_equal(count_entries(), 3);
        t_expect_print(&t, now, "a save that failed");
    }
    assert_true(failures > 10);
    assert_int_equal(count_entries(), 4);
    assert_ok(ph_training_load(t.training, 1, NULL));
    t_expect_print(&t, saved, "the state before");
    assert_ok(ph_training_load(t.training, 0, NULL));
    t_expect_print(&t, now, "the state behind");
    t_trained_close(&t);
}

#define IN_FOLDER(name) cmocka_unit_test_setup_teardown(name, make_folder, drop_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(one_saves_and_others_read),
        IN_FOLDER(children_do_not_save),
        IN_FOLDER(a_reader_beside_finds_whole_states),
        IN_FOLDER(what_killed_processes_left_is_removed_and_all_else_stays),
        IN_FOLDER(old_states_go_with_all_that_is_in_them),
        IN_FOLDER(folders_that_cannot_be_made_or_written_are_named),
        IN_FOLDER(a_folder_that_may_not_be_written),
        IN_FOLDER(a_full_disk_leaves_the_states_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
