// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/logic.hpp"
#include "allfold/data/partition.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/mpi_calls.hpp"
#include "allfold/transport/detail/mpi_tuning.hpp"

/// @file
/// MPI's own collectives, for operators and types that MPI knows.

namespace allfold::mpi::detail {

#if defined(OPEN_MPI)
inline constexpr bool is_open_mpi = true;
#else
inline constexpr bool is_open_mpi = false;
#endif

/// Numbers for which MPI has a type.
template <class T>
concept native_integer = std::integral<T> && !std::same_as<T, bool> && sizeof(T) <= 8;
template <class T>
concept native_number = native_integer<T> || std::same_as<T, float> || std::same_as<T, double>;
/// Those whose sums are the same in all MPI libraries: Open MPI 4.1 lets sums of shorter integers saturate.
template <class T>
concept native_summand = native_number<T> && sizeof(T) >= 4;

/// Those whose minima and maxima are the same in all MPI libraries: MPICH 4.0.2 compares unsigned integers as if they
/// were signed. A program that was built for MPICH may be run with libraries that are compatible with it; one that was
/// built for Open MPI, 4.1 of which is right, may not.
template <class T>
concept native_ordered = native_integer<T> && (std::is_signed_v<T> || is_open_mpi);

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

/// The MPI operator that does what `Op` does on T, MPI_OP_NULL if there is none. Left out: minima and maxima of floats,
/// for which allfold makes promises about NaN and zeros, but MPI does not.
template <class Op, class T>
[[nodiscard]] MPI_Op native_operator() noexcept {
    if constexpr (native_summand<T>)
        if constexpr (one_of<Op, sum, std::plus<>, std::plus<T>>) return MPI_SUM;
    if constexpr (native_number<T>) {
        if constexpr (one_of<Op, product, std::multiplies<>, std::multiplies<T>>) return MPI_PROD;
    }
    if constexpr (native_ordered<T>) {
        if constexpr (one_of<Op, min>) return MPI_MIN;
        if constexpr (one_of<Op, max>) return MPI_MAX;
    }
    if constexpr (native_integer<T>) {
        if constexpr (one_of<Op, bit_and, std::bit_and<>, std::bit_and<T>>) return MPI_BAND;
        if constexpr (one_of<Op, bit_or, std::bit_or<>, std::bit_or<T>>) return MPI_BOR;
        if constexpr (one_of<Op, bit_xor, std::bit_xor<>, std::bit_xor<T>>) return MPI_BXOR;
    }
    return MPI_OP_NULL;
}
template <class Op, class T>
inline constexpr bool has_native_operator =
    (native_summand<T> && one_of<Op, sum, std::plus<>, std::plus<T>>) ||
    (native_number<T> && one_of<Op, product, std::multiplies<>, std::multiplies<T>>) ||
    (native_ordered<T> && one_of<Op, min, max>) ||
    (native_integer<T> && one_of<Op, bit_and, std::bit_and<>, std::bit_and<T>, bit_or, std::bit_or<>, std::bit_or<T>,
                                 bit_xor, std::bit_xor<>, std::bit_xor<T>>);

/// An operator on elements, in MPI's terms.
struct native_fold {
    MPI_Datatype type;
    MPI_Op op;
    std::size_t element_bytes;
};
template <class Op, class T>
    requires has_native_operator<Op, T>
[[nodiscard]] native_fold native_fold_of() noexcept {
    return {native_type<T>(), native_operator<Op, T>(), sizeof(T)};
}

[[nodiscard]] inline int count_of(const native_operands& with) noexcept { return static_cast<int>(with.elements); }
[[nodiscard]] inline const void* input_of(const native_operands& with) noexcept {
    return with.in_place ? MPI_IN_PLACE : static_cast<const void*>(with.input);
}
[[nodiscard]] inline int rank_in(MPI_Comm comm) {
    int rank = 0;
    check(ALLFOLD_MPI(Comm_rank)(comm, &rank), "MPI_Comm_rank");
    return rank;
}

inline void native_all_reduce(const native_operands& with, const native_fold& how, MPI_Comm comm) {
    check(ALLFOLD_MPI(Allreduce)(input_of(with), with.result, count_of(with), how.type, how.op, comm), "MPI_Allreduce");
}
inline void native_inclusive_scan(const native_operands& with, const native_fold& how, MPI_Comm comm) {
    check(ALLFOLD_MPI(Scan)(input_of(with), with.result, count_of(with), how.type, how.op, comm), "MPI_Scan");
}
inline void native_exclusive_scan(const native_operands& with, const native_fold& how, MPI_Comm comm) {
    check(ALLFOLD_MPI(Exscan)(input_of(with), with.result, count_of(with), how.type, how.op, comm), "MPI_Exscan");
}
/// MPICH 4.0.2 reads from the address MPI_IN_PLACE if the root is not rank 0 and has 4 KiB or more, so it is given a
/// copy of the input.
inline void native_reduce(const native_operands& with, const native_fold& how, MPI_Comm comm) {
    const bool is_copied = !is_open_mpi && with.in_place && with.root != 0 && rank_in(comm) == with.root;
    const std::vector<std::byte> apart(with.input, with.input + (is_copied ? with.elements * how.element_bytes : 0));
    const void* const mine = is_copied ? apart.data() : rank_in(comm) == with.root ? input_of(with) : with.input;
    check(ALLFOLD_MPI(Reduce)(mine, with.result, count_of(with), how.type, how.op, with.root, comm), "MPI_Reduce");
}
inline void native_reduce_scatter(const native_operands& with, const native_fold& how, MPI_Comm comm) {
    std::vector<int> counts;
    counts.reserve(static_cast<std::size_t>(with.blocks->blocks()));
    for (int b = 0; b < with.blocks->blocks(); ++b) counts.push_back(static_cast<int>(with.blocks->extent(b)));
    const std::size_t own_bytes = with.blocks->extent(rank_in(comm)) * how.element_bytes;
    std::vector<std::byte> apart(with.in_place ? own_bytes : 0);  // MPI_IN_PLACE has it at the front of the input
    std::byte* const to = with.in_place ? apart.data() : with.result;
    check(ALLFOLD_MPI(Reduce_scatter)(with.input, to, counts.data(), how.type, how.op, comm), "MPI_Reduce_scatter");
    if (with.in_place && own_bytes != 0) std::memcpy(with.result, apart.data(), own_bytes);
}

/// An MPI collective that does what one of ours does.
struct native_entry {
    std::string_view what;  ///< name of ours
    const char* native_name;
    std::size_t tuning::* from_bytes;  ///< the member of `tuning` with the size from which on it is faster
    void (*run)(const native_operands&, const native_fold&, MPI_Comm);
};
/// MPI's collectives. One that is not in this list is never delegated, so a new one need not be added here.
inline constexpr std::array native_collectives{
    native_entry{"reduce", "MPI_Reduce", &tuning::native_reduce_from, native_reduce},
    native_entry{"all_reduce", "MPI_Allreduce", &tuning::native_all_reduce_from, native_all_reduce},
    native_entry{"reduce_scatter", "MPI_Reduce_scatter", &tuning::native_from, native_reduce_scatter},
    native_entry{"inclusive_scan", "MPI_Scan", &tuning::native_from, native_inclusive_scan},
    native_entry{"exclusive_scan", "MPI_Exscan", &tuning::native_from, native_exclusive_scan},
};
/// Null if MPI has none.
[[nodiscard]] constexpr const native_entry* native_collective(std::string_view what) noexcept {
    for (const native_entry& each : native_collectives)
        if (each.what == what) return &each;
    return nullptr;
}

}  // namespace allfold::mpi::detail
