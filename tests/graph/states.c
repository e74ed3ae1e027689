/* SPDX-License-Identifier: MIT */
/* tests/graph/states.c: walks the table of graph states: every call, in every state, with
 * keep_graph and without. */
#include "support/support.h"

#include "base/alloc.h"
#include "graph/object/states.h"
#include "support/test.h"
#include <phonograph/cuda.h>
#include <phonograph/host.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static t_world world;
static int32_t *x;
static ph_profile *other_profile; /* of another capture */

static ph_status no_work(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    return PH_OK;
}

FIXTURE(open_world)
{
    ph_graph *other;
    t_open(&world, NULL);
    assert_ok(PH_NEW(&x, 64, world.stream));
    t_log_start();
    assert_ok(ph_graph_create(&other, NULL));
    assert_ok(ph_graph_capture(other, world.stream, NULL, no_work, NULL));
    assert_ok(ph_graph_profile(&other_profile, other, world.stream, NULL));
    ph_graph_destroy(other);
    t_log_stop();
    return 0;
}

FIXTURE(close_world)
{
    ph_profile_destroy(other_profile);
    ph_free(x, world.stream);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

/* Node 0 a kernel, 1 a memset, 2 a memcpy, 3 a host function. */
static void nothing(void *user)
{
    (void)user;
}

static ph_status body(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_fill(&world, stream, x, 32, 1));
    PH_TRY(ph_memset_u32(x, 2, 32, stream));
    PH_TRY(ph_memcpy(x + 32, x, 32 * sizeof *x, stream));
    return ph_launch_host(stream, nothing, NULL);
}

static ph_status failing(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    return ph_fail(PH_ERROR_CALLER, "the body's own words");
}

static ph_graph *graph_in(ph_graph_state state, bool keep)
{
    ph_graph *graph;
    ph_graph_options options = {.keep_graph = keep};
    assert_ok(ph_graph_create(&graph, &options));
    if (state == PH_GRAPH_CAPTURING)
        assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    if (state == PH_GRAPH_ENDED || state == PH_GRAPH_READY)
        assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    if (state == PH_GRAPH_READY && keep)
        assert_ok(ph_graph_instantiate(graph));
    if (state == PH_GRAPH_FAILED)
        assert_status(ph_graph_capture(graph, world.stream, NULL, failing, NULL), PH_ERROR_CALLER);
    assert_int_equal(ph_graph_get_state(graph), state);
    return graph;
}

static ph_status hook(const ph_graph_hook_info *info, void *user)
{
    (void)info;
    (void)user;
    return PH_OK;
}

static void release(void *object)
{
    (void)object;
}

static ph_status add_hook(ph_graph *graph)
{
    ph_hook *added;
    ph_status status = ph_graph_hook_add(&added, graph, PH_HOOK_REPLAY_START, hook, NULL);
    ph_graph_hook_remove(added);
    return status;
}

static ph_status retain_pool(ph_graph *graph)
{
    ph_pool *pool;
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    ph_status status = ph_graph_retain_pool(graph, pool);
    ph_pool_release(pool);
    return status;
}

static ph_status set_launch(ph_graph *graph)
{
    struct t_fill_i32 args = {32, x, 3};
    ph_launch_config config = t_config(32);
    return ph_graph_node_set_launch(graph, 0, &config, &args, sizeof args);
}

static ph_status update(ph_graph *graph)
{
    ph_graph *from = graph_in(PH_GRAPH_READY, false);
    ph_status status = ph_graph_update(graph, from, NULL);
    ph_graph_destroy(from);
    return status;
}

static ph_status update_from(ph_graph *from)
{
    ph_graph *graph;
    ph_graph_options options = {.keep_graph = true};
    ph_stream *stream;
    assert_ok(ph_stream_create(&stream, world.device, NULL));
    assert_ok(ph_graph_create(&graph, &options));
    assert_ok(ph_graph_capture(graph, stream, NULL, body, NULL));
    assert_ok(ph_graph_instantiate(graph));
    ph_status status = ph_graph_update(graph, from, NULL);
    ph_graph_destroy(graph);
    ph_stream_destroy(stream);
    return status;
}

