// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <cxxabi.h>
#include <exception>
#include <memory>
#include <new>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <utility>

#include "allfold/transport/background.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define ALLFOLD_FIBRES_UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ALLFOLD_FIBRES_UNDER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define ALLFOLD_FIBRES_UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ALLFOLD_FIBRES_UNDER_TSAN 1
#endif
#endif
#if defined(ALLFOLD_FIBRES_UNDER_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif
#if defined(ALLFOLD_FIBRES_UNDER_TSAN)
#include <sanitizer/tsan_interface.h>
#endif
#if defined(_LIBCPP_VERSION)  // libstdc++ declares it itself
namespace __cxxabiv1 {
struct __cxa_eh_globals;
extern "C" __cxa_eh_globals* __cxa_get_globals() noexcept;
}  // namespace __cxxabiv1
#endif

/// @file
/// Fibres for ranks that share a thread: each has a stack of its own, and runs until it leaves. Requires POSIX.
///
/// Uses ucontext, since libraries that switch faster (Boost.Context) have to be linked. A switch takes 170 ns, most of
/// it the system call for the signal mask; an execution of three ranks and six messages has about 20 switches.

namespace allfold::detail {

/// A stack between two guard pages, so that an overflow stops there.
class fibre_stack {
  public:
    explicit fibre_stack(std::size_t bytes)
        : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))),
          bytes_((bytes + page_ - 1) / page_ * page_ + 2 * page_),
          memory_(::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        if (memory_ == MAP_FAILED) throw std::bad_alloc();
        if (::mprotect(bottom(), size(), PROT_READ | PROT_WRITE) == 0) return;
        ::munmap(memory_, bytes_);
        throw std::bad_alloc();
    }
    fibre_stack(const fibre_stack&) = delete;
    fibre_stack& operator=(const fibre_stack&) = delete;
    ~fibre_stack() { ::munmap(memory_, bytes_); }

    [[nodiscard]] std::byte* bottom() const noexcept { return static_cast<std::byte*>(memory_) + page_; }
    [[nodiscard]] std::size_t size() const noexcept { return bytes_ - 2 * page_; }

  private:
    std::size_t page_, bytes_;
    void* memory_;
};

/// The exceptions that are caught or in flight: the C++ runtime keeps them per thread.
class rank_exceptions {
  public:
    void swap() noexcept {
        void* const current = static_cast<void*>(abi::__cxa_get_globals());
        kept before;
        std::memcpy(&before, current, sizeof before);
        std::memcpy(current, &kept_, sizeof kept_);
        kept_ = before;
    }

  private:
    struct kept {  // as in the C++ ABI
        void* caught = nullptr;
        unsigned uncaught = 0;
    };
    kept kept_;
};

/// Calls `body(argument)` again and again. It has ended when it `leave`s for the last time; its stack is never unwound.
class fibre {
  public:
    /// What becomes of a fibre that calls `std::abort`, if a handler of SIGABRT passes that on to `abort`.
    enum class on_abort : bool { ends_process, leaves };

    fibre(std::size_t stack_bytes, void (*body)(void*), void* argument)
        : stack_(stack_bytes), body_(body), argument_(argument) {
        ::getcontext(&own_);
        own_.uc_stack.ss_sp = stack_.bottom();
        own_.uc_stack.ss_size = stack_.size();
        own_.uc_link = nullptr;
        ::makecontext(&own_, &run, 0);
#if defined(ALLFOLD_FIBRES_UNDER_TSAN)
        own_fibre_ = __tsan_create_fiber(0);
#endif
    }
    fibre(const fibre&) = delete;
    fibre& operator=(const fibre&) = delete;
    ~fibre() {
#if defined(ALLFOLD_FIBRES_UNDER_TSAN)
        __tsan_destroy_fiber(own_fibre_);
#endif
    }

