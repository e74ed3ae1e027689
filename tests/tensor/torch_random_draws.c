/* SPDX-License-Identifier: MIT */
/* tests/tensor/torch_random_draws.c: what random operators draw in graphs; each test holds the
 * behaviour of PyTorch's test of the same name, for all dtypes. */
#include "support/draws.h"
#include "support/test.h"

enum {
    N = 10000
};
static const ph_dtype floats[] = {PH_DTYPE_F32, PH_DTYPE_F64, PH_DTYPE_F16, PH_DTYPE_BF16};

/* ---- test_graph_rng_functional ---- */
typedef struct function {
    ph_tensor *(*apply)(ph_tape *tape, ph_tensor *x);
    ph_tensor *in;
} function;

static ph_tensor *dropout(ph_tape *tape, ph_tensor *x)
{
    return ph_dropout(tape, x, 0.1);
}

static ph_tensor *rrelu(ph_tape *tape, ph_tensor *x)
{
    return ph_rrelu(tape, x, 1.0 / 8, 1.0 / 3);
}

static ph_tensor *applied(ph_tape *tape, const function *f, ph_tensor *x, int times)
{
    for (int i = 0; i < times; i++)
        x = f->apply(tape, x);
    return x;
}

static ph_tensor *applied_twice(ph_tape *tape, void *user)
{
    const function *f = user;
    return applied(tape, f, f->in, 2);
}

/* Seeded anew, three replays do not give `control`, but what three eager runs give. */
static void seed_anew(t_scene *s, ph_generator *g, function *f, ph_graph *graph,
                      const ph_tensor *out, ph_tensor *a, ph_tensor *control)
{
    static const uint64_t seeds[] = {6, 128, 9999};
    control = ph_tensor_retain(control);
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        assert_ok(ph_generator_seed(g, seeds[i]));
        ph_tensor_copy(s->tape, f->in, a);
        for (int k = 0; k < 3; k++)
            assert_ok(ph_graph_replay(graph, s->stream));
        assert_false(t_same(s, out, control));
        assert_ok(ph_generator_seed(g, seeds[i]));
        for (int k = 0; k < 3; k++) {
            ph_tensor_release(control);
            control = ph_tensor_retain(applied(s->tape, f, a, 2));
        }
        assert_ok(ph_tape_clear(s->tape));
        assert_true(t_same(s, out, control));
    }
    ph_tensor_release(control);
}

static void one_function(t_scene *s, ph_generator *g, function *f, ph_dtype dtype)
{
    ph_tensor *out;
    ph_tensor *a = ph_tensor_retain(ph_randn(s->tape, dtype, PH_SHAPE(N)));
    f->in = ph_tensor_retain(ph_clone(s->tape, a));
    assert_ok(ph_generator_seed(g, 5));
    ph_tensor *control = ph_tensor_retain(applied(s->tape, f, a, 6));
    assert_ok(ph_tape_clear(s->tape));
    assert_ok(ph_generator_seed(g, 5));
    ph_graph *graph = t_capture(s, applied_twice, f, &out);
    assert_ok(ph_graph_replay(graph, s->stream));
    ph_tensor_copy(s->tape, f->in, applied(s->tape, f, out, 2));
    assert_ok(ph_tape_clear(s->tape));
    assert_ok(ph_graph_replay(graph, s->stream));
    assert_true(t_same(s, out, control));
    seed_anew(s, g, f, graph, out, a, control);
    ph_tensor *all[] = {a, f->in, out, control};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ph_tensor_release(all[i]);
    ph_graph_destroy(graph);
}

TEST(test_graph_rng_functional)
{
    t_scene s;
    function all[] = {{.apply = dropout}, {.apply = rrelu}};
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 5);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t k = 0; k < 4; k++)
            one_function(&s, g, &all[i], floats[k]);
    ph_generator_release(g);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* ---- test_graph_rng_distributions ---- */
typedef struct distribution distribution;
typedef struct drawing {
    const char *name, *dtypes; /* a letter for each: floats f d h b, integers i l u, o for bool */
    ph_tensor *(*make)(ph_tape *tape, const distribution *d);
    void (*change)(ph_tape *tape, ph_tensor *x, const distribution *d);
} drawing;
struct distribution {
    const drawing *of;
    ph_dtype dtype;
    /* halves: probabilities, means, rates; of the dtype if it is a float, else of f32 */
    ph_tensor *p;
    ph_tensor *in_place[2]; /* what the captured calls change */
    ph_tensor *out[2];      /* what they have given */
};

