/* SPDX-License-Identifier: MIT */
/* tests/graph/cxx_proof.cpp: what the proof captures of phonograph::graphed must leave as it was,
 * and must not take for proved. */
#include "support/cxx.hpp"
#include <stdexcept>

static std::vector<std::string> warnings;

static void keep_warning(ph_log_level, const char *message, void *)
{
    warnings.emplace_back(message);
}

/* The body keeps the variable in pinned memory, which the graph copies from: the bytes there are
 * those of the value, not of its stand-in. */
static void test_host_memory()
{
    scene s;
    auto x = s.ints(0);
    phonograph::pinned<int32_t> host(scene::N, s.stream);
    int32_t value = 40;
    phonograph::graphed part;
    part.value("value", value);
    for (int i = 0; i < 6; i++) {
        value = 40 + i / 3;
        part.run(s.stream, [&] {
            for (int32_t &one : host)
                one = value;
            s.stream.copy(x.data(), host.data(), x.bytes());
        });
        EXPECT(x.data(), value);
    }
    warnings.clear();
}

/* The grid follows from the value, and has the same size for the next number. */
static void test_grid()
{
    scene s;
    auto x = s.ints(0), y = s.ints(0);
    std::uint64_t count = 400;
    phonograph::graphed part;
    part.value("count", count);
    for (int i = 0; i < 4; i++) {
        count = i < 2 ? 400 : scene::N;
        part.run(s.stream, [&] {
            s.stream.launch(s.add, phonograph::launch_config::linear(count, 128),
                            t_add_i32{count, x.data(), y.data(), 1});
        });
    }
    EXPECT(y.data(), 1);
    warnings.clear();
}

static int32_t padded_of(int n)
{
    return (n + 31) / 32 * 32;
}

/* What is rounded up is the number itself for some numbers: it is no place of the number. */
static void test_rounded()
{
    scene s;
    auto x = s.ints(0);
    int n = 0;
    for (int first : {64, 1, 2, 0, -64, 7}) {
        phonograph::graphed part;
        part.value("n", n);
        for (int given : {first, first, 32, 40, 100, -3}) {
            n = given;
            part.run(s.stream, [&] {
                s.plus(x.data(), x.data(), n, s.stream);
                s.set(x.data(), padded_of(n));
            });
            EXPECT(x.data(), padded_of(given));
        }
        CHECK(warnings.size() == 1);
        warnings.clear();
    }
}

/* Values that grow are compared once for each of their bits, and set otherwise. */
static void test_growing()
{
    scene s;
    auto x = s.ints(5), out = s.ints(0), other = s.ints(100);
    int32_t *from = x.data();
    int n = 0, bodies = 0;
    phonograph::graphed part;
    part.address("from", from, x.bytes());
    part.value("n", n);
    for (int i = 0; i < 300; i++) {
        n = i;
        from = i % 2 ? x.data() : other.data();
        part.run(s.stream, [&] {
            bodies++;
            s.plus(out.data(), from, n, s.stream);
            s.stream.launch(s.add, phonograph::launch_config::linear(scene::N, 128),
                            t_add_i32{scene::N, out.data(), out.data(), n});
        });
        EXPECT(out.data(), (i % 2 ? 5 : 100) + 2 * i);
    }
    CHECK(warnings.empty());
    /* captured with 1, proved with 0; proved anew with 2 and 3, 4 and 5 and so on, as the address
     * has moved */
    CHECK(bodies == 1 + 4 + 16 * 4);
}

/* The memory of the capture has gone when another number comes, and the body writes it. */
static void test_freed_memory()
{
    scene s;
    auto x = s.ints(1), out = s.ints(0);
    int32_t value = 64, *staged = nullptr;
    void *blocks[2];
    for (void *&block : blocks)
        OK(ph_malloc_pinned(&block, 1 << 20, 4, s.stream));
    phonograph::graphed part;
    staged = static_cast<int32_t *>(blocks[0]);
    part.address("staged", staged, 1 << 20);
    part.value("value", value);
    const auto run = [&](int32_t number) {
        value = number;
        part.run(s.stream, [&] {
            staged[0] = 100;
            OK(ph_memcpy(x.data(), staged, x.bytes(), s.stream));
            s.plus(out.data(), x.data(), value, s.stream);
        });
        std::vector<int32_t> got(scene::N);
        OK(ph_memcpy(got.data(), out.data(), out.bytes(), s.stream));
        OK(ph_stream_synchronize(s.stream));
        CHECK(got[0] == 100 + number);
    };
    run(64);
    run(64);
    staged = static_cast<int32_t *>(blocks[1]);
    run(64);
    ph_free_pinned(blocks[0], s.stream);
    s.stream.synchronize();
    OK(ph_memory_trim(s.device));
    for (int32_t number : {64, 65, 33, 200, 201})
        run(number);
    ph_free_pinned(blocks[1], s.stream);
    s.stream.synchronize();
    warnings.clear();
}

/* Each call's function has a copy of the pointer. */
static void test_copied_pointer()
{
    scene s;
    phonograph::buffer<int32_t> inputs[] = {s.ints(1), s.ints(2)};
    auto out = s.ints(0);
    int32_t *x = nullptr;
    phonograph::graphed part;
    part.address("x", x, inputs[0].bytes());
    for (int i = 0; i < 6; i++) {
        x = inputs[i % 2].data();
        part.run(s.stream, [&, x] { s.plus(out.data(), x, 0, s.stream); });
        EXPECT(out.data(), i % 2 + 1);
    }
    CHECK(warnings.size() == 1);
    warnings.clear();
}

/* An exception in a proof capture: the next call captures and proves again. */
static void test_exception()
{
    scene s;
    auto x = s.ints(1), out = s.ints(0);
    int32_t value = 7;
    int bodies = 0;
    phonograph::graphed part;
    part.value("value", value);
    const auto step = [&] {
        if (++bodies == 3)
            throw std::runtime_error("in the proof");
        s.plus(out.data(), x.data(), value, s.stream);
    };
    part.run(s.stream, step);
    bool caught = false;
    try {
        part.run(s.stream, step);
    } catch (const std::runtime_error &) {
        caught = true;
    }
    CHECK(caught && value == 7);
    for (int i = 0; i < 4; i++) {
        value = i;
        part.run(s.stream, step);
        EXPECT(out.data(), i + 1);
    }
    CHECK(warnings.empty());
}

int main()
{
    ph_log_set(keep_warning, nullptr);
    test_host_memory();
    test_grid();
    test_rounded();
    test_growing();
    test_freed_memory();
    test_copied_pointer();
    test_exception();
    ph_log_set(nullptr, nullptr);
    CHECK(ph__alloc_live() == 0);
    return 0;
}
