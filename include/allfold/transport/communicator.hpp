// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "allfold/data/partition.hpp"
#include "allfold/schedule/contract.hpp"
#include "allfold/transport/background.hpp"

/// @file
/// What a transport offers: ordered, isolated lanes of messages between pairs of ranks.

namespace allfold {

/// Keeps collectives that are in flight at the same time apart. Every rank opens lanes in the order in which it starts
/// its collectives, so equal numbers mean the same collective (and window) everywhere.
using lane = std::uint32_t;

/// One contiguous piece of memory.
struct part {
    std::byte* data;
    std::size_t bytes;
};

/// What the ranks of one collective must agree about. Its hash travels with every message; the figures are looked up
/// when the hashes differ.
struct signature {
    static constexpr std::size_t longest_name = 160;  ///< more of a name is neither told nor compared

    collective what = collective::barrier;
    order level = order::any;
    int root = 0;
    std::uint64_t elements = 0;  ///< of the whole operand
    std::uint64_t layout = 0;    ///< hash of the partition or row widths, 0 where there is nothing to agree about
    std::uint64_t type_id = 0;   ///< hash of element and operator type
    const char* element_type = "";
    const char* operator_type = "";
    const char* schedule = "";

    /// Never 0.
    [[nodiscard]] constexpr std::uint32_t hash() const noexcept {
        std::uint64_t h = type_id ^ (elements * 0x9e3779b97f4a7c15u) ^ (layout * 0xc2b2ae3d27d4eb4fu) ^
                          (static_cast<std::uint64_t>(static_cast<unsigned>(root)) << 16) ^
                          (static_cast<std::uint64_t>(what) << 8) ^ static_cast<std::uint64_t>(level.level());
        h = (h ^ (h >> 31)) * 0xbf58476d1ce4e5b9u;
        return static_cast<std::uint32_t>(h >> 32) | 1u;
    }
};

namespace detail {
/// What one rank tells another of a name.
[[nodiscard]] constexpr std::string_view told_of(std::string_view name) noexcept {
    return name.substr(0, signature::longest_name);
}
}  // namespace detail

/// What a rank hands to `try_post`. Parts and the memory that they name stay untouched while `*lent` counts them.
struct outgoing {
    std::span<const part> parts;
    std::size_t bytes = 0;      ///< of all parts together
    std::size_t alignment = 1;  ///< of each part
    bool copyable = true;       ///< bytes may be copied; otherwise the parts hold objects, and go by reference
    std::uint32_t signature = 0;
    std::atomic<int>* lent = nullptr;  ///< raised by the transport while it or a peer still needs the memory
};

/// What a sink is given: a message where it lies. A value that can be kept; what it names stays valid as long as it
/// lives. Its memory may be the sender's own.
template <class A>
concept arrival = std::movable<A> && requires(const A a) {
    { a.signature() } -> std::same_as<std::uint32_t>;
    { a.bytes() } -> std::same_as<std::size_t>;
    { a.packed() } -> std::same_as<std::byte*>;            // all parts one behind the other, each aligned; or null
    { a.parts() } -> std::same_as<std::span<const part>>;  // otherwise: the parts as they were posted
};

/// For whom a rank is waiting, for error messages.
struct waiting {
    collective what = collective::barrier;
    int round = 0;
    int rounds = 0;
    int peer = -1;  ///< one of the ranks without which it cannot go on; -1 for nobody in particular
    lane on = 0;    ///< the lane of the message that it waits for
};

/// What `wait` waits for: 1. `poll()` makes what progress it can, and returns true when there is nothing left to do;
/// 2. `blocked_on()` says for whom it waits; 3. `check()` throws if that is in vain. A transport asks the last two only
/// now and then.
template <class T>
concept pending_work = requires(T work, const T& view) {
    { work.poll() } -> std::convertible_to<bool>;
    { view.blocked_on() } -> std::same_as<waiting>;
    view.check();
};

/// Where the sink wants a packed message with this signature and of so many bytes; null where it does not care. It is
/// asked once at most, by a transport that is about to take in the message, which is then delivered as lying there.
template <class Sink>
[[nodiscard]] std::byte* place_for(Sink& sink, std::uint32_t signature, std::size_t bytes) {
    if constexpr (requires { sink.place(signature, bytes); })
        return sink.place(signature, bytes);
    else
        return nullptr;
}

/// A sink that does something to a message before it hands it on, for transports that are made of others.
template <class Sink, class Handing>
class handing_on {
  public:
    handing_on(Sink& sink, Handing handing) : sink_(sink), handing_(std::move(handing)) {}
    template <class A>
    void operator()(A&& message) const {
        handing_(std::forward<A>(message));
    }
    [[nodiscard]] std::byte* place(std::uint32_t signature, std::size_t bytes) const {
        return place_for(sink_, signature, bytes);
    }

