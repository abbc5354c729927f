// SPDX-License-Identifier: BSL-1.0
// What a wrapper of another interface needs: operators that take many rows at once, and laws and sizes that are known
// only at run time.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/check_laws.hpp"
#include "allfold/algebra/fused.hpp"
#include "allfold/algebra/in_out.hpp"
#include "allfold/collective.hpp"
#include "allfold/data/raw_rows.hpp"
#include "allfold/data/records.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/schedule/ring.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"

using namespace test;
using allfold::errc;
using allfold::partition;
using allfold::raw_rows;
using allfold::stretch;

namespace {

// Stretches of matrices

void require_sound(bool sound) { expect(sound, "an operator is given operands that it must not be given"); }

template <class T>
bool overlap(stretch<const T> a, stretch<const T> b) {
    return std::less<>()(a.begin(), b.end()) && std::less<>()(b.begin(), a.end());
}

/// Throws if the operands are not what `stretch` promises. Reads both operands of an element before it writes to `out`.
template <class T, class F>
void fold_each(stretch<const T> left, stretch<const T> right, stretch<T> out, F f) {
    require_sound(left.rows() == out.rows() && right.rows() == out.rows() && out.rows() > 0);
    require_sound(left.row_length() == out.row_length() && right.row_length() == out.row_length());
    for (const auto& side : {left, right}) require_sound(side.data() == out.data() || !overlap<T>(side, out));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = f(left[i], right[i]);
}

const auto products =
    allfold::associative([](stretch<const matrix> left, stretch<const matrix> right, stretch<matrix> out) {
        fold_each<matrix>(left, right, out, [](const matrix& a, const matrix& b) { return a * b; });
    });

using operand = std::vector<matrix>;

operand operand_of(int rank, std::size_t n) {
    operand all(n);
    for (std::size_t i = 0; i < n; ++i) all[i] = matrices::sample(rank, i);
    return all;
}
/// x(first) ∘ ... ∘ x(last - 1)
operand fold_of(int first, int last, std::size_t n) {
    operand all = operand_of(first, n);
    for (int r = first + 1; r < last; ++r)
        for (std::size_t i = 0; i < n; ++i) all[i] = all[i] * matrices::sample(r, i);
    return all;
}

template <class Comm>
void check_stretches_of_matrices(Comm& comm, std::size_t n) {
    const int rank = comm.rank(), size = comm.size();
    const std::string where =
        std::to_string(n) + " matrices, rank " + std::to_string(rank) + " of " + std::to_string(size) + ": ";
    const operand in = operand_of(rank, n), total = fold_of(0, size, n);
    const auto in_place = [&](const auto& collective, const operand& expected, const auto&... options) {
        operand x = in;
        collective(comm, x, products, options...);
        expect_equal(x, expected, where + "in place");
    };
    operand out(n);
    allfold::all_reduce(comm, in, out, products);
    expect_equal(out, total, where + "all_reduce");
    in_place(allfold::all_reduce, total);
    in_place(allfold::all_reduce, total, allfold::order::tree);
    in_place(allfold::inclusive_scan, fold_of(0, rank + 1, n));
    in_place(allfold::exclusive_scan, rank == 0 ? in : fold_of(0, rank, n));
    const allfold::root last{size - 1};
    in_place(allfold::reduce, rank == last.rank ? total : in, last);

    const partition blocks = partition::even(n, size);
    operand block(blocks.extent(rank));
    allfold::reduce_scatter(comm, in, block, products);
    const auto begin = total.begin() + static_cast<std::ptrdiff_t>(blocks.offset(rank));
    expect_equal(block, operand(begin, begin + static_cast<std::ptrdiff_t>(block.size())), where + "reduce_scatter");
}

// Rows of several tensors

/// The product of matrices, each with a vector of 3 numbers beside it: row by row, so mixed-up rows are noticed.
const auto affine = allfold::associative([](const allfold::stretches<const matrix, const std::uint32_t>& left,
                                            const allfold::stretches<const matrix, const std::uint32_t>& right,
                                            const allfold::stretches<matrix, std::uint32_t>& out) {
    const auto& [a, v] = left;
    const auto& [b, w] = right;
    const auto& [c, u] = out;
    for (std::size_t i = 0; i < c.rows(); ++i) {
        const std::uint32_t scale = a[i].a + a[i].b;  // the sum of either row, as both rows have the same sum
        for (std::size_t j = 0; j < u.row_length(); ++j) u.row(i)[j] = v.row(i)[j] + scale * w.row(i)[j];
        c[i] = a[i] * b[i];
    }
});

// Rows of several tensors of bytes

constexpr std::size_t key_bytes = 4, value_bytes = 32;
template <class T>
T read(const std::byte* from) {
    T x;
    std::memcpy(&x, from, sizeof x);
    return x;
}

/// Composes affine maps x -> key·x + value. Throws if a value is not aligned to 32 bytes.
const auto aligned_maps = allfold::associative([](const allfold::stretches<const std::byte, const std::byte>& left,
                                                  const allfold::stretches<const std::byte, const std::byte>& right,
                                                  const allfold::stretches<std::byte, std::byte>& out) {
    const auto& [keys, values] = out;
    require_sound(keys.row_length() == key_bytes && values.row_length() == value_bytes);
    const std::array<const std::byte*, 3> all{std::get<1>(left).data(), std::get<1>(right).data(), values.data()};
    for (const std::byte* const each : all) require_sound(reinterpret_cast<std::uintptr_t>(each) % value_bytes == 0);
    for (std::size_t i = 0; i < keys.rows(); ++i) {
        const auto key = [i](const auto& side) { return read<std::uint32_t>(&std::get<0>(side).row(i)[0]); };
        const auto value = [i](const auto& side) { return read<std::uint64_t>(&std::get<1>(side).row(i)[0]); };
        const std::uint64_t shifted = value(left) + key(left) * value(right);
        const std::uint32_t product = key(left) * key(right);
        std::memcpy(&keys.row(i)[0], &product, sizeof product);
        std::memcpy(&values.row(i)[0], &shifted, sizeof shifted);
    }
});

template <class Comm>
void check_aligned_maps(Comm& comm, std::size_t n) {
    struct alignas(value_bytes) value {
        std::uint64_t x;
    };
    const auto key_of = [](int rank, std::size_t i) {
        return static_cast<std::uint32_t>(3 * rank + 2) + static_cast<std::uint32_t>(i % 5);
    };
    std::vector<std::uint32_t> keys(n);
    std::vector<value> values(n);
    for (std::size_t i = 0; i < n; ++i) {
        keys[i] = key_of(comm.rank(), i);
        values[i] = {i + static_cast<std::size_t>(comm.rank())};
    }
    const allfold::records both{raw_rows(keys.data(), n, key_bytes, key_bytes),
                                raw_rows(values.data(), n, value_bytes, value_bytes)};
    allfold::inclusive_scan(comm, both, aligned_maps);
    for (std::size_t i = 0; i < n; ++i) {
        std::uint32_t key = 1;
        std::uint64_t shifted = 0;
        for (int r = 0; r <= comm.rank(); ++r) {
            shifted += key * (i + static_cast<std::size_t>(r));
            key *= key_of(r, i);
        }
        expect(keys[i] == key && values[i].x == shifted, "row " + std::to_string(i));
    }
    std::vector<std::uint32_t> all_keys(n * static_cast<std::size_t>(comm.size()));
    std::vector<value> all_values(all_keys.size());
    allfold::all_gather(comm, both,
                        allfold::records{raw_rows(all_keys.data(), all_keys.size(), key_bytes, key_bytes),
                                         raw_rows(all_values.data(), all_values.size(), value_bytes, value_bytes)});
    const std::size_t own = n * static_cast<std::size_t>(comm.rank());
    for (std::size_t i = 0; i < n; ++i)
        expect(all_keys[own + i] == keys[i] && all_values[own + i].x == values[i].x, "row of all_gather");
}

// A wrapper

/// The kind of function that a user of such an interface writes.
using callback = void (*)(const void* in, void* in_out, int* count, void* context);

/// What the wrapper learns about it at run time.
struct foreign_operator {
    callback function;
    bool commutes;
    void* context;
};

auto operator_of(const foreign_operator& given) {
    return allfold::commutative_if(given.commutes,
                                   allfold::in_out([given](stretch<const std::byte> in, stretch<std::byte> in_out) {
                                       int count = static_cast<int>(in.rows());
                                       given.function(in.data(), in_out.data(), &count, given.context);
                                   }));
}

/// What it learns about elements, which are words: a length, and letters. Letters that do not fit are cut off, so that
/// joining words remains associative.
struct word_type {
    std::size_t size;
    std::size_t alignment;
};
constexpr std::size_t letters_at = sizeof(std::uint32_t);

/// in_out ← in followed by in_out
void join_words(const void* in, void* in_out, int* count, void* context) {
    const auto& type = *static_cast<const word_type*>(context);
    for (int i = 0; i < *count; ++i) {
        const std::size_t at = static_cast<std::size_t>(i) * type.size;
        const auto* const left = static_cast<const std::byte*>(in) + at;
        auto* const right = static_cast<std::byte*>(in_out) + at;
        for (const void* each : {static_cast<const void*>(left), static_cast<const void*>(right)})
            require_sound(reinterpret_cast<std::uintptr_t>(each) % type.alignment == 0);
        std::uint32_t lengths[2];
        std::memcpy(&lengths[0], left, sizeof lengths[0]);
        std::memcpy(&lengths[1], right, sizeof lengths[1]);
        const auto most = static_cast<std::uint32_t>(type.size - letters_at);
        const std::uint32_t moved = std::min(lengths[1], most - lengths[0]);
        std::memmove(right + letters_at + lengths[0], right + letters_at, moved);
        std::memcpy(right + letters_at, left + letters_at, lengths[0]);
        lengths[0] += moved;
        std::memcpy(right, &lengths[0], sizeof lengths[0]);
    }
}

/// Memory with exactly the stated alignment, and no stricter one.
class aligned_bytes {
  public:
    aligned_bytes(std::size_t bytes, std::size_t alignment) : memory_(bytes + 256) {
        const auto past = reinterpret_cast<std::uintptr_t>(memory_.data()) % 128;
        first_ = memory_.data() + (past == 0 ? 0 : 128 - past) + alignment % 128;
    }
    [[nodiscard]] std::byte* data() const noexcept { return first_; }

