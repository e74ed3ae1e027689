/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_hostile.c: kernels with parameters that a program computed from its inputs'
 * addresses: graphed callables must copy then. The kernels compute the same anew of the addresses
 * that they get, and say so in the result where a replay brought an old value. */
#include "base/ended.h"
#include "fake/fake_cuda.h"
#include "support/graphed_nets.h"
#include "support/test.h"
#include "tensor/files/dlpack_abi.h"

enum {
    ALIGNMENT = 256, /* of inputs that are rebound */
    WINDOW_BITS = 20,
    CALLS = 24,
    ROOM = 1 << 19 /* elements of what inputs are cut out of: 2 MiB */
};

/* One text for both devices: what a program may make of two addresses and a length. */
#define LOOK_BODY                                                                                  \
    {                                                                                              \
        unsigned long long v = of == 0   ? x                                                       \
                               : of == 1 ? b                                                       \
                               : of == 2 ? x + b                                                   \
                               : of == 3 ? x - b                                                   \
                               : of == 4 ? (x ^ b)                                                 \
                               : of == 5 ? x + bytes                                               \
                               : of == 6 ? b + bytes                                               \
                                         : b - x;                                                  \
        if (how == 0)                                                                              \
            return v >> by & 1;                                                                    \
        if (how == 1 || how == 6)                                                                  \
            return v % by;                                                                         \
        if (how == 2)                                                                              \
            return v % by == 0;                                                                    \
        if (how == 3)                                                                              \
            return v >> 63;                                                                        \
        if (how == 4) {                                                                            \
            v = (by - v % by) % by;                                                                \
            return v < bytes ? v : bytes;                                                          \
        }                                                                                          \
        v = (v ^ v >> 29) * by;                                                                    \
        return v >> 32;                                                                            \
    }
#define STRING_OF(...) #__VA_ARGS__
#define STRING(...)    STRING_OF(__VA_ARGS__)

/* of: of which of the addresses. how: a bit, a remainder, an alignment, a sign, what is missing to
 * a boundary, a hash, a remainder as the distance into memory of its own; by: a number for that. */
static unsigned long long look(unsigned long long of, unsigned long long how, unsigned long long by,
                               unsigned long long x, unsigned long long b,
                               unsigned long long bytes) LOOK_BODY

    typedef struct hostile_args {
    uint64_t n;
    float *y;
    const float *x, *b;
    uint64_t of, how, by, bytes, seen;
} hostile_args;

/* y = 2 x + b, and 1000 more where `seen` is of other addresses. */
static void hostile_host(const ph_block_range *range, const void *args)
{
    const hostile_args *a = args;
    uint64_t now = look(a->of, a->how, a->by, (uintptr_t)a->x, (uintptr_t)a->b, a->bytes);
    bool stale = a->how == 6 ? (a->seen - now) % a->by != 0 : now != a->seen;
    for (uint64_t i = range->begin * range->block[0]; i < range->end * range->block[0] && i < a->n;
         i++)
        a->y[i] = 2 * a->x[i] + a->b[i] + (stale ? 1000.0f : 0.0f);
}

static const ph_kernel_source hostile_source = {
    .name = "hostile",
    .host = hostile_host,
    .args_size = sizeof(hostile_args),
    .cuda =
        "__device__ unsigned long long look(unsigned long long of, unsigned long long how,\n"
        "    unsigned long long by, unsigned long long x, unsigned long long b,\n"
        "    unsigned long long bytes) " STRING(
            LOOK_BODY) "\n"
                       "extern \"C\" __global__ void hostile(unsigned long long n, float *y, const "
                       "float "
                       "*x,\n"
                       "    const float *b, unsigned long long of, unsigned long long how, "
                       "unsigned long "
                       "long by,\n"
                       "    unsigned long long bytes, unsigned long long seen)\n"
                       "{\n"
                       "    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + "
                       "threadIdx.x;\n"
                       "    if (i >= n) return;\n"
                       "    unsigned long long now = look(of, how, by, (unsigned long long)x,\n"
                       "                                  (unsigned long long)b, bytes);\n"
                       "    bool stale = how == 6 ? (seen - now) % by != 0 : now != seen;\n"
                       "    y[i] = 2 * x[i] + b[i] + (stale ? 1000.0f : 0.0f);\n"
                       "}\n"};

