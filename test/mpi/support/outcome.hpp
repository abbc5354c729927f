// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <initializer_list>
#include <mpi.h>
#include <optional>
#include <string>
#include <string_view>

#include "allfold/error.hpp"
#include "test/support/catch.hpp"

/// @file
/// How this process's part of a test ended, and whether that is consistent with the others.

namespace test {

struct outcome {
    std::optional<allfold::errc> code;  ///< of an allfold::error
    std::string text;                   ///< of any exception; empty if there was none

    [[nodiscard]] bool says(std::string_view part) const { return text.find(part) != std::string::npos; }
};

template <class Fn>
[[nodiscard]] outcome outcome_of(Fn fn) {
    try {
        fn();
    } catch (const allfold::error& e) {
        return {e.code(), e.what()};
    } catch (const std::exception& e) {
        return {std::nullopt, e.what()};
    }
    return {};
}

[[nodiscard]] inline bool on_any_rank(bool mine) {
    int here = mine ? 1 : 0, somewhere = 0;
    MPI_Allreduce(&here, &somewhere, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return somewhere != 0;
}

/// Checks that some rank failed with `code` and a text that contains all of `parts`, and that every rank failed either
/// with `code` or because a peer did.
inline void check_failure(const outcome& mine, allfold::errc code, std::initializer_list<std::string_view> parts) {
    INFO(mine.text);
    bool is_cause = mine.code == code;
    for (const auto part : parts) is_cause = is_cause && mine.says(part);
    CHECK(on_any_rank(is_cause));
    CHECK((mine.code == code || mine.code == allfold::errc::peer_failed));
}

/// A call that one rank makes only after it has ended on all others: whatever their deadlines are, this call is too
/// late.
class late_call {
  public:
    explicit late_call(int rank) : late_(rank) {}

    template <class Comm, class Call>
    void operator()(const Comm& comm, Call call) const {
        if (comm.rank() == late_) {
            for (int others = comm.size() - 1; others > 0; --others)
                MPI_Recv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            return call();
        }
        int processes = 0;
        MPI_Comm_size(MPI_COMM_WORLD, &processes);
        const auto tell = [process = late_ * processes / comm.size()] {
            MPI_Send(nullptr, 0, MPI_BYTE, process, tag, MPI_COMM_WORLD);
        };
        try {
            call();
        } catch (...) {
            tell();
            throw;
        }
        tell();
    }

  private:
    static constexpr int tag = 7;
    int late_;
};

}  // namespace test
