/* SPDX-License-Identifier: MIT */
/* tests/tensor/benchmark.c: ph_set_benchmark: which proposal a product takes, when they are timed,
 * and that a choice stays. */
#include "support/benchmark.h"
#include "support/test.h"

/* ---- products ---- */
static ph_status do_product(ph_stream *stream, void *user)
{
    t_work *w = user;
    (void)stream;
    ph_tensor_copy(w->tape, w->out[0], ph_linear(w->tape, w->in[0], w->in[1], w->in[2]));
    return ph_tape_clear(w->tape);
}

/* f64 products with a bias are two for cuBLASLt, the second of which adds to what is there. */
static t_work make_product(t_scene *s, ph_dtype dtype, bool bias)
{
    t_work w = {.tape = s->tape, .results = 1};
    w.in[0] = t_some(s, dtype, PH_SHAPE(40, 24));
    w.in[1] = t_some(s, dtype, PH_SHAPE(16, 24));
    w.in[2] = bias ? t_some(s, dtype, PH_SHAPE(16)) : NULL;
    w.out[0] = t_some(s, dtype, PH_SHAPE(40, 16));
    assert_ok(ph_tape_clear(s->tape));
    return w;
}

static size_t product_named(const char *times, const char *name)
{
    t_scene s;
    t_say("FAKE_CUBLASLT_TIMES", times);
    t_scene_open(&s);
    t_work w = make_product(&s, PH_DTYPE_F32, true);
    size_t named = t_named_after_timing(&s, &w, do_product, name);
    t_work_free(&w);
    t_scene_close(&s);
    t_say("FAKE_CUBLASLT_TIMES", NULL);
    return named;
}

/* ---- the switch ---- */
TEST(is_a_switch)
{
    assert_false(ph_benchmark());
    ph_set_benchmark(true);
    assert_true(ph_benchmark());
    ph_set_benchmark(true);
    ph_set_benchmark(false);
    assert_false(ph_benchmark());
}

/* ---- products ---- */
/* On any device: what is captured is what was done eagerly, and f64 says how exact it is. */
TEST(results_are_those_of_products)
{
    t_scene s;
    t_say("FAKE_CUBLASLT_TIMES", "3,1,2");
    t_scene_open(&s);
    for (int bias = 0; bias < 2; bias++) {
        double wide[40 * 16];
        float narrow[40 * 16];
        t_work w = make_product(&s, PH_DTYPE_F64, bias != 0), f = w;
        for (int i = 0; i < 3; i++)
            f.in[i] = w.in[i] ? ph_tensor_retain(ph_cast(s.tape, w.in[i], PH_DTYPE_F32)) : NULL;
        f.out[0] = t_some(&s, PH_DTYPE_F32, PH_SHAPE(40, 16));
        assert_ok(ph_tape_clear(s.tape));
        (void)t_named_after_timing(&s, &w, do_product, "");
        (void)t_named_after_timing(&s, &f, do_product, "");
        assert_ok(ph_tensor_read(s.tape, w.out[0], wide, sizeof wide));
        assert_ok(ph_tensor_read(s.tape, f.out[0], narrow, sizeof narrow));
        for (int i = 0; i < 40 * 16; i++)
            assert_true(fabs(wide[i] - (double)narrow[i]) < 24 * 6e-7 * (1 + fabs(wide[i])));
        t_work_free(&w);
        t_work_free(&f);
    }
    t_scene_close(&s);
    t_say("FAKE_CUBLASLT_TIMES", NULL);
}

TEST(the_fastest_is_taken)
{
    if (!t_on_fake())
        return;
    assert_int_equal(product_named("3,1,2", "fake_cublaslt_product_1"), 1);
    assert_int_equal(product_named("3,2,1", "fake_cublaslt_product_2"), 1);
    assert_int_equal(product_named("1,2,3", "fake_cublaslt_product"), 1);
    assert_int_equal(product_named("1,0.99", "fake_cublaslt_product"), 1);
}

TEST(what_refuses_is_left_out)
{
    if (!t_on_fake())
        return;
    assert_int_equal(product_named("3,-1,2", "fake_cublaslt_product_2"), 1);
    assert_int_equal(product_named("-1,2,3", "fake_cublaslt_product_1"), 1);
    assert_int_equal(product_named("2,-1,-1", "fake_cublaslt_product"), 1);
}

/* The question for further ones fails: the first is taken. */
TEST(a_search_that_fails_is_no_failure)
{
    if (!t_on_fake())
        return;
    t_say("FAKE_CUBLASLT_MOST", "16");
    assert_int_equal(product_named("3,1,2", "fake_cublaslt_product"), 1);
    t_say("FAKE_CUBLASLT_MOST", NULL);
}

/* The message is that of a product which no algorithm can do. */
TEST(nothing_is_left)
{
    t_scene s;
    if (!t_on_fake())
        return;
    t_say("FAKE_CUBLASLT_TIMES", "-1,-1");
    t_scene_open(&s);
    t_work w = make_product(&s, PH_DTYPE_F32, false);
    ph_set_benchmark(true);
    assert_error(do_product(s.stream, &w), PH_ERROR_UNSUPPORTED, "cuBLASLt has no algorithm");
    ph_set_benchmark(false);
    t_work_free(&w);
    t_scene_close(&s);
    t_say("FAKE_CUBLASLT_TIMES", NULL);
}

