/* SPDX-License-Identifier: MIT */
/* tests/unit/cuda_cache.c: compiled kernels kept on disk: found again whole or not at all, and
 * never from where others can write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/log.h"
#include "driver/cuda/load/cache.h"
#include "support/test.h"
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    OTHER_USER = 65534,
    PATH_BYTES = 1024
};

static char root[256], folder[300];
static int open_files_before;

static int open_files(void)
{
    int count = 0;
    DIR *files = opendir("/proc/self/fd");
    if (!files)
        return 0;
    while (readdir(files))
        count++;
    closedir(files);
    return count;
}

static int run(const char *format, const char *path)
{
    char command[PATH_BYTES];
    (void)snprintf(command, sizeof command, format, path);
    return system(command);
}

FIXTURE(make_root)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(root, sizeof root, "%s/phonograph-cache-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(root) || chmod(root, 0755) != 0)
        return -1;
    (void)snprintf(folder, sizeof folder, "%s/kernels", root);
    open_files_before = open_files();
    return setenv("PH_CACHE_DIR", folder, 1);
}

FIXTURE(remove_root)
{
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    bool clean = ph__alloc_live() == 0 && open_files() == open_files_before;
    return run("rm -rf '%s'", root) == 0 && clean ? 0 : -1;
}

static void put(const char *key, const char *payload)
{
    ph__cuda_cache_put(key, strlen(key), payload, strlen(payload));
}

/* The payload found is exactly this one; NULL: none is found. */
static void assert_found(const char *key, const char *payload)
{
    char *found = NULL;
    size_t bytes = 0;
    bool there = ph__cuda_cache_get(&found, &bytes, key, strlen(key));
    assert_int_equal(there, payload != NULL);
    if (!there)
        return;
    assert_int_equal(bytes, strlen(payload));
    assert_string_equal(found, payload);
    ph__free(found);
}

/* The path of the only entry; counts all files. */
static const char *entry_path(void)
{
    static char path[PATH_BYTES];
    int count = 0;
    DIR *files = opendir(folder);
    assert_non_null(files);
    for (struct dirent *entry; (entry = readdir(files));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        count++;
    }
    closedir(files);
    assert_int_equal(count, 1);
    return path;
}

static size_t read_file(char *out, size_t room, const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t bytes = fread(out, 1, room, file);
    assert_int_equal(fclose(file), 0);
    return bytes;
}

