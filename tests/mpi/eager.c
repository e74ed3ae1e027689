/* SPDX-License-Identifier: MIT */
/* Collectives of several ranks, submitted eagerly: each against a sum made here, bit by bit. */
#include "base/half.h"
#include "support/ranks.h"
#include "support/test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MANY = 300001 /* elements: several pieces, and some left over */
};
static t_team team;

FIXTURE(open_team)
{
    t_team_open(&team, 20000);
    return 0;
}

FIXTURE(close_team)
{
    t_team_close(&team);
    return 0;
}

static void *new_block(size_t bytes)
{
    void *block;
    assert_ok(ph_malloc(&block, 1, bytes, team.stream));
    assert_ok(ph_memset(block, 0xab, bytes, team.stream));
    return block;
}

/* Of another size at each rank and place. */
static float value_at(unsigned rank, size_t i)
{
    return (float)((double)((i * 2654435761u + rank * 40503u) % 100003) / 7.0 - 5000.0);
}

static float *new_values(size_t count, unsigned rank)
{
    float *host = malloc(count * sizeof *host), *block = new_block(count * sizeof *block);
    assert_non_null(host);
    for (size_t i = 0; i < count; i++)
        host[i] = value_at(rank, i);
    assert_ok(ph_memcpy(block, host, count * sizeof *host, team.stream));
    assert_ok(ph_stream_synchronize(team.stream));
    free(host);
    return block;
}

static float expected_sum(size_t i)
{
    float sum = value_at(0, i);
    for (unsigned rank = 1; rank < team.size; rank++)
        sum += value_at(rank, i);
    return sum;
}

static void expect_sums(const float *block, size_t count, size_t first)
{
    float *host = malloc(count * sizeof *host);
    assert_non_null(host);
    t_read(host, block, count * sizeof *host, team.stream);
    for (size_t i = 0; i < count; i++) {
        float want = expected_sum(first + i);
        assert_memory_equal(&host[i], &want, sizeof want);
    }
    free(host);
}

TEST(all_reduce_adds_in_the_order_of_the_ranks)
{
    static const size_t counts[] = {1, 3, 1000, 1025, MANY};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        float *x = new_values(counts[i], team.rank), *y = new_block(counts[i] * sizeof *y);
        assert_ok(
            ph_all_reduce(team.comm, y, x, counts[i], PH_DTYPE_F32, PH_REDUCE_SUM, team.stream));
        expect_sums(y, counts[i], 0);
        assert_ok(
            ph_all_reduce(team.comm, x, x, counts[i], PH_DTYPE_F32, PH_REDUCE_SUM, team.stream));
        expect_sums(x, counts[i], 0);
        ph_free(x, team.stream);
        ph_free(y, team.stream);
    }
}

TEST(reduce_scatter_gives_each_rank_its_part)
{
    for (size_t count = 5; count <= MANY; count *= 60000) {
        float *x = new_values(count * team.size, team.rank), *y = new_block(count * sizeof *y);
        assert_ok(
            ph_reduce_scatter(team.comm, y, x, count, PH_DTYPE_F32, PH_REDUCE_SUM, team.stream));
        expect_sums(y, count, count * team.rank);
        float *own = x + count * team.rank;
        assert_ok(
            ph_reduce_scatter(team.comm, own, x, count, PH_DTYPE_F32, PH_REDUCE_SUM, team.stream));
        expect_sums(own, count, count * team.rank);
        ph_free(x, team.stream);
        ph_free(y, team.stream);
    }
}

static void expect_gathered(const float *block, size_t count)
{
    float *host = malloc(team.size * count * sizeof *host);
    assert_non_null(host);
    t_read(host, block, team.size * count * sizeof *host, team.stream);
    for (unsigned rank = 0; rank < team.size; rank++)
        for (size_t i = 0; i < count; i++)
            assert_true(host[rank * count + i] == value_at(rank, i));
    free(host);
}

TEST(all_gather_gives_every_rank_all_parts)
{
    for (size_t count = 5; count <= MANY; count *= 60000) {
        float *x = new_values(count, team.rank), *y = new_block(team.size * count * sizeof *y);
        assert_ok(ph_all_gather(team.comm, y, x, count, PH_DTYPE_F32, team.stream));
        expect_gathered(y, count);
        assert_ok(ph_memset(y, 0, team.size * count * sizeof *y, team.stream));
        assert_ok(ph_memcpy(y + team.rank * count, x, count * sizeof *x, team.stream));
        assert_ok(
            ph_all_gather(team.comm, y, y + team.rank * count, count, PH_DTYPE_F32, team.stream));
        expect_gathered(y, count);
        ph_free(x, team.stream);
        ph_free(y, team.stream);
    }
}

