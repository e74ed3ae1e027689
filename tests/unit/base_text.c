/* SPDX-License-Identifier: MIT */
/* tests/unit/base_text.c: the text buffer, and writing files that survive failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/text_file.h"
#include "support/test.h"
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[256];

static const char *inside(const char *name)
{
    static char path[1024];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static size_t files_in_folder(void)
{
    size_t count = 0;
    DIR *open_folder = opendir(folder);
    assert_non_null(open_folder);
    for (struct dirent *entry; (entry = readdir(open_folder));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(open_folder);
    return count;
}

static void assert_file_holds(const char *path, const char *expected)
{
    char content[256] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(content, 1, sizeof content - 1, file);
    fclose(file);
    content[length] = '\0';
    assert_string_equal(content, expected);
}

static void put_file(const char *path, const char *content)
{
    ph__text text = {0};
    ph__text_add(&text, content);
    assert_int_equal(ph__text_write_file(&text, path, "test"), PH_OK);
    ph__text_free(&text);
}

FIXTURE(make_folder)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder, sizeof folder, "%s/phonograph-text-XXXXXX",
                   base && *base ? base : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

FIXTURE(remove_folder)
{
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    DIR *open_folder = opendir(folder);
    if (!open_folder)
        return -1;
    for (struct dirent *entry; (entry = readdir(open_folder));)
        unlinkat(dirfd(open_folder), entry->d_name, 0);
    closedir(open_folder);
    return rmdir(folder) == 0 && ph__alloc_live() == 0 ? 0 : -1;
}

TEST(a_text_grows_from_parts_of_any_length)
{
    ph__text text = {0};
    char expected[5000] = "", longer[3000];
    memset(longer, 'l', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    ph__text_add(&text, "");
    ph__text_add(&text, "start ");
    ph__text_format(&text, "%d-%s ", 12, "x");
    ph__text_format(&text, "[%s]", longer);
    ph__text_format(&text, "%s", "");
    ph__text_add_bytes(&text, "end+rest", 3);
    (void)snprintf(expected, sizeof expected, "start 12-x [%s]end", longer);
    char *taken = ph__text_detach(&text);
    assert_string_equal(taken, expected);
    ph__free(taken);
    assert_null(text.at);
    assert_int_equal(text.length, 0);
    taken = ph__text_detach(&text);
    assert_string_equal(taken, "");
    ph__free(taken);
}

/* Every length around the sizes at which the buffer grows. */
TEST(test_format_at_every_length)
{
    char piece[300];
    for (size_t length = 0; length < sizeof piece; length++) {
        ph__text text = {0};
        memset(piece, 'p', length);
        piece[length] = '\0';
        ph__text_format(&text, "%s|", piece);
        ph__text_format(&text, "%s", piece);
        assert_int_equal(text.length, 2 * length + 1);
        char *taken = ph__text_detach(&text);
        assert_non_null(taken);
        assert_memory_equal(taken, piece, length);
        assert_int_equal(taken[length], '|');
        assert_string_equal(taken + length + 1, piece);
        ph__free(taken);
    }
}

TEST(test_failure_sticks)
{
    bool succeeded = false;
    for (int64_t n = 0; !succeeded; n++) {
        ph__text text = {0};
        ph__alloc_fail_after(n);
        for (int i = 0; i < 50; i++)
            ph__text_format(&text, "piece %d of some length, ", i);
        bool failed = text.failed;
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        size_t length = text.length;
        ph__text_add(&text, "more");
        ph__text_repeat(&text, 0, length);
        if (failed) {
            assert_int_equal(text.length, length);
            assert_int_equal(ph__text_write_file(&text, inside("never"), "dump"),
                             PH_ERROR_HOST_MEMORY);
            assert_null(ph__text_detach(&text));
            assert_false(text.failed);
            assert_int_equal(files_in_folder(), 0);
        }
        succeeded = !failed;
        ph__text_free(&text);
        assert_int_equal(ph__alloc_live(), 0);
        assert_true(n < 20);
    }
}

