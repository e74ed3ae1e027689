/* SPDX-License-Identifier: MIT */
/* tests/nn/data_loader_held.c: batches that somebody holds beyond the loader's next call. */
#include "support/grads.h"
#include "support/loaders.h"
#include "support/test.h"

enum {
    COUNT = 100,
    BATCH = 8
};

static t_scene scene;
static t_source source;

FIXTURE(open_world)
{
    t_scene_open(&scene);
    return 0;
}

FIXTURE(close_world)
{
    t_scene_close(&scene);
    return 0;
}

typedef enum holding {
    RETAINED, /* by the user, who copies from it and then lets go */
    SAVED,    /* by a tape, whose backward reads it and then lets go */
    HOLDINGS
} holding;

/* Code that is loaded for the first time waits for all of a GPU's work: none is to be loaded behind
 * a gate. */
static void load_code(void)
{
    ph_tensor *w = t_leaf(&scene, PH_SHAPE(1), 1);
    ph_tensor *x = ph_full(scene.tape, PH_DTYPE_F32, PH_SHAPE(BATCH, T_WIDTH), 1),
              *wide = ph_expand(scene.tape, w, PH_SHAPE(BATCH, T_WIDTH));
    ph_backward(scene.tape, ph_sum(scene.tape, ph_mul(scene.tape, x, wide)));
    assert_ok(ph_stream_synchronize(scene.stream));
    assert_ok(ph_tape_clear(scene.tape));
    ph_tensor_release(w);
}

/* Submits work that reads the batch, behind all that the stream has, and lets go of it. */
static ph_status read_and_let_go(holding how, ph_tensor *kept, ph_tensor *loss, float *to)
{
    if (how == SAVED) {
        ph_backward(scene.tape, loss);
        return ph_tape_status(scene.tape);
    }
    ph_status status = ph_memcpy(to, ph_tensor_data(kept), ph_tensor_bytes(kept), scene.stream);
    ph_tensor_release(kept);
    return status;
}

/* The fetch of the batch that comes to the same place ends only when the holder has let go of it,
 * with the stream held behind a gate: that copy is done before the holder's work begins. */
static void hold_beyond_the_next_call(holding how)
{
    ph_stream *other;
    ph_batch third;
    float *copy, got[BATCH * T_WIDTH];
    t_gate gate = {.behind = true};
    source = (t_source){.gated = true, .gated_batch = 2};
    load_code();
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    options.prefetch = options.threads = 1;
    ph_data_loader *loader = t_loader(&scene, &options);
    assert_ok(ph_stream_create(&other, scene.device, NULL));
    assert_ok(PH_NEW(&copy, BATCH * T_WIDTH, scene.stream));
    ph_tensor *w = t_leaf(&scene, PH_SHAPE(1), 1), *kept = t_next(&scene, loader).tensor[0];
    ph_tensor *wide = ph_expand(scene.tape, w, PH_SHAPE(BATCH, T_WIDTH)), *loss = NULL;
    if (how == SAVED)
        loss = ph_sum(scene.tape, ph_mul(scene.tape, kept, wide));
    else
        ph_tensor_retain(kept);
    (void)t_next(&scene, loader);
    assert_ok(t_gate_wait_guarded(&gate, scene.stream));
    assert_ok(read_and_let_go(how, kept, loss, copy));
    t_gate_open(&source.gate);
    assert_ok(ph_data_loader_next(&third, loader, other));
    assert_ok(ph_stream_synchronize(other));
    t_gate_open(&gate);
    assert_ok(ph_memcpy(got, copy, sizeof got, scene.stream));
    assert_ok(ph_stream_synchronize(scene.stream));
    for (size_t i = 0; how == RETAINED && i < BATCH * T_WIDTH; i++)
        assert_true(got[i] == (float)(i / T_WIDTH) + 0.25F * (float)(i % T_WIDTH));
    if (how == SAVED)
        t_expect_grad(&scene, w, T_WIDTH * BATCH * (BATCH - 1) / 2.0F + 0.75F * BATCH);
    assert_ok(ph_tape_clear(scene.tape));
    ph_tensor_release(w);
    ph_free(copy, scene.stream);
    ph_data_loader_destroy(loader);
    ph_stream_destroy(other);
}

TEST(a_batch_that_is_held_at_the_next_call_is_never_written_again)
{
    for (int how = 0; how < HOLDINGS; how++)
        hold_beyond_the_next_call((holding)how);
}

/* As many as before are alive again when nobody holds any. */
TEST(memory_is_as_before_when_the_held_ones_went)
{
    ph_memory_stats before, after;
    ph_tensor *kept[5];
    source = (t_source){0};
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    ph_data_loader *loader = t_loader(&scene, &options);
    assert_ok(ph_memory_get_stats(&before, scene.device));
    for (int i = 0; i < 5; i++)
        kept[i] = ph_tensor_retain(t_next(&scene, loader).tensor[0]);
    for (int i = 0; i < 5; i++)
        ph_tensor_release(kept[i]);
    for (int i = 0; i < 13; i++)
        (void)t_next(&scene, loader);
    assert_ok(ph_stream_synchronize(scene.stream));
    assert_ok(ph_memory_get_stats(&after, scene.device));
    assert_in_range(after.allocated, 1, before.allocated);
    ph_data_loader_destroy(loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_batch_that_is_held_at_the_next_call_is_never_written_again),
        IN_WORLD(memory_is_as_before_when_the_held_ones_went),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
