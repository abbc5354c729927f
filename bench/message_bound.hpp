// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <thread>

#include "bench/bound.hpp"
#include "bench/measure.hpp"
#include "bench/messages.hpp"
#include "bench/stage.hpp"
#include "bench/workload.hpp"

/// @file
/// What the machine allows for messages: ways to pass them, written by hand. The bound of a size is the fastest.
///
/// Each message gets from its sender's memory to its destination at the receiver, has a flag of its own, and its sender
/// may write to its memory again when the call ends. Left out are matching, since both sides know which message is
/// which, tags, lengths, wildcards, a limit on pending messages, errors, and sleeping.

namespace bench {

/// What the ranks share; flags hold the number of a call.
struct message_board {
    /// What one side tells the other about a message, in the cache line of its flag: where it lies or is to be put.
    struct alignas(64) line {
        std::atomic<std::uint64_t> call{0};
        alignas(8) std::array<std::byte, 56> value;
    };
    using flags = std::array<std::atomic<std::uint64_t>, messages_in_flight>;
    /// For the messages that one rank sends, each in a lane of its own.
    struct lanes {
        alignas(128) std::array<line, messages_in_flight> sources;  // written by the sender
        alignas(128) std::array<line, messages_in_flight> places;   // written by the receiver
        alignas(128) flags written{};                               // by the sender, at the destination
        alignas(128) flags read{};                                  // by the receiver, from the source
        alignas(128) std::byte* cells = nullptr;
    };
    std::array<lanes, max_ranks> of;
};

/// Messages to and from the partner.
template <class Inputs, class Outputs>
struct pair_traffic {
    const Inputs& inputs;
    const Outputs& outputs;
    std::size_t partner;

    [[nodiscard]] static constexpr bool stays(std::size_t) { return false; }
    [[nodiscard]] std::size_t size() const { return inputs.size(); }
    [[nodiscard]] const void* source(std::size_t i) const { return inputs[i].data(); }
    [[nodiscard]] void* place(std::size_t i) const { return outputs[i].data(); }
    [[nodiscard]] std::size_t to(std::size_t) const { return partner; }
    [[nodiscard]] std::size_t from(std::size_t) const { return partner; }
    [[nodiscard]] static constexpr std::size_t lane(std::size_t i) { return i; }
};

/// Six faces to neighbours, which may be this rank itself, and six from them.
struct halo_traffic {
    const neighbours& around;
    std::span<const float> input;
    std::span<float> output;
    int rank;

    [[nodiscard]] bool stays(std::size_t face) const { return around[face] == rank; }
    [[nodiscard]] static constexpr std::size_t size() { return faces_of_a_cube; }
    [[nodiscard]] const void* source(std::size_t face) const { return face_of(input, face).data(); }
    [[nodiscard]] void* place(std::size_t face) const { return face_of(output, face).data(); }
    [[nodiscard]] std::size_t to(std::size_t face) const { return static_cast<std::size_t>(around[face]); }
    [[nodiscard]] std::size_t from(std::size_t face) const { return static_cast<std::size_t>(around[face]); }
    /// The lane in which the neighbour sends what this face receives.
    [[nodiscard]] static constexpr std::size_t lane(std::size_t face) { return opposite_of(face); }
};

/// One rank's end of messages of equal length. A way to pass them has four steps: what is announced before anything
/// else, what a sender does, what a receiver does, and what a sender waits for in the end.
class message_bound {
  public:
    /// All ranks must make theirs before any of them sends; at most `count` messages per call.
    message_bound(message_board& board, int rank, int ranks, std::size_t bytes, std::size_t count)
        : board_(board),
          rank_(static_cast<std::size_t>(rank)),
          yields_(oversubscribed(ranks)),
          bytes_(bytes),
          count_(count),
          turns_(std::clamp<std::size_t>(bytes < 4 << 10 ? 2 : (1 << 20) / (bytes * count), 2, 64)),
          cells_(has_cells() ? turns_ * count * stride() : 0, 40) {
        board.of[rank_].cells = cells_.as<std::byte>();
    }

