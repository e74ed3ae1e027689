/* SPDX-License-Identifier: MIT */
/* tests/tensor/torch_random.c: generators and their states in graphs; each test holds the
 * behaviour of PyTorch's test of the same name. What is drawn: torch_random_draws.c. */
#include "support/draws.h"
#include "support/test.h"

/* ---- test_memory_stats_of_multiple_generators_and_graphs ---- */
typedef struct many {
    t_scene *scene;
    ph_generator *generator; /* goes through all states */
    ph_generator_state *states[20];
    size_t count;
} many;

static ph_status draw_from_each(ph_stream *stream, void *user)
{
    many *m = user;
    ph_tape *tape;
    PH_TRY(ph_tape_create(&tape, stream, &(ph_tape_options){.generator = m->generator}));
    for (size_t i = 0; i < m->count; i++) {
        ph_status status = ph_generator_use_state(m->generator, m->states[i]);
        ph_tape_check(tape, status);
        (void)ph_rand(tape, PH_DTYPE_F32, PH_SHAPE(1));
    }
    ph_status status = ph_tape_clear(tape);
    ph_tape_destroy(tape);
    return status;
}

static void one_size(size_t graphs, size_t states)
{
    t_scene s;
    ph_graph *graph[10];
    ph_stream *stream[10];
    ph_memory_stats before, with, after;
    many m = {.scene = &s, .count = states};
    t_scene_open(&s);
    assert_ok(ph_generator_default(&m.generator, s.device));
    m.states[0] = ph_generator_share_state(m.generator);
    for (size_t i = 1; i < states; i++) {
        ph_generator *clone;
        assert_ok(ph_generator_clone(&clone, m.generator));
        m.states[i] = ph_generator_share_state(clone);
        ph_generator_release(clone);
    }
    assert_ok(ph_memory_get_stats(&before, s.device));
    for (size_t i = 0; i < graphs; i++) {
        assert_ok(ph_stream_create(&stream[i], s.device, NULL));
        assert_ok(ph_graph_create(&graph[i], NULL));
        assert_ok(ph_graph_capture(graph[i], stream[i], NULL, draw_from_each, &m));
        assert_ok(ph_graph_replay(graph[i], stream[i]));
    }
    assert_ok(ph_memory_get_stats(&with, s.device));
    assert_int_equal(with.active[PH_MEMORY_ALL].current - before.active[PH_MEMORY_ALL].current,
                     2 * states * graphs);
    assert_int_equal(with.active_bytes[PH_MEMORY_ALL].current -
                         before.active_bytes[PH_MEMORY_ALL].current,
                     1024 * states * graphs);
    for (size_t i = 0; i < graphs; i++) {
        assert_ok(ph_stream_synchronize(stream[i]));
        ph_graph_destroy(graph[i]);
        ph_stream_destroy(stream[i]);
    }
    assert_ok(ph_memory_trim(s.device));
    assert_ok(ph_memory_get_stats(&after, s.device));
    assert_int_equal(after.active[PH_MEMORY_ALL].current, before.active[PH_MEMORY_ALL].current);
    assert_int_equal(after.active_bytes[PH_MEMORY_ALL].current,
                     before.active_bytes[PH_MEMORY_ALL].current);
    assert_int_equal(after.reserved, before.reserved);
    for (size_t i = 0; i < states; i++)
        ph_generator_state_release(m.states[i]);
    ph_generator_release(m.generator);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

TEST(test_memory_stats_of_multiple_generators_and_graphs)
{
    one_size(1, 1);
    one_size(3, 2);
    one_size(10, 20);
}

/* ---- test_cuda_graph_inference_mode ---- what the first capture makes for the generator serves
 * those that remember. */
static ph_tensor *one_more(ph_tape *tape, void *x)
{
    return ph_dropout(tape, ph_add_scalar(tape, x, 1), 0.5);
}

TEST(test_cuda_graph_inference_mode)
{
    t_scene s;
    ph_tensor *plain, *remembered;
    t_scene_open(&s);
    ph_tensor *x = ph_tensor_retain(ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(10, 10), 1));
    assert_ok(ph_tensor_set_requires_grad(x, true));
    bool before = ph_tape_set_grad_enabled(s.tape, false);
    ph_graph *first = t_capture(&s, one_more, x, &plain);
    (void)ph_tape_set_grad_enabled(s.tape, before);
    ph_graph *second = t_capture(&s, one_more, x, &remembered);
    assert_ok(ph_graph_replay(first, s.stream));
    assert_ok(ph_graph_replay(second, s.stream));
    float *a = t_bytes(&s, plain), *b = t_bytes(&s, remembered);
    assert_memory_not_equal(a, b, 100 * sizeof *a);
    for (int i = 0; i < 100; i++)
        assert_true((a[i] == 0 || a[i] == 4) && (b[i] == 0 || b[i] == 4));
    free(a);
    free(b);
    ph_tensor_release(x);
    ph_tensor_release(plain);
    ph_tensor_release(remembered);
    ph_graph_destroy(first);
    ph_graph_destroy(second);
    t_scene_close(&s);
}

