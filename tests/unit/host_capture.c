/* SPDX-License-Identifier: MIT */
/* tests/unit/host_capture.c: captures of the host device: begin to end, forks and joins, and
 * what kills them. */
#include "support/host_driver.h"
#include "support/test.h"

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

/* The capture ends well; how many nodes it has. */
static size_t end_count(ph__drv_stream *stream)
{
    ph__drv_graph *graph = NULL;
    assert_int_equal(drv->capture_end(&graph, stream), 0);
    size_t count = node_count(graph);
    drv->graph_destroy(graph);
    return count;
}

static void end_fails(ph__drv_stream *stream, int number)
{
    ph__drv_graph *graph = NULL;
    assert_int_equal(drv->capture_end(&graph, stream), number);
    assert_null(graph);
}

static void a_capture_records_and_does_not_execute(void **state)
{
    world *w = *state;
    ph__drv_graph *graph = NULL;
    ph__drv_capture capture;
    w->words[0] = 1;
    begin(w->a);
    assert_int_equal(launch_add(w, w->a, 0, 2, 3), 0);
    assert_int_equal(launch_add(w, w->a, 0, 5, 7), 0);
    const ph__drv_memset fill = {.dst = w->words, .value = 9, .value_size = 4, .count = 2};
    const ph__drv_memcpy copy = {.dst = w->words, .src = w->words + 8, .bytes = 12};
    const ph__drv_host host = {.fn = gate_body, .user = w};
    assert_int_equal(drv->fill(w->a, &fill), 0);
    assert_int_equal(drv->copy(w->a, &copy, NULL), 0);
    assert_int_equal(drv->host(w->a, &host), 0);
    assert_int_equal(drv->capture_get(&capture, w->a), 0);
    assert_int_equal(capture.status, PH_CAPTURE_ACTIVE);
    assert_int_equal(node_count(capture.graph), 5);
    assert_int_equal(capture.dependency_count, 1);
    assert_ptr_equal(capture.dependencies[0], node_at(capture.graph, 4));
    assert_int_equal(drv->capture_end(&graph, w->a), 0);
    assert_ptr_equal(graph, capture.graph);
    assert_int_equal(w->words[0], 1);

    const ph_node_kind kinds[] = {PH_NODE_KERNEL, PH_NODE_KERNEL, PH_NODE_MEMSET, PH_NODE_MEMCPY,
                                  PH_NODE_HOST};
    for (size_t i = 0; i < 5; i++) {
        ph__drv_node_info info = info_at(graph, i);
        assert_int_equal(info.kind, kinds[i]);
        assert_int_equal(info.dependency_count, i ? 1 : 0);
        if (i)
            assert_ptr_equal(info.dependencies[0], node_at(graph, i - 1));
    }
    ph__drv_node_info kernel = info_at(graph, 1);
    assert_ptr_equal(kernel.kernel, w->add);
    assert_string_equal(kernel.kernel_name, "add");
    assert_int_equal(kernel.args_size, sizeof(struct add_args));
    assert_int_equal(((const struct add_args *)kernel.launch.args)->value, 7);
    assert_int_equal(kernel.launch.grid[2], 1);
    ph__drv_node_info filled = info_at(graph, 2);
    assert_ptr_equal(filled.fill.dst, fill.dst);
    assert_int_equal(filled.fill.value, 9);
    assert_int_equal(info_at(graph, 3).copy.bytes, 12);
    assert_ptr_equal(info_at(graph, 4).host.user, w);
    drv->graph_destroy(graph);
    assert_int_equal(drv->capture_get(&capture, w->a), 0);
    assert_int_equal(capture.status, PH_CAPTURE_NONE);
    assert_null(capture.graph);
}

static void ids_are_never_used_again(void **state)
{
    world *w = *state;
    ph__drv_capture first, second;
    begin(w->a);
    assert_int_equal(drv->capture_get(&first, w->a), 0);
    assert_int_equal(end_count(w->a), 0);
    begin(w->a);
    assert_int_equal(drv->capture_get(&second, w->a), 0);
    assert_int_equal(end_count(w->a), 0);
    assert_true(first.id != 0 && second.id > first.id);
}

