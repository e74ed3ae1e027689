/* SPDX-License-Identifier: MIT */
/* tests/graph/view.c: graphs that other code owns and launches, and slots that are set without a
 * launch. The host device has no such graphs: there a table in front of its driver's takes its own
 * for them. */
#include "support/fault.h"
#include "support/fixture.h"
#include "support/support.h"

#include "base/alloc.h"
#include "device/handles/device.h"
#include "device/handles/kernel.h"
#include <phonograph/cuda.h>
#include <phonograph/inspect/inputs.h>
#include <phonograph/inspect/locate.h>
#include <phonograph/inspect/profile.h>
#include <string.h>

enum {
    N = 1000,
    BYTES = N * sizeof(int32_t)
};
static t_world world;
static ph_graph *graph, *other;
static int32_t *x, *y;
static ph__driver table;
static const ph__driver *real;
/* the other code's */
static ph__drv_graph *template;
static ph__drv_exec *exec;

static int take_own(ph__drv_graph **out, ph__drv_device *device, void *native)
{
    (void)device;
    *out = native;
    return 0;
}

static int view_own(ph__drv_exec **out, ph__drv_graph *of, void *native)
{
    (void)of;
    *out = native;
    return 0;
}

static void leave_own(ph__drv_graph *left)
{
    (void)left;
}

static void destroy_others(ph__drv_graph *gone)
{
    if (gone != template)
        real->graph_destroy(gone);
}

static void destroy_other_execs(ph__drv_exec *gone)
{
    if (gone != exec)
        real->exec_destroy(gone);
}

static const t_fixture fixture = {.world = &world,
                                  .graphs = {&graph, &other},
                                  .arrays = {{&x, N, T_INTS, 0}, {&y, N, T_INTS, 0}}};

/* x += 1 twice, captured and made executable by the driver alone. */
static void make_others(void)
{
    const struct t_add_i32 args = {N, x, x, 1};
    const ph__drv_launch launch = {{4, 1, 1}, {256, 1, 1}, 0, &args, false, false, NULL};
    ph__drv_node *const *nodes;
    size_t count;
    ph__drv_stream *stream = world.stream->handle;
    assert_int_equal(real->capture_begin(stream, PH_CAPTURE_RELAXED), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(real->launch(stream, world.add_i32->handle, &launch), 0);
    assert_int_equal(real->capture_end(&template, stream), 0);
    assert_int_equal(real->graph_nodes(&nodes, &count, template), 0);
    assert_int_equal(real->instantiate(&exec, template, 0, NULL), 0);
}

FIXTURE(open_world)
{
    t_fixture_open(&fixture);
    real = world.device->driver;
    make_others();
    if (t_on_host()) {
        table = *real;
        table.graph_import = take_own;
        table.graph_disown = leave_own;
        table.graph_destroy = destroy_others;
        table.exec_view = view_own;
        table.exec_destroy = destroy_other_execs;
        world.device->driver = &table;
    }
    return 0;
}

FIXTURE(close_world)
{
    ph_graph_destroy(graph); /* before what it looks at */
    graph = NULL;
    world.device->driver = real;
    real->exec_destroy(exec);
    real->graph_destroy(template);
    t_fixture_close(&fixture);
    return 0;
}

static struct CUgraph_st *native_graph(void)
{
    return real->graph_native(template);
}

static struct CUgraphExec_st *native_exec(void)
{
    return real->exec_native(exec);
}

static ph_status view(void)
{
    return ph_graph_view_cuda(graph, world.device, native_graph(), native_exec());
}

static void launch_by_owner(void)
{
    assert_int_equal(real->exec_launch(exec, world.stream->handle), 0);
}

static ph_status nothing(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    return PH_OK;
}

TEST(the_record_and_the_inputs_are_those_of_the_other_code)
{
    const ph_record *record;
    ph_node_info node;
    size_t count;
    assert_ok(view());
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_READY);
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), 2);
    assert_ok(ph_record_node(&node, record, 1));
    assert_string_equal(node.name, "add_i32");
    assert_ok(ph_graph_input_count(&count, graph));
    assert_true(count > 0);
    assert_ok(ph_graph_check_inputs(graph));
    launch_by_owner();
    t_all(x, N, 2, world.stream);
}

