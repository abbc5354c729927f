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
/// The layout of messages between processes.
///
///     envelope (16 bytes) | introduction | table | the payload, or its begin
///
/// The payload is all parts, contiguous except for alignment padding. A short one is sent whole with the envelope,
/// without a table. A longer one is sent in chunks: its beginning with the envelope, the others as messages of their
/// own. A long one is sent in ranges, as messages of their own, from where they lie; the table lists them, and the rest
/// is sent with the envelope. The introduction is a signature in full. It is sent with the messages of the first call
/// that has this signature, in place of the beginning of a payload in chunks, which is then sent last: receives for the
/// other chunks may have been posted already, and the first message must not run into their memory. Introduction and
/// table are padded to a cache line, and an envelope is placed at the end of one, so that the payload begins at a line.

namespace allfold::detail {

struct envelope {
    std::uint32_t signature = 0;  ///< of the message, to be checked
    std::uint32_t call = 0;       ///< hash of the signature under which the sender opened the lane
    lane on = 0;                  ///< needed because tags wrap sooner than lanes
    std::uint8_t introduced = 0;  ///< length of the introduction in lines
    std::uint8_t table = 0;       ///< 0: no table; otherwise the number of its ranges plus one
    std::uint16_t tally = 0;      ///< length in bytes, modulo 2^16, of the message that begins with this envelope

    /// Whether the `bytes` that arrived are just the envelope and a payload.
    [[nodiscard]] bool is_plain(std::size_t bytes) const noexcept {
        return introduced == 0 && table == 0 && tally == static_cast<std::uint16_t>(bytes);
    }
};
inline constexpr std::size_t envelope_bytes = sizeof(envelope);
static_assert(envelope_bytes == 16);

/// Where an envelope begins in a buffer that begins at a line.
inline constexpr std::size_t envelope_offset = 48;
inline constexpr std::size_t line_of_message = 64;

/// A part of a payload.
struct payload_range {
    std::uint64_t offset;
    std::uint64_t bytes;
};
inline constexpr std::size_t max_ranges = 16;

/// What precedes a payload that is not sent whole with the envelope.
class payload_table {
  public:
    /// The beginning of the table; the ranges follow it, in order.
    struct head {
        std::uint64_t bytes;     ///< of the payload
        std::uint32_t chunk;     ///< length of each chunk except the first and the last; 0: ranges follow
        std::uint32_t late = 0;  ///< length of the beginning, if that is sent last; 0: it came with the envelope
    };

    payload_table(const std::byte* from, std::size_t ranges) noexcept : count_(std::min(ranges, max_ranges)) {
        std::memcpy(&head_, from, sizeof head_);
        std::memcpy(ranges_.data(), from + sizeof head_, count_ * sizeof(payload_range));
    }
    /// Returns how many bytes the table takes.
    static std::size_t write(const head& what, std::span<const payload_range> ranges, std::byte* to) noexcept {
        std::memcpy(to, &what, sizeof what);
        if (!ranges.empty()) std::memcpy(to + sizeof what, ranges.data(), ranges.size_bytes());
        return padded_bytes(ranges.size());
    }
    [[nodiscard]] std::size_t bytes() const noexcept { return static_cast<std::size_t>(head_.bytes); }
    [[nodiscard]] std::size_t chunk() const noexcept { return head_.chunk; }
    [[nodiscard]] std::size_t late() const noexcept { return head_.late; }
    [[nodiscard]] std::span<const payload_range> ranges() const noexcept { return {ranges_.data(), count_}; }
    [[nodiscard]] static constexpr std::size_t padded_bytes(std::size_t ranges) noexcept {
        return align_up(sizeof(head) + ranges * sizeof(payload_range), line_of_message);
    }
    /// Whether what the table announces and the `rest` bytes that came with it make up a payload of at most `most`
    /// bytes; one in ranges may be longer.
    [[nodiscard]] bool fits(std::size_t rest, std::size_t most) const noexcept {
        if (head_.chunk != 0)
            return count_ == 0 && (rest == 0) != (head_.late == 0) && rest + head_.late < head_.bytes &&
                   head_.bytes <= most;
        std::uint64_t end = 0, covered = 0;
        for (const payload_range& r : ranges()) {
            if (r.offset < end || r.offset > head_.bytes || r.bytes > head_.bytes - r.offset) return false;
            end = r.offset + r.bytes;
            covered += r.bytes;
        }
        return head_.bytes - covered == rest;
    }