/* ---- TestSAC.test_cudagraph_uneven_forward_backward ---- */
typedef struct uneven {
    ph_generator *generator;
    ph_generator_state *clone;
} uneven;

static ph_tensor *permuted_elsewhere(ph_tape *tape, void *user)
{
    uneven *u = user;
    ph_generator_state *current = ph_generator_share_state(u->generator);
    ph_tape_check(tape, ph_generator_use_state(u->generator, u->clone));
    ph_tensor *x = ph_randperm(tape, 10);
    ph_tape_check(tape, ph_generator_use_state(u->generator, current));
    ph_generator_state_release(current);
    return x;
}

static ph_tensor *permuted(ph_tape *tape, void *unused)
{
    (void)unused;
    return ph_randperm(tape, 10);
}

TEST(test_cudagraph_uneven_forward_backward)
{
    t_scene s;
    ph_generator *clone;
    ph_tensor *out;
    unsigned char bytes[16];
    uneven u;
    t_scene_open(&s);
    assert_ok(ph_generator_default(&u.generator, s.device));
    assert_ok(ph_generator_clone(&clone, u.generator));
    u.clone = ph_generator_share_state(clone);
    ph_graph *graph = t_capture(&s, permuted_elsewhere, &u, &out);
    for (int i = 0; i < 3; i++)
        ph_tensor_release(t_now(&s, permuted, NULL));
    assert_ok(ph_generator_get_state(bytes, u.generator));
    ph_tensor *perm = t_now(&s, permuted, NULL);
    assert_ok(ph_generator_set_state(clone, bytes, sizeof bytes));
    assert_ok(ph_graph_replay(graph, s.stream));
    assert_true(t_same(&s, out, perm));
    /* Without a graph. */
    assert_ok(ph_generator_set_state(clone, bytes, sizeof bytes));
    ph_tensor *again = t_now(&s, permuted_elsewhere, &u);
    assert_true(t_same(&s, again, perm));
    ph_tensor_release(out);
    ph_tensor_release(perm);
    ph_tensor_release(again);
    ph_graph_destroy(graph);
    ph_generator_state_release(u.clone);
    ph_generator_release(clone);
    ph_generator_release(u.generator);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* ---- test_graph_manual_seed_mismatch_raises ---- of group 2: in a capture that draws. */
TEST(test_graph_manual_seed_mismatch_raises)
{
    t_scene s;
    ph_generator *g;
    ph_graph *graph;
    t_scene_open(&s);
    assert_ok(ph_generator_default(&g, s.device));
    assert_ok(ph_generator_seed(g, 0));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, s.stream, NULL));
    (void)ph_rand(s.tape, PH_DTYPE_F32, PH_SHAPE(10));
    assert_error(ph_generator_seed(g, 1), PH_ERROR_STATE, "only the seed that it has may be set");
    assert_ok(ph_generator_seed(g, 0));
    assert_ok(ph_tape_clear(s.tape));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    ph_graph_destroy(graph);
    ph_generator_release(g);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_stats_of_multiple_generators_and_graphs),
        cmocka_unit_test(test_cuda_graph_inference_mode),
        cmocka_unit_test(test_cudagraph_uneven_forward_backward),
        cmocka_unit_test(test_graph_manual_seed_mismatch_raises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
