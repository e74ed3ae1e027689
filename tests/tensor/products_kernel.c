/* SPDX-License-Identifier: MIT */
/* tests/tensor/products_kernel.c: products whose kernel is launched without cuBLASLt, on a GPU:
 * results and graphs are those of cuBLASLt's calls, and where its calls differ in more than
 * addresses they are made. */
#include "fake/fake_cuda.h"
#include "support/tensors.h"
#include "support/test.h"
#include "tensor/backend/backend.h"
#include "tensor/products/products.h"
#include "tensor/products/products_plan.h"
#include "tensor/tape/tape.h"
#include <dlfcn.h>
#include <phonograph/cuda.h>
#include <phonograph/inspect/record.h>
#include <pthread.h>

/* ---- products of one kind, with memory of their own each time ---- */
typedef struct kind {
    ph_dtype dtype;
    int64_t batch, m, n, k; /* batch 0: matrices */
    bool bias, transposed;
} kind;

static const kind kinds[] = {
    {PH_DTYPE_F32, 0, 8, 16, 32, false, false},  {PH_DTYPE_F32, 0, 8, 16, 32, true, false},
    {PH_DTYPE_F32, 3, 8, 16, 32, false, false},  {PH_DTYPE_F64, 0, 8, 16, 32, false, false},
    {PH_DTYPE_F16, 0, 64, 128, 64, true, false}, {PH_DTYPE_BF16, 0, 128, 64, 64, false, true},
    {PH_DTYPE_F32, 0, 1, 7, 5, false, false},    {PH_DTYPE_BF16, 0, 5, 3, 7, false, false},
};
enum {
    KINDS = sizeof kinds / sizeof kinds[0],
    CALLS = 5
};

static ph_tensor *operand(ph_tape *tape, const kind *k, int64_t rows, int64_t columns, int call)
{
    ph_shape shape = k->batch ? PH_SHAPE(k->batch, rows, columns) : PH_SHAPE(rows, columns);
    ph_tensor *line = ph_arange(tape, PH_DTYPE_F32, call - 3, 1.0 / 64, ph_shape_count(&shape));
    return ph_cast(tape, ph_reshape(tape, line, shape), k->dtype);
}

static ph_tensor *product(ph_tape *tape, const kind *k, int call)
{
    ph_tensor *a = operand(tape, k, k->m, k->k, call);
    if (k->bias) {
        ph_tensor *bias = operand(tape, &(kind){.dtype = k->dtype}, 1, k->n, call + 7);
        return ph_linear(tape, a, operand(tape, k, k->n, k->k, call + 3),
                         ph_reshape(tape, bias, PH_SHAPE(k->n)));
    }
    if (!k->transposed)
        return ph_matmul(tape, a, operand(tape, k, k->k, k->n, call + 3));
    ph_tensor *b = operand(tape, k, k->n, k->k, call + 3);
    return ph_matmul(tape, a, ph_transpose(tape, b, 0, 1));
}

typedef struct results {
    unsigned char *of[CALLS];
    size_t bytes;
} results;

static void read_results(results *out, ph_tape *tape, ph_tensor *const c[CALLS])
{
    for (int call = 0; call < CALLS; call++) {
        out->bytes = ph_tensor_bytes(c[call]);
        out->of[call] = malloc(out->bytes);
        assert_non_null(out->of[call]);
        assert_ok(ph_tensor_read(tape, c[call], out->of[call], out->bytes));
    }
}

static void free_results(results *r)
{
    for (int call = 0; call < CALLS; call++)
        free(r->of[call]);
}

static void expect_same(const results *x, const results *y)
{
    assert_int_equal(x->bytes, y->bytes);
    for (int call = 0; call < CALLS; call++)
        assert_memory_equal(x->of[call], y->of[call], x->bytes);
}

/* ---- products, eager and captured ---- all results stay, so that addresses differ. */
static void run_eagerly(results *out, t_scene *s, const kind *k)
{
    ph_tensor *kept[CALLS];
    for (int call = 0; call < CALLS; call++)
        kept[call] = ph_tensor_retain(product(s->tape, k, call));
    assert_ok(ph_tape_status(s->tape));
    read_results(out, s->tape, kept);
    assert_ok(ph_tape_clear(s->tape));
    for (int call = 0; call < CALLS; call++)
        ph_tensor_release(kept[call]);
}

