/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_outside.c: memory that graphed callables use and that nobody declared: what
 * is read is held, what is written is kept apart from inputs, and what forward replaces is
 * refused. */
#include "support/graphed_nets.h"
#include "support/kernels.h"
#include "support/test.h"

enum {
    N = 4096
};

typedef struct cell {
    ph_tensor *state, *other;
    ph_kernel *kernel;
    int32_t *raw;
    ph_module *plain, *graphed;
    int calls;
} cell;

static ph_module *make(const t_scene *s, cell *c, const char *name, ph_forward_fn forward,
                       const ph_parameter *buffer)
{
    const ph_module_desc desc = {.name = name,
                                 .forward = forward,
                                 .self = c,
                                 .buffers = buffer,
                                 .buffer_count = buffer ? 1 : 0};
    assert_ok(ph_module_create(&c->plain, s->device, &desc));
    return c->plain;
}

static ph_tensor *lasting(const t_scene *s, int64_t count, double value)
{
    ph_tensor *x = ph_tensor_retain(ph_full(s->tape, PH_DTYPE_F32, PH_SHAPE(count), value));
    assert_ok(ph_tape_clear(s->tape));
    return x;
}

static void graph(const t_scene *s, cell *c, const ph_graphed_options *options)
{
    ph_tensor *x = lasting(s, N, 0);
    c->graphed = gn_graph_one(c->plain, x, options);
    ph_tensor_release(x);
}

static void expect_refused(const t_scene *s, cell *c, const ph_graphed_options *options,
                           const char *words)
{
    ph_tensor *x = lasting(s, N, 0);
    const ph_sample sample = {.tensors = &x, .count = 1};
    assert_error(ph_make_graphed_callables(&c->graphed, &c->plain, &sample, 1, options),
                 PH_ERROR_STATE, words);
    assert_null(c->graphed);
    ph_tensor_release(x);
}

static void drop(cell *c)
{
    ph_module_release(c->graphed);
    ph_module_release(c->plain);
    ph_tensor_release(c->state);
    ph_tensor_release(c->other);
    *c = (cell){0};
}

static void expect_all(const t_scene *s, ph_tensor *x, float want, const char *what)
{
    static float got[N];
    assert_ok(ph_tape_status(s->tape));
    assert_ok(ph_tensor_read(s->tape, x, got, sizeof got));
    for (int i = 0; i < N; i++)
        if (got[i] != want)
            fail_msg("%s: element %d is %g, expected %g", what, i, (double)got[i], (double)want);
}

/* ---- written ---- a window that forward rolls: what comes is added to what lies one further
 * on. */
static void roll_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const cell *c = self;
    ph_tensor_add(tape, ph_slice(tape, c->state, 0, 1, N + 1), in[0], 1.0);
    out[0] = ph_mul_scalar(tape, c->state, 1);
}

typedef enum alias {
    UNDECLARED,      /* a tensor of the struct's, and inputs are views of it */
    BUFFER,          /* a buffer */
    BUFFER_WRAPPED,  /* a buffer over memory that another handle gives, too */
    NOTHING_WRAPPED, /* the same, undeclared */
    ALIASES
} alias;

static ph_tensor *wrapped(const t_scene *s, void *memory)
{
    ph_tensor *x;
    assert_ok(
        ph_tensor_wrap(&x, s->device, PH_DTYPE_F32, PH_SHAPE(N + 1), NULL, memory, NULL, NULL));
    return x;
}

/* What the module itself makes of an input at that place. */
static void roll_once(const t_scene *s, cell *c, bool graphed, ph_tensor *all, int64_t from,
                      float *got)
{
    static float before[N + 1];
    for (int i = 0; i <= N; i++)
        before[i] = (float)(1 + i % 7);
    assert_ok(ph_tensor_write(s->tape, c->state, before, sizeof before));
    ph_tensor *x = ph_slice(s->tape, all, 0, from, from + N);
    ph_tensor *y = ph_call(s->tape, graphed ? c->graphed : c->plain, x);
    assert_ok(ph_tape_status(s->tape));
    assert_ok(ph_tensor_read(s->tape, y, got, (N + 1) * sizeof *got));
    assert_ok(ph_tape_clear(s->tape));
}

