/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_learn.c: places of pointers and values are learned from captures, and never
 * guessed. */
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

static void capture(const char *key, t_cached_work *w, int32_t x_value)
{
    for (int i = 0; i < 3; i++)
        t_cached_run(&s, key, w, x_value, i < 2 ? PH_CACHE_EAGER : PH_CACHE_CAPTURED);
}

static void expect_reason(const char *key, t_cached_work *w, int32_t x_value,
                          ph_graph_cache_path path, const char *part)
{
    ph_graph_cache_result result;
    assert_ok(t_cached_call(&s, key, w, &result));
    t_cached_expect(&s, w, x_value);
    assert_int_equal(result.path, path);
    if (!strstr(result.reason, part))
        print_error("%s\n", result.reason);
    assert_non_null(strstr(result.reason, part));
}

TEST(a_pointer_that_moves_is_learned_once_and_then_set)
{
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    capture("a", &w, 10);
    w.x = t_opposite(s.buffers[2], s.buffers[1]);
    t_cached_run(&s, "a", &w, 20, PH_CACHE_LEARNED);
    for (int i = 3; i < T_CACHED_BUFFERS; i++) {
        w.x = s.buffers[i];
        t_cached_run(&s, "a", &w, 10 * i, PH_CACHE_REPLAYED);
        t_cached_run(&s, "a", &w, 10 * i, PH_CACHE_REPLAYED);
    }
    assert_int_equal(w.bodies, 4);
    w.y = s.outputs[1]; /* one that no capture has moved */
    t_cached_run(&s, "a", &w, 70, PH_CACHE_LEARNED);
    w.y = s.outputs[0];
    w.x = s.buffers[4];
    t_cached_run(&s, "a", &w, 40, PH_CACHE_REPLAYED);
}

TEST(pointers_that_move_by_equal_distances_are_one_group_until_a_capture_divides_it)
{
    int32_t *x = s.buffers[1], *y = x + T_CACHED_N;
    t_cached_work w = {.x = x, .y = y, .value = 5};
    const size_t step = 2 * T_CACHED_N;
    assert_ok(t_fill(&s.world, s.world.stream, x, T_CACHED_ROOM, 10));
    capture("a", &w, 10);
    w.x = x + step; /* both by 2 N */
    w.y = y + step;
    t_cached_run(&s, "a", &w, 10, PH_CACHE_LEARNED);
    w.x = x;
    w.y = y;
    t_cached_run(&s, "a", &w, 10, PH_CACHE_REPLAYED);
    w.y = y + step; /* one alone */
    t_cached_run(&s, "a", &w, 10, PH_CACHE_LEARNED);
    w.x = x + step;
    w.y = y;
    t_cached_run(&s, "a", &w, 10, PH_CACHE_REPLAYED);
    ph_graph_cache_entry entry;
    assert_ok(ph_graph_cache_entry_at(&entry, s.cache, 0));
    assert_int_equal(entry.moved_groups, 2);
}

TEST(address_bits_that_no_capture_changed_are_not_accepted)
{
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    capture("a", &w, 10);
    w.x = s.buffers[1] + 128; /* bit 9, and what carries */
    t_cached_run(&s, "a", &w, 10, PH_CACHE_LEARNED);
    w.x = s.buffers[1] + 1; /* bit 2: a kernel for aligned addresses may be another one */
    t_cached_run(&s, "a", &w, 10, PH_CACHE_LEARNED);
    w.x = s.buffers[1] + 129;
    t_cached_run(&s, "a", &w, 10, PH_CACHE_REPLAYED);
}

TEST(a_value_that_changes_is_learned_and_set)
{
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    capture("a", &w, 10);
    w.value = 0x01020304;
    t_cached_run(&s, "a", &w, 10, PH_CACHE_LEARNED);
    for (int32_t i = -3; i < 300; i += 101) {
        w.value = i;
        w.x = s.buffers[1];
        t_cached_run(&s, "a", &w, 10, PH_CACHE_REPLAYED);
    }
    w.x = t_opposite(s.buffers[3], s.buffers[1]); /* both at once */
    w.value = 77;
    t_cached_run(&s, "a", &w, 30, PH_CACHE_LEARNED);
    w.x = s.buffers[5];
    w.value = 78;
    t_cached_run(&s, "a", &w, 50, PH_CACHE_REPLAYED);
}

