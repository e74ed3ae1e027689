/* SPDX-License-Identifier: MIT */
/* tests/cli/digits.c: the digits example as its user runs it: what it promises, its report, and
 * its options. */
#include "support/command.h"
#include "support/support.h"
#include "support/test.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIGITS T_PROGRAM("digits")
#define DATA   PH_TEST_SOURCE_DIR "/examples/digits/data/digits.csv.gz"

static const char old_report[] = "the report of yesterday\n";

FIXTURE(setup)
{
    t_folder_create();
    return 0;
}

FIXTURE(teardown)
{
    t_folder_remove();
    return 0;
}

static void assert_old_report(const char *path)
{
    char *text = t_read_file(path, NULL);
    assert_string_equal(text, old_report);
    free(text);
}

static size_t count(const char *text, const char *part)
{
    size_t found = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        found++;
    return found;
}

/* nodes 0: any number of them, but some. */
static void assert_report_of(const char *path, size_t nodes)
{
    static const char *const paired[] = {"html", "head",  "body",  "main",    "svg",    "title",
                                         "desc", "style", "table", "section", "figure", "details",
                                         "g",    "text",  "ul",    "li"};
    char *page = t_read_file(path, NULL);
    assert_memory_equal(page, "<!doctype html>", 15);
    assert_non_null(strstr(page, "</html>\n"));
    for (size_t i = 0; i < sizeof paired / sizeof paired[0]; i++) {
        char open[2][32], end[32];
        (void)snprintf(open[0], sizeof open[0], "<%s>", paired[i]);
        (void)snprintf(open[1], sizeof open[1], "<%s ", paired[i]);
        (void)snprintf(end, sizeof end, "</%s>", paired[i]);
        size_t opened = count(page, open[0]) + count(page, open[1]);
        assert_true(opened > 0);
        assert_int_equal(opened, count(page, end));
    }
    size_t drawn = count(page, "class=\"node lane");
    assert_true(nodes ? drawn == nodes : drawn > 0);
    assert_int_equal(count(page, "<figure"), 24);
    assert_int_equal(count(page, "class=\"curve"), 2);
    assert_null(strstr(page, "http"));
    assert_null(strstr(page, "<script"));
    assert_null(strstr(page, "nan"));
    free(page);
}

static void assert_report(const char *path)
{
    assert_report_of(path, 11);
}

TEST(digits_keeps_the_promises_of_its_page)
{
    const char *report = t_path("report.html");
    t_result r = t_run(&(t_command){.argv = {DIGITS, "--data", DATA, "--report", report, "--epochs",
                                             "12", "--device", t_device_name()}});
    assert_int_equal(r.status, 0);
    assert_string_equal(r.err, "");
    assert_non_null(strstr(r.out, "device "));
    assert_non_null(
        strstr(r.out, "504 losses and 9610 weights of both runs: equal to the last bit\n"));
    assert_non_null(strstr(r.out, "allocations per step                      8              0\n"));
    assert_non_null(strstr(r.out, "nodes                                     -             11\n"));
    t_result_free(&r);
    assert_report(report);
    assert_int_equal(t_count_files(), 1);
}

/* A ratio has its spread, and is no headline where 1 lies in that. */
TEST(ratios_have_their_spread)
{
    const char *report = t_path("report.html"), *line;
    double median, lowest, highest;
    size_t rounds;
    t_result r = t_run(&(t_command){.argv = {DIGITS, "--data", DATA, "--report", report, "--epochs",
                                             "12", "--device", t_device_name()}});
    assert_int_equal(r.status, 0);
    line = strstr(r.out, "eager / replayed ");
    assert_non_null(line);
    line += strcspn(line, "0123456789t");
    char *page = t_read_file(report, NULL);
    const bool told = sscanf(line, "%lfx, in %zu rounds %lfx to %lfx\n", &median, &rounds, &lowest,
                             &highest) == 4;
    if (told) {
        assert_true(lowest <= median && median <= highest);
        assert_non_null(strstr(page, "×</b><span>eager time per step, divided by replayed; "));
    } else {
        line = strstr(line, "the difference cannot be told on this machine: ");
        assert_non_null(line);
        assert_int_equal(sscanf(line,
                                "the difference cannot be told on this machine: %lfx to %lfx "
                                "in %zu rounds\n",
                                &lowest, &highest, &rounds),
                         3);
        assert_non_null(strstr(page, "the difference cannot be told on this machine; "));
        assert_null(strstr(page, "×</b>"));
    }
    assert_true(rounds >= 9 && lowest > 0 && lowest <= highest);
    assert_int_equal(told, lowest > 1 || highest < 1);
    free(page);
    t_result_free(&r);
}