    /// For longer messages, intermediate copies only cost time.
    [[nodiscard]] bool has_cells() const { return bytes_ * count_ <= 8 << 20; }

    /// All messages of a call at once.
    template <class Way>
    void exchange(const auto& all) {
        const Way way{*this};
        begin(way, all);
        way.send(all);
        way.receive(all);
        way.finish(all);
    }
    /// There and back.
    template <class Way>
    void ping_pong(const auto& all) {
        const Way way{*this};
        begin(way, all);
        if (rank_ < all.to(0)) way.send(all);
        way.receive(all);
        if (rank_ > all.to(0)) way.send(all);
        way.finish(all);
    }

    // --- The ways

    /// Through cells of the sender; a short message is in the line of its flag. A cell is rewritten two or more calls
    /// later: by then a message of a call in between has arrived from its receiver, sent after reading the cell.
    /// `Bytes`: the length of a message, if it is short and to be known at compile time.
    template <stores How, std::size_t Bytes = 0>
    struct cells {
        message_bound& end;
        void prepare(const auto&) const {}
        void send(const auto& all) const {
            end.each(all, [&](std::size_t i) {
                std::byte* const cell = end.cell(end.rank_, i);
                end.copy_message<How, Bytes>(end.value_of<Bytes>(cell), all.source(i));
                message_bound::finish<How>();
                end.raise(message_bound::flag_of(cell));
            });
        }
        void receive(const auto& all) const {
            end.each(all, [&](std::size_t i) {
                std::byte* const cell = end.cell(all.from(i), all.lane(i));
                end.await(message_bound::flag_of(cell));
                end.copy_message<stores::plain, Bytes>(all.place(i), end.value_of<Bytes>(cell));
            });
        }
        void finish(const auto&) const {}
    };

    /// The receiver reads a message in its sender's memory, and reports that it has.
    template <stores How>
    struct read {
        message_bound& end;
        void prepare(const auto&) const {}
        void send(const auto& all) const {
            end.each(all, [&](std::size_t i) { end.tell(end.mine().sources[i], all.source(i)); });
        }
        void receive(const auto& all) const {
            end.each(all, [&](std::size_t i) {
                auto& lanes = end.board_.of[all.from(i)];
                const void* const source = end.heard<const void*>(lanes.sources[all.lane(i)]);
                copy<How>(all.place(i), source, end.bytes_);
                message_bound::finish<How>();
                end.raise(lanes.read[all.lane(i)]);
            });
        }
        void finish(const auto& all) const {
            end.each(all, [&](std::size_t i) { end.await(end.mine().read[i]); });
        }
    };

    /// The sender writes a message to where the receiver has announced that it wants it.
    template <stores How>
    struct write {
        message_bound& end;
        void prepare(const auto& all) const { end.tell_places(all); }
        void send(const auto& all) const {
            end.each(all, [&](std::size_t i) {
                copy<How>(end.heard<void*>(end.mine().places[i]), all.source(i), end.bytes_);
                message_bound::finish<How>();
                end.raise(end.mine().written[i]);
            });
        }
        void receive(const auto& all) const {
            end.each(all, [&](std::size_t i) { end.await(end.board_.of[all.from(i)].written[all.lane(i)]); });
        }
        void finish(const auto&) const {}
    };