static void try_roll(alias how, ph_graphed_inputs inputs)
{
    static float want[N + 1], got[N + 1];
    t_scene s;
    cell c = {0};
    void *memory;
    t_scene_open(&s);
    assert_ok(ph_malloc(&memory, N + 1, sizeof(float), s.stream));
    bool is_wrapped = how == BUFFER_WRAPPED || how == NOTHING_WRAPPED;
    c.state = is_wrapped ? wrapped(&s, memory) : lasting(&s, N + 1, 0);
    const ph_parameter buffer = {"state", &c.state};
    make(&s, &c, "roll", roll_forward, how == BUFFER || how == BUFFER_WRAPPED ? &buffer : NULL);
    graph(&s, &c, &(ph_graphed_options){.inputs = inputs});
    ph_tensor *all = is_wrapped ? wrapped(&s, memory) : ph_tensor_retain(c.state);
    ph_tensor *apart = lasting(&s, N + 1, 0.5);
    /* in turn with an input that the graph leaves alone, which calls look at once */
    for (int64_t turn = 0, from = 0; turn < 6; turn++, from = turn / 2 % 2) {
        ph_tensor *source = turn % 2 ? all : apart;
        roll_once(&s, &c, false, source, from, want);
        roll_once(&s, &c, true, source, from, got);
        for (int i = 0; i <= N; i++)
            if (got[i] != want[i])
                fail_msg("case %d, from %d: element %d is %g, expected %g", (int)how, (int)from, i,
                         (double)got[i], (double)want[i]);
    }
    ph_tensor_release(all);
    ph_tensor_release(apart);
    drop(&c);
    ph_free(memory, s.stream);
    t_scene_close(&s);
}

TEST(inputs_in_memory_that_a_graph_writes_are_copied)
{
    for (int how = 0; how < ALIASES; how++) {
        try_roll((alias)how, PH_GRAPHED_AUTO);
        try_roll((alias)how, PH_GRAPHED_COPY_INPUTS);
    }
}

/* Who saved it before the replay must not read it after. */
TEST(a_call_counts_a_version_of_the_memory_it_writes)
{
    t_scene s;
    cell c = {0};
    t_scene_open(&s);
    c.state = lasting(&s, N + 1, 1);
    make(&s, &c, "roll", roll_forward, NULL);
    graph(&s, &c, NULL);
    ph_tensor *w = lasting(&s, N + 1, 2), *x = lasting(&s, N, 1);
    assert_ok(ph_tensor_set_requires_grad(w, true));
    ph_tensor *loss = ph_sum(s.tape, ph_mul(s.tape, w, c.state));
    (void)ph_call(s.tape, c.graphed, x);
    ph_backward(s.tape, loss);
    assert_int_equal(ph_tape_status(s.tape), PH_ERROR_STATE);
    assert_int_equal(ph_tape_clear(s.tape), PH_ERROR_STATE);
    ph_tensor_release(w);
    ph_tensor_release(x);
    drop(&c);
    t_scene_close(&s);
}

/* ---- read ---- */
static void read_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const cell *c = self;
    out[0] = ph_mul(tape, in[0], c->state);
}

static void released(void *user)
{
    ++*(int *)user;
}

