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

/// Separates collectives that are in flight at the same time. Every rank opens lanes in the order in which it starts
/// its collectives, so equal numbers denote the same collective (and window) on every rank.
using lane = std::uint32_t;

/// A contiguous piece of memory.
struct part {
    std::byte* data;
    std::size_t bytes;
};

namespace detail {
/// The lanes reserved for messages between two ranks; no collective is ever given one of them.
inline constexpr lane envelopes_lane = 0x7ffffffe, data_lane = 0x7fffffff;
[[nodiscard]] constexpr bool is_of_messages(lane on) noexcept { return on == envelopes_lane || on == data_lane; }

/// The lanes of operations that start again. Those lanes that are counted skip these and those of messages, so that an
/// operation which is kept for longer than it takes to open 2^32 lanes never shares one with those that are called.
inline constexpr lane first_restart_lane = 0x40000000, restart_lanes = 0x20000000;
[[nodiscard]] constexpr bool is_restart_lane(lane on) noexcept { return on - first_restart_lane < restart_lanes; }
/// Whether lane `a` was opened after lane `b`. Lanes are counted modulo 2^32.
[[nodiscard]] constexpr bool is_later(lane a, lane b) noexcept { return static_cast<std::int32_t>(a - b) > 0; }
/// The first lane of an operation that starts again, if `first` was the first of those that it opened.
[[nodiscard]] constexpr lane restart_lane_of(lane first, unsigned lanes) noexcept {
    if (is_restart_lane(first)) return first;
    const lane at = first % restart_lanes;
    return first_restart_lane + (lanes <= restart_lanes - at ? at : restart_lanes - lanes);
}

/// The first of the next `lanes` lanes, starting at `next` unless they would include lanes that are not counted.
[[nodiscard]] constexpr lane first_of_lanes(lane next, unsigned lanes) noexcept {
    const bool is_past = next > data_lane;
    const bool ends_before = next < first_restart_lane && lanes <= first_restart_lane - next;
    return is_past || ends_before ? next : data_lane + 1;
}

/// Whether ranks can run `Fn` with a communicator of their own.
template <class Fn, class Comm>
[[nodiscard]] consteval bool require_rank_function() {
    constexpr bool is_one = std::invocable<Fn&, Comm&>;
    static_assert(is_one,
                  "allfold: what run() calls on each rank must take the communicator by reference, as in "
                  "[&](auto& comm) { ... }");
    return is_one;
}

inline constexpr std::size_t longest_name = 160;

/// The part of a name that one rank sends to another; the rest is not compared either.
[[nodiscard]] constexpr std::string_view comparable_part_of(std::string_view name) noexcept {
    return name.substr(0, longest_name);
}
}  // namespace detail

/// What an operator's value states about a law that its type leaves open.
enum class law_known : std::uint16_t { by_type, holds, fails };

/// The numbers that must be the same on all ranks of a collective.
struct call_parameters {
    std::uint64_t elements = 0;        ///< of the whole operand
    std::uint64_t row_bytes = 0;       ///< of one element, or of one row across several tensors
    std::uint64_t window_rows = 0;     ///< of each block, in one window
    std::uint64_t largest_block = 0;   ///< in elements
    std::uint64_t smallest_block = 0;  ///< likewise, if the caller may choose the block lengths
    std::uint64_t borders = 0;         ///< hash of the boundaries of those blocks
    std::uint64_t permutation = 0;     ///< which one, if there is one: see `mark_of`; or which lists
    std::uint64_t type_id = 0;         ///< hash of all names: collective, types and algorithm
    order level = order::any;
    bool prepared = false;  ///< in what is announced where it is prepared; each start has lanes of its own
    std::int32_t root = 0;
    std::uint32_t ranks = 0;
    std::uint16_t alignment = 0;  ///< of rows, if their types do not determine it
    law_known commutative = law_known::by_type;

    friend constexpr bool operator==(const call_parameters&, const call_parameters&) = default;
};

/// What all ranks of a collective must agree on. Every message carries its hash; the numbers are looked up only if
/// hashes differ.
struct signature : call_parameters {
    const char* what = "collective";  ///< its name, with static storage
    const char* element_type = "";
    const char* operator_type = "";
    const char* schedule = "";
    const char* lists = "";  ///< describes lists that may differ; not compared: see engine/list_text.hpp
    /// The longest that a message may be, if all ranks know this and it may be copied; not compared.
    std::uint64_t max_bytes = unknown_length;
    static constexpr std::uint64_t unknown_length = ~std::uint64_t{0};

