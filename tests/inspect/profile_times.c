/* SPDX-License-Identifier: MIT */
/* tests/inspect/profile_times.c: what a profile makes of given times: medians, the critical
 * path, slack, lanes, idle times, to the nanosecond. */
#include "inspect/profile/make.h"
#include "inspect/profile/profile.h"
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

/* The profile of the graph, had its nodes run so. */
static ph_profile *profile_of(ph__profile_time *times, size_t replays)
{
    const ph_record *record;
    ph_profile *profile;
    assert_ok(ph_graph_record(&record, p.graph));
    const ph__profile_times all = {
        .replays = replays, .nodes = ph_record_node_count(record), .at = times};
    assert_ok(ph__profile_make(&profile, record, &all, PH_PROFILE_DEVICE, "test"));
    profiled_check_sums(profile);
    return profile;
}

static void assert_node(const ph_profile *profile, size_t n, uint64_t start, uint64_t median,
                        uint64_t slack, uint32_t lane)
{
    ph_profile_node node = profiled_node(profile, n);
    assert_true(node.measured);
    assert_int_equal(node.start_ns, start);
    assert_int_equal(node.median_ns, median);
    assert_int_equal(node.slack_ns, slack);
    assert_int_equal(node.lane, lane);
}

TEST(times_of_a_diamond_give_its_path_and_pauses)
{
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, profiled_diamond, &p));
    /* Node 0, a pause of 5, nodes 1 and 2 at once, a pause of 10, node 3. */
    ph__profile_time times[] = {{1000, 1100}, {1105, 1405}, {1110, 1160}, {1415, 1435}};
    ph_profile *profile = profile_of(times, 1);
    ph_profile_summary summary = profiled_summary(profile);
    assert_int_equal(summary.replay_ns, 435);
    assert_int_equal(summary.busy_ns, 420);
    assert_int_equal(summary.idle_ns, 15);
    assert_int_equal(summary.work_ns, 470);
    assert_int_equal(summary.critical_ns, 420);
    assert_int_equal(summary.lane_count, 2);
    assert_int_equal(summary.replays, 1);
    profiled_path(profile, (const size_t[]){0, 1, 3}, 3);
    assert_node(profile, 0, 0, 100, 0, 0);
    assert_node(profile, 1, 105, 300, 0, 0);
    assert_node(profile, 2, 110, 50, 250, 1);
    assert_node(profile, 3, 415, 20, 0, 0);
    ph_profile_gap gap;
    assert_int_equal(ph_profile_gap_count(profile), 2);
    assert_ok(ph_profile_gap_at(&gap, profile, 0));
    assert_true(gap.start_ns == 405 && gap.length_ns == 10 && gap.before == 1 && gap.after == 3);
    assert_ok(ph_profile_gap_at(&gap, profile, 1));
    assert_true(gap.start_ns == 100 && gap.length_ns == 5 && gap.before == 0 && gap.after == 1);
    ph_profile_destroy(profile);
}

/* The median replay is one that was: it gives starts, lanes and pauses; each node's median is
 * its own. */
TEST(the_median_replay_gives_starts_lanes_and_pauses)
{
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, profiled_diamond, &p));
    ph__profile_time times[] = {
        {100, 110},   {110, 190},   {110, 120},   {200, 300},   /* 200 */
        {1000, 1090}, {1090, 1100}, {1090, 1095}, {1101, 1105}, /* 105: the median of three */
        {9000, 9020}, {9020, 9025}, {9020, 9040}, {9040, 9041}, /* 41 */
    };
    ph_profile *profile = profile_of(times, 3);
    assert_int_equal(profiled_summary(profile).replay_ns, 105);
    assert_node(profile, 0, 0, 20, 0, 0);
    ph_profile_node node = profiled_node(profile, 0);
    assert_int_equal(node.least_ns, 10);
    assert_int_equal(node.most_ns, 90);
    assert_node(profile, 1, 90, 10, 0, 0);
    assert_node(profile, 2, 90, 10, 0, 1);
    assert_node(profile, 3, 101, 4, 0, 0);
    /* Of two that decide alike the first is the path; the other has no slack either. */
    profiled_path(profile, (const size_t[]){0, 1, 3}, 3);
    assert_false(profiled_node(profile, 2).critical);
    ph_profile_destroy(profile);
    /* Of an even number the lower one. */
    profile = profile_of(times, 2);
    assert_int_equal(profiled_summary(profile).replay_ns, 105);
    assert_int_equal(profiled_node(profile, 0).median_ns, 10);
    ph_profile_destroy(profile);
}

/* Nodes that nothing is known of take no time, but order the others. */
TEST(unmeasured_nodes_take_no_time_and_order_the_others)
{
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, profiled_diamond, &p));
    ph__profile_time times[] = {{0, 0}, {0, 0}, {50, 60}, {60, 65}};
    ph_profile *profile = profile_of(times, 1);
    assert_false(profiled_node(profile, 0).measured);
    assert_false(profiled_node(profile, 1).measured);
    assert_int_equal(profiled_node(profile, 0).slack_ns, 0);
    assert_int_equal(profiled_node(profile, 1).slack_ns, 10);
    assert_node(profile, 2, 0, 10, 0, 0);
    profiled_path(profile, (const size_t[]){2, 3}, 2);
    ph_profile_destroy(profile);
    memset(times, 0, sizeof times);
    profile = profile_of(times, 1);
    assert_int_equal(profiled_summary(profile).replay_ns, 0);
    assert_int_equal(profiled_summary(profile).lane_count, 0);
    profiled_path(profile, NULL, 0);
    ph_profile_destroy(profile);
}

