/* SPDX-License-Identifier: MIT */
/* tests/graph/cxx_cache.cpp: graphs by key in C++. */
#include "support/cxx.hpp"
#include <stdexcept>

struct shape {
    int32_t rows, columns;
};

static void test_keys_and_pointers()
{
    scene s;
    auto x = s.ints(1), z = s.ints(7), y = s.ints(0);
    ph::graph_cache cache(s.device);
    int bodies = 0;
    const shape key{4, 250};
    for (int i = 0; i < 5; i++) {
        const auto result = cache.run(s.stream, key, [&](ph::stream_view on) {
            bodies++;
            s.plus(y.data(), x.data(), 3, on);
        });
        CHECK(result.path == (i < 2    ? PH_CACHE_EAGER
                              : i == 2 ? PH_CACHE_CAPTURED
                                       : PH_CACHE_REPLAYED));
        EXPECT(y.data(), 4);
    }
    CHECK(bodies == 3);
    const int32_t *from = x.data();
    ph_graph_cache_call call{};
    call.key = "moves";
    call.key_bytes = 5;
    call.pointer_count = 1;
    for (int i = 0; i < 8; i++) {
        const void *pointers[] = {from = i & 1 ? z.data() : x.data()};
        call.pointers = pointers;
        cache.run(s.stream, call, [&] { s.plus(y.data(), from, 3, s.stream); });
        EXPECT(y.data(), i & 1 ? 10 : 4);
    }
    CHECK(cache.stats().learned == 1 && cache.stats().keys == 2);
    CHECK(cache.entry(0).moved_groups == 1);
    CHECK(cache.text().find("moves") != std::string::npos);
    cache.drop("moves", 5);
    CHECK(cache.stats().keys == 1);
}

/* The same part in several shapes, with variables. */
static void test_graphed_shapes()
{
    scene s;
    auto x = s.ints(1), z = s.ints(7), y = s.ints(0);
    const int32_t *from = x.data();
    int32_t value = 3;
    ph::graphed part;
    part.address("from", from, 4000);
    part.value("value", value);
    int bodies = 0;
    for (int i = 0; i < 24; i++) {
        const shape key{i % 2, 0};
        from = i / 2 % 3 ? x.data() : z.data();
        value = 3 + i / 2;
        part.run(s.stream, key, [&](ph::stream_view on) {
            bodies++;
            s.plus(y.data(), from, value, on);
            for (int k = 0; k < key.rows; k++)
                s.plus(y.data(), y.data(), 100, on);
        });
        EXPECT(y.data(), (from == x.data() ? 1 : 7) + value + 100 * key.rows);
    }
    ph_graph_cache_stats stats;
    OK(ph_graph_cache_get_stats(&stats, part.shapes()));
    CHECK(stats.keys == 2 && stats.graphs == 2 && stats.replayed >= 12);
    CHECK(bodies == int(24 - stats.replayed));
    part.reset();
    CHECK(part.shapes() == nullptr);
}

static void test_exceptions()
{
    scene s;
    auto x = s.ints(1), y = s.ints(0);
    ph::graph_cache cache(s.device);
    const int32_t key = 1;
    bool throws = false;
    const auto body = [&] {
        s.plus(y.data(), x.data(), 3, s.stream);
        if (throws)
            throw std::runtime_error("the body throws");
    };
    for (int i = 0; i < 4; i++) {
        throws = i == 1 || i == 2; /* eagerly, and in the capture */
        bool thrown_here = false;
        try {
            cache.run(s.stream, key, body);
        } catch (const std::runtime_error &) {
            thrown_here = true;
        }
        CHECK(thrown_here == throws);
    }
    CHECK(cache.stats().captured == 1); /* the key can be captured again */
    EXPECT(y.data(), 4);
    CHECK(THROWN(cache.drop("none", 4)).status() == PH_ERROR_NOT_FOUND);
}

static void test_buckets()
{
    scene s;
    ph::graph_cache cache(s.device);
    const std::vector<std::size_t> ladder{8, 64};
    cache.set_buckets(ladder);
    CHECK(cache.bucket(5) == 8 && cache.bucket(9) == 64);
    CHECK(cache.suggest(2) == (std::vector<std::size_t>{5, 9}));
}

int main()
{
    test_keys_and_pointers();
    test_graphed_shapes();
    test_exceptions();
    test_buckets();
    CHECK(ph__alloc_live() == 0);
    return 0;
}