  private:
    std::vector<std::byte> memory_;
    std::byte* first_;
};

std::string word_of(int rank, std::size_t i) { return static_cast<char>('a' + rank) + std::to_string(i % 10); }

/// Elements of unknown type, as a wrapper gets them.
struct words_of {
    words_of(const word_type& of, std::size_t count) : type(of), n(count), memory(of.size * count, of.alignment) {}

    void put(std::size_t i, const std::string& text) {
        const auto length = static_cast<std::uint32_t>(std::min(text.size(), type.size - letters_at));
        std::memcpy(memory.data() + i * type.size, &length, sizeof length);
        std::memcpy(memory.data() + i * type.size + letters_at, text.data(), length);
    }
    [[nodiscard]] std::string at(std::size_t i) const {
        std::uint32_t length = 0;
        std::memcpy(&length, memory.data() + i * type.size, sizeof length);
        require_sound(length <= type.size - letters_at);
        return {reinterpret_cast<const char*>(memory.data() + i * type.size + letters_at), length};
    }
    [[nodiscard]] raw_rows<std::byte> rows() const { return {memory.data(), n, type.size, type.alignment}; }
    [[nodiscard]] raw_rows<const std::byte> constant() const { return {memory.data(), n, type.size, type.alignment}; }

    word_type type;
    std::size_t n;
    aligned_bytes memory;
};

words_of words_at(const word_type& type, int rank, std::size_t n) {
    words_of all(type, n);
    for (std::size_t i = 0; i < n; ++i) all.put(i, word_of(rank, i));
    return all;
}
/// Element i of x0 ∘ ... ∘ x(end - 1).
std::string joined(const word_type& type, int end, std::size_t i) {
    std::string all;
    for (int r = 0; r < end; ++r) all += word_of(r, i);
    return all.substr(0, type.size - letters_at);
}
void expect_joined(const words_of& got, int end, std::size_t first, const std::string& where) {
    for (std::size_t i = 0; i < got.n; ++i)
        expect(got.at(i) == joined(got.type, end, first + i),
               where + ": word " + std::to_string(i) + " is " + got.at(i));
}

template <class Comm>
void check_words(Comm& comm, word_type type, std::size_t n) {
    const int rank = comm.rank(), size = comm.size();
    const std::string where = std::to_string(n) + " words of " + std::to_string(type.size) + " bytes, aligned to " +
                              std::to_string(type.alignment) + ", rank " + std::to_string(rank) + " of " +
                              std::to_string(size);
    const auto op = operator_of({join_words, false, &type});
    const words_of in = words_at(type, rank, n);
    for (int turn = 0; turn < 2; ++turn) {  // the second call may be a remembered one
        words_of out(type, n);
        allfold::all_reduce(comm, in.constant(), out.rows(), op);
        expect_joined(out, size, 0, where + ", all_reduce");
    }
    words_of all = words_at(type, rank, n);
    allfold::inclusive_scan(comm, all.rows(), op);
    expect_joined(all, rank + 1, 0, where + ", inclusive_scan");

    const partition blocks = partition::even(n, size);
    words_of block(type, blocks.extent(rank)), back(type, n);
    allfold::reduce_scatter(comm, in.constant(), block.rows(), op);
    expect_joined(block, size, blocks.offset(rank), where + ", reduce_scatter");
    allfold::all_gather(comm, block.constant(), back.rows(), blocks);
    expect_joined(back, size, 0, where + ", all_gather");
}

}  // namespace

