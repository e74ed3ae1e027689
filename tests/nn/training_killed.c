/* SPDX-License-Identifier: MIT */
/* tests/nn/training_killed.c: a training that is killed again and again (SIGKILL), at any moment,
 * ends with the bits of one that was left alone; and a state whose saving has returned is never
 * lost. Each life is a process of its own. */
#include "support/test.h"
#include "support/trainings.h"
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

enum {
    STEPS_OF_A_LIFE = 3,
    KILLS = 20,
    STEPS = (KILLS + 1) * STEPS_OF_A_LIFE,
    SAID = 3 /* the pipe to the test, in the process of a life */
};

/* Loaded, or saved behind so many steps, and when; at the end its print. */
typedef struct said {
    int64_t step;
    uint64_t us;
    t_print print;
    bool loaded, over;
} said;

/* ---- a life ---- */
static uint64_t now_in_microseconds(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void say(said what)
{
    what.us = now_in_microseconds();
    if (write(SAID, &what, sizeof what) != (ssize_t)sizeof what)
        _exit(9);
}

/* Trains to its limit; then to be killed, or, the last one, to say what there is. */
static int live(const char *folder, int64_t limit)
{
    t_trained t;
    t_trained_open(&t, 7);
    t_trained_attach(&t, folder, NULL);
    ph_status status = ph_training_load(t.training, 0, NULL);
    if (status != PH_ERROR_NOT_FOUND)
        assert_ok(status);
    say((said){.step = t.step, .loaded = true});
    while (t.step < limit) {
        t_trained_step(&t, true);
        assert_ok(ph_training_save(t.training, NULL));
        say((said){.step = t.step});
    }
    while (limit < STEPS)
        assert_ok(ph_training_save(t.training, NULL));
    say((said){.step = t.step, .print = t_trained_print(&t), .over = true});
    t_trained_close(&t);
    return 0;
}

/* ---- from outside ---- */
typedef struct life {
    pid_t process;
    int pipe;
} life;

static life begin(const char *folder, int64_t limit)
{
    char self[256] = "", number[24];
    int ends[2];
    life l;
    posix_spawn_file_actions_t actions;
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    (void)snprintf(number, sizeof number, "%lld", (long long)limit);
    char *arguments[] = {self, (char *)(uintptr_t)folder, number, NULL};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, ends[1], SAID), 0);
    assert_int_equal(posix_spawn(&l.process, self, &actions, NULL, arguments, environ), 0);
    assert_int_equal(posix_spawn_file_actions_destroy(&actions), 0);
    assert_int_equal(close(ends[1]), 0);
    l.pipe = ends[0];
    return l;
}

/* false: it says nothing more */
static bool hear(const life *l, said *what)
{
    ssize_t got;
    do
        got = read(l->pipe, what, sizeof *what);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof *what;
}

static void wait_microseconds(uint64_t us)
{
    struct timespec time = {.tv_sec = (time_t)(us / 1000000),
                            .tv_nsec = (long)(us % 1000000) * 1000};
    (void)nanosleep(&time, NULL);
}

/* *us, unless NULL: from loading to the first states saved behind as many steps as two lives have;
 * the first steps on a GPU load kernels. */
static t_print live_alone(const char *folder, uint64_t *us)
{
    life l = begin(folder, STEPS);
    said what = {.over = false};
    uint64_t loaded = 0;
    int status;
    while (hear(&l, &what)) {
        if (what.loaded)
            loaded = what.us;
        else if (us && what.step == 2 * STEPS_OF_A_LIFE)
            *us = what.us - loaded;
    }
    assert_int_equal(waitpid(l.process, &status, 0), l.process);
    assert_int_equal(status, 0);
    assert_int_equal(close(l.pipe), 0);
    assert_true(what.over && what.step == STEPS);
    return what.print;
}

/* Killed so long after it has loaded, or after it was begun. *step: the last one that was saved. */
static void live_and_be_killed(const char *folder, int64_t limit, uint64_t us, bool from_the_start,
                               int64_t *step)
{
    life l = begin(folder, limit);
    said what;
    int status;
    bool heard = !from_the_start && hear(&l, &what);
    assert_true(heard || from_the_start);
    if (heard)
        assert_true(what.loaded && what.step >= *step);
    wait_microseconds(us);
    assert_int_equal(kill(l.process, SIGKILL), 0);
    while (hear(&l, &what)) {
        assert_true(what.step >= *step);
        *step = what.step;
    }
    assert_int_equal(waitpid(l.process, &status, 0), l.process);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(close(l.pipe), 0);
}

static void expect_the_same_bits(uint64_t random)
{
    t_folder outer;
    char alone[128], killed[128];
    int64_t step = 0;
    uint64_t longest = 0;
    t_memory_folder_open(&outer);
    (void)snprintf(alone, sizeof alone, "%s/alone", outer.path);
    (void)snprintf(killed, sizeof killed, "%s/killed", outer.path);
    t_print want = live_alone(alone, &longest);
    assert_true(longest > 0);
    for (int i = 0; i < KILLS; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        live_and_be_killed(killed, (int64_t)(i + 1) * STEPS_OF_A_LIFE, (random >> 33) % longest,
                           i % 4 == 3, &step);
        if (step == 0) /* on a machine that has become slower */
            longest *= 2;
    }
    assert_true(step > 0);
    t_print got = live_alone(killed, NULL);
    assert_int_equal(got.bytes, want.bytes);
    assert_true(got.hash == want.hash);
    t_remove_all(outer.path);
}

TEST(a_training_that_is_killed_has_the_bits_of_one_that_was_not)
{
    for (uint64_t i = 0; i < (t_nightly() ? 20 : 1); i++)
        expect_the_same_bits((uint64_t)time(NULL) + i);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_training_that_is_killed_has_the_bits_of_one_that_was_not),
    };
    return argc == 3 ? live(argv[1], strtoll(argv[2], NULL, 10))
                     : cmocka_run_group_tests(tests, NULL, NULL);
}