static void write_file(const char *path, const char *content, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static mode_t mode_of(const char *path)
{
    struct stat there;
    assert_int_equal(lstat(path, &there), 0);
    return there.st_mode & 07777;
}

/* ---- the log of a process of its own, since messages come once in a process ---- */

static int messages;
static char last_message[PATH_BYTES];

static void count_message(ph_log_level level, const char *message, void *user)
{
    (void)user;
    messages += level == PH_LOG_WARNING ? 1 : 100;
    (void)snprintf(last_message, sizeof last_message, "%s", message);
}

/* Runs body in a process of its own, as another user where user is not 0; its asserts count. */
static void in_child(void (*body)(void), uid_t user)
{
    int status = 0;
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (user != 0 && setresuid(user, user, user) != 0)
            _exit(2);
        ph_log_set(count_message, NULL);
        body();
        _exit(messages > 99 ? 3 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: not so: %s (last message: %s)\n", __FILE__, __LINE__,    \
                          #condition, last_message);                                               \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static bool finds(const char *key)
{
    char *found = NULL;
    size_t bytes = 0;
    bool there = ph__cuda_cache_get(&found, &bytes, key, strlen(key));
    if (there)
        ph__free(found);
    return there;
}

/* ---- keeping ---- */

TEST(test_put_and_get)
{
    assert_found("key", NULL);
    assert_int_equal(access(folder, F_OK), -1); /* looking makes nothing */
    put("key", "payload");
    assert_found("key", "payload");
    assert_found("kez", NULL);
    assert_found("ke", NULL);
    assert_int_equal(mode_of(folder), 0700);
    assert_int_equal(mode_of(entry_path()), 0600);
    put("key", "a longer payload");
    assert_found("key", "a longer payload");
    put("other", "");
    assert_found("other", "");
    assert_found("key", "a longer payload");
}

TEST(a_large_entry_comes_back_whole)
{
    enum {
        BYTES = 3 << 20
    };
    char *large = malloc(BYTES), *found = NULL;
    size_t bytes = 0;
    assert_non_null(large);
    for (size_t i = 0; i < BYTES; i++)
        large[i] = (char)(i * 2654435761u >> 13);
    ph__cuda_cache_put(large, 1 << 20, large, BYTES);
    assert_true(ph__cuda_cache_get(&found, &bytes, large, 1 << 20));
    assert_int_equal(bytes, BYTES);
    assert_memory_equal(found, large, BYTES);
    ph__free(found);
    free(large);
}

/* ---- damage ---- */

TEST(test_every_changed_byte)
{
    char content[512], changed[512];
    put("the key", "the payload");
    const char *path = entry_path();
    size_t bytes = read_file(content, sizeof content, path);
    assert_int_equal(bytes, sizeof(ph__cuda_cache_header) + 7 + 11);
    for (size_t i = 0; i < bytes; i++) {
        memcpy(changed, content, bytes);
        changed[i] = (char)(changed[i] ^ 1 << i % 8);
        write_file(path, changed, bytes);
        assert_found("the key", NULL);
    }
    put("the key", "the payload");
    assert_found("the key", "the payload");
}

TEST(test_every_length)
{
    char content[512] = "";
    put("the key", "the payload");
    const char *path = entry_path();
    size_t bytes = read_file(content, sizeof content, path);
    for (size_t length = 0; length < bytes + 40; length++) {
        write_file(path, content, length);
        assert_found("the key", length == bytes ? "the payload" : NULL);
    }
}

TEST(test_hostile_sizes)
{
    static const uint64_t sizes[] = {
        0, 1, 6, 8, 10, 12, 18, 1 << 20, INT64_MAX, UINT64_MAX, UINT64_MAX - 6, UINT64_MAX - 73};
    char content[512];
    put("the key", "the payload");
    const char *path = entry_path();
    size_t bytes = read_file(content, sizeof content, path), count = sizeof sizes / sizeof *sizes;
    for (size_t i = 0; i < count * count; i++) {
        uint64_t pair[2] = {sizes[i / count], sizes[i % count]};
        memcpy(content + offsetof(ph__cuda_cache_header, key_bytes), pair, sizeof pair);
        write_file(path, content, bytes);
        assert_found("the key", NULL);
    }
    assert_int_equal(truncate(path, (off_t)PH__CUDA_CACHE_LIMIT + 1), 0);
    assert_found("the key", NULL);
}

/* An entry of another key under this key's name: as if their hashes were the same. */
TEST(test_another_keys_entry)
{
    char path[PATH_BYTES], content[512];
    put("key A", "payload of A");
    (void)snprintf(path, sizeof path, "%s", entry_path());
    size_t bytes = read_file(content, sizeof content, path);
    assert_int_equal(unlink(path), 0);
    put("key B", "payload of B");
    write_file(entry_path(), content, bytes);
    assert_found("key B", NULL);
    put("key B", "payload of B");
    assert_found("key B", "payload of B");
}

TEST(test_no_regular_file)
{
    char path[PATH_BYTES], elsewhere[PATH_BYTES];
    put("key", "payload");
    (void)snprintf(path, sizeof path, "%s", entry_path());
    (void)snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", root);
    assert_int_equal(rename(path, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, path), 0);
    assert_found("key", NULL);
    put("key", "payload"); /* replaces the link, not what it leads to */
    assert_found("key", "payload");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_found("key", NULL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_found("key", NULL);
    put("key", "payload");
    assert_found("key", NULL);
    assert_string_equal(entry_path(), path); /* and nothing else is left */
}

/* ---- others who could write ---- */

static void others_may_write_the_folder(void)
{
    REQUIRE(!finds("key"));
    put("new", "payload");
    REQUIRE(!finds("new"));
    REQUIRE(messages == 1);
    REQUIRE(strstr(last_message, "kernels") && strstr(last_message, "PH_CACHE_DIR"));
}

static void others_may_write_the_entry(void)
{
    REQUIRE(!finds("key"));
    REQUIRE(!finds("key"));
    REQUIRE(messages == 1);
    put("key", "payload");
    REQUIRE(finds("key"));
    REQUIRE(messages == 1);
}

TEST(test_writable_by_others)
{
    static const mode_t modes[] = {0770, 0702, 0777, 01777};
    put("key", "payload");
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(chmod(folder, modes[i]), 0);
        in_child(others_may_write_the_folder, 0);
    }
    assert_int_equal(chmod(folder, 0755), 0);
    assert_found("key", "payload");
    assert_int_equal(chmod(entry_path(), 0620), 0);
    in_child(others_may_write_the_entry, 0);
    assert_int_equal(chmod(entry_path(), 0602), 0);
    in_child(others_may_write_the_entry, 0);
    assert_int_equal(chmod(entry_path(), 0644), 0);
    assert_found("key", "payload");
}

TEST(test_owned_by_others)
{
    if (geteuid() != 0) {
        (void)printf("skipped: only root can give files away\n");
        skip();
    }
    put("key", "payload");
    assert_int_equal(chown(entry_path(), OTHER_USER, (gid_t)-1), 0);
    in_child(others_may_write_the_entry, 0);
    assert_int_equal(chown(folder, OTHER_USER, (gid_t)-1), 0);
    in_child(others_may_write_the_folder, 0);
}

/* ---- where it is ---- */

TEST(an_empty_variable_turns_the_cache_off)
{
    char home[PATH_BYTES];
    (void)snprintf(home, sizeof home, "%s/home", root);
    assert_int_equal(setenv("HOME", home, 1), 0);
    assert_int_equal(setenv("PH_CACHE_DIR", "", 1), 0);
    put("key", "payload");
    assert_found("key", NULL);
    assert_int_equal(access(home, F_OK), -1);
}

TEST(the_cache_lies_where_the_variables_say)
{
    char home[PATH_BYTES], path[2 * PATH_BYTES];
    (void)snprintf(home, sizeof home, "%s/home", root);
    assert_int_equal(unsetenv("PH_CACHE_DIR") | setenv("HOME", home, 1) |
                         setenv("XDG_CACHE_HOME", "relative", 1),
                     0);
    put("key", "of home");
    (void)snprintf(path, sizeof path, "%s/.cache/phonograph", home);
    assert_int_equal(mode_of(path), 0700);
    assert_found("key", "of home");
    (void)snprintf(path, sizeof path, "%s/xdg/deep", root);
    assert_int_equal(setenv("XDG_CACHE_HOME", path, 1), 0);
    assert_found("key", NULL);
    put("key", "of xdg");
    assert_found("key", "of xdg");
    (void)snprintf(path, sizeof path, "%s/xdg/deep/phonograph", root);
    assert_int_equal(
        setenv("PH_CACHE_DIR", path, 1) | unsetenv("XDG_CACHE_HOME") | unsetenv("HOME"), 0);
    assert_found("key", "of xdg");
    assert_int_equal(unsetenv("PH_CACHE_DIR"), 0);
    put("key", "nowhere");
    assert_found("key", NULL);
}

static void no_folder_can_be_made(void)
{
    put("key", "payload");
    put("key", "payload");
    REQUIRE(!finds("key"));
    REQUIRE(messages == 100); /* for information, once */
    messages = 0;
}

static void the_folder_is_read_only(void)
{
    REQUIRE(finds("key"));
    put("new", "payload");
    put("new", "payload");
    REQUIRE(!finds("new"));
    REQUIRE(finds("key"));
    REQUIRE(messages == 100);
    messages = 0;
}

static void make_read_only_entry(void)
{
    put("key", "payload");
    REQUIRE(chmod(folder, 0500) == 0);
}

TEST(a_cache_that_cannot_be_written_harms_nothing)
{
    char file[PATH_BYTES], under[2 * PATH_BYTES];
    uid_t user = geteuid() == 0 ? OTHER_USER : 0; /* root may write everywhere */
    assert_int_equal(chmod(root, 0777), 0);
    in_child(make_read_only_entry, user);
    in_child(the_folder_is_read_only, user);
    assert_int_equal(chmod(folder, 0700), 0);
    (void)snprintf(file, sizeof file, "%s/file", root);
    (void)snprintf(under, sizeof under, "%s/folder", file);
    write_file(file, "", 0);
    assert_int_equal(setenv("PH_CACHE_DIR", under, 1), 0);
    in_child(no_folder_can_be_made, 0);
}

/* ---- many at once, much, and no memory ---- */

enum {
    WRITERS = 4,
    KEYS = 5,
    ROUNDS = 100
};

static void write_and_read(void)
{
    char key[32], payload[64];
    for (int i = 0; i < ROUNDS * KEYS; i++) {
        (void)snprintf(key, sizeof key, "key %d", i % KEYS);
        (void)snprintf(payload, sizeof payload, "the payload of key %d", i % KEYS);
        put(key, payload);
        char *found = NULL;
        size_t bytes = 0;
        REQUIRE(ph__cuda_cache_get(&found, &bytes, key, strlen(key)));
        REQUIRE(bytes == strlen(payload) && strcmp(found, payload) == 0);
        ph__free(found);
    }
}

TEST(processes_share_a_cache_at_once)
{
    pid_t children[WRITERS];
    (void)fflush(NULL);
    for (size_t i = 0; i < WRITERS; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            write_and_read();
            _exit(0);
        }
    }
    for (size_t i = 0; i < WRITERS; i++) {
        int status = 0;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(run("test $(ls -A '%s' | wc -l) -eq 5", folder), 0);
}

static void make_sparse(const char *name, off_t bytes, time_t used)
{
    char path[PATH_BYTES];
    struct timespec times[2] = {{.tv_sec = used}, {.tv_sec = used}};
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    write_file(path, "", 0);
    assert_int_equal(truncate(path, bytes), 0);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool there_is(const char *name)
{
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* What was longest unused goes, left-over temporary files too, and what is not the cache's
 * never. */
TEST(the_longest_unused_entries_go_at_the_limit)
{
    char old[80], newer[80];
    memset(old, 'a', 64);
    (void)snprintf(old + 64, sizeof old - 64, ".kernel");
    memset(newer, 'b', 64);
    (void)snprintf(newer + 64, sizeof newer - 64, ".kernel");
    put("used", "payload");
    assert_int_equal(run("touch -d @500 '%s'/*", folder), 0);
    make_sparse(old, PH__CUDA_CACHE_LIMIT / 2, 1000);
    make_sparse(newer, PH__CUDA_CACHE_LIMIT / 4, 2000);
    make_sparse(".phonograph-1-1", PH__CUDA_CACHE_LIMIT / 4 - 1000, 900);
    make_sparse("foreign.kernel", PH__CUDA_CACHE_LIMIT, 100);
    assert_found("used", "payload"); /* the oldest, but used just now */
    put("key", "payload");
    assert_true(there_is(old) && there_is(newer) && there_is(".phonograph-1-1"));
    char large[1000] = "";
    ph__cuda_cache_put("large", 5, large, sizeof large);
    assert_false(there_is(".phonograph-1-1"));
    assert_true(there_is(old) && there_is(newer));
    make_sparse(".phonograph-1-2", PH__CUDA_CACHE_LIMIT, 3000);
    put("key", "payload");
    assert_false(there_is(old) || there_is(newer) || there_is(".phonograph-1-2"));
    assert_true(there_is("foreign.kernel"));
    assert_found("used", "payload");
    assert_found("key", "payload");
}

TEST(test_without_memory)
{
    put("key", "payload");
    ph__alloc_fail_after(0);
    put("other", "payload");
    assert_found("key", NULL);
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    assert_found("key", "payload");
    assert_found("other", "payload");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_put_and_get),
        CASE(a_large_entry_comes_back_whole),
        CASE(test_every_changed_byte),
        CASE(test_every_length),
        CASE(test_hostile_sizes),
        CASE(test_another_keys_entry),
        CASE(test_no_regular_file),
        CASE(test_writable_by_others),
        CASE(test_owned_by_others),
        CASE(an_empty_variable_turns_the_cache_off),
        CASE(the_cache_lies_where_the_variables_say),
        CASE(a_cache_that_cannot_be_written_harms_nothing),
        CASE(processes_share_a_cache_at_once),
        CASE(the_longest_unused_entries_go_at_the_limit),
        CASE(test_without_memory),
    };
    return cmocka_run_group_tests_name("cuda_cache", tests, NULL, NULL);
}
