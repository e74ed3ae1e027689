/* SPDX-License-Identifier: MIT */
/* tests/nn/torch_inputs.c: what PyTorch's tests ask of check_input_liveness, with tensors. Each
 * test carries the name of the behaviour that it holds; those that need no tensors are in
 * tests/graph/torch_inputs.c. */
#include "support/graphed_nets.h"
#include "support/test.h"

typedef struct watched watched;
typedef ph_tensor *(*watched_fn)(watched *w);
struct watched {
    t_scene s;
    ph_tape *tape;
    ph_graph *graph;
    ph_tensor *x, *y, *out; /* out: what the body gave, retained */
    ph_tensor *more[10];
    watched_fn body;
    void *user;
};

static void open_scene(watched *w, bool no_grad)
{
    *w = (watched){.user = NULL};
    t_scene_open(&w->s);
    if (no_grad)
        ph_tape_set_grad_enabled(w->s.tape, false);
    w->tape = w->s.tape;
    assert_ok(ph_graph_create(&w->graph, NULL));
}

/* Makes it NULL, too. */
static void let_go(ph_tensor **x)
{
    ph_tensor_release(*x);
    *x = NULL;
}

static void close_scene(watched *w)
{
    assert_ok(ph_tape_clear(w->tape));
    ph_graph_destroy(w->graph);
    let_go(&w->x);
    let_go(&w->y);
    let_go(&w->out);
    for (int i = 0; i < 10; i++)
        let_go(&w->more[i]);
    t_scene_close(&w->s);
}

static ph_status run_body(ph_stream *stream, void *user)
{
    watched *w = user;
    (void)stream;
    ph_tensor *out = w->body(w);
    ph_tensor_release(w->out);
    w->out = ph_tensor_retain(out);
    return ph_tape_clear(w->tape);
}

/* Three times to warm up, once for good. */
static void capture(watched *w, watched_fn body)
{
    w->body = body;
    for (int i = 0; i < 3; i++)
        assert_ok(run_body(w->s.stream, w));
    let_go(&w->out);
    assert_ok(ph_stream_synchronize(w->s.stream));
    assert_ok(ph_graph_capture(
        w->graph, w->s.stream,
        &(ph_capture_options){.check_input_liveness = true, .mode = PH_CAPTURE_RELAXED}, run_body,
        w));
}

static void expect_live(watched *w)
{
    for (int i = 0; i < 2; i++)
        assert_ok(ph_graph_replay(w->graph, w->s.stream));
    assert_ok(ph_stream_synchronize(w->s.stream));
}

static void expect_dead(watched *w)
{
    for (int i = 0; i < 2; i++)
        assert_error(ph_graph_replay(w->graph, w->s.stream), PH_ERROR_STALE_INPUT, "dead input");
}

static ph_tensor *sample(const watched *w, ph_shape shape)
{
    ph_tensor *x = gn_sample(&w->s, shape, false);
    assert_ok(ph_stream_synchronize(w->s.stream));
    return x;
}

/* Whether the graph addresses memory that x lies in. */
static bool is_tracked(const watched *w, const ph_tensor *x)
{
    size_t count;
    ph_input_info info;
    bool found = false;
    uintptr_t at = (uintptr_t)ph_tensor_data(x);
    assert_ok(ph_graph_input_count(&count, w->graph));
    for (size_t i = 0; i < count && at; i++) {
        assert_ok(ph_graph_input(&info, w->graph, i));
        found = found || at - (uintptr_t)info.base < info.bytes;
    }
    return found;
}

/* ---- models ---- */
enum {
    LAYERS = 5
};

static ph_tensor *five_layers(watched *w)
{
    ph_tensor *x = w->x;
    for (int i = 0; i < LAYERS; i++)
        x = ph_relu(w->tape, ph_linear(w->tape, x, w->more[i], w->more[LAYERS + i]));
    return x;
}

/* Its words are among those of a product library's kernels, which are told from other values by
 * nobody else. */
TEST(test_model_weight_dead)
{
    watched w;
    open_scene(&w, true);
    w.x = sample(&w, PH_SHAPE(8, 64));
    for (int i = 0; i < LAYERS; i++) {
        w.more[i] = sample(&w, PH_SHAPE(64, 64));
        w.more[LAYERS + i] = sample(&w, PH_SHAPE(64));
    }
    capture(&w, five_layers);
    for (int i = 0; i < 2 * LAYERS; i++)
        assert_true(is_tracked(&w, w.more[i]));
    expect_live(&w);
    let_go(&w.more[2]);
    expect_dead(&w);
    close_scene(&w);
}

