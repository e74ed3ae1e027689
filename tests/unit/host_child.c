/* SPDX-License-Identifier: MIT */
/* tests/unit/host_child.c: child graphs of the host device: what they run, in which order, what
 * is seen of them, and what is refused. */
#include "unit/host_child.h"
#include "base/rng.h"
#include "support/test.h"
#include <phonograph/host.h>

/* ---- what runs ---- */

static void a_child_runs_between_its_neighbours(void **state)
{
    world *w = *state;
    ph__drv_graph *inner = capture_digits(w, "23");
    begin(w->a);
    launch_digits(w, w->a, 0, "1");
    add_child(w->a, inner);
    launch_digits(w, w->a, 0, "4");
    add_child(w->a, inner);
    ph__drv_graph *outer = end(w->a);
    drv->graph_destroy(inner); /* it was copied */
    ph__drv_exec *exec = instantiate(outer);
    for (int i = 0; i < 20; i++)
        run_to(w, exec, 123423);
    gone(exec, outer);
}

static void child_graphs_may_nest(void **state)
{
    world *w = *state;
    ph__drv_graph *graph = capture_digits(w, "1");
    for (char digit = '2'; digit <= '5'; digit++) {
        const char digits[] = {digit, '\0'};
        begin(w->a);
        add_child(w->a, graph);
        launch_digits(w, w->a, 0, digits);
        drv->graph_destroy(graph);
        graph = end(w->a);
    }
    ph__drv_exec *exec = instantiate(graph);
    run_to(w, exec, 12345);
    run_to(w, exec, 12345);
    gone(exec, graph);
}

/* Two roots and two ends, each of another word than the neighbours on their streams: whatever is
 * not waited for shows. */
static ph__drv_graph *capture_crossed(world *w, ph__drv_graph *inner)
{
    ph__drv_event *event = new_event(w);
    begin(w->a);
    assert_int_equal(order(event, w->a, w->b), 0);
    launch_digits(w, w->a, 0, "1");
    launch_digits(w, w->b, 1, "1");
    assert_int_equal(order(event, w->b, w->a), 0);
    add_child(w->a, inner);
    assert_int_equal(order(event, w->a, w->b), 0);
    launch_digits(w, w->a, 1, "4");
    launch_digits(w, w->b, 0, "4");
    assert_int_equal(order(event, w->b, w->a), 0);
    drv->event_destroy(event);
    return end(w->a);
}

static ph__drv_graph *capture_parallel(world *w)
{
    ph__drv_event *event = new_event(w);
    begin(w->a);
    assert_int_equal(order(event, w->a, w->b), 0);
    launch_digits(w, w->a, 0, "23");
    launch_digits(w, w->b, 1, "23");
    assert_int_equal(order(event, w->b, w->a), 0);
    drv->event_destroy(event);
    return end(w->a);
}

static void run_crossed(world *w, int times, bool nested)
{
    ph__drv_graph *inner = capture_parallel(w);
    if (nested) {
        begin(w->b);
        add_child(w->b, inner);
        drv->graph_destroy(inner);
        inner = end(w->b);
    }
    ph__drv_graph *outer = capture_crossed(w, inner);
    ph__drv_exec *exec = instantiate(outer);
    for (int i = 0; i < times; i++) {
        w->words[1] = 0;
        run_to(w, exec, 1234);
        assert_int_equal(w->words[1], 1234);
    }
    gone(exec, outer);
    drv->graph_destroy(inner);
}

static void order_holds_on_all_sides(void **state)
{
    run_crossed(*state, 200, false);
    run_crossed(*state, 200, true);
}

TEST(order_holds_under_chaos)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        world w;
        world_open(&w, seed);
        run_crossed(&w, 5, seed % 2);
        world_close(&w);
    }
}

/* Under chaos too nothing slips past an empty body. */
TEST(an_empty_body_is_a_place_in_the_order)
{
    for (uint64_t seed = 0; seed <= 20; seed++) {
        world w;
        world_open(&w, seed);
        ph__drv_graph *empty = capture_digits(&w, "");
        ph__drv_graph *crossed = capture_crossed(&w, empty);
        begin(w.a);
        add_child(w.a, empty);
        add_child(w.a, crossed);
        ph__drv_graph *outer = end(w.a);
        ph__drv_exec *exec = instantiate(outer), *nothing = instantiate(empty);
        run_to(&w, exec, 14);
        assert_int_equal(w.words[1], 14);
        launch(nothing, w.a);
        wait_for(w.a);
        drv->exec_destroy(nothing);
        drv->graph_destroy(empty);
        drv->graph_destroy(crossed);
        gone(exec, outer);
        world_close(&w);
    }
}

/* A program as a tree of graphs against the same program, run. Two streams with a word each,
 * joined at the end of every graph; children lie on either. */