    /// Never 0.
    [[nodiscard]] constexpr std::uint32_t hash() const noexcept {
        std::uint64_t h = type_id;
        const auto mix = [&h](std::uint64_t x) { h = (h ^ x ^ (h >> 29)) * 0x9e3779b97f4a7c15u; };
        mix(elements);
        mix(row_bytes ^ (window_rows << 24));
        mix(largest_block ^ borders ^ permutation);
        mix(static_cast<std::uint64_t>(static_cast<unsigned>(root)) << 32 ^ ranks << 2 ^
            static_cast<unsigned>(level.level()) ^ static_cast<std::uint64_t>(prepared) << 63);
        return static_cast<std::uint32_t>(h >> 32) | 1u;
    }
};

/// The parts meant for peer number `index`. The parts for all peers are stored one peer after another; `ends[i]` is
/// where those for peer i end.
[[nodiscard]] constexpr std::span<const part> parts_for(std::size_t index, std::span<const part> parts,
                                                        std::span<const std::size_t> ends) noexcept {
    const std::size_t begin = index == 0 ? 0 : ends[index - 1];
    return parts.subspan(begin, ends[index] - begin);
}

/// What a rank passes to `try_post`. The parts, and the memory that they refer to, stay untouched while `*lent` is
/// nonzero.
struct outgoing {
    std::span<const part> parts;
    std::size_t bytes = 0;      ///< of all parts together, including the padding that aligns each of them
    std::size_t alignment = 1;  ///< of each part
    bool copyable = true;       ///< the bytes may be copied; otherwise the parts hold objects and travel by reference
    std::uint32_t signature = 0;
    std::atomic<int>* lent = nullptr;  ///< incremented by the transport for as long as it or a peer needs the memory
    bool unordered = false;  ///< of an operation that is started repeatedly: its lane does not tell when it began
    bool copied = false;     ///< to be copied even if the transport would lend a message of this length
};

/// A message that lies where its sender put it, with all parts contiguous except for alignment padding.
struct message_in_place {
    std::byte* data;
    std::size_t bytes;
    std::uint32_t signature;
};

/// What a sink is given: a message where it lies. It is a value that can be kept, and what it refers to stays valid for
/// as long as it lives. The memory may be the sender's own. `bytes()` is exactly what the sender posted, whichever way
/// the message travelled: the receiver compares it with what it expects before it touches anything.
template <class A>
concept arrival = std::movable<A> && requires(const A a) {
    { a.signature() } -> std::same_as<std::uint32_t>;
    { a.bytes() } -> std::same_as<std::size_t>;
    { a.packed() } -> std::same_as<std::byte*>;            // all parts, contiguous but for alignment padding; or null
    { a.parts() } -> std::same_as<std::span<const part>>;  // otherwise: the parts as they were posted
};

/// Which rank a rank is waiting for; used in error messages.
struct waiting {
    const char* what = "collective";  ///< its name, with static storage
    int round = 0;
    int rounds = 0;
    int peer = -1;         ///< one of the ranks that it needs before it can continue; -1 for none in particular
    lane on = 0;           ///< the lane of the message that it is waiting for
    std::size_t call = 0;  ///< the number of this rank's call, from 1, if its communicator counts calls
};

/// What `wait` waits for.
///
/// 1. `poll()` makes whatever progress it can, and returns true when there is nothing left to do;
/// 2. `blocked_on()` reports which rank it is waiting for;
/// 3. `check()` throws if waiting is futile. A transport calls the last two only now and then.
template <class T>
concept pending_work = requires(T work, const T& view) {
    { work.poll() } -> std::convertible_to<bool>;
    { view.blocked_on() } -> std::same_as<waiting>;
    view.check();
};

/// How long a rank that waits for `work` may sleep, `until` at the latest: some kinds of work must be polled earlier.
template <class Work>
[[nodiscard]] std::chrono::steady_clock::time_point sleep_limit(const Work& work,
                                                                std::chrono::steady_clock::time_point until) {
    if constexpr (requires { work.next_look(); })
        return work.next_look() < until ? work.next_look() : until;
    else
        return until;
}

