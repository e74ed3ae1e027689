/* SPDX-License-Identifier: MIT */
/* tests/nn/module_shortages.c: Adam's steps, eager and captured, and a transformer block when
 * host memory runs out or the driver fails, at every place. */
#include "support/nets.h"
#include "support/sweep.h"
#include "support/test.h"
#include <math.h>

enum {
    WIDTH = 4,
    HEADS = 2,
    BATCH = 2,
    TIME = 3,
    MOST = 4 * WIDTH * WIDTH, /* elements of a parameter */
    PARTS = 12
};

typedef ph_status (*adam_create)(ph_optimizer **out, ph_module *module,
                                 const ph_adam_options *options);

typedef struct contents {
    float at[PARTS][MOST];
} contents;

typedef struct world {
    t_scene s;
    ph_module *block;
    ph_generator *generator;
    ph_tensor *x;
    ph_optimizer *optimizer;
    ph_graph *graph;
    adam_create create;
    contents begin, want;
    bool known; /* want holds what a run without a fault gave */
    size_t allocated;
} world;

static world the_world;

/* ---- values of a module ---- */
typedef enum purpose {
    READ,
    WRITE,
    READ_GRADIENT
} purpose;

typedef struct walk {
    ph_tape *tape;
    contents *values;
    int at;
    purpose how;
} walk;

static bool visit(const char *name, ph_tensor *tensor, void *user)
{
    walk *w = user;
    float *values = w->values->at[w->at++];
    ph_tensor *x = w->how == READ_GRADIENT ? ph_tensor_grad(tensor) : tensor;
    (void)name;
    assert_non_null(x);
    assert_true(ph_tensor_bytes(x) <= sizeof w->values->at[0]);
    if (w->how == WRITE)
        assert_ok(ph_tensor_write(w->tape, x, values, ph_tensor_bytes(x)));
    else
        assert_ok(ph_tensor_read(w->tape, x, values, ph_tensor_bytes(x)));
    return true;
}

static void walk_module(world *w, ph_module *module, contents *values, purpose how)
{
    walk all = {.tape = w->s.tape, .values = values, .how = how};
    if (how != WRITE)
        memset(values, 0, sizeof *values);
    ph_module_parameters(module, visit, &all);
    assert_int_equal(all.at, PARTS);
    assert_ok(ph_stream_synchronize(w->s.stream));
}

/* The module's values or gradients must be those that the first run gave. */
static void check(world *w, purpose how)
{
    static contents got;
    walk_module(w, w->block, &got, how);
    if (!w->known)
        w->want = got;
    w->known = true;
    for (int k = 0; k < PARTS; k++)
        for (int i = 0; i < MOST; i++)
            if (!(fabsf(got.at[k][i] - w->want.at[k][i]) <= 1e-4F * (1 + fabsf(w->want.at[k][i]))))
                fail_msg("%s: parameter %d, element %d is %g, expected %g", t_sweep_place(), k, i,
                         (double)got.at[k][i], (double)w->want.at[k][i]);
}

/* ---- the world ---- */
static ph_status pass(world *w)
{
    ph_tensor *y = ph_call(w->s.tape, w->block, w->x);
    ph_backward(w->s.tape, ph_sum(w->s.tape, ph_square(w->s.tape, y)));
    return ph_tape_clear(w->s.tape);
}

static void open_scene(world *w)
{
    ph_block_options options = {.dropout = 0.25};
    float values[BATCH * TIME * WIDTH];
    t_scene_open(&w->s);
    assert_ok(ph_generator_create(&w->generator, w->s.device, 3));
    options.generator = w->generator;
    ph_tape_set_generator(w->s.tape, w->generator);
    assert_ok(ph_transformer_block_create(&w->block, w->s.device, WIDTH, HEADS, &options));
    for (int i = 0; i < BATCH * TIME * WIDTH; i++)
        values[i] = (float)(i * 7 % 11 - 5) / 4;
    w->x = t_leaf_of(&w->s, PH_SHAPE(BATCH, TIME, WIDTH), values);
    assert_ok(ph_tensor_set_requires_grad(w->x, false));
    walk_module(w, w->block, &w->begin, READ);
    assert_ok(ph_generator_set_offset(w->generator, 0));
}

static void close_scene(world *w)
{
    ph_tape_set_generator(w->s.tape, NULL);
    ph_tensor_release(w->x);
    ph_module_release(w->block);
    ph_generator_release(w->generator);
    t_scene_close(&w->s);
}

static void count_memory(world *w)
{
    assert_ok(ph_device_synchronize(w->s.device));
    w->allocated = t_allocated(&w->s);
}

