/* SPDX-License-Identifier: MIT */
/* tests/graph/slots_misuse.c: what slots refuse, with nothing changed: spans, places, values,
 * and calls that are not theirs. */
#include "support/support.h"

#include "base/alloc.h"
#include "support/test.h"
#include <string.h>

enum {
    N = 512,
    BYTES = N * sizeof(int32_t),
    ADD = 0,
    COPY = 1,
    FILL = 2,
    HOST = 3,
    FIRST = 4
};
static t_world world;
static ph_kernel *copy_first; /* untyped */
static ph_graph *graph;
static int32_t *x, *y, *z, *u;
static size_t slot;

static void nothing(void *user)
{
    (void)user;
}

/* y = x + 1; z = x from the second half on; y = 0; *z = *u */
static ph_status body(ph_stream *stream, void *user)
{
    const struct t_copy_first args = {u + 1, z};
    (void)user;
    PH_TRY(t_add(&world, stream, x, y, N, 1));
    PH_TRY(ph_memcpy(z, x + N / 2, BYTES / 2, stream));
    PH_TRY(ph_memset_u32(y, 0, N, stream));
    PH_TRY(ph_launch_host(stream, nothing, NULL));
    return ph_launch(stream, copy_first, NULL, &args, sizeof args);
}

FIXTURE(open_world)
{
    int32_t **all[] = {&x, &y, &z, &u};
    t_open(&world, NULL);
    assert_ok(ph_kernel_create(&copy_first, world.device, &t_kernel_sources[T_KERNEL_COPY_FIRST]));
    for (int i = 0; i < 4; i++) {
        assert_ok(PH_NEW(all[i], N, world.stream));
        assert_ok(t_fill(&world, world.stream, *all[i], N, i + 1));
    }
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    return 0;
}

FIXTURE(close_world)
{
    ph_graph_destroy(graph);
    ph_free(x, world.stream);
    ph_free(y, world.stream);
    ph_free(z, world.stream);
    ph_free(u, world.stream);
    ph_kernel_release(copy_first);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

static ph_status find(const void *base, size_t bytes)
{
    return ph_graph_slot_find(&slot, graph, "s", base, bytes, NULL);
}

static ph_status declare(const void *base, size_t bytes, size_t node, size_t offset)
{
    const ph_slot_place place = {node, offset};
    return ph_graph_slot_declare_address(&slot, graph, "s", base, bytes, &place, 1, NULL);
}

static ph_status scalar(size_t bytes, size_t node, size_t offset)
{
    const ph_slot_place place = {node, offset};
    const ph_record *record;
    ph_node_info info;
    char there[512] = {0};
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_record_node(&info, record, node));
    for (size_t i = offset; i < offset + bytes && i < info.args_size; i++)
        there[i - offset] = ((const char *)info.args)[i];
    return ph_graph_slot_declare_scalar(&slot, graph, "v", there, bytes, &place, 1);
}

static ph_status with(size_t which, const void *value)
{
    return ph_graph_replay_with(graph, world.stream, &(ph_slot_value){which, value}, 1);
}

/* The graph is as it was captured, and has no slots. */
static void check_nothing_made(void)
{
    assert_int_equal(slot, PH_SLOT_NONE);
    assert_int_equal(ph_graph_slot_count(graph), 0);
}

