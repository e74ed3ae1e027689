/* SPDX-License-Identifier: MIT */
/* tests/unit/instructions.c: how many instructions operators on small tensors take on the host
 * device, with the clear that lets their results go, replays of a graph of one fill, with an empty
 * clear, and hits of a cache (support/instructions.h). */
#include "support/instructions.h"
#include <phonograph/graph_cache.h>
#include <phonograph/nn.h>

enum {
    WIDTH = 64,
    POINTERS = 1000
};

typedef struct scene {
    ph_device *device;
    ph_stream *stream;
    ph_tape *tape;
    ph_tensor *x, *y, *row, *other, *column, *square, *leaf, *index, *table;
    ph_graph *graph;
    ph_graph_cache *cache;
    char *places[2]; /* the second one is what moves */
    const void *pointers[POINTERS];
    unsigned turn;
} scene;

static ph_tensor *add(scene *s)
{
    return ph_add(s->tape, s->x, s->y);
}
static ph_tensor *add_64(scene *s)
{
    return ph_add(s->tape, s->row, s->other);
}
static ph_tensor *add_row(scene *s)
{
    return ph_add(s->tape, s->x, s->row);
}
static ph_tensor *add_column(scene *s)
{
    return ph_add(s->tape, s->x, s->column);
}
static ph_tensor *gelu(scene *s)
{
    return ph_gelu(s->tape, s->x);
}
static ph_tensor *gelu_tanh(scene *s)
{
    return ph_gelu_tanh(s->tape, s->x);
}
static ph_tensor *sum(scene *s)
{
    return ph_sum(s->tape, s->x);
}
static ph_tensor *sum_rows(scene *s)
{
    return ph_sum_over(s->tape, s->x, PH_AXES(1), false);
}
static ph_tensor *sum_columns(scene *s)
{
    return ph_sum_over(s->tape, s->x, PH_AXES(0), false);
}
static ph_tensor *softmax(scene *s)
{
    return ph_softmax(s->tape, s->x, -1);
}
static ph_tensor *matmul(scene *s)
{
    return ph_matmul(s->tape, s->x, s->square);
}
static ph_tensor *embedding(scene *s)
{
    return ph_embedding(s->tape, s->table, s->index);
}
static ph_tensor *transposed(scene *s)
{
    return ph_contiguous(s->tape, ph_transpose(s->tape, s->x, 0, 1));
}
static ph_tensor *backward(scene *s)
{
    ph_tensor *loss = ph_sum(s->tape, ph_relu(s->tape, ph_mul(s->tape, s->leaf, s->x)));
    ph_backward(s->tape, loss);
    ph_tape_check(s->tape, ph_tensor_set_grad(s->leaf, NULL));
    return loss;
}

/* ---- replays ---- */
static ph_status fill_place(ph_stream *stream, void *user)
{
    return ph_memset(user, 1, WIDTH, stream);
}
static ph_tensor *replay(scene *s)
{
    return ph_graph_replay(s->graph, s->stream) == PH_OK ? s->x : NULL;
}
static ph_tensor *run_cached(scene *s, const char *key, size_t bytes, size_t pointers)
{
    const ph_graph_cache_call call = {.key = key,
                                      .key_bytes = bytes,
                                      .body = fill_place,
                                      .user = (void *)(uintptr_t)s->pointers[0],
                                      .pointers = s->pointers,
                                      .pointer_count = pointers};
    ph_graph_cache_result result;
    ph_status status = ph_graph_cache_run(s->cache, s->stream, &call, &result);
    bool counts = s->turn++ >= TI_WARM_UP / 2;
    return status == PH_OK && (!counts || result.path == PH_CACHE_REPLAYED) ? s->x : NULL;
}
static ph_tensor *hit(scene *s)
{
    static const char key[64] = "a key";
    return run_cached(s, key, sizeof key, 0);
}
static ph_tensor *hit_moved(scene *s)
{
    s->pointers[0] = s->places[1] + (size_t)(s->turn % 2) * WIDTH;
    return run_cached(s, "moved", 5, POINTERS);
}

static const struct operator
{
    const char *name;
    ph_tensor *(*fn)(scene * s);
}
operators[] = {{"add", add},
               {"add_64", add_64},
               {"add_row", add_row},
               {"add_column", add_column},
               {"gelu", gelu},
               {"gelu_tanh", gelu_tanh},
               {"sum", sum},
               {"sum_rows", sum_rows},
               {"sum_columns", sum_columns},
               {"softmax", softmax},
               {"matmul", matmul},
               {"embedding", embedding},
               {"transposed", transposed},
               {"backward", backward},
               {"replay", replay},
               {"hit", hit},
               {"hit_moved", hit_moved}};
