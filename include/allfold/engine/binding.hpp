// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/data/raw_rows.hpp"
#include "allfold/data/records.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/data/tensors.hpp"
#include "allfold/engine/detail/leak.hpp"
#include "allfold/engine/detail/task_memory.hpp"
#include "allfold/engine/row_table.hpp"
#include "allfold/error.hpp"

/// @file
/// Converts what users pass (ranges, tensor views, records, single objects) into the one form that the engine works on:
/// contiguous columns of rows.

namespace allfold::detail {

template <class V>
using view_element = std::remove_const_t<typename tensor_access<std::remove_cvref_t<V>>::element_type>;

/// The element type of an argument as an operator sees it: T, or `row<Ts...>` for records.
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
    using element = range_element<R>;
};
template <class... Views>
struct argument<records<Views...>> {
    using element = row<view_element<Views>...>;
};
template <class Byte>
struct argument<raw_rows<Byte>> {
    using element = row<std::byte>;
};
template <class T>
struct argument<tensors<T>> {
    using element = std::remove_const_t<T>;
};
template <class X>
using element_of = typename argument<std::remove_cvref_t<X>>::element;

/// Whether the elements of an argument may be written.
template <class X>
inline constexpr bool writable = !std::is_const_v<X>;
template <tensor_view V>
inline constexpr bool writable<V> = !std::is_const_v<typename tensor_access<std::remove_cv_t<V>>::element_type>;
template <element_range R>
inline constexpr bool writable<R> = !std::is_const_v<std::remove_reference_t<range_reference<R>>>;
template <class... Views>
inline constexpr bool writable<records<Views...>> = (writable<Views> && ...);
template <class... Views>
inline constexpr bool writable<const records<Views...>> = (writable<Views> && ...);

template <class T>
inline constexpr bool writable<tensors<T>> = !std::is_const_v<T>;
template <class T>
inline constexpr bool writable<const tensors<T>> = !std::is_const_v<T>;

/// Whether the elements of an argument are volatile: they could be neither copied as bytes nor passed to an operator.
template <class X>
inline constexpr bool is_volatile = std::is_volatile_v<X> || std::is_volatile_v<element_of<X>>;
template <element_range R>
inline constexpr bool is_volatile<R> = std::is_volatile_v<std::remove_reference_t<range_reference<R>>>;

/// Whether the caller states how the rows of an argument are aligned.
template <class X>
inline constexpr bool states_alignment = is_raw<X>;
template <class... Views>
inline constexpr bool states_alignment<records<Views...>> = (is_raw<Views> || ...);

/// Whether an argument merely refers to its elements, so that an operation in flight may keep a copy of it.
template <class X>
inline constexpr bool refers =
    tensor_view<X> || is_records<std::remove_cvref_t<X>> || is_tensors<std::remove_cvref_t<X>> ||
    std::ranges::enable_borrowed_range<std::remove_cvref_t<X>>;

/// Replaces an element by another one. Bytes always can be replaced, even if the elements they make up cannot be
/// assigned.
template <class T>
void replace(T& old, std::type_identity_t<T>&& by) {
    if constexpr (std::is_copy_assignable_v<T> || !std::is_trivially_copyable_v<T>)
        old = std::move(by);
    else
        std::memcpy(static_cast<void*>(std::addressof(old)), std::addressof(by), sizeof(T));
}

/// Elements in memory of our own.
template <class T>
class packed {
  public:
    packed() = default;
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
        if (data_) free();
    }
    /// Makes room for `count` elements; called again, it keeps what is there.
    void reserve(std::size_t count) {
        if (data_ != nullptr || count == 0) return;
        data_ =
            are_few(count) ? static_cast<T*>(few::allocate(count * sizeof(T))) : std::allocator<T>().allocate(count);
        capacity_ = count;
        if constexpr (std::is_trivially_copyable_v<T>) size_ = count;  // any value will do
    }
    /// Constructs element i, which must be the next one, or replaces it if it exists already: its address does not
    /// change.
    void put(std::size_t i, T value) {
        if (i < size_) {
            detail::replace(data_[i], std::move(value));
        } else {
            std::construct_at(data_ + size_, std::move(value));
            ++size_;
        }
    }
    [[nodiscard]] T* data() const noexcept { return data_; }

  private:
    using few = block_pool<256>;
    [[nodiscard]] static constexpr bool are_few(std::size_t count) noexcept {
        return alignof(T) <= few::alignment && count <= few::block_bytes / sizeof(T);
    }
    void free() noexcept {
        if (are_few(capacity_))
            few::free(data_, capacity_ * sizeof(T));
        else
            std::allocator<T>().deallocate(data_, capacity_);
    }

    T* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

