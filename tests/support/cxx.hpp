/* SPDX-License-Identifier: MIT */
/* tests/support/cxx.hpp: for tests of phonograph.hpp: the device under test, its kernels, and
 * checks of what an int array has. */
#ifndef PH_TESTS_CXX_HPP
#define PH_TESTS_CXX_HPP
#include "support/exceptions.h"
#include <phonograph/phonograph.hpp>
#include <string>
#include <vector>

extern "C" {
#include "support/kernels.h"
}

/* A device, a stream and the first kernels of the tests. */
struct scene {
    phonograph::device device;
    phonograph::stream stream;
    phonograph::kernel fill, add;
    enum {
        N = 1000
    };

    scene()
    {
        t_register_kernels();
        device = phonograph::device(t_device_name());
        stream = phonograph::stream(device);
        fill = phonograph::kernel(device, t_kernel_sources[T_KERNEL_FILL_I32]);
        add = phonograph::kernel(device, t_kernel_sources[T_KERNEL_ADD_I32]);
    }
    phonograph::buffer<int32_t> ints(int32_t value) const
    {
        phonograph::buffer<int32_t> made(N, stream);
        set(made.data(), value);
        return made;
    }
    void set(int32_t *y, int32_t value) const
    {
        stream.launch(fill, phonograph::launch_config::linear(N, 128), t_fill_i32{N, y, value});
    }
    /* y = x + value */
    void plus(int32_t *y, const int32_t *x, int32_t value, phonograph::stream_view on) const
    {
        on.launch(add, phonograph::launch_config::linear(N, 128), t_add_i32{N, x, y, value});
    }
    void expect(const int32_t *y, int32_t value, int line) const
    {
        std::vector<int32_t> got(N);
        stream.copy(phonograph::span<int32_t>(got), phonograph::span<const int32_t>(y, N));
        stream.synchronize();
        for (int32_t one : got)
            if (one != value) {
                std::printf("line %d: %d, not %d\n", line, one, value);
                std::exit(1);
            }
    }
};

/* The error that a call throws. */
template <typename Call> phonograph::error thrown(Call call, int line)
{
    try {
        call();
    } catch (const phonograph::error &error) {
        return error;
    }
    std::printf("line %d: nothing was thrown\n", line);
    std::exit(1);
}
#define THROWN(...)      thrown([&] { __VA_ARGS__; }, __LINE__)
#define EXPECT(y, value) s.expect((y), (value), __LINE__)
#endif