TEST(broadcast_comes_from_every_root)
{
    for (unsigned root = 0; root < team.size; root++) {
        float *x = new_values(1000, team.rank), *y = new_block(1000 * sizeof *y), host[1000];
        assert_ok(ph_broadcast(team.comm, y, team.rank == root ? x : NULL, 1000, PH_DTYPE_F32, root,
                               team.stream));
        assert_ok(ph_broadcast(team.comm, x, x, 1000, PH_DTYPE_F32, root, team.stream));
        for (int k = 0; k < 2; k++) {
            t_read(host, k ? x : y, sizeof host, team.stream);
            for (size_t i = 0; i < 1000; i++)
                assert_true(host[i] == value_at(root, i));
        }
        ph_free(x, team.stream);
        ph_free(y, team.stream);
    }
}

/* One element of `bytes` on each rank, reduced to what is expected. */
static void expect_reduced(const void *mine, const void *want, size_t bytes, ph_dtype dtype,
                           ph_reduce_op op)
{
    unsigned char *block = new_block(bytes), got[8];
    assert_ok(ph_memcpy(block, mine, bytes, team.stream));
    assert_ok(ph_all_reduce(team.comm, block, block, 1, dtype, op, team.stream));
    t_read(got, block, bytes, team.stream);
    assert_memory_equal(got, want, bytes);
    ph_free(block, team.stream);
}
#define EXPECT(type, name, op, of_rank, expected)                                                  \
    do {                                                                                           \
        unsigned r = team.rank;                                                                    \
        type mine = (type)(of_rank), want = (type)(expected);                                      \
        expect_reduced(&mine, &want, sizeof mine, PH_DTYPE_##name, PH_REDUCE_##op);                \
        (void)r;                                                                                   \
    } while (0)

TEST(every_type_and_operation)
{
    unsigned n = team.size;
    double product = 1;
    for (unsigned i = 0; i < n; i++)
        product *= i + 2;
    EXPECT(double, F64, SUM, r + 0.5, n * (n - 1) / 2.0 + n / 2.0);
    EXPECT(double, F64, PRODUCT, r + 2, product);
    EXPECT(double, F64, MEAN, r, (n - 1) / 2.0);
    EXPECT(float, F32, MIN, 3.0f - (float)r, 3.0f - (float)(n - 1));
    EXPECT(float, F32, MAX, (float)r - 3.0f, (float)(n - 1) - 3.0f);
    EXPECT(float, F32, MEAN, r, (double)(n - 1) / 2.0);
    EXPECT(int32_t, I32, SUM, INT32_MAX - (int)r,
           (int32_t)((uint32_t)INT32_MAX * n - n * (n - 1) / 2));
    EXPECT(int32_t, I32, MIN, -(int)r, -(int)(n - 1));
    EXPECT(int64_t, I64, SUM, (int64_t)1 << 40, (int64_t)n << 40);
    EXPECT(int64_t, I64, MAX, -(int64_t)r, 0);
    EXPECT(uint8_t, U8, SUM, 200, (200 * n) & 255);
    EXPECT(uint8_t, U8, PRODUCT, 3, n == 2 ? 9 : 81);
    EXPECT(uint8_t, BOOL, MIN, r != 0, 0);
    EXPECT(uint8_t, BOOL, MAX, r == 0, 1);
    EXPECT(uint16_t, F16, SUM, ph__f16_put(0.1f * (float)(r + 1)),
           n == 2 ? ph__f16_put(ph__f16_get(ph__f16_put(0.1f)) + ph__f16_get(ph__f16_put(0.2f)))
                  : ph__f16_put(ph__f16_get(ph__f16_put(0.1f)) + ph__f16_get(ph__f16_put(0.2f)) +
                                ph__f16_get(ph__f16_put(0.3f)) + ph__f16_get(ph__f16_put(0.4f))));
    EXPECT(uint16_t, BF16, MEAN, ph__bf16_put((float)r), ph__bf16_put((float)(n - 1) / 2));
}

/* What `of`'s NaN and the numbers of the others give, on every rank. */
static void reduce_with_a_nan(unsigned of, ph_reduce_op op)
{
    float *x = new_block(sizeof *x), mine = team.rank == of ? NAN : (float)team.rank, got;
    float *all = new_block(team.size * sizeof *all), every[16];
    assert_ok(ph_memcpy(x, &mine, sizeof mine, team.stream));
    assert_ok(ph_all_reduce(team.comm, x, x, 1, PH_DTYPE_F32, op, team.stream));
    assert_ok(ph_all_gather(team.comm, all, x, 1, PH_DTYPE_F32, team.stream));
    t_read(&got, x, sizeof got, team.stream);
    t_read(every, all, team.size * sizeof *every, team.stream);
    for (unsigned rank = 0; rank < team.size; rank++)
        assert_memory_equal(&every[rank], &got, sizeof got);
    float least = of == 0 ? 1 : 0, most = (float)(of == team.size - 1 ? of - 1 : team.size - 1);
    /* NCCL may give either, as the header says. */
    if (!isnan(got)) {
        assert_true(t_ranks_have_gpus());
        assert_float_equal(got, op == PH_REDUCE_MIN ? least : most, 0);
    }
    ph_free(x, team.stream);
    ph_free(all, team.stream);
}

TEST(a_nan_wins_on_host_devices_and_is_alike_on_all_ranks)
{
    for (unsigned of = 0; of < team.size; of++)
        for (int op = PH_REDUCE_MIN; op <= PH_REDUCE_MAX; op++)
            reduce_with_a_nan(of, (ph_reduce_op)op);
}

TEST(a_group_exchanges_around_the_ring)
{
    for (size_t count = 4; count <= MANY; count *= 70000) {
        unsigned next = (team.rank + 1) % team.size,
                 before = (team.rank + team.size - 1) % team.size;
        float *x = new_values(count, team.rank), *y = new_block(2 * count * sizeof *y);
        float *host = malloc(2 * count * sizeof *host);
        assert_non_null(host);
        assert_ok(ph_comm_group_begin(team.comm));
        assert_ok(ph_send(team.comm, x, count, PH_DTYPE_F32, next, team.stream));
        assert_ok(ph_send(team.comm, x + count / 2, count / 2, PH_DTYPE_F32, next, team.stream));
        assert_ok(ph_receive(team.comm, y, count, PH_DTYPE_F32, before, team.stream));
        assert_ok(ph_receive(team.comm, y + count, count / 2, PH_DTYPE_F32, before, team.stream));
        assert_ok(ph_comm_group_end(team.comm));
        t_read(host, y, (count + count / 2) * sizeof *host, team.stream);
        for (size_t i = 0; i < count; i++)
            assert_true(host[i] == value_at(before, i));
        for (size_t i = 0; i < count / 2; i++)
            assert_true(host[count + i] == value_at(before, count / 2 + i));
        free(host);
        ph_free(x, team.stream);
        ph_free(y, team.stream);
    }
}

TEST(a_send_meets_a_receive_and_nothing_is_something)
{
    float *x = new_values(8, team.rank), host[8];
    if (team.rank == 0) {
        assert_ok(ph_send(team.comm, x, 8, PH_DTYPE_F32, 1, team.stream));
        assert_ok(ph_send(team.comm, NULL, 0, PH_DTYPE_F32, 1, team.stream));
    } else if (team.rank == 1) {
        assert_ok(ph_receive(team.comm, x, 8, PH_DTYPE_F32, 0, team.stream));
        assert_ok(ph_receive(team.comm, NULL, 0, PH_DTYPE_F32, 0, team.stream));
        t_read(host, x, sizeof host, team.stream);
        for (size_t i = 0; i < 8; i++)
            assert_true(host[i] == value_at(0, i));
    }
    assert_ok(ph_all_reduce(team.comm, NULL, NULL, 0, PH_DTYPE_F32, PH_REDUCE_SUM, team.stream));
    assert_ok(ph_stream_synchronize(team.stream));
    ph_free(x, team.stream);
}

TEST(streams_keep_the_order_of_submission)
{
    ph_stream *streams[4];
    float *x = new_values(2000, team.rank);
    for (size_t i = 0; i < 4; i++)
        assert_ok(ph_stream_create(&streams[i], team.device, NULL));
    for (size_t i = 0; i < 40; i++)
        assert_ok(ph_all_reduce(team.comm, x, x, 1000 + 10 * i, PH_DTYPE_F32, PH_REDUCE_MAX,
                                streams[(i * 7 + team.rank * i) % 4]));
    for (size_t i = 0; i < 4; i++) {
        assert_ok(ph_stream_synchronize(streams[i]));
        ph_stream_destroy(streams[i]);
    }
    ph_free(x, team.stream);
}

TEST(the_last_release_waits_for_what_was_submitted)
{
    ph_comm *second;
    float *x = new_values(1000, team.rank);
    assert_ok(ph_comm_create(&second, team.device, NULL));
    for (int i = 0; i < 20; i++)
        assert_ok(ph_all_reduce(second, x, x, 1000, PH_DTYPE_F32, PH_REDUCE_MIN, team.stream));
    ph_comm_release(second);
    assert_ok(ph_stream_synchronize(team.stream));
    ph_free(x, team.stream);
}

int main(void)
{
#define IN_TEAM(name) cmocka_unit_test_setup_teardown(name, open_team, close_team)
    const struct CMUnitTest tests[] = {
        IN_TEAM(all_reduce_adds_in_the_order_of_the_ranks),
        IN_TEAM(reduce_scatter_gives_each_rank_its_part),
        IN_TEAM(all_gather_gives_every_rank_all_parts),
        IN_TEAM(broadcast_comes_from_every_root),
        IN_TEAM(every_type_and_operation),
        IN_TEAM(a_nan_wins_on_host_devices_and_is_alike_on_all_ranks),
        IN_TEAM(a_group_exchanges_around_the_ring),
        IN_TEAM(a_send_meets_a_receive_and_nothing_is_something),
        IN_TEAM(streams_keep_the_order_of_submission),
        IN_TEAM(the_last_release_waits_for_what_was_submitted),
    };
    return t_ranks(tests);
}
