/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/kernel.hpp: kernels. */
#ifndef PHONOGRAPH_CXX_KERNEL_HPP
#define PHONOGRAPH_CXX_KERNEL_HPP
#include <phonograph/cxx/standard.hpp>

#include <phonograph/cxx/error.hpp>
#include <phonograph/cxx/handle.hpp>
#include <phonograph/cxx/span.hpp>
#include <phonograph/kernel.h>
#include <type_traits>

namespace phonograph
{
/* kernel_source("saxpy").args<saxpy_args>().cuda_text(text).host_form(function): the C struct, with
 * a call for each member. */
struct kernel_source : ph_kernel_source {
    explicit kernel_source(const char *function) noexcept : ph_kernel_source{}
    {
        name = function;
    }
    template <class Args> kernel_source &args() noexcept
    {
        static_assert(std::is_trivially_copyable_v<Args>, "arguments are copied as bytes");
        args_size = sizeof(Args);
        return *this;
    }
    /* Borrowed until the kernel is made; typed launches. */
    kernel_source &parameters(span<const ph_param> list) noexcept
    {
        params = list.data();
        param_count = list.size();
        return *this;
    }
    kernel_source &cuda_text(const char *text, const char *options = nullptr) noexcept
    {
        cuda = text;
        cuda_options = options;
        return *this;
    }
    kernel_source &image(span<const unsigned char> bytes) noexcept
    {
        cuda_image = bytes.data();
        cuda_image_bytes = bytes.size();
        return *this;
    }
    /* A function, or a lambda without captures: it runs on threads of the library, and must not
     * throw. */
    kernel_source &host_form(ph_host_kernel_fn function, bool is_inline = false) noexcept
    {
        host = function;
        host_inline = is_inline;
        return *this;
    }
};

class kernel : public handle<ph_kernel, ph_kernel_release>
{
  public:
    using handle::handle;
    kernel() noexcept = default;
    kernel(ph_device *on, const ph_kernel_source &source)
    {
        check(ph_kernel_create(out(), on, &source));
    }
    static kernel share(ph_kernel *other) noexcept
    {
        return kernel(ph_kernel_retain(other));
    }
    const char *name() const noexcept
    {
        return ph_kernel_name(get());
    }
};
} // namespace phonograph
#endif
