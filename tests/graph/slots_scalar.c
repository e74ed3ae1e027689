/* SPDX-License-Identifier: MIT */
/* tests/graph/slots_scalar.c: scalar slots that two captures prove, with an old and a new value,
 * and differences that are not the value's. */
#include "fake/fake_cuda.h"
#include "slots_proved.h"
#include "support/test.h"

#include <string.h>

/* y += a x, as other code would launch it: its parameters are not described. */
static ph_kernel *axpy, *mixed;

typedef struct axpy_args {
    uint64_t n;
    const float *x;
    float *y;
    float a;
    uint32_t unused;
} axpy_args;

static void axpy_host(const ph_block_range *range, const void *args)
{
    const axpy_args *p = args;
    uint64_t end = range->end * range->block[0];
    for (uint64_t i = range->begin * range->block[0]; i < end && i < p->n; i++)
        p->y[i] += p->a * p->x[i];
}

/* y[0] = a, y[1] = b, y[2] = c: 4 bytes each at offsets that no word begins with. */
typedef struct mixed_args {
    int32_t *y;
    uint8_t before;
    uint8_t a[4];
    uint8_t between[3];
    int32_t b, c;
} mixed_args;

static void mixed_host(const ph_block_range *range, const void *args)
{
    const mixed_args *p = args;
    if (range->begin > 0)
        return;
    memcpy(p->y, p->a, sizeof p->a);
    p->y[1] = p->b;
    p->y[2] = p->c;
}

static const ph_kernel_source sources[] = {
    {.name = "untyped_axpy",
     .host = axpy_host,
     .args_size = sizeof(axpy_args),
     .cuda =
         "struct args { unsigned long long n; const float *x; float *y; float a; unsigned unused; "
         "};\n"
         "extern \"C\" __global__ void untyped_axpy(args p)\n"
         "{\n"
         "    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"
         "    if (i < p.n) p.y[i] += p.a * p.x[i];\n"
         "}\n"},
    {.name = "mixed",
     .host = mixed_host,
     .args_size = sizeof(mixed_args),
     .cuda = "extern \"C\" __global__ void mixed(int *y, unsigned char before, unsigned char a0,\n"
             "    unsigned char a1, unsigned char a2, unsigned char a3, unsigned char u0,\n"
             "    unsigned char u1, unsigned char u2, int b, int c)\n"
             "{\n"
             "    if (blockIdx.x > 0 || threadIdx.x > 0) return;\n"
             "    y[0] = (int)(a0 | a1 << 8 | a2 << 16 | (unsigned)a3 << 24); y[1] = b; y[2] = c;\n"
             "}\n"}};

static int open_kernels(void **state)
{
    (void)open_world(state);
    for (int i = 0; i < 2; i++)
        fake_cuda_register(&sources[i]);
    assert_ok(ph_kernel_create(&axpy, world.device, &sources[0]));
    assert_ok(ph_kernel_create(&mixed, world.device, &sources[1]));
    return 0;
}

static int close_kernels(void **state)
{
    ph_kernel_release(axpy);
    ph_kernel_release(mixed);
    return close_world(state);
}

/* ---- the work ---- */
enum {
    PLAIN,
    HALF,      /* half of the value goes somewhere, too */
    NUMBER,    /* another number differs */
    SIZE,      /* the larger value fills more */
    FILLING,   /* a fill of the value */
    HOST,      /* host functions */
    PINNED,    /* a copy out of host memory */
    MORE,      /* one more node */
    ELSEWHERE, /* another address */
    FARTHER,   /* another place of memory that the capture allocates and frees */
    RING       /* of memory that it keeps */
};
typedef struct work {
    float value;
    int which;
    bool changed;
} work;
static float *pinned, *rings[2];

static void nothing(void *user)
{
    (void)user;
}

static ph_status launch(ph_stream *stream, const float *x, float *y, float a)
{
    const axpy_args args = {N, x, y, a, 7};
    const ph_launch_config config = t_config(N);
    return ph_launch(stream, axpy, &config, &args, sizeof args);
}

/* y = value * (x + 1) by way of memory of the capture, by kernels with and without described
 * parameters. */
