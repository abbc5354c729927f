// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/detail/distance.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

#include "allfold/transport/thread_world.hpp"
#include "test/support/catch.hpp"

using allfold::detail::distance;
using std::chrono::nanoseconds;

namespace {

constexpr std::size_t most = std::size_t{1} << 30;  // enough for a new measurement each time

/// A peer whose counter is incremented, or not, before it is read.
struct peer {
    nanoseconds limit;
    std::atomic<std::uint32_t> counter{0};
    distance from{};

    [[nodiscard]] bool is_far(std::size_t bytes = most) { return from.is_far(bytes, counter, limit); }
    [[nodiscard]] bool is_far_after_more(std::size_t bytes = most) {
        ++counter;
        return is_far(bytes);
    }
};

struct processor_seen {
    bool is_amd = false;
    int family = 0;
};
/// As the kernel tells, if it does.
[[nodiscard]] processor_seen processor() {
    processor_seen found;
    std::ifstream all("/proc/cpuinfo");
    for (std::string line; std::getline(all, line) && !line.empty();) {
        found.is_amd = found.is_amd || line.find("AuthenticAMD") != std::string::npos;
        if (line.starts_with("cpu family")) found.family = std::stoi(line.substr(line.find(':') + 1));
    }
    return found;
}

}  // namespace

TEST_CASE("a core is far if its cache line takes longer than the limit") {
    peer all_are{nanoseconds::min()}, none_is{nanoseconds::max()};
    CHECK(all_are.is_far_after_more());
    CHECK_FALSE(none_is.is_far_after_more());
}

TEST_CASE("for short messages no core is far, and the latest result is kept") {
    peer other{nanoseconds::min()};
    CHECK_FALSE(other.is_far_after_more(distance::min_bytes - 1));
    CHECK_FALSE(other.from.was_far());
    CHECK(other.is_far_after_more(distance::min_bytes));
    CHECK(other.from.was_far());
    CHECK_FALSE(other.is_far_after_more(distance::min_bytes - 1));
}

TEST_CASE("for messages that exceed the caches no core is far, and none is measured") {
    using allfold::detail::far_limits;
    std::atomic<std::uint32_t> counter{1};
    distance from;
    const far_limits limits(nanoseconds::min(), 10000);
    CHECK_FALSE(from.is_far(10001, counter, limits));
    CHECK(from.is_far(10000, counter, limits));
    CHECK_FALSE(from.is_far(10001, counter, limits));
    CHECK(far_limits::usual_max_bytes(64) <= far_limits::usual_max_bytes(1));
}

TEST_CASE("a counter that has not gone on tells nothing: its line may have been here") {
    peer other{nanoseconds::min()};
    CHECK_FALSE(other.is_far());
    ++other.counter;
    other.from.note(1);
    CHECK_FALSE(other.is_far());
    CHECK(other.is_far_after_more());
}

TEST_CASE("the first measurement decides, and then two in a row") {
    distance to;
    std::uint32_t counted = 0;
    const auto is_far_after = [&](bool seems_far) {
        to.note(++counted, seems_far);
        return to.was_far();
    };
    constexpr bool near = false, far = true;
    for (const bool seems : {far, near, far, near}) CHECK(is_far_after(seems));
    for (const bool seems : {near, far, near, far}) CHECK_FALSE(is_far_after(seems));
    CHECK(is_far_after(far));
}

TEST_CASE("it is not measured for each message") {
    peer other{nanoseconds::min()};
    REQUIRE(other.is_far_after_more());
    for (std::uint32_t counted = 1000; counted < 1002; ++counted) other.from.note(counted, false);  // it is near now
    for (std::size_t bytes = 0; bytes + 5000 <= std::size_t{512} << 10; bytes += 5000)
        CHECK_FALSE(other.is_far_after_more(5000));
    CHECK_FALSE(other.is_far_after_more());
    CHECK(other.is_far_after_more());
}

TEST_CASE("unless it is said, somebody may be far on processors of AMD, and nobody on others") {
    const auto [is_amd, family] = processor();
    const bool may_be = ALLFOLD_STREAMS != 0 && is_amd;
    CHECK(distance::usual_limit() == (may_be ? nanoseconds(85) : nanoseconds::max()));
    CHECK(allfold::thread_world(2).tuning().far_latency == distance::usual_limit());
    const allfold::thread_tuning said{.far_latency = nanoseconds(5)};
    CHECK(allfold::thread_world(2, said).tuning().far_latency == nanoseconds(5));
}

TEST_CASE("unless it is said, on AMD Zen 5 only long messages are copied with streaming stores") {
    const auto [is_amd, family] = processor();
    const std::size_t usual = is_amd && family >= 26 ? std::size_t{512} << 10 : 0;
    CHECK(allfold::thread_world(2).tuning().far_streamed_bytes == usual);
    for (const std::size_t said : {0u, 5000u})
        CHECK(allfold::thread_world(2, {.far_streamed_bytes = said}).tuning().far_streamed_bytes == said);
}