typedef struct captured {
    ph_tape *tape;
    const kind *kind;
    ph_graph *graph;
    ph_tensor *out[CALLS];
} captured;

static ph_status capture_products(ph_stream *stream, void *user)
{
    captured *c = user;
    (void)stream;
    for (int call = 0; call < CALLS; call++)
        c->out[call] = ph_tensor_retain(product(c->tape, c->kind, call));
    return ph_tape_clear(c->tape);
}

static void capture_kind(captured *c, t_scene *s, const kind *k, const ph_capture_options *options)
{
    *c = (captured){.tape = s->tape, .kind = k};
    assert_ok(ph_graph_create(&c->graph, NULL));
    assert_ok(ph_graph_capture(c->graph, s->stream, options, capture_products, c));
}

static void replay_kind(results *out, const captured *c, t_scene *s)
{
    assert_ok(ph_graph_replay(c->graph, s->stream));
    read_results(out, s->tape, c->out);
    assert_ok(ph_tape_clear(s->tape));
}

static void drop_captured(captured *c)
{
    for (int call = 0; call < CALLS; call++)
        ph_tensor_release(c->out[call]);
    ph_graph_destroy(c->graph);
}

/* ---- what is known of plans ---- */
typedef struct plans {
    int all, learned, without; /* without: its calls differ, or learning failed too often */
} plans;

static plans count_plans(const t_scene *s)
{
    plans found = {0};
    const ph__products *products = atomic_load(&s->tape->backend->products);
    for (size_t i = 0; products && products->cublas && i < PH__PRODUCT_BUCKETS; i++)
        for (ph__product_plan *p = atomic_load(&products->cublas->plans[i]); p; p = p->next) {
            bool kernel = atomic_load(&p->kernel) != NULL;
            found.all++;
            found.learned += kernel;
            found.without += !kernel && atomic_load(&p->decided);
        }
    return found;
}

static void expect_plans(const t_scene *s, int learned, int without)
{
    plans found = count_plans(s);
    assert_int_equal(found.all, 1);
    assert_int_equal(found.learned, learned);
    assert_int_equal(found.without, without);
}

/* Kernels are learned at the second product of a kind. */
static void open_scene(t_scene *s)
{
    t_scene_open(s);
    ph__products *products = ph__products_of(s->tape->backend);
    assert_non_null(products);
    assert_int_equal(products->cublas->learn_after, PH__PRODUCT_USES);
    products->cublas->learn_after = 1;
}

static void open_library_scene(t_scene *s)
{
    setenv("PH_PRODUCTS", "cublaslt", 1);
    t_scene_open(s);
}

static void close_library_scene(t_scene *s)
{
    assert_int_equal(count_plans(s).learned + count_plans(s).without, 0);
    t_scene_close(s);
    unsetenv("PH_PRODUCTS");
}

/* Of the software cuBLASLt. */
static int64_t library_calls(void)
{
    int64_t (*calls)(void) = NULL;
    void *library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    *(void **)&calls = dlsym(library, "fake_cublaslt_calls");
    (void)dlclose(library);
    assert_non_null(calls);
    return calls();
}

static void need_gpu(void)
{
    if (!t_on_host())
        return;
    print_message("skipped: products of the host device have no plans\n");
    skip();
}

static void need_software(void)
{
    need_gpu();
    if (fake_cuda())
        return;
    print_message("skipped: a real cuBLASLt counts no calls, and cannot be told to differ\n");
    skip();
}

/* ---- nodes ---- */
static bool is_address(const ph_word *word)
{
    return word->kind == PH_WORD_PROVED || word->kind == PH_WORD_SUSPECTED;
}

