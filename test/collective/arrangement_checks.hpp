// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "allfold/collective/all_gather.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/all_to_all.hpp"
#include "allfold/collective/broadcast.hpp"
#include "allfold/collective/exclusive_scan.hpp"
#include "allfold/collective/inclusive_scan.hpp"
#include "allfold/collective/permute.hpp"
#include "allfold/collective/reduce.hpp"
#include "allfold/collective/reduce_scatter.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/data/tensors.hpp"
#include "test/collective/exclusive_scan_checks.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/oracle.hpp"

/// @file
/// What collectives must do on any communicator with operands in several pieces: lists of tensors, tensors with gaps,
/// blocks along an axis, blocks in another order.

namespace test {

/// Pieces of memory with gaps between them, which must stay untouched.
template <class Algebra>
class spread {
  public:
    using element = typename Algebra::element;

    /// Tensors of these lengths, with `gap` elements before, between and after them.
    spread(std::vector<std::size_t> lengths, std::size_t gap) : lengths_(std::move(lengths)), gap_(gap) {
        std::size_t all = gap;
        for (const std::size_t each : lengths_) all += each + gap;
        memory_.assign(all, Algebra::margin());
    }
    [[nodiscard]] allfold::tensors<element> list() { return list_of<element>(memory_); }
    [[nodiscard]] allfold::tensors<const element> constant() const { return list_of<const element>(memory_); }
    [[nodiscard]] std::size_t size() const {
        std::size_t all = 0;
        for (const std::size_t each : lengths_) all += each;
        return all;
    }
    void set(std::span<const element> values) {
        auto next = values.begin();
        for_each([&next](element& x) { x = *next++; });
    }
    [[nodiscard]] std::vector<element> values() {
        std::vector<element> all;
        for_each([&all](element& x) { all.push_back(x); });
        return all;
    }
    [[nodiscard]] bool gaps_are_untouched() const {
        std::size_t at = 0;
        bool untouched = true;
        const auto look = [&] {
            for (std::size_t i = 0; i < gap_; ++i) untouched = untouched && memory_[at++] == Algebra::margin();
        };
        look();
        for (const std::size_t each : lengths_) {
            at += each;
            look();
        }
        return untouched;
    }

  private:
    template <class T, class Memory>
    [[nodiscard]] allfold::tensors<T> list_of(Memory& memory) const {
        allfold::tensors<T> all;
        std::size_t at = gap_;
        for (const std::size_t each : lengths_) {
            all.add(std::span<T>(memory.data() + at, each));
            at += each + gap_;
        }
        return all;
    }
    template <class Visit>
    void for_each(Visit visit) {
        std::size_t at = gap_;
        for (const std::size_t each : lengths_) {
            for (std::size_t i = 0; i < each; ++i) visit(memory_[at + i]);
            at += each + gap_;
        }
    }