TEST_CASE("an operator may fold many elements at once, in rank order and wherever they lie") {
    const auto check = [](auto& comm) {
        for (const std::size_t n : {0U, 1U, 9U, 700U})
            for (int turn = 0; turn < 2; ++turn) check_stretches_of_matrices(comm, n);  // the second is remembered
    };
    for (const int size : few_group_sizes) {
        on_ranks(size, check);
        on_ranks(
            size,
            [&](auto& base) {
                remote comm(base);
                check(comm);
            },
            roomy);
    }
    SUCCEED();
}

TEST_CASE("an operator folds many elements at once that own memory") {
    const auto join = allfold::associative(
        [](stretch<const std::string> left, stretch<const std::string> right, stretch<std::string> out) {
            fold_each<std::string>(left, right, out, [](const auto& a, const auto& b) { return a + b; });
        });
    for (const int size : {1, 2, 5})
        on_ranks(size, [&](auto& comm) {
            std::vector<std::string> x(20), expected(20);
            for (std::size_t i = 0; i < x.size(); ++i) {
                x[i] = words::sample(comm.rank(), i);
                for (int r = 0; r < comm.size(); ++r) expected[i] += words::sample(r, i);
            }
            allfold::all_reduce(comm, x, join);
            expect_equal(x, expected, "words");
        });
    SUCCEED();
}

