/* SPDX-License-Identifier: MIT */
/* tests/tensor/blas_environment.c: loading the BLAS leaves the program's environment as it was,
 * also for threads that read it meanwhile, and starts no threads. */
#include "base/sync.h"
#include "support/tensors.h"
#include "support/test.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    READERS = 3
};
static atomic_bool stop;

static void *read_often(void *unused)
{
    bool good = true;
    while (!atomic_load(&stop)) {
        const char *mine = getenv("PH_TEST_OF_THE_ENVIRONMENT"),
                   *none = getenv("PH_TEST_OF_NOTHING");
        good = good && mine && strcmp(mine, "here") == 0 && !none;
    }
    return good ? unused : NULL;
}

static int threads_of_this_process(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    for (const struct dirent *entry; folder && (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    if (folder)
        (void)closedir(folder);
    return count;
}

/* 2 x 3 by 3 x 2, all ones. */
static void multiply(t_scene *s)
{
    ph_tensor *a = ph_full(s->tape, PH_DTYPE_F32, PH_SHAPE(2, 3), 1),
              *b = ph_full(s->tape, PH_DTYPE_F32, PH_SHAPE(3, 2), 1);
    t_expect_values(s->tape, ph_matmul(s->tape, a, b), PH_SHAPE(2, 2), 3, 3, 3, 3);
    assert_ok(ph_tape_clear(s->tape));
}

/* The first product of the process loads it. */
TEST(test_the_first_product)
{
    t_scene s;
    pthread_t readers[READERS];
    bool settings = getenv("OPENBLAS_NUM_THREADS") || getenv("OPENBLAS_CORETYPE");
    assert_int_equal(setenv("PH_TEST_OF_THE_ENVIRONMENT", "here", 1), 0);
    t_scene_open(&s);
    ph_tensor *x = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(8), 1);
    /* the stream's threads are there */
    t_expect_values(s.tape, x, PH_SHAPE(8), 1, 1, 1, 1, 1, 1, 1, 1);
    char **before = environ, *first = environ[0];
    for (int i = 0; i < READERS; i++)
        assert_true(ph__thread_start(&readers[i], "reader", read_often, &stop));
    int threads = threads_of_this_process();
    multiply(&s);
    if (!settings)
        assert_int_equal(threads_of_this_process(), threads);
    atomic_store(&stop, true);
    for (int i = 0; i < READERS; i++) {
        void *good;
        assert_int_equal(pthread_join(readers[i], &good), 0);
        assert_non_null(good);
    }
    assert_ptr_equal(environ, before);
    assert_ptr_equal(environ[0], first);
    if (!settings) {
        assert_null(getenv("OPENBLAS_NUM_THREADS"));
        assert_null(getenv("OPENBLAS_CORETYPE"));
    }
    assert_int_equal(setenv("PH_TEST_OF_THE_ENVIRONMENT", "there", 1), 0);
    assert_string_equal(getenv("PH_TEST_OF_THE_ENVIRONMENT"), "there");
    multiply(&s);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
