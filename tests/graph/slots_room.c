/* SPDX-License-Identifier: MIT */
/* tests/graph/slots_room.c: ph_graph_slot_find of a span that is shorter than what kernels use:
 * refused where the kernel declares that, and said where nothing shows the contrary. */
#include "fake/fake_cuda.h"
#include "support/fixture.h"
#include "support/support.h"
#include "support/test.h"

enum {
    N = 512,
    HALF = N / 2
};
static t_world world;
static ph_graph *graph;
static int32_t *x, *y, *short_one;

WORLD(world, .graphs = {&graph},
      .arrays = {{&x, N, T_INTS, 1}, {&y, N, T_INTS, 0}, {&short_one, HALF, T_INTS, 5}});

/* y = x + 1: of `declared` all is declared. */
typedef struct args {
    int32_t *y;
    const int32_t *x;
    uint32_t n;
} args;

static void add_one(const ph_block_range *range, const void *user)
{
    const args *a = user;
    for (uint64_t block = range->begin; block < range->end; block++)
        for (uint64_t i = block * range->block[0]; i < (block + 1) * range->block[0]; i++)
            if (i < a->n)
                a->y[i] = a->x[i] + 1;
}

static const ph_param plain[] = {PH_PARAM(args, y, PH_PARAM_ADDRESS),
                                 PH_PARAM(args, x, PH_PARAM_ADDRESS),
                                 PH_PARAM(args, n, PH_PARAM_VALUE)};
static const ph_param declared[] = {PH_PARAM_ARRAY(args, y, PH_ACCESS_OUT, n, sizeof(int32_t)),
                                    PH_PARAM_ARRAY(args, x, PH_ACCESS_IN, n, sizeof(int32_t)),
                                    PH_PARAM(args, n, PH_PARAM_VALUE)};
#define ADD_ONE(list)                                                                              \
    {                                                                                              \
        .name = "room_add_one", .host = add_one, .args_size = sizeof(args), .params = (list),      \
        .param_count = 3,                                                                          \
        .cuda = "extern \"C\" __global__ void room_add_one(int *y, const int *x, unsigned n)\n{\n" \
                "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"                        \
                "    if (i < n) y[i] = x[i] + 1;\n}\n"                                             \
    }
static const ph_kernel_source sources[] = {ADD_ONE(plain), ADD_ONE(declared)};

typedef struct work {
    ph_kernel *kernel;
    uint32_t n;
} work;

static ph_status body(ph_stream *stream, void *user)
{
    const work *w = user;
    const args a = {y, x, w->n};
    return ph_launch(stream, w->kernel, &(ph_launch_config){.grid = {4}, .block = {128}}, &a,
                     sizeof a);
}

static void capture(work *w, int source, uint32_t n)
{
    *w = (work){.n = n};
    fake_cuda_register(&sources[source]);
    assert_ok(ph_kernel_create(&w->kernel, world.device, &sources[source]));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, w));
}

static size_t find(size_t bytes)
{
    size_t slot;
    assert_ok(ph_graph_slot_find(&slot, graph, "x", x, bytes, NULL));
    return slot;
}

static size_t room_of(size_t slot)
{
    ph_slot_info info;
    assert_ok(ph_graph_slot_get(&info, graph, slot));
    return info.room;
}

TEST(a_span_that_may_be_too_short_is_said_once)
{
    work w;
    capture(&w, 0, N);
    t_log_start();
    size_t slot = find(HALF * sizeof *x);
    assert_int_equal(room_of(slot), N * sizeof *x);
    assert_int_equal(t_log_count("slot 0 (x) has 1024 bytes, and the allocation there goes on for "
                                 "2048: nothing shows that node 0 (room_add_one) stays inside"),
                     1);
    assert_ok(ph_graph_replay_with(graph, world.stream, &(ph_slot_value){slot, y}, 1));
    assert_int_equal(t_log_count(""), 1);
    t_log_stop();
    ph_kernel_release(w.kernel);
}

TEST(a_span_that_is_the_allocation_is_not)
{
    work w;
    capture(&w, 0, N);
    t_log_start();
    size_t slot = find(N * sizeof *x);
    assert_int_equal(room_of(slot), N * sizeof *x);
    assert_int_equal(t_log_count(""), 0);
    t_log_stop();
    ph_kernel_release(w.kernel);
}

