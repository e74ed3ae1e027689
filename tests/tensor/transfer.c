/* SPDX-License-Identifier: MIT */
/* tests/tensor/transfer.c: writing, reading, single elements, text, copies between devices; and
 * what a capture refuses. */
#include "support/tensors.h"
#include "support/test.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"
#include <math.h>

TEST(test_write_and_read)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x;
    const float values[] = {1, 2, 3, 4, 5, 6};
    float got[6] = {0};
    assert_ok(ph_tensor_create(&x, s.device, PH_DTYPE_F32, PH_SHAPE(2, 3)));
    assert_ok(ph_tensor_write(s.tape, x, values, sizeof values));
    assert_int_equal(ph_tensor_version(x), 1);
    assert_ok(ph_tensor_read(s.tape, x, got, sizeof got));
    assert_memory_equal(got, values, sizeof got);
    /* Any strides. */
    ph_tensor *turned = ph_transpose(s.tape, x, 0, 1);
    t_expect_values(s.tape, turned, PH_SHAPE(3, 2), 1, 4, 2, 5, 3, 6);
    assert_ok(ph_tensor_write(s.tape, turned, values, sizeof values));
    assert_int_equal(ph_tensor_version(x), 2);
    t_expect_values(s.tape, x, PH_SHAPE(2, 3), 1, 3, 5, 2, 4, 6);
    /* Nothing to do. */
    ph_tensor *none = ph_empty(s.tape, PH_DTYPE_F32, PH_SHAPE(0, 3));
    assert_ok(ph_tensor_write(s.tape, none, NULL, 0));
    assert_ok(ph_tensor_read(s.tape, none, NULL, 0));
    /* A leaf that requires a gradient takes its first values so. */
    assert_ok(ph_tensor_set_requires_grad(x, true));
    assert_ok(ph_tensor_write(s.tape, x, values, sizeof values));
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    t_scene_close(&s);
}

TEST(pinned_tensors_move_to_the_device_and_gradients_back)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *p;
    assert_ok(ph_tensor_create_pinned(&p, s.device, PH_DTYPE_F32, PH_SHAPE(3)));
    memcpy(ph_tensor_data(p), (const float[]){7, 8, 9}, 12);
    ph_tensor *x = ph_to_device(s.tape, p);
    assert_false(ph_tensor_is_pinned(x));
    t_expect_values(s.tape, x, PH_SHAPE(3), 7, 8, 9);
    assert_ptr_equal(ph_to_device(s.tape, x), x);
    t_expect_values(s.tape, ph_to_device(s.tape, ph_slice_step(s.tape, p, 0, 0, 3, 2)), PH_SHAPE(2),
                    7, 9);
    ph_tensor_fill(s.tape, p, 5);
    assert_ok(ph_stream_synchronize(s.stream));
    assert_true(((float *)ph_tensor_data(p))[2] == 5);
    t_expect_values(s.tape, p, PH_SHAPE(3), 5, 5, 5);
    /* A gradient comes back. */
    assert_ok(ph_tensor_set_requires_grad(p, true));
    ph_tensor *y = ph_to_device(s.tape, p), *g = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(3), 2);
    ph_backward_from(s.tape, &y, &g, 1, NULL);
    assert_ok(ph_tape_status(s.tape));
    t_expect_values(s.tape, ph_tensor_grad(p), PH_SHAPE(3), 2, 2, 2);
    ph_tensor_release(p);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

static double item_of(t_scene *s, ph_dtype dtype, double value)
{
    double out = NAN;
    assert_ok(ph_tensor_item(&out, s->tape, ph_full(s->tape, dtype, PH_SHAPE(1, 1), value)));
    return out;
}