#define MAKES(name, call)                                                                          \
    static ph_tensor *name(ph_tape *tape, const distribution *d)                                   \
    {                                                                                              \
        return call;                                                                               \
    }
#define CHANGES(name, call)                                                                        \
    static void name(ph_tape *tape, ph_tensor *x, const distribution *d)                           \
    {                                                                                              \
        (void)d;                                                                                   \
        call;                                                                                      \
    }
MAKES(bernoulli, ph_bernoulli(tape, d->p))
MAKES(normal_of_means, ph_normal_of(tape, d->p, NULL))
MAKES(normal_of_both, ph_normal_of(tape, d->p, d->p))
MAKES(poisson, ph_poisson(tape, d->p))
MAKES(poisson_of_many, ph_poisson(tape, ph_mul_scalar(tape, d->p, 60)))
MAKES(normal, ph_normal(tape, d->dtype, PH_SHAPE(N), 2, 1))
MAKES(exponential, ph_exponential(tape, d->dtype, PH_SHAPE(N), 1))
MAKES(uniform, ph_rand(tape, d->dtype, PH_SHAPE(N)))
MAKES(range, ph_uniform(tape, d->dtype, PH_SHAPE(N), -2, 3))
MAKES(integers, ph_randint(tape, d->dtype, PH_SHAPE(N), 0, 3))
MAKES(normals, ph_randn(tape, d->dtype, PH_SHAPE(N)))
MAKES(permutation, ((void)d, ph_randperm(tape, N)))
CHANGES(bernoulli_, ph_tensor_bernoulli(tape, x, 0.5))
CHANGES(bernoulli_of_, ph_tensor_bernoulli_of(tape, x, d->p))
CHANGES(cauchy_, ph_tensor_cauchy(tape, x, 0, 1))
CHANGES(exponential_, ph_tensor_exponential(tape, x, 1))
CHANGES(geometric_, ph_tensor_geometric(tape, x, 0.3))
CHANGES(log_normal_, ph_tensor_log_normal(tape, x, 1, 2))
CHANGES(normal_, ph_tensor_normal(tape, x, 0, 1))
CHANGES(random_, ph_tensor_random(tape, x, 0, d->dtype == PH_DTYPE_BOOL ? 2 : 100))
CHANGES(uniform_, ph_tensor_uniform(tape, x, 0, 1))

static const drawing drawings[] = {
    {"bernoulli", "fdhb", bernoulli, NULL},
    {"normal of means", "fdhb", normal_of_means, NULL},
    {"normal of means and deviations", "fdhb", normal_of_both, NULL},
    {"poisson", "fdhb", poisson, NULL},
    {"poisson of many", "fdhb", poisson_of_many, NULL},
    {"normal", "fdhb", normal, NULL},
    {"exponential", "fdhb", exponential, NULL},
    {"rand", "fdhb", uniform, NULL},
    {"uniform", "fdhb", range, NULL},
    {"randint", "ilu", integers, NULL},
    {"randn", "fdhb", normals, NULL},
    {"randperm", "l", permutation, NULL},
    {"bernoulli_", "fdhbiluo", NULL, bernoulli_},
    {"bernoulli_ of a tensor", "fdhbiluo", NULL, bernoulli_of_},
    {"cauchy_", "fdhb", NULL, cauchy_},
    {"exponential_", "fdhb", NULL, exponential_},
    {"geometric_", "fdhb", NULL, geometric_},
    {"log_normal_", "fdhb", NULL, log_normal_},
    {"normal_", "fdhb", NULL, normal_},
    {"random_", "fdhbiluo", NULL, random_},
    {"uniform_", "fdhb", NULL, uniform_},
};

static ph_dtype dtype_of(char letter)
{
    static const char letters[] = "fdhbiluo";
    static const ph_dtype dtypes[] = {PH_DTYPE_F32, PH_DTYPE_F64, PH_DTYPE_F16, PH_DTYPE_BF16,
                                      PH_DTYPE_I32, PH_DTYPE_I64, PH_DTYPE_U8,  PH_DTYPE_BOOL};
    return dtypes[strchr(letters, letter) - letters];
}