static ph_status find_races(ph_graph *graph)
{
    ph_races *races = NULL;
    ph_status status = ph_graph_find_races(&races, graph);
    ph_races_destroy(races);
    return status;
}

static ph_status compare(ph_graph *graph)
{
    ph_diff *diff;
    ph_status status = ph_graph_diff(&diff, graph, graph);
    ph_diff_destroy(diff);
    return status;
}

static ph_status prove(ph_graph *graph)
{
    ph_graph *shifted = graph_in(PH_GRAPH_READY, false);
    ph_status status = ph_graph_slot_prove(NULL, graph, &shifted, 1, NULL, 0);
    ph_graph_destroy(shifted);
    return status;
}

static ph_status prove_shifted(ph_graph *shifted)
{
    ph_graph *graph;
    ph_stream *stream;
    assert_ok(ph_stream_create(&stream, world.device, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, stream, NULL, body, NULL));
    ph_status status = ph_graph_slot_prove(NULL, graph, &shifted, 1, NULL, 0);
    ph_graph_destroy(graph);
    ph_stream_destroy(stream);
    return status;
}

/* One of them; the other one is made here. */
static ph_status prove_scalar(ph_graph *graph, ph_graph *changed)
{
    ph_slot_proof proof;
    ph_graph *made;
    ph_stream *stream;
    assert_ok(ph_stream_create(&stream, world.device, NULL));
    assert_ok(ph_graph_create(&made, NULL));
    assert_ok(ph_graph_capture(made, stream, NULL, body, NULL));
    ph_status status =
        ph_graph_slot_prove_scalar(&proof, graph ? graph : made, changed ? changed : made, NULL,
                                   &(int32_t){1}, &(int32_t){2}, 4);
    ph_graph_destroy(made);
    ph_stream_destroy(stream);
    return status;
}

static ph_status dump(ph_graph *graph)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/phonograph-states-%d.dot", (int)getpid());
    ph_status status = ph_graph_debug_dump(graph, path, true);
    unlink(path);
    return status;
}

static ph_status profile(ph_graph *graph)
{
    ph_profile *made;
    const ph_profile_options once = {.replays = 1, .warmup = 1};
    ph_status status = ph_graph_profile(&made, graph, world.stream, &once);
    ph_profile_destroy(made);
    return status;
}

static ph_status verdict(ph_graph *graph)
{
    ph_verdict found;
    const ph_verdict_options once = {.rounds = 1};
    return ph_graph_verdict(&found, graph, world.stream, no_work, NULL, &once);
}

/* Calls that return nothing count as PH_OK. */
static ph_status unseen(ph_graph *graph)
{
    char *text;
    PH_TRY(ph_graph_unseen(&text, graph));
    ph_string_free(text);
    return PH_OK;
}

