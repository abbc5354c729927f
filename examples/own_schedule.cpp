// SPDX-License-Identifier: BSL-1.0
// A schedule that is not part of the library: proved when this is compiled, and then run.
#include <cstdio>
#include <string>

#include <allfold/allfold.hpp>
#include <allfold/analysis/prove.hpp>

using namespace allfold;

namespace {

struct chain {
    static constexpr const char* name = "chain";

    class inclusive_scan : public schedule_of<chain> {
      public:
        static constexpr order keeps = order::rank;
        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const { return 1; }
        [[nodiscard]] constexpr int rounds() const { return size() - 1; }
        [[nodiscard]] constexpr step operator[](int round) const {  // rank `round` sends its fold to the next rank
            const block_set all = block_set::one(0);
            if (rank() == round + 1) return {.from = peers::one(round), .receive = all, .how = fold::left};
            if (rank() != round) return {};
            step s{.to = peers::one(round + 1), .send = all, .source = rank() == 0 ? slot::input : slot::result};
            if (rank() == 0) s.local = keep_input(all);
            return s;
        }
    };
};
static_assert(proved(inclusive_scan, chain{}, 6));

}  // namespace

int main() {
    bool is_right = true;
    run(4, [&](auto& comm) {
        const auto join = associative([](const std::string& a, const std::string& b) { return a + b; });
        std::string word(1, static_cast<char>('a' + comm.rank()));
        inclusive_scan(comm, word, join, chain{});
        if (comm.rank() == 3) is_right = word == "abcd";
    });
    std::puts(is_right ? "abcd, along a chain" : "something is wrong");
    return is_right ? 0 : 1;
}
