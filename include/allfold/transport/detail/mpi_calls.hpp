// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

// Only the C interface, whatever else the library has.
#if !defined(OMPI_SKIP_MPICXX)
#define OMPI_SKIP_MPICXX 1
#endif
#if !defined(MPICH_SKIP_MPICXX)
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include "allfold/data/detail/heap_array.hpp"
#include "allfold/error.hpp"

// Every call to MPI goes through this macro. In a program compiled with `ALLFOLD_CALL_PMPI`, in all its translation
// units, it calls MPI's functions by their PMPI_ names, so that a tool that intercepts the MPI_ names sees only the
// program's own calls.
#if defined(ALLFOLD_CALL_PMPI)
#define ALLFOLD_MPI(name) PMPI_##name
#else
#define ALLFOLD_MPI(name) MPI_##name
#endif

/// @file
/// MPI as the transport calls it: errors are thrown, and what is not allowed is refused with the reason.

namespace allfold::mpi::detail {

[[noreturn]] inline void throw_mpi_error(int code, const char* call) {
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    ALLFOLD_MPI(Error_string)(code, text.data(), &length);
    throw error(errc::transport, std::string(call) + ": " + text.data());
}
inline void check(int code, const char* call) {
    if (code != MPI_SUCCESS) [[unlikely]]
        throw_mpi_error(code, call);
}

[[nodiscard]] inline bool is_initialized() noexcept {
    int yes = 0;
    ALLFOLD_MPI(Initialized)(&yes);
    return yes != 0;
}
[[nodiscard]] inline bool is_finalized() noexcept {
    int yes = 0;
    ALLFOLD_MPI(Finalized)(&yes);
    return yes != 0;
}
[[noreturn]] inline void refuse(const std::string& why) {
    throw error(errc::bad_argument, "mpi::communicator: " + why);
}

inline void require_running() {
    if (!is_initialized()) refuse("MPI is not initialised: call MPI_Init or MPI_Init_thread first, or use mpi::run");
    if (is_finalized())
        refuse("MPI is finalised: communicators must be created, used and destroyed before MPI_Finalize");
}

/// As long as this object lives, a bad handle makes MPI return an error instead of aborting the job.
class lenient_errors {
  public:
    lenient_errors() : alone_(mutex()) {
        for (std::size_t i = 0; i < std::size(all_); ++i) {
            ALLFOLD_MPI(Comm_get_errhandler)(all_[i], &before_[i]);
            ALLFOLD_MPI(Comm_set_errhandler)(all_[i], MPI_ERRORS_RETURN);
        }
    }
    lenient_errors(const lenient_errors&) = delete;
    lenient_errors& operator=(const lenient_errors&) = delete;
    ~lenient_errors() {
        for (std::size_t i = 0; i < std::size(all_); ++i) {
            ALLFOLD_MPI(Comm_set_errhandler)(all_[i], before_[i]);
            ALLFOLD_MPI(Errhandler_free)(&before_[i]);
        }
    }

