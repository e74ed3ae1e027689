/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_model.c: random programs under keys of a cache, with pointers and values that
 * differ in ways that are easily confused: after every call all memory is that of a plain model. */
#include "support/support.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "support/test.h"
#include <string.h>

enum {
    BUFFERS = 4,
    HALF = 1024, /* of a buffer: operations read the first half, and write the second */
    ELEMENTS = 2 * HALF,
    MOST = 128, /* elements of an operation */
    PROGRAMS = 4,
    OPERATIONS = 6,
    POINTERS = 3
};

typedef struct operation {
    enum {
        ADD,     /* second half of b = first half of a + value */
        COUNTED, /* the same of as many elements as the call's count */
        FILL,    /* second half of b: the value's lowest byte */
        BACK,    /* first half of b = second half of a */
        ADD_ONE, /* first element of b, by a kernel without types */
        PUT      /* the call's count there, by another one */
    } kind;
    unsigned a, b;
    uint64_t n;
    bool of_call; /* the value */
    int32_t value;
} operation;
typedef struct program {
    unsigned count;
    operation at[OPERATIONS];
} program;
typedef struct call {
    const program *program;
    int32_t *pointers[POINTERS];
    int32_t value;
    uint64_t count;
} call;

static t_world world;
static ph_kernel *untyped[2]; /* add_one, put */
static int32_t *buffers[BUFFERS], model[BUFFERS][ELEMENTS];
static program programs[PROGRAMS];

static int32_t value_of(const call *c, const operation *o)
{
    return o->of_call ? c->value : o->value;
}

static ph_status submit(ph_stream *stream, const call *c, const operation *o)
{
    int32_t *a = c->pointers[o->a], *b = c->pointers[o->b];
    const struct t_add_i32 args = {o->kind == COUNTED ? c->count : o->n, a, b + HALF,
                                   value_of(c, o)};
    ph_launch_config config = t_config(MOST);
    switch (o->kind) {
    case ADD:
    case COUNTED:
        return ph_launch(stream, world.add_i32, &config, &args, sizeof args);
    case FILL:
        return ph_memset(b + HALF, (uint8_t)value_of(c, o), o->n * sizeof *b, stream);
    case BACK:
        return ph_memcpy(b, a + HALF, o->n * sizeof *b, stream);
    case ADD_ONE:
        return ph_launch(stream, untyped[0], NULL, &b, sizeof b);
    default:
        return ph_launch(stream, untyped[1], NULL, &(struct t_put){b, (int64_t)c->count},
                         sizeof(struct t_put));
    }
}

static ph_status body(ph_stream *stream, void *user)
{
    const call *c = user;
    for (unsigned i = 0; i < c->program->count; i++)
        PH_TRY(submit(stream, c, &c->program->at[i]));
    return PH_OK;
}

static int32_t *model_of(const int32_t *pointer)
{
    size_t i = 0;
    while (pointer < buffers[i] || pointer >= buffers[i] + ELEMENTS)
        i++;
    return &model[i][pointer - buffers[i]];
}

static void compute(const call *c)
{
    for (unsigned i = 0; i < c->program->count; i++) {
        const operation *o = &c->program->at[i];
        int32_t *a = model_of(c->pointers[o->a]), *b = model_of(c->pointers[o->b]);
        if (o->kind == FILL)
            memset(b + HALF, (uint8_t)value_of(c, o), o->n * sizeof *b);
        else if (o->kind == BACK)
            memcpy(b, a + HALF, o->n * sizeof *b);
        else if (o->kind == ADD_ONE)
            ++*b;
        else if (o->kind == PUT)
            *b = (int32_t)c->count;
        else
            for (uint64_t e = 0; e < (o->kind == COUNTED ? c->count : o->n); e++)
                b[HALF + e] = (int32_t)((uint32_t)a[e] + (uint32_t)value_of(c, o));
    }
}

/* ---- random ---- */
static unsigned below(ph__rng *rng, unsigned end)
{
    return (unsigned)(ph__rng_next(rng) >> 11) % end;
}

static void make_programs(ph__rng *rng)
{
    for (size_t p = 0; p < PROGRAMS; p++) {
        programs[p].count = 1 + below(rng, OPERATIONS);
        for (size_t i = 0; i < OPERATIONS; i++)
            programs[p].at[i] = (operation){.kind = below(rng, PUT + 1),
                                            .a = below(rng, POINTERS),
                                            .b = below(rng, POINTERS),
                                            .n = 1 + below(rng, MOST),
                                            .of_call = below(rng, 3) > 0,
                                            .value = (int32_t)below(rng, 300)};
    }
}

