/* SPDX-License-Identifier: MIT */
/* tests/nn/torch_grad_scaler.c: what PyTorch's tests ask of a training with a gradient scaler:
 * beside it a control without one, which leaves out the step that the scaler must skip. Others of
 * their names are in grad_scaler.c, grad_scaler_captured.c and grad_scaler_misuse.c. */
#include "support/scaler_check.h"
#include "support/test.h"

enum {
    BATCHES = 4,
    SKIPPED = 2, /* the batch whose gradients get an infinity */
    ROWS = 8,
    WIDTH = 8,
    TENSORS = 4
};
static const char *const names[TENSORS] = {"0.weight", "0.bias", "1.weight", "1.bias"};

typedef struct net {
    ph_module *module;
    ph_optimizer *optimizer;
    ph_grad_scaler *scaler; /* NULL: the control */
} net;

typedef struct way {
    unsigned kind; /* of the optimizer */
    bool fused, unscales, clips, clips_scaled, accumulates;
    ph_autocast autocast;
} way;

static void open_net(net *n, t_scene *scene, const way *w, bool scaled)
{
    ph_generator *generator;
    ph_module *layers[2];
    assert_ok(ph_generator_create(&generator, scene->device, 20));
    const ph_layer_options options = {.generator = generator};
    for (size_t i = 0; i < 2; i++)
        assert_ok(ph_linear_create_with(&layers[i], scene->device, WIDTH, WIDTH, &options));
    assert_ok(ph_sequential_create(&n->module, layers, 2));
    ph_module_release(layers[0]);
    ph_module_release(layers[1]);
    ph_generator_release(generator);
    const ph_sgd_options sgd = {.lr = 0.5, .momentum = w->kind == 1 ? 0.9 : 0};
    const ph_adam_options adam = {.lr = 0.05, .amsgrad = w->kind == 3};
    if (w->kind < 2)
        assert_ok(ph_sgd_create(&n->optimizer, n->module, &sgd));
    else
        assert_ok(
            (w->kind == 2 ? ph_adam_create : ph_adamw_create)(&n->optimizer, n->module, &adam));
    const ph_grad_scaler_options scaling = {
        .init_scale = 128, .growth_interval = 1, .fused = w->fused};
    n->scaler = NULL;
    if (scaled)
        assert_ok(ph_grad_scaler_create(&n->scaler, scene->device, &scaling));
}

static void close_net(net *n)
{
    ph_grad_scaler_destroy(n->scaler);
    ph_optimizer_destroy(n->optimizer);
    ph_module_release(n->module);
}

static void backward(ph_tape *tape, net *n, const way *w, uint64_t batch, double part)
{
    float x[ROWS * WIDTH], y[ROWS * WIDTH];
    ph__rng rng = {batch + 1};
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        x[i] = (float)(ph__rng_next(&rng) % 1000) / 500 - 1;
        y[i] = (float)(ph__rng_next(&rng) % 1000) / 500 - 1;
    }
    ph_shape shape = PH_SHAPE(ROWS, WIDTH);
    ph_autocast before = ph_tape_set_autocast(tape, w->autocast);
    ph_tensor *out = ph_call(tape, n->module, ph_from_memory(tape, PH_DTYPE_F32, shape, x));
    ph_tensor *loss = ph_mse(tape, ph_cast(tape, out, PH_DTYPE_F32),
                             ph_from_memory(tape, PH_DTYPE_F32, shape, y));
    ph_tape_set_autocast(tape, before);
    loss = ph_mul_scalar(tape, loss, part);
    ph_backward(tape, n->scaler ? ph_grad_scaler_scale(tape, n->scaler, loss) : loss);
}

static void put_infinity(ph_tape *tape, const net *n)
{
    ph_tensor *grad = ph_tensor_grad(ph_module_parameter(n->module, names[2]));
    float values[WIDTH * WIDTH];
    assert_ok(ph_tensor_read(tape, grad, values, sizeof values));
    values[5] = INFINITY;
    assert_ok(ph_tensor_write(tape, grad, values, sizeof values));
}