static void forks_and_joins_make_dependencies(void **state)
{
    world *w = *state;
    ph__drv_event *fork = new_event(w), *join = new_event(w);
    ph__drv_graph *graph = NULL;
    begin(w->a);
    assert_int_equal(launch_add(w, w->a, 0, 1, 1), 0); /* 0 */
    assert_int_equal(order(fork, w->a, w->b), 0);
    assert_int_equal(status_of(w->b), PH_CAPTURE_ACTIVE);
    assert_int_equal(launch_add(w, w->a, 1, 1, 1), 0); /* 1: after 0 */
    assert_int_equal(launch_add(w, w->b, 2, 1, 1), 0); /* 2: after 0 */
    assert_int_equal(order(join, w->b, w->a), 0);
    assert_int_equal(order(join, w->b, w->a), 0);      /* the same once more adds nothing */
    assert_int_equal(launch_add(w, w->a, 3, 1, 1), 0); /* 3: after 1 and 2 */
    assert_int_equal(drv->capture_end(&graph, w->a), 0);
    assert_int_equal(status_of(w->b), PH_CAPTURE_NONE);
    assert_int_equal(info_at(graph, 1).dependency_count, 1);
    assert_ptr_equal(info_at(graph, 1).dependencies[0], node_at(graph, 0));
    assert_int_equal(info_at(graph, 2).dependency_count, 1);
    assert_ptr_equal(info_at(graph, 2).dependencies[0], node_at(graph, 0));
    assert_int_equal(info_at(graph, 3).dependency_count, 2);
    assert_ptr_equal(info_at(graph, 3).dependencies[0], node_at(graph, 1));
    assert_ptr_equal(info_at(graph, 3).dependencies[1], node_at(graph, 2));
    drv->graph_destroy(graph);
    drv->event_destroy(fork);
    drv->event_destroy(join);
}

static void a_fork_that_did_nothing_counts_as_joined(void **state)
{
    world *w = *state;
    ph__drv_event *event = new_event(w);
    begin(w->a);
    assert_int_equal(order(event, w->a, w->b), 0); /* before any node */
    assert_int_equal(end_count(w->a), 0);
    begin(w->a);
    assert_int_equal(launch_add(w, w->a, 0, 1, 1), 0);
    assert_int_equal(order(event, w->a, w->b), 0);
    assert_int_equal(launch_add(w, w->a, 0, 1, 1), 0);
    assert_int_equal(end_count(w->a), 2);
    drv->event_destroy(event);
}

static void a_fork_that_is_not_joined_fails_the_end(void **state)
{
    world *w = *state;
    ph__drv_event *event = new_event(w);
    begin(w->a);
    assert_int_equal(order(event, w->a, w->b), 0);
    assert_int_equal(launch_add(w, w->b, 0, 1, 1), 0);
    ph__driver_clear_reason();
    end_fails(w->a, 904);
    assert_non_null(strstr(ph__driver_reason(), "does not wait for"));
    assert_int_equal(status_of(w->a), PH_CAPTURE_NONE);
    assert_int_equal(status_of(w->b), PH_CAPTURE_NONE);
    begin(w->b); /* both are free again */
    assert_int_equal(order(event, w->b, w->a), 0);
    assert_int_equal(launch_add(w, w->a, 0, 1, 1), 0);
    assert_int_equal(order(event, w->a, w->b), 0);
    assert_int_equal(end_count(w->b), 1);
    drv->event_destroy(event);
}

static void a_join_through_a_third_stream_is_a_join(void **state)
{
    world *w = *state;
    ph__drv_event *event = new_event(w);
    ph__drv_stream *c = NULL;
    assert_int_equal(drv->stream_create(&c, w->device, PH__STREAM_NON_BLOCKING, 0), 0);
    begin(w->a);
    assert_int_equal(order(event, w->a, w->b), 0);
    assert_int_equal(launch_add(w, w->b, 0, 1, 1), 0);
    assert_int_equal(order(event, w->b, c), 0);
    assert_int_equal(order(event, c, w->a), 0); /* c passes b's node on */
    assert_int_equal(end_count(w->a), 1);
    drv->stream_destroy(c);
    drv->event_destroy(event);
}

