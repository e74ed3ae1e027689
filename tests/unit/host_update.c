/* SPDX-License-Identifier: MIT */
/* tests/unit/host_update.c: executables of the host device that take the parameters of another
 * capture, and random changes to them. */
#include "base/rng.h"
#include "support/host_driver.h"
#include "support/test.h"
#include <stdlib.h>

static int open_world(void **state)
{
    static world w;
    world_open(&w, 0);
    *state = &w;
    return 0;
}

static int close_world(void **state)
{
    world_close(*state);
    return 0;
}

struct big_args {
    int32_t *words;
    int32_t padding[60];
    int32_t value;
};

static void big_body(const ph_block_range *range, const void *args)
{
    (void)range;
    const struct big_args *big = args;
    big->words[4] += big->value;
}

/* What captures differ in: see capture_variant. */
typedef struct variant {
    int32_t value;    /* the kernel's */
    uint32_t element; /* bytes of the memset's elements */
    bool from_host;   /* the copy's source */
    bool big;         /* another kernel, with more arguments */
    bool fill_is_kernel, unordered, longer;
    ph__drv_event *event; /* external */
} variant;

static ph__drv_graph *capture_variant(world *w, const variant *v, ph__drv_kernel *big, void *pinned)
{
    const ph__drv_memset fill = {
        .dst = w->words + 1, .value = 7, .value_size = v->element, .count = 4 / v->element};
    const ph__drv_memcpy copy = {
        .dst = w->words + 2, .src = v->from_host ? pinned : w->words + 1, .bytes = 4};
    const struct big_args args = {.words = w->words, .value = v->value};
    const ph__drv_launch with = {
        .grid = {1, 1, 1}, .block = {1, 1, 1}, .shared_bytes = 64, .args = &args};
    ph__drv_event *fork = new_event(w);
    begin(w->a);
    assert_int_equal(order(fork, w->a, w->b), 0);
    /* 0 */
    assert_int_equal(v->big ? drv->launch(w->a, big, &with) : launch_add(w, w->a, 0, 1, v->value),
                     0);
    if (!v->unordered)
        assert_int_equal(order(fork, w->a, w->b), 0);
    /* 1 */
    assert_int_equal(v->fill_is_kernel ? launch_add(w, w->b, 1, 0, 1) : drv->fill(w->b, &fill), 0);
    /* 2 */
    assert_int_equal(drv->copy(w->b, &copy, NULL), 0);
    /* 3 */
    assert_int_equal(drv->event_record(v->event, w->b, PH__EVENT_RECORD_EXTERNAL), 0);
    if (v->longer)
        assert_int_equal(launch_add(w, w->b, 0, 1, 1), 0); /* 4 */
    assert_int_equal(order(fork, w->b, w->a), 0);
    drv->event_destroy(fork);
    return end(w->a);
}

typedef struct update_world {
    ph__drv_kernel *big;
    void *pinned;
    ph__drv_event *event, *other_event;
} update_world;

static void update_open(update_world *u, world *w)
{
    const ph_kernel_source source = {
        .name = "big", .host = big_body, .args_size = sizeof(struct big_args)};
    assert_int_equal(drv->kernel_create(&u->big, w->device, &source), 0);
    assert_int_equal(drv->pinned_alloc(&u->pinned, w->device, 4096), 0);
    assert_int_equal(drv->event_create(&u->event, w->device, PH__EVENT_TIMING), 0);
    assert_int_equal(drv->event_create(&u->other_event, w->device, PH__EVENT_TIMING), 0);
}

static void update_close(update_world *u, world *w)
{
    drv->kernel_destroy(u->big);
    assert_int_equal(drv->pinned_free(w->device, u->pinned), 0);
    drv->event_destroy(u->event);
    drv->event_destroy(u->other_event);
}

static bool was_recorded(ph__drv_event *event)
{
    float milliseconds;
    return drv->event_elapsed(&milliseconds, event, event) == 0;
}

/* Values, then another kernel with more arguments, then another event: with and without a launch
 * in flight. */