    /// Runs the fibre until it leaves.
    void enter(on_abort what = on_abort::ends_process) {
        fibre* const outer = std::exchange(entered, this);
        may_abort_ = what == on_abort::leaves;
        in_flight_.swap();
        exceptions_.swap();
#if defined(ALLFOLD_FIBRES_UNDER_TSAN)
        outer_fibre_ = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(own_fibre_, 0);
#endif
#if defined(ALLFOLD_FIBRES_UNDER_ASAN)
        void* fake = nullptr;
        __sanitizer_start_switch_fiber(&fake, stack_.bottom(), stack_.size());
#endif
        ::swapcontext(&outer_, &own_);
#if defined(ALLFOLD_FIBRES_UNDER_ASAN)
        __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
        entered = outer;
        if (has_aborted_) [[unlikely]]
            handled_ = std::current_exception();
        exceptions_.swap();
        in_flight_.swap();
    }
    /// Called from within the fibre.
    void leave() {
#if defined(ALLFOLD_FIBRES_UNDER_TSAN)
        __tsan_switch_to_fiber(outer_fibre_, 0);
#endif
#if defined(ALLFOLD_FIBRES_UNDER_ASAN)
        __sanitizer_start_switch_fiber(&fake_, outer_bottom_, outer_size_);
#endif
        ::swapcontext(&own_, &outer_);
#if defined(ALLFOLD_FIBRES_UNDER_ASAN)
        __sanitizer_finish_switch_fiber(fake_, &outer_bottom_, &outer_size_);
#endif
    }

    /// The fibre that runs on this thread; null if there is none.
    [[nodiscard]] static fibre* running() noexcept { return entered; }
    /// Called by a handler of SIGABRT within the fibre: leaves it for good, unless this is to end the process.
    void abort() {
        if (!may_abort_) return;
        has_aborted_ = true;
        leave();
    }
    /// If so, the fibre must not be entered again, and has to be given to `abandon`.
    [[nodiscard]] bool has_aborted() const noexcept { return has_aborted_; }
    /// The exception that was being handled when it aborted: for instance the one that has left a noexcept function.
    [[nodiscard]] const std::exception_ptr& handled() const noexcept { return handled_; }
    /// Keeps a fibre that has aborted, with its stack, for good: other objects may refer to those there, none of which
    /// is destroyed.
    static void abandon(std::unique_ptr<fibre> lost) {
        lost->in_flight_.abandon();
        lost->keep_reachable();
        fibre* const kept = lost.release();
        kept->next_abandoned_ = abandoned.load(std::memory_order_relaxed);
        while (!abandoned.compare_exchange_weak(kept->next_abandoned_, kept)) {
        }
    }

  private:
    [[noreturn]] static void run() {
        fibre& self = *entered;  // makecontext only passes ints
#if defined(ALLFOLD_FIBRES_UNDER_ASAN)
        __sanitizer_finish_switch_fiber(nullptr, &self.outer_bottom_, &self.outer_size_);
#endif
        for (;;) {
            self.body_(self.argument_);
            self.leave();
        }
    }

    /// What only objects on the stack refer to is not to be reported as a leak. The address sanitizer may keep frames
    /// elsewhere.
#if defined(ALLFOLD_FIBRES_UNDER_ASAN)
    [[gnu::no_sanitize_address]] void keep_reachable() const noexcept {
        __lsan_register_root_region(stack_.bottom(), stack_.size());
        void* const* const words = reinterpret_cast<void**>(stack_.bottom());
        const void* latest = nullptr;
        for (std::size_t i = 0; i < stack_.size() / sizeof(void*); ++i) {
            void *begin = nullptr, *end = nullptr;
            if (__asan_addr_is_in_fake_stack(fake_, words[i], &begin, &end) == nullptr || begin == latest) continue;
            __lsan_register_root_region(begin,
                                        static_cast<std::size_t>(static_cast<char*>(end) - static_cast<char*>(begin)));
            latest = begin;
        }
    }
#else
    void keep_reachable() const noexcept {}
#endif

    static inline constinit thread_local fibre* entered = nullptr;
    static inline constinit std::atomic<fibre*> abandoned{nullptr};

    fibre_stack stack_;
    void (*body_)(void*);
    void* argument_;
    ucontext_t own_{}, outer_{};
    background::rank_context in_flight_;
    rank_exceptions exceptions_;
    bool may_abort_ = false, has_aborted_ = false;
    std::exception_ptr handled_;
    fibre* next_abandoned_ = nullptr;
#if defined(ALLFOLD_FIBRES_UNDER_ASAN)
    void* fake_ = nullptr;  // where its frames may be instead, while it does not run
    const void* outer_bottom_ = nullptr;
    std::size_t outer_size_ = 0;
#endif
#if defined(ALLFOLD_FIBRES_UNDER_TSAN)
    void* own_fibre_ = nullptr;
    void* outer_fibre_ = nullptr;
#endif
};

}  // namespace allfold::detail
