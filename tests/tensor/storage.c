/* SPDX-License-Identifier: MIT */
/* tests/tensor/storage.c: the memory behind tensors: backends, who keeps it, other streams,
 * captures, guard zones. */
#include "tensor/core/storage.h"
#include "support/tensors.h"
#include "support/test.h"
#include "tensor/backend/backend.h"
#include "tensor/core/guard.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"

static ph__backend *backend_of(const t_scene *s)
{
    return s->tape->backend;
}

TEST(a_device_has_one_backend_while_it_is_held)
{
    int64_t live = ph__alloc_live();
    ph_device *device;
    ph__backend *a, *b;
    assert_ok(ph_device_open(&device, t_device_name(), NULL));
    assert_ok(ph__backend_of(&a, device, "test"));
    assert_ok(ph__backend_of(&b, device, "test"));
    assert_ptr_equal(a, b);
    assert_int_equal(a->cuda, !t_on_host());
    assert_non_null(a->default_generator);
    assert_ptr_equal(ph__backend_retain(a), a);
    ph__backend_release(a);
    ph__backend_release(a);
    ph_device_release(device); /* the backend holds it still */
    assert_int_equal(b->info.kind, t_on_host() ? PH_DEVICE_HOST : PH_DEVICE_CUDA);
    ph__backend_release(b);
    ph__backend_release(NULL);
    if (t_on_host())
        assert_int_equal(ph__alloc_live(), live);
}

static size_t allocated(const t_scene *s)
{
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, s->device));
    return stats.allocated + stats.pinned;
}

TEST(memory_goes_with_the_last_reference)
{
    t_scene s;
    t_scene_open(&s);
    ph__storage *storage;
    assert_ok(ph__storage_create(&storage, backend_of(&s), 1000, s.stream, 7));
    assert_int_equal((uintptr_t)storage->data % 512, 0);
    assert_true(allocated(&s) >= 1000);
    assert_ptr_equal(ph__storage_retain(storage), storage);
    ph__storage_release(storage);
    assert_true(allocated(&s) >= 1000);
    ph__storage_release(storage);
    assert_int_equal(allocated(&s), 0);

    assert_ok(ph__storage_create(&storage, backend_of(&s), 0, s.stream, 7));
    assert_null(storage->data);
    assert_ok(ph__storage_use(storage, s.stream, 8));
    ph__storage_release(storage);

    assert_ok(ph__storage_create_pinned(&storage, backend_of(&s), 64));
    memset(storage->data, 1, 64);
    assert_true(allocated(&s) >= 64);
    assert_ok(ph__storage_use(storage, s.stream, 8));
    ph__storage_release(storage);
    assert_ok(ph_stream_synchronize(s.stream));
    t_scene_close(&s);
}

static int released;
static void count_release(void *user)
{
    assert_ptr_equal(user, &released);
    released++;
}

TEST(wrapped_memory_is_released_once)
{
    t_scene s;
    t_scene_open(&s);
    char memory[16];
    ph__storage *storage;
    released = 0;
    assert_ok(ph__storage_wrap(&storage, backend_of(&s), memory, sizeof memory, count_release,
                               &released));
    assert_ok(ph__storage_use(storage, s.stream, 9)); /* memory that the allocator does not know */
    ph__storage_release(storage);
    assert_int_equal(released, 1);
    assert_ok(ph__storage_wrap(&storage, backend_of(&s), memory, sizeof memory, NULL, NULL));
    ph__storage_release(storage);
    t_scene_close(&s);
}

/* Freed while another tape's stream still works on it: not given to its own stream again before
 * that is done. */
