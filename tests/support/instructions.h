/* SPDX-License-Identifier: MIT */
/* tests/support/instructions.h: how many instructions a call takes, by callgrind, held against
 * tests/unit/instructions.txt: none takes 10 % more. The counts are the same on every day for one
 * compiler, kind of build, C library and valgrind; for others there is no table, and the test is
 * skipped. In the nightly tier. For programs with
 *
 *     --one NAME     runs the case TI_CALLS times inside instructions_measured
 *     --table        writes the table's lines for this build */
#ifndef PH_TESTS_INSTRUCTIONS_H
#define PH_TESTS_INSTRUCTIONS_H
#include "support/support.h"
#include "support/test.h"
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TI_WARM_UP = 20,
    TI_CALLS = 200
};

/* Of a program: `beside`: options of callgrind, for functions that are not counted. */
typedef struct ti_cases {
    const char *const *names;
    int count;
    const char *beside;
} ti_cases;

/* Instructions of a call, or 0 where they cannot be counted. */
static double ti_count(const char *name, const char *beside)
{
    char self[512], command[900], line[256];
    double counted = 0;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    (void)snprintf(command, sizeof command,
                   "valgrind --tool=callgrind --callgrind-out-file=/dev/null "
                   "--toggle-collect=instructions_measured %s '%s' --one %s 2>&1",
                   beside, self, name);
    FILE *output = popen(command, "r");
    while (output && fgets(line, sizeof line, output)) {
        const char *found = strstr(line, "Collected : ");
        if (found)
            counted = strtod(found + 12, NULL);
    }
    if (output)
        (void)pclose(output);
    return counted / TI_CALLS;
}

/* valgrind has no AVX-512. */
static const char *ti_level(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "avx2" : "base";
#else
    return "base";
#endif
}

/* "valgrind-3.19.0 glibc-2.36 GNU-12.2.0-x86_64-Debug avx2"; "" without valgrind. */
static void ti_describe_build(char *out, size_t size)
{
    char version[64] = "";
    FILE *output = popen("valgrind --version 2>/dev/null", "r");
    out[0] = '\0';
    if (output && fgets(version, sizeof version, output))
        (void)snprintf(out, size, "%.*s glibc-%s %s %s", (int)strcspn(version, "\n"), version,
                       gnu_get_libc_version(), PH_TEST_BUILD, ti_level());
    if (output)
        (void)pclose(output);
}

/* Lines of the table: the build, a case, a count. 0: there is none. */
static double ti_expected(const char *build, const char *name)
{
    char line[256], key[256];
    double value = 0;
    FILE *table = fopen(PH_TEST_SOURCE_DIR "/tests/unit/instructions.txt", "r");
    assert_non_null(table);
    (void)snprintf(key, sizeof key, "%s %s ", build, name);
    while (fgets(line, sizeof line, table))
        if (strncmp(line, key, strlen(key)) == 0)
            value = strtod(line + strlen(key), NULL);
    (void)fclose(table);
    return value;
}

static inline bool ti_has_grown(double now, double before)
{
    return now > before * 1.1;
}

static void ti_skip_because(const char *why, const char *what)
{
    (void)printf("skipped: %s%s\n", why, what);
    skip();
}

static void ti_check(const ti_cases *cases)
{
    char build[192];
    int grown = 0;
    if (!t_nightly())
        ti_skip_because("a test of the nightly tier", "");
    ti_describe_build(build, sizeof build);
    if (build[0] == '\0')
        ti_skip_because("valgrind is not here", "");
    if (ti_expected(build, cases->names[0]) == 0)
        ti_skip_because("tests/unit/instructions.txt has no counts for ", build);
    for (int i = 0; i < cases->count; i++) {
        double now = ti_count(cases->names[i], cases->beside),
               before = ti_expected(build, cases->names[i]);
        (void)printf("%-16s %8.0f instructions, %8.0f in the table\n", cases->names[i], now,
                     before);
        assert_true(now > 0 && before > 0);
        grown += ti_has_grown(now, before);
    }
    assert_int_equal(grown, 0);
}

static int ti_write_table(const ti_cases *cases)
{
    char build[192];
    ti_describe_build(build, sizeof build);
    for (int i = 0; i < cases->count; i++)
        (void)printf("%s %s %.0f\n", build, cases->names[i],
                     ti_count(cases->names[i], cases->beside));
    return 0;
}
#endif