TEST(an_item_is_read_in_every_dtype)
{
    t_scene s;
    t_scene_open(&s);
    assert_true(item_of(&s, PH_DTYPE_F32, 0.5) == 0.5);
    assert_true(item_of(&s, PH_DTYPE_F64, 0.1) == 0.1);
    assert_true(item_of(&s, PH_DTYPE_F16, -2.5) == -2.5);
    assert_true(item_of(&s, PH_DTYPE_BF16, 384) == 384);
    assert_true(item_of(&s, PH_DTYPE_I32, -7) == -7);
    assert_true(item_of(&s, PH_DTYPE_I64, 0x1p40) == 0x1p40);
    assert_true(item_of(&s, PH_DTYPE_U8, 255) == 255);
    assert_true(item_of(&s, PH_DTYPE_BOOL, 1) == 1);
    double out;
    ph_tensor *x = ph_transpose(s.tape, t_counting(s.tape, PH_SHAPE(2, 3)), 0, 1);
    assert_ok(ph_tensor_item(&out, s.tape, ph_select(s.tape, ph_select(s.tape, x, 0, 2), 0, 1)));
    assert_true(out == 5);
    assert_error(ph_tensor_item(&out, s.tape, x), PH_ERROR_ARGUMENT,
                 "must have one element (got f32[3, 2])");
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, "must have one element");
    t_scene_close(&s);
}

/* Each of them is the tape's first error too. */
static void expect_failed(t_scene *s, ph_status got, ph_status want, const char *words)
{
    assert_error(got, want, words);
    assert_error(ph_tape_clear(s->tape), want, words);
}

TEST(misuse_is_refused)
{
    t_scene s;
    t_scene_open(&s);
    float memory[6] = {0};
    double out;
    char *text;
    ph_tensor *x;
    assert_ok(ph_tensor_create(&x, s.device, PH_DTYPE_F32, PH_SHAPE(2, 3)));
    expect_failed(&s, ph_tensor_write(s.tape, x, memory, 20), PH_ERROR_SIZE,
                  "20 bytes for f32[2, 3], which has 24");
    expect_failed(&s,
                  ph_tensor_write(s.tape, ph_zeros(s.tape, PH_DTYPE_BF16, PH_SHAPE(2)), memory, 8),
                  PH_ERROR_SIZE,
                  "8 bytes for bf16[2], which has 4; its elements have 2 bytes, and those of "
                  "floats 4: ph_cast");
    expect_failed(&s, ph_tensor_write(s.tape, x, NULL, 24), PH_ERROR_ARGUMENT, "data is NULL");
    expect_failed(&s, ph_tensor_write(s.tape, NULL, memory, 24), PH_ERROR_ARGUMENT,
                  "ph_tensor_write: operand 0 is NULL");
    expect_failed(&s, ph_tensor_read(s.tape, x, memory, 25), PH_ERROR_SIZE, "25 bytes");
    expect_failed(&s, ph_tensor_read(s.tape, x, NULL, 24), PH_ERROR_ARGUMENT, "data is NULL");
    expect_failed(&s, ph_tensor_read(s.tape, NULL, memory, 24), PH_ERROR_ARGUMENT,
                  "operand 0 is NULL");
    expect_failed(&s, ph_tensor_item(NULL, s.tape, x), PH_ERROR_ARGUMENT, "out is NULL");
    expect_failed(&s, ph_tensor_item(&out, s.tape, NULL), PH_ERROR_ARGUMENT, "operand 0 is NULL");
    expect_failed(&s, ph_tensor_format(&text, s.tape, NULL), PH_ERROR_ARGUMENT, "x is NULL");
    assert_error(ph_tensor_write(NULL, x, memory, 24), PH_ERROR_ARGUMENT, "tape is NULL");
    assert_error(ph_tensor_read(NULL, x, memory, 24), PH_ERROR_ARGUMENT, "tape is NULL");
    assert_error(ph_tensor_item(&out, NULL, x), PH_ERROR_ARGUMENT, "tape is NULL");
    assert_error(ph_tensor_format(&text, NULL, x), PH_ERROR_ARGUMENT, "tape is NULL");
    assert_null(text);
    assert_error(ph_tensor_format(NULL, s.tape, x), PH_ERROR_ARGUMENT, "out is NULL");
    assert_null(ph_to_device(s.tape, NULL));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, "to_device: operand 0 is NULL");
    assert_null(ph_to_device(NULL, x));
    /* What backward will come through. */
    assert_ok(ph_tensor_set_requires_grad(x, true));
    ph_tensor *y = ph_transpose(s.tape, x, 0, 1);
    expect_failed(&s, ph_tensor_write(s.tape, y, memory, 24), PH_ERROR_STATE,
                  "made by an operator");
    /* A tape that has failed does nothing more. */
    ph_tape_fail(s.tape, PH_ERROR_CALLER, "the first one");
    assert_error(ph_tensor_write(s.tape, x, memory, 24), PH_ERROR_CALLER, "the first one");
    assert_error(ph_tensor_read(s.tape, x, memory, 24), PH_ERROR_CALLER, "the first one");
    assert_error(ph_tensor_item(&out, s.tape, x), PH_ERROR_CALLER,
                 "ph_tensor_item: the tape failed before this call: the first one; ph_tape_clear "
                 "starts anew");
    assert_error(ph_tape_status(s.tape), PH_ERROR_CALLER, "the first one");
    assert_ptr_equal(strstr(ph_error_last()->message, "the first one"), ph_error_last()->message);
    assert_error(ph_tensor_format(&text, s.tape, x), PH_ERROR_CALLER, "the first one");
    assert_error(ph_tape_clear(s.tape), PH_ERROR_CALLER, "the first one");
    assert_int_equal(ph_tensor_version(x), 0);
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* ---- captures ---- */
typedef struct body {
    t_scene *s;
    ph_tensor *x, *pinned, *spread;
} body;

