/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/nn.hpp: tensors, tapes, modules, optimizers, gradient scalers, generators.
 * Operators are those of operators.h: they take handles as they are, and give tensors that the
 * tape owns. */
#ifndef PHONOGRAPH_CXX_NN_HPP
#define PHONOGRAPH_CXX_NN_HPP
#include <phonograph/cxx/standard.hpp>

#include <cstddef>
#include <cstdint>
#include <phonograph/cxx/graph.hpp>
#include <phonograph/nn.h>
#include <type_traits>
#include <vector>

namespace phonograph
{
class tensor : public handle<ph_tensor, ph_tensor_release>
{
  public:
    using handle::handle;
    tensor() noexcept = default;
    /* Contents undefined. */
    tensor(ph_device *on, ph_dtype dtype, ph_shape shape)
    {
        check(ph_tensor_create(out(), on, dtype, shape));
    }
    /* Keeps a tensor that somebody else has: an operator's result past the tape's clear. */
    static tensor share(ph_tensor *other) noexcept
    {
        return tensor(ph_tensor_retain(other));
    }
    ph_shape shape() const noexcept
    {
        return ph_tensor_shape(get());
    }
    ph_dtype dtype() const noexcept
    {
        return ph_tensor_dtype(get());
    }
    void require_grad(bool on = true)
    {
        check(ph_tensor_set_requires_grad(get(), on));
    }
    /* Borrowed; NULL when none was accumulated. */
    ph_tensor *grad() const noexcept
    {
        return ph_tensor_grad(get());
    }
};

/* Where operators run. The first failure sticks: check() or clear() throws it. The stream must live
 * as long. */
class tape : public handle<ph_tape, ph_tape_destroy>
{
  public:
    using handle::handle;
    tape() noexcept = default;
    explicit tape(ph_stream *on, const ph_tape_options *options = nullptr)
    {
        phonograph::check(ph_tape_create(out(), on, options));
    }
    /* Throws the first error of the operators so far; changes nothing. */
    void check() const
    {
        phonograph::check(ph_tape_status(get()));
    }
    /* Releases what the tape owns, and throws the first error. The end of a step. */
    void clear()
    {
        phonograph::check(ph_tape_clear(get()));
    }
    /* Elements of the tensor's number and size: SIZE otherwise. Waits. */
    template <class T> std::vector<T> read(const ph_tensor *x) const
    {
        static_assert(std::is_trivially_copyable_v<T>, "elements are copied as bytes");
        std::vector<T> values(static_cast<std::size_t>(ph_tensor_count(x)));
        phonograph::check(ph_tensor_read(get(), x, values.data(), values.size() * sizeof(T)));
        return values;
    }
    template <class T> void write(ph_tensor *x, span<const T> values) const
    {
        static_assert(std::is_trivially_copyable_v<T>, "elements are copied as bytes");
        phonograph::check(ph_tensor_write(get(), x, values.data(), values.bytes()));
    }
    double item(const ph_tensor *x) const
    {
        double value;
        phonograph::check(ph_tensor_item(&value, get(), x));
        return value;
    }
};

class generator : public handle<ph_generator, ph_generator_release>
{
  public:
    using handle::handle;
    generator() noexcept = default;
    generator(ph_device *on, std::uint64_t seed)
    {
        check(ph_generator_create(out(), on, seed));
    }
};

/* The state of a generator, for others that go on where it stands. */
class generator_state : public handle<ph_generator_state, ph_generator_state_release>
{
  public:
    using handle::handle;
    generator_state() noexcept = default;
    static generator_state share(ph_generator *of) noexcept
    {
        return generator_state(ph_generator_share_state(of));
    }
    void use_in(ph_generator *other) const
    {
        check(ph_generator_use_state(other, get()));
    }
};

/* A module, made by a create call of module.h: module m(ph_linear_create, device, 3, 4). */
class module : public handle<ph_module, ph_module_release>
{
  public:
    using handle::handle;
    module() noexcept = default;
    template <class Create, class... Arguments,
              class = std::enable_if_t<
                  std::is_invocable_r_v<ph_status, Create, ph_module **, const Arguments &...>>>
    explicit module(Create create, const Arguments &...arguments)
    {
        check(create(out(), arguments...));
    }
    static module share(ph_module *other) noexcept
    {
        return module(ph_module_retain(other));
    }
    /* The result is the tape's; NULL when that has failed. */
    ph_tensor *operator()(ph_tape *on, ph_tensor *x) const
    {
        return ph_call(on, get(), x);
    }
    void train(bool on = true)
    {
        ph_module_train(get(), on);
    }
    void zero_grad()
    {
        ph_module_zero_grad(get());
    }
    void save(const char *path) const
    {
        check(ph_module_save(get(), path));
    }
    void load(const char *path, bool strict = true)
    {
        check(ph_module_load(get(), path, strict));
    }
};

/* An optimizer, made by a create call of optimizer.h: optimizer o(ph_adamw_create, m.get(),
 * &options). */
class optimizer : public handle<ph_optimizer, ph_optimizer_destroy>
{
  public:
    using handle::handle;
    optimizer() noexcept = default;
    template <class Create, class Options,
              class = std::enable_if_t<
                  std::is_invocable_r_v<ph_status, Create, ph_optimizer **, ph_module *, Options>>>
    optimizer(Create create, ph_module *module, Options options)
    {
        check(create(out(), module, options));
    }
    void step(ph_tape *on)
    {
        ph_optimizer_step(on, get());
    }
    void zero_grad(ph_tape *on)
    {
        ph_optimizer_zero_grad(on, get());
    }
    void set_lr(double lr)
    {
        check(ph_optimizer_set_lr(get(), lr));
    }
    double lr() const noexcept
    {
        return ph_optimizer_lr(get());
    }
};

/* A gradient scaler; its calls fail the tape, as operators do. */
class grad_scaler : public handle<ph_grad_scaler, ph_grad_scaler_destroy>
{
  public:
    using handle::handle;
    grad_scaler() noexcept = default;
    explicit grad_scaler(ph_device *on, const ph_grad_scaler_options *options = nullptr)
    {
        check(ph_grad_scaler_create(out(), on, options));
    }
    /* The result is the tape's; NULL when that has failed. */
    ph_tensor *scale(ph_tape *on, ph_tensor *x) const
    {
        return ph_grad_scaler_scale(on, get(), x);
    }
    void unscale(ph_tape *on, ph_optimizer *optimizer) const
    {
        ph_grad_scaler_unscale(on, get(), optimizer);
    }
    void step(ph_tape *on, ph_optimizer *optimizer) const
    {
        ph_grad_scaler_step(on, get(), optimizer);
    }
    void update(ph_tape *on) const
    {
        ph_grad_scaler_update(on, get());
    }
    /* Waits. */
    double get_scale(ph_tape *on) const
    {
        double scale;
        check(ph_grad_scaler_get_scale(&scale, on, get()));
        return scale;
    }
};
} // namespace phonograph
#endif
