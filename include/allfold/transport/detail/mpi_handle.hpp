// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "allfold/error.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/mpi_calls.hpp"
#include "allfold/transport/detail/mpi_machine.hpp"
#include "allfold/transport/detail/rank_names.hpp"
#include "allfold/transport/rank_list.hpp"

/// @file
/// The MPI communicator that carries the messages, and its tags.

namespace allfold::mpi {

/// What a communicator does with the one that it is given.
enum class ownership : std::uint8_t {
    duplicate,  ///< duplicates it (collective), and frees the duplicate: messages of others cannot interfere
    borrow,     ///< uses it as it is: its point-to-point messages belong to allfold while the communicator lives
    adopt       ///< uses it as it is, and frees it
};
inline constexpr ownership duplicate = ownership::duplicate;
inline constexpr ownership borrow = ownership::borrow;
inline constexpr ownership adopt = ownership::adopt;

namespace detail {

inline constexpr int control_tag = 0;
inline constexpr int first_tag = 1;

/// How many tags MPI has besides those for control messages and for forming teams. Only MPI_COMM_WORLD is sure to have
/// this attribute.
[[nodiscard]] inline int max_tags() {
    int* most = nullptr;
    int known = 0;
    check(ALLFOLD_MPI(Comm_get_attr)(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&most), &known),
          "MPI_Comm_get_attr");
    return (known != 0 ? *most : 32767) - first_tag;
}

/// A hash that tells lists of members apart.
[[nodiscard]] inline std::uint32_t hash_of_members(const rank_list& members) noexcept {
    auto h = static_cast<std::uint64_t>(members.size());
    for (int i = 0; i < members.size(); ++i)
        h = (h ^ static_cast<std::uint64_t>(members[i]) ^ h >> 29) * 0x9e3779b97f4a7c15u;
    return static_cast<std::uint32_t>(h >> 32);
}

/// A duplicated or adopted communicator, or a borrowed one whose error handler is replaced for a while; or a subset of
/// another handle's ranks, with tags of its own there.
class handle {
  public:
    handle(MPI_Comm base, ownership how, const machine& supplied, int wanted_tags)
        : machine_(supplied), owned_(how != borrow) {
        require_running();
        require_thread_level();
        require_intracommunicator(base);
        comm_ = base;
        const bool is_known = machine_.is_known() || find_machine(base, machine_);
        if (!is_known) machine_ = learn_machine(base);
        if (is_known && how != adopt) await_all(base);
        if (how == duplicate) check(ALLFOLD_MPI(Comm_dup)(base, &comm_), "MPI_Comm_dup");
        if (how == borrow) check(ALLFOLD_MPI(Comm_get_errhandler)(comm_, &handler_), "MPI_Comm_get_errhandler");
        check(ALLFOLD_MPI(Comm_set_errhandler)(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
        check(ALLFOLD_MPI(Comm_rank)(comm_, &rank_), "MPI_Comm_rank");
        check(ALLFOLD_MPI(Comm_size)(comm_, &size_), "MPI_Comm_size");
        members_ = rank_list::strided(0, size_);
        names_ = allfold::detail::rank_names(size_);
        const int lanes = max_tags();
        tags_ = wanted_tags <= 0 || wanted_tags > lanes ? lanes : wanted_tags;
    }
    /// A team with `tags` tags of its own and one for forming teams of it, after those of the `number` teams before.
    handle(const handle& of, const rank_list& members, std::uint32_t number, int tags)
        : machine_(of.machine_),
          comm_(of.comm_),
          rank_(members.find(of.rank_)),
          size_(members.size()),
          members_(members),
          team_(number),
          members_hash_(hash_of_members(members)),
          first_tag_(first_tag + static_cast<int>(number) * (tags + 1)),
          tags_(tags) {}

    [[nodiscard]] MPI_Comm get() const noexcept { return comm_; }
    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int size() const noexcept { return size_; }
    [[nodiscard]] const machine& node() const noexcept { return machine_; }
    /// What errors call the ranks.
    [[nodiscard]] const allfold::detail::rank_names& name() const noexcept { return names_; }
    void name_ranks(allfold::detail::rank_names names) { names_ = std::move(names); }

    /// MPI's rank for one of our ranks, and the reverse; -1 if it is none of ours.
    [[nodiscard]] int place_of(int rank) const noexcept { return members_[rank]; }
    [[nodiscard]] int rank_at(int place) const noexcept { return members_.find(place); }
    [[nodiscard]] const rank_list& members() const noexcept { return members_; }
    /// The team's number, and the mark of messages between its ranks; ranks that gave another list use another mark.
    [[nodiscard]] std::uint32_t team() const noexcept { return team_; }
    [[nodiscard]] std::uint32_t members_hash() const noexcept { return members_hash_; }

    [[nodiscard]] int tags() const noexcept { return tags_; }
    /// If there are many tags, operations that start again have the upper half of them, and ranges of long messages
    /// have tags of their own.
    [[nodiscard]] int tag_of(lane on) const noexcept {
        if (!has_many_tags())
            on %= static_cast<lane>(tags_);
        else if (allfold::detail::is_restart_lane(on))
            on = lower() + number_of_restart(on) % restarts();
        else if (on >= lower() / 2)
            on %= lower() / 2;
        return first_tag_ + static_cast<int>(on);
    }
    /// The tag of the ranges that follow an envelope with this tag: a different one if receives may be posted in
    /// advance under that one. They would be too short for ranges, and Open MPI (4.1, reading from the sender's memory)
    /// writes past the end of what it is given.
    [[nodiscard]] int tag_of_ranges(int tag) const noexcept {
        const lane of = static_cast<lane>(tag - first_tag_);
        if (!has_many_tags()) return tag;
        if (of < lower() / 2) return tag + static_cast<int>(lower() / 2);
        return has_all_restarts() ? tag + static_cast<int>(allfold::detail::restart_lanes) : tag;
    }
    /// A tag that no message has.
    [[nodiscard]] int forming_tag() const noexcept { return first_tag_ + tags_; }
    /// Whether no other lane has this lane's tag, as long as ranks are not very far ahead of each other. Operations
    /// that start again keep their lanes, so there must be a tag for each of these.
    [[nodiscard]] bool has_own_tag(lane on) const noexcept {
        using namespace allfold::detail;
        return has_many_tags() && (is_restart_lane(on) ? has_all_restarts() : on < lower() / 2) &&
               tag_of(on) != tag_of(envelopes_lane) && tag_of(on) != tag_of(data_lane);
    }

    /// Restores the error handler of a borrowed communicator. Frees an owned one only if `clean`: no message is in
    /// flight any more.
    void close(bool clean) noexcept {
        if (handler_ != MPI_ERRHANDLER_NULL) {
            ALLFOLD_MPI(Comm_set_errhandler)(comm_, handler_);
            ALLFOLD_MPI(Errhandler_free)(&handler_);
        } else if (owned_ && clean) {
            ALLFOLD_MPI(Comm_free)(&comm_);
        }
    }

  private:
    [[nodiscard]] bool has_many_tags() const noexcept {
        constexpr int many = 1 << 20;  // a quarter of them is more than twice the operations that a rank has in flight
        return tags_ >= many;
    }
    /// Whether every lane of an operation that starts again has a tag of its own, and one for ranges.
    [[nodiscard]] bool has_all_restarts() const noexcept {
        return static_cast<lane>(tags_) >= 4 * (allfold::detail::restart_lanes - 1);
    }
    /// How many tags belong to other lanes.
    [[nodiscard]] lane lower() const noexcept {
        const lane all = static_cast<lane>(tags_);
        return has_all_restarts() ? all - 2 * allfold::detail::restart_lanes : all / 2;
    }
    [[nodiscard]] lane restarts() const noexcept {
        return has_all_restarts() ? allfold::detail::restart_lanes : lower();
    }
    [[nodiscard]] static constexpr lane number_of_restart(lane on) noexcept {
        return on - allfold::detail::first_restart_lane;
    }

    machine machine_;
    MPI_Comm comm_ = MPI_COMM_NULL;
    bool owned_ = false;
    MPI_Errhandler handler_ = MPI_ERRHANDLER_NULL;  // of a borrowed communicator, to be restored
    int rank_ = 0;
    int size_ = 1;
    rank_list members_;
    std::uint32_t team_ = 0;
    std::uint32_t members_hash_ = 0;
    int first_tag_ = first_tag;
    int tags_ = 1;
    allfold::detail::rank_names names_{size_};
};

[[nodiscard, gnu::cold]] inline std::string foreign_text(int peer, int tag) {
    return allfold::detail::text({"received a message from rank ", peer, " with tag ", tag,
                                  " that is not allfold's: does the program use this communicator too?"});
}
[[noreturn, gnu::cold]] inline void refuse_foreign(int peer, int tag) {
    throw error(errc::transport, foreign_text(peer, tag));
}

[[nodiscard]] inline MPI_Comm duplicate_of(const handle& of) {
    MPI_Comm made = MPI_COMM_NULL;
    check(ALLFOLD_MPI(Comm_dup)(of.get(), &made), "MPI_Comm_dup");
    return made;
}

/// Creates an MPI communicator of a team's ranks, collectively over the team; several threads may do so for several
/// teams at once. The tag is one that no message of ours has: MPI is supposed to keep what it sends under the tag of a
/// new group apart from all other messages, but Open MPI sends it as messages on the parent (4.1 and 5.0, comm_cid.c,
/// `pml_tag`).
[[nodiscard]] inline MPI_Comm create_group(const handle& of) {
    std::vector<int> ranks(static_cast<std::size_t>(of.size()));
    for (int i = 0; i < of.size(); ++i) ranks[static_cast<std::size_t>(i)] = of.place_of(i);
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    MPI_Comm made = MPI_COMM_NULL;
    check(ALLFOLD_MPI(Comm_group)(of.get(), &all), "MPI_Comm_group");
    check(ALLFOLD_MPI(Group_incl)(all, of.size(), ranks.data(), &some), "MPI_Group_incl");
    const int code = ALLFOLD_MPI(Comm_create_group)(of.get(), some, of.forming_tag(), &made);
    ALLFOLD_MPI(Group_free)(&some);
    ALLFOLD_MPI(Group_free)(&all);
    check(code, "MPI_Comm_create_group");
    return made;
}

}  // namespace detail
}  // namespace allfold::mpi
