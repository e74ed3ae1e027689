/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_places.c: inputs of graphed callables in all kinds of memory: what no slot
 * takes is copied, and so is what lies in the callables' own pool, to elsewhere; gradients do
 * not come from that pool either. */
#include "support/graphed_nets.h"
#include "support/test.h"

enum {
    N = 1024,
    BYTES = N * sizeof(float),
    PAGE = 4096,
    FILLERS = 8
};

/* y = (2 x + 1) 2 x + x: many temporaries. */
static void poly_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    ph_tensor *a = ph_mul_scalar(tape, in[0], 2), *b = ph_add_scalar(tape, a, 1);
    out[0] = ph_add(tape, ph_mul(tape, b, a), in[0]);
}

static float poly(float x)
{
    return (2 * x + 1) * 2 * x + x;
}

static float slope(float x)
{
    return 8 * x + 3;
}

static void expect_all(const t_scene *s, ph_tensor *x, float want, const char *what)
{
    float got[N];
    assert_ok(ph_tape_status(s->tape));
    assert_ok(ph_tensor_read(s->tape, x, got, sizeof got));
    for (int i = 0; i < N; i++)
        if (got[i] != want)
            fail_msg("%s: element %d is %g, expected %g", what, i, (double)got[i], (double)want);
}

static ph_module *graph_in(const t_scene *s, ph_module *module, const ph_graphed_options *options)
{
    ph_tensor *x = gn_sample(s, PH_SHAPE(N), true);
    ph_module *graphed = gn_graph_one(module, x, options);
    ph_tensor_release(x);
    return graphed;
}

/* ---- memory of the program's own ---- that the host device reads as the module does: aligned
 * or not, and at another address each time. */
static void wrap_everywhere(const t_scene *s, ph_module *graphed, char *memory)
{
    for (size_t offset = 0; offset <= 512; offset += 64) {
        ph_tensor *x;
        float *values = (float *)(void *)(memory + offset), v = (float)(1 + offset / 64);
        for (int i = 0; i < N; i++)
            values[i] = v;
        assert_ok(
            ph_tensor_wrap(&x, s->device, PH_DTYPE_F32, PH_SHAPE(N), NULL, values, NULL, NULL));
        assert_ok(ph_tensor_set_requires_grad(x, true));
        ph_tensor *y = ph_call(s->tape, graphed, x);
        expect_all(s, y, poly(v), "ordinary memory");
        ph_tensor *seed = ph_full(s->tape, PH_DTYPE_F32, PH_SHAPE(N), 1);
        ph_backward_from(s->tape, &y, &seed, 1, NULL);
        expect_all(s, ph_tensor_grad(x), slope(v), "its gradient");
        /* An incoming gradient there, too. */
        ph_tensor *incoming, *dx = NULL;
        assert_ok(ph_tensor_wrap(&incoming, s->device, PH_DTYPE_F32, PH_SHAPE(N), NULL, values,
                                 NULL, NULL));
        y = ph_call(s->tape, graphed, x);
        ph_grad(s->tape, &dx, &x, 1, &y, &incoming, 1, NULL);
        expect_all(s, dx, v * slope(v), "with an incoming gradient there");
        assert_ok(ph_tape_clear(s->tape));
        ph_tensor_release(incoming);
        ph_tensor_release(x);
    }
}

TEST(test_ordinary_memory)
{
    static const ph_graphed_inputs ways[] = {PH_GRAPHED_AUTO, PH_GRAPHED_REBIND,
                                             PH_GRAPHED_COPY_INPUTS};
    if (strncmp(t_device_name(), "host", 4) != 0)
        return; /* a GPU does not read it */
    t_scene s;
    t_scene_open(&s);
    char *memory = aligned_alloc(PAGE, 4 * PAGE);
    assert_non_null(memory);
    ph_module *plain = gn_function(&s, "poly", poly_forward, NULL, 1, 1);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        ph_module *graphed = graph_in(&s, plain, &(ph_graphed_options){.inputs = ways[i]});
        wrap_everywhere(&s, graphed, memory);
        ph_module_release(graphed);
    }
    ph_module_release(plain);
    free(memory);
    t_scene_close(&s);
}

/* ---- pinned memory, where the module copies what comes from the device ---- */
static void copy_forward(ph_custom *c, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    (void)c;
    out[0] = ph_empty(tape, PH_DTYPE_F32, ph_tensor_shape(in[0]));
    if (out[0])
        ph_tape_check(tape, ph_memcpy(ph_tensor_data(out[0]), ph_tensor_data(in[0]),
                                      ph_tensor_bytes(in[0]), ph_tape_stream(tape)));
}

static void copy_backward(ph_custom *c, ph_tape *tape, ph_tensor **grad_in,
                          ph_tensor *const *grad_out, const bool *needed)
{
    (void)c;
    (void)needed;
    copy_forward(c, tape, grad_in, grad_out);
}

static void copies_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    static const ph_custom_operator copies = {
        .name = "copies", .forward = copy_forward, .backward = copy_backward};
    (void)self;
    ph_custom_call(tape, &copies, out, 1, in, 1);
}