static void an_update_brings_new_parameters(void **state)
{
    world *w = *state;
    update_world u;
    update_open(&u, w);
    const variant first = {.value = 1, .element = 4, .event = u.event};
    const variant second = {.value = 10, .element = 4, .event = u.event};
    const variant third = {.value = 100, .element = 4, .big = true, .event = u.event};
    const variant fourth = {.value = 1000, .element = 4, .big = true, .event = u.other_event};
    const variant *variants[] = {&first, &second, &third, &fourth};
    ph__drv_graph *graphs[4];
    for (int i = 0; i < 4; i++)
        graphs[i] = capture_variant(w, variants[i], u.big, u.pinned);
    for (int in_flight = 0; in_flight < 2; in_flight++) {
        gate g = {0};
        ph__drv_exec *exec = instantiate(graphs[0]);
        ph__drv_update result = {.reason = PH_UPDATE_UNSUPPORTED};
        memset(w->words, 0, WORDS * sizeof(int32_t));
        assert_int_equal(drv->exec_set_enabled(exec, node_at(graphs[0], 2), false), 0);
        if (in_flight)
            assert_int_equal(gate_wait(&g, w->a), 0);
        launch(exec, w->a);
        for (int i = 1; i < 4; i++) {
            int64_t n = 0;
            int answer;
            do { /* a failed update changes nothing */
                ph__alloc_fail_after(n++);
                answer = drv->exec_update(exec, graphs[i], &result);
                ph__alloc_fail_after(PH__ALLOC_NEVER);
            } while (answer == 2);
            assert_int_equal(answer, 0);
            assert_int_equal(result.reason, PH_UPDATE_OK);
            launch(exec, w->a);
        }
        atomic_store(&g.open, true);
        wait_for(w->a);
        assert_int_equal(w->words[0], 11);
        assert_int_equal(w->words[4], 1100);
        assert_int_equal(w->words[2], 0); /* what was off is off */
        assert_true(was_recorded(u.event) && was_recorded(u.other_event));
        /* and back: fewer arguments */
        assert_int_equal(drv->exec_update(exec, graphs[0], NULL), 0);
        launch(exec, w->b);
        wait_for(w->b);
        assert_int_equal(w->words[0], 12);
        drv->exec_destroy(exec);
    }
    for (int i = 0; i < 4; i++)
        drv->graph_destroy(graphs[i]);
    update_close(&u, w);
}

static void update_says_why_it_cannot_be(void **state)
{
    world *w = *state;
    update_world u;
    update_open(&u, w);
    const variant base = {.value = 1, .element = 4, .event = u.event};
    const struct {
        variant v;
        ph_update_reason reason;
        size_t node;
        const char *message;
    } cases[] = {
        {{.value = 2, .element = 1, .event = u.event},
         PH_UPDATE_PARAMETERS,
         1,
         "node 1 (memset) fills 4-byte elements"},
        {{.value = 2, .element = 4, .from_host = true, .event = u.event},
         PH_UPDATE_PARAMETERS,
         2,
         "copies device to device"},
        {{.value = 2, .element = 4, .fill_is_kernel = true, .event = u.event},
         PH_UPDATE_NODE_TYPE,
         1,
         "node 1 is a memset"},
        {{.value = 2, .element = 4, .unordered = true, .event = u.event},
         PH_UPDATE_TOPOLOGY,
         1,
         "depends on node 0"},
        {{.value = 2, .element = 4, .longer = true, .event = u.event},
         PH_UPDATE_TOPOLOGY,
         SIZE_MAX,
         "has 4 nodes, the new capture 5"},
    };
    ph__drv_graph *graph = capture_variant(w, &base, u.big, u.pinned);
    ph__drv_exec *exec = instantiate(graph);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ph__drv_graph *other = capture_variant(w, &cases[i].v, u.big, u.pinned);
        ph__drv_update result = {.reason = PH_UPDATE_OK};
        ph__driver_clear_reason();
        assert_int_equal(drv->exec_update(exec, other, &result), 910);
        assert_int_equal(result.reason, cases[i].reason);
        if (!strstr(result.message, cases[i].message))
            fail_msg("%s", result.message);
        assert_string_equal(ph__driver_reason(), result.message);
        if (cases[i].node == SIZE_MAX) {
            assert_null(result.node);
        } else {
            assert_ptr_equal(result.node, node_at(graph, cases[i].node));
            assert_ptr_equal(result.from_node, node_at(other, cases[i].node));
        }
        assert_int_equal(drv->exec_update(exec, other, NULL), 910);
        ph__drv_exec *longer = instantiate(other); /* the other way round it fails too */
        assert_int_equal(drv->exec_update(longer, graph, &result), 910);
        assert_int_equal(result.reason, cases[i].reason);
        drv->exec_destroy(longer);
        drv->graph_destroy(other);
    }
    launch(exec, w->a);
    wait_for(w->a);
    assert_int_equal(w->words[0], 1);
    assert_int_equal(w->words[2], 7);
    assert_int_equal(drv->exec_update(exec, NULL, NULL), 1);
    drv->exec_destroy(exec);
    drv->graph_destroy(graph);
    update_close(&u, w);
}

static void an_update_from_another_device_is_refused(void **state)
{
    world *w = *state, another;
    ph__drv_update result;
    world_open(&another, 0);
    ph__drv_graph *graph = capture_mixed(w), *foreign = capture_mixed(&another);
    ph__drv_exec *exec = instantiate(graph);
    assert_int_equal(drv->exec_update(exec, foreign, &result), 910);
    assert_int_equal(result.reason, PH_UPDATE_UNSUPPORTED);
    assert_int_equal(drv->exec_launch(exec, another.a), 400);
    drv->exec_destroy(exec);
    drv->graph_destroy(foreign);
    drv->graph_destroy(graph);
    world_close(&another);
}