/* Freed by everybody else: the callable has it still, and lets it go with itself. */
TEST(memory_that_a_graph_reads_is_held)
{
    for (int foreign = 0; foreign < 2; foreign++) {
        t_scene s;
        cell c = {0};
        void *memory;
        int count = 0;
        t_scene_open(&s);
        assert_ok(ph_malloc(&memory, N, sizeof(float), s.stream));
        if (foreign)
            assert_ok(ph_tensor_wrap(&c.state, s.device, PH_DTYPE_F32, PH_SHAPE(N), NULL, memory,
                                     released, &count));
        else
            assert_ok(ph_tensor_create(&c.state, s.device, PH_DTYPE_F32, PH_SHAPE(N)));
        ph_tensor_fill(s.tape, c.state, 3);
        make(&s, &c, "read", read_forward, NULL);
        graph(&s, &c, NULL);
        ph_tensor_release(c.state);
        c.state = NULL;
        assert_int_equal(count, 0);
        ph_tensor *x = lasting(&s, N, 0.5), *in_its_place = lasting(&s, N, 77);
        for (int call = 0; call < 3; call++) {
            expect_all(&s, ph_call(s.tape, c.graphed, x), 1.5, "what is held");
            assert_ok(ph_tape_clear(s.tape));
        }
        ph_tensor_release(x);
        ph_tensor_release(in_its_place);
        drop(&c);
        assert_ok(ph_stream_synchronize(s.stream));
        assert_int_equal(count, foreign);
        ph_free(memory, s.stream);
        t_scene_close(&s);
    }
}

/* What is only read may be an input as well, and is not copied for it. */
TEST(test_read_overlaps)
{
    t_scene s;
    cell c = {0};
    ph_memory_stats before, after;
    t_scene_open(&s);
    c.state = lasting(&s, N, 3);
    make(&s, &c, "read", read_forward, NULL);
    graph(&s, &c, NULL);
    for (int call = 0; call < 2; call++) {
        assert_ok(ph_memory_get_stats(&before, s.device));
        ph_tensor *y = ph_call(s.tape, c.graphed, c.state);
        assert_ok(ph_memory_get_stats(&after, s.device));
        assert_int_equal(after.allocation[0].added, before.allocation[0].added);
        expect_all(&s, y, 9, "an input that is read twice");
        assert_ok(ph_tape_clear(s.tape));
    }
    drop(&c);
    t_scene_close(&s);
}

/* ---- replaced ---- */
static void recurrent_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    cell *c = self;
    ph_tensor *h = ph_tanh(tape, ph_add(tape, in[0], c->state));
    if (!h)
        return;
    ph_tensor_release(c->state);
    c->state = ph_tensor_retain(h);
    out[0] = ph_mul_scalar(tape, h, 1);
}

static void swap_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    cell *c = self;
    ph_tensor *now = c->calls++ % 2 ? c->other : c->state;
    out[0] = ph_mul(tape, in[0], now);
}

static void first_use_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    cell *c = self;
    if (!c->state)
        c->state = ph_tensor_retain(ph_full(tape, PH_DTYPE_F32, PH_SHAPE(N), 5));
    out[0] = ph_mul(tape, in[0], c->state);
}

TEST(tensors_that_forward_makes_and_keeps_are_refused)
{
    static const size_t warmups[] = {0, PH_ZERO};
    for (int inputs = PH_GRAPHED_AUTO; inputs <= PH_GRAPHED_REBIND; inputs++)
        for (int warmup = 0; warmup < 2; warmup++) {
            const ph_graphed_options options = {.inputs = (ph_graphed_inputs)inputs,
                                                .warmup_iterations = warmups[warmup]};
            t_scene s;
            cell c = {0};
            t_scene_open(&s);
            c.state = lasting(&s, N, 0.5);
            make(&s, &c, "recurrent", recurrent_forward, NULL);
            expect_refused(
                &s, &c, &options,
                "callable 'recurrent': forward uses f32[4096], in operator add, which is neither");
            drop(&c);
            c.state = lasting(&s, N, 2);
            c.other = lasting(&s, N, 3);
            make(&s, &c, "swap", swap_forward, NULL);
            expect_refused(&s, &c, &options, "in operator mul, which is neither");
            drop(&c);
            make(&s, &c, "first use", first_use_forward, NULL);
            if (warmup) {
                expect_refused(&s, &c, &options, "a warm-up makes");
            } else {
                graph(&s, &c, &options);
                ph_tensor *x = lasting(&s, N, 2);
                expect_all(&s, ph_call(s.tape, c.graphed, x), 10, "made in the warm-up");
                assert_ok(ph_tape_clear(s.tape));
                ph_tensor_release(x);
            }
            drop(&c);
            t_scene_close(&s);
        }
}