/* What a capture refuses leaves it as it was. */
static ph_status refused_and_done(ph_stream *stream, void *user)
{
    body *b = user;
    ph_tape *tape = b->s->tape;
    float memory[4] = {0};
    double out;
    char *text;
    (void)stream;
    expect_failed(b->s, ph_tensor_write(tape, b->x, memory, sizeof memory), PH_ERROR_UNPINNED,
                  "ph_malloc_pinned");
    assert_null(strstr(ph_error_last()->message, "or copy outside the capture")); /* said twice */
    expect_failed(b->s, ph_tensor_write(tape, b->x, memory, sizeof memory), PH_ERROR_UNPINNED,
                  "ph_tensor_write: ph_memcpy: ");
    expect_failed(b->s,
                  ph_tensor_write(tape, ph_transpose(tape, b->spread, 0, 1), memory, sizeof memory),
                  PH_ERROR_UNPINNED, "(ph_tensor_create_pinned)");
    expect_failed(b->s, ph_tensor_read(tape, b->x, memory, sizeof memory), PH_ERROR_CAPTURE,
                  "pinned tensor");
    expect_failed(b->s, ph_tensor_read(tape, b->x, memory, sizeof memory), PH_ERROR_CAPTURE,
                  "or end the capture and replay first");
    assert_native(900);
    expect_failed(b->s,
                  ph_tensor_read(tape, ph_transpose(tape, b->spread, 0, 1), memory, sizeof memory),
                  PH_ERROR_CAPTURE, "waits for the device");
    expect_failed(b->s, ph_tensor_item(&out, tape, ph_select(tape, b->x, 0, 0)), PH_ERROR_CAPTURE,
                  "ph_tensor_item: waits");
    assert_native(900);
    expect_failed(b->s, ph_tensor_format(&text, tape, b->x), PH_ERROR_CAPTURE,
                  "ph_tensor_format: waits");
    assert_null(ph_from_memory(tape, PH_DTYPE_F32, PH_SHAPE(4), memory));
    assert_error(ph_tape_status(tape), PH_ERROR_UNPINNED, "ph_from_memory: ph_memcpy: ");
    assert_error(ph_tape_clear(tape), PH_ERROR_UNPINNED,
                 "refused before it could harm the capture");
    /* What it takes. */
    assert_ok(ph_tensor_write(tape, b->x, ph_tensor_data(b->pinned), 16));
    assert_ok(
        ph_tensor_write(tape, ph_transpose(tape, b->spread, 0, 1), ph_tensor_data(b->pinned), 16));
    ph_tensor *y = ph_to_device(tape, b->pinned);
    ph_tensor_add(tape, b->x, y, 1);
    return ph_tape_clear(tape);
}