/// Elements in memory of our own for each column of a row.
template <class Types>
struct packed_columns;
template <class... Ts>
struct packed_columns<std::tuple<Ts...>> {
    using type = std::tuple<packed<Ts>...>;
};

[[nodiscard, gnu::cold]] inline std::string text_of_tensor(std::size_t column, std::size_t columns,
                                                           const char* argument) {
    return columns == 1 ? std::string(argument) : text({"tensor ", column, " of ", argument});
}

/// Why some elements of a view certainly share memory; empty if that is not certain.
template <tensor_view V>
[[nodiscard]] std::string why_elements_coincide(const V& v) {
    using access = tensor_access<V>;
    if (detail::count_of(v) == 0) return {};
    for (std::size_t i = 0; i < access::rank; ++i)
        if (access::extent(v, i) > 1 && access::stride(v, i) == 0)
            return text({"axis ", i, " of extent ", access::extent(v, i), " has stride 0"});
    if constexpr (requires { v.mapping().is_unique(); })  // std::mdspan
        if (!v.mapping().is_unique()) return "its mapping is not unique";
    return {};
}
/// Calls reject(text), which throws, if some elements of what is to be written certainly share memory.
template <class X, class Reject>
void require_distinct_elements(const X& x, const char* argument, Reject reject) {
    std::size_t column = 0;
    const auto require_of = [&](const auto& view) {
        if constexpr (tensor_view<decltype(view)>)
            if (const std::string why = detail::why_elements_coincide(view); !why.empty())
                reject(text({text_of_tensor(column, column_count<element_of<X>>, argument),
                             " has elements that share memory: ", why}));
        ++column;
    };
    if constexpr (is_records<X>)
        std::apply([&](const auto&... views) { (require_of(views), ...); }, x.views());
    else
        require_of(x);
}

/// A range of the caller's memory.
struct memory_range {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;

    [[nodiscard]] bool shares(const memory_range& other) const noexcept {
        return begin != end && other.begin != other.end && begin < other.end && other.begin < end;
    }
};

/// Whether two sets of ranges share memory; both are sorted by address.
[[nodiscard]] inline bool share_memory(std::span<const memory_range> a, std::span<const memory_range> b) noexcept {
    for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        if (a[i].shares(b[j])) return true;
        ++(a[i].begin == a[i].end || a[i].end <= b[j].begin ? i : j);
    }
    return false;
}

/// Adds a range, joined to the last one if it continues that.
inline void add_range(std::vector<memory_range>& all, const std::byte* begin, std::size_t bytes) {
    if (begin == nullptr || bytes == 0) return;
    if (!all.empty() && all.back().end == begin)
        all.back().end += bytes;
    else
        all.push_back({begin, begin + bytes});
}

/// Columns of rows, and the length of a row in each column: what all kinds of arguments are converted to.
template <std::size_t Columns>
struct column_set {
    std::array<std::byte*, Columns> first{};
    std::array<std::size_t, Columns> widths{};  ///< elements in a row
    std::array<std::size_t, Columns> bytes{};   ///< of a row
    std::array<memory_range, Columns> range{};  ///< the caller's own memory; empty for a packed column
    std::size_t rows = 0;
    const scattered* pieces = nullptr;  ///< used instead if the only column lies in several pieces

    [[nodiscard]] bool has_null() const noexcept {
        for (std::size_t c = 0; c < Columns; ++c)
            if (rows * bytes[c] != 0 && first[c] == nullptr) return true;
        return false;
    }
    [[nodiscard]] std::size_t row_bytes() const noexcept {
        std::size_t all = 0;
        for (const std::size_t each : bytes) all += each;
        return all;
    }
    [[nodiscard]] place at(std::size_t row = 0) const noexcept { return {first.data(), row, pieces}; }
};