  private:
    [[nodiscard]] static std::mutex& mutex() {
        static std::mutex of_all;
        return of_all;
    }
    const std::lock_guard<std::mutex> alone_;  // or one thread would save the handler that another has set
    const std::array<MPI_Comm, 2> all_{MPI_COMM_WORLD, MPI_COMM_SELF};  // MPI-3 asks the first, MPI-4 the second
    std::array<MPI_Errhandler, 2> before_{};
};

/// Throws if MPI was initialised for its main thread only, and the calling thread is not that one.
inline void require_thread_level() {
    int level = MPI_THREAD_SINGLE, is_main = 0;
    check(ALLFOLD_MPI(Query_thread)(&level), "MPI_Query_thread");
    check(ALLFOLD_MPI(Is_thread_main)(&is_main), "MPI_Is_thread_main");
    if (level < MPI_THREAD_SERIALIZED && is_main == 0)
        refuse(std::string("MPI was initialised with MPI_THREAD_") +
               (level == MPI_THREAD_SINGLE ? "SINGLE" : "FUNNELED") +
               ", but this is not its main thread: ask MPI_Init_thread for MPI_THREAD_SERIALIZED, or for "
               "MPI_THREAD_MULTIPLE if several threads have communicators at the same time");
}

/// Throws if MPI was not initialised for a process with other threads, which do not call MPI.
inline void require_funneled() {
    int level = MPI_THREAD_SINGLE;
    check(ALLFOLD_MPI(Query_thread)(&level), "MPI_Query_thread");
    if (level < MPI_THREAD_FUNNELED)
        refuse(
            "MPI was initialised with MPI_THREAD_SINGLE, but its process is to have several threads: ask "
            "MPI_Init_thread for MPI_THREAD_FUNNELED");
}

/// Throws if MPI was not initialised for use by a thread other than the main one.
inline void require_serialized() {
    int level = MPI_THREAD_SINGLE;
    check(ALLFOLD_MPI(Query_thread)(&level), "MPI_Query_thread");
    if (level < MPI_THREAD_SERIALIZED)
        refuse(
            "MPI was initialised for its main thread only, but another thread is about to use it: ask "
            "MPI_Init_thread for MPI_THREAD_SERIALIZED");
}

inline void require_intracommunicator(MPI_Comm handle) {
    if (handle == MPI_COMM_NULL) refuse("the communicator is MPI_COMM_NULL");
    const lenient_errors scope;
    // If handles are pointers, a freed one may look alive, but the library's table of handles does not know it.
    if (ALLFOLD_MPI(Comm_f2c)(ALLFOLD_MPI(Comm_c2f)(handle)) != handle)
        refuse("the communicator is not valid; was it freed?");
    int is_inter = 0;
    if (const int code = ALLFOLD_MPI(Comm_test_inter)(handle, &is_inter); code != MPI_SUCCESS) {
        std::array<char, MPI_MAX_ERROR_STRING> text{};
        int length = 0;
        ALLFOLD_MPI(Error_string)(code, text.data(), &length);
        refuse(std::string("the communicator is not valid; was it freed? MPI says: ") + text.data());
    }
    if (is_inter != 0)
        refuse("it is an intercommunicator; collectives need one group of ranks: merge it with MPI_Intercomm_merge");
}

/// The handle of anything that wraps an MPI communicator: what converts to `MPI_Comm`, or has a member that returns it.
template <class C>
[[nodiscard]] MPI_Comm handle_of(const C& c) {
    if constexpr (std::convertible_to<const C&, MPI_Comm>)
        return c;
    else if constexpr (requires {
                           { c.mpi_communicator() } -> std::convertible_to<MPI_Comm>;
                       })  // KaMPIng
        return c.mpi_communicator();
    else
        return c.native_handle();  // MPL
}
template <class C>
concept wraps_handle = std::convertible_to<const C&, MPI_Comm> || requires(const C& c) {
    { c.mpi_communicator() } -> std::convertible_to<MPI_Comm>;
} || requires(const C& c) {
    { c.native_handle() } -> std::convertible_to<MPI_Comm>;
};

/// A completed request, kept for comparison: a new request that is equal to it is the same one, and hence complete too.
/// MPI libraries return the same request for every message that they take over at once, and comparing is faster than
/// asking: MPI_Test of Open MPI waits until the CPU has stored the message. Saves 15 to 60 ns of 160 in an exchange of
/// 80 bytes.
class completed_request {
  public:
    explicit completed_request(MPI_Comm comm) {
        check(ALLFOLD_MPI(Isend)(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, comm, &kept_), "MPI_Isend");
        int is_complete = 0;
        check(ALLFOLD_MPI(Request_get_status)(kept_, &is_complete, MPI_STATUS_IGNORE), "MPI_Request_get_status");
        if (is_complete == 0) check(ALLFOLD_MPI(Wait)(&kept_, MPI_STATUS_IGNORE), "MPI_Wait");
    }
    completed_request(completed_request&& other) noexcept : kept_(std::exchange(other.kept_, MPI_REQUEST_NULL)) {}
    completed_request& operator=(completed_request&&) = delete;
    ~completed_request() {
        if (kept_ != MPI_REQUEST_NULL && !is_finalized()) ALLFOLD_MPI(Request_free)(&kept_);
    }
    [[nodiscard]] bool is(MPI_Request request) const noexcept { return request == kept_; }
    /// Frees a request for which `is` returns true.
    static void free([[maybe_unused]] MPI_Request& request) {
#if !defined(OPEN_MPI)  // which has a single one, and freeing it does nothing but take 10 ns
        check(ALLFOLD_MPI(Request_free)(&request), "MPI_Request_free");
#endif
    }