    /// The receiver reads the first half of a message while the sender writes the other half.
    template <stores How>
    struct halves {
        message_bound& end;
        void prepare(const auto& all) const { end.tell_places(all); }
        void send(const auto& all) const {
            end.each(all, [&](std::size_t i) {
                end.tell(end.mine().sources[i], all.source(i));
                const auto* const source = static_cast<const std::byte*>(all.source(i));
                auto* const place = end.heard<std::byte*>(end.mine().places[i]);
                copy<How>(place + end.half(), source + end.half(), end.bytes_ - end.half());
                message_bound::finish<How>();
                end.raise(end.mine().written[i]);
            });
        }
        void receive(const auto& all) const {
            end.each(all, [&](std::size_t i) {
                auto& lanes = end.board_.of[all.from(i)];
                copy<How>(all.place(i), end.heard<const void*>(lanes.sources[all.lane(i)]), end.half());
                message_bound::finish<How>();
                end.raise(lanes.read[all.lane(i)]);
                end.await(lanes.written[all.lane(i)]);
            });
        }
        void finish(const auto& all) const {
            end.each(all, [&](std::size_t i) { end.await(end.mine().read[i]); });
        }
    };

  private:
    using lanes = message_board::lanes;
    using flag = std::atomic<std::uint64_t>;

    static constexpr std::size_t line = sizeof(message_board::line);
    static constexpr std::size_t beside_flag = line - sizeof(flag);

    template <class Way>
    void begin(const Way& way, const auto& all) {
        ++call_;
        way.prepare(all);
        for (std::size_t i = 0; i < all.size(); ++i)
            if (all.stays(i)) std::memcpy(all.place(all.lane(i)), all.source(i), bytes_);
    }
    template <class Use>
    void each(const auto& all, Use use) const {
        for (std::size_t i = 0; i < all.size(); ++i)
            if (!all.stays(i)) use(i);
    }

    [[nodiscard]] lanes& mine() const { return board_.of[rank_]; }
    /// Ends at a line boundary, so that both halves have lines of their own if the destination starts at one.
    [[nodiscard]] std::size_t half() const { return bytes_ / 2 / line * line; }

    // Cells: the flag, followed by the message in the same line, or from the next line on.
    [[nodiscard]] std::size_t stride() const {
        return bytes_ <= beside_flag ? line : line + (bytes_ + line - 1) / line * line;
    }
    [[nodiscard]] std::byte* cell(std::size_t rank, std::size_t lane) const {
        return board_.of[rank].cells + (call_ % turns_ * count_ + lane) * stride();
    }
    [[nodiscard]] static flag& flag_of(std::byte* cell) { return *reinterpret_cast<flag*>(cell); }
    template <std::size_t Bytes>
    [[nodiscard]] std::byte* value_of(std::byte* cell) const {
        return cell + ((Bytes != 0 ? Bytes : bytes_) <= beside_flag ? sizeof(flag) : line);
    }
    template <stores How, std::size_t Bytes>
    void copy_message(void* to, const void* from) const {
        if constexpr (Bytes != 0)
            std::memcpy(to, from, Bytes);
        else
            copy<How>(to, from, bytes_);
    }
    template <stores How>
    static void finish() {
        if constexpr (How == stores::streaming) finish_streaming();
    }

    void raise(flag& it) const { it.store(call_, std::memory_order_release); }
    void await(const flag& it) const {
        while (it.load(std::memory_order_acquire) < call_) yields_ ? std::this_thread::yield() : relax();
    }
    void tell(message_board::line& to, const void* address) const {
        std::memcpy(to.value.data(), &address, sizeof address);
        raise(to.call);
    }
    template <class Address>
    [[nodiscard]] Address heard(const message_board::line& from) const {
        await(from.call);
        Address address;
        std::memcpy(&address, from.value.data(), sizeof address);
        return address;
    }
    void tell_places(const auto& all) const {
        each(all, [&](std::size_t i) { tell(board_.of[all.from(i)].places[all.lane(i)], all.place(i)); });
    }

    message_board& board_;
    std::size_t rank_;
    bool yields_;
    std::size_t bytes_, count_;  // of a message, and number of messages
    std::size_t turns_;  // cells of a lane: more of long ones, so that they have left the receiver's nearest cache
    buffer cells_;
    std::uint64_t call_ = 0;
};

}  // namespace bench
