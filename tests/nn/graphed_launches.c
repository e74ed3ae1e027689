/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_launches.c: what a call of a graphed callable, and a backward through it, has
 * the driver do: one launch of an executable, and beside it only what had to be cloned first. */
#include "device/handles/device.h"
#include "fake/fake_cuda.h"
#include "support/graphed_nets.h"
#include "support/test.h"

/* ---- counting ---- a table in front of the device's own that counts what gives the device
 * work. */
typedef struct work {
    int64_t graphs; /* launches of executables */
    int64_t others; /* kernels, copies, fills, host functions */
    int64_t waits;  /* of the calling thread, for the device */
} work;
static const ph__driver *below;
static ph__driver counting;
static work done;

#define COUNTED(counter, name, parameters, arguments)                                              \
    static int counted_##name parameters                                                           \
    {                                                                                              \
        done.counter++;                                                                            \
        return below->name arguments;                                                              \
    }
COUNTED(graphs, exec_launch, (ph__drv_exec * exec, ph__drv_stream *stream), (exec, stream))
static int counted_exec_relaunch(ph__drv_exec *exec, ph__drv_stream *stream, bool foreign,
                                 bool *launched)
{
    int result = below->exec_relaunch(exec, stream, foreign, launched);
    done.graphs += *launched;
    return result;
}
COUNTED(others, launch,
        (ph__drv_stream * stream, ph__drv_kernel *kernel, const ph__drv_launch *launch),
        (stream, kernel, launch))
COUNTED(others, copy, (ph__drv_stream * stream, const ph__drv_memcpy *copy, uint64_t *capture_id),
        (stream, copy, capture_id))
COUNTED(others, fill, (ph__drv_stream * stream, const ph__drv_memset *fill), (stream, fill))
COUNTED(others, host, (ph__drv_stream * stream, const ph__drv_host *host), (stream, host))
COUNTED(others, copy_sync, (ph__drv_device * device, const ph__drv_memcpy *copy), (device, copy))
COUNTED(others, exec_upload, (ph__drv_exec *const *execs, size_t count, ph__drv_stream *stream),
        (execs, count, stream))
COUNTED(waits, stream_wait, (ph__drv_stream * stream), (stream))
COUNTED(waits, event_synchronize, (ph__drv_event * event), (event))
COUNTED(waits, device_synchronize, (ph__drv_device * device), (device))

static void counting_open(t_scene *s)
{
    t_scene_open(s);
    below = s->device->driver;
    counting = *below;
    counting.exec_launch = counted_exec_launch;
    counting.exec_relaunch = counted_exec_relaunch;
    counting.launch = counted_launch;
    counting.copy = counted_copy;
    counting.fill = counted_fill;
    counting.host = counted_host;
    counting.copy_sync = counted_copy_sync;
    counting.exec_upload = counted_exec_upload;
    counting.stream_wait = counted_stream_wait;
    counting.event_synchronize = counted_event_synchronize;
    counting.device_synchronize = counted_device_synchronize;
    s->device->driver = &counting;
}

static void counting_close(t_scene *s)
{
    assert_ok(ph_device_synchronize(s->device));
    s->device->driver = below;
    t_scene_close(s);
}

/* Between these two. The software libcuda has seen the same. */
static int64_t fake_launches;

static void count_from_here(void)
{
    done = (work){0};
    fake_launches = fake_cuda() ? fake_cuda()->calls_of("cuGraphLaunch") : 0;
}

static void expect_done(int64_t others, const char *what, int round)
{
    const work seen = done;
    if (seen.graphs != 1 || seen.others != others || seen.waits != 0)
        fail_msg("%s %d: %lld launches of graphs, %lld of others, %lld waits; expected 1, %lld, 0",
                 what, round, (long long)seen.graphs, (long long)seen.others, (long long)seen.waits,
                 (long long)others);
    if (fake_cuda())
        assert_int_equal(fake_cuda()->calls_of("cuGraphLaunch") - fake_launches, 1);
}

/* ---- in new memory each time ---- */
enum {
    ROUNDS = 12,
    OFFSET = 32 /* elements: 128 bytes, half of what a graph takes as it is */
};

/* Of the shape, contiguous, the values of the seed, so many elements behind where the allocator
 * put it. */
static ph_tensor *new_buffer(const t_scene *s, ph_shape shape, uint64_t seed, int64_t offset)
{
    int64_t count = (int64_t)ph_shape_count(&shape);
    ph_tensor *all = ph_empty(s->tape, PH_DTYPE_F32, PH_SHAPE(offset + count));
    ph_tensor *x = ph_reshape(s->tape, ph_slice(s->tape, all, 0, offset, offset + count), shape);
    ph_tensor_copy(s->tape, x, gn_random(s, shape, seed));
    assert_ok(ph_tape_status(s->tape));
    assert_int_equal((uintptr_t)ph_tensor_data(x) % 256, (uintptr_t)offset * sizeof(float) % 256);
    return ph_detach(s->tape, x);
}

typedef struct trial {
    gn_kind kind;
    ph_graphed_inputs inputs;
    ph_graphed_gradients gradients;
    int64_t offset, grad_offset; /* of the input, of the incoming gradient */
    int64_t call_clones, backward_clones;
} trial;

/* Dropout draws anew at each call: there are no two of the same values. */
static bool draws(gn_kind kind)
{
    return kind == GN_DROPOUT || kind == GN_BLOCK;
}