/* One epoch is too little to learn the digits: it says so, and the report shows it. */
TEST(test_too_little_training)
{
    const char *report = t_path("report.html");
    t_write(report, old_report, strlen(old_report));
    assert_int_equal(chmod(report, 0640), 0);
    t_result r = t_run(&(t_command){.argv = {DIGITS, "--data", DATA, "--report", report, "--epochs",
                                             "1", "--quiet", "--device", t_device_name()}});
    assert_int_equal(r.status, 1);
    assert_string_equal(r.out, "");
    assert_non_null(strstr(r.err, "of the held-out images right, expected at least 96 %\n"));
    t_result_free(&r);
    assert_report(report);
    struct stat now;
    assert_int_equal(stat(report, &now), 0);
    assert_int_equal(now.st_mode & 07777, 0640);
}

/* Every legal order of the streams, any number of threads, and freed blocks that are
 * overwritten: the same bits. */
TEST(digits_has_the_same_bits_on_every_host_device)
{
    static const char *const devices[] = {"host:chaos=7", "host:threads=1,poison=1",
                                          "host:threads=3,chaos=8,poison=1"};
    const char *report = t_path("report.html");
    t_host_only("the settings are the host device's");
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        t_expect(&(t_command){.argv = {DIGITS, "--data", DATA, "--report", report, "--epochs", "1",
                                       "--device", devices[i]}},
                 1, "42 losses and 9610 weights of both runs: equal to the last bit\n",
                 "expected at least 96 %");
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        t_expect(&(t_command){.argv = {DIGITS, "--form", "modules", "--data", DATA, "--report",
                                       report, "--epochs", "1", "--device", devices[i]}},
                 1, "42 losses and 9610 weights of both runs: equal to the last bit\n",
                 "expected at least 96 %");
}

/* The same promises, and the same report. */
TEST(digits_of_modules_keeps_the_same_promises)
{
    const char *report = t_path("report.html");
    t_expect(&(t_command){.argv = {DIGITS, "--form", "modules", "--data", DATA, "--report", report,
                                   "--device", t_device_name()}},
             0, "1260 losses and 9610 weights of both runs: equal to the last bit\n", NULL);
    assert_report_of(report, 0);
}

static float *losses_on(const char *device, size_t count)
{
    const char *report = t_path("report.html"), *file = t_path("losses.txt");
    t_result r =
        t_run(&(t_command){.argv = {DIGITS, "--data", DATA, "--report", report, "--losses", file,
                                    "--epochs", "4", "--quiet", "--device", device}});
    assert_true(r.status == 0 || strstr(r.err, "expected at least 96 %"));
    t_result_free(&r);
    char *text = t_read_file(file, NULL), *at = text, *end;
    float *losses = calloc(count, sizeof *losses);
    assert_non_null(losses);
    for (size_t i = 0; i < count; i++, at = end) {
        losses[i] = strtof(at, &end);
        assert_true(end > at && *end == '\n');
    }
    assert_string_equal(at, "\n");
    free(text);
    return losses;
}

/* Sums run in the same order on every device; what is left are the last bits of exp and log,
 * which training carries on: with both wrong by up to two units in the last place at random, 4
 * epochs of losses between 2.5 and 0.01 differed by up to 3e-6. */
TEST(test_losses_are_the_hosts)
{
    enum {
        STEPS = 4 * 42
    };
    const float tolerance = t_on_host() ? 0 : 1e-4f;
    float *here = losses_on(t_device_name(), STEPS), *there = losses_on("host:threads=1", STEPS);
    for (int i = 0; i < STEPS; i++)
        if (!(fabsf(here[i] - there[i]) <= tolerance))
            fail_msg("step %d: the loss is %.9g, on the host %.9g", i + 1, (double)here[i],
                     (double)there[i]);
    free(here);
    free(there);
}

TEST(digits_shows_its_progress_on_a_terminal_alone)
{
    if (!t_has_terminals()) {
        print_message(
            "skipped: the progress bar is not seen, as this machine has no pseudo terminals\n");
        skip();
    }
    const char *report = t_path("report.html");
    t_expect(&(t_command){.argv = {DIGITS, "--data", DATA, "--report", report, "--epochs", "2",
                                   "--device", t_device_name()},
                          .terminal = true},
             1, NULL,
             "\rreplayed [########################################] epoch 2 of 2, loss 0.");
    t_result r = t_run(&(t_command){.argv = {DIGITS, "--data", DATA, "--report", report, "--epochs",
                                             "2", "--quiet", "--device", t_device_name()},
                                    .terminal = true});
    assert_null(strstr(r.err, "epoch"));
    t_result_free(&r);
}

