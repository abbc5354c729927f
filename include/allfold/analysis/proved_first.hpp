// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "allfold/analysis/claim.hpp"
#include "allfold/analysis/proof.hpp"
#include "allfold/analysis/prove.hpp"
#include "allfold/error.hpp"
#include "allfold/schedule/any_schedule.hpp"
#include "allfold/schedule/contract.hpp"

/// @file
/// An option for every call: its schedule is proved before it runs.

namespace allfold {

namespace detail {

/// The proofs that this process has made. Each is made once; a thread that asks for the same one meanwhile waits for
/// it.
class known_proofs {
  public:
    [[nodiscard]] static proof of(const contract& promise, const any_schedule& s) {
        static known_proofs all;
        return all.find(promise, s);
    }

  private:
    /// The contract, the type of the schedule, its P, root, group and destinations, and whatever else it consists of.
    using key = std::tuple<const contract*, const void*, int, int, int, std::vector<int>, std::vector<std::byte>>;
    static constexpr std::size_t most = 4096;

    [[nodiscard]] static key key_of(const contract& promise, const any_schedule& s) {
        const setting& where = s.where();
        const int* const list = where.destinations;
        return {&promise,          s.type(),    where.size,
                where.root,        where.group, {list, list + (list ? where.size : 0)},
                without_setting(s)};
    }
    /// The setting is compared by its members: it has the address of a list, which may be elsewhere in the next call.
    [[nodiscard]] static std::vector<std::byte> without_setting(const any_schedule& s) {
        const auto value = s.value(), setting = std::as_bytes(std::span(&s.where(), 1));
        std::vector<std::byte> rest(value.begin(), value.end());
        std::fill_n(rest.begin() + (setting.data() - value.data()), setting.size(), std::byte{});
        return rest;
    }

    [[nodiscard]] proof find(const contract& promise, const any_schedule& s) {
        key wanted = key_of(promise, s);
        const std::lock_guard lock(mutex_);
        if (const auto found = proofs_.find(wanted); found != proofs_.end()) return found->second;
        const proof made = prove(s.size(), [&](int rank) { return s.at(rank); }, claim_of_value(promise, s));
        if (proofs_.size() == most) proofs_.clear();
        proofs_.emplace(std::move(wanted), made);
        return made;
    }
    [[nodiscard]] static claim claim_of_value(const contract& promise, const any_schedule& s) {
        return {.promise = &promise,
                .keeps = s.keeps,
                .scratch_slots = s.scratch_slots,
                .in_place = s.in_place,
                .equal_blocks = s.equal_blocks(),
                .root = s.where().root,
                .group = s.where().group,
                .destinations = s.where().destinations};
    }

    std::mutex mutex_;
    std::map<key, proof> proofs_;
};

}  // namespace detail

/// Proves the schedule of a call before anything is sent, once for each schedule, number of ranks, root and group, and
/// remembers the outcome: `all_reduce(comm, x, op, my_algorithm{}, proved_first{})`. The library's own schedules are
/// proved in its tests; this is for yours.
///
/// - Cost: a proof takes time proportional to P times the steps of a rank; afterwards, each call takes a look-up under
///   a lock. `start` and `prepare` make the proof when they are called, and a `plan` with this option is the plan of a
///   proved schedule. If a transport's own collective runs, there is no schedule to prove.
/// - Errors: `bad_argument`, on every rank, with the line of `explain` that names ranks, round and both figures.
///   Nothing has been sent or written.
struct proved_first {
    /// @throws error (bad_argument) unless the schedule keeps what the contract promises.
    static void check(const contract& promise, const any_schedule& s) {
        const proof outcome = detail::known_proofs::of(promise, s);
        if (!outcome.ok())
            throw error(errc::bad_argument, detail::text({promise.name, ": rank ", s.rank(), ": the schedule ",
                                                          s.name(), " is not proved: ", explain(outcome)}));
    }
};

}  // namespace allfold
