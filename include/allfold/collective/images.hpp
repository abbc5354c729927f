// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/detail/stages.hpp"
#include "allfold/collective/exclusive_scan.hpp"
#include "allfold/collective/inclusive_scan.hpp"
#include "allfold/collective/reduce.hpp"
#include "allfold/collective/reduce_scatter.hpp"
#include "allfold/data/detail/small_vector.hpp"
#include "allfold/data/raw_rows.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/data/tensors.hpp"

/// @file
/// Several operands per rank.

namespace allfold {

template <class T>
class images;

namespace detail {

template <class X>
inline constexpr bool is_images = false;
template <class T>
inline constexpr bool is_images<images<T>> = true;

/// One operand: a list of `tensors`, a tensor view, a contiguous range, or a variable.
template <class X>
concept image = !is_images<std::remove_cvref_t<X>> && (is_tensors<std::remove_cvref_t<X>> || tensor_view<X> ||
                                                       element_range<X> || std::is_lvalue_reference_v<X>);

template <class X>
struct image_element {
    using type = std::remove_reference_t<X>;
};
template <class X>
    requires(tensor_view<X> || element_range<X>)
struct image_element<X> : element_type_of<X> {};
template <class X>
    requires is_tensors<std::remove_cvref_t<X>>
struct image_element<X> {
    using type = typename std::remove_cvref_t<X>::element_type;
};

/// Adds the pieces of an operand; returns how many elements it has.
template <class T, class X>
std::size_t add_operand(piece_list<T>& to, X& x) {
    constexpr bool has_type = !is_raw<std::remove_cvref_t<X>>;
    static_assert(has_type, "allfold: raw rows cannot be an image, whose elements must have a type: pass a span");
    constexpr bool is_alike = !has_type || std::is_convertible_v<typename image_element<X&>::type(*)[], T(*)[]>;
    static_assert(is_alike, "allfold: all images must have the same element type: make one call for each type");
    if constexpr (!has_type || !is_alike) {
        return 0;
    } else if constexpr (is_tensors<std::remove_cvref_t<X>>) {
        for (const auto& each : x.pieces()) to.push_back(each);
        return x.size();
    } else if constexpr (tensor_view<X> || element_range<X>) {
        return detail::add_pieces(to, x);
    } else {
        to.push_back(std::span<T>(std::addressof(x), 1));
        return 1;
    }
}

}  // namespace detail

/// Several operands of this rank, each of the same number n of elements. The collective behaves as if each image were
/// the operand of a rank of its own, with this rank's images in place of this rank, in the given order.
///
///     all_reduce(comm, images(a, b, c), total, sum());                // of all images of all ranks
///     reduce(comm, images(a, b, c), total, op, root{1});
///     reduce_scatter(comm, images(a, b), shard, op);                  // gradients of several batches, say
///     inclusive_scan(comm, images(a, b), images(x, y), op);           // each image gets its own prefix
///     all_reduce(comm, images(a, b), op);                             // in place: each image becomes the fold
///     all_reduce(comm, images<float>::none(n), total, sum());         // a rank that contributes nothing
///
/// - Images are contiguous ranges, tensor views, lists of `tensors`, and variables, all by reference. Ranks may have
///   different numbers of images, but none only if the operator has an identity.
/// - In place: after a reduce the images of the root hold the fold, and those of other ranks are unchanged; a
///   reduce_scatter writes a single operand, as long as the block. An exclusive scan gives the identity of the operator
///   to the very first image; if there is none, that image is left unchanged.
/// - Order: image order, rank by rank; for every operator, the images of one rank are folded together first.
///   `order::tree`: a fixed bracketing of these folds.
/// - An operator with `lower` receives the number of all contributing images, which takes one more collective, on a
///   single number.
/// - Cost: that of the collective on one operand, preceded by one fold of n elements for each image but the first and a
///   copy of n elements; in scans, as many folds again. An inclusive scan costs as much as an exclusive one.
/// - Errors: as in the collective; `mismatch` for images of different lengths, `bad_argument` for no images without an
///   identity and for lists in a reduce_scatter, `overlap` in scans: the rank concerned throws before anything is sent,
///   and so do the others.
/// - `start` and `prepare` work as for any collective; a prepared operation reads the images at each start.
/// - Source: Bonachea and Hargrove, "GASNet collectives design notes", 2004, where images are the threads of a node.
/// - Example: examples/collectives.cpp
template <class T>
class images {
  public:
    using element_type = T;