/* All but addresses is equal. */
static void expect_same_nodes(const captured *x, const captured *y)
{
    const ph_record *a, *b;
    assert_ok(ph_graph_record(&a, x->graph));
    assert_ok(ph_graph_record(&b, y->graph));
    assert_int_equal(ph_record_node_count(a), ph_record_node_count(b));
    for (size_t i = 0; i < ph_record_node_count(a); i++) {
        ph_node_info p, q;
        assert_ok(ph_record_node(&p, a, i));
        assert_ok(ph_record_node(&q, b, i));
        assert_string_equal(p.name, q.name);
        assert_memory_equal(p.grid, q.grid, sizeof p.grid);
        assert_memory_equal(p.block, q.block, sizeof p.block);
        assert_int_equal(p.shared_bytes, q.shared_bytes);
        assert_int_equal(p.word_count, q.word_count);
        for (size_t w = 0; w < p.word_count; w++) {
            ph_word u, v;
            assert_ok(ph_record_word(&u, a, i, w));
            assert_ok(ph_record_word(&v, b, i, w));
            assert_true(u.value == v.value || (is_address(&u) && is_address(&v)));
        }
    }
}

/* ---- results ---- */
TEST(results_and_nodes_are_those_of_the_library)
{
    int all = 0;
    need_gpu();
    for (int i = 0; i < KINDS; i++) {
        results library, replayed, before, after, learned;
        captured of_library, c;
        t_scene s, t;
        open_library_scene(&s);
        run_eagerly(&library, &s, &kinds[i]);
        capture_kind(&of_library, &s, &kinds[i], NULL);
        replay_kind(&replayed, &of_library, &s);
        expect_same(&library, &replayed);

        unsetenv("PH_PRODUCTS");
        open_scene(&t);
        run_eagerly(&before, &t, &kinds[i]);
        expect_plans(&t, 0, 0);
        capture_kind(&c, &t, &kinds[i], NULL);
        replay_kind(&learned, &c, &t);
        run_eagerly(&after, &t, &kinds[i]);
        plans found = count_plans(&t);
        assert_int_equal(found.learned + found.without, 1);
        all += found.learned;
        expect_same_nodes(&of_library, &c);
        expect_same(&library, &before);
        expect_same(&library, &learned);
        expect_same(&library, &after);

        drop_captured(&c);
        t_scene_close(&t);
        drop_captured(&of_library);
        close_library_scene(&s);
        results *each[] = {&library, &replayed, &before, &after, &learned};
        for (size_t r = 0; r < sizeof each / sizeof *each; r++)
            free_results(each[r]);
    }
    print_message("%d of %d kinds have a kernel\n", all, (int)KINDS);
    assert_true(fake_cuda() ? all == KINDS : all > 0);
}

TEST(other_ways_are_refused_by_name)
{
    t_scene s;
    need_gpu();
    setenv("PH_PRODUCTS", "cuBLASLt", 1);
    t_scene_open(&s);
    assert_null(product(s.tape, &kinds[0], 0));
    assert_error(ph_tape_status(s.tape), PH_ERROR_ARGUMENT, "PH_PRODUCTS is \"cuBLASLt\"");
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, "set it to cublaslt");
    unsetenv("PH_PRODUCTS");
    assert_non_null(product(s.tape, &kinds[0], 0));
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

TEST(the_library_is_called_no_more)
{
    results eager;
    captured c;
    t_scene s;
    need_software();
    open_scene(&s);
    int64_t begin = library_calls();
    run_eagerly(&eager, &s, &kinds[0]);
    assert_int_equal(library_calls() - begin, CALLS);
    capture_kind(&c, &s, &kinds[0], NULL);
    assert_int_equal(library_calls() - begin, CALLS + 8);
    drop_captured(&c);
    free_results(&eager);
    run_eagerly(&eager, &s, &kinds[0]);
    assert_int_equal(library_calls() - begin, CALLS + 8);
    free_results(&eager);
    t_scene_close(&s);
}

/* Learning takes as long as many products. */
TEST(kinds_in_use_alone_are_learned)
{
    results eager;
    captured c;
    t_scene s;
    need_software();
    t_scene_open(&s);
    for (int uses = 0; uses + 2 * CALLS < PH__PRODUCT_USES; uses += CALLS) {
        run_eagerly(&eager, &s, &kinds[1]);
        free_results(&eager);
    }
    for (int i = 0; i < 3; i++) {
        expect_plans(&s, i == 2, 0);
        capture_kind(&c, &s, &kinds[1], NULL);
        drop_captured(&c);
    }
    t_scene_close(&s);
}

