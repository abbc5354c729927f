// SPDX-License-Identifier: BSL-1.0
// The types of a program whose namespace has a function template of every name that the library has a function of, for
// any arguments. The library must not call them, though argument-dependent lookup finds them: it qualifies such calls
// (`detail::lifted(op, x)`).
#include <chrono>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "every_header.hpp"
#include "greedy_functions.hpp"
#include "test/transport/toy_transport.hpp"

namespace greedy {

/// Operators that look as if every type had them.
struct selfish {
    void operator&() const = delete;
    template <class T>
    void operator,(T&&) const = delete;
    friend bool operator==(const selfish&, const selfish&) = default;
};

struct number : selfish {
    long value = 0;
    number() = default;
    number(long n) : value(n) {}
    friend bool operator==(const number&, const number&) = default;
};
struct word : selfish {
    std::string characters;
    word() = default;
    word(std::string text) : characters(std::move(text)) {}
    friend bool operator==(const word&, const word&) = default;
};

struct add : selfish {
    static constexpr allfold::law_set laws = allfold::law::associative | allfold::law::commutative;
    number operator()(const number& a, const number& b) const { return {a.value + b.value}; }
};
struct add_rows : selfish {
    static constexpr allfold::law_set laws = allfold::law::associative | allfold::law::commutative;
    using rows = allfold::stretch<const number>;
    void operator()(rows a, rows b, allfold::stretch<number> out) const {
        for (std::size_t i = 0; i < out.size(); ++i) out[i].value = a[i].value + b[i].value;
    }
};
struct average : selfish {
    struct state : selfish {
        long sum = 0;
        explicit state(long n) : sum(n) {}
    };
    static constexpr allfold::law_set laws = allfold::law::associative | allfold::law::commutative;
    state lift(const number& n) const { return state(n.value); }
    number lower(const state& all, int n) const { return {all.sum / n}; }
    state operator()(const state& a, const state& b) const { return state(a.sum + b.sum); }
};
struct join : selfish {
    static constexpr allfold::law_set laws = allfold::law::associative;
    word operator()(const word& a, const word& b) const { return {a.characters + b.characters}; }
};

template <class T>
struct list : std::vector<T>, selfish {
    using std::vector<T>::vector;
};
/// Every other row of a matrix.
struct view : selfish {
    using element_type = number;
    number* first;
    std::size_t width;
    explicit view(list<number>& all, std::size_t n) : first(all.data()), width(n) {}
    static constexpr std::size_t rank() { return 2; }
    [[nodiscard]] std::size_t extent(std::size_t axis) const { return axis == 0 ? width / 2 : width; }
    [[nodiscard]] std::ptrdiff_t stride(std::size_t axis) const {
        return static_cast<std::ptrdiff_t>(axis == 0 ? 2 * width : 1);
    }
    [[nodiscard]] number* data() const { return first; }
};

// Exact functions, which are preferred even to the library's own templates.
number lowered(const average&, const average::state&, int) = delete;
std::size_t count_of(const view&) = delete;
std::size_t run_length(const view&) = delete;
bool is_nested(const view&) = delete;
std::size_t bytes_of(const view&) = delete;

struct chain {
    static constexpr const char* name = "chain";
    static constexpr bool has_parameters = true;
    int length = 1;

    class inclusive_scan : public allfold::schedule_of<chain> {
      public:
        static constexpr allfold::order keeps = allfold::order::rank;
        constexpr inclusive_scan(const allfold::setting& where, const chain&) noexcept : schedule_of(where) {}
        [[nodiscard]] constexpr int blocks() const { return 1; }
        [[nodiscard]] constexpr int rounds() const { return size() - 1; }
        [[nodiscard]] constexpr allfold::step operator[](int round) const {
            const auto whole = allfold::block_set::one(0);
            if (rank() == round + 1)
                return {.from = allfold::peers::one(round), .receive = whole, .how = allfold::fold::left};
            if (rank() != round) return {};
            const auto source = rank() == 0 ? allfold::slot::input : allfold::slot::result;
            allfold::step s{.to = allfold::peers::one(round + 1), .send = whole, .source = source};
            if (rank() == 0) s.local = allfold::keep_input(whole);
            return s;
        }
    };
};
static_assert(allfold::proved(allfold::inclusive_scan, chain{}, 4));

struct transport : test::toy {
    using toy::toy;
};

}  // namespace greedy

template <>
struct allfold::serializer<greedy::word> {
    static std::size_t bytes(const greedy::word& x) { return x.characters.size(); }
    static void write(const greedy::word& x, std::byte* to) {
        std::memcpy(to, x.characters.data(), x.characters.size());
    }
    static greedy::word read(std::span<const std::byte> from) {
        return std::string(reinterpret_cast<const char*>(from.data()), from.size());
    }
};

using namespace allfold;
using greedy::number;
using greedy::word;