TEST(a_pointer_and_a_value_that_change_together_are_told_apart)
{
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    capture("a", &w, 10);
    w.x = t_opposite(s.buffers[3], s.buffers[1]);
    w.y = t_opposite(s.outputs[1], s.outputs[0]);
    w.value = 0x01020304;
    t_cached_run(&s, "a", &w, 30, PH_CACHE_LEARNED);
    w.x = s.buffers[6];
    w.y = s.outputs[0];
    t_cached_run(&s, "a", &w, 60, PH_CACHE_REPLAYED);
    w.value = 9;
    w.y = s.outputs[1];
    t_cached_run(&s, "a", &w, 60, PH_CACHE_REPLAYED);
}

/* What is not in the key, and is no pointer and no value, differs. */
TEST(other_work_under_one_key_runs_eagerly_with_the_reason)
{
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    capture("a", &w, 10);
    w.more = 1;
    w.value = 6;
    for (int i = 0; i < 3; i++)
        expect_reason("a", &w, 10, PH_CACHE_EAGER, "the work has 4 nodes, the captured one 3");
    int bodies = w.bodies;
    expect_reason("a", &w, 10, PH_CACHE_EAGER, "the work has 4 nodes"); /* is not captured again */
    assert_int_equal(w.bodies, bodies + 1);
    w.more = 0;
    w.value = 5;
    t_cached_run(&s, "a", &w, 10, PH_CACHE_REPLAYED); /* what was captured is still right */
}

/* ---- bodies of other shapes ---- */
typedef struct odd {
    const int32_t *x;
    int32_t *y;
    int32_t value, count;
    enum {
        AS_IT_IS,
        HALVED,   /* the host computes with the value */
        UNUSED,   /* nothing has it */
        IN_A_FILL /* a fill's value */
    } how;
} odd;

static ph_status odd_body(ph_stream *stream, void *user)
{
    odd *o = user;
    if (o->how == IN_A_FILL)
        return ph_memset_u32(o->y, (uint32_t)o->value, T_CACHED_N, stream);
    return t_add(&s.world, stream, o->x, o->y, T_CACHED_N,
                 o->how == HALVED   ? o->value / 2
                 : o->how == UNUSED ? 1
                                    : o->value);
}

static ph_graph_cache_path run_odd(odd *o, int32_t want, const char *part)
{
    const void *pointers[] = {o->x, o->y};
    const ph_graph_cache_value values[] = {{&o->value, sizeof o->value},
                                           {&o->count, sizeof o->count}};
    ph_graph_cache_result result;
    assert_ok(ph_graph_cache_run(s.cache, s.world.stream,
                                 &(ph_graph_cache_call){.key = &o->how,
                                                        .key_bytes = sizeof o->how,
                                                        .body = odd_body,
                                                        .user = o,
                                                        .pointers = pointers,
                                                        .pointer_count = 2,
                                                        .values = values,
                                                        .value_count = 2},
                                 &result));
    t_all(o->y, T_CACHED_N, want, s.world.stream);
    if (part && !strstr(result.reason, part))
        print_error("%s\n", result.reason);
    assert_true(!part || strstr(result.reason, part));
    return result.path;
}

TEST(values_that_the_host_computes_with_or_that_nothing_has_run_eagerly)
{
    static const struct {
        unsigned how;
        int32_t first, second; /* results for 8 and 20 */
        const char *reason;
    } rows[] = {{HALVED, 14, 20, "which no pointer and no value explains"},
                {UNUSED, 11, 11, "value 0 differs, and no parameter of the graph does"},
                {IN_A_FILL, 8, 20, "its value differs"}};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        odd o = {.x = s.buffers[1], .y = s.outputs[0], .value = 8};
        o.how = rows[r].how;
        for (int i = 0; i < 4; i++)
            (void)run_odd(&o, rows[r].first, NULL);
        o.value = 20;
        assert_int_equal(run_odd(&o, rows[r].second, rows[r].reason), PH_CACHE_EAGER);
        o.value = 8;
        assert_int_equal(run_odd(&o, rows[r].first, NULL), PH_CACHE_REPLAYED);
    }
}

TEST(values_that_were_equal_in_all_captures_are_told_apart_when_they_differ)
{
    odd o = {.x = s.buffers[1], .y = s.outputs[0], .value = 3, .count = 3};
    for (int i = 0; i < 3; i++)
        (void)run_odd(&o, 13, NULL);
    o.value = o.count = 0x01010101;
    assert_int_equal(run_odd(&o, 0x01010101 + 10, NULL), PH_CACHE_LEARNED);
    o.value = o.count = 4;
    assert_int_equal(run_odd(&o, 14, NULL), PH_CACHE_REPLAYED);
    o.count = 9; /* the graph has one of them alone: a capture says which */
    assert_int_equal(run_odd(&o, 14, "value 1 differs, and no parameter"), PH_CACHE_EAGER);
    o.value = o.count = 6;
    assert_int_equal(run_odd(&o, 16, NULL), PH_CACHE_REPLAYED);
}

