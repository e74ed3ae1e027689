/* SPDX-License-Identifier: MIT */
/* tests/tensor/attention_cudnn.c: attention of sizes that cuDNN does on a GPU: against the
 * formulas; what is captured is what is done eagerly, to the bit; and when it is cuDNN that does
 * it. On the host device our own kernels do all. */
#include "fake/fake_cuda.h"
#include "support/attention_check.h"
#include "support/test.h"
#include <dlfcn.h>

static bool has_cudnn(void)
{
    void *library = t_on_host() ? NULL : dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (library)
        (void)dlclose(library);
    return library != NULL;
}

/* ---- results ---- */
TEST(results_and_gradients_match_the_formulas)
{
    static const t_attention sizes[] = {
        {.heads = 2, .kv_heads = 2, .tq = 128, .tk = 128, .d = 64, .causal = true},
        {.heads = 2, .kv_heads = 1, .tq = 128, .tk = 256, .d = 64},
        {.heads = 2, .kv_heads = 1, .tq = 128, .tk = 128, .d = 64, .causal = true},
        {.heads = 1, .kv_heads = 1, .tq = 128, .tk = 128, .d = 128},
    };
    t_scene s;
    ph__rng rng = {7};
    t_scene_open(&s);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int views = 0; views < 2; views++)
            t_attention_check(&s, sizes[i], i % 2 ? PH_DTYPE_F16 : PH_DTYPE_BF16, views != 0, &rng);
    t_scene_close(&s);
}

/* ---- graphs ---- */
typedef struct step {
    ph_tape *tape;
    ph_tensor *in[3], *g, *out[4]; /* results are copied into out */
} step;

static ph_status one_step(ph_stream *stream, void *user)
{
    step *p = user;
    ph_tensor *result[4];
    (void)stream;
    result[0] = ph_attention(p->tape, p->in[0], p->in[1], p->in[2],
                             &(ph_attention_options){.causal = true});
    ph_grad(p->tape, result + 1, p->in, 3, result, &p->g, 1, NULL);
    bool before = ph_tape_set_grad_enabled(p->tape, false);
    for (int i = 0; i < 4; i++)
        ph_tensor_copy(p->tape, p->out[i], result[i]);
    (void)ph_tape_set_grad_enabled(p->tape, before);
    return ph_tape_clear(p->tape);
}

static void list_tensors(ph_tensor **out[8], step *p)
{
    for (int i = 0; i < 4; i++) {
        out[i] = i < 3 ? &p->in[i] : &p->g;
        out[4 + i] = &p->out[i];
    }
}

static void make_step(step *p, t_scene *s, int64_t batch, int64_t rows, int64_t d)
{
    ph_tensor **all[8];
    list_tensors(all, p);
    p->tape = s->tape;
    for (int i = 0; i < 8; i++)
        *all[i] = ph_tensor_retain(ph_cast(
            s->tape, ph_randn(s->tape, PH_DTYPE_F32, PH_SHAPE(batch, 3, rows, d)), PH_DTYPE_BF16));
    for (int i = 0; i < 3; i++)
        assert_ok(ph_tensor_set_requires_grad(p->in[i], true));
    assert_ok(ph_tape_clear(s->tape));
}

static void free_step(step *p)
{
    for (int i = 0; i < 4; i++) {
        ph_tensor_release(i < 3 ? p->in[i] : p->g);
        ph_tensor_release(p->out[i]);
    }
}

/* How many kernels of a graph have a name that begins so, and how many nodes it has. */
static size_t count_named(ph_graph *graph, size_t *nodes, const char *begin)
{
    const ph_record *record;
    size_t named = 0;
    assert_ok(ph_graph_record(&record, graph));
    *nodes = ph_record_node_count(record);
    for (size_t i = 0; i < *nodes; i++) {
        ph_node_info node;
        assert_ok(ph_record_node(&node, record, i));
        named += node.name && strncmp(node.name, begin, strlen(begin)) == 0;
    }
    return named;
}

/* Of a step that nobody has done before: so its plans are built inside the capture. */
static size_t captured_own(t_scene *s, int64_t batch, int64_t rows, int64_t d)
{
    step p;
    ph_graph *graph;
    size_t nodes;
    make_step(&p, s, batch, rows, d);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s->stream, NULL, one_step, &p));
    size_t own = count_named(graph, &nodes, "ph_attention_");
    assert_true(nodes >= 6);
    ph_graph_destroy(graph);
    free_step(&p);
    return own;
}

static void *contents(t_scene *s, const step *p, size_t *bytes)
{
    size_t one = ph_tensor_bytes(p->out[0]);
    char *all = malloc(4 * one);
    assert_non_null(all);
    for (int i = 0; i < 4; i++)
        assert_ok(ph_tensor_read(s->tape, p->out[i], all + (size_t)i * one, one));
    *bytes = 4 * one;
    return all;
}