static void run_random(world *w, ph__rng *rng, int depth, int32_t expected[2], ph__drv_graph **out)
{
    ph__drv_graph *children[2] = {NULL, NULL};
    int32_t effects[2][2][2]; /* of child, on a word: scale and value */
    for (int c = 0; depth > 0 && c < 2; c++) {
        for (int word = 0; word < 2; word++) {
            int32_t at_0[2] = {0, 0}, at_1[2] = {1, 1};
            ph__rng copy = *rng;
            run_random(w, &copy, depth - 1, at_0, NULL);
            copy = *rng;
            run_random(w, &copy, depth - 1, at_1, NULL);
            effects[c][word][0] = (int32_t)((uint32_t)at_1[word] - (uint32_t)at_0[word]);
            effects[c][word][1] = at_0[word];
        }
        int32_t ignored[2] = {0, 0};
        run_random(w, rng, depth - 1, ignored, out ? &children[c] : NULL);
    }
    ph__drv_event *event = out ? new_event(w) : NULL;
    ph__drv_stream *const streams[2] = {w->a, w->b};
    if (out) {
        begin(w->a);
        assert_int_equal(order(event, w->a, w->b), 0);
    }
    for (int i = 0; i < 6; i++) {
        int at = (int)ph__rng_below(rng, 2), c = (int)ph__rng_below(rng, 2),
            value = (int)ph__rng_below(rng, 100);
        bool is_child = depth > 0 && ph__rng_below(rng, 3) == 0;
        if (is_child && out) { /* it touches both words: nothing may run beside it */
            assert_int_equal(order(event, streams[1 - at], streams[at]), 0);
            add_child(streams[at], children[c]);
            assert_int_equal(order(event, streams[at], streams[1 - at]), 0);
        } else if (out) {
            assert_int_equal(launch_add(w, streams[at], at, 3, value), 0);
        }
        for (int word = 0; word < 2; word++) {
            if (is_child)
                expected[word] =
                    (int32_t)((uint32_t)expected[word] * (uint32_t)effects[c][word][0] +
                              (uint32_t)effects[c][word][1]);
            else if (word == at)
                expected[word] = (int32_t)((uint32_t)expected[word] * 3u + (uint32_t)value);
        }
    }
    if (out) {
        assert_int_equal(order(event, w->b, w->a), 0);
        *out = end(w->a);
        drv->event_destroy(event);
        drv->graph_destroy(children[0]);
        drv->graph_destroy(children[1]);
    }
}

TEST(trees_of_graphs_do_what_the_program_does)
{
    for (uint64_t seed = 0; seed < 12; seed++) {
        world w;
        world_open(&w, seed % 3 ? seed : 0);
        ph__rng rng = {seed + 1};
        ph__drv_graph *graph = NULL;
        int32_t expected[2] = {5, 7};
        run_random(&w, &rng, 2, expected, &graph);
        ph__drv_exec *exec = instantiate(graph);
        for (int i = 0; i < 10; i++) {
            w.words[0] = 5;
            w.words[1] = 7;
            launch(exec, w.b);
            wait_for(w.b);
            assert_int_equal(w.words[0], expected[0]);
            assert_int_equal(w.words[1], expected[1]);
        }
        gone(exec, graph);
        world_close(&w);
    }
}

/* Event nodes of a body speak to the outside as any others. */
static void bodies_wait_for_and_record_events(void **state)
{
    world *w = *state;
    gate g = {0};
    ph__drv_event *in = new_event(w), *out = new_event(w);
    begin(w->a);
    assert_int_equal(drv->stream_wait_event(w->a, in, PH__EVENT_RECORD_EXTERNAL), 0);
    launch_digits(w, w->a, 0, "2");
    assert_int_equal(drv->event_record(out, w->a, PH__EVENT_RECORD_EXTERNAL), 0);
    ph__drv_graph *inner = end(w->a);
    begin(w->a);
    add_child(w->a, inner);
    launch_digits(w, w->a, 0, "3");
    ph__drv_graph *outer = end(w->a);
    drv->graph_destroy(inner);
    ph__drv_exec *exec = instantiate(outer);
    assert_int_equal(gate_wait(&g, w->b), 0);
    launch_digits(w, w->b, 0, "1");
    assert_int_equal(drv->event_record(in, w->b, 0), 0);
    launch(exec, w->a);
    assert_int_equal(drv->event_query(out), 600);
    atomic_store(&g.open, true);
    assert_int_equal(drv->event_synchronize(out), 0);
    wait_for(w->a);
    assert_int_equal(w->words[0], 123);
    gone(exec, outer);
    drv->event_destroy(in);
    drv->event_destroy(out);
}