/* ---- random changes against a model ---- */

enum {
    NODES = 12,
    GRAPHS = 3
};

/* A chain of kernels that all write words[0], so that the order and the parameters of every
 * launch show in the end. */
typedef struct model_node {
    int32_t scale, value;
    bool enabled;
} model_node;

static ph__drv_graph *capture_chain(const world *w, ph__rng *rng, model_node *nodes, gate *open)
{
    begin(w->a);
    for (int i = 0; i < NODES; i++) {
        nodes[i] = (model_node){(int32_t)ph__rng_below(rng, 1000),
                                (int32_t)ph__rng_below(rng, 1000), true};
        if (i == NODES / 2 && open) /* keeps the whole on the stream's thread */
            assert_int_equal(gate_wait(open, w->a), 0);
        assert_int_equal(launch_add(w, w->a, 0, nodes[i].scale, nodes[i].value), 0);
    }
    return end(w->a);
}

static uint32_t run_model(const model_node *nodes, uint32_t word)
{
    for (int i = 0; i < NODES; i++) {
        if (nodes[i].enabled)
            word = word * (uint32_t)nodes[i].scale + (uint32_t)nodes[i].value;
    }
    return word;
}

/* One random step on the executable and the model. */
static void step(const world *w, ph__rng *rng, ph__drv_exec *exec, ph__drv_graph *const *graphs,
                 model_node (*captured)[NODES], model_node *now, uint32_t *word)
{
    int at = (int)ph__rng_below(rng, NODES), from = (int)ph__rng_below(rng, GRAPHS);
    size_t index = (size_t)at + (node_count(graphs[0]) > NODES && at >= NODES / 2);
    ph__drv_node *node = node_at(graphs[0], index);
    switch (ph__rng_below(rng, 8)) {
    case 0:
    case 1: {
        now[at].scale = (int32_t)ph__rng_below(rng, 1000);
        now[at].value = (int32_t)ph__rng_below(rng, 1000);
        const struct add_args args = {w->words, 0, now[at].scale, now[at].value};
        const ph__drv_launch change = {.grid = {1 + (uint32_t)ph__rng_below(rng, 3), 1, 1},
                                       .block = {1, 1, 1},
                                       .shared_bytes = ph__rng_below(rng, 10000),
                                       .args = &args};
        assert_int_equal(drv->exec_set_kernel(exec, node, &change), 0);
        break;
    }
    case 2:
        now[at].enabled = !now[at].enabled;
        assert_int_equal(drv->exec_set_enabled(exec, node, now[at].enabled), 0);
        break;
    case 3:
        for (int i = 0; i < NODES; i++) {
            now[i].scale = captured[from][i].scale;
            now[i].value = captured[from][i].value;
        }
        assert_int_equal(drv->exec_update(exec, graphs[from], NULL), 0);
        break;
    case 4:
        if (ph__rng_below(rng, 4) == 0)
            wait_for(ph__rng_below(rng, 2) ? w->a : w->b);
        break;
    default:
        *word = run_model(now, *word);
        launch(exec, ph__rng_below(rng, 2) ? w->a : w->b);
    }
}

static void play(uint64_t seed, bool chaos, int steps)
{
    world w;
    ph__rng rng = {seed};
    gate open = {.open = true};
    model_node captured[GRAPHS][NODES], now[NODES];
    ph__drv_graph *graphs[GRAPHS];
    uint32_t word = 0;
    world_open(&w, chaos ? seed : 0);
    for (int i = 0; i < GRAPHS; i++)
        graphs[i] = capture_chain(&w, &rng, captured[i], seed % 2 ? &open : NULL);
    memcpy(now, captured[0], sizeof now);
    ph__drv_exec *exec = instantiate(graphs[0]);
    for (int i = 0; i < steps; i++)
        step(&w, &rng, exec, graphs, captured, now, &word);
    drv->exec_destroy(exec);
    wait_for(w.a);
    wait_for(w.b);
    if ((uint32_t)w.words[0] != word)
        fail_msg("seed %llu: %u instead of %u", (unsigned long long)seed, (uint32_t)w.words[0],
                 word);
    for (int i = 0; i < GRAPHS; i++)
        drv->graph_destroy(graphs[i]);
    world_close(&w);
}

TEST(random_changes_agree_with_the_model)
{
    const char *tier = getenv("PH_TEST_TIER");
    uint64_t seeds = tier && strcmp(tier, "nightly") == 0 ? 2000 : 40;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        play(seed, seed % 4 == 0, 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(an_update_brings_new_parameters),
        IN_WORLD(update_says_why_it_cannot_be),
        IN_WORLD(an_update_from_another_device_is_refused),
        cmocka_unit_test(random_changes_agree_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