/* The same of each operand of one product alone. */
static ph_tensor *one_product(watched *w)
{
    return ph_linear(w->tape, w->x, w->more[0], w->more[1]);
}

static ph_tensor *sample_of(const watched *w, ph_dtype dtype, ph_shape shape)
{
    ph_tensor *x = sample(w, shape);
    ph_tensor *cast = ph_tensor_retain(ph_cast(w->tape, x, dtype));
    assert_ok(ph_tape_clear(w->tape));
    assert_ok(ph_stream_synchronize(w->s.stream));
    ph_tensor_release(x);
    return cast;
}

static void one_operand(ph_dtype dtype, int64_t size, int dead)
{
    watched w;
    open_scene(&w, true);
    w.x = sample_of(&w, dtype, PH_SHAPE(size, 2 * size));
    w.more[0] = sample_of(&w, dtype, PH_SHAPE(3 * size, 2 * size));
    w.more[1] = sample_of(&w, dtype, PH_SHAPE(3 * size));
    capture(&w, one_product);
    assert_true(is_tracked(&w, w.x) && is_tracked(&w, w.more[0]) && is_tracked(&w, w.more[1]));
    expect_live(&w);
    let_go(dead == 0 ? &w.x : &w.more[dead - 1]);
    expect_dead(&w);
    close_scene(&w);
}

/* Also where the kernel gets them inside descriptions of tensors. */
TEST(test_each_operand_of_a_product)
{
    const int64_t large = t_on_host() || !t_nightly() ? 32 : 256;
    for (int dead = 0; dead < 3; dead++) {
        one_operand(PH_DTYPE_F32, 16, dead);
        one_operand(PH_DTYPE_BF16, large, dead);
    }
}

static ph_tensor *training_step(watched *w)
{
    ph_tensor_release(w->more[2]);
    w->more[2] = ph_tensor_retain(ph_linear(w->tape, w->x, w->more[0], w->more[1]));
    ph_backward_from(w->tape, &w->more[2], &w->y, 1, NULL);
    return NULL;
}

TEST(test_model_training_weight_dead)
{
    watched w;
    open_scene(&w, false);
    w.x = sample(&w, PH_SHAPE(8, 32));
    w.y = sample(&w, PH_SHAPE(8, 16)); /* the gradient that it begins with */
    w.more[0] = sample(&w, PH_SHAPE(16, 32));
    w.more[1] = sample(&w, PH_SHAPE(16));
    for (int i = 0; i < 2; i++)
        assert_ok(ph_tensor_set_requires_grad(w.more[i], true));
    w.body = training_step;
    for (int i = 0; i < 3; i++)
        assert_ok(run_body(w.s.stream, &w));
    for (int i = 0; i < 2; i++)
        t_zero_grad(w.more[i]);
    let_go(&w.more[2]);
    assert_ok(ph_stream_synchronize(w.s.stream));
    assert_ok(ph_graph_capture(w.graph, w.s.stream,
                               &(ph_capture_options){.check_input_liveness = true}, run_body, &w));
    assert_true(is_tracked(&w, w.more[0]));
    assert_true(is_tracked(&w, w.y));
    expect_live(&w);
    let_go(&w.more[2]);
    expect_live(&w);
    let_go(&w.more[0]);
    expect_dead(&w);
    close_scene(&w);
}

/* ---- many tensors in one operator ---- in[0..3) + in[3..6). */
static void add_lists(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    (void)custom;
    for (int i = 0; i < 3; i++)
        out[i] = ph_add(tape, in[i], in[3 + i]);
}

static void no_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                        ph_tensor *const *grad_out, const bool *needed)
{
    (void)custom;
    (void)needed;
    (void)grad_in;
    (void)grad_out;
    ph_tape_fail(tape, PH_ERROR_STATE, "is not called");
}

static ph_tensor *lists(watched *w)
{
    const ph_custom_operator op = {
        .name = "add_lists", .forward = add_lists, .backward = no_backward};
    ph_tensor *out[3];
    ph_custom_call(w->tape, &op, out, 3, w->more, 6);
    return out[1];
}

TEST(test_nested_structure_inputs)
{
    watched w;
    open_scene(&w, true);
    for (int i = 0; i < 6; i++)
        w.more[i] = sample(&w, PH_SHAPE(10));
    capture(&w, lists);
    expect_live(&w);
    let_go(&w.more[3 + 1]);
    expect_dead(&w);
    close_scene(&w);
}

