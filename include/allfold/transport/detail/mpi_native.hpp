// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <climits>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/logic.hpp"
#include "allfold/data/partition.hpp"
#include "allfold/schedule/contract.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/mpi_calls.hpp"

/// @file
/// Collectives that MPI has itself, for operators and types that it knows.

namespace allfold::mpi::detail {

/// Numbers that MPI has a type for.
template <class T>
concept native_integer = std::integral<T> && !std::same_as<T, bool> && sizeof(T) <= 8;
template <class T>
concept native_number = native_integer<T> || std::same_as<T, float> || std::same_as<T, double>;

template <native_number T>
[[nodiscard]] MPI_Datatype native_type() noexcept {
    if constexpr (std::same_as<T, float>)
        return MPI_FLOAT;
    else if constexpr (std::same_as<T, double>)
        return MPI_DOUBLE;
    else if constexpr (std::is_signed_v<T>)
        return sizeof(T) == 1 ? MPI_INT8_T : sizeof(T) == 2 ? MPI_INT16_T : sizeof(T) == 4 ? MPI_INT32_T : MPI_INT64_T;
    else
        return sizeof(T) == 1   ? MPI_UINT8_T
               : sizeof(T) == 2 ? MPI_UINT16_T
               : sizeof(T) == 4 ? MPI_UINT32_T
                                : MPI_UINT64_T;
}

template <class Op, class... Any>
concept one_of = (std::same_as<Op, Any> || ...);

/// The operator of MPI that does what `Op` does on T, MPI_OP_NULL where there is none. Not here: minima and maxima of
/// floats, where MPI promises nothing about NaN and zeros, and allfold does.
template <class Op, class T>
[[nodiscard]] MPI_Op native_operator() noexcept {
    if constexpr (native_number<T>) {
        if constexpr (one_of<Op, sum, std::plus<>, std::plus<T>>) return MPI_SUM;
        if constexpr (one_of<Op, product, std::multiplies<>, std::multiplies<T>>) return MPI_PROD;
    }
    if constexpr (native_integer<T>) {
        if constexpr (one_of<Op, min>) return MPI_MIN;
        if constexpr (one_of<Op, max>) return MPI_MAX;
        if constexpr (one_of<Op, bit_and, std::bit_and<>, std::bit_and<T>>) return MPI_BAND;
        if constexpr (one_of<Op, bit_or, std::bit_or<>, std::bit_or<T>>) return MPI_BOR;
        if constexpr (one_of<Op, bit_xor, std::bit_xor<>, std::bit_xor<T>>) return MPI_BXOR;
    }
    return MPI_OP_NULL;
}
template <class Op, class T>
inline constexpr bool has_native_operator =
    (native_number<T> && one_of<Op, sum, std::plus<>, std::plus<T>, product, std::multiplies<>, std::multiplies<T>>) ||
    (native_integer<T> && one_of<Op, min, max, bit_and, std::bit_and<>, std::bit_and<T>, bit_or, std::bit_or<>,
                                 std::bit_or<T>, bit_xor, std::bit_xor<>, std::bit_xor<T>>);

[[nodiscard]] constexpr const char* native_name(collective what) noexcept {
    switch (what) {
        case collective::reduce: return "MPI_Reduce";
        case collective::all_reduce: return "MPI_Allreduce";
        case collective::reduce_scatter: return "MPI_Reduce_scatter";
        case collective::inclusive_scan: return "MPI_Scan";
        case collective::exclusive_scan: return "MPI_Exscan";
        default: return "";
    }
}

/// Runs MPI's own collective.
template <class Op, class T>
void run_native(collective what, const native_operands& with, MPI_Comm comm) {
    const MPI_Datatype type = native_type<T>();
    const MPI_Op op = native_operator<Op, T>();
    const int count = static_cast<int>(with.elements);
    const void* const in = with.in_place ? MPI_IN_PLACE : static_cast<const void*>(with.input);
    switch (what) {
        case collective::all_reduce:
            check(MPI_Allreduce(in, with.result, count, type, op, comm), "MPI_Allreduce");
            break;
        case collective::inclusive_scan: check(MPI_Scan(in, with.result, count, type, op, comm), "MPI_Scan"); break;
        case collective::exclusive_scan: check(MPI_Exscan(in, with.result, count, type, op, comm), "MPI_Exscan"); break;
        case collective::reduce: {
            int rank = 0;
            check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
            const void* const mine = rank == with.root ? in : with.input;
            check(MPI_Reduce(mine, with.result, count, type, op, with.root, comm), "MPI_Reduce");
            break;
        }
        case collective::reduce_scatter: {
            int rank = 0;
            check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
            std::vector<int> counts;
            for (int b = 0; b < with.blocks->blocks(); ++b) counts.push_back(static_cast<int>(with.blocks->extent(b)));
            const std::size_t own = with.blocks->extent(rank);
            std::vector<T> apart(with.in_place ? own : 0);  // MPI wants the result in front of the input, or apart
            void* const to = with.in_place ? static_cast<void*>(apart.data()) : with.result;
            check(MPI_Reduce_scatter(with.input, to, counts.data(), type, op, comm), "MPI_Reduce_scatter");
            if (with.in_place && own != 0) std::memcpy(with.result, apart.data(), own * sizeof(T));
            break;
        }
        default: break;
    }
}

}  // namespace allfold::mpi::detail