TEST(captured_copies_read_pinned_memory_at_each_replay)
{
    t_scene s;
    t_scene_open(&s);
    ph_graph *graph;
    body b = {.s = &s};
    assert_ok(ph_tensor_create(&b.x, s.device, PH_DTYPE_F32, PH_SHAPE(4)));
    assert_ok(ph_tensor_create(&b.spread, s.device, PH_DTYPE_F32, PH_SHAPE(2, 2)));
    assert_ok(ph_tensor_create_pinned(&b.pinned, s.device, PH_DTYPE_F32, PH_SHAPE(4)));
    float *values = ph_tensor_data(b.pinned);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, refused_and_done, &b));
    for (int i = 1; i < 4; i++) {
        memcpy(values, (const float[]){1, 2, 3, (float)i}, 16);
        assert_ok(ph_graph_replay(graph, s.stream));
        t_expect_values(s.tape, b.x, PH_SHAPE(4), 2, 4, 6, (float)(2 * i));
        t_expect_values(s.tape, b.spread, PH_SHAPE(2, 2), 1, 3, 2, (float)i);
    }
    ph_graph_destroy(graph);
    ph_tensor_release(b.x);
    ph_tensor_release(b.spread);
    ph_tensor_release(b.pinned);
    t_scene_close(&s);
}

/* ---- two devices ---- the one under test and a host device. */
typedef struct pair {
    t_scene s, other;
    ph_tensor *there; /* 1, 2, 3, 4 on the other one */
    ph_tensor *x;     /* on the first */
    ph_stream *third;
} pair;

static void open_pair(pair *p)
{
    t_scene_open(&p->s);
    assert_ok(ph_device_open(&p->other.device, "host:threads=1", NULL));
    assert_ok(ph_stream_create(&p->other.stream, p->other.device, NULL));
    assert_ok(ph_tape_create(&p->other.tape, p->other.stream, NULL));
    assert_ok(ph_tensor_create(&p->there, p->other.device, PH_DTYPE_F32, PH_SHAPE(2, 2)));
    assert_ok(ph_tensor_write(p->other.tape, p->there, (const float[]){1, 2, 3, 4}, 16));
    assert_ok(ph_stream_synchronize(p->other.stream));
}

static void close_pair(pair *p)
{
    ph_tensor_release(p->there);
    t_scene_close(&p->other);
    t_scene_close(&p->s);
}

TEST(contiguous_tensors_move_between_devices)
{
    pair p;
    open_pair(&p);
    ph_tensor *x = ph_to_device(p.s.tape, p.there);
    assert_ptr_equal(ph_tensor_device(x), p.s.device);
    t_expect_values(p.s.tape, x, PH_SHAPE(2, 2), 1, 2, 3, 4);
    x = ph_mul_scalar(p.s.tape, x, 10);
    assert_ok(ph_tape_status(p.s.tape));
    assert_ok(ph_stream_synchronize(p.s.stream));
    ph_tensor *back = ph_to_device(p.other.tape, x);
    t_expect_values(p.other.tape, back, PH_SHAPE(2, 2), 10, 20, 30, 40);
    assert_int_equal(
        ph_tensor_count(ph_to_device(p.s.tape, ph_empty(p.other.tape, PH_DTYPE_U8, PH_SHAPE(0)))),
        0);
    ph_tensor_copy(p.other.tape, p.there, x);
    t_expect_values(p.other.tape, p.there, PH_SHAPE(2, 2), 10, 20, 30, 40);
    assert_null(ph_relu(p.s.tape, p.there));
    assert_error(ph_tape_clear(p.s.tape), PH_ERROR_WRONG_DEVICE, "ph_to_device");
    assert_null(ph_to_device(p.s.tape, ph_transpose(p.other.tape, p.there, 0, 1)));
    assert_error(ph_tape_clear(p.s.tape), PH_ERROR_ARGUMENT, "not contiguous");
    assert_ok(ph_tensor_set_requires_grad(p.there, true));
    assert_null(ph_to_device(p.s.tape, p.there));
    assert_error(ph_tape_clear(p.s.tape), PH_ERROR_STATE, "cannot go back to another device");
    assert_false(ph_tape_set_grad_enabled(p.s.tape, false) == false);
    assert_non_null(ph_to_device(p.s.tape, p.there));
    assert_ok(ph_tape_clear(p.s.tape));
    assert_ok(ph_tape_clear(p.other.tape));
    close_pair(&p);
}

