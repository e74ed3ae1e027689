/* SPDX-License-Identifier: MIT */
/* tests/nn/cxx.cpp: handles of nn.hpp: a training step, eager and captured, and its errors. */
#include "support/exceptions.h"
#include <cstring>
#include <phonograph/nn.hpp>
#include <stdexcept>
#include <string>
#include <unistd.h>

static void test_a_captured_step()
{
    world w;
    phonograph::module layer(ph_linear_create, w.device, 4, 3);
    const ph_sgd_options options = {0.1, 0, 0, 0, false, false, nullptr, nullptr, 0, {}};
    phonograph::optimizer sgd(ph_sgd_create, layer.get(), &options);
    phonograph::tensor x(w.device, PH_DTYPE_F32, PH_SHAPE(2, 4));
    phonograph::tape tape(w.stream);
    const std::vector<float> values(8, 1);
    tape.write<float>(x, values);
    OK(ph_device_synchronize(w.device));
    double last = 0;
    const auto step = [&] {
        ph_tensor *loss = ph_mean(tape, ph_square(tape, layer(tape, x)));
        ph_backward(tape, loss);
        sgd.step(tape);
        sgd.zero_grad(tape);
        tape.clear();
    };
    step();
    phonograph::graph graph;
    graph.capture(w.stream, step);
    for (int i = 0; i < 20; i++) {
        graph.replay(w.stream);
        phonograph::tensor loss =
            phonograph::tensor::share(ph_mean(tape, ph_square(tape, layer(tape, x))));
        const double now = tape.item(loss);
        CHECK(i == 0 || now < last);
        last = now;
        tape.clear();
        CHECK(tape.read<float>(loss).size() == 1);
    }
    sgd.set_lr(0.25);
    CHECK(sgd.lr() == 0.25);
}

static void test_a_scaled_step()
{
    world w;
    phonograph::tape tape(w.stream);
    phonograph::module layer(ph_linear_create, w.device, 4, 3);
    const ph_sgd_options options = {0.5, 0, 0, 0, false, false, nullptr, nullptr, 0, {}};
    phonograph::optimizer sgd(ph_sgd_create, layer.get(), &options);
    ph_grad_scaler_options scaling = {};
    scaling.init_scale = 8;
    scaling.growth_interval = 1;
    phonograph::grad_scaler scaler(w.device, &scaling);
    ph_tensor *loss = ph_sum(tape, layer(tape, ph_full(tape, PH_DTYPE_F32, PH_SHAPE(2, 4), 1)));
    ph_backward(tape, scaler.scale(tape, loss));
    scaler.unscale(tape, sgd);
    scaler.step(tape, sgd);
    scaler.update(tape);
    CHECK(scaler.get_scale(tape) == 16);
    scaler.update(tape);
    CHECK(phonograph::attempt([&] { tape.clear(); }) == PH_ERROR_STATE);
    scaling.init_scale = -1;
    CHECK(phonograph::attempt([&] { phonograph::grad_scaler(w.device, &scaling); }) ==
          PH_ERROR_ARGUMENT);
}

static ph_data_loader_options loader_options(const ph_batch_field &field)
{
    ph_data_loader_options options = {};
    options.count = 10;
    options.batch_size = 4;
    options.fields = &field;
    options.field_count = 1;
    options.threads = 2;
    return options;
}

static void test_a_data_loader_calls_a_lambda()
{
    world w;
    ph_batch_field field = {};
    field.dtype = PH_DTYPE_I64;
    phonograph::tape tape(w.stream);
    phonograph::data_loader loader(w.device, loader_options(field), [](const ph_fetch_request &of) {
        for (std::size_t row = 0; row < of.count; row++)
            static_cast<std::int64_t *>(of.data[0])[row] = of.index[row] * 10;
    });
    CHECK(loader.batch_count() == 3);
    phonograph::data_loader moved(std::move(loader));
    CHECK(moved && !loader);
    const ph_batch first = moved.next(w.stream);
    CHECK(first.count == 4 && tape.read<std::int64_t>(first.tensor[0])[3] == 30);
    const ph_data_loader_position position = moved.position();
    CHECK(moved.next(w.stream).number == 1);
    moved.set_position(position);
    CHECK(moved.next(w.stream).number == 1);
    moved.release();
    phonograph::data_loader failing(w.device, loader_options(field), [](const ph_fetch_request &) {
        throw std::runtime_error("no such picture");
    });
    try {
        (void)failing.next(w.stream);
        CHECK(false);
    } catch (const phonograph::error &e) {
        CHECK(e.status() == PH_ERROR_CALLER && std::strstr(e.what(), "no such picture"));
    }
    failing = std::move(moved);
    CHECK(failing.next(w.stream).number == 2);
}

