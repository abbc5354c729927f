// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <span>
#include <vector>

/// @file
/// What all contestants fold, with hand-written operators for those that do not bring their own.
///
/// A workload has the type of its elements and of the scalars in them. It fills the input of a rank, for which it may
/// need the number of ranks, and checks an output: given the number of ranks whose inputs are folded in it, or given
/// the rank and the number of ranks.

/// Placed before a loop whose output may be one of its inputs, but only in place.
#if defined(__clang__)
#define BENCH_ELEMENTWISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define BENCH_ELEMENTWISE _Pragma("GCC ivdep")
#endif

namespace bench {

inline constexpr int max_ranks = 16;

/// Memory that starts some cache lines into a page: if input and output start at the same page offset, as large
/// allocations do, loads wait for stores to addresses that look the same.
class buffer {
  public:
    buffer(std::size_t bytes, std::size_t lines)
        : memory_(static_cast<std::byte*>(::operator new(lines * 64 + bytes, std::align_val_t{4096}))),
          data_(memory_.get() + lines * 64),
          bytes_(bytes) {
        clear();
    }
    template <class T>
    [[nodiscard]] T* as() const {
        return reinterpret_cast<T*>(data_);
    }
    template <class T>
    [[nodiscard]] std::span<T> all() const {
        return {as<T>(), bytes_ / sizeof(T)};
    }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }
    void clear() const { std::memset(data_, 0, bytes_); }

  private:
    struct release {
        void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t{4096}); }
    };
    std::unique_ptr<std::byte, release> memory_;
    std::byte* data_;
    std::size_t bytes_;
};

/// What a program does between two calls: it reads results and writes new inputs, here one word of every cache line.
/// Without this, a repeated call would find the unchanged inputs of its peers in its own cache. Adds so little that
/// inputs keep their values.
template <class Scalar>
void use(const buffer& input, const buffer& output) {
    constexpr std::size_t line = 64 / sizeof(Scalar);
    constexpr Scalar little = Scalar(1e-30);
    const auto in = input.all<Scalar>(), out = output.all<Scalar>();
    const std::size_t part = std::min(in.size(), out.size());  // one may be several times as large as the other
    for (std::size_t from = 0; from < in.size(); from += part)
        for (std::size_t i = 0; i < part; i += line) in[from + i] += little * out[i];
    for (std::size_t from = part; from < out.size(); from += part)
        for (std::size_t i = 0; i < part; i += line) in[i] += little * out[from + i];
}

/// 1 + 2 + ... + n
[[nodiscard]] constexpr int sum_up_to(int n) { return n * (n + 1) / 2; }

/// Floats under +. Each value shows which rank's input it comes from, and from where in it: anything misplaced, added
/// twice or taken from another rank is wrong.
struct sum_of_floats {
    using element = float;
    using scalar = float;

    static void fill(const buffer& input, int rank) { fill(input.all<element>(), rank); }
    static void fill(std::span<element> x, int rank) {
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = sum_at(i, rank, rank + 1);
    }
    [[nodiscard]] static bool right(const buffer& output, int ranks) {
        return are_sums(output.all<element>(), ranks, 0);
    }
    static void fold(element* out, const element* left, const element* right, std::size_t n) {
        BENCH_ELEMENTWISE
        for (std::size_t i = 0; i < n; ++i) out[i] = left[i] + right[i];
    }

    /// Whether x is the sum of what the first `ranks` ranks had from place `from` on.
    [[nodiscard]] static bool are_sums(std::span<const element> x, int ranks, std::size_t from) {
        return are_sums(x, 0, ranks, from);
    }
    /// Whether x is what one rank had from place `from` on.
    [[nodiscard]] static bool are_of(std::span<const element> x, int rank, std::size_t from) {
        return are_sums(x, rank, rank + 1, from);
    }

  private:
    /// The sum of what the ranks [first, last) have at that place: less than 2^24, so it is exact. The period is a
    /// prime, so that neighbouring blocks differ.
    [[nodiscard]] static float sum_at(std::size_t place, int first, int last) {
        const int of_place = max_ranks * static_cast<int>(place % 1021);
        return static_cast<float>(sum_up_to(last) - sum_up_to(first) + (last - first) * of_place);
    }
    [[nodiscard]] static bool are_sums(std::span<const element> x, int first, int last, std::size_t from) {
        for (std::size_t i = 0; i < x.size(); ++i)
            if (x[i] != sum_at(from + i, first, last)) return false;
        return true;
    }
};

