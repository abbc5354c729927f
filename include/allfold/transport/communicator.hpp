// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

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
#include "allfold/schedule/step.hpp"
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

namespace detail {
/// The lanes of messages between two ranks, which no collective gets.
inline constexpr lane envelopes_lane = 0x7ffffffe, data_lane = 0x7fffffff;
[[nodiscard]] constexpr bool is_of_messages(lane on) noexcept { return on == envelopes_lane || on == data_lane; }

/// The first of so many lanes that are opened next, where `next` would be the first one: all but those of messages.
[[nodiscard]] constexpr lane first_of_lanes(lane next, unsigned lanes) noexcept {
    const bool is_past = next > data_lane, ends_before = next < envelopes_lane && lanes <= envelopes_lane - next;
    return is_past || ends_before ? next : data_lane + 1;
}

inline constexpr std::size_t longest_name = 160;

/// What one rank tells another of a name; the rest is not compared either.
[[nodiscard]] constexpr std::string_view comparable_part_of(std::string_view name) noexcept {
    return name.substr(0, longest_name);
}
}  // namespace detail

/// What the value of an operator says of a law, where its type does not.
enum class law_known : std::uint16_t { by_type, holds, fails };

/// The figures about which the ranks of one collective must agree.
struct call_figures {
    std::uint64_t elements = 0;        ///< of the whole operand
    std::uint64_t row_bytes = 0;       ///< of one element, or of one row of several tensors
    std::uint64_t window_rows = 0;     ///< of each block in one window
    std::uint64_t largest_block = 0;   ///< its elements
    std::uint64_t smallest_block = 0;  ///< the same, where the caller may say how long blocks are
    std::uint64_t borders = 0;         ///< hash of the borders of those blocks
    std::uint64_t permutation = 0;     ///< which one, where there is one: see `mark_of`; or which lists
    std::uint64_t type_id = 0;         ///< hash of all names: of the collective, types and algorithm
    order level = order::any;
    std::int32_t root = 0;
    std::uint32_t ranks = 0;
    std::uint16_t alignment = 0;  ///< of rows, where their types do not say it
    law_known commutative = law_known::by_type;

    friend constexpr bool operator==(const call_figures&, const call_figures&) = default;
};

/// What they must agree about. Its hash travels with every message; the figures are looked up when hashes differ.
struct signature : call_figures {
    const char* what = "collective";  ///< its name, with static storage
    const char* element_type = "";
    const char* operator_type = "";
    const char* schedule = "";
    const char* lists = "";  ///< what to say of those that differ; not compared: see engine/list_text.hpp
    /// How long a message may be, where all ranks know it and it may be copied; not compared.
    std::uint64_t most_bytes = unknown_length;
    static constexpr std::uint64_t unknown_length = ~std::uint64_t{0};

    /// Never 0.
    [[nodiscard]] constexpr std::uint32_t hash() const noexcept {
        std::uint64_t h = type_id;
        const auto mix = [&h](std::uint64_t x) { h = (h ^ x ^ (h >> 29)) * 0x9e3779b97f4a7c15u; };
        mix(elements);
        mix(row_bytes ^ (window_rows << 24));
        mix(largest_block ^ borders ^ permutation);
        mix(static_cast<std::uint64_t>(static_cast<unsigned>(root)) << 32 ^ ranks << 2 ^
            static_cast<unsigned>(level.level()));
        return static_cast<std::uint32_t>(h >> 32) | 1u;
    }
};

/// Of the parts for several peers those for peer number `index`: they end where `ends` says, one peer after another.
[[nodiscard]] constexpr std::span<const part> parts_for(std::size_t index, std::span<const part> parts,
                                                        std::span<const std::size_t> ends) noexcept {
    const std::size_t begin = index == 0 ? 0 : ends[index - 1];
    return parts.subspan(begin, ends[index] - begin);
}

/// What a rank hands to `try_post`. Parts and the memory that they name stay untouched while `*lent` counts them.
struct outgoing {
    std::span<const part> parts;
    std::size_t bytes = 0;      ///< of all parts together, with what aligns each of them to the one before
    std::size_t alignment = 1;  ///< of each part
    bool copyable = true;       ///< bytes may be copied; otherwise the parts hold objects, and go by reference
    std::uint32_t signature = 0;
    std::atomic<int>* lent = nullptr;  ///< raised by the transport while it or a peer still needs the memory
    bool unordered = false;  ///< of an operation that is started again, so that its lane does not tell when it began
    bool copied = false;     ///< to be copied even where such a transport lends what is so long
};

/// A message that lies where its sender has put it, all parts contiguous but for what aligns them.
struct message_in_place {
    std::byte* data;
    std::size_t bytes;
    std::uint32_t signature;
};

