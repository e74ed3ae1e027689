/* SPDX-License-Identifier: MIT */
/* tests/cli/gpt.c: the gpt example as its user runs it: its log, its report, its samples. */
#include "support/command.h"
#include "support/support.h"
#include "support/test.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    STEPS = 60,
    LINE = 512
};
#define GPT T_PROGRAM("gpt")
/* A first scale whose gradients are beyond f16 for more than four steps, whatever the text, which
 * is that of docs/. */
#define HIGH_SCALE "--scale=1073741824"

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
#define TRAIN(...) train((const char *const[]){__VA_ARGS__, NULL})
static t_result train(const char *const *more)
{
    t_command command = {.argv = {GPT, "--device=host:threads=2", "--steps=60", "--batch=8",
                                  "--time=16", "--width=32", "--layers=1", "--rate=0.004",
                                  "--dropout=0.1", "--sample=50", "--quiet"}};
    size_t count = 11;
    for (size_t i = 0; more[i]; i++)
        command.argv[count++] = more[i];
    command.argv[count] = PH_TEST_SOURCE_DIR "/docs";
    /* timeout ends with the process that it kills, not behind it: on a busy machine that one has
     * its lock for some milliseconds more. */
    t_result result = t_run(&command);
    for (int i = 0; i < 1000 && strstr(result.err, "is held by another process"); i++) {
        t_result_free(&result);
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        result = t_run(&command);
    }
    return result;
}

static const char *option(char out[LINE], const char *name, const char *path)
{
    (void)snprintf(out, LINE, "--%s=%s", name, path);
    return out;
}