static void begin_is_refused_where_it_means_nothing(void **state)
{
    world *w = *state;
    assert_int_equal(drv->capture_begin(w->a, (ph_capture_mode)3), 1);
    assert_int_equal(drv->capture_begin(drv->stream_default(w->device), PH_CAPTURE_RELAXED), 900);
    begin(w->a);
    assert_int_equal(drv->capture_begin(w->a, PH_CAPTURE_GLOBAL), 401);
    assert_int_equal(drv->capture_begin(drv->stream_default(w->device), PH_CAPTURE_GLOBAL), 900);
    assert_int_equal(launch_add(w, w->a, 0, 1, 1), 0);
    assert_int_equal(end_count(w->a), 1);
    end_fails(w->a, 401);
}

static void the_end_belongs_to_the_origin(void **state)
{
    world *w = *state;
    ph__drv_event *event = new_event(w);
    begin(w->a);
    assert_int_equal(order(event, w->a, w->b), 0);
    end_fails(w->b, 903);
    assert_int_equal(status_of(w->b), PH_CAPTURE_INVALIDATED);
    end_fails(w->a, 901);
    assert_int_equal(status_of(w->b), PH_CAPTURE_NONE);
    drv->event_destroy(event);
}

typedef struct end_call {
    ph__drv_stream *stream;
    ph__drv_graph *graph;
    int result;
} end_call;

static void *end_elsewhere(void *argument)
{
    end_call *call = argument;
    call->result = drv->capture_end(&call->graph, call->stream);
    return NULL;
}

/* The wrong thread is told so, and has ended it all the same. */
static void the_end_belongs_to_the_thread_unless_relaxed(void **state)
{
    world *w = *state;
    ph__drv_event *event = new_event(w);
    for (int mode = PH_CAPTURE_GLOBAL; mode <= PH_CAPTURE_RELAXED; mode++) {
        end_call call = {.stream = w->a, .result = -1};
        assert_int_equal(drv->capture_begin(w->a, (ph_capture_mode)mode), 0);
        assert_int_equal(launch_add(w, w->a, 0, 1, 1), 0);
        assert_int_equal(order(event, w->a, w->b), 0);
        on_another_thread(end_elsewhere, &call);
        assert_int_equal(call.result, mode == PH_CAPTURE_RELAXED ? 0 : 908);
        assert_int_equal(call.graph != NULL, mode == PH_CAPTURE_RELAXED);
        drv->graph_destroy(call.graph);
        assert_int_equal(status_of(w->a), PH_CAPTURE_NONE);
        assert_int_equal(status_of(w->b), PH_CAPTURE_NONE);
        end_fails(w->a, 401);
    }
    drv->event_destroy(event);
}

static void any_thread_ends_what_was_invalidated(void **state)
{
    world *w = *state;
    end_call call = {.stream = w->a, .result = -1};
    begin(w->a);
    assert_int_equal(drv->stream_query(w->a), 900);
    on_another_thread(end_elsewhere, &call);
    assert_int_equal(call.result, 901);
    assert_null(call.graph);
    assert_int_equal(status_of(w->a), PH_CAPTURE_NONE);
}

static void an_invalidated_capture_answers_so_until_its_end(void **state)
{
    world *w = *state;
    ph__drv_event *event = new_event(w);
    begin(w->a);
    assert_int_equal(order(event, w->a, w->b), 0);
    assert_int_equal(drv->stream_synchronize(w->b), 900);
    ph__drv_capture capture;
    assert_int_equal(drv->capture_get(&capture, w->a), 0);
    assert_int_equal(capture.status, PH_CAPTURE_INVALIDATED);
    assert_true(capture.id != 0);
    assert_null(capture.graph);
    assert_int_equal(status_of(w->b), PH_CAPTURE_INVALIDATED);
    const ph__drv_memset fill = {.dst = w->words, .value_size = 1, .count = 1};
    assert_int_equal(launch_add(w, w->a, 0, 1, 1), 901);
    assert_int_equal(drv->fill(w->b, &fill), 901);
    assert_int_equal(drv->event_record(event, w->a, 0), 901);
    assert_int_equal(drv->stream_wait_event(w->a, event, 0), 901);
    assert_int_equal(drv->event_query(event), 907);
    assert_int_equal(drv->capture_begin(w->a, PH_CAPTURE_GLOBAL), 401);
    ph__driver_clear_reason();
    end_fails(w->a, 901);
    assert_non_null(strstr(ph__driver_reason(), "cuStreamSynchronize"));
    assert_int_equal(status_of(w->b), PH_CAPTURE_NONE);
    assert_int_equal(launch_add(w, w->a, 0, 0, 4), 0); /* runs, is not recorded */
    assert_int_equal(drv->stream_synchronize(w->a), 0);
    assert_int_equal(w->words[0], 4);
    drv->event_destroy(event);
}