/// Where the sink wants a packed message with this signature and exactly this many bytes to be stored; null if it does
/// not care, or expects a different message. A transport asks at most once, when it is about to take in the message,
/// and then delivers it as lying there.
template <class Sink>
[[nodiscard]] std::byte* destination_for(Sink& sink, std::uint32_t signature, std::size_t bytes) {
    if constexpr (requires { sink.destination(signature, bytes); })
        return sink.destination(signature, bytes);
    else
        return nullptr;
}

/// How many bytes the sink expects the message to have; 0 if it does not know or does not say.
template <class Sink>
[[nodiscard]] std::size_t bytes_expected_by(Sink& sink) {
    if constexpr (requires { sink.expected_bytes(); })
        return sink.expected_bytes();
    else
        return 0;
}

/// A sink that processes a message before passing it on, for transports built on top of others.
template <class Sink, class Handler>
class forwarding_sink {
  public:
    forwarding_sink(Sink& sink, Handler handler) : sink_(sink), handler_(std::move(handler)) {}
    template <class A>
    void operator()(A&& message) const {
        handler_(std::forward<A>(message));
    }
    [[nodiscard]] std::byte* destination(std::uint32_t signature, std::size_t bytes) const {
        return destination_for(sink_, signature, bytes);
    }
    [[nodiscard]] std::size_t expected_bytes() const { return bytes_expected_by(sink_); }

  private:
    Sink& sink_;
    Handler handler_;
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

/// The arguments of a transport's own collective: contiguous elements.
struct native_operands {
    const char* what = "";  ///< the collective that `native` was asked for
    std::byte* input = nullptr;
    std::byte* result = nullptr;
    std::size_t elements = 0;  ///< of the whole operand
    int root = 0;
    const partition* blocks = nullptr;  ///< of a reduce_scatter
    bool in_place = false;              ///< element for element, input and result are the same memory
};

/// Defaults for the optional members of a transport, which derives from this class and hides the members for which it
/// can do better. A class that forwards to another communicator derives from `forwarding` instead, which leaves nothing
/// out.
struct transport_defaults {
    /// Whether groups of `group()` consecutive ranks share memory, and only the first rank of each group exchanges
    /// messages with other groups. Such a transport also has `flat()`, a communicator of the same ranks without groups,
    /// which all ranks must request alike; and `messages()`, another one, which each rank may request on its own.
    static constexpr bool has_groups = false;
    [[nodiscard]] int group() const noexcept { return 1; }
    /// Whether `wait` may sleep until its own transport wakes it; otherwise it only polls and yields.
    static constexpr bool sleeps = true;
    /// Does for lanes that are already open what `open` does for new ones: makes the signature available to peers that
    /// call `announced`; the latest one counts. Called when a collective is prepared, if each start has other lanes,
    /// and at each of its starts. Without it, mismatches between prepared collectives are explained less well, and a
    /// collective that is called on one rank and prepared on another one hangs.
    void announce(lane, unsigned, const signature&) noexcept {}
    /// The hash alone of what a peer opened on a lane, if more is not known; 0 if that is not known either. Asked only
    /// if `announced` does not know the signature.
    [[nodiscard]] static constexpr std::uint32_t announced_hash(int /*peer*/, lane) noexcept { return 0; }
    /// The first lane of an operation from its first start as a prepared one on, given the first of those that it
    /// opened. A transport whose `open` counts lanes modulo 2^32 returns one that is never opened, so that an old
    /// operation and a new one do not share it.
    [[nodiscard]] static constexpr lane restart_lane(lane first, unsigned /*lanes*/) noexcept { return first; }
    /// Called before the engine looks for messages: to complete posts that do not complete by themselves, and to throw
    /// after a failure, since a rank that keeps polling `done()` never waits.
    void progress() {}
    /// How many CPUs the ranks share, the same on every rank, for the choice of schedules; 0 if unknown.
    [[nodiscard]] int processors() const noexcept { return 0; }
    /// Whether the next `bytes` bytes that this rank writes for `peer` are for a core so far away that they had better
    /// be copied, past all caches, than be read in its memory. Each rank asks for itself; the answers need not agree.
    [[nodiscard]] static bool is_far(int /*peer*/, std::size_t /*bytes*/) noexcept { return false; }
    /// The same for what it writes for all others: whether any of them is far. `others_were_far` repeats the latest
    /// answer.
    [[nodiscard]] static bool others_are_far(std::size_t /*bytes*/) noexcept { return false; }
    [[nodiscard]] static bool others_were_far() noexcept { return false; }
    /// Throws if a rank to which this one has lent memory, `where.peer`, has returned, and will never read it. Called
    /// now and then by a rank that waits for that, for each of those ranks.
    void check_borrower(const waiting& /*where*/) {}
    /// Called by a rank that aborts, from the same handler as `abandon` and before it: makes every other rank throw.
    /// Needed where memory is shared: only then does this rank let go of what others have lent to it, and a rank that
    /// has its memory back then learns of the failure, rather than take its call for complete.
    void announce_failure() noexcept {}
    /// Whether a peer may still access memory of this rank after `abandon`; the engine then frees none of it.
    [[nodiscard]] bool holds_memory() const noexcept { return false; }
    /// Throws if this thread may use the transport only when its process has no other thread.
    void require_threads_allowed() const {}
    /// Throws if this thread may use the transport only when it is the first thread of its process.
    void require_any_thread_allowed() const {}