static void run_round(const t_scene *s, const trial *t, ph_module *plain, ph_module *graphed,
                      int round)
{
    ph_shape shape = gn_shape(t->kind);
    ph_tensor *x = new_buffer(s, shape, (uint64_t)round, t->offset), *want = NULL,
              *want_grad = NULL;
    ph_tensor *seed = new_buffer(s, shape, 100 + (uint64_t)round, t->grad_offset), *grad;
    assert_ok(ph_tensor_set_requires_grad(x, true));
    if (!draws(t->kind)) {
        want = ph_call(s->tape, plain, x);
        ph_grad(s->tape, &want_grad, &x, 1, &want, &seed, 1, NULL);
    }
    count_from_here();
    ph_tensor *y = ph_call(s->tape, graphed, x);
    expect_done(t->call_clones, gn_name(t->kind), round);
    count_from_here();
    ph_grad(s->tape, &grad, &x, 1, &y, &seed, 1, NULL);
    expect_done(t->backward_clones, "backward", round);
    assert_ok(ph_tape_status(s->tape));
    if (want)
        gn_expect_same(s, y, want, "an output");
    if (want_grad)
        gn_expect_same(s, grad, want_grad, "a gradient");
    assert_ok(ph_tape_clear(s->tape));
}

static void run(const trial *t)
{
    t_scene s;
    counting_open(&s);
    ph_module *plain = gn_net(&s, t->kind, 5);
    ph_tensor *sample = gn_sample(&s, gn_shape(t->kind), true);
    ph_module *graphed = gn_graph_one(
        plain, sample, &(ph_graphed_options){.inputs = t->inputs, .gradients = t->gradients});
    assert_int_equal(gn_input(graphed, 0, false).rebound, t->inputs != PH_GRAPHED_COPY_INPUTS);
    assert_int_equal(gn_input(graphed, 0, true).rebound, t->inputs != PH_GRAPHED_COPY_INPUTS);
    for (int round = 0; round < ROUNDS; round++)
        run_round(&s, t, plain, graphed, round);
    assert_int_equal(gn_info(graphed).forward_calls, ROUNDS);
    assert_int_equal(gn_info(graphed).backward_calls, ROUNDS);
    ph_module_release(graphed);
    ph_module_release(plain);
    ph_tensor_release(sample);
    counting_close(&s);
}

TEST(test_one_launch)
{
    for (int kind = 0; kind < GN_KINDS; kind++)
        for (int inputs = PH_GRAPHED_AUTO; inputs <= PH_GRAPHED_COPY_INPUTS; inputs++)
            for (int gradients = PH_GRAPHED_COPY; gradients <= PH_GRAPHED_BORROW; gradients++)
                run(&(trial){.kind = (gn_kind)kind,
                             .inputs = (ph_graphed_inputs)inputs,
                             .gradients = (ph_graphed_gradients)gradients});
}

/* One clone for each that does not lie as a graph takes it; a copy, which is a node of the
 * graph, takes it as it is. */
TEST(test_at_an_offset)
{
    run(&(trial){.kind = GN_MLP, .offset = OFFSET, .call_clones = 1});
    run(&(trial){.kind = GN_MLP, .grad_offset = OFFSET, .backward_clones = 1});
    run(&(trial){.kind = GN_NORM,
                 .offset = OFFSET,
                 .grad_offset = OFFSET,
                 .call_clones = 1,
                 .backward_clones = 1});
    run(&(trial){.kind = GN_NORM,
                 .inputs = PH_GRAPHED_COPY_INPUTS,
                 .offset = OFFSET,
                 .grad_offset = OFFSET});
}

/* ---- into the leaves' own gradients ---- the first ones are made, the others added to, by the
 * graph's last node. */
TEST(test_accumulates_in_one)
{
    t_scene s;
    t_scale scale;
    counting_open(&s);
    ph_module *plain = t_scale_open(&s, &scale, 3);
    ph_tensor *sample = gn_sample(&s, PH_SHAPE(2), true), *leaf = t_leaf(&s, PH_SHAPE(2), 1, 2);
    for (int inputs = PH_GRAPHED_AUTO; inputs <= PH_GRAPHED_COPY_INPUTS; inputs++) {
        ph_module *graphed =
            gn_graph_one(plain, sample,
                         &(ph_graphed_options){.inputs = (ph_graphed_inputs)inputs,
                                               .gradients = PH_GRAPHED_ACCUMULATE});
        for (int round = 1; round <= 4; round++) {
            ph_tensor *seed = t_input(&s, 1, 10), *y = ph_call(s.tape, graphed, leaf);
            count_from_here();
            ph_backward_from(s.tape, &y, &seed, 1, NULL);
            expect_done(0, "backward", round);
            t_expect_grad(&s, leaf, (float)(3 * round), (float)(60 * round));
            t_expect_grad(&s, scale.weight, (float)round, (float)(20 * round));
            assert_ok(ph_tape_clear(s.tape));
        }
        t_zero_grad(leaf);
        t_zero_grad(scale.weight);
        ph_module_release(graphed);
    }
    ph_tensor_release(leaf);
    ph_tensor_release(sample);
    ph_module_release(plain);
    counting_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_launch),
        cmocka_unit_test(test_at_an_offset),
        cmocka_unit_test(test_accumulates_in_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