static ph_status call(ph__graph_call which, ph_graph *graph)
{
    ph_pool *pool;
    size_t count;
    ph_host_graph *host_graph;
    ph_host_exec *host_exec;
    struct CUgraph_st *cuda_graph;
    struct CUgraphExec_st *cuda_exec;
    const ph_record *record;
    const ph_diff *update_diff;
    ph_graph_memory memory;
    ph_graph_changes changes;
    bool enabled;
    const ph_slot_place memset_place = {1, 0}, kernel_place = {0, 0};
    ph_slot_place place;
    ph_slot_info slot;
    ph_progress progress;
    ph_finite_result found;
    ph_input_info input;
    ph_verify_result verified;
    ph_graph *segment;
    switch (which) {
    case PH__CALL_GET_STATE:
        (void)ph_graph_get_state(graph);
        return PH_OK;
    case PH__CALL_DESTROY:
        return PH_OK; /* each walked graph is destroyed at the end */
    case PH__CALL_RESET:
        return ph_graph_reset(graph);
    case PH__CALL_CAPTURE:
        return ph_graph_capture(graph, world.stream, NULL, body, NULL);
    case PH__CALL_CAPTURE_BEGIN:
        return ph_graph_capture_begin(graph, world.stream, NULL);
    case PH__CALL_CAPTURE_END:
        return ph_graph_capture_end(graph, PH_OK);
    case PH__CALL_CAPTURE_ABORT:
        ph_graph_capture_abort(graph);
        return PH_OK;
    case PH__CALL_IMPORT_CUDA:
        return ph_graph_import_cuda(graph, world.device, NULL, NULL);
    case PH__CALL_VIEW_CUDA:
        return ph_graph_view_cuda(graph, world.device, NULL, NULL);
    case PH__CALL_GET_CHANGES:
        return ph_graph_get_changes(&changes, graph);
    case PH__CALL_GET_MEMORY:
        return ph_graph_get_memory(&memory, graph);
    case PH__CALL_INSTANTIATE:
        return ph_graph_instantiate(graph);
    case PH__CALL_UPLOAD:
        return ph_graph_upload(graph, world.stream);
    case PH__CALL_REPLAY:
        return ph_graph_replay(graph, world.stream);
    case PH__CALL_REPLAY_WITH:
        return ph_graph_replay_with(graph, world.stream, NULL, 0);
    case PH__CALL_PROFILE:
        return profile(graph);
    case PH__CALL_VERDICT:
        return verdict(graph);
    case PH__CALL_PROFILE_DUMP_RECORD:
        return ph_profile_dump_record(other_profile, graph, "/nowhere");
    case PH__CALL_SLOT_FIND:
        return ph_graph_slot_find(&count, graph, NULL, x, 64 * sizeof *x, NULL);
    case PH__CALL_SLOT_DECLARE_ADDRESS:
        return ph_graph_slot_declare_address(&count, graph, NULL, x, 64 * sizeof *x, &memset_place,
                                             1, NULL);
    case PH__CALL_SLOT_DECLARE_SCALAR:
        return ph_graph_slot_declare_scalar(&count, graph, NULL, &(int32_t){32}, 4, &kernel_place,
                                            1);
    case PH__CALL_SLOT_PROVE:
        return prove(graph);
    case PH__CALL_SLOT_PROVE_SCALAR:
        return prove_scalar(graph, NULL);
    case PH__CALL_SLOT_PROVE_CHANGED:
        return prove_scalar(NULL, graph);
    case PH__CALL_SLOT_PROVE_SHIFTED:
        return prove_shifted(graph);
    case PH__CALL_SLOTS_SET:
        return ph_graph_slots_set(graph, NULL, 0);
    case PH__CALL_SLOT_COUNT:
        return ph_graph_slot_count(graph) == 0 ? PH_OK : PH_ERROR_STATE;
    case PH__CALL_SLOT_GET:
        return ph_graph_slot_get(&slot, graph, 0);
    case PH__CALL_SLOT_PLACE_AT:
        return ph_graph_slot_place_at(&place, graph, 0, 0);
    case PH__CALL_SLOT_TAKES:
        return ph_graph_slot_takes(&enabled, graph, 0, x);
    case PH__CALL_WRITES:
        return ph_graph_writes(&enabled, graph, x, 4);
    case PH__CALL_POOL:
        return ph_graph_pool(&pool, graph);
    case PH__CALL_POOLS:
        return ph_graph_pools(NULL, 0, &count, graph);
    case PH__CALL_RETAIN_POOL:
        return retain_pool(graph);
    case PH__CALL_RETAIN:
        return ph_graph_retain(graph, release, NULL, false);
    case PH__CALL_HOLD_MEMORY:
        return ph_graph_hold_memory(graph, x);
    case PH__CALL_HOST:
        return ph_graph_host(&host_graph, graph);
    case PH__CALL_EXEC_HOST:
        return ph_graph_exec_host(&host_exec, graph);
    case PH__CALL_CUDA:
        return ph_graph_cuda(&cuda_graph, graph);
    case PH__CALL_EXEC_CUDA:
        return ph_graph_exec_cuda(&cuda_exec, graph);
    case PH__CALL_RECORD:
        return ph_graph_record(&record, graph);
    case PH__CALL_DEBUG_DUMP:
        return dump(graph);
    case PH__CALL_NODE_SET_LAUNCH:
        return set_launch(graph);
    case PH__CALL_NODE_SET_MEMSET:
        return ph_graph_node_set_memset(graph, 1, x, 5, 32);
    case PH__CALL_NODE_SET_MEMCPY:
        return ph_graph_node_set_memcpy(graph, 2, x, x + 32, 32 * sizeof *x);
    case PH__CALL_NODE_SET_HOST:
        return ph_graph_node_set_host(graph, 3, nothing, NULL);
    case PH__CALL_NODE_SET_ENABLED:
        return ph_graph_node_set_enabled(graph, 0, false);
    case PH__CALL_NODE_GET_ENABLED:
        return ph_graph_node_get_enabled(&enabled, graph, 0);
    case PH__CALL_BREADCRUMBS_ENABLE:
        return ph_graph_breadcrumbs_enable(graph, true);
    case PH__CALL_WHERE:
        return ph_graph_where(&progress, graph);
    case PH__CALL_CHECKS_ENABLE:
        return ph_finite_enable(graph, true);
    case PH__CALL_CHECK_COUNT:
        return ph_finite_count(&count, graph);
    case PH__CALL_CHECK_AT:
        return ph_finite_at(&found, graph, 0);
    case PH__CALL_UPDATE:
        return update(graph);
    case PH__CALL_UPDATE_FROM:
        return update_from(graph);
    case PH__CALL_UPDATE_DIFF:
        return ph_graph_update_diff(&update_diff, graph);
    case PH__CALL_DIFF:
        return compare(graph);
    case PH__CALL_SAME_ADDRESSES:
        return ph_graph_same_addresses(&enabled, graph, graph, 0);
    case PH__CALL_EPOCH:
        return ph_graph_epoch(graph) == 0 ? PH_OK : PH_ERROR_STATE;
    case PH__CALL_CHECK_OUTPUT:
        return ph_graph_check_output(graph, x, 0);
    case PH__CALL_SEGMENT_COUNT:
        (void)ph_graph_segment_count(graph);
        return PH_OK;
    case PH__CALL_SEGMENT:
        return ph_graph_segment(&segment, graph, 0);
    case PH__CALL_CHECK_INPUTS:
        return ph_graph_check_inputs(graph);
    case PH__CALL_VERIFY:
        return ph_graph_verify(&verified, graph, world.stream, body, NULL, NULL);
    case PH__CALL_FIND_RACES:
        return find_races(graph);
    case PH__CALL_INPUT_COUNT:
        return ph_graph_input_count(&count, graph);
    case PH__CALL_INPUT:
        return ph_graph_input(&input, graph, 0);
    case PH__CALL_UNSEEN:
        return unseen(graph);
    case PH__CALL_HOOK_ADD:
        return add_hook(graph);
    case PH__CALL_COUNT:
        break;
    }
    fail_msg("a row of the table has no call here");
    return PH_OK;
}

