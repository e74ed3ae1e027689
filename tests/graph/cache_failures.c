/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_failures.c: a call is never lost: what fails in a capture runs eagerly, once;
 * updates of what cannot be learned; the budget; misuse. */
#include "support/cached.h"

#include "base/alloc.h"
#include "support/test.h"
#include <stdio.h>

static t_cached s;

/* What the event callback was told. */
static struct {
    int evicted, refused, beyond;
    char reason[240];
} told;

static void on_event(const ph_graph_cache_event *event, void *user)
{
    (void)user;
    told.evicted += event->what == PH_CACHE_EVICTED;
    told.refused += event->what == PH_CACHE_REFUSED;
    told.beyond += event->what == PH_CACHE_BEYOND;
    (void)snprintf(told.reason, sizeof told.reason, "%s", event->reason);
    assert_true(event->what == PH_CACHE_BEYOND || event->key_bytes > 0);
}

static void open_with(ph_graph_cache_options options)
{
    memset(&told, 0, sizeof told);
    options.event = on_event;
    t_cached_open(&s, &options);
}

static void close_scene(void)
{
    t_cached_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

TEST(a_body_that_a_capture_refuses_runs_eagerly_and_is_captured_once)
{
    open_with((ph_graph_cache_options){0});
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5, .synchronizes = true};
    ph_graph_cache_entry entry;
    for (int i = 0; i < 5; i++)
        t_cached_run(&s, "a", &w, 10, PH_CACHE_EAGER);
    assert_int_equal(w.bodies, 6); /* once more in the capture */
    assert_int_equal(told.refused, 1);
    assert_non_null(strstr(told.reason, "ph_stream_synchronize"));
    assert_ok(ph_graph_cache_entry_at(&entry, s.cache, 0));
    assert_true(entry.refused && !entry.has_graph);
    assert_non_null(strstr(entry.reason, "ph_stream_synchronize"));
    assert_int_equal(entry.status, PH_ERROR_CAPTURE);
    assert_int_equal(entry.native_code, 900);
    w.synchronizes = false;
    t_cached_run(&s, "a", &w, 10, PH_CACHE_EAGER);
    assert_ok(ph_graph_cache_drop(s.cache, "a", 1));
    for (int i = 0; i < 3; i++)
        t_cached_run(&s, "a", &w, 10, i < 2 ? PH_CACHE_EAGER : PH_CACHE_CAPTURED);
    close_scene();
}

TEST(a_body_that_fails_for_its_own_reason_is_not_called_again)
{
    open_with((ph_graph_cache_options){.after = PH_ZERO});
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5, .gives_up = true};
    assert_error(t_cached_call(&s, "a", &w, NULL), PH_ERROR_CALLER, "the body gives up");
    assert_int_equal(w.bodies, 1);
    t_all(s.total, 1, 0, s.world.stream);
    w.gives_up = false;
    t_cached_run(&s, "a", &w, 10, PH_CACHE_CAPTURED);
    w.x = s.buffers[2];
    w.gives_up = true; /* while it is captured to learn from */
    assert_error(t_cached_call(&s, "a", &w, NULL), PH_ERROR_CALLER, "the body gives up");
    w.gives_up = false;
    t_cached_run(&s, "a", &w, 20, PH_CACHE_LEARNED);
    close_scene();
}

TEST(a_refused_capture_to_learn_from_runs_eagerly)
{
    open_with((ph_graph_cache_options){.after = PH_ZERO});
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    t_cached_run(&s, "a", &w, 10, PH_CACHE_CAPTURED);
    w.x = s.buffers[2];
    w.synchronizes = true;
    t_cached_run(&s, "a", &w, 20, PH_CACHE_EAGER);
    w.synchronizes = false;
    t_cached_run(&s, "a", &w, 20, PH_CACHE_LEARNED);
    close_scene();
}

