// SPDX-License-Identifier: BSL-1.0
// expect: allfold: ranks of this transport share no memory, and this element type is not trivially copyable: specialise allfold::serializer for it

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "support/process.hpp"

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
