// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/collective.hpp"
#include "allfold/data/block_cyclic.hpp"
#include "allfold/data/partition.hpp"
#include "allfold/data/tensors.hpp"
#include "allfold/engine/options.hpp"
#include "allfold/schedule/ring.hpp"
#include "test/support/oracle.hpp"

/// @file
/// The collectives of random programs, with data for which every rank knows the result.

namespace test::random_programs {

using allfold::sum;

enum class kind : std::uint8_t {
    all_reduce,
    in_place,
    ring,
    reduce,
    scan,
    exclusive_scan,
    reduce_scatter,
    all_gather,
    gather,
    scatter,
    all_to_all,
    by_sizes,
    shift,
    mirror,
    broadcast,
    barrier,
    // In rank order, with lifted elements.
    composed,
    composed_scan,
    composed_blocks,
    images,
    array,
    list,
    sharded
};
constexpr int kinds = 23;

/// Composes the affine maps that numbers represent: the order matters, and what is folded is longer than a number.
struct composition {
    struct map {
        std::uint64_t factor, summand;
    };
    [[nodiscard]] map lift(long x) const {
        const auto n = static_cast<std::uint64_t>(x);
        return {2 * n + 1, n * n};  // without a fixed point common to all, because such maps commute
    }
    [[nodiscard]] map operator()(const map& f, const map& g) const {
        return {f.factor * g.factor, f.summand * g.factor + g.summand};
    }
    [[nodiscard]] map identity() const { return {1, 0}; }
    [[nodiscard]] long lower(const map& all, int /*contributions*/) const {
        return static_cast<long>((31 * all.factor + all.summand) % 1000003);
    }
};

using dice = std::mt19937;

inline std::size_t throw_below(dice& d, std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(d);
}

/// One collective, the same on all ranks.
struct call {
    kind what = kind::barrier;
    int root = 0;       // or the distance by which operands are shifted
    std::size_t n = 0;  // elements of the whole operand; in a permutation, of the longest one
    int salt = 0;

