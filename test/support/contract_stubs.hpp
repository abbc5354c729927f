// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/schedule/contract.hpp"

/// @file
/// The contracts of the collectives, for the tests of schedules: until those of collective/ can be included alone.

namespace allfold {

namespace contract_stubs {

[[nodiscard]] constexpr content own_operand(const setting& where, int block) { return content::of(where.rank, block); }
[[nodiscard]] constexpr content own_block(const setting& where, int block) {
    return block == where.rank ? content::of(block, block) : content{};
}
[[nodiscard]] constexpr content everyones_block(const setting&, int block) { return content::of(block, block); }
[[nodiscard]] constexpr content operand_of_root(const setting& where, int block) {
    return content::of(where.root, block);
}
[[nodiscard]] constexpr content at_root(const setting& where, const content& there) {
    return where.rank == where.root ? there : content{};
}
[[nodiscard]] constexpr content whole_fold(const setting& where, int block) { return {block, 0, where.size}; }

}  // namespace contract_stubs

struct barrier_fn {
    static constexpr contract promise{.name = "barrier", .cut = cut_for::nobody, .meets = true};
    template <class A>
    using schedule_in = typename A::barrier;
};
inline constexpr barrier_fn barrier{};

struct broadcast_fn {
    static constexpr contract promise{
        .name = "broadcast",
        .rooted = true,
        .input = [](const setting& s, int b) { return contract_stubs::at_root(s, content::of(s.root, b)); },
        .result = contract_stubs::operand_of_root};
    template <class A>
    using schedule_in = typename A::broadcast;
};
inline constexpr broadcast_fn broadcast{};

struct reduce_fn {
    static constexpr contract promise{
        .name = "reduce",
        .folds = true,
        .rooted = true,
        .input = contract_stubs::own_operand,
        .result = [](const setting& s, int b) { return contract_stubs::at_root(s, {b, 0, s.size}); }};
    template <class A>
    using schedule_in = typename A::reduce;
};
inline constexpr reduce_fn reduce{};

struct all_reduce_fn {
    static constexpr contract promise{.name = "all_reduce",
                                      .folds = true,
                                      .input = contract_stubs::own_operand,
                                      .result = contract_stubs::whole_fold};
    template <class A>
    using schedule_in = typename A::all_reduce;
};
inline constexpr all_reduce_fn all_reduce{};

struct reduce_scatter_fn {
    static constexpr contract promise{
        .name = "reduce_scatter",
        .cut = cut_for::ranks,
        .folds = true,
        .input = contract_stubs::own_operand,
        .result = [](const setting& s, int b) { return b == s.rank ? content{b, 0, s.size} : content{}; }};
    template <class A>
    using schedule_in = typename A::reduce_scatter;
};
inline constexpr reduce_scatter_fn reduce_scatter{};

struct all_gather_fn {
    static constexpr contract promise{.name = "all_gather",
                                      .cut = cut_for::ranks,
                                      .input = contract_stubs::own_block,
                                      .result = contract_stubs::everyones_block};
    template <class A>
    using schedule_in = typename A::all_gather;
};
inline constexpr all_gather_fn all_gather{};

struct inclusive_scan_fn {
    static constexpr contract promise{.name = "inclusive_scan",
                                      .folds = true,
                                      .input = contract_stubs::own_operand,
                                      .result = [](const setting& s, int b) { return content{b, 0, s.rank + 1}; }};
    template <class A>
    using schedule_in = typename A::inclusive_scan;
};
inline constexpr inclusive_scan_fn inclusive_scan{};

struct exclusive_scan_fn {
    static constexpr contract promise{.name = "exclusive_scan",
                                      .folds = true,
                                      .input = contract_stubs::own_operand,
                                      .result = [](const setting& s, int b) { return content{b, 0, s.rank}; }};
    template <class A>
    using schedule_in = typename A::exclusive_scan;
};
inline constexpr exclusive_scan_fn exclusive_scan{};

struct gather_fn {
    static constexpr contract promise{
        .name = "gather",
        .cut = cut_for::ranks,
        .rooted = true,
        .input = contract_stubs::own_block,
        .result = [](const setting& s, int b) { return contract_stubs::at_root(s, content::of(b, b)); }};
    template <class A>
    using schedule_in = typename A::gather;
};
inline constexpr gather_fn gather{};

struct scatter_fn {
    static constexpr contract promise{
        .name = "scatter",
        .cut = cut_for::ranks,
        .rooted = true,
        .input = [](const setting& s, int b) { return contract_stubs::at_root(s, content::of(s.root, b)); },
        .result = [](const setting& s, int b) { return b == s.rank ? content::of(s.root, b) : content{}; }};
    template <class A>
    using schedule_in = typename A::scatter;
};
inline constexpr scatter_fn scatter{};

struct all_to_all_fn {
    static constexpr contract promise{.name = "all_to_all",
                                      .cut = cut_for::pairs,
                                      .input = contract_stubs::own_operand,
                                      .result = [](const setting& s, int b) { return content::of(b, s.rank); }};
    template <class A>
    using schedule_in = typename A::all_to_all;
};
inline constexpr all_to_all_fn all_to_all{};

}  // namespace allfold