TEST_CASE("an operator folds many elements of a tensor with gaps at once, piece by piece") {
    for (const std::size_t width : {3U, 40U}) {  // packed, or read in place
        on_ranks(3, [&](auto& comm) {
            constexpr std::size_t rows = 50;
            operand memory(rows * 2 * width, matrix{7, 7, 7, 7});
            const allfold::tensor<matrix, 2> x(memory.data(), {rows, width},
                                               {static_cast<std::ptrdiff_t>(2 * width), 1});
            for (std::size_t i = 0; i < rows * width; ++i) x(i / width, i % width) = matrices::sample(comm.rank(), i);
            allfold::all_reduce(comm, x, products);
            const operand total = fold_of(0, comm.size(), rows * width);
            for (std::size_t i = 0; i < rows * width; ++i) {
                expect(x(i / width, i % width) == total[i], "an element of a tensor");
                expect(memory[i / width * 2 * width + width + i % width] == matrix{7, 7, 7, 7}, "a gap");
            }
        });
    }
    SUCCEED();
}

TEST_CASE("an operator folds many rows of several tensors at once") {
    const auto check = [](auto& comm) {
        constexpr std::size_t n = 300, width = 3;
        struct state {
            std::vector<matrix> a;
            std::vector<std::uint32_t> v;
        };
        const auto state_of = [&](int rank) {
            state s;
            for (std::size_t i = 0; i < n; ++i) {
                const auto k = static_cast<std::uint32_t>(rank + 1) * 3 + static_cast<std::uint32_t>(i);
                s.a.push_back({k, 5, k - 1, 6});  // both rows have the same sum, in products too
                for (std::size_t j = 0; j < width; ++j) s.v.push_back(k * 7 + static_cast<std::uint32_t>(j));
            }
            return s;
        };
        state expected = state_of(0);
        for (int r = 1; r < comm.size(); ++r) {
            const state next = state_of(r);
            for (std::size_t i = 0; i < n; ++i) {
                const std::uint32_t scale = expected.a[i].a + expected.a[i].b;
                for (std::size_t j = 0; j < width; ++j) expected.v[i * width + j] += scale * next.v[i * width + j];
                expected.a[i] = expected.a[i] * next.a[i];
            }
        }
        state mine = state_of(comm.rank());
        const allfold::tensor<std::uint32_t, 2> vectors(mine.v.data(), {n, width});
        allfold::all_reduce(comm, allfold::records{mine.a, vectors}, affine);
        expect_equal(mine.a, expected.a, "matrices");
        expect_equal(mine.v, expected.v, "vectors");
    };
    for (const int size : {1, 2, 3, 5, 8}) on_ranks(size, check);
    on_ranks(
        3,
        [&](auto& base) {
            remote comm(base);
            check(comm);
        },
        roomy);
    SUCCEED();
}

