/* SPDX-License-Identifier: MIT */
/* tests/tensor/overwrite_tag.c: tensors whose memory was overwritten: every reader refuses them by
 * name, and what shares their memory is marked too. */
#include "support/files.h"
#include "support/overwritten.h"
#include "support/test.h"
#include <phonograph/nn.h>

/* ---- readers ---- each gives what its call, or its tape, says. */
typedef struct reading {
    t_scene s;
    t_folder folder;
    ph_tensor *x, *plain; /* plain: the same without a mark */
} reading;

#define OPERATOR(name, ...)                                                                        \
    static ph_status name(reading *r)                                                              \
    {                                                                                              \
        ph_tape *tape = r->s.tape;                                                                 \
        ph_tensor *x = r->x, *plain = r->plain;                                                    \
        (void)plain;                                                                               \
        (void)(__VA_ARGS__);                                                                       \
        return ph_tape_status(tape);                                                               \
    }
OPERATOR(add, ph_add(tape, plain, x))
OPERATOR(relu, ph_relu(tape, x))
OPERATOR(matmul, ph_matmul(tape, x, plain))
OPERATOR(sum, ph_sum(tape, x))
OPERATOR(softmax, ph_softmax(tape, x, 1))
OPERATOR(cast, ph_cast(tape, x, PH_DTYPE_F64))
OPERATOR(cloned, ph_clone(tape, x))
OPERATOR(contiguous, ph_contiguous(tape, x))
OPERATOR(reshape, ph_reshape(tape, x, PH_SHAPE(4)))
OPERATOR(transpose, ph_transpose(tape, x, 0, 1))
OPERATOR(detach, ph_detach(tape, x))
OPERATOR(concat, ph_concat(tape, (ph_tensor *[]){plain, plain, x}, 3, 0))
OPERATOR(dropout, ph_dropout(tape, x, 0.5))
OPERATOR(rrelu, ph_rrelu(tape, x, 0.1, 0.3))
OPERATOR(poisson, ph_poisson(tape, x))
OPERATOR(normal_of, ph_normal_of(tape, plain, x))
OPERATOR(events_of, ph_tensor_bernoulli_of(tape, plain, x))
OPERATOR(to_device, ph_to_device(tape, x))
OPERATOR(fill, ph_tensor_fill(tape, x, 1))
OPERATOR(copy_from, ph_tensor_copy(tape, plain, x))
OPERATOR(copy_to, ph_tensor_copy(tape, x, plain))
OPERATOR(add_from, ph_tensor_add(tape, plain, x, 1))
OPERATOR(scale, ph_tensor_scale(tape, x, 2))

/* ---- as gradients ---- */
static ph_status backward_from(reading *r)
{
    ph_tensor *y = ph_mul_scalar(r->s.tape, r->plain, 2);
    ph_backward_from(r->s.tape, &y, &r->x, 1, NULL);
    return ph_tape_status(r->s.tape);
}

static ph_status grad_from(reading *r)
{
    ph_tensor *y = ph_mul_scalar(r->s.tape, r->plain, 2), *dx;
    ph_grad(r->s.tape, &dx, &r->plain, 1, &y, &r->x, 1, NULL);
    return ph_tape_status(r->s.tape);
}

static ph_status step(reading *r)
{
    ph_module *module;
    ph_optimizer *sgd;
    const ph_layer_options layer = {.no_bias = true};
    assert_ok(ph_linear_create_with(&module, r->s.device, 2, 2, &layer));
    assert_ok(ph_sgd_create(&sgd, module, &(ph_sgd_options){.lr = 1}));
    assert_ok(ph_tensor_set_grad(ph_module_parameter(module, "weight"), r->x));
    ph_optimizer_step(r->s.tape, sgd);
    ph_status status = ph_tape_status(r->s.tape);
    ph_optimizer_destroy(sgd);
    ph_module_release(module);
    return status;
}

static void multiply(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    (void)user;
    out[0] = ph_mul(tape, in[0], in[1]);
}

