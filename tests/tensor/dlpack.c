/* SPDX-License-Identifier: MIT */
/* tests/tensor/dlpack.c: tensors lent to others and borrowed from them: what the structs say,
 * who frees what when, the stream rule. */
#include "support/tensors.h"
#include "support/test.h"
#include "tensor/core/tensor.h"
#include "tensor/files/dlpack_abi.h"
#include "tensor/tape/tape.h"

static int32_t device_type(void)
{
    return t_on_host() ? PH__DL_CPU : PH__DL_CUDA;
}

TEST(lent_tensors_have_their_layout_and_memory)
{
    t_scene s;
    t_scene_open(&s);
    struct DLManagedTensorVersioned *out;
    struct DLManagedTensor *plain;
    ph_tensor *x = ph_transpose(s.tape, t_counting(s.tape, PH_SHAPE(2, 3)), 0, 1);
    x = ph_slice(s.tape, x, 0, 1, 3);
    void *data = ph_tensor_data(x);
    assert_ok(ph_tensor_to_dlpack(&out, s.tape, x, NULL));
    assert_ok(ph_tensor_to_dlpack_unversioned(&plain, s.tape, x, NULL));
    assert_ok(ph_tape_clear(s.tape)); /* the memory stays */
    assert_int_equal(out->major, 1);
    assert_int_equal(out->flags, 0);
    const ph__dl_tensor *both[] = {&out->tensor, &plain->tensor};
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(both[i]->data, data);
        assert_int_equal(both[i]->byte_offset, 0);
        assert_int_equal(both[i]->device_type, device_type());
        assert_int_equal(both[i]->device_id, 0);
        assert_int_equal(both[i]->ndim, 2);
        assert_int_equal(both[i]->code, PH__DL_FLOAT);
        assert_int_equal(both[i]->bits, 32);
        assert_int_equal(both[i]->lanes, 1);
        assert_memory_equal(both[i]->shape, ((int64_t[]){2, 2}), 16);
        assert_memory_equal(both[i]->strides, ((int64_t[]){1, 3}), 16);
    }
    float element;
    t_read(&element, out->tensor.data, sizeof element, s.stream);
    assert_true(element == 1);
    out->deleter(out);
    plain->deleter(plain);

    assert_ok(ph_tensor_create_pinned(&x, s.device, PH_DTYPE_BOOL, PH_SHAPE(0)));
    assert_ok(ph_tensor_to_dlpack(&out, s.tape, x, NULL));
    ph_tensor_release(x);
    assert_int_equal(out->tensor.device_type, PH__DL_CUDA_HOST);
    assert_int_equal(out->tensor.code, PH__DL_BOOL);
    assert_null(out->tensor.data);
    out->deleter(out);
    t_scene_close(&s);
}

/* Every dtype survives the way out and in. */
TEST(test_round_trip)
{
    t_scene s;
    t_scene_open(&s);
    for (int dtype = PH_DTYPE_F32; dtype <= PH_DTYPE_BOOL; dtype++) {
        struct DLManagedTensorVersioned *managed;
        struct DLManagedTensor *plain;
        ph_tensor *x, *y, *z;
        uint64_t version;
        assert_ok(ph_tensor_create(&x, s.device, (ph_dtype)dtype, PH_SHAPE(4, 3)));
        assert_ok(ph_tensor_to_dlpack(&managed, s.tape, x, s.stream));
        assert_ok(ph_tensor_from_dlpack(&y, s.tape, managed));
        assert_ok(ph_tensor_to_dlpack_unversioned(&plain, s.tape, y, NULL));
        assert_ok(ph_tensor_from_dlpack_unversioned(&z, s.tape, plain));
        assert_ptr_equal(ph_tensor_data(z), ph_tensor_data(x));
        assert_int_equal(ph_tensor_dtype(z), dtype);
        assert_true(ph_tensor_is_contiguous(z));
        ph_shape shape = ph_tensor_shape(z);
        assert_true(ph_shape_equal(&shape, &PH_SHAPE(4, 3)));
        ph_tensor_release(x);
        ph_tensor_release(y);
        version = ph_tensor_version(z);
        ph_tensor_fill(s.tape, z, 1);
        assert_int_equal(ph_tensor_version(z), version + 1);
        assert_ok(ph_tape_clear(s.tape));
        assert_ok(ph_stream_synchronize(s.stream));
        ph_tensor_release(z);
    }
    t_scene_close(&s);
}

/* ---- from others ---- */
typedef struct foreign {
    struct DLManagedTensorVersioned versioned;
    struct DLManagedTensor plain;
    int64_t shape[10], strides[10];
    int deleted;
} foreign;

