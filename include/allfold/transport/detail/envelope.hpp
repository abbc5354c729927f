// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "allfold/data/detail/heap_array.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/copy.hpp"
#include "allfold/transport/detail/number_table.hpp"

/// @file
/// How a message looks between processes.
///
///     envelope (32 bytes) | introduction | table of ranges | what is not in the table, in order
///
/// The payload is all parts, contiguous but for what aligns them. Ranges of it that are long follow as messages of
/// their own, from where they lie; the table says which. The introduction has a signature in full; it comes with the
/// messages of the first call that has it. Introduction and table are padded to a cache line, and an envelope is put
/// half a line after one, so that a payload begins at a line.

namespace allfold::detail {

struct envelope {
    std::uint32_t signature = 0;   ///< of the message, to be checked
    std::uint32_t call = 0;        ///< hash of the signature under which the sender opened the lane
    lane on = 0;                   ///< tags wrap, lanes do not
    std::uint32_t introduced = 0;  ///< bytes of the introduction
    std::uint64_t bytes = 0;       ///< of the payload
    std::uint32_t ranges = 0;      ///< that follow as messages of their own
    std::uint32_t unused = 0;
};
inline constexpr std::size_t envelope_bytes = sizeof(envelope);
static_assert(envelope_bytes == 32);

/// Where an envelope begins in a buffer that begins at a line.
inline constexpr std::size_t envelope_offset = 32;
inline constexpr std::size_t line_of_message = 64;

/// A part of a payload.
struct payload_range {
    std::uint64_t offset;
    std::uint64_t bytes;
};
inline constexpr std::size_t most_ranges = 16;

/// The ranges of a message, as they stand before what goes with its envelope.
class range_table {
  public:
    range_table(const std::byte* from, std::size_t count) noexcept : count_(std::min(count, most_ranges)) {
        std::memcpy(ranges_.data(), from, count_ * sizeof(payload_range));
    }
    [[nodiscard]] std::span<const payload_range> ranges() const noexcept { return {ranges_.data(), count_}; }
    [[nodiscard]] static constexpr std::size_t padded_bytes(std::size_t count) noexcept {
        return align_up(count * sizeof(payload_range), line_of_message);
    }
    /// Whether the ranges, in order, and `rest` bytes between them make a payload of `bytes`.
    [[nodiscard]] bool covers(std::uint64_t bytes, std::uint64_t rest) const noexcept {
        std::uint64_t end = 0, covered = 0;
        for (const payload_range& r : ranges()) {
            if (r.offset < end || r.offset > bytes || r.bytes > bytes - r.offset) return false;
            end = r.offset + r.bytes;
            covered += r.bytes;
        }
        return bytes - covered == rest;
    }

  private:
    std::array<payload_range, most_ranges> ranges_;
    std::size_t count_;
};

/// Whether what came is an envelope and all that it announces to come along: whoever writes a message by its envelope
/// asks this first.
[[nodiscard]] inline bool is_message(std::span<const std::byte> came) noexcept {
    envelope about;
    if (came.size() < sizeof about) return false;
    std::memcpy(&about, came.data(), sizeof about);
    came = came.subspan(sizeof about);
    const std::size_t table = range_table::padded_bytes(about.ranges);
    if (about.ranges > most_ranges || came.size() < about.introduced + table) return false;
    const std::size_t rest = came.size() - about.introduced - table;
    if (about.ranges == 0) return rest == about.bytes;
    return range_table(came.data() + about.introduced, about.ranges).covers(about.bytes, rest);
}

/// A signature as another process gets it: figures, then four names that end in a null character.
struct introduction {
    call_figures figures;
    std::uint64_t names;  // bytes of the names

    /// Writes it and returns how many bytes that took, a multiple of a line.
    static std::size_t write(const signature& s, std::byte* to) noexcept {
        std::size_t at = sizeof(introduction);
        for (const char* name : {s.what, s.schedule, s.element_type, s.operator_type}) {
            const std::string_view text = comparable_part_of(name);
            std::memcpy(to + at, text.data(), text.size());
            at += text.size();
            to[at++] = std::byte{0};
        }
        const introduction head{s, at - sizeof head};
        std::memcpy(to, &head, sizeof head);
        const std::size_t padded = align_up(at, line_of_message);
        std::memset(to + at, 0, padded - at);
        return padded;
    }
};
inline constexpr std::size_t longest_introduction =
    align_up(sizeof(introduction) + 4 * (longest_name + 1), line_of_message);

/// What may stand in a message besides the payload.
inline constexpr std::size_t most_overhead =
    envelope_offset + envelope_bytes + longest_introduction + range_table::padded_bytes(most_ranges);

/// Signatures that other processes have introduced.
class known_signatures {
  public:
    void learn(std::uint32_t hash, const std::byte* introduced) {
        if (numbers_.find(hash) != nullptr) return;
        introduction head;
        std::memcpy(&head, introduced, sizeof head);
        acquaintance& met = known_.emplace_back();
        met.names = heap_array<char>(static_cast<std::size_t>(head.names));
        std::memcpy(met.names.data(), introduced + sizeof head, met.names.size());
        const char* next = met.names.data();
        const auto name = [&next] { return std::exchange(next, next + std::strlen(next) + 1); };
        static_cast<call_figures&>(met.call) = head.figures;
        met.call.what = name();
        met.call.schedule = name();
        met.call.element_type = name();
        met.call.operator_type = name();
        numbers_.find_or_add(hash, static_cast<std::uint32_t>(known_.size() - 1));
    }
    [[nodiscard]] std::optional<signature> find(std::uint32_t hash) const {
        const std::uint32_t* const number = numbers_.find(hash);
        return number == nullptr ? std::nullopt : std::optional(known_[*number].call);
    }