/* What GO gives where that is not PH_OK on this device and for this graph. */
static ph_status done(ph__graph_call which)
{
    if (which == PH__CALL_CUDA || which == PH__CALL_EXEC_CUDA)
        return t_on_host() ? PH_ERROR_UNSUPPORTED : PH_OK;
    if (which == PH__CALL_HOST || which == PH__CALL_EXEC_HOST)
        return t_on_host() ? PH_OK : PH_ERROR_UNSUPPORTED;
    if (which == PH__CALL_IMPORT_CUDA || which == PH__CALL_VIEW_CUDA)
        return PH_ERROR_ARGUMENT; /* no graph was given: looked at after the state */
    if (which == PH__CALL_PROFILE_DUMP_RECORD)
        return PH_ERROR_STATE; /* of another capture */
    if (which == PH__CALL_SLOT_GET || which == PH__CALL_SLOT_PLACE_AT ||
        which == PH__CALL_SLOT_TAKES)
        return PH_ERROR_NOT_FOUND; /* none was made */
    if (which == PH__CALL_UPDATE_DIFF)
        return PH_ERROR_NOT_FOUND; /* none has failed */
    if (which == PH__CALL_BREADCRUMBS_ENABLE || which == PH__CALL_WHERE ||
        which == PH__CALL_CHECKS_ENABLE)
        return PH_ERROR_STATE; /* none were captured, which is said behind the graph's state */
    if (which == PH__CALL_CHECK_AT)
        return PH_ERROR_NOT_FOUND;
    return which == PH__CALL_CHECK_OUTPUT ? PH_ERROR_NOT_FOUND : PH_OK; /* x is not the pool's */
}

