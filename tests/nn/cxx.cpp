/* SPDX-License-Identifier: MIT */
/* tests/nn/cxx.cpp: handles of nn.hpp: a training step, eager and captured, and its errors. */
#include "support/exceptions.h"
#include <phonograph/nn.hpp>

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
    test_errors();
    CHECK(ph__alloc_live() == 0);
    return 0;
}