  private:
    head head_;
    std::array<payload_range, max_ranges> ranges_;
    std::size_t count_;
};

/// An envelope that has arrived, and where everything that came with it begins.
struct opened_envelope {
    envelope about;
    const std::byte* introduction = nullptr;
    const std::byte* table = nullptr;  ///< null if there is none
    const std::byte* payload = nullptr;
    std::size_t came = 0;  ///< bytes of the payload that came with the envelope

    [[nodiscard]] payload_table read_table() const noexcept { return {table, about.table - std::size_t{1}}; }
};

/// Opens a message that has arrived, given that payloads of up to `most` bytes are sent in chunks. Null if it is not a
/// message of ours: must be called before anything is written where an envelope says.
[[nodiscard]] inline std::optional<opened_envelope> open_envelope(std::span<const std::byte> came,
                                                                  std::size_t most) noexcept {
    opened_envelope all;
    if (came.size() < sizeof all.about) return std::nullopt;
    std::memcpy(&all.about, came.data(), sizeof all.about);
    const std::size_t introduced = all.about.introduced * line_of_message;
    const std::size_t ranges = all.about.table == 0 ? 0 : all.about.table - std::size_t{1};
    const std::size_t table = all.about.table == 0 ? 0 : payload_table::padded_bytes(ranges);
    const std::size_t before = sizeof all.about + introduced + table;
    if (all.about.tally != static_cast<std::uint16_t>(came.size()) || ranges > max_ranges || came.size() < before)
        return std::nullopt;
    if (introduced != 0) all.introduction = came.data() + sizeof all.about;
    if (table != 0) all.table = came.data() + sizeof all.about + introduced;
    all.payload = came.data() + before;
    all.came = came.size() - before;
    if (table != 0 ? !all.read_table().fits(all.came, most) : all.came > most) return std::nullopt;
    return all;
}

/// A signature as sent to another process: the numbers, then the names, each ending in a null character.
struct introduction {
    call_parameters figures;
    std::uint64_t names;  // length of the names in bytes

