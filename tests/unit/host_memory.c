/* SPDX-License-Identifier: MIT */
/* tests/unit/host_memory.c: the host device's memory: allocations, addresses, copies, fills. */
#include "driver/driver.h"
#include "support/host_driver.h"
#include "support/test.h"

enum {
    GRANULE = 2 << 20
};

static uint64_t memory_free(const world *w)
{
    ph__drv_device_info info;
    assert_int_equal(drv->device_info(&info, w->device), 0);
    return info.memory_free;
}

static ph__drv_pointer look_up(const world *w, const void *address)
{
    ph__drv_pointer pointer;
    memset(&pointer, 0xff, sizeof pointer);
    assert_int_equal(drv->pointer_info(&pointer, w->device, address), 0);
    return pointer;
}

static void *segment(const world *w, size_t bytes)
{
    void *address = NULL;
    assert_int_equal(drv->segment_create(&address, w->device, bytes), 0);
    return address;
}

static void *pinned(const world *w, size_t bytes)
{
    void *address = NULL;
    assert_int_equal(drv->pinned_alloc(&address, w->device, bytes), 0);
    return address;
}

/* ---- allocations ---- */

TEST(segments_are_aligned_zeroed_and_accounted)
{
    world w;
    world_open(&w, 0);
    uint64_t before = memory_free(&w);
    unsigned char *two = segment(&w, (size_t)2 * GRANULE), *one = segment(&w, GRANULE);
    assert_int_equal((uintptr_t)two % GRANULE, 0);
    assert_int_equal((uintptr_t)one % GRANULE, 0);
    assert_int_equal(memory_free(&w), before - (uint64_t)3 * GRANULE);
    for (size_t i = 0; i < (size_t)2 * GRANULE; i += 4096)
        assert_int_equal(two[i], 0);
    two[0] = two[2 * GRANULE - 1] = 1;
    drv->segment_destroy(w.device, two, (size_t)2 * GRANULE);
    drv->segment_destroy(w.device, one, GRANULE);
    drv->segment_destroy(w.device, NULL, GRANULE);
    assert_int_equal(memory_free(&w), before);
    void *none = NULL;
    assert_int_equal(drv->segment_create(&none, w.device, 0), PH__R_INVALID_VALUE);
    assert_int_equal(drv->segment_create(&none, w.device, 4096), PH__R_INVALID_VALUE);
    assert_null(none);
    world_close(&w);
}

TEST(the_limit_is_kept)
{
    world w;
    world_open(&w, 0); /* 64 MiB */
    uint64_t before = memory_free(&w);
    void *none = NULL, *all = NULL;
    assert_int_equal(drv->segment_create(&none, w.device, (size_t)33 * GRANULE),
                     PH__R_OUT_OF_MEMORY);
    assert_non_null(strstr(ph__driver_reason(), "are left"));
    assert_int_equal(drv->segment_create(&none, w.device, SIZE_MAX / GRANULE * GRANULE),
                     PH__R_OUT_OF_MEMORY);
    assert_int_equal(drv->plain_alloc(&none, w.device, SIZE_MAX), PH__R_OUT_OF_MEMORY);
    assert_int_equal(drv->pinned_alloc(&none, w.device, SIZE_MAX), PH__R_OUT_OF_MEMORY);
    assert_null(none);
    assert_int_equal(memory_free(&w), before);
    assert_int_equal(drv->plain_alloc(&all, w.device, (size_t)before), 0);
    assert_int_equal(memory_free(&w), 0);
    assert_int_equal(drv->segment_create(&none, w.device, GRANULE), PH__R_OUT_OF_MEMORY);
    assert_int_equal(drv->plain_alloc(&none, w.device, 1), PH__R_OUT_OF_MEMORY);
    void *host = pinned(&w, 100); /* of the host, not the device */
    assert_int_equal(drv->pinned_free(w.device, host), 0);
    assert_int_equal(drv->plain_free(w.device, all), 0);
    assert_int_equal(memory_free(&w), before);
    world_close(&w);
}

TEST(plain_and_pinned_are_aligned_and_refuse_strangers)
{
    world w;
    world_open(&w, 0);
    for (size_t bytes = 1; bytes < 10000; bytes += 777) {
        void *plain = NULL, *host = pinned(&w, bytes);
        assert_int_equal(drv->plain_alloc(&plain, w.device, bytes), 0);
        assert_int_equal((uintptr_t)plain % 256, 0);
        assert_int_equal((uintptr_t)host % 4096, 0);
        memset(plain, 1, bytes);
        memset(host, 2, bytes);
        assert_int_equal(drv->plain_free(w.device, host), PH__R_INVALID_VALUE);
        assert_int_equal(drv->pinned_free(w.device, plain), PH__R_INVALID_VALUE);
        assert_int_equal(drv->plain_free(w.device, (char *)plain + 1), PH__R_INVALID_VALUE);
        assert_int_equal(drv->plain_free(w.device, plain), 0);
        assert_int_equal(drv->pinned_free(w.device, host), 0);
    }
    void *none = NULL;
    assert_int_equal(drv->plain_alloc(&none, w.device, 0), PH__R_INVALID_VALUE);
    assert_int_equal(drv->pinned_alloc(&none, w.device, 0), PH__R_INVALID_VALUE);
    assert_int_equal(drv->plain_free(w.device, NULL), 0);
    assert_int_equal(drv->pinned_free(w.device, NULL), 0);
    world_close(&w);
}

