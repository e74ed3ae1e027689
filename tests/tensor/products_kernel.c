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

/* Blocks that stay taken, so that addresses differ from call to call. */
static void run_kind(results *out, t_scene *s, const kind *k)
{
    ph_tensor *kept[CALLS];
    for (int call = 0; call < CALLS; call++) {
        ph_tensor *c = product(s->tape, k, call);
        kept[call] = ph_tensor_retain(c);
        assert_ok(ph_tape_status(s->tape));
        out->bytes = ph_tensor_bytes(c);
        out->of[call] = malloc(out->bytes);
        assert_non_null(out->of[call]);
        assert_ok(ph_tensor_read(s->tape, c, out->of[call], out->bytes));
        assert_ok(ph_tape_clear(s->tape));
    }
    for (int call = 0; call < CALLS; call++)
        ph_tensor_release(kept[call]);
}

static void expect_same(results *x, results *y)
{
    assert_int_equal(x->bytes, y->bytes);
    for (int call = 0; call < CALLS; call++) {
        assert_memory_equal(x->of[call], y->of[call], x->bytes);
        free(x->of[call]);
        free(y->of[call]);
    }
}

typedef struct plans {
    int all, learned, without; /* without: asked, and not learned */
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
            found.without += !kernel && atomic_load(&p->learned);
        }
    return found;
}

/* Of the software cuBLASLt; -1: another one is there. */
static int64_t library_calls(void)
{
    int64_t (*calls)(void) = NULL;
    void *library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD);
    if (library) {
        *(void **)&calls = dlsym(library, "fake_cublaslt_calls");
        (void)dlclose(library);
    }
    return calls ? calls() : -1;
}

static void skip_because(const char *why)
{
    print_message("skipped: %s\n", why);
    skip();
}

/* ---- results ---- */
TEST(results_are_those_of_the_library)
{
    if (t_on_host())
        skip_because("products of the host device have no plans");
    for (int i = 0; i < KINDS; i++) {
        results library, learned;
        t_scene s;
        setenv("PH_PRODUCTS", "cublaslt", 1);
        t_scene_open(&s);
        run_kind(&library, &s, &kinds[i]);
        assert_int_equal(count_plans(&s).learned + count_plans(&s).without, 0);
        t_scene_close(&s);
        unsetenv("PH_PRODUCTS");
        t_scene_open(&s);
        run_kind(&learned, &s, &kinds[i]);
        plans found = count_plans(&s);
        print_message("kind %d: %d plans, %d with a kernel, %d without\n", i, found.all,
                      found.learned, found.without);
        assert_true(found.learned + found.without > 0);
        if (fake_cuda())
            assert_int_equal(found.without, 0);
        t_scene_close(&s);
        expect_same(&library, &learned);
    }
}

TEST(the_library_is_called_no_more)
{
    t_scene s;
    if (t_on_host() || !fake_cuda())
        skip_because("the software cuBLASLt alone counts its calls");
    t_scene_open(&s);
    int64_t begin = library_calls();
    for (int call = 0; call < 2; call++)
        assert_non_null(product(s.tape, &kinds[0], call));
    int64_t after = library_calls();
    assert_int_equal(after - begin, 1 + 4); /* the first one, and those that are captured */
    for (int call = 2; call < 9; call++)
        assert_non_null(product(s.tape, &kinds[0], call));
    assert_int_equal(library_calls(), after);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

/* ---- captures ---- */
typedef struct captured {
    ph_tape *tape;
    const kind *kind;
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

/* The second of its products learns, inside the capture. */
static void replay_kind(results *out, size_t *nodes, const kind *k)
{
    t_scene s;
    ph_graph *graph;
    const ph_record *record;
    t_scene_open(&s);
    captured c = {.tape = s.tape, .kind = k};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, capture_products, &c));
    assert_ok(ph_graph_record(&record, graph));
    *nodes = ph_record_node_count(record);
    assert_ok(ph_graph_replay(graph, s.stream));
    for (int call = 0; call < CALLS; call++) {
        out->bytes = ph_tensor_bytes(c.out[call]);
        out->of[call] = malloc(out->bytes);
        assert_non_null(out->of[call]);
        assert_ok(ph_tensor_read(s.tape, c.out[call], out->of[call], out->bytes));
        ph_tensor_release(c.out[call]);
    }
    assert_ok(ph_tape_clear(s.tape));
    ph_graph_destroy(graph);
    t_scene_close(&s);
}