FIXTURE(open_plain)
{
    open_scene(&the_world);
    count_memory(&the_world);
    return 0;
}

FIXTURE(open_with_gradients)
{
    open_scene(&the_world);
    assert_ok(pass(&the_world));
    count_memory(&the_world);
    return 0;
}

FIXTURE(close_world)
{
    close_scene(&the_world);
    return 0;
}

static void expect_clean(world *w)
{
    assert_ok(ph_device_synchronize(w->s.device));
    assert_false(ph_stream_is_capturing(w->s.stream));
    assert_ok(ph_tape_status(w->s.tape));
    assert_int_equal(t_info(&w->s).tensors, 0);
    assert_int_equal(t_info(&w->s).nodes, 0);
    assert_int_equal(t_allocated(&w->s), w->allocated);
}

/* ---- the block ---- */
static ph_status run_block(void *user)
{
    return pass(user);
}

static void reset_block(ph_status status, void *user)
{
    world *w = user;
    if (status == PH_OK)
        check(w, READ_GRADIENT);
    ph_module_zero_grad(w->block);
    assert_ok(ph_generator_set_offset(w->generator, 0));
    expect_clean(w);
}

/* ---- steps ---- the first makes the momenta, the second finds them. */
static ph_status step(world *w)
{
    ph_optimizer_step(w->s.tape, w->optimizer);
    return ph_tape_clear(w->s.tape);
}

static ph_status run_steps(void *user)
{
    world *w = user;
    ph_adam_options options = {.lr = 0.1};
    PH_TRY(w->create(&w->optimizer, w->block, &options));
    PH_TRY(step(w));
    PH_TRY(step(w));
    return ph_stream_synchronize(w->s.stream);
}

static ph_status step_body(ph_stream *stream, void *user)
{
    (void)stream;
    return step(user);
}

static ph_status run_captured_steps(void *user)
{
    world *w = user;
    uint64_t made = 0;
    PH_TRY(run_steps(w));
    PH_TRY(ph_graph_create(&w->graph, NULL));
    PH_TRY(ph_graph_capture(w->graph, w->s.stream, NULL, step_body, w));
    PH_TRY(ph_graph_replay(w->graph, w->s.stream));
    PH_TRY(ph_optimizer_set_lr(w->optimizer, 0.2));
    PH_TRY(ph_graph_replay(w->graph, w->s.stream));
    PH_TRY(ph_stream_synchronize(w->s.stream));
    ph_status status = ph_optimizer_steps(&made, w->s.tape, w->optimizer);
    ph_status cleared = ph_tape_clear(w->s.tape);
    if (status == PH_OK)
        assert_int_equal(made, 4);
    return status != PH_OK ? status : cleared;
}

static void reset_steps(ph_status status, void *user)
{
    world *w = user;
    if (status == PH_OK)
        check(w, READ);
    ph_graph_destroy(w->graph);
    ph_optimizer_destroy(w->optimizer);
    w->graph = NULL;
    w->optimizer = NULL;
    walk_module(w, w->block, &w->begin, WRITE);
    expect_clean(w);
}

/* ---- sweeps ---- */
static void sweep(const char *name, const t_swept *how, adam_create create)
{
    t_swept swept = *how;
    the_world = (world){.create = create};
    swept.name = name;
    swept.user = &the_world;
    swept.close = close_world;
    assert_int_equal(how->open(NULL), 0);
    assert_ok(how->run(&the_world));
    how->reset(PH_OK, &the_world);
    close_scene(&the_world);
    t_sweep_host_memory(&swept, 20);
    t_sweep_driver(&swept);
}

static const t_swept block = {.open = open_plain, .run = run_block, .reset = reset_block},
                     steps = {.open = open_with_gradients, .run = run_steps, .reset = reset_steps},
                     captured_steps = {.open = open_with_gradients,
                                       .run = run_captured_steps,
                                       .reset = reset_steps};

TEST(a_transformer_block_survives_every_shortage)
{
    sweep("transformer block", &block, NULL);
}

TEST(steps_of_adam_survive_every_shortage)
{
    sweep("Adam", &steps, ph_adam_create);
    sweep("captured Adam", &captured_steps, ph_adam_create);
}

TEST(steps_of_adamw_survive_every_shortage)
{
    sweep("AdamW", &steps, ph_adamw_create);
    sweep("captured AdamW", &captured_steps, ph_adamw_create);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transformer_block_survives_every_shortage),
        cmocka_unit_test(steps_of_adam_survive_every_shortage),
        cmocka_unit_test(steps_of_adamw_survive_every_shortage),
    };
    /* Memory whose free was made to fail is still there at the end. */
    (void)setenv("FAKE_CUDA_LENIENT", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