TEST(a_slot_is_not_found_where_bytes_do_not_fit)
{
    ph_slot_options options = {.alignment = 24};
    slot = 5;
    assert_error(ph_graph_slot_find(NULL, graph, NULL, x, 4, NULL), PH_ERROR_ARGUMENT,
                 "slot is NULL");
    assert_error(find(NULL, 4), PH_ERROR_ARGUMENT, "base is NULL");
    assert_error(find(x, 0), PH_ERROR_ARGUMENT, "0 bytes");
    assert_error(find(x, SIZE_MAX), PH_ERROR_ARGUMENT, "is none");
    assert_error(ph_graph_slot_find(&slot, graph, NULL, x, 4, &options), PH_ERROR_ARGUMENT,
                 "no power of two");
    options.alignment = 4096;
    assert_error(ph_graph_slot_find(&slot, graph, NULL, x + 1, 4, &options), PH_ERROR_ARGUMENT,
                 "no multiple");
    options = (ph_slot_options){.reserved = {1}};
    assert_status(ph_graph_slot_find(&slot, graph, NULL, x, BYTES, &options), PH_ERROR_ARGUMENT);
    assert_error(find(x + 1, 8), PH_ERROR_NOT_FOUND, "no node of the graph is known");
    assert_error(find(x, BYTES - 4), PH_ERROR_ARGUMENT, "node 1 (memcpy)"); /* goes on behind it */
    /* begins before it */
    assert_error(find(x + N / 2 + 1, BYTES / 4), PH_ERROR_ARGUMENT, "node 1 (memcpy)");
    assert_error(find(y, BYTES / 2), PH_ERROR_ARGUMENT, "node 2 (memset)");
    assert_error(find(u, BYTES), PH_ERROR_UNSUPPORTED, "word +0 of node 4 (copy_first)");
    assert_error(find(z, BYTES), PH_ERROR_UNSUPPORTED, "word +8 of node 4 (copy_first)");
    check_nothing_made();
    assert_ok(find(x, BYTES));
    assert_error(find(x, BYTES), PH_ERROR_STATE, "a place of slot 0 (s) already");
    assert_int_equal(ph_graph_slot_count(graph), 1);
}

TEST(a_slot_is_not_declared_where_places_do_not_fit)
{
    const ph_slot_place twice[] = {{ADD, 2}, {ADD, 4}}, once = {ADD, 24},
                        same[] = {{ADD, 24}, {ADD, 24}};
    const int32_t one = 1;
    slot = 5;
    assert_error(ph_graph_slot_declare_address(&slot, graph, NULL, x, 4, NULL, 1, NULL),
                 PH_ERROR_ARGUMENT, "places is NULL");
    assert_error(ph_graph_slot_declare_address(&slot, graph, NULL, x, 4, twice, 0, NULL),
                 PH_ERROR_ARGUMENT, "0 places");
    assert_error(declare(x, BYTES, 5, 0), PH_ERROR_NOT_FOUND, "node 5 does not exist");
    assert_error(declare(x, BYTES, HOST, 0), PH_ERROR_UNSUPPORTED, "node 3 (host)");
    assert_error(declare(x, BYTES, ADD, 0), PH_ERROR_ARGUMENT, "is no address in the 2048 bytes");
    assert_error(declare(x, BYTES, ADD, 25), PH_ERROR_ARGUMENT, "leave the 32 bytes");
    assert_error(declare(x, BYTES, ADD, SIZE_MAX), PH_ERROR_ARGUMENT, "leave the 32 bytes");
    assert_error(declare(x, BYTES, COPY, 9), PH_ERROR_ARGUMENT, "leave the 16 bytes");
    assert_error(declare(x, BYTES, COPY, 4), PH_ERROR_ARGUMENT, "no address");
    assert_error(declare(x, BYTES - 1, COPY, 8), PH_ERROR_ARGUMENT, "reach beyond");
    assert_error(declare(y, BYTES, FILL, 8), PH_ERROR_ARGUMENT, "leave the 8 bytes");
    assert_error(declare(x + 1, BYTES - 4, ADD, 8), PH_ERROR_ARGUMENT, "is no address");
    assert_error(scalar(0, ADD, 24), PH_ERROR_ARGUMENT, "1 to 256");
    assert_error(scalar(257, ADD, 24), PH_ERROR_ARGUMENT, "1 to 256");
    assert_error(scalar(4, ADD, 29), PH_ERROR_ARGUMENT, "leave the 32 bytes");
    assert_error(scalar(4, FILL, 0), PH_ERROR_UNSUPPORTED, "only kernel nodes");
    assert_error(ph_graph_slot_declare_scalar(&slot, graph, NULL, &one, 4, same, 2), PH_ERROR_STATE,
                 "slot 0 already");
    assert_error(ph_graph_slot_declare_scalar(&slot, graph, NULL, &(int32_t){0}, 4, twice, 2),
                 PH_ERROR_STATE, "slot 0 already");
    assert_error(ph_graph_slot_declare_scalar(&slot, graph, NULL, NULL, 4, &once, 1),
                 PH_ERROR_ARGUMENT, "expected is NULL");
    assert_error(ph_graph_slot_declare_scalar(&slot, graph, NULL, &(int32_t){2}, 4, &once, 1),
                 PH_ERROR_ARGUMENT,
                 "has the bytes 01000000 at offset 24, and not 02000000 as expected");
    const ph_slot_place one_of_two[] = {{ADD, 24}, {ADD, 0}};
    assert_error(ph_graph_slot_declare_scalar(&slot, graph, NULL, &one, 4, one_of_two, 2),
                 PH_ERROR_ARGUMENT, "has the bytes 00020000 at offset 0");
    check_nothing_made();
    assert_ok(declare(u, BYTES, FIRST, 0));
    assert_ok(scalar(4, ADD, 24));
    assert_error(scalar(8, ADD, 22), PH_ERROR_STATE, "slot 1 (v) already");
    assert_error(declare(u, BYTES, FIRST, 0), PH_ERROR_STATE, "slot 0 (s) already");
}

