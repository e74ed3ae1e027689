/* SPDX-License-Identifier: MIT */
/* tests/cli/digits_data.c: the digits example on data that is damaged: each fault is named with
 * its line, and the old report stays. */
#include "support/command.h"
#include "support/support.h"
#include "support/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS T_PROGRAM("digits")
#define DATA   PH_TEST_SOURCE_DIR "/examples/digits/data/digits.csv.gz"

static const char old_report[] = "the report of yesterday\n";

FIXTURE(setup)
{
    t_folder_create();
    t_write(t_path("report.html"), old_report, strlen(old_report));
    return 0;
}

FIXTURE(teardown)
{
    t_folder_remove();
    return 0;
}

static void expect_path(const char *path, const char *message)
{
    const char *report = t_path("report.html");
    t_expect(&(t_command){.argv = {DIGITS, "--data", path, "--report", report, "--quiet"}}, 1, NULL,
             message);
    char *text = t_read_file(report, NULL);
    assert_string_equal(text, old_report);
    free(text);
}

static void expect_bytes(const char *bytes, size_t size, const char *message)
{
    const char *path = t_path("data.csv");
    t_write(path, bytes, size);
    expect_path(path, message);
}

/* 200 good lines of 130 bytes ("0,0,...,0,7\n"): the reader takes plain text, too. */
enum {
    LINES = 200,
    LINE = 2 * 65
};

static char *good_text(void)
{
    char *text = malloc(LINES * LINE + 4096);
    assert_non_null(text);
    for (size_t i = 0; i < LINES * LINE; i++)
        text[i] = i % 2 ? ',' : '0';
    for (size_t line = 1; line <= LINES; line++)
        memcpy(text + line * LINE - 2, "7\n", 2);
    return text;
}

/* The good text with line 17 replaced. */
static void expect_line(const char *line, size_t length, const char *message)
{
    char *text = good_text();
    char *at = text + 16 * LINE;
    memmove(at + length, at + LINE, (LINES - 17) * LINE);
    memcpy(at, line, length);
    expect_bytes(text, LINES * LINE - LINE + length, message);
    free(text);
}

TEST(test_bad_lines)
{
    char *text = good_text(), line[3000];
    const char *good = text;

    expect_line(good + 2, LINE - 2, "data.csv, line 17: 64 values, expected 65");
    (void)snprintf(line, sizeof line, "0,%.*s", LINE, good);
    expect_line(line, strlen(line), "data.csv, line 17: 66 values, expected 65");
    expect_line("\n", 1, "data.csv, line 17: 0 values, expected 65");
    expect_line("hello\n", 6, "data.csv, line 17: 1 values, expected 65");

    static const struct {
        const char *value, *message;
    } values[] = {
        {"17", "data.csv, line 17: value 3 is 17, expected 0 to 16"},
        {"-1", "data.csv, line 17: value 3 is -1, expected 0 to 16"},
        {"99999999999999999999",
         "data.csv, line 17: value 3 is 99999999999999999999, expected 0 to 16"},
        {"x", "data.csv, line 17: value 3 is 'x', expected an integer"},
        {"", "data.csv, line 17: value 3 is '', expected an integer"},
        {"1.5", "data.csv, line 17: value 3 is '1.5', expected an integer"},
        {" 1", "data.csv, line 17: value 3 is ' 1', expected an integer"},
        {"+1", "data.csv, line 17: value 3 is '+1', expected an integer"},
        {"-", "data.csv, line 17: value 3 is '-', expected an integer"},
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        (void)snprintf(line, sizeof line, "0,0,%s%.*s", values[i].value, LINE - 5, good + 5);
        expect_line(line, strlen(line), values[i].message);
    }
    (void)snprintf(line, sizeof line, "%.*s10\n", LINE - 2, good);
    expect_line(line, strlen(line), "data.csv, line 17: value 65 is 10, expected 0 to 9");

    memset(line, '0', sizeof line);
    line[sizeof line - 1] = '\n';
    expect_line(line, sizeof line, "data.csv, line 17: longer than");
    memcpy(line, good, LINE);
    line[10] = '\0';
    expect_line(line, LINE, "data.csv, line 17: holds a zero byte");
    free(text);
}

TEST(test_too_little)
{
    char *text = good_text();
    expect_bytes("", 0, "data.csv: the file is empty");
    expect_bytes(text, LINE, "1 images are too few");
    expect_bytes(text, 40 * LINE, "40 images are too few");
    expect_bytes(text, 20 * LINE - 5, "data.csv, line 20: 63 values, expected 65");
    free(text);
}

/* Line ends of other systems, and a last line without one, are good data: what fails then is
 * only the learning of nothing. */
TEST(test_line_ends)
{
    char *text = good_text(), *other = malloc(LINES * (LINE + 1));
    assert_non_null(other);
    for (size_t line = 0; line < LINES; line++) {
        memcpy(other + line * (LINE + 1), text + line * LINE, LINE - 1);
        memcpy(other + line * (LINE + 1) + LINE - 1, "\r\n", 2);
    }
    const char *path = t_path("data.csv");
    t_write(path, other, LINES * (LINE + 1) - 2);
    t_expect(&(t_command){.argv = {DIGITS, "--data", path, "--report", t_path("new.html"),
                                   "--epochs", "2"}},
             0, "equal to the last bit", NULL);
    free(other);
    free(text);
}

TEST(test_truncated_stream)
{
    size_t size;
    char *bytes = t_read_file(DATA, &size);
    const char *path = t_path("digits.csv.gz");
    const size_t cuts[] = {20, 1000, size / 2, size - 300, size - 8, size - 1};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        t_write(path, bytes, cuts[i]);
        expect_path(path, "the gzip stream is truncated");
    }
    free(bytes);
}

TEST(test_damaged_stream)
{
    size_t size;
    char *bytes = t_read_file(DATA, &size);
    const char *path = t_path("digits.csv.gz");
    bytes[size - 6] = (char)(bytes[size - 6] ^ 1); /* the checksum */
    t_write(path, bytes, size);
    expect_path(path, ": the gzip stream is damaged: incorrect data check\n");
    bytes[size / 2] = (char)(bytes[size / 2] ^ 16);
    t_write(path, bytes, size);
    expect_path(path, "digits.csv.gz, ");
    free(bytes);
}

TEST(unreadable_data_is_refused_by_name)
{
    expect_path(t_path("missing.csv.gz"),
                "missing.csv.gz: cannot be opened: No such file or directory");
    expect_path(t_path(""), "cannot be read: Is a directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bad_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_little, setup, teardown),
        cmocka_unit_test_setup_teardown(test_line_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_truncated_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(unreadable_data_is_refused_by_name, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
