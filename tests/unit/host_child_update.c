/* SPDX-License-Identifier: MIT */
/* tests/unit/host_child_update.c: executables with child graphs that take the parameters of
 * another capture, and failures for want of memory. */
#include "support/test.h"
#include "unit/host_child.h"

/* What captures differ in. At the bottom of two child graphs: a kernel, a fill, an event record. */
typedef struct variant {
    const char *digits; /* the kernels around */
    int32_t value;
    uint32_t element;
    bool kernel_is_fill, unordered, longer, flat, wide;
    ph__drv_event *event;
} variant;

struct wide_args {
    struct add_args add;
    int32_t more[40];
};

static ph__drv_graph *capture_bottom(world *w, const variant *v, ph__drv_kernel *wide)
{
    ph__drv_event *fork = new_event(w);
    const ph__drv_memset fill = {.dst = w->words + 1,
                                 .value = (uint32_t)v->value,
                                 .value_size = v->element,
                                 .count = 4 / v->element};
    const struct wide_args args = {.add = {.words = w->words, .scale = 10, .value = v->value}};
    const ph__drv_launch with = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .args = &args};
    begin(w->a);
    assert_int_equal(order(fork, w->a, w->b), 0);
    assert_int_equal(v->kernel_is_fill ? drv->fill(w->a, &fill)
                     : v->wide         ? drv->launch(w->a, wide, &with)
                                       : launch_add(w, w->a, 0, 10, v->value),
                     0); /* 0 */
    if (!v->unordered)
        assert_int_equal(order(fork, w->a, w->b), 0);
    assert_int_equal(drv->fill(w->b, &fill), 0);                                       /* 1 */
    assert_int_equal(drv->event_record(v->event, w->b, PH__EVENT_RECORD_EXTERNAL), 0); /* 2 */
    if (v->longer)
        assert_int_equal(drv->fill(w->b, &fill), 0); /* 3 */
    assert_int_equal(order(fork, w->b, w->a), 0);
    drv->event_destroy(fork);
    return end(w->a);
}

static ph__drv_graph *capture_variant(world *w, const variant *v, ph__drv_kernel *wide)
{
    ph__drv_graph *bottom = capture_bottom(w, v, wide);
    begin(w->a);
    launch_digits(w, w->a, 0, "2");
    add_child(w->a, bottom);
    ph__drv_graph *middle = end(w->a);
    begin(w->a);
    launch_digits(w, w->a, 0, v->digits);       /* 0 */
    add_child(w->a, v->flat ? bottom : middle); /* 1 */
    launch_digits(w, w->a, 0, "9");             /* 2 */
    drv->graph_destroy(bottom);
    drv->graph_destroy(middle);
    return end(w->a);
}

typedef struct update_world {
    ph__drv_kernel *wide;
    ph__drv_event *event, *other_event;
} update_world;

static void update_open(update_world *u, world *w)
{
    const ph_kernel_source source = {
        .name = "wide", .host = add_body, .args_size = sizeof(struct wide_args)};
    assert_int_equal(drv->kernel_create(&u->wide, w->device, &source), 0);
    u->event = new_event(w);
    u->other_event = new_event(w);
}

static void update_close(update_world *u)
{
    drv->kernel_destroy(u->wide);
    drv->event_destroy(u->event);
    drv->event_destroy(u->other_event);
}

/* Values alone; a kernel with more arguments; another event: in place, and with everything made
 * anew. */
static void updates_reach_into_bodies(void **state)
{
    world *w = *state;
    update_world u;
    update_open(&u, w);
    const variant variants[] = {
        {.digits = "1", .value = 3, .element = 4, .event = u.event},
        {.digits = "4", .value = 5, .element = 4, .event = u.event},
        {.digits = "5", .value = 6, .element = 4, .event = u.event, .wide = true},
        {.digits = "6", .value = 7, .element = 4, .event = u.other_event}};
    static const int32_t expected[] = {1239, 4259, 5269, 6279};
    ph__drv_graph *graphs[4];
    for (int i = 0; i < 4; i++)
        graphs[i] = capture_variant(w, &variants[i], u.wide);
    for (int in_flight = 0; in_flight < 2; in_flight++) {
        ph__drv_exec *exec = instantiate(graphs[0]);
        for (int i = 0; i < 4; i++) {
            gate g = {0};
            int32_t before = i ? expected[i - 1] : expected[0];
            ph__drv_update result = {.reason = PH_UPDATE_UNSUPPORTED};
            if (in_flight) {
                w->words[0] = 0;
                assert_int_equal(gate_wait(&g, w->a), 0);
                launch(exec, w->a);
            }
            assert_int_equal(drv->exec_update(exec, graphs[i], &result), 0);
            assert_int_equal(result.reason, PH_UPDATE_OK);
            if (in_flight) {
                atomic_store(&g.open, true);
                wait_for(w->a);
                assert_int_equal(w->words[0], before);
            }
            run_to(w, exec, expected[i]);
            assert_int_equal(w->words[1], variants[i].value);
        }
        assert_int_equal(drv->exec_set_enabled(exec, node_at(graphs[0], 0), false), 0);
        assert_int_equal(drv->exec_update(exec, graphs[1], NULL), 0);
        run_to(w, exec, 259);
        drv->exec_destroy(exec);
    }
    assert_int_equal(drv->event_query(u.other_event), 0);
    for (int i = 0; i < 4; i++)
        drv->graph_destroy(graphs[i]);
    update_close(&u);
}

