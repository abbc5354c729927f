// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <ranges>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "allfold/data/records.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/engine/detail/leave_behind.hpp"
#include "allfold/engine/kernel.hpp"
#include "allfold/error.hpp"

/// @file
/// Turns what users hand in (ranges, tensor views, records, single objects) into the one form that the engine knows:
/// contiguous columns of rows.

namespace allfold::detail {

template <class V>
using view_element = std::remove_const_t<typename tensor_access<std::remove_cvref_t<V>>::element_type>;

/// The type that an operator sees of an argument: T, or `row<Ts...>` of records.
template <class X>
struct argument {  // a single object
    using element = X;
};
template <tensor_view V>
struct argument<V> {
    using element = view_element<V>;
};
template <element_range R>
struct argument<R> {
    using element = std::remove_cv_t<std::ranges::range_value_t<R>>;
};
template <class... Views>
struct argument<records<Views...>> {
    using element = row<view_element<Views>...>;
};
template <class X>
using element_of = typename argument<std::remove_cvref_t<X>>::element;

/// Whether the elements of an argument may be written.
template <class X>
inline constexpr bool writable = !std::is_const_v<X>;
template <tensor_view V>
inline constexpr bool writable<V> = !std::is_const_v<typename tensor_access<std::remove_cv_t<V>>::element_type>;
template <element_range R>
inline constexpr bool writable<R> = !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;
template <class... Views>
inline constexpr bool writable<records<Views...>> = (writable<Views> && ...);
template <class... Views>
inline constexpr bool writable<const records<Views...>> = (writable<Views> && ...);

/// Whether an argument only refers to its elements, so that an operation in flight may keep a copy of it.
template <class X>
inline constexpr bool refers =
    tensor_view<X> || is_records<std::remove_cvref_t<X>> || std::ranges::borrowed_range<std::remove_cvref_t<X>>;

/// Elements in memory of our own, made one after the other.
template <class T>
class packed {
  public:
    packed() = default;
    explicit packed(std::size_t capacity)
        : data_(capacity ? std::allocator<T>().allocate(capacity) : nullptr), capacity_(capacity) {}
    packed(packed&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, 0)),
          capacity_(std::exchange(other.capacity_, 0)) {}
    packed& operator=(packed&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
        return *this;
    }
    ~packed() {
        std::destroy_n(data_, size_);
        if (data_) std::allocator<T>().deallocate(data_, capacity_);
    }
    void push(T value) { std::construct_at(data_ + size_++, std::move(value)); }
    /// Makes element i, the next one, or assigns to it where it is there already: its address stays the same.
    void put(std::size_t i, T value) {
        if (i < size_)
            data_[i] = std::move(value);
        else
            push(std::move(value));
    }
    [[nodiscard]] T* data() noexcept { return data_; }

  private:
    T* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

/// One argument of a call: where its rows lie, and a packed copy where they do not lie one behind the other.
template <class X>
class binding {
  public:
    using element = element_of<X>;
    static constexpr std::size_t columns = std::tuple_size_v<typename columns_of<element>::types>;
    using place_type = place<columns>;
    using widths = std::array<std::size_t, columns>;

    explicit binding(X& x) { load(x); }

    /// Reads the argument again, for another start with the same data in the same place.
    void load(X& x) {
        if constexpr (is_records<std::remove_cv_t<X>>)
            bind_records(x);
        else
            bind_one<0>(x);
    }

