/* SPDX-License-Identifier: MIT */
/* tests/cli/gpt.c: the gpt example as its user runs it: its log, its report, its samples. */
#include "support/command.h"
#include "support/support.h"
#include "support/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEPS = 60,
    LINE = 512
};
#define GPT T_PROGRAM("gpt")

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

/* A small training; further options, up to the first NULL, before the text. */
static t_result train(const char *first, const char *second, const char *third)
{
    t_command command = {.argv = {GPT, "--device=host:threads=2", "--steps=60", "--batch=8",
                                  "--time=16", "--width=32", "--layers=1", "--rate=0.004",
                                  "--dropout=0.1", "--sample=50", "--quiet"}};
    const char *more[] = {first, second, third, NULL};
    size_t count = 11;
    for (size_t i = 0; more[i]; i++)
        command.argv[count++] = more[i];
    command.argv[count] = PH_TEST_SOURCE_DIR "/docs";
    return t_run(&command);
}

static const char *option(char out[LINE], const char *name, const char *path)
{
    (void)snprintf(out, LINE, "--%s=%s", name, path);
    return out;
}

/* A training that goes well, with a log in the folder: what that holds, freed with free. */
static char *log_of(const char *name, char *written, const char *more, const char *still_more)
{
    char text[LINE];
    t_result result = train(option(text, "log", t_path(name)), more, still_more);
    if (result.status != 0)
        fail_msg("exit status %d: %s", result.status, result.err);
    (void)snprintf(written, LINE, "%s", result.out);
    t_result_free(&result);
    return t_read_file(t_path(name), NULL);
}

static size_t count_of(const char *text, char what)
{
    size_t count = 0;
    for (; *text; text++)
        count += *text == what;
    return count;
}

/* Steps that are submitted one by one, that are one replay each, and those of a run that stops to
 * write samples, learn the same to the last bit, and write the same. */
TEST(test_the_log_is_that_of_the_training_alone)
{
    char report[LINE], written[3][LINE];
    char *eager = log_of("eager.csv", written[0], "--eager", NULL);
    char *replayed = log_of("replayed.csv", written[1], NULL, NULL);
    char *reported =
        log_of("reported.csv", written[2], option(report, "report", t_path("report.html")), NULL);
    assert_memory_equal(eager, "step,epoch,loss,validation,rate\n1,0,", 36);
    assert_int_equal(count_of(eager, '\n'), STEPS + 1);
    assert_non_null(strstr(eager, "\n60,0,"));
    assert_string_equal(eager, replayed);
    assert_string_equal(eager, reported);
    assert_string_equal(written[0], written[1]);
    assert_string_equal(written[0], written[2]);
    free(eager);
    free(replayed);
    free(reported);
}

/* ---- states ---- killed again and again, each time a little later, until it comes to its end. */
static t_result train_for(const char *seconds, const char *more)
{
    char log[LINE], folder[LINE];
    const t_command command = {
        .argv = {"/usr/bin/timeout", "--signal=KILL", seconds, GPT, "--device=host:threads=2",
                 "--steps=60", "--batch=8", "--time=16", "--width=32", "--layers=1", "--rate=0.004",
                 "--dropout=0.1", "--sample=50", "--quiet",
                 option(log, "log", t_path("killed.csv")),
                 option(folder, "state", t_path("states")), more, PH_TEST_SOURCE_DIR "/docs"}};
    return t_run(&command);
}

TEST(test_a_killed_training_that_goes_on_has_one_log)
{
    char written[LINE];
    char *want = log_of("whole.csv", written, NULL, NULL);
    int kills = 0, resumed = 0, status = 137;
    for (int hundredths = 10; status == 137; hundredths += 5) {
        char seconds[16];
        (void)snprintf(seconds, sizeof seconds, "%d.%02d", hundredths / 100, hundredths % 100);
        t_result result = train_for(seconds, "--resume");
        status = result.status;
        kills += status == 137;
        resumed += strstr(result.err, "goes on behind step") != NULL;
        if (status != 0 && status != 137)
            fail_msg("exit status %d: %s", status, result.err);
        if (status == 0)
            assert_string_equal(result.out, written);
        t_result_free(&result);
    }
    assert_in_range(kills, 1, 1000);
    assert_in_range(resumed, 1, kills);
    char *got = t_read_file(t_path("killed.csv"), NULL);
    assert_string_equal(got, want);
    free(got);
    free(want);
    t_result result = train_for("20", "--bf16");
    assert_int_equal(result.status, 1);
    assert_non_null(strstr(result.err, "--resume goes on with it"));
    t_result_free(&result);
}

TEST(test_a_state_of_another_training_is_refused)
{
    char folder[LINE];
    t_result result = train(option(folder, "state", t_path("states")), "--resume", "--seed=2");
    assert_int_equal(result.status, 1);
    assert_non_null(strstr(result.err, "seed"));
    t_result_free(&result);
    result = train("--resume", NULL, NULL);
    assert_int_equal(result.status, 2);
    assert_non_null(strstr(result.err, "--state"));
    t_result_free(&result);
}

/* Twenty rows have a loss of the text that is held out, which falls. */
TEST(test_the_log_has_validation)
{
    char written[LINE];
    char *log = log_of("log.csv", written, NULL, NULL);
    double first = 0, last = 0;
    int validated = 0;
    for (char *line = strchr(log, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
        int step;
        unsigned epoch;
        double loss, validation;
        if (sscanf(line, "%d,%u,%lf,%lf,", &step, &epoch, &loss, &validation) != 4)
            continue;
        first = validated++ == 0 ? validation : first;
        last = validation;
        assert_int_equal(step % 3, 0);
    }
    assert_int_equal(validated, 20);
    assert_true(last < first - 0.5);
    free(log);
}

TEST(test_the_report_is_a_whole_page)
{
    char report[LINE];
    t_result result = train(option(report, "report", t_path("report.html")), NULL, NULL);
    assert_int_equal(result.status, 0);
    t_result_free(&result);
    char *page = t_read_file(t_path("report.html"), NULL);
    const char *parts[] = {
        "<!doctype html>", "Behind 12 steps",     "Behind 60 steps",   "held out",
        "</html>\n",       "id=\"losses\"",       "The captured step", "id=\"times\"",
        "graph-title",     "The nodes as a table"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!strstr(page, parts[i]))
            fail_msg("the report has no '%s'", parts[i]);
    assert_null(strstr(page, "nan"));
    free(page);
}

TEST(test_files_that_cannot_be_written)
{
    t_result result = train("--log=/dev/full", NULL, NULL);
    assert_int_equal(result.status, 1);
    assert_non_null(strstr(result.err, "/dev/full: cannot be written"));
    t_result_free(&result);
    char report[LINE];
    result = train(option(report, "report", t_path("there/is/none")), NULL, NULL);
    assert_int_equal(result.status, 1);
    assert_non_null(strstr(result.err, "there/is/none"));
    t_result_free(&result);
}

TEST(test_options_that_do_not_go_together)
{
    t_result result = train("--eager", "--report=page.html", NULL);
    assert_int_equal(result.status, 2);
    assert_non_null(strstr(result.err, "--report"));
    t_result_free(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_log_is_that_of_the_training_alone),
        cmocka_unit_test(test_a_killed_training_that_goes_on_has_one_log),
        cmocka_unit_test(test_a_state_of_another_training_is_refused),
        cmocka_unit_test(test_the_log_has_validation),
        cmocka_unit_test(test_the_report_is_a_whole_page),
        cmocka_unit_test(test_files_that_cannot_be_written),
        cmocka_unit_test(test_options_that_do_not_go_together),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