/// The same sums, of which each rank gets its block.
struct blocks_of_sums : sum_of_floats {
    [[nodiscard]] static bool right(const buffer& output, int rank, int ranks) {
        const auto x = output.all<element>();
        return are_sums(x, ranks, static_cast<std::size_t>(rank) * x.size());
    }
};

/// The upper half of a float, rounded to nearest, as libraries define it.
class bfloat16 {
  public:
    bfloat16() = default;
    explicit bfloat16(float x) {
        const auto bits = std::bit_cast<std::uint32_t>(x);
        bits_ = static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    }
    explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits_} << 16); }

  private:
    std::uint16_t bits_ = 0;
};

/// Such numbers under + of floats; each rank gets its block. The float added by `use` changes neither number of a pair.
struct blocks_of_short_sums {
    using element = bfloat16;
    using scalar = float;

    static void fill(const buffer& input, int rank, int) {
        const auto x = input.all<element>();
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = element(of_rank(i, rank));
    }
    [[nodiscard]] static bool right(const buffer& output, int rank, int ranks) {
        const auto x = output.all<element>();
        for (std::size_t i = 0; i < x.size(); ++i) {
            float sum = 0;
            for (int r = 0; r < ranks; ++r) sum += of_rank(static_cast<std::size_t>(rank) * x.size() + i, r);
            if (static_cast<float>(x[i]) != sum) return false;
        }
        return true;
    }
    static void fold(element* out, const element* left, const element* right, std::size_t n) {
        BENCH_ELEMENTWISE
        for (std::size_t i = 0; i < n; ++i)
            out[i] = element(static_cast<float>(left[i]) + static_cast<float>(right[i]));
    }

  private:
    /// Sums over all ranks have at most 8 bits, so they are exact.
    [[nodiscard]] static float of_rank(std::size_t place, int rank) {
        return static_cast<float>((place * 3 + static_cast<std::size_t>(rank) * 5) % 13 + 1);
    }
};

/// Floats that are not folded, one block per rank; with 0 ranks, nothing is to be written.
struct blocks_of_floats : sum_of_floats {
    [[nodiscard]] static bool right(const buffer& output, int ranks) {
        return ranks == 0 ? sum_of_floats::right(output, 0) : are_blocks(output.all<element>(), ranks, 0);
    }
    /// Whether x is what all ranks had from place `from` on, one block after the other.
    [[nodiscard]] static bool are_blocks(std::span<const element> x, int ranks, std::size_t from) {
        const std::size_t block = x.size() / static_cast<std::size_t>(ranks);
        for (int rank = 0; rank < ranks; ++rank)
            if (!are_of(x.subspan(static_cast<std::size_t>(rank) * block, block), rank, from)) return false;
        return true;
    }
};

/// The same, where each rank has a different block for each rank.
struct exchanged_blocks : blocks_of_floats {
    [[nodiscard]] static bool right(const buffer& output, int rank, int ranks) {
        const auto x = output.all<element>();
        return are_blocks(x, ranks, static_cast<std::size_t>(rank) * (x.size() / static_cast<std::size_t>(ranks)));
    }
};

/// How many of n elements a rank sends to each: few to one, many to another, and in all as many as it receives.
[[nodiscard]] inline std::vector<int> unequal_sizes(std::size_t n, int rank, int ranks) {
    const auto P = static_cast<std::size_t>(ranks);
    std::vector<int> sizes(P);
    for (std::size_t r = 0; r < P; ++r) {
        const std::size_t k = (static_cast<std::size_t>(rank) + r) % P;
        sizes[r] = static_cast<int>(n * (k + 1) * (k + 1) / (P * P) - n * k * k / (P * P));
    }
    return sizes;
}