/* A number that moved as far as a pointer did, as an engine's offsets do, follows no pointer. */
typedef struct counted {
    const int32_t *x;
    int32_t *y;
    uint64_t n; /* elements; the grid is that of all */
} counted;

static ph_status counted_body(ph_stream *stream, void *user)
{
    const counted *o = user;
    const struct t_add_i32 args = {o->n, o->x, o->y, 5};
    ph_launch_config config = t_config(T_CACHED_ROOM);
    return ph_launch(stream, s.world.add_i32, &config, &args, sizeof args);
}

static ph_graph_cache_path run_counted(size_t elements, uint64_t n)
{
    counted o = {.x = s.buffers[1] + elements, .y = s.outputs[0], .n = n};
    const void *pointers[] = {o.x};
    const ph_graph_cache_value value = {&o.n, sizeof o.n};
    ph_graph_cache_result result;
    assert_ok(t_fill(&s.world, s.world.stream, o.y, T_CACHED_ROOM, 0));
    assert_ok(ph_graph_cache_run(s.cache, s.world.stream,
                                 &(ph_graph_cache_call){.key = "offset",
                                                        .key_bytes = 6,
                                                        .body = counted_body,
                                                        .user = &o,
                                                        .pointers = pointers,
                                                        .pointer_count = 1,
                                                        .values = &value,
                                                        .value_count = 1},
                                 &result));
    t_all(o.y, n, 15, s.world.stream);
    t_all(o.y + n, T_CACHED_ROOM - n, 0, s.world.stream);
    return result.path;
}

TEST(a_number_that_moved_as_far_as_a_pointer_follows_none)
{
    for (int i = 0; i < 3; i++)
        (void)run_counted(0, 0x100);
    assert_int_equal(run_counted(512, 0x100 + 512 * sizeof(int32_t)), PH_CACHE_LEARNED);
    assert_int_equal(run_counted(256, 301), PH_CACHE_LEARNED);
    assert_int_equal(run_counted(768, 0x0201), PH_CACHE_REPLAYED);
    assert_int_equal(run_counted(256, 2), PH_CACHE_REPLAYED);
}

/* Every call is right, whatever was learned. */
TEST(random_pointers_and_values_are_right_in_every_call)
{
    uint64_t random = 88172645463325252u;
    int rounds = t_nightly() ? 20000 : 1500;
    int learned = 0, replayed = 0;
    for (int i = 0; i < rounds; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        int buffer = (int)(random % T_CACHED_BUFFERS);
        size_t offset = random >> 8 & 3 ? (size_t)(random >> 10) % (2 * T_CACHED_N) : 0;
        t_cached_work w = {.x = s.buffers[buffer] + offset,
                           .y = s.outputs[random >> 20 & 1],
                           .value = (int32_t)(random >> 24) % 1000,
                           .more = (int)(random >> 40) % 3};
        ph_graph_cache_result result;
        assert_ok(t_cached_call(&s,
                                w.more == 0   ? "none"
                                : w.more == 1 ? "one"
                                              : "two",
                                &w, &result));
        t_cached_expect(&s, &w, 10 * buffer);
        learned += result.path == PH_CACHE_LEARNED;
        replayed += result.path == PH_CACHE_REPLAYED;
    }
    assert_true(learned >= 3 && learned < 100);
    assert_true(replayed > rounds * 3 / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_pointer_that_moves_is_learned_once_and_then_set),
        IN_WORLD(pointers_that_move_by_equal_distances_are_one_group_until_a_capture_divides_it),
        IN_WORLD(address_bits_that_no_capture_changed_are_not_accepted),
        IN_WORLD(a_value_that_changes_is_learned_and_set),
        IN_WORLD(a_pointer_and_a_value_that_change_together_are_told_apart),
        IN_WORLD(other_work_under_one_key_runs_eagerly_with_the_reason),
        IN_WORLD(values_that_the_host_computes_with_or_that_nothing_has_run_eagerly),
        IN_WORLD(values_that_were_equal_in_all_captures_are_told_apart_when_they_differ),
        IN_WORLD(a_number_that_moved_as_far_as_a_pointer_follows_none),
        IN_WORLD(random_pointers_and_values_are_right_in_every_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