    /// Whether a message can be written once for many peers. Such a transport shares memory and has three more members:
    /// `posts_notices(readers)`, whether a message for this many readers is posted this way; `try_post_notice(to, lane,
    /// message, ends)`, which does for all of `to` at once what `try_post` does for one peer; and `slowest_reader()`,
    /// the rank that this rank must wait for before it can post again, or -1. With several `ends`, the i-th peer gets
    /// the parts from end i - 1 to end i, which may be lent however short they are. A rank posts all messages of a lane
    /// in the same way.
    static constexpr bool has_notices = false;

    /// Whether repeated calls may be run without a plan, as `engine/short_call.hpp` does. Such a transport has more
    /// members:
    ///
    /// - `open_again(signature, hash)` is `open` of one lane and `reopen(lane, signature)` is `announce` of one lane,
    ///   but neither needs to make the signature known before `announce_again(lane, signature, hash)`, which follows
    ///   the first messages;
    /// - `post_copy(to, lane, unordered, signature, bytes, waits, write)` is `try_post` of a message that is copied:
    ///   `write(memory)` writes it where it will be read. It may fail spuriously. `waits`: this rank posts nothing more
    ///   before it waits;
    /// - `find_in_place(from, lane, bytes, here, waits)` looks, once or for a moment, whether the next message from a
    ///   rank, which should have this many bytes, belongs to this lane, and where it lies until `take_in_place(from)`.
    ///   It, too, may fail spuriously;
    /// - `use_in_place(from, lane, signature, bytes, use)` does both, for a message that is as expected.
    static constexpr bool has_short_path = false;
    /// Such a transport may post what a rank has for all others in one go. `post_to_all(lane, message)` does for all of
    /// them what `try_post` does for one, given a message that is copied if it may be and that is the first one this
    /// rank posts on its lane; or it does nothing and returns false. `post_to_each(lane, signature, messages, write)`
    /// does so with a list of messages, one for each other rank, with members `peer` and `bytes`; `write(message,
    /// memory)` writes each of them. More messages may follow on that lane: first any number posted in one of these two
    /// ways, then others.
    [[nodiscard]] static bool post_to_all(lane, const outgoing&) noexcept { return false; }
    template <class Messages, class Write>
    [[nodiscard]] static bool post_to_each(lane, std::uint32_t, const Messages&, Write) noexcept {
        return false;
    }
    /// Looks for a moment whether the next message from every other rank has been posted this way and is as expected,
    /// and where they lie until `take_all_in_place()`.
    [[nodiscard]] static bool find_all_in_place(lane, std::uint32_t /*signature*/, std::size_t /*bytes*/,
                                                std::byte** /*where*/) noexcept {
        return false;
    }
    static void take_all_in_place() noexcept {}