/* ---- work that no operator of ours counts ---- raw: copies what it reads to the output, fills
 * what it writes; by a kernel without typed parameters, too. */
static void raw_work(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    cell *c = ph_custom_user(custom);
    const struct t_copy_first args = {c->raw, c->raw + 3 * N};
    int32_t *from = c->calls < 0 ? c->raw : c->raw + (c->calls++ % 2) * 64;
    out[0] = ph_empty(tape, PH_DTYPE_F32, ph_tensor_shape(in[0]));
    if (!out[0])
        return;
    ph_tape_check(tape,
                  ph_memcpy(ph_tensor_data(out[0]), from, N * sizeof(float), ph_tape_stream(tape)));
    ph_tape_check(tape, ph_memset(c->raw + 2 * N, 0, N * sizeof(float), ph_tape_stream(tape)));
    ph_tape_check(tape, ph_launch(ph_tape_stream(tape), c->kernel, NULL, &args, sizeof args));
}

static void no_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                        ph_tensor *const *grad_out, const bool *needed)
{
    (void)custom;
    (void)tape;
    (void)grad_in;
    (void)grad_out;
    (void)needed;
}

static void raw_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const ph_custom_operator raw = {
        .name = "raw", .forward = raw_work, .backward = no_backward, .user = self};
    ph_tensor *y;
    ph_custom_call(tape, &raw, &y, 1, in, 1);
    out[0] = ph_add(tape, y, in[0]);
}

static void raw_open(const t_scene *s, cell *c, int calls)
{
    t_register_kernels();
    assert_ok(ph_kernel_create(&c->kernel, s->device, &t_kernel_sources[T_KERNEL_COPY_FIRST]));
    assert_ok(ph_malloc(&c->raw, 4 * N, sizeof(float), s->stream));
    assert_ok(ph_memset(c->raw, 0, 4 * N * sizeof(float), s->stream));
    assert_ok(ph_stream_synchronize(s->stream));
    c->calls = calls;
    make(s, c, "raw", raw_forward, NULL);
}

static void raw_close(const t_scene *s, cell *c)
{
    ph_free(c->raw, s->stream);
    ph_kernel_release(c->kernel);
    drop(c);
}

static uint64_t copies_of(const t_scene *s, const cell *c, ph_tensor *x)
{
    ph_memory_stats before, after;
    assert_ok(ph_memory_get_stats(&before, s->device));
    (void)ph_call(s->tape, c->graphed, x);
    assert_ok(ph_memory_get_stats(&after, s->device));
    assert_ok(ph_tape_clear(s->tape));
    return after.allocation[0].added - before.allocation[0].added;
}

/* Words of other kernels may be written through, and a copy's source is not: a graph that only
 * copies out of memory leaves inputs there alone. */
TEST(memory_that_unknown_kernels_may_write_is_copied_and_held)
{
    t_scene s;
    cell c = {0};
    t_scene_open(&s);
    raw_open(&s, &c, -1);
    graph(&s, &c, NULL);
    ph_tensor *inside, *outside = lasting(&s, N, 1);
    assert_ok(ph_tensor_wrap(&inside, s.device, PH_DTYPE_F32, PH_SHAPE(N), NULL, c.raw + 2 * N,
                             NULL, NULL));
    assert_int_equal(copies_of(&s, &c, inside), 1);
    assert_int_equal(copies_of(&s, &c, outside), 0);
    /* Freed by everybody else, it is held. */
    int32_t *others[4];
    ph_free(c.raw, s.stream);
    c.raw = NULL;
    for (int i = 0; i < 4; i++) {
        assert_ok(ph_malloc(&others[i], 4 * N, sizeof(float), s.stream));
        assert_ok(ph_memset(others[i], 0x40, 4 * N * sizeof(float), s.stream));
    }
    expect_all(&s, ph_call(s.tape, c.graphed, outside), 1, "zeros, and the input");
    assert_ok(ph_tape_clear(s.tape));
    for (int i = 0; i < 4; i++)
        ph_free(others[i], s.stream);
    ph_tensor_release(inside);
    ph_tensor_release(outside);
    raw_close(&s, &c);
    t_scene_close(&s);
}