/* Between the begin of a capture and its products, and beside them. */
static ph_status capture_beside(ph_stream *stream, void *user)
{
    t_scene *other = user;
    captured c = {.tape = other[0].tape, .kind = &kinds[1]};
    results eager;
    run_eagerly(&eager, &other[1], &kinds[1]);
    free_results(&eager);
    ph_status status = capture_products(stream, &c);
    for (int call = 0; call < CALLS; call++)
        ph_tensor_release(c.out[call]);
    return status;
}

TEST(eager_products_beside_a_capture_keep_nothing_from_it)
{
    const ph_capture_options options = {.mode = PH_CAPTURE_RELAXED};
    t_scene s[2];
    ph_graph *graph;
    need_software();
    open_scene(&s[0]);
    s[1] = (t_scene){.device = s[0].device};
    assert_ok(ph_stream_create(&s[1].stream, s[1].device, NULL));
    assert_ok(ph_tape_create(&s[1].tape, s[1].stream, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s[0].stream, &options, capture_beside, s));
    expect_plans(&s[0], 1, 0);
    ph_graph_destroy(graph);
    ph_tape_destroy(s[1].tape);
    assert_ok(ph_stream_synchronize(s[1].stream));
    ph_stream_destroy(s[1].stream);
    t_scene_close(&s[0]);
}

/* The device can be synchronized at any moment, as beside no capture. */
TEST(eager_products_open_no_capture)
{
    results eager;
    t_scene s;
    need_software();
    open_scene(&s);
    int64_t captures = fake_cuda()->calls_of("cuStreamBeginCapture");
    for (int i = 0; i < KINDS; i++) {
        run_eagerly(&eager, &s, &kinds[i]);
        free_results(&eager);
    }
    assert_int_equal(fake_cuda()->calls_of("cuStreamBeginCapture"), captures);
    t_scene_close(&s);
}

/* Of a stream whose handle was given out: it may be in a capture of other code's. */
static int64_t questions_of_eager_products(t_scene *s)
{
    struct CUstream_st *handle;
    results eager;
    assert_ok(ph_stream_cuda(&handle, s->stream));
    int64_t before = fake_cuda()->calls_of("cuStreamGetCaptureInfo");
    run_eagerly(&eager, s, &kinds[1]);
    free_results(&eager);
    return fake_cuda()->calls_of("cuStreamGetCaptureInfo") - before;
}

TEST(eager_products_ask_no_more_than_before)
{
    t_scene s;
    need_software();
    open_library_scene(&s);
    int64_t library = questions_of_eager_products(&s);
    close_library_scene(&s);
    open_scene(&s);
    assert_int_equal(questions_of_eager_products(&s), library);
    t_scene_close(&s);
}

/* Also the streams for it are there before. */
TEST(global_captures_survive)
{
    const ph_capture_options options = {.mode = PH_CAPTURE_GLOBAL};
    results eager, replayed;
    captured c;
    t_scene s;
    need_gpu();
    open_scene(&s);
    run_eagerly(&eager, &s, &kinds[1]);
    int64_t streams = fake_cuda() ? fake_cuda()->calls_of("cuStreamCreateWithPriority") : 0;
    capture_kind(&c, &s, &kinds[1], &options);
    if (fake_cuda())
        assert_int_equal(fake_cuda()->calls_of("cuStreamCreateWithPriority"), streams);
    replay_kind(&replayed, &c, &s);
    expect_same(&eager, &replayed);
    if (fake_cuda())
        expect_plans(&s, 1, 0);
    drop_captured(&c);
    free_results(&eager);
    free_results(&replayed);
    t_scene_close(&s);
}

/* ---- contexts ---- */
static uint64_t pushes(void)
{
    return (uint64_t)fake_cuda()->calls_of("cuCtxPushCurrent");
}

/* One product of operands that are there; how often a context was pushed for it. */
static uint64_t pushes_of_product(ph_tape *tape, const kind *k, double *sum)
{
    ph_tensor *a = operand(tape, k, k->m, k->k, 0), *b = operand(tape, k, k->k, k->n, 3);
    assert_ok(ph_tape_status(tape));
    uint64_t before = pushes();
    ph_tensor *c = ph_matmul(tape, a, b);
    uint64_t made = pushes() - before;
    assert_non_null(c);
    assert_ok(ph_tensor_item(sum, tape, ph_sum(tape, c)));
    assert_ok(ph_tape_clear(tape));
    return made;
}

