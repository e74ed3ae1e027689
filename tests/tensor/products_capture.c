/* SPDX-License-Identifier: MIT */
/* tests/tensor/products_capture.c: what products need beside their operands is there before a
 * capture begins, in no graph's own pool, and is made once. */
#include "device/handles/device.h"
#include "fake/fake_cuda.h"
#include "support/grads.h"
#include "support/tensors.h"
#include "support/test.h"

/* ---- workspaces ---- large products, whose algorithms may count in one. */
typedef struct large {
    ph_tape *tape;
    ph_tensor *a, *b, *out;
} large;

static ph_status one_product(ph_stream *stream, void *user)
{
    const large *p = user;
    (void)stream;
    ph_tensor_copy(p->tape, p->out, ph_matmul(p->tape, p->a, p->b));
    return ph_tape_clear(p->tape);
}

/* It lies in a pool that both graphs keep, and not in their own: so their replays are ordered,
 * and it lives as long as they do. */
TEST(workspaces_of_captures)
{
    enum {
        ROWS = 512,
        COLUMNS = 512
    };
    t_scene s;
    t_scene_open(&s);
    large p[2] = {{.tape = s.tape}, {.tape = s.tape}};
    ph_graph *graphs[2], *seen;
    ph_pool *pools[2][3];
    size_t counts[2];
    ph_stream *other;
    assert_ok(ph_stream_create(&other, s.device, NULL));
    for (int i = 0; i < 2; i++) {
        p[i].a = ph_tensor_retain(ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(ROWS, COLUMNS), 0.5 + i));
        p[i].b = ph_tensor_retain(ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(COLUMNS, ROWS), 0.25));
        p[i].out = ph_tensor_retain(ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(ROWS, ROWS)));
        assert_ok(ph_tape_clear(s.tape));
        assert_ok(ph_graph_create(&graphs[i], NULL));
        assert_ok(ph_graph_capture(graphs[i], s.stream, NULL, one_product, &p[i]));
        assert_ok(ph_graph_pools(pools[i], 3, &counts[i], graphs[i]));
    }
    assert_int_equal(counts[0], counts[1]);
    if (!t_on_host() && fake_cuda()) {
        assert_int_equal(counts[0], 2);
        assert_true(pools[0][0] == pools[1][0] || pools[0][0] == pools[1][1] ||
                    pools[0][1] == pools[1][0] || pools[0][1] == pools[1][1]);
    }
    assert_ok(ph_stream_capturing_graph(&seen, s.stream));
    assert_null(seen);
    assert_ok(ph_stream_wait_stream(other, s.stream));
    assert_ok(ph_graph_replay(graphs[0], s.stream));
    assert_ok(ph_graph_replay(graphs[1], other));
    assert_ok(ph_stream_wait_stream(s.stream, other));
    for (int i = 0; i < 2; i++) {
        double value;
        ph_tensor *corner =
            ph_slice(s.tape, ph_slice(s.tape, p[i].out, 0, ROWS - 1, ROWS), 1, 0, 1);
        assert_ok(ph_tensor_item(&value, s.tape, ph_reshape(s.tape, corner, PH_SCALAR)));
        assert_true(value == (0.5 + i) * 0.25 * COLUMNS);
        ph_graph_destroy(graphs[i]);
        ph_tensor_release(p[i].a);
        ph_tensor_release(p[i].b);
        ph_tensor_release(p[i].out);
    }
    ph_stream_destroy(other);
    t_scene_close(&s);
}

/* ---- nothing for the first time in a capture ---- */
typedef struct first {
    large of;
    int64_t modules, memory; /* driver calls that the products made in captures */
} first;

static int64_t memory_calls(void)
{
    static const char *const names[] = {"cuMemCreate", "cuMemAddressReserve", "cuMemMap",
                                        "cuMemAlloc",  "cuMemAllocAsync",     "cuMemHostAlloc"};
    int64_t calls = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        calls += fake_cuda()->calls_of(names[i]);
    return calls;
}

