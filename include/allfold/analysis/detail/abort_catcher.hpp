// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <csignal>
#include <mutex>
#include <unistd.h>

#include "allfold/analysis/detail/fibre.hpp"
#include "allfold/error.hpp"

/// @file
/// Keeps an explored program that aborts from ending the process.

namespace allfold::detail {

/// While one of these exists, a fibre that aborts (a failed assertion, `std::terminate`, `std::abort`) is abandoned
/// where it is, if it was entered for that. Any other abort does what it would have done. `abort` raises SIGABRT on the
/// thread that calls it, before it does anything else, and POSIX lets a handler not return.
class abort_catcher {
  public:
    abort_catcher() {
        const std::lock_guard lock(mutex);
        if (users != 0) {
            ++users;
            return;
        }
        struct sigaction ours{};
        ours.sa_sigaction = &handle;
        ours.sa_flags = SA_SIGINFO | SA_NODEFER;  // the handler is not returned from
        sigemptyset(&ours.sa_mask);
        if (::sigaction(SIGABRT, &ours, &before) != 0)
            throw error(errc::bad_argument, "explore: no handler of SIGABRT can be installed");
        ++users;
    }
    abort_catcher(const abort_catcher&) = delete;
    abort_catcher& operator=(const abort_catcher&) = delete;
    ~abort_catcher() {
        const std::lock_guard lock(mutex);
        if (--users != 0) return;
        struct sigaction now{};
        if (::sigaction(SIGABRT, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &handle)
            ::sigaction(SIGABRT, &before, nullptr);  // otherwise the program has installed another one
    }

  private:
    static void handle(int, siginfo_t* info, void*) {
        if (is_raised_here(*info) && fibre::running() != nullptr) fibre::running()->abort();
        ::sigaction(SIGABRT, &before, nullptr);
        static_cast<void>(::raise(SIGABRT));
    }
    /// False if it was sent to the process from outside.
    [[nodiscard]] static bool is_raised_here(const siginfo_t& info) noexcept {
#if defined(SI_TKILL)
        if (info.si_code != SI_TKILL) return false;
#endif
        return info.si_pid == ::getpid();
    }

    static inline std::mutex mutex;
    static inline int users = 0;
    static inline struct sigaction before{};
};

}  // namespace allfold::detail