/* The default stream is the current context's, so that a context is pushed there. */
TEST(a_known_kernel_needs_a_context_on_the_default_stream_alone)
{
    captured c;
    t_scene s;
    ph_tape *legacy;
    double before, after, there;
    need_software();
    open_scene(&s);
    assert_true(pushes_of_product(s.tape, &kinds[0], &before) > 0);
    capture_kind(&c, &s, &kinds[0], NULL);
    expect_plans(&s, 1, 0);
    assert_int_equal(pushes_of_product(s.tape, &kinds[0], &after), 0);
    assert_ok(ph_tape_create(&legacy, ph_device_default_stream(s.device), NULL));
    assert_true(pushes_of_product(legacy, &kinds[0], &there) > 0);
    assert_true(before == after && before == there);
    ph_tape_destroy(legacy);
    drop_captured(&c);
    t_scene_close(&s);
}

/* ---- calls that differ in more than addresses ---- */
static void expect_odd(const char *way, bool learned)
{
    results eager, replayed, after;
    captured c;
    t_scene s;
    setenv("FAKE_CUBLASLT_ODD", way, 1);
    open_scene(&s);
    run_eagerly(&eager, &s, &kinds[1]);
    capture_kind(&c, &s, &kinds[1], NULL);
    replay_kind(&replayed, &c, &s);
    run_eagerly(&after, &s, &kinds[1]);
    print_message("%s\n", way);
    expect_plans(&s, learned, !learned);
    expect_same(&eager, &replayed);
    expect_same(&eager, &after);
    drop_captured(&c);
    t_scene_close(&s);
    unsetenv("FAKE_CUBLASLT_ODD");
    free_results(&eager);
    free_results(&replayed);
    free_results(&after);
}

TEST(odd_calls_go_through_the_library)
{
    static const char *const ways[] = {"alignment", "pair",         "other pair", "window",
                                       "counter",   "distance",     "stream",     "missing",
                                       "twice",     "block",        "shared",     "function",
                                       "clusters",  "programmatic", "domain",     "same"};
    need_software();
    expect_odd("", true);
    expect_odd("cluster", true);
    expect_odd("buffer", true);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        expect_odd(ways[i], false);
}

/* ---- failures ---- */
/* A driver that has not all that learning asks for. */
TEST(drivers_without_a_function_call_the_library)
{
    results eager, replayed;
    captured c;
    t_scene s;
    need_software();
    setenv("FAKE_CUDA_MISSING", "cuGraphKernelNodeGetAttribute", 1);
    open_scene(&s);
    run_eagerly(&eager, &s, &kinds[1]);
    capture_kind(&c, &s, &kinds[1], NULL);
    replay_kind(&replayed, &c, &s);
    expect_plans(&s, 0, 0);
    expect_same(&eager, &replayed);
    drop_captured(&c);
    t_scene_close(&s);
    unsetenv("FAKE_CUDA_MISSING");
    free_results(&eager);
    free_results(&replayed);
}

/* A failure is tried again in the next capture, three times in all. */
static void fail_captures(const char *name, int times)
{
    results eager, replayed;
    captured c;
    t_scene s;
    open_scene(&s);
    run_eagerly(&eager, &s, &kinds[1]);
    for (int i = 0; i <= times; i++) {
        if (i < times)
            fake_cuda()->fail_call(name, 2, 1);
        capture_kind(&c, &s, &kinds[1], NULL);
        fake_cuda()->fail_call(name, 0, 0);
        expect_plans(&s, i == times && times < 3, i >= 2 && times == 3);
        replay_kind(&replayed, &c, &s);
        expect_same(&eager, &replayed);
        free_results(&replayed);
        drop_captured(&c);
    }
    free_results(&eager);
    t_scene_close(&s);
}

