/* SPDX-License-Identifier: MIT */
/* tests/support/fork.h: what tests of children of fork() share: checks in a child, and whether
 * ThreadSanitizer watches. */
#ifndef PH_TESTS_SUPPORT_FORK_H
#define PH_TESTS_SUPPORT_FORK_H
#include "support/support.h"
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_TSAN true
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define HAS_TSAN true
#endif
#if !defined(HAS_TSAN)
#define HAS_TSAN false
#endif

enum {
    HANGS_AFTER = 60 /* seconds: a child that hangs is killed, which fails the test */
};

/* In a child nothing may go back to cmocka: the first line that is not as it should be is what it
 * exits with. */
#define WANT(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition,                     \
                    ph_error_last()->message);                                                     \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
#define WANT_OK(call) WANT((call) == PH_OK)
#define WANT_STATE(call)                                                                           \
    WANT((call) == PH_ERROR_STATE && strstr(ph_error_last()->message, "fork") != NULL)
#endif
