// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "allfold/message/detail/awaited_receives.hpp"
#include "allfold/message/detail/chain.hpp"
#include "allfold/message/detail/message_data.hpp"
#include "allfold/message/detail/message_head.hpp"
#include "allfold/message/options.hpp"
#include "allfold/transport/detail/cache_size.hpp"

/// @file
/// Which receive gets which message: unexpected messages and posted receives.
///
/// Both are found by source and tag directly, however many there are. Only a receive with a wildcard scans everything
/// that is held, and an arriving message scans only the receives with wildcards.

namespace allfold::detail {

struct by_envelope;
struct by_age;
class open_message;
struct record;

/// An unexpected message: no receive has matched it yet.
struct held_message : chain_link<by_envelope>, chain_link<by_age> {
    int source = 0;
    message_head head;
    std::vector<std::byte> data;      // of an eager one; of a request, the length of encoded data
    std::optional<std::byte*> there;  // or its address at the sender, which may be null if it is empty
    std::uint64_t number = 0;         // in order of arrival

    [[nodiscard]] int label() const noexcept { return head.tag; }
    /// What followed its head.
    [[nodiscard]] std::span<const std::byte> rest() const noexcept {
        return there ? std::as_bytes(std::span(&*there, 1)) : std::span<const std::byte>(data);
    }
    [[nodiscard]] status about() const noexcept { return head.from_rank(source); }
};

/// A receive or a probe that waits, or has waited, for a match.
struct posted_receive : chain_link<by_envelope> {
    int source = null_rank;
    int tag = any_tag;
    message_data place;
    std::uint64_t number = 0;  // in order of posting
    bool is_posted = false;    // and not yet matched
    bool is_note = false;      // it is only a receive_note (receive_note.hpp)
    bool is_probe = false;
    bool is_long = false;  // it is counted while it waits (awaited_receives.hpp)

    posted_receive() = default;
    posted_receive(int from_rank, int wanted_tag, const message_data& where)
        : source(from_rank), tag(wanted_tag), place{where.data, where.elements, where.type} {}

    [[nodiscard]] int label() const noexcept { return tag; }
    /// Whether that much of a type that is copied as bytes is just copied to its place.
    [[nodiscard, gnu::always_inline]] bool takes_bytes(std::uint64_t type, std::size_t element_bytes,
                                                       std::uint64_t elements) const noexcept {
        return place.type->copies_bytes() && type == place.type->hash() && element_bytes == place.type->element_bytes &&
               elements <= place.elements && elements != 0;
    }
    [[nodiscard]] bool is_open() const noexcept { return source == any_rank || tag == any_tag; }
    [[nodiscard]] bool takes(int from_rank, int wanted_tag) const noexcept {
        return (source == any_rank || source == from_rank) && (tag == any_tag || tag == wanted_tag);
    }
};

/// A posted receive with its outcome.
struct receiving : posted_receive {
    using posted_receive::posted_receive;

    bool is_done = true;
    status found;
    std::size_t coming_bytes = 0;        // set once the data has been asked for
    std::vector<std::byte> encoded;      // where encoded data is received
    std::unique_ptr<held_message> held;  // the message that a probe has found
    std::exception_ptr failure;
    open_message* owner = nullptr;
    record* refusal = nullptr;  // in transit
};

/// A hash table that finds the first element with a given source and tag.
template <class T>
class envelope_table {
  public:
    /// Adds an element that is in no list.
    [[gnu::always_inline]] void add(T& each) {
        if (count_ >= room_) [[unlikely]]
            grow();
        ++count_;
        slot_of(each.source, each.label()).push_back_alone(each);
    }
    /// Adds an element before a later one.
    void add_before(T& later, T& each) {
        ++count_;
        slot_of(each.source, each.label()).insert_before(later, each);
    }
    void remove(T& each) noexcept {
        --count_;
        slot::remove(each);
    }
    template <class Fits>
    [[nodiscard, gnu::always_inline]] T* find(int source, int tag, Fits fits) const {
        if (count_ == 0) return nullptr;
        return slot_of(source, tag).find([&](const T& each) {
            return each.source == source && each.label() == tag && fits(each);
        });
    }
    [[nodiscard, gnu::always_inline]] T* first(int source, int tag) const {
        return find(source, tag, [](const T&) { return true; });
    }
    [[nodiscard]] std::size_t count() const noexcept { return count_; }
    /// Visits all, in no particular order; the visited element may be removed, or replaced by others, meanwhile.
    template <class Visit>
    void for_each(Visit visit) const {
        for (const slot& s : slots_)
            for (T *each = s.first(), *next = nullptr; each != nullptr; each = next) {
                next = s.after(*each);
                visit(*each);
            }
    }

  private:
    using slot = chain<T, by_envelope>;

    [[nodiscard]] std::size_t place_of(int source, int tag) const noexcept {
        const auto both =
            static_cast<std::uint64_t>(static_cast<std::uint32_t>(source)) << 32 | static_cast<std::uint32_t>(tag);
        return static_cast<std::size_t>(both * 0x9e3779b97f4a7c15u >> 32) & mask_;
    }
    [[nodiscard]] slot& slot_of(int source, int tag) noexcept { return slots_[place_of(source, tag)]; }
    [[nodiscard]] const slot& slot_of(int source, int tag) const noexcept { return slots_[place_of(source, tag)]; }
    /// Elements with the same envelope come from the same slot, so they stay in order.
    [[gnu::cold, gnu::noinline]] void grow() {
        std::vector<slot> before(slots_.empty() ? 16 : 4 * slots_.size());
        before.swap(slots_);
        mask_ = slots_.size() - 1;
        room_ = 2 * slots_.size();
        for (const slot& old : before)
            while (T* const each = old.first()) slot_of(each->source, each->label()).push_back(*each);
    }