static ph_status copy_from_elsewhere(ph_stream *stream, void *user)
{
    pair *p = user;
    (void)stream;
    assert_null(ph_to_device(p->s.tape, p->there));
    assert_error(ph_tape_clear(p->s.tape), PH_ERROR_UNPINNED, "ph_tensor_create_pinned");
    ph_tensor *x = ph_empty(p->s.tape, PH_DTYPE_F32, PH_SHAPE(2, 2));
    ph_tensor_copy(p->s.tape, x, p->there);
    assert_error(ph_tape_clear(p->s.tape), PH_ERROR_UNPINNED,
                 "refused before it could harm the capture");
    x = ph_zeros(p->s.tape, PH_DTYPE_F32, PH_SHAPE(2, 2));
    return ph_tape_clear(p->s.tape);
}

/* What the failed capture says afterwards, and each call of its graph, is still true. */
static ph_status ask_for_item(ph_stream *stream, void *user)
{
    pair *p = user;
    double value;
    (void)stream;
    ph_tensor *x = ph_zeros(p->s.tape, PH_DTYPE_F32, PH_SHAPE(1));
    ph_ignore(ph_tensor_item(&value, p->s.tape, x));
    return ph_tape_clear(p->s.tape);
}

static void expect_true_later(ph_status got)
{
    assert_int_equal(got, PH_ERROR_CAPTURE);
    assert_non_null(strstr(ph_error_last()->message, "ph_tensor_item"));
    assert_null(strstr(ph_error_last()->message, "goes on"));
}

TEST(test_failed_capture)
{
    pair p;
    ph_graph *graph;
    open_pair(&p);
    assert_ok(ph_graph_create(&graph, NULL));
    expect_true_later(ph_graph_capture(graph, p.s.stream, NULL, ask_for_item, &p));
    expect_true_later(ph_graph_replay(graph, p.s.stream));
    ph_graph_destroy(graph);
    close_pair(&p);
}

TEST(test_devices_in_capture)
{
    pair p;
    ph_graph *graph;
    open_pair(&p);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, p.s.stream, NULL, copy_from_elsewhere, &p));
    assert_ok(ph_graph_replay(graph, p.s.stream));
    assert_ok(ph_stream_synchronize(p.s.stream));
    ph_graph_destroy(graph);
    close_pair(&p);
}

/* The other direction: what the capture does to the tensor has not happened, and a copy would
 * have what was there before. */
static ph_status copy_to_elsewhere(ph_stream *stream, void *user)
{
    pair *p = user;
    (void)stream;
    ph_tape *third; /* of another stream, which reads it meanwhile */
    ph_tensor_fill(p->s.tape, p->x, 7);
    assert_ok(ph_tape_create(&third, p->third, NULL));
    assert_non_null(ph_reshape(third, p->x, PH_SHAPE(1, 2)));
    assert_ok(ph_tape_clear(third));
    ph_tape_destroy(third);
    assert_null(ph_to_device(p->other.tape, p->x));
    assert_error(ph_tape_clear(p->other.tape), PH_ERROR_UNPINNED,
                 "ph_to_device: a tape that made, changed or used the tensor is in a capture");
    ph_tensor *y = ph_zeros(p->other.tape, PH_DTYPE_F32, PH_SHAPE(2));
    ph_tensor_copy(p->other.tape, y, p->x);
    assert_error(ph_tape_clear(p->other.tape), PH_ERROR_UNPINNED, "has not run");
    return ph_tape_clear(p->s.tape);
}

