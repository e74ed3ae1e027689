/* SPDX-License-Identifier: MIT */
/* tests/cuda/profile.c: profiles by CUPTI's records, and what happens where they cannot be had.
 * On a GPU of the machine with NVIDIA's CUPTI, on the software libcuda with one of the tests'
 * own. */
#include "../inspect/profiled.h"
#include "fake.h"
#include "support/test.h"
#include <stdlib.h>

static profiled p;

FIXTURE(open_it)
{
    profiled_open(&p);
    return 0;
}

FIXTURE(close_it)
{
    (void)unsetenv("FAKE_CUPTI_TAKEN");
    (void)unsetenv("FAKE_CUPTI_SILENT");
    profiled_close(&p);
    return 0;
}

static ph_status by(ph_profile **profile, ph_profile_source source)
{
    const ph_profile_options options = {.replays = 5, .source = source};
    return ph_graph_profile(profile, p.graph, p.a, &options);
}

/* NULL, and the test is skipped: there is no CUPTI here. The test's own is always there. */
static ph_profile *by_cupti(void)
{
    ph_profile *profile;
    ph_status status = by(&profile, PH_PROFILE_CUPTI);
    if (status == PH_OK)
        return profile;
    assert_error(status, PH_ERROR_UNSUPPORTED, "ph_graph_profile");
    assert_null(fake_cuda());
    print_message("skipped: %s\n", ph_error_last()->message);
    skip();
    return NULL;
}

/* ---- records ---- */

static ph_status one_of_each(ph_stream *stream, void *user)
{
    const profiled *q = user;
    PH_TRY(profiled_diamond(stream, user));
    PH_TRY(ph_memset_u32(q->y + 4, 7, 4, stream)); /* small: a kernel of the library */
    return ph_memcpy(q->y + 8, q->y + 4, 4 * sizeof *q->y, stream);
}

/* Every kernel, copy and fill has its times, under the node that it is of. */
TEST(every_node_has_its_record)
{
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, one_of_each, &p));
    ph_profile *profile = by_cupti();
    profiled_check_sums(profile);
    assert_int_equal(profiled_summary(profile).source, PH_PROFILE_CUPTI);
    for (size_t n = 0; n < 6; n++) {
        ph_profile_node node = profiled_node(profile, n);
        assert_true(node.measured);
        assert_true(node.median_ns > 0);
    }
    assert_true(profiled_node(profile, 1).median_ns > LONG_NS / 2);
    assert_true(profiled_node(profile, 2).median_ns < LONG_NS / 2);
    profiled_path(profile, (const size_t[]){0, 1, 3, 4, 5}, 5);
    ph_profile_destroy(profile);
    ph_profile *again = by_cupti();
    assert_true(profiled_node(again, 1).median_ns > LONG_NS / 2);
    ph_profile_destroy(again);
}

TEST(large_fills_and_copies_of_cuda_are_measured)
{
    enum {
        WORDS = 1 << 20
    };
    uint32_t *large;
    ph_profile *profile;
    assert_ok(PH_NEW(&large, WORDS, p.a));
    assert_ok(ph_graph_capture_begin(p.graph, p.a, NULL));
    assert_ok(ph_memset_u32(large, 3, WORDS, p.a)); /* a node of CUDA's own */
    assert_ok(ph_memcpy(large + WORDS / 2, large, WORDS / 2 * sizeof *large, p.a));
    assert_ok(ph_graph_capture_end(p.graph, PH_OK));
    profile = by_cupti();
    assert_true(profiled_node(profile, 0).measured && profiled_node(profile, 1).measured);
    ph_profile_destroy(profile);
    ph_free(large, p.a);
}

/* Other code's work at that time is none of the graph's. */
static ph_graph *beside;

static ph_status replay_beside(const ph_graph_hook_info *info, void *user)
{
    (void)info;
    (void)user;
    return ph_graph_replay(beside, p.b);
}

static ph_status alone(ph_stream *stream, void *user)
{
    return profiled_spin(user, stream, SHORT_NS, 0);
}

static ph_status longer(ph_stream *stream, void *user)
{
    return profiled_spin(user, stream, LONG_NS, 1);
}

TEST(records_of_other_graphs)
{
    ph_hook *hook;
    assert_ok(ph_graph_create(&beside, NULL));
    assert_ok(ph_graph_capture(beside, p.b, NULL, longer, &p));
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, alone, &p));
    assert_ok(ph_graph_hook_add(&hook, p.graph, PH_HOOK_REPLAY_START, replay_beside, NULL));
    ph_profile *profile = by_cupti();
    assert_true(profiled_node(profile, 0).median_ns < LONG_NS / 2);
    ph_profile_destroy(profile);
    ph_graph_hook_remove(hook);
    assert_ok(ph_stream_synchronize(p.b));
    ph_graph_destroy(beside);
}

/* A graph that was instantiated again, or updated, has other executables' records: still its
 * own. */