static void train(ph_tape *tape, net *n, const way *w, uint64_t batch)
{
    if (!n->scaler && batch == SKIPPED)
        return;
    ph_optimizer_zero_grad(tape, n->optimizer);
    for (uint64_t k = 0; k < (w->accumulates ? 2 : 1); k++)
        backward(tape, n, w, 2 * batch + k, w->accumulates ? 0.5 : 1);
    if (n->scaler && batch == SKIPPED)
        put_infinity(tape, n);
    if (n->scaler && (w->unscales || (w->clips && !w->clips_scaled)))
        ph_grad_scaler_unscale(tape, n->scaler, n->optimizer);
    double most = n->scaler && w->clips_scaled ? 0.2 * sc_scale(tape, n->scaler) : 0.2;
    if (w->clips || w->clips_scaled)
        ph_clip_grad_norm(tape, n->module, most, NULL);
    if (n->scaler) {
        ph_grad_scaler_step(tape, n->scaler, n->optimizer);
        ph_grad_scaler_update(tape, n->scaler);
    } else {
        ph_optimizer_step(tape, n->optimizer);
    }
    assert_ok(ph_tape_clear(tape));
}

static void compare(ph_tape *tape, const net *a, const net *b, double bound)
{
    for (size_t i = 0; i < TENSORS; i++) {
        float x[WIDTH * WIDTH], y[WIDTH * WIDTH];
        ph_tensor *p = ph_module_parameter(a->module, names[i]),
                  *q = ph_module_parameter(b->module, names[i]);
        assert_ok(ph_tensor_read(tape, p, x, ph_tensor_bytes(p)));
        assert_ok(ph_tensor_read(tape, q, y, ph_tensor_bytes(q)));
        for (size_t k = 0; k < ph_tensor_bytes(p) / sizeof *x; k++)
            if (!(fabs((double)x[k] - (double)y[k]) <= bound * (1 + fabs((double)y[k]))))
                fail_msg("%s, element %zu: %.9g and %.9g", names[i], k, (double)x[k], (double)y[k]);
    }
}

/* Against the control; a scale that is a power of two changes no bit, but through Adam's eps and
 * a clip's. */
static void run(const way *w, double bound)
{
    t_scene scene;
    net control, scaled;
    t_scene_open(&scene);
    open_net(&control, &scene, w, false);
    open_net(&scaled, &scene, w, true);
    for (uint64_t i = 0; i < BATCHES; i++) {
        train(scene.tape, &control, w, i);
        train(scene.tape, &scaled, w, i);
        compare(scene.tape, &scaled, &control, bound);
    }
    /* three times twice the scale, once half of it */
    assert_true(sc_scale(scene.tape, scaled.scaler) == 128 * 8 / 2);
    close_net(&control);
    close_net(&scaled);
    t_scene_close(&scene);
}

TEST(test_grad_scaling_autocast)
{
    for (unsigned k = 0; k < 8; k++)
        run(&(way){.kind = k % 4, .fused = k & 4}, 0);
    /* f16 products round the scaled gradients as they round others, but for the smallest */
    for (unsigned k = 0; k < 4; k++)
        run(&(way){.kind = 0, .autocast = {.dtype = k & 1 ? PH_DTYPE_F16 : PH_DTYPE_BF16}}, 1e-4);
}

TEST(test_grad_scaling_clipping)
{
    for (unsigned k = 0; k < 4; k++)
        run(&(way){.kind = k, .clips_scaled = true}, 1e-4);
}

TEST(test_grad_scaling_clipping_separate_unscale)
{
    for (unsigned k = 0; k < 8; k++)
        run(&(way){.kind = k % 4, .clips = true, .fused = k & 4}, 0);
}

TEST(test_grad_scaling_accumulation)
{
    for (unsigned k = 0; k < 8; k++)
        run(&(way){.kind = k % 4, .accumulates = true, .fused = k & 4}, 0);
}

/* Steps that divide in the optimizer's kernels, and steps that divide before them: the same
 * bits, with autocast, and with unscale on its own or in the step. */
TEST(test_grad_scaling_autocast_fused_optimizers)
{
    for (unsigned k = 0; k < 16; k++) {
        t_scene scene;
        net plain, fused;
        way w = {.kind = k % 4, .unscales = k & 4};
        w.autocast.dtype = k & 8 ? PH_DTYPE_F16 : PH_DTYPE_BF16;
        t_scene_open(&scene);
        open_net(&plain, &scene, &w, true);
        w.fused = true;
        open_net(&fused, &scene, &w, true);
        for (uint64_t i = 0; i < BATCHES; i++) {
            w.fused = false;
            train(scene.tape, &plain, &w, i);
            w.fused = true;
            train(scene.tape, &fused, &w, i);
            compare(scene.tape, &plain, &fused, 0);
        }
        close_net(&plain);
        close_net(&fused);
        t_scene_close(&scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grad_scaling_autocast),
        cmocka_unit_test(test_grad_scaling_clipping),
        cmocka_unit_test(test_grad_scaling_clipping_separate_unscale),
        cmocka_unit_test(test_grad_scaling_accumulation),
        cmocka_unit_test(test_grad_scaling_autocast_fused_optimizers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