    template <detail::image First, detail::image... Rest>
    explicit images(First&& first, Rest&&... rest) {
        add(first);
        (add(rest), ...);
    }
    /// No operand, while other ranks have operands of n elements.
    [[nodiscard]] static images none(std::size_t n) {
        images made;
        made.length_ = n;
        return made;
    }
    /// Adds an image.
    template <detail::image X>
    images& add(X&& x) {
        const std::size_t length = detail::add_operand(pieces_, x);
        if (ends_.empty()) length_ = length;
        has_list_ |= detail::is_tensors<std::remove_cvref_t<X>>;
        ends_.push_back({pieces_.size(), length});
        return *this;
    }

    [[nodiscard]] std::size_t count() const noexcept { return ends_.size(); }
    /// The number of elements of each image, or of the first one if they differ.
    [[nodiscard]] std::size_t length() const noexcept { return length_; }
    /// The number of elements of one of them.
    [[nodiscard]] std::size_t length_of(std::size_t image) const noexcept { return ends_[image].length; }
    /// Whether any of them is a list of tensors.
    [[nodiscard]] bool has_list() const noexcept { return has_list_; }
    /// The contiguous pieces of memory that hold the elements of one of them.
    [[nodiscard]] std::span<const std::span<T>> pieces_of(std::size_t image) const noexcept {
        const std::size_t first = image == 0 ? 0 : ends_[image - 1].piece;
        return {pieces_.data() + first, ends_[image].piece - first};
    }

  private:
    images() = default;

    struct end {
        std::size_t piece;   // the one after its last
        std::size_t length;  // of the image
    };
    detail::piece_list<T> pieces_;
    detail::small_vector<end, 8> ends_;
    std::size_t length_ = 0;
    bool has_list_ = false;
};

/// The elements are constant if those of any operand are.
template <class First, class... Rest>
images(First&&, Rest&&...) -> images<
    std::conditional_t<(std::is_const_v<typename detail::image_element<Rest>::type> || ...),
                       const typename detail::image_element<First>::type, typename detail::image_element<First>::type>>;

namespace detail {

template <class T>
struct argument<images<T>> {
    using element = std::remove_const_t<T>;
};
template <class T>
inline constexpr bool refers<images<T>> = true;
template <class T>
inline constexpr bool writable<images<T>> = !std::is_const_v<T>;
template <class T>
inline constexpr bool writable<const images<T>> = !std::is_const_v<T>;

/// Iterates over the elements of an operand.
template <class T>
class element_cursor {
  public:
    explicit element_cursor(std::span<const std::span<T>> pieces) : pieces_(pieces) {}
    /// The next element, which must exist.
    [[nodiscard]] T& next() {
        skip_ended();
        return pieces_.front()[at_++];
    }
    /// The next elements, at most this many, that lie one after another; at least one must exist.
    [[nodiscard]] std::span<T> next_run(std::size_t most) {
        skip_ended();
        const std::span<T> rest = pieces_.front().subspan(at_), run = rest.first(std::min(most, rest.size()));
        at_ += run.size();
        return run;
    }

  private:
    void skip_ended() {
        while (at_ == pieces_.front().size()) {
            pieces_ = pieces_.subspan(1);
            at_ = 0;
        }
    }

    std::span<const std::span<T>> pieces_;
    std::size_t at_ = 0;
};

/// An operator on its states alone, which are not lifted or lowered any more.
template <class Op, class State>
struct on_states {
    Op op;

