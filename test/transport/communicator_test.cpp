// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/communicator.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "test/support/catch.hpp"

namespace {

struct smallest_arrival {
    std::uint32_t signature() const;
    std::size_t bytes() const;
    std::byte* packed() const;
    std::span<const allfold::part> parts() const;
};

/// What the concept requires, and nothing else.
struct smallest_communicator : allfold::transport_defaults {
    static constexpr bool shares_memory = false;
    using arrival_type = smallest_arrival;
    int rank() const;
    int size() const;
    allfold::lane open(const allfold::signature&, unsigned);
    std::optional<allfold::signature> announced(int, allfold::lane) const;
    bool try_post(int, allfold::lane, const allfold::outgoing&);
    template <class Sink>
    bool try_receive(int, allfold::lane, Sink&&);
    bool lends(std::size_t, bool) const;
    template <allfold::pending_work Work>
    void wait(Work&, std::optional<std::chrono::steady_clock::time_point>);
    void abandon();
    allfold::background& background();
};

// Each lacks one requirement. A deleted member hides that of the base.
struct without_rank : smallest_communicator {
    int rank() const = delete;
};
struct without_size : smallest_communicator {
    int size() const = delete;
};
struct with_mutable_rank : smallest_communicator {
    int rank();
};
struct without_open : smallest_communicator {
    allfold::lane open(const allfold::signature&, unsigned) = delete;
};
struct without_announced : smallest_communicator {
    std::optional<allfold::signature> announced(int, allfold::lane) const = delete;
};
struct without_try_post : smallest_communicator {
    bool try_post(int, allfold::lane, const allfold::outgoing&) = delete;
};
struct with_blocking_post : smallest_communicator {
    void try_post(int, allfold::lane, const allfold::outgoing&);
};
struct without_try_receive : smallest_communicator {
    template <class Sink>
    bool try_receive(int, allfold::lane, Sink&&) = delete;
};
struct without_lends : smallest_communicator {
    bool lends(std::size_t, bool) const = delete;
};
struct without_wait : smallest_communicator {
    template <class Work>
    void wait(Work&, std::optional<std::chrono::steady_clock::time_point>) = delete;
};
struct without_abandon : smallest_communicator {
    void abandon() = delete;
};
struct without_background : smallest_communicator {
    allfold::background& background() = delete;
};
struct with_background_by_value : smallest_communicator {
    int background();
};
struct with_other_arrivals : smallest_communicator {
    using arrival_type = int;
};
struct without_shares_memory : smallest_communicator {
    struct shares_memory;  // hides the member of the base
};
struct without_progress : smallest_communicator {
    void progress() = delete;
};
struct without_native_name : smallest_communicator {
    static const char* native_name(std::string_view) = delete;
};
struct with_notices_that_it_cannot_post : smallest_communicator {
    static constexpr bool has_notices = true;
};
struct with_native_functions_of_another : smallest_communicator {
    using native_function = void (*)(with_native_functions_of_another&, const allfold::native_operands&);
};

struct smallest_work {
    bool poll();
    allfold::waiting blocked_on() const;
    void check() const;
};
struct work_without_poll : smallest_work {
    bool poll() = delete;
};
struct work_without_blocked_on : smallest_work {
    allfold::waiting blocked_on() const = delete;
};

struct work_without_check : smallest_work {
    void check() const = delete;
};

struct copied_only_arrival : smallest_arrival {
    copied_only_arrival(const copied_only_arrival&) = default;
    copied_only_arrival& operator=(copied_only_arrival&&) = delete;
};
struct arrival_without_parts : smallest_arrival {
    std::span<const allfold::part> parts() const = delete;
};
struct arrival_with_other_bytes : smallest_arrival {
    int bytes() const;
};

}  // namespace