static void delete_versioned(struct DLManagedTensorVersioned *self)
{
    ((foreign *)self->context)->deleted++;
}

static void delete_plain(struct DLManagedTensor *self)
{
    ((foreign *)self->context)->deleted++;
}

/* i32, 2 by 3, in memory. */
static void make_foreign(foreign *f, void *memory)
{
    ph__dl_tensor t = {.data = memory,
                       .device_type = device_type(),
                       .ndim = 2,
                       .code = PH__DL_INT,
                       .bits = 32,
                       .lanes = 1,
                       .shape = f->shape};
    *f = (foreign){.shape = {2, 3}, .strides = {3, 1}};
    f->versioned = (struct DLManagedTensorVersioned){
        .major = 1, .minor = 99, .context = f, .deleter = delete_versioned, .tensor = t};
    f->plain = (struct DLManagedTensor){.context = f, .deleter = delete_plain, .tensor = t};
}

TEST(borrowed_memory_is_given_back_with_the_last_view)
{
    t_scene s;
    t_scene_open(&s);
    int32_t *memory;
    foreign f;
    ph_tensor *x;
    double item;
    assert_ok(ph_malloc(&memory, 8, sizeof *memory, s.stream));
    assert_ok(ph_memcpy(memory, (const int32_t[]){0, 1, 2, 3, 4, 5, 6, 7}, 32, s.stream));
    make_foreign(&f, memory);
    assert_ok(ph_tensor_from_dlpack(&x, s.tape, &f.versioned)); /* strides NULL: contiguous */
    assert_ok(ph_tensor_item(&item, s.tape, ph_select(s.tape, ph_select(s.tape, x, 0, 1), 0, 0)));
    assert_true(item == 3);
    ph_tensor *view = ph_tensor_retain(ph_select(s.tape, x, 0, 1));
    ph_tensor_release(x);
    assert_ok(ph_tape_clear(s.tape));
    assert_int_equal(f.deleted, 0);
    ph_tensor_release(view);
    assert_int_equal(f.deleted, 1);

    make_foreign(&f, memory);
    f.plain.tensor.byte_offset = 4;
    f.plain.tensor.strides = f.strides;
    f.strides[0] = 1;
    f.strides[1] = 2;
    assert_ok(ph_tensor_from_dlpack_unversioned(&x, s.tape, &f.plain));
    assert_ok(ph_tensor_item(&item, s.tape, ph_select(s.tape, ph_select(s.tape, x, 0, 1), 0, 2)));
    assert_true(item == 6);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    assert_int_equal(f.deleted, 1);

    make_foreign(&f, NULL);
    f.shape[1] = 0;
    f.versioned.deleter = NULL;
    assert_ok(ph_tensor_from_dlpack(&x, s.tape, &f.versioned));
    assert_int_equal(ph_tensor_count(x), 0);
    ph_tensor_release(x);
    ph_free(memory, NULL);
    t_scene_close(&s);
}

TEST(test_read_only)
{
    t_scene s;
    t_scene_open(&s);
    int32_t *memory;
    foreign f;
    ph_tensor *x;
    struct DLManagedTensorVersioned *out;
    struct DLManagedTensor *plain;
    assert_ok(ph_malloc(&memory, 8, sizeof *memory, s.stream));
    make_foreign(&f, memory);
    f.versioned.flags = PH__DL_READ_ONLY | 2;
    assert_ok(ph_tensor_from_dlpack(&x, s.tape, &f.versioned));
    ph_tensor_fill(s.tape, x, 1);
    assert_error(ph_tape_clear(s.tape), PH_ERROR_STATE, "read-only");
    ph_tensor_fill(s.tape, ph_select(s.tape, x, 0, 0), 1);
    assert_error(ph_tape_clear(s.tape), PH_ERROR_STATE, "read-only");
    assert_error(ph_tensor_write(s.tape, x, (const int32_t[6]){0}, 24), PH_ERROR_STATE,
                 "read-only");
    assert_error(ph_tape_clear(s.tape), PH_ERROR_STATE, "read-only");
    assert_ok(ph_tensor_to_dlpack(&out, s.tape, x, NULL));
    assert_int_equal(out->flags, PH__DL_READ_ONLY);
    out->deleter(out);
    assert_error(ph_tensor_to_dlpack_unversioned(&plain, s.tape, x, NULL), PH_ERROR_STATE,
                 "read-only");
    assert_null(plain);
    ph_tensor_release(x);
    ph_free(memory, NULL);
    t_scene_close(&s);
}