static ph_status checkpoint(reading *r)
{
    ph_tensor *out, *in[] = {r->plain, r->x};
    ph_checkpoint(r->s.tape, multiply, NULL, &out, 1, in, 2);
    return ph_tape_status(r->s.tape);
}

/* ---- to and from host memory and files ---- */
static ph_status read_all(reading *r)
{
    float values[4];
    return ph_tensor_read(r->s.tape, r->x, values, sizeof values);
}

static ph_status write_all(reading *r)
{
    const float values[4] = {0};
    return ph_tensor_write(r->s.tape, r->x, values, sizeof values);
}

static ph_status item(reading *r)
{
    double value;
    ph_tensor *one = ph_sum(r->s.tape, r->plain);
    assert_non_null(one);
    ph__tensor_tag(one, r->x->overwrite_tag, r->x->sequence, r->x->call);
    return ph_tensor_item(&value, r->s.tape, one);
}

static ph_status format(reading *r)
{
    char *text = NULL;
    ph_status status = ph_tensor_format(&text, r->s.tape, r->x);
    ph_string_free(text);
    return status;
}

static ph_status npy(reading *r)
{
    return ph_npy_write(r->s.tape, r->x, t_inside(&r->folder, "a.npy"));
}

static ph_status safetensors(reading *r)
{
    ph_named_tensor both[] = {{"plain", r->plain}, {"marked", r->x}};
    return ph_safetensors_write(r->s.tape, t_inside(&r->folder, "a.safetensors"), both, 2);
}

static ph_status load_into(reading *r)
{
    ph_named_tensor one = {"it", r->plain};
    ph_safetensors *file;
    const char *path = t_inside(&r->folder, "b.safetensors");
    assert_ok(ph_safetensors_write(r->s.tape, path, &one, 1));
    assert_ok(ph_safetensors_open(&file, path));
    ph_status status = ph_safetensors_read_into(r->s.tape, r->x, file, "it");
    ph_safetensors_close(file);
    return status;
}

/* ---- to others ---- */
static ph_status dlpack(reading *r)
{
    struct DLManagedTensorVersioned *out;
    ph_tensor *back = NULL;
    ph_status status = ph_tensor_to_dlpack(&out, r->s.tape, r->x, NULL);
    if (status == PH_OK)
        assert_ok(ph_tensor_from_dlpack(&back, r->s.tape, out));
    ph_tensor_release(back);
    return status;
}

static ph_status dlpack_plain(reading *r)
{
    struct DLManagedTensor *out;
    ph_tensor *back = NULL;
    ph_status status = ph_tensor_to_dlpack_unversioned(&out, r->s.tape, r->x, NULL);
    if (status == PH_OK)
        assert_ok(ph_tensor_from_dlpack_unversioned(&back, r->s.tape, out));
    ph_tensor_release(back);
    return status;
}

static void open_elsewhere(t_scene *s)
{
    assert_ok(ph_device_open(&s->device, "host:threads=1", NULL));
    assert_ok(ph_stream_create(&s->stream, s->device, NULL));
    assert_ok(ph_tape_create(&s->tape, s->stream, NULL));
}

static ph_status close_elsewhere(t_scene *s)
{
    ph_status status = ph_tape_clear(s->tape);
    t_scene_close(s);
    return status;
}

static ph_status elsewhere(reading *r)
{
    t_scene other;
    open_elsewhere(&other);
    (void)ph_to_device(other.tape, r->x);
    return close_elsewhere(&other);
}

static ph_status copy_elsewhere(reading *r)
{
    t_scene other;
    open_elsewhere(&other);
    ph_tensor_copy(other.tape, ph_zeros(other.tape, PH_DTYPE_F32, PH_SHAPE(2, 2)), r->x);
    return close_elsewhere(&other);
}

