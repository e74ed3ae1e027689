/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/training.hpp: learning-rate schedules, data loaders, named values, and trainings
 * whose state is saved in files. */
#ifndef PHONOGRAPH_CXX_TRAINING_HPP
#define PHONOGRAPH_CXX_TRAINING_HPP
#include <phonograph/cxx/standard.hpp>

#include <cstdint>
#include <optional>
#include <phonograph/cxx/calling_handle.hpp>
#include <phonograph/cxx/error.hpp>
#include <phonograph/cxx/handle.hpp>
#include <phonograph/cxx/span.hpp>
#include <phonograph/nn.h>
#include <string>
#include <utility>

namespace phonograph
{
/* Sets the optimizer's learning rate, step by step. */
class lr_schedule : public handle<ph_lr_schedule, ph_lr_schedule_destroy>
{
  public:
    using handle::handle;
    lr_schedule() noexcept = default;
    /* pieces: one, or several behind each other; read during the call. */
    lr_schedule(ph_optimizer *optimizer, span<const ph_lr_piece> pieces)
    {
        check(ph_lr_schedule_create(out(), optimizer, pieces.data(), pieces.size()));
    }
    /* After a step of the optimizer, or a replay with one. */
    void step()
    {
        check(ph_lr_schedule_step(get()));
    }
    std::uint64_t steps() const noexcept
    {
        return ph_lr_schedule_steps(get());
    }
    double rate(std::uint64_t step) const noexcept
    {
        return ph_lr_schedule_rate(get(), step);
    }
};

/* One network on several ranks: gradients are the means over all. Holds references of the module
 * and the communicator. */
class data_parallel : public handle<ph_data_parallel, ph_data_parallel_destroy>
{
  public:
    using handle::handle;
    data_parallel() noexcept = default;
    data_parallel(ph_module *module, ph_comm *comm,
                  const ph_data_parallel_options *options = nullptr)
    {
        check(ph_data_parallel_create(out(), module, comm, options));
    }
    void backward(ph_tape *on, ph_tensor *loss) const
    {
        ph_data_parallel_backward(on, get(), loss);
    }
    /* Returns what it was. */
    bool set_sync(bool sync) const noexcept
    {
        return ph_data_parallel_set_sync(get(), sync);
    }
    /* true: other ranks ran a pass, and the gradients are the means; false: no rank has inputs. */
    bool join(ph_tape *on) const
    {
        bool passed = false;
        check(ph_data_parallel_join(&passed, on, get()));
        return passed;
    }
    /* Borrowed; nullptr: made without shard_optimizer. */
    ph_module *shards() const noexcept
    {
        return ph_data_parallel_shards(get());
    }
    void gather(ph_tape *on) const
    {
        ph_data_parallel_gather(on, get());
    }
    ph_tensor *clip_grad_norm(ph_tape *on, double max_norm) const
    {
        return ph_data_parallel_clip_grad_norm(on, get(), max_norm);
    }
    void save_optimizer(ph_optimizer *optimizer, const char *path) const
    {
        check(ph_data_parallel_save_optimizer(get(), optimizer, path));
    }
    void load_optimizer(ph_optimizer *optimizer, const char *path) const
    {
        check(ph_data_parallel_load_optimizer(get(), optimizer, path));
    }
    ph_data_parallel_info info() const
    {
        ph_data_parallel_info info;
        check(ph_data_parallel_get_info(&info, get()));
        return info;
    }
};

/* Fetches batches on threads of its own. The function takes a const ph_fetch_request & and returns
 * a ph_status or nothing. It is kept until the loader has ended, and is called by several threads
 * at once; what it throws fails the batch, and arrives at next(). */
class data_loader : public calling_handle<ph_data_loader, ph_data_loader_destroy,
                                          ph_status(const ph_fetch_request &)>
{
    static ph_status fetch(const ph_fetch_request *request, void *user) noexcept
    {
        try {
            return call_function(user, *request);
        } catch (...) {
            return current_exception_status();
        }
    }

  public:
    data_loader() noexcept = default;
    /* fetch and user of the options are set here. */
    template <class Fn>
    data_loader(ph_device *on, ph_data_loader_options options, Fn &&fn)
        : calling_handle(std::forward<Fn>(fn))
    {
        options.fetch = fetch;
        options.user = user();
        check(ph_data_loader_create(out(), on, &options));
    }
    /* Borrowed until the loader's next call. count 0: the epoch is over. */
    ph_batch next(ph_stream *stream)
    {
        ph_batch batch;
        check(ph_data_loader_next(&batch, get(), stream));
        return batch;
    }
    void release()
    {
        check(ph_data_loader_release(get()));
    }
    ph_data_loader_position position() const
    {
        ph_data_loader_position position;
        check(ph_data_loader_get_position(&position, get()));
        return position;
    }
    void set_position(const ph_data_loader_position &position)
    {
        check(ph_data_loader_set_position(get(), &position));
    }
    /* Of an epoch. */
    std::uint64_t batch_count() const noexcept
    {
        return ph_data_loader_batch_count(get());
    }
};

/* Named numbers and texts. */
class values : public handle<ph_values, ph_values_destroy>
{
  public:
    using handle::handle;
    values()
    {
        check(ph_values_create(out()));
    }
    void set(const char *name, std::int64_t value)
    {
        check(ph_values_set_integer(get(), name, value));
    }
    void set(const char *name, double value)
    {
        check(ph_values_set_real(get(), name, value));
    }
    void set(const char *name, const char *value)
    {
        check(ph_values_set_text(get(), name, value));
    }
    std::int64_t integer(const char *name) const
    {
        std::int64_t value;
        check(ph_values_get_integer(&value, get(), name));
        return value;
    }
    double real(const char *name) const
    {
        double value;
        check(ph_values_get_real(&value, get(), name));
        return value;
    }
    std::string text(const char *name) const
    {
        const char *value;
        check(ph_values_get_text(&value, get(), name));
        return value;
    }
};

/* A folder of saved states. What is added by address must stay as long as this. */
class training : public handle<ph_training, ph_training_destroy>
{
  public:
    using handle::handle;
    training() noexcept = default;
    explicit training(const char *folder, const ph_training_options *options = nullptr)
    {
        check(ph_training_create(out(), folder, options));
    }
    void add(const char *name, ph_module *part)
    {
        check(ph_training_add_module(get(), name, part));
    }
    void add(const char *name, ph_optimizer *part)
    {
        check(ph_training_add_optimizer(get(), name, part));
    }
    void add(const char *name, ph_generator *part)
    {
        check(ph_training_add_generator(get(), name, part));
    }
    void add(const char *name, ph_lr_schedule *part)
    {
        check(ph_training_add_lr_schedule(get(), name, part));
    }
    void add(const char *name, ph_grad_scaler *part)
    {
        check(ph_training_add_grad_scaler(get(), name, part));
    }
    void add(const char *name, ph_data_loader *part)
    {
        check(ph_training_add_data_loader(get(), name, part));
    }
    void add(const char *name, std::int64_t &value)
    {
        check(ph_training_add_integer(get(), name, &value));
    }
    void add(const char *name, double &value)
    {
        check(ph_training_add_real(get(), name, &value));
    }
    void add(const char *name, const ph_training_part &part, void *self)
    {
        check(ph_training_add(get(), name, &part, self));
    }
    /* The number of the new state. */
    std::uint64_t save()
    {
        std::uint64_t number;
        check(ph_training_save(get(), &number));
        return number;
    }
    /* The number of the state that was loaded; none: nothing was saved yet. number 0: the newest
     * whole one. */
    std::optional<std::uint64_t> load(std::uint64_t number = 0)
    {
        std::uint64_t loaded;
        const ph_status status = ph_training_load(get(), number, &loaded);
        if (status == PH_ERROR_NOT_FOUND && number == 0)
            return std::nullopt;
        check(status);
        return loaded;
    }
    /* A line for each state that the last load passed over. */
    std::string passed_over() const
    {
        return ph_training_passed_over(get());
    }
};
} // namespace phonograph
#endif
