/* SPDX-License-Identifier: MIT */
/* tests/inspect/profile_misuse.c: calls on profiles and verdicts that are refused, and graphs
 * that go while they are looked at. */
#include "profiled.h"
#include "support/test.h"

static profiled p;

FIXTURE(open_it)
{
    profiled_open(&p);
    return 0;
}

FIXTURE(close_it)
{
    profiled_close(&p);
    return 0;
}

static ph_status body(ph_stream *stream, void *user)
{
    return profiled_spin(user, stream, 0, 0);
}

static ph_status failing(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    return ph_fail(PH_ERROR_CALLER, "its own words");
}

static ph_profile *some_profile(void)
{
    ph_profile *profile;
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, body, &p));
    assert_ok(ph_graph_profile(&profile, p.graph, p.a, NULL));
    return profile;
}

/* ---- arguments ---- */

TEST(null_arguments_to_profiles_are_refused_by_name)
{
    ph_profile *profile = some_profile(), *none;
    ph_profile_summary summary;
    ph_profile_node node;
    ph_profile_scope scope;
    ph_profile_gap gap;
    ph_verdict verdict;
    const size_t *nodes;
    size_t count;
    char *text;
    assert_error(ph_graph_profile(NULL, p.graph, p.a, NULL), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_graph_profile(&none, NULL, p.a, NULL), PH_ERROR_ARGUMENT, "graph");
    assert_null(none);
    assert_error(ph_graph_profile(&none, p.graph, NULL, NULL), PH_ERROR_ARGUMENT, "stream");
    assert_error(ph_profile_get(NULL, profile), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_profile_get(&summary, NULL), PH_ERROR_ARGUMENT, "profile");
    assert_error(ph_profile_node_at(NULL, profile, 0), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_profile_node_at(&node, NULL, 0), PH_ERROR_ARGUMENT, "profile");
    assert_error(ph_profile_node_at(&node, profile, 1), PH_ERROR_NOT_FOUND, "node 1");
    assert_error(ph_profile_critical_path(NULL, &count, profile), PH_ERROR_ARGUMENT, "nodes");
    assert_error(ph_profile_critical_path(&nodes, NULL, profile), PH_ERROR_ARGUMENT, "count");
    assert_error(ph_profile_critical_path(&nodes, &count, NULL), PH_ERROR_ARGUMENT, "profile");
    assert_int_equal(ph_profile_scope_count(NULL) + ph_profile_gap_count(NULL), 0);
    assert_error(ph_profile_scope_at(NULL, profile, 0), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_profile_scope_at(&scope, NULL, 0), PH_ERROR_ARGUMENT, "profile");
    assert_error(ph_profile_scope_at(&scope, profile, 1), PH_ERROR_NOT_FOUND, "scope 1");
    assert_error(ph_profile_gap_at(NULL, profile, 0), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_profile_gap_at(&gap, NULL, 0), PH_ERROR_ARGUMENT, "profile");
    assert_error(ph_profile_gap_at(&gap, profile, 0), PH_ERROR_NOT_FOUND, "idle time 0");
    assert_error(ph_profile_trace(NULL, profile), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_profile_trace(&text, NULL), PH_ERROR_ARGUMENT, "profile");
    assert_error(ph_profile_dump_trace(NULL, "x"), PH_ERROR_ARGUMENT, "profile");
    assert_error(ph_profile_dump_trace(profile, NULL), PH_ERROR_ARGUMENT, "path");
    assert_error(ph_profile_dump_record(NULL, p.graph, "x"), PH_ERROR_ARGUMENT, "profile");
    assert_error(ph_profile_dump_record(profile, NULL, "x"), PH_ERROR_ARGUMENT, "graph");
    assert_error(ph_profile_dump_record(profile, p.graph, NULL), PH_ERROR_ARGUMENT, "path");
    assert_error(ph_graph_verdict(NULL, p.graph, p.a, body, &p, NULL), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_graph_verdict(&verdict, NULL, p.a, body, &p, NULL), PH_ERROR_ARGUMENT, "graph");
    assert_error(ph_graph_verdict(&verdict, p.graph, NULL, body, &p, NULL), PH_ERROR_ARGUMENT,
                 "stream");
    assert_error(ph_graph_verdict(&verdict, p.graph, p.a, NULL, &p, NULL), PH_ERROR_ARGUMENT,
                 "body");
    ph_profile_destroy(NULL);
    ph_profile_destroy(profile);
}