/// What a sink is given: a message where it lies. A value that can be kept; what it names stays valid as long as it
/// lives. Its memory may be the sender's own. `bytes()` is what the sender posted, exactly, however the message came:
/// who receives compares it with what it expects before it touches anything.
template <class A>
concept arrival = std::movable<A> && requires(const A a) {
    { a.signature() } -> std::same_as<std::uint32_t>;
    { a.bytes() } -> std::same_as<std::size_t>;
    { a.packed() } -> std::same_as<std::byte*>;            // all parts, contiguous but for what aligns them; or null
    { a.parts() } -> std::same_as<std::span<const part>>;  // otherwise: the parts as they were posted
};

/// For whom a rank is waiting, for error messages.
struct waiting {
    const char* what = "collective";  ///< its name, with static storage
    int round = 0;
    int rounds = 0;
    int peer = -1;         ///< one of the ranks without which it cannot go on; -1 for nobody in particular
    lane on = 0;           ///< the lane of the message that it waits for
    std::size_t call = 0;  ///< which call of its rank, from 1, where its communicator counts them
};

/// What `wait` waits for.
///
/// 1. `poll()` makes what progress it can, and returns true when there is nothing left to do;
/// 2. `blocked_on()` says for whom it waits;
/// 3. `check()` throws if that is in vain. A transport asks the last two only now and then.
template <class T>
concept pending_work = requires(T work, const T& view) {
    { work.poll() } -> std::convertible_to<bool>;
    { view.blocked_on() } -> std::same_as<waiting>;
    view.check();
};

/// How long a rank that waits for some work may sleep, at most until then: some works have to look around earlier.
template <class Work>
[[nodiscard]] std::chrono::steady_clock::time_point sleep_limit(const Work& work,
                                                                std::chrono::steady_clock::time_point until) {
    if constexpr (requires { work.next_look(); })
        return work.next_look() < until ? work.next_look() : until;
    else
        return until;
}

/// Where the sink wants a packed message with this signature and of exactly so many bytes; null where it does not care,
/// or expects another one. It is asked once at most, by a transport that is about to take in the message, which is then
/// delivered as lying there.
template <class Sink>
[[nodiscard]] std::byte* destination_for(Sink& sink, std::uint32_t signature, std::size_t bytes) {
    if constexpr (requires { sink.destination(signature, bytes); })
        return sink.destination(signature, bytes);
    else
        return nullptr;
}

/// How many bytes the sink expects the message to have; 0 where it does not know, or does not say.
template <class Sink>
[[nodiscard]] std::size_t bytes_expected_by(Sink& sink) {
    if constexpr (requires { sink.expected_bytes(); })
        return sink.expected_bytes();
    else
        return 0;
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
    [[nodiscard]] std::byte* destination(std::uint32_t signature, std::size_t bytes) const {
        return destination_for(sink_, signature, bytes);
    }
    [[nodiscard]] std::size_t expected_bytes() const { return bytes_expected_by(sink_); }

  private:
    Sink& sink_;
    Handing handing_;
};

namespace detail {
struct any_sink {
    template <class A>
    void operator()(A&&) const {}
};
struct any_message {
    int peer;
    std::size_t bytes;
};
struct any_writer {
    void operator()(const any_message&, std::byte*) const {}
    void operator()(const std::byte*) const {}
};
struct any_work {
    bool poll() { return true; }
    [[nodiscard]] waiting blocked_on() const { return {}; }
    void check() const {}
};
}  // namespace detail

/// What a transport's own collective gets: contiguous elements.
struct native_operands {
    const char* what = "";  ///< the collective that `native` was asked for
    std::byte* input = nullptr;
    std::byte* result = nullptr;
    std::size_t elements = 0;  ///< of the whole operand
    int root = 0;
    const partition* blocks = nullptr;  ///< of a reduce_scatter
    bool in_place = false;              ///< element for element, input and result are the same memory
};

