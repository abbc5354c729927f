// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include "allfold/algebra/operator.hpp"
#include "allfold/engine/binding.hpp"
#include "allfold/engine/detail/leave_behind.hpp"
#include "allfold/engine/operands.hpp"
#include "allfold/error.hpp"

/// @file
/// The arguments of one call: checked, bound to memory, and what has to be done with them before and after.

namespace allfold::detail {

/// Stands for an argument that a collective does not have.
struct absent {};

/// Keeps views by value and everything else by reference, so that an operation in flight finds its data.
template <class X>
class kept {
  public:
    static_assert(refers<X> || std::is_lvalue_reference_v<X>,
                  "allfold: this argument would be gone before the collective has used it: pass a variable or a view");
    using type = std::remove_reference_t<X>;

    explicit kept(type& x) : x_(hold(x)) {}
    [[nodiscard]] type& get() noexcept {
        if constexpr (by_value)
            return x_;
        else
            return *x_;
    }

  private:
    static constexpr bool by_value = refers<X> || !std::is_lvalue_reference_v<X>;
    using held = std::conditional_t<by_value, std::remove_const_t<type>, type*>;
    /// A foreign type may be declared a view though its copies have elements of their own: the result would be lost.
    [[nodiscard]] static held hold(type& x) {
        if constexpr (by_value && tensor_view<std::remove_const_t<type>>) {
            held copy = x;
            using access = tensor_access<std::remove_const_t<type>>;
            if (access::data(copy) != access::data(x))
                throw error(errc::bad_argument,
                            "this argument is declared a tensor view, but a copy of it has elements of its own: pass a "
                            "view of it, such as allfold::tensor");
            return copy;
        } else if constexpr (by_value)
            return x;
        else
            return &x;
    }
    held x_;
};

/// Which rows of the whole operand a rank's input and result hold.
struct shape {
    std::size_t rows = 0;  ///< of the whole operand
    std::size_t input_first = 0, input_rows = 0;
    std::size_t result_first = 0, result_rows = 0;
};

[[noreturn, gnu::cold]] inline void reject(errc code, collective what, int rank,
                                           std::initializer_list<text_piece> about) {
    const std::string words = text(about);
    throw error(code, detail::text({name_of(what), ": rank ", rank, ": ", words}));
}

template <class Binding>
void require_data(const Binding& bound, collective what, int rank, const char* name) {
    if (bound.has_null())
        reject(errc::bad_argument, what, rank, {name, " has ", bound.rows(), " elements at a null address"});
}

/// Input and output must be the same memory, row for row of the whole operand, or share none.
template <class In, class Out>
void require_apart(const In& in, const Out& out, const shape& where, collective what, int rank) {
    if constexpr (In::columns == Out::columns)
        for (std::size_t c = 0; c < In::columns; ++c) {
            const auto [in_begin, in_end] = in.extent(c);
            const auto [out_begin, out_end] = out.extent(c);
            const bool share = in_begin < out_end && out_begin < in_end && in_begin != in_end && out_begin != out_end;
            if (!share) continue;
            const auto row_bytes = (in_end - in_begin) / static_cast<std::ptrdiff_t>(in.rows());
            const auto rows_between = static_cast<std::ptrdiff_t>(where.input_first - where.result_first);
            if (in_begin - out_begin != rows_between * row_bytes)
                reject(errc::overlap, what, rank,
                       {"input and output overlap in part: input begins ",
                        in_begin < out_begin ? out_begin - in_begin : in_begin - out_begin, " bytes ",
                        in_begin < out_begin ? "before" : "behind", " output; give the same memory or disjoint ones"});
        }
}

/// What `op.lift` makes of a value; the value itself where there is nothing to lift.
template <class Op, class T>
struct state_of {
    using type = T;
};
template <class Op, class T>
    requires lifting_operator<Op, T>
struct state_of<Op, T> {
    using type = std::remove_cvref_t<decltype(std::declval<const Op&>().lift(std::declval<const T&>()))>;
};

/// A call's arguments bound to memory. In the in-place form `In` is `absent` and `Out` is both.
template <collective Goal, class Op, class In, class Out>
class arguments {
  public:
    static constexpr bool in_place = std::same_as<In, absent>;
    using value = element_of<std::conditional_t<in_place, Out, In>>;
    using state = typename state_of<Op, value>::type;
    using kernel_type = kernel<Op, state>;
    static constexpr bool lifts = !std::same_as<state, value>;
    static constexpr bool lowers = lowering_operator<Op, state>;

    static_assert(writable<std::remove_reference_t<Out>>, "allfold: the output of this collective must not be const");
    static_assert(lifts || std::same_as<value, element_of<Out>>,
                  "allfold: input and output of this collective must have the same element type");

    /// For an out-of-place call.
    arguments(const Op& op, std::remove_reference_t<In>& in, std::remove_reference_t<Out>& out)
        : op_(op), in_(in), out_(out), input_(in_.get()), output_(out_.get()) {}
    /// For an in-place call.
    arguments(const Op& op, std::remove_reference_t<Out>& out) : op_(op), out_(out), output_(out_.get()) {}