enum {
    OPERATORS = sizeof operators / sizeof operators[0]
};

static ph_tensor *make(scene *s, ph_dtype dtype, ph_shape shape, double value)
{
    ph_tensor *x;
    assert_ok(ph_tensor_create(&x, s->device, dtype, shape));
    ph_tensor_fill(s->tape, x, value);
    return x;
}

/* Collected by its name. */
__attribute__((noinline)) void instructions_measured(ph_tensor *(*fn)(scene *), scene *s);
void instructions_measured(ph_tensor *(*fn)(scene *), scene *s)
{
    for (int i = 0; i < TI_CALLS; i++)
        if (!fn(s) || ph_tape_clear(s->tape) != PH_OK)
            abort();
}

static int run_one(const char *name)
{
    scene s;
    assert_ok(ph_device_open(&s.device, "host:threads=1", NULL));
    assert_ok(ph_stream_create(&s.stream, s.device, NULL));
    assert_ok(ph_tape_create(&s.tape, s.stream, NULL));
    s.x = make(&s, PH_DTYPE_F32, PH_SHAPE(4, WIDTH), 0.5);
    s.y = make(&s, PH_DTYPE_F32, PH_SHAPE(4, WIDTH), 0.25);
    s.row = make(&s, PH_DTYPE_F32, PH_SHAPE(WIDTH), 1);
    s.other = make(&s, PH_DTYPE_F32, PH_SHAPE(WIDTH), 1);
    s.column = make(&s, PH_DTYPE_F32, PH_SHAPE(4, 1), 1);
    s.square = make(&s, PH_DTYPE_F32, PH_SHAPE(WIDTH, WIDTH), 1);
    s.table = make(&s, PH_DTYPE_F32, PH_SHAPE(16, WIDTH), 1);
    s.index = make(&s, PH_DTYPE_I64, PH_SHAPE(4), 3);
    s.leaf = make(&s, PH_DTYPE_F32, PH_SHAPE(4, WIDTH), 2);
    assert_ok(ph_tensor_set_requires_grad(s.leaf, true));
    s.turn = 0;
    for (int i = 0; i < 2; i++)
        assert_ok(PH_NEW(&s.places[i], 2 * WIDTH, s.stream));
    for (int i = 0; i < POINTERS; i++)
        s.pointers[i] = s.places[0];
    assert_ok(ph_graph_create(&s.graph, NULL));
    assert_ok(ph_graph_capture(s.graph, s.stream, NULL, fill_place, s.places[0]));
    assert_ok(ph_graph_cache_create(&s.cache, s.device, NULL));
    assert_ok(ph_stream_synchronize(s.stream));
    for (int i = 0; i < OPERATORS; i++) {
        if (strcmp(operators[i].name, name) != 0)
            continue;
        for (int k = 0; k < TI_WARM_UP; k++) {
            assert_non_null(operators[i].fn(&s));
            assert_ok(ph_tape_clear(s.tape));
        }
        instructions_measured(operators[i].fn, &s);
    }
    ph_tensor *all[] = {s.x, s.y, s.row, s.other, s.column, s.square, s.table, s.index, s.leaf};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ph_tensor_release(all[i]);
    ph_graph_cache_destroy(s.cache);
    ph_graph_destroy(s.graph);
    for (int i = 0; i < 2; i++)
        ph_free(s.places[i], s.stream);
    ph_tape_destroy(s.tape);
    ph_stream_destroy(s.stream);
    ph_device_release(s.device);
    return 0;
}

TEST(a_tenth_more_is_told)
{
    assert_false(ti_has_grown(1100, 1000));
    assert_true(ti_has_grown(1101, 1000));
}

static ti_cases all_operators(void)
{
    static const char *names[OPERATORS];
    for (int i = 0; i < OPERATORS; i++)
        names[i] = operators[i].name;
    return (ti_cases){names, OPERATORS, ""};
}

TEST(no_operator_takes_a_tenth_more_than_the_table_says)
{
    const ti_cases cases = all_operators();
    ti_check(&cases);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tenth_more_is_told),
        cmocka_unit_test(no_operator_takes_a_tenth_more_than_the_table_says)};
    if (argc == 3 && strcmp(argv[1], "--one") == 0)
        return run_one(argv[2]);
    if (argc == 2 && strcmp(argv[1], "--table") == 0) {
        const ti_cases cases = all_operators();
        return ti_write_table(&cases);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
