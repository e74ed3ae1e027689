/* SPDX-License-Identifier: MIT */
/* tests/cuda/slots.c: slots in the parameters of kernels that this library did not load,
 * launched by CUDA's own calls: proved, declared, set, and behind an update that brought another
 * function. */
#include "module.h"
#include "support/test.h"
#include <phonograph/cuda.h>

enum {
    N = 256,
    BYTES = N * sizeof(int32_t)
};

/* t_plain(int *y, const void *, int value): *y = value. t_next: *y = value + 1. */
#define ENTRY(name, change)                                                                        \
    ".visible .entry " name "(.param .u64 " name "_param_0, .param .u64 " name                     \
    "_param_1, .param .u32 " name "_param_2)\n"                                                    \
    "{\n"                                                                                          \
    "    .reg .b64 %y;\n    .reg .b32 %value;\n"                                                   \
    "    ld.param.u64 %y, [" name "_param_0];\n    ld.param.u32 %value, [" name                    \
    "_param_2];\n" change "    st.u32 [%y], %value;\n    ret;\n}\n"
static const char ptx[] = ".version 7.0\n.target sm_60\n.address_size 64\n" ENTRY("t_plain", "")
    ENTRY("t_next", "    add.s32 %value, %value, 1;\n");

struct plain {
    int32_t *y;
    const void *unused;
    int32_t value;
};

static void plain_on_host(const ph_block_range *range, const void *args)
{
    const struct plain *p = args;
    (void)range;
    *p->y = p->value;
}

static void next_on_host(const ph_block_range *range, const void *args)
{
    const struct plain *p = args;
    (void)range;
    *p->y = p->value + 1;
}

static ph__cu_function plain, next;
static ph_graph *graph;
static int32_t *x, *y, *z;
static void *block;
static const void *far_away; /* what another capture has */