TEST(an_updated_graph)
{
    ph_graph *from;
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, alone, &p));
    assert_ok(ph_graph_create(&from, NULL));
    assert_ok(ph_graph_capture(from, p.a, NULL, longer, &p));
    assert_ok(ph_graph_update(p.graph, from, NULL));
    ph_profile *profile = by_cupti();
    assert_true(profiled_node(profile, 0).median_ns > LONG_NS / 2);
    ph_profile_destroy(profile);
    ph_graph_destroy(from);
}

/* ---- where there are none ---- */

TEST(where_another_tool_has_it)
{
    ph_profile *profile;
    NEED_FAKE();
    assert_int_equal(setenv("FAKE_CUPTI_TAKEN", "1", 1), 0);
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, one_of_each, &p));
    assert_error(by(&profile, PH_PROFILE_CUPTI), PH_ERROR_UNSUPPORTED,
                 "a profiler or debugger uses CUPTI already (39)");
    assert_null(profile);
    assert_ok(by(&profile, PH_PROFILE_AUTO));
    assert_int_equal(profiled_summary(profile).source, PH_PROFILE_EVENTS);
    profiled_check_sums(profile);
    ph_profile_destroy(profile);
    /* A copy would not do either. */
    assert_ok(ph_graph_node_set_memset(p.graph, 4, p.y + 4, 9, 4));
    assert_error(by(&profile, PH_PROFILE_AUTO), PH_ERROR_UNSUPPORTED, "set or updated since");
    assert_ok(ph_graph_replay(p.graph, p.a));
    t_all(p.y + 8, 4, 9, p.a);
}

/* It can be had, and says nothing. */
TEST(where_it_is_silent)
{
    ph_profile *profile;
    NEED_FAKE();
    assert_int_equal(setenv("FAKE_CUPTI_SILENT", "1", 1), 0);
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, one_of_each, &p));
    assert_error(by(&profile, PH_PROFILE_CUPTI), PH_ERROR_UNSUPPORTED, "CUPTI gives no record");
    assert_ok(by(&profile, PH_PROFILE_AUTO));
    assert_int_equal(profiled_summary(profile).source, PH_PROFILE_EVENTS);
    ph_profile_destroy(profile);
    assert_int_equal(unsetenv("FAKE_CUPTI_SILENT"), 0);
    assert_ok(by(&profile, PH_PROFILE_AUTO));
    assert_int_equal(profiled_summary(profile).source, PH_PROFILE_CUPTI);
    ph_profile_destroy(profile);
}

/* ---- events ---- */

/* What CUDA does not copy is refused in words, and nothing is left of the try. */
TEST(a_graph_that_cuda_does_not_copy)
{
    ph_profile *profile;
    NEED_FAKE();
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, one_of_each, &p));
    fake_cuda()->fail_call("cuGraphClone", PH__R_NOT_SUPPORTED, 1);
    assert_error(by(&profile, PH_PROFILE_EVENTS), PH_ERROR_UNSUPPORTED, "makes no copy of a graph");
    fake_cuda()->fail_call("cuGraphClone", PH__R_LAUNCH_FAILED, 1);
    assert_status(by(&profile, PH_PROFILE_EVENTS), PH_ERROR_DEVICE);
    assert_null(profile);
    assert_ok(by(&profile, PH_PROFILE_EVENTS));
    ph_profile_destroy(profile);
}

/* Each call of the driver fails once. */
static void sweep(ph_profile_source source)
{
    ph_profile *profile;
    for (int64_t n = 0;; n++) {
        int64_t before = fake_cuda()->calls();
        fake_cuda()->fail_after(n, PH__R_LAUNCH_FAILED);
        ph_status status = by(&profile, source);
        fake_cuda()->fail_after(-1, 0);
        bool hit = fake_cuda()->calls() - before > n;
        assert_int_equal(status == PH_OK, profile != NULL);
        assert_true(status == PH_OK || (hit && status == PH_ERROR_DEVICE));
        ph_profile_destroy(profile);
        assert_ok(ph_stream_synchronize(p.a));
        assert_ok(ph_memset(p.y, 0, CELLS * sizeof *p.y, p.a));
        assert_ok(ph_graph_replay(p.graph, p.a));
        t_all(p.y + 8, 4, 7, p.a);
        if (!hit)
            break;
    }
}

TEST(a_profile_survives_every_failing_driver_call)
{
    NEED_FAKE();
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, one_of_each, &p));
    sweep(PH_PROFILE_EVENTS);
    sweep(PH_PROFILE_CUPTI);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_node_has_its_record, open_it, close_it),
        cmocka_unit_test_setup_teardown(large_fills_and_copies_of_cuda_are_measured, open_it,
                                        close_it),
        cmocka_unit_test_setup_teardown(records_of_other_graphs, open_it, close_it),
        cmocka_unit_test_setup_teardown(an_updated_graph, open_it, close_it),
        cmocka_unit_test_setup_teardown(where_another_tool_has_it, open_it, close_it),
        cmocka_unit_test_setup_teardown(where_it_is_silent, open_it, close_it),
        cmocka_unit_test_setup_teardown(a_graph_that_cuda_does_not_copy, open_it, close_it),
        cmocka_unit_test_setup_teardown(a_profile_survives_every_failing_driver_call, open_it,
                                        close_it),
    };
    return cmocka_run_group_tests_name("cuda.profile", tests, NULL, NULL);
}