TEST_CASE("each tensor of raw rows lies as it is stated, in messages and buffers too") {
    const auto check = [](auto& comm) {
        for (int turn = 0; turn < 2; ++turn)
            for (const std::size_t n : {1U, 2U, 3U, 33U, 1001U}) check_aligned_maps(comm, n);
    };
    for (const int size : {1, 2, 3, 4, 7}) {
        on_ranks(size, check);
        on_ranks(size, check, impatient);
        on_ranks(
            size,
            [&](auto& base) {
                remote comm(base);
                check(comm);
            },
            roomy);
    }
    SUCCEED();
}

TEST_CASE("the laws of an operator on many elements are checked on single ones") {
    const std::array samples{matrices::sample(1, 2), matrices::sample(2, 5), matrices::sample(3, 1)};
    CHECK(allfold::check_laws(products, samples));
    CHECK(allfold::check_laws(allfold::commutative(products), samples).broken == allfold::broken_law::commutative);
    const allfold::fused both{products, allfold::sum()};  // it is called for each part of an element
    CHECK(both(std::pair{samples[0], 1}, std::pair{samples[1], 2}) == std::pair{samples[0] * samples[1], 3});
    CHECK(allfold::check_laws(allfold::commutative_if(false, products), samples));
    CHECK(allfold::check_laws(allfold::commutative_if(true, products), samples).broken ==
          allfold::broken_law::commutative);
}

TEST_CASE("a wrapper folds elements whose size, alignment and order are known only at run time") {
    for (const int size : few_group_sizes) {
        on_ranks(size, [](auto& comm) {
            for (const word_type type : {word_type{24, 8}, word_type{20, 4}, word_type{64, 64}})
                for (const std::size_t n : {0U, 1U, 9U, 700U}) check_words(comm, type, n);
        });
        on_ranks(
            size,
            [](auto& base) {
                remote comm(base);
                for (const word_type type : {word_type{24, 8}, word_type{192, 64}})
                    for (const std::size_t n : {1U, 9U, 300U}) check_words(comm, type, n);
            },
            roomy);
    }
    SUCCEED();
}

namespace {

void add_doubles(const void* in, void* in_out, int* count, void*) {
    for (int i = 0; i < *count; ++i)
        static_cast<double*>(in_out)[i] = static_cast<const double*>(in)[i] + static_cast<double*>(in_out)[i];
}

}  // namespace

TEST_CASE("the order of a wrapper's folds depends on a flag") {
    on_ranks(
        4,
        [](auto& base) {
            remote comm(base);
            constexpr std::size_t n = 1 << 15;
            for (const bool commutes : {true, false}) {
                const auto op = operator_of({add_doubles, commutes, nullptr});
                const auto plan =
                    allfold::all_reduce.template plan<allfold::row<std::byte>>(comm, n * sizeof(double), op);
                expect((plan.name() == "ring" || plan.name() == "circulant") == commutes, "the schedule");
                std::vector<double> x(n, comm.rank() + 1.0), y(x);
                allfold::all_reduce(comm, raw_rows(x.data(), n, sizeof(double), alignof(double)), op);
                expect_equal(x, std::vector<double>(n, 10.0), "the sum");
                auto started = allfold::reduce.start(comm, raw_rows(y.data(), n, sizeof(double), alignof(double)), op,
                                                     allfold::root{3});
                started.wait();
                expect(comm.rank() != 3 || y == x, "the sum at the root");
            }
        },
        roomy);
    SUCCEED();
}