static ph_status body(ph_stream *stream, void *user)
{
    const work *w = user;
    float *x = (float *)base[0], *y = (float *)out, *temporary;
    PH_TRY(PH_NEW(&temporary, N, stream));
    ph_status status = t_fill_f(&world, stream, temporary, N, 1);
    if (status == PH_OK)
        status = launch(stream, x, temporary, 1);
    if (status == PH_OK)
        status = t_fill_f(&world, stream, y, N, 0);
    if (status == PH_OK)
        status = launch(stream, temporary, y, w->value);
    if (status == PH_OK)
        status = t_axpy(&world, stream, w->value, temporary, y, N);
    if (status == PH_OK && w->which == FARTHER)
        status = launch(stream, temporary + w->changed, y, 0);
    ph_free(temporary, stream);
    PH_TRY(status);
    switch (w->which) {
    case HALF:
        return launch(stream, x, y, w->value / 2);
    case NUMBER:
        return t_fill(&world, stream, base[1], 8, w->changed);
    case SIZE:
        return ph_memset_u32(base[1], 1, 9 + w->changed, stream);
    case FILLING:
        return ph_memset_u32(base[1], 9 + w->changed, 9, stream);
    case HOST:
        return ph_launch_host(stream, nothing, NULL);
    case PINNED:
        return ph_memcpy(base[1], pinned, 64, stream);
    case MORE:
        return w->changed ? launch(stream, x, y, 1) : PH_OK;
    case ELSEWHERE:
        return launch(stream, (float *)base[w->changed ? 1 : 2], y, 1);
    case RING:
        PH_TRY(PH_NEW(&rings[w->changed], 2 * N, stream));
        return launch(stream, rings[w->changed] + (w->changed ? N : 0), y, 0);
    default:
        return PH_OK;
    }
}

static ph_slot_proof prove(int which, float old_value, float new_value)
{
    ph_slot_proof proof;
    work w = {old_value, which, false};
    capture(graph, body, &w);
    w = (work){new_value, which, true};
    capture(shifted, body, &w);
    assert_ok(
        ph_graph_slot_prove_scalar(&proof, graph, shifted, "rate", &old_value, &new_value, 4));
    return proof;
}

static void drop(void)
{
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_reset(shifted));
}

static void expect_all(float value)
{
    float host[N];
    t_read((int32_t *)host, out, sizeof host, world.stream);
    for (int i = 0; i < N; i++)
        assert_true(host[i] == value);
}

TEST(a_proved_scalar_changes_both_of_its_uses)
{
    ph_slot_info info;
    ph_slot_proof proof = prove(PLAIN, 0.125f, 3.7f);
    assert_string_equal(proof.reason, "");
    assert_int_equal(proof.slot, 0);
    assert_int_equal(proof.uses, 2);
    ph_graph_destroy(shifted);
    assert_ok(ph_graph_create(&shifted, NULL));
    assert_ok(ph_graph_slot_get(&info, graph, proof.slot));
    assert_string_equal(info.name, "rate");
    assert_false(info.address);
    assert_int_equal(info.bytes, 4);
    assert_true(*(const float *)info.current == 0.125f);
    assert_ok(t_fill_f(&world, world.stream, (float *)base[0], N, 3));
    assert_ok(ph_graph_replay(graph, world.stream));
    expect_all(1);
    for (int i = 1; i < 4; i++) {
        const float value = (float)i;
        assert_ok(
            ph_graph_replay_with(graph, world.stream, &(ph_slot_value){proof.slot, &value}, 1));
        expect_all(8 * value);
    }
    assert_ok(ph_graph_replay(graph, world.stream));
    expect_all(24);
}

TEST(test_differences_that_nothing_explains)
{
    static const struct {
        int which;
        const char *words;
    } rows[] = {
        {HALF, "of its parameters, in word +24, is 0x"},
        {NUMBER, "(fill_i32): byte 16 of its parameters, in word value, is 0x00 and 0x01"},
        {SIZE, "its size differs"},
        {FILLING, "its value differs"},
        {HOST, "what a host function does"},
        {PINNED, "it reads host memory"},
        {MORE, "the changed capture has 6 nodes, the graph 5"},
        {ELSEWHERE, "in word +8, is 0x"},
        {FARTHER, "in word +8, is 0x"},
        {RING, "in word +8, is 0x"},
    };
    assert_ok(ph_malloc_pinned(&pinned, 64, 1, world.stream));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ph_slot_proof proof = prove(rows[i].which, 0.125f, 3.7f);
        assert_int_equal(proof.slot, PH_SLOT_NONE);
        assert_int_equal(proof.uses, 0);
        assert_int_equal(ph_graph_slot_count(graph), 0);
        if (!strstr(proof.reason, rows[i].words))
            fail_msg("row %zu: %s", i, proof.reason);
        drop();
    }
    ph_free_pinned(pinned, world.stream);
    for (int i = 0; i < 2; i++)
        ph_free(rings[i], world.stream);
}

/* The captures differ nowhere: nothing says that the graph has the value. */
TEST(test_no_difference)
{
    ph_slot_proof proof;
    work w = {2, PLAIN, false};
    capture(graph, body, &w);
    capture(shifted, body, &w);
    assert_ok(
        ph_graph_slot_prove_scalar(&proof, graph, shifted, NULL, &(float){2}, &(float){3}, 4));
    assert_int_equal(proof.slot, PH_SLOT_NONE);
    assert_non_null(strstr(proof.reason, "no parameter differs"));
}