/* ---- programs ---- */
typedef struct program {
    ph_kernel *kernel;
    uint64_t of, how, by;
    bool plain; /* it looks at nothing */
    bool lends; /* it has the addresses from DLPack */
    int from;   /* the call that is the first to ask for addresses */
    int calls;
} program;

static const float *address_of(ph_tape *tape, const program *p, ph_tensor *x)
{
    struct DLManagedTensorVersioned *lent = NULL;
    struct DLManagedTensor *plain = NULL;
    if (!p->lends)
        return ph_tensor_data(x);
    ph_tape_check(tape, p->calls % 2 ? ph_tensor_to_dlpack(&lent, tape, x, NULL)
                                     : ph_tensor_to_dlpack_unversioned(&plain, tape, x, NULL));
    const float *data = lent ? lent->tensor.data : plain ? plain->tensor.data : NULL;
    if (lent)
        lent->deleter(lent);
    if (plain)
        plain->deleter(plain);
    return data;
}

static ph_tensor *launch(ph_tape *tape, program *p, ph_tensor *x, ph_tensor *b)
{
    if (p->calls++ < p->from)
        return ph_add(tape, ph_mul_scalar(tape, x, 2), b);
    ph_tensor *y = ph_empty(tape, PH_DTYPE_F32, ph_tensor_shape(x));
    if (!y)
        return NULL;
    hostile_args a = {.n = (uint64_t)ph_tensor_count(x),
                      .y = ph_tensor_data(y),
                      .x = address_of(tape, p, x),
                      .b = address_of(tape, p, b),
                      .of = p->of,
                      .how = p->how,
                      .by = p->by,
                      .bytes = ph_tensor_bytes(x)};
    if (p->plain)
        a.how = 1, a.by = 1;
    a.seen = look(a.of, a.how, a.by, (uintptr_t)a.x, (uintptr_t)a.b, a.bytes);
    if (p->how == 6)
        a.seen += (uintptr_t)ph_tensor_data(ph_empty(tape, PH_DTYPE_U8, PH_SHAPE(4096)));
    const ph_launch_config config = t_config(a.n);
    ph_tape_check(tape, ph_launch(ph_tape_stream(tape), p->kernel, &config, &a, sizeof a));
    return y;
}

static void two_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    out[0] = launch(tape, self, in[0], in[1]);
}

static void one_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    out[0] = launch(tape, self, in[0], in[0]);
}

/* Its backward looks at the incoming gradient's address and the input's: the gradient is 2 dy + x.
 */
static void doubled_forward(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    ph_custom_save(custom, in, 1);
    out[0] = ph_mul_scalar(tape, in[0], 2);
}

static void doubled_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                             ph_tensor *const *grad_out, const bool *needed)
{
    (void)needed;
    grad_in[0] = launch(tape, ph_custom_user(custom), grad_out[0], ph_custom_saved(custom, 0));
}

static void back_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const ph_custom_operator op = {
        .name = "doubled", .forward = doubled_forward, .backward = doubled_backward, .user = self};
    ph_custom_call(tape, &op, out, 1, in, 1);
}

/* ---- one of them ---- */
typedef struct field {
    t_scene s;
    ph_tensor *big;
    float *host;
    uint64_t seed;
} field;

static void open_field(field *f)
{
    t_scene_open(&f->s);
    fake_cuda_register(&hostile_source);
    f->host = malloc(ROOM * sizeof *f->host);
    assert_non_null(f->host);
    for (size_t i = 0; i < ROOM; i++)
        f->host[i] = (float)(i * 7 % 211);
    assert_ok(ph_tensor_create(&f->big, f->s.device, PH_DTYPE_F32, PH_SHAPE(ROOM)));
    assert_ok(ph_tensor_write(f->s.tape, f->big, f->host, ROOM * sizeof *f->host));
    f->seed = 1;
}

static void close_field(field *f)
{
    ph_tensor_release(f->big);
    free(f->host);
    t_scene_close(&f->s);
}

/* A piece of the field, three times of four where an input is rebound. */
static ph_tensor *piece(field *f, size_t n, size_t *at)
{
    ph__rng rng = {f->seed++};
    *at = (size_t)ph__rng_below(&rng, ROOM - n);
    if (ph__rng_below(&rng, 4) > 0)
        *at &= ~(size_t)(ALIGNMENT / sizeof(float) - 1);
    return ph_slice(f->s.tape, f->big, 0, (int64_t)*at, (int64_t)(*at + n));
}