static ph_tensor *pinned(const t_scene *s, float value)
{
    float values[N];
    ph_tensor *x;
    for (int i = 0; i < N; i++)
        values[i] = value;
    assert_ok(ph_tensor_create_pinned(&x, s->device, PH_DTYPE_F32, PH_SHAPE(N)));
    assert_ok(ph_tensor_write(s->tape, x, values, sizeof values));
    assert_ok(ph_stream_synchronize(s->stream));
    return x;
}

TEST(test_pinned_memory)
{
    t_scene s;
    t_scene_open(&s);
    ph_module *plain = gn_function(&s, "copies", copies_forward, NULL, 1, 1);
    ph_module *graphed = graph_in(&s, plain, &(ph_graphed_options){.inputs = PH_GRAPHED_REBIND});
    for (int round = 1; round <= 3; round++) {
        ph_tensor *x = pinned(&s, (float)round), *seed = pinned(&s, (float)(10 * round)),
                  *dx = NULL;
        assert_ok(ph_tensor_set_requires_grad(x, true));
        ph_tensor *of_device = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(N), 100.0 + round);
        expect_all(&s, ph_call(s.tape, graphed, of_device), 100 + (float)round,
                   "memory of the device");
        ph_tensor *y = ph_call(s.tape, graphed, x);
        expect_all(&s, y, (float)round, "pinned memory");
        ph_grad(s.tape, &dx, &x, 1, &y, &seed, 1, NULL);
        expect_all(&s, dx, (float)(10 * round), "a pinned incoming gradient");
        assert_ok(ph_tape_clear(s.tape));
        ph_tensor_release(x);
        ph_tensor_release(seed);
    }
    ph_module_release(graphed);
    ph_module_release(plain);
    t_scene_close(&s);
}

/* ---- the callables' own pool ---- */
static ph_pool *pool_of(const t_scene *s, const ph_tensor *x)
{
    ph_allocation found;
    assert_ok(ph_memory_lookup(&found, s->device, ph_tensor_data(x)));
    return found.pool;
}

/* A copy of the input in the place of another temporary would be written before it is read the
 * last time. */
static void forward_in_pool(const t_scene *s, ph_module *graphed, ph_pool *pool, int fillers)
{
    ph_tensor *x;
    float v = (float)(fillers + 1);
    assert_ok(ph_pool_begin(pool));
    /* so that input and copy lie elsewhere in the pool each time */
    for (int i = 0; i < fillers; i++)
        (void)ph_empty(s->tape, PH_DTYPE_F32, PH_SHAPE(N));
    x = ph_full(s->tape, PH_DTYPE_F32, PH_SHAPE(N), v);
    assert_ptr_equal(pool_of(s, x), pool);
    expect_all(s, ph_call(s->tape, graphed, x), poly(v), "an input in the pool");
    assert_ok(ph_pool_end(pool));
    assert_ok(ph_tape_clear(s->tape));
}

/* What later replays write is no gradient of this call. */
static void backward_in_pool(const t_scene *s, ph_module *graphed, ph_pool *pool, int fillers)
{
    float v = (float)(fillers + 1);
    ph_tensor *dx = NULL, *leaf;
    assert_ok(ph_tensor_create(&leaf, s->device, PH_DTYPE_F32, PH_SHAPE(N)));
    ph_tensor_fill(s->tape, leaf, v);
    assert_ok(ph_tensor_set_requires_grad(leaf, true));
    assert_ok(ph_pool_begin(pool));
    for (int i = 0; i < fillers; i++)
        (void)ph_empty(s->tape, PH_DTYPE_F32, PH_SHAPE(N));
    ph_tensor *seed = ph_full(s->tape, PH_DTYPE_F32, PH_SHAPE(N), 2);
    ph_tensor *y = ph_call(s->tape, graphed, leaf);
    ph_tensor_fill(s->tape, seed, 2);
    ph_grad(s->tape, &dx, &leaf, 1, &y, &seed, 1, NULL);
    assert_ok(ph_tape_status(s->tape));
    assert_ptr_not_equal(pool_of(s, dx), pool);
    (void)ph_call(s->tape, graphed, leaf);
    expect_all(s, dx, 2 * slope(v), "its gradient");
    assert_ok(ph_pool_end(pool));
    ph_tensor_release(leaf);
    assert_ok(ph_tape_clear(s->tape));
}

TEST(test_own_pool)
{
    t_scene s;
    t_scene_open(&s);
    ph_module *plain = gn_function(&s, "poly", poly_forward, NULL, 1, 1);
    for (int gradients = 0; gradients < 2; gradients++) {
        ph_pool *pool;
        assert_ok(ph_pool_create(&pool, s.device, NULL));
        ph_tensor *x = gn_sample(&s, PH_SHAPE(N), gradients);
        ph_module *graphed =
            gn_graph_one(plain, x, &(ph_graphed_options){.pool = pool, .stream = s.stream});
        ph_tensor_release(x);
        for (int fillers = 0; fillers < FILLERS; fillers++)
            if (gradients)
                backward_in_pool(&s, graphed, pool, fillers);
            else
                forward_in_pool(&s, graphed, pool, fillers);
        ph_module_release(graphed);
        ph_pool_release(pool);
    }
    ph_module_release(plain);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ordinary_memory),
        cmocka_unit_test(test_pinned_memory),
        cmocka_unit_test(test_own_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