    /// Whether it has collectives of its own.
    static constexpr bool has_native = false;
    /// Runs one of the transport's own collectives.
    using native_function = void (*)(transport_defaults&, const native_operands&);
    /// The native collective that does what `collective` does with this operator on these elements; null if there is
    /// none.
    template <class Op, class T>
    [[nodiscard]] static constexpr native_function native(std::string_view /*collective*/) noexcept {
        return nullptr;
    }
    /// Whether native collectives do what is wanted on this communicator, the same on every rank.
    [[nodiscard]] bool may_delegate() const noexcept { return true; }
    /// Why the native collective is the better choice for an operand of this many bytes, the same on every rank; null
    /// if it is not.
    [[nodiscard]] const char* prefers_native(std::string_view /*collective*/, std::size_t) const noexcept {
        return nullptr;
    }
    /// The transport's name for it.
    [[nodiscard]] static constexpr const char* native_name(std::string_view /*collective*/) noexcept { return ""; }
};

/// The additional members of a transport with `has_notices`.
template <class C>
concept notice_communicator = requires(C& comm, const C& view, const peers& to, lane on, const outgoing& message,
                                       std::span<const std::size_t> ends) {
    { view.posts_notices(1) } -> std::same_as<bool>;
    { comm.try_post_notice(to, on, message, ends) } -> std::same_as<bool>;
    { view.slowest_reader() } -> std::same_as<int>;
};

/// The additional members of a transport with `has_short_path`.
template <class C>
concept short_path_communicator = requires(C& comm, const C& view, const signature& what, std::uint32_t hash, lane on,
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

/// A rank's end of a transport. Used by one thread at a time.
///
/// 1. `rank()` and `size()`.
/// 2. `open(signature, n)` numbers n new lanes, identically on every rank that opens lanes in the same order, and
///    publishes the signature under them; `announced(peer, lane)` looks up what a peer opened there, if that is still
///    available.
/// 3. `try_post(to, lane, message)` sends, or returns false if there is no room at present. It never blocks.
/// 4. `try_receive(from, lane, sink)` passes the next message on this lane from this rank to `sink` where it lies, or
///    returns false if there is none yet. Messages between one pair on one lane arrive in the order of their posts. It
///    may ask `bytes_expected_by(sink)` how long the message should be and `destination_for(sink, signature, bytes)`
///    where the sink wants it, and store it there.
/// 5. `lends(bytes, copyable)`: whether such a message would be read in place, in the sender's memory, after the post.
/// 6. `wait(work, deadline)` polls until the work is done, and throws `error` if another rank failed or left or the
///    deadline passed. `abandon()` is called by a rank that aborts: it makes every other rank throw, and returns when
///    none of them accesses this rank's memory any more. If it cannot wait for that, `holds_memory()` is true
///    afterwards.
/// 7. `background()`: the operations in flight, on which every wait of the engine makes progress. The destructor begins
///    with its `end()`, which may call `abandon()`.
/// 8. `shares_memory`: ranks can use each other's addresses, so objects can be exchanged and not only bytes.
/// 9. The members of `transport_defaults`, obtained by deriving from it.
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
        comm.check_borrower(waiting());
        comm.announce_failure();
        comm.abandon();
        { comm.background() } -> std::same_as<background&>;
        requires arrival<typename C::arrival_type>;
        requires !C::has_notices || notice_communicator<C>;
        requires !C::has_short_path || short_path_communicator<C>;
        { C::has_groups } -> std::convertible_to<bool>;
        { C::sleeps } -> std::convertible_to<bool>;
        { C::has_notices } -> std::convertible_to<bool>;
        comm.announce(on, 1u, what);
        { view.announced_hash(peer, on) } -> std::same_as<std::uint32_t>;
        { view.group() } -> std::same_as<int>;
        comm.progress();
        { view.processors() } -> std::same_as<int>;
        { view.holds_memory() } -> std::same_as<bool>;
        view.require_threads_allowed();
        view.require_any_thread_allowed();
        { C::template native<void, void>(std::string_view()) } -> std::same_as<typename C::native_function>;
        { view.may_delegate() } -> std::same_as<bool>;
        { view.prefers_native(std::string_view(), std::size_t{}) } -> std::same_as<const char*>;
        { C::native_name(std::string_view()) } -> std::same_as<const char*>;
    };

/// A communicator that can be the outer one of a hierarchy: `look_around(work, deadline)` makes the checks that `wait`
/// makes now and then, for a rank that waits on several transports at once. It throws if waiting is futile, and returns
/// true if the work turns out to be done.
template <class C>
concept outer_communicator =
    communicator<C> &&
    requires(C& comm, detail::any_work& work, std::optional<std::chrono::steady_clock::time_point> deadline) {
        { comm.look_around(work, deadline) } -> std::same_as<bool>;
    };

}  // namespace allfold
