// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <vector>

#include "allfold/collective/detail/stages.hpp"

/// @file
/// An exchange of blocks between ranks that know only what they send: the lengths are exchanged first, together with
/// the blocks themselves if those of all ranks are short.

namespace allfold::detail {

/// An argument that is no longer used once the call has returned.
template <class X>
class borrowed {
  public:
    explicit borrowed(std::remove_reference_t<X>& x) noexcept : x_(std::addressof(x)) {}
    [[nodiscard]] std::remove_reference_t<X>& get() const noexcept { return *x_; }

  private:
    std::remove_reference_t<X>* x_;
};

/// Whether blocks may be exchanged with these options; if not, a one-line compile error says why.
template <verb V, class Collective, class... Options>
[[nodiscard]] consteval bool require_options_by_sizes() {
    constexpr bool no_lengths = ((!std::same_as<Options, partition> && !std::same_as<Options, input_blocks> &&
                                  !std::same_as<Options, output_blocks>) &&
                                 ...);
    static_assert(no_lengths,
                  "allfold: by sizes, ranks find out the partition of the output: pass a variable for it after the "
                  "output, which is not const, and no other partition");
    constexpr bool one_after_another = (!is_arrangement<Options> && ...);
    static_assert(one_after_another,
                  "allfold: by sizes, blocks lie one after another: pass no option that says where they are");
    constexpr bool known = V == verb::call || (!is_sync_mode<Options> && ...);
    static_assert(known,
                  "allfold: start and prepare by sizes take a deadline{} and an algorithm, but no option that says "
                  "when data may move");
    using algorithm_type = algorithm_among<Options...>;
    constexpr bool takes_any_lengths = [] {
        if constexpr (std::same_as<algorithm_type, automatic> || !algorithm_for<algorithm_type, Collective>)
            return true;
        else
            return !needs_equal_blocks<typename Collective::template schedule_in<algorithm_type>>;
    }();
    static_assert(takes_any_lengths, "allfold: this algorithm needs blocks of equal length: name another one, or none");
    return no_lengths && one_after_another && known && takes_any_lengths;
}

/// A rank's first message to another one. The type is the same whatever the elements are.
struct block_message {
    std::uint64_t length = 0;           ///< of the block
    std::uint64_t type = 0;             ///< of the elements, if the rank sends all its blocks in such messages; else 0
    std::array<std::byte, 48> block{};  ///< then the block; all in all, one cache line

    template <class T>
    static constexpr std::size_t most = sizeof(block) / sizeof(T);
    template <class T>
    [[nodiscard]] static std::uint64_t type_of() noexcept {
        return type_hash<T>() | 1;
    }
};

/// One such call.
template <verb V, class Collective, class Comm, class In, class Sizes, class Out, class... Options>
class exchange_by_sizes final : public base_of_call<V> {
  public:
    exchange_by_sizes(Comm& comm, std::remove_reference_t<In>& in, std::remove_reference_t<Sizes>& sizes,
                      std::remove_reference_t<Out>& out, partition& layout, const Options&... options)
        : comm_(comm),
          in_(in),
          sizes_(sizes),
          out_(out),
          layout_(&layout),
          sent_messages_(static_cast<std::size_t>(comm.size())),
          messages_(sent_messages_.size()),
          options_(options...) {}