static void two_captures_cannot_merge(void **state)
{
    world *w = *state;
    ph__drv_event *event = new_event(w);
    begin(w->a);
    begin(w->b);
    assert_int_equal(order(event, w->a, w->b), 902);
    end_fails(w->a, 901);
    end_fails(w->b, 901);
    drv->event_destroy(event);
}

static void a_rule_about_one_capture_spares_the_others(void **state)
{
    world *w = *state;
    ph__drv_event *event = new_event(w);
    assert_int_equal(drv->capture_begin(w->a, PH_CAPTURE_RELAXED), 0);
    assert_int_equal(drv->capture_begin(w->b, PH_CAPTURE_RELAXED), 0);
    assert_int_equal(drv->event_record(event, w->a, 0), 0);
    assert_int_equal(drv->event_query(event), 907);
    assert_int_equal(status_of(w->a), PH_CAPTURE_INVALIDATED);
    assert_int_equal(status_of(w->b), PH_CAPTURE_ACTIVE);
    end_fails(w->a, 901);
    assert_int_equal(drv->capture_begin(w->a, PH_CAPTURE_RELAXED), 0);
    assert_int_equal(drv->stream_synchronize(w->b), 900);
    assert_int_equal(status_of(w->a), PH_CAPTURE_ACTIVE);
    end_fails(w->b, 901);
    assert_int_equal(end_count(w->a), 0);
    drv->event_destroy(event);
}

static void events_of_outside_and_of_the_past_are_refused(void **state)
{
    world *w = *state;
    ph__drv_event *event = new_event(w);
    begin(w->a);
    assert_int_equal(drv->stream_wait_event(w->a, event, 0), 0); /* never recorded: no wait */
    assert_int_equal(end_count(w->a), 0);

    assert_int_equal(drv->event_record(event, w->b, 0), 0);
    begin(w->a);
    assert_int_equal(drv->stream_wait_event(w->a, event, 0), 905);
    end_fails(w->a, 901);

    begin(w->a);
    assert_int_equal(drv->event_record(event, w->a, 0), 0);
    assert_int_equal(end_count(w->a), 0);
    assert_int_equal(drv->stream_wait_event(w->b, event, 0), 907);
    assert_int_equal(drv->event_query(event), 907);
    begin(w->a);
    assert_int_equal(drv->stream_wait_event(w->a, event, 0), 907);
    end_fails(w->a, 901);

    assert_int_equal(drv->event_record(event, w->b, 0),
                     0); /* a record outside makes it an ordinary one again */
    assert_int_equal(drv->event_synchronize(event), 0);
    assert_int_equal(drv->stream_wait_event(w->a, event, 0), 0);
    drv->event_destroy(event);
}

static void the_legacy_stream_stays_out(void **state)
{
    world *w = *state;
    ph__drv_event *event = new_event(w);
    begin(w->a);
    assert_int_equal(order(event, w->a, drv->stream_default(w->device)), 906);
    end_fails(w->a, 901);
    drv->event_destroy(event);
}

static void external_events_become_nodes(void **state)
{
    world *w = *state;
    ph__drv_event *event = new_event(w);
    ph__drv_graph *graph = NULL;
    begin(w->a);
    assert_int_equal(drv->stream_wait_event(w->a, event, PH__EVENT_RECORD_EXTERNAL), 0);
    assert_int_equal(launch_add(w, w->a, 0, 1, 1), 0);
    assert_int_equal(drv->event_record(event, w->a, PH__EVENT_RECORD_EXTERNAL), 0);
    assert_int_equal(drv->capture_end(&graph, w->a), 0);
    assert_int_equal(node_count(graph), 3);
    assert_int_equal(info_at(graph, 0).kind, PH_NODE_EVENT_WAIT);
    assert_int_equal(info_at(graph, 2).kind, PH_NODE_EVENT_RECORD);
    assert_ptr_equal(info_at(graph, 2).event, event);
    assert_int_equal(drv->event_query(event), 0); /* the node is no record */
    drv->event_destroy(event);                    /* the nodes keep what they need */
    assert_non_null(info_at(graph, 0).event);
    drv->graph_destroy(graph);
}