TEST(test_devices_out_of_a_capture)
{
    pair p;
    ph_graph *graph;
    open_pair(&p);
    assert_ok(ph_stream_create(&p.third, p.s.device, NULL));
    assert_ok(ph_tensor_create(&p.x, p.s.device, PH_DTYPE_F32, PH_SHAPE(2)));
    ph_tensor_fill(p.s.tape, p.x, 3);
    assert_ok(ph_tape_clear(p.s.tape));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, p.s.stream, NULL, copy_to_elsewhere, &p));
    assert_ok(ph_stream_synchronize(p.s.stream));
    t_expect_values(p.other.tape, ph_to_device(p.other.tape, p.x), PH_SHAPE(2), 3, 3);
    assert_ok(ph_graph_replay(graph, p.s.stream));
    assert_ok(ph_stream_synchronize(p.s.stream));
    t_expect_values(p.other.tape, ph_to_device(p.other.tape, p.x), PH_SHAPE(2), 7, 7);
    assert_ok(ph_tape_clear(p.other.tape));
    ph_tensor_release(p.x);
    ph_graph_destroy(graph);
    ph_stream_destroy(p.third);
    close_pair(&p);
}

/* A GPU has no way to another one's memory but through the host's. */
TEST(test_two_alike)
{
    t_scene a, b;
    ph_device *device;
    ph_status status = ph_device_open(&device, t_on_host() ? "host:threads=1" : "cuda:1", NULL);
    if (status == PH_ERROR_NOT_FOUND) {
        print_message("skipped: one GPU\n");
        skip();
    }
    assert_ok(status);
    b.device = device;
    t_scene_open(&a);
    assert_ok(ph_stream_create(&b.stream, device, NULL));
    assert_ok(ph_tape_create(&b.tape, b.stream, NULL));
    ph_tensor *x = t_counting(a.tape, PH_SHAPE(2, 3));
    assert_ok(ph_stream_synchronize(a.stream));
    ph_tensor *y = ph_to_device(b.tape, x);
    ph_tensor_fill(a.tape, x, 9);
    t_expect_values(b.tape, y, PH_SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    t_scene_close(&b);
    t_scene_close(&a);
}

/* ---- text ---- */
static void expect_text(t_scene *s, const ph_tensor *x, const char *want)
{
    char *text;
    assert_ok(ph_tensor_format(&text, s->tape, x));
    assert_string_equal(text, want);
    ph_string_free(text);
}

static ph_tensor *floats(t_scene *s, ph_shape shape, const float *values)
{
    return ph_from_memory(s->tape, PH_DTYPE_F32, shape, values);
}

TEST(tensors_are_printed_with_values_dtype_and_shape)
{
    t_scene s;
    t_scene_open(&s);
    ph_tape *t = s.tape;
    expect_text(&s, t_counting(t, PH_SHAPE(2, 3)),
                "tensor([[0., 1., 2.],\n        [3., 4., 5.]], f32[2, 3])");
    expect_text(&s, ph_full(t, PH_DTYPE_F64, PH_SCALAR, 2.5), "tensor(2.5000, f64[])");
    expect_text(&s, ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(0, 3)), "tensor([], f32[0, 3])");
    expect_text(&s, floats(&s, PH_SHAPE(3), (const float[]){-1.5f, 10.25f, 0}),
                "tensor([-1.5000, 10.2500,  0.0000], f32[3])");
    expect_text(&s, floats(&s, PH_SHAPE(2), (const float[]){1e-5f, 2}),
                "tensor([1.0000e-05, 2.0000e+00], f32[2])");
    expect_text(&s, floats(&s, PH_SHAPE(2), (const float[]){1, 2000}),
                "tensor([1.0000e+00, 2.0000e+03], f32[2])");
    expect_text(&s, floats(&s, PH_SHAPE(4), (const float[]){NAN, INFINITY, -INFINITY, 1}),
                "tensor([ nan,  inf, -inf,   1.], f32[4])");
    expect_text(&s, ph_arange(t, PH_DTYPE_I64, -1, 11, 3), "tensor([-1, 10, 21], i64[3])");
    expect_text(&s, ph_arange(t, PH_DTYPE_I32, 5, -5, 2), "tensor([5, 0], i32[2])");
    expect_text(&s, ph_arange(t, PH_DTYPE_U8, 9, 1, 2), "tensor([ 9, 10], u8[2])");
    expect_text(&s, ph_arange(t, PH_DTYPE_F16, 0, 0.5, 2), "tensor([0.0000, 0.5000], f16[2])");
    expect_text(&s, ph_arange(t, PH_DTYPE_BF16, 0, 0.5, 2), "tensor([0.0000, 0.5000], bf16[2])");
    expect_text(&s, ph_from_memory(t, PH_DTYPE_BOOL, PH_SHAPE(2), "\0\1"),
                "tensor([false,  true], bool[2])");
    expect_text(
        &s, t_counting(t, PH_SHAPE(2, 2, 1)),
        "tensor([[[0.],\n         [1.]],\n\n        [[2.],\n         [3.]]], f32[2, 2, 1])");
    expect_text(&s, ph_arange(t, PH_DTYPE_I64, 100, 1, 20),
                "tensor([100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113,\n"
                "        114, 115, 116, 117, 118, 119], i64[20])");
    expect_text(&s, ph_arange(t, PH_DTYPE_I32, 0, 1, 1001),
                "tensor([   0,    1,    2, ...,  998,  999, 1000], i32[1001])");
    expect_text(&s, ph_reshape(t, ph_arange(t, PH_DTYPE_I32, 0, 1, 1400), PH_SHAPE(7, 200)),
                "tensor([[   0,    1,    2, ...,  197,  198,  199],\n"
                "        [ 200,  201,  202, ...,  397,  398,  399],\n"
                "        [ 400,  401,  402, ...,  597,  598,  599],\n"
                "        ...,\n"
                "        [ 800,  801,  802, ...,  997,  998,  999],\n"
                "        [1000, 1001, 1002, ..., 1197, 1198, 1199],\n"
                "        [1200, 1201, 1202, ..., 1397, 1398, 1399]], i32[7, 200])");
    assert_ok(ph_tape_clear(t));
    t_scene_close(&s);
}