static ph_tensor *once(t_scene *s, const distribution *d)
{
    if (d->of->make)
        return d->of->make(s->tape, d);
    ph_tensor *x = ph_zeros(s->tape, d->dtype, PH_SHAPE(N));
    d->of->change(s->tape, x, d);
    return x;
}

static ph_tensor *captured_twice(ph_tape *tape, void *user)
{
    distribution *d = user;
    for (int i = 0; i < 2; i++) {
        d->out[i] = d->in_place[i];
        if (d->of->make)
            d->out[i] = d->of->make(tape, d);
        else
            d->of->change(tape, d->out[i], d);
        d->out[i] = ph_tensor_retain(d->out[i]);
    }
    return d->out[0];
}

/* Three calls from this seed on: a dummy, and the two that are looked at. */
static void control(t_scene *s, ph_generator *g, const distribution *d, uint64_t seed,
                    ph_tensor *out[2])
{
    assert_ok(ph_generator_seed(g, seed));
    (void)once(s, d);
    out[0] = ph_tensor_retain(once(s, d));
    out[1] = ph_tensor_retain(once(s, d));
    assert_ok(ph_tape_clear(s->tape));
}

static void expect(bool good, const distribution *d, const char *what)
{
    if (!good)
        fail_msg("%s, %s: %s", d->of->name, ph_dtype_name(d->dtype), what);
}

/* With a seed, behind a dummy that moves the generator on, a replay gives the controls. */
static void replay_from(t_scene *s, ph_generator *g, const distribution *d, uint64_t seed,
                        ph_graph *graph, ph_tensor *scratch)
{
    ph_tensor *want[2];
    control(s, g, d, seed, want);
    expect(!t_same(s, want[0], want[1]), d, "two calls gave the same");
    assert_ok(ph_generator_seed(g, seed));
    (void)once(s, d);
    for (int i = 0; i < 2; i++)
        ph_tensor_copy(s->tape, d->out[i], scratch);
    assert_ok(ph_graph_replay(graph, s->stream));
    for (int i = 0; i < 2; i++) {
        expect(t_same(s, d->out[i], want[i]), d, "the replay gave something else");
        ph_tensor_release(want[i]);
    }
}

static void one_distribution(t_scene *s, ph_generator *g, distribution *d)
{
    static const uint64_t seeds[] = {6, 314, 271};
    ph_tensor *want[2], *first;
    ph_dtype real = ph_dtype_is_floating(d->dtype) ? d->dtype : PH_DTYPE_F32;
    d->p = ph_tensor_retain(ph_full(s->tape, real, PH_SHAPE(N), 0.5));
    for (int i = 0; i < 2; i++)
        d->in_place[i] = ph_tensor_retain(ph_full(s->tape, d->dtype, PH_SHAPE(N), -7));
    control(s, g, d, 5, want);
    assert_ok(ph_generator_seed(g, 5));
    ph_graph *graph = t_capture(s, captured_twice, d, &first);
    ph_tensor *scratch = ph_tensor_retain(ph_full(s->tape, d->dtype, PH_SHAPE(N), -7));
    for (int i = 0; i < 2; i++) {
        if (d->of->make) /* nothing has been there yet: readable nevertheless */
            ph_tensor_copy(s->tape, d->out[i], scratch);
        expect(t_same(s, d->out[i], scratch), d, "the capture ran something");
        expect(!t_same(s, d->out[i], want[i]), d, "the capture gave the control");
        ph_tensor_release(want[i]);
    }
    for (size_t k = 0; k < sizeof seeds / sizeof *seeds; k++)
        replay_from(s, g, d, seeds[k], graph, scratch);
    for (int i = 0; i < 2; i++) {
        ph_tensor_release(d->out[i]);
        ph_tensor_release(d->in_place[i]);
    }
    ph_tensor_release(first);
    ph_tensor_release(scratch);
    ph_tensor_release(d->p);
    ph_graph_destroy(graph);
    assert_ok(ph_tape_clear(s->tape));
}

TEST(test_graph_rng_distributions)
{
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 0);
    for (size_t i = 0; i < sizeof drawings / sizeof *drawings; i++)
        for (const char *letter = drawings[i].dtypes; *letter; letter++) {
            distribution d = {.of = &drawings[i], .dtype = dtype_of(*letter)};
            one_distribution(&s, g, &d);
        }
    ph_generator_release(g);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph_rng_functional),
        cmocka_unit_test(test_graph_rng_distributions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