TEST(addresses_are_known_by_kind_and_range)
{
    world w;
    int32_t local = 0;
    world_open(&w, 0);
    unsigned char *a = segment(&w, GRANULE), *host = pinned(&w, 100);
    ph__drv_pointer p = look_up(&w, a + 5);
    assert_int_equal(p.kind, PH__MEMORY_DEVICE);
    assert_true(p.base == (uintptr_t)a && p.size == GRANULE && p.buffer_id != 0);
    ph__drv_pointer q = look_up(&w, host + 99);
    assert_int_equal(q.kind, PH__MEMORY_PINNED);
    assert_true(q.base == (uintptr_t)host && q.size == 100 && q.buffer_id != 0 &&
                q.buffer_id != p.buffer_id);
    assert_int_equal(look_up(&w, host + 100).kind, PH__MEMORY_PAGEABLE);
    assert_int_equal(look_up(&w, &local).kind, PH__MEMORY_PAGEABLE);
    assert_int_equal(look_up(&w, &local).base, 0);
    assert_int_equal(look_up(&w, NULL).kind, PH__MEMORY_PAGEABLE);
    assert_int_equal(look_up(&w, w.words + 3).kind, PH__MEMORY_DEVICE);
    drv->segment_destroy(w.device, a, GRANULE);
    assert_int_equal(look_up(&w, a + 5).kind, PH__MEMORY_PAGEABLE);
    unsigned char *b = segment(&w, GRANULE);
    assert_true(look_up(&w, b).buffer_id > q.buffer_id);
    drv->segment_destroy(w.device, b, GRANULE);
    assert_int_equal(drv->pinned_free(w.device, host), 0);
    world_close(&w);
}

TEST(buffer_ids_are_of_the_process)
{
    world one, other;
    world_open(&one, 0);
    world_open(&other, 0);
    assert_true(look_up(&one, one.words).buffer_id != look_up(&other, other.words).buffer_id);
    assert_int_equal(look_up(&one, other.words).kind, PH__MEMORY_PAGEABLE);
    world_close(&one);
    world_close(&other);
}

static void *open_soon(void *argument)
{
    gate *g = argument;
    while (!atomic_load(&g->reached))
        sched_yield();
    atomic_store(&g->open, true);
    return NULL;
}

TEST(freeing_waits_for_work_that_may_use_the_memory)
{
    world w;
    gate g = {0};
    pthread_t opener;
    world_open(&w, 0);
    int32_t *host = pinned(&w, 4);
    *host = 9;
    assert_int_equal(pthread_create(&opener, NULL, open_soon, &g), 0);
    assert_int_equal(gate_wait(&g, w.a), 0);
    const ph__drv_memcpy copy = {w.words, host, 4};
    assert_int_equal(drv->copy(w.a, &copy, NULL), 0);
    assert_int_equal(drv->pinned_free(w.device, host), 0);
    assert_int_equal(w.words[0], 9);
    pthread_join(opener, NULL);
    world_close(&w);
}

TEST(what_is_left_goes_with_the_device)
{
    int64_t live = ph__alloc_live();
    world w;
    world_open(&w, 0);
    (void)segment(&w, GRANULE);
    (void)pinned(&w, 77);
    void *plain = NULL;
    assert_int_equal(drv->plain_alloc(&plain, w.device, 55), 0);
    world_close(&w);
    assert_int_equal(ph__alloc_live(), live);
}

/* ---- copies ---- */

enum {
    LARGE = 200000
};

static void pattern(unsigned char *bytes, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(i * 7 + seed + i / 251);
}

/* From every kind of memory to every other, small and large, on an idle stream and behind other
 * work, under chaos and not. */
