// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/short_pair.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/collective.hpp"
#include "allfold/data/records.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/message.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/sanitized.hpp"

/// @file
/// Repeated calls of two ranks, of every length in bytes: messages that just fit into a cell and that just do not, and
/// messages that are copied in one way or another.

using namespace test;

namespace {

using byte = std::uint8_t;
using bytes = std::vector<byte>;

constexpr byte untouched = 0xEE;

/// The right operand, unless it is 0. It is not commutative, so the order matters.
constexpr auto latest = allfold::associative([](byte a, byte b) { return b != 0 ? b : a; });

[[nodiscard]] byte sample(int rank, std::size_t i, int turn) {
    const std::size_t mixed = (i + 1) * 37 + static_cast<std::size_t>(rank) * 101 + static_cast<std::size_t>(turn) * 59;
    return mixed % 3 == 0 ? byte{0} : static_cast<byte>(mixed);
}
[[nodiscard]] bytes operand(int rank, std::size_t n, int turn) {
    bytes made(n);
    for (std::size_t i = 0; i < n; ++i) made[i] = sample(rank, i, turn);
    return made;
}
[[nodiscard]] bytes fold(const bytes& a, const bytes& b) {
    bytes out(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) out[i] = latest(a[i], b[i]);
    return out;
}

/// The output of a call, and one byte after it.
class guarded_output {
  public:
    explicit guarded_output(std::size_t n) : memory_(n + 1, untouched) {}
    [[nodiscard]] std::span<byte> span() { return std::span(memory_).first(memory_.size() - 1); }
    void require(const bytes& wanted, const std::string& where) const {
        expect(bytes(memory_.begin(), memory_.end() - 1) == wanted, where + ": wrong bytes");
        expect(memory_.back() == untouched, where + ": a byte behind them");
    }

  private:
    bytes memory_;
};

template <class Comm>
void check_bytes(Comm& comm, std::size_t n, int turn) {
    const std::string where = "n = " + std::to_string(n) + ", turn " + std::to_string(turn);
    const int rank = comm.rank();
    const bytes first = operand(0, n, turn), second = operand(1, n, turn), both = fold(first, second);
    const bytes& own = rank == 0 ? first : second;
    const std::span<const byte> in(own);

    guarded_output sum(n), prefix(n), in_place(n), sent(n), moved(n), all(2 * n), block(n), swapped(2 * n);
    allfold::all_reduce(comm, in, sum.span(), latest);
    sum.require(both, where + ": all_reduce");
    allfold::inclusive_scan(comm, in, prefix.span(), latest);
    prefix.require(rank == 0 ? first : both, where + ": inclusive_scan");
    for (std::size_t i = 0; i < n; ++i) in_place.span()[i] = own[i];
    allfold::all_reduce(comm, in_place.span(), latest);
    in_place.require(both, where + ": in place");
    for (std::size_t i = 0; i < n; ++i) sent.span()[i] = own[i];
    allfold::broadcast(comm, sent.span(), allfold::root{1});
    sent.require(second, where + ": broadcast");
    allfold::permute(comm, in, moved.span(), allfold::shift{1});
    moved.require(rank == 0 ? second : first, where + ": permute");

    bytes joined(first);
    joined.insert(joined.end(), second.begin(), second.end());
    allfold::all_gather(comm, in, all.span());
    all.require(joined, where + ": all_gather");
    bytes other(second);  // the input of rank 1; that of rank 0 is `joined`
    other.insert(other.end(), first.begin(), first.end());
    const std::span<const byte> twice(rank == 0 ? joined : other);
    allfold::reduce_scatter(comm, twice, block.span(), latest);
    block.require(rank == 0 ? fold(first, second) : fold(second, first), where + ": reduce_scatter");
    allfold::all_to_all(comm, twice, swapped.span());
    bytes wanted = rank == 0 ? first : second;  // the block from rank 0, followed by that from rank 1
    const bytes& theirs = rank == 0 ? second : first;
    wanted.insert(wanted.end(), theirs.begin(), theirs.end());
    swapped.require(wanted, where + ": all_to_all");
}

/// Rows of two columns, one of which is one byte wide.
template <class Comm>
void check_rows(Comm& comm, std::size_t width, std::size_t rows, int turn) {
    bytes a = operand(comm.rank(), rows, turn), b = operand(comm.rank(), rows * width, turn);
    allfold::all_reduce(
        comm,
        allfold::records(allfold::tensor<byte, 1>(a.data(), {rows}), allfold::tensor<byte, 2>(b.data(), {rows, width})),
        allfold::max());
    for (bytes* const column : {&a, &b})
        for (std::size_t i = 0; i < column->size(); ++i)
            expect((*column)[i] == std::max(sample(0, i, turn), sample(1, i, turn)),
                   "rows of " + std::to_string(width) + ", turn " + std::to_string(turn));
}

}  // namespace

TEST_CASE("two ranks exchange each number of bytes, in calls that are made again and again") {
    on_ranks(2, [](auto& comm) {
        std::vector<std::size_t> lengths;
        for (std::size_t n = 0; n <= 130; ++n) lengths.push_back(n);
        for (const std::size_t n : {255u, 256u, 257u, 511u, 512u, 513u, 4096u, 7000u}) lengths.push_back(n);
        for (const std::size_t n : lengths)
            for (int turn = 0; turn < 3; ++turn) check_bytes(comm, n, turn);
    });
    SUCCEED();
}

constexpr std::size_t most_far_rows = fewer_if_sanitized(2500, 150);  // every byte is checked, which takes seconds

