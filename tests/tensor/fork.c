/* SPDX-License-Identifier: MIT */
/* tests/tensor/fork.c: a child of fork() computes on a device of its own, whatever other threads
 * computed; its parent's tapes and tensors answer STATE, and go. */
#include "support/fork.h"
#include "support/tensors.h"

#include "base/sync.h"
#include "support/test.h"

enum {
    FORKS = 30
};

static atomic_bool over;

static double compute(t_scene *scene)
{
    double sum = -1;
    ph_tensor *x = t_counting(scene->tape, PH_SHAPE(4, 4));
    ph_tensor *y = ph_sum(scene->tape, ph_mul(scene->tape, ph_matmul(scene->tape, x, x),
                                              ph_rand(scene->tape, PH_DTYPE_F32, PH_SHAPE(4, 4))));
    ph_tensor *z = ph_sum(scene->tape, x);
    if (!y || !z || ph_tensor_item(&sum, scene->tape, z) != PH_OK)
        return -1;
    return sum;
}

static void compute_in_child(void)
{
    t_scene own;
    alarm(HANGS_AFTER);
    if (t_on_host()) {
        t_scene_open(&own);
        WANT(compute(&own) == 120);
        t_scene_close(&own);
    } else {
        WANT(ph_device_open(&own.device, t_device_name(), NULL) == PH_ERROR_NOT_FOUND);
    }
    _exit(0);
}

/* With a device and a tape of its own, made anew each time. */
static void *compute_over_and_over(void *user)
{
    (void)user;
    while (!atomic_load(&over)) {
        t_scene scene;
        if (ph_device_open(&scene.device, t_device_name(), NULL) != PH_OK)
            continue;
        if (ph_stream_create(&scene.stream, scene.device, NULL) == PH_OK) {
            if (ph_tape_create(&scene.tape, scene.stream, NULL) == PH_OK) {
                (void)compute(&scene);
                ph_tape_destroy(scene.tape);
            }
            ph_stream_destroy(scene.stream);
        }
        ph_device_release(scene.device);
    }
    return NULL;
}

TEST(test_among_busy_threads)
{
    pthread_t threads[2];
    if (HAS_TSAN) {
        print_message("skipped: under ThreadSanitizer a child of a program with threads cannot "
                      "start threads\n");
        skip();
    }
    t_hold_context();
    atomic_store(&over, false);
    for (int i = 0; i < 2; i++)
        assert_true(ph__thread_start(&threads[i], "test", compute_over_and_over, NULL));
    int failed = 0;
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0)
            compute_in_child();
        int status = 0;
        failed += child < 0 || waitpid(child, &status, 0) != child || status != 0;
    }
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(failed, 0);
}

static void use_parents(t_scene *scene, ph_tensor *kept, ph_generator *generator)
{
    float values[4];
    ph_tape *tape;
    ph_tensor *x;
    alarm(HANGS_AFTER);
    WANT(ph_add(scene->tape, kept, kept) == NULL);
    WANT_STATE(ph_tape_status(scene->tape));
    WANT_STATE(ph_tensor_read(scene->tape, kept, values, sizeof values));
    WANT_STATE(ph_tape_create(&tape, scene->stream, NULL));
    WANT_STATE(ph_tensor_create(&x, scene->device, PH_DTYPE_F32, PH_SHAPE(2)));
    WANT_STATE(ph_generator_create(&generator, scene->device, 1));
    WANT_STATE(ph_tape_clear(scene->tape));
    WANT(ph_rand(scene->tape, PH_DTYPE_F32, PH_SHAPE(4)) ==
         NULL); /* cleared, and still nothing that could compute */
    WANT_STATE(ph_tape_status(scene->tape));
    ph_tensor_release(kept);
    ph_tape_destroy(scene->tape);
    ph_stream_destroy(scene->stream);
    ph_device_release(scene->device);
    _exit(0);
}

TEST(test_parents_tensors)
{
    t_scene scene;
    t_gate gate = {0};
    int status;
    t_scene_open(&scene);
    ph_generator *generator;
    assert_ok(ph_generator_create(&generator, scene.device, 1));
    ph_tensor *kept = ph_tensor_retain(t_counting(scene.tape, PH_SHAPE(4)));
    assert_ok(ph_tape_status(scene.tape));
    assert_ok(t_gate_wait(&gate, scene.stream));
    pid_t child = fork();
    if (child == 0)
        use_parents(&scene, kept, generator);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(scene.stream));
    assert_int_equal(status, 0);
    t_expect_values(scene.tape, ph_add(scene.tape, kept, kept), PH_SHAPE(4), 0, 2, 4, 6);
    ph_tensor_release(kept);
    ph_generator_release(generator);
    t_scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parents_tensors),
        cmocka_unit_test(test_among_busy_threads),
    };
    return cmocka_run_group_tests_name("fork", tests, NULL, NULL);
}
