/* SPDX-License-Identifier: MIT */
/* tests/support/exceptions.h: for tests in C++: functions of the user's that throw, a device under
 * test, and what is left behind. */
#ifndef PH_TESTS_EXCEPTIONS_H
#define PH_TESTS_EXCEPTIONS_H
#include <phonograph/nn.h>
#include <phonograph/phonograph.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

extern "C" {
const char *t_device_name(void); /* tests/support/support.h */
int64_t ph__alloc_live(void);    /* base/alloc.h */
}

#define CHECK(condition) check((condition), #condition, __LINE__)
#define OK(call)         check((call) == PH_OK, #call, __LINE__)

inline void check(bool good, const char *what, int line)
{
    if (good)
        return;
    std::printf("line %d: %s\n  the last error: %s\n", line, what, ph_error_last()->message);
    std::exit(1);
}

/* ---- what throws ---- the n-th function of the user's that asks. */
inline const char boom[] = "boom";
inline long left = -1; /* negative: none */

inline void may_throw()
{
    if (left >= 0 && left-- == 0)
        throw std::runtime_error(boom);
}

template <typename Call> bool throws(Call call)
{
    try {
        call();
    } catch (const std::runtime_error &error) {
        CHECK(std::strcmp(error.what(), boom) == 0);
        return true;
    }
    return false;
}

/* ---- a device, a stream, a tape, and memory ---- */
struct world {
    ph_device *device;
    ph_stream *stream;
    ph_tape *tape;
    char *bytes;
    enum {
        COUNT = 64
    };

    world()
    {
        left = -1;
        OK(ph_device_open(&device, t_device_name(), nullptr));
        OK(ph_stream_create(&stream, device, nullptr));
        OK(ph_tape_create(&tape, stream, nullptr));
        OK(ph_malloc(reinterpret_cast<void **>(&bytes), COUNT, 1, stream));
        OK(ph_memset(bytes, 0, COUNT, stream));
    }
    world(const world &) = delete;
    world &operator=(const world &) = delete;
    ~world()
    {
        ph_free(bytes, stream);
        ph_tape_destroy(tape);
        OK(ph_stream_synchronize(stream));
        CHECK(memory().allocated == 0);
        ph_stream_destroy(stream);
        ph_device_release(device);
    }
    ph_memory_stats memory() const
    {
        ph_memory_stats stats;
        OK(ph_device_synchronize(device));
        OK(ph_memory_get_stats(&stats, device));
        return stats;
    }
    void expect(char value) const
    {
        char got[COUNT];
        ph_memory_stats stats;
        OK(ph_memory_get_stats(&stats, device));
        OK(ph_memcpy(got, bytes, COUNT, stream));
        OK(ph_stream_synchronize(stream));
        for (char byte : got)
            CHECK(byte == value);
    }
    void expect_usable() const
    {
        CHECK(!ph_stream_is_capturing(stream));
        CHECK(!ph_device_is_capturing(device));
        OK(ph_device_synchronize(device));
    }
};

/* How many allocations of the host a call may leave: none, once caches have grown. */
struct leak_check {
    int64_t before = ph__alloc_live();
    void expect_none(const char *what) const
    {
        for (int i = 0; i < 2000 && ph__alloc_live() > before; i++) /* threads of the device */
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (ph__alloc_live() <= before)
            return;
        std::printf("%s: %lld host allocations were left behind\n", what,
                    static_cast<long long>(ph__alloc_live() - before));
        std::exit(1);
    }
};

/* Calls fn until a call has left nothing on the host. Caches grow in some calls, which depends on
 * threads of the device; what a call leaves behind for good, each one does. */
template <class Fn> void expect_no_leak(const char *what, Fn &&fn)
{
    enum {
        ROUNDS = 12
    };
    int64_t left_over = 1;
    for (int round = 0; round < ROUNDS && (round < 2 || left_over > 0); round++) {
        const int64_t before = ph__alloc_live();
        fn();
        for (int i = 0; i < 300 && ph__alloc_live() > before; i++) /* threads of the device */
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        left_over = ph__alloc_live() - before;
    }
    if (left_over <= 0)
        return;
    std::printf("%s: each of %d calls left host allocations behind, the last one %lld\n", what,
                ROUNDS, static_cast<long long>(left_over));
    std::exit(1);
}
#endif