TEST(questions_about_slots_that_are_not_there_are_refused)
{
    ph_slot_info info;
    ph_slot_place place;
    assert_ok(find(x, BYTES));
    assert_error(ph_graph_slot_get(NULL, graph, 0), PH_ERROR_ARGUMENT, "out is NULL");
    assert_error(ph_graph_slot_get(&info, graph, 1), PH_ERROR_NOT_FOUND,
                 "slot 1 does not exist; the graph has 1");
    assert_error(ph_graph_replay_with(graph, world.stream, &(ph_slot_value){PH_SLOT_NONE, x}, 1),
                 PH_ERROR_NOT_FOUND, "the slot is PH_SLOT_NONE: the call that was to make it");
    assert_null(info.name);
    assert_error(ph_graph_slot_place_at(NULL, graph, 0, 0), PH_ERROR_ARGUMENT, "out is NULL");
    assert_error(ph_graph_slot_place_at(&place, graph, 1, 0), PH_ERROR_NOT_FOUND, "slot 1");
    assert_error(ph_graph_slot_place_at(&place, graph, 0, 2), PH_ERROR_NOT_FOUND,
                 "no place 2; it has 2");
    assert_int_equal(ph_graph_slot_count(NULL), 0);
    assert_error(ph_graph_slot_get(&info, NULL, 0), PH_ERROR_ARGUMENT, "graph is NULL");
}

/* ---- values ---- */
static bool takes(const void *value)
{
    bool taken = false;
    assert_ok(ph_graph_slot_takes(&taken, graph, 0, value));
    return taken;
}

/* Asking sets nothing, leaves no record, and says what setting does. */
static void expect_taken(const int32_t *larger, const int32_t *freed, const int32_t *pinned,
                         const int32_t *pageable)
{
    bool taken = true;
    assert_error(ph_graph_replay(NULL, world.stream), PH_ERROR_ARGUMENT, "graph is NULL");
    assert_true(takes(x) && takes(y) && takes(larger));
    assert_false(takes(NULL) || takes(y + 1) || takes(larger + N + 64) || takes(freed) ||
                 takes(pinned) || takes(pageable));
    assert_non_null(strstr(ph_error_last()->message, "ph_graph_replay: graph is NULL"));
    assert_error(ph_graph_slot_takes(&taken, graph, 1, x), PH_ERROR_NOT_FOUND,
                 "slot 1 does not exist");
    assert_false(taken);
    assert_error(ph_graph_slot_takes(NULL, graph, 0, x), PH_ERROR_ARGUMENT, "out is NULL");
    assert_error(ph_graph_slot_takes(&taken, NULL, 0, x), PH_ERROR_ARGUMENT, "graph is NULL");
}

static void expect_refused(const int32_t *larger, const int32_t *freed, const int32_t *pinned,
                           const int32_t *pageable)
{
    const int32_t *aligned = (void *)((uintptr_t)(pageable + 64) & ~(uintptr_t)255);
    assert_error(with(1, y), PH_ERROR_NOT_FOUND, "slot 1 does not exist");
    assert_error(with(PH_SLOT_NONE, y), PH_ERROR_NOT_FOUND, "the slot is PH_SLOT_NONE");
    assert_error(with(0, NULL), PH_ERROR_ARGUMENT, "is NULL");
    assert_error(with(0, y + 1), PH_ERROR_ARGUMENT, "no multiple of 256");
    assert_error(with(0, larger + N + 64), PH_ERROR_ARGUMENT,
                 "ends after 1792 bytes; the slot has 2048");
    assert_error(with(0, freed), PH_ERROR_ARGUMENT, "nothing is allocated there; was it freed?");
    assert_error(with(0, aligned), PH_ERROR_ARGUMENT,
                 "neither memory of the device nor pinned; copy it there first");
    assert_error(with(0, aligned + 4), PH_ERROR_ARGUMENT,
                 "neither memory of the device nor pinned");
    assert_error(with(0, pinned), PH_ERROR_ARGUMENT, "captured with memory of the device");
}

