/* SPDX-License-Identifier: MIT */
/* tests/inspect/profile.c: profiles of graphs whose nodes take known shares of time, by each
 * source that the device has. */
#include "profiled.h"
#include "support/test.h"
#include <phonograph/cells.h>

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

static void capture(ph_capture_fn body)
{
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, body, &p));
}

/* Those that the device has not are refused in words. NULL then. */
static ph_profile *profile_by(ph_profile_source source)
{
    ph_profile *profile;
    const ph_profile_options options = {.replays = 5, .source = source};
    ph_status status = ph_graph_profile(&profile, p.graph, p.a, &options);
    bool is_device = source == PH_PROFILE_DEVICE,
         may = source == PH_PROFILE_AUTO || is_device == t_on_host();
    if (status != PH_OK && (!may || source == PH_PROFILE_CUPTI)) {
        assert_error(status, PH_ERROR_UNSUPPORTED,
                     "ph_graph_profile: the nodes of this graph cannot be measured here: ");
        assert_null(profile);
        return NULL;
    }
    assert_ok(status);
    assert_true(may);
    ph_profile_summary summary = profiled_summary(profile);
    assert_int_equal(summary.replays, 5);
    assert_int_not_equal(summary.source, PH_PROFILE_AUTO);
    if (source != PH_PROFILE_AUTO)
        assert_int_equal(summary.source, source);
    return profile;
}

/* ---- what is measured ---- */

/* With events a node that waits for the device counts as running: which of two branches is the
 * longer one is not told then. */
static void check_diamond(const ph_profile *profile)
{
    ph_profile_node shorter = profiled_node(profile, 2), longer = profiled_node(profile, 1);
    bool sure = profiled_summary(profile).source != PH_PROFILE_EVENTS;
    size_t branch = sure || longer.critical ? 1 : 2;
    profiled_path(profile, (const size_t[]){0, branch, 3}, 3);
    for (size_t n = 0; n < 4; n++) {
        ph_profile_node node = profiled_node(profile, n);
        assert_true(node.measured);
        assert_int_equal(node.critical, n != 3 - branch);
        assert_true(node.median_ns > 0);
    }
    /* Branches of one start and one end: what one is longer is the other's slack. */
    if (branch == 1)
        assert_int_equal(shorter.slack_ns, longer.median_ns - shorter.median_ns);
    else
        assert_int_equal(longer.slack_ns, shorter.median_ns - longer.median_ns);
}

TEST(every_source_finds_the_critical_path_of_a_diamond)
{
    capture(profiled_diamond);
    for (int source = PH_PROFILE_AUTO; source <= PH_PROFILE_EVENTS; source++) {
        ph_profile *profile = profile_by((ph_profile_source)source);
        if (!profile)
            continue;
        ph_profile_summary summary = profiled_summary(profile);
        profiled_check_sums(profile);
        assert_int_equal(summary.node_count, 4);
        assert_int_equal(summary.critical_count, 3);
        check_diamond(profile);
        ph_profile_destroy(profile);
    }
}

/* It is a replay like any other: everything is written, and the executable is as before. */
static ph_status count_up(ph_stream *stream, void *user)
{
    const profiled *q = user;
    PH_TRY(t_add(&q->world, stream, q->y, q->y, 1, 1));
    return ph_memcpy(q->y + 1, q->y, sizeof *q->y, stream);
}

TEST(what_it_writes_is_written)
{
    int32_t before = 0, after[2];
    capture(count_up);
    for (int source = PH_PROFILE_AUTO; source <= PH_PROFILE_EVENTS; source++) {
        ph_profile *profile = profile_by((ph_profile_source)source);
        t_read(after, p.y, sizeof after, p.a);
        assert_int_equal(after[0], after[1]);
        assert_true(after[0] - before >= (profile ? 5 + 2 : 0));
        before = after[0];
        assert_ok(ph_graph_replay(p.graph, p.a));
        t_read(after, p.y, sizeof after, p.a);
        assert_int_equal(after[0], before + 1);
        before = after[0];
        ph_profile_destroy(profile);
    }
}

static ph_status one_of_each(ph_stream *stream, void *user)
{
    const profiled *q = user;
    PH_TRY(profiled_spin(q, stream, SHORT_NS, 0));
    PH_TRY(ph_memset_u32(q->y + 1, 7, 4, stream));
    PH_TRY(ph_memcpy(q->y + 5, q->y + 1, 4 * sizeof *q->y, stream));
    return profiled_spin(q, stream, SHORT_NS, 9);
}

/* A node that is switched off takes no time and is not measured, also where the source runs a
 * copy of the graph. */