/* The outer node is blamed, the message says where in it. */
static void differences_in_bodies_are_explained(void **state)
{
    world *w = *state;
    update_world u;
    update_open(&u, w);
    const variant first = {.digits = "1", .value = 3, .element = 4, .event = u.event};
    const struct {
        variant v;
        ph_update_reason reason;
        const char *message;
    } cases[] = {
        {{.digits = "1", .value = 3, .element = 4, .event = u.event, .kernel_is_fill = true},
         PH_UPDATE_NODE_TYPE,
         "in the graph of node 1: in the graph of node 1: node 0 is a kernel, in the new capture "
         "it is a "
         "memset"},
        {{.digits = "1", .value = 3, .element = 1, .event = u.event},
         PH_UPDATE_PARAMETERS,
         "in the graph of node 1: in the graph of node 1: node 1 (memset) fills 4-byte elements, "
         "the new "
         "capture's "
         "fills 1-byte ones: "},
        {{.digits = "1", .value = 3, .element = 4, .event = u.event, .unordered = true},
         PH_UPDATE_TOPOLOGY,
         "in the graph of node 1: in the graph of node 1: node 1 (memset) depends on node 0, in "
         "the new "
         "capture it does "
         "not: "},
        {{.digits = "1", .value = 3, .element = 4, .event = u.event, .longer = true},
         PH_UPDATE_TOPOLOGY,
         "in the graph of node 1: in the graph of node 1: the executable has 3 nodes, the new "
         "capture 4: it "
         "does more "
         "work"},
        {{.digits = "1", .value = 3, .element = 4, .event = u.event, .flat = true},
         PH_UPDATE_NODE_TYPE,
         "in the graph of node 1: node 1 is a graph, in the new capture it is a memset"},
    };
    ph__drv_graph *graph = capture_variant(w, &first, u.wide);
    ph__drv_exec *exec = instantiate(graph);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ph__drv_graph *other = capture_variant(w, &cases[i].v, u.wide);
        ph__drv_update why;
        assert_int_equal(drv->exec_update(exec, other, &why), 910);
        assert_int_equal(why.reason, cases[i].reason);
        assert_ptr_equal(why.node, node_at(graph, 1));
        assert_ptr_equal(why.from_node, node_at(other, 1));
        assert_ptr_equal(strstr(why.message, cases[i].message), why.message);
        run_to(w, exec, 1239);
        drv->graph_destroy(other);
    }
    gone(exec, graph);
    update_close(&u);
}

/* However deep, the message ends where its buffer does. */
static void deep_differences_fit_the_message(void **state)
{
    world *w = *state;
    ph__drv_graph *graphs[2] = {capture_digits(w, "1"), capture_digits(w, "12")};
    for (int depth = 0; depth < 30; depth++) {
        for (int i = 0; i < 2; i++) {
            begin(w->a);
            add_child(w->a, graphs[i]);
            drv->graph_destroy(graphs[i]);
            graphs[i] = end(w->a);
        }
    }
    ph__drv_exec *exec = instantiate(graphs[0]);
    ph__drv_update why;
    assert_int_equal(drv->exec_update(exec, graphs[1], &why), 910);
    assert_ptr_equal(why.node, node_at(graphs[0], 0));
    assert_non_null(strstr(why.message, "in the graph of node 0: "));
    assert_non_null(strstr(why.message, "the executable has 1 nodes, the new capture 2"));
    drv->graph_destroy(graphs[1]);
    gone(exec, graphs[0]);
}

/* ---- failures ---- */

/* Calls until it succeeds, with one more allocation each time; what failed leaves nothing
 * behind. */
#define SWEEP(call, least)                                                                         \
    do {                                                                                           \
        int sweep_result = 2, sweep_refused = -1;                                                  \
        for (int64_t n = 0; sweep_result == 2; n++, sweep_refused++) {                             \
            int64_t live = ph__alloc_live();                                                       \
            ph__alloc_fail_after(n);                                                               \
            sweep_result = (call);                                                                 \
            ph__alloc_fail_after(PH__ALLOC_NEVER);                                                 \
            if (sweep_result == 2)                                                                 \
                assert_int_equal(ph__alloc_live(), live);                                          \
        }                                                                                          \
        assert_int_equal(sweep_result, 0);                                                         \
        assert_true(sweep_refused >= (least));                                                     \
    } while (0)

static void out_of_memory_leaves_everything_as_it_was(void **state)
{
    world *w = *state;
    update_world u;
    update_open(&u, w);
    const variant first = {.digits = "1", .value = 3, .element = 4, .event = u.event};
    const variant second = {
        .digits = "4", .value = 5, .element = 4, .event = u.other_event, .wide = true};
    ph__drv_graph *inner = capture_variant(w, &first, u.wide), *outer, *other = NULL;
    ph__drv_exec *exec = NULL;
    begin(w->a);
    launch_digits(w, w->a, 0, "8");
    SWEEP(drv->child(w->a, inner), 10); /* the graphs of three levels and their nodes */
    outer = end(w->a);
    assert_int_equal(node_count(outer), 2);
    drv->graph_destroy(inner);
    SWEEP(drv->instantiate(&exec, outer, 0, NULL), 10);
    run_to(w, exec, 81239);
    inner = capture_variant(w, &second, u.wide);
    begin(w->a);
    launch_digits(w, w->a, 0, "7");
    add_child(w->a, inner);
    other = end(w->a);
    SWEEP(drv->exec_update(exec, other, NULL), 5);
    run_to(w, exec, 74259);
    drv->graph_destroy(inner);
    drv->graph_destroy(other);
    gone(exec, outer);
    update_close(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(updates_reach_into_bodies),
        IN_WORLD(differences_in_bodies_are_explained),
        IN_WORLD(deep_differences_fit_the_message),
        IN_WORLD(out_of_memory_leaves_everything_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
