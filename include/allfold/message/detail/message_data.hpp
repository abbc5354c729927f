// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <type_traits>

#include "allfold/data/tensor_view.hpp"
#include "allfold/engine/binding.hpp"
#include "allfold/engine/detail/type_name.hpp"
#include "allfold/error.hpp"

/// @file
/// What a message is made of, or goes to. Here the types of the caller end.

namespace allfold::detail {

/// What is known of elements when compiling.
struct message_type {
    std::size_t element_bytes;
    std::uint64_t (*hash)();
    const char* name;
    void (*assign)(std::byte*, const std::byte*, std::size_t elements);  // to, from; null: bytes are copied
};

template <class T>
void assign_elements(std::byte* to_memory, const std::byte* from_memory, std::size_t n) {
    static_assert(std::is_copy_assignable_v<T>, "allfold: elements of a message must be copyable");
    const auto* const values = static_cast<const T*>(static_cast<const void*>(from_memory));
    auto* const places = static_cast<T*>(static_cast<void*>(to_memory));
    for (std::size_t i = 0; i < n; ++i) places[i] = values[i];
}
template <class T>
[[nodiscard]] consteval message_type make_message_type() {
    if constexpr (std::is_trivially_copyable_v<T>)
        return {sizeof(T), &type_hash<T>, type_name<T>, nullptr};
    else
        return {sizeof(T), &type_hash<T>, type_name<T>, assign_elements<T>};
}
template <class T>
inline constexpr message_type message_type_of = make_message_type<T>();

struct message_data {
    std::byte* data = nullptr;
    std::size_t elements = 0;
    const message_type* type = &message_type_of<std::byte>;

    [[nodiscard]] std::size_t bytes() const noexcept { return elements * type->element_bytes; }
};

template <class T>
[[nodiscard]] message_data message_data_at(const T* first, std::size_t elements) {
    return {const_cast<std::byte*>(reinterpret_cast<const std::byte*>(first)), elements,
            &message_type_of<std::remove_cv_t<T>>};
}

template <class X>
[[nodiscard]] message_data message_data_of(X& x, [[maybe_unused]] const char* what) {
    if constexpr (tensor_view<std::remove_const_t<X>>) {
        if (!is_contiguous(x))
            throw error(errc::bad_argument,
                        text({what,
                              ": a tensor view with gaps: a message is made of elements that lie one after the "
                              "other"}));
        return message_data_at(tensor_access<std::remove_const_t<X>>::data(x), count_of(x));
    } else if constexpr (element_range<X>) {
        const auto count = static_cast<std::size_t>(std::ranges::size(x));
        if (count == 0) return message_data_at(static_cast<const range_element<X>*>(nullptr), 0);
        return message_data_at(std::to_address(std::ranges::begin(x)), count);
    } else {
        static_assert(!std::is_pointer_v<std::remove_cv_t<X>>,
                      "allfold: a pointer does not say how many elements there are: pass std::span(pointer, n)");
        return message_data_at(std::addressof(x), 1);
    }
}

template <class T>
struct message_element {
    using type = T;
};
template <element_range T>
struct message_element<T> {
    using type = range_element<T>;
};
template <tensor_view T>
struct message_element<T> {
    using type = std::remove_cv_t<typename tensor_access<T>::element_type>;
};

/// Whether X can be received into.
template <class X>
inline constexpr bool is_place = writable<X> && !std::is_const_v<X>;
template <element_range X>
inline constexpr bool is_place<X> = !std::is_const_v<std::remove_reference_t<range_reference<X>>>;
template <tensor_view X>
inline constexpr bool is_place<X> = writable<X>;

/// Whether X can be sent between such ranks, and outlives the operation that is started.
template <bool SharesMemory, bool IsPlace, bool Returns, class X>
[[nodiscard]] consteval bool require_message_data() {
    using data = std::remove_cvref_t<X>;
    constexpr bool crosses = SharesMemory || std::is_trivially_copyable_v<typename message_element<data>::type>;
    static_assert(crosses,
                  "allfold: these ranks do not share memory: elements of a message must be trivially copyable");
    constexpr bool is_writable = !IsPlace || is_place<std::remove_reference_t<X>>;
    static_assert(is_writable, "allfold: the place of a message must not be const");
    constexpr bool lives = !Returns || std::is_lvalue_reference_v<X> || refers<data>;
    static_assert(lives, "allfold: this argument would be gone before the message is: pass a variable or a view");
    return crosses && is_writable && lives;
}

}  // namespace allfold::detail
