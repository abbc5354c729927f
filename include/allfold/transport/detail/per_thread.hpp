// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <mutex>
#include <utility>

/// @file
/// Objects of which each thread has its own.

namespace allfold::detail {

/// Gives each thread that asks a T of its own; T derives from `per_thread<T>`. When the thread ends, `retire()` is
/// called on its T, which is not freed, since other threads may be about to look at it, but given to the next thread
/// that asks.
template <class T>
class per_thread {
  public:
    /// Null until this thread asks for the first time.
    static inline constinit thread_local T* of_this_thread = nullptr;

    [[nodiscard]] static T& mine() {
        if (of_this_thread == nullptr) [[unlikely]]
            join();
        return *of_this_thread;
    }

  private:
    struct pool {
        std::mutex mutex;
        T* idle = nullptr;
        T* lost = nullptr;  // those of threads that asked when they were all but over: nobody knows when they end
        [[nodiscard]] static pool& instance() {
            static pool& all = *new pool;  // threads may outlive the program's static objects
            return all;
        }
    };
    /// Lasts until its thread ends.
    struct membership {
        T& held = take();
        membership() = default;
        membership(const membership&) = delete;
        membership& operator=(const membership&) = delete;
        ~membership() {
            of_this_thread = nullptr;
            has_ended = true;
            held.retire();
            pool& all = pool::instance();
            const std::lock_guard lock(all.mutex);
            held.next_idle_ = std::exchange(all.idle, &held);
        }
    };
    [[nodiscard]] static T& take() {
        pool& all = pool::instance();
        const std::lock_guard lock(all.mutex);
        if (all.idle == nullptr) return *new T;
        return *std::exchange(all.idle, all.idle->next_idle_);
    }
    [[gnu::cold, gnu::noinline]] static void join() {
        if (has_ended) return join_late();
        static const thread_local membership of_thread;
        of_this_thread = &of_thread.held;
    }

    /// For the destructor of an object of this thread. What it gets is never given to another one.
    static void join_late() {
        of_this_thread = &take();
        pool& all = pool::instance();
        const std::lock_guard lock(all.mutex);
        of_this_thread->next_idle_ = std::exchange(all.lost, of_this_thread);
    }

    static inline constinit thread_local bool has_ended = false;  // of the membership of this thread

    T* next_idle_ = nullptr;
};

}  // namespace allfold::detail