TEST(learning_that_fails_is_tried_again)
{
    static const char *const names[] = {"cuGraphNodeGetDependencies", "cuGraphNodeGetType",
                                        "cuGraphKernelNodeGetParams", "cuFuncGetParamInfo",
                                        "cuGraphKernelNodeGetAttribute"};
    need_software();
    for (int times = 1; times <= 3; times++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            fail_captures(names[i], times);
}

/* Each call of the driver in turn, the second parameter's size among them. */
TEST(a_failing_call_gives_an_error_or_right_results)
{
    bool ended = false;
    need_software();
    for (int64_t n = 0; !ended; n++) {
        results eager, after;
        captured c;
        t_scene s;
        open_scene(&s);
        run_eagerly(&eager, &s, &kinds[1]);
        int64_t before = fake_cuda()->calls();
        c = (captured){.tape = s.tape, .kind = &kinds[1]};
        assert_ok(ph_graph_create(&c.graph, NULL));
        fake_cuda()->fail_after(n, 2);
        ph_status status = ph_graph_capture(c.graph, s.stream, NULL, capture_products, &c);
        fake_cuda()->fail_after(-1, 0);
        ended = fake_cuda()->calls() - before < n;
        if (status == PH_OK) {
            replay_kind(&after, &c, &s);
            expect_same(&eager, &after);
            free_results(&after);
        }
        ph_ignore(ph_tape_clear(s.tape));
        run_eagerly(&after, &s, &kinds[1]);
        expect_same(&eager, &after);
        free_results(&after);
        free_results(&eager);
        drop_captured(&c);
        t_scene_close(&s);
    }
}

/* ---- threads ---- */
typedef struct worker {
    ph_device *device;
    int first;
    results results[KINDS];
} worker;

static void *work(void *user)
{
    const ph_capture_options options = {.mode = PH_CAPTURE_THREAD_LOCAL};
    worker *w = user;
    t_scene s = {.device = w->device};
    captured captures[KINDS];
    assert_ok(ph_stream_create(&s.stream, s.device, NULL));
    assert_ok(ph_tape_create(&s.tape, s.stream, NULL));
    for (int k = 0; k < KINDS; k++) {
        int i = (w->first + k) % KINDS;
        capture_kind(&captures[i], &s, &kinds[i], &options);
    }
    for (int i = 0; i < KINDS; i++) {
        replay_kind(&w->results[i], &captures[i], &s);
        drop_captured(&captures[i]);
    }
    ph_tape_destroy(s.tape);
    assert_ok(ph_stream_synchronize(s.stream));
    ph_stream_destroy(s.stream);
    return NULL;
}

TEST(threads_learn_once)
{
    enum {
        WORKERS = 4
    };
    pthread_t threads[WORKERS];
    t_scene s;
    need_gpu();
    worker *workers = calloc(WORKERS, sizeof *workers);
    assert_non_null(workers);
    open_scene(&s);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (worker){.device = s.device, .first = i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int k = 0; k < KINDS; k++) {
        results reference;
        run_eagerly(&reference, &s, &kinds[k]);
        for (int i = 0; i < WORKERS; i++) {
            expect_same(&reference, &workers[i].results[k]);
            free_results(&workers[i].results[k]);
        }
        free_results(&reference);
    }
    plans found = count_plans(&s);
    assert_int_equal(found.all, KINDS);
    assert_int_equal(found.learned + found.without, KINDS);
    if (fake_cuda())
        assert_int_equal(found.learned, KINDS);
    free(workers);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_and_nodes_are_those_of_the_library),
        cmocka_unit_test(other_ways_are_refused_by_name),
        cmocka_unit_test(the_library_is_called_no_more),
        cmocka_unit_test(kinds_in_use_alone_are_learned),
        cmocka_unit_test(eager_products_beside_a_capture_keep_nothing_from_it),
        cmocka_unit_test(eager_products_open_no_capture),
        cmocka_unit_test(eager_products_ask_no_more_than_before),
        cmocka_unit_test(global_captures_survive),
        cmocka_unit_test(a_known_kernel_needs_a_context_on_the_default_stream_alone),
        cmocka_unit_test(odd_calls_go_through_the_library),
        cmocka_unit_test(drivers_without_a_function_call_the_library),
        cmocka_unit_test(learning_that_fails_is_tried_again),
        cmocka_unit_test(a_failing_call_gives_an_error_or_right_results),
        cmocka_unit_test(threads_learn_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