static void a_destroyed_stream_takes_its_capture_with_it(void **state)
{
    world *w = *state;
    ph__drv_event *event = new_event(w);
    ph__drv_stream *c = NULL;
    assert_int_equal(drv->stream_create(&c, w->device, PH__STREAM_NON_BLOCKING, 0), 0);
    begin(w->a);
    assert_int_equal(order(event, w->a, c), 0);
    drv->stream_destroy(c);
    assert_int_equal(status_of(w->a), PH_CAPTURE_INVALIDATED);
    end_fails(w->a, 901);

    assert_int_equal(drv->stream_create(&c, w->device, PH__STREAM_NON_BLOCKING, 0), 0);
    begin(c);
    assert_int_equal(order(event, c, w->a), 0);
    assert_int_equal(launch_add(w, w->a, 0, 1, 1), 0);
    drv->stream_destroy(c); /* nobody could end it any more */
    assert_int_equal(status_of(w->a), PH_CAPTURE_NONE);
    drv->event_destroy(event);
}

static void *drop_elsewhere(void *stream)
{
    drv->capture_drop(stream);
    return NULL;
}

static void a_capture_can_be_dropped_from_any_thread(void **state)
{
    world *w = *state;
    ph__drv_event *event = new_event(w);
    begin(w->a);
    assert_int_equal(order(event, w->a, w->b), 0);
    assert_int_equal(launch_add(w, w->b, 0, 1, 1), 0);
    drv->capture_drop(w->b); /* not where it began */
    assert_int_equal(status_of(w->a), PH_CAPTURE_ACTIVE);
    on_another_thread(drop_elsewhere, w->a);
    assert_int_equal(status_of(w->a), PH_CAPTURE_NONE);
    assert_int_equal(status_of(w->b), PH_CAPTURE_NONE);
    drv->capture_drop(w->a);
    drv->event_destroy(event);
}

static void a_kernel_may_go_before_its_nodes(void **state)
{
    world *w = *state;
    const ph_kernel_source source = {
        .name = "short-lived", .host = add_body, .args_size = sizeof(struct add_args)};
    const struct add_args args = {.words = w->words};
    const ph__drv_launch launch = {.grid = {3, 1, 1}, .block = {4, 1, 1}, .args = &args};
    ph__drv_kernel *kernel = NULL;
    ph__drv_graph *graph = NULL;
    assert_int_equal(drv->kernel_create(&kernel, w->device, &source), 0);
    begin(w->a);
    assert_int_equal(drv->launch(w->a, kernel, &launch), 0);
    drv->kernel_destroy(kernel);
    assert_int_equal(drv->capture_end(&graph, w->a), 0);
    assert_string_equal(info_at(graph, 0).kernel_name, "short-lived");
    drv->graph_destroy(graph);
}

static void the_thread_mode_is_exchanged(void **state)
{
    world *w = *state;
    ph_capture_mode mode = PH_CAPTURE_RELAXED;
    void *memory = NULL;
    assert_int_equal(drv->thread_exchange_mode(w->device, &mode), 0);
    assert_int_equal(mode, PH_CAPTURE_GLOBAL);
    begin(w->a);
    assert_int_equal(drv->plain_alloc(&memory, w->device, 4096), 0); /* let through */
    assert_int_equal(drv->thread_exchange_mode(w->device, &mode), 0);
    assert_int_equal(mode, PH_CAPTURE_RELAXED);
    assert_int_equal(drv->plain_free(w->device, memory), 900);
    end_fails(w->a, 901);
    assert_int_equal(drv->plain_free(w->device, memory), 0);
    mode = (ph_capture_mode)7;
    assert_int_equal(drv->thread_exchange_mode(w->device, &mode), 1);
}

/* Many joins between two nodes: the set of terminals grows, and a copy that an event took
 * earlier does not. */