/* A training that goes well, with a log in the folder: what that holds, freed with free. */
#define LOG_OF(name, written, ...) log_of(name, written, (const char *const[]){__VA_ARGS__, NULL})
static char *log_of(const char *name, char *written, const char *const *more)
{
    char text[LINE];
    const char *with_log[5] = {option(text, "log", t_path(name))};
    for (size_t i = 0; more[i]; i++)
        with_log[i + 1] = more[i];
    t_result result = train(with_log);
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
    char *eager = LOG_OF("eager.csv", written[0], "--eager");
    char *replayed = LOG_OF("replayed.csv", written[1], NULL);
    char *reported =
        LOG_OF("reported.csv", written[2], option(report, "report", t_path("report.html")));
    assert_memory_equal(eager, "step,epoch,loss,validation,rate,scale,skipped\n1,0,", 50);
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

/* Rates, scales and skipped steps of a log that has a row for each step. */
typedef struct scaling {
    double rates[STEPS], scales[STEPS];
    unsigned skipped[STEPS];
} scaling;

static scaling scaling_of(const char *log)
{
    scaling s = {0};
    int row = 0;
    for (const char *line = strchr(log, '\n') + 1; *line; line = strchr(line, '\n') + 1, row++) {
        const char *rate = line;
        for (int i = 0; i < 4; i++)
            rate = strchr(rate, ',') + 1;
        assert_in_range(row, 0, STEPS - 1);
        assert_int_equal(sscanf(rate, "%lf,%lf,%u", &s.rates[row], &s.scales[row], &s.skipped[row]),
                         3);
    }
    assert_int_equal(row, STEPS);
    return s;
}

/* Up over the first twentieth of the steps, then down to a tenth. */
TEST(test_the_learning_rate_follows_the_schedule)
{
    char written[LINE];
    char *log = LOG_OF("rates.csv", written, NULL);
    scaling s = scaling_of(log);
    for (int i = 0; i < STEPS; i++) {
        double turn = 3.14159265358979 * (i - 3) / 57;
        double want = i < 3 ? 0.001 * (i + 1) : 0.0004 + 0.0018 * (1 + cos(turn));
        assert_in_range((int64_t)(fabs(s.rates[i] - want) * 1e12), 0, 100);
        assert_true(s.scales[i] == 1);
        assert_int_equal(s.skipped[i], 0);
    }
    free(log);
}

/* A step is skipped and the scale halved, until gradients are finite: of eager steps, and of those
 * that are replayed. */
TEST(test_in_f16_the_device_skips_steps)
{
    char written[2][LINE];
    char *replayed = LOG_OF("f16.csv", written[0], "--f16", HIGH_SCALE);
    char *eager = LOG_OF("eager.csv", written[1], "--f16", HIGH_SCALE, "--eager");
    scaling s = scaling_of(replayed);
    for (int i = 0; i < STEPS; i++) {
        assert_in_range(s.skipped[i], i == 0 ? 1 : s.skipped[i - 1], i + 1);
        assert_true(s.scales[i] == ldexp(1073741824, -(int)s.skipped[i]));
    }
    assert_in_range(s.skipped[STEPS - 1], 4, 20); /* the fourth step is the first replay */
    assert_string_equal(eager, replayed);
    assert_string_equal(written[0], written[1]);
    free(eager);
    free(replayed);
}

/* ---- states ---- killed again and again, each time a little later, until it comes to its end. */
static t_result train_for(const char *seconds, const char *state, const char *const *more)
{
    char log[LINE], folder[LINE];
    t_command command = {
        .argv = {"/usr/bin/timeout", "--signal=KILL", seconds, GPT, "--device=host:threads=2",
                 "--steps=60", "--batch=8", "--time=16", "--width=32", "--layers=1", "--rate=0.004",
                 "--dropout=0.1", "--sample=50", "--quiet",
                 option(log, "log", t_path("killed.csv")), option(folder, "state", t_path(state))}};
    size_t count = 16;
    for (size_t i = 0; more[i]; i++)
        command.argv[count++] = more[i];
    command.argv[count] = PH_TEST_SOURCE_DIR "/docs";
    /* timeout ends with the process that it kills, not behind it: on a busy machine that one has
     * its lock for some milliseconds more. */
    t_result result = t_run(&command);
    for (int i = 0; i < 1000 && strstr(result.err, "is held by another process"); i++) {
        t_result_free(&result);
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        result = t_run(&command);
    }
    return result;
}

/* precision: the options of both. A run may be resumed in the midst of the skipped steps. */
static void kill_and_compare(const char *state, const char *const *precision)
{
    char written[LINE];
    const char *resume[] = {"--resume", precision[0], precision[0] ? precision[1] : NULL, NULL};
    char *want = log_of("whole.csv", written, precision);
    int kills = 0, resumed = 0, status = 137;
    for (int hundredths = 10; status == 137; hundredths += 5) {
        char seconds[16];
        (void)snprintf(seconds, sizeof seconds, "%d.%02d", hundredths / 100, hundredths % 100);
        t_result result = train_for(seconds, state, resume);
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
}

TEST(test_a_killed_training_that_goes_on_has_one_log)
{
    kill_and_compare("states", (const char *const[]){NULL});
    t_result result = train_for("20", "states", (const char *const[]){"--bf16", NULL});
    assert_int_equal(result.status, 1);
    assert_non_null(strstr(result.err, "--resume goes on with it"));
    t_result_free(&result);
}

/* Schedule and scaler go on where they were. */
TEST(test_a_killed_training_in_f16_that_goes_on_has_one_log)
{
    kill_and_compare("states_f16", (const char *const[]){"--f16", HIGH_SCALE, NULL});
}

/* A state has the scaler, or has it not. */
static void expect_refusal(const char *const *more, const char *part)
{
    t_result result = train_for("20", "states_f16", more);
    assert_int_equal(result.status, 1);
    if (!strstr(result.err, part))
        fail_msg("no '%s' in: %s", part, result.err);
    t_result_free(&result);
}

TEST(test_a_state_of_another_training_is_refused)
{
    char folder[LINE];
    t_result result = TRAIN(option(folder, "state", t_path("states")), "--resume", "--seed=2");
    assert_int_equal(result.status, 1);
    assert_non_null(strstr(result.err, "seed"));
    t_result_free(&result);
    expect_refusal((const char *const[]){"--resume", NULL}, "scaler");
    expect_refusal((const char *const[]){"--resume", "--f16", "--rate=0.002", NULL}, "rate");
    expect_refusal((const char *const[]){"--resume", "--f16", "--heads=2", NULL}, "heads");
    expect_refusal((const char *const[]){"--resume", "--f16", "--dropout=0.2", NULL}, "dropout");
    result = TRAIN(option(folder, "state", t_path("states")), "--resume", "--bf16");
    assert_int_equal(result.status, 1);
    assert_non_null(strstr(result.err, "bf16"));
    t_result_free(&result);
}

/* Twenty rows have a loss of the text that is held out, which falls. */
TEST(test_the_log_has_validation)
{
    char written[LINE];
    char *log = LOG_OF("log.csv", written, NULL);
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
    t_result result = TRAIN(option(report, "report", t_path("report.html")), "--f16", HIGH_SCALE);
    assert_int_equal(result.status, 0);
    t_result_free(&result);
    char *page = t_read_file(t_path("report.html"), NULL);
    const char *parts[] = {
        "<!doctype html>",     "Behind 12 steps", "Behind 60 steps",   "held out",
        "</html>\n",           "id=\"losses\"",   "The captured step", "id=\"times\"",
        "id=\"rates\"",        "id=\"scales\"",   "steps skipped",     "graph-title",
        "The nodes as a table"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!strstr(page, parts[i]))
            fail_msg("the report has no '%s'", parts[i]);
    assert_null(strstr(page, "nan"));
    free(page);
}

/* Also where a fifth of the steps is no multiple of those between two looks. */
TEST(the_report_has_all_samples_for_any_number_of_steps)
{
    char report[LINE];
    t_result result = TRAIN(option(report, "report", t_path("samples.html")), "--steps=213");
    assert_int_equal(result.status, 0);
    t_result_free(&result);
    char *page = t_read_file(t_path("samples.html"), NULL);
    size_t samples = 0;
    for (const char *at = page; (at = strstr(at, "<h3>Behind ")); at++)
        samples++;
    assert_int_equal(samples, 5);
    free(page);
}

TEST(test_files_that_cannot_be_written)
{
    t_result result = TRAIN("--log=/dev/full");
    assert_int_equal(result.status, 1);
    assert_non_null(strstr(result.err, "/dev/full: cannot be written"));
    t_result_free(&result);
    char report[LINE];
    result = TRAIN(option(report, "report", t_path("there/is/none")));
    assert_int_equal(result.status, 1);
    assert_non_null(strstr(result.err, "there/is/none"));
    t_result_free(&result);
}

TEST(test_options_that_do_not_go_together)
{
    static const struct {
        const char *first, *second, *part;
    } cases[] = {{"--eager", "--report=page.html", "--report"},
                 {"--resume", NULL, "--state"},
                 {"--f16", "--bf16", "not both"},
                 {HIGH_SCALE, "--bf16", "--f16"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        t_result result = TRAIN(cases[i].first, cases[i].second);
        assert_int_equal(result.status, 2);
        assert_non_null(strstr(result.err, cases[i].part));
        t_result_free(&result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_log_is_that_of_the_training_alone),
        cmocka_unit_test(test_the_learning_rate_follows_the_schedule),
        cmocka_unit_test(test_in_f16_the_device_skips_steps),
        cmocka_unit_test(test_a_killed_training_that_goes_on_has_one_log),
        cmocka_unit_test(test_a_killed_training_in_f16_that_goes_on_has_one_log),
        cmocka_unit_test(test_a_state_of_another_training_is_refused),
        cmocka_unit_test(test_the_log_has_validation),
        cmocka_unit_test(test_the_report_is_a_whole_page),
        cmocka_unit_test(the_report_has_all_samples_for_any_number_of_steps),
        cmocka_unit_test(test_files_that_cannot_be_written),
        cmocka_unit_test(test_options_that_do_not_go_together),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
