/* SPDX-License-Identifier: MIT */
/* tests/support/scenes_memory.c: scenarios of the allocator, pools, checkpoints, snapshots and
 * statistics. */
#include "support/scenes.h"
#include <stdlib.h>
#include <string.h>

enum {
    N = T_SCENE_N,
    MANY = 300
};

/* Each block is written and read, so that two of them at one place show. */
static ph_status use(t_scene *s, int32_t *block, int32_t value)
{
    PH_TRY(ph_memset_u32(block, (uint32_t)value, N, s->a));
    PH_TRY(ph_stream_synchronize(s->a));
    return t_same(s->a, block, N, value);
}

static ph_status miss_and_hit(t_scene *s)
{
    ph_status status;
    int32_t *large = NULL, *again = NULL, *small = NULL;
    T_GO_OUT(large, ph_malloc(&large, 1, 30u << 20, s->a));
    T_GO(use(s, large, 1));
    ph_free(large, NULL);
    large = NULL;
    T_GO_OUT(again, ph_malloc(&again, 1, 30u << 20, s->a));
    T_GO_OUT(small, ph_malloc(&small, N, sizeof(int32_t), s->b));
    T_GO(use(s, again, 2));
    T_GO(use(s, small, 3));
out:
    ph_free(large, NULL);
    ph_free(again, NULL);
    ph_free(small, NULL);
    return status;
}

static ph_status many_small(t_scene *s)
{
    ph_status status = PH_OK;
    int32_t *blocks[MANY] = {0};
    for (int i = 0; i < MANY; i++)
        T_GO_OUT(blocks[i],
                 ph_malloc(&blocks[i], N + (size_t)i * 37, sizeof(int32_t), i % 3 ? s->a : s->b));
    T_GO(use(s, blocks[0], 4));
    T_GO(use(s, blocks[MANY - 1], 5));
    T_GO(t_same(s->a, blocks[0], N, 4));
out:
    for (int i = 0; i < MANY; i += 2)
        ph_free(blocks[i], NULL);
    for (int i = 1; i < MANY; i += 2)
        ph_free(blocks[i], NULL);
    return status;
}

static ph_status pinned_blocks(t_scene *s)
{
    ph_status status;
    int32_t *block = NULL, *again = NULL, *other = NULL;
    T_GO_OUT(block, ph_malloc_pinned(&block, N, sizeof(int32_t), s->a));
    T_GO_OUT(other, ph_malloc_pinned(&other, 1, 9u << 20, s->a));
    T_GO(use(s, block, 6));
    T_GO(ph_memcpy(s->x, block, N * sizeof(int32_t), s->b));
    T_GO(ph_record_stream(block, s->b));
    ph_free_pinned(block, s->b);
    block = NULL;
    T_GO_OUT(again, ph_malloc_pinned(&again, N, sizeof(int32_t), s->a));
    T_GO(use(s, again, 7));
    T_GO(ph_stream_synchronize(s->b));
    T_GO(t_same(s->b, s->x, N, 6));
out:
    ph_free_pinned(block, NULL);
    ph_free_pinned(again, NULL);
    ph_free_pinned(other, NULL);
    return status;
}

/* A block that two streams use comes back only after both: the copy on b must see what was
 * there. */
static ph_status recorded_streams(t_scene *s)
{
    ph_status status;
    int32_t *block = NULL, *next[8] = {0};
    T_GO_OUT(block, PH_NEW(&block, N, s->a));
    T_GO(ph_memset_u32(block, 8, N, s->a));
    T_GO(ph_stream_wait_stream(s->b, s->a));
    T_GO(ph_record_stream(block, s->b));
    T_GO(t_add(&s->world, s->b, block, s->y, N, 1));
    ph_free(block, NULL);
    block = NULL;
    for (int i = 0; i < 8; i++) {
        T_GO_OUT(next[i], PH_NEW(&next[i], N, s->a));
        T_GO(ph_memset_u32(next[i], 0, N, s->a));
    }
    T_GO(ph_stream_synchronize(s->a));
    T_GO(ph_stream_synchronize(s->b));
    T_GO(t_same(s->b, s->y, N, 9));
out:
    ph_free(block, NULL);
    for (int i = 0; i < 8; i++)
        ph_free(next[i], NULL);
    return status;
}