TEST(a_disabled_node_is_not_measured)
{
    capture(one_of_each);
    assert_ok(ph_graph_node_set_enabled(p.graph, 3, false));
    for (int source = PH_PROFILE_AUTO; source <= PH_PROFILE_EVENTS; source++) {
        assert_ok(ph_memset(p.y, 0, CELLS * sizeof *p.y, p.a));
        ph_profile *profile = profile_by((ph_profile_source)source);
        if (!profile)
            continue;
        int32_t y[CELLS];
        t_read(y, p.y, sizeof y, p.a);
        assert_int_equal(y[0], 1);
        assert_int_equal(y[5], 7);
        assert_int_equal(y[9], 0);
        profiled_check_sums(profile);
        for (size_t n = 0; n < 3; n++)
            assert_true(profiled_node(profile, n).measured);
        ph_profile_node off = profiled_node(profile, 3);
        assert_false(off.measured || off.critical);
        assert_int_equal(off.median_ns, 0);
        ph_profile_destroy(profile);
    }
    assert_ok(ph_graph_node_set_enabled(p.graph, 3, true));
    assert_ok(ph_graph_replay(p.graph, p.a));
    t_all(p.y + 9, 1, 1, p.a);
}

static ph_graph *inner;

static ph_status around_inner(ph_stream *stream, void *user)
{
    PH_TRY(profiled_spin(user, stream, SHORT_NS, 8));
    PH_TRY(ph_graph_replay(inner, stream));
    return profiled_spin(user, stream, SHORT_NS, 9);
}

TEST(a_nested_graph_takes_what_its_body_takes)
{
    assert_ok(ph_graph_create(&inner, NULL));
    assert_ok(ph_graph_capture(inner, p.a, NULL, profiled_diamond, &p));
    capture(around_inner);
    ph_graph_destroy(inner);
    for (int source = PH_PROFILE_AUTO; source <= PH_PROFILE_EVENTS; source++) {
        ph_profile *profile = profile_by((ph_profile_source)source);
        if (!profile)
            continue;
        ph_profile_node body = profiled_node(profile, 1);
        assert_true(body.measured);
        assert_true(body.median_ns > 2 * profiled_node(profile, 0).median_ns);
        profiled_path(profile, (const size_t[]){0, 1, 2}, 3);
        profiled_check_sums(profile);
        ph_profile_destroy(profile);
    }
}

static ph_status no_work(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    return PH_OK;
}

TEST(an_empty_graph)
{
    ph_profile *profile;
    t_log_start();
    capture(no_work);
    t_log_stop();
    assert_ok(ph_graph_profile(&profile, p.graph, p.a, NULL));
    ph_profile_summary summary = profiled_summary(profile);
    profiled_check_sums(profile);
    assert_int_equal(
        summary.replay_ns + summary.lane_count + summary.critical_count + summary.node_count, 0);
    assert_int_equal(ph_profile_scope_count(profile) + ph_profile_gap_count(profile), 0);
    ph_profile_destroy(profile);
}

/* Nothing of the graph is needed once the profile is made. */
TEST(the_graph_may_go)
{
    ph_profile *profile;
    char *trace;
    capture(profiled_diamond);
    assert_ok(ph_graph_profile(&profile, p.graph, p.a, NULL));
    assert_int_equal(profiled_summary(profile).replays, 10);
    ph_graph_destroy(p.graph);
    p.graph = NULL;
    profiled_check_sums(profile);
    check_diamond(profile);
    assert_ok(ph_profile_trace(&trace, profile));
    ph_string_free(trace);
    ph_profile_destroy(profile);
}

/* ---- what replays are given ---- */

static ph_status next_value(uint64_t *values, void *user)
{
    values[0] = ++*(uint64_t *)user;
    return PH_OK;
}

static uint64_t drawn;

static ph_status with_cell(ph_stream *stream, void *user)
{
    const profiled *q = user;
    uint64_t *cell;
    const ph_cells_source source = {.values = next_value, .user = &drawn, .count = 1};
    PH_TRY(ph_cells_create(&cell, stream, &source));
    return ph_memcpy(q->y, cell, sizeof *q->y, stream);
}

/* Cells have a value of their own in each replay, also in the first one behind a profile whose
 * source ran a copy. */
TEST(cells_go_on)
{
    drawn = 0;
    capture(with_cell);
    for (int source = PH_PROFILE_AUTO; source <= PH_PROFILE_EVENTS; source++) {
        ph_profile_destroy(profile_by((ph_profile_source)source));
        t_all(p.y, 1, (int32_t)drawn, p.a);
        assert_ok(ph_graph_replay(p.graph, p.a));
        t_all(p.y, 1, (int32_t)drawn, p.a);
    }
}

static ph_status copy_in(ph_stream *stream, void *user)
{
    const profiled *q = user;
    return t_add(&q->world, stream, q->y, q->y + 4, 4, 0);
}

