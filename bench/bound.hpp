// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "bench/measure.hpp"
#include "bench/stage.hpp"
#include "bench/workload.hpp"

/// @file
/// What the machine allows: collectives written by hand for one purpose, without choices, checks, or a way to sleep or
/// to fail. The bound of a size is the fastest of these.

namespace bench {

/// How bytes get to where they are needed.
enum class stores {
    plain,
    string,    ///< `rep movsb`, which need not fetch the lines that it overwrites from the core that holds them
    streaming  ///< non-temporal: bypassing the caches
};

inline void copy_string(void* to, const void* from, std::size_t bytes) {
#if defined(__x86_64__)
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
    std::memcpy(to, from, bytes);
#endif
}

#if defined(__AVX512F__)
using stream_vector = __m512i;
inline void stream(std::byte* to, stream_vector v) { _mm512_stream_si512(reinterpret_cast<stream_vector*>(to), v); }
#elif defined(__x86_64__)
using stream_vector = __m128i;
inline void stream(std::byte* to, stream_vector v) { _mm_stream_si128(reinterpret_cast<stream_vector*>(to), v); }
#endif

inline void copy_streaming(void* to, const void* from, std::size_t bytes) {
#if defined(__x86_64__)
    constexpr std::size_t width = sizeof(stream_vector);
    auto* const target = static_cast<std::byte*>(to);
    const auto* const source = static_cast<const std::byte*>(from);
    std::size_t i = std::min(bytes, -reinterpret_cast<std::uintptr_t>(target) % width);
    std::memcpy(target, source, i);
    for (; i + width <= bytes; i += width) {
        stream_vector v;
        std::memcpy(&v, source + i, width);
        stream(target + i, v);
    }
    std::memcpy(target + i, source + i, bytes - i);
#else
    std::memcpy(to, from, bytes);
#endif
}

/// Streaming stores become visible in any order; a flag must be stored after this.
inline void finish_streaming() {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

template <stores How>
void copy(void* to, const void* from, std::size_t bytes) {
    if constexpr (How == stores::plain) std::memcpy(to, from, bytes);
    if constexpr (How == stores::string) copy_string(to, from, bytes);
    if constexpr (How == stores::streaming) copy_streaming(to, from, bytes);
}

/// How the ranks of a hand-written collective wait for each other.
enum class sync_method {
    flags,   ///< a line for each rank, which all others poll
    counter  ///< one number that all increment: if they share CPUs, the last to arrive waits for nobody
};

/// What the ranks of a hand-written collective share.
struct bound_board {
    explicit bound_board(int ranks) : standard(ranks) {}

    struct alignas(128) flag {
        std::atomic<std::uint32_t> sequence{0};
    };
    struct alignas(128) cell {
        std::atomic<std::uint32_t> sequence{0};
        alignas(16) std::array<std::byte, 112> value;
    };
    struct addresses {
        void* input;
        void* output;
        std::array<void*, 2> slots;
    };
    std::array<flag, max_ranks> flags;
    flag counter;
    std::array<std::array<cell, 2>, max_ranks> cells;
    std::array<addresses, max_ranks> memory;
    std::barrier<> standard;
};

/// One rank's end of hand-written collectives. Those followed by a barrier end with a meeting; if all have read what
/// they need by then, it is the only one.
template <class Workload>
class bound {
  public:
    using element = typename Workload::element;

    /// All ranks must make theirs before any of them uses it.
    bound(bound_board& board, int rank, int ranks, const buffer& input, const buffer& output, bool has_slots)
        : board_(board),
          rank_(static_cast<std::size_t>(rank)),
          ranks_(static_cast<std::size_t>(ranks)),
          yields_(oversubscribed(ranks)),
          n_(input.bytes() / sizeof(element)),
          input_(input.as<element>()),
          output_(output.as<element>()),
          slots_{buffer(has_slots ? input.bytes() : 0, 40), buffer(has_slots ? input.bytes() : 0, 52)} {
        board.memory[rank_] = {input_, output_, {slots_[0].template as<element>(), slots_[1].template as<element>()}};
    }

    /// Takes effect from the next collective on; all ranks call it alike.
    void use_sync(sync_method way) { way_ = way; }

    /// A barrier; also the exchange on which the other collectives are built.
    void sync() {
        ++meetings_;
        if (way_ == sync_method::counter) return count_up();
        board_.flags[rank_].sequence.store(meetings_, std::memory_order_release);
        each_other([&](std::size_t peer) { reach(board_.flags[peer].sequence, meetings_); });
    }

    // --- all_reduce

    /// The floor: the value is in the line of the flag, in one of two alternating cells. A rank rewrites a cell after
    /// it has seen the others one call further on, where they no longer read it.
    template <std::size_t Count>
    void in_cells() {
        ++cells_used_;
        values<Count> sum = post_cell<Count>(input_), theirs;
        each_other([&](std::size_t peer) {
            read_cell(peer, theirs);
            Workload::fold(sum.data(), sum.data(), theirs.data(), Count);
        });
        std::memcpy(output_, &sum, sizeof sum);
    }

    /// Every rank copies its input into one of two alternating slots, waits once, and folds everything.
    template <stores How>
    void through_slots() {
        fold_ranks(ranks_, output_, 0, n_, posted<How>());
    }

    /// Every rank folds everything, from the inputs themselves.
    template <stores How>
    void everything() {
        sync();
        if constexpr (How == stores::streaming)
            by_chunks(0, n_, [&](std::size_t i, std::size_t count, element* local) {
                fold_chunk(ranks_, local, i, count, inputs());
                copy<How>(output_ + i, local, count * sizeof(element));
            });
        else
            fold_ranks(ranks_, output_, 0, n_, inputs());
        leave<How>();
    }

    /// Every rank folds its slice, and stores it in all outputs.
    template <stores How>
    void push() {
        sync();
        by_chunks(begin(rank_), begin(rank_ + 1), [&](std::size_t i, std::size_t count, element* local) {
            element* const here = How == stores::streaming ? local : output_ + i;
            fold_chunk(ranks_, here, i, count, inputs());
            if (here == local) copy<How>(output_ + i, here, count * sizeof(element));
            each_other([&](std::size_t peer) { copy<How>(output(peer) + i, here, count * sizeof(element)); });
        });
        leave<How>();
    }

    /// Every rank folds its slice, and fetches the others' from their outputs.
    template <stores How>
    void pull() {
        sync();
        fold_ranks(ranks_, output_ + begin(rank_), begin(rank_), begin(rank_ + 1), inputs());
        sync();
        each_other([&](std::size_t peer) { copy_slice<How>(peer, output_, output(peer)); });
        leave<How>();
    }

    /// Like `pull`, but what other ranks read lies in slots: no core touches another's inputs or outputs.
    template <stores How>
    void pull_from_slots() {
        const std::size_t parity = meetings_ / 2 % 2;
        each_other([&](std::size_t peer) { copy_slice<How>(peer, slot(rank_, parity), input_); });
        finish<How>();
        sync();
        fold_ranks(ranks_, output_ + begin(rank_), begin(rank_), begin(rank_ + 1), slots(parity));
        copy_slice<How>(rank_, slot(rank_, parity), output_);
        finish<How>();
        sync();
        each_other([&](std::size_t peer) { copy_slice<stores::plain>(peer, output_, slot(peer, parity)); });
    }

    /// Like `push`, but what other ranks read lies in slots.
    template <stores How>
    void push_from_slots() {
        const std::size_t parity = meetings_ / 2 % 2;
        each_other([&](std::size_t peer) { copy_slice<How>(peer, slot(rank_, parity), input_); });
        finish<How>();
        sync();
        by_chunks(begin(rank_), begin(rank_ + 1), [&](std::size_t i, std::size_t count, element*) {
            fold_chunk(ranks_, output_ + i, i, count, slots(parity));
            each_other([&](std::size_t peer) { copy<How>(output(peer) + i, output_ + i, count * sizeof(element)); });
        });
        leave<How>();
    }

    // --- reduce_scatter and all_gather, in blocks

    template <stores How>
    void scatter_through_slots() {
        const std::size_t block = n_ / ranks_;
        fold_ranks(ranks_, output_, rank_ * block, (rank_ + 1) * block, posted<How>());
    }
    void scatter() {
        const std::size_t block = n_ / ranks_;
        sync();
        fold_ranks(ranks_, output_, rank_ * block, (rank_ + 1) * block, inputs());
        sync();
    }
    template <std::size_t Count>
    void gather_in_cells() {
        ++cells_used_;
        const values<Count> mine = post_cell<Count>(input_);
        std::memcpy(output_ + rank_ * Count, &mine, sizeof mine);
        each_other([&](std::size_t peer) {
            values<Count> theirs;
            read_cell(peer, theirs);
            std::memcpy(output_ + peer * Count, &theirs, sizeof theirs);
        });
    }
    template <stores How>
    void gather_through_slots() {
        gather_from<stores::plain>(posted<How>());
    }
    template <stores How>
    void gather() {
        sync();
        gather_from<How>(inputs());
        leave<How>();
    }
    template <stores How>
    void gather_by_push() {
        sync();
        for (std::size_t r = 0; r < ranks_; ++r)
            copy<How>(output((rank_ + r) % ranks_) + rank_ * n_, input_, n_ * sizeof(element));
        leave<How>();
    }

    // --- broadcast of the output of rank 0, followed by a barrier

    template <std::size_t Count>
    void broadcast_in_cells() {
        ++cells_used_;
        values<Count> x;
        if (rank_ == 0) {
            post_cell<Count>(output_);
        } else {
            read_cell(0, x);
            std::memcpy(output_, &x, sizeof x);
        }
        sync();
    }
    template <stores How>
    void broadcast_through_slot() {
        if (rank_ == 0) fill_slot<How>(0, output_);
        from_root(slot(0, 0));
    }
    void broadcast() { from_root(output(0)); }
    /// Every rank passes a slice of the root's to all.
    template <stores How>
    void broadcast_in_slices() {
        sync();
        for (std::size_t r = 1; r < ranks_; ++r) copy_slice<How>(rank_, output(r), output(0));
        leave<How>();
    }

    // --- scatter of the input of rank 0, followed by a barrier

    template <std::size_t Count>
    void deal_in_cells() {
        ++cells_used_;
        values<Count> all;
        if (rank_ == 0)
            all = post_cell<Count>(input_);
        else
            read_cell(0, all);
        std::memcpy(output_, all.data() + rank_ * (Count / ranks_), Count / ranks_ * sizeof(element));
        sync();
    }
    template <stores How>
    void deal_through_slot() {
        if (rank_ == 0) fill_slot<How>(0, input_);
        deal_from(slot(0, 0));
    }
    void deal() { deal_from(input(0)); }

    // --- gather of the inputs of all ranks at rank 0, followed by a barrier

    template <std::size_t Count>
    void collect_in_cells() {
        ++cells_used_;
        post_cell<Count>(input_);
        for (std::size_t r = 0; rank_ == 0 && r < ranks_; ++r) {
            values<Count> theirs;
            read_cell(r, theirs);
            std::memcpy(output_ + r * Count, &theirs, sizeof theirs);
        }
        sync();
    }
    template <stores How>
    void collect_through_slots() {
        if (rank_ != 0) fill_slot<How>(0, input_);
        collect_from(slots(0));
    }
    void collect() { collect_from(inputs()); }
    /// Every rank stores its block at the root.
    template <stores How>
    void collect_by_push() {
        sync();
        copy<How>(output(0) + rank_ * n_, input_, n_ * sizeof(element));
        leave<How>();
    }

    // --- all_to_all, in blocks

    template <std::size_t Count>
    void exchange_in_cells() {
        const std::size_t block = Count / ranks_;
        ++cells_used_;
        values<Count> all = post_cell<Count>(input_);
        std::memcpy(output_ + rank_ * block, all.data() + rank_ * block, block * sizeof(element));
        each_other([&](std::size_t peer) {
            read_cell(peer, all);
            std::memcpy(output_ + peer * block, all.data() + rank_ * block, block * sizeof(element));
        });
    }
    template <stores How>
    void exchange_through_slots() {
        const std::size_t parity = meetings_ % 2;
        each_other([&](std::size_t peer) { copy_block<How>(slot(rank_, parity), peer, input_, peer); });
        finish<How>();
        sync();
        exchange_from<stores::plain>(slots(parity));
    }
    template <stores How>
    void exchange() {
        sync();
        exchange_from<How>(inputs());
        leave<How>();
    }
    template <stores How>
    void exchange_by_push() {
        sync();
        for (std::size_t r = 0; r < ranks_; ++r) copy_block<How>(output(r), rank_, input_, r);
        leave<How>();
    }

    // --- all_to_all in blocks of different lengths; each rank knows those that it sends, and passes them on in a cell

    void exchange_by_sizes_in_cells(std::span<const int> sizes) {
        post_sizes(sizes, n_);
        take_by_sizes<stores::plain>([this](std::size_t r) {
            return reinterpret_cast<const element*>(sizes_cell(r).value.data() + ranks_ * sizeof(int));
        });
    }
    template <stores How>
    void exchange_by_sizes_through_slots(std::span<const int> sizes) {
        const std::size_t parity = (cells_used_ + 1) % 2;
        fill_slot<How>(parity, input_);
        post_sizes(sizes, 0);
        take_by_sizes<stores::plain>(slots(parity));
    }
    template <stores How>
    void exchange_by_sizes(std::span<const int> sizes) {
        post_sizes(sizes, 0);
        take_by_sizes<How>(inputs());
        leave<How>();
    }

    // --- all_reduce of the first third, all_to_all of the second, all_gather of the first blocks of the last

    template <std::size_t Count>
    void together_in_cells() {
        ++cells_used_;
        std::array<values<Count>, max_ranks> all;
        all[rank_] = post_cell<Count>(input_);
        each_other([&](std::size_t peer) { read_cell(peer, all[peer]); });
        together_from([&](std::size_t r) { return all[r].data(); });
    }
    template <stores How>
    void together_through_slots() {
        together_from(posted<How>());
    }
    void together() {
        sync();
        together_from(inputs());
        sync();
    }
    /// Every rank folds a slice of the first third for all, and stores its blocks of the other thirds at all ranks.
    template <stores How>
    void together_by_push() {
        sync();
        const std::size_t third = n_ / 3, block = third / ranks_;
        const auto slice = [&](std::size_t r) { return r == ranks_ ? third : third * r / ranks_ / grain * grain; };
        by_chunks(slice(rank_), slice(rank_ + 1), [&](std::size_t i, std::size_t count, element*) {
            fold_chunk(ranks_, output_ + i, i, count, inputs());
            each_other([&](std::size_t peer) { copy<How>(output(peer) + i, output_ + i, count * sizeof(element)); });
        });
        for (std::size_t r = 0; r < ranks_; ++r) {
            element* const to = output(r) + third + rank_ * block;
            copy<How>(to, input_ + third + r * block, block * sizeof(element));
            copy<How>(to + third, input_ + 2 * third, block * sizeof(element));
        }
        leave<How>();
    }

    // --- inclusive_scan of one array in round-robin blocks, followed by a barrier: the sums of all blocks lie in slots

    /// Every rank sums up its blocks, and scans them once it knows what precedes them.
    void scan_of_array_by_sums(std::size_t block) {
        post_sums(block,
                  [&](std::size_t from) { return std::accumulate(input_ + from, input_ + from + block, element{}); });
        each_own_block(block, [&](std::size_t from, element before) {
            for (std::size_t i = from; i < from + block; ++i) output_[i] = before += input_[i];
        });
        sync();
    }
    /// Every rank scans its blocks, and adds what precedes them.
    void scan_of_array_by_scans(std::size_t block) {
        post_sums(block, [&](std::size_t from) {
            std::partial_sum(input_ + from, input_ + from + block, output_ + from);
            return output_[from + block - 1];
        });
        each_own_block(block, [&](std::size_t from, element before) {
            BENCH_ELEMENTWISE
            for (std::size_t i = from; i < from + block; ++i) output_[i] += before;
        });
        sync();
    }

    // --- permute: every rank gets the input of the rank below

    /// A cell is rewritten once the only rank that reads it has written its own again.
    template <std::size_t Count>
    void shift_in_cells() {
        reach(board_.cells[(rank_ + 1) % ranks_][cells_used_ % 2].sequence, cells_used_);
        ++cells_used_;
        post_cell<Count>(input_);
        values<Count> theirs;
        read_cell(below(), theirs);
        std::memcpy(output_, &theirs, sizeof theirs);
    }
    template <stores How>
    void shift_through_slots() {
        copy<stores::plain>(output_, posted<How>()(below()), n_ * sizeof(element));
    }
    template <stores How>
    void shift() {
        sync();
        copy<How>(output_, input(below()), n_ * sizeof(element));
        leave<How>();
    }

    // --- reduce to rank 0, followed by a barrier

    template <std::size_t Count>
    void reduce_in_cells() {
        ++cells_used_;
        if (rank_ == 0)
            fold_cells<Count>(ranks_);
        else
            post_cell<Count>(input_);
        sync();
    }
    template <stores How>
    void reduce_through_slots() {
        if (rank_ != 0) fill_slot<How>(0, input_);
        to_root(slots(0));
    }
    void reduce() { to_root(inputs()); }
    /// Every rank folds a slice, and stores it at the root.
    template <stores How>
    void reduce_in_slices() {
        sync();
        by_chunks(begin(rank_), begin(rank_ + 1), [&](std::size_t i, std::size_t count, element* local) {
            element* const here = How == stores::plain ? output(0) + i : local;
            fold_chunk(ranks_, here, i, count, inputs());
            if (here == local) copy<How>(output(0) + i, local, count * sizeof(element));
        });
        leave<How>();
    }

    // --- scans, followed by a barrier; `own` is how many of its own inputs a rank gets folded: 1 in an inclusive scan,
    // --- 0 in an exclusive one

    template <std::size_t Count>
    void scan_in_cells(std::size_t own) {
        ++cells_used_;
        post_cell<Count>(input_);
        if (rank_ + own != 0) fold_cells<Count>(rank_ + own);
        sync();
    }
    template <stores How>
    void scan_through_slots(std::size_t own) {
        fill_slot<How>(0, input_);
        announce();
        await(0, rank_);
        fold_ranks(rank_ + own, output_, 0, n_, slots(0));
        sync();
    }
    void scan(std::size_t own) {
        announce();
        await(0, rank_);
        fold_ranks(rank_ + own, output_, 0, n_, inputs());
        sync();
    }
    /// Every rank computes its slice of all prefixes: every input is read once, and every output is written once.
    template <stores How>
    void scan_in_slices(std::size_t own) {
        sync();
        by_chunks(begin(rank_), begin(rank_ + 1), [&](std::size_t i, std::size_t count, element* local) {
            const element* prefix = input(0) + i;
            if (own < ranks_) copy<How>(output(1 - own) + i, prefix, count * sizeof(element));
            for (std::size_t r = 2 - own; r < ranks_; ++r) {
                element* const here = How == stores::plain ? output(r) + i : local;
                Workload::fold(here, prefix, input(r + own - 1) + i, count);
                if (here == local) copy<How>(output(r) + i, local, count * sizeof(element));
                prefix = here;
            }
        });
        leave<How>();
    }

  private:
    /// The fewest elements that end at a cache line boundary.
    static constexpr std::size_t grain = 64 / std::gcd<std::size_t>(64, sizeof(element));
    static constexpr std::size_t chunk = std::max(grain, 4096 / sizeof(element) / grain * grain);

    [[nodiscard]] std::size_t begin(std::size_t rank) const {
        return rank == ranks_ ? n_ : n_ * rank / ranks_ / grain * grain;
    }
    [[nodiscard]] std::size_t below() const { return (rank_ + ranks_ - 1) % ranks_; }
    [[nodiscard]] const element* input(std::size_t rank) const {
        return static_cast<const element*>(board_.memory[rank].input);
    }
    [[nodiscard]] element* output(std::size_t rank) const { return static_cast<element*>(board_.memory[rank].output); }
    [[nodiscard]] element* slot(std::size_t rank, std::size_t parity) const {
        return static_cast<element*>(board_.memory[rank].slots[parity]);
    }
    [[nodiscard]] auto inputs() const {
        return [this](std::size_t r) { return input(r); };
    }
    [[nodiscard]] auto slots(std::size_t parity) const {
        return [this, parity](std::size_t r) { return r == rank_ ? input_ : slot(r, parity); };
    }
    /// A slot is rewritten when all others have met once more, and no longer read it.
    template <stores How>
    [[nodiscard]] auto posted() {
        const std::size_t parity = meetings_ % 2;
        fill_slot<How>(parity, input_);
        sync();
        return slots(parity);
    }

    template <class SumOf>
    void post_sums(std::size_t block, SumOf sum_of) {
        for (std::size_t from = 0; from < n_; from += block) slot(rank_, 0)[from / block] = sum_of(from);
        sync();
    }
    /// Calls `use(from, before)` with the start of each block of this rank and the sum of all blocks before it.
    template <class Use>
    void each_own_block(std::size_t block, Use use) const {
        element before{};
        for (std::size_t k = 0; k < n_ / block; ++k)
            for (std::size_t r = 0; r < ranks_; ++r) {
                if (r == rank_) use(k * block, before);
                before += slot(r, 0)[k];
            }
    }

    template <class Use>
    void each_other(Use use) const {
        for (std::size_t i = 1; i < ranks_; ++i) use((rank_ + i) % ranks_);
    }
    void reach(const std::atomic<std::uint32_t>& number, std::uint32_t wanted) const {
        while (static_cast<std::int32_t>(number.load(std::memory_order_acquire) - wanted) < 0)
            yields_ ? std::this_thread::yield() : relax();
    }
    template <stores How>
    void fill_slot(std::size_t parity, const element* from) {
        copy<How>(slot(rank_, parity), from, n_ * sizeof(element));
        finish<How>();
    }
    /// To be called before others are told what has been stored.
    template <stores How>
    static void finish() {
        if constexpr (How == stores::streaming) finish_streaming();
    }

    void count_up() {
        board_.counter.sequence.fetch_add(1, std::memory_order_acq_rel);
        reach(board_.counter.sequence, counted_ += static_cast<std::uint32_t>(ranks_));
    }

    template <std::size_t Count>
    using values = std::array<element, Count>;
    template <std::size_t Count>
    values<Count> post_cell(const element* from) {
        static_assert(sizeof(values<Count>) <= sizeof(bound_board::cell::value));
        values<Count> mine;
        std::memcpy(&mine, from, sizeof mine);
        auto& cell = board_.cells[rank_][cells_used_ % 2];
        std::memcpy(cell.value.data(), &mine, sizeof mine);
        cell.sequence.store(cells_used_, std::memory_order_release);
        return mine;
    }
    template <std::size_t Count>
    void read_cell(std::size_t peer, values<Count>& to) const {
        const auto& cell = board_.cells[peer][cells_used_ % 2];
        reach(cell.sequence, cells_used_);
        std::memcpy(&to, cell.value.data(), sizeof to);
    }
    /// output ← the fold of the values of ranks 0 to ranks - 1, of which this is one.
    template <std::size_t Count>
    void fold_cells(std::size_t ranks) {
        values<Count> sum, theirs;
        const auto read = [&](std::size_t r, values<Count>& to) {
            r == rank_ ? static_cast<void>(std::memcpy(&to, input_, sizeof to)) : read_cell(r, to);
        };
        read(0, sum);
        for (std::size_t r = 1; r < ranks; ++r) {
            read(r, theirs);
            Workload::fold(sum.data(), sum.data(), theirs.data(), Count);
        }
        std::memcpy(output_, &sum, sizeof sum);
    }

    [[nodiscard]] bound_board::cell& sizes_cell(std::size_t rank) const { return board_.cells[rank][cells_used_ % 2]; }
    /// Posts the sizes, followed by so many elements of the input.
    void post_sizes(std::span<const int> sizes, std::size_t count) {
        ++cells_used_;
        auto& cell = sizes_cell(rank_);
        std::memcpy(cell.value.data(), sizes.data(), sizes.size_bytes());
        std::memcpy(cell.value.data() + sizes.size_bytes(), input_, count * sizeof(element));
        cell.sequence.store(cells_used_, std::memory_order_release);
    }
    template <stores How, class Sources>
    void take_by_sizes(Sources source) const {
        element* to = output_;
        for (std::size_t r = 0; r < ranks_; ++r) {
            reach(sizes_cell(r).sequence, cells_used_);
            std::array<int, max_ranks> sizes;
            std::memcpy(sizes.data(), sizes_cell(r).value.data(), ranks_ * sizeof(int));
            const auto* const mine = sizes.begin() + rank_;
            const auto count = static_cast<std::size_t>(*mine);
            copy<How>(to, source(r) + std::accumulate(sizes.cbegin(), mine, 0), count * sizeof(element));
            to += count;
        }
    }

    /// In one direction: all ranks must call `announce` once in a collective, whether or not anybody waits for them.
    void announce() { board_.cells[rank_][0].sequence.store(++cells_used_, std::memory_order_release); }
    void await(std::size_t first, std::size_t last) const {
        for (std::size_t r = first; r < last; ++r) reach(board_.cells[r][0].sequence, cells_used_);
    }
    void from_root(const element* from) {
        announce();
        if (rank_ != 0) {
            await(0, 1);
            std::memcpy(output_, from, n_ * sizeof(element));
        }
        sync();
    }
    void deal_from(const element* from) {
        const std::size_t block = n_ / ranks_;
        announce();
        if (rank_ != 0) await(0, 1);
        std::memcpy(output_, from + rank_ * block, block * sizeof(element));
        sync();
    }
    template <class Sources>
    void to_root(Sources source) {
        announce();
        if (rank_ == 0) {
            await(1, ranks_);
            fold_ranks(ranks_, output_, 0, n_, source);
        }
        sync();
    }
    template <class Sources>
    void collect_from(Sources source) {
        announce();
        if (rank_ == 0) {
            await(1, ranks_);
            gather_from<stores::plain>(source);
        }
        sync();
    }
    template <stores How, class Sources>
    void exchange_from(Sources source) const {
        for (std::size_t r = 0; r < ranks_; ++r) copy_block<How>(output_, r, source(r), rank_);
    }
    template <stores How>
    void copy_block(element* to, std::size_t there, const element* from, std::size_t here) const {
        const std::size_t block = n_ / ranks_;
        copy<How>(to + there * block, from + here * block, block * sizeof(element));
    }
    template <stores How, class Sources>
    void gather_from(Sources source) const {
        for (std::size_t r = 0; r < ranks_; ++r) copy<How>(output_ + r * n_, source(r), n_ * sizeof(element));
    }
    template <class Sources>
    void together_from(Sources source) const {
        const std::size_t third = n_ / 3, block = third / ranks_;
        fold_ranks(ranks_, output_, 0, third, source);
        for (std::size_t r = 0; r < ranks_; ++r) {
            std::memcpy(output_ + third + r * block, source(r) + third + rank_ * block, block * sizeof(element));
            std::memcpy(output_ + 2 * third + r * block, source(r) + 2 * third, block * sizeof(element));
        }
    }
    template <stores How>
    void leave() {
        if constexpr (How == stores::streaming) finish_streaming();
        sync();
    }
    template <stores How>
    void copy_slice(std::size_t slice, element* to, const element* from) const {
        copy<How>(to + begin(slice), from + begin(slice), (begin(slice + 1) - begin(slice)) * sizeof(element));
    }

    template <class Use>
    void by_chunks(std::size_t first, std::size_t last, Use use) const {
        alignas(64) std::array<element, chunk> local;
        for (std::size_t i = first; i < last; i += chunk) use(i, std::min(chunk, last - i), local.data());
    }
    template <class Sources>
    static void fold_chunk(std::size_t ranks, element* out, std::size_t i, std::size_t count, Sources source) {
        if (ranks == 0) return;
        if (ranks == 1) return copy<stores::plain>(out, source(0) + i, count * sizeof(element));
        Workload::fold(out, source(0) + i, source(1) + i, count);
        for (std::size_t r = 2; r < ranks; ++r) Workload::fold(out, out, source(r) + i, count);
    }
    /// out ← the fold of elements [first, last) of sources 0 to ranks - 1.
    template <class Sources>
    void fold_ranks(std::size_t ranks, element* out, std::size_t first, std::size_t last, Sources source) const {
        if (ranks <= 2) return fold_chunk(ranks, out, first, last - first, source);
        by_chunks(first, last, [&](std::size_t i, std::size_t count, element*) {
            fold_chunk(ranks, out + (i - first), i, count, source);
        });
    }

    bound_board& board_;
    std::size_t rank_, ranks_;
    bool yields_;
    sync_method way_ = sync_method::flags;
    std::size_t n_;  // elements of the input
    element* input_;
    element* output_;
    std::array<buffer, 2> slots_;
    std::uint32_t meetings_ = 0;
    std::uint32_t counted_ = 0;
    std::uint32_t cells_used_ = 0;
};

}  // namespace bench