static ph_status pools(t_scene *s)
{
    ph_status status;
    ph_pool *pool = NULL;
    int32_t *block = NULL, *outside = NULL;
    ph_allocation where;
    bool routed = false;
    T_GO_OUT(pool, ph_pool_create(&pool, s->world.device, NULL));
    T_GO(ph_pool_begin(pool));
    routed = true;
    T_GO_OUT(block, PH_NEW(&block, N, s->a));
    T_GO(ph_pool_end(pool));
    routed = false;
    T_GO_OUT(outside, PH_NEW(&outside, N, s->a));
    T_GO(ph_memory_lookup(&where, s->world.device, block));
    assert_ptr_equal(where.pool, pool);
    T_GO(ph_memory_lookup(&where, s->world.device, outside));
    assert_null(where.pool);
    T_GO(use(s, block, 10));
out:
    if (routed)
        ph_ignore(ph_pool_end(pool));
    ph_free(block, NULL);
    ph_free(outside, NULL);
    ph_pool_release(pool);
    return status;
}

static ph_status source_alloc(void **out, size_t bytes, ph_stream *stream, void *user)
{
    (void)stream;
    *out = aligned_alloc(512, bytes);
    if (!*out)
        return ph_fail(PH_ERROR_DEVICE_MEMORY, "no memory in the test's own source");
    atomic_fetch_add(&((t_scene *)user)->segments, 1);
    return PH_OK;
}

static void source_free(void *pointer, size_t bytes, void *user)
{
    (void)bytes;
    atomic_fetch_sub(&((t_scene *)user)->segments, 1);
    free(pointer);
}

/* Every segment that the pool took from its source goes back to it, also what a failed run left
 * for later. */
static ph_status custom_source(t_scene *s)
{
    ph_status status;
    ph_pool *pool = NULL;
    void *block = NULL;
    bool routed = false;
    ph_pool_options options = {.alloc = source_alloc, .free = source_free, .user = s};
    T_GO_OUT(pool, ph_pool_create(&pool, s->world.device, &options));
    T_GO(ph_pool_begin(pool));
    routed = true;
    T_GO_OUT(block, ph_malloc(&block, 1, 3000, s->a));
    assert_true(atomic_load(&s->segments) >= 1);
out:
    if (routed)
        ph_ignore(ph_pool_end(pool));
    ph_free(block, NULL);
    ph_pool_release(pool);
    if (status == PH_OK)
        status = ph_memory_trim(s->world.device);
    if (status == PH_OK)
        assert_int_equal(atomic_load(&s->segments), 0);
    return status;
}

static ph_status trims(t_scene *s)
{
    ph_status status;
    ph_memory_stats stats;
    void *block = NULL;
    T_GO_OUT(block, ph_malloc(&block, 1, 40u << 20, s->a));
    T_GO(ph_memset(block, 0, 40u << 20, s->a));
    ph_free(block, NULL);
    block = NULL;
    T_GO(ph_memory_trim(s->world.device));
    T_GO(ph_memory_get_stats(&stats, s->world.device));
    assert_true(stats.reserved < 40u << 20);
out:
    ph_free(block, NULL);
    return status;
}

static ph_status snapshots(t_scene *s)
{
    ph_status status;
    char *text = NULL;
    void *block = NULL;
    ph_memory_stats stats;
    ph_device_info info;
    T_GO(ph_memory_record_history(s->world.device, 16));
    for (int i = 0; i < 20; i++) {
        T_GO_OUT(block, ph_malloc(&block, 1, 2000, s->a));
        ph_free(block, NULL);
        block = NULL;
    }
    T_GO_OUT(text, ph_memory_snapshot(&text, s->world.device, NULL));
    assert_int_equal(text[0], '{');
    assert_non_null(strstr(text, "segment"));
    T_GO(ph_memory_get_stats(&stats, s->world.device));
    T_GO(ph_pool_stats(&stats, s->pool));
    T_GO(ph_memory_reset_peaks(s->world.device));
    T_GO(ph_memory_reset_accumulated(s->world.device));
    T_GO(ph_device_get_info(&info, s->world.device));
    T_GO(ph_memory_record_history(s->world.device, 0));
out:
    ph_string_free(text);
    ph_free(block, NULL);
    return status;
}