static void expect_piece(field *f, const program *p, const ph_tensor *y, size_t n, size_t x,
                         size_t b)
{
    static float got[2000];
    assert_ok(ph_tensor_read(f->s.tape, y, got, n * sizeof *got));
    for (size_t i = 0; i < n; i++)
        if (got[i] != 2 * f->host[x + i] + f->host[b + i])
            fail_msg("look %d %d %llu: element %zu is %g, expected %g", (int)p->of, (int)p->how,
                     (unsigned long long)p->by, i, (double)got[i],
                     (double)(2 * f->host[x + i] + f->host[b + i]));
}

static void call_it(field *f, const program *p, ph_module *graphed, size_t inputs, size_t n)
{
    for (int call = 0; call < CALLS; call++) {
        size_t at[2] = {0, 0};
        ph_tensor *in[2], *y;
        in[0] = piece(f, n, &at[0]);
        in[1] = inputs == 2 ? piece(f, n, &at[1]) : NULL;
        ph_call_n(f->s.tape, graphed, &y, 1, in, inputs);
        expect_piece(f, p, y, n, at[0], at[inputs - 1]);
        assert_ok(ph_tape_clear(f->s.tape));
    }
}

/* Every other callable has planned memory, whose places differ from those of the captures that
 * prove. */
static const ph_graphed_options *next_options(void)
{
    static const ph_graphed_options options[2] = {{.plan = false}, {.plan = true}};
    static unsigned next;
    return &options[next++ % 2];
}

static void try_program_once(field *f, program *p, size_t inputs, size_t n)
{
    ph_module *plain =
        gn_function(&f->s, "hostile", inputs == 2 ? two_forward : one_forward, p, inputs, 1);
    ph_tensor *x = gn_sample(&f->s, PH_SHAPE((int64_t)n), false), *both[] = {x, x};
    ph_module *graphed = gn_graph(plain, both, inputs, next_options());
    bool constant =
        p->of > 4 && ((p->how == 2 && n * sizeof(float) % ALIGNMENT != 0) ||
                      (p->how == 4 && n == 1)); /* no end is aligned, all are far from one */
    for (size_t i = 0; i < inputs; i++)
        if (gn_input(graphed, i, false).rebound != (p->plain || constant))
            fail_msg("look %d %d %llu of %zu inputs of %zu: input %zu is %s", (int)p->of,
                     (int)p->how, (unsigned long long)p->by, inputs, n, i,
                     p->plain ? "copied" : "rebound");
    call_it(f, p, graphed, inputs, n);
    ph_module_release(graphed);
    ph_module_release(plain);
    ph_tensor_release(x);
}

static void try_program(field *f, program *p, size_t inputs, size_t n)
{
    try_program_once(f, p, inputs, n);
    try_program_once(f, p, inputs, n);
}

static void back(field *f, program *p, size_t n)
{
    ph_module *plain = gn_function(&f->s, "back", back_forward, p, 1, 1);
    ph_tensor *x = gn_sample(&f->s, PH_SHAPE((int64_t)n), true);
    ph_module *graphed = gn_graph(plain, &x, 1, next_options());
    assert_int_equal(gn_input(graphed, 0, true).rebound, p->plain);
    for (int call = 0; call < CALLS; call++) {
        size_t at[2] = {0, 0};
        ph_tensor *in = ph_detach(f->s.tape, piece(f, n, &at[0])), *seed = piece(f, n, &at[1]),
                  *grad;
        assert_ok(ph_tensor_set_requires_grad(in, true));
        ph_tensor *y = ph_call(f->s.tape, graphed, in);
        ph_grad(f->s.tape, &grad, &in, 1, &y, &seed, 1, NULL);
        expect_piece(f, p, grad, n, at[1], at[0]);
        assert_ok(ph_tape_clear(f->s.tape));
    }
    ph_module_release(graphed);
    ph_module_release(plain);
    ph_tensor_release(x);
}

/* ---- all of them ---- each_program: of one source of values, what can be made of it. */
typedef void try_fn(field *f, program *p, size_t inputs, size_t n);