TEST(captures_have_the_nodes_of_the_library)
{
    if (t_on_host())
        skip_because("products of the host device have no plans");
    for (int i = 0; i < KINDS; i++) {
        results library, learned;
        size_t nodes, nodes_learned;
        setenv("PH_PRODUCTS", "cublaslt", 1);
        replay_kind(&library, &nodes, &kinds[i]);
        unsetenv("PH_PRODUCTS");
        replay_kind(&learned, &nodes_learned, &kinds[i]);
        assert_int_equal(nodes, nodes_learned);
        expect_same(&library, &learned);
    }
}

/* ---- calls that differ in more than addresses ---- */
static void expect_odd(const char *way, bool is_learned)
{
    results even, odd;
    t_scene s;
    t_scene_open(&s);
    run_kind(&even, &s, &kinds[1]);
    t_scene_close(&s);
    setenv("FAKE_CUBLASLT_ODD", way, 1);
    t_scene_open(&s);
    run_kind(&odd, &s, &kinds[1]);
    plans found = count_plans(&s);
    t_scene_close(&s);
    unsetenv("FAKE_CUBLASLT_ODD");
    assert_int_equal(found.all, 1);
    assert_int_equal(found.learned, is_learned);
    assert_int_equal(found.without, !is_learned);
    expect_same(&even, &odd);
}

TEST(odd_calls_go_through_the_library)
{
    if (t_on_host() || !fake_cuda())
        skip_because("the software cuBLASLt alone can be told to differ");
    expect_odd("", true);
    expect_odd("cluster", true);
    expect_odd("buffer", true);
    expect_odd("alignment", false);
    expect_odd("counter", false);
    expect_odd("distance", false);
    expect_odd("stream", false);
    expect_odd("twice", false);
}

/* A driver that has not all that learning asks for. */
TEST(drivers_without_a_function_call_the_library)
{
    results library, found;
    t_scene s;
    if (t_on_host() || !fake_cuda())
        skip_because("the software libcuda alone can be told to lack a function");
    setenv("PH_PRODUCTS", "cublaslt", 1);
    t_scene_open(&s);
    run_kind(&library, &s, &kinds[1]);
    t_scene_close(&s);
    unsetenv("PH_PRODUCTS");
    setenv("FAKE_CUDA_MISSING", "cuGraphKernelNodeGetAttribute", 1);
    t_scene_open(&s);
    run_kind(&found, &s, &kinds[1]);
    assert_int_equal(count_plans(&s).learned + count_plans(&s).without, 0);
    t_scene_close(&s);
    unsetenv("FAKE_CUDA_MISSING");
    expect_same(&library, &found);
}

/* ---- threads ---- */
typedef struct worker {
    ph_device *device;
    results results;
} worker;

static void *work(void *user)
{
    worker *w = user;
    t_scene s = {.device = w->device};
    assert_ok(ph_stream_create(&s.stream, s.device, NULL));
    assert_ok(ph_tape_create(&s.tape, s.stream, NULL));
    run_kind(&w->results, &s, &kinds[1]);
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
    worker workers[WORKERS];
    pthread_t threads[WORKERS];
    t_scene s;
    if (t_on_host())
        skip_because("products of the host device have no plans");
    t_scene_open(&s);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (worker){.device = s.device};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    results reference;
    run_kind(&reference, &s, &kinds[1]);
    for (int i = 0; i < WORKERS; i++)
        for (int call = 0; call < CALLS; call++) {
            assert_memory_equal(reference.of[call], workers[i].results.of[call], reference.bytes);
            free(workers[i].results.of[call]);
        }
    for (int call = 0; call < CALLS; call++)
        free(reference.of[call]);
    plans found = count_plans(&s);
    assert_int_equal(found.all, 1);
    assert_int_equal(found.learned + found.without, 1);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_the_library),
        cmocka_unit_test(the_library_is_called_no_more),
        cmocka_unit_test(captures_have_the_nodes_of_the_library),
        cmocka_unit_test(odd_calls_go_through_the_library),
        cmocka_unit_test(drivers_without_a_function_call_the_library),
        cmocka_unit_test(threads_learn_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
