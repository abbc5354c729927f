// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <vector>

#include "allfold/data/records.hpp"
#include "allfold/data/serializer.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/data/tensors.hpp"
#include "allfold/engine/binding.hpp"
#include "allfold/engine/detail/type_name.hpp"
#include "allfold/engine/row_table.hpp"
#include "allfold/error.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// The data that a message is sent from or received into. The caller's types are erased here.

namespace allfold::detail {

/// What is known about the elements at compile time.
struct message_type {
    std::size_t element_bytes;
    erased_type_hash hash;
    const char* name;
    // All three are null if the elements are copied as bytes.
    void (*assign)(std::byte*, const std::byte*, std::size_t elements);  // (to, from): objects passed by reference
    void (*encode)(const std::byte* from, std::size_t elements, std::vector<std::byte>& to);  // objects sent encoded
    void (*decode)(std::span<const std::byte> from, std::byte* to, std::size_t elements);

    [[nodiscard]] constexpr bool is_encoded() const noexcept { return encode != nullptr; }
    /// Whether the head of a message can tell how long an element is.
    [[nodiscard]] constexpr bool has_valid_length() const noexcept {
        return is_encoded() || element_bytes <= std::numeric_limits<std::uint32_t>::max();
    }
    [[nodiscard]] constexpr bool copies_bytes() const noexcept { return assign == nullptr && encode == nullptr; }
};

template <class T>
void assign_elements(std::byte* to_memory, const std::byte* from_memory, std::size_t n) {
    static_assert(std::is_copy_assignable_v<T>, "allfold: elements of a message must be copyable");
    const auto* const values = static_cast<const T*>(static_cast<const void*>(from_memory));
    auto* const places = static_cast<T*>(static_cast<void*>(to_memory));
    if constexpr (std::is_copy_assignable_v<T>)
        for (std::size_t i = 0; i < n; ++i) places[i] = values[i];
}
template <class T>
void decode_elements(std::span<const std::byte> from, std::byte* to_memory, std::size_t n) {
    auto* const places = static_cast<T*>(static_cast<void*>(to_memory));
    for (std::size_t i = 0; i < n; ++i) {
        const std::span<const std::byte> bytes = first_encoded(from);
        places[i] = serializer<T>::read(bytes);
        from = from.subspan(sizeof(encoded_size) + bytes.size());
    }
}
template <class T, bool SharesMemory>
[[nodiscard]] consteval message_type make_message_type() {
    message_type of{sizeof(T), erased_type_hash_of<T>, type_name<T>, nullptr, nullptr, nullptr};
    if constexpr (std::is_trivially_copyable_v<T>) {
    } else if constexpr (!SharesMemory && serializable<T>) {
        of.encode = encode_objects<T>;
        of.decode = decode_elements<T>;
    } else {
        of.assign = assign_elements<T>;
    }
    return of;
}
template <class T, bool SharesMemory>
inline constexpr message_type message_type_of = make_message_type<T, SharesMemory>();

struct message_data {
    std::byte* data = nullptr;
    std::size_t elements = 0;
    const message_type* type = &message_type_of<std::byte, true>;

