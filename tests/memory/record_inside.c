/* SPDX-License-Identifier: MIT */
/* tests/memory/record_inside.c: ph_record_stream with an address inside a block: the use is of the
 * whole block. */
#include "support/support.h"
#include "support/test.h"

enum {
    BYTES = 4096
};

static t_world w;
static ph_stream *s0, *s1;

FIXTURE(setup)
{
    t_open(&w, NULL);
    assert_ok(ph_stream_create(&s0, w.device, NULL));
    assert_ok(ph_stream_create(&s1, w.device, NULL));
    return 0;
}

FIXTURE(teardown)
{
    ph_stream_destroy(s0);
    ph_stream_destroy(s1);
    t_close(&w);
    return 0;
}

static size_t deferred(void)
{
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, w.device));
    return stats.deferred;
}

TEST(a_use_of_a_part_keeps_the_block_until_it_is_over)
{
    t_gate gate = {0};
    char *p;
    assert_ok(ph_malloc(&p, 1, BYTES, s0));
    assert_ok(ph_stream_synchronize(s0));
    assert_ok(t_gate_wait_guarded(&gate, s1));
    assert_ok(ph_record_stream(p + 1024, s1));
    ph_free(p, s0);
    if (t_gate_held(&gate))
        assert_int_equal(deferred(), 1);
    t_gate_open(&gate);
    assert_ok(ph_device_synchronize(w.device));
    assert_int_equal(deferred(), 0);
}

TEST(an_address_behind_a_block_is_not_in_it)
{
    char *p;
    assert_ok(ph_malloc(&p, 1, BYTES, s0));
    assert_error(ph_record_stream(p + BYTES, s1), PH_ERROR_NOT_FOUND, "no live allocation");
    ph_free(p, s0);
    assert_error(ph_record_stream(p + 1024, s1), PH_ERROR_NOT_FOUND, "no live allocation");
}

TEST(a_use_of_a_part_of_pinned_memory_is_of_all_of_it)
{
    char *p;
    assert_ok(ph_malloc_pinned(&p, BYTES, 1, s0));
    assert_ok(ph_record_stream(p + 1024, s1));
    ph_free_pinned(p, s0);
    assert_error(ph_record_stream(p + 1024, s1), PH_ERROR_NOT_FOUND, "no live allocation");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_use_of_a_part_keeps_the_block_until_it_is_over, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_use_of_a_part_of_pinned_memory_is_of_all_of_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_address_behind_a_block_is_not_in_it, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