    template <class Stages>
    void lay_out(Stages& stages) {
        detail::make_or_abort(comm_, [this] { require_any_lengths(); });
        if constexpr (Stages::is_deferred) {  // placeholders until the sizes are known
            sent_ = partition::even(rows_of<In>(in_.get()), comm_.size());
            *layout_ = partition::even(rows_of<Out>(out_.get()), comm_.size());
        }
        detail::wait_for_entry(stages, options_);
        stages.own([this] {
            read_sizes();
            if constexpr (may_send_blocks) send_short_blocks();
        });
        std::apply(
            [&](const auto&... options) {
                if constexpr (has_option<deadline, Options...>)
                    stages.run(Collective{}, sent_messages_, messages_, *find_option<deadline>(options...));
                else
                    stages.run(Collective{}, sent_messages_, messages_);
            },
            options_);
        stages.own([this] { make_room(); });
        if constexpr (may_send_blocks)
            if (have_blocks()) return store_blocks();
        stages.run_deferred(Collective{}, [this](auto use) {
            std::apply(
                [&](const auto&... options) {
                    use(in_.get(), output(), input_blocks{sent_}, output_blocks{*layout_}, options...);
                },
                options_);
        });
    }

  private:
    /// Whether the first messages may have blocks in them. An operation in flight has none in its own: it cannot know
    /// which stages it will need. Both have the same messages, so that one rank may call while another one starts.
    static constexpr bool may_send_blocks = [] {
        if constexpr (V == verb::call && (std::same_as<Options, deadline> && ...) &&
                      element_range<std::remove_reference_t<In>> && element_range<std::remove_reference_t<Out>>) {
            return std::same_as<element_of<In>, element_of<Out>> && std::is_trivially_copyable_v<element_of<Out>>;
        }
        return false;
    }();

    /// Whether an output may be longer than what arrives: it is a range or has one axis.
    static constexpr bool may_have_room = [] {
        using given = std::remove_reference_t<Out>;
        if constexpr (tensor_view<given>)
            return tensor_access<std::remove_cv_t<given>>::rank == 1;
        else
            return element_range<given>;
    }();

    /// Only ranges: to resize a tensor view need not give it one axis of that length.
    static constexpr bool is_resized = element_range<std::remove_reference_t<Out>> &&
                                       std::default_initializable<element_of<Out>> &&
                                       requires(Out& out, std::size_t rows) { out.resize(rows); };

    using read_later = std::conditional_t<V == verb::call, borrowed<In>, retained<In>>;
    using read_at_start = std::conditional_t<V == verb::prepare, retained<Sizes>, borrowed<Sizes>>;
    using written_later = std::conditional_t<V == verb::call, borrowed<Out>, retained<Out>>;

    template <class X>
    [[nodiscard]] static std::size_t rows_of(std::remove_reference_t<X>& x) {
        return bound_rows<std::remove_reference_t<X>>(x).rows();
    }
    [[nodiscard]] arrangement_place here() const { return {Collective::promise.name, comm_.rank(), comm_.size()}; }