static void each_program(field *f, ph_kernel *kernel, uint64_t of, size_t inputs, size_t n,
                         try_fn *try_it)
{
    static const uint64_t numbers[] = {512, 1000, 1536, 4096, 12288, 65536, 3, 7, 641};
    program p = {.kernel = kernel, .of = of};
    for (p.how = 0, p.by = 8; p.by < WINDOW_BITS; p.by++)
        try_it(f, &p, inputs, n);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        for (p.how = 1, p.by = numbers[i]; p.how <= 4;
             p.how += p.how == 1 && numbers[i] % 512 ? 3 : 1)
            if (p.how != 3 && (p.how == 1 || (p.by & (p.by - 1)) == 0))
                try_it(f, &p, inputs, n);
    p.how = 5;
    for (uint64_t k = 0; k < 4; k++) {
        ph__rng rng = {k};
        p.by = ph__rng_next(&rng) | 1;
        try_it(f, &p, inputs, n);
    }
}

TEST(test_what_two_inputs_show)
{
    field f;
    ph_kernel *kernel;
    open_field(&f);
    assert_ok(ph_kernel_create(&kernel, f.s.device, &hostile_source));
    for (uint64_t of = 0; of < 8; of++)
        each_program(&f, kernel, of, 2, of % 2 ? 896 : 1024, try_program);
    /* which of them comes first */
    try_program(&f, &(program){.kernel = kernel, .of = 3, .how = 3}, 2, 1000);
    try_program(&f, &(program){.kernel = kernel, .of = 7, .how = 3}, 2, 1000);
    /* scratch memory that begins as an input does */
    for (uint64_t of = 0; of < 4; of++)
        try_program(&f, &(program){.kernel = kernel, .of = of, .how = 6, .by = 512}, 2, 1000);
    try_program(&f, &(program){.kernel = kernel, .plain = true}, 2, 1000);
    ph_kernel_release(kernel);
    close_field(&f);
}

TEST(test_what_one_input_shows)
{
    static const size_t sizes[] = {1, 896, 1000, 1024};
    field f;
    ph_kernel *kernel;
    open_field(&f);
    assert_ok(ph_kernel_create(&kernel, f.s.device, &hostile_source));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        each_program(&f, kernel, 0, 1, sizes[i], try_program);
        each_program(&f, kernel, 5, 1, sizes[i], try_program);
        try_program(&f, &(program){.kernel = kernel, .plain = true}, 1, sizes[i]);
    }
    ph_kernel_release(kernel);
    close_field(&f);
}

static void back_of(field *f, program *p, size_t inputs, size_t n)
{
    (void)inputs;
    back(f, p, n);
    back(f, p, n);
}

/* ---- how many captures prove ---- */
enum {
    WARM_UP = 3,
    STAYS = 1,
    ONE = 1,  /* where the library alone has addresses */
    MANY = 8, /* where others have them, for two that come from calls */
    MORE = 9, /* for three: two inputs and a gradient */
    NEVER = 1000
};

static void late(field *f, program p, int calls, bool rebound)
{
    ph_module *plain = gn_function(&f->s, "late", two_forward, &p, 2, 1);
    ph_tensor *x = gn_sample(&f->s, PH_SHAPE(1000), false), *both[] = {x, x};
    ph_module *graphed = gn_graph(plain, both, 2, NULL);
    assert_int_equal(p.calls, calls);
    assert_int_equal(gn_input(graphed, 0, false).rebound, rebound);
    assert_int_equal(gn_input(graphed, 1, false).rebound, rebound);
    call_it(f, &p, graphed, 2, 1000);
    ph_module_release(graphed);
    ph_module_release(plain);
    ph_tensor_release(x);
}

/* A program that sees no address is captured once more than it is replayed. One that asks for an
 * address, in whichever capture, is captured as often as it takes to know what it does with it. */
TEST(test_programs_that_look_late)
{
    field f;
    program p = {.how = 1, .by = 512};
    open_field(&f);
    assert_ok(ph_kernel_create(&p.kernel, f.s.device, &hostile_source));
    for (int way = 0; way < 4; way++) {
        int plain = way % 2, again = plain ? 0 : ONE + STAYS; /* with copies, and compared */
        p.plain = plain;
        p.lends = way / 2;
        p.from = NEVER;
        late(&f, p, WARM_UP + ONE + STAYS, true);
        p.from = WARM_UP + ONE + STAYS;
        late(&f, p, WARM_UP + ONE + STAYS, true);
        p.from = WARM_UP;
        late(&f, p, WARM_UP + MORE + STAYS + again, plain);
        p.from = WARM_UP + ONE;
        late(&f, p, WARM_UP + ONE + STAYS + MORE + STAYS + again, plain);
    }
    ph_kernel_release(p.kernel);
    close_field(&f);
}