static void refuse(t_scene *s, foreign *f, ph_status status, const char *words)
{
    ph_tensor *x = (ph_tensor *)f;
    assert_error(ph_tensor_from_dlpack(&x, s->tape, &f->versioned), status, words);
    assert_null(x);
    f->plain.tensor = f->versioned.tensor;
    if (f->versioned.major == 1)
        assert_error(ph_tensor_from_dlpack_unversioned(&x, s->tape, &f->plain), status, words);
    assert_null(x);
    assert_int_equal(f->deleted, 0);
    assert_ok(ph_tape_status(s->tape));
    make_foreign(f, f->versioned.tensor.data);
}

TEST(dlpack_tensors_that_do_not_fit_are_refused)
{
    t_scene s;
    t_scene_open(&s);
    _Alignas(8) int32_t memory[8] = {0};
    foreign f;
    make_foreign(&f, memory);
    ph__dl_tensor *t = &f.versioned.tensor;
    f.versioned.major = 2;
    refuse(&s, &f, PH_ERROR_UNSUPPORTED, "DLPack version 2.99");
    f.versioned.major = 0;
    refuse(&s, &f, PH_ERROR_UNSUPPORTED, "DLPack version 0.99");
    t->device_type = 7;
    refuse(&s, &f, PH_ERROR_UNSUPPORTED, "a device of type 7");
    t->device_type = PH__DL_CPU + PH__DL_CUDA - device_type();
    refuse(&s, &f, PH_ERROR_WRONG_DEVICE, "the tape is of type");
    if (!t_on_host()) {
        t->device_id = 1;
        refuse(&s, &f, PH_ERROR_WRONG_DEVICE, "number 1");
    }
    t->lanes = 4;
    refuse(&s, &f, PH_ERROR_UNSUPPORTED, "in 4 lanes");
    t->bits = 128;
    refuse(&s, &f, PH_ERROR_UNSUPPORTED, "with 128 bits");
    t->code = 5;
    refuse(&s, &f, PH_ERROR_UNSUPPORTED, "code 5");
    t->ndim = -1;
    refuse(&s, &f, PH_ERROR_ARGUMENT, "-1 dimensions");
    t->ndim = 9;
    refuse(&s, &f, PH_ERROR_UNSUPPORTED, "9 dimensions");
    t->shape = NULL;
    refuse(&s, &f, PH_ERROR_ARGUMENT, "shape is");
    f.shape[0] = -2;
    refuse(&s, &f, PH_ERROR_ARGUMENT, "i32[-2, 3] is negative");
    f.shape[0] = INT64_MAX;
    refuse(&s, &f, PH_ERROR_SIZE, "more elements than any memory");
    t->strides = f.strides;
    f.strides[0] = -3;
    refuse(&s, &f, PH_ERROR_ARGUMENT, "stride 0 is negative");
    t->strides = f.strides;
    f.strides[0] = INT64_MAX;
    refuse(&s, &f, PH_ERROR_SIZE, "strides go beyond");
    t->byte_offset = 2;
    refuse(&s, &f, PH_ERROR_ARGUMENT, "not aligned");
    make_foreign(&f, NULL);
    refuse(&s, &f, PH_ERROR_ARGUMENT, "data is NULL");
    t_scene_close(&s);
}