    /// The same check as at compile time, for an algorithm that was chosen at run time.
    void require_any_lengths() const {
        using algorithm_type = algorithm_among<Options...>;
        if constexpr (is_any_algorithm<algorithm_type>) {
            const auto* const chosen =
                std::apply([](const auto&... options) { return find_option<algorithm_type>(options...); }, options_);
            if (chosen->needs_equal_blocks())
                here().reject(errc::bad_argument, {chosen->name(), " needs blocks of equal length"});
        }
    }
    void read_sizes() {
        sent_ = partition::sizes(sizes_.get());
        if (sent_.blocks() != comm_.size())
            here().reject(errc::bad_partition, {"there are ", sent_.blocks(), " sizes for ", comm_.size(), " ranks"});
        const bound_rows<std::remove_reference_t<In>> input(in_.get());
        if (sent_.total() != input.rows())
            here().reject(errc::bad_partition,
                          {"the sizes add up to ", sent_.total(), " elements, but the input has ", input.rows()});
        require_data(input, "input");
        for (int r = 0; r < comm_.size(); ++r) sent_messages_[static_cast<std::size_t>(r)] = {sent_.extent(r)};
    }
    template <class Rows>
    void require_data(const Rows& bound, const char* name) const {
        if (bound.where().has_null())
            here().reject(errc::bad_argument,
                          {"the ", name, " has ", text_of_elements(bound.rows()), " but a null data pointer"});
    }
    /// Puts the blocks into the first messages, if all are short.
    void send_short_blocks() {
        using element = element_of<Out>;
        const auto& out = out_.get();
        const element* const from = std::ranges::data(in_.get());
        if (sent_.largest() > block_message::most<element> ||
            range_of(from, sent_.total()).shares(range_of(std::ranges::data(out), std::ranges::size(out))))
            return;
        for (int r = 0; r < comm_.size(); ++r) {
            block_message& to = sent_messages_[static_cast<std::size_t>(r)];
            to.type = block_message::type_of<element>();
            if (const std::size_t length = sent_.extent(r); length > 0)
                std::memcpy(to.block.data(), from + sent_.offset(r), length * sizeof(element));
        }
    }
    /// Whether all blocks came with the first messages: all ranks find the same.
    [[nodiscard]] bool have_blocks() const {
        return std::ranges::all_of(messages_, [](const block_message& each) {
            return each.type == block_message::type_of<element_of<Out>>();
        });
    }
    void store_blocks() {
        auto* const to = std::ranges::data(out_.get());
        for (int r = 0; r < comm_.size(); ++r)
            if (const std::size_t length = layout_->extent(r); length > 0)
                std::memcpy(to + layout_->offset(r), messages_[static_cast<std::size_t>(r)].block.data(),
                            length * sizeof(element_of<Out>));
    }
    template <class T>
    [[nodiscard]] static memory_range range_of(const T* first, std::size_t count) noexcept {
        const auto* const begin = reinterpret_cast<const std::byte*>(first);
        return {begin, begin == nullptr ? begin : begin + count * sizeof(T)};  // a null pointer is refused later
    }
    /// Finds the partition of the output, and resizes the output to fit if it is a container.
    void make_room() {
        std::vector<std::uint64_t> lengths(messages_.size());
        std::ranges::transform(messages_, lengths.begin(), &block_message::length);
        *layout_ = partition::sizes(lengths);
        const std::size_t rows = layout_->total();
        [[maybe_unused]] auto& out = out_.get();
        if constexpr (is_resized) {
            require_apart(rows);
            out.resize(rows);
        } else if constexpr (may_have_room) {
            const bound_rows<std::remove_reference_t<Out>> output(out);
            if (output.rows() < rows)
                here().reject(errc::mismatch, {"the output has room for ", text_of_elements(output.rows()), ", but ",
                                               rows, rows == 1 ? " arrives" : " arrive"});
            require_data(output, "output");
        }
    }
    /// To resize an output would change the input if they share memory.
    void require_apart(std::size_t rows) const {
        if constexpr (element_range<std::remove_reference_t<In>>) {
            const auto& in = in_.get();
            const auto& out = out_.get();
            const auto has = static_cast<std::size_t>(std::ranges::size(out));
            if (rows != has &&
                range_of(std::ranges::data(in), sent_.total()).shares(range_of(std::ranges::data(out), has)))
                here().reject(errc::overlap, {"the output is also the input: it has ", text_of_elements(has), ", but ",
                                              rows, rows == 1 ? " arrives" : " arrive"});
        }
    }
    [[nodiscard]] decltype(auto) output() {
        using given = std::remove_reference_t<Out>;
        if constexpr (element_range<given>) {
            return std::span(std::ranges::data(out_.get()), layout_->total());
        } else if constexpr (may_have_room) {
            using access = tensor_access<std::remove_cv_t<given>>;
            return tensor<typename access::element_type, 1>(access::data(out_.get()), {layout_->total()},
                                                            {access::stride(out_.get(), 0)});
        } else {
            return (out_.get());
        }
    }

    Comm& comm_;
    read_later in_;
    read_at_start sizes_;
    written_later out_;
    partition* layout_;  // describes the output
    std::vector<block_message> sent_messages_, messages_;
    partition sent_ = partition::even(0, 1);
    std::tuple<Options...> options_;
};

}  // namespace allfold::detail
