/* SPDX-License-Identifier: MIT */
/* tests/unit/base_fork.c: the handler of fork(): the order of its parts, and locks that another
 * thread held. */
#include "support/support.h"

#include "base/fork.h"
#include "base/sync.h"
#include "support/test.h"
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t inner = PTHREAD_MUTEX_INITIALIZER, outer = PTHREAD_MUTEX_INITIALIZER;
static char told[64];

static void tell(const char *word)
{
    (void)strncat(told, word, sizeof told - strlen(told) - 1);
}
#define TELLER(name, word)                                                                         \
    static void name(void)                                                                         \
    {                                                                                              \
        tell(word);                                                                                \
    }
TELLER(outer_prepare, "(o")
TELLER(outer_parent, "o)")
TELLER(outer_child, "o>")
TELLER(inner_prepare, "(i")
TELLER(inner_parent, "i)")
TELLER(inner_child, "i>")

/* Added in the wrong order. Both beyond those of the library. */
static ph__fork_part inner_part = {.order = PH__FORK_LOG + 2,
                                   .lock = &inner,
                                   .prepare = inner_prepare,
                                   .parent = inner_parent,
                                   .child = inner_child};
static ph__fork_part outer_part = {.order = PH__FORK_LOG + 1,
                                   .lock = &outer,
                                   .prepare = outer_prepare,
                                   .parent = outer_parent,
                                   .child = outer_child};
static ph__fork_part bare_part = {.order = PH__FORK_LOG + 3};

static int wait_for(pid_t child)
{
    int status;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static bool is_free(pthread_mutex_t *mutex)
{
    return pthread_mutex_trylock(mutex) == 0 && pthread_mutex_unlock(mutex) == 0;
}

TEST(fork_handlers_run_in_order_and_free_their_locks)
{
    told[0] = '\0';
    pid_t child = fork();
    if (child == 0)
        _exit(strcmp(told, "(o(ii>o>") == 0 && is_free(&inner) && is_free(&outer) ? 0 : 1);
    assert_int_equal(wait_for(child), 0);
    assert_string_equal(told, "(o(ii)o)");
    assert_true(is_free(&inner) && is_free(&outer));
}

/* One thread takes both locks over and over, in order; what they guard is never half changed in a
 * child. */
static volatile int first, second;
static atomic_bool over;

static void *change(void *user)
{
    (void)user;
    while (!atomic_load(&over)) {
        pthread_mutex_lock(&outer);
        pthread_mutex_lock(&inner);
        first++;
        sched_yield();
        second++;
        pthread_mutex_unlock(&inner);
        pthread_mutex_unlock(&outer);
    }
    return NULL;
}

TEST(test_held_by_another_thread)
{
    pthread_t thread;
    assert_true(ph__thread_start(&thread, "test", change, NULL));
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(first == second && is_free(&inner) && is_free(&outer) ? 0 : 1);
        assert_int_equal(wait_for(child), 0);
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
}

TEST(forks_of_the_process_are_handled)
{
    assert_true(ph__fork_handled());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forks_of_the_process_are_handled),
        cmocka_unit_test(fork_handlers_run_in_order_and_free_their_locks),
        cmocka_unit_test(test_held_by_another_thread),
    };
    ph__fork_add(&inner_part);
    ph__fork_add(&bare_part);
    ph__fork_add(&outer_part);
    return cmocka_run_group_tests_name("base_fork", tests, NULL, NULL);
}
