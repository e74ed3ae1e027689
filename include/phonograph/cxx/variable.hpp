/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/variable.hpp: variables of a graphed part: how their uses are proved, and what
 * replays set. For graphed.hpp. */
#ifndef PHONOGRAPH_CXX_VARIABLE_HPP
#define PHONOGRAPH_CXX_VARIABLE_HPP
#include <phonograph/cxx/standard.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <phonograph/cxx/memory.hpp>
#include <phonograph/cxx/tried_numbers.hpp>
#include <phonograph/slots.h>
#include <string>
#include <type_traits>
#include <vector>

namespace phonograph
{
namespace detail
{
/* A number that differs, and that host code which looks at it can bear: half of an integer is a
 * smaller count or index, and most of what follows from it (blocks of a grid, sizes in bytes)
 * differs too, so that the comparison sees it. */
template <class T> T another(T number) noexcept
{
    if constexpr (std::is_same_v<T, bool>)
        return !number;
    else if constexpr (std::is_floating_point_v<T>)
        return number * static_cast<T>(1.2345678901234567) + static_cast<T>(0.1234567890123457);
    else
        return static_cast<T>(number == 0 ? 1 : number / 2);
}

/* Device or pinned memory as the block at `like` is, with room for `bytes` behind an address whose
 * bits 8 to 11 are the opposite of those of `like`: what a slot needs to accept any address of that
 * alignment. */
class far_block
{
    void *block_ = nullptr;
    ph_stream *stream_;
    bool pinned_ = false;

  public:
    far_block(ph_stream *stream, const void *like, std::size_t bytes) : stream_(stream)
    {
        ph_allocation found;
        pinned_ = ph_memory_lookup(&found, ph_stream_device(stream), like) == PH_OK && found.pinned;
        check(pinned_ ? ph_malloc_pinned(&block_, 1, bytes + 8192, stream)
                      : ph_malloc(&block_, 1, bytes + 8192, stream));
    }
    far_block(const far_block &) = delete;
    far_block &operator=(const far_block &) = delete;
    ~far_block()
    {
        if (pinned_)
            ph_free_pinned(block_, stream_);
        else
            ph_free(block_, stream_);
    }
    void *opposite(const void *like) const noexcept
    {
        const std::uintptr_t low = (reinterpret_cast<std::uintptr_t>(like) ^ 0xF00) & 0xFFF,
                             page = (reinterpret_cast<std::uintptr_t>(block_) + 4095) & ~0xFFFULL;
        return reinterpret_cast<void *>(page + low); // NOLINT: an address
    }
};

class variable
{
    std::string name_, reason_;
    std::size_t slot_ = PH_SLOT_NONE;

  protected:
    void keep(const ph_slot_proof &proof)
    {
        slot_ = proof.slot;
        reason_ = proof.reason;
    }

  public:
    explicit variable(const char *name) : name_(name)
    {
    }
    variable(const variable &) = delete;
    variable &operator=(const variable &) = delete;
    virtual ~variable() = default;
    const std::string &name() const noexcept
    {
        return name_;
    }
    const std::string &reason() const noexcept
    {
        return reason_;
    }
    std::size_t slot() const noexcept
    {
        return slot_;
    }
    /* Why it has no slot. */
    void refuse(const char *reason)
    {
        slot_ = PH_SLOT_NONE;
        reason_ = reason;
    }
    /* A new capture has the value of now, and no slot yet. */
    void was_captured()
    {
        slot_ = PH_SLOT_NONE;
        reason_ = "no comparison was made";
        was_set();
        keep_captured();
    }
    virtual bool has_changed() const noexcept = 0;
    virtual void was_set() noexcept = 0;
    virtual const void *slot_value() const noexcept = 0;
    /* 0: an address. */
    virtual std::size_t value_bytes() const noexcept
    {
        return 0;
    }
    /* Puts another value into the variable, and the value of before back. */
    virtual void stand_in(ph_stream *stream) = 0;
    virtual void put_back() noexcept = 0;
    /* later: captured with the other value. */
    virtual void prove_in(ph_graph *graph, ph_graph *later) = 0;

    virtual void keep_captured() = 0;
    /* An address that is not the capture's any more. */
    virtual bool has_moved() const noexcept
    {
        return false;
    }
    /* Puts the value of the capture into the variable, and what it had before back. */
    virtual void hold() noexcept
    {
    }
    virtual void release() noexcept
    {
    }
    /* Whether the value is like those that captures were made with. */
    virtual bool is_tried() const noexcept
    {
        return true;
    }
    /* later: captured with the value of now, where all others held. Throws where other places than
     * the slot's follow it. */
    virtual void try_in(ph_graph *, ph_graph *)
    {
    }
};

/* All variables but one hold the values of the capture. */
class held_variables
{
    const std::vector<std::unique_ptr<variable>> &all_;
    const variable &but_;