/* The state after GO, where it is another one. */
static ph_graph_state after(ph__graph_call which, ph_graph_state state, bool keep)
{
    switch (which) {
    case PH__CALL_RESET:
        return PH_GRAPH_NEW;
    case PH__CALL_CAPTURE_BEGIN:
        return PH_GRAPH_CAPTURING;
    case PH__CALL_CAPTURE:
    case PH__CALL_CAPTURE_END:
        return keep ? PH_GRAPH_ENDED : PH_GRAPH_READY;
    case PH__CALL_CAPTURE_ABORT:
        return state == PH_GRAPH_CAPTURING ? PH_GRAPH_NEW : state;
    case PH__CALL_INSTANTIATE:
    case PH__CALL_UPLOAD:
    case PH__CALL_REPLAY:
    case PH__CALL_REPLAY_WITH:
    case PH__CALL_PROFILE:
    case PH__CALL_VERDICT:
    case PH__CALL_VERIFY:
        return PH_GRAPH_READY;
    default:
        return state;
    }
}

static void check_refusal(ph_status status, ph__graph_call which, ph_graph_state state,
                          ph__answer answer)
{
    const char *message = ph_error_last()->message;
    assert_int_equal(status, answer == PH__ANSWER_OWN ? PH_ERROR_CALLER : PH_ERROR_STATE);
    assert_int_equal(ph_error_last()->status, status);
    const char *name = ph__graph_calls[which].name;
    assert_memory_equal(message, name, strlen(name));
    if (answer == PH__ANSWER_OWN) {
        assert_non_null(strstr(message, "the body's own words"));
        return;
    }
    assert_non_null(strstr(message, ph__answers[answer].why));
    assert_non_null(strstr(message, ph__graph_state_name(state)));
    assert_non_null(strstr(message, ph__answers[answer].remedy));
}

static void walk(ph__graph_call which, ph_graph_state state, bool keep)
{
    ph__answer answer = ph__graph_calls[which].answer[state];
    ph_graph *graph = graph_in(state, keep);
    bool go = answer == PH__ANSWER_GO ||
              (keep && (answer == PH__ANSWER_KEEP || answer == PH__ANSWER_VISIBLE));
    /* A second capture on the stream of the first is another matter than the graph's state. */
    ph_status status = which == PH__CALL_UPDATE && state == PH_GRAPH_CAPTURING
                           ? ph_graph_update(graph, graph, NULL)
                       : which == PH__CALL_SLOT_PROVE && state == PH_GRAPH_CAPTURING
                           ? ph_graph_slot_prove(NULL, graph, &graph, 1, NULL, 0)
                           : call(which, graph);
    if (go)
        assert_int_equal(status, done(which));
    else
        check_refusal(status, which, state, answer);
    assert_int_equal(ph_graph_get_state(graph), go ? after(which, state, keep) : state);
    ph_graph_destroy(graph);
    assert_false(ph_stream_is_capturing(world.stream));
}

