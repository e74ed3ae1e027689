/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_owners.c: memory and graphs of a cache that belong to others too: the caller's
 * blocks in its pool, and graphs whose key is dropped while a call has them. */
#include "support/cached.h"

#include "base/alloc.h"
#include "cache/cache.h"
#include "driver/driver.h"
#include "support/fault.h"
#include "support/test.h"
#include <sched.h>
#include <stdlib.h>

/* With a cache of these options. */
static void open_cache(t_cached *s, const ph_graph_cache_options *options)
{
    ph_graph_cache_destroy(s->cache);
    assert_ok(ph_graph_cache_create(&s->cache, s->world.device, options));
}

/* Blocks of the caller's in the pool that the captures use: each begins an allocation, as the
 * captures' own do. */
TEST(callers_blocks_of_the_caches_pool_are_learned_as_other_memory)
{
    t_cached s;
    ph_pool *pool;
    int32_t *blocks[6];
    t_cached_open(&s, NULL);
    assert_ok(ph_pool_create(&pool, s.world.device, NULL));
    open_cache(&s, &(ph_graph_cache_options){.pool = pool});
    assert_ok(ph_pool_begin(pool));
    for (int i = 0; i < 6; i++)
        assert_ok(PH_NEW(&blocks[i], T_CACHED_ROOM, s.world.stream));
    assert_ok(ph_pool_end(pool));
    for (int i = 0; i < 6; i++)
        assert_ok(t_fill(&s.world, s.world.stream, blocks[i], T_CACHED_ROOM, 10 * i));
    t_cached_work w = {.x = blocks[0], .y = s.outputs[0], .value = 5};
    for (int i = 0; i < 3; i++)
        t_cached_run(&s, "a", &w, 0, i < 2 ? PH_CACHE_EAGER : PH_CACHE_CAPTURED);
    for (int i = 1; i < 6; i++) {
        w.x = blocks[i];
        t_cached_run(&s, "a", &w, 10 * i, i == 1 ? PH_CACHE_LEARNED : PH_CACHE_REPLAYED);
    }
    for (int i = 0; i < 6; i++)
        ph_free(blocks[i], s.world.stream);
    t_cached_close(&s);
    ph_pool_release(pool);
    assert_int_equal(ph__alloc_live(), 0);
}

/* ---- drops ---- */
typedef struct dropping {
    t_cached *scene;
    int32_t *y;
} dropping;

static ph_status dropping_body(ph_stream *stream, void *user)
{
    const dropping *d = user;
    ph_status dropped = ph_graph_cache_drop(d->scene->cache, "d", 1);
    if (dropped != PH_OK && dropped != PH_ERROR_NOT_FOUND)
        return dropped;
    return t_add(&d->scene->world, stream, d->y, d->y, T_CACHED_N, 1);
}