static void a_body_keeps_its_kernels(void **state)
{
    world *w = *state;
    const ph_kernel_source source = {
        .name = "own", .host = add_body, .args_size = sizeof(struct add_args)};
    const struct add_args args = {.words = w->words, .scale = 10, .value = 7};
    const ph__drv_launch with = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .args = &args};
    ph__drv_kernel *kernel = NULL;
    assert_int_equal(drv->kernel_create(&kernel, w->device, &source), 0);
    begin(w->a);
    assert_int_equal(drv->launch(w->a, kernel, &with), 0);
    ph__drv_graph *inner = end(w->a);
    drv->kernel_destroy(kernel);
    begin(w->a);
    add_child(w->a, inner);
    ph__drv_graph *outer = end(w->a);
    drv->graph_destroy(inner);
    ph__drv_graph *body = info_at(outer, 0).body;
    assert_string_equal(info_at(body, 0).kernel_name, "own");
    ph__drv_exec *exec = instantiate(outer);
    run_to(w, exec, 7);
    gone(exec, outer);
}

/* ---- what is seen ---- */

static void nodes_show_their_bodies(void **state)
{
    world *w = *state;
    ph__drv_graph *inner = capture_mixed(w);
    begin(w->a);
    launch_digits(w, w->a, 0, "1");
    add_child(w->a, inner);
    ph__drv_graph *outer = end(w->a);
    ph__drv_node_info info = info_at(outer, 1);
    assert_int_equal(info.kind, PH_NODE_GRAPH);
    assert_int_equal(info.dependency_count, 1);
    assert_ptr_equal(info.dependencies[0], node_at(outer, 0));
    assert_null(info.kernel);
    assert_null(info.event);
    assert_null(info.dependency_kinds);
    assert_non_null(info.body);
    assert_ptr_not_equal(info.body, inner);
    assert_null(info_at(outer, 0).body);
    assert_int_equal(node_count(outer), 2);
    assert_int_equal(node_count(info.body), node_count(inner));
    for (size_t i = 0; i < node_count(inner); i++) {
        ph__drv_node_info from = info_at(inner, i), to = info_at(info.body, i);
        assert_int_equal(to.kind, from.kind);
        assert_int_equal(to.dependency_count, from.dependency_count);
        assert_ptr_not_equal(node_at(info.body, i), node_at(inner, i));
        for (size_t d = 0, k = 0; d < to.dependency_count; d++) {
            for (k = 0; node_at(info.body, k) != to.dependencies[d];)
                k++;
            assert_ptr_equal(node_at(inner, k), from.dependencies[d]);
        }
    }
    drv->graph_destroy(inner);
    drv->graph_destroy(outer);
}

static void raw_handles_know_child_graphs(void **state)
{
    world *w = *state;
    ph__drv_graph *inner = capture_digits(w, "12");
    begin(w->a);
    add_child(w->a, inner);
    launch_digits(w, w->a, 0, "1");
    ph__drv_graph *outer = end(w->a);
    ph_host_node *nodes[4], *dependency = NULL;
    size_t count = 0;
    ph_node_kind kind = PH_NODE_EMPTY;
    assert_int_equal(ph_host_graph_nodes(nodes, 4, &count, drv->graph_native(outer)), PH_OK);
    assert_int_equal(count, 2);
    assert_int_equal(ph_host_node_kind(&kind, nodes[0]), PH_OK);
    assert_int_equal(kind, PH_NODE_GRAPH);
    assert_int_equal(ph_host_node_kind(&kind, nodes[1]), PH_OK);
    assert_int_equal(kind, PH_NODE_KERNEL);
    assert_int_equal(ph_host_node_dependencies(&dependency, 1, &count, nodes[1]), PH_OK);
    assert_int_equal(count, 1);
    assert_ptr_equal(dependency, nodes[0]);
    drv->graph_destroy(inner);
    drv->graph_destroy(outer);
}

static void bytes_are_counted(void **state)
{
    world *w = *state;
    ph__drv_graph *empty = capture_digits(w, ""), *inner = capture_digits(w, "123456789");
    begin(w->a);
    add_child(w->a, inner);
    ph__drv_graph *outer = end(w->a);
    size_t none = drv->graph_host_bytes(empty), some = drv->graph_host_bytes(inner);
    assert_true(none > 0);
    assert_true(some >= none + 9 * sizeof(struct add_args));
    assert_true(drv->graph_host_bytes(outer) > some);
    assert_int_equal(drv->graph_host_bytes(NULL), 0);
    ph__drv_exec *small = instantiate(empty), *large = instantiate(outer);
    ph__drv_memory before = {.device_bytes = 1}, after, none_yet;
    drv->exec_memory(&none_yet, small);
    drv->exec_memory(&before, large);
    assert_true(none_yet.host_bytes > 0);
    assert_true(before.host_bytes >= none_yet.host_bytes + 2 * 9 * sizeof(struct add_args));
    assert_int_equal(before.device_bytes, 0);
    gate g = {0};
    assert_int_equal(gate_wait(&g, w->a), 0);
    launch(large, w->a);
    launch(large, w->a); /* a second one in flight needs an object of its own */
    drv->exec_memory(&after, large);
    assert_true(after.host_bytes > before.host_bytes);
    atomic_store(&g.open, true);
    wait_for(w->a);
    drv->exec_destroy(small);
    gone(large, outer);
    drv->graph_destroy(inner);
    drv->graph_destroy(empty);
}