/* Slots keep what they were set to. */
TEST(slots_keep_their_values)
{
    int32_t *other;
    size_t slot;
    assert_ok(PH_NEW(&other, 4, p.a));
    assert_ok(ph_memset_u32(p.y, 1, 4, p.a));
    assert_ok(ph_memset_u32(other, 2, 4, p.a));
    capture(copy_in);
    assert_ok(ph_graph_slot_declare_address(&slot, p.graph, "x", p.y, 4 * sizeof *p.y,
                                            &(ph_slot_place){0, offsetof(struct t_add_i32, x)}, 1,
                                            NULL));
    const ph_slot_value value = {.slot = slot, .value = other};
    assert_ok(ph_graph_replay_with(p.graph, p.a, &value, 1));
    for (int source = PH_PROFILE_AUTO; source <= PH_PROFILE_EVENTS; source++) {
        assert_ok(ph_memset_u32(p.y + 4, 0, 4, p.a));
        ph_profile *profile = profile_by((ph_profile_source)source);
        if (profile)
            t_all(p.y + 4, 4, 2, p.a);
        ph_profile_destroy(profile);
        assert_ok(ph_memset_u32(p.y + 4, 0, 4, p.a));
        assert_ok(ph_graph_replay(p.graph, p.a));
        t_all(p.y + 4, 4, 2, p.a);
    }
    ph_free(other, p.a);
}

/* A copy would have what was captured: said, not done. */
TEST(a_profile_by_events_refuses_changed_nodes)
{
    ph_profile *profile;
    capture(one_of_each);
    assert_ok(ph_graph_node_set_memset(p.graph, 1, p.y + 1, 9, 4));
    const ph_profile_options events = {.source = PH_PROFILE_EVENTS};
    ph_status status = ph_graph_profile(&profile, p.graph, p.a, &events);
    assert_error(status, PH_ERROR_UNSUPPORTED,
                 t_on_host() ? "has only PH_PROFILE_DEVICE" : "set or updated since");
    assert_null(profile);
    assert_ok(ph_graph_replay(p.graph, p.a));
    t_all(p.y + 5, 4, 9, p.a);
}

/* ---- annotations ---- */

static ph_status layers(ph_stream *stream, void *user)
{
    for (int i = 0; i < 3; i++) {
        const ph_annotation_pair pair = {
            .key = "layer", .type = PH_ANNOTATION_INTEGER, .integer = i % 2};
        const ph_annotation_options options = {.pairs = &pair, .count = 1};
        PH_TRY(ph_annotation_push(stream, "step", &options));
        ph_status status = profiled_spin(user, stream, i == 1 ? LONG_NS : SHORT_NS, (size_t)i);
        PH_TRY(ph_annotation_pop(stream));
        PH_TRY(status);
    }
    return profiled_spin(user, stream, SHORT_NS, 3);
}

/* Layers 0 and 2 have equal pairs: they are one entry. */
TEST(equal_annotations_are_one_scope)
{
    ph_profile *profile;
    const ph_capture_options options = {.enable_annotations = true};
    assert_ok(ph_graph_capture(p.graph, p.a, &options, layers, &p));
    assert_ok(ph_graph_profile(&profile, p.graph, p.a, NULL));
    profiled_check_sums(profile);
    assert_int_equal(ph_profile_scope_count(profile), 3);
    ph_profile_scope scope[3];
    for (size_t s = 0; s < 3; s++)
        assert_ok(ph_profile_scope_at(&scope[s], profile, s));
    assert_int_equal(scope[0].node_count, 1);
    assert_int_equal(scope[0].pair_count, 2);
    assert_string_equal(scope[0].pairs[0].key, "name");
    assert_string_equal(scope[0].pairs[0].text, "step");
    assert_int_equal(scope[0].pairs[1].integer, 1);
    assert_int_equal(scope[0].work_ns, profiled_node(profile, 1).median_ns);
    for (size_t s = 1; s < 3; s++) {
        assert_int_equal(scope[s].node_count, scope[s].pair_count == 0 ? 1 : 2);
        assert_true(scope[s].work_ns <= scope[s - 1].work_ns);
    }
    ph_profile_destroy(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_source_finds_the_critical_path_of_a_diamond, open_it,
                                        close_it),
        cmocka_unit_test_setup_teardown(what_it_writes_is_written, open_it, close_it),
        cmocka_unit_test_setup_teardown(a_disabled_node_is_not_measured, open_it, close_it),
        cmocka_unit_test_setup_teardown(a_nested_graph_takes_what_its_body_takes, open_it,
                                        close_it),
        cmocka_unit_test_setup_teardown(an_empty_graph, open_it, close_it),
        cmocka_unit_test_setup_teardown(the_graph_may_go, open_it, close_it),
        cmocka_unit_test_setup_teardown(cells_go_on, open_it, close_it),
        cmocka_unit_test_setup_teardown(slots_keep_their_values, open_it, close_it),
        cmocka_unit_test_setup_teardown(a_profile_by_events_refuses_changed_nodes, open_it,
                                        close_it),
        cmocka_unit_test_setup_teardown(equal_annotations_are_one_scope, open_it, close_it),
    };
    return cmocka_run_group_tests_name("inspect.profile", tests, NULL, NULL);
}