/* Reads memory of the program's by a copy, and fills it behind that; c->other and c->state are
 * tensors over parts of it, which operators read. */
static void fill_work(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    const cell *c = ph_custom_user(custom);
    int32_t *at = c->raw + (c->state ? 2 * N : 0);
    out[0] = ph_empty(tape, PH_DTYPE_F32, ph_tensor_shape(in[0]));
    if (!out[0])
        return;
    ph_tape_check(tape,
                  ph_memcpy(ph_tensor_data(out[0]), at, N * sizeof(float), ph_tape_stream(tape)));
    ph_tape_check(tape, ph_memset(at, 0, N * sizeof(float), ph_tape_stream(tape)));
}

static void fill_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const cell *c = self;
    const ph_custom_operator fill = {
        .name = "fill", .forward = fill_work, .backward = no_backward, .user = self};
    ph_tensor *y, *read = in[0];
    if (c->state)
        read = ph_add(tape, ph_add(tape, read, c->other), ph_slice(tape, c->state, 0, 0, N));
    ph_custom_call(tape, &fill, &y, 1, in, 1);
    out[0] = ph_add(tape, y, read);
}

static ph_tensor *part_of(const t_scene *s, const cell *c, int64_t from, int64_t count)
{
    ph_tensor *x;
    assert_ok(ph_tensor_wrap(&x, s->device, PH_DTYPE_F32, PH_SHAPE(count), NULL, c->raw + from,
                             NULL, NULL));
    return x;
}

TEST(an_address_that_is_read_first_and_written_later_counts_as_written)
{
    t_scene s;
    cell c = {0};
    t_scene_open(&s);
    raw_open(&s, &c, -1);
    ph_module_release(c.plain);
    make(&s, &c, "fill", fill_forward, NULL);
    graph(&s, &c, NULL);
    ph_tensor *inside = part_of(&s, &c, 0, N);
    assert_int_equal(copies_of(&s, &c, inside), 1);
    ph_tensor_release(inside);
    raw_close(&s, &c);
    t_scene_close(&s);
}

/* The tensor of three quarters has the address that is written; one that begins behind it ends
 * before. Its own bytes count, and not the last quarter. */
TEST(of_tensors_that_overlap_the_one_that_has_the_address_counts_as_written)
{
    t_scene s;
    cell c = {0};
    t_scene_open(&s);
    raw_open(&s, &c, -1);
    ph_module_release(c.plain);
    c.state = part_of(&s, &c, 0, 3 * N);
    c.other = part_of(&s, &c, N, N);
    make(&s, &c, "fill", fill_forward, NULL);
    graph(&s, &c, NULL);
    for (int quarter = 0; quarter < 4; quarter++) {
        ph_tensor *inside = part_of(&s, &c, quarter * N, N);
        assert_int_equal(copies_of(&s, &c, inside), quarter < 3);
        ph_tensor_release(inside);
    }
    raw_close(&s, &c);
    t_scene_close(&s);
}

TEST(test_raw_replaced)
{
    t_scene s;
    cell c = {0};
    t_scene_open(&s);
    raw_open(&s, &c, 0);
    expect_refused(&s, &c, NULL,
                   "memory of the program's, at src of node 0 (memcpy), which is neither");
    raw_close(&s, &c);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_in_memory_that_a_graph_writes_are_copied),
        cmocka_unit_test(a_call_counts_a_version_of_the_memory_it_writes),
        cmocka_unit_test(memory_that_a_graph_reads_is_held),
        cmocka_unit_test(test_read_overlaps),
        cmocka_unit_test(tensors_that_forward_makes_and_keeps_are_refused),
        cmocka_unit_test(memory_that_unknown_kernels_may_write_is_copied_and_held),
        cmocka_unit_test(an_address_that_is_read_first_and_written_later_counts_as_written),
        cmocka_unit_test(of_tensors_that_overlap_the_one_that_has_the_address_counts_as_written),
        cmocka_unit_test(test_raw_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