TEST(slots_are_set_and_the_owner_launches)
{
    size_t slot;
    assert_ok(view());
    assert_ok(ph_graph_slot_find(&slot, graph, "x", x, BYTES, NULL));
    const ph_slot_value to_y = {slot, y}, to_x = {slot, x};
    assert_ok(ph_graph_slots_set(graph, &to_y, 1));
    t_all(y, N, 0, world.stream); /* nothing ran */
    launch_by_owner();
    launch_by_owner();
    t_all(y, N, 4, world.stream);
    t_all(x, N, 0, world.stream);
    assert_ok(ph_graph_slots_set(graph, &to_x, 1));
    launch_by_owner();
    t_all(x, N, 2, world.stream);
    t_all(y, N, 4, world.stream);
}

TEST(nodes_are_changed)
{
    struct t_add_i32 args = {N, x, x, 10};
    ph_launch_config config = t_config(N);
    assert_ok(view());
    assert_ok(ph_graph_node_set_launch(graph, 0, &config, &args, sizeof args));
    assert_ok(ph_graph_node_set_enabled(graph, 1, false));
    launch_by_owner();
    t_all(x, N, 10, world.stream);
}

TEST(the_handles_stay_the_owners)
{
    for (int i = 0; i < 3; i++) {
        assert_ok(view());
        assert_ok(ph_graph_reset(graph));
        assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
        launch_by_owner();
    }
    t_all(x, N, 6, world.stream);
    assert_ok(ph_graph_capture(graph, world.stream, NULL, nothing, NULL)); /* as any graph */
    assert_ok(ph_graph_replay(graph, world.stream));
}

TEST(what_is_the_owners_to_do_is_refused)
{
    static const char why[] = "belong to other code";
    ph_profile *profile;
    ph_verify_result verified;
    assert_ok(view());
    assert_ok(ph_graph_capture(other, world.stream, NULL, nothing, NULL));
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STATE, why);
    assert_error(ph_graph_replay_with(graph, world.stream, NULL, 0), PH_ERROR_STATE, why);
    assert_error(ph_graph_instantiate(graph), PH_ERROR_STATE, why);
    assert_error(ph_graph_upload(graph, world.stream), PH_ERROR_STATE, why);
    assert_error(ph_graph_update(graph, other, NULL), PH_ERROR_STATE, why);
    assert_error(ph_graph_update(other, graph, NULL), PH_ERROR_STATE, why);
    assert_error(ph_graph_profile(&profile, graph, world.stream, NULL), PH_ERROR_STATE, why);
    assert_error(ph_graph_verify(&verified, graph, world.stream, nothing, NULL, NULL),
                 PH_ERROR_STATE, why);
    t_all(x, N, 0, world.stream); /* nothing ran */
    launch_by_owner();
    t_all(x, N, 2, world.stream);
}

/* ---- slots of any graph ---- */
static ph_status add_one(ph_stream *stream, void *user)
{
    struct t_add_i32 args = {N, x, x, 1};
    ph_launch_config config = t_config(N);
    (void)user;
    return ph_launch(stream, world.add_i32, &config, &args, sizeof args);
}