FIXTURE(open_world)
{
    int32_t **all[] = {&x, &y, &z};
    if (fake_cuda()) {
        fake_cuda()->register_kernel("t_plain", plain_on_host);
        fake_cuda()->register_kernel("t_next", next_on_host);
    }
    module_open(ptx);
    plain = module_function("t_plain");
    next = module_function("t_next");
    for (int i = 0; i < 3; i++) {
        assert_ok(PH_NEW(all[i], N, world.stream));
        assert_ok(t_fill(&world, world.stream, *all[i], N, 0));
    }
    assert_ok(ph_malloc(&block, 8192 + BYTES, 1, world.stream));
    far_away = t_opposite(block, x);
    assert_ok(ph_stream_synchronize(world.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    return 0;
}

FIXTURE(close_world)
{
    ph_graph_destroy(graph);
    ph_free(x, NULL);
    ph_free(y, NULL);
    ph_free(z, NULL);
    ph_free(block, NULL);
    module_close();
    return 0;
}

typedef struct launches {
    ph__cu_function function;
    int32_t *y;
} launches;

/* y[0] = 5 by a list of parameters, y[1] = 6 by a buffer of them. */
static ph_status body(ph_stream *stream, void *user)
{
    const launches *l = user;
    struct CUstream_st *raw;
    struct plain args = {l->y, NULL, 5};
    size_t size = offsetof(struct plain, value) + sizeof args.value;
    void *params[] = {&args.y, &args.unused, &args.value};
    void *extra[] = {PH__CU_LAUNCH_PARAM_BUFFER_POINTER, &args, PH__CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &size, PH__CU_LAUNCH_PARAM_END};
    PH_TRY(ph_stream_cuda(&raw, stream));
    cu(LaunchKernel(l->function, 1, 1, 1, 1, 1, 1, 0, raw, params, NULL));
    args.y++;
    args.value = 6;
    cu(LaunchKernel(l->function, 1, 1, 1, 1, 1, 1, 0, raw, NULL, extra));
    return PH_OK;
}

static ph_graph *captured(ph__cu_function function, int32_t *into)
{
    launches l = {function, into};
    ph_graph *made;
    assert_ok(ph_graph_create(&made, NULL));
    assert_ok(ph_graph_capture(made, world.stream, NULL, body, &l));
    return made;
}

static void capture(void)
{
    ph_graph_destroy(graph);
    graph = captured(plain, x);
}

static void check(const int32_t *at, int32_t first, int32_t second)
{
    int32_t host[2];
    t_read(host, at, sizeof host, world.stream);
    assert_int_equal(host[0], first);
    assert_int_equal(host[1], second);
}

static ph_status with(size_t slot, const void *value)
{
    return ph_graph_replay_with(graph, world.stream, &(ph_slot_value){slot, value}, 1);
}

TEST(a_proved_address_replaces_both_uses)
{
    ph_slot_proof proof;
    size_t slot;
    const ph_slot_span span = {.base = x, .shifted = &far_away, .bytes = BYTES};
    capture();
    ph_graph *shifted = captured(plain, (int32_t *)(uintptr_t)far_away);
    assert_error(ph_graph_slot_find(&slot, graph, NULL, x, BYTES, NULL), PH_ERROR_UNSUPPORTED,
                 "node 0 (t_plain)");
    assert_ok(ph_graph_slot_prove(&proof, graph, &shifted, 1, &span, 1));
    ph_graph_destroy(shifted);
    assert_string_equal(proof.reason, "");
    assert_int_equal(proof.uses, 2);
    assert_ok(with(proof.slot, z));
    check(z, 5, 6);
    check(x, 0, 0);
    assert_ok(with(proof.slot, x));
    check(x, 5, 6);
}

/* The same text loaded once more is other code, for all that its names say. */
TEST(another_of_that_name)
{
    ph__cu_module again;
    ph__cu_function same_name;
    ph_slot_proof proof;
    const ph_slot_span span = {.base = x, .shifted = &far_away, .bytes = BYTES};
    cu(CtxPushCurrent(own));
    cu(ModuleLoadDataEx(&again, ptx, 0, NULL, NULL));
    cu(ModuleGetFunction(&same_name, again, "t_plain"));
    pop(own);
    capture();
    ph_graph *shifted = captured(same_name, (int32_t *)(uintptr_t)far_away);
    assert_ok(ph_graph_slot_prove(&proof, graph, &shifted, 1, &span, 1));
    assert_int_equal(proof.slot, PH_SLOT_NONE);
    assert_non_null(strstr(proof.reason, "node 0 (t_plain): it is another kernel of that name"));
    ph_graph_destroy(shifted);
    cu(CtxPushCurrent(own));
    cu(ModuleUnload(again));
    pop(own);
}

TEST(declared_addresses_and_scalars_replace_the_values)
{
    size_t out, first, second;
    const ph_slot_place places[] = {{0, 0}, {1, 0}}, values[] = {{0, 16}, {1, 16}};
    capture();
    assert_error(ph_graph_slot_declare_scalar(&first, graph, "value", &(int32_t){5}, 4, values, 2),
                 PH_ERROR_ARGUMENT, "node 1 (t_plain) has the bytes 06000000 at offset 16");
    assert_ok(ph_graph_slot_declare_address(&out, graph, "out", x, BYTES, places, 2, NULL));
    assert_ok(ph_graph_slot_declare_scalar(&first, graph, "first", &(int32_t){5}, 4, values, 1));
    assert_ok(
        ph_graph_slot_declare_scalar(&second, graph, "second", &(int32_t){6}, 4, values + 1, 1));
    assert_ok(with(first, &(int32_t){9}));
    check(x, 9, 6);
    assert_ok(with(out, y));
    check(y, 9, 6);
    const ph_slot_value both[] = {{first, &(int32_t){5}}, {second, &(int32_t){7}}};
    assert_ok(ph_graph_replay_with(graph, world.stream, both, 2));
    check(y, 5, 7);
    check(x, 9, 6);
}

/* The nodes keep the function that an update brought, when their parameters are set again. */
TEST(slots_keep_the_function_that_an_update_brought)
{
    size_t out;
    const ph_slot_place places[] = {{0, 0}, {1, 0}};
    capture();
    assert_ok(ph_graph_slot_declare_address(&out, graph, "out", x, BYTES, places, 2, NULL));
    ph_graph *from = captured(next, y);
    ph_status status = ph_graph_update(graph, from, NULL);
    if (status == PH_ERROR_MISMATCH) { /* this driver does not change functions */
        ph_graph_destroy(from);
        return;
    }
    assert_ok(status);
    ph_graph_destroy(from);
    assert_ok(ph_graph_replay(graph, world.stream));
    check(y, 6, 7);
    assert_ok(with(out, z));
    check(z, 6, 7);
    from = captured(plain, (int32_t *)(uintptr_t)far_away);
    assert_ok(ph_graph_update(graph, from, NULL));
    ph_graph_destroy(from);
    assert_ok(ph_graph_replay(graph, world.stream));
    check(z, 5, 6);
    assert_ok(ph_graph_update(graph, graph, NULL));
    assert_ok(with(out, x));
    check(x, 5, 6);
}

/* What CUDA's own calls put into a graph by rows has no places. */
TEST(fills_by_rows_have_no_places)
{
    ph__cu_graph raw;
    ph__cu_node node;
    size_t slot;
    const ph__cu_fill_params params = {.dst = (uintptr_t)x,
                                       .pitch = 128,
                                       .value = 9,
                                       .element_bytes = sizeof *x,
                                       .width = 16,
                                       .height = 3};
    program_load();
    cu(CtxPushCurrent(own));
    program(GraphCreate(&raw, 0));
    program(GraphAddMemsetNode(&node, raw, NULL, 0, &params, own));
    pop(own);
    assert_ok(ph_graph_import_cuda(graph, world.device, raw, NULL));
    assert_error(ph_graph_slot_find(&slot, graph, NULL, x, BYTES, NULL), PH_ERROR_UNSUPPORTED,
                 "node 0 (memset) has no places: it copies or fills rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {IN_WORLD(a_proved_address_replaces_both_uses),
                                       IN_WORLD(another_of_that_name),
                                       IN_WORLD(declared_addresses_and_scalars_replace_the_values),
                                       IN_WORLD(slots_keep_the_function_that_an_update_brought),
                                       IN_WORLD(fills_by_rows_have_no_places)};
    return cmocka_run_group_tests_name("cuda.slots", tests, NULL, NULL);
}
