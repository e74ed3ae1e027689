/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_questions.c: how often graphed callables ask the driver. Their calls never ask
 * whether their stream is capturing, until a handle of the device's streams is given out; the
 * library's own use of a handle, by cuBLASLt's products, gives none out. Their making asks once for
 * the use of memory that they share, and of the captures that stay alone what a word addresses. */
#include "device/handles/device.h"
#include "fake/fake_cuda.h"
#include "support/graphed_nets.h"
#include "support/test.h"
#include <phonograph/cuda.h>

/* ---- counting ---- in front of the device's own table */
static const ph__driver *below;
static ph__driver counting;
static int64_t asked, pointers_asked;

static int counted_capture_id(uint64_t *id, ph__drv_stream *stream)
{
    asked++;
    return below->capture_id(id, stream);
}

static int counted_capture_get(ph__drv_capture *out, ph__drv_stream *stream)
{
    asked++;
    return below->capture_get(out, stream);
}

static int counted_exec_relaunch(ph__drv_exec *exec, ph__drv_stream *stream, bool foreign,
                                 bool *launched)
{
    asked += foreign;
    return below->exec_relaunch(exec, stream, foreign, launched);
}

static int counted_pointer_info(ph__drv_pointer *out, ph__drv_device *device, const void *address)
{
    pointers_asked++;
    return below->pointer_info(out, device, address);
}

static void counting_open(t_scene *s)
{
    t_scene_open(s);
    below = s->device->driver;
    counting = *below;
    counting.capture_id = counted_capture_id;
    counting.capture_get = counted_capture_get;
    counting.exec_relaunch = counted_exec_relaunch;
    counting.pointer_info = counted_pointer_info;
    s->device->driver = &counting;
}

static void counting_close(t_scene *s)
{
    assert_ok(ph_device_synchronize(s->device));
    s->device->driver = below;
    t_scene_close(s);
}

static int64_t fake_asked(void)
{
    return fake_cuda() ? fake_cuda()->calls_of("cuStreamIsCapturing") +
                             fake_cuda()->calls_of("cuStreamGetCaptureInfo")
                       : 0;
}

/* ---- calls ---- forward without gradients, forward, backward. The questions of all. */
static int64_t run_calls(const t_scene *s, ph_module *graphed)
{
    ph_module_zero_grad(graphed); /* the pass adds to no gradient */
    ph_tensor *seed = gn_random(s, gn_shape(GN_MLP), 2), *x = gn_random(s, gn_shape(GN_MLP), 3);
    assert_ok(ph_tape_status(s->tape));
    const int64_t before = fake_asked();
    asked = 0;
    const bool enabled = ph_tape_set_grad_enabled(s->tape, false);
    (void)ph_call(s->tape, graphed, x);
    ph_tape_set_grad_enabled(s->tape, enabled);
    ph_tensor *y = ph_call(s->tape, graphed, x);
    ph_backward_from(s->tape, &y, &seed, 1, NULL);
    const int64_t seen = asked, fake_seen = fake_asked() - before;
    assert_ok(ph_tape_clear(s->tape));
    assert_true(fake_seen <= seen);
    return seen > fake_seen ? seen : fake_seen;
}

TEST(test_no_question_while_no_handle_is_out)
{
    t_scene s;
    struct CUstream_st *native;
    counting_open(&s);
    ph_module *plain = gn_net(&s, GN_MLP, 1);
    ph_tensor *sample = gn_sample(&s, gn_shape(GN_MLP), false);
    ph_module *graphed = gn_graph_one(plain, sample, NULL);
    for (int round = 0; round < 4; round++)
        assert_int_equal(run_calls(&s, graphed), 0);
    if (!t_on_host()) {
        assert_ok(ph_stream_lend_cuda(&native, s.stream));
        assert_int_equal(run_calls(&s, graphed), 0);
        assert_ok(ph_stream_cuda(&native, s.stream));
        assert_true(run_calls(&s, graphed) > 0); /* CUDA's own calls may capture it now */
    }
    ph_module_release(graphed);
    ph_tensor_release(sample);
    ph_module_release(plain);
    counting_close(&s);
}