TEST(a_refused_value_leaves_every_slot_as_it_was)
{
    int32_t *freed, *larger, *pinned, pageable[N] = {0};
    assert_ok(ph_malloc_pinned(&pinned, N, sizeof *pinned, world.stream));
    assert_ok(PH_NEW(&larger, 2 * N, world.stream));
    assert_ok(PH_NEW(&freed, N, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    ph_free(freed, world.stream);
    assert_ok(find(x, BYTES));
    expect_taken(larger, freed, pinned, (void *)((uintptr_t)(pageable + 64) & ~(uintptr_t)255));
    const ph_slot_value twice[] = {{0, larger}, {0, larger}};
    const ph_slot_value half[] = {{0, larger}, {1, larger}};
    expect_refused(larger, freed, pinned, pageable);
    assert_error(ph_graph_replay_with(graph, world.stream, NULL, 1), PH_ERROR_ARGUMENT,
                 "values is NULL");
    assert_error(ph_graph_replay_with(graph, world.stream, twice, 2), PH_ERROR_ARGUMENT,
                 "named twice");
    /* Also where the first value is what the slot has. */
    const ph_slot_value as_it_is[] = {{0, x}, {0, larger}}, same[] = {{0, x}, {0, x}};
    assert_ok(ph_graph_replay_with(graph, world.stream, same, 1));
    expect_refused(larger, freed, pinned, pageable); /* and where nothing but the value is new */
    assert_error(ph_graph_replay_with(graph, world.stream, as_it_is, 2), PH_ERROR_ARGUMENT,
                 "slot 0 (s) is named twice");
    assert_error(ph_graph_replay_with(graph, world.stream, same, 2), PH_ERROR_ARGUMENT,
                 "named twice");
    assert_error(ph_graph_replay_with(graph, world.stream, half, 2), PH_ERROR_NOT_FOUND, "slot 1");
    assert_error(ph_graph_replay_with(graph, NULL, twice, 1), PH_ERROR_ARGUMENT, "stream");
    assert_error(ph_graph_replay_with(NULL, world.stream, twice, 1), PH_ERROR_ARGUMENT,
                 "graph is NULL");
    ph_slot_info info;
    assert_ok(ph_graph_slot_get(&info, graph, 0));
    assert_ptr_equal(info.current, x);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(z + 1, N / 2 - 1, 1, world.stream);
    ph_free(larger, world.stream);
    ph_free_pinned(pinned, world.stream);
}

TEST(test_another_device)
{
    ph_device *second;
    ph_stream *theirs;
    int32_t *memory;
    assert_ok(ph_device_open(&second, t_device_name(), NULL));
    assert_ok(ph_stream_create(&theirs, second, NULL));
    assert_ok(PH_NEW(&memory, N, theirs));
    assert_ok(find(x, BYTES));
    assert_error(with(0, memory), PH_ERROR_WRONG_DEVICE, "makes a device of its own");
    assert_false(takes(memory));
    assert_error(ph_graph_replay_with(graph, theirs, &(ph_slot_value){0, y}, 1),
                 PH_ERROR_WRONG_DEVICE, "stream");
    ph_free(memory, theirs);
    ph_stream_destroy(theirs);
    ph_device_release(second);
}

/* ---- other calls ---- */
TEST(test_nodes_with_places)
{
    struct t_add_i32 args = {N, x, y, 5};
    ph_launch_config config = t_config(N);
    assert_ok(find(x, BYTES));
    assert_error(ph_graph_node_set_launch(graph, ADD, &config, &args, sizeof args), PH_ERROR_STATE,
                 "node 0 (add_i32) has a place of slot 0 (s)");
    assert_error(ph_graph_node_set_memcpy(graph, COPY, z, x, 4), PH_ERROR_STATE, "slot 0 (s)");
    assert_ok(ph_graph_node_set_memset(graph, FILL, y, 3, N));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 3, world.stream);
    assert_ok(ph_graph_node_set_enabled(graph, FILL, false));
    assert_ok(ph_graph_node_set_enabled(graph, ADD, true));
    assert_error(declare(y, BYTES, FILL, 0), PH_ERROR_STATE, "ph_graph_node_set_");
}

static ph_status from_a_hook(const ph_graph_hook_info *info, void *user)
{
    const ph_slot_value value = {0, x};
    size_t ignored;
    bool *seen = user;
    assert_error(ph_graph_replay_with(info->graph, world.stream, &value, 1), PH_ERROR_STATE,
                 "hook");
    assert_error(ph_graph_slot_find(&ignored, info->graph, NULL, y, BYTES, NULL), PH_ERROR_STATE,
                 "hook");
    *seen = true;
    return ph_fail(PH_ERROR_CALLER, "not now");
}

/* A hook that refuses the replay leaves the values as they were. */
TEST(a_replay_refused_by_a_hook_leaves_the_slots)
{
    bool seen = false;
    ph_hook *hook;
    ph_slot_info info;
    assert_ok(find(x, BYTES));
    assert_ok(ph_graph_hook_add(&hook, graph, PH_HOOK_REPLAY_START, from_a_hook, &seen));
    assert_error(with(0, u), PH_ERROR_CALLER, "not now");
    assert_true(seen);
    assert_ok(ph_graph_slot_get(&info, graph, 0));
    assert_ptr_equal(info.current, x);
    ph_graph_hook_remove(hook);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(z + 1, N / 2 - 1, 1, world.stream);
    assert_ok(with(0, u));
    t_all(z + 1, N / 2 - 1, 4, world.stream);
}

static ph_status values_of_cells(uint64_t *values, void *user)
{
    (void)user;
    values[0] = 7;
    return PH_OK;
}

static ph_status with_cells(ph_stream *stream, void *user)
{
    const ph_cells_source source = {.count = 1, .values = values_of_cells};
    uint64_t **cell = user;
    PH_TRY(ph_cells_create(cell, stream, &source));
    PH_TRY(ph_memcpy(z, *cell, sizeof **cell, stream));
    return t_add(&world, stream, x, y, N, 1);
}

/* Nodes that write cells have no places; the others of such a graph have. */
TEST(nodes_that_write_cells_have_no_places)
{
    uint64_t *cell;
    const ph_record *record;
    size_t writer = SIZE_MAX;
    bool writes;
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, with_cells, &cell));
    assert_ok(ph_graph_record(&record, graph));
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        ph_node_info info;
        assert_ok(ph_record_node(&info, record, i));
        if (strncmp(info.name, "ph_core_cells", 13) == 0)
            writer = i;
    }
    assert_true(writer != SIZE_MAX);
    assert_error(declare(cell, 8, writer, 8), PH_ERROR_UNSUPPORTED, "writes the graph's cells");
    assert_error(scalar(8, writer, 16), PH_ERROR_UNSUPPORTED, "writes the graph's cells");
    assert_error(find(cell, 8), PH_ERROR_UNSUPPORTED, "writes the graph's cells");
    assert_ok(ph_graph_writes(&writes, graph, cell, 1));
    assert_true(writes);
    assert_ok(find(x, BYTES));
    assert_ok(with(0, u));
    t_all(y, N, 5, world.stream);
    t_all(z, 1, 7, world.stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_slot_is_not_found_where_bytes_do_not_fit),
        IN_WORLD(a_slot_is_not_declared_where_places_do_not_fit),
        IN_WORLD(questions_about_slots_that_are_not_there_are_refused),
        IN_WORLD(a_refused_value_leaves_every_slot_as_it_was),
        IN_WORLD(test_another_device),
        IN_WORLD(test_nodes_with_places),
        IN_WORLD(a_replay_refused_by_a_hook_leaves_the_slots),
        IN_WORLD(nodes_that_write_cells_have_no_places),
    };
    return cmocka_run_group_tests_name("graph.slots_misuse", tests, NULL, NULL);
}