static const struct reader {
    ph_status (*fn)(reading *r);
    const char *message; /* up to the text of the mark */
} readers[] = {
    {add, "add: operand 1 (f32[2, 2])"},
    {relu, "relu: operand 0 (f32[2, 2])"},
    {matmul, "matmul: operand 0 (f32[2, 2])"},
    {sum, "sum: operand 0 (f32[2, 2])"},
    {softmax, "softmax: operand 0 (f32[2, 2])"},
    {cast, "cast: operand 0 (f32[2, 2])"},
    {cloned, "clone: operand 0 (f32[2, 2])"},
    {contiguous, "contiguous: operand 0 (f32[2, 2])"},
    {reshape, "reshape: operand 0 (f32[2, 2])"},
    {transpose, "transpose: operand 0 (f32[2, 2])"},
    {detach, "detach: operand 0 (f32[2, 2])"},
    {concat, "concat: operand 2 (f32[2, 2])"},
    {dropout, "dropout: operand 0 (f32[2, 2])"},
    {rrelu, "rrelu: operand 0 (f32[2, 2])"},
    {poisson, "poisson: operand 0 (f32[2, 2])"},
    {normal_of, "normal_of: operand 1 (f32[2, 2])"},
    {events_of, "tensor_bernoulli_of: operand 1 (f32[2, 2])"},
    {to_device, "to_device: operand 0 (f32[2, 2])"},
    {fill, "tensor_fill: operand 0 (f32[2, 2])"},
    {copy_from, "tensor_copy: operand 1 (f32[2, 2])"},
    {copy_to, "tensor_copy: operand 0 (f32[2, 2])"},
    {add_from, "tensor_add: operand 1 (f32[2, 2])"},
    {scale, "tensor_scale: operand 0 (f32[2, 2])"},
    {backward_from, "backward: a gradient that it begins with (f32[2, 2])"},
    {grad_from, "grad: a gradient that it begins with (f32[2, 2])"},
    {read_all, "ph_tensor_read: operand 0 (f32[2, 2])"},
    {write_all, "ph_tensor_write: operand 0 (f32[2, 2])"},
    {item, "ph_tensor_item: operand 0 (f32[])"},
    {format, "ph_tensor_format: the tensor (f32[2, 2])"},
    {npy, "ph_npy_write: the tensor (f32[2, 2])"},
    {safetensors, "ph_safetensors_write: 'marked' (f32[2, 2])"},
    {load_into, "ph_safetensors_read_into: the tensor (f32[2, 2])"},
    {dlpack, "ph_tensor_to_dlpack: the tensor (f32[2, 2])"},
    {dlpack_plain, "ph_tensor_to_dlpack_unversioned: the tensor (f32[2, 2])"},
    {elsewhere, "to_device: operand 0 (f32[2, 2])"},
    {copy_elsewhere, "tensor_copy: operand 1 (f32[2, 2])"},
    {checkpoint, "checkpoint: operand 1 (f32[2, 2])"},
    {step, "sgd: operand 1 (f32[2, 2])"},
};

static void read_once(const struct reader *reader, bool overwritten)
{
    static const char *const files[] = {"a.npy", "a.safetensors", "b.safetensors"};
    reading r;
    t_owner o;
    char message[200];
    t_scene_open(&r.s);
    t_folder_open(&r.folder);
    t_owner_open(&o);
    r.x = t_marked_on(&o, &r.s);
    r.plain = t_leaf(&r.s, PH_SHAPE(2, 2), 5, 6, 7, 8);
    /* Changes are for tensors without history. */
    bool changes = reader->fn == copy_from || reader->fn == add_from ||
                   reader->fn == copy_elsewhere || reader->fn == events_of;
    assert_ok(ph_tensor_set_requires_grad(r.plain, !changes));
    if (overwritten)
        t_overwrite(&o);
    (void)snprintf(message, sizeof message, "%s was overwritten: call 7 of step 3, by step 4",
                   reader->message);
    if (overwritten)
        assert_error(reader->fn(&r), PH_ERROR_OVERWRITTEN, message);
    else
        assert_ok(reader->fn(&r));
    ph_ignore(ph_tape_clear(r.s.tape));
    ph_tensor_release(r.x);
    ph_tensor_release(r.plain);
    assert_ok(ph_stream_synchronize(r.s.stream));
    t_owner_close(&o);
    t_folder_close(&r.folder, files, 3);
    t_scene_close(&r.s);
}