TEST(a_replay_that_is_refused_runs_eagerly_and_the_key_is_captured_again)
{
    ph_capture_options capture = {.check_input_liveness = true};
    open_with((ph_graph_cache_options){.after = PH_ZERO, .capture = &capture});
    int32_t *gone;
    assert_ok(PH_NEW(&gone, T_CACHED_N, s.world.stream));
    assert_ok(t_fill(&s.world, s.world.stream, gone, T_CACHED_N, 10));
    t_cached_work w = {.x = gone, .y = s.outputs[0], .value = 5};
    t_cached_run(&s, "a", &w, 10, PH_CACHE_CAPTURED);
    const void *pointers[] = {gone, w.y};
    const ph_graph_cache_value values[] = {{&w.value, sizeof w.value}};
    ph_free(gone, s.world.stream);
    w.x = s.buffers[1]; /* the body has other memory, and the call does not say so */
    ph_graph_cache_result result;
    ph_graph_cache_call call = {.key = "a",
                                .key_bytes = 1,
                                .body = t_cached_body,
                                .user = &w,
                                .pointers = pointers,
                                .pointer_count = 2,
                                .values = values,
                                .value_count = 1};
    assert_ok(ph_graph_cache_run(s.cache, s.world.stream, &call, &result));
    t_cached_expect(&s, &w, 10);
    assert_int_equal(result.path, PH_CACHE_EAGER);
    assert_non_null(strstr(result.reason, "freed"));
    t_cached_run(&s, "a", &w, 10, PH_CACHE_CAPTURED);
    close_scene();
}

/* ---- updates ---- */
TEST(what_cannot_be_learned_is_updated_where_that_is_asked_for)
{
    open_with((ph_graph_cache_options){.after = PH_ZERO, .fallback = PH_CACHE_FALLBACK_UPDATE});
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    ph_graph_cache_stats stats;
    t_cached_run(&s, "a", &w, 10, PH_CACHE_CAPTURED);
    for (int i = 0; i < 20; i++) { /* topologies of 4 to 9 nodes: more than a key keeps */
        w.more = 1 + i % 6;
        w.value = 100 + i;
        w.x = s.buffers[i % T_CACHED_BUFFERS];
        t_cached_run(&s, "a", &w, 10 * (i % T_CACHED_BUFFERS), PH_CACHE_UPDATED);
    }
    assert_ok(ph_graph_cache_get_stats(&stats, s.cache));
    assert_int_equal(stats.updated, 20);
    assert_int_equal(stats.graphs, 1);
    w.more = 0;
    w.value = 5;
    w.x = s.buffers[1];
    t_cached_run(&s, "a", &w, 10, PH_CACHE_REPLAYED);
    close_scene();
}

/* ---- the budget ---- */
TEST(graphs_go_in_order_of_their_last_use)
{
    open_with((ph_graph_cache_options){.after = PH_ZERO, .max_graphs = 2});
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    ph_graph_cache_stats stats;
    t_cached_run(&s, "a", &w, 10, PH_CACHE_CAPTURED);
    t_cached_run(&s, "b", &w, 10, PH_CACHE_CAPTURED);
    t_cached_run(&s, "a", &w, 10, PH_CACHE_REPLAYED);
    t_cached_run(&s, "c", &w, 10, PH_CACHE_CAPTURED);
    assert_int_equal(told.evicted, 1);
    t_cached_run(&s, "a", &w, 10, PH_CACHE_REPLAYED);
    t_cached_run(&s, "b", &w, 10, PH_CACHE_CAPTURED);
    assert_ok(ph_graph_cache_get_stats(&stats, s.cache));
    assert_int_equal(stats.graphs, 2);
    assert_int_equal(stats.evicted, 2);
    close_scene();
}

TEST(a_graph_that_does_not_fit_alone_runs_eagerly)
{
    open_with((ph_graph_cache_options){.after = PH_ZERO, .budget = 1});
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    ph_graph_cache_stats stats;
    for (int i = 0; i < 3; i++)
        t_cached_run(&s, "a", &w, 10, PH_CACHE_EAGER);
    assert_int_equal(told.refused, 1);
    assert_non_null(strstr(told.reason, "beyond the budget"));
    assert_ok(ph_graph_cache_get_stats(&stats, s.cache));
    assert_int_equal(stats.graphs, 0);
    close_scene();
}