TEST(test_bad_usage)
{
    t_expect(&(t_command){.argv = {DIGITS, "--help"}}, 0, "usage: digits", NULL);
    t_expect(&(t_command){.argv = {DIGITS, "--epochs", "0"}}, 2, NULL,
             "--epochs wants a whole number from 1 to 1000, not '0'");
    t_expect(&(t_command){.argv = {DIGITS, "--epochs", "ten"}}, 2, NULL, "not 'ten'");
    t_expect(&(t_command){.argv = {DIGITS, "--seed", "-1"}}, 2, NULL, "not '-1'");
    t_expect(&(t_command){.argv = {DIGITS, "--form", "waves"}}, 2, NULL,
             "--form wants kernels or modules, not 'waves'");
    t_expect(&(t_command){.argv = {DIGITS, "--speed", "11"}}, 2, NULL, "usage: digits");
    t_expect(&(t_command){.argv = {DIGITS, "--data"}}, 2, NULL, "usage: digits");
    t_expect(&(t_command){.argv = {DIGITS, "more"}}, 2, NULL, "unexpected argument 'more'");
    t_expect(&(t_command){.argv = {DIGITS, "--data", DATA, "--device", "abacus"}}, 1, NULL,
             "abacus");
}

/* ---- reports that cannot be written ---- */

static void expect_no_report(const char *report, size_t file_limit, const char *message)
{
    t_expect(&(t_command){.argv = {DIGITS, "--data", DATA, "--report", report, "--epochs", "1",
                                   "--quiet", "--device", t_device_name()},
                          .file_limit = file_limit},
             1, NULL, message);
}

TEST(test_full_disk_keeps_the_old_report)
{
    const char *report = t_path("report.html");
    t_write(report, old_report, strlen(old_report));
    expect_no_report(report, 5000, "report.html: cannot be written: File too large");
    assert_old_report(report);
    assert_int_equal(t_count_files(), 1);
}

TEST(test_report_in_odd_places)
{
    expect_no_report(t_path(""), 0, "is a folder");
    expect_no_report(t_path("missing/report.html"), 0,
                     "no temporary file can be made beside it: No such file");
    t_write(t_path("file"), "", 0);
    expect_no_report(t_path("file/report.html"), 0, "cannot be written: Not a directory");
    assert_int_equal(t_count_files(), 1);
}

TEST(test_a_link_stays)
{
    const char *target = t_path("target.html"), *link_path = t_path("link.html");
    struct stat status;
    t_write(target, old_report, strlen(old_report));
    assert_int_equal(symlink(target, link_path), 0);
    t_expect(&(t_command){.argv = {DIGITS, "--data", DATA, "--report", link_path, "--epochs", "1",
                                   "--quiet", "--device", t_device_name()}},
             1, NULL, "expected at least 96 %");
    assert_int_equal(lstat(link_path, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_report(target);
    assert_int_equal(t_count_files(), 2);
}

/* A device is written to, never replaced: as nobody, so that a fault here could not replace it
 * either. */
TEST(test_a_device_is_not_replaced)
{
    t_command command = {.argv = {DIGITS, "--data", DATA, "--report", "/dev/full", "--epochs", "1",
                                  "--quiet", "--device", t_device_name()},
                         .unprivileged = true};
    t_result r = t_run(&command);
    bool runs = r.status != 126;
    assert_true(!runs || (r.status == 1 &&
                          strstr(r.err, "/dev/full: cannot be written: No space left on device")));
    t_result_free(&r);
    struct stat status;
    assert_int_equal(stat("/dev/full", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
    if (!runs) {
        print_message("skipped: the program cannot be run by an unprivileged user here\n");
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(digits_keeps_the_promises_of_its_page, setup, teardown),
        cmocka_unit_test_setup_teardown(ratios_have_their_spread, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_little_training, setup, teardown),
        cmocka_unit_test_setup_teardown(digits_has_the_same_bits_on_every_host_device, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(digits_of_modules_keeps_the_same_promises, setup, teardown),
        cmocka_unit_test_setup_teardown(test_losses_are_the_hosts, setup, teardown),
        cmocka_unit_test_setup_teardown(digits_shows_its_progress_on_a_terminal_alone, setup,
                                        teardown),
        cmocka_unit_test(test_bad_usage),
        cmocka_unit_test_setup_teardown(test_full_disk_keeps_the_old_report, setup, teardown),
        cmocka_unit_test_setup_teardown(test_report_in_odd_places, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_link_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_device_is_not_replaced, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