/// Where the rows of an argument lie, in the caller's memory.
template <class X>
class bound_rows {
  public:
    using element = element_of<X>;
    static constexpr std::size_t columns = column_count<element>;

    explicit bound_rows(X& x) {
        for_each_view(x, [&]<std::size_t C>(auto& view) { bind<C>(view); });
    }

    [[nodiscard]] const column_set<columns>& where() const noexcept { return where_; }
    [[nodiscard]] std::size_t rows() const noexcept { return where_.rows; }
    /// The strictest alignment of all columns.
    [[nodiscard]] std::size_t alignment() const noexcept {
        std::size_t most = every_column<typename columns_of<element>::types>::alignment;
        if constexpr (is_stated)
            for (const std::size_t each : alignments_) most = std::max(most, each);
        return most;
    }
    /// The first column whose rows are not aligned as stated; `columns` if there is none.
    [[nodiscard]] std::size_t misaligned_column() const noexcept {
        std::size_t c = 0;
        if constexpr (is_stated)
            while (c < columns && is_aligned(c)) ++c;
        else
            c = columns;
        return c;
    }
    [[nodiscard]] std::size_t alignment_of(std::size_t column) const noexcept {
        if constexpr (is_stated)
            return alignments_[column];
        else
            return alignment();
    }
    /// Whether the rows of each column are contiguous.
    [[nodiscard]] bool are_contiguous() const noexcept {
        bool all = true;
        for (const bool each : strided_) all = all && !each;
        return all;
    }

  protected:
    template <std::size_t C>
    using type_of = column_type<element, C>;

    template <class Visit>
    static void for_each_view(X& x, Visit visit) {
        if constexpr (is_records<std::remove_cv_t<X>>)
            for_each_index(std::make_index_sequence<columns>(),
                           [&]<std::size_t C>() { visit.template operator()<C>(std::get<C>(x.views())); });
        else
            visit.template operator()<0>(x);
    }

    column_set<columns> where_;
    std::array<bool, columns> strided_{};

  private:
    struct none {};
    static constexpr bool is_stated = states_alignment<std::remove_cv_t<X>>;

    /// Whether the stated alignment is a power of two, no stricter than that of buffers, and met by the address of each
    /// row.
    [[nodiscard]] bool is_aligned(std::size_t c) const noexcept
        requires(is_stated)
    {
        const std::size_t stated = alignments_[c];
        const bool is_sound = std::has_single_bit(stated) && stated <= raw_rows<std::byte>::max_alignment;
        return is_sound && where_.bytes[c] % stated == 0 &&
               (where_.rows == 0 || reinterpret_cast<std::uintptr_t>(where_.first[c]) % stated == 0);
    }

    /// The address of the first piece; null if there is none, or if any piece is null.
    template <class Pieces>
    [[nodiscard]] static const void* first_of(const Pieces& pieces) noexcept {
        for (const auto& each : pieces)
            if (each.data() == nullptr) return nullptr;
        return pieces.empty() ? nullptr : pieces.front().data();
    }
    template <std::size_t C, class V>
    void state_alignment([[maybe_unused]] const V& view) noexcept {
        if constexpr (is_raw<std::remove_cv_t<V>>)
            alignments_[C] = view.alignment();
        else if constexpr (is_stated)
            alignments_[C] = alignof(type_of<C>);
    }
    template <std::size_t C, class V>
    void bind(V& view) {
        std::size_t rows = 1, width = 1;
        const void* first = nullptr;
        if constexpr (tensor_view<V>) {
            using access = tensor_access<std::remove_cv_t<V>>;
            constexpr bool has_rows = is_records<std::remove_cv_t<X>> || is_raw<std::remove_cv_t<X>>;
            constexpr std::size_t leading = has_rows && access::rank > 0 ? 1 : access::rank;
            for (std::size_t i = 0; i < access::rank; ++i) (i < leading ? rows : width) *= access::extent(view, i);
            first = access::data(view);
            if (first != nullptr && !detail::is_contiguous(view)) strided_[C] = true;
        } else if constexpr (is_tensors<std::remove_cv_t<V>>) {
            rows = view.size();
            strided_[C] = view.pieces().size() > 1;
            first = first_of(view.pieces());
        } else if constexpr (element_range<V>) {
            first = std::ranges::data(view);
            rows = std::ranges::size(view);
        } else {
            first = std::addressof(view);
        }
        if (C > 0 && rows != where_.rows)
            throw error(errc::bad_argument,
                        text({"records: tensor 0 has ", where_.rows, " rows, but tensor ", C, " has ", rows}));
        state_alignment<C>(view);
        where_.rows = rows;
        where_.widths[C] = width;
        where_.bytes[C] = width * sizeof(type_of<C>);
        where_.first[C] = static_cast<std::byte*>(const_cast<void*>(first));
        if (!strided_[C] && first != nullptr)
            where_.range[C] = {where_.first[C], where_.first[C] + rows * where_.bytes[C]};
    }