    template <class>
    static constexpr law_set laws_on = laws_of<Op, State>;
    [[nodiscard]] State operator()(const State& a, const State& b) const { return detail::fold_two<State>(op, a, b); }
    [[nodiscard]] bool commutative() const
        requires says_commutative<Op, State>
    {
        return detail::commutes<State>(op);
    }
    [[nodiscard]] State identity() const
        requires operator_with_identity<Op, State>
    {
        return identity_of<State>(op);
    }
};

/// One contiguous piece of memory of an image.
struct image_memory {
    memory_range bytes;
    std::size_t image;
    bool is_written;
};
template <class T>
void list_memory(const images<T>& list, bool is_written, std::vector<image_memory>& all) {
    for (std::size_t i = 0; i < list.count(); ++i)
        for (const auto& piece : list.pieces_of(i)) {
            const auto bytes = std::as_bytes(piece);
            if (!bytes.empty()) all.push_back({{bytes.data(), bytes.data() + bytes.size()}, i, is_written});
        }
}

/// Throws if an output would overwrite what is still to be read: an output may only be the same memory as the input
/// with the same number.
template <class In, class Out>
void require_images_apart(const arrangement_place& at, const images<In>& in, const images<Out>& out) {
    std::vector<image_memory> all;
    detail::list_memory(in, false, all);
    detail::list_memory(out, true, all);
    // An output is sorted before an input that begins at the same address: only then may the two be the same.
    std::ranges::sort(all, {}, [](const image_memory& s) { return std::pair(s.bytes.begin, !s.is_written); });
    const image_memory* furthest[2] = {nullptr, nullptr};  // the furthest-reaching of those read, and of those written
    const auto require_apart_from = [&](const image_memory* other, const image_memory& each) {
        if (other == nullptr || !each.bytes.shares(other->bytes) || (!other->is_written && !each.is_written)) return;
        const bool is_same = other->is_written && !each.is_written && other->image == each.image &&
                             other->bytes.begin == each.bytes.begin && other->bytes.end == each.bytes.end;
        if (!is_same)
            at.reject(errc::overlap, {other->is_written ? "output " : "input ", other->image, " and ",
                                      each.is_written ? "output " : "input ", each.image, " share memory"});
    };
    for (const image_memory& each : all) {
        require_apart_from(furthest[false], each);
        require_apart_from(furthest[true], each);
        const image_memory*& last = furthest[each.is_written];
        if (last == nullptr || last->bytes.end < each.bytes.end) last = &each;
    }
}

/// One call on images.
template <verb V, class Collective, class Comm, class Op, class T, class Out, class... Options>
class image_call final : public base_of_call<V> {
    static constexpr bool is_inclusive = std::same_as<Collective, inclusive_scan_collective>;
    static constexpr bool is_scan = is_inclusive || std::same_as<Collective, exclusive_scan_collective>;
    static constexpr bool is_scattered = std::same_as<Collective, reduce_scatter_collective>;
    using value = std::remove_const_t<T>;
    using state = typename state_of<Op, value>::type;
    static constexpr bool is_lowered = lowering_operator<Op, state>;
    static constexpr bool folds_columns =
        std::same_as<value, state> && !lifts<Op, value> && std::is_trivially_copyable_v<state>;
    static constexpr bool may_store_directly =
        (is_scattered || std::same_as<Collective, all_reduce_collective>) && std::same_as<Out, state> && !is_lowered;

  public:
    image_call(Comm& comm, const images<T>& in, images<Out> out, const Op& op, const Options&... options)
        : comm_(comm), in_(in), out_(std::move(out)), op_(op), options_(options...) {}

    template <class Stages>
    void lay_out(Stages& stages) {
        detail::make_or_abort(comm_, [&] {
            require_fitting();
            folds_.reserve(in_.length());
            if (is_scattered && !stores_directly()) block_.reserve(out_.length());
        });
        detail::wait_for_entry(stages, options_);
        stages.own([this] { fold_own(); });
        std::apply(
            [&](const auto&... said) {
                if constexpr (lifts<Op, value> || is_lowered)
                    fold_ranks(stages, on_states<Op, state>{op_}, said...);
                else
                    fold_ranks(stages, op_, said...);
                if constexpr (is_lowered && is_scan)
                    stages.run(exclusive_scan, contributions_, sum(), limit_of(said...));
                if constexpr (is_lowered && !is_scan) stages.run(all_reduce, contributions_, sum(), limit_of(said...));
            },
            options_);
        stages.own([this] {
            if constexpr (is_scan)
                store_prefixes();
            else if (is_wanted() && !stores_directly())
                for (std::size_t k = 0; k < out_.count(); ++k)
                    store(out_.pieces_of(k), (is_scattered ? block_ : folds_).data());
        });
    }