static void late_back(field *f, program p, int calls)
{
    ph_module *plain = gn_function(&f->s, "late", back_forward, &p, 1, 1);
    ph_tensor *x = gn_sample(&f->s, PH_SHAPE(896), true);
    ph_module *graphed = gn_graph(plain, &x, 1, NULL);
    assert_int_equal(p.calls, calls);
    assert_int_equal(gn_input(graphed, 0, true).rebound, p.plain || p.from == NEVER);
    ph_module_release(graphed);
    ph_module_release(plain);
    ph_tensor_release(x);
}

TEST(test_backwards_that_look_late)
{
    field f;
    program p = {.how = 1, .by = 512};
    open_field(&f);
    assert_ok(ph_kernel_create(&p.kernel, f.s.device, &hostile_source));
    for (int plain = 0; plain < 2; plain++) {
        int again = plain ? 0 : STAYS;
        p.plain = plain;
        p.from = NEVER;
        late_back(&f, p, WARM_UP + ONE + STAYS);
        p.from = WARM_UP;
        late_back(&f, p, WARM_UP + MANY + STAYS + again);
        p.from = WARM_UP + ONE;
        late_back(&f, p, WARM_UP + ONE + STAYS + MANY + STAYS + again);
    }
    ph_kernel_release(p.kernel);
    close_field(&f);
}

TEST(test_what_backward_shows)
{
    field f;
    ph_kernel *kernel;
    open_field(&f);
    assert_ok(ph_kernel_create(&kernel, f.s.device, &hostile_source));
    each_program(&f, kernel, 0, 1, 896, back_of);
    each_program(&f, kernel, 2, 1, 896, back_of);
    each_program(&f, kernel, 3, 1, 896, back_of);
    back(&f, &(program){.kernel = kernel, .of = 2, .how = 6, .by = 512}, 896);
    back(&f, &(program){.kernel = kernel, .plain = true}, 896);
    ph_kernel_release(kernel);
    close_field(&f);
}

/* ---- graphs that are lent ---- and that the program resets, though it must not. */
static const char reset[] = "callable 'both': the program has reset or destroyed its graph";

/* exp(x) and x y */
static void both_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    out[0] = ph_exp(tape, in[0]);
    out[1] = ph_mul(tape, in[0], in[1]);
}

typedef struct lent {
    t_scene s;
    ph_module *plain, *graphed;
    ph_tensor *in[2], *out[2];
    ph_graph *forward, *backward;
} lent;

static void open_lent(lent *l, const ph_graphed_options *options)
{
    t_scene_open(&l->s);
    l->plain = gn_function(&l->s, "both", both_forward, NULL, 2, 2);
    for (int i = 0; i < 2; i++)
        l->in[i] = gn_sample(&l->s, PH_SHAPE(40), true);
    const ph_sample sample = {.tensors = l->in, .count = 2};
    assert_ok(ph_make_graphed_callables(&l->graphed, &l->plain, &sample, 1, options));
    assert_ok(ph_graphed_callable_graphs(&l->forward, &l->backward, l->graphed));
}

static void call_lent(lent *l, ph_tensor *const *in)
{
    l->out[0] = l->out[1] = NULL;
    ph_call_n(l->s.tape, l->graphed, l->out, 2, in, 2);
}

static void close_lent(lent *l)
{
    for (int i = 0; i < 2; i++)
        ph_tensor_release(l->in[i]);
    ph_module_release(l->graphed);
    ph_module_release(l->plain);
    t_scene_close(&l->s);
}

static void expect_reset(const lent *l)
{
    assert_error(ph_tape_clear(l->s.tape), PH_ERROR_STATE, reset);
}

