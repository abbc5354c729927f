// SPDX-License-Identifier: BSL-1.0
// expect: allfold: ranks of this transport share no memory, and this element type is not trivially copyable: specialise allfold::serializer for it

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "allfold/allfold.hpp"

struct message {
    std::uint32_t signature() const { return 0; }
    std::size_t bytes() const { return 0; }
    std::byte* packed() const { return nullptr; }
    std::span<const allfold::part> parts() const { return {}; }
};

struct process {
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
    void abandon() {}

    allfold::background operations;
};

using shared = std::shared_ptr<int>;

#ifdef ALLFOLD_MUST_COMPILE
template <>
struct allfold::serializer<shared> {
    static std::size_t bytes(const shared&) { return sizeof(int); }
    static void write(const shared& x, std::byte* to) { std::memcpy(to, x.get(), sizeof(int)); }
    static shared read(std::span<const std::byte> from) {
        int x = 0;
        std::memcpy(&x, from.data(), sizeof x);
        return std::make_shared<int>(x);
    }
};
#endif

int main() {
    process comm;
    std::vector<shared> x(4, std::make_shared<int>(1));
    const auto join =
        allfold::associative([](const shared& a, const shared& b) { return std::make_shared<int>(*a + *b); });
    allfold::all_reduce(comm, x, join);
}