/* ---- memory that goes while its tensor stays ---- */
static ph_tensor *doubled(watched *w)
{
    return ph_mul_scalar(w->tape, w->x, 2);
}

TEST(test_dead_storage_raises)
{
    watched w;
    float *memory;
    open_scene(&w, true);
    assert_ok(ph_malloc(&memory, 100, sizeof *memory, w.s.stream));
    assert_ok(
        ph_tensor_wrap(&w.x, w.s.device, PH_DTYPE_F32, PH_SHAPE(100), NULL, memory, NULL, NULL));
    ph_tensor_fill(w.tape, w.x, 3);
    capture(&w, doubled);
    assert_true(is_tracked(&w, w.x));
    expect_live(&w);
    ph_free(memory, w.s.stream);
    /* The same address, but another allocation. */
    float *again;
    assert_ok(ph_malloc(&again, 100, sizeof *again, w.s.stream));
    expect_dead(&w);
    ph_free(again, w.s.stream);
    close_scene(&w);
}

static void first(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    (void)custom;
    out[0] = ph_mul_scalar(tape, in[0], 2);
}

static ph_tensor *with_empty(watched *w)
{
    const ph_custom_operator op = {.name = "first", .forward = first, .backward = no_backward};
    ph_tensor *out;
    ph_custom_call(w->tape, &op, &out, 1, (ph_tensor *[]){w->x, w->y}, 2);
    (void)ph_mul_scalar(w->tape, w->y, 2);
    return out;
}

TEST(test_empty_tensor_not_tracked)
{
    watched w;
    open_scene(&w, true);
    w.x = sample(&w, PH_SHAPE(100));
    w.y = sample(&w, PH_SHAPE(0));
    assert_null(ph_tensor_data(w.y));
    size_t before, after;
    capture(&w, doubled);
    assert_ok(ph_graph_input_count(&before, w.graph));
    assert_ok(ph_graph_reset(w.graph));
    capture(&w, with_empty);
    assert_ok(ph_graph_input_count(&after, w.graph));
    assert_int_equal(after, before);
    let_go(&w.y);
    expect_live(&w);
    close_scene(&w);
}

/* ---- another stream ---- */
typedef struct beside {
    ph_stream *stream;
    ph_tape *tape;
    ph_tensor *out; /* retained */
} beside;

static ph_tensor *with_other_stream(watched *w)
{
    beside *b = w->user;
    ph_tensor *y = ph_mul_scalar(b->tape, w->y, 3);
    ph_tensor_release(b->out);
    b->out = ph_tensor_retain(y);
    assert_ok(ph_tape_clear(b->tape));
    return doubled(w);
}

TEST(test_non_capturing_stream_inputs_not_tracked)
{
    watched w;
    beside b = {NULL, NULL, NULL};
    open_scene(&w, true);
    assert_ok(ph_stream_create(&b.stream, w.s.device, NULL));
    assert_ok(ph_tape_create(&b.tape, b.stream, &(ph_tape_options){.no_grad = true}));
    w.x = sample(&w, PH_SHAPE(100));
    w.y = sample(&w, PH_SHAPE(100));
    w.user = &b;
    capture(&w, with_other_stream);
    assert_true(is_tracked(&w, w.x));
    assert_false(is_tracked(&w, w.y));
    let_go(&w.y);
    expect_live(&w);
    gn_expect_same(&w.s, w.out, ph_mul_scalar(w.tape, w.x, 2), "twice x");
    ph_tensor_release(b.out);
    ph_tape_destroy(b.tape);
    assert_ok(ph_stream_synchronize(b.stream));
    ph_stream_destroy(b.stream);
    close_scene(&w);
}

/* ---- pinned memory ---- */
static ph_tensor *from_pinned(watched *w)
{
    ph_tape_check(w->tape,
                  ph_tensor_write(w->tape, w->x, ph_tensor_data(w->y), ph_tensor_bytes(w->y)));
    return doubled(w);
}

TEST(test_pinned_memory_tensor_tracked)
{
    watched w;
    open_scene(&w, true);
    w.x = sample(&w, PH_SHAPE(100));
    assert_ok(ph_tensor_create_pinned(&w.y, w.s.device, PH_DTYPE_F32, PH_SHAPE(100)));
    float *values = ph_tensor_data(w.y);
    for (int i = 0; i < 100; i++)
        values[i] = (float)i;
    capture(&w, from_pinned);
    assert_true(is_tracked(&w, w.x));
    assert_true(is_tracked(&w, w.y));
    expect_live(&w);
    let_go(&w.y);
    expect_dead(&w);
    close_scene(&w);
}

