// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/schedule/detail/exclusive_doubling.hpp"

/// @file
/// 123-doubling: an exclusive scan over the distances 1, 2, 3, 6, 12, ..., in which a rank folds little.
///
///     P = 6: the ranks whose operands each rank has folded; sent to the distance 2 is that and the own one
///
///     distance        1      2      3
///     rank 0   -
///          1          0
///          2          1      01
///          3          2      0..2
///          4          3      1..3   0..3
///          5          4      2..4   0..4
///
/// With q = ⌈log2(P - 1) + log2(4/3)⌉ and m bytes: q rounds, at most q·m sent by a rank and q vectors folded by it, one
/// of them to be sent. That is ⌈log2 P⌉ rounds or one more. `dissemination` never has one more, and folds more where
/// this one does: so this is for operators that work hard, among many ranks (P = 256: 9 rounds and 9 folds rather than
/// 8 and 13). It is taken where it is named, and else never: up to P = 13 dissemination has neither more rounds nor
/// more folds, and above what is saved was not seen. To dissemination, two cores, sums of floats and products of
/// matrices of 8 B, 1 KiB and 64 KiB, medians of turns: Open MPI, P = 8, 1.04 to 1.3 times slower; P = 16, 0.8 to 1.25
/// of the time, and of 64 KiB in three runs 0.8 to 1.05, where one differs as much from itself; MPICH, P = 8, of 8
/// B 1.04. Threads, P = 3 to 16: both take 1.0 to 5 times what is taken there.
///
/// Source: J. L. Träff, "Communication Round and Computation Efficient Exclusive Prefix-Sums Algorithms (for
/// MPI_Exscan)", arXiv:2507.04785, 2025.

namespace allfold {

/// Exclusive scans with few folds, in at most one round more than there have to be.
struct one_two_three_doubling {
    static constexpr const char* name = "123-doubling";

    class exclusive_scan : public detail::exclusive_doubling<one_two_three_doubling, detail::windows_with_mine<2>> {
      public:
        using exclusive_doubling::exclusive_doubling;
    };
};

}  // namespace allfold