TEST(replays_are_equal_to_eager_work_to_the_bit)
{
    enum {
        ROWS = 128,
        D = 64
    };
    t_scene s;
    step p;
    ph_graph *graph;
    size_t bytes;
    t_scene_open(&s);
    make_step(&p, &s, 2, ROWS, D);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, one_step, &p));
    assert_ok(ph_graph_replay(graph, s.stream));
    char *replayed = contents(&s, &p, &bytes);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 4; k++)
            ph_tensor_fill(s.tape, p.out[k], NAN);
        assert_ok(i == 0 ? one_step(s.stream, &p) : ph_graph_replay(graph, s.stream));
        char *again = contents(&s, &p, &bytes);
        assert_memory_equal(replayed, again, bytes);
        free(again);
    }
    free(replayed);
    ph_graph_destroy(graph);
    free_step(&p);
    t_scene_close(&s);
}

/* ---- a graph alone ---- in memory of the test's own, when all that it was captured with is
 * gone. */
enum {
    ALONE_ROWS = 128,
    ALONE_D = 64,
    ALONE = 3 * ALONE_ROWS * ALONE_D
};
typedef struct bare_step {
    t_scene *s;
    uint16_t *at[8];
} bare_step;

static ph_status step_of_memory(ph_stream *stream, void *user)
{
    const bare_step *bare = user;
    step p = {.tape = bare->s->tape};
    ph_tensor **all[8];
    list_tensors(all, &p);
    for (int i = 0; i < 8; i++)
        PH_TRY(ph_tensor_wrap(all[i], bare->s->device, PH_DTYPE_BF16,
                              PH_SHAPE(1, 3, ALONE_ROWS, ALONE_D), NULL, bare->at[i], NULL, NULL));
    for (int i = 0; i < 3; i++)
        PH_TRY(ph_tensor_set_requires_grad(p.in[i], true));
    PH_TRY(one_step(stream, &p));
    free_step(&p);
    return PH_OK;
}

/* cuDNN's kernels go with its plans, and those of the software one with its handle. */
TEST(a_graph_outlives_all_tensors)
{
    t_scene s;
    bare_step bare = {.s = &s};
    ph_graph *graph;
    ph_stream *stream;
    uint16_t values[ALONE], eager[ALONE], replayed[ALONE];
    if (!t_on_host() && fake_cuda())
        return;
    t_scene_open(&s);
    assert_ok(ph_stream_create(&stream, s.device, NULL));
    for (int i = 0; i < ALONE; i++)
        values[i] = (uint16_t)(0x3e00 + i % 113);
    for (int i = 0; i < 8; i++) {
        assert_ok(ph_malloc(&bare.at[i], ALONE, sizeof(uint16_t), s.stream));
        assert_ok(ph_memcpy(bare.at[i], values, sizeof values, s.stream));
    }
    assert_ok(step_of_memory(s.stream, &bare));
    t_read(eager, bare.at[5], sizeof eager, s.stream);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, step_of_memory, &bare));
    ph_tape_destroy(s.tape);
    for (int i = 0; i < 3; i++) {
        assert_ok(ph_memcpy(bare.at[5], values, sizeof values, stream));
        assert_ok(ph_graph_replay(graph, stream));
        t_read(replayed, bare.at[5], sizeof replayed, stream);
        assert_memory_equal(replayed, eager, sizeof eager);
    }
    ph_graph_destroy(graph);
    for (int i = 0; i < 8; i++)
        ph_free(bare.at[i], NULL);
    ph_stream_destroy(stream);
    ph_stream_destroy(s.stream);
    ph_device_release(s.device);
}

/* ---- the choice ---- */
TEST(cudnn_does_the_sizes_that_it_is_faster_at)
{
    t_scene s;
    t_scene_open(&s);
    assert_int_equal(captured_own(&s, 2, 128, 64), has_cudnn() ? 0 : 3);
    assert_int_equal(captured_own(&s, 1, 128, 64), has_cudnn() ? 0 : 3);
    assert_int_equal(captured_own(&s, 2, 200, 64), 3);
    assert_int_equal(captured_own(&s, 2, 128, 72), 3);
    t_scene_close(&s);
}

/* ---- determinism ---- */
static void set_repeating(bool repeating)
{
    ph_set_deterministic_algorithms(repeating);
    assert_int_equal(ph_deterministic_algorithms(), repeating);
}

/* The largest difference of two tensors' elements, of 1 + absolute value. */
static float farthest(t_scene *s, ph_tensor *x, ph_tensor *y)
{
    ph_tensor *a = ph_cast(s->tape, x, PH_DTYPE_F32), *b = ph_cast(s->tape, y, PH_DTYPE_F32);
    ph_tensor *off = ph_abs(s->tape, ph_sub(s->tape, a, b)),
              *size = ph_add_scalar(s->tape, ph_abs(s->tape, a), 1);
    ph_tensor *most = ph_max(s->tape, ph_div(s->tape, off, size));
    float value;
    assert_ok(ph_tensor_read(s->tape, most, &value, sizeof value));
    assert_ok(ph_tape_clear(s->tape));
    return value;
}

