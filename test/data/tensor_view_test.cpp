// SPDX-License-Identifier: BSL-1.0
#include "allfold/data/tensor_view.hpp"

#include <array>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective.hpp"
#include "allfold/data/records.hpp"
#include "allfold/transport/self.hpp"
#include "allfold/transport/thread.hpp"
#include "test/support/catch.hpp"
#include "test/support/ranks.hpp"

using namespace allfold;

namespace {

struct smallest_view {
    using element_type = int;
    static constexpr std::size_t rank() { return 1; }
    std::size_t extent(std::size_t) const { return 3; }
    std::ptrdiff_t stride(std::size_t) const { return 1; }
    int* data() const { return nullptr; }
};
struct without_stride {
    using element_type = int;
    static constexpr std::size_t rank() { return 1; }
    std::size_t extent(std::size_t) const { return 3; }
    int* data() const { return nullptr; }
};
struct without_data {
    using element_type = int;
    static constexpr std::size_t rank() { return 1; }
    std::size_t extent(std::size_t) const { return 3; }
    std::ptrdiff_t stride(std::size_t) const { return 1; }
};
struct with_other_elements : smallest_view {
    using element_type = double;
};
static_assert(tensor_view<smallest_view>);
static_assert(tensor_view<tensor<const float, 3>>);
static_assert(!tensor_view<without_stride>);
static_assert(!tensor_view<without_data>);
static_assert(!tensor_view<with_other_elements>);
static_assert(!tensor_view<std::vector<int>>);  // a range is accepted as a tensor, but is not a view

/// A matrix type from another library.
struct foreign_matrix {
    std::vector<int>* cells;
    int columns;
};

}  // namespace

template <>
struct allfold::tensor_traits<foreign_matrix> {
    using element_type = int;
    static constexpr std::size_t rank = 2;
    static std::size_t extent(const foreign_matrix& m, std::size_t i) {
        const auto columns = static_cast<std::size_t>(m.columns);
        return i == 1 ? columns : m.cells->size() / columns;
    }
    static std::ptrdiff_t stride(const foreign_matrix& m, std::size_t i) { return i == 1 ? 1 : m.columns; }
    static int* data(const foreign_matrix& m) { return m.cells->data(); }
};

namespace {

/// An all_reduce over three ranks, each of which makes its data, passes a view of it to the collective, and checks it.
template <class Make, class View, class Check>
void reduce_on_three(Make make, View view, Check check) {
    CHECK_NOTHROW(test::on_ranks(3, [&](auto& comm) {
        auto data = make(comm.rank());
        auto x = view(data);
        all_reduce(comm, x, sum{});
        if (!check(data)) throw std::logic_error("wrong result");
    }));
}

std::vector<int> iota(int rank) {
    std::vector<int> v(12);
    std::iota(v.begin(), v.end(), rank);
    return v;
}

}  // namespace

TEST_CASE("elements of a tensor are found by their strides") {
    std::vector<int> v(12);
    std::iota(v.begin(), v.end(), 0);
    const tensor<int, 2> rows(v.data(), {3, 4});
    CHECK(rows(2, 1) == 9);
    const tensor<int, 2> transposed(v.data(), {4, 3}, {1, 4});
    CHECK(transposed(1, 2) == 9);
    CHECK(tensor<int, 0>(v.data(), {})() == 0);
}

TEST_CASE("a strided view is folded in place, and what lies between its elements stays") {
    reduce_on_three(
        iota, [](auto& v) { return tensor<int, 1>(v.data(), {4}, {3}); },
        [](const auto& v) { return v[0] == 3 && v[3] == 12 && v[9] == 30 && v[1] != v[0] + 3; });
    CHECK_NOTHROW(test::on_ranks(3, [](auto& comm) {
        auto v = iota(comm.rank());
        const auto before = v;
        all_reduce(comm, tensor<int, 2>(v.data(), {2, 2}, {6, 2}), sum{});
        for (std::size_t i = 0; i < v.size(); ++i) {
            const bool element = i == 0 || i == 2 || i == 6 || i == 8;
            if (v[i] != (element ? 3 * static_cast<int>(i) + 3 : before[i])) throw std::logic_error("strided");
        }
    }));
}

TEST_CASE("a transposed view and a row-major one meet element by element") {
    CHECK_NOTHROW(test::on_ranks(2, [](auto& comm) {
        std::vector<int> v{0, 1, 2, 3, 4, 5}, out(6);
        if (comm.rank() == 0)
            all_reduce(comm, tensor<const int, 2>(v.data(), {2, 3}), std::span(out), sum{});
        else
            all_reduce(comm, tensor<const int, 2>(v.data(), {2, 3}, {1, 2}), std::span(out), sum{});
        if (out != std::vector<int>{0, 3, 6, 4, 7, 10}) throw std::logic_error("transposed");
    }));
}

TEST_CASE("ranges, spans, arrays, single objects and foreign types are all operands") {
    reduce_on_three(iota, [](auto& v) { return std::span(v); }, [](const auto& v) { return v[5] == 18; });
    reduce_on_three([](int r) { return std::array<int, 2>{r, 1}; }, [](auto& v) { return std::span(v); },
                    [](const auto& v) { return v[0] == 3 && v[1] == 3; });
    reduce_on_three(iota, [](auto& v) { return foreign_matrix{&v, 4}; }, [](const auto& v) { return v[11] == 36; });
    CHECK_NOTHROW(test::on_ranks(3, [](auto& comm) {
        double x = comm.rank();
        all_reduce(comm, x, sum{});
        std::string word(1, static_cast<char>('a' + comm.rank()));  // one value, not a range of characters
        all_reduce(comm, word, associative(std::plus<>{}));
        if (x != 3 || word != "abc") throw std::logic_error("single objects");
    }));
}

TEST_CASE("rows of several tensors are folded together, each with its own width") {
    CHECK_NOTHROW(test::on_ranks(3, [](auto& comm) {
        const int r = comm.rank();
        std::vector<int> keys(5, r);
        std::vector<double> values(10, 0.5 * r);
        records both{keys, tensor<double, 2>(values.data(), {5, 2})};
        all_reduce(comm, both, sum{});
        if (keys != std::vector<int>(5, 3) || values != std::vector<double>(10, 1.5)) throw std::logic_error("records");
    }));
}

TEST_CASE("records of different lengths are refused with both figures") {
    std::vector<int> three(3), four(4);
    self comm;
    try {
        records both{three, four};
        all_reduce(comm, both, sum{});
        FAIL("not refused");
    } catch (const error& e) {
        CHECK(e.code() == errc::bad_argument);
        CHECK(std::string(e.what()).find("3 rows") != std::string::npos);
        CHECK(std::string(e.what()).find("has 4") != std::string::npos);
    }
}