  private:
    /// Folds what each rank has folded from its images.
    template <class Stages, class Folding, class... Said>
    void fold_ranks(Stages& stages, const Folding& op, const Said&... said) {
        constexpr std::conditional_t<is_scan, exclusive_scan_collective, Collective> fold;
        const std::span<state> own(folds_.data(), in_.length());
        if constexpr (may_store_directly)
            if (stores_directly())
                return stages.run(fold, std::span<const state>(own), out_.pieces_of(0).front(), op, said...);
        if constexpr (is_scattered)
            stages.run(fold, std::span<const state>(own), std::span(block_.data(), out_.length()), op, said...);
        else
            stages.run(fold, own, op, said...);
    }
    /// Whether the collective writes the result to where the caller wants it.
    [[nodiscard]] bool stores_directly() const {
        return may_store_directly && out_.count() == 1 && out_.pieces_of(0).size() == 1;
    }

    [[nodiscard]] arrangement_place here() const { return {Collective::promise.name, comm_.rank(), comm_.size()}; }
    /// Whether this rank gets a result.
    [[nodiscard]] bool is_wanted() const {
        if constexpr (has_option<root, Options...>)
            return !Collective::promise.rooted || comm_.rank() == std::get<root>(options_).rank;
        else
            return !Collective::promise.rooted || comm_.rank() == 0;
    }

    void require_fitting() const {
        require_data(in_, "image");
        if (is_wanted()) require_data(out_, "output");
        if constexpr (is_scan) require_places();
        if (is_scattered && (in_.has_list() || out_.has_list()))
            here().reject(errc::bad_argument, {"each tensor of a list has blocks of its own, but images are cut as a "
                                               "whole: make one call for each tensor"});
        require_lengths(in_, "image");
        if (!is_scattered && is_wanted()) require_lengths(out_, "output");
    }
    template <class X>
    void require_data(const images<X>& list, const char* name) const {
        for (std::size_t i = 0; i < list.count(); ++i)
            for (const std::span<X>& piece : list.pieces_of(i))
                if (piece.data() == nullptr && !piece.empty())
                    here().reject(errc::bad_argument,
                                  {name, " ", i, " has ", list.length_of(i), " elements but a null data pointer"});
    }
    template <class X>
    void require_lengths(const images<X>& list, const char* name) const {
        for (std::size_t i = 0; i < list.count(); ++i)
            if (const std::size_t own = list.length_of(i); own != in_.length())
                here().reject(errc::mismatch,
                              {name, " ", i, " has ", own, " elements, but image 0 has ", in_.length()});
    }
    void require_places() const {
        require_lengths(out_, "output");
        if (out_.count() != in_.count())
            here().reject(errc::mismatch, {"there are ", out_.count(), " outputs for ", in_.count(), " images"});
        detail::require_images_apart(here(), in_, out_);
    }

    void store(std::span<const std::span<Out>> out, const state* fold) const {
        for (const std::span<Out>& piece : out)
            for (Out& place : piece) place = lowered(*fold++, contributions_);
    }
    [[nodiscard]] Out lowered(const state& fold, int contributions) const {
        return static_cast<Out>(detail::lowered(op_, fold, contributions));
    }
    [[nodiscard]] state lifted(const value& x) const { return static_cast<state>(detail::lifted(op_, x)); }
    /// The deadline for the collective that counts contributions.
    template <class... Said>
    [[nodiscard]] static deadline limit_of(const Said&... said) {
        const deadline* const limit = find_option<deadline>(said...);
        return limit != nullptr ? *limit : deadline(deadline::clock::duration::max());
    }