typedef struct large {
    size_t bytes;
    int32_t *y;
} large;

static ph_status large_body(ph_stream *stream, void *user)
{
    const large *l = user;
    void *room;
    PH_TRY(ph_malloc(&room, l->bytes, 1, stream));
    ph_status status = ph_memset(room, 3, 64, stream);
    if (status == PH_OK)
        status = ph_memcpy(l->y, room, 64, stream);
    ph_free(room, stream);
    return status;
}

/* Two graphs whose memory does not fit together: each fits alone. */
TEST(a_graph_that_fits_without_the_others_is_captured_later)
{
    const size_t mib = (size_t)1 << 20;
    open_with((ph_graph_cache_options){.after = PH_ZERO, .budget = 60 * mib});
    ph_graph_cache_stats stats;
    int captured[2] = {0, 0};
    for (int i = 0; i < 8; i++) {
        large l = {.bytes = (i % 2 ? 45 : 30) * mib, .y = s.outputs[0]};
        ph_graph_cache_result result;
        assert_ok(ph_graph_cache_run(
            s.cache, s.world.stream,
            &(ph_graph_cache_call){
                .key = &l.bytes, .key_bytes = sizeof l.bytes, .body = large_body, .user = &l},
            &result));
        t_all(s.outputs[0], 16, 0x03030303, s.world.stream);
        captured[i % 2] += result.path == PH_CACHE_CAPTURED;
        assert_ok(ph_graph_cache_get_stats(&stats, s.cache));
        assert_true(stats.executable_bytes + stats.pool_bytes <= 60 * mib);
    }
    assert_true(captured[0] > 0 && captured[1] > 0);
    assert_int_equal(stats.refused, 0);
    close_scene();
}

/* Many topologies, room for few: memory stays. */
TEST(memory_stays_within_the_budget_over_many_topologies)
{
    open_with((ph_graph_cache_options){.after = PH_ZERO, .max_graphs = 8});
    int calls = t_nightly() ? 100000 : 1500, kinds = 338;
    uint64_t random = 88172645463325252u;
    int64_t live = 0;
    ph_graph_cache_stats stats;
    for (int i = 0; i < calls; i++) {
        char key[16];
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        int kind = (int)(random % (unsigned)kinds);
        t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = kind, .more = kind % 7};
        (void)snprintf(key, sizeof key, "%d", kind);
        ph_graph_cache_result result;
        assert_ok(t_cached_call(&s, key, &w, &result));
        s.calls++;
        if (i % 97 == 0) {
            s.calls--;
            t_cached_expect(&s, &w, 10);
        }
        /* A stream keeps the memory of as many commands as ever waited at once. So few may wait,
         * and what the halves have does not depend on how far the thread was ahead. */
        if (i % 8 == 0)
            assert_ok(ph_stream_synchronize(s.world.stream));
        if (i == calls / 2) {
            assert_ok(ph_stream_synchronize(s.world.stream)); /* replays keep what they use */
            live = ph__alloc_live();
        }
        assert_ok(ph_graph_cache_get_stats(&stats, s.cache));
        assert_true(stats.graphs <= 8 && stats.keys <= 8 * 16);
    }
    assert_ok(ph_stream_synchronize(s.world.stream));
    assert_true(ph__alloc_live() < live + live / 4 + 64);
    close_scene();
}

