/* SPDX-License-Identifier: MIT */
/* tests/unit/base_environment.c: variables that name what is loaded are not believed where the
 * program has more rights than whoever started it: as if, everywhere; and in a set-uid copy of this
 * program, where root can make one. */
#include "support/support.h"

#include "base/environment.h"
#include "device/annotate/nvtx.h"
#include "support/test.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Every variable of the library that names a file, a folder or a library, or says which one is
 * loaded. */
static const char *const names[] = {
    "NVTX_INJECTION64_PATH", "PH_NVRTC",       "PH_CUBLASLT", "PH_CUDNN",   "PH_BLAS",
    "PH_CACHE_DIR",          "XDG_CACHE_HOME", "HOME",        "PH_CULPRIT", "PH_NVTX_NEXT",
    "PH_NVTX_SCOPES"};
enum {
    NAMES = sizeof names / sizeof names[0],
    NOBODY = 65534,
    /* What a child says by its exit. */
    RIGHT = 0,
    BELIEVED = 3,
    NO_RIGHTS = 4,
    FAILED = 5
};

static bool is_loaded(const char *library)
{
    char line[8192];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && !found && fgets(line, sizeof line, maps))
        found = strstr(line, library) != NULL;
    if (maps)
        fclose(maps);
    return found;
}

/* In a process of its own: what is there after a device was opened. */
static int run_named(void)
{
    ph_device *device;
    bool believed = false;
    if (ph_device_open(&device, "host:threads=1", NULL) != PH_OK)
        return FAILED;
    for (int i = 0; i < NAMES; i++)
        believed |= ph__environment(names[i]) != NULL;
    believed |= ph__nvtx_listens || is_loaded(PH_TEST_NVTX_TOOL);
    ph_device_release(device);
    return believed ? BELIEVED : RIGHT;
}

static void set_all(void)
{
    for (int i = 0; i < NAMES; i++)
        if (setenv(names[i], PH_TEST_NVTX_TOOL, 1) != 0)
            _exit(FAILED);
}

static int wait_for(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void run_here(const char *how)
{
    set_all();
    (void)execl("/proc/self/exe", "environment", how, (char *)NULL);
    _exit(FAILED);
}

TEST(values_are_hidden_where_the_environment_is_distrusted)
{
    assert_int_equal(setenv("PH_TEST_OF_THE_ENVIRONMENT", "there", 1), 0);
    assert_string_equal(ph__environment("PH_TEST_OF_THE_ENVIRONMENT"), "there");
    assert_null(ph__environment("PH_TEST_OF_NOTHING"));
    ph__environment_distrust(true);
    assert_null(ph__environment("PH_TEST_OF_THE_ENVIRONMENT"));
    ph__environment_distrust(false);
    assert_string_equal(ph__environment("PH_TEST_OF_THE_ENVIRONMENT"), "there");
}

/* That the tool is loaded in the ordinary case is what makes the other two tests. */
TEST(a_trusted_program_believes_its_environment)
{
    pid_t child = fork();
    if (child == 0)
        run_here("trusted");
    assert_int_equal(wait_for(child), BELIEVED);
}

TEST(a_privileged_program_distrusts_its_environment)
{
    pid_t child = fork();
    if (child == 0)
        run_here("distrusted");
    assert_int_equal(wait_for(child), RIGHT);
}

/* A copy that belongs to root and runs with root's rights; false: cannot be made. */
static bool copy_set_uid(const char *path)
{
    static char bytes[1 << 16];
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
        to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    bool good = from >= 0 && to >= 0;
    for (ssize_t got; good && (got = read(from, bytes, sizeof bytes)) > 0;)
        good = write(to, bytes, (size_t)got) == got;
    good = good && fchown(to, 0, 0) == 0 && fchmod(to, 04755) == 0;
    if (from >= 0)
        (void)close(from);
    if (to >= 0)
        (void)close(to);
    return good;
}

static void run_set_uid(const char *path)
{
    set_all();
    if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
        _exit(NO_RIGHTS);
    (void)execl(path, "environment", "set-uid", (char *)NULL);
    _exit(errno == EACCES || errno == EPERM ? NO_RIGHTS : FAILED);
}

TEST(test_set_uid)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/tmp/ph_set_uid_%ld", (long)getpid());
    int said = NO_RIGHTS;
    if (geteuid() == 0 && copy_set_uid(path)) {
        pid_t child = fork();
        if (child == 0)
            run_set_uid(path);
        said = wait_for(child);
    }
    (void)unlink(path);
    if (said == NO_RIGHTS) {
        puts("skipped: a set-uid program cannot be made here (not root, or /tmp forbids it)");
        skip();
    }
    assert_int_equal(said, RIGHT);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_hidden_where_the_environment_is_distrusted),
        cmocka_unit_test(a_trusted_program_believes_its_environment),
        cmocka_unit_test(a_privileged_program_distrusts_its_environment),
        cmocka_unit_test(test_set_uid),
    };
    if (argc == 1)
        return cmocka_run_group_tests_name("base_environment", tests, NULL, NULL);
    if (strcmp(argv[1], "set-uid") == 0 && getauxval(AT_SECURE) == 0)
        return NO_RIGHTS;
    ph__environment_distrust(strcmp(argv[1], "distrusted") == 0);
    return run_named();
}