TEST(test_write_and_replace)
{
    put_file(inside("a"), "first");
    assert_file_holds(inside("a"), "first");
    put_file(inside("a"), "second, longer");
    assert_file_holds(inside("a"), "second, longer");
    put_file(inside("a"), "");
    assert_file_holds(inside("a"), "");
    assert_int_equal(files_in_folder(), 1);
}

TEST(test_mode_is_kept)
{
    struct stat there;
    put_file(inside("a"), "first");
    assert_int_equal(chmod(inside("a"), 0640), 0);
    put_file(inside("a"), "second");
    assert_int_equal(stat(inside("a"), &there), 0);
    assert_int_equal(there.st_mode & 07777, 0640);
}

TEST(test_new_file_follows_umask)
{
    struct stat there;
    mode_t before = umask(027);
    put_file(inside("a"), "x");
    umask(before);
    assert_int_equal(stat(inside("a"), &there), 0);
    assert_int_equal(there.st_mode & 07777, 0640);
}

TEST(test_symbolic_link_stays)
{
    struct stat there;
    put_file(inside("target"), "old");
    assert_int_equal(symlink("target", inside("link")), 0);
    put_file(inside("link"), "new");
    assert_int_equal(lstat(inside("link"), &there), 0);
    assert_true(S_ISLNK(there.st_mode));
    assert_file_holds(inside("target"), "new");
    assert_int_equal(files_in_folder(), 2);
}

TEST(test_path_without_folder)
{
    char before[1024];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    ph__text text = {0};
    ph__text_add(&text, "here");
    ph_status status = ph__text_write_file(&text, "plain", "test");
    ph_status nameless = ph__text_write_file(&text, "", "test");
    ph__text_free(&text);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(status, PH_OK);
    assert_file_holds(inside("plain"), "here");
    assert_int_equal(nameless, PH_ERROR_IO);
    assert_int_equal(ph_error_last()->native_code, ENOENT);
    assert_int_equal(files_in_folder(), 1);
}

static void expect_io_failure(const char *path, const char *content, int number,
                              const char *native_call)
{
    ph__text text = {0};
    ph__text_add(&text, content);
    assert_int_equal(ph__text_write_file(&text, path, "ph_test_dump"), PH_ERROR_IO);
    assert_int_equal(ph_error_last()->status, PH_ERROR_IO);
    assert_int_equal(ph_error_last()->native_code, number);
    assert_string_equal(ph_error_last()->native_call, native_call);
    assert_non_null(strstr(ph_error_last()->message, "ph_test_dump: cannot write"));
    assert_int_equal(text.length, strlen(content));
    ph__text_free(&text);
}

TEST(test_bad_paths)
{
    char name[400];
    ph__text text = {0};
    expect_io_failure(inside("missing/a"), "x", ENOENT, "open");
    expect_io_failure(folder, "x", EISDIR, "open");
    memset(name, 'n', 300);
    name[300] = '\0';
    expect_io_failure(inside(name), "x", ENAMETOOLONG, "rename");
    assert_int_equal(files_in_folder(), 0);
    assert_int_equal(ph__text_write_file(&text, NULL, "ph_test_dump"), PH_ERROR_ARGUMENT);
}

/* 0 when the write to the device fails with number (0: succeeds) and the device is still one. */
static int try_device(const char *path, int number)
{
    ph__text text = {0};
    struct stat there;
    ph__text_add(&text, "x");
    ph_status status = ph__text_write_file(&text, path, "ph_test_dump");
    ph__text_free(&text);
    if (stat(path, &there) != 0 || !S_ISCHR(there.st_mode))
        return 1;
    if (number == 0)
        return status == PH_OK ? 0 : 2;
    return status == PH_ERROR_IO && ph_error_last()->native_code == number &&
                   strcmp(ph_error_last()->native_call, "write") == 0
               ? 0
               : 3;
}