/* ---- bytes ---- at any offset, a whole struct of them, beside others that are equal. */
static ph_status mixed_body(ph_stream *stream, void *user)
{
    const int32_t *values = user;
    mixed_args args = {.y = out, .b = values[1], .c = values[2]};
    memcpy(args.a, &values[0], 4);
    return ph_launch(stream, mixed, NULL, &args, sizeof args);
}

static void prove_bytes(int32_t old_values[3], int32_t new_values[3], size_t first, size_t count,
                        size_t uses)
{
    ph_slot_proof proof;
    capture(graph, mixed_body, old_values);
    capture(shifted, mixed_body, new_values);
    assert_ok(ph_graph_slot_prove_scalar(&proof, graph, shifted, NULL, &old_values[first],
                                         &new_values[first], 4 * count));
    assert_int_equal(proof.uses, uses);
    assert_int_equal(proof.slot != PH_SLOT_NONE, uses > 0);
    if (uses) {
        int32_t host[3];
        assert_ok(ph_graph_replay_with(graph, world.stream,
                                       &(ph_slot_value){proof.slot, &new_values[first]}, 1));
        t_read(host, out, sizeof host, world.stream);
        assert_memory_equal(host, new_values, sizeof host);
    }
    drop();
}

TEST(a_scalar_is_proved_from_the_bytes_that_follow_it)
{
    int32_t plain[] = {5, 5, 6};
    prove_bytes(plain, (int32_t[]){0x01020304, 5, 6}, 0, 1, 1);
    prove_bytes(plain, (int32_t[]){9, 9, 6}, 0, 1, 2);
    prove_bytes(plain, (int32_t[]){0x05000000, 0x05000000, 6}, 1, 1, 2);
    prove_bytes(plain, (int32_t[]){5, 5, 0x10006}, 2, 1, 1); /* one byte of it differs, the third */
    prove_bytes(plain, (int32_t[]){5, 7, 8}, 1, 2, 1);
    prove_bytes(plain, (int32_t[]){5, 5, 8}, 1, 2, 1);
    prove_bytes(plain, (int32_t[]){9, 5, 8}, 0, 1, 0);
    prove_bytes(plain, (int32_t[]){5, 7, 8}, 1, 1, 0);
}

TEST(wrong_arguments_are_refused)
{
    ph_slot_proof proof;
    const float old_value = 1, new_value = 2;
    char large[257] = {1};
    work w = {1, PLAIN, false};
    capture(graph, body, &w);
    w.value = 2;
    capture(shifted, body, &w);
#define REFUSED(words, ...)                                                                        \
    assert_error(ph_graph_slot_prove_scalar(__VA_ARGS__), PH_ERROR_ARGUMENT, (words))
    REFUSED("out is NULL", NULL, graph, shifted, NULL, &old_value, &new_value, 4);
    REFUSED("changed is NULL", &proof, graph, NULL, NULL, &old_value, &new_value, 4);
    REFUSED("the graph itself", &proof, graph, graph, NULL, &old_value, &new_value, 4);
    REFUSED("old_value is NULL", &proof, graph, shifted, NULL, NULL, &new_value, 4);
    REFUSED("new_value is NULL", &proof, graph, shifted, NULL, &old_value, NULL, 4);
    REFUSED("1 to 256", &proof, graph, shifted, NULL, &old_value, &new_value, 0);
    REFUSED("1 to 256", &proof, graph, shifted, NULL, large, &new_value, 257);
    REFUSED("are the same 4 bytes", &proof, graph, shifted, NULL, &old_value, &old_value, 4);
    assert_int_equal(proof.slot, PH_SLOT_NONE);
    assert_int_equal(ph_graph_slot_count(graph), 0);
    assert_ok(ph_graph_slot_prove_scalar(&proof, graph, shifted, NULL, &old_value, &new_value, 4));
    assert_int_equal(proof.uses, 2);
    assert_error(
        ph_graph_slot_prove_scalar(&proof, graph, shifted, NULL, &old_value, &new_value, 4),
        PH_ERROR_STATE, "are a place of slot 0");
    assert_int_equal(proof.slot, PH_SLOT_NONE);
    assert_int_equal(ph_graph_slot_count(graph), 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_kernels, close_kernels)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_proved_scalar_changes_both_of_its_uses),
        CASE(test_differences_that_nothing_explains),
        CASE(test_no_difference),
        CASE(a_scalar_is_proved_from_the_bytes_that_follow_it),
        CASE(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests_name("graph.slots_scalar", tests, NULL, NULL);
}