/* ---- failures ---- */
static ph_status move_all(t_scene *s, ph_tensor *x)
{
    float memory[2000] = {0};
    char *text = NULL;
    double item;
    ph_tensor *turned = ph_transpose(s->tape, x, 0, 1);
    PH_TRY(ph_tensor_write(s->tape, x, memory, sizeof memory));
    PH_TRY(ph_tensor_write(s->tape, turned, memory, sizeof memory));
    PH_TRY(ph_tensor_read(s->tape, turned, memory, sizeof memory));
    PH_TRY(ph_tensor_item(&item, s->tape, ph_select(s->tape, ph_select(s->tape, x, 0, 1), 0, 1)));
    ph_status status = ph_tensor_format(&text, s->tape, turned);
    ph_string_free(text);
    return status;
}

TEST(transfers_without_host_memory_fail_and_leak_nothing)
{
    for (int64_t n = 0;; n++) {
        t_scene s;
        ph_tensor *x;
        t_scene_open(&s);
        assert_ok(ph_tensor_create(&x, s.device, PH_DTYPE_F32, PH_SHAPE(40, 50)));
        ph__alloc_fail_after(n);
        ph_status status = move_all(&s, x);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        assert_int_equal(ph_tape_clear(s.tape), status);
        ph_tensor_release(x);
        t_scene_close(&s);
        if (status == PH_OK) {
            assert_true(n > 10);
            break;
        }
        assert_int_equal(status, PH_ERROR_HOST_MEMORY);
    }
}

int main(void)
{
    t_hold_context();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_write_and_read),
        cmocka_unit_test(pinned_tensors_move_to_the_device_and_gradients_back),
        cmocka_unit_test(an_item_is_read_in_every_dtype),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(captured_copies_read_pinned_memory_at_each_replay),
        cmocka_unit_test(contiguous_tensors_move_between_devices),
        cmocka_unit_test(test_devices_in_capture),
        cmocka_unit_test(test_failed_capture),
        cmocka_unit_test(test_devices_out_of_a_capture),
        cmocka_unit_test(test_two_alike),
        cmocka_unit_test(tensors_are_printed_with_values_dtype_and_shape),
        cmocka_unit_test(transfers_without_host_memory_fail_and_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