    /// Writes a signature and returns how many bytes it takes, a multiple of a line.
    static std::size_t write(const signature& s, std::byte* to) noexcept {
        std::size_t at = sizeof(introduction);
        for (const char* name : {s.what, s.schedule, s.element_type, s.operator_type, s.lists}) {
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
    align_up(sizeof(introduction) + 5 * (longest_name + 1), line_of_message);

/// The most that a message may contain besides the payload.
inline constexpr std::size_t max_overhead =
    envelope_offset + envelope_bytes + longest_introduction + payload_table::padded_bytes(max_ranges);
static_assert(longest_introduction / line_of_message <= UINT8_MAX);

/// Signatures that other processes have introduced: the latest ones, at least `least` of them. They serve only to say
/// how calls differ.
class known_signatures {
  public:
    static constexpr std::size_t least = 1024;

    void learn(std::uint32_t hash, const std::byte* introduced) {
        if (latest_.numbers.find(hash) != nullptr) return;
        if (latest_.known.size() == least) earlier_ = std::exchange(latest_, {});
        introduction head;
        std::memcpy(&head, introduced, sizeof head);
        known_call& met = latest_.known.emplace_back();
        met.names = heap_array<char>(static_cast<std::size_t>(head.names));
        std::memcpy(met.names.data(), introduced + sizeof head, met.names.size());
        const char* next = met.names.data();
        const auto name = [&next] { return std::exchange(next, next + std::strlen(next) + 1); };
        static_cast<call_parameters&>(met.call) = head.figures;
        met.call.what = name();
        met.call.schedule = name();
        met.call.element_type = name();
        met.call.operator_type = name();
        met.call.lists = name();
        latest_.numbers.find_or_add(hash, static_cast<std::uint32_t>(latest_.known.size() - 1));
    }
    [[nodiscard]] std::optional<signature> find(std::uint32_t hash) const {
        for (const collection* each : {&latest_, &earlier_})
            if (const std::uint32_t* const number = each->numbers.find(hash)) return each->known[*number].call;
        return std::nullopt;
    }

  private:
    struct known_call {
        signature call;
        heap_array<char> names;  // their addresses do not change
    };
    struct collection {
        number_table numbers;  // indices of `known`, by hash
        std::vector<known_call> known;
    };
    collection latest_, earlier_;
};

/// Which signatures this rank has introduced to which peers; once there are very many, it introduces them again.
class introductions {
  public:
    explicit introductions(int peers) : most_(std::max<std::size_t>(1U << 14, 16 * static_cast<std::size_t>(peers))) {}

    /// Whether a message to `peer` has to introduce `hash`: all messages of the first call that has this signature do,
    /// since they may be read in a different order from the one in which they were sent.
    [[nodiscard]] bool is_due(int peer, std::uint32_t hash, std::uint32_t call) {
        if (peer == known_peer_ && hash == known_hash_) return false;
        const bool in_first_call = first_calls_.find_or_add(key_of(peer, hash), call) == call;
        if (!in_first_call) {
            known_peer_ = peer;
            known_hash_ = hash;
        } else if (first_calls_.size() > most_) [[unlikely]] {
            first_calls_ = {};
        }
        return in_first_call;
    }

  private:
    [[nodiscard]] static std::uint64_t key_of(int peer, std::uint32_t hash) noexcept {
        return static_cast<std::uint64_t>(peer) << 32 | hash;
    }
    int known_peer_ = -1;  // the peer that was last found to know a signature, and which
    std::uint32_t known_hash_ = 0;
    number_table first_calls_;
    std::size_t most_;  // enough for a dozen calls in each of which every rank sends to every other one
};

/// The signatures that this rank opened most recently, by lane.
class opened_lanes {
  public:
    void add(lane first, unsigned lanes, const signature& what) noexcept {
        if (!is_restart_lane(first) && is_later(first + lanes, end_)) end_ = first + lanes;
        newest_ = (newest_ + 1) % entries_.size();
        entries_[newest_] = {first, lanes, ++calls_, what.hash(), what};
    }
    /// The same for the next lane, opened for a call like the previous one.
    void add_again(lane on, std::uint32_t hash, const signature& what) noexcept {
        entry& newest = entries_[newest_];
        if (newest.hash != hash || newest.first + newest.lanes != on || newest.what.type_id != what.type_id)
            return add(on, 1, what);
        ++newest.lanes;
        end_ = on + 1;
        newest.call = ++calls_;
    }
    struct entry {
        lane first = 0;
        unsigned lanes = 0;
        std::uint32_t call = 0;  // a new number for each start of a prepared collective
        std::uint32_t hash = 0;
        signature what;
    };
    /// Null for lanes opened long ago, and for those yet to be opened, whose numbers old ones may have.
    [[nodiscard]] const entry* find(lane on) const noexcept {
        if (!is_restart_lane(on) && !is_later(end_, on)) return nullptr;
        for (std::size_t back = 0; back < entries_.size(); ++back) {
            const entry& e = entries_[(newest_ + entries_.size() - back) % entries_.size()];
            if (on - e.first < e.lanes) return &e;
        }
        return nullptr;
    }

    /// Calls visit(lane) for the lanes on which messages may be in flight: the last ones of each call, those before the
    /// newest one, of hundreds of calls that may be in flight, and some that other ranks have opened ahead of this one.
    template <class Visit>
    void for_each_recent(Visit visit) const {
        constexpr unsigned most = 64;
        for (const entry& e : entries_)
            for (unsigned back = 1; back <= std::min(e.lanes, most); ++back) visit(e.first + e.lanes - back);
        constexpr lane behind = 4096, ahead = 1024;
        const lane next = entries_[newest_].first + entries_[newest_].lanes;
        for (lane on = next - std::min(next, behind); on != next + ahead; ++on) visit(on);
    }

  private:
    std::array<entry, 32> entries_;
    std::size_t newest_ = 0;
    std::uint32_t calls_ = 0;
    lane end_ = 0;  // the one after all lanes
};

/// How a payload is sent: its long ranges separately, from where they lie.
struct division {
    std::array<payload_range, max_ranges> ranges;
    std::array<const std::byte*, max_ranges> from;
    std::size_t count = 0;
    std::size_t rest = 0;  ///< bytes sent with the envelope, including gaps between parts
    bool fits = true;      ///< otherwise there are too many ranges or too long a rest: pack it as a whole
};

/// Divides a message into ranges of at least `long_bytes` contiguous bytes each, and a rest of at most `max_rest`.
[[nodiscard]] inline division divide(const outgoing& message, std::size_t long_bytes, std::size_t max_rest) noexcept {
    division d;
    std::size_t at = 0;
    payload_range run{0, 0};  // parts that are contiguous both in memory and in the payload
    const std::byte* from = nullptr;
    const auto finish_run = [&] {
        if (run.bytes < long_bytes) return;
        if (d.count == max_ranges) {
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
    d.fits = d.fits && d.rest <= max_rest;
    return d;
}

/// Calls visit(offset, bytes) for each gap between the ranges, in order.
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
