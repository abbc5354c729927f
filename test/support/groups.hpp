// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <vector>

#include "allfold/transport/thread.hpp"
#include "test/support/oracle.hpp"
#include "test/support/problems.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"
#include "test/support/sanitized.hpp"

/// @file
/// The groups of threads on which every collective is tested.

namespace test {

#ifdef ALLFOLD_TEST_SANITIZED
inline constexpr int group_sizes[] = {1, 2, 3, 5, 8};
inline constexpr int few_group_sizes[] = {1, 2, 3};
inline constexpr int largest_untuned_group = 5;
#else
inline constexpr int group_sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16};
inline constexpr int few_group_sizes[] = {1, 2, 3, 4, 5, 8};  // for checks that take long
inline constexpr int largest_untuned_group = 16;
#endif

static_assert(allfold::thread_tuning().eager_bytes <= copied_bytes);

/// Whether groups of this size are tested with this tuning; for special tunings these are fewer, because ranks that
/// sleep take longest.
constexpr bool is_tested_with(const allfold::thread_tuning& tuning, int size) {
    if (tuning == impatient) return size == 2 || size == 3 || size == fewer_if_sanitized(5, 3);
    if (tuning == noticing) return size == 2 || size == 3 || size == 8;
    if (tuning == scattered) return size == 2 || size == fewer_if_sanitized(3, 2);
    return size <= largest_untuned_group;
}

inline std::string name_of(const allfold::thread_tuning& tuning) {
    if (tuning == noticing) return ", noticing";
    if (tuning == scattered) return ", scattered";
    return tuning == impatient ? ", impatient" : "";
}

/// Calls visit(size, tuning) for groups of all sizes.
template <class Visit>
void for_each_group(Visit visit) {
    for (const int size : group_sizes)
        for (const auto& tuning : {allfold::thread_tuning(), impatient, noticing, scattered})
            if (is_tested_with(tuning, size)) visit(size, tuning);
}

/// Calls check(comm, problem, where) on all ranks of groups of all sizes.
template <class Algebra, class Check>
void on_all_groups(Check check) {
    std::vector<problem<Algebra>> problems;
    for_each_group([&](int size, const allfold::thread_tuning& tuning) {
        if (problems.empty() || problems[0].ranks() != size) problems = problems_for<Algebra>(size);
        const auto body = [&](allfold::thread_communicator& comm) {
            for (const auto& p : problems) check(comm, p, place_of(comm, p) + name_of(tuning));
        };
        on_ranks(size, body, tuning);
    });
}

/// The same for ranks that do not share memory.
template <class Algebra, class Check>
void on_remote_groups(Check check) {
    for (const int size : group_sizes) {
        if (size > largest_untuned_group) continue;
        const auto problems = problems_for<Algebra>(size);
        const auto body = [&](allfold::thread_communicator& base) {
            remote comm(base);
            for (const auto& p : problems) check(comm, p, place_of(comm, p) + ", remote");
        };
        on_ranks(size, body, roomy);
    }
}

}  // namespace test