    [[nodiscard]] const place_type& where() const noexcept { return place_; }
    [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
    [[nodiscard]] const widths& width() const noexcept { return width_; }
    [[nodiscard]] bool has_null() const noexcept {
        for (std::size_t c = 0; c < columns; ++c)
            if (rows_ * width_[c] != 0 && place_[c] == nullptr) return true;
        return false;
    }
    /// Where the user's own rows begin and end; of a packed argument the copy's.
    [[nodiscard]] std::pair<const std::byte*, const std::byte*> extent(std::size_t column) const noexcept {
        return {place_[column], place_[column] + bytes_[column]};
    }

    /// After the collective: moves a packed result to where the user wants it.
    void unpack(X& x) {
        if constexpr (writable<X>) {
            if constexpr (is_records<std::remove_cv_t<X>>)
                [&]<std::size_t... C>(std::index_sequence<C...>) {
                    (unpack_one<C>(std::get<C>(x.views())), ...);
                }(std::make_index_sequence<columns>{});
            else
                unpack_one<0>(x);
        }
    }

    /// Keeps packed copies from being freed.
    void leave_behind() noexcept { detail::leave_behind(copies_); }

  private:
    template <std::size_t C>
    using column_type = std::tuple_element_t<C, typename columns_of<element>::types>;

    template <std::size_t C, class T>
    void set(T* data, std::size_t count) noexcept {
        place_[C] = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(data));
        bytes_[C] = count * sizeof(T);
    }

    template <std::size_t C, class V>
    void bind_one(V& v) {
        if constexpr (tensor_view<V>) {
            using access = tensor_access<std::remove_cv_t<V>>;
            const std::size_t count = count_of(v);
            if (is_contiguous(v) || access::data(v) == nullptr)
                set<C>(access::data(v), count);
            else
                pack<C>(v, count);
            rows_ = count;
        } else if constexpr (element_range<V>) {
            set<C>(std::ranges::data(v), std::ranges::size(v));
            rows_ = std::ranges::size(v);
        } else {
            set<C>(std::addressof(v), 1);
            rows_ = 1;
        }
        width_[C] = 1;
    }

    template <std::size_t C, class V>
    void pack(const V& v, std::size_t count) {
        auto& copy = std::get<C>(copies_);
        if (copy.data() == nullptr) {
            copy = packed<column_type<C>>(count);
            for_each_element(v, [&](const column_type<C>& x) { copy.push(x); });
            set<C>(copy.data(), count);
        } else {
            auto* next = copy.data();
            for_each_element(v, [&](const column_type<C>& x) { *next++ = x; });
        }
    }

    void bind_records(X& x) {
        [&]<std::size_t... C>(std::index_sequence<C...>) {
            (bind_one<C>(std::get<C>(x.views())), ...);
            width_ = {row_width(std::get<C>(x.views()))...};
            const std::array<std::size_t, columns> leading{leading_extent(std::get<C>(x.views()))...};
            rows_ = leading[0];
            for (std::size_t c = 0; c < columns; ++c) {
                if (leading[c] != rows_)
                    throw error(errc::bad_argument,
                                text({"records: tensor 0 has ", rows_, " rows, but tensor ", c, " has ", leading[c]}));
            }
        }(std::make_index_sequence<columns>{});
    }
    template <class V>
    [[nodiscard]] static std::size_t leading_extent(const V& v) {
        using access = tensor_access<std::remove_cv_t<V>>;
        if constexpr (access::rank == 0)
            return 1;
        else
            return access::extent(v, 0);
    }

    template <class V>
    [[nodiscard]] static std::size_t row_width(const V& v) {
        using access = tensor_access<std::remove_cv_t<V>>;
        std::size_t width = 1;
        for (std::size_t i = 1; i < access::rank; ++i) width *= access::extent(v, i);
        return width;
    }

    template <std::size_t C, class V>
    void unpack_one(V& v) {
        if constexpr (tensor_view<V>) {
            auto& copy = std::get<C>(copies_);
            if (copy.data() == nullptr) return;
            auto* next = copy.data();
            for_each_element(v, [&](column_type<C>& x) { x = std::move(*next++); });
        }
    }

    template <class Types>
    struct packed_columns;
    template <class... Ts>
    struct packed_columns<std::tuple<Ts...>> {
        using type = std::tuple<packed<Ts>...>;
    };

    place_type place_{};
    widths width_{};
    std::array<std::size_t, columns> bytes_{};
    std::size_t rows_ = 0;
    typename packed_columns<typename columns_of<element>::types>::type copies_;
};

}  // namespace allfold::detail