TEST(every_reader_refuses_an_overwritten_tensor)
{
    t_hold_context();
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++) {
        read_once(&readers[i], false);
        read_once(&readers[i], true);
    }
}

/* ---- what shares the memory ---- */
enum {
    ALIASES = 14
};

static void alias_forward(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    (void)custom;
    (void)tape;
    out[0] = in[0];
}
static void alias_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                           ph_tensor *const *grad_out, const bool *needed)
{
    (void)custom;
    (void)tape;
    (void)needed;
    grad_in[1] = grad_out[0];
}

static void pass_on(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    (void)user;
    out[0] = ph_unsqueeze(tape, in[0], 0);
}

static void make_aliases(ph_tensor *out[ALIASES], ph_tape *tape, ph_tensor *x, ph_tensor *leaf)
{
    const ph_custom_operator custom = {
        .name = "alias", .forward = alias_forward, .backward = alias_backward};
    const int axes[] = {1, 0};
    size_t n = 0;
    out[n++] = ph_reshape(tape, x, PH_SHAPE(4));
    out[n++] = ph_slice(tape, x, 0, 0, 1);
    out[n++] = ph_slice_step(tape, x, 1, 0, 2, 2);
    out[n++] = ph_select(tape, x, 0, 1);
    out[n++] = ph_permute(tape, x, axes, 2);
    out[n++] = ph_transpose(tape, x, 0, 1);
    out[n++] = ph_unsqueeze(tape, x, 0);
    out[n++] = ph_detach(tape, x);
    out[n++] = ph_detach(tape, ph_transpose(tape, x, 0, 1));
    out[n++] = ph_contiguous(tape, x);
    ph_split(tape, out + n, x, 0, (const int64_t[]){1, 1}, 2);
    n += 2;
    ph_custom_call(tape, &custom, out + n++, 1, (ph_tensor *[]){x, leaf}, 2);
    ph_checkpoint(tape, pass_on, NULL, out + n++, 1, &x, 1);
    assert_int_equal(n, ALIASES);
}

TEST(test_what_shares_the_memory)
{
    t_scene s;
    t_owner o;
    float values[4];
    ph_tensor *aliases[ALIASES];
    t_scene_open(&s);
    t_owner_open(&o);
    ph_tensor *x = t_marked_on(&o, &s), *leaf = t_leaf(&s, PH_SHAPE(2, 2), 1, 1, 1, 1);
    make_aliases(aliases, s.tape, x, leaf);
    assert_ok(ph_tape_status(s.tape));
    ph_tensor *copy = ph_clone(s.tape, x), *sum = ph_add(s.tape, x, x);
    assert_null(copy->overwrite_tag);
    assert_null(sum->overwrite_tag);
    for (size_t i = 0; i < ALIASES; i++) {
        ph_tensor_retain(aliases[i]);
        assert_ptr_equal(aliases[i]->overwrite_tag, &o.written);
        assert_int_equal(aliases[i]->call, 7);
        assert_ok(ph_tensor_read(s.tape, aliases[i], values, ph_tensor_bytes(aliases[i])));
    }
    t_overwrite(&o);
    t_expect_values(s.tape, copy, PH_SHAPE(2, 2), 1, 2, 3, 4);
    t_expect_values(s.tape, sum, PH_SHAPE(2, 2), 2, 4, 6, 8);
    for (size_t i = 0; i < ALIASES; i++) {
        assert_null(ph_relu(s.tape, aliases[i]));
        t_expect_failure(&s, PH_ERROR_OVERWRITTEN, "was overwritten: call 7 of step 3, by step 4");
        ph_tensor_release(aliases[i]);
    }
    ph_tensor_release(x);
    ph_tensor_release(leaf);
    t_owner_close(&o);
    t_scene_close(&s);
}