TEST_CASE("the smallest communicator models the concept, and lacks nothing that could be left out") {
    STATIC_REQUIRE(allfold::communicator<smallest_communicator>);
    STATIC_REQUIRE_FALSE(allfold::communicator<without_rank>);
    STATIC_REQUIRE_FALSE(allfold::communicator<without_size>);
    STATIC_REQUIRE_FALSE(allfold::communicator<with_mutable_rank>);
    STATIC_REQUIRE_FALSE(allfold::communicator<without_open>);
    STATIC_REQUIRE_FALSE(allfold::communicator<without_announced>);
    STATIC_REQUIRE_FALSE(allfold::communicator<without_try_post>);
    STATIC_REQUIRE_FALSE(allfold::communicator<with_blocking_post>);
    STATIC_REQUIRE_FALSE(allfold::communicator<without_try_receive>);
    STATIC_REQUIRE_FALSE(allfold::communicator<without_lends>);
    STATIC_REQUIRE_FALSE(allfold::communicator<without_wait>);
    STATIC_REQUIRE_FALSE(allfold::communicator<without_abandon>);
    STATIC_REQUIRE_FALSE(allfold::communicator<without_background>);
    STATIC_REQUIRE_FALSE(allfold::communicator<with_background_by_value>);
    STATIC_REQUIRE_FALSE(allfold::communicator<with_other_arrivals>);
    STATIC_REQUIRE_FALSE(allfold::communicator<without_shares_memory>);
    STATIC_REQUIRE_FALSE(allfold::communicator<without_progress>);
    STATIC_REQUIRE_FALSE(allfold::communicator<without_native_name>);
    STATIC_REQUIRE_FALSE(allfold::communicator<with_notices_that_it_cannot_post>);
    STATIC_REQUIRE_FALSE(allfold::communicator<with_native_functions_of_another>);
    STATIC_REQUIRE_FALSE(allfold::communicator<int>);
}

TEST_CASE("what can be polled and looked into is pending work") {
    STATIC_REQUIRE(allfold::pending_work<smallest_work>);
    STATIC_REQUIRE_FALSE(allfold::pending_work<work_without_poll>);
    STATIC_REQUIRE_FALSE(allfold::pending_work<work_without_blocked_on>);
    STATIC_REQUIRE_FALSE(allfold::pending_work<work_without_check>);
}

TEST_CASE("an arrival can be kept, and says where its message lies") {
    STATIC_REQUIRE(allfold::arrival<smallest_arrival>);
    STATIC_REQUIRE_FALSE(allfold::arrival<copied_only_arrival>);
    STATIC_REQUIRE_FALSE(allfold::arrival<arrival_without_parts>);
    STATIC_REQUIRE_FALSE(allfold::arrival<arrival_with_other_bytes>);
}

TEST_CASE("the hash of a signature depends on all that ranks must agree about, and is never 0") {
    allfold::signature base;
    base.elements = 100;
    base.type_id = 42;
    base.level = allfold::order::rank;
    base.root = 1;
    const auto differs = [&](auto change) {
        allfold::signature other = base;
        change(other);
        return other.hash() != base.hash();
    };
    CHECK(differs([](auto& s) { s.level = allfold::order::tree; }));
    CHECK(differs([](auto& s) { s.root = 2; }));
    CHECK(differs([](auto& s) { s.elements = 101; }));
    CHECK(differs([](auto& s) { s.row_bytes = 8; }));
    CHECK(differs([](auto& s) { s.window_rows = 8; }));
    CHECK(differs([](auto& s) { s.largest_block = 8; }));
    CHECK(differs([](auto& s) { s.borders = 8; }));
    CHECK(differs([](auto& s) { s.ranks = 8; }));
    CHECK(differs([](auto& s) { s.type_id = 43; }));
    CHECK_FALSE(differs([](auto& s) { s.element_type = "only for people"; }));  // type_id contains a hash of it
    for (std::uint64_t n = 0; n < 1000; ++n) {
        allfold::signature other = base;
        other.elements = n;
        REQUIRE(other.hash() != 0);
    }
}