/// Floats that are not folded, in blocks of different lengths.
struct unequal_blocks_of_floats : sum_of_floats {
    [[nodiscard]] static bool right(const buffer& output, int rank, int ranks) {
        std::span<const element> x = output.all<element>();
        const std::size_t n = x.size();
        for (int from = 0; from < ranks; ++from) {
            const auto sizes = unequal_sizes(n, from, ranks);
            const auto mine = sizes.begin() + rank;
            const auto block = x.first(static_cast<std::size_t>(*mine));
            if (!are_of(block, from, static_cast<std::size_t>(std::accumulate(sizes.begin(), mine, 0)))) return false;
            x = x.subspan(block.size());
        }
        return x.empty();
    }
};

/// The blocks of an operand of n elements that are cut in the same way, into different lengths, on all ranks.
[[nodiscard]] inline std::vector<int> uneven_blocks(std::size_t n, int ranks) { return unequal_sizes(n, 0, ranks); }
[[nodiscard]] inline std::size_t begin_of(const std::vector<int>& sizes, int block) {
    return static_cast<std::size_t>(std::accumulate(sizes.begin(), sizes.begin() + block, 0));
}

/// Floats that are not folded, one block of those per rank.
struct uneven_blocks_of_floats : sum_of_floats {
    [[nodiscard]] static bool right(const buffer& output, int, int ranks) {
        const auto x = output.all<const element>();
        const auto sizes = uneven_blocks(x.size(), ranks);
        for (int r = 0; r < ranks; ++r) {
            const auto block =
                x.subspan(begin_of(sizes, r), static_cast<std::size_t>(sizes[static_cast<std::size_t>(r)]));
            if (!are_of(block, r, begin_of(sizes, r))) return false;
        }
        return true;
    }
};
/// Sums, of which each rank gets one of those.
struct uneven_blocks_of_sums : sum_of_floats {
    [[nodiscard]] static bool right(const buffer& output, int rank, int ranks) {
        const auto x = output.all<const element>();
        const auto sizes = uneven_blocks(x.size(), ranks);
        return are_sums(x.first(static_cast<std::size_t>(sizes[static_cast<std::size_t>(rank)])), ranks,
                        begin_of(sizes, rank));
    }
};
/// Sums, of which each rank gets a block as long as all others, in a longer output.
struct first_block_of_sums : sum_of_floats {
    [[nodiscard]] static bool right(const buffer& output, int rank, int ranks) {
        const auto x = output.all<const element>();
        const std::size_t block = x.size() / static_cast<std::size_t>(ranks);
        return are_sums(x.first(block), ranks, static_cast<std::size_t>(rank) * block);
    }
};

inline constexpr std::size_t rows_of_matrix = 8;

/// Floats of a matrix that are not folded, a block of its columns per rank.
struct columns_of_floats : sum_of_floats {
    [[nodiscard]] static bool right(const buffer& output, int, int ranks) {
        const auto x = output.all<const element>();
        const std::size_t width = x.size() / rows_of_matrix / static_cast<std::size_t>(ranks);
        for (std::size_t i = 0; i < rows_of_matrix; ++i)
            for (int r = 0; r < ranks; ++r) {
                const std::size_t block = i * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(r);
                if (!are_of(x.subspan(block * width, width), r, i * width)) return false;
            }
        return true;
    }
};

inline constexpr std::size_t images_of_rank = 4;

/// Sums of several operands of each rank, which lie one after the other.
struct sums_of_images : sum_of_floats {
    static void fill(const buffer& input, int rank) {
        for (std::size_t k = 0; k < images_of_rank; ++k)
            sum_of_floats::fill(image(input.all<element>(), k),
                                rank * static_cast<int>(images_of_rank) + static_cast<int>(k));
    }
    [[nodiscard]] static bool right(const buffer& output, int ranks) {
        return are_sums(output.all<element>(), ranks * static_cast<int>(images_of_rank), 0);
    }
    template <class T>
    [[nodiscard]] static std::span<T> image(std::span<T> all, std::size_t k) {
        const std::size_t n = all.size() / images_of_rank;
        return all.subspan(k * n, n);
    }
    /// Folds the operands of one rank.
    static void fold_images(std::span<const element> all, std::span<element> into) {
        fold(into.data(), image(all, 0).data(), image(all, 1).data(), into.size());
        for (std::size_t k = 2; k < images_of_rank; ++k)
            fold(into.data(), into.data(), image(all, k).data(), into.size());
    }
};