    [[no_unique_address]] std::conditional_t<is_stated, std::array<std::size_t, columns>, none> alignments_{};
};

/// One argument of a call: where its rows lie, and a packed copy of them if they are not contiguous.
template <class X>
class binding : public bound_rows<X> {
  public:
    using bound_rows<X>::columns;
    using element = typename bound_rows<X>::element;

    explicit binding(X& x) : bound_rows<X>(x) {
        if constexpr (may_be_scattered)
            if (this->strided_[0]) find_pieces(x);
    }

    /// The memory it spans, including gaps between its pieces.
    [[nodiscard]] const memory_range& hull() const noexcept {
        if constexpr (may_be_scattered)
            if (pieces_.list) return pieces_.hull;
        return this->where_.range[0];
    }
    /// Whether it may have elements in common with `other`.
    template <class Y>
    [[nodiscard]] bool shares_memory(const binding<Y>& other) const {
        if (!hull().shares(other.hull())) return false;
        return (!is_scattered() && !other.is_scattered()) || detail::share_memory(ranges(), other.ranges());
    }
    /// The memory of its pieces, sorted by address.
    [[nodiscard]] std::vector<memory_range> ranges() const {
        if (!is_scattered()) return {hull()};
        std::vector<memory_range> all;
        if constexpr (may_be_scattered) {
            all.reserve(pieces_.list->size());
            pieces_.list->for_each([&](const std::byte* first, std::size_t rows) {
                all.push_back({first, first + rows * sizeof(type_of<0>)});
            });
            std::ranges::sort(all, std::less<>(), &memory_range::begin);
        }
        return all;
    }
    [[nodiscard]] bool is_scattered() const noexcept { return this->where_.pieces != nullptr; }
    /// Uses a packed copy rather than the pieces where they lie.
    void pack() noexcept { this->where_.pieces = nullptr; }

    /// Adds the caller's memory, whether or not there is a packed copy of it.
    void add_memory(X& x, std::vector<memory_range>& all) const {
        for (const memory_range& each : this->where_.range)
            add_range(all, each.begin, static_cast<std::size_t>(each.end - each.begin));
        if constexpr (may_be_strided)
            this->for_each_view(x, [&]<std::size_t C>(auto& view) {
                if (this->strided_[C]) add_runs<C>(view, all);
            });
    }

    /// Before a call: makes the packed copies, and fills them with elements if `reads`. (Objects are always copied,
    /// since they need not be default-constructible.)
    void load(X& x, bool reads) {
        if constexpr (may_be_strided)
            this->for_each_view(x, [&]<std::size_t C>(auto& view) { load_column<C>(view, reads); });
    }
    /// Whether `unload` moves objects, which are then no longer in the packed copy.
    [[nodiscard]] bool moves_packed() const noexcept {
        if constexpr (every_column<typename columns_of<element>::types>::copyable)
            return false;
        else
            return !this->are_contiguous() && !is_scattered();
    }
    /// After a call: moves a packed result to where the caller wants it.
    void unload(X& x) {
        if constexpr (may_be_strided && writable<X>)
            this->for_each_view(x, [&]<std::size_t C>(auto& view) { unload_column<C>(view); });
    }
    /// Keeps packed copies from being freed.
    void leak() noexcept {
        detail::leak(copies_);
        if constexpr (may_be_scattered) detail::leak(pieces_.list);
    }