/* ---- making ---- callables of one network, each by a module of its own that calls it. */
enum {
    MOST = 6
};

static void call_net(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *net)
{
    out[0] = ph_call(tape, net, in[0]);
}

/* The questions of making so many. */
static void make_so_many(const t_scene *s, ph_module *net, ph_tensor *sample, size_t count)
{
    ph_module *entry[MOST] = {NULL}, *graphed[MOST] = {NULL};
    ph_sample samples[MOST] = {{.count = 0}};
    for (size_t i = 0; i < count; i++) {
        ph_child child = {"net", net};
        ph_module_desc desc = {.name = "entry",
                               .forward = call_net,
                               .self = net,
                               .children = &child,
                               .child_count = 1};
        assert_ok(ph_module_create(&entry[i], s->device, &desc));
        samples[i] = (ph_sample){.tensors = &sample, .count = 1};
    }
    asked = pointers_asked = 0;
    assert_ok(ph_make_graphed_callables(graphed, entry, samples, count,
                                        &(ph_graphed_options){.warmup_iterations = PH_ZERO}));
    for (size_t i = 0; i < count; i++) {
        ph_module_release(graphed[i]);
        ph_module_release(entry[i]);
    }
}

static bool keep_constant(const char *name, ph_tensor *parameter, void *user)
{
    (void)name;
    (void)user;
    assert_ok(ph_tensor_set_requires_grad(parameter, false));
    return true;
}

/* Each capture is on a tape that all captures of its kind share, probes and those that stay: a
 * parameter is noted for each of the two, however many callables there are. */
TEST(one_more_callable_asks_for_no_parameter_that_others_use)
{
    t_scene s;
    counting_open(&s);
    ph_module *net = gn_net(&s, GN_MLP, 1);
    ph_tensor *sample = gn_sample(&s, gn_shape(GN_MLP), false);
    ph_module_parameters(net, keep_constant, NULL);
    make_so_many(&s, net, sample, 1); /* kernels and plans are made */
    make_so_many(&s, net, sample, 1);
    const int64_t alone = asked;
    make_so_many(&s, net, sample, MOST);
    assert_true(asked + 2 * (MOST - 1) * (int64_t)ph_module_parameter_count(net) <= MOST * alone);
    ph_tensor_release(sample);
    ph_module_release(net);
    counting_close(&s);
}

typedef struct by_hand {
    const t_scene *s;
    ph_module *net;
    ph_tensor *x;
} by_hand;

static ph_status forward(ph_stream *stream, void *user)
{
    const by_hand *h = user;
    (void)stream;
    (void)ph_call(h->s->tape, h->net, h->x);
    return ph_tape_clear(h->s->tape);
}

/* What words address the driver is asked for the capture that stays: not for its probe, and not
 * again for what replays may write. */
TEST(a_callable_asks_what_words_address_once)
{
    t_scene s;
    ph_graph *graph;
    const ph_record *record;
    counting_open(&s);
    ph_module *net = gn_net(&s, GN_MLP, 1);
    ph_tensor *sample = gn_sample(&s, gn_shape(GN_MLP), false);
    ph_module_parameters(net, keep_constant, NULL);
    make_so_many(&s, net, sample, 1);
    by_hand h = {&s, net, sample};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, forward, &h));
    pointers_asked = 0;
    assert_ok(ph_graph_record(&record, graph));
    const int64_t of_record = pointers_asked;
    make_so_many(&s, net, sample, MOST);
    assert_true(pointers_asked <= MOST * of_record);
    ph_graph_destroy(graph);
    ph_tensor_release(sample);
    ph_module_release(net);
    counting_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_question_while_no_handle_is_out),
        cmocka_unit_test(one_more_callable_asks_for_no_parameter_that_others_use),
        cmocka_unit_test(a_callable_asks_what_words_address_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
