/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/graphed.hpp: a part of an existing program as a graph, with one call around it. */
#ifndef PHONOGRAPH_CXX_GRAPHED_HPP
#define PHONOGRAPH_CXX_GRAPHED_HPP
#include <phonograph/cxx/standard.hpp>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <phonograph/cuda.h>
#include <phonograph/cxx/graph.hpp>
#include <phonograph/cxx/graph_cache.hpp>
#include <phonograph/cxx/variable.hpp>
#include <phonograph/log.h>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace phonograph
{
/*     graphed part; part.value("lr", lr); part.run(stream, [&] { step(...); });
 *
 * A part of a program that runs as a graph.
 * - Calls: the first runs the body as it is (libraries make their handles and workspaces then), the
 *   second captures it and replays the capture, later ones replay. A replay does the captured work.
 *   Work of the body on the host happens only in the first two calls, and again in the captures
 *   that prove variables.
 * - Memory that the body's work addresses must stay in its place, unless its pointer is a variable
 *   of the part.
 * - Variables: address("x", x, bytes), value("lr", lr), before the second call. The part keeps a
 *   reference to the variable. The body must read the variable itself, not a copy. Replays use its
 *   value at the call.
 * - Proof: to find the places of the value, the body is captured again with another value in the
 *   variable, which is then restored (ph_graph_slot_prove, _prove_scalar). A last capture with all
 *   values restored leaves what the body writes in host memory as the values want it. Those
 *   captures run nothing.
 * - Trusted, as no capture shows it: what follows from a variable in another way at some numbers
 *   only, between those that were captured: a count that is rounded up to a multiple of 3, or a
 *   floating number that is limited. Such a variable needs a key, or no slot.
 * - Trusted too: numbers that come when addresses have moved, once all was proved anew 16 times
 *   for such numbers.
 * - A variable that is not proved, and changes: the body is captured anew at each change, and one
 *   warning has the reason.
 * - PH_GRAPHS=0 in the environment: every call runs the body as it is. Calls on a capturing stream
 *   do so too: the body becomes part of that capture.
 * - Exceptions of the body reach the caller, and the capture is aborted; the next call captures
 *   again. Where the body ends the process inside a capture (a macro that calls exit), the log
 *   names the call that killed the capture.
 * - capture_options().with_breaks(): the body may call graph_break, whose function is called once
 *   in each call. Variables are not proved then.
 * - Externally synchronised. */
class graphed
{
    ph_capture_options options_;
    unsigned eager_calls_, calls_ = 0;
    bool warned_ = false, provable_ = true;
    bool slots_known_ = true;
    static constexpr unsigned MOST_MADE_ANEW = 16; /* for numbers, while addresses move */
    unsigned made_anew_ = 0; /* false: a replay failed, and slots may have its values */
    std::vector<std::unique_ptr<detail::variable>> variables_;
    std::vector<ph_slot_value> values_;
    handle<ph_graph, ph_graph_destroy> graph_;
    graph_cache cache_; /* of shapes */
    std::vector<const void *> pointers_;
    std::vector<ph_graph_cache_value> numbers_;
    CUstream_st *wrapped_ = nullptr;
    stream wrapper_;

    static bool is_off() noexcept
    {
        static const bool off = [] {
            const char *text = std::getenv("PH_GRAPHS");
            return text && text[0] == '0' && text[1] == '\0';
        }();
        return off;
    }

    template <class Body>
    handle<ph_graph, ph_graph_destroy> capture(ph_stream *on, Body &body) const
    {
        graph made;
        made.capture(on, body, &options_);
        return handle<ph_graph, ph_graph_destroy>(made.release());
    }

    /* Variables that cannot be captured with another value, or are not proved, stay without a
     * slot. */
    template <class Body> void prove(detail::variable &one, ph_stream *on, Body &body)
    {
        try {
            const detail::stand_in other(one, on);
            const auto later = capture(on, body);
            one.prove_in(graph_, later);
        } catch (const error &refused) {
            one.refuse(refused.what());
        }
    }

    /* The values that changed, for the replay. False: one has no slot. */
    bool collect_changes()
    {
        values_.clear();
        for (const auto &one : variables_) {
            if (!one->has_changed() && (slots_known_ || one->slot() == PH_SLOT_NONE))
                continue;
            if (one->slot() == PH_SLOT_NONE) {
                warn(*one);
                return false;
            }
            values_.push_back({one->slot(), one->slot_value()});
        }
        return true;
    }

    void warn(const detail::variable &one)
    {
        if (warned_)
            return;
        warned_ = true;
        const std::string text = "graphed: \"" + one.name() +
                                 "\" has changed, and its uses are not proved: " + one.reason() +
                                 "; the body is captured anew at each change";
        ph_log_write(PH_LOG_WARNING, text.c_str());
    }

    bool is_due(const detail::variable &one) const noexcept
    {
        return one.slot() != PH_SLOT_NONE && one.has_changed() && !one.is_tried();
    }

    /* A number that is not like those of the captures so far (tried_numbers): the body is captured
     * with it, where the other numbers are those of the capture. Where an address has moved, the
     * memory of the capture may be gone: all is captured and proved anew then, the first times. */
    template <class Body> void try_values(ph_stream *on, Body &body)
    {
        bool due = false, moved = false;
        for (const auto &one : variables_) {
            due = due || is_due(*one);
            moved = moved || one->has_moved();
        }
        if (!due)
            return;
        if (moved) {
            if (made_anew_ < MOST_MADE_ANEW) {
                made_anew_++;
                graph_.reset();
            }
            return;
        }
        try {
            for (const auto &one : variables_)
                if (is_due(*one))
                    try_value(*one, on, body);
            (void)capture(on, body); /* as in make */
        } catch (...) {
            graph_.reset();
            throw;
        }
    }

    template <class Body> void try_value(detail::variable &one, ph_stream *on, Body &body)
    {
        try {
            const detail::held_variables others(variables_, one);
            const auto later = capture(on, body);
            one.try_in(graph_, later);
        } catch (const error &refused) {
            one.refuse(refused.what());
        }
    }

    template <class Body> void make(ph_stream *on, Body &body)
    {
        graph_ = capture(on, body);
        slots_known_ = true;
        for (const auto &one : variables_)
            one->was_captured();
        if (!provable_ || variables_.empty())
            return;
        try {
            for (const auto &one : variables_)
                prove(*one, on, body);
            (void)capture(on, body); /* host memory that the body writes follows the values again */
        } catch (...) {
            graph_.reset();
            throw;
        }
    }

    void add(std::unique_ptr<detail::variable> one)
    {
        variables_.push_back(std::move(one));
        graph_.reset();
        cache_.reset();
    }

    void make_cache(ph_stream *on)
    {
        ph_graph_cache_options options = {};
        ph_capture_options capture = options_;
        options.pool = capture.pool;
        options.after = eager_calls_ ? eager_calls_ : PH_ZERO;
        options.capture = &capture;
        capture.pool = nullptr;
        capture.compared = capture.defer_breaks = false; /* set by the cache */
        cache_ = graph_cache(ph_stream_device(on), &options);
    }

    ph_graph_cache_call call_of(const void *key, std::size_t key_bytes)
    {
        ph_graph_cache_call call = {};
        pointers_.clear();
        numbers_.clear();
        for (const auto &one : variables_)
            if (one->value_bytes())
                numbers_.push_back({one->slot_value(), one->value_bytes()});
            else
                pointers_.push_back(one->slot_value());
        call.key = key;
        call.key_bytes = key_bytes;
        call.pointers = pointers_.data();
        call.pointer_count = pointers_.size();
        call.values = numbers_.data();
        call.value_count = numbers_.size();
        return call;
    }

    stream &wrapper_of(CUstream_st *on)
    {
        if (on != wrapped_ || !wrapper_.get()) {
            ph_stream *made;
            check(ph_stream_wrap_cuda(&made, on));
            wrapper_.reset(made);
            wrapped_ = on;
        }
        return wrapper_;
    }

  public:
    /* eager_calls: calls that run the body before it is captured. */
    explicit graphed(const ph_capture_options &options = capture_options(),
                     unsigned eager_calls = 1) noexcept
        : options_(options), eager_calls_(eager_calls)
    {
        options_.compared = true;
        options_.defer_breaks = options_.allow_breaks; /* a replay follows each capture */
    }

    /* A pointer to device or pinned memory: the body's work uses bytes behind it, all of which the
     * addresses that it changes to must have too. */
    template <class T> void address(const char *name, T *&pointer, std::size_t bytes)
    {
        add(std::make_unique<detail::address_variable<T>>(name, pointer, bytes));
    }
    /* A number that kernels take as a parameter.
     * - The proof takes half of an integer: a grid that follows from a count differs then, unless
     *   both counts fit the same one.
     * - The first number that is unlike those captured is captured and compared, too: one of
     *   another sign, with more or fewer bits, or with fewer low zero bits. */
    template <class T> void value(const char *name, T &number)
    {
        static_assert(std::is_arithmetic_v<T>, "give another value for the proof: value(n, v, o)");
        value(name, number, detail::another(number));
    }
    /* other: a value that differs, and that the body may be captured with. */
    template <class T> void value(const char *name, T &variable, const T &other)
    {
        static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 256, "see slots.h");
        add(std::make_unique<detail::value_variable<T>>(name, variable, other));
    }

    template <class Body> void run(ph_stream *on, Body &&body)
    {
        if (is_off() || calls_ < eager_calls_ || ph_stream_is_capturing(on)) {
            calls_ += calls_ < eager_calls_;
            check(detail::call_body<std::remove_reference_t<Body>>(on, detail::address_of(body)));
            return;
        }
        if (graph_)
            try_values(on, body);
        if (graph_ && !collect_changes()) {
            graph_.reset();
            provable_ = false;
        }
        if (!graph_) {
            values_.clear();
            make(on, body);
        }
        slots_known_ = false;
        check(ph_graph_replay_with(graph_, on, values_.data(), values_.size()));
        slots_known_ = true;
        for (const auto &one : variables_)
            one->was_set();
    }
    /* A stream of CUDA's: a cudaStream_t, not a default stream.
     * - This object looks at the last one that it was given until a call gives another one, reset,
     *   or its own end. Destroy that stream later: CUDA crashes on a stream that is gone.
     * - With PH_GRAPHS=0 a body that takes no argument is called, and nothing else happens: any
     *   stream will do. */
    template <class Body> void run(CUstream_st *on, Body &&body)
    {
        using callable = std::remove_reference_t<Body>;
        if constexpr (!std::is_invocable_v<callable &, stream_view>)
            if (is_off())
                return check(detail::call_body<callable>(nullptr, detail::address_of(body)));
        run(wrapper_of(on).get(), std::forward<Body>(body));
    }

    /* Several shapes: a graph for each key, through a cache of graphs (graph_cache.h). The key has
     * all that decides which kernels are launched, and with which grids. Variables are learned from
     * their changes: no proof captures the body with another value. */
    template <class Key, class Body> void run(ph_stream *on, const Key &key, Body &&body)
    {
        static_assert(std::has_unique_object_representations_v<Key>,
                      "keys are compared byte by byte: no padding, and no floating point");
        if (is_off())
            return check(
                detail::call_body<std::remove_reference_t<Body>>(on, detail::address_of(body)));
        if (!cache_)
            make_cache(on);
        cache_.run(on, call_of(&key, sizeof key), std::forward<Body>(body));
    }
    /* The same on a stream of CUDA's. */
    template <class Key, class Body> void run(CUstream_st *on, const Key &key, Body &&body)
    {
        using callable = std::remove_reference_t<Body>;
        if constexpr (!std::is_invocable_v<callable &, stream_view>)
            if (is_off())
                return check(detail::call_body<callable>(nullptr, detail::address_of(body)));
        run(wrapper_of(on).get(), key, std::forward<Body>(body));
    }

    /* The next call is a first one, on any stream. Variables stay. */
    void reset() noexcept
    {
        graph_.reset();
        cache_.reset();
        wrapper_.reset();
        wrapped_ = nullptr;
        calls_ = 0;
        provable_ = true;
        warned_ = false;
    }
    /* The cache of shapes, to look into; NULL before the first call with a key. */
    ph_graph_cache *shapes() const noexcept
    {
        return cache_.get();
    }
    /* The graph, to look into; NULL before the capture. Borrowed until the next one. */
    ph_graph *get() const noexcept
    {
        return graph_;
    }
};
} // namespace phonograph
#endif