/* Equal pointers, equal distances, counts that move as pointers do, values with bytes alike. */
static void make_call(call *c, ph__rng *rng)
{
    unsigned how = below(rng, 4), by = 64 * below(rng, 4);
    for (unsigned i = 0; i < POINTERS; i++)
        c->pointers[i] = how == 0   ? buffers[i] + by
                         : how == 1 ? buffers[below(rng, BUFFERS)] + 64 * below(rng, 4)
                         : how == 2 ? buffers[0] + by
                                    : buffers[below(rng, BUFFERS)] + below(rng, HALF / 2);
    c->count = how == 2 ? 1 + by / 4 : 1 + below(rng, MOST);
    c->value = (int32_t)(below(rng, 3) == 0   ? below(rng, 4)
                         : below(rng, 2) == 0 ? below(rng, 256) << 8
                         : below(rng, 3) == 0 ? (uint32_t)(uintptr_t)c->pointers[0]
                                              : (uint32_t)ph__rng_next(rng));
}

static void expect_model(uint64_t seed, int round, const ph_graph_cache_result *result)
{
    static int32_t got[ELEMENTS];
    for (size_t i = 0; i < BUFFERS; i++) {
        t_read(got, buffers[i], sizeof got, world.stream);
        if (memcmp(got, model[i], sizeof got) != 0)
            fail_msg("seed %llu, round %d: buffer %zu differs, path %d (%s)",
                     (unsigned long long)seed, round, i, (int)result->path, result->reason);
    }
}

static void run_calls(ph_graph_cache *cache, ph__rng *rng, uint64_t seed)
{
    for (int round = 0; round < 150; round++) {
        unsigned key = below(rng, PROGRAMS);
        call c = {.program = &programs[key]};
        make_call(&c, rng);
        const void *pointers[POINTERS] = {c.pointers[0], c.pointers[1], c.pointers[2]};
        const ph_graph_cache_value values[] = {{&c.value, sizeof c.value},
                                               {&c.count, sizeof c.count}};
        ph_graph_cache_result result;
        assert_ok(ph_graph_cache_run(cache, world.stream,
                                     &(ph_graph_cache_call){.key = &key,
                                                            .key_bytes = sizeof key,
                                                            .body = body,
                                                            .user = &c,
                                                            .pointers = pointers,
                                                            .pointer_count = POINTERS,
                                                            .values = values,
                                                            .value_count = 2},
                                     &result));
        compute(&c);
        expect_model(seed, round, &result);
        if (below(rng, 40) == 0)
            (void)!ph_graph_cache_drop(cache, &key, sizeof key);
    }
}

static void run_seed(uint64_t seed)
{
    ph__rng rng = {seed * 0x9e3779b97f4a7c15u + 1};
    ph_graph_cache *cache;
    const ph_graph_cache_options options = {.after = PH_ZERO,
                                            .max_graphs = below(&rng, 3),
                                            .fallback = below(&rng, 2) ? PH_CACHE_FALLBACK_UPDATE
                                                                       : PH_CACHE_FALLBACK_EAGER};
    make_programs(&rng);
    for (size_t i = 0; i < BUFFERS; i++) {
        for (size_t e = 0; e < ELEMENTS; e++)
            model[i][e] = (int32_t)below(&rng, 1000);
        assert_ok(ph_memcpy(buffers[i], model[i], sizeof model[i], world.stream));
        assert_ok(ph_stream_synchronize(world.stream));
    }
    assert_ok(ph_graph_cache_create(&cache, world.device, &options));
    run_calls(cache, &rng, seed);
    ph_graph_cache_destroy(cache);
}

TEST(random_programs_give_what_a_plain_model_gives)
{
    t_open(&world, NULL);
    assert_ok(ph_kernel_create(&untyped[0], world.device, &t_kernel_sources[T_KERNEL_ADD_ONE]));
    assert_ok(ph_kernel_create(&untyped[1], world.device, &t_kernel_sources[T_KERNEL_PUT]));
    for (size_t i = 0; i < BUFFERS; i++)
        assert_ok(PH_NEW(&buffers[i], ELEMENTS, world.stream));
    for (uint64_t seed = 0; seed < (t_nightly() ? 20000 : 100); seed++)
        run_seed(seed);
    for (size_t i = 0; i < BUFFERS; i++)
        ph_free(buffers[i], world.stream);
    ph_kernel_release(untyped[0]);
    ph_kernel_release(untyped[1]);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_give_what_a_plain_model_gives)};
    return cmocka_run_group_tests_name("graph.cache_model", tests, NULL, NULL);
}