    [[nodiscard]] std::size_t bytes() const noexcept { return elements * type->element_bytes; }
    [[nodiscard]] bool overlaps(const message_data& other) const noexcept {
        const std::byte *const end = data + bytes(), *const other_end = other.data + other.bytes();
        return data != end && other.data != other_end && data < other_end && other.data < end;
    }
};

template <bool SharesMemory, class T>
[[nodiscard]] message_data message_data_at(const T* first, std::size_t elements) {
    return {const_cast<std::byte*>(reinterpret_cast<const std::byte*>(first)), elements,
            &message_type_of<std::remove_cv_t<T>, SharesMemory>};
}

/// Rows of trivially copyable elements.
template <class Row>
inline constexpr message_type row_type{sizeof(Row), erased_type_hash_of<Row>, type_name<Row>, nullptr, nullptr,
                                       nullptr};

/// The rows of records, which have the same number of rows in each tensor. Their type does not know the length of a row
/// yet (see `row_type_of`).
template <class X>
[[nodiscard]] message_data rows_of_records(X& x) {
    message_data all{nullptr, 0, &row_type<element_of<X>>};
    std::size_t column = 0;
    bool lacks_memory = false;
    const auto add = [&]<class V>(const V& view) {
        using access = tensor_access<V>;
        std::size_t rows = 1;
        if constexpr (access::rank > 0) rows = access::extent(view, 0);
        if (column > 0 && rows != all.elements)
            throw error(errc::bad_argument,
                        text({"records: tensor 0 has ", all.elements, " rows, but tensor ", column, " has ", rows}));
        const message_data own = detail::message_data_at<true>(access::data(view), rows);
        lacks_memory |= own.data == nullptr && detail::count_of(view) != 0;
        if (all.data == nullptr) all.data = own.data;
        all.elements = rows;
        ++column;
    };
    std::apply([&add](const auto&... views) { (add(views), ...); }, x.views());
    if (lacks_memory) all.data = nullptr;  // will be rejected
    return all;
}

/// The data of x; if it has gaps, the address of its first element and the number of its elements or rows.
template <bool SharesMemory, class X>
[[nodiscard]] message_data message_data_of(X& x) {
    if constexpr (tensor_view<std::remove_const_t<X>>) {
        return detail::message_data_at<SharesMemory>(tensor_access<std::remove_const_t<X>>::data(x),
                                                     detail::count_of(x));
    } else if constexpr (is_tensors<std::remove_const_t<X>>) {
        const auto& pieces = x.pieces();
        // A piece without memory will be rejected.
        const auto missing = std::ranges::find_if(pieces, [](const auto& piece) { return piece.data() == nullptr; });
        const auto& shown = missing == pieces.end() ? pieces.begin() : missing;
        return detail::message_data_at<SharesMemory>(pieces.empty() ? nullptr : shown->data(), x.size());
    } else if constexpr (is_records<std::remove_const_t<X>>) {
        return detail::rows_of_records(x);
    } else if constexpr (element_range<X>) {
        const auto count = static_cast<std::size_t>(std::ranges::size(x));
        if (count == 0) return detail::message_data_at<SharesMemory>(static_cast<const range_element<X>*>(nullptr), 0);
        return detail::message_data_at<SharesMemory>(std::to_address(std::ranges::begin(x)), count);
    } else {
        static_assert(!std::is_pointer_v<std::remove_cv_t<X>>,
                      "allfold: a pointer does not say how many elements there are: pass std::span(pointer, n)");
        return detail::message_data_at<SharesMemory>(std::addressof(x), 1);
    }
}

/// Whether the elements of X are trivially copyable.
template <class X>
inline constexpr bool are_bytes = std::is_trivially_copyable_v<element_of<X>>;
template <class... Views>
inline constexpr bool are_bytes<records<Views...>> = (std::is_trivially_copyable_v<element_of<Views>> && ...);

/// Whether X can be received into.
template <class X>
inline constexpr bool is_place = writable<X> && !std::is_const_v<X>;
template <class X>
    requires(is_records<std::remove_const_t<X>> || is_tensors<std::remove_const_t<X>>)
inline constexpr bool is_place<X> = writable<X>;
template <element_range X>
inline constexpr bool is_place<X> = !std::is_const_v<std::remove_reference_t<range_reference<X>>>;
template <tensor_view X>
inline constexpr bool is_place<X> = writable<X>;

/// Checks that X can be sent between ranks that do or do not share memory, can be received into if `IsPlace`, and, if
/// `Returns`, outlives the operation that is started.
template <bool SharesMemory, bool IsPlace, bool Returns, class X>
[[nodiscard]] consteval bool require_message_data() {
    using data = std::remove_cvref_t<X>;
    constexpr bool is_memory = !is_volatile<std::remove_reference_t<X>>;
    static_assert(is_memory, "allfold: the elements are volatile: copy them to ordinary memory first");
    constexpr bool crosses = !is_memory || SharesMemory || are_bytes<data> || serializable<element_of<data>>;
    static_assert(crosses,
                  "allfold: these ranks do not share memory: elements of a message must be trivially copyable, or have "
                  "an allfold::serializer");
    constexpr bool has_bytes = !is_records<data> || are_bytes<data>;
    static_assert(has_bytes,
                  "allfold: records in a message must have trivially copyable elements: send each tensor separately");
    constexpr bool is_writable = !IsPlace || is_place<std::remove_reference_t<X>>;
    static_assert(is_writable, "allfold: the receive buffer of a message must not be const");
    constexpr bool lives = !Returns || std::is_lvalue_reference_v<X> || refers<data>;
    static_assert(
        lives, "allfold: this argument would be destroyed before the operation completes: pass a variable or a view");
    return is_memory && crosses && has_bytes && is_writable && lives;
}

}  // namespace allfold::detail