/* Each shape is timed once; then neither use nor the switch changes what it has. */
TEST(a_choice_stays)
{
    t_scene s;
    t_say("FAKE_CUBLASLT_TIMES", "3,1");
    t_scene_open(&s);
    t_work timed = make_product(&s, PH_DTYPE_F32, true),
           first = make_product(&s, PH_DTYPE_F32, false);
    int64_t before = t_timings();
    assert_ok(do_product(s.stream, &first));
    assert_int_equal(t_timings(), before);
    (void)t_named_after_timing(&s, &timed, do_product, "");
    assert_true(!t_on_fake() || t_timings() > before);
    t_say("FAKE_CUBLASLT_TIMES", "1,3");
    before = t_timings();
    size_t chosen = t_named_after_timing(&s, &timed, do_product, "fake_cublaslt_product_1");
    size_t unchosen = t_named_after_timing(&s, &first, do_product, "fake_cublaslt_product");
    assert_int_equal(t_timings(), before);
    assert_int_equal(chosen, t_on_fake() ? 1 : 0);
    assert_int_equal(unchosen, t_on_fake() ? 1 : 0);
    t_work_free(&timed);
    t_work_free(&first);
    t_scene_close(&s);
    t_say("FAKE_CUBLASLT_TIMES", NULL);
}

/* ---- captures ---- */
TEST(a_first_use_in_a_capture_times_nothing)
{
    t_scene s;
    size_t bytes;
    t_say("FAKE_CUBLASLT_TIMES", "3,1");
    t_scene_open(&s);
    t_work w = make_product(&s, PH_DTYPE_F32, true);
    int64_t before = t_timings();
    ph_set_benchmark(true);
    size_t named = t_captured_named(&s, &w, do_product, "fake_cublaslt_product", NULL);
    assert_ok(do_product(s.stream, &w));
    char *eager = t_work_contents(&s, &w, &bytes);
    (void)t_captured_named(&s, &w, do_product, "fake_cublaslt_product", eager);
    ph_set_benchmark(false);
    assert_int_equal(t_timings(), before);
    assert_int_equal(named, t_on_fake() ? 1 : 0);
    free(eager);
    t_work_free(&w);
    t_scene_close(&s);
    t_say("FAKE_CUBLASLT_TIMES", NULL);
}

/* On another stream than the one that captures. */
typedef struct beside {
    t_scene other;
    t_work w;
} beside;

static ph_status work_beside(ph_stream *stream, void *user)
{
    beside *b = user;
    (void)stream;
    return do_product(b->other.stream, &b->w);
}

TEST(a_first_use_beside_a_capture_times_nothing)
{
    t_scene s;
    beside b;
    ph_graph *graph;
    t_say("FAKE_CUBLASLT_TIMES", "3,1");
    t_scene_open(&s);
    b.other = s;
    assert_ok(ph_stream_create(&b.other.stream, s.device, NULL));
    assert_ok(ph_tape_create(&b.other.tape, b.other.stream, NULL));
    b.w = make_product(&b.other, PH_DTYPE_F32, true);
    int64_t before = t_timings();
    ph_set_benchmark(true);
    assert_ok(ph_graph_create(&graph, NULL));
    const ph_capture_options options = {.mode = PH_CAPTURE_RELAXED};
    assert_ok(ph_graph_capture(graph, s.stream, &options, work_beside, &b));
    ph_set_benchmark(false);
    assert_int_equal(t_timings(), before);
    assert_int_equal(t_captured_named(&b.other, &b.w, do_product, "fake_cublaslt_product", NULL),
                     t_on_fake() ? 1 : 0);
    ph_graph_destroy(graph);
    t_work_free(&b.w);
    ph_tape_destroy(b.other.tape);
    ph_stream_destroy(b.other.stream);
    t_scene_close(&s);
    t_say("FAKE_CUBLASLT_TIMES", NULL);
}

/* A capture of another thread's forbids to wait: the product is done all the same. */
static void *work_of_thread(void *user)
{
    beside *b = user;
    assert_ok(do_product(b->other.stream, &b->w));
    return NULL;
}

static ph_status work_in_thread(ph_stream *stream, void *user)
{
    pthread_t thread;
    (void)stream;
    assert_int_equal(pthread_create(&thread, NULL, work_of_thread, user), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return PH_OK;
}

TEST(a_capture_of_another_thread_lives)
{
    t_scene s;
    beside b;
    ph_graph *graph;
    t_say("FAKE_CUBLASLT_TIMES", "3,1");
    t_scene_open(&s);
    b.other = s;
    assert_ok(ph_stream_create(&b.other.stream, s.device, NULL));
    assert_ok(ph_tape_create(&b.other.tape, b.other.stream, NULL));
    b.w = make_product(&b.other, PH_DTYPE_F32, true);
    assert_ok(ph_stream_synchronize(b.other.stream));
    int64_t before = t_timings();
    ph_set_benchmark(true);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, work_in_thread, &b));
    ph_set_benchmark(false);
    assert_int_equal(t_timings(), before);
    ph_graph_destroy(graph);
    t_work_free(&b.w);
    ph_tape_destroy(b.other.tape);
    ph_stream_destroy(b.other.stream);
    t_scene_close(&s);
    t_say("FAKE_CUBLASLT_TIMES", NULL);
}