TEST(options_of_profiles_out_of_range_are_refused)
{
    ph_profile *profile;
    ph_verdict verdict;
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, body, &p));
    const ph_profile_options reserved = {.reserved = {0, 0, 0, 1}},
                             wrong = {.source = (ph_profile_source)4};
    const ph_verdict_options words = {.reserved = {1}};
    assert_error(ph_graph_profile(&profile, p.graph, p.a, &reserved), PH_ERROR_ARGUMENT,
                 "ph_profile_options");
    assert_error(ph_graph_profile(&profile, p.graph, p.a, &wrong), PH_ERROR_ARGUMENT, "source 4");
    assert_error(ph_graph_verdict(&verdict, p.graph, p.a, body, &p, &words), PH_ERROR_ARGUMENT,
                 "ph_verdict_options");
    const ph_profile_options many = {.replays = 4000000000U};
    assert_error(ph_graph_profile(&profile, p.graph, p.a, &many), PH_ERROR_ARGUMENT,
                 "4000000000 replays of 1 node need 178.8 GiB of memory for their times; ask for "
                 "fewer (22369621 "
                 "at most)");
    assert_null(profile);
}

/* Each device says what it has. */
TEST(sources_of_other_devices)
{
    ph_profile *profile;
    const ph_profile_options cupti = {.source = PH_PROFILE_CUPTI},
                             events = {.source = PH_PROFILE_EVENTS},
                             device = {.source = PH_PROFILE_DEVICE};
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, body, &p));
    if (!t_on_host()) {
        assert_error(ph_graph_profile(&profile, p.graph, p.a, &device), PH_ERROR_UNSUPPORTED,
                     "PH_PROFILE_DEVICE is of the host device");
        return;
    }
    assert_error(ph_graph_profile(&profile, p.graph, p.a, &cupti), PH_ERROR_UNSUPPORTED,
                 "the host device has only PH_PROFILE_DEVICE (or AUTO), not PH_PROFILE_CUPTI");
    assert_error(ph_graph_profile(&profile, p.graph, p.a, &events), PH_ERROR_UNSUPPORTED,
                 "not PH_PROFILE_EVENTS");
}

static ph_status leaving(ph_stream *stream, void *user)
{
    PH_TRY(ph_annotation_push(stream, "left", NULL));
    return body(stream, user);
}

static ph_status leaving_and_failing(ph_stream *stream, void *user)
{
    PH_TRY(ph_annotation_push(stream, "left", NULL));
    return failing(stream, user);
}

/* Scopes that body leaves open do not pile up. */
TEST(scopes_that_are_left_open)
{
    ph_verdict verdict;
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, body, &p));
    assert_ok(ph_annotation_push(p.a, "outside", NULL));
    assert_ok(ph_graph_verdict(&verdict, p.graph, p.a, leaving, &p, NULL));
    assert_int_equal(ph_annotation_depth(), 1);
    assert_error(ph_graph_verdict(&verdict, p.graph, p.a, leaving_and_failing, &p, NULL),
                 PH_ERROR_CALLER, "its own words");
    assert_int_equal(ph_annotation_depth(), 1);
    assert_ok(ph_annotation_pop(p.a));
}

/* ---- states ---- */

static void assert_refused(ph_status status, const char *words)
{
    ph_profile *profile;
    ph_verdict verdict;
    assert_error(ph_graph_profile(&profile, p.graph, p.a, NULL), status, words);
    assert_null(profile);
    assert_error(ph_graph_verdict(&verdict, p.graph, p.a, body, &p, NULL), status, words);
    assert_int_equal(verdict.eager_ns, 0);
}

TEST(graphs_without_a_capture)
{
    assert_refused(PH_ERROR_STATE, "without a preceding successful capture");
    assert_ok(ph_graph_capture_begin(p.graph, p.a, NULL));
    assert_refused(PH_ERROR_STATE, "the capture is still open");
    ph_graph_capture_abort(p.graph);
    assert_status(ph_graph_capture(p.graph, p.a, NULL, failing, NULL), PH_ERROR_CALLER);
    assert_refused(PH_ERROR_CALLER, "its own words");
}

/* The capture goes on. */
TEST(a_capturing_stream)
{
    ph_graph *outer;
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, body, &p));
    assert_ok(ph_graph_create(&outer, NULL));
    assert_ok(ph_graph_capture_begin(outer, p.a, NULL));
    assert_refused(PH_ERROR_CAPTURE, "capturing");
    assert_ok(body(p.a, &p));
    assert_ok(ph_graph_capture_end(outer, PH_OK));
    assert_ok(ph_graph_replay(outer, p.a));
    ph_graph_destroy(outer);
}

TEST(a_stream_of_another_device_is_refused)
{
    ph_device *device;
    ph_stream *stream;
    ph_profile *profile;
    ph_verdict verdict;
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, body, &p));
    assert_ok(ph_device_open(&device, "host:threads=1", NULL));
    assert_ok(ph_stream_create(&stream, device, NULL));
    assert_error(ph_graph_profile(&profile, p.graph, stream, NULL), PH_ERROR_WRONG_DEVICE,
                 "ph_graph_profile");
    assert_error(ph_graph_verdict(&verdict, p.graph, stream, body, &p, NULL), PH_ERROR_WRONG_DEVICE,
                 "ph_graph_verdict");
    ph_stream_destroy(stream);
    ph_device_release(device);
}

