/* SPDX-License-Identifier: MIT */
/* tests/tensor/row_shortages.c: softmax, losses, norms, indexing and joining when memory runs
 * out, at every place: the tape fails, and nothing is left behind. */
#include "support/grads.h"
#include "support/test.h"

typedef struct step {
    ph_tensor *x, *weight, *bias, *table;
    int64_t rows, width;
} step;

static ph_tensor *leaf(ph_device *device, ph_tape *tape, ph_shape shape)
{
    ph_tensor *x = NULL;
    size_t bytes = (size_t)ph_shape_count(&shape) * sizeof(float);
    float *zeros = calloc(1, bytes);
    assert_non_null(zeros);
    if (ph_tensor_create(&x, device, PH_DTYPE_F32, shape) == PH_OK) {
        assert_ok(ph_tensor_write(tape, x, zeros, bytes));
        assert_ok(ph_tensor_set_requires_grad(x, true));
    }
    free(zeros);
    return x;
}

static bool step_open(step *s, ph_device *device, ph_tape *tape, int64_t rows, int64_t width)
{
    *s = (step){.rows = rows, .width = width};
    s->x = leaf(device, tape, PH_SHAPE(rows, width));
    s->weight = leaf(device, tape, PH_SHAPE(width));
    s->bias = leaf(device, tape, PH_SHAPE(width));
    s->table = leaf(device, tape, PH_SHAPE(40, width));
    return s->x && s->weight && s->bias && s->table;
}

static void step_close(step *s)
{
    ph_tensor_release(s->x);
    ph_tensor_release(s->weight);
    ph_tensor_release(s->bias);
    ph_tensor_release(s->table);
}

/* Every operator of these families, and its backward. */
static ph_status run(ph_tape *t, const step *s)
{
    ph_tensor *numbers = ph_cast(t, ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(s->rows)), PH_DTYPE_I64);
    ph_tensor *column = ph_reshape(t, numbers, PH_SHAPE(s->rows, 1)), *part[2], *grads[4];
    ph_tensor *h = ph_add(t, s->x, ph_embedding(t, s->table, numbers));
    h = ph_layer_norm(t, ph_transpose(t, ph_transpose(t, h, 0, 1), 0, 1), s->weight, s->bias, 0);
    h = ph_rms_norm(t, ph_index_select(t, h, 0, numbers), s->weight, 0);
    h = ph_softmax(t, ph_log_softmax(t, h, 0), 1);
    ph_split(t, part, h, 1, (const int64_t[]){1, s->width - 1}, 2);
    h = ph_concat(t, (ph_tensor *[]){part[1], ph_gather(t, h, 1, column)}, 2, 1);
    h = ph_scatter_add(t, ph_scatter(t, h, 1, column, part[0]), 1, column, part[0]);
    h = ph_stack(t, (ph_tensor *[]){h, s->x}, 2, 0);
    ph_tensor *loss =
        ph_mse(t, ph_cross_entropy(t, ph_select(t, h, 0, 0), numbers), ph_mse(t, h, s->bias));
    ph_tensor *in[] = {s->x, s->weight, s->bias, s->table};
    ph_grad(t, grads, in, 4, &loss, NULL, 1, NULL);
    return ph_tape_clear(t);
}

TEST(no_host_memory)
{
    t_scene s;
    step work;
    t_scene_open(&s);
    assert_true(step_open(&work, s.device, s.tape, 3, 5));
    assert_ok(run(s.tape, &work)); /* what is made once is there */
    bool failed = true;
    for (int64_t n = 0; failed; n++) {
        assert_true(n < 5000);
        ph__alloc_fail_after(n);
        ph_status status = run(s.tape, &work);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        failed = status != PH_OK;
        assert_true(!failed || status == PH_ERROR_HOST_MEMORY);
    }
    step_close(&work);
    t_scene_close(&s);
}

TEST(no_device_memory)
{
    int failures = 0;
    bool failed = true;
    for (size_t limit = 2; failed; limit += 2) {
        t_scene s;
        step work;
        assert_true(limit < 200);
        assert_ok(t_open_small(&s.device, limit << 20));
        assert_ok(ph_stream_create(&s.stream, s.device, NULL));
        assert_ok(ph_tape_create(&s.tape, s.stream, NULL));
        if (step_open(&work, s.device, s.tape, 1024, 1024)) {
            ph_status status = run(s.tape, &work);
            failed = status != PH_OK;
            failures += failed;
            assert_true(!failed || status == t_shortage());
        }
        step_close(&work);
        t_scene_close(&s);
    }
    assert_true(failures > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_host_memory),
        cmocka_unit_test(no_device_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