TEST_CASE("two ranks that are far from each other exchange the same") {
    const auto program = [](auto& comm) {
        for (const std::size_t n : {2047u, 2048u, 2111u, 20'000u, 65'539u})
            for (int turn = 0; turn < 2; ++turn) check_bytes(comm, n, turn);
        for (const std::size_t n : {140'003u, 600'001u})
            if (n <= fewer_if_sanitized(600'001u, 140'003u)) check_bytes(comm, n, 2);
        expect(comm.is_far(1 - comm.rank(), 5000), "nobody is far");
        for (const std::size_t width : {7u, 64u, 600u})
            for (const std::size_t rows : {std::size_t{40}, std::size_t{300}, most_far_rows})
                for (int turn = 0; turn < fewer_if_sanitized(3, 2); ++turn) check_rows(comm, width, rows, turn);
    };
    auto without_streams = scattered;
    without_streams.far_streamed_bytes = std::size_t{1} << 40;
    for (const auto& tuning : {scattered, without_streams}) on_ranks(2, program, tuning);
    SUCCEED();
}

TEST_CASE("two ranks exchange rows of several columns, in calls that are made again and again") {
    on_ranks(2, [](auto& comm) {
        for (const std::size_t width : {1u, 3u, 4u, 7u, 8u, 55u, 110u, 111u, 112u, 200u, 511u, 600u})
            for (const std::size_t rows : {0u, 1u, 2u, 5u})
                for (int turn = 0; turn < 3; ++turn) check_rows(comm, width, rows, turn);
    });
    SUCCEED();
}

TEST_CASE("a repeated call of two ranks waits for the later one, on either side") {
    on_ranks(2, [](auto& comm) {
        for (int turn = 0; turn < 40; ++turn) {
            if (turn > 2 && turn % 2 == comm.rank()) std::this_thread::sleep_for(std::chrono::microseconds(turn * 40));
            check_bytes(comm, turn % 3 == 0 ? 8 : 300, 0);
        }
    });
    SUCCEED();
}

TEST_CASE(
    "a call behind messages that nobody has taken, where they fill the channel or nearly so, leaves them as they are") {
    on_ranks(2, [](auto& comm) {
        for (const int count : {0, 0, 60, 61, 62, 63, 64, 65}) {
            if (comm.rank() == 0)
                for (int i = 0; i < count; ++i) allfold::send(comm, i, allfold::to{1});
            else
                std::this_thread::sleep_for(std::chrono::milliseconds(2));
            const std::int64_t sum = allfold::all_reduce(comm, std::int64_t{comm.rank()} + 1, allfold::sum());
            expect(sum == 3, "behind " + std::to_string(count) + " messages: a wrong sum");
            for (int i = 0, came = -1; comm.rank() == 1 && i < count; ++i) {
                allfold::receive(comm, came, allfold::from{0});
                expect(came == i, "message " + std::to_string(i) + " of " + std::to_string(count) + " is wrong");
            }
        }
    });
    SUCCEED();
}

TEST_CASE(
    "two ranks that make different calls, both of them made before, hear of it, though their messages look alike") {
    const auto outcomes = outcomes_on_ranks(2, [](auto& comm) {
        std::vector<int> x(5, comm.rank());
        for (int turn = 0; turn < 5; ++turn) {
            allfold::all_reduce(comm, x, allfold::sum());
            allfold::all_reduce(comm, x, allfold::max());
        }
        if (comm.rank() == 0)
            allfold::all_reduce(comm, x, allfold::sum());
        else
            allfold::all_reduce(comm, x, allfold::max());
        expect(false, "a call has returned");
    });
    for (const auto& each : outcomes) {
        INFO(each.text);
        CHECK_FALSE(each.succeeded());
        CHECK_FALSE(each.says("a call has returned"));
    }
    CHECK((outcomes[0].says("but rank 1") || outcomes[1].says("but rank 0")));
}

TEST_CASE("a message is used where it lies only if its lane, its signature and its length are as expected") {
    constexpr std::uint32_t signature = 77;
    for (const std::size_t length : {std::size_t{8}, std::size_t{200}}) {  // sent in a cell, and in a buffer
        allfold::thread_world world(2);
        auto sender = world.communicator(0), receiver = world.communicator(1);
        const allfold::signature what{};
        const allfold::lane on = sender.open(what, 1);
        REQUIRE(receiver.open(what, 1) == on);
        REQUIRE_FALSE(receiver.try_receive(0, on, [](auto&&) {}));  // from now on it knows the sender
        bytes sent(length, byte{5});
        const allfold::part whole{reinterpret_cast<std::byte*>(sent.data()), length};
        REQUIRE(
            sender.try_post(1, on, {.parts = {&whole, 1}, .bytes = length, .alignment = 1, .signature = signature}));

        const auto refuse = [](const std::byte*) { FAIL("not as expected"); };
        CHECK_FALSE(receiver.use_in_place(0, on, signature, length - 1, refuse));
        CHECK_FALSE(receiver.use_in_place(0, on, signature + 1, length, refuse));
        CHECK_FALSE(receiver.use_in_place(0, on + 1, signature, length, refuse));
        bool is_used = false;
        CHECK(receiver.use_in_place(0, on, signature, length, [&](const std::byte* data) {
            is_used = std::equal(sent.begin(), sent.end(), reinterpret_cast<const byte*>(data));
        }));
        CHECK(is_used);
        CHECK_FALSE(receiver.use_in_place(0, on, signature, length, refuse));
    }
}