/* A graph whose template is kept gets its executable by it. */
TEST(an_ended_graph)
{
    ph_graph *kept;
    ph_profile *profile;
    const ph_graph_options keep = {.keep_graph = true};
    assert_ok(ph_graph_create(&kept, &keep));
    assert_ok(ph_graph_capture(kept, p.a, NULL, body, &p));
    assert_ok(ph_graph_profile(&profile, kept, p.a, NULL));
    assert_int_equal(ph_graph_get_state(kept), PH_GRAPH_READY);
    ph_profile_destroy(profile);
    ph_graph_destroy(kept);
}

/* ---- hooks ---- */

static ph_status destroy_it(const ph_graph_hook_info *info, void *user)
{
    (void)user;
    ph_graph_destroy(info->graph);
    return PH_OK;
}

static ph_status refuse(const ph_graph_hook_info *info, void *user)
{
    (void)info;
    int *left = user;
    return --*left < 0 ? ph_fail(PH_ERROR_CALLER, "the hook's own words") : PH_OK;
}

/* It goes when the call is done. */
TEST(destroyed_by_a_hook)
{
    ph_hook *hook;
    ph_profile *profile;
    ph_verdict verdict;
    for (int i = 0; i < 2; i++) {
        assert_ok(ph_graph_capture(p.graph, p.a, NULL, body, &p));
        assert_ok(ph_graph_hook_add(&hook, p.graph, PH_HOOK_REPLAY_END, destroy_it, NULL));
        if (i == 0) {
            assert_ok(ph_graph_profile(&profile, p.graph, p.a, NULL));
            profiled_check_sums(profile);
            ph_profile_destroy(profile);
        } else {
            assert_ok(ph_graph_verdict(&verdict, p.graph, p.a, body, &p, NULL));
        }
        ph_graph_hook_remove(hook);
        assert_ok(ph_graph_create(&p.graph, NULL));
    }
}

/* A replay that is stopped half-way leaves the graph as it was. */
TEST(stopped_by_a_hook)
{
    ph_hook *hook;
    ph_profile *profile;
    ph_verdict verdict;
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, body, &p));
    for (int replays = 0; replays < 40; replays++) {
        int left = replays;
        assert_ok(ph_graph_hook_add(&hook, p.graph, PH_HOOK_REPLAY_START, refuse, &left));
        ph_status status = ph_graph_profile(&profile, p.graph, p.a, NULL);
        if (status != PH_OK)
            assert_error(status, PH_ERROR_CALLER, "the hook's own words");
        assert_int_equal(status == PH_OK, profile != NULL);
        assert_int_equal(status == PH_OK, left >= 0);
        left = replays;
        status = ph_graph_verdict(&verdict, p.graph, p.a, body, &p, NULL);
        assert_int_equal(status == PH_OK, left >= 0);
        ph_graph_hook_remove(hook);
        ph_profile_destroy(profile);
        assert_ok(ph_graph_replay(p.graph, p.a));
        assert_ok(ph_stream_synchronize(p.a));
    }
}

/* body's failure is the verdict's, in its own words. */
TEST(a_failing_body)
{
    ph_verdict verdict;
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, body, &p));
    assert_error(ph_graph_verdict(&verdict, p.graph, p.a, failing, NULL, NULL), PH_ERROR_CALLER,
                 "its own words");
    assert_ok(ph_graph_replay(p.graph, p.a));
    assert_ok(ph_stream_synchronize(p.a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(null_arguments_to_profiles_are_refused_by_name, open_it,
                                        close_it),
        cmocka_unit_test_setup_teardown(options_of_profiles_out_of_range_are_refused, open_it,
                                        close_it),
        cmocka_unit_test_setup_teardown(sources_of_other_devices, open_it, close_it),
        cmocka_unit_test_setup_teardown(scopes_that_are_left_open, open_it, close_it),
        cmocka_unit_test_setup_teardown(graphs_without_a_capture, open_it, close_it),
        cmocka_unit_test_setup_teardown(a_capturing_stream, open_it, close_it),
        cmocka_unit_test_setup_teardown(a_stream_of_another_device_is_refused, open_it, close_it),
        cmocka_unit_test_setup_teardown(an_ended_graph, open_it, close_it),
        cmocka_unit_test_setup_teardown(destroyed_by_a_hook, open_it, close_it),
        cmocka_unit_test_setup_teardown(stopped_by_a_hook, open_it, close_it),
        cmocka_unit_test_setup_teardown(a_failing_body, open_it, close_it),
    };
    return cmocka_run_group_tests_name("inspect.profile_misuse", tests, NULL, NULL);
}
