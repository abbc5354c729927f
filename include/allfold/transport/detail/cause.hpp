// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <exception>
#include <initializer_list>
#include <string>

#include "allfold/error.hpp"

/// @file
/// Why a rank has failed.

namespace allfold::detail {

/// What is said instead where there is no memory for a longer text: a string holds it without memory of its own.
inline constexpr const char* no_memory = "out of memory";

[[nodiscard]] inline std::string text_if_possible(std::initializer_list<text_piece> pieces) noexcept {
    try {
        return text(pieces);
    } catch (const std::exception&) {
        return no_memory;
    }
}

/// An error that is thrown later; without memory for it, what is thrown for want of memory.
[[nodiscard]] inline std::exception_ptr make_failure(errc code, std::initializer_list<text_piece> pieces) noexcept {
    try {
        return std::make_exception_ptr(error(code, text(pieces)));
    } catch (...) {
        return std::current_exception();
    }
}

struct cause {
    errc code = errc::peer_failed;
    std::string why{};
    bool is_known = true;            // false while the exception is still in flight and cannot be inspected
    std::exception_ptr thrown = {};  // null if there is none, or it is not known
};

/// Handled while an exception unwinds the stack, in its place: it can be inspected only once it is caught, and until
/// then the current exception, if there is any, is another one, with which an enclosing handler deals.
struct exception_in_flight {};

[[nodiscard]] inline cause unknown_cause() noexcept {
    return {.why = text_if_possible({"it exited with an exception"}), .is_known = false};
}

/// Called in a handler.
[[nodiscard]] inline cause current_cause() noexcept {
    cause found{.thrown = std::current_exception()};
    if (found.thrown == nullptr) return unknown_cause();
    try {
        found.why = "it exited with an exception";
        throw;
    } catch (const exception_in_flight&) {
        return unknown_cause();
    } catch (const error& e) {
        found.code = e.code();
        found.why = text_if_possible({e.what()});
    } catch (const std::exception& e) {
        found.why = text_if_possible({e.what()});
    } catch (...) {
    }
    return found;
}

/// The same for an exception that is kept.
[[nodiscard]] inline cause cause_of(const std::exception_ptr& thrown) noexcept {
    try {
        std::rethrow_exception(thrown);
    } catch (...) {
        return current_cause();
    }
}

/// Whether an exception is one of ours.
[[nodiscard]] inline bool is_error(const std::exception_ptr& thrown) noexcept {
    try {
        if (thrown) std::rethrow_exception(thrown);
    } catch (const error&) {
        return true;
    } catch (...) {
    }
    return false;
}

/// Whether it is one of ours that only reports the failure of another rank.
[[nodiscard]] inline bool is_peer_failure(const std::exception_ptr& thrown) noexcept {
    try {
        if (thrown) std::rethrow_exception(thrown);
    } catch (const error& e) {
        return e.code() == errc::peer_failed;
    } catch (...) {
    }
    return false;
}

}  // namespace allfold::detail
