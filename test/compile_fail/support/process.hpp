// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "allfold/allfold.hpp"

/// @file
/// A transport between processes that moves no data, for calls that are only compiled.

struct message {
    std::uint32_t signature() const { return 0; }
    std::size_t bytes() const { return 0; }
    std::byte* packed() const { return nullptr; }
    std::span<const allfold::part> parts() const { return {}; }
};

struct process : allfold::transport_defaults {
    static constexpr bool shares_memory = false;
    using arrival_type = message;
    int rank() const { return 0; }
    int size() const { return 1; }
    allfold::background& background() { return operations; }
    allfold::lane open(const allfold::signature&, unsigned) { return 0; }
    std::optional<allfold::signature> announced(int, allfold::lane) const { return std::nullopt; }
    bool lends(std::size_t, bool) const { return false; }
    bool try_post(int, allfold::lane, const allfold::outgoing&) { return true; }
    template <class Sink>
    bool try_receive(int, allfold::lane, Sink&&) {
        return false;
    }
    template <allfold::pending_work Work>
    void wait(Work&, std::optional<std::chrono::steady_clock::time_point>) {}
    template <allfold::pending_work Work>
    bool look_around(Work&, std::optional<std::chrono::steady_clock::time_point>) {
        return false;
    }
    void abandon() {}

    allfold::background operations;
};
