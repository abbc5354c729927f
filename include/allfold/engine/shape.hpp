// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

#include "allfold/data/partition.hpp"
#include "allfold/engine/options.hpp"
#include "allfold/error.hpp"
#include "allfold/schedule/contract.hpp"

/// @file
/// Which rows of the whole operand the arguments of a call hold, as each collective defines it.

namespace allfold::detail {

/// What a collective is asked about: the arguments of one call on one rank.
struct arguments_given {
    const char* collective;
    setting where;
    bool in_place = false;
    std::size_t input_rows = 0;   ///< of the argument; in place, of the only one
    std::size_t output_rows = 0;  ///< the same
    const call_options* options = nullptr;

    [[noreturn, gnu::cold]] void reject(errc code, std::initializer_list<text_piece> about) const {
        const std::string words = text(about);
        throw error(code, text({collective, ": rank ", where.rank, ": ", words}));
    }
    void require_rows(const char* what, std::size_t has, std::size_t needs) const {
        if (has != needs)
            reject(errc::mismatch,
                   {what, " has ", text_of_elements(has), ", but ", needs, needs == 1 ? " is needed" : " are needed"});
    }
    void require_root() const {
        if (where.root < 0 || where.root >= where.size)
            reject(errc::bad_rank, {"root ", where.root, " is not in [0, ", where.size, ")"});
    }
    /// If a permutation is given as a list, checks that it is one.
    void require_permutation() const {
        if (options->destinations == nullptr) return;
        const std::vector<int>& to = options->destinations->ranks();
        if (to.size() != static_cast<std::size_t>(where.size))
            reject(errc::bad_argument,
                   {"the list of destinations has ", to.size(), " entries for ", where.size, " ranks"});
        std::vector<int> origins(to.size(), -1);
        for (int r = 0; r < where.size; ++r) {
            const int destination = where.destinations[r];
            if (destination < 0 || destination >= where.size)
                reject(errc::bad_rank,
                       {"the destination ", destination, " of rank ", r, " is not in [0, ", where.size, ")"});
            int& origin = origins[static_cast<std::size_t>(destination)];
            if (origin >= 0)
                reject(errc::bad_rank, {"rank ", destination, " is the destination of ranks ", origin, " and ", r});
            origin = r;
        }
    }
    void require_blocks(const partition& given, const char* whose) const {
        if (given.blocks() != where.size)
            reject(errc::bad_partition,
                   {"the partition", whose, " has ", given.blocks(), " blocks for ", where.size, " ranks"});
    }
    /// The caller's partition, checked, or an even one.
    [[nodiscard]] partition blocks_of(std::size_t rows) const {
        const partition* const given = options->blocks;
        if (given == nullptr) return partition::even(rows, where.size);
        require_blocks(*given, "");
        if (given->total() != rows)
            reject(errc::bad_partition,
                   {"the partition adds up to ", given->total(), " elements, but there are ", rows});
        return *given;
    }
};

/// The collective's answer.
struct shape {
    std::size_t rows = 0;  ///< of the whole operand
    std::size_t input_first = 0, input_rows = 0;
    std::size_t result_first = 0, result_rows = 0;
    int contributions = 1;                            ///< how many operands the result stands for
    bool contributes = true;                          ///< whether this rank's input matters
    bool receives = true;                             ///< whether this rank gets a result
    bool writes = true;                               ///< false if that is its own operand, already in place
    bool own_lengths = false;                         ///< each rank has lengths of its own, unknown to the others
    partition blocks = partition::even(0, 1);         ///< of the input, if the collective cuts it, not a schedule
    partition result_blocks = partition::even(0, 1);  ///< of the result, if it cuts for pairs or owners
    std::vector<int> destinations;                    ///< of a permutation that is a list

    /// For collectives whose arguments are all whole operands.
    [[nodiscard]] static shape whole(std::size_t rows, int contributions) {
        shape s;
        s.rows = s.input_rows = s.result_rows = rows;
        s.contributions = contributions;
        return s;
    }
};

}  // namespace allfold::detail