/* Results agree whichever backward is taken, but its kernels are others. A graph keeps those that
 * it was captured with. */
TEST(a_backward_that_need_not_repeat_is_taken_on_request_alone)
{
    t_scene s;
    step p, q;
    ph_graph *graph[2];
    size_t nodes;
    t_scene_open(&s);
    assert_true(ph_deterministic_algorithms());
    make_step(&p, &s, 2, 256, 64);
    make_step(&q, &s, 2, 256, 64);
    for (int i = 0; i < 4; i++) {
        bool before = ph_tape_set_grad_enabled(s.tape, false);
        ph_tensor_copy(s.tape, i < 3 ? q.in[i] : q.g, i < 3 ? p.in[i] : p.g);
        (void)ph_tape_set_grad_enabled(s.tape, before);
    }
    assert_ok(ph_tape_clear(s.tape));
    for (int i = 0; i < 2; i++) {
        set_repeating(i == 0);
        assert_ok(ph_graph_create(&graph[i], NULL));
        assert_ok(ph_graph_capture(graph[i], s.stream, NULL, one_step, i == 0 ? &p : &q));
    }
    assert_ok(ph_graph_replay(graph[0], s.stream));
    set_repeating(true);
    assert_ok(ph_graph_replay(graph[1], s.stream));
    for (int i = 0; i < 4; i++)
        assert_true(farthest(&s, p.out[i], q.out[i]) < 3.2e-2f);
    if (!t_on_host() && fake_cuda()) {
        assert_int_equal(count_named(graph[0], &nodes, "fake_cudnn_atomic"), 0);
        assert_int_equal(count_named(graph[1], &nodes, "fake_cudnn_atomic"), 1);
    }
    ph_graph_destroy(graph[0]);
    ph_graph_destroy(graph[1]);
    free_step(&p);
    free_step(&q);
    t_scene_close(&s);
}

/* What needs no atomic additions is the same to the bit, whatever is allowed. */
TEST(forward_repeats_whatever_is_allowed)
{
    t_scene s;
    step p;
    size_t bytes;
    t_scene_open(&s);
    make_step(&p, &s, 2, 128, 64);
    assert_ok(one_step(s.stream, &p));
    char *first = contents(&s, &p, &bytes);
    set_repeating(false);
    assert_ok(one_step(s.stream, &p));
    char *second = contents(&s, &p, &bytes);
    set_repeating(true);
    assert_memory_equal(first, second, bytes / 4);
    free(first);
    free(second);
    free_step(&p);
    t_scene_close(&s);
}

/* A device looks for cuDNN once; so each setting has a device of its own. */
static size_t own_with(const char *name, const char *value)
{
    t_scene s;
    assert_int_equal(setenv(name, value, 1), 0);
    t_scene_open(&s);
    size_t own = captured_own(&s, 2, 128, 64);
    t_scene_close(&s);
    assert_int_equal(unsetenv(name), 0);
    return own;
}

TEST(without_cudnn_the_kernels_are_ours)
{
    assert_int_equal(own_with("PH_CUDNN", "none"), 3);
    if (t_on_host() || !fake_cuda())
        return;
    assert_int_equal(own_with("FAKE_CUDNN_REFUSES", "1"), 3);
    assert_int_equal(own_with("PH_CUDNN", ""), 0);
}

TEST(a_cudnn_that_cannot_be_loaded_is_refused)
{
    t_scene s;
    step p;
    t_not_on_host("cuDNN is for GPUs");
    assert_int_equal(setenv("PH_CUDNN", "/nowhere/libcudnn.so.9", 1), 0);
    t_scene_open(&s);
    make_step(&p, &s, 2, 128, 64);
    assert_null(ph_attention(s.tape, p.in[0], p.in[1], p.in[2], NULL));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_UNSUPPORTED,
                 "PH_CUDNN names \"/nowhere/libcudnn.so.9\"");
    free_step(&p);
    t_scene_close(&s);
    assert_int_equal(unsetenv("PH_CUDNN"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cudnn_that_cannot_be_loaded_is_refused),
        cmocka_unit_test(results_and_gradients_match_the_formulas),
        cmocka_unit_test(replays_are_equal_to_eager_work_to_the_bit),
        cmocka_unit_test(a_graph_outlives_all_tensors),
        cmocka_unit_test(cudnn_does_the_sizes_that_it_is_faster_at),
        cmocka_unit_test(a_backward_that_need_not_repeat_is_taken_on_request_alone),
        cmocka_unit_test(forward_repeats_whatever_is_allowed),
        cmocka_unit_test(without_cudnn_the_kernels_are_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