TEST(test_other_stream)
{
    t_scene s;
    t_scene_open(&s);
    ph_stream *other;
    assert_ok(ph_stream_create(&other, s.device, NULL));
    ph__storage *storage, *second;
    t_gate gate = {0};
    assert_ok(ph__storage_create(&storage, backend_of(&s), 4096, s.stream, 1));
    assert_ok(ph__storage_use(storage, s.stream, 1));
    assert_ok(ph__storage_use(storage, other, 2));
    assert_int_equal(atomic_load(&storage->last_key), 2);
    assert_ok(ph__storage_use(storage, other, 2));
    assert_ok(ph__storage_use(storage, s.stream, 1));
    assert_ok(t_gate_wait(&gate, other));
    const char *data = storage->data;
    ph__storage_release(storage);
    assert_ok(ph__storage_create(&second, backend_of(&s), 4096, s.stream, 1));
    assert_ptr_not_equal(second->data, data);
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(other));
    ph__storage_release(second);
    ph_stream_destroy(other);
    t_scene_close(&s);
}

/* Memory comes in the order of the default stream: what that has to do in it yet comes before a
 * tape's first use. */
TEST(test_first_use)
{
    t_scene s;
    t_scene_open(&s);
    ph_stream *own = ph_device_default_stream(s.device);
    ph_tape *tape;
    ph_tensor *x, *warm;
    t_gate gate = {0};
    bool done;
    assert_ok(ph_tape_create(&tape, own, NULL));
    assert_ok(ph_tensor_create(&x, s.device, PH_DTYPE_F32, PH_SHAPE(4)));
    assert_ok(ph_tensor_create(&warm, s.device, PH_DTYPE_F32, PH_SHAPE(4)));
    ph_tensor_fill(tape, x, 1);
    ph_tensor_fill(s.tape, warm, 0); /* the kernel is there */
    assert_ok(ph_device_synchronize(s.device));
    const void *data = ph_tensor_data(x);
    assert_ok(t_gate_wait_guarded(&gate, own));
    ph_tensor_fill(tape, x, 1);
    ph_tensor_release(x);
    assert_ok(ph_tensor_create(&x, s.device, PH_DTYPE_F32, PH_SHAPE(4)));
    assert_ptr_equal(ph_tensor_data(x), data);
    ph_tensor_fill(s.tape, x, 2);
    assert_ok(ph_stream_query(&done, s.stream));
    if (t_gate_held(&gate))
        assert_false(done);
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(own));
    t_expect_values(s.tape, x, PH_SHAPE(4), 2, 2, 2, 2);
    /* Once: it does not wait for what comes later. */
    t_gate later = {0};
    assert_ok(t_gate_wait(&later, own));
    t_expect_values(s.tape, x, PH_SHAPE(4), 2, 2, 2, 2);
    t_gate_open(&later);
    ph_tensor_release(x);
    ph_tensor_release(warm);
    ph_tape_destroy(tape);
    assert_ok(ph_device_synchronize(s.device));
    t_scene_close(&s);
}

typedef struct body {
    t_scene *s;
    ph__storage *storage;
} body;

static ph_status use_memory(ph_stream *stream, void *user)
{
    body *b = user;
    PH_TRY(ph__storage_create(&b->storage, backend_of(b->s), 4096, stream, 1));
    return ph_memset(b->storage->data, 0x55, 4096, stream);
}

TEST(memory_made_in_a_capture_is_of_its_pool)
{
    t_scene s;
    t_scene_open(&s);
    ph_graph *graph;
    body b = {&s, NULL};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, use_memory, &b));
    assert_ok(ph_graph_replay(graph, s.stream));
    ph_allocation found;
    assert_ok(ph_memory_lookup(&found, s.device, b.storage->data));
    assert_non_null(found.pool); /* the capture's */
    unsigned char bytes[4096];
    t_read(bytes, b.storage->data, sizeof bytes, s.stream);
    assert_int_equal(bytes[0], 0x55);
    assert_int_equal(bytes[4095], 0x55);
    ph__storage_release(b.storage);
    ph_graph_destroy(graph);
    t_scene_close(&s);
}

/* ---- guard zones ---- */
static void put(ph_stream *stream, char *at)
{
    assert_ok(ph_memset(at, 0, 1, stream));
    assert_ok(ph_stream_synchronize(stream));
}

