// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "allfold/collective/detail/issue.hpp"

/// @file
/// Algorithms that are chosen when the program runs, by name or by any other rule.

namespace allfold {

/// Some algorithm of one collective, as an option of its calls:
///
///     any_algorithm chosen(all_reduce, "ring");                    // by name: from a file, a command line, a tuner
///     if (n < 1000) chosen = any_algorithm(all_reduce, direct{});  // or any that the caller knows by type
///     all_reduce(comm, x, sum{}, chosen);
///
/// - Names are those of `names()`: what allfold itself may choose for the collective, on any transport; or those of
///   their types, such as `binomial`. Case does not matter, nor whether words are separated by a space, a hyphen or an
///   underscore.
/// - A call does what it does with the algorithm as its type, and matches such calls of other ranks. What the compiler
///   checks for those is checked when the call is made.
/// - Errors of a call: `bad_argument` if the algorithm has no schedule for this number of ranks or for several threads
///   of each process, or if it keeps a weaker order than the call needs. Nothing has been sent then.
template <class Collective>
class any_algorithm {
  public:
    using collective = Collective;

    /// @throws error (bad_argument) if the collective has no algorithm of this name; the message lists those it has.
    any_algorithm(const Collective&, std::string_view name)
        : maker_(find(name)), hash_(detail::hash_of_algorithm(*maker_)) {}

    template <detail::algorithm Algorithm>
        requires detail::algorithm_for<Algorithm, Collective>
    any_algorithm(const Collective&, const Algorithm& algorithm) noexcept
        : maker_(&detail::maker_of<typename Collective::template schedule_in<Algorithm>, Algorithm>),
          hash_(detail::hash_of_algorithm(*maker_, detail::hash_of_value(algorithm))) {
        static_assert(sizeof(Algorithm) <= max_bytes && alignof(Algorithm) <= alignof(std::max_align_t),
                      "allfold: an algorithm is a small value: at most 32 bytes");
        std::memcpy(parameters_, &algorithm, sizeof algorithm);
    }

    [[nodiscard]] const char* name() const noexcept { return maker_->name; }
    /// Whether all blocks must have one length.
    [[nodiscard]] bool needs_equal_blocks() const noexcept { return maker_->equal_blocks; }

    /// The names of the algorithms that allfold may choose for the collective, in alphabetical order.
    [[nodiscard]] static std::vector<std::string_view> names() {
        std::vector<std::string_view> all;
        for (const auto candidates : every_candidate())
            for (const candidate& each : candidates) all.emplace_back(each.schedule->name);
        std::ranges::sort(all);
        all.erase(std::unique(all.begin(), all.end()), all.end());  // clang 14 has no std::ranges::unique
        return all;
    }

    /// For the engine: names the algorithm in a request, which must not outlive this.
    void name_in(detail::request& what) const noexcept {
        what.named = maker_;
        what.algorithm = parameters_;
        what.algorithm_hash = hash_;
    }

  private:
    static constexpr std::size_t max_bytes = 32;

    [[nodiscard]] static std::array<std::span<const candidate>, 3> every_candidate() noexcept {
        return {detail::candidates_of<Collective, reach::memory>(),
                detail::candidates_of<Collective, reach::messages>(),
                detail::candidates_of<Collective, reach::levels>()};
    }
    /// A character of a name in the spelling that names are compared in.
    [[nodiscard]] static constexpr char plain(char c) noexcept {
        if (c == '-' || c == '_') return ' ';
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    [[nodiscard]] static bool is_name_of(const detail::schedule_maker& maker, std::string_view name) {
        if (std::ranges::equal(name, std::string_view(maker.name), {}, plain, plain)) return true;
        std::string type = "allfold::";
        for (const char c : name) type += plain(c) == ' ' ? '_' : plain(c);
        return maker.algorithm_hash() == detail::hash_of_text(type);
    }
    [[nodiscard]] static const detail::schedule_maker* find(std::string_view name) {
        for (const auto candidates : every_candidate())
            for (const candidate& each : candidates)
                if (is_name_of(*each.schedule, name)) return each.schedule;
        std::string known;
        for (const std::string_view each : names()) known += (known.empty() ? "" : ", ") + std::string(each);
        throw error(errc::bad_argument, detail::text({Collective::promise.name, " has no algorithm '",
                                                      std::string(name), "', but ", known}));
    }

    const detail::schedule_maker* maker_;
    std::uint64_t hash_;
    alignas(std::max_align_t) std::byte parameters_[max_bytes] = {};
};

namespace detail {

template <class Collective>
inline constexpr bool is_any_algorithm<any_algorithm<Collective>> = true;

}  // namespace detail
}  // namespace allfold