/* A layout of three blocks, the middle one freed; something else is put there; then the layout
 * again. */
static ph_status checkpoints(t_scene *s)
{
    ph_status status;
    ph_pool_checkpoint *checkpoint = NULL;
    ph_pool *pool = NULL;
    int32_t *blocks[3] = {0}, *later = NULL;
    bool equal = false, restored = false, routed = false;
    T_GO_OUT(pool, ph_pool_create(&pool, s->world.device, NULL));
    T_GO(ph_pool_begin(pool));
    routed = true;
    for (int i = 0; i < 3; i++)
        T_GO_OUT(blocks[i], PH_NEW(&blocks[i], N, s->a));
    ph_free(blocks[1], NULL);
    blocks[1] = NULL;
    T_GO_OUT(checkpoint, ph_pool_checkpoint_create(&checkpoint, pool));
    T_GO_OUT(later, PH_NEW(&later, N, s->a));
    T_GO(ph_pool_end(pool));
    routed = false;
    T_GO(ph_pool_checkpoint_restore(pool, checkpoint));
    restored = true;
    void *live[2] = {blocks[0], blocks[2]};
    T_GO(ph_pool_check_live(&equal, pool, live, 2));
    assert_true(equal);
    T_GO(use(s, blocks[0], 11));
    T_GO(use(s, blocks[2], 12));
out:
    if (routed)
        ph_ignore(ph_pool_end(pool));
    if (!restored)
        ph_free(later, NULL);
    for (int i = 0; i < 3; i++)
        ph_free(blocks[i], NULL);
    ph_pool_checkpoint_destroy(checkpoint);
    ph_pool_release(pool);
    return status;
}

/* A small device: what a pool has cached serves a request of the default pool before the device
 * is said to be out of memory. */
static ph_status borrowed_memory(t_scene *s)
{
    ph_status status;
    ph_device *device = NULL;
    ph_stream *stream = NULL;
    ph_pool *pool = NULL;
    void *block = NULL, *borrower = NULL;
    ph_pool_options options = {.use_on_oom = true};
    bool routed = false;
    (void)s;
    T_GO_OUT(device, t_open_small(&device, 64u << 20));
    T_GO_OUT(stream, ph_stream_create(&stream, device, NULL));
    T_GO_OUT(pool, ph_pool_create(&pool, device, &options));
    T_GO(ph_pool_begin(pool));
    routed = true;
    T_GO_OUT(block, ph_malloc(&block, 1, 40u << 20, stream));
    ph_free(block, NULL);
    block = NULL;
    T_GO(ph_pool_end(pool));
    routed = false;
    T_GO_OUT(borrower, ph_malloc(&borrower, 1, 40u << 20, stream));
    T_GO(ph_memset(borrower, 1, 40u << 20, stream));
    T_GO(ph_stream_synchronize(stream));
out:
    if (routed)
        ph_ignore(ph_pool_end(pool));
    ph_free(block, NULL);
    ph_free(borrower, NULL);
    ph_pool_release(pool);
    ph_stream_destroy(stream);
    ph_device_release(device);
    return status;
}

static ph_status exact_places(t_scene *s)
{
    ph_status status;
    void *block = NULL, *again = NULL;
    T_GO_OUT(block, ph_malloc(&block, 1, 4096, s->a));
    void *place = block;
    ph_free(block, NULL);
    block = NULL;
    T_GO_OUT(again, ph_malloc_at(&again, place, 4096, s->a));
    assert_ptr_equal(again, place);
    T_GO(use(s, again, 13));
out:
    ph_free(block, NULL);
    ph_free(again, NULL);
    return status;
}

const t_scenario t_scenarios_memory[] = {
    {"miss and hit", miss_and_hit},
    {"many small blocks", many_small},
    {"pinned blocks", pinned_blocks},
    {"recorded streams", recorded_streams},
    {"pools", pools},
    {"a custom source", custom_source},
    {"trims", trims},
    {"snapshots", snapshots},
    {"checkpoints", checkpoints},
    {"borrowed memory", borrowed_memory},
    {"exact places", exact_places},
    {NULL, NULL},
};