    void fold_own() {
        contributions_ = static_cast<int>(in_.count());
        fold_images();
        if (is_scattered && !stores_directly())  // elements must exist before they can be written
            for (std::size_t i = 0; i < out_.length() && in_.length() > 0; ++i) block_.put(i, folds_.data()[0]);
    }
    void fold_images() {
        if (in_.count() == 0) return set_identities();
        if constexpr (!folds_columns)
            for (std::size_t k = 0; k < in_.count(); ++k) fold_image(k);
        else if (are_contiguous())
            fold_contiguous();
        else
            fold_pieces();
    }
    [[nodiscard]] bool are_contiguous() const {
        for (std::size_t k = 0; k < in_.count(); ++k)
            if (in_.pieces_of(k).size() != 1) return false;
        return true;
    }
    void fold_image(std::size_t k) {
        std::size_t i = 0;
        for (const std::span<T>& piece : in_.pieces_of(k))
            for (const value& x : piece) {
                if (k == 0)
                    folds_.put(i, lifted(x));
                else
                    folds_.data()[i] = detail::fold_two<state>(op_, folds_.data()[i], lifted(x));
                ++i;
            }
    }
    // As many elements at a time as fit into the nearest cache along with their fold.
    static constexpr std::size_t chunk = std::max<std::size_t>((8 << 10) / sizeof(state), 1);

    void fold_contiguous() {
        const auto image = [this](std::size_t k) { return in_.pieces_of(k).front().data(); };
        if (in_.count() == 1) static_cast<void>(std::copy_n(image(0), in_.length(), folds_.data()));
        for (std::size_t at = 0; at < in_.length() && in_.count() > 1; at += chunk) {
            const std::size_t n = std::min(chunk, in_.length() - at);
            state* const to = folds_.data() + at;
            fold_run(image(0) + at, image(1) + at, to, n);
            for (std::size_t k = 2; k < in_.count(); ++k) fold_run(to, image(k) + at, to, n);
        }
    }
    void fold_pieces() {
        small_vector<element_cursor<T>, 8> cursors;
        for (std::size_t k = 0; k < in_.count(); ++k) cursors.push_back(element_cursor<T>(in_.pieces_of(k)));
        for (std::size_t at = 0; at < in_.length(); at += chunk)
            for (element_cursor<T>& each : cursors) {
                state* to = folds_.data() + at;
                state* const end = to + std::min(chunk, in_.length() - at);
                while (to != end) {
                    const std::span<const value> run = each.next_run(static_cast<std::size_t>(end - to));
                    if (&each == cursors.data())
                        std::ranges::copy(run, to);
                    else
                        fold_run(to, run.data(), to, run.size());
                    to += run.size();
                }
            }
    }
    void fold_run(const state* left, const value* right, state* to, std::size_t n) const {
        fold_column<Op, state>(std::addressof(op_), address(left), address(right), address(to), n);
    }
    template <class X>
    [[nodiscard]] static auto* address(X* of) noexcept {
        return reinterpret_cast<std::conditional_t<std::is_const_v<X>, const std::byte, std::byte>*>(of);
    }
    void set_identities() {
        if constexpr (operator_with_identity<Op, state>)
            for (std::size_t i = 0; i < in_.length(); ++i) folds_.put(i, identity_of<state>(op_));
        else
            here().reject(errc::bad_argument,
                          {"there are no images and the operator has no identity: see with_identity"});
    }

    void store_prefixes() {
        bool is_something = comm_.rank() > 0;
        int before = is_something ? contributions_ : 0;
        for (std::size_t k = 0; k < out_.count(); ++k) {
            element_cursor<T> from(in_.pieces_of(k));
            element_cursor<Out> to(out_.pieces_of(k));
            for (std::size_t i = 0; i < in_.length(); ++i) {
                state x = lifted(from.next());
                Out& place = to.next();
                state& sum = folds_.data()[i];
                if constexpr (!is_inclusive) set(place, is_something ? std::addressof(sum) : nullptr, before);
                if (is_something)
                    sum = detail::fold_two<state>(op_, sum, x);
                else
                    sum = std::move(x);
                if constexpr (is_inclusive) set(place, std::addressof(sum), before + 1);
            }
            is_something = true;
            ++before;
        }
    }
    void set(Out& place, const state* prefix, int contributions) const {
        if (prefix != nullptr)
            place = lowered(*prefix, contributions);
        else if constexpr (operator_with_identity<Op, state>)
            place = lowered(identity_of<state>(op_), 0);
        else if constexpr (operator_with_identity<Op, Out>)
            place = identity_of<Out>(op_);
    }

