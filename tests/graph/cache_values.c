/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_values.c: values that the host computes with: what no capture has tried is
 * captured first. */
#include "support/cached.h"

#include "base/alloc.h"
#include "support/test.h"

static t_cached s;

FIXTURE(open_world)
{
    t_cached_open(&s, NULL);
    return 0;
}

FIXTURE(close_world)
{
    t_cached_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

/* The host gives a fill the value's lowest byte, which several captures have alike by chance. */
typedef struct cut {
    int32_t *y, *filled;
    int32_t value;
    bool fills;
} cut;

static ph_status cut_body(ph_stream *stream, void *user)
{
    cut *c = user;
    PH_TRY(t_add(&s.world, stream, s.buffers[1], c->y, T_CACHED_N, c->value));
    return c->fills
               ? ph_memset(c->filled, (uint8_t)c->value, T_CACHED_N * sizeof *c->filled, stream)
               : PH_OK;
}

static ph_graph_cache_result run_cut(cut *c, int32_t value)
{
    const ph_graph_cache_value of_call = {&value, sizeof value};
    ph_graph_cache_result result;
    c->value = value;
    assert_ok(ph_graph_cache_run(s.cache, s.world.stream,
                                 &(ph_graph_cache_call){.key = &c->fills,
                                                        .key_bytes = 1,
                                                        .body = cut_body,
                                                        .user = c,
                                                        .values = &of_call,
                                                        .value_count = 1},
                                 &result));
    t_all(c->y, T_CACHED_N, 10 + value, s.world.stream);
    if (c->fills)
        t_all(c->filled, T_CACHED_N, (value & 0xff) * 0x01010101, s.world.stream);
    return result;
}

TEST(bytes_of_a_value_that_no_capture_changed_are_captured_first)
{
    for (int fills = 0; fills < 2; fills++) {
        cut c = {.y = s.outputs[0], .filled = s.outputs[1], .fills = fills};
        for (int i = 0; i < 3; i++)
            (void)run_cut(&c, 0x100);
        assert_int_equal(run_cut(&c, 0x200).path, PH_CACHE_LEARNED);
        assert_int_equal(run_cut(&c, 0x300).path, PH_CACHE_REPLAYED);
        ph_graph_cache_result result = run_cut(&c, 0x32a);
        assert_int_equal(result.path, fills ? PH_CACHE_EAGER : PH_CACHE_LEARNED);
        if (fills)
            assert_non_null(strstr(result.reason, "its value differs"));
        assert_int_equal(run_cut(&c, 0x500).path, PH_CACHE_REPLAYED);
        assert_int_equal(run_cut(&c, 0x12e).path, fills ? PH_CACHE_EAGER : PH_CACHE_REPLAYED);
    }
}

/* The host rounds a count up, as for padding: such a number is the count itself for some counts. */
typedef struct padded {
    int32_t *y, *z;
    int32_t count;
} padded;

static ph_status padded_body(ph_stream *stream, void *user)
{
    const padded *p = user;
    PH_TRY(t_add(&s.world, stream, s.buffers[1], p->y, T_CACHED_N, p->count));
    return t_add(&s.world, stream, s.buffers[1], p->z, T_CACHED_N, (p->count + 31) / 32 * 32);
}

static ph_graph_cache_result run_padded(int32_t count)
{
    padded p = {.y = s.outputs[0], .z = s.outputs[1], .count = count};
    const ph_graph_cache_value value = {&count, sizeof count};
    ph_graph_cache_result result;
    assert_ok(ph_graph_cache_run(s.cache, s.world.stream,
                                 &(ph_graph_cache_call){.key = "padded",
                                                        .key_bytes = 6,
                                                        .body = padded_body,
                                                        .user = &p,
                                                        .values = &value,
                                                        .value_count = 1},
                                 &result));
    t_all(p.y, T_CACHED_N, 10 + count, s.world.stream);
    t_all(p.z, T_CACHED_N, 10 + (count + 31) / 32 * 32, s.world.stream);
    return result;
}

TEST(a_value_with_fewer_low_zeros_than_all_captures_is_captured_first)
{
    for (int i = 0; i < 3; i++)
        (void)run_padded(64);
    assert_int_equal(run_padded(128).path, PH_CACHE_LEARNED);
    assert_int_equal(run_padded(192).path, PH_CACHE_REPLAYED);
    assert_int_equal(run_padded(160).path, PH_CACHE_LEARNED); /* fewer, and a multiple of 32 */
    for (int32_t count = 152; count > 128; count -= 8)
        assert_int_equal(run_padded(count).path, PH_CACHE_EAGER);
    assert_int_equal(run_padded(224).path, PH_CACHE_REPLAYED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(bytes_of_a_value_that_no_capture_changed_are_captured_first),
        IN_WORLD(a_value_with_fewer_low_zeros_than_all_captures_is_captured_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