    std::vector<slot> slots_;  // their number is a power of two
    std::size_t mask_ = 0;     // that number less one
    std::size_t count_ = 0, room_ = 0;
};

class matching {
  public:
    explicit matching(int ranks) noexcept : awaited_(cache_share(ranks)) {}
    matching(const matching&) = delete;
    matching& operator=(const matching&) = delete;
    ~matching() {
        while (held_message* const each = by_age_.first()) delete each;
    }

    [[nodiscard]] bool is_empty() const noexcept {
        return held_.count() == 0 && waiting_.count() == 0 && open_.empty();
    }

    void post(posted_receive& r) {
        r.number = ++posted_;
        if (r.is_open())
            open_.push_back(r);
        else
            waiting_.add(r);
        r.is_posted = true;
    }
    /// Posts a short receive without wildcards.
    [[gnu::always_inline]] void post_exact(posted_receive& r) {
        r.number = ++posted_;
        waiting_.add(r);
        r.is_posted = true;
    }
    [[gnu::always_inline]] void withdraw_exact(posted_receive& r) noexcept {
        r.is_posted = false;
        waiting_.remove(r);
    }
    /// Posts a receive that may be long.
    void post_any(posted_receive& r) {
        post(r);
        r.is_long = awaited_.add(r.place.bytes());
    }
    void withdraw(posted_receive& r) noexcept {
        r.is_posted = false;
        if (r.is_long) [[unlikely]] {
            awaited_.remove();
            r.is_long = false;
        }
        if (r.is_open())
            chain<posted_receive, by_envelope>::remove(r);
        else
            waiting_.remove(r);
    }
    /// Replaces a posted receive without wildcards by another one, in the same position.
    void replace(posted_receive& r, posted_receive& by) {
        by.number = r.number;
        by.is_posted = true;
        waiting_.add_before(r, by);
        withdraw(r);
    }
    /// Visits the posted receives without wildcards, in no particular order; each may be replaced meanwhile.
    template <class Visit>
    void for_each_waiting(Visit visit) const {
        waiting_.for_each(visit);
    }
    [[nodiscard]] awaited_receives& awaited() noexcept { return awaited_; }
    /// Whether an unexpected message with this source and tag is held.
    [[nodiscard]] bool holds(int source, int tag) const { return held_.first(source, tag) != nullptr; }
    /// The posted receive that a message matches, if none has wildcards; null if there is none, or one has.
    [[nodiscard, gnu::always_inline]] posted_receive* find_exact(int source, int tag) const {
        return open_.empty() ? waiting_.first(source, tag) : nullptr;
    }
    /// Removes and returns the posted receive that a message matches; null if there is none.
    [[nodiscard]] posted_receive* take_receive(int source, int tag) {
        posted_receive* const exact = waiting_.first(source, tag);
        posted_receive* const open = open_.find([&](const posted_receive& r) { return r.takes(source, tag); });
        posted_receive* const first =
            exact == nullptr || (open != nullptr && open->number < exact->number) ? open : exact;
        if (first != nullptr) withdraw(*first);
        return first;
    }

    void hold(std::unique_ptr<held_message> message) {
        message->number = ++arrivals_;
        held_.add(*message);
        by_age_.push_back(*message.release());
    }
    /// Numbers a message that a waiting probe gets at once.
    void number(held_message& message) noexcept { message.number = ++arrivals_; }
    /// Puts a message back into its old position.
    void put_back(std::unique_ptr<held_message> message) {
        const auto is_later = [&](const held_message& each) { return each.number > message->number; };
        held_message* const next = held_.find(message->source, message->label(), is_later);
        held_message* const younger = by_age_.find(is_later);
        if (next == nullptr)
            held_.add(*message);
        else
            held_.add_before(*next, *message);
        if (younger == nullptr)
            by_age_.push_back(*message.release());
        else
            by_age_.insert_before(*younger, *message.release());
    }
    /// Removes and returns the first held message that `r` matches; null if there is none.
    [[nodiscard]] std::unique_ptr<held_message> take_held(const receiving& r) {
        held_message* const found =
            r.is_open() ? by_age_.find([&](const held_message& each) { return r.takes(each.source, each.label()); })
                        : held_.first(r.source, r.tag);
        if (found == nullptr) return nullptr;
        held_.remove(*found);
        chain<held_message, by_age>::remove(*found);
        return std::unique_ptr<held_message>(found);
    }
    /// Visits the held messages in order of arrival.
    template <class Visit>
    void for_each_held(Visit visit) const {
        for (const held_message* each = by_age_.first(); each != nullptr; each = by_age_.after(*each)) visit(*each);
    }

  private:
    envelope_table<held_message> held_;
    chain<held_message, by_age> by_age_;
    envelope_table<posted_receive> waiting_;
    chain<posted_receive, by_envelope> open_;
    std::uint64_t arrivals_ = 0, posted_ = 0;
    awaited_receives awaited_;
};

}  // namespace allfold::detail