static void sets_of_nodes_are_values(void **state)
{
    enum {
        FORKS = 100
    };
    world *w = *state;
    ph__drv_event *event = new_event(w), *early = new_event(w), *late = new_event(w);
    ph__drv_stream *side[FORKS];
    ph__drv_graph *graph = NULL;
    begin(w->a);
    assert_int_equal(launch_add(w, w->a, 0, 1, 1), 0);
    for (int i = 0; i < FORKS; i++) {
        assert_int_equal(drv->stream_create(&side[i], w->device, PH__STREAM_NON_BLOCKING, 0), 0);
        assert_int_equal(order(event, w->a, side[i]), 0);
        assert_int_equal(launch_add(w, side[i], 0, 1, 1), 0);
        if (i == 95)
            assert_int_equal(drv->event_record(early, w->a, 0), 0);
        assert_int_equal(order(event, side[i], w->a), 0);
    }
    assert_int_equal(drv->stream_wait_event(w->b, early, 0), 0);
    assert_int_equal(drv->event_record(late, side[98], 0), 0);
    assert_int_equal(drv->stream_wait_event(w->b, late, 0), 0);
    assert_int_equal(launch_add(w, w->b, 0, 1, 1), 0);
    assert_int_equal(order(event, w->b, w->a), 0);
    assert_int_equal(launch_add(w, w->a, 0, 1, 1), 0);
    assert_int_equal(drv->capture_end(&graph, w->a), 0);
    assert_int_equal(info_at(graph, 1).dependency_count, 1);
    assert_int_equal(info_at(graph, FORKS).dependency_count, FORKS);
    /* node 0, 95 joins, side 98 */
    assert_int_equal(info_at(graph, FORKS + 1).dependency_count, 97);
    for (size_t i = 0; i < 96; i++)
        assert_ptr_equal(info_at(graph, FORKS + 1).dependencies[i], node_at(graph, i));
    assert_ptr_equal(info_at(graph, FORKS + 1).dependencies[96], node_at(graph, 99));
    assert_int_equal(info_at(graph, FORKS + 2).dependency_count, FORKS + 2);
    drv->graph_destroy(graph);
    for (int i = 0; i < FORKS; i++)
        drv->stream_destroy(side[i]);
    drv->event_destroy(late);
    drv->event_destroy(early);
    drv->event_destroy(event);
}

/* What was borrowed stays readable while another thread records. */
typedef struct reader {
    ph__drv_stream *stream;
    atomic_bool stop;
    size_t seen;
} reader;

static void *read_while_recording(void *argument)
{
    reader *r = argument;
    do {
        ph__drv_capture capture;
        ph__drv_node *const *nodes;
        size_t count;
        if (drv->capture_get(&capture, r->stream) || !capture.graph ||
            drv->graph_nodes(&nodes, &count, capture.graph))
            continue;
        for (size_t i = 0; i < count; i++) {
            ph__drv_node_info info;
            if (drv->node_info(&info, nodes[i]) == 0)
                r->seen += info.dependency_count;
        }
        for (size_t i = 0; i < capture.dependency_count; i++)
            r->seen += capture.dependencies[i] != NULL;
    } while (!atomic_load(&r->stop));
    return NULL;
}