    [[nodiscard]] const Op& operation() const noexcept { return op_; }
    [[nodiscard]] std::size_t input_rows() const noexcept { return source().rows(); }
    [[nodiscard]] std::size_t output_rows() const noexcept { return output_.rows(); }
    /// Of rows of the operand. Where nothing is folded every rank has an output, but not every rank an input.
    [[nodiscard]] auto width() const noexcept {
        if constexpr (folds(Goal))
            return source().width();
        else
            return output_.width();
    }
    [[nodiscard]] kernel_type make_kernel() const { return kernel_type(op_, kernel_width()); }

    /// Throws unless the data is usable; `contributes` and `receives`: whether this rank has an input, and a result.
    void check(const shape& where, int rank, bool contributes, bool receives) const {
        if (contributes) require_data(source(), Goal, rank, in_place ? "the operand" : "the input");
        if (receives) require_data(output_, Goal, rank, in_place ? "the operand" : "the output");
        if constexpr (!in_place) {
            if (contributes && receives) require_apart(input_, output_, where, Goal, rank);
            if (contributes && receives && input_.width() != output_.width())
                reject(errc::bad_argument, Goal, rank, {"rows of input and output have different widths"});
        }
    }

    /// Says which rows each argument holds, and for how many contributions its result will stand.
    void place(const shape& where, int contributions) {
        shape_ = where;
        contributions_ = contributions;
        begin();
    }

    /// The memory that the engine works on.
    template <class Kernel>
    void memory(const Kernel& kernel, operands<Kernel>& m) {
        m.input_first = shape_.input_first;
        m.result_first = shape_.result_first;
        if constexpr (lifts) {
            m.input = {reinterpret_cast<std::byte*>(lifted_.data())};
            m.result = {reinterpret_cast<std::byte*>(folded_.data())};
        } else {
            m.input = source().where();
            m.result = output_.where();
            if (in_place && shape_.input_rows < source().rows()) m.input = kernel.advance(m.input, shape_.input_first);
            if (in_place && shape_.result_rows < source().rows())
                m.result = kernel.advance(m.result, shape_.result_first);
            m.in_place = in_place ||
                         kernel.advance(m.input, shape_.result_first) == kernel.advance(m.result, shape_.input_first);
        }
    }

    /// Before each start: reads what the engine cannot read itself.
    void begin() {
        if constexpr (!in_place) input_.load(in_.get());
        output_.load(out_.get());
        if constexpr (lifts) lift();
    }

    /// When the collective is complete: writes what the engine could not write itself.
    void finish() {
        if constexpr (lifts)
            lower_from(folded_.data());
        else if constexpr (lowers)
            lower_from(values(output_) + (in_place ? shape_.result_first : 0));
        if constexpr (Goal == collective::exclusive_scan && lifts && operator_with_identity<Op, element_of<Out>>)
            if (contributions_ == 0) std::fill_n(values(output_), output_.rows(), identity_of<element_of<Out>>(op_));
        output_.unpack(out_.get());
    }
    /// When a collective of the transport's own is complete, which leaves the first rank's result as it is.
    void finish_native() {
        if constexpr (Goal == collective::exclusive_scan)
            if (contributions_ == 0) make_kernel().set_identity(output_.where(), output_.rows());
        finish();
    }

    /// Keeps copies of its own from being freed: somebody may still touch them.
    void leave_behind() noexcept {
        if constexpr (!in_place) input_.leave_behind();
        output_.leave_behind();
        if constexpr (lifts) {
            detail::leave_behind(lifted_);
            detail::leave_behind(folded_);
        }
    }

  private:
    [[nodiscard]] const auto& source() const noexcept {
        if constexpr (in_place)
            return output_;
        else
            return input_;
    }
    [[nodiscard]] auto kernel_width() const noexcept {
        if constexpr (lifts)
            return typename kernel_type::widths{1};
        else
            return width();
    }
    template <class Binding>
    [[nodiscard]] static auto* values(const Binding& bound) noexcept {
        return reinterpret_cast<typename Binding::element*>(bound.where()[0]);
    }

    void lift() {
        const value* from = values(source()) + (in_place ? shape_.input_first : 0);
        if (lifted_.data() == nullptr) {
            lifted_ = packed<state>(shape_.input_rows);
            folded_ = packed<state>(shape_.result_rows);
        }
        for (std::size_t i = 0; i < shape_.input_rows; ++i) lifted_.put(i, op_.lift(from[i]));
        for (std::size_t i = 0; i < shape_.result_rows; ++i) folded_.put(i, lifted_.data()[0]);
    }
    void lower_from(const state* folded) {
        if (contributions_ == 0) return;
        auto* to = values(output_) + (in_place ? shape_.result_first : 0);
        for (std::size_t i = 0; i < shape_.result_rows; ++i) {
            if constexpr (lowers)
                to[i] = op_.lower(folded[i], contributions_);
            else
                to[i] = folded[i];
        }
    }

    struct nothing {};

    Op op_;
    [[no_unique_address]] std::conditional_t<in_place, absent, kept<In>> in_;
    kept<Out> out_;
    [[no_unique_address]] std::conditional_t<in_place, absent, binding<std::remove_reference_t<In>>> input_;
    binding<std::remove_reference_t<Out>> output_;
    shape shape_;
    int contributions_ = 1;
    [[no_unique_address]] std::conditional_t<lifts, packed<state>, absent> lifted_;
    [[no_unique_address]] std::conditional_t<lifts, packed<state>, nothing> folded_;
};

}  // namespace allfold::detail