/* ---- functions that take functions ---- */
static void wrapped(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    (void)user;
    out[0] = ph_tanh(tape, ph_mul_scalar(tape, in[0], 2));
}

static ph_tensor *higher_order(watched *w)
{
    ph_tensor *y, *grad;
    ph_checkpoint(w->tape, wrapped, NULL, &y, 1, &w->x, 1);
    ph_tensor *loss = ph_sum(w->tape, y);
    ph_grad(w->tape, &grad, &w->x, 1, &loss, NULL, 1, NULL);
    return grad;
}

TEST(test_higher_order_op_during_capture)
{
    watched w;
    open_scene(&w, false);
    w.x = gn_sample(&w.s, PH_SHAPE(32), true);
    capture(&w, higher_order);
    expect_live(&w);
    gn_expect_same(&w.s, w.out, higher_order(&w), "the gradient");
    assert_ok(ph_tape_clear(w.tape));
    let_go(&w.x);
    expect_dead(&w);
    close_scene(&w);
}

/* ---- custom operators ---- x * 2 * scale, whose kernel hides the address of scale: only the
 * operator's call tells that the graph needs it. */
static void scaled(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    ph_tensor *twice;
    gn_hidden_forward(tape, &twice, &in[1], ph_custom_user(custom));
    out[0] = ph_mul(tape, in[0], twice);
    ph_custom_save(custom, &in[1], 1);
}

static void scaled_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                            ph_tensor *const *grad_out, const bool *needed)
{
    ph_tensor *scale = ph_custom_saved(custom, 0), *twice;
    (void)needed;
    gn_hidden_forward(tape, &twice, &scale, ph_custom_user(custom));
    grad_in[0] = ph_mul(tape, grad_out[0], twice);
}

static ph_tensor *call_scaled(watched *w)
{
    const ph_custom_operator op = {
        .name = "scaled", .forward = scaled, .backward = scaled_backward, .user = w->user};
    ph_tensor *y, *grad;
    ph_custom_call(w->tape, &op, &y, 1, (ph_tensor *[]){w->x, w->y}, 2);
    if (!ph_tape_grad_enabled(w->tape))
        return y;
    ph_tensor *loss = ph_sum(w->tape, y);
    ph_grad(w->tape, &grad, &w->x, 1, &loss, NULL, 1, NULL);
    return grad;
}

static void custom_operator(bool with_gradients, float scale)
{
    watched w;
    gn_hidden hidden;
    open_scene(&w, !with_gradients);
    gn_hidden_open(&hidden, w.s.device);
    w.user = &hidden;
    w.x = gn_sample(&w.s, PH_SHAPE(100), with_gradients);
    w.y = ph_tensor_retain(ph_full(w.tape, PH_DTYPE_F32, PH_SCALAR, (double)scale));
    assert_ok(ph_tape_clear(w.tape));
    capture(&w, call_scaled);
    assert_true(is_tracked(&w, w.y));
    expect_live(&w);
    gn_expect_same(&w.s, w.out, call_scaled(&w), "the operator");
    assert_ok(ph_tape_clear(w.tape));
    let_go(&w.y);
    assert_error(ph_graph_replay(w.graph, w.s.stream), PH_ERROR_STALE_INPUT, "scaled");
    expect_dead(&w);
    let_go(&w.out);
    ph_graph_destroy(w.graph);
    w.graph = NULL;
    gn_hidden_close(&hidden);
    close_scene(&w);
}

TEST(test_custom_autograd_function)
{
    custom_operator(true, 2);
}

TEST(test_torch_library_custom_op)
{
    custom_operator(false, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_weight_dead),
        cmocka_unit_test(test_each_operand_of_a_product),
        cmocka_unit_test(test_model_training_weight_dead),
        cmocka_unit_test(test_nested_structure_inputs),
        cmocka_unit_test(test_dead_storage_raises),
        cmocka_unit_test(test_empty_tensor_not_tracked),
        cmocka_unit_test(test_non_capturing_stream_inputs_not_tracked),
        cmocka_unit_test(test_pinned_memory_tensor_tracked),
        cmocka_unit_test(test_higher_order_op_during_capture),
        cmocka_unit_test(test_custom_autograd_function),
        cmocka_unit_test(test_torch_library_custom_op),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