/* ---- misuse ---- */
TEST(misuse_is_refused_by_name)
{
    open_with((ph_graph_cache_options){0});
    t_cached_work w = {.scene = &s, .x = s.buffers[1], .y = s.outputs[0], .value = 5};
    const void *pointers[] = {w.x, w.y, NULL};
    ph_graph_cache_value values[] = {{&w.value, sizeof w.value}};
    ph_graph_cache_call call = {.key = "k",
                                .key_bytes = 1,
                                .body = t_cached_body,
                                .user = &w,
                                .pointers = pointers,
                                .pointer_count = 2,
                                .values = values,
                                .value_count = 1};
    ph_graph_cache *none;
    ph_capture_options capture = {.prepare = true};
    ph_device *other;
    ph_stream *stream;
    ph_graph_cache_options options = {.capture = &capture};
    assert_error(ph_graph_cache_create(&none, s.world.device, &options), PH_ERROR_ARGUMENT,
                 "prepare");
    assert_error(ph_graph_cache_create(&none, NULL, NULL), PH_ERROR_ARGUMENT, "device");
    options = (ph_graph_cache_options){.max_graphs = PH_ZERO};
    assert_error(ph_graph_cache_create(&none, s.world.device, &options), PH_ERROR_ARGUMENT,
                 "max_graphs");
    options = (ph_graph_cache_options){.renew_after = 3};
    assert_error(ph_graph_cache_create(&none, s.world.device, &options), PH_ERROR_ARGUMENT,
                 "renew_after (3)");
    assert_null(none);
    options.renew_after = PH_ZERO; /* never, as without updates */
    assert_ok(ph_graph_cache_create(&none, s.world.device, &options));
    ph_graph_cache_destroy(none);
    call.key_bytes = 0;
    assert_error(ph_graph_cache_run(s.cache, s.world.stream, &call, NULL), PH_ERROR_ARGUMENT,
                 "a key of 0 bytes");
    call.key_bytes = 1;
    assert_ok(ph_graph_cache_run(s.cache, s.world.stream, &call, NULL));
    call.pointer_count = 3;
    assert_error(ph_graph_cache_run(s.cache, s.world.stream, &call, NULL), PH_ERROR_ARGUMENT,
                 "earlier calls of the key had 2 and 1");
    call.pointer_count = 2;
    values[0].bytes = 2;
    assert_error(ph_graph_cache_run(s.cache, s.world.stream, &call, NULL), PH_ERROR_ARGUMENT,
                 "value 0 has 2 bytes, and 4");
    values[0].bytes = 257;
    assert_error(ph_graph_cache_run(s.cache, s.world.stream, &call, NULL), PH_ERROR_ARGUMENT,
                 "value 0 has 257 bytes");
    call.body = NULL;
    assert_error(ph_graph_cache_run(s.cache, s.world.stream, &call, NULL), PH_ERROR_ARGUMENT,
                 "body");
    assert_error(ph_graph_cache_run(s.cache, NULL, &call, NULL), PH_ERROR_ARGUMENT, "stream");
    assert_ok(ph_device_open(&other, "host:threads=1", NULL));
    assert_ok(ph_stream_create(&stream, other, NULL));
    assert_error(ph_graph_cache_run(s.cache, stream, &call, NULL), PH_ERROR_WRONG_DEVICE,
                 "the cache");
    ph_stream_destroy(stream);
    ph_device_release(other);
    ph_graph_cache_destroy(NULL);
    close_scene();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_that_a_capture_refuses_runs_eagerly_and_is_captured_once),
        cmocka_unit_test(a_body_that_fails_for_its_own_reason_is_not_called_again),
        cmocka_unit_test(a_refused_capture_to_learn_from_runs_eagerly),
        cmocka_unit_test(a_replay_that_is_refused_runs_eagerly_and_the_key_is_captured_again),
        cmocka_unit_test(what_cannot_be_learned_is_updated_where_that_is_asked_for),
        cmocka_unit_test(graphs_go_in_order_of_their_last_use),
        cmocka_unit_test(a_graph_that_does_not_fit_alone_runs_eagerly),
        cmocka_unit_test(a_graph_that_fits_without_the_others_is_captured_later),
        cmocka_unit_test(memory_stays_within_the_budget_over_many_topologies),
        cmocka_unit_test(misuse_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