/* The operands' memory is there, and that of temporaries: what is counted is the product's own. */
static ph_status first_product(ph_stream *stream, void *user)
{
    first *f = user;
    const fake_cuda_controls *fake = fake_cuda();
    (void)stream;
    ph_tensor_copy(f->of.tape, f->of.out, ph_add(f->of.tape, f->of.a, f->of.b));
    int64_t modules = fake->calls_of("cuModuleLoadDataEx"), memory = memory_calls();
    (void)ph_matmul(f->of.tape, f->of.a, f->of.b);
    f->modules += fake->calls_of("cuModuleLoadDataEx") - modules;
    f->memory += memory_calls() - memory;
    return ph_tape_clear(f->of.tape);
}

/* Every kernel but the product's has run. */
static void make_operands(first *f, ph_tape *tape)
{
    enum {
        ROWS = 328 /* the least whose product is not small: its algorithm counts in a workspace */
    };
    *f = (first){.of = {.tape = tape}};
    f->of.a = ph_tensor_retain(ph_full(tape, PH_DTYPE_F32, PH_SHAPE(ROWS, ROWS), 0.5));
    f->of.b = ph_tensor_retain(ph_full(tape, PH_DTYPE_F32, PH_SHAPE(ROWS, ROWS), 0.25));
    f->of.out = ph_tensor_retain(ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(ROWS, ROWS)));
    ph_tensor_copy(tape, f->of.out, ph_add(tape, f->of.a, f->of.b));
    assert_ok(ph_tape_clear(tape));
}

static void drop_operands(const first *f)
{
    ph_tensor_release(f->of.a);
    ph_tensor_release(f->of.b);
    ph_tensor_release(f->of.out);
}

static void capture_and_replay(ph_graph **out, ph_stream *stream, first *f)
{
    assert_ok(ph_graph_create(out, NULL));
    assert_ok(ph_graph_capture(*out, stream, NULL, first_product, f));
    assert_ok(ph_graph_replay(*out, stream));
    assert_ok(ph_stream_synchronize(stream));
}

/* Of a program that has no module, and had no product. */
TEST(handle_and_workspaces_come_before_the_capture)
{
    t_scene s;
    first f;
    ph_graph *graph;
    if (t_on_host() || !fake_cuda())
        return;
    t_scene_open(&s);
    make_operands(&f, s.tape);
    capture_and_replay(&graph, s.stream, &f);
    assert_int_equal(f.modules, 0);
    assert_int_equal(f.memory, 0);
    ph_graph_destroy(graph);
    drop_operands(&f);
    t_scene_close(&s);
}

/* No memory for them with the first tape: nobody is told, and the next capture has them before
 * it begins. */
TEST(workspaces_that_a_limit_refused_at_first)
{
    t_scene s;
    first f;
    ph_graph *graph;
    if (t_on_host() || !fake_cuda())
        return;
    assert_ok(ph_device_open(&s.device, t_device_name(), NULL));
    assert_ok(ph_stream_create(&s.stream, s.device, NULL));
    assert_ok(ph_memory_set_limit(s.device, 4096));
    assert_status(ph_fail(PH_ERROR_ARGUMENT, "as before"), PH_ERROR_ARGUMENT);
    assert_ok(ph_tape_create(&s.tape, s.stream, NULL));
    assert_int_equal(ph_error_last()->status, PH_ERROR_ARGUMENT);
    assert_string_equal(ph_error_last()->message, "as before");
    assert_ok(ph_memory_set_limit(s.device, 0));
    make_operands(&f, s.tape);
    capture_and_replay(&graph, s.stream, &f);
    assert_int_equal(f.memory, 0);
    ph_graph_destroy(graph);
    drop_operands(&f);
    t_scene_close(&s);
}

/* In a capture that the library did not begin the product is refused before it makes anything,
 * as all that needs memory is. */