  private:
    struct acquaintance {
        signature call;
        heap_array<char> names;  // where they lie they stay
    };
    number_table numbers_;  // by their hashes
    std::vector<acquaintance> known_;
};

/// Which signatures this rank has introduced to whom.
class introductions {
  public:
    /// Whether a message to `peer` has to introduce `hash`: all messages of the first call that has this signature do
    /// since they may be read in another order than they were sent in.
    [[nodiscard]] bool is_due(int peer, std::uint32_t hash, std::uint32_t call) {
        if (peer == known_peer_ && hash == known_hash_) return false;
        const auto key = static_cast<std::uint64_t>(peer) << 32 | hash;
        const bool in_first_call = first_calls_.find_or_add(key, call) == call;
        if (!in_first_call) {
            known_peer_ = peer;
            known_hash_ = hash;
        }
        return in_first_call;
    }

  private:
    int known_peer_ = -1;  // the last one that was found to know, and what
    std::uint32_t known_hash_ = 0;
    number_table first_calls_;
};

/// The signatures that this rank opened last, by their lanes.
class opened_lanes {
  public:
    void add(lane first, unsigned lanes, const signature& what) noexcept {
        newest_ = (newest_ + 1) % entries_.size();
        entries_[newest_] = {first, lanes, ++calls_, what.hash(), what};
    }
    struct entry {
        lane first = 0;
        unsigned lanes = 0;
        std::uint32_t call = 0;  // another one for each start of a prepared collective
        std::uint32_t hash = 0;
        signature what;
    };
    /// Null for lanes of long ago.
    [[nodiscard]] const entry* find(lane on) const noexcept {
        for (std::size_t back = 0; back < entries_.size(); ++back) {
            const entry& e = entries_[(newest_ + entries_.size() - back) % entries_.size()];
            if (on - e.first < e.lanes) return &e;
        }
        return nullptr;
    }

  private:
    std::array<entry, 32> entries_;
    std::size_t newest_ = 0;
    std::uint32_t calls_ = 0;
};

/// How a payload is sent: what is long goes by itself, from where it lies.
struct division {
    std::array<payload_range, most_ranges> ranges;
    std::array<const std::byte*, most_ranges> from;
    std::size_t count = 0;
    std::size_t rest = 0;  ///< bytes that go with the envelope, gaps between parts included
    bool fits = true;      ///< otherwise there are too many parts: it has to be packed as a whole
};

/// Divides the parts of a message into ranges of at least `long_bytes` in memory, and a rest of at most `most_rest`.
[[nodiscard]] inline division divide(const outgoing& message, std::size_t long_bytes, std::size_t most_rest) noexcept {
    division d;
    std::size_t at = 0;
    payload_range run{0, 0};  // parts that are contiguous in memory as in the payload
    const std::byte* from = nullptr;
    const auto finish_run = [&] {
        if (run.bytes < long_bytes) return;
        if (d.count == most_ranges) {
            d.fits = false;
            return;
        }
        d.ranges[d.count] = run;
        d.from[d.count++] = from;
        d.rest -= run.bytes;
    };
    for (const part& p : message.parts) {
        const std::size_t begin = align_up(at, message.alignment);
        d.rest += begin - at + p.bytes;
        if (p.bytes != 0 && begin == run.offset + run.bytes && p.data == from + run.bytes) {
            run.bytes += p.bytes;
        } else if (p.bytes != 0) {
            finish_run();
            run = {begin, p.bytes};
            from = p.data;
        }
        at = begin + p.bytes;
    }
    finish_run();
    d.fits = d.fits && d.rest <= most_rest;
    return d;
}

/// Calls visit(offset, bytes) for what lies between the ranges, in order.
template <class Visit>
void for_each_gap(std::span<const payload_range> ranges, std::size_t bytes, Visit visit) {
    std::size_t at = 0;
    for (const payload_range& r : ranges) {
        if (r.offset > at) visit(at, static_cast<std::size_t>(r.offset) - at);
        at = static_cast<std::size_t>(r.offset + r.bytes);
    }
    if (bytes > at) visit(at, bytes - at);
}

/// Writes the rest of a divided payload, in the order of `for_each_gap`.
inline void pack_rest(const outgoing& message, const division& d, std::byte* to) noexcept {
    std::size_t at = 0, range = 0, written = 0;
    for (const part& p : message.parts) {
        const std::size_t begin = align_up(at, message.alignment);
        while (range < d.count && d.ranges[range].offset + d.ranges[range].bytes <= begin) ++range;
        const bool in_range = range < d.count && p.bytes != 0 && begin >= d.ranges[range].offset;
        written += begin - at;
        if (!in_range && p.bytes != 0) {
            std::memcpy(to + written, p.data, p.bytes);
            written += p.bytes;
        }
        at = begin + p.bytes;
    }
}

}  // namespace allfold::detail