  private:
    Sink& sink_;
    Handing handing_;
};

/// Whether, after `abandon`, somebody may still touch memory that this rank has lent.
template <class Comm>
[[nodiscard]] bool holds_memory(const Comm& comm) noexcept {
    if constexpr (requires { comm.holds_memory(); })
        return comm.holds_memory();
    else
        return false;
}

/// Whether `wait` may sleep until its own transport wakes it.
template <class Comm>
inline constexpr bool sleeps_in_wait = [] {
    if constexpr (requires { Comm::sleeps; })
        return Comm::sleeps;
    else
        return true;
}();

namespace detail {
struct any_sink {
    template <class A>
    void operator()(A&&) const {}
};
struct any_work {
    bool poll() { return true; }
    [[nodiscard]] waiting blocked_on() const { return {}; }
    void check() const {}
};
}  // namespace detail

/// What a transport's own collective gets: elements that lie one behind the other.
struct native_operands {
    std::byte* input = nullptr;
    std::byte* result = nullptr;
    std::size_t elements = 0;  ///< of the whole operand
    int root = 0;
    const partition* blocks = nullptr;  ///< of a reduce_scatter
    bool in_place = false;              ///< element for element, input and result are the same memory
};

/// A rank's end of a transport. One thread uses it at a time.
///
/// 1. `rank()` and `size()`.
/// 2. `open(signature, n)` numbers n new lanes, the same ones on every rank that opens in the same order, and makes the
///    signature known under them; `announced(peer, lane)` looks up what a peer opened there, if it still can.
/// 3. `try_post(to, lane, message)` sends, or returns false when there is no room now. It never blocks.
/// 4. `try_receive(from, lane, sink)` hands the next message on this lane from this rank to `sink` where it lies, or
///    returns false when there is none yet. Messages of one pair on one lane arrive in the order of their posts. It may
///    ask `place_for(sink, signature, bytes)` where the sink would have this message, and put it there.
/// 5. `lends(bytes, copyable)`: whether such a message would be read in place, in the sender's memory, after the post.
/// 6. `wait(work, deadline)` polls until the work is done, and throws `error` when another rank failed or left, or
///    the deadline passed. `abandon()` is called by a rank that gives up: it makes every other rank throw, and returns
///    when none of them touches this rank's memory any more, or, where it cannot wait for that, `holds_memory()`.
/// 7. `background()`: the operations in flight, which every wait of the engine pushes on. The destructor begins with
///    its `end()`, which may call `abandon()`.
/// 8. `shares_memory`: ranks can use each other's addresses, so objects may cross, and not only bytes.
///
/// It may have `progress()`, which the engine calls before it looks for messages: for transports whose posts do not end
/// by themselves. It may have `announce(lane, n, signature)`, which does for lanes opened before what `open` does for
/// peers that ask `announced`: for prepared collectives. It may say `sleeps = false`: its `wait` only polls and yields.
/// It may have `processors()`: how many processors the ranks share, the same on every rank, for the
/// choice of schedules. It may have collectives of its own: `has_native<Goal, Op, T>` says for which operators and
/// elements, `prefers_native(goal, bytes)` returns a reason to take it, or null, the same on every rank,
/// and `run_native<Op, T>(goal, operands)` runs it. Not required: a barrier, a copy, any collective.
template <class C>
concept communicator =
    requires(C& comm, const C& view, int peer, lane on, const signature& what, const outgoing& message,
             detail::any_work& work, std::optional<std::chrono::steady_clock::time_point> deadline) {
        { view.rank() } -> std::same_as<int>;
        { view.size() } -> std::same_as<int>;
        { C::shares_memory } -> std::convertible_to<bool>;
        { comm.open(what, 1u) } -> std::same_as<lane>;
        { view.announced(peer, on) } -> std::same_as<std::optional<signature>>;
        { comm.try_post(peer, on, message) } -> std::same_as<bool>;
        { comm.try_receive(peer, on, detail::any_sink{}) } -> std::same_as<bool>;
        { view.lends(std::size_t{}, true) } -> std::same_as<bool>;
        comm.wait(work, deadline);
        comm.abandon();
        { comm.background() } -> std::same_as<background&>;
        requires arrival<typename C::arrival_type>;
    };

}  // namespace allfold
