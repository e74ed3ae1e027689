/* SPDX-License-Identifier: MIT */
/* tests/inspect/profile_faults.c: profiles and verdicts while the n-th host allocation, or the
 * n-th driver call, fails. */
#include "driver/driver.h"
#include "profiled.h"
#include "support/fault.h"
#include "support/test.h"
#include <stdio.h>
#include <unistd.h>

static profiled p;
static char record_path[64];

static ph_status body(ph_stream *stream, void *user)
{
    const ph_annotation_pair pair = {.key = "layer", .type = PH_ANNOTATION_INTEGER, .integer = 4};
    const ph_annotation_options options = {.pairs = &pair, .count = 1};
    PH_TRY(ph_annotation_push(stream, "outer", &options));
    ph_status status = profiled_diamond(stream, user);
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(status);
    return t_fill(&((const profiled *)user)->world, stream, p.y + 8, 4, 5);
}

static ph_status eager(ph_stream *stream, void *user)
{
    return t_fill(&((const profiled *)user)->world, stream, p.y + 8, 4, 5);
}

/* All calls that can fail for want of memory. */
static ph_status look(ph_profile_source source)
{
    ph_profile *profile;
    char *text = NULL;
    ph_verdict verdict;
    const ph_profile_options options = {.replays = 2, .warmup = 1, .source = source};
    const ph_verdict_options rounds = {.rounds = 1};
    ph_status status = ph_graph_profile(&profile, p.graph, p.a, &options);
    assert_int_equal(status == PH_OK, profile != NULL);
    if (status == PH_OK)
        status = ph_profile_trace(&text, profile);
    assert_int_equal(status == PH_OK, text != NULL);
    if (status == PH_OK)
        status = ph_profile_dump_record(profile, p.graph, record_path);
    if (status == PH_OK)
        status = ph_graph_verdict(&verdict, p.graph, p.a, eager, &p, &rounds);
    if (status == PH_OK)
        profiled_check_sums(profile);
    ph_string_free(text);
    ph_profile_destroy(profile);
    return status;
}

static void assert_usable(void)
{
    assert_ok(ph_stream_synchronize(p.a));
    assert_ok(ph_memset(p.y, 0, CELLS * sizeof *p.y, p.a));
    assert_ok(ph_graph_replay(p.graph, p.a));
    t_all(p.y + 8, 4, 5, p.a);
}

static void open_it(void)
{
    const ph_capture_options options = {.enable_annotations = true};
    profiled_open(&p);
    assert_ok(ph_graph_capture(p.graph, p.a, &options, body, &p));
}

/* Sources that the device has. Of a real GPU's, which takes its time to begin and end with
 * CUPTI, events alone. */
static bool has(ph_profile_source source)
{
    if (!t_on_host() && !fake_cuda() && source != PH_PROFILE_EVENTS)
        return false;
    ph_status status = look(source);
    if (status != PH_OK)
        assert_int_equal(status, PH_ERROR_UNSUPPORTED);
    return status == PH_OK;
}

TEST(a_profile_without_host_memory_leaves_the_graph_usable)
{
    for (int source = PH_PROFILE_AUTO; source <= PH_PROFILE_EVENTS; source++) {
        open_it();
        for (int64_t n = 0, there = has((ph_profile_source)source); there; n++) {
            int64_t made = ph__alloc_count();
            ph__alloc_fail_after(n);
            ph_status status = look((ph_profile_source)source);
            ph__alloc_fail_after(PH__ALLOC_NEVER);
            bool hit = ph__alloc_count() - made >= n;
            /* That CUPTI or events could not be had for want of memory may be told as that. */
            if (status != PH_OK && status != PH_ERROR_UNSUPPORTED)
                assert_int_equal(status, PH_ERROR_HOST_MEMORY);
            assert_usable();
            if (status == PH_OK && !hit)
                break;
        }
        profiled_close(&p);
    }
}

TEST(a_profile_with_a_failing_call_leaves_the_graph_usable)
{
    for (int source = PH_PROFILE_AUTO; source <= PH_PROFILE_EVENTS; source++) {
        open_it();
        for (int64_t n = 0, there = has((ph_profile_source)source); there; n++) {
            int64_t before = ph__driver_calls();
            ph__driver_fail_after(n, PH__R_LAUNCH_FAILED);
            ph_status status = look((ph_profile_source)source);
            ph__driver_fail_after(-1, 0);
            bool hit = ph__driver_calls() - before > n;
            assert_int_equal(status, hit && status != PH_OK ? PH_ERROR_DEVICE : PH_OK);
            assert_usable();
            if (!hit)
                break;
        }
        profiled_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_profile_without_host_memory_leaves_the_graph_usable),
        cmocka_unit_test(a_profile_with_a_failing_call_leaves_the_graph_usable),
    };
    (void)snprintf(record_path, sizeof record_path, "/tmp/phonograph-faults-%d.json",
                   (int)getpid());
    int failed = cmocka_run_group_tests_name("inspect.profile_faults", tests, NULL, NULL);
    (void)unlink(record_path);
    return failed;
}