inline constexpr std::size_t tensors_of_list = 8;

template <class T>
[[nodiscard]] auto pieces_of(std::span<T> all) {
    std::array<std::span<T>, tensors_of_list> pieces;
    const std::size_t n = all.size() / pieces.size();
    for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i] = all.subspan(i * n, n);
    return pieces;
}

/// Sums in several tensors, of each of which a rank gets its block.
struct lists_of_sums : sum_of_floats {
    [[nodiscard]] static bool right(const buffer& output, int rank, int ranks) {
        const auto P = static_cast<std::size_t>(ranks), r = static_cast<std::size_t>(rank);
        std::size_t number = 0;
        return std::ranges::all_of(pieces_of(output.all<const element>()), [&](std::span<const element> piece) {
            return are_sums(piece, ranks, (number++ * P + r) * piece.size());
        });
    }
};

/// Floats that are not folded, in several tensors, each with one block per rank.
struct lists_of_blocks : blocks_of_floats {
    [[nodiscard]] static bool right(const buffer& output, int ranks) {
        std::size_t number = 0;
        return std::ranges::all_of(pieces_of(output.all<const element>()), [&](std::span<const element> piece) {
            return are_blocks(piece, ranks, number++ * (piece.size() / static_cast<std::size_t>(ranks)));
        });
    }
};

/// The operands of three collectives, one after the other.
template <class T>
struct thirds {
    thirds(std::span<T> all, int ranks)
        : first(all.first(all.size() / 3)),
          second(all.subspan(first.size(), first.size())),
          third(all.last(first.size())),
          block_of_third(third.first(third.size() / static_cast<std::size_t>(ranks))) {}
    std::span<T> first, second, third;
    std::span<T> block_of_third;
};

/// Sums, followed by two thirds of floats that are not folded, one block per rank.
struct thirds_of_floats : blocks_of_floats {
    [[nodiscard]] static bool right(const buffer& output, int rank, int ranks) {
        const thirds<const element> x(output.all<const element>(), ranks);
        const std::size_t third = x.first.size(), block = x.block_of_third.size();
        return are_sums(x.first, ranks, 0) &&
               are_blocks(x.second, ranks, third + static_cast<std::size_t>(rank) * block) &&
               are_blocks(x.third, ranks, 2 * third);
    }
};

/// Floats that are not folded, all from one rank.
struct floats_of_one : sum_of_floats {
    [[nodiscard]] static bool right(const buffer& output, int number) {
        return are_of(output.all<element>(), number - 1, 0);
    }
};

/// One array dealt out to all ranks in blocks, round-robin, n elements to each, and its prefix sums.
struct prefixes_of_array : sum_of_floats {
    [[nodiscard]] static std::size_t block_of(std::size_t n) { return std::gcd(n, std::size_t{64}); }

    static void fill(const buffer& input, int rank, int ranks) {
        const auto x = input.all<element>();
        for (std::size_t i = 0; i < x.size(); ++i) {
            const std::size_t place = place_of(i, x.size(), rank, ranks);
            x[i] = prefix_at(place) - (place == 0 ? 0 : prefix_at(place - 1));
        }
    }
    [[nodiscard]] static bool right(const buffer& output, int rank, int ranks) {
        const auto x = output.all<element>();
        for (std::size_t i = 0; i < x.size(); ++i)
            if (x[i] != prefix_at(place_of(i, x.size(), rank, ranks))) return false;
        return true;
    }

  private:
    [[nodiscard]] static std::size_t place_of(std::size_t i, std::size_t n, int rank, int ranks) {
        const std::size_t block = block_of(n), row = i / block * static_cast<std::size_t>(ranks);
        return (row + static_cast<std::size_t>(rank)) * block + i % block;
    }
    /// Small, so that sums over any range are exact.
    [[nodiscard]] static float prefix_at(std::size_t place) { return static_cast<float>(place % 1021 + 1); }
};

/// Floats of rank 0, which has a block for each rank.
struct blocks_of_root : sum_of_floats {
    [[nodiscard]] static bool right(const buffer& output, int rank, int) {
        const auto x = output.all<element>();
        return are_of(x, 0, static_cast<std::size_t>(rank) * x.size());
    }
};