/* In a child without the rights of root: there, a fault in the code cannot replace the machine's
 * devices. */
TEST(test_devices_are_written_in_place)
{
    enum {
        NOBODY = 65534,
        NO_RIGHTS_TO_DROP = 77
    };
    int status;
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 &&
            (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
            _exit(NO_RIGHTS_TO_DROP);
        int full = try_device("/dev/full", ENOSPC);
        _exit(full ? full : try_device("/dev/null", 0));
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_RIGHTS_TO_DROP) {
        print_message(
            "skipped: devices are not written to, as root's rights cannot be dropped here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A socket cannot be opened, and is no regular file either. */
TEST(test_socket_is_not_replaced)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat there;
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%.80s/s", folder);
    int file = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(file >= 0);
    int bound = bind(file, (struct sockaddr *)&address, sizeof address);
    close(file);
    assert_int_equal(bound, 0);
    expect_io_failure(address.sun_path, "x", ENXIO, "open");
    assert_int_equal(stat(address.sun_path, &there), 0);
    assert_true(S_ISSOCK(there.st_mode));
    assert_int_equal(files_in_folder(), 1);
}

TEST(test_pipe_is_written_in_place)
{
    char content[16] = "";
    assert_int_equal(mkfifo(inside("pipe"), 0600), 0);
    int reader = open(inside("pipe"), O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    put_file(inside("pipe"), "through");
    ssize_t got = read(reader, content, sizeof content - 1);
    struct stat there;
    int found = stat(inside("pipe"), &there);
    close(reader);
    assert_int_equal(found, 0);
    assert_true(S_ISFIFO(there.st_mode));
    assert_int_equal(got, 7);
    assert_string_equal(content, "through");
}

/* The largest file allowed stands in for a full disk: the write stops in the middle. */
TEST(test_old_file_survives_a_write_that_stops)
{
    enum {
        BYTES = 100000
    };
    struct rlimit before, small;
    char *large = calloc(1, BYTES + 1);
    assert_non_null(large);
    memset(large, 'z', BYTES);
    put_file(inside("a"), "precious");
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 8192;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    ph__text text = {0};
    ph__text_add(&text, large);
    ph_status status = ph__text_write_file(&text, inside("a"), "ph_test_dump");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    ph__text_free(&text);
    free(large);
    assert_int_equal(status, PH_ERROR_IO);
    assert_int_equal(ph_error_last()->native_code, EFBIG);
    assert_string_equal(ph_error_last()->native_call, "write");
    assert_file_holds(inside("a"), "precious");
    assert_int_equal(files_in_folder(), 1);
}

TEST(test_no_memory_for_the_temporary_name)
{
    ph__text text = {0};
    put_file(inside("a"), "old");
    ph__text_add(&text, "new");
    ph__alloc_fail_after(0);
    ph_status status = ph__text_write_file(&text, inside("a"), "ph_test_dump");
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    assert_int_equal(status, PH_ERROR_HOST_MEMORY);
    assert_file_holds(inside("a"), "old");
    assert_int_equal(ph__text_write_file(&text, inside("a"), "ph_test_dump"), PH_OK);
    assert_file_holds(inside("a"), "new");
    ph__text_free(&text);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_text_grows_from_parts_of_any_length),
        IN_FOLDER(test_format_at_every_length),
        IN_FOLDER(test_failure_sticks),
        IN_FOLDER(test_write_and_replace),
        IN_FOLDER(test_mode_is_kept),
        IN_FOLDER(test_new_file_follows_umask),
        IN_FOLDER(test_symbolic_link_stays),
        IN_FOLDER(test_path_without_folder),
        IN_FOLDER(test_bad_paths),
        IN_FOLDER(test_devices_are_written_in_place),
        IN_FOLDER(test_socket_is_not_replaced),
        IN_FOLDER(test_pipe_is_written_in_place),
        IN_FOLDER(test_old_file_survives_a_write_that_stops),
        IN_FOLDER(test_no_memory_for_the_temporary_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
