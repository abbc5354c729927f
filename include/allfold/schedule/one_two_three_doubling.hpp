// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/schedule/detail/exclusive_doubling.hpp"

/// @file
/// 123-doubling: an exclusive scan over the distances 1, 2, 3, 6, 12, ..., with few folds per rank.
///
///     P = 6: the ranks whose operands each rank has folded; over distance 2 it sends that and its own
///
///     distance        1      2      3
///     rank 0   -
///          1          0
///          2          1      01
///          3          2      0..2
///          4          3      1..3   0..3
///          5          4      2..4   0..4
///
/// With q = ⌈log2(P - 1) + log2(4/3)⌉ and m bytes: q rounds; a rank sends at most q·m and folds at most q vectors, one
/// of them only in order to send it. That is ⌈log2 P⌉ rounds or one more. `dissemination` never has that additional
/// round, but may fold more if this one has it: so this is for expensive operators, among many ranks (P = 256: 9 rounds
/// and 9 folds rather than 8 and 13). It is used only when a call names it, never by default: up to P = 13
/// dissemination has neither more rounds nor more folds, and above that no gain was measurable. Compared with
/// dissemination (two cores, sums of floats and products of matrices of 8 B, 1 KiB and 64 KiB, medians of alternating
/// runs): with Open MPI it is 1.04 to 1.3 times slower at P = 8; at P = 16 it takes 0.8 to 1.25x the time, and for 64
/// KiB, in three runs, 0.8 to 1.05x, where repeated runs of the same algorithm differ as much; with MPICH at P = 8 it
/// takes 1.04x for 8 B. With threads, P = 3 to 16, both take 1.0 to 5 times as long as the default there.
///
/// Source: J. L. Träff, "Communication Round and Computation Efficient Exclusive Prefix-Sums Algorithms (for
/// MPI_Exscan)", arXiv:2507.04785, 2025.

namespace allfold {

/// Exclusive scans with few folds, in at most one round more than necessary.
struct one_two_three_doubling {
    static constexpr const char* name = "123-doubling";

    class exclusive_scan : public detail::exclusive_doubling<one_two_three_doubling, detail::windows_with_mine<2>> {
      public:
        using exclusive_doubling::exclusive_doubling;
    };
};

}  // namespace allfold