  private:
    template <std::size_t C>
    using type_of = column_type<element, C>;
    static constexpr bool may_be_scattered =
        (tensor_view<X> && !is_raw<std::remove_cv_t<X>>) || is_tensors<std::remove_cv_t<X>>;
    static constexpr bool may_be_strided = may_be_scattered || is_records<std::remove_cv_t<X>>;
    /// Shorter pieces are packed. Measured with all_reduce of a list on a Xeon (Sapphire Rapids), two ranks on cores
    /// 155 ns apart, packed relative to folded in place: 64 pieces take 0.45x the time at 128 B each, 0.64x at 256 B,
    /// 0.81x at 512 B, 0.83x at 1 KiB and 1.4x at 2 KiB; 1024 pieces take 0.16x, 0.33x, 0.59x, 1.2x and 1.5x; 8 pieces
    /// take 1.0x at all of these sizes. Not measured where cores share a fast cache.
    static constexpr std::size_t min_piece_bytes = 1024;

    struct none {};
    struct pieces_found {
        std::unique_ptr<scattered> list;  // peers may read it in place
        memory_range hull;
    };

    void find_pieces(X& x) {
        if (has_short_pieces(x)) return;
        pieces_.list = std::make_unique<scattered>();
        const auto add = [this](const auto* first, std::size_t count) {
            auto* const begin = reinterpret_cast<std::byte*>(const_cast<type_of<0>*>(first));
            const std::byte* const end = begin + count * sizeof(type_of<0>);
            memory_range& hull = pieces_.hull;
            if (hull.begin == nullptr || std::less<>()(begin, hull.begin)) hull.begin = begin;
            if (hull.end == nullptr || std::less<>()(hull.end, end)) hull.end = end;
            pieces_.list->add(begin, count);
        };
        if constexpr (tensor_view<X>) {
            detail::for_each_run(x, add);
        } else {
            for (const auto& piece : x.pieces()) add(piece.data(), piece.size());
        }
        this->where_.pieces = pieces_.list.get();
    }
    /// Whether packing is the better choice: its pieces are short on average, or some elements lie in several of them.
    [[nodiscard]] bool has_short_pieces(const X& x) const {
        if constexpr (tensor_view<X>)
            return detail::run_length(x) * sizeof(type_of<0>) < min_piece_bytes || !detail::is_nested(x);
        else
            return this->where_.rows * sizeof(type_of<0>) < x.pieces().size() * min_piece_bytes;
    }

    template <std::size_t C, class V>
    static void add_runs(const V& view, std::vector<memory_range>& all) {
        const auto add = [&all](const auto* first, std::size_t count) {
            add_range(all, reinterpret_cast<const std::byte*>(first), count * sizeof(type_of<C>));
        };
        if constexpr (tensor_view<V>)
            detail::for_each_run(view, add);
        else if constexpr (is_tensors<V>)
            for (const auto& piece : view.pieces()) add(piece.data(), piece.size());
    }
    template <std::size_t C, class V>
    void load_column(V& view, bool reads) {
        if constexpr (tensor_view<V> || is_tensors<std::remove_cv_t<V>>) {
            if (!this->strided_[C] || is_scattered()) return;
            auto& copy = std::get<C>(copies_);
            copy.reserve(this->where_.rows * this->where_.widths[C]);
            this->where_.first[C] = reinterpret_cast<std::byte*>(copy.data());
            if (!reads && std::is_trivially_copyable_v<type_of<C>>) return;
            std::size_t i = 0;
            for_each_of(view, [&](const type_of<C>& x) { copy.put(i++, x); });
        }
    }
    template <std::size_t C, class V>
    void unload_column(V& view) {
        if constexpr (tensor_view<V> || is_tensors<std::remove_cv_t<V>>) {
            if (!this->strided_[C] || is_scattered()) return;
            auto* next = std::get<C>(copies_).data();
            for_each_of(view, [&](type_of<C>& x) { detail::replace(x, std::move(*next++)); });
        }
    }
    template <class V, class Visit>
    static void for_each_of(V& view, Visit visit) {
        if constexpr (tensor_view<V>)
            detail::for_each_element(view, visit);
        else
            for (const auto& piece : view.pieces())
                for (auto& x : piece) visit(x);
    }

    [[no_unique_address]] std::conditional_t<
        may_be_strided, typename packed_columns<typename columns_of<element>::types>::type, std::tuple<>> copies_;
    [[no_unique_address]] std::conditional_t<may_be_scattered, pieces_found, none> pieces_;
};

}  // namespace allfold::detail
