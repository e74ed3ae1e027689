/* SPDX-License-Identifier: MIT */
/* tests/tensor/products_memory.c: capturing products again and again takes no more memory than
 * the first time: neither the device's, workspaces of the library of products among it, nor the
 * pools'. */
#include "fake/fake_cuda.h"
#include "support/tensors.h"
#include "support/test.h"

enum {
    ROUNDS = 100,
    SLACK = 5 << 20 /* bytes: what other users of a GPU may take or give back meanwhile */
};

typedef struct product {
    ph_tape *tape;
    ph_tensor *a, *b, *out;
} product;

static ph_status multiply(ph_stream *stream, void *user)
{
    const product *p = user;
    (void)stream;
    ph_tensor_copy(p->tape, p->out, ph_matmul(p->tape, p->a, p->b));
    return ph_tape_clear(p->tape);
}

typedef struct memory {
    uint64_t free;
    ph_memory_stats stats;
} memory;

static memory look(const t_scene *s)
{
    memory out;
    ph_device_info info;
    assert_ok(ph_stream_synchronize(s->stream));
    assert_ok(ph_device_get_info(&info, s->device));
    assert_ok(ph_memory_get_stats(&out.stats, s->device));
    out.free = info.memory_free;
    assert_true(out.free > 0);
    return out;
}

static void assert_flat(const memory *now, const memory *first, int round)
{
    uint64_t apart = now->free > first->free ? now->free - first->free : first->free - now->free;
    if (apart > SLACK)
        fail_msg("round %d: %llu bytes are free, %llu after the first", round,
                 (unsigned long long)now->free, (unsigned long long)first->free);
    assert_int_equal(now->stats.reserved, first->stats.reserved);
    assert_int_equal(now->stats.reserved_peak, first->stats.reserved_peak);
    assert_int_equal(now->stats.segments, first->stats.segments);
    assert_int_equal(now->stats.allocated, first->stats.allocated);
    assert_int_equal(now->stats.allocated_peak, first->stats.allocated_peak);
    assert_int_equal(now->stats.pinned_reserved, first->stats.pinned_reserved);
    assert_int_equal(now->stats.deferred, first->stats.deferred);
}

static void replay(const t_scene *s, const product *p, ph_graph *graph, int64_t width)
{
    double value;
    ph_tensor_fill(s->tape, p->out, -1);
    assert_ok(ph_tape_clear(s->tape));
    assert_ok(ph_graph_replay(graph, s->stream));
    ph_tensor *row = ph_select(s->tape, p->out, 0, -1);
    assert_ok(ph_tensor_item(&value, s->tape, ph_select(s->tape, row, 0, -1)));
    assert_ok(ph_tape_clear(s->tape));
    assert_true(value == 0.125 * (double)width);
}

/* again: one graph that is reset for each round, else one a round. */
static void many_rounds(bool again)
{
    t_scene s;
    ph_graph *graph = NULL;
    memory first = {0};
    bool processor = t_on_host() || fake_cuda();
    int64_t width = processor ? 336 : 1024; /* the smaller, too, needs a workspace */
    t_scene_open(&s);
    product p = {.tape = s.tape,
                 .a = ph_tensor_retain(ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(width, width), 0.5)),
                 .b = ph_tensor_retain(ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(width, width), 0.25)),
                 .out = ph_tensor_retain(ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(width, width)))};
    assert_ok(ph_tape_clear(s.tape));
    for (int round = 0; round < ROUNDS; round++) {
        if (graph == NULL)
            assert_ok(ph_graph_create(&graph, NULL));
        assert_ok(ph_graph_capture(graph, s.stream, NULL, multiply, &p));
        if (!processor || round % 20 == 0)
            replay(&s, &p, graph, width);
        assert_ok(ph_graph_reset(graph));
        if (!again) {
            ph_graph_destroy(graph);
            graph = NULL;
        }
        memory now = look(&s);
        if (round == 0)
            first = now;
        assert_flat(&now, &first, round);
    }
    ph_graph_destroy(graph);
    ph_tensor_release(p.a);
    ph_tensor_release(p.b);
    ph_tensor_release(p.out);
    t_scene_close(&s);
}

TEST(one_graph_reset)
{
    many_rounds(true);
}

TEST(a_graph_a_round)
{
    many_rounds(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_graph_reset),
        cmocka_unit_test(a_graph_a_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