inline constexpr std::size_t faces_of_a_cube = 6;

/// Partial results of attention under the online-softmax merge.
struct merge_of_states {
    static constexpr std::size_t depth = 64;
    struct element {
        float m, l;
        std::array<float, depth> s;
    };
    static_assert(sizeof(element) == 264);
    using scalar = float;

    static void fill(const buffer& input, int rank) {
        std::ranges::fill(input.all<float>(), 1.0f);
        for (element& state : input.all<element>()) state.m = maximum_of(rank);
    }
    [[nodiscard]] static bool right(const buffer& output, int ranks) {
        const float maximum = maximum_of(ranks - 1), sum = sum_of(ranks);
        const auto is_sum = [&](float x) { return std::abs(x - sum) < 1e-4f; };
        return std::ranges::all_of(output.all<element>(), [&](const element& state) {
            return state.m == maximum && is_sum(state.l) && std::ranges::all_of(state.s, is_sum);
        });
    }
    static void fold(element* out, const element* left, const element* right, std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            const bool swapped = left[i].m < right[i].m;
            const element& high = swapped ? right[i] : left[i];
            const element& low = swapped ? left[i] : right[i];
            const float factor = std::exp(low.m - high.m);
            out[i].m = high.m;
            out[i].l = high.l + factor * low.l;
            BENCH_ELEMENTWISE
            for (std::size_t d = 0; d < depth; ++d) out[i].s[d] = high.s[d] + factor * low.s[d];
        }
    }

    [[nodiscard]] static float maximum_of(int rank) { return 1 + 0.25f * static_cast<float>(rank); }
    /// The sum of denominators, or numerators, that start at 1 on every rank.
    [[nodiscard]] static float sum_of(int ranks) {
        float sum = 0;
        for (int r = 0; r < ranks; ++r) sum += std::exp(maximum_of(r) - maximum_of(ranks - 1));
        return sum;
    }
};

/// The same states in three tensors, one after the other, as the code that computes them has them.
struct merge_of_tensors {
    static constexpr std::size_t depth = merge_of_states::depth;
    using element = merge_of_states::element;
    using scalar = float;

    explicit merge_of_tensors(const buffer& memory)
        : n(memory.bytes() / sizeof(element)), m(memory.as<float>()), l(m + n), s(l + n) {}
    std::size_t n;
    float *m, *l, *s;

    static void fill(const buffer& input, int rank) {
        std::ranges::fill(input.all<float>(), 1.0f);
        const merge_of_tensors states(input);
        std::fill_n(states.m, states.n, merge_of_states::maximum_of(rank));
    }
    [[nodiscard]] static bool right(const buffer& output, int ranks) {
        const merge_of_tensors states(output);
        const float maximum = merge_of_states::maximum_of(ranks - 1), sum = merge_of_states::sum_of(ranks);
        return std::all_of(states.m, states.l, [&](float x) { return x == maximum; }) &&
               std::all_of(states.l, states.s + states.n * depth, [&](float x) { return std::abs(x - sum) < 1e-4f; });
    }
};

/// 2x2 matrices under the product, whose order must be kept.
struct product_of_matrices {
    struct element {
        double a, b, c, d;
    };
    using scalar = double;

    static void fill(const buffer& input, int rank) {
        std::ranges::fill(input.all<element>(), element{1, static_cast<double>(rank + 1), 0, 1});
    }
    [[nodiscard]] static bool right(const buffer& output, int ranks) {
        const auto sum = static_cast<double>(sum_up_to(ranks));
        return std::ranges::all_of(output.all<element>(), [&](const element& x) {
            return x.a == 1 && x.b == sum && std::abs(x.c) < 1e-9 && x.d == 1;
        });
    }
    [[nodiscard]] static element multiply(const element& x, const element& y) {
        return {x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d, x.c * y.a + x.d * y.c, x.c * y.b + x.d * y.d};
    }
    static void fold(element* out, const element* left, const element* right, std::size_t n) {
        BENCH_ELEMENTWISE
        for (std::size_t i = 0; i < n; ++i) out[i] = multiply(left[i], right[i]);
    }
};

}  // namespace bench