/* ---- what is refused ---- */

static void what_cannot_be_a_child_is_refused(void **state)
{
    world *w = *state, other;
    ph__drv_capture capture;
    world_open(&other, 0);
    ph__drv_graph *inner = capture_digits(w, "1"), *foreign = capture_digits(&other, "1");
    assert_int_equal(drv->child(NULL, inner), 1);
    assert_int_equal(drv->child(w->a, NULL), 1);
    assert_int_equal(drv->child(w->a, inner), 401);
    assert_int_equal(drv->child(drv->stream_default(w->device), inner), 401);
    begin(w->a);
    assert_int_equal(drv->child(w->a, NULL), 1);
    assert_int_equal(drv->child(w->a, foreign), 400);
    assert_int_equal(drv->capture_get(&capture, w->a), 0);
    assert_int_equal(drv->child(w->a, capture.graph), 401); /* itself */
    begin(w->b);
    assert_int_equal(drv->capture_get(&capture, w->b), 0);
    assert_int_equal(drv->child(w->a, capture.graph), 401);
    drv->graph_destroy(end(w->b));
    assert_int_equal(status_of(w->a), PH_CAPTURE_ACTIVE);
    assert_int_equal(drv->child(w->a, inner), 0);
    assert_int_equal(drv->stream_query(w->a), 900);
    assert_int_equal(drv->child(w->a, inner), 901);
    drv->capture_drop(w->a);
    drv->graph_destroy(inner);
    drv->graph_destroy(foreign);
    world_close(&other);
}

/* Nodes before and after a child keep their names; the child and what is in it cannot be
 * changed. */
static void outer_nodes_can_be_changed(void **state)
{
    world *w = *state;
    ph__drv_graph *inner = capture_digits(w, "23");
    begin(w->a);
    launch_digits(w, w->a, 0, "1");
    add_child(w->a, inner);
    launch_digits(w, w->a, 0, "4");
    ph__drv_graph *outer = end(w->a);
    ph__drv_exec *exec = instantiate(outer);
    ph__drv_node *first = node_at(outer, 0), *child = node_at(outer, 1), *last = node_at(outer, 2);
    ph__drv_node *within = node_at(info_at(outer, 1).body, 0);
    const struct add_args args = {.words = w->words, .scale = 10, .value = 9};
    const ph__drv_launch nine = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .args = &args};
    const ph__drv_memcpy copy = {.dst = w->words, .src = w->words + 1, .bytes = 4};
    bool enabled = false;
    assert_int_equal(drv->exec_set_kernel(exec, last, &nine), 0);
    run_to(w, exec, 1239);
    assert_int_equal(drv->exec_set_enabled(exec, first, false), 0);
    run_to(w, exec, 239);
    assert_int_equal(drv->exec_get_enabled(&enabled, exec, last), 0);
    assert_true(enabled);
    assert_int_equal(drv->exec_get_enabled(&enabled, exec, first), 0);
    assert_false(enabled);
    ph__drv_node *const refused[] = {child, within};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(drv->exec_set_kernel(exec, refused[i], &nine), 1);
        assert_int_equal(drv->exec_set_copy(exec, refused[i], &copy), 1);
        assert_int_equal(drv->exec_set_enabled(exec, refused[i], false), 1);
        assert_int_equal(drv->exec_get_enabled(&enabled, exec, refused[i]), 1);
    }
    run_to(w, exec, 239);
    drv->graph_destroy(inner);
    gone(exec, outer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_child_runs_between_its_neighbours),
        IN_WORLD(child_graphs_may_nest),
        IN_WORLD(order_holds_on_all_sides),
        cmocka_unit_test(order_holds_under_chaos),
        cmocka_unit_test(an_empty_body_is_a_place_in_the_order),
        cmocka_unit_test(trees_of_graphs_do_what_the_program_does),
        IN_WORLD(bodies_wait_for_and_record_events),
        IN_WORLD(a_body_keeps_its_kernels),
        IN_WORLD(nodes_show_their_bodies),
        IN_WORLD(raw_handles_know_child_graphs),
        IN_WORLD(bytes_are_counted),
        IN_WORLD(what_cannot_be_a_child_is_refused),
        IN_WORLD(outer_nodes_can_be_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