TEST(test_every_call_in_every_state)
{
    t_log_start(); /* graphs that end empty say so */
    for (int which = 0; which < PH__CALL_COUNT; which++)
        for (int s = 0; s < PH__GRAPH_STATES; s++)
            for (int keep = 0; keep < 2; keep++)
                if (keep || s != PH_GRAPH_ENDED) /* ENDED needs keep_graph */
                    walk((ph__graph_call)which, (ph_graph_state)s, keep != 0);
    t_log_stop();
}

TEST(test_null_graph)
{
    ph_pool *pool;
    assert_error(ph_graph_replay(NULL, world.stream), PH_ERROR_ARGUMENT, "graph is NULL");
    assert_error(ph_graph_capture_begin(NULL, world.stream, NULL), PH_ERROR_ARGUMENT,
                 "graph is NULL");
    assert_error(ph_graph_capture_end(NULL, PH_OK), PH_ERROR_ARGUMENT, "graph is NULL");
    assert_error(ph_graph_reset(NULL), PH_ERROR_ARGUMENT, "graph is NULL");
    assert_error(ph_graph_pool(&pool, NULL), PH_ERROR_ARGUMENT, "graph is NULL");
    assert_error(ph_graph_create(NULL, NULL), PH_ERROR_ARGUMENT, "out is NULL");
    ph_graph_destroy(NULL);
    ph_graph_capture_abort(NULL);
    assert_int_equal(ph_graph_epoch(NULL), 0);
}

TEST(test_words_of_refusals)
{
    ph_graph *ready = graph_in(PH_GRAPH_READY, false), *fresh = graph_in(PH_GRAPH_NEW, false);
    assert_error(ph_graph_capture_begin(ready, world.stream, NULL), PH_ERROR_STATE,
                 "ph_graph_capture_begin: the graph already owns a captured graph (READY); call "
                 "ph_graph_reset (in C++ clear) first or "
                 "create a new graph");
    assert_error(ph_graph_instantiate(ready), PH_ERROR_STATE,
                 "is meant to be called only when keep_graph is set");
    assert_error(ph_graph_replay(fresh, world.stream), PH_ERROR_STATE,
                 "without a preceding successful capture");
    assert_error(ph_graph_capture_end(fresh, PH_OK), PH_ERROR_STATE,
                 "it may only be called while the graph is capturing (NEW); call "
                 "ph_graph_capture_begin first");
    assert_error(ph_graph_capture_end(ready, PH_OK), PH_ERROR_STATE,
                 "ph_graph_capture_end: the graph is not capturing, as its capture has ended "
                 "(READY); replay "
                 "it, or call ph_graph_reset to capture again");
    ph_graph_destroy(ready);
    ph_graph_destroy(fresh);
}

/* A second capture begins in another graph, or after a reset, and not where the first has just
 * ended. */
TEST(test_advice_leads_on)
{
    ph_graph *graph = graph_in(PH_GRAPH_CAPTURING, false);
    assert_error(ph_graph_capture_begin(graph, world.stream, NULL), PH_ERROR_STATE,
                 "capture into another graph, or drop that capture with ph_graph_reset");
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STATE,
                 "or by returning from the function of ph_graph_capture");
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    ph_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_in_every_state),
        cmocka_unit_test(test_null_graph),
        cmocka_unit_test(test_words_of_refusals),
        cmocka_unit_test(test_advice_leads_on),
    };
    return cmocka_run_group_tests_name("graph.states", tests, open_world, close_world);
}