static ph_status chain(ph_stream *stream, void *user)
{
    for (size_t i = 0; i < 6; i++)
        PH_TRY(profiled_spin(user, stream, 0, i));
    return PH_OK;
}

/* Whatever overlaps is in different lanes, and a lane is used again. Clocks that run backwards
 * harm nothing. */
TEST(overlapping_nodes_are_in_different_lanes)
{
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, chain, &p));
    ph__profile_time times[] = {{10, 100}, {20, 40}, {30, 50}, {40, 60}, {50, 45}, {100, 110}};
    static const uint32_t expected[] = {0, 1, 2, 1, 2, 0};
    ph_profile *profile = profile_of(times, 1);
    assert_int_equal(profiled_summary(profile).lane_count, 3);
    for (size_t n = 0; n < 6; n++)
        assert_int_equal(profiled_node(profile, n).lane, expected[n]);
    assert_int_equal(profiled_node(profile, 4).median_ns, 0);
    assert_int_equal(ph_profile_gap_count(profile), 0);
    ph_profile_destroy(profile);
}

/* Node 1 may begin when node 0 has begun, and waits for it by itself: that is none of its time,
 * and the path goes through both. */
static ph_status overlapping(ph_stream *stream, void *user)
{
    const profiled *q = user;
    const struct spin args = {0, q->y};
    const ph_launch_config config = {.programmatic = true};
    PH_TRY(profiled_spin(q, stream, 0, 0));
    PH_TRY(ph_launch(stream, q->spin, &config, &args, sizeof args));
    return profiled_spin(q, stream, 0, 1);
}

TEST(programmatic_dependencies_may_overlap_on_the_path)
{
    const ph_record *record;
    ph_edge_kind kind;
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, overlapping, &p));
    assert_ok(ph_graph_record(&record, p.graph));
    assert_ok(ph_record_edge(&kind, record, 1, 0));
    ph__profile_time times[] = {{10, 40}, {20, 70}, {70, 80}};
    ph_profile *profile = profile_of(times, 1);
    bool full = kind == PH_EDGE_FULL; /* the host device orders fully */
    assert_int_equal(full, t_on_host());
    assert_int_equal(profiled_node(profile, 1).median_ns, full ? 50 : 30);
    assert_int_equal(profiled_node(profile, 1).start_ns, 10);
    assert_int_equal(profiled_summary(profile).critical_ns, full ? 90 : 70);
    assert_int_equal(profiled_node(profile, 0).slack_ns, 0);
    profiled_path(profile, (const size_t[]){0, 1, 2}, 3);
    ph_profile_destroy(profile);
}

/* Many scopes, equal ones far apart; hashes and chains of them. */
static ph_status many_scopes(ph_stream *stream, void *user)
{
    for (int i = 0; i < 200; i++) {
        const ph_annotation_pair pairs[] = {
            {.key = "i", .type = PH_ANNOTATION_INTEGER, .integer = i % 50},
            {.key = "half", .type = PH_ANNOTATION_REAL, .real = (i % 50) / 2.0},
            {.key = "even", .type = PH_ANNOTATION_BOOL, .boolean = i % 2 == 0},
            {.key = "word", .type = PH_ANNOTATION_TEXT, .text = i % 2 ? "odd" : "even"},
        };
        const ph_annotation_options options = {.pairs = pairs, .count = 4};
        PH_TRY(ph_annotation_push(stream, NULL, &options));
        ph_status status = profiled_spin(user, stream, 0, 0);
        PH_TRY(ph_annotation_pop(stream));
        PH_TRY(status);
    }
    return PH_OK;
}

TEST(scopes_are_listed_by_their_work)
{
    const ph_capture_options options = {.enable_annotations = true};
    assert_ok(ph_graph_capture(p.graph, p.a, &options, many_scopes, &p));
    ph__profile_time *times = ph__calloc(200, sizeof *times);
    for (size_t n = 0; n < 200; n++)
        times[n] = (ph__profile_time){100 * n + 1, 100 * n + 2 + n % 50}; /* 1 + n % 50 each */
    ph_profile *profile = profile_of(times, 1);
    assert_int_equal(ph_profile_scope_count(profile), 50);
    for (size_t s = 0; s < 50; s++) {
        ph_profile_scope scope;
        assert_ok(ph_profile_scope_at(&scope, profile, s));
        assert_int_equal(scope.node_count, 4);
        assert_int_equal(scope.work_ns, 4 * (50 - s));
        assert_int_equal(scope.critical_ns, scope.work_ns);
        assert_int_equal(scope.pair_count, 4);
        assert_int_equal(scope.pairs[0].integer, 49 - (int)s);
        assert_string_equal(scope.pairs[3].text, s % 2 ? "even" : "odd");
    }
    ph__free(times);
    ph_profile_destroy(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(times_of_a_diamond_give_its_path_and_pauses, open_it,
                                        close_it),
        cmocka_unit_test_setup_teardown(the_median_replay_gives_starts_lanes_and_pauses, open_it,
                                        close_it),
        cmocka_unit_test_setup_teardown(unmeasured_nodes_take_no_time_and_order_the_others, open_it,
                                        close_it),
        cmocka_unit_test_setup_teardown(overlapping_nodes_are_in_different_lanes, open_it,
                                        close_it),
        cmocka_unit_test_setup_teardown(programmatic_dependencies_may_overlap_on_the_path, open_it,
                                        close_it),
        cmocka_unit_test_setup_teardown(scopes_are_listed_by_their_work, open_it, close_it),
    };
    return cmocka_run_group_tests_name("inspect.profile_times", tests, NULL, NULL);
}