    std::vector<std::size_t> lengths_;
    std::size_t gap_;
    std::vector<element> memory_;
};

inline std::size_t sum_of(const std::vector<std::size_t>& lengths) {
    std::size_t all = 0;
    for (const std::size_t each : lengths) all += each;
    return all;
}

/// A rank's share of a list whose tensors are cut: the lengths of its tensors, and which elements they hold.
struct share_of_list {
    std::vector<std::size_t> lengths, elements;
};
inline share_of_list share_of(const std::vector<std::size_t>& lengths, int block, int ranks,
                              allfold::partition (*cut)(std::size_t, int)) {
    share_of_list made;
    for (std::size_t first = 0; const std::size_t each : lengths) {
        const auto blocks = cut(each, ranks);
        made.lengths.push_back(blocks.extent(block));
        for (std::size_t i = 0; i < blocks.extent(block); ++i)
            made.elements.push_back(first + blocks.offset(block) + i);
        first += each;
    }
    return made;
}
template <class T>
std::vector<T> picked(std::span<const T> values, const std::vector<std::size_t>& elements) {
    std::vector<T> made;
    for (const std::size_t i : elements) made.push_back(values[i]);
    return made;
}

/// Checks folds, scans, broadcast and permute of a list.
template <class Algebra, class Comm>
void check_list(Comm& comm, const std::vector<std::size_t>& lengths, const std::string& where) {
    const problem<Algebra> p(comm.size(), sum_of(lengths));
    const int rank = comm.rank();
    const auto mine = p.operand(rank);
    const auto op = p.op;
    spread<Algebra> x(lengths, 3), y(lengths, 2);

    x.set(mine);
    allfold::all_reduce(comm, x.constant(), y.list(), op);
    expect_same<Algebra>(y.values(), p.total(), where + ", all_reduce");
    expect_same<Algebra>(x.values(), mine, where + ", all_reduce: the input");
    for_each_algorithm<problem<Algebra>::level>(allfold::all_reduce, comm, [&](const char* name, auto... how) {
        x.set(mine);
        allfold::all_reduce(comm, x.list(), op, how..., allfold::window{96});
        expect_same<Algebra>(x.values(), p.total(), where + ", all_reduce in place, " + name);
    });
    x.set(mine);
    allfold::inclusive_scan(comm, x.list(), op);
    expect_same<Algebra>(x.values(), p.prefix(rank), where + ", inclusive_scan");
    x.set(mine);
    allfold::exclusive_scan(comm, x.list(), op);
    expect_same<Algebra>(x.values(), expected_at(rank, p, mine), where + ", exclusive_scan");
    const int last = comm.size() - 1;
    const std::vector<typename Algebra::element> untouched(mine.size(), Algebra::margin());
    x.set(mine);
    y.set(untouched);
    allfold::reduce(comm, x.constant(), y.list(), op, allfold::root{last});
    expect_same<Algebra>(y.values(), rank == last ? p.total() : untouched, where + ", reduce");
    allfold::permute(comm, x.constant(), y.list(), allfold::shift{1});
    expect_same<Algebra>(y.values(), p.operand((rank + last) % comm.size()), where + ", permute");
    expect_same<Algebra>(x.values(), mine, where + ", permute: the input");
    allfold::broadcast(comm, x.list(), allfold::root{last});
    expect_same<Algebra>(x.values(), p.operand(last), where + ", broadcast");
    expect(x.gaps_are_untouched() && y.gaps_are_untouched(), where + ": written between the tensors");
}

/// Checks reduce_scatter and all_gather of the blocks of a list.
template <class Algebra, class Comm>
void check_list_of_blocks(Comm& comm, const std::vector<std::size_t>& lengths,
                          allfold::partition (*cut)(std::size_t, int), const std::string& where) {
    using element = typename Algebra::element;
    const problem<Algebra> p(comm.size(), sum_of(lengths));
    const int rank = comm.rank(), size = comm.size();
    const auto mine = p.operand(rank);
    std::vector<int> others;  // which block each rank gets
    for (int r = 0; r < size; ++r) others.push_back((r * (size - 1) + 1) % size);
    const share_of_list own = share_of(lengths, rank, size, cut);
    const share_of_list other = share_of(lengths, others[static_cast<std::size_t>(rank)], size, cut);
    spread<Algebra> x(lengths, 3), shard(own.lengths, 2), other_shard(other.lengths, 1);

    x.set(mine);
    allfold::reduce_scatter(comm, x.constant().by(cut), other_shard.list(), p.op, allfold::shards(others));
    expect_same<Algebra>(other_shard.values(), picked(p.total(), other.elements), where + ", reduce_scatter of shards");
    for_each_algorithm<problem<Algebra>::level>(allfold::reduce_scatter, comm, [&](const char* name, auto... how) {
        shard.set(std::vector<element>(shard.size(), Algebra::margin()));
        allfold::reduce_scatter(comm, x.constant().by(cut), shard.list(), p.op, how...);
        expect_same<Algebra>(shard.values(), picked(p.total(), own.elements), where + ", reduce_scatter, " + name);
    });
    expect_same<Algebra>(x.values(), mine, where + ", reduce_scatter: the input");
    for_each_algorithm(allfold::all_gather, comm, [&](const char* name, auto... how) {
        x.set(std::vector<element>(mine.size(), Algebra::margin()));
        allfold::all_gather(comm, shard.constant(), x.list().by(cut), how...);
        expect_same<Algebra>(x.values(), p.total(), where + ", all_gather, " + name);
    });
    x.set(std::vector<element>(mine.size(), Algebra::margin()));
    allfold::all_gather(comm, other_shard.constant(), x.list().by(cut), allfold::shards(others));
    expect_same<Algebra>(x.values(), p.total(), where + ", all_gather of shards");
    expect(x.gaps_are_untouched() && shard.gaps_are_untouched() && other_shard.gaps_are_untouched(),
           where + ": written between the tensors");
}

/// Checks all_to_all of a list whose tensors have these many elements for each rank: rank s gets block s of each
/// tensor.
template <class Algebra, class Comm>
void check_list_of_pairs(Comm& comm, const std::vector<std::size_t>& extents, const std::string& where) {
    std::vector<std::size_t> lengths;
    for (const std::size_t each : extents) lengths.push_back(each * static_cast<std::size_t>(comm.size()));
    const problem<Algebra> p(comm.size(), sum_of(lengths));
    std::vector<typename Algebra::element> expected;
    for (std::size_t first = 0; const std::size_t each : extents) {
        const std::size_t own = first + each * static_cast<std::size_t>(comm.rank());
        for (int r = 0; r < comm.size(); ++r)
            for (const auto& x : p.operand(r).subspan(own, each)) expected.push_back(x);
        first += each * static_cast<std::size_t>(comm.size());
    }
    spread<Algebra> x(lengths, 3), y(lengths, 2);
    for_each_algorithm(allfold::all_to_all, comm, [&](const char* name, auto... how) {
        const std::string here = where + ", all_to_all, " + name;
        x.set(p.operand(comm.rank()));
        allfold::all_to_all(comm, x.constant(), y.list(), how...);
        expect_same<Algebra>(y.values(), expected, here);
        expect_same<Algebra>(x.values(), p.operand(comm.rank()), here + ": the input");
        allfold::all_to_all(comm, x.list(), how...);
        expect_same<Algebra>(x.values(), expected, here + ", in place");
        y.set(std::vector(expected.size(), Algebra::margin()));
    });
    expect(x.gaps_are_untouched() && y.gaps_are_untouched(), where + ", all_to_all: written between the tensors");
}

/// Checks blocks of a tensor of three axes, cut along each of them. There is a gap of two elements after each row.
template <class Algebra, class Comm>
void check_axes(Comm& comm, std::size_t width, const std::string& where) {
    using element = typename Algebra::element;
    using view = allfold::tensor<element, 3>;
    const int rank = comm.rank(), size = comm.size();
    const auto ranks = static_cast<std::size_t>(size);
    const std::array<std::size_t, 3> extents{3, 2 * ranks + 1, width};
    const auto whole = [&](std::vector<element>& memory) {
        const auto row = static_cast<std::ptrdiff_t>(width + 2), plane = row * static_cast<std::ptrdiff_t>(extents[1]);
        memory.assign(static_cast<std::size_t>(plane) * extents[0], Algebra::margin());
        return view(memory.data(), extents, {plane, row, 1});
    };
    std::vector<element> memory, gathered_memory;
    const view x = whole(memory), gathered = whole(gathered_memory);
    const problem<Algebra> p(size, extents[0] * extents[1] * extents[2]);
    const auto total = [&](std::size_t i, std::size_t j, std::size_t k) {
        return p.total()[(i * extents[1] + j) * extents[2] + k];
    };
    for (std::size_t i = 0, next = 0; i < extents[0]; ++i)
        for (std::size_t j = 0; j < extents[1]; ++j)
            for (std::size_t k = 0; k < extents[2]; ++k) x(i, j, k) = p.operand(rank)[next++];
    const std::vector<element> before = memory;
    for (std::size_t axis = 0; axis < 3; ++axis) {
        const auto blocks =
            axis == 2 ? allfold::partition::ceil(extents[axis], size) : allfold::partition::even(extents[axis], size);
        auto own = extents;
        own[axis] = blocks.extent(rank);
        std::vector<element> block_memory(own[0] * own[1] * own[2], Algebra::margin());
        const view block(block_memory.data(), own);
        const std::string here = where + ", axis " + std::to_string(axis);
        allfold::reduce_scatter(comm, x, block, p.op, allfold::axis{axis}, blocks);
        for (std::size_t i = 0; i < own[0]; ++i)
            for (std::size_t j = 0; j < own[1]; ++j)
                for (std::size_t k = 0; k < own[2]; ++k) {
                    std::array<std::size_t, 3> at{i, j, k};
                    at[axis] += blocks.offset(rank);
                    expect(same<Algebra>(block(i, j, k), total(at[0], at[1], at[2])), here + ", reduce_scatter");
                }
        expect(memory == before, here + ", reduce_scatter has written its input");
        allfold::all_gather(comm, block, gathered, allfold::axis{axis}, blocks);
        std::size_t margins = 0;
        for (const element& each : gathered_memory) margins += each == Algebra::margin() ? 1 : 0;
        expect(margins == 2 * extents[0] * extents[1], here + ", all_gather between the rows");
        for (std::size_t i = 0; i < extents[0]; ++i)
            for (std::size_t j = 0; j < extents[1]; ++j)
                for (std::size_t k = 0; k < extents[2]; ++k)
                    expect(same<Algebra>(gathered(i, j, k), total(i, j, k)), here + ", all_gather");
    }
}

/// The exchange of sequence parallelism: from all heads of some positions to some heads of all positions, and back.
template <class Algebra, class Comm>
void check_split_and_concat(Comm& comm, std::size_t width, bool is_even, const std::string& where) {
    using element = typename Algebra::element;
    const auto size = static_cast<std::size_t>(comm.size()), rank = static_cast<std::size_t>(comm.rank());
    const std::size_t positions = is_even ? 2 * size : 2 * size + 1, heads = is_even ? 3 * size : 3 * size + 2;
    const auto of_positions = allfold::partition::even(positions, comm.size());
    const auto of_heads = allfold::partition::even(heads, comm.size());
    const std::size_t own_positions = of_positions.extent(comm.rank()), own_heads = of_heads.extent(comm.rank());
    const auto value = [&](std::size_t position, std::size_t head, std::size_t i) {
        return Algebra::sample(static_cast<int>(position % size), head * 31 + i);
    };
    std::vector<element> some_positions, some_heads(positions * own_heads * width, Algebra::margin());
    for (std::size_t s = 0; s < own_positions; ++s)
        for (std::size_t h = 0; h < heads; ++h)
            for (std::size_t i = 0; i < width; ++i)
                some_positions.push_back(value(of_positions.offset(static_cast<int>(rank)) + s, h, i));
    std::vector<element> back(some_positions.size(), Algebra::margin());
    const allfold::tensor<const element, 3> in(some_positions.data(), {own_positions, heads, width});
    const allfold::tensor<element, 3> out(some_heads.data(), {positions, own_heads, width});
    const allfold::tensor<element, 3> again(back.data(), {own_positions, heads, width});
    using allfold::concat_axis, allfold::split_axis;
    if (is_even) {
        allfold::all_to_all(comm, in, out, split_axis{1}, concat_axis{0});
        allfold::all_to_all(comm, out, again, concat_axis{1});
    } else {
        allfold::all_to_all(comm, in, out, split_axis{1}, concat_axis{0}, allfold::input_blocks{of_heads},
                            allfold::output_blocks{of_positions});
        allfold::all_to_all(comm, out, again, split_axis{0}, concat_axis{1}, allfold::input_blocks{of_positions},
                            allfold::output_blocks{of_heads});
    }
    for (std::size_t s = 0; s < positions; ++s)
        for (std::size_t h = 0; h < own_heads; ++h)
            for (std::size_t i = 0; i < width; ++i)
                expect(out(s, h, i) == value(s, of_heads.offset(static_cast<int>(rank)) + h, i),
                       where + ", split_axis and concat_axis");
    expect(back == some_positions, where + ", and back");
}

/// Checks exchanges in which ranks know what they send, but not what they receive. Some send nothing.
template <class Algebra, class Comm>
void check_sizes_of_senders(Comm& comm, const std::string& where) {
    using element = typename Algebra::element;
    const auto length = [](int from, int to) { return static_cast<std::size_t>((from * 3 + to * 7) % 5 * from); };
    const auto add = [&length](std::vector<element>& all, int from, int to) {
        for (std::size_t i = 0; i < length(from, to); ++i) all.push_back(Algebra::sample(from, 10 * i));
    };
    std::vector<element> in, out(3, Algebra::margin()), expected;
    std::vector<int> sizes;
    for (int r = 0; r < comm.size(); ++r) {
        add(in, comm.rank(), r);
        sizes.push_back(static_cast<int>(length(comm.rank(), r)));
        add(expected, r, comm.rank());
    }
    const allfold::partition received = allfold::all_to_all(comm, in, sizes, out);
    expect_same<Algebra>(out, expected, where + ", all_to_all by sizes of senders");
    for (int r = 0; r < comm.size(); ++r)
        expect(received.extent(r) == length(r, comm.rank()), where + ": what has arrived");
    std::vector<element> longer(expected.size() + 2, Algebra::margin());
    allfold::all_to_all(comm, in, sizes, std::span(longer));
    expect(std::equal(expected.begin(), expected.end(), longer.begin()) && longer.back() == Algebra::margin(),
           where + ", with room for more");
}

/// Blocks of several lengths, 0 among them, stored in a different order and with different gaps on each rank.
struct displaced_blocks {
    displaced_blocks(int self, int ranks, std::size_t unit) {
        std::vector<std::size_t> extents;
        for (int r = 0; r < ranks; ++r) extents.push_back(static_cast<std::size_t>(r * 3 % 5) * unit);
        first.resize(extents.size());
        const std::size_t gap = static_cast<std::size_t>(self) + 1;
        for (int i = 0; i < ranks; ++i) {
            const auto block = static_cast<std::size_t>((self + ranks - i) % ranks);
            first[block] = elements + gap;
            elements = first[block] + extents[block];
        }
        elements += gap;
        lengths = allfold::partition::sizes(extents);
    }
    template <class T>
    void put(std::vector<T>& memory, std::span<const T> values, int block) const {
        for (std::size_t i = 0; i < lengths.extent(block); ++i)
            memory[first[static_cast<std::size_t>(block)] + i] = values[lengths.offset(block) + i];
    }
    std::vector<std::size_t> first;
    std::size_t elements = 0;
    allfold::partition lengths = allfold::partition::even(0, 1);
};

template <class Algebra, class Comm>
void check_displacements(Comm& comm, std::size_t unit, const std::string& where) {
    using element = typename Algebra::element;
    const int rank = comm.rank(), size = comm.size();
    const displaced_blocks blocks(rank, size, unit);
    const problem<Algebra> p(size, blocks.lengths.total());
    const std::size_t offset = blocks.lengths.offset(rank), extent = blocks.lengths.extent(rank);
    const allfold::displacements displaced(blocks.first);
    const auto spread = [&](auto value_of_block) {
        std::vector<element> memory(blocks.elements, Algebra::margin());
        for (int r = 0; r < size; ++r) blocks.put(memory, value_of_block(r), r);
        return memory;
    };
    const auto whole = [&](std::span<const element> all) { return [all](int) { return all; }; };
    const std::vector<element> empty(blocks.elements, Algebra::margin()), mine = spread(whole(p.operand(rank)));

    std::vector<element> shard(extent, Algebra::margin());
    std::vector<element> x = mine;
    allfold::reduce_scatter(comm, x, shard, p.op, displaced, blocks.lengths);
    expect_same<Algebra>(shard, p.total().subspan(offset, extent), where + ", reduce_scatter at displacements");
    expect(x == mine, where + ", reduce_scatter has written its input");

    std::vector<element> folded(p.operand(rank).begin(), p.operand(rank).end());
    allfold::reduce_scatter(comm, folded, p.op, blocks.lengths, allfold::at_front());
    folded.resize(extent);
    expect_same<Algebra>(folded, p.total().subspan(offset, extent), where + ", reduce_scatter to the front");

    std::vector<element> gathered = empty;
    allfold::all_gather(comm, shard, gathered, displaced, blocks.lengths);
    expect_same<Algebra>(gathered, spread(whole(p.total())), where + ", all_gather at displacements");
    gathered = empty;
    blocks.put(gathered, std::span<const element>(p.total()), rank);
    allfold::all_gather(comm, gathered, displaced, blocks.lengths);
    expect_same<Algebra>(gathered, spread(whole(p.total())), where + ", all_gather in place at displacements");

    // What rank r sends to rank s has the length of block r * s mod P.
    std::vector<std::size_t> lengths;
    for (int r = 0; r < size; ++r) lengths.push_back(blocks.lengths.extent(rank * r % size));
    std::vector<element> out(4 * blocks.elements * static_cast<std::size_t>(size), Algebra::margin()), expected = out;
    std::vector<std::size_t> from, to;
    std::vector<element> in(out.size(), Algebra::margin());
    for (int r = 0; r < size; ++r) {
        const auto place = static_cast<std::size_t>(r) * 3 * blocks.elements;
        from.push_back(in.size() - place - blocks.elements);
        to.push_back(place + static_cast<std::size_t>(rank));
        for (std::size_t i = 0; i < lengths[static_cast<std::size_t>(r)]; ++i) {
            in[from.back() + i] = Algebra::sample(rank, i + static_cast<std::size_t>(r));
            expected[to.back() + i] = Algebra::sample(r, i + static_cast<std::size_t>(rank));
        }
    }
    allfold::all_to_all(comm, in, out, allfold::input_displacements{allfold::displacements(from)},
                        allfold::output_displacements{allfold::displacements(to)},
                        allfold::input_blocks{allfold::partition::sizes(lengths)},
                        allfold::output_blocks{allfold::partition::sizes(lengths)});
    expect_same<Algebra>(out, expected, where + ", all_to_all at displacements");
}

/// Checks all of this, with pieces that are packed and with pieces that are not.
template <class Algebra, class Comm>
void check_arrangements(Comm& comm, const std::string& where) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    const std::vector<std::size_t> shortest{ranks - 1, 0, ranks, ranks + 1}, longer{33 * ranks, 1, 40 * ranks + 3};
    check_list<Algebra>(comm, shortest, where);
    check_list<Algebra>(comm, longer, where + ", longer");
    check_list_of_blocks<Algebra>(comm, shortest, &allfold::partition::even, where);
    check_list_of_blocks<Algebra>(comm, longer, &allfold::partition::ceil, where + ", longer");
    check_list_of_pairs<Algebra>(comm, {2, 0, 1}, where);
    check_list_of_pairs<Algebra>(comm, {33, 1, 40}, where + ", longer");
    for (const std::size_t width : {3U, 65U}) {
        check_axes<Algebra>(comm, width, where);
        check_split_and_concat<Algebra>(comm, width, true, where);
        check_split_and_concat<Algebra>(comm, width, false, where);
    }
    check_sizes_of_senders<Algebra>(comm, where);
    for (const std::size_t unit : {1U, 70U}) check_displacements<Algebra>(comm, unit, where);
}

}  // namespace test