/* With the captured inputs, with others, and with memory that no slot has accepted before. */
static void reset_forward(const ph_graphed_options *options)
{
    lent l;
    open_lent(&l, options);
    assert_ok(ph_graph_reset(l.forward));
    call_lent(&l, l.in);
    expect_reset(&l);
    ph_tensor *other = ph_tensor_retain(gn_random(&l.s, PH_SHAPE(80), 3));
    assert_ok(ph_tape_clear(l.s.tape));
    ph_tensor *half = ph_slice(l.s.tape, other, 0, 40, 80);
    call_lent(&l, (ph_tensor *[]){half, half});
    expect_reset(&l);
    ph_tensor_release(other);
    close_lent(&l);
}

static void reset_backward(const ph_graphed_options *options, bool first_alone)
{
    lent l;
    open_lent(&l, options);
    call_lent(&l, l.in);
    assert_ok(ph_graph_reset(first_alone ? l.forward : l.backward));
    ph_tensor *loss = first_alone ? l.out[0] : ph_add(l.s.tape, l.out[0], l.out[1]);
    ph_backward(l.s.tape, ph_sum(l.s.tape, loss));
    expect_reset(&l);
    close_lent(&l);
}

TEST(calls_on_a_graph_that_was_reset_name_the_reset)
{
    static const ph_graphed_options ways[] = {{.inputs = PH_GRAPHED_REBIND},
                                              {.inputs = PH_GRAPHED_COPY_INPUTS},
                                              {.gradients = PH_GRAPHED_ACCUMULATE},
                                              {.gradients = PH_GRAPHED_BORROW},
                                              {.plan = true},
                                              {.defer_upload = 1}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        reset_forward(&ways[i]);
        reset_backward(&ways[i], false);
        reset_backward(&ways[i], true);
    }
}

static ph_status copy_other(ph_stream *stream, void *user)
{
    char *const *blocks = user;
    PH_TRY(ph_memcpy(blocks[2], blocks[0], 160, stream));
    return ph_memcpy(blocks[3], blocks[1], 160, stream);
}

/* It has as many slots, which accept the inputs. */
TEST(a_graph_that_was_reset_and_captured_again_is_not_replayed)
{
    lent l;
    char *blocks[4];
    size_t slot;
    open_lent(&l, &(ph_graphed_options){.inputs = PH_GRAPHED_REBIND});
    for (int i = 0; i < 4; i++)
        assert_ok(ph_malloc(&blocks[i], 160, 1, l.s.stream));
    assert_ok(ph_graph_reset(l.forward));
    assert_ok(ph_graph_capture(l.forward, l.s.stream, NULL, copy_other, blocks));
    for (int i = 0; i < 2; i++) {
        assert_ok(ph_graph_slot_find(&slot, l.forward, "x", blocks[i], 160, NULL));
        assert_int_equal(slot, i);
    }
    call_lent(&l, l.in);
    expect_reset(&l);
    for (int i = 0; i < 4; i++)
        ph_free(blocks[i], l.s.stream);
    close_lent(&l);
}

TEST(a_call_on_a_graph_that_was_destroyed_names_that)
{
    lent l;
    if (!PH__RECYCLES) {
        print_message("skipped: handles go at once, so that tools which watch the heap see it\n");
        skip();
    }
    open_lent(&l, NULL);
    ph_graph_destroy(l.forward);
    call_lent(&l, l.in);
    expect_reset(&l);
    close_lent(&l);
}

TEST(questions_about_a_graph_that_was_reset_name_the_reset)
{
    lent l;
    ph_graphed_info info;
    char *text;
    open_lent(&l, NULL);
    assert_ok(ph_graph_reset(l.backward));
    assert_error(ph_graphed_callable_info(&info, l.graphed), PH_ERROR_STATE, reset);
    assert_error(ph_graphed_callable_describe(&text, l.graphed), PH_ERROR_STATE, reset);
    assert_null(text);
    close_lent(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_two_inputs_show),
        cmocka_unit_test(test_what_one_input_shows),
        cmocka_unit_test(test_programs_that_look_late),
        cmocka_unit_test(test_backwards_that_look_late),
        cmocka_unit_test(test_what_backward_shows),
        cmocka_unit_test(calls_on_a_graph_that_was_reset_name_the_reset),
        cmocka_unit_test(a_graph_that_was_reset_and_captured_again_is_not_replayed),
        cmocka_unit_test(a_call_on_a_graph_that_was_destroyed_names_that),
        cmocka_unit_test(questions_about_a_graph_that_was_reset_name_the_reset),
    };
    return cmocka_run_group_tests_name("nn.graphed_hostile", tests, NULL, NULL);
}
