/* SPDX-License-Identifier: MIT */
/* tests/nn/training.c: states of trainings: one that goes on from its state has the bits of one
 * that was not stopped; damaged states are passed over, and said; what does not fit changes
 * nothing. */
#include "support/test.h"
#include "support/trainings.h"
#include <pthread.h>

static t_folder outer;
static char folder[128];

FIXTURE(make_folder)
{
    t_memory_folder_open(&outer);
    (void)snprintf(folder, sizeof folder, "%s/run", outer.path);
    return 0;
}

FIXTURE(drop_folder)
{
    t_remove_all(outer.path);
    return 0;
}

static const char *file_of(uint64_t number, const char *name)
{
    static char path[256];
    (void)snprintf(path, sizeof path, "%s/%06llu/%s", folder, (unsigned long long)number, name);
    return path;
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* ---- going on ---- */
enum {
    STEPS = 9,
    STOP = 4
};

TEST(a_training_goes_on_to_the_bit)
{
    for (int captured = 0; captured < 2; captured++) {
        t_trained whole, first, second;
        uint64_t saved, loaded;
        t_trained_open(&whole, 7);
        for (int i = 0; i < STEPS; i++)
            t_trained_step(&whole, captured);
        t_print want = t_trained_print(&whole);
        t_trained_close(&whole);

        t_trained_open(&first, 7);
        t_trained_attach(&first, folder, NULL);
        for (int i = 0; i < STOP; i++)
            t_trained_step(&first, captured);
        assert_ok(ph_training_save(first.training, &saved));
        t_print stopped = t_trained_print(&first);
        t_trained_close(&first);

        t_trained_open(&second, 99);
        t_trained_attach(&second, folder, NULL);
        assert_ok(ph_training_load(second.training, 0, &loaded));
        assert_int_equal(loaded, saved);
        assert_string_equal(ph_training_passed_over(second.training), "");
        t_expect_print(&second, stopped, "loaded");
        for (int i = STOP; i < STEPS; i++)
            t_trained_step(&second, captured);
        t_expect_print(&second, want, captured ? "captured" : "eager");
        t_trained_close(&second);
    }
}

/* A graph that was captured before finds what was loaded. */
TEST(graphs_see_what_was_loaded)
{
    t_trained t;
    t_trained_open(&t, 7);
    t_trained_attach(&t, folder, NULL);
    for (int i = 0; i < 3; i++)
        t_trained_step(&t, true);
    assert_ok(ph_training_save(t.training, NULL));
    for (int i = 0; i < 3; i++)
        t_trained_step(&t, true);
    t_print want = t_trained_print(&t);
    assert_ok(ph_training_load(t.training, 0, NULL));
    assert_int_equal(t.step, 3);
    for (int i = 0; i < 3; i++)
        t_trained_step(&t, true);
    t_expect_print(&t, want, "replays behind a load");
    t_trained_close(&t);
}

/* A rate that the caller has set is kept, whatever the schedule says. */
TEST(the_rate_is_that_of_the_save)
{
    t_trained t;
    t_trained_open(&t, 7);
    t_trained_attach(&t, folder, NULL);
    assert_ok(ph_optimizer_set_lr(t.optimizer, 0.4375));
    assert_ok(ph_training_save(t.training, NULL));
    t_trained_step(&t, false);
    assert_true(ph_optimizer_lr(t.optimizer) != 0.4375);
    assert_ok(ph_training_load(t.training, 0, NULL));
    assert_true(ph_optimizer_lr(t.optimizer) == 0.4375);
    t_trained_close(&t);
}

/* ---- numbers ---- */
TEST(the_newest_ones_are_kept)
{
    t_trained t;
    uint64_t number;
    char latest[16] = "";
    t_trained_open(&t, 7);
    t_trained_attach(&t, folder, &(ph_training_options){.keep = 2});
    for (uint64_t i = 1; i <= 5; i++) {
        t.step = (int64_t)i * 100;
        assert_ok(ph_training_save(t.training, &number));
        assert_int_equal(number, i);
    }
    for (uint64_t i = 1; i <= 5; i++)
        assert_int_equal(is_there(file_of(i, "state.json")), i > 3);
    (void)snprintf(outer.name, sizeof outer.name, "%s/latest", folder);
    FILE *file = fopen(outer.name, "r");
    assert_non_null(file);
    assert_non_null(fgets(latest, sizeof latest, file));
    assert_int_equal(fclose(file), 0);
    assert_string_equal(latest, "000005\n");
    /* one of them by its number */
    assert_ok(ph_training_load(t.training, 4, &number));
    assert_int_equal(number, 4);
    assert_int_equal(t.step, 400);
    assert_error(ph_training_load(t.training, 3, NULL), PH_ERROR_NOT_FOUND, "000003");
    assert_int_equal(t.step, 400);
    t_trained_close(&t);

    /* PH_ZERO keeps all */
    t_trained_open(&t, 7);
    t_trained_attach(&t, folder, &(ph_training_options){.keep = PH_ZERO});
    for (int i = 0; i < 4; i++)
        assert_ok(ph_training_save(t.training, &number));
    assert_int_equal(number, 9);
    for (uint64_t i = 4; i <= 9; i++)
        assert_true(is_there(file_of(i, "net.safetensors")));
    t_trained_close(&t);
}

/* ---- damage ---- */
static void cut(const char *path, long bytes)
{
    assert_int_equal(truncate(path, bytes), 0);
}

/* Three states, of steps 1 to 3. */
static void save_three(t_trained *t)
{
    t_trained_open(t, 7);
    t_trained_attach(t, folder, NULL);
    for (int i = 0; i < 3; i++) {
        t_trained_step(t, false);
        assert_ok(ph_training_save(t->training, NULL));
    }
}

static void expect_passed_over(t_trained *t, int64_t step, const char *words)
{
    uint64_t loaded;
    t_log_start();
    assert_ok(ph_training_load(t->training, 0, &loaded));
    assert_int_equal(loaded, step);
    assert_int_equal(t->step, step);
    if (!strstr(ph_training_passed_over(t->training), words))
        fail_msg("'%s' is not in '%s'", words, ph_training_passed_over(t->training));
    assert_true(t_log_count("ph_training_load: passed over: ") > 0);
    t_log_stop();
}

TEST(damaged_states_are_passed_over_and_said)
{
    t_trained t;
    save_three(&t);
    cut(file_of(3, "net.safetensors"), 40);
    expect_passed_over(&t, 2, "000003/net.safetensors has 40 bytes, and had ");
    assert_int_equal(unlink(file_of(3, "net.safetensors")), 0);
    expect_passed_over(&t, 2, "000003/net.safetensors: No such file");
    cut(file_of(2, "state.json"), 100);
    expect_passed_over(&t, 1, "000002/state.json is wrong at its byte 100");
    assert_non_null(strstr(ph_training_passed_over(t.training), "000003/net"));
    assert_int_equal(unlink(file_of(2, "state.json")), 0);
    expect_passed_over(&t, 1, "000002/state.json: open failed: No such file");

    /* No whole one: an error, and never a start from nothing without a word. */
    assert_int_equal(unlink(file_of(1, "adamw.safetensors")), 0);
    t_print before = t_trained_print(&t);
    assert_error(ph_training_load(t.training, 0, NULL), PH_ERROR_IO,
                 "none of 3 saved states is whole; the newest: ph_training_load: cannot read");
    assert_non_null(strstr(ph_training_passed_over(t.training), "000001/adamw.safetensors"));
    t_expect_print(&t, before, "no state is whole");

    /* The next one has a new number, and damaged ones do not count for those that are kept. */
    uint64_t number;
    assert_ok(ph_training_save(t.training, &number));
    assert_int_equal(number, 4);
    assert_true(is_there(file_of(1, "state.json")));
    assert_ok(ph_training_save(t.training, NULL));
    assert_ok(ph_training_save(t.training, NULL));
    assert_false(is_there(file_of(1, "state.json")));
    assert_false(is_there(file_of(3, "state.json")));
    t_trained_close(&t);
}

/* The sizes are right, and the contents are not. */
TEST(contents_that_are_wrong_are_passed_over)
{
    t_trained t;
    save_three(&t);
    FILE *file = fopen(file_of(3, "adamw.safetensors"), "r+b");
    assert_non_null(file);
    assert_int_equal(fputc('?', file), '?');
    assert_int_equal(fclose(file), 0);
    expect_passed_over(&t, 2, "000003/adamw.safetensors");
    t_trained_close(&t);
}

TEST(a_newest_state_that_is_gone_is_said)
{
    t_trained t;
    save_three(&t);
    (void)snprintf(outer.name, sizeof outer.name, "%s/000003", folder);
    t_remove_all(outer.name);
    expect_passed_over(&t, 2, "'latest' names 000003, and there is no such state");
    uint64_t number;
    assert_ok(ph_training_save(t.training, &number));
    assert_int_equal(number, 4);
    for (int i = 1; i < 5; i++) {
        (void)snprintf(outer.name, sizeof outer.name, "%s/%06d", folder, i);
        t_remove_all(outer.name);
    }
    assert_error(ph_training_load(t.training, 0, NULL), PH_ERROR_IO,
                 "there was one: 'latest' names 000004");
    t_trained_close(&t);
}

TEST(a_pointer_that_is_no_file_is_said)
{
    t_trained t;
    save_three(&t);
    (void)snprintf(outer.name, sizeof outer.name, "%s/latest", folder);
    assert_int_equal(unlink(outer.name), 0);
    assert_int_equal(mkdir(outer.name, 0777), 0);
    expect_passed_over(&t, 3, "latest: it is no regular file");
    assert_error(ph_training_save(t.training, NULL), PH_ERROR_IO, "/latest");
    assert_false(is_there(file_of(4, "state.json")));
    assert_int_equal(rmdir(outer.name), 0);
    assert_ok(ph_training_save(t.training, NULL));
    t_trained_close(&t);
}

TEST(a_list_with_a_part_twice_is_damaged)
{
    static const char list[] =
        "{\"format\":\"phonograph training\",\"version\":1,\"number\":1,\"parts\":["
        "{\"name\":\"step\",\"kind\":\"integer\",\"values\":{\"value\":1}},"
        "{\"name\":\"step\",\"kind\":\"integer\",\"values\":{\"value\":2}}]}";
    ph_training *training;
    int64_t step = 7;
    assert_ok(ph_training_create(&training, folder, NULL));
    assert_ok(ph_training_add_integer(training, "step", &step));
    assert_ok(ph_training_save(training, NULL));
    FILE *file = fopen(file_of(1, "state.json"), "w");
    assert_non_null(file);
    assert_true(fputs(list, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_error(ph_training_load(training, 1, NULL), PH_ERROR_ARGUMENT,
                 "a part whose name is there twice");
    assert_int_equal(step, 7);
    ph_training_destroy(training);
}

/* ---- what does not fit ---- */
TEST(other_parts_are_listed_and_nothing_changes)
{
    t_trained t, other;
    double best = 0.5;
    save_three(&t);
    t_trained_close(&t);
    t_trained_open(&other, 1);
    assert_ok(ph_training_create(&other.training, folder, NULL));
    assert_ok(ph_training_add_module(other.training, "model", other.net));
    assert_ok(ph_training_add_optimizer(other.training, "adamw", other.optimizer));
    assert_ok(ph_training_add_real(other.training, "step", &best));
    t_print before = t_trained_print(&other);
    assert_error(ph_training_load(other.training, 0, NULL), PH_ERROR_MISMATCH,
                 "does not fit, and nothing was loaded: part 'model' is missing, part 'step' is of "
                 "kind integer and must be of kind real, part 'net' is unexpected, part 'plan' is "
                 "unexpected");
    t_expect_print(&other, before, "other parts");
    assert_true(best == 0.5);
    t_trained_close(&other);
}

/* The optimizer's file is looked at behind the module's, which fits. */
TEST(other_tensors_are_listed_and_nothing_changes)
{
    t_trained t, other;
    save_three(&t);
    t_trained_close(&t);
    t_trained_open(&other, 1);
    ph_lr_schedule_destroy(other.schedule);
    ph_optimizer_destroy(other.optimizer);
    assert_ok(ph_sgd_create(&other.optimizer, other.net, &(ph_sgd_options){.lr = 1}));
    assert_ok(ph_lr_schedule_create(&other.schedule, other.optimizer,
                                    &(ph_lr_piece){.kind = PH_LR_STEP, .steps = 3}, 1));
    t_trained_attach(&other, folder, NULL);
    t_print before = t_trained_print(&other);
    assert_error(ph_training_load(other.training, 0, NULL), PH_ERROR_MISMATCH,
                 "adamw.safetensors does not fit, and nothing was loaded: 0.bias.exp_avg is "
                 "unexpected");
    t_expect_print(&other, before, "another optimizer");
    t_trained_close(&other);
}

/* ---- parts of the caller's ---- */
typedef struct counter {
    int64_t value;
    char text[32];
    int saves, checks, loads;
    bool refuse, fail, leave, lacks;
} counter;

static ph_status save_counter(ph_values *values, void *self)
{
    counter *c = self;
    c->saves++;
    if (c->leave)
        pthread_exit(NULL);
    if (c->fail)
        return ph_fail(PH_ERROR_CALLER, "the counter is elsewhere");
    PH_TRY(ph_values_set_integer(values, "value", c->value));
    return ph_values_set_text(values, "text", c->text);
}

static ph_status check_counter(const ph_values *values, void *self)
{
    counter *c = self;
    int64_t value;
    const char *text;
    c->checks++;
    if (c->leave)
        pthread_exit(NULL);
    if (c->refuse)
        return ph_fail(PH_ERROR_CALLER, "not this one");
    PH_TRY(ph_values_get_integer(&value, values, "value"));
    return ph_values_get_text(&text, values, "text");
}

static ph_status load_counter(const ph_values *values, void *self)
{
    counter *c = self;
    const char *text;
    c->loads++;
    if (c->lacks)
        return ph_values_get_integer(&c->value, values, "another");
    PH_TRY(ph_values_get_integer(&c->value, values, "value"));
    PH_TRY(ph_values_get_text(&text, values, "text"));
    (void)snprintf(c->text, sizeof c->text, "%s", text);
    return PH_OK;
}

static const ph_training_part counter_part = {save_counter, check_counter, load_counter};

TEST(parts_of_the_callers_are_checked_before_anything_changes)
{
    t_trained t;
    counter c = {.value = INT64_MIN, .text = "caf\xc3\xa9 \"\n"};
    uint64_t number;
    t_trained_open(&t, 7);
    t_trained_attach(&t, folder, NULL);
    assert_ok(ph_training_add(t.training, "counter", &counter_part, &c));
    assert_ok(ph_training_save(t.training, &number));
    t_trained_step(&t, false);
    c.value = 1;
    (void)snprintf(c.text, sizeof c.text, "other");
    t_print before = t_trained_print(&t);
    c.refuse = true;
    assert_error(ph_training_load(t.training, 0, NULL), PH_ERROR_CALLER, "part 'counter' of ");
    assert_int_equal(c.loads, 0);
    t_expect_print(&t, before, "refused by the caller");
    c.refuse = false;
    c.lacks = true; /* its check has not asked for that */
    assert_error(ph_training_load(t.training, 0, NULL), PH_ERROR_MISMATCH, "'another'");
    c.lacks = false;
    assert_ok(ph_training_load(t.training, 0, NULL));
    assert_true(c.value == INT64_MIN);
    assert_string_equal(c.text, "caf\xc3\xa9 \"\n");
    assert_int_equal(c.saves, 1);
    assert_int_equal(c.checks, 3);
    assert_int_equal(c.loads, 2);
    /* A save that it fails leaves no trace. */
    c.fail = true;
    assert_error(ph_training_save(t.training, &number), PH_ERROR_CALLER,
                 "ph_training_save: part 'counter': the counter is elsewhere");
    assert_int_equal(number, 1);
    assert_false(is_there(file_of(2, "state.json")));
    (void)snprintf(outer.name, sizeof outer.name, "%s/.saving", folder);
    assert_false(is_there(outer.name));
    t_trained_close(&t);
}

static void *save_on_a_thread(void *training)
{
    ph_ignore(ph_training_save(training, NULL));
    return training; /* not reached */
}

static void *load_on_a_thread(void *training)
{
    ph_ignore(ph_training_load(training, 0, NULL));
    return training; /* not reached */
}

enum {
    ROUNDS = 60,
    KEPT = 20
};

TEST(functions_whose_thread_ends_leave_nothing)
{
    t_trained t;
    counter c = {.value = 3};
    t_trained_open(&t, 7);
    t_trained_attach(&t, folder, NULL);
    assert_ok(ph_training_add(t.training, "counter", &counter_part, &c));
    assert_ok(ph_training_save(t.training, NULL));
    assert_ok(ph_training_load(t.training, 0, NULL)); /* what is made once is there */
    t_trained_step(&t, false);
    t_print before = t_trained_print(&t);
    int64_t live = 0;
    c.leave = true;
    for (int i = 0; i < ROUNDS; i++) {
        bool load = i % 2;
        pthread_t thread;
        void *result;
        assert_int_equal(
            pthread_create(&thread, NULL, load ? load_on_a_thread : save_on_a_thread, t.training),
            0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_null(result);
        t_expect_print(&t, before, "a function that did not return");
        t_trained_rest(&t);
        if (i == 1)
            live = ph__alloc_live();
    }
    /* one that each round left behind would be more than a stream keeps of its commands */
    assert_in_range(ph__alloc_live(), 0, live + KEPT);
    (void)snprintf(outer.name, sizeof outer.name, "%s/.saving", folder);
    assert_false(is_there(outer.name));
    c.leave = false;
    assert_ok(ph_training_save(t.training, NULL));
    assert_ok(ph_training_load(t.training, 0, NULL));
    t_expect_print(&t, before, "saved and loaded");
    t_trained_close(&t);
}

/* ---- misuse ---- */
static ph_status save_and_load(ph_stream *stream, void *user)
{
    t_trained *t = user;
    (void)stream;
    assert_error(ph_training_save(t->training, NULL), PH_ERROR_CAPTURE,
                 "ph_training_save: part 'net': ph_module_save: waits for the device");
    assert_native(900);
    assert_error(ph_training_load(t->training, 0, NULL), PH_ERROR_CAPTURE,
                 "ph_training_load: waits for the device");
    assert_native(900);
    return PH_OK;
}

TEST(captures_refuse_both)
{
    t_trained t;
    ph_graph *graph;
    save_three(&t);
    t_print before = t_trained_print(&t);
    t_log_start();
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, t.s.stream, NULL, save_and_load, &t));
    ph_graph_destroy(graph);
    t_log_stop();
    t_expect_print(&t, before, "in a capture");
    assert_false(is_there(file_of(4, "state.json")));
    assert_ok(ph_training_load(t.training, 0, NULL));
    t_trained_close(&t);
}

/* A loader of other data, and a scaler of a state without numbers. */
TEST(loaders_and_scalers_that_are_others)
{
    ph_training *training;
    t_trained t, other;
    save_three(&t);
    ph_data_loader_destroy(t.loader);
    ph_batch_field field = {.dtype = PH_DTYPE_F32, .shape = PH_SHAPE(3)};
    ph_data_loader_options options = {.count = 12,
                                      .batch_size = 4,
                                      .fields = &field,
                                      .field_count = 1,
                                      .fetch = t_trained_fetch,
                                      .threads = 1,
                                      .shuffle = true,
                                      .drop_last = true};
    assert_ok(ph_data_loader_create(&t.loader, t.s.device, &options));
    ph_training_destroy(t.training);
    t_trained_attach(&t, folder, NULL);
    t_print before = t_trained_print(&t);
    assert_error(ph_training_load(t.training, 0, NULL), PH_ERROR_MISMATCH, "part 'data' of ");
    assert_error(ph_training_load(t.training, 0, NULL), PH_ERROR_MISMATCH,
                 "is of a loader with count 11, and this one has 12");
    t_expect_print(&t, before, "another data set");
    t_trained_close(&t);

    t_remove_all(folder);
    ph_grad_scaler *disabled;
    t_trained_open(&other, 7);
    assert_ok(ph_grad_scaler_create(&disabled, other.s.device,
                                    &(ph_grad_scaler_options){.disabled = true}));
    assert_ok(ph_training_create(&training, folder, NULL));
    assert_ok(ph_training_add_grad_scaler(training, "scaler", disabled));
    assert_ok(ph_training_save(training, NULL));
    assert_ok(ph_training_load(training, 0, NULL));
    ph_training_destroy(training);
    assert_ok(ph_training_create(&training, folder, NULL));
    assert_ok(ph_training_add_grad_scaler(training, "scaler", other.scaler));
    before = t_trained_print(&other);
    /* not NOT_FOUND: a first run */
    assert_error(ph_training_load(training, 0, NULL), PH_ERROR_MISMATCH, "part 'scaler' of ");
    t_expect_print(&other, before, "no numbers");
    assert_ok(ph_training_save(training, NULL));
    ph_training_destroy(training);
    assert_ok(ph_training_create(&training, folder, NULL));
    assert_ok(ph_training_add_grad_scaler(training, "scaler", disabled));
    assert_ok(ph_training_load(training, 0, NULL)); /* takes any */
    assert_error(ph_training_add_grad_scaler(training, "b", NULL), PH_ERROR_ARGUMENT, "scaler");
    assert_error(ph_training_add_data_loader(training, "b", NULL), PH_ERROR_ARGUMENT, "loader");
    ph_training_destroy(training);
    ph_grad_scaler_destroy(disabled);
    t_trained_close(&other);
}

TEST(misuse_of_parts)
{
    static const char *const wrong[] = {"", ".", ".hidden", "a/b", "a b", "\xc3\xa4"};
    t_trained t;
    ph_training *training;
    int64_t value = 0;
    t_trained_open(&t, 7);
    assert_ok(ph_training_create(&training, folder, NULL));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_error(ph_training_add_integer(training, wrong[i], &value), PH_ERROR_ARGUMENT,
                     "is no name of a part");
    assert_error(ph_training_save(training, NULL), PH_ERROR_STATE, "has no parts");
    assert_error(ph_training_load(training, 0, NULL), PH_ERROR_STATE, "has no parts");
    assert_ok(ph_training_add_integer(training, "a", &value));
    assert_error(ph_training_add_module(training, "a", t.net), PH_ERROR_ARGUMENT, "'a' already");
    assert_error(ph_training_add_integer(NULL, "b", &value), PH_ERROR_ARGUMENT, "training");
    assert_error(ph_training_add_integer(training, NULL, &value), PH_ERROR_ARGUMENT, "name");
    assert_error(ph_training_add_integer(training, "b", NULL), PH_ERROR_ARGUMENT, "value");
    assert_error(ph_training_add_real(training, "b", NULL), PH_ERROR_ARGUMENT, "value");
    assert_error(ph_training_add_module(training, "b", NULL), PH_ERROR_ARGUMENT, "module");
    assert_error(ph_training_add_optimizer(training, "b", NULL), PH_ERROR_ARGUMENT, "optimizer");
    assert_error(ph_training_add_generator(training, "b", NULL), PH_ERROR_ARGUMENT, "generator");
    assert_error(ph_training_add_lr_schedule(training, "b", NULL), PH_ERROR_ARGUMENT, "schedule");
    assert_error(ph_training_add(training, "b", NULL, NULL), PH_ERROR_ARGUMENT, "part");
    assert_error(
        ph_training_add(training, "b", &(ph_training_part){save_counter, NULL, NULL}, NULL),
        PH_ERROR_ARGUMENT, "part 'b' has no check function");
    assert_error(ph_training_save(NULL, NULL), PH_ERROR_ARGUMENT, "training");
    assert_error(ph_training_load(NULL, 0, NULL), PH_ERROR_ARGUMENT, "training");
    assert_error(ph_training_load(training, 0, NULL), PH_ERROR_NOT_FOUND, "no saved state in");
    assert_string_equal(ph_training_passed_over(NULL), "");
    ph_training_destroy(NULL);
    ph_training_destroy(training);
    assert_error(ph_training_create(NULL, folder, NULL), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_training_create(&training, NULL, NULL), PH_ERROR_ARGUMENT, "folder");
    assert_error(ph_training_create(&training, "", NULL), PH_ERROR_ARGUMENT, "empty");
    assert_error(ph_training_create(&training, folder, &(ph_training_options){.reserved = {1}}),
                 PH_ERROR_ARGUMENT, "reserved");
    assert_null(training);
    t_trained_close(&t);
}

#define IN_FOLDER(name) cmocka_unit_test_setup_teardown(name, make_folder, drop_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_training_goes_on_to_the_bit),
        IN_FOLDER(graphs_see_what_was_loaded),
        IN_FOLDER(the_rate_is_that_of_the_save),
        IN_FOLDER(the_newest_ones_are_kept),
        IN_FOLDER(damaged_states_are_passed_over_and_said),
        IN_FOLDER(contents_that_are_wrong_are_passed_over),
        IN_FOLDER(a_newest_state_that_is_gone_is_said),
        IN_FOLDER(a_pointer_that_is_no_file_is_said),
        IN_FOLDER(a_list_with_a_part_twice_is_damaged),
        IN_FOLDER(other_parts_are_listed_and_nothing_changes),
        IN_FOLDER(other_tensors_are_listed_and_nothing_changes),
        IN_FOLDER(parts_of_the_callers_are_checked_before_anything_changes),
        IN_FOLDER(functions_whose_thread_ends_leave_nothing),
        IN_FOLDER(captures_refuse_both),
        IN_FOLDER(loaders_and_scalers_that_are_others),
        IN_FOLDER(misuse_of_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