TEST(products_in_captures_of_others)
{
    t_scene s;
    first f;
    ph_capture_info info;
    ph_graph *graph;
    ph__drv_graph *template = NULL;
    t_scene_open(&s);
    make_operands(&f, s.tape);
    assert_int_equal(s.device->driver->capture_begin(s.stream->handle, PH_CAPTURE_GLOBAL), 0);
    assert_ok(ph_stream_get_capture_info(&info, s.stream));
    int64_t memory = fake_cuda() ? memory_calls() : 0,
            modules = fake_cuda() ? fake_cuda()->calls_of("cuModuleLoadDataEx") : 0;
    assert_null(ph_matmul(s.tape, f.of.a, f.of.b));
    assert_status(ph_tape_clear(s.tape), PH_ERROR_CAPTURE);
    if (fake_cuda()) {
        assert_int_equal(memory_calls(), memory);
        assert_int_equal(fake_cuda()->calls_of("cuModuleLoadDataEx"), modules);
    }
    assert_int_equal(s.device->driver->capture_end(&template, s.stream->handle), 0);
    s.device->driver->graph_destroy(template);
    if (!t_on_host() && fake_cuda()) {
        capture_and_replay(&graph, s.stream, &f);
        assert_int_equal(f.memory, 0);
        assert_int_equal(f.modules, 0);
        ph_graph_destroy(graph);
    }
    drop_operands(&f);
    t_scene_close(&s);
}

/* ---- captures that bring streams ---- */
enum {
    CAPTURES = 4,
    BROUGHT = 10 /* streams that had no product yet, in each */
};
typedef struct brought {
    first products;
    ph_stream *streams[CAPTURES * BROUGHT];
    ph_tape *tapes[CAPTURES * BROUGHT];
    int from;
} brought;

static ph_status products_on_new_streams(ph_stream *stream, void *user)
{
    brought *all = user;
    ph_status status = PH_OK;
    for (int i = all->from; i < all->from + BROUGHT && status == PH_OK; i++) {
        all->products.of.tape = all->tapes[i];
        status = ph_stream_wait_stream(all->streams[i], stream);
        if (status == PH_OK)
            status = first_product(all->streams[i], &all->products);
        if (status == PH_OK)
            status = ph_stream_wait_stream(stream, all->streams[i]);
    }
    return status;
}

TEST(streams_find_their_workspaces_made)
{
    t_scene s;
    brought all = {.from = 0};
    ph_graph *graphs[CAPTURES];
    if (t_on_host() || !fake_cuda())
        return;
    t_scene_open(&s);
    make_operands(&all.products, s.tape);
    for (int i = 0; i < CAPTURES * BROUGHT; i++) {
        assert_ok(ph_stream_create(&all.streams[i], s.device, NULL));
        assert_ok(ph_tape_create(&all.tapes[i], all.streams[i], NULL));
    }
    for (int i = 0; i < CAPTURES; i++) {
        all.from = i * BROUGHT;
        assert_ok(ph_graph_create(&graphs[i], NULL));
        assert_ok(ph_graph_capture(graphs[i], s.stream, NULL, products_on_new_streams, &all));
    }
    assert_int_equal(all.products.modules, 0);
    assert_int_equal(all.products.memory, 0);
    for (int i = 0; i < CAPTURES; i++)
        ph_graph_destroy(graphs[i]);
    for (int i = 0; i < CAPTURES * BROUGHT; i++) {
        ph_tape_destroy(all.tapes[i]);
        ph_stream_destroy(all.streams[i]);
    }
    drop_operands(&all.products);
    t_scene_close(&s);
}

/* ---- tapes that come and go ---- workspaces are made once, go with the last tape, and are
 * nothing to a program that has none. */
