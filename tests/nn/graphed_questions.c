/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_questions.c: how often calls of graphed callables ask the driver whether their
 * stream is capturing: never, until a handle of the device's streams is given out. The library's
 * own use of a handle, by cuBLASLt's products, gives none out. */
#include "device/handles/device.h"
#include "fake/fake_cuda.h"
#include "support/graphed_nets.h"
#include "support/test.h"
#include <phonograph/cuda.h>

/* ---- counting ---- in front of the device's own table */
static const ph__driver *below;
static ph__driver counting;
static int64_t asked;

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

static void counting_open(t_scene *s)
{
    t_scene_open(s);
    below = s->device->driver;
    counting = *below;
    counting.capture_id = counted_capture_id;
    counting.capture_get = counted_capture_get;
    counting.exec_relaunch = counted_exec_relaunch;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_question_while_no_handle_is_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