TEST(copies_between_all_kinds)
{
    static unsigned char pageable[2][LARGE], want[LARGE];
    for (int round = 0; round < 16; round++) {
        world w;
        bool chaos = round & 1, busy = round & 2, sync = round & 4;
        size_t bytes = round & 8 ? LARGE : 100;
        world_open(&w, chaos ? (uint64_t)round : 0);
        unsigned char *device = segment(&w, GRANULE), *host = pinned(&w, (size_t)2 * LARGE);
        unsigned char *from[3] = {device, host, pageable[0]};
        unsigned char *to[3] = {device + LARGE, host + LARGE, pageable[1]};
        for (unsigned pair = 0; pair < 9; pair++) {
            gate g = {.open = true};
            pattern(from[pair / 3], bytes, pair);
            memcpy(want, from[pair / 3], bytes);
            memset(to[pair % 3], 0, bytes);
            if (busy)
                assert_int_equal(gate_wait(&g, w.a), 0);
            const ph__drv_memcpy copy = {to[pair % 3], from[pair / 3], bytes};
            assert_int_equal(sync ? drv->copy_sync(w.device, &copy) : drv->copy(w.a, &copy, NULL),
                             0);
            if (pair / 3 == 2)
                memset(pageable[0], 0xee, bytes);
            if (busy || (pair % 3 != 2 && !sync))
                assert_int_equal(drv->stream_synchronize(w.a), 0);
            assert_memory_equal(to[pair % 3], want, bytes);
        }
        assert_int_equal(drv->device_synchronize(w.device), 0);
        assert_int_equal(drv->pinned_free(w.device, host), 0);
        drv->segment_destroy(w.device, device, GRANULE);
        world_close(&w);
    }
}

TEST(a_pageable_source_is_read_before_the_call_returns)
{
    static unsigned char source[LARGE], want[LARGE];
    world w;
    gate g = {0};
    world_open(&w, 0);
    unsigned char *device = segment(&w, GRANULE);
    pattern(source, LARGE, 3);
    memcpy(want, source, LARGE);
    assert_int_equal(gate_wait(&g, w.a), 0);
    const ph__drv_memcpy copy = {device, source, LARGE};
    assert_int_equal(drv->copy(w.a, &copy, NULL), 0);
    memset(source, 0, LARGE);
    assert_int_equal(device[1], 0);
    atomic_store(&g.open, true);
    assert_int_equal(drv->stream_synchronize(w.a), 0);
    assert_memory_equal(device, want, LARGE);
    drv->segment_destroy(w.device, device, GRANULE);
    world_close(&w);
}

TEST(copies_of_pinned_and_device_memory_do_not_wait)
{
    world w;
    gate g = {0};
    world_open(&w, 0);
    int32_t *host = pinned(&w, 8);
    host[0] = 1;
    host[1] = 0;
    assert_int_equal(gate_wait(&g, w.a), 0);
    const ph__drv_memcpy in = {w.words, host, 4}, out = {host + 1, w.words, 4};
    assert_int_equal(drv->copy(w.a, &in, NULL), 0);
    assert_int_equal(drv->copy(w.a, &out, NULL), 0);
    host[0] = 2; /* read when its turn comes */
    assert_int_equal(host[1], 0);
    atomic_store(&g.open, true);
    assert_int_equal(drv->stream_synchronize(w.a), 0);
    assert_int_equal(host[1], 2);
    assert_int_equal(drv->pinned_free(w.device, host), 0);
    world_close(&w);
}

TEST(empty_and_overlapping_copies_work_and_null_is_refused)
{
    world w;
    world_open(&w, 0);
    const ph__drv_memcpy nothing = {NULL, NULL, 0}, no_source = {w.words, NULL, 4},
                         no_target = {NULL, w.words, 4};
    assert_int_equal(drv->copy(w.a, &nothing, NULL), 0);
    assert_int_equal(drv->copy_sync(w.device, &nothing), 0);
    assert_int_equal(drv->copy(w.a, &no_source, NULL), PH__R_INVALID_VALUE);
    assert_int_equal(drv->copy(w.a, &no_target, NULL), PH__R_INVALID_VALUE);
    assert_int_equal(drv->copy_sync(w.device, &no_target), PH__R_INVALID_VALUE);
    for (int i = 0; i < 8; i++)
        w.words[i] = i;
    const ph__drv_memcpy overlapping = {w.words + 1, w.words, 7 * 4};
    assert_int_equal(drv->copy(w.a, &overlapping, NULL), 0);
    assert_int_equal(drv->stream_synchronize(w.a), 0);
    for (int i = 1; i < 8; i++)
        assert_int_equal(w.words[i], i - 1);
    world_close(&w);
}

/* ---- fills ---- */

TEST(fills_of_bytes_and_words)
{
    world w;
    world_open(&w, 0);
    unsigned char *device = segment(&w, GRANULE);
    for (int busy = 0; busy < 2; busy++) {
        gate g = {.open = true};
        const ph__drv_memset bytes = {device + 3, 0xffffffa5, 1, 90000},
                             words = {device + 100004, 0x01020304, 4, 20000};
        memset(device, 0, GRANULE);
        if (busy)
            assert_int_equal(gate_wait(&g, w.a), 0);
        assert_int_equal(drv->fill(w.a, &bytes), 0);
        assert_int_equal(drv->fill(w.a, &words), 0);
        assert_int_equal(drv->stream_synchronize(w.a), 0);
        assert_true(device[2] == 0 && device[3] == 0xa5 && device[90002] == 0xa5 &&
                    device[90003] == 0);
        uint32_t word;
        for (size_t i = 0; i < 20000; i++) {
            memcpy(&word, device + 100004 + 4 * i, 4);
            assert_int_equal(word, 0x01020304);
        }
        memcpy(&word, device + 180004, 4);
        assert_int_equal(word, 0);
    }
    drv->segment_destroy(w.device, device, GRANULE);
    world_close(&w);
}