TEST(slots_of_a_graph_are_set_ahead_of_its_replay)
{
    size_t slot;
    assert_ok(ph_graph_capture(other, world.stream, NULL, add_one, NULL));
    assert_ok(ph_graph_slots_set(other, NULL, 0)); /* there is no slot, and no value */
    assert_ok(ph_graph_slot_find(&slot, other, "x", x, BYTES, NULL));
    const ph_slot_value values[] = {{slot, y}, {slot, y}}, absent = {slot + 1, y};
    assert_ok(ph_graph_slots_set(other, values, 1));
    assert_ok(ph_graph_replay(other, world.stream));
    t_all(y, N, 1, world.stream);
    t_all(x, N, 0, world.stream);
    assert_error(ph_graph_slots_set(other, values, 2), PH_ERROR_ARGUMENT, "named twice");
    assert_error(ph_graph_slots_set(other, &absent, 1), PH_ERROR_NOT_FOUND, "does not exist");
    assert_error(ph_graph_slots_set(other, NULL, 1), PH_ERROR_ARGUMENT, "values is NULL");
    assert_error(ph_graph_slots_set(NULL, values, 1), PH_ERROR_ARGUMENT, "graph is NULL");
    assert_error(ph_graph_slots_set(graph, values, 1), PH_ERROR_STATE, "ph_graph_slots_set");
    assert_ok(ph_graph_replay(other, world.stream)); /* as before */
    t_all(y, N, 2, world.stream);
}

/* ---- failures ---- */
TEST(a_failing_driver_leaves_the_graph_as_it_was)
{
    bool failed = true;
    for (int64_t n = 0; failed; n++) {
        ph__driver_fail_after(n, 999);
        ph_status status = view();
        ph__driver_fail_after(-1, 0);
        failed = status != PH_OK;
        assert_int_equal(ph_graph_get_state(graph), failed ? PH_GRAPH_NEW : PH_GRAPH_READY);
        assert_true(n < 100);
    }
    launch_by_owner();
    t_all(x, N, 2, world.stream);
}

TEST(a_lack_of_host_memory_leaves_the_graph_as_it_was)
{
    ph_status status = PH_ERROR_HOST_MEMORY;
    for (int64_t n = 0; status != PH_OK; n++) {
        ph__alloc_fail_after(n);
        status = view();
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status == PH_OK)
            break;
        assert_int_equal(status, PH_ERROR_HOST_MEMORY);
        assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
        assert_true(n < 500);
    }
    launch_by_owner();
    t_all(x, N, 2, world.stream);
}

TEST(misuse_is_refused)
{
    ph_device *host;
    assert_error(ph_graph_view_cuda(NULL, world.device, native_graph(), native_exec()),
                 PH_ERROR_ARGUMENT, "graph is NULL");
    assert_error(ph_graph_view_cuda(graph, NULL, native_graph(), native_exec()), PH_ERROR_ARGUMENT,
                 "device is NULL");
    assert_error(ph_graph_view_cuda(graph, world.device, NULL, native_exec()), PH_ERROR_ARGUMENT,
                 "cuda_graph is NULL");
    assert_error(ph_graph_view_cuda(graph, world.device, native_graph(), NULL), PH_ERROR_ARGUMENT,
                 "exec is NULL");
    assert_ok(ph_device_open(&host, "host:threads=2", NULL));
    assert_status(ph_graph_view_cuda(graph, host, native_graph(), native_exec()),
                  PH_ERROR_UNSUPPORTED);
    ph_device_release(host);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
    assert_ok(view());
    assert_status(view(), PH_ERROR_STATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(the_record_and_the_inputs_are_those_of_the_other_code),
        IN_WORLD(slots_are_set_and_the_owner_launches),
        IN_WORLD(nodes_are_changed),
        IN_WORLD(the_handles_stay_the_owners),
        IN_WORLD(what_is_the_owners_to_do_is_refused),
        IN_WORLD(slots_of_a_graph_are_set_ahead_of_its_replay),
        IN_WORLD(a_failing_driver_leaves_the_graph_as_it_was),
        IN_WORLD(a_lack_of_host_memory_leaves_the_graph_as_it_was),
        IN_WORLD(misuse_is_refused),
    };
    return cmocka_run_group_tests_name("graph.view", tests, NULL, NULL);
}