template <class Comm>
static void fold_and_move(Comm& comm) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    greedy::list<number> x(ranks), y(ranks), all(ranks * ranks), grown;
    all_reduce(comm, x, greedy::add{});
    all_reduce(comm, x, greedy::add_rows{}, deadline{std::chrono::seconds(60)});
    all_reduce(comm, x, y, greedy::average{}, window{64});
    broadcast(comm, x, root{0});
    reduce(comm, x, greedy::add{});
    inclusive_scan(comm, x, greedy::add{});
    exclusive_scan(comm, x, allfold::with_identity(greedy::add{}, number{}));
    exclusive_scan(comm, x, greedy::average{});
    reduce_scatter(comm, all, x, greedy::add{});
    gather(comm, x, all);
    scatter(comm, all, x);
    permute(comm, x, y, shift{1}, proved_first{});
    all_gather(comm, x, all, in_sync::all, out_sync::all);
    all_to_all(comm, all, all);
    all_to_all(comm, x, std::vector<std::size_t>(ranks, 1), grown);
    all_reduce.start(comm, x, greedy::add{}).wait();
    inclusive_scan.prepare(comm, x, greedy::add{})();
    number one = all_reduce(comm, number{1}, greedy::add{});
    one = broadcast(comm, one);
    all_reduce(comm, tensor<number, 2>(all.data(), {ranks, ranks}), greedy::add{});
    records state{x, y};
    all_reduce(comm, state, fused{greedy::add{}, greedy::add_rows{}});
    all_reduce(comm, tensors{x, y}, greedy::add{});
    reduce_scatter(comm, tensors{all}, tensors{x}, greedy::add{});
    all_gather(comm, x, tensor<number, 2>(all.data(), {ranks, ranks}), axis{1});
    reduce_scatter(comm, tensor<number, 2>(all.data(), {ranks, ranks}), greedy::add{}, axis{1});
    reduce(comm, images(x, y), one, greedy::add{});
    all_reduce(comm, images(x, y), all, greedy::average{});
    inclusive_scan(comm, distributed(x, block_cyclic{1, 0, ranks * ranks}),
                   distributed(y, block_cyclic{2, 1, ranks * ranks}), greedy::add{});
    reduce(comm, distributed(x, block_cyclic{1, 0, ranks * ranks}), one, greedy::add{});
    const greedy::view rows(all, ranks);
    all_reduce(comm, rows, greedy::add{}, in_sync::all, out_sync::none);
    all_reduce(comm, records{rows, rows}, greedy::add{}, out_sync::none);
    all_reduce(comm, rows, greedy::average{});
    together(comm, all_reduce.with(x, greedy::add{}), broadcast.with(y));
    static_cast<void>(all_reduce.plan(comm, 100, greedy::add{}).name());
    static_cast<void>(allfold::check_laws(greedy::add{}, x));
}
template <class Comm>
static void name_algorithms(Comm& comm) {
    greedy::list<number> x(3), y(3);
    all_reduce(comm, x, y, greedy::add{}, ring{});
    all_reduce(comm, x, greedy::add_rows{}, order::tree);
    all_reduce(comm, x, greedy::average{}, recursive_doubling{}, window{8});
    inclusive_scan(comm, x, greedy::add{}, greedy::chain{}, proved_first{});
}
template <class Comm>
static void use_objects(Comm& comm) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    greedy::list<word> x(ranks), y(ranks), all(ranks * ranks);
    all_reduce(comm, x, greedy::join{});
    inclusive_scan(comm, x, y, greedy::join{});
    all_gather(comm, x, all);
    scatter(comm, all, x);
    all_to_all(comm, all, all);
    reduce_scatter(comm, all, x, greedy::join{});
    word one = all_reduce(comm, word{"a"}, greedy::join{});
    reduce(comm, images(x, y), one, greedy::join{});
    inclusive_scan(comm, images(x, y), greedy::join{});
    exclusive_scan(comm, images(x, y), greedy::join{});
    const block_cyclic layout{1, 0, ranks * ranks};
    inclusive_scan(comm, distributed(x, layout), greedy::join{});
    exclusive_scan(comm, distributed(x, layout), greedy::join{});
}
template <class Comm>
static void send_messages(Comm& comm) {
    greedy::list<number> x(2), y(2);
    const int right = (comm.rank() + 1) % comm.size(), left = (comm.rank() + comm.size() - 1) % comm.size();
    exchange(comm, x, to{right}, y, from{left});
    auto first = send.start(comm, x, to{right}, tag{3}), second = receive.start(comm, y, from{any}, tag{3});
    allfold::wait_all(first, second);
    word one;
    auto sent = send.start(comm, one, to{right}, tag{4});
    message m = probe(comm, from{any}, tag{4});
    receive(m, one);
    sent.wait();
}
template <class Comm>
static void use(Comm& comm) {
    fold_and_move(comm);
    name_algorithms(comm);
    use_objects(comm);
    send_messages(comm);
}

int main() {
    run(2, [](auto& comm) { use(comm); });
    self alone;
    use(alone);
    test::toy_world world(1);
    greedy::transport toy(world, 0);
    use(toy);
#ifdef ALLFOLD_WITH_MPI
    mpi::run([](auto& processes) {
        use(processes);
        run(processes, 2, [](auto& threads) { fold_and_move(threads); });
    });
#endif
    static_cast<void>(explore(2, [](auto& comm) { use(comm); }).ok());
}