TEST(a_result_has_no_graph_of_a_key_that_was_dropped_meanwhile)
{
    t_cached s;
    ph_graph_cache_result result;
    t_cached_open(&s, NULL);
    open_cache(&s, &(ph_graph_cache_options){.after = PH_ZERO});
    dropping d = {&s, s.outputs[0]};
    assert_ok(t_fill(&s.world, s.world.stream, d.y, T_CACHED_N, 0));
    for (int i = 1; i < 4; i++) {
        assert_ok(ph_graph_cache_run(
            s.cache, s.world.stream,
            &(ph_graph_cache_call){.key = "d", .key_bytes = 1, .body = dropping_body, .user = &d},
            &result));
        t_all(d.y, T_CACHED_N, i, s.world.stream);
        assert_int_equal(result.path, PH_CACHE_CAPTURED);
        assert_null(result.graph);
        assert_int_equal(result.epoch, 0);
    }
    t_cached_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* Hits look at it before they take a lock of the cache's. */
TEST(the_key_used_before_one_that_is_dropped_is_the_last_one)
{
    t_cached s;
    t_cached_open(&s, &(ph_graph_cache_options){.after = PH_ZERO});
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 7};
    t_cached_run(&s, "a", &w, 10, PH_CACHE_CAPTURED);
    ph__cache_entry *first = s.cache->newest;
    t_cached_run(&s, "b", &w, 10, PH_CACHE_CAPTURED);
    assert_ptr_equal(atomic_load(&s.cache->last), s.cache->newest);
    assert_ok(ph_graph_cache_drop(s.cache, "b", 1));
    t_cached_run(&s, "a", &w, 10, PH_CACHE_REPLAYED);
    assert_ptr_equal(atomic_load(&s.cache->last), first);
    assert_ok(ph_graph_cache_drop(s.cache, "a", 1));
    assert_null(atomic_load(&s.cache->last));
    t_cached_run(&s, "a", &w, 10, PH_CACHE_CAPTURED);
    t_cached_run(&s, "a", &w, 10, PH_CACHE_REPLAYED);
    t_cached_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* Another thread's drops change the bytes of executables that the budget is compared with. */
typedef struct dropper {
    t_cached scene;
    pthread_t thread;
    atomic_bool over;
} dropper;

static void *drop_keys(void *user)
{
    dropper *d = user;
    for (int key = 0; !atomic_load(&d->over); key = (key + 1) % 4) {
        ph_status status = ph_graph_cache_drop(d->scene.cache, &key, sizeof key);
        if (status != PH_OK && status != PH_ERROR_NOT_FOUND)
            print_error("%s\n", ph_error_last()->message);
    }
    return NULL;
}

static ph_status add_one(ph_stream *stream, void *user)
{
    t_cached *s = user;
    return t_add(&s->world, stream, s->outputs[0], s->outputs[0], T_CACHED_N, 1);
}

TEST(keys_are_dropped_by_another_thread_while_a_cache_with_a_budget_captures)
{
    dropper d = {.over = false};
    t_cached *s = &d.scene;
    t_cached_open(s, NULL);
    open_cache(s, &(ph_graph_cache_options){.after = PH_ZERO, .budget = 1u << 30});
    assert_ok(t_fill(&s->world, s->world.stream, s->outputs[0], T_CACHED_N, 0));
    assert_int_equal(pthread_create(&d.thread, NULL, drop_keys, &d), 0);
    for (int i = 0; i < 200; i++) {
        int key = i % 4;
        assert_ok(ph_graph_cache_run(
            s->cache, s->world.stream,
            &(ph_graph_cache_call){
                .key = &key, .key_bytes = sizeof key, .body = add_one, .user = s},
            NULL));
    }
    atomic_store(&d.over, true);
    assert_int_equal(pthread_join(d.thread, NULL), 0);
    t_all(s->outputs[0], T_CACHED_N, 200, s->world.stream);
    t_cached_close(s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* A hook of replays that runs the cache, with the key that is being replayed. */
typedef struct hooked {
    t_cached s;
    t_cached_work within;
    ph_graph_hook_point at;
    int runs, entries;
    ph_graph_cache_result result;
} hooked;

static ph_status run_within(const ph_graph_hook_info *info, void *user)
{
    hooked *h = user;
    char *text;
    (void)info;
    if (h->runs++) /* of the replay that its own call may be */
        return PH_OK;
    assert_ok(ph_graph_cache_text(&text, h->s.cache));
    h->entries += strstr(text, "1 with graphs") != NULL;
    ph_string_free(text);
    assert_ok(t_cached_call(&h->s, "a", &h->within, &h->result));
    h->s.calls++;
    return PH_OK;
}

static void run_hooked(ph_graph_hook_point at, bool moves)
{
    hooked h = {.at = at};
    ph_hook *hook;
    t_cached_work w = {.x = NULL};
    t_cached_open(&h.s, &(ph_graph_cache_options){.after = PH_ZERO});
    for (int i = 0; i < 3; i++) {
        w = (t_cached_work){.x = h.s.buffers[1 + i], .y = h.s.outputs[0], .value = 7};
        t_cached_run(&h.s, "a", &w, 10 * (1 + i), i ? PH_CACHE_LEARNED : PH_CACHE_CAPTURED);
        if (i)
            break;
    }
    h.within = (t_cached_work){.x = h.s.buffers[4], .y = h.s.outputs[1], .value = 7};
    assert_ok(ph_graph_hook_add(&hook, NULL, at, run_within, &h));
    w.x = h.s.buffers[moves ? 3 : 2];
    t_cached_run(&h.s, "a", &w, moves ? 30 : 20, PH_CACHE_REPLAYED);
    assert_int_equal(h.entries, 1);
    assert_int_equal(h.result.path, PH_CACHE_EAGER);
    assert_non_null(strstr(h.result.reason, "another call of the key"));
    t_all(h.s.outputs[1], T_CACHED_N, 47, h.s.world.stream);
    ph_graph_hook_remove(hook);
    w.x = h.s.buffers[5];
    t_cached_run(&h.s, "a", &w, 50, PH_CACHE_REPLAYED);
    t_cached_close(&h.s);
    assert_int_equal(ph__alloc_live(), 0);
}

TEST(hooks_of_replays_may_run_the_cache)
{
    for (int moves = 0; moves < 2; moves++) {
        run_hooked(PH_HOOK_REPLAY_START, moves);
        run_hooked(PH_HOOK_REPLAY_END, moves);
    }
}

/* Another thread drops the key while a hit replays. */
typedef struct late_drop {
    t_cached *s;
    ph__mutex *lock; /* of the entry */
    pthread_t thread;
    ph_status status;
} late_drop;

static void *drop_late(void *user)
{
    late_drop *d = user;
    d->status = ph_graph_cache_drop(d->s->cache, "a", 1);
    return NULL;
}

static void drop_meanwhile(void *user)
{
    late_drop *d = user;
    if (!ph__thread_start(&d->thread, "dropper", drop_late, d))
        abort();
    while (atomic_load(&d->lock->state) != 2)
        sched_yield();
}

TEST(a_hit_has_no_graph_of_a_key_that_was_dropped_meanwhile)
{
    t_cached s;
    t_cached_open(&s, &(ph_graph_cache_options){.after = PH_ZERO});
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 7};
    t_cached_run(&s, "a", &w, 10, PH_CACHE_CAPTURED);
    t_cached_run(&s, "a", &w, 10, PH_CACHE_REPLAYED);
    late_drop d = {.s = &s, .lock = &s.cache->newest->lock};
    ph_graph_cache_result result;
    ph_graph_cache_stats stats;
    ph__driver_before("exec_relaunch", drop_meanwhile, &d);
    assert_ok(t_cached_call(&s, "a", &w, &result));
    assert_int_equal(pthread_join(d.thread, NULL), 0);
    assert_ok(d.status);
    t_cached_expect(&s, &w, 10);
    assert_int_equal(result.path, PH_CACHE_REPLAYED);
    assert_null(result.graph);
    assert_int_equal(result.epoch, 0);
    assert_ok(ph_graph_cache_get_stats(&stats, s.cache));
    assert_int_equal(stats.keys, 0);
    assert_int_equal(stats.replayed, 2);
    t_cached_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* The call is a user of what is dropped only when its replay has failed. */
static void drop_and_fail(void *user)
{
    drop_meanwhile(user);
    ph__driver_fail_after(0, PH__R_LAUNCH_FAILED);
}

TEST(a_key_is_dropped_while_its_replay_fails)
{
    t_cached s;
    t_cached_open(&s, &(ph_graph_cache_options){.after = PH_ZERO});
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 7}, others[3];
    t_cached_run(&s, "a", &w, 10, PH_CACHE_CAPTURED);
    t_cached_run(&s, "a", &w, 10, PH_CACHE_REPLAYED);
    late_drop d = {.s = &s, .lock = &s.cache->newest->lock};
    ph_graph_cache_result result;
    ph__driver_before("exec_relaunch", drop_and_fail, &d);
    ph_status status = t_cached_call(&s, "a", &w, &result);
    ph__driver_fail_after(-1, 0);
    assert_int_equal(pthread_join(d.thread, NULL), 0);
    assert_ok(d.status);
    if (status == PH_OK)
        t_cached_expect(&s, &w, 10);
    for (int i = 0; i < 6; i++) { /* keys of their own */
        char key[] = {(char)('b' + i % 3), '\0'};
        others[i % 3] = (t_cached_work){
            .x = s.buffers[1 + i % 3], .y = s.outputs[i & 1], .value = i % 3, .more = i % 3};
        assert_ok(t_cached_call(&s, key, &others[i % 3], NULL));
        t_cached_expect(&s, &others[i % 3], 10 * (1 + i % 3));
    }
    ph_graph_cache_stats stats;
    assert_ok(ph_graph_cache_get_stats(&stats, s.cache));
    assert_int_equal(stats.keys, 3);
    assert_int_equal(stats.graphs, 3);
    t_cached_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* One that lets go of a dropped key has its entry locked, and waits for the cache's lock. */
typedef struct new_key {
    t_cached *s;
    atomic_bool over;
    ph_status status;
} new_key;

static void *run_new_key(void *user)
{
    new_key *n = user;
    n->status = ph_graph_cache_run(
        n->s->cache, n->s->world.stream,
        &(ph_graph_cache_call){.key = "n", .key_bytes = 1, .body = add_one, .user = n->s}, NULL);
    atomic_store(&n->over, true);
    return NULL;
}

TEST(a_new_key_waits_for_nobody_who_looks_at_a_spare_entry)
{
    t_cached s;
    pthread_t thread;
    t_cached_open(&s, &(ph_graph_cache_options){.after = PH_ZERO});
    new_key n = {.s = &s};
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 7};
    t_cached_run(&s, "a", &w, 10, PH_CACHE_CAPTURED);
    t_cached_run(&s, "b", &w, 10, PH_CACHE_CAPTURED);
    assert_ok(ph_graph_cache_drop(s.cache, "a", 1));
    assert_ok(ph_graph_cache_drop(s.cache, "b", 1));
    ph__cache_entry *seen = s.cache->spare, *other = seen->next;
    ph__mutex_lock(&seen->lock);
    assert_int_equal(pthread_create(&thread, NULL, run_new_key, &n), 0);
    while (!atomic_load(&n.over) && atomic_load(&seen->lock.state) != 2)
        sched_yield();
    bool waited = !atomic_load(&n.over);
    ph__mutex_unlock(&seen->lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(waited);
    assert_ok(n.status);
    assert_ptr_equal(s.cache->newest, other);
    assert_ptr_equal(s.cache->spare, seen);
    t_cached_run(&s, "a", &w, 10, PH_CACHE_CAPTURED);
    assert_ptr_equal(s.cache->newest, seen);
    t_cached_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callers_blocks_of_the_caches_pool_are_learned_as_other_memory),
        cmocka_unit_test(a_result_has_no_graph_of_a_key_that_was_dropped_meanwhile),
        cmocka_unit_test(the_key_used_before_one_that_is_dropped_is_the_last_one),
        cmocka_unit_test(hooks_of_replays_may_run_the_cache),
        cmocka_unit_test(a_hit_has_no_graph_of_a_key_that_was_dropped_meanwhile),
        cmocka_unit_test(a_key_is_dropped_while_its_replay_fails),
        cmocka_unit_test(a_new_key_waits_for_nobody_who_looks_at_a_spare_entry),
        cmocka_unit_test(keys_are_dropped_by_another_thread_while_a_cache_with_a_budget_captures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