TEST(writes_beside_a_tensor_are_found_by_the_guards)
{
    t_scene s;
    t_scene_open(&s);
    ph__storage *storage;
    unsigned char bytes[100];
    static const struct {
        ptrdiff_t at;
        const char *words;
    } wrong[] = {{-1, "before a tensor's 100 bytes"},
                 {-256, "at -256 is 0x00"},
                 {100, "behind a tensor's"},
                 {355, "at 355"}};
    ph__storage_debug(true);
    assert_ok(ph__storage_create(&storage, backend_of(&s), 100, s.stream, 1));
    ph__storage_debug(false);
    t_read(bytes, storage->data, 100, s.stream);
    for (size_t i = 0; i < sizeof bytes; i++)
        assert_int_equal(bytes[i], 0xFF);
    put(s.stream, storage->data);
    put(s.stream, storage->data + 99);
    assert_ok(ph__storage_use(storage, s.stream, 2));
    assert_true(ph__storage_debug_check(s.device));
    ph__storage_release(storage);
    assert_int_not_equal(allocated(&s), 0); /* kept, as it might be written yet */
    assert_true(ph__storage_debug_check(s.device));
    assert_int_equal(allocated(&s), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ph__storage_debug(true);
        assert_ok(ph__storage_create(&storage, backend_of(&s), 100, s.stream, 1));
        ph__storage_debug(false);
        char *at = storage->data + wrong[i].at;
        ph__storage_release(storage);
        put(s.stream, at);
        assert_false(ph__storage_debug_check(s.device));
        assert_non_null(strstr(ph_error_last()->message, wrong[i].words));
        assert_true(ph__storage_debug_check(s.device)); /* it has been given back */
    }
    t_scene_close(&s);
}

TEST(test_guards_in_capture)
{
    t_scene s;
    t_scene_open(&s);
    ph_graph *graph;
    body b = {&s, NULL};
    assert_ok(ph_graph_create(&graph, NULL));
    ph__storage_debug(true);
    assert_ok(ph_graph_capture(graph, s.stream, NULL, use_memory, &b));
    ph__storage_debug(false);
    assert_true(ph__storage_debug_check(s.device)); /* never replayed */
    assert_ok(ph_graph_replay(graph, s.stream));
    assert_true(ph__storage_debug_check(s.device));
    ph__storage_release(b.storage);
    assert_true(ph__storage_debug_check(s.device));
    ph_graph_destroy(graph);
    t_scene_close(&s);
}

/* ---- failures ---- */
static ph_status make_each(ph__backend *backend, ph_stream *stream, bool guards)
{
    ph__storage *storage;
    char memory[8];
    ph__storage_debug(guards);
    ph_status status = ph__storage_create(&storage, backend, 3000, stream, 1);
    ph__storage_debug(false);
    PH_TRY(status);
    ph__storage_release(storage);
    PH_TRY(ph__storage_create_pinned(&storage, backend, 64));
    ph__storage_release(storage);
    PH_TRY(ph__storage_wrap(&storage, backend, memory, sizeof memory, NULL, NULL));
    ph__storage_release(storage);
    return PH_OK;
}

TEST(storage_without_host_memory_fails_and_leaks_nothing)
{
    for (int guards = 0; guards < 2; guards++)
        for (int64_t n = 0;; n++) {
            t_scene s;
            t_scene_open(&s);
            ph__alloc_fail_after(n);
            ph_status status = make_each(backend_of(&s), s.stream, guards);
            ph__alloc_fail_after(PH__ALLOC_NEVER);
            assert_true(ph__storage_debug_check(s.device));
            t_scene_close(&s);
            if (status == PH_OK) {
                assert_true(n > 3);
                break;
            }
            assert_int_equal(status, PH_ERROR_HOST_MEMORY);
        }
}