  public:
    held_variables(const std::vector<std::unique_ptr<variable>> &all, const variable &but) noexcept
        : all_(all), but_(but)
    {
        for (const auto &one : all_)
            if (one.get() != &but_)
                one->hold();
    }
    held_variables(const held_variables &) = delete;
    held_variables &operator=(const held_variables &) = delete;
    ~held_variables()
    {
        for (const auto &one : all_)
            if (one.get() != &but_)
                one->release();
    }
};

/* Both slots are of the same places. */
inline bool has_same_places(ph_graph *graph, std::size_t slot, ph_graph *other,
                            std::size_t other_slot)
{
    ph_slot_info mine, theirs;
    check(ph_graph_slot_get(&mine, graph, slot));
    check(ph_graph_slot_get(&theirs, other, other_slot));
    bool same = mine.uses == theirs.uses;
    for (std::size_t i = 0; same && i < mine.uses; i++) {
        ph_slot_place a, b;
        check(ph_graph_slot_place_at(&a, graph, slot, i));
        check(ph_graph_slot_place_at(&b, other, other_slot, i));
        same = a.node == b.node && a.offset == b.offset;
    }
    return same;
}

class stand_in
{
    variable &of_;

  public:
    stand_in(variable &of, ph_stream *stream) : of_(of)
    {
        of.stand_in(stream);
    }
    stand_in(const stand_in &) = delete;
    stand_in &operator=(const stand_in &) = delete;
    ~stand_in()
    {
        of_.put_back();
    }
};

template <class T> class address_variable : public variable
{
    T *&pointer_;
    T *last_ = nullptr, *other_ = nullptr, *captured_ = nullptr;
    std::size_t bytes_;
    std::unique_ptr<far_block> block_;

  public:
    address_variable(const char *name, T *&pointer, std::size_t bytes)
        : variable(name), pointer_(pointer), bytes_(bytes)
    {
    }
    bool has_changed() const noexcept override
    {
        return pointer_ != last_;
    }
    void was_set() noexcept override
    {
        last_ = pointer_;
    }
    const void *slot_value() const noexcept override
    {
        return pointer_;
    }
    void stand_in(ph_stream *stream) override
    {
        block_ = std::make_unique<far_block>(stream, last_, bytes_);
        other_ = static_cast<T *>(block_->opposite(last_));
        pointer_ = other_;
    }
    void put_back() noexcept override
    {
        pointer_ = last_;
        block_.reset();
    }
    void keep_captured() override
    {
        captured_ = pointer_;
    }
    bool has_moved() const noexcept override
    {
        return pointer_ != captured_;
    }
    void prove_in(ph_graph *graph, ph_graph *later) override
    {
        const void *shifted = other_;
        ph_slot_span span = {};
        ph_slot_proof proof;
        span.name = name().c_str();
        span.base = last_;
        span.shifted = &shifted;
        span.bytes = bytes_;
        check(ph_graph_slot_prove(&proof, graph, &later, 1, &span, 1));
        keep(proof);
    }
};

template <class T> class value_variable : public variable
{
    T &variable_;
    T last_, other_, captured_, given_;
    tried_numbers<T> tried_;

    ph_slot_proof compare(ph_graph *graph, ph_graph *later, const T &from, const T &to) const
    {
        ph_slot_proof proof;
        check(ph_graph_slot_prove_scalar(&proof, graph, later, this->name().c_str(), &from, &to,
                                         sizeof(T)));
        return proof;
    }

  public:
    value_variable(const char *name, T &of, const T &other)
        : variable(name), variable_(of), last_(of), other_(other), captured_(of), given_(of)
    {
    }
    bool has_changed() const noexcept override
    {
        return std::memcmp(&variable_, &last_, sizeof(T)) != 0;
    }
    void was_set() noexcept override
    {
        last_ = variable_;
    }
    const void *slot_value() const noexcept override
    {
        return &variable_;
    }
    std::size_t value_bytes() const noexcept override
    {
        return sizeof(T);
    }
    void stand_in(ph_stream *) override
    {
        if (std::memcmp(&variable_, &other_, sizeof(T)) == 0) /* the value is the other one */
            if constexpr (std::is_arithmetic_v<T>)
                other_ = another(variable_);
        variable_ = other_;
    }
    void put_back() noexcept override
    {
        variable_ = last_;
    }
    void prove_in(ph_graph *graph, ph_graph *later) override
    {
        keep(compare(graph, later, last_, other_));
        tried_.add(other_);
    }
    void keep_captured() override
    {
        captured_ = variable_;
        tried_.clear();
        tried_.add(variable_);
    }
    void hold() noexcept override
    {
        given_ = variable_;
        variable_ = captured_;
    }
    void release() noexcept override
    {
        variable_ = given_;
    }
    bool is_tried() const noexcept override
    {
        return tried_.has(variable_);
    }
    /* The slot of the comparison is one of the later graph, which goes. */
    void try_in(ph_graph *graph, ph_graph *later) override
    {
        const ph_slot_proof proof = compare(later, graph, variable_, captured_);
        if (proof.slot == PH_SLOT_NONE)
            throw error(PH_ERROR_MISMATCH, proof.reason);
        if (!has_same_places(graph, this->slot(), later, proof.slot))
            throw error(PH_ERROR_MISMATCH,
                        "parameters that follow the value at some numbers do not at others, as "
                        "where it is rounded up or limited");
        tried_.add(variable_);
    }
};
} // namespace detail
} // namespace phonograph
#endif