/// What a transport need not have: it derives from this and hides what it knows better. Who forwards to another
/// communicator derives from `forwarding`, which leaves nothing out.
struct transport_defaults {
    /// Groups of consecutive ranks share memory, `group()` each, and only the first ones of groups exchange messages.
    /// Such a transport also has `flat()`, a communicator of the same ranks without groups, which all of them ask for
    /// alike; and `messages()`, another one, which each may ask for by itself.
    static constexpr bool has_groups = false;
    [[nodiscard]] int group() const noexcept { return 1; }
    /// Whether `wait` may sleep until its own transport wakes it; otherwise it only polls and yields.
    static constexpr bool sleeps = true;
    /// Does for lanes that were opened before what `open` does for peers that ask `announced`: for each start of a
    /// prepared collective. Without it mismatches of those are explained less well.
    void announce(lane, unsigned, const signature&) noexcept {}
    /// Called before the engine looks for messages: for posts that do not end by themselves, and to throw after a
    /// failure, since who asks `done()` again and again never waits.
    void progress() {}
    /// How many processors the ranks share, the same on every rank, for the choice of schedules; 0: not known.
    [[nodiscard]] int processors() const noexcept { return 0; }
    /// Whether what this rank writes next for a peer, so many bytes, goes to a core so far that it should go past all
    /// caches. Each rank asks for itself.
    [[nodiscard]] static bool is_far(int /*peer*/, std::size_t /*bytes*/) noexcept { return false; }
    /// The same of what it writes for all others: whether some of them are far; and as it was found last.
    [[nodiscard]] static bool others_are_far(std::size_t /*bytes*/) noexcept { return false; }
    [[nodiscard]] static bool others_were_far() noexcept { return false; }
    /// Whether, after `abandon`, somebody may still touch memory of this rank: then the engine frees nothing of it.
    [[nodiscard]] bool holds_memory() const noexcept { return false; }
    /// Throws where this thread may use the transport only if its process has no other thread.
    void require_threads_allowed() const {}
    /// The same where it may use the transport only if it is the first thread of its process.
    void require_any_thread_allowed() const {}

    /// Whether one message can be written once for many peers. Such a transport shares memory, and has three members:
    /// `posts_notices(readers)`, whether one to so many is posted so; `try_post_notice(to, lane, message, ends)`, which
    /// does for all `to` at once what `try_post` does for one of them; and `slowest_reader()`, for whom that waits, or
    /// -1. With several `ends`, the i-th of them gets the parts from end i - 1 to end i, which may be lent however
    /// short they are. A rank posts all messages of a lane in the same way.
    static constexpr bool has_notices = false;

    /// Whether calls that are made again may be run without a plan, as `engine/short_call.hpp` does. Such a transport
    /// has more members: `open_again(signature, hash)` is `open` of one lane, and `reopen(lane, signature)` is
    /// `announce` of one, but they need not make the signature known before `announce_again(lane, signature, hash)`,
    /// which comes after the first messages; `post_copy(to, lane, unordered, signature, bytes, waits, write)` is
    /// `try_post` of a message that is copied, which `write(memory)` writes where it will be read, and may return false
    /// for no reason; `waits`: this rank posts no more before it waits; `find_in_place(from, lane, bytes, here, waits)`
    /// looks, once or for a moment, whether the next message of a rank, which should have so many bytes, is of this
    /// lane, and where it lies, until `take_in_place(from)`; it may fail for no reason too. `use_in_place(from, lane,
    /// signature, bytes, use)` is both, for a message that is as expected.
    static constexpr bool has_short_way = false;
    /// Such a transport may post once what a rank has for all others. `post_to_all(lane, message)` does for them at
    /// once what `try_post` does for one, for a message that is copied if it may be, and the first one that this rank
    /// posts on its lane; or nothing, and returns false. `post_to_each(lane, signature, messages, write)` does so with
    /// a list of messages, one for each of the others, with `peer` and `bytes`, which `write(message, memory)` writes.
    /// After the first such message there may be more on that lane, as long as all are posted in one of these ways, and
    /// then others.
    [[nodiscard]] static bool post_to_all(lane, const outgoing&) noexcept { return false; }
    template <class Messages, class Write>
    [[nodiscard]] static bool post_to_each(lane, std::uint32_t, const Messages&, Write) noexcept {
        return false;
    }
    /// Looks for a moment whether the next message of every other rank has been posted so, and is as expected, and
    /// where they lie, until `take_all_in_place()`.
    [[nodiscard]] static bool find_all_in_place(lane, std::uint32_t /*signature*/, std::size_t /*bytes*/,
                                                std::byte** /*where*/) noexcept {
        return false;
    }
    static void take_all_in_place() noexcept {}

    /// Whether it has collectives of its own.
    static constexpr bool has_native = false;
    /// Runs a collective of the transport's own.
    using native_function = void (*)(transport_defaults&, const native_operands&);
    /// The one that does what `collective` does with this operator on these elements; null where there is none.
    template <class Op, class T>
    [[nodiscard]] static constexpr native_function native(std::string_view /*collective*/) noexcept {
        return nullptr;
    }
    /// Why it is the better one for an operand of so many bytes, the same on every rank; null where it is not.
    [[nodiscard]] const char* prefers_native(std::string_view /*collective*/, std::size_t) const noexcept {
        return nullptr;
    }
    /// What the transport calls it.
    [[nodiscard]] static constexpr const char* native_name(std::string_view /*collective*/) noexcept { return ""; }
};