    [[nodiscard]] bool permutes() const { return what == kind::shift || what == kind::mirror; }
    /// The rank whose operand rank r of P gets.
    [[nodiscard]] int origin(int r, int P) const { return what == kind::shift ? (r - root + P) % P : P - 1 - r; }
    [[nodiscard]] std::size_t length_of(int r) const { return n / static_cast<std::size_t>(1 + r % 3); }
    /// The number of elements that one of P ranks sends to another, if only the sender knows it.
    [[nodiscard]] std::size_t length_between(int from, int to, int P) const {
        return n * static_cast<std::size_t>((from + 2 * to + salt) % 3) / static_cast<std::size_t>(P);
    }
};

/// What rank r contributes at `i`.
inline long contribution(const call& c, int r, std::size_t i) {
    return static_cast<long>(r + 1) * 7 + c.salt * 13 + static_cast<long>(i % 5);
}
/// The sum of what the ranks below `end` contribute.
inline long sum_below(const call& c, int end, std::size_t i) {
    long total = 0;
    for (int r = 0; r < end; ++r) total += contribution(c, r, i);
    return total;
}

/// The composition of what the ranks below `end` contribute, each of them one operand, or two: the second operand of
/// rank r is the one that rank `second` + r would contribute.
inline long composed_below(const call& c, int end, std::size_t i, int second = 0) {
    const composition op;
    composition::map all = op.identity();
    for (int r = 0; r < end; ++r) {
        all = op(all, op.lift(contribution(c, r, i)));
        if (second > 0) all = op(all, op.lift(contribution(c, second + r, i)));
    }
    return op.lower(all, end);
}

/// A call with this rank's data.
class flight {
  public:
    flight(const call& what, int rank, int size) : what_(what), rank_(rank), size_(size) {
        in_.resize(input_length());
        out_.resize(output_length());
        fill(what.salt);
    }
    void fill(int salt) {
        what_.salt = salt;
        if (what_.what == kind::by_sizes) find_sizes();
        const bool gathers = what_.what == kind::all_gather || what_.what == kind::gather;
        const std::size_t first = gathers ? blocks().offset(rank_) : 0;
        for (std::size_t i = 0; i < in_.size(); ++i) in_[i] = contribution(what_, rank_, first + i);
        std::ranges::fill(out_, -1);
        if (what_.what == kind::broadcast || what_.what == kind::in_place || what_.what == kind::list) out_ = in_;
        if (what_.what == kind::array) fill_array();
        if (what_.what != kind::images) return;
        second_.resize(in_.size());
        for (std::size_t i = 0; i < in_.size(); ++i) second_[i] = contribution(what_, size_ + rank_, i);
    }
    /// Calls use(collective, arguments...).
    template <class Use>
    auto issue(Use use) {
        const allfold::root root{what_.root};
        const auto composed = allfold::associative(composition());
        switch (what_.what) {
            case kind::all_reduce: return use(allfold::all_reduce, in_, out_, sum());
            case kind::in_place: return use(allfold::all_reduce, out_, sum());
            case kind::ring: return use(allfold::all_reduce, in_, out_, sum(), allfold::ring());
            case kind::reduce: return use(allfold::reduce, in_, out_, sum(), root);
            case kind::scan: return use(allfold::inclusive_scan, in_, out_, sum());
            case kind::exclusive_scan: return use(allfold::exclusive_scan, in_, out_, sum());
            case kind::reduce_scatter: return use(allfold::reduce_scatter, in_, out_, sum());
            case kind::all_gather: return use(allfold::all_gather, in_, out_);
            case kind::gather: return use(allfold::gather, in_, out_, root, blocks());
            case kind::scatter: return use(allfold::scatter, in_, out_, root, blocks());
            case kind::all_to_all: return use(allfold::all_to_all, in_, out_);
            case kind::by_sizes: return use(allfold::all_to_all, in_, sizes_, out_, came_);
            case kind::shift: return use(allfold::permute, in_, out_, allfold::shift{what_.root});
            case kind::mirror: return use(allfold::permute, in_, out_, mirrored());
            case kind::broadcast: return use(allfold::broadcast, out_, root);
            case kind::barrier: return use(allfold::barrier);
            case kind::composed: return use(allfold::all_reduce, in_, out_, composed);
            case kind::composed_scan: return use(allfold::inclusive_scan, in_, out_, composed);
            case kind::composed_blocks: return use(allfold::reduce_scatter, in_, out_, composed);
            case kind::images: return use(allfold::all_reduce, allfold::images(in_, second_), out_, composed);
            case kind::array:
                return use(allfold::inclusive_scan, allfold::distributed(in_, layout()),
                           allfold::distributed(out_, layout()), composed);
            case kind::list: return use(allfold::all_reduce, allfold::tensors(front(), back()), sum());
            case kind::sharded: break;
        }
        return use(allfold::reduce_scatter, in_, out_, sum(), blocks(), turned());
    }
    void verify(const std::string& where) const {
        if (what_.what == kind::barrier || (has_result_at_root_only() && rank_ != what_.root)) return;
        expect(what_.what != kind::by_sizes || (out_.size() == expected_.total() && came_ == expected_),
               where + ": what has arrived");
        for (std::size_t i = 0; i < out_.size(); ++i)
            if (out_[i] != expected(i))
                throw wrong(where + ", collective " + std::to_string(static_cast<int>(what_.what)) + " of " +
                            std::to_string(what_.n) + ", salt " + std::to_string(what_.salt) + ", element " +
                            std::to_string(i) + " is " + std::to_string(out_[i]));
    }