    Comm& comm_;
    held_by_call<V, images<T>> in_;
    images<Out> out_;
    held_by_call<V, Op> op_;
    std::tuple<Options...> options_;
    packed<state> folds_, block_;
    int contributions_ = 0;
};

/// Whether a collective takes images; if not, a one-line compile error says so.
template <class Collective>
[[nodiscard]] consteval bool require_image_call() {
    constexpr bool takes =
        std::same_as<Collective, reduce_collective> || std::same_as<Collective, all_reduce_collective> ||
        std::same_as<Collective, reduce_scatter_collective> || std::same_as<Collective, inclusive_scan_collective> ||
        std::same_as<Collective, exclusive_scan_collective>;
    static_assert(takes, "allfold: images are for reduce, all_reduce, reduce_scatter and the scans");
    return takes;
}

/// Whether the algorithm performs what ranks do with the folds of their images.
template <class Collective, class Algorithm>
[[nodiscard]] consteval bool require_algorithm_of_images() {
    if constexpr (std::same_as<Collective, inclusive_scan_collective> && is_any_algorithm<Algorithm>) {
        constexpr bool is_exclusive = std::same_as<typename Algorithm::collective, exclusive_scan_collective>;
        static_assert(is_exclusive,
                      "allfold: an inclusive_scan of images runs an exclusive_scan of their folds: choose an algorithm "
                      "for that, with any_algorithm(exclusive_scan, ...)");
        return is_exclusive;
    }
    return true;
}

template <class T>
struct custom_path<images<T>> {
    static constexpr bool exists = true;

    template <verb V, class Collective, class Comm, class Op, class... Options>
    static outcome_of<V> in_place(Comm& comm, const images<T>& x, const Op& op, const Options&... options) {
        return out_of_place<V, Collective>(comm, x, x, op, options...);
    }
    template <verb V, class Collective, class Comm, class Out, class Op, class... Options>
    static outcome_of<V> out_of_place(Comm& comm, const images<T>& in, Out& out, const Op& op,
                                      const Options&... options) {
        constexpr bool is_scan =
            std::same_as<Collective, inclusive_scan_collective> || std::same_as<Collective, exclusive_scan_collective>;
        constexpr bool is_list = is_images<std::remove_const_t<Out>>;
        static_assert(!is_scan || is_list,
                      "allfold: a scan computes a prefix for each image: pass images as the output");
        constexpr bool is_scattered = std::same_as<Collective, reduce_scatter_collective>;
        static_assert(!is_scattered || !is_list,
                      "allfold: a reduce_scatter of images writes a single block: pass one operand as the output");
        constexpr bool is_writable = writable<std::remove_reference_t<Out>>;
        static_assert(is_writable, "allfold: the output of this collective must not be const");
        constexpr bool has_no_axis = !has_option<axis, Options...>;
        static_assert(has_no_axis, "allfold: images are cut as a whole: they have no axis{}");
        if constexpr (require_image_call<Collective>() && has_no_axis && (!is_scan || is_list) &&
                      !(is_scattered && is_list) && is_writable && require_lasting<false, Options...>() &&
                      require_algorithm_of_images<Collective, algorithm_among<Options...>>() &&
                      require_arguments<Op, std::span<const T>, std::span<element_of<Out>>>()) {
            using element = typename image_element_of<Out>::type;
            using call = image_call<staged<V>, Collective, Comm, Op, T, element, Options...>;
            auto to = detail::make_or_abort(comm, [&] { return images_of(out); });
            return issue_in_stages<V, call>(comm, Collective::promise.name, in, std::move(to), op, options...);
        } else if constexpr (V != verb::call) {
            return {};
        }
    }

  private:
    template <class Out>
    [[nodiscard]] static auto images_of(Out& out) {
        if constexpr (is_images<std::remove_const_t<Out>>)
            return out;
        else
            return images(out);
    }
    template <class Out>
    struct image_element_of {
        using type = typename decltype(images_of(std::declval<Out&>()))::element_type;
    };
};

}  // namespace detail
}  // namespace allfold