/* ---- shortages ---- */
/* Nothing but the memory of the work itself: that is enough, and nobody is told. */
TEST(memory_for_it_may_be_missing)
{
    t_scene s;
    ph_memory_stats stats;
    t_say("FAKE_CUBLASLT_TIMES", "3,1");
    t_scene_open(&s);
    t_work w = make_product(&s, PH_DTYPE_F64, true);
    assert_ok(do_product(s.stream, &w));
    assert_ok(ph_memory_get_stats(&stats, s.device));
    assert_ok(ph_memory_set_limit(s.device, stats.reserved));
    t_work other = w;
    other.in[2] = NULL;
    assert_status(ph_fail(PH_ERROR_ARGUMENT, "as before"), PH_ERROR_ARGUMENT);
    ph_set_benchmark(true);
    assert_ok(do_product(s.stream, &other));
    ph_set_benchmark(false);
    assert_string_equal(ph_error_last()->message, "as before");
    assert_ok(ph_memory_set_limit(s.device, 0));
    t_work_free(&w);
    t_scene_close(&s);
    t_say("FAKE_CUBLASLT_TIMES", NULL);
}

/* Each event call fails once: the work is done with the first. */
TEST(timing_that_fails_is_no_failure)
{
    static const char *const calls[] = {"cuEventCreate", "cuEventRecordWithFlags",
                                        "cuEventSynchronize", "cuEventElapsedTime", "cuEventQuery"};
    if (!t_on_fake())
        return;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        t_scene s;
        t_say("FAKE_CUBLASLT_TIMES", "3,1");
        t_scene_open(&s);
        t_work w = make_product(&s, PH_DTYPE_F32, true);
        assert_ok(ph_stream_synchronize(s.stream));
        fake_cuda()->fail_call(calls[i], 999, 1000);
        ph_set_benchmark(true);
        ph_status status = do_product(s.stream, &w);
        ph_set_benchmark(false);
        fake_cuda()->fail_call(calls[i], 0, 0);
        assert_ok(status);
        assert_int_equal(t_captured_named(&s, &w, do_product, "fake_cublaslt_product", NULL), 1);
        t_work_free(&w);
        t_scene_close(&s);
        t_say("FAKE_CUBLASLT_TIMES", NULL);
    }
}

/* ---- threads ---- that meet a shape at the same moment: what one took, all have. */
enum {
    THREADS = 4
};

static void *first_use(void *user)
{
    beside *b = user;
    for (int i = 0; i < 3; i++)
        assert_ok(do_product(b->other.stream, &b->w));
    return NULL;
}

TEST(threads_take_the_same)
{
    t_scene s;
    beside b[THREADS];
    pthread_t thread[THREADS];
    t_say("FAKE_CUBLASLT_TIMES", "3,1,2");
    t_scene_open(&s);
    for (int i = 0; i < THREADS; i++) {
        b[i].other = s;
        assert_ok(ph_stream_create(&b[i].other.stream, s.device, NULL));
        assert_ok(ph_tape_create(&b[i].other.tape, b[i].other.stream, NULL));
        b[i].w = make_product(&b[i].other, PH_DTYPE_F32, true);
    }
    ph_set_benchmark(true);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, first_use, &b[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    ph_set_benchmark(false);
    for (int i = 0; i < THREADS; i++) {
        size_t bytes;
        char *eager = t_work_contents(&b[i].other, &b[i].w, &bytes);
        (void)t_captured_named(&b[i].other, &b[i].w, do_product, "", eager);
        free(eager);
        t_work_free(&b[i].w);
        ph_tape_destroy(b[i].other.tape);
        ph_stream_destroy(b[i].other.stream);
    }
    t_scene_close(&s);
    t_say("FAKE_CUBLASLT_TIMES", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_a_switch),
        cmocka_unit_test(results_are_those_of_products),
        cmocka_unit_test(the_fastest_is_taken),
        cmocka_unit_test(what_refuses_is_left_out),
        cmocka_unit_test(a_search_that_fails_is_no_failure),
        cmocka_unit_test(nothing_is_left),
        cmocka_unit_test(a_choice_stays),
        cmocka_unit_test(a_first_use_in_a_capture_times_nothing),
        cmocka_unit_test(a_first_use_beside_a_capture_times_nothing),
        cmocka_unit_test(a_capture_of_another_thread_lives),
        cmocka_unit_test(memory_for_it_may_be_missing),
        cmocka_unit_test(timing_that_fails_is_no_failure),
        cmocka_unit_test(threads_take_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