  private:
    MPI_Request kept_ = MPI_REQUEST_NULL;
};

/// Requests in flight, and what each of them owns.
template <class Owned>
class requests {
  public:
    [[nodiscard]] bool empty() const noexcept { return handles_.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return handles_.size(); }
    void add(MPI_Request request, Owned owned) {
        handles_.push_back(request);
        owned_.push_back(std::move(owned));
    }
    /// For how many of the owned objects `is` is true.
    template <class Is>
    [[nodiscard]] std::size_t count(Is is) const {
        std::size_t found = 0;
        for (const Owned& each : owned_) found += is(each) ? 1U : 0U;
        return found;
    }
    template <class Visit>
    void for_each(Visit visit) {
        for (Owned& each : owned_) visit(each);
    }
    /// Calls done(owned) for each completed request, and removes it.
    template <class Done>
    void collect(Done done) {
        if (handles_.size() == 1) return collect_one(done);
        if (indices_.size() < handles_.size()) indices_ = allfold::detail::heap_array<int>(2 * handles_.size());
        int count = 0;
        const int code = ALLFOLD_MPI(Testsome)(static_cast<int>(handles_.size()), handles_.data(), &count,
                                               indices_.data(), MPI_STATUSES_IGNORE);
        if (count == MPI_UNDEFINED) count = 0;
        for (std::size_t at = handles_.size(); count > 0 && at-- > 0;) {  // from the back: what moves up was checked
            if (handles_[at] != MPI_REQUEST_NULL) continue;
            --count;
            done(owned_[at]);
            handles_[at] = handles_.back();
            handles_.pop_back();
            std::swap(owned_[at], owned_.back());
            owned_.pop_back();
        }
        check(code, "MPI_Testsome");
    }

  private:
    template <class Done>
    void collect_one(Done done) {
        int is_complete = 0;
        check(ALLFOLD_MPI(Test)(handles_.data(), &is_complete, MPI_STATUS_IGNORE), "MPI_Test");
        if (is_complete == 0) return;
        done(owned_[0]);
        handles_.clear();
        owned_.clear();
    }

    std::vector<MPI_Request> handles_;
    std::vector<Owned> owned_;
    allfold::detail::heap_array<int> indices_;  // where MPI lists what is complete; null handles show it too
};

[[nodiscard]] inline int isend(const std::byte* data, std::size_t bytes, int to, int tag, MPI_Comm comm,
                               MPI_Request* request) {
#if MPI_VERSION >= 4
    return ALLFOLD_MPI(Isend_c)(data, static_cast<MPI_Count>(bytes), MPI_BYTE, to, tag, comm, request);
#else
    return ALLFOLD_MPI(Isend)(data, static_cast<int>(bytes), MPI_BYTE, to, tag, comm, request);
#endif
}
/// The length of a probed message.
[[nodiscard]] inline std::size_t bytes_of(const MPI_Status& status) {
#if MPI_VERSION >= 4
    MPI_Count bytes = 0;
    ALLFOLD_MPI(Get_count_c)(&status, MPI_BYTE, &bytes);
#else
    int bytes = 0;
    ALLFOLD_MPI(Get_count)(&status, MPI_BYTE, &bytes);
#endif
    return bytes < 0 ? 0 : static_cast<std::size_t>(bytes);
}
[[nodiscard]] inline int irecv(std::byte* data, std::size_t bytes, int from, int tag, MPI_Comm comm,
                               MPI_Request* request) {
#if MPI_VERSION >= 4
    return ALLFOLD_MPI(Irecv_c)(data, static_cast<MPI_Count>(bytes), MPI_BYTE, from, tag, comm, request);
#else
    return ALLFOLD_MPI(Irecv)(data, static_cast<int>(bytes), MPI_BYTE, from, tag, comm, request);
#endif
}

}  // namespace allfold::mpi::detail