/* Marked anew, marked by another, and not any more. */
TEST(a_tag_is_replaced_moved_and_taken_away)
{
    t_scene s;
    t_owner a, b;
    t_scene_open(&s);
    t_owner_open(&a);
    t_owner_open(&b);
    ph_tensor *x = t_marked_on(&a, &s);
    assert_false(ph__tensor_is_overwritten(x));
    t_overwrite(&a);
    assert_true(ph__tensor_is_overwritten(x));
    ph__tensor_tag(x, &a.written, 4, 8);
    assert_false(ph__tensor_is_overwritten(x));
    assert_int_equal(atomic_load(&a.written.references), 2);
    ph__tensor_tag(x, &b.written, 2, 9);
    assert_true(ph__tensor_is_overwritten(x));
    assert_int_equal(atomic_load(&a.written.references), 1);
    assert_status(ph__fail_overwritten(x, "test", "it"), PH_ERROR_OVERWRITTEN);
    assert_string_equal(ph_error_last()->message,
                        "test: it (f32[2, 2]) was overwritten: call 9 of step 2, by step 3");
    ph__tensor_tag(x, NULL, 0, 0);
    assert_false(ph__tensor_is_overwritten(x));
    t_owner_close(&b);
    /* The last handle outlives whoever made the mark. */
    ph__tensor_tag(x, &a.written, 4, 8);
    ph__overwrite_tag_release(&a.written);
    assert_int_equal(a.destroyed, 0);
    ph_tensor_release(x);
    assert_int_equal(a.destroyed, 1);
    ph__overwrite_tag_release(NULL);
    t_scene_close(&s);
}

/* ---- threads ---- one writes over it, while others only look. */
enum {
    READERS = 3
};
typedef struct looking {
    ph_tensor *x;
    atomic_int *over;
    size_t valid, gone;
} looking;

static void *look(void *user)
{
    looking *l = user;
    ph_stream *stream;
    ph_tape *tape;
    assert_ok(ph_stream_create(&stream, ph_tensor_device(l->x), NULL));
    assert_ok(ph_tape_create(&tape, stream, NULL));
    for (bool over = false; !over;) {
        over = atomic_load(l->over) > 0;
        (void)ph_relu(tape, ph_transpose(tape, l->x, 0, 1));
        ph_status status = ph_tape_clear(tape);
        assert_true(status == PH_OK || status == PH_ERROR_OVERWRITTEN);
        l->valid += status == PH_OK;
        l->gone += status == PH_ERROR_OVERWRITTEN;
    }
    ph_tape_destroy(tape);
    assert_ok(ph_stream_synchronize(stream));
    ph_stream_destroy(stream);
    return NULL;
}

TEST(readers_on_other_threads_see_the_overwrite)
{
    t_scene s;
    t_owner o;
    atomic_int over = 0;
    looking all[READERS];
    pthread_t threads[READERS];
    t_scene_open(&s);
    t_owner_open(&o);
    ph_tensor *x = t_marked_on(&o, &s);
    for (int i = 0; i < READERS; i++) {
        all[i] = (looking){.x = x, .over = &over};
        assert_int_equal(pthread_create(&threads[i], NULL, look, &all[i]), 0);
    }
    for (int i = 0; i < 1000; i++) {
        atomic_store_explicit(&o.written.now, i % 2 ? 3 : 4, memory_order_relaxed);
        (void)ph_relu(s.tape, x);
        ph_ignore(ph_tape_clear(s.tape));
    }
    atomic_store_explicit(&o.written.now, 5, memory_order_relaxed);
    atomic_store(&over, 1);
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(all[i].gone > 0);
    }
    ph_tensor_release(x);
    t_owner_close(&o);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reader_refuses_an_overwritten_tensor),
        cmocka_unit_test(test_what_shares_the_memory),
        cmocka_unit_test(a_tag_is_replaced_moved_and_taken_away),
        cmocka_unit_test(readers_on_other_threads_see_the_overwrite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