TEST(test_backend_failures)
{
    ph_device *device;
    assert_ok(ph_device_open(&device, t_device_name(), NULL));
    for (int64_t n = 0;; n++) {
        ph__backend *backend;
        int64_t live = ph__alloc_live();
        ph__alloc_fail_after(n);
        ph_status status = ph__backend_of(&backend, device, "test");
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status == PH_OK) {
            assert_true(n > 0);
            ph__backend_release(backend);
            break;
        }
        assert_int_equal(status, PH_ERROR_HOST_MEMORY);
        assert_int_equal(ph__alloc_live(), live);
    }
    ph_device_release(device);
}

/* ---- threads ---- each with a stream and a tape of its own; one tensor is read by all. */
enum {
    THREADS = 4
};

typedef struct worker {
    ph_device *device;
    ph_tensor *shared;
    pthread_t thread;
    double sum;
    ph_status status;
} worker;

static ph_status work(worker *w, ph_tape *tape, int64_t i)
{
    double item;
    ph_tensor *mine = ph_tensor_retain(ph_select(tape, w->shared, 0, i % 4));
    ph_tensor *x = ph_add(tape, ph_arange(tape, PH_DTYPE_F32, (double)i, 1, 4), mine);
    ph_status status = ph_tensor_item(&item, tape, ph_select(tape, x, 0, 3));
    ph_tensor_release(mine);
    PH_TRY(status);
    w->sum += item;
    return ph_tape_clear(tape);
}

static void *run_worker(void *user)
{
    worker *w = user;
    for (int round = 0; round < 5 && w->status == PH_OK; round++) {
        ph_stream *stream;
        ph_tape *tape;
        w->status = ph_stream_create(&stream, w->device, NULL);
        if (w->status != PH_OK)
            break;
        w->status = ph_tape_create(&tape, stream, NULL);
        for (int64_t i = 0; i < 20 && w->status == PH_OK; i++)
            w->status = work(w, tape, i);
        ph_tape_destroy(tape);
        ph_stream_destroy(stream);
    }
    return NULL;
}

TEST(threads_create_and_release_tensors_at_once)
{
    worker workers[THREADS] = {0};
    t_scene s;
    t_scene_open(&s);
    ph_tensor *shared;
    assert_ok(ph_tensor_create(&shared, s.device, PH_DTYPE_F32, PH_SHAPE(4, 4)));
    ph_tensor_copy(s.tape, shared, t_counting(s.tape, PH_SHAPE(4, 4)));
    assert_ok(ph_tape_clear(s.tape));
    assert_ok(ph_stream_synchronize(s.stream));
    for (int i = 0; i < THREADS; i++) {
        workers[i].device = s.device;
        workers[i].shared = shared;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].status, PH_OK);
        /* i + 3, and 3, 7, 11 or 15, for i from 0 to 19; five times. */
        assert_true(workers[i].sum == 5 * (190 + 60 + 180));
    }
    ph_tensor_release(shared);
    t_scene_close(&s);
}

/* Backends come and go while others look for them. */
static void *come_and_go(void *device)
{
    for (int i = 0; i < 200; i++) {
        ph__backend *backend;
        if (ph__backend_of(&backend, device, "test") != PH_OK)
            return device;
        ph__backend_release(backend);
    }
    return NULL;
}

TEST(test_backend_threads)
{
    pthread_t threads[THREADS];
    ph_device *device;
    assert_ok(ph_device_open(&device, t_device_name(), NULL));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, device), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    ph_device_release(device);
}

int main(void)
{
    t_hold_context();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_has_one_backend_while_it_is_held),
        cmocka_unit_test(memory_goes_with_the_last_reference),
        cmocka_unit_test(wrapped_memory_is_released_once),
        cmocka_unit_test(test_other_stream),
        cmocka_unit_test(test_first_use),
        cmocka_unit_test(memory_made_in_a_capture_is_of_its_pool),
        cmocka_unit_test(writes_beside_a_tensor_are_found_by_the_guards),
        cmocka_unit_test(test_guards_in_capture),
        cmocka_unit_test(storage_without_host_memory_fails_and_leaks_nothing),
        cmocka_unit_test(test_backend_failures),
        cmocka_unit_test(threads_create_and_release_tensors_at_once),
        cmocka_unit_test(test_backend_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
