/* SPDX-License-Identifier: MIT */
/* tests/unit/base_links.c: files are written through symbolic links, also those that lead to
 * nothing yet; what may not be written is not replaced. */
#include "base/text_file.h"
#include "support/files.h"

#include "base/alloc.h"
#include "base/text.h"
#include "support/test.h"
#include <errno.h>
#include <grp.h>
#include <sys/wait.h>

static t_folder folder;

FIXTURE(make_folder)
{
    t_folder_open(&folder);
    return 0;
}

/* Nothing but these may be left: no temporary file. */
FIXTURE(remove_folder)
{
    static const char *const names[] = {"first",   "target", "file", "loop",
                                        "nowhere", "below",  "a",    "link"};
    t_folder_close(&folder, names, sizeof names / sizeof names[0]);
    return ph__alloc_live() == 0 ? 0 : -1;
}

static ph_status write_text(const char *path, const char *content)
{
    ph__text text = {0};
    ph__text_add(&text, content);
    ph_status status = ph__text_write_file(&text, path, "ph_test_dump");
    ph__text_free(&text);
    return status;
}

static void expect_content(const char *name, const char *want)
{
    char got[64] = "";
    size_t size = t_get_file(&folder, name, got, sizeof got - 1);
    assert_int_equal(size, strlen(want));
    assert_string_equal(got, want);
}

static void expect_link(const char *name)
{
    struct stat there;
    assert_int_equal(lstat(t_inside(&folder, name), &there), 0);
    assert_true(S_ISLNK(there.st_mode));
}

static void expect_failure(const char *path, int number, const char *native_call)
{
    assert_error(write_text(path, "y"), PH_ERROR_IO, "ph_test_dump: cannot write");
    assert_native(number);
    assert_string_equal(ph_error_last()->native_call, native_call);
}

/* Links of links, relative ones from their own folder: the file is made where they lead. */
TEST(test_dangling_links)
{
    char target[160];
    assert_int_equal(mkdir(t_inside(&folder, "sub"), 0700), 0);
    assert_int_equal(symlink("sub/second", t_inside(&folder, "first")), 0);
    assert_int_equal(symlink("../target", t_inside(&folder, "sub/second")), 0);
    assert_ok(write_text(t_inside(&folder, "first"), "new"));
    expect_content("target", "new");
    assert_ok(write_text(t_inside(&folder, "first"), "newer"));
    expect_content("target", "newer");
    expect_link("first");
    expect_link("sub/second");
    assert_int_equal(unlink(t_inside(&folder, "sub/second")), 0);
    assert_int_equal(rmdir(t_inside(&folder, "sub")), 0);
    assert_int_equal(unlink(t_inside(&folder, "first")), 0);
    (void)strcpy(target, t_inside(&folder, "target"));
    assert_int_equal(unlink(target), 0);
    assert_int_equal(symlink(target, t_inside(&folder, "first")), 0); /* by its whole name */
    assert_ok(write_text(t_inside(&folder, "first"), "third"));
    expect_content("target", "third");
    expect_link("first");
}

/* To itself, into a folder that is not there, below a file: the links stay. */
TEST(test_links_that_lead_nowhere)
{
    (void)t_put_file(&folder, "file", "x", 1);
    assert_int_equal(symlink("loop", t_inside(&folder, "loop")), 0);
    assert_int_equal(symlink("missing/a", t_inside(&folder, "nowhere")), 0);
    assert_int_equal(symlink("file/a", t_inside(&folder, "below")), 0);
    expect_failure(t_inside(&folder, "loop"), ELOOP, "stat");
    expect_failure(t_inside(&folder, "nowhere"), ENOENT, "open");
    expect_failure(t_inside(&folder, "below"), ENOTDIR, "stat");
    expect_link("loop");
    expect_link("nowhere");
    expect_link("below");
    expect_content("file", "x");
}

TEST(test_long_links)
{
    static char name[300];
    memset(name, 'n', sizeof name - 1);
    assert_int_equal(symlink(name, t_inside(&folder, "link")), 0);
    assert_status(write_text(t_inside(&folder, "link"), "y"), PH_ERROR_IO);
    assert_native(ENAMETOOLONG);
    expect_link("link");
}

TEST(test_no_memory)
{
    assert_int_equal(symlink("target", t_inside(&folder, "link")), 0);
    ph__text text = {0};
    ph__text_add(&text, "new");
    for (int64_t n = 0; n < 2; n++) {
        ph__alloc_fail_after(n);
        ph_status status = ph__text_write_file(&text, t_inside(&folder, "link"), "ph_test_dump");
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        assert_int_equal(status, PH_ERROR_HOST_MEMORY);
        expect_link("link");
    }
    ph__text_free(&text);
    assert_int_not_equal(access(t_inside(&folder, "target"), F_OK), 0);
}

/* 0: both are refused. Without the rights of root, who may write everything. */
static int try_protected(void)
{
    static const char *const names[] = {"a", "link"};
    int wrong = 0;
    for (int i = 0; i < 2; i++)
        wrong += write_text(t_inside(&folder, names[i]), "x") != PH_ERROR_IO ||
                 ph_error_last()->native_code != EACCES;
    return wrong;
}

TEST(test_protected_file)
{
    enum {
        NOBODY = 65534,
        NO_RIGHTS_TO_DROP = 77
    };
    int status;
    (void)t_put_file(&folder, "a", "precious", 8);
    assert_int_equal(chmod(t_inside(&folder, "a"), 0444), 0);
    assert_int_equal(symlink("a", t_inside(&folder, "link")), 0);
    if (geteuid() == 0) { /* the folder is theirs, so that they may replace what is in it */
        assert_int_equal(chown(folder.path, NOBODY, NOBODY), 0);
        assert_int_equal(chown(t_inside(&folder, "a"), NOBODY, NOBODY), 0);
    }
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 &&
            (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
            _exit(NO_RIGHTS_TO_DROP);
        _exit(try_protected());
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_RIGHTS_TO_DROP) {
        print_message("skipped: no file is protected, as root's rights cannot be dropped here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    expect_content("a", "precious");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_dangling_links), IN_FOLDER(test_links_that_lead_nowhere),
        IN_FOLDER(test_long_links),     IN_FOLDER(test_no_memory),
        IN_FOLDER(test_protected_file),
    };
    return cmocka_run_group_tests_name("base_links", tests, NULL, NULL);
}