TEST(fills_check_their_arguments)
{
    world w;
    world_open(&w, 0);
    const ph__drv_memset bad[] = {
        {w.words, 0, 2, 1}, {w.words, 0, 8, 1},
        {w.words, 0, 0, 1}, {(char *)w.words + 2, 0, 4, 1},
        {NULL, 0, 1, 1},    {w.words, 0, 4, SIZE_MAX / 2},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(drv->fill(w.a, &bad[i]), PH__R_INVALID_VALUE);
    const ph__drv_memset nothing = {NULL, 0, 4, 0};
    assert_int_equal(drv->fill(w.a, &nothing), 0);
    const ph__drv_host no_function = {NULL, NULL};
    assert_int_equal(drv->host(w.a, &no_function), PH__R_INVALID_VALUE);
    world_close(&w);
}

/* ---- host memory ---- */

static int memory_program(ph__drv_device *device, ph__drv_stream *stream, bool busy)
{
    static int32_t source[1000], out[1000];
    void *memory = NULL, *plain = NULL, *host = NULL;
    gate g = {.open = true};
    int result = drv->segment_create(&memory, device, GRANULE);
    if (!result)
        result = drv->plain_alloc(&plain, device, 1000);
    if (!result)
        result = drv->pinned_alloc(&host, device, 1000);
    if (!result && busy)
        result = gate_wait(&g, stream);
    const ph__drv_memcpy in = {memory, source, sizeof source}, back = {out, memory, sizeof out};
    if (!result)
        result = drv->copy(stream, &in, NULL);
    const ph__drv_memset fill = {memory, 3, 4, 100000};
    if (!result)
        result = drv->fill(stream, &fill);
    if (!result)
        result = drv->copy(stream, &back, NULL);
    if (!result)
        result = drv->copy_sync(device, &back);
    if (!result)
        assert_int_equal(out[999], 3);
    assert_int_equal(drv->device_synchronize(device), 0);
    assert_int_equal(drv->plain_free(device, plain), 0);
    assert_int_equal(drv->pinned_free(device, host), 0);
    drv->segment_destroy(device, memory, GRANULE);
    return result;
}

TEST(every_failing_allocation_is_answered)
{
    for (int busy = 0; busy < 2; busy++) {
        int result = -1;
        for (int64_t n = 0; result != 0; n++) {
            ph__drv_device *device = NULL;
            ph__drv_stream *stream = NULL;
            int64_t live = ph__alloc_live();
            assert_true(n < 100);
            assert_int_equal(drv->device_open(&device, 0, NULL), 0);
            assert_int_equal(drv->stream_create(&stream, device, PH__STREAM_NON_BLOCKING, 0), 0);
            ph__drv_device_info before, after;
            assert_int_equal(drv->device_info(&before, device), 0);
            ph__alloc_fail_after(n);
            result = memory_program(device, stream, busy);
            ph__alloc_fail_after(PH__ALLOC_NEVER);
            assert_true(result == 0 || result == PH__R_OUT_OF_MEMORY);
            assert_int_equal(drv->device_info(&after, device), 0);
            assert_int_equal(after.memory_free, before.memory_free);
            drv->stream_destroy(stream);
            drv->device_close(device);
            assert_int_equal(ph__alloc_live(), live);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_are_aligned_zeroed_and_accounted),
        cmocka_unit_test(the_limit_is_kept),
        cmocka_unit_test(plain_and_pinned_are_aligned_and_refuse_strangers),
        cmocka_unit_test(addresses_are_known_by_kind_and_range),
        cmocka_unit_test(buffer_ids_are_of_the_process),
        cmocka_unit_test(freeing_waits_for_work_that_may_use_the_memory),
        cmocka_unit_test(what_is_left_goes_with_the_device),
        cmocka_unit_test(copies_between_all_kinds),
        cmocka_unit_test(a_pageable_source_is_read_before_the_call_returns),
        cmocka_unit_test(copies_of_pinned_and_device_memory_do_not_wait),
        cmocka_unit_test(empty_and_overlapping_copies_work_and_null_is_refused),
        cmocka_unit_test(fills_of_bytes_and_words),
        cmocka_unit_test(fills_check_their_arguments),
        cmocka_unit_test(every_failing_allocation_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