/// What a transport with `has_notices` has besides.
template <class C>
concept posting_notices = requires(C& comm, const C& view, const peers& to, lane on, const outgoing& message,
                                   std::span<const std::size_t> ends) {
    { view.posts_notices(1) } -> std::same_as<bool>;
    { comm.try_post_notice(to, on, message, ends) } -> std::same_as<bool>;
    { view.slowest_reader() } -> std::same_as<int>;
};

/// What a transport with `has_short_way` has besides.
template <class C>
concept going_short = requires(C& comm, const C& view, const signature& what, std::uint32_t hash, lane on,
                               const outgoing& message, message_in_place& here) {
    { comm.open_again(what, hash) } -> std::same_as<lane>;
    comm.reopen(on, what);
    comm.announce_again(on, what, hash);
    { comm.post_copy(0, on, false, std::uint32_t{}, std::size_t{}, true, detail::any_writer()) } -> std::same_as<bool>;
    { comm.find_in_place(0, on, std::size_t{}, here, true) } -> std::same_as<bool>;
    comm.take_in_place(0);
    { comm.use_in_place(0, on, hash, std::size_t{}, detail::any_writer()) } -> std::same_as<bool>;
    { comm.post_to_all(on, message) } -> std::same_as<bool>;
    { comm.post_to_each(on, hash, std::span<const detail::any_message>(), detail::any_writer()) } -> std::same_as<bool>;
    { comm.find_all_in_place(on, std::uint32_t{}, std::size_t{}, &here.data) } -> std::same_as<bool>;
    comm.take_all_in_place();
};

/// A rank's end of a transport. One thread uses it at a time.
///
/// 1. `rank()` and `size()`.
/// 2. `open(signature, n)` numbers n new lanes, the same ones on every rank that opens in the same order, and makes the
///    signature known under them; `announced(peer, lane)` looks up what a peer opened there, if it still can.
/// 3. `try_post(to, lane, message)` sends, or returns false when there is no room now. It never blocks.
/// 4. `try_receive(from, lane, sink)` hands the next message on this lane from this rank to `sink` where it lies, or
///    returns false when there is none yet. Messages of one pair on one lane arrive in the order of their posts. It may
///    ask `bytes_expected_by(sink)` how long this message should be, and `destination_for(sink, signature, bytes)`
///    where the sink would have it, and put it there.
/// 5. `lends(bytes, copyable)`: whether such a message would be read in place, in the sender's memory, after the post.
/// 6. `wait(work, deadline)` polls until the work is done, and throws `error` when another rank failed or left, or
///    the deadline passed. `abandon()` is called by a rank that gives up: it makes every other rank throw, and returns
///    when none of them touches this rank's memory any more, or, where it cannot wait for that, `holds_memory()`.
/// 7. `background()`: the operations in flight, which every wait of the engine pushes on. The destructor begins with
///    its `end()`, which may call `abandon()`.
/// 8. `shares_memory`: ranks can use each other's addresses, so objects may cross, and not only bytes.
///
/// 9. The members of `transport_defaults`, which it gets by deriving from it.
///
/// Not required: a barrier, a copy, any collective.
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
        requires !C::has_notices || posting_notices<C>;
        requires !C::has_short_way || going_short<C>;
        { C::has_groups } -> std::convertible_to<bool>;
        { C::sleeps } -> std::convertible_to<bool>;
        { C::has_notices } -> std::convertible_to<bool>;
        comm.announce(on, 1u, what);
        { view.group() } -> std::same_as<int>;
        comm.progress();
        { view.processors() } -> std::same_as<int>;
        { view.holds_memory() } -> std::same_as<bool>;
        view.require_threads_allowed();
        view.require_any_thread_allowed();
        { C::template native<void, void>(std::string_view()) } -> std::same_as<typename C::native_function>;
        { view.prefers_native(std::string_view(), std::size_t{}) } -> std::same_as<const char*>;
        { C::native_name(std::string_view()) } -> std::same_as<const char*>;
    };

/// A communicator that can be the outer one of a hierarchy: `look_around(work, deadline)` does what `wait` does now and
/// then, for those who wait for several transports at once. It throws when waiting is in vain, and returns true when
/// the work turns out to be done.
template <class C>
concept outer_communicator =
    communicator<C> &&
    requires(C& comm, detail::any_work& work, std::optional<std::chrono::steady_clock::time_point> deadline) {
        { comm.look_around(work, deadline) } -> std::same_as<bool>;
    };

}  // namespace allfold
