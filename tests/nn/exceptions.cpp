/* SPDX-License-Identifier: MIT */
/* tests/nn/exceptions.cpp: C++ exceptions that leave functions of the user's under a tape, and
 * while graphed callables are made: the same call goes well next time, and nothing is left
 * behind. */
#include "support/exceptions.h"
#include <string>
#include <vector>

/* ---- a module with functions of the user's in it ---- out[0] = 2 |x|, by an operator of its own
 * in a checkpoint; out[1] = relu(x), with a hook of its gradient's. */
static long releases, calls;

static void release_custom(void *)
{
    releases++;
}

static void twice(ph_custom *, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    out[0] = ph_mul_scalar(tape, in[0], 2);
    may_throw();
}

static void twice_backward(ph_custom *, ph_tape *tape, ph_tensor **grad_in,
                           ph_tensor *const *grad_out, const bool *)
{
    grad_in[0] = ph_mul_scalar(tape, grad_out[0], 2);
    may_throw();
}

static void checkpointed(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *)
{
    ph_custom_operator op{};
    ph_tensor *absolute = ph_abs(tape, in[0]);
    op.name = "twice";
    op.forward = twice;
    op.backward = twice_backward;
    op.release = release_custom;
    calls++;
    ph_custom_call(tape, &op, out, 1, &absolute, 1);
    may_throw();
}

static ph_tensor *see_gradient(ph_tape *, ph_tensor *grad, void *)
{
    may_throw();
    return grad;
}

static std::vector<ph_tensor_hook *> hooks; /* handles are ours, also once their tensors are gone */

static void remove_hooks()
{
    for (ph_tensor_hook *hook : hooks)
        ph_tensor_hook_remove(hook);
    hooks.clear();
}

static void forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *)
{
    ph_checkpoint(tape, checkpointed, nullptr, &out[0], 1, in, 1);
    out[1] = ph_relu(tape, in[0]);
    may_throw();
    if (!out[1] || !ph_tensor_requires_grad(out[1]))
        return;
    ph_tensor_hook *added;
    OK(ph_tensor_hook_add(&added, out[1], see_gradient, nullptr));
    hooks.push_back(added);
}

struct modules {
    world w;
    ph_module *module;
    ph_tensor *x;
    modules()
    {
        static const float values[] = {-1, 2, -3, 4};
        ph_module_desc desc{};
        desc.name = "throwing";
        desc.forward = forward;
        desc.out_count = 2;
        releases = calls = 0;
        OK(ph_module_create(&module, w.device, &desc));
        OK(ph_tensor_create(&x, w.device, PH_DTYPE_F32, PH_SHAPE(4)));
        OK(ph_tensor_write(w.tape, x, values, sizeof values));
        OK(ph_stream_synchronize(w.stream));
        OK(ph_tensor_set_requires_grad(x, true));
    }
    modules(const modules &) = delete;
    modules &operator=(const modules &) = delete;
    ~modules()
    {
        remove_hooks();
        ph_module_release(module);
        ph_tensor_release(x);
        OK(ph_tape_clear(w.tape));
        CHECK(releases == calls);
    }
    ph_status make(ph_module **graphed, ph_graphed_inputs inputs, bool plan = false)
    {
        const ph_sample sample{&x, 1, nullptr, nullptr};
        ph_graphed_options options{};
        options.inputs = inputs;
        options.plan = plan;
        *graphed = nullptr;
        return ph_make_graphed_callables(graphed, &module, &sample, 1, &options);
    }
    /* Forward and backward, from the outputs that `used` names. */
    void step(ph_module *of, unsigned used)
    {
        ph_tensor *out[2], *loss = nullptr;
        ph_call_n(w.tape, of, out, 2, &x, 1);
        for (unsigned i = 0; i < 2; i++)
            if (used & 1u << i) {
                ph_tensor *sum = ph_sum(w.tape, out[i]);
                loss = loss ? ph_add(w.tape, loss, sum) : sum;
            }
        ph_backward(w.tape, loss);
    }
    void expect_gradient(ph_module *of, unsigned used)
    {
        static const float of_first[] = {-2, 2, -2, 2}, of_second[] = {0, 1, 0, 1};
        float got[4];
        OK(ph_tensor_set_grad(x, nullptr));
        step(of, used);
        OK(ph_tape_status(w.tape));
        OK(ph_tensor_read(w.tape, ph_tensor_grad(x), got, sizeof got));
        for (int i = 0; i < 4; i++)
            CHECK(got[i] == (used & 1 ? of_first[i] : 0) + (used & 2 ? of_second[i] : 0));
        OK(ph_tensor_set_grad(x, nullptr));
        OK(ph_tape_clear(w.tape));
    }
};

/* Every function of the user's throws once, in every call of it, until none does.
 * Three times for each: the last time nothing may be left behind. */