  private:
    void find_sizes() {
        std::vector<std::size_t> coming;
        sizes_.clear();
        for (int r = 0; r < size_; ++r) {
            sizes_.push_back(what_.length_between(rank_, r, size_));
            coming.push_back(what_.length_between(r, rank_, size_));
        }
        in_.resize(std::accumulate(sizes_.begin(), sizes_.end(), std::size_t{0}));
        expected_ = allfold::partition::sizes(coming);
        out_.assign(static_cast<std::size_t>(what_.salt) % 2 * 10, -1);
    }
    /// The layout of an array with blocks of one element, or with few blocks.
    [[nodiscard]] allfold::block_cyclic layout() const {
        const std::size_t few = what_.n / static_cast<std::size_t>(3 * size_ + what_.root) + 1;
        return {what_.n % 1000 == 0 ? 1 : few, static_cast<std::size_t>(what_.root), what_.n};
    }
    void fill_array() {
        const composition op;
        composition::map all = op.identity();
        std::vector<long> whole(what_.n);
        for (std::size_t i = 0; i < what_.n; ++i) {
            all = op(all, op.lift(contribution(what_, 0, i)));
            whole[i] = op.lower(all, 0);
        }
        scanned_.resize(in_.size());
        for (std::size_t i = 0; i < in_.size(); ++i) {
            const std::size_t element = layout().global_index(rank_, i, size_);
            in_[i] = contribution(what_, 0, element);
            scanned_[i] = whole[element];
        }
    }
    [[nodiscard]] std::span<long> front() { return std::span(out_).first(out_.size() / 3); }
    [[nodiscard]] std::span<long> back() { return std::span(out_).subspan(out_.size() / 3); }
    /// Rank r gets block r + 1.
    [[nodiscard]] allfold::shards turned() const {
        std::vector<int> list(static_cast<std::size_t>(size_));
        std::iota(list.begin(), list.end(), 1);
        list.back() = 0;
        return allfold::shards(list);
    }
    [[nodiscard]] int own_block() const { return what_.what == kind::sharded ? (rank_ + 1) % size_ : rank_; }
    [[nodiscard]] bool scatters() const {
        return what_.what == kind::reduce_scatter || what_.what == kind::scatter || what_.what == kind::sharded ||
               what_.what == kind::composed_blocks;
    }
    [[nodiscard]] allfold::partition blocks() const { return allfold::partition::even(what_.n, size_); }
    [[nodiscard]] bool has_result_at_root_only() const {
        return what_.what == kind::reduce || what_.what == kind::gather;
    }
    [[nodiscard]] std::size_t input_length() const {
        if (what_.permutes()) return what_.length_of(rank_);
        if (what_.what == kind::scatter && rank_ != what_.root) return 0;
        if (what_.what == kind::array) return layout().extent(rank_, size_);
        const bool gathers = what_.what == kind::all_gather || what_.what == kind::gather;
        return gathers ? blocks().extent(rank_) : what_.n;
    }
    [[nodiscard]] std::size_t output_length() const {
        if (what_.permutes()) return what_.length_of(what_.origin(rank_, size_));
        if (has_result_at_root_only() && rank_ != what_.root) return 0;
        if (what_.what == kind::array) return layout().extent(rank_, size_);
        return scatters() ? blocks().extent(own_block()) : what_.n;
    }
    [[nodiscard]] allfold::destinations mirrored() const {
        std::vector<int> list;
        for (int r = 0; r < size_; ++r) list.push_back(size_ - 1 - r);
        return allfold::destinations(std::move(list));
    }
    /// The rank whose block of the whole contains this element.
    [[nodiscard]] int owner_of(std::size_t i) const {
        int owner = 0;
        while (blocks().offset(owner + 1) <= i) ++owner;
        return owner;
    }
    [[nodiscard]] long expected(std::size_t i) const {
        switch (what_.what) {
            case kind::scan: return sum_below(what_, rank_ + 1, i);
            case kind::exclusive_scan: return sum_below(what_, rank_, i);
            case kind::reduce_scatter:
            case kind::sharded: return sum_below(what_, size_, blocks().offset(own_block()) + i);
            case kind::composed: return composed_below(what_, size_, i);
            case kind::composed_scan: return composed_below(what_, rank_ + 1, i);
            case kind::composed_blocks: return composed_below(what_, size_, blocks().offset(rank_) + i);
            case kind::images: return composed_below(what_, size_, i, size_);
            case kind::array: return scanned_[i];
            case kind::scatter: return contribution(what_, what_.root, blocks().offset(rank_) + i);
            case kind::broadcast: return contribution(what_, what_.root, i);
            case kind::all_gather:
            case kind::gather: return contribution(what_, owner_of(i), i);
            case kind::all_to_all: {
                const std::size_t each = what_.n / static_cast<std::size_t>(size_);
                const auto sender = static_cast<int>(i / each);
                return contribution(what_, sender, static_cast<std::size_t>(rank_) * each + i % each);
            }
            case kind::by_sizes: {
                int sender = 0;
                while (expected_.bounds_of(sender).end <= i) ++sender;
                std::size_t before = 0;  // elements that precede it in what the sender sends
                for (int r = 0; r < rank_; ++r) before += what_.length_between(sender, r, size_);
                return contribution(what_, sender, before + i - expected_.offset(sender));
            }
            case kind::shift:
            case kind::mirror: return contribution(what_, what_.origin(rank_, size_), i);
            default: return sum_below(what_, size_, i);
        }
    }

    call what_;
    int rank_;
    int size_;
    std::vector<long> in_, out_;
    std::vector<long> second_;        // the second of two images
    std::vector<long> scanned_;       // the expected output of an array's scan
    std::vector<std::size_t> sizes_;  // if each rank knows only what it sends
    allfold::partition came_ = allfold::partition::even(0, 1), expected_ = came_;
};

inline call random_call(dice& d, int size, int salt) {
    const auto p = static_cast<std::size_t>(size);
    call c{static_cast<kind>(throw_below(d, kinds)), static_cast<int>(throw_below(d, p)), 0, salt};
    constexpr std::array<std::size_t, 9> lengths{0, 1, 3, 100, 1000, 4100, 9000, 30000, 70000};
    c.n = lengths[throw_below(d, lengths.size())];
    if (c.what == kind::all_to_all) c.n -= c.n % p;
    return c;
}

}  // namespace test::random_programs
