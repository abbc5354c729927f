// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "allfold/error.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/mpi_calls.hpp"
#include "allfold/transport/detail/mpi_machine.hpp"
#include "allfold/transport/rank_list.hpp"

/// @file
/// The communicator of MPI's that carries the messages, and its tags.

namespace allfold::mpi {

/// What a communicator does with the one that it is given.
enum class ownership : std::uint8_t {
    duplicate,  ///< duplicates it (collective), and frees the duplicate: nothing that others send gets in the way
    borrow,     ///< uses it as it is: its point-to-point messages are allfold's as long as the communicator lives
    adopt       ///< uses it as it is, and frees it
};
inline constexpr ownership duplicate = ownership::duplicate;
inline constexpr ownership borrow = ownership::borrow;
inline constexpr ownership adopt = ownership::adopt;

namespace detail {

/// A duplicate or an adopted communicator, or a borrowed one that has another error handler for a while.
class handle {
  public:
    handle(MPI_Comm base, ownership how, const machine& supplied) : machine_(supplied), owned_(how != borrow) {
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
    }

    [[nodiscard]] MPI_Comm get() const noexcept { return comm_; }
    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int size() const noexcept { return size_; }
    [[nodiscard]] const machine& node() const noexcept { return machine_; }

    /// Gives back what was borrowed. What is its own is freed only when it is `clean`: no message is under way any
    /// more.
    void close(bool clean) noexcept {
        if (!owned_) {
            ALLFOLD_MPI(Comm_set_errhandler)(comm_, handler_);
            ALLFOLD_MPI(Errhandler_free)(&handler_);
        } else if (clean) {
            ALLFOLD_MPI(Comm_free)(&comm_);
        }
    }

  private:
    machine machine_;
    MPI_Comm comm_ = MPI_COMM_NULL;
    bool owned_;
    MPI_Errhandler handler_ = MPI_ERRHANDLER_NULL;  // of a borrowed communicator
    int rank_ = 0;
    int size_ = 1;
};

[[noreturn, gnu::cold]] inline void refuse_foreign(int peer, int tag) {
    throw error(errc::transport,
                allfold::detail::text({"what came from rank ", peer, " under tag ", tag,
                                       " is no message of allfold's: does the program use this communicator too?"}));
}

inline constexpr int control_tag = 0;
inline constexpr int first_tag = 1;

[[nodiscard]] inline int tag_of(lane on, int tags) noexcept {
    const auto count = static_cast<lane>(tags);
    return first_tag + static_cast<int>(on < count ? on : on % count);
}
/// As many tags as are wanted, if MPI has them; 0 wants all but one, which is for making teams.
[[nodiscard]] inline int usable_tags(MPI_Comm comm, int wanted) {
    int* most = nullptr;
    int known = 0;
    check(ALLFOLD_MPI(Comm_get_attr)(comm, MPI_TAG_UB, static_cast<void*>(&most), &known), "MPI_Comm_get_attr");
    const int lanes = (known != 0 ? *most : 32767) - first_tag;
    return wanted <= 0 || wanted > lanes ? lanes : wanted;
}
/// No message of ours has it: MPI is to keep what it sends with the tag of a new group apart from all others, but Open
/// MPI sends that as messages of the parent (4.1 and 5.0, comm_cid.c, `pml_tag`).
[[nodiscard]] constexpr int forming_tag(int tags) noexcept { return first_tag + tags; }

/// A communicator of some ranks, who call it alike.
[[nodiscard]] inline MPI_Comm create_group(MPI_Comm of, const rank_list& members, int tag) {
    std::vector<int> ranks(static_cast<std::size_t>(members.size()));
    for (int i = 0; i < members.size(); ++i) ranks[static_cast<std::size_t>(i)] = members[i];
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    MPI_Comm made = MPI_COMM_NULL;
    check(ALLFOLD_MPI(Comm_group)(of, &all), "MPI_Comm_group");
    check(ALLFOLD_MPI(Group_incl)(all, members.size(), ranks.data(), &some), "MPI_Group_incl");
    const int code = ALLFOLD_MPI(Comm_create_group)(of, some, tag, &made);
    ALLFOLD_MPI(Group_free)(&some);
    ALLFOLD_MPI(Group_free)(&all);
    check(code, "MPI_Comm_create_group");
    return made;
}

}  // namespace detail
}  // namespace allfold::mpi