static void test_a_network_of_one_rank_has_its_own_gradients()
{
    world w;
    phonograph::tape tape(w.stream);
    phonograph::module layer(ph_linear_create, w.device, 2, 1);
    phonograph::comm comm(w.device);
    phonograph::data_parallel parallel(layer, comm);
    CHECK(parallel.info().parameters == 2 && parallel.info().buckets == 1);
    const float ones[] = {1, 1};
    ph_tensor *x = ph_from_memory(tape, PH_DTYPE_F32, PH_SHAPE(1, 2), ones);
    CHECK(parallel.set_sync(false) && !parallel.set_sync(true));
    parallel.backward(tape, ph_sum(tape, ph_call(tape, layer, x)));
    CHECK(tape.read<float>(ph_tensor_grad(ph_module_parameter(layer, "weight")))[1] == 1);
    phonograph::check(ph_tape_clear(tape));
    ph_data_parallel_options options = {};
    options.uneven_inputs = true;
    CHECK(!phonograph::data_parallel(layer, comm, &options).join(tape));
    CHECK(!parallel.shards() && parallel.clip_grad_norm(tape, 1));
    options.uneven_inputs = false;
    options.shard_optimizer = true;
    phonograph::data_parallel sharded(layer, comm, &options);
    CHECK(ph_module_parameter_count(sharded.shards()) == 2);
    sharded.gather(tape);
    phonograph::check(ph_tape_clear(tape));
    const ph_sgd_options sgd = {};
    phonograph::optimizer steps(ph_sgd_create, sharded.shards(), &sgd);
    char name[] = "/tmp/phonograph-cxx-state-XXXXXX";
    CHECK(close(mkstemp(name)) == 0);
    sharded.save_optimizer(steps, name);
    sharded.load_optimizer(steps, name);
    CHECK(unlink(name) == 0);
    phonograph::data_parallel moved(std::move(parallel));
    CHECK(moved && !parallel);
}

static void test_a_training_is_saved_and_loaded()
{
    char folder[] = "/tmp/phonograph-cxx-XXXXXX";
    CHECK(mkdtemp(folder));
    {
        world w;
        phonograph::module layer(ph_linear_create, w.device, 4, 3);
        const ph_sgd_options options = {0.5, 0, 0, 0, false, false, nullptr, nullptr, 0, {}};
        phonograph::optimizer sgd(ph_sgd_create, layer.get(), &options);
        ph_lr_piece piece = {};
        piece.kind = PH_LR_STEP;
        piece.steps = 2;
        phonograph::lr_schedule schedule(sgd, phonograph::span<const ph_lr_piece>(&piece, 1));
        phonograph::training training(folder);
        phonograph::generator generator(w.device, 7);
        phonograph::grad_scaler scaler(w.device);
        std::int64_t step = 3;
        double best = 0.25;
        training.add("model", layer.get());
        training.add("optimizer", sgd.get());
        training.add("schedule", schedule.get());
        training.add("generator", generator.get());
        training.add("scaler", scaler.get());
        training.add("step", step);
        training.add("best", best);
        CHECK(!training.load());
        schedule.step();
        schedule.step();
        CHECK(schedule.steps() == 2 && schedule.rate(0) == 0.5);
        CHECK(training.save() == 1);
        step = 0;
        best = 0;
        CHECK(training.load() == std::uint64_t{1} && step == 3 && best == 0.25);
        CHECK(training.passed_over().empty());
        CHECK(phonograph::attempt([&] { training.load(9); }) == PH_ERROR_NOT_FOUND);
        CHECK(phonograph::attempt([&] { phonograph::training twice(folder); }) == PH_ERROR_STATE);
    }
    CHECK(std::system((std::string("rm -r ") + folder).c_str()) == 0);
}