static void nodes_are_read_while_others_record(void **state)
{
    enum {
        NODES = 400
    };
    world *w = *state;
    reader r = {.stream = w->a};
    pthread_t thread;
    begin(w->a);
    assert_int_equal(pthread_create(&thread, NULL, read_while_recording, &r), 0);
    for (int i = 0; i < NODES; i++)
        assert_int_equal(launch_add(w, w->a, 0, 1, 1), 0);
    atomic_store(&r.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(end_count(w->a), NODES);
}

typedef struct capturer {
    const world *w;
    ph_capture_mode mode;
    int failures;
} capturer;

static void *capture_many(void *argument)
{
    capturer *c = argument;
    ph__drv_stream *origin = NULL, *side = NULL;
    ph__drv_event *event = NULL;
    c->failures += drv->stream_create(&origin, c->w->device, PH__STREAM_NON_BLOCKING, 0) != 0;
    c->failures += drv->stream_create(&side, c->w->device, PH__STREAM_NON_BLOCKING, 0) != 0;
    c->failures += drv->event_create(&event, c->w->device, PH__EVENT_DISABLE_TIMING) != 0;
    for (int i = 0; i < 100 && !c->failures; i++) {
        ph__drv_graph *graph = NULL;
        ph__drv_node *const *nodes;
        size_t count = 0;
        c->failures += drv->capture_begin(origin, c->mode) != 0;
        c->failures += order(event, origin, side) != 0;
        for (int k = 0; k < 5; k++)
            c->failures += launch_add(c->w, k % 2 ? side : origin, 0, 1, 1) != 0;
        c->failures += order(event, side, origin) != 0;
        c->failures += drv->capture_end(&graph, origin) != 0;
        c->failures += drv->graph_nodes(&nodes, &count, graph) != 0 || count != 5;
        drv->graph_destroy(graph);
    }
    drv->event_destroy(event);
    drv->stream_destroy(side);
    drv->stream_destroy(origin);
    return NULL;
}

static void threads_capture_side_by_side(void **state)
{
    enum {
        THREADS = 4
    };
    capturer c[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        c[i] = (capturer){.w = *state, .mode = (ph_capture_mode)(i % 3)};
        assert_int_equal(pthread_create(&threads[i], NULL, capture_many, &c[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(c[i].failures, 0);
    }
}

/* A capture of every kind of recording call, where each call is made again when it answers 2. */
static int with_memory(int result, int64_t *n)
{
    assert_true(result == 0 || result == 2);
    if (result == 2)
        ph__alloc_fail_after(++*n);
    return result;
}

#define RETRY(call)                                                                                \
    do {                                                                                           \
        ph__alloc_fail_after(n = 0);                                                               \
        while (with_memory((call), &n) != 0)                                                       \
            refused++;                                                                             \
        ph__alloc_fail_after(PH__ALLOC_NEVER);                                                     \
    } while (0)

static void out_of_memory_changes_nothing(void **state)
{
    world *w = *state;
    ph__drv_event *event = new_event(w), *outside = new_event(w);
    ph__drv_graph *graph = NULL;
    const ph__drv_memset fill = {.dst = w->words, .value_size = 1, .count = 1};
    int64_t n = 0, live = ph__alloc_live();
    int refused = 0;
    RETRY(drv->capture_begin(w->a, PH_CAPTURE_GLOBAL));
    assert_true(refused >= 4); /* the capture, its graph, its streams, the device's list */
    refused = 0;
    RETRY(launch_add(w, w->a, 0, 1, 1));
    assert_true(refused >= 2);
    RETRY(drv->event_record(event, w->a, 0));
    RETRY(drv->stream_wait_event(w->b, event, 0));
    RETRY(drv->fill(w->b, &fill));
    RETRY(drv->event_record(event, w->b, 0));
    RETRY(drv->stream_wait_event(w->a, event, 0));
    RETRY(drv->event_record(outside, w->a, PH__EVENT_RECORD_EXTERNAL));
    RETRY(drv->capture_end(&graph, w->a));
    assert_int_equal(node_count(graph), 3);
    assert_int_equal(info_at(graph, 2).dependency_count, 2);
    drv->graph_destroy(graph);
    assert_true(ph__alloc_live() <= live + 1); /* the device keeps its list of captures */
    drv->event_destroy(outside);
    drv->event_destroy(event);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_capture_records_and_does_not_execute),
        IN_WORLD(ids_are_never_used_again),
        IN_WORLD(forks_and_joins_make_dependencies),
        IN_WORLD(a_fork_that_did_nothing_counts_as_joined),
        IN_WORLD(a_fork_that_is_not_joined_fails_the_end),
        IN_WORLD(a_join_through_a_third_stream_is_a_join),
        IN_WORLD(begin_is_refused_where_it_means_nothing),
        IN_WORLD(the_end_belongs_to_the_origin),
        IN_WORLD(the_end_belongs_to_the_thread_unless_relaxed),
        IN_WORLD(any_thread_ends_what_was_invalidated),
        IN_WORLD(an_invalidated_capture_answers_so_until_its_end),
        IN_WORLD(two_captures_cannot_merge),
        IN_WORLD(a_rule_about_one_capture_spares_the_others),
        IN_WORLD(events_of_outside_and_of_the_past_are_refused),
        IN_WORLD(the_legacy_stream_stays_out),
        IN_WORLD(external_events_become_nodes),
        IN_WORLD(a_destroyed_stream_takes_its_capture_with_it),
        IN_WORLD(a_capture_can_be_dropped_from_any_thread),
        IN_WORLD(a_kernel_may_go_before_its_nodes),
        IN_WORLD(the_thread_mode_is_exchanged),
        IN_WORLD(sets_of_nodes_are_values),
        IN_WORLD(nodes_are_read_while_others_record),
        IN_WORLD(threads_capture_side_by_side),
        IN_WORLD(out_of_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