TEST(a_declared_extent_that_leaves_the_span_is_refused)
{
    work w;
    size_t slot;
    capture(&w, 1, N);
    t_log_start();
    assert_error(ph_graph_slot_find(&slot, graph, "x", x, HALF * sizeof *x, NULL),
                 PH_ERROR_ARGUMENT, "node 0 (room_add_one) uses 2048 bytes at 0x");
    assert_int_equal(slot, PH_SLOT_NONE);
    assert_int_equal(ph_graph_slot_count(graph), 0);
    slot = find(N * sizeof *x);
    assert_error(ph_graph_replay_with(graph, world.stream, &(ph_slot_value){slot, short_one}, 1),
                 PH_ERROR_ARGUMENT, "ends after 1024 bytes");
    assert_int_equal(t_log_count(""), 0);
    t_log_stop();
    ph_kernel_release(w.kernel);
}

/* Half of an allocation, where the kernel uses no more. */
TEST(a_declared_extent_inside_the_span_is_taken)
{
    work w;
    capture(&w, 1, HALF);
    t_log_start();
    size_t slot = find(HALF * sizeof *x);
    assert_int_equal(room_of(slot), N * sizeof *x);
    assert_ok(ph_graph_replay_with(graph, world.stream, &(ph_slot_value){slot, short_one}, 1));
    t_all(y, HALF, 6, world.stream);
    assert_int_equal(t_log_count(""), 0);
    t_log_stop();
    ph_kernel_release(w.kernel);
}

/* Allocations lie side by side: with the span would go what is behind. */
TEST(a_span_that_leaves_the_allocation_is_refused)
{
    work w;
    size_t slot;
    const ph_slot_place place = {0, 0};
    capture(&w, 0, N);
    const size_t bytes = N * sizeof *x;
    assert_error(ph_graph_slot_find(&slot, graph, "x", x, 3 * bytes, NULL), PH_ERROR_ARGUMENT,
                 "the span has 6144 bytes, and the allocation at ");
    assert_error(ph_graph_slot_find(&slot, graph, "x", x, bytes + 1, NULL), PH_ERROR_ARGUMENT,
                 "ends after 2048");
    assert_error(ph_graph_slot_declare_address(&slot, graph, "x", x, bytes + 1, &place, 1, NULL),
                 PH_ERROR_ARGUMENT, "ends after 2048");
    assert_int_equal(slot, PH_SLOT_NONE);
    assert_int_equal(ph_graph_slot_count(graph), 0);
    slot = find(bytes);
    assert_int_equal(room_of(slot), bytes);
    ph_kernel_release(w.kernel);
}

/* Other memory lies where the capture's example input was: it says nothing of the span. */
TEST(memory_that_came_after_the_capture_is_not_judged)
{
    static const size_t counts[] = {N / 4, N, 32 * N};
    int32_t *place, *later, *const own = x;
    assert_ok(ph_malloc(&place, 32 * N, sizeof *place, world.stream));
    for (size_t i = 0; i < 3; i++) {
        work w;
        size_t longer;
        ph_free(place, world.stream);
        assert_ok(ph_malloc_at(&x, place, N * sizeof *x, world.stream));
        capture(&w, 0, N);
        ph_free(x, world.stream);
        assert_ok(ph_malloc_at(&later, place, counts[i] * sizeof *later, world.stream));
        t_log_start();
        size_t slot = find(N * sizeof *x);
        assert_int_equal(room_of(slot), N * sizeof *x);
        assert_int_equal(t_log_count(""), 0);
        t_log_stop();
        assert_error(ph_graph_slot_find(&longer, graph, "x", x, 2 * N * sizeof *x, NULL),
                     PH_ERROR_ARGUMENT, "ends after 2048");
        assert_ok(ph_graph_replay_with(graph, world.stream, &(ph_slot_value){slot, own}, 1));
        t_all(y, N, 2, world.stream);
        assert_ok(ph_graph_reset(graph));
        ph_kernel_release(w.kernel);
        ph_free(later, world.stream);
        assert_ok(ph_malloc_at(&place, place, 32 * N * sizeof *place, world.stream));
    }
    ph_free(place, world.stream);
    x = own;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_span_that_may_be_too_short_is_said_once),
        IN_WORLD(a_span_that_is_the_allocation_is_not),
        IN_WORLD(a_declared_extent_that_leaves_the_span_is_refused),
        IN_WORLD(a_span_that_leaves_the_allocation_is_refused),
        IN_WORLD(memory_that_came_after_the_capture_is_not_judged),
        IN_WORLD(a_declared_extent_inside_the_span_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