TEST(misuse_is_refused)
{
    t_scene s;
    t_scene_open(&s);
    int32_t memory[8] = {0};
    foreign f;
    ph_tensor *x, *y;
    struct DLManagedTensorVersioned *out;
    struct DLManagedTensor *plain;
    make_foreign(&f, memory);
    assert_ok(ph_tensor_create(&x, s.device, PH_DTYPE_F32, PH_SHAPE(2)));
    assert_error(ph_tensor_to_dlpack(NULL, s.tape, x, NULL), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_tensor_to_dlpack(&out, NULL, x, NULL), PH_ERROR_ARGUMENT, "tape");
    assert_error(ph_tensor_to_dlpack(&out, s.tape, NULL, NULL), PH_ERROR_ARGUMENT, "x is NULL");
    assert_error(ph_tensor_to_dlpack_unversioned(NULL, s.tape, x, NULL), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_tensor_to_dlpack_unversioned(&plain, s.tape, NULL, NULL), PH_ERROR_ARGUMENT,
                 "x is NULL");
    assert_error(ph_tensor_from_dlpack(NULL, s.tape, &f.versioned), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_tensor_from_dlpack(&y, NULL, &f.versioned), PH_ERROR_ARGUMENT, "tape");
    assert_error(ph_tensor_from_dlpack(&y, s.tape, NULL), PH_ERROR_ARGUMENT, "managed");
    assert_error(ph_tensor_from_dlpack_unversioned(&y, s.tape, NULL), PH_ERROR_ARGUMENT, "managed");
    assert_ok(ph_tensor_set_requires_grad(x, true));
    assert_error(ph_tensor_to_dlpack(&out, s.tape, x, NULL), PH_ERROR_STATE, "ph_detach");
    assert_null(out);
    t_scene other;
    assert_ok(ph_device_open(&other.device, "host:threads=1", NULL));
    assert_ok(ph_stream_create(&other.stream, other.device, NULL));
    assert_ok(ph_tape_create(&other.tape, other.stream, NULL));
    assert_ok(ph_tensor_set_requires_grad(x, false));
    assert_error(ph_tensor_to_dlpack(&out, other.tape, x, NULL), PH_ERROR_WRONG_DEVICE,
                 "another device");
    assert_error(ph_tensor_to_dlpack(&out, s.tape, x, other.stream), PH_ERROR_WRONG_DEVICE, "");
    assert_null(out);
    t_scene_close(&other);
    ph_tape_fail(s.tape, PH_ERROR_CALLER, "the first one");
    assert_error(ph_tensor_to_dlpack(&out, s.tape, x, NULL), PH_ERROR_CALLER, "the first one");
    assert_error(ph_tensor_from_dlpack(&y, s.tape, &f.versioned), PH_ERROR_CALLER, "the first one");
    assert_error(ph_tape_clear(s.tape), PH_ERROR_CALLER, "the first one");
    assert_int_equal(f.deleted, 0);
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* The consumer's stream waits for the tape's; and the memory is not given away before the
 * consumer's work is done. */
TEST(the_consumer_waits_and_its_work_keeps_the_memory)
{
    t_scene s;
    t_scene_open(&s);
    ph_stream *consumer;
    struct DLManagedTensorVersioned *out;
    t_gate before = {0}, after = {0};
    bool done;
    assert_ok(ph_stream_create(&consumer, s.device, NULL));
    ph_tensor *x = ph_empty(s.tape, PH_DTYPE_U8, PH_SHAPE(4096));
    const void *data = ph_tensor_data(x);
    assert_ok(t_gate_wait(&before, s.stream));
    assert_ok(ph_tensor_to_dlpack(&out, s.tape, x, consumer));
    assert_ok(ph_stream_query(&done, consumer));
    assert_false(done);
    t_gate_open(&before);
    assert_ok(ph_stream_synchronize(consumer));
    assert_ok(t_gate_wait(&after, consumer));
    out->deleter(out);
    assert_ok(ph_tape_clear(s.tape));
    x = ph_empty(s.tape, PH_DTYPE_U8, PH_SHAPE(4096));
    assert_ptr_not_equal(ph_tensor_data(x), data);
    t_gate_open(&after);
    assert_ok(ph_stream_synchronize(consumer));
    assert_ok(ph_tape_clear(s.tape));
    ph_stream_destroy(consumer);
    t_scene_close(&s);
}

static ph_status lend_and_borrow(t_scene *s, ph_tensor *x, ph_stream *consumer)
{
    struct DLManagedTensorVersioned *out;
    struct DLManagedTensor *plain;
    ph_tensor *y;
    PH_TRY(ph_tensor_to_dlpack_unversioned(&plain, s->tape, x, consumer));
    plain->deleter(plain);
    PH_TRY(ph_tensor_to_dlpack(&out, s->tape, x, consumer));
    ph_status status = ph_tensor_from_dlpack(&y, s->tape, out);
    if (status == PH_OK)
        ph_tensor_release(y);
    else
        out->deleter(out);
    return status;
}

TEST(exchanges_without_host_memory_fail_and_leak_nothing)
{
    for (int64_t n = 0;; n++) {
        t_scene s;
        ph_tensor *x;
        ph_stream *consumer;
        t_scene_open(&s);
        assert_ok(ph_stream_create(&consumer, s.device, NULL));
        assert_ok(ph_tensor_create(&x, s.device, PH_DTYPE_F32, PH_SHAPE(4)));
        ph__alloc_fail_after(n);
        ph_status status = lend_and_borrow(&s, x, consumer);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        ph_tensor_release(x);
        assert_ok(ph_stream_synchronize(consumer));
        ph_stream_destroy(consumer);
        t_scene_close(&s);
        if (status == PH_OK) {
            assert_true(n > 3);
            break;
        }
        assert_int_equal(status, PH_ERROR_HOST_MEMORY);
    }
}

int main(void)
{
    t_hold_context();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lent_tensors_have_their_layout_and_memory),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(borrowed_memory_is_given_back_with_the_last_view),
        cmocka_unit_test(test_read_only),
        cmocka_unit_test(dlpack_tensors_that_do_not_fit_are_refused),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(the_consumer_waits_and_its_work_keeps_the_memory),
        cmocka_unit_test(exchanges_without_host_memory_fail_and_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