template <typename Try> static long sweep(modules &m, const char *what, Try try_once)
{
    for (long n = 0; n < 1000; n++) {
        bool thrown = false;
        for (int round = 0; round < 3; round++) {
            const size_t allocated = m.w.memory().allocated;
            const leak_check leaks;
            left = n;
            thrown = throws([&] { try_once(); });
            left = -1;
            remove_hooks();
            if (!thrown)
                return n;
            m.w.expect_usable();
            if (m.w.memory().allocated != allocated)
                std::printf("%s: function call %ld: %zu bytes of the device's, %zu before\n", what,
                            n, m.w.memory().allocated, allocated);
            CHECK(m.w.memory().allocated == allocated);
            if (round == 2)
                leaks.expect_none(
                    (std::string(what) + ", function call " + std::to_string(n)).c_str());
        }
    }
    return -1;
}

static void test_making(ph_graphed_inputs inputs, bool plan)
{
    modules m;
    ph_module *graphed;
    long all = sweep(m, "making", [&] {
        OK(m.make(&graphed, inputs, plan));
        ph_module_release(graphed);
    });
    CHECK(all > 20); /* warm-up, probes, and the captures */
    OK(m.make(&graphed, inputs, plan));
    for (unsigned used = 1; used <= 3; used++)
        m.expect_gradient(graphed, used);
    ph_module_release(graphed);
}

/* Backward of one output alone is captured when it first comes. */
static void test_another_backward(ph_graphed_inputs inputs, unsigned used)
{
    modules m;
    ph_module *graphed;
    long n = 0;
    OK(m.make(&graphed, inputs));
    m.expect_gradient(graphed, 3);
    for (;; n++) {
        bool thrown = false;
        for (int round = 0; round < 3; round++) {
            const size_t allocated = m.w.memory().allocated;
            const leak_check leaks;
            left = n;
            thrown = throws([&] { m.step(graphed, used); });
            left = -1;
            if (!thrown)
                break;
            CHECK(ph_tape_clear(m.w.tape) == PH_ERROR_CALLER);
            OK(ph_tensor_set_grad(m.x, nullptr));
            m.w.expect_usable();
            CHECK(n < 100);
            if (n > 0 || round > 0) /* the first one finds room for what is copied, and keeps it */
                CHECK(m.w.memory().allocated == allocated);
            if (round == 2)
                leaks.expect_none("another backward");
        }
        if (!thrown)
            break;
    }
    CHECK(n > 0);
    OK(ph_tape_clear(m.w.tape));
    for (unsigned of = 1; of <= 3; of++)
        m.expect_gradient(graphed, of);
    ph_module_release(graphed);
}

/* Eager: the tape has failed, and goes on once it is cleared. */
static void test_tape()
{
    modules m;
    long n = 0;
    for (left = 0; throws([&] { m.step(m.module, 3); }); left = ++n) {
        left = -1;
        CHECK(ph_tape_clear(m.w.tape) == PH_ERROR_CALLER);
        m.w.expect_usable();
    }
    left = -1;
    CHECK(n > 5);
    OK(ph_tape_clear(m.w.tape));
    m.expect_gradient(m.module, 3);
}

/* ---- draws ---- The second run of a checkpointed function draws what the first did; draws after
 * it go on from where they were. */
static void draws(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *)
{
    may_throw();
    out[0] = ph_mul(tape, in[0], ph_rand(tape, PH_DTYPE_F32, PH_SHAPE(4)));
}

static void draw_after(float *got, bool leave)
{
    modules m;
    ph_tensor *out;
    ph_generator *generator;
    OK(ph_generator_create(&generator, m.w.device, 3));
    ph_tape_set_generator(m.w.tape, generator);
    ph_checkpoint(m.w.tape, draws, nullptr, &out, 1, &m.x, 1);
    left = leave ? 0 : -1;
    CHECK(throws([&] { ph_backward(m.w.tape, ph_sum(m.w.tape, out)); }) == leave);
    left = -1;
    CHECK(ph_tape_clear(m.w.tape) == (leave ? PH_ERROR_CALLER : PH_OK));
    OK(ph_tensor_read(m.w.tape, ph_rand(m.w.tape, PH_DTYPE_F32, PH_SHAPE(4)), got,
                      4 * sizeof *got));
    OK(ph_tensor_set_grad(m.x, nullptr));
    ph_generator_release(generator);
}

static void test_draws()
{
    float returned[4], thrown[4];
    draw_after(returned, false);
    draw_after(thrown, true);
    CHECK(std::memcmp(returned, thrown, sizeof thrown) == 0);
}

/* ---- walks of modules ---- */
static bool visit(const char *, ph_module *, void *)
{
    may_throw();
    return true;
}

static void test_walk()
{
    modules m;
    CHECK(sweep(m, "a walk", [&] { ph_module_modules(m.module, visit, nullptr); }) == 1);
}

int main()
{
    test_tape();
    test_draws();
    for (ph_graphed_inputs inputs : {PH_GRAPHED_AUTO, PH_GRAPHED_COPY_INPUTS}) {
        test_making(inputs, false);
        test_making(inputs, true);
        test_another_backward(inputs, 1);
        test_another_backward(inputs, 2);
    }
    test_walk();
    return 0;
}