TEST(tapes_leave_memory_flat)
{
    t_world world;
    ph_tape *first_one, *second;
    ph_memory_stats none, one, two, begin = {0}, last = {0};
    t_open(&world, NULL);
    assert_ok(ph_memory_get_stats(&none, world.device));
    assert_int_equal(none.segments, 0);
    for (int i = 0; i < 100; i++) {
        assert_ok(ph_tape_create(&first_one, world.stream, NULL));
        assert_ok(ph_memory_get_stats(&one, world.device));
        assert_ok(ph_tape_create(&second, world.stream, NULL));
        assert_ok(ph_memory_get_stats(&two, world.device));
        assert_int_equal(one.allocated, 0);
        assert_int_equal(two.allocated, 0);
        assert_int_equal(two.reserved, one.reserved);
        assert_ok(ph_memory_trim(world.device)); /* which leaves it to them */
        assert_ok(ph_memory_get_stats(&two, world.device));
        assert_int_equal(two.reserved, one.reserved);
        ph_tape_destroy(first_one);
        ph_tape_destroy(second);
        assert_ok(ph_memory_trim(world.device));
        assert_ok(ph_memory_get_stats(i == 0 ? &begin : &last, world.device));
    }
    assert_int_equal(one.segments, t_on_host() ? 0 : 1);
    assert_int_equal(begin.allocated, 0);
    assert_int_equal(begin.reserved, 0);
    assert_int_equal(last.allocated, 0);
    assert_int_equal(last.reserved, 0);
    t_close(&world);
}

/* ---- gradients that repeat elements ---- are copied once for both products, in the order of their
 * dimensions: so products are the same as for a gradient that lies in memory. */
typedef struct repeated {
    ph_tape *tape;
    ph_tensor *x, *weight, *gradient;
    bool linear;
} repeated;

static ph_status back(ph_stream *stream, void *user)
{
    repeated *r = user;
    (void)stream;
    ph_tensor *y =
        r->linear ? ph_linear(r->tape, r->x, r->weight, NULL) : ph_matmul(r->tape, r->x, r->weight);
    ph_backward_from(r->tape, &y, &r->gradient, 1, NULL);
    return ph_tape_clear(r->tape);
}

static size_t count_nodes(t_scene *s, repeated *r, ph_tensor *gradient)
{
    ph_graph *graph;
    const ph_record *record;
    r->gradient = gradient;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s->stream, NULL, back, r));
    assert_ok(ph_graph_record(&record, graph));
    size_t count = ph_record_node_count(record);
    ph_graph_destroy(graph);
    return count;
}

TEST(a_repeated_gradient_is_copied_once_for_both_products)
{
    t_scene s;
    t_scene_open(&s);
    for (int linear = 0; linear < 2; linear++) {
        repeated r = {.tape = s.tape, .linear = linear};
        r.x = ph_tensor_retain(ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(5, 8), 2));
        r.weight = ph_tensor_retain(
            ph_full(s.tape, PH_DTYPE_F32, linear ? PH_SHAPE(9, 8) : PH_SHAPE(8, 9), 3));
        ph_tensor *full = ph_tensor_retain(ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(5, 9), 1));
        ph_tensor *one = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(1), 1);
        ph_tensor *wide = ph_tensor_retain(ph_expand(s.tape, one, PH_SHAPE(5, 9)));
        assert_ok(ph_tensor_set_requires_grad(r.x, true));
        assert_ok(ph_tensor_set_requires_grad(r.weight, true));
        assert_ok(ph_tape_clear(s.tape));
        size_t apart = count_nodes(&s, &r, full);
        t_zero_grad(r.x);
        t_zero_grad(r.weight);
        assert_int_equal(count_nodes(&s, &r, wide), apart + 1);
        t_zero_grad(r.x);
        t_zero_grad(r.weight);
        ph_tensor *const all[] = {r.x, r.weight, full, wide};
        for (size_t i = 0; i < 4; i++)
            ph_tensor_release(all[i]);
    }
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workspaces_of_captures),
        cmocka_unit_test(handle_and_workspaces_come_before_the_capture),
        cmocka_unit_test(workspaces_that_a_limit_refused_at_first),
        cmocka_unit_test(products_in_captures_of_others),
        cmocka_unit_test(streams_find_their_workspaces_made),
        cmocka_unit_test(tapes_leave_memory_flat),
        cmocka_unit_test(a_repeated_gradient_is_copied_once_for_both_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