static void test_hooks_call_lambdas()
{
    world w;
    phonograph::tape tape(w.stream);
    phonograph::module layer(ph_linear_create, w.device, 4, 3);
    phonograph::tensor x(w.device, PH_DTYPE_F32, PH_SHAPE(2, 4));
    x.require_grad();
    const std::vector<float> values(8, 1);
    tape.write<float>(x, values);
    std::size_t seen = 0;
    bool throws = false;
    phonograph::module_hook count(
        layer, PH_MODULE_HOOK_FORWARD,
        [&](ph_tape *, ph_module *, phonograph::span<ph_tensor *> out) { seen += out.size(); });
    phonograph::tensor_hook doubled(x, [&](ph_tape *on, ph_tensor *gradient) {
        if (throws)
            throw std::runtime_error("no gradient for you");
        return ph_mul_scalar(on, gradient, 0);
    });
    ph_backward(tape, ph_sum(tape, layer(tape, x)));
    tape.clear();
    CHECK(seen == 1 && tape.read<float>(x.grad()) == std::vector<float>(8, 0));
    throws = true;
    ph_backward(tape, ph_sum(tape, layer(tape, x)));
    try {
        tape.clear();
        CHECK(false);
    } catch (const phonograph::error &e) {
        CHECK(e.status() == PH_ERROR_CALLER && std::strstr(e.what(), "no gradient for you"));
    }
    doubled = phonograph::tensor_hook();
    count = phonograph::module_hook();
    ph_backward(tape, ph_sum(tape, layer(tape, x)));
    tape.clear();
    CHECK(seen == 2);
}

static void test_values_and_generators()
{
    phonograph::values values;
    values.set("whole", std::int64_t{7});
    values.set("real", 0.5);
    values.set("text", "seven");
    CHECK(values.integer("whole") == 7 && values.real("real") == 0.5);
    CHECK(values.text("text") == "seven");
    CHECK(phonograph::attempt([&] { (void)values.integer("text"); }) == PH_ERROR_MISMATCH);
    world w;
    phonograph::generator one(w.device, 1), other(w.device, 2);
    phonograph::generator_state::share(one).use_in(other);
    std::uint64_t offset = 0;
    OK(ph_generator_set_offset(one, 16));
    OK(ph_generator_get_offset(&offset, other));
    CHECK(offset == 16);
}

static void test_modules_take_handles_where_calls_take_pointers()
{
    const phonograph::device device(t_device_name());
    phonograph::stream stream(device);
    phonograph::tape tape(stream);
    const phonograph::module layer(ph_linear_create, device, 4, 3);
    const phonograph::tensor x(device, PH_DTYPE_F32, PH_SHAPE(2, 4));
    CHECK(layer(tape, x) != nullptr);
    tape.clear();
}

static void test_errors()
{
    world w;
    phonograph::tape tape(w.stream);
    phonograph::module layer(ph_linear_create, w.device, 4, 3);
    phonograph::tensor x(w.device, PH_DTYPE_F32, PH_SHAPE(2, 5));
    CHECK(layer(tape, x) == nullptr);
    CHECK(phonograph::attempt([&] { tape.check(); }) == PH_ERROR_ARGUMENT);
    CHECK(phonograph::attempt([&] { tape.clear(); }) == PH_ERROR_ARGUMENT);
    CHECK(phonograph::attempt([&] { tape.check(); }) == PH_OK);
    CHECK(phonograph::attempt([&] { (void)tape.read<double>(x); }) == PH_ERROR_SIZE);
    ph_ignore(ph_tape_clear(tape)); /* the read failed the tape too */
    CHECK(phonograph::attempt([&] { phonograph::module(ph_dropout_create, w.device, 2.0); }) ==
          PH_ERROR_ARGUMENT);
    CHECK(phonograph::attempt([&] { layer.load("/no/such/file"); }) == PH_ERROR_IO);
}

int main()
{
    test_a_captured_step();
    test_a_scaled_step();
    test_a_data_loader_calls_a_lambda();
    test_a_network_of_one_rank_has_its_own_gradients();
    test_a_training_is_saved_and_loaded();
    test_hooks_call_lambdas();
    test_values_and_generators();
    test_modules_take_handles_where_calls_take_pointers();
    test_errors();
    CHECK(ph__alloc_live() == 0);
    return 0;
}
