/* SPDX-License-Identifier: MIT */
/* tests/nn/torch_pools.c: what PyTorch's tests say of checkpoints of pools that a whole network
 * was captured into. */
#include "support/graphed_nets.h"
#include "support/test.h"
#include <stdlib.h>

enum {
    BLOCKS = 12,
    WIDTH = 64,
    TIME = 100
};

typedef struct scene {
    t_scene s; /* its tape's stream captures */
    ph_module *net;
    ph_tensor *x, *y; /* y: of the last capture */
    ph_pool *pool;
} scene;

static void open(scene *c)
{
    ph_module *blocks[BLOCKS];
    t_scene_open(&c->s);
    for (int i = 0; i < BLOCKS; i++)
        assert_ok(ph_transformer_block_create(&blocks[i], c->s.device, WIDTH, 4, NULL));
    assert_ok(ph_sequential_create(&c->net, blocks, BLOCKS));
    for (int i = 0; i < BLOCKS; i++)
        ph_module_release(blocks[i]);
    ph_module_train(c->net, false);
    c->x = gn_sample(&c->s, PH_SHAPE(1, TIME, WIDTH), false);
    c->y = NULL;
    assert_ok(ph_pool_create(&c->pool, c->s.device, NULL));
}

static void close(scene *c)
{
    ph_tensor_release(c->x);
    ph_module_release(c->net);
    ph_pool_release(c->pool);
    t_scene_close(&c->s);
}

/* times: how often the network is applied. */
typedef struct body {
    scene *c;
    int times;
} body;

static ph_status run(ph_stream *stream, void *user)
{
    const body *b = user;
    scene *c = b->c;
    ph_tensor *y = c->x;
    (void)stream;
    bool before = ph_tape_set_grad_enabled(c->s.tape, false);
    for (int i = 0; i < b->times; i++)
        y = ph_call(c->s.tape, c->net, y);
    ph_tape_set_grad_enabled(c->s.tape, before);
    c->y = ph_tensor_retain(y);
    return ph_tape_clear(c->s.tape);
}

static ph_graph *capture(scene *c, int times)
{
    ph_graph *graph;
    const ph_capture_options options = {.pool = c->pool};
    body b = {c, times};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, c->s.stream, &options, run, &b));
    return graph;
}

/* Address, size and state of all of the pool's segments and blocks; whose allocation it is, is
 * not in it. */
static char *picture(const scene *c)
{
    static const char key[] = "\"generation\":";
    char *json;
    assert_ok(ph_memory_snapshot(&json, c->s.device, c->pool));
    const char *from = strstr(json, "\"segments\":");
    assert_non_null(from);
    char *copy = strdup(from), *to = copy;
    assert_non_null(copy);
    while (*from) {
        *to++ = *from++;
        if ((size_t)(to - copy) >= sizeof key - 1 &&
            memcmp(to - (sizeof key - 1), key, sizeof key - 1) == 0)
            while (*from >= '0' && *from <= '9')
                from++;
    }
    *to = '\0';
    ph_string_free(json);
    return copy;
}

static void expect_replayed(const scene *c, ph_graph *graph, const void *y, const float *want,
                            size_t bytes)
{
    float *got = malloc(bytes);
    assert_non_null(got);
    assert_ok(ph_graph_replay(graph, c->s.stream));
    assert_ok(ph_memcpy(got, y, bytes, c->s.stream));
    assert_ok(ph_stream_synchronize(c->s.stream));
    assert_memory_equal(got, want, bytes);
    free(got);
}

static void expect_picture(const scene *c, const char *want, bool same)
{
    char *now = picture(c);
    assert_int_equal(strcmp(now, want) == 0, same);
    free(now);
}

/* PyTorch's network is a ResNet; what counts here is that it is deep, and its pool full. */
TEST(TestBlockStateAbsorption_test_resnet)
{
    scene c;
    ph_pool_checkpoint *checkpoint;
    open(&c);
    body eager = {&c, 1};
    assert_ok(run(c.s.stream, &eager));
    size_t bytes = ph_tensor_bytes(c.y);
    float *want = malloc(bytes);
    assert_non_null(want);
    assert_ok(ph_tensor_read(c.s.tape, c.y, want, bytes));
    ph_tensor_release(c.y);

    ph_graph *graph = capture(&c, 1);
    void *y = ph_tensor_data(c.y);
    char *before = picture(&c);
    assert_ok(ph_pool_checkpoint_create(&checkpoint, c.pool));
    assert_ok(ph_pool_checkpoint_restore(c.pool, checkpoint));
    expect_picture(&c, before, true);
    expect_replayed(&c, graph, y, want, bytes);

    /* The output is given up, and another capture takes the blocks of the pool. */
    ph_tensor_release(c.y);
    ph_graph *other = capture(&c, 2);
    ph_tensor_release(c.y);
    ph_graph_destroy(other);
    expect_picture(&c, before, false);
    assert_ok(ph_pool_checkpoint_restore(c.pool, checkpoint));
    expect_picture(&c, before, true);
    expect_replayed(&c, graph, y, want, bytes);
    ph_device_free(c.s.device, y); /* it lives once more, and no tensor has it */

    free(before);
    free(want);
    ph_pool_checkpoint_destroy(checkpoint);
    ph_graph_destroy(graph);
    close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(TestBlockStateAbsorption_test_resnet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
