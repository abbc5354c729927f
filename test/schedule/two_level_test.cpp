// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/two_level.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "allfold/schedule/any_schedule.hpp"
#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

using allfold::block_set;
using allfold::fault;
using allfold::peers;
using allfold::proof;
using allfold::prove;
using allfold::setting;
using allfold::step;
using allfold::two_level;
using allfold::two_level_halving;
using allfold::detail::ceil_log2;

static_assert(allfold::grouped_schedule<two_level::all_reduce> && allfold::grouped_schedule<two_level::reduce>);
static_assert(two_level::reduce_scatter::keeps == allfold::order::rank);
static_assert(two_level::all_reduce::keeps == allfold::order::rank);
static_assert(two_level_halving::all_reduce::keeps == allfold::order::rank);

static_assert(test::proved_up_to<allfold::barrier, two_level{}, 32, 4>);
static_assert(test::proved_up_to<allfold::broadcast, two_level{}, 32, 4>);
static_assert(test::proved_up_to<allfold::reduce, two_level{}, 32, 4>);
static_assert(test::proved_up_to<allfold::all_reduce, two_level{}, 32, 4>);
static_assert(test::proved_up_to<allfold::all_reduce, two_level_halving{}, 32, 4>);
static_assert(test::proved_up_to<allfold::reduce_scatter, two_level{}, 32, 4>);
static_assert(test::proved_up_to<allfold::all_gather, two_level{}, 32, 4>);
static_assert(test::proved_up_to<allfold::gather, two_level{}, 32, 4>);
static_assert(test::proved_up_to<allfold::scatter, two_level{}, 32, 4>);
static_assert(test::proved_up_to<allfold::permute, two_level{}, 32, 4>);
static_assert(test::proved_up_to<allfold::all_to_all, two_level{}, 32, 4>);
static_assert(test::proved_up_to<allfold::inclusive_scan, two_level{}, 32, 4>);
static_assert(test::proved_up_to<allfold::exclusive_scan, two_level{}, 32, 4>);
static_assert(test::proved_up_to<allfold::all_reduce, two_level{}, 33, 3>);
static_assert(test::proved_up_to<allfold::exclusive_scan, two_level{}, 32, 1>);
static_assert(allfold::proved(allfold::exclusive_scan, two_level{}, 48, 8) &&
              allfold::proved(allfold::inclusive_scan, two_level{}, 48, 16));

namespace {

/// The traffic between groups.
struct crossing {
    bool between_leaders = true;
    long long busiest_blocks_sent = 0;
};

template <class S>
crossing crossing_of(int size, int group, int root = 0) {
    crossing all;
    for (int r = 0; r < size; ++r) {
        const S s(setting{r, size, root, group});
        const auto is_far = [&](int peer) {
            const bool far = peer / group != r / group;
            if (far && (r % group != 0 || peer % group != 0)) all.between_leaders = false;
            return far;
        };
        long long sent = 0;
        for (int i = 0; i < s.rounds(); ++i) {
            const step now = s[i];
            for (int k = 0; k < now.to.count(r, size); ++k)
                if (const int peer = now.to.at(k, r); is_far(peer)) sent += sent_to(s, now, i, peer).size();
            for (int k = 0; k < now.from.count(r, size); ++k) (void)is_far(now.from.at(k, r));
        }
        all.busiest_blocks_sent = std::max(all.busiest_blocks_sent, sent);
    }
    return all;
}

/// G groups of g ranks each, and the quantities that the header comment of two_level.hpp names.
struct hierarchy {
    int group;
    int groups;

    [[nodiscard]] int size() const { return group * groups; }
    [[nodiscard]] bool inside() const { return group > 1; }
    [[nodiscard]] bool single() const { return groups == 1; }
    [[nodiscard]] int q() const { return ceil_log2(groups); }
    [[nodiscard]] allfold::power_of_two_fold fold() const { return allfold::power_of_two_fold(groups); }
    [[nodiscard]] int l() const { return fold().levels + (fold().extra ? 2 : 0); }
    [[nodiscard]] bool even() const { return fold().extra == 0; }
};

/// Proves the schedule, and calls check(proof, hierarchy, crossing, root).
template <class Collective, class Algorithm, class Check>
void prove_hierarchy(const Collective& what, const Algorithm& algorithm, const hierarchy& h, int root,
                     const Check& check) {
    using S = allfold::schedule_in<Collective, Algorithm>;
    const proof p = prove(what, algorithm, h.size(), root, h.group);
    INFO(h.groups << " groups of " << h.group << ", root " << root << ", " << allfold::explain(p));
    REQUIRE(p.ok());
    REQUIRE(p.scratch_slots <= S::scratch_slots);
    const crossing c = crossing_of<S>(h.size(), h.group, root);
    REQUIRE(c.between_leaders);
    check(p, h, c, root);
}

/// The same for 1 to `most` groups of 1 to 8 ranks: with the first, a middle and the last rank as root, or every rank.
template <class Collective, class Algorithm, class Check>
void prove_hierarchies(const Collective& what, const Algorithm& algorithm, int most, bool all_roots, Check check) {
    for (int group = 1; group <= 8; ++group)
        for (int groups = 1; groups <= most; ++groups) {
            const hierarchy h{group, groups};
            const int last = Collective::promise.rooted ? h.size() - 1 : 0;
            for (int root = 0; root <= last; ++root)
                if (all_roots || root == 0 || root == last / 2 || root == last)
                    prove_hierarchy(what, algorithm, h, root, check);
        }
}

/// A schedule with a bug: `edit(rank, round, step)` changes its steps.
template <class S, class Edit>
class edited : public S {
  public:
    constexpr edited(const S& original, Edit edit) : S(original), edit_(edit) {}
    [[nodiscard]] constexpr step operator[](int round) const {
        step s = S::operator[](round);
        edit_(this->rank(), round, s);
        return s;
    }

  private:
    Edit edit_;
};

template <class Collective, class Edit>
proof prove_edited(const Collective& what, int size, int group, Edit edit) {
    using S = allfold::schedule_in<Collective, two_level>;
    return prove(
        size, [=](int r) { return edited<S, Edit>(S({r, size, 0, group}), edit); },
        claim_of(what, two_level(), 0, group));
}

}  // namespace

TEST_CASE("the steps of a two-level barrier, broadcast and reduce of three groups of two are these") {
    CHECK(test::steps_of(allfold::barrier, two_level{}, 6, 0, 2) == test::table{
                                                                        {"<-1", "->2 <-4", "->4 <-2", "->1"},
                                                                        {"->0", "-", "-", "<-0"},
                                                                        {"<-3", "->4 <-0", "->0 <-4", "->3"},
                                                                        {"->2", "-", "-", "<-2"},
                                                                        {"<-5", "->0 <-2", "->2 <-0", "->5"},
                                                                        {"->4", "-", "-", "<-4"},
                                                                    });
    CHECK(test::steps_of(allfold::broadcast, two_level{}, 6, 3, 2) == test::table{
                                                                          {"-", "-", "result<-2", "result->1"},
                                                                          {"-", "-", "-", "result<-0"},
                                                                          {"result<-3", "result->4", "result->0", "-"},
                                                                          {"result=input input->2", "-", "-", "-"},
                                                                          {"-", "result<-2", "-", "result->5"},
                                                                          {"-", "-", "-", "result<-4"},
                                                                      });
    CHECK(test::steps_of(allfold::reduce, two_level{}, 6, 3, 2) ==
          test::table{
              {"a=ordered([1],input)", "a->2", "-", "-"},
              {"input->0", "-", "-", "-"},
              {"a=ordered([3],input)", "a=[0]+a", "a=a+[4]", "a->3"},
              {"input->2", "-", "-", "result<-2"},
              {"a=ordered([5],input)", "-", "a->2", "-"},
              {"input->4", "-", "-", "-"},
          });
}

TEST_CASE("a root that leads its group takes one round less") {
    CHECK(test::steps_of(allfold::broadcast, two_level{}, 6, 2, 2) ==
          test::table{
              {"-", "result<-2", "result->1"},
              {"-", "-", "result<-0"},
              {"result=input input->4", "input->0", "input->3"},
              {"-", "-", "result<-2"},
              {"result<-2", "-", "result->5"},
              {"-", "-", "result<-4"},
          });
    CHECK(test::steps_of(allfold::reduce, two_level{}, 6, 2, 2)[2] ==
          std::vector<std::string>{"result=ordered([3],input)", "result=[0]+result", "result=result+[4]"});
}

TEST_CASE("the steps of a two-level all_reduce of three groups of two are these") {
    CHECK(test::steps_of(allfold::all_reduce, two_level{}, 6, 0, 2) ==
          test::table{
              {"result=ordered([1],input)", "result->2", "-", "result<-2", "result->1"},
              {"input->0", "-", "-", "-", "result<-0"},
              {"result=ordered([3],input)", "a=[0]+result", "a->4 result=a+[4]", "result->0", "result->3"},
              {"input->2", "-", "-", "-", "result<-2"},
              {"result=ordered([5],input)", "-", "a=result a->2 result=[2]+result", "-", "result->5"},
              {"input->4", "-", "-", "-", "result<-4"},
          });
}

TEST_CASE("the steps of a two-level reduce_scatter, all_gather and halving of two groups of two are these") {
    CHECK(test::steps_of(allfold::reduce_scatter, two_level{}, 4, 0, 2) ==
          test::table{
              {"a{0,1,2,3}=ordered([1],input)", "a{2,3}->2 a{0,1}=a+[2]", "result{0}=a a{p}->1"},
              {"input{0,1,2,3}->0", "-", "result{1}<-0"},
              {"a{0,1,2,3}=ordered([3],input)", "a{0,1}->0 a{2,3}=[0]+a", "result{2}=a a{p}->3"},
              {"input{0,1,2,3}->2", "-", "result{3}<-2"},
          });
    CHECK(test::steps_of(allfold::all_gather, two_level{}, 4, 0, 2) ==
          test::table{
              {"result{0}=input input{0}->1 result{p}<-1", "result{0,1}->2 result{2,3}<-2", "result{2,3}->1"},
              {"result{1}=input input{1}->0 result{p}<-0", "-", "result{2,3}<-0"},
              {"result{2}=input input{2}->3 result{p}<-3", "result{2,3}->0 result{0,1}<-0", "result{0,1}->3"},
              {"result{3}=input input{3}->2 result{p}<-2", "-", "result{0,1}<-2"},
          });
    CHECK(test::steps_of(allfold::all_reduce, two_level_halving{}, 4, 0, 2)[2] ==
          std::vector<std::string>{"result{0,1,2,3}=ordered([3],input)", "result{0,1}->0 result{2,3}=[0]+result",
                                   "result{2,3}->0 result{0,1}<-0", "result{0,1,2,3}->3"});
}

TEST_CASE("the steps of two-level scans of three groups of two are these") {
    CHECK(test::steps_of(allfold::inclusive_scan, two_level{}, 6, 0, 2) ==
          test::table{
              {"a=ordered([1])", "b=input+a b->2", "b->4", "result=input input->1"},
              {"input->0", "-", "-", "result=[0]+input"},
              {"a=ordered([3])", "b=input+a b->4 result=[0]+input", "-", "result->3"},
              {"input->2", "-", "-", "result=[2]+input"},
              {"-", "result=[2]+input", "result=[0]+result", "result->5"},
              {"-", "-", "-", "result=[4]+input"},
          });
    CHECK(test::steps_of(allfold::exclusive_scan, two_level{}, 6, 0, 2) ==
          test::table{
              {"input->1 a=ordered([1],input)", "a->2", "a->4", "result=identity"},
              {"input->0 a<-0", "-", "-", "result=a"},
              {"input->3 a=ordered([3],input)", "a->4 result<-0", "-", "result->3"},
              {"input->2 a<-2", "-", "-", "result=[2]+a"},
              {"input->5", "result<-2", "result=[0]+result", "result->5"},
              {"a<-4", "-", "-", "result=[4]+a"},
          });
}

TEST_CASE("members of a two-level scan fold their prefixes while the leaders are busy") {
    const test::table inclusive = test::steps_of(allfold::inclusive_scan, two_level{}, 8, 0, 4);
    CHECK(inclusive[4] == std::vector<std::string>{"-", "result=[0]+input", "result->5,6,7"});
    CHECK(inclusive[5] == std::vector<std::string>{"-", "input->6,7", "result=[4]+input"});
    CHECK(inclusive[6] == std::vector<std::string>{"-", "input->7 a=ordered([5],input)", "result=[4]+a"});
    CHECK(inclusive[7] == std::vector<std::string>{"-", "a=ordered([5,6],input)", "result=[4]+a"});
    const test::table exclusive = test::steps_of(allfold::exclusive_scan, two_level{}, 8, 0, 4);
    CHECK(exclusive[0] == std::vector<std::string>{"input->1,2,3 a=ordered([1,2,3],input)", "a->4", "result=identity"});
    CHECK(exclusive[2] == std::vector<std::string>{"input->0 a<-0", "input->3 b=ordered([1])", "result=a+b"});
    CHECK(exclusive[5] == std::vector<std::string>{"a<-4", "input->6,7", "result=[4]+a"});
    CHECK(exclusive[7] == std::vector<std::string>{"a<-4", "b=ordered([5,6])", "a=a+b result=[4]+a"});
}

TEST_CASE("in groups of one the leaders' schedule is left") {
    const auto same = [](const auto& what, const auto& two_levels, const auto& among, int root) {
        for (const int size : {1, 2, 3, 6, 8})
            CHECK(test::steps_of(what, two_levels, size, root % size) ==
                  test::steps_of(what, among, size, root % size));
    };
    same(allfold::barrier, two_level{}, allfold::dissemination{}, 0);
    same(allfold::broadcast, two_level{}, allfold::binomial{}, 2);
    same(allfold::reduce, two_level{}, allfold::binomial{}, 2);
    same(allfold::all_reduce, two_level{}, allfold::recursive_doubling{}, 0);
    same(allfold::all_reduce, two_level_halving{}, allfold::recursive_halving{}, 0);
    same(allfold::reduce_scatter, two_level{}, allfold::recursive_halving{}, 0);
    same(allfold::all_gather, two_level{}, allfold::recursive_halving{}, 0);
    same(allfold::inclusive_scan, two_level{}, allfold::dissemination{}, 0);
}

TEST_CASE("two-level schedules exist for whole groups only") {
    STATIC_REQUIRE(allfold::supports<two_level::all_reduce>(6, 2));
    STATIC_REQUIRE_FALSE(allfold::supports<two_level::all_reduce>(7, 2));
    STATIC_REQUIRE_FALSE(allfold::supports<two_level::all_reduce>(6, 0));
    CHECK(prove(allfold::reduce, two_level{}, 7, 0, 2).what == fault::unsupported);
}

TEST_CASE("two-level barriers, broadcasts and reduces are proved, cross between leaders, and cost what they say") {
    prove_hierarchies(allfold::barrier, two_level{}, 40, false,
                      [](const proof& p, const hierarchy& h, const crossing&, int) {
                          CHECK(p.rounds == h.q() + (h.inside() ? 2 : 0));
                          CHECK(p.messages == h.groups * (h.q() + 2 * (h.group - 1)));
                      });
    const auto broadcast = [](const proof& p, const hierarchy& h, const crossing& c, int root) {
        const bool leads = root % h.group == 0;
        CHECK(p.rounds == h.q() + (!h.inside() ? 0 : h.single() || leads ? 1 : 2));
        CHECK(p.messages == h.size() - 1);
        CHECK(c.busiest_blocks_sent <= h.q());
    };
    prove_hierarchies(allfold::broadcast, two_level{}, 40, false, broadcast);
    prove_hierarchies(allfold::broadcast, two_level{}, 7, true, broadcast);
    const auto reduce = [](const proof& p, const hierarchy& h, const crossing& c, int root) {
        const bool leads = root % h.group == 0;
        CHECK(p.rounds == h.q() + (!h.inside() ? 0 : h.single() || leads ? 1 : 2));
        CHECK(p.folds == h.size() - 1);
        CHECK(p.busiest_folds <= h.group - 1 + h.q());
        CHECK(c.busiest_blocks_sent <= 1);
    };
    prove_hierarchies(allfold::reduce, two_level{}, 40, false, reduce);
    prove_hierarchies(allfold::reduce, two_level{}, 7, true, reduce);
}

TEST_CASE("two-level all_reduces are proved, cross between leaders, and cost what they say") {
    prove_hierarchies(allfold::all_reduce, two_level{}, 40, false,
                      [](const proof& p, const hierarchy& h, const crossing& c, int) {
                          CHECK(p.rounds == h.l() + (h.inside() ? 2 : 0));
                          CHECK(p.busiest_folds <= h.group - 1 + h.l());
                          CHECK(c.busiest_blocks_sent <= h.l());
                      });
    prove_hierarchies(allfold::all_reduce, two_level_halving{}, 20, false,
                      [](const proof& p, const hierarchy& h, const crossing& c, int) {
                          CHECK(p.rounds == h.l() + h.fold().levels + (h.inside() ? 2 : 0));
                          if (h.even())
                              CHECK(c.busiest_blocks_sent == 2LL * (h.groups - 1) * (h.single() ? 1 : h.group));
                      });
}

TEST_CASE("two-level reduce_scatters and all_gathers are proved, cross between leaders, and cost what they say") {
    prove_hierarchies(allfold::reduce_scatter, two_level{}, 20, false,
                      [](const proof& p, const hierarchy& h, const crossing& c, int) {
                          CHECK(p.rounds == h.l() + (h.inside() ? 2 : 0));
                          if (!h.even()) return;
                          CHECK(c.busiest_blocks_sent == (h.groups - 1) * h.group);
                          CHECK(p.busiest_folds == (h.group - 1) * h.size() + (h.groups - 1) * h.group);
                      });
    prove_hierarchies(allfold::all_gather, two_level{}, 20, false,
                      [](const proof& p, const hierarchy& h, const crossing& c, int) {
                          CHECK(p.rounds == h.l() + (!h.inside() ? 0 : h.single() ? 1 : 2));
                          if (h.even()) CHECK(c.busiest_blocks_sent == (h.groups - 1) * h.group);
                      });
}

TEST_CASE("the steps of a two-level scatter from rank 1 of two groups of two are these") {
    CHECK(test::steps_of(allfold::scatter, two_level{}, 4, 1, 2) ==
          test::table{
              {"a{0,1,2,3}<-1", "a{2,3}->2", "result{0}=a a{p}->1"},
              {"input{0,1,2,3}->0", "-", "result{1}<-0"},
              {"-", "a{2,3}<-0", "result{2}=a a{p}->3"},
              {"-", "-", "result{3}<-2"},
          });
}

TEST_CASE("the steps of a two-level permutation of two groups of two are these") {
    const int list[] = {3, 0, 2, 1};
    CHECK(test::steps_of(allfold::permute, two_level{}, {.size = 4, .group = 2, .destinations = list}) ==
          test::table{
              {"a=input a{p}<-1", "b=a{1}", "-", "a->2 b{1}<-2", "-", "result=b b{p}->1"},
              {"input->0", "-", "-", "-", "-", "result<-0"},
              {"a=input a{p}<-3", "b=a", "-", "a{1}->0 b{1}<-0", "-", "result=b b{p}->3"},
              {"input->2", "-", "-", "-", "-", "result<-2"},
          });
}

TEST_CASE("two-level permutations are proved, cross between leaders, and cost what they say") {
    const auto check = [](const proof& p, const hierarchy& h, const crossing& c, int) {
        CHECK(p.rounds == (h.inside() && !h.single() ? h.size() + 2 : std::min(h.size() - 1, 1)));
        CHECK(c.busiest_blocks_sent <= (h.single() ? 0 : h.group));
    };
    prove_hierarchies(allfold::permute, two_level{}, 7, false, check);
    prove_hierarchies(allfold::permute, two_level{}, 4, true, check);
    std::mt19937 random(6);
    for (int group = 2; group <= 5; ++group)
        for (int groups = 2; groups <= 5; ++groups) {
            std::vector<int> list(static_cast<std::size_t>(group * groups));
            std::iota(list.begin(), list.end(), 0);
            std::ranges::shuffle(list, random);
            const proof p = prove(allfold::permute, two_level{},
                                  {.size = group * groups, .group = group, .destinations = list.data()});
            INFO(allfold::explain(p));
            REQUIRE(p.ok());
        }
}

TEST_CASE("two-level gathers, scatters and all_to_alls are proved, cross between leaders, and cost what they say") {
    const auto gather = [](const proof& p, const hierarchy& h, const crossing& c, int root) {
        CHECK(p.rounds == h.q() + (h.inside() ? 1 : 0) + (root % h.group == 0 ? 0 : 1));
        CHECK(c.busiest_blocks_sent <= (h.single() ? 0 : h.size()));
    };
    prove_hierarchies(allfold::gather, two_level{}, 20, false, gather);
    prove_hierarchies(allfold::gather, two_level{}, 5, true, gather);
    const auto scatter = [](const proof& p, const hierarchy& h, const crossing& c, int root) {
        CHECK(p.rounds == h.q() + (h.inside() ? 1 : 0) + (root % h.group == 0 ? 0 : 1));
        CHECK(c.busiest_blocks_sent == (h.groups - 1) * h.group);
    };
    prove_hierarchies(allfold::scatter, two_level{}, 20, false, scatter);
    prove_hierarchies(allfold::scatter, two_level{}, 5, true, scatter);
    prove_hierarchies(allfold::all_to_all, two_level{}, 9, false,
                      [](const proof& p, const hierarchy& h, const crossing& c, int) {
                          CHECK(p.rounds == (h.size() > 1 ? h.groups + 2 : 0));
                          CHECK(c.busiest_blocks_sent == (h.groups - 1) * h.group * h.group);
                      });
}

TEST_CASE("two-level scans are proved, cross between leaders, and cost what they say") {
    prove_hierarchies(allfold::inclusive_scan, two_level{}, 40, false,
                      [](const proof& p, const hierarchy& h, const crossing& c, int) {
                          if (!h.single()) CHECK(p.rounds == h.q() + (h.inside() ? 2 : 0));
                          if (h.single()) CHECK(p.rounds == std::min(h.group - 1, 2));
                          CHECK(p.busiest_folds <= std::max(h.group - 2 + 2 * h.q(), h.group - 1));
                          CHECK(c.busiest_blocks_sent <= h.q());
                      });
    prove_hierarchies(allfold::exclusive_scan, two_level{}, 40, false,
                      [](const proof& p, const hierarchy& h, const crossing& c, int) {
                          if (!h.single()) CHECK(p.rounds == h.q() + (h.inside() ? 2 : 0));
                          if (h.single()) CHECK(p.rounds == (h.inside() ? std::min(h.group, 3) : 0));
                          CHECK(p.busiest_folds <= std::max(h.group - 3 + 2 * h.q(), h.group - 1));
                          CHECK(c.busiest_blocks_sent <= h.q());
                      });
}

TEST_CASE("groups of a power of two bracket as the canonical tree of all ranks") {
    const auto is_one_tree = []<class C, class A>(const C& what, const A& algorithm, int group, int groups) {
        allfold::claim claimed = claim_of(what, algorithm, 0, group);
        claimed.keeps = allfold::order::tree;
        const int size = group * groups;
        const auto make = [=](int r) { return allfold::schedule_in<C, A>(setting{r, size, 0, group}); };
        return prove(size, make, claimed).ok();
    };
    for (const int group : {1, 2, 4, 8, 16})
        for (int groups = 1; groups <= 13; ++groups) {
            INFO(groups << " groups of " << group);
            CHECK(is_one_tree(allfold::reduce, two_level{}, group, groups));
            CHECK(is_one_tree(allfold::all_reduce, two_level{}, group, groups));
            CHECK(is_one_tree(allfold::all_reduce, two_level_halving{}, group, groups));
            CHECK(is_one_tree(allfold::reduce_scatter, two_level{}, group, groups));
        }
    CHECK_FALSE(is_one_tree(allfold::all_reduce, two_level{}, 3, 2));
    CHECK_FALSE(is_one_tree(allfold::inclusive_scan, two_level{}, 4, 4));
}

TEST_CASE("a thousand groups of sixteen are proved") {
    int size = 16000;  // not a constant, or the compiler would try to evaluate the proof itself
    CHECK(prove(allfold::all_reduce, two_level{}, size, 0, 16).ok());
    CHECK(prove(allfold::reduce, two_level{}, size, 12345, 16).ok());
    CHECK(prove(allfold::inclusive_scan, two_level{}, size, 0, 16).rounds == 12);
    CHECK(prove(allfold::exclusive_scan, two_level{}, size, 0, 16).rounds == 12);
}

TEST_CASE("a broken step of a two-level schedule is noticed") {
    const proof wrong_group = prove_edited(allfold::all_reduce, 6, 2, [](int r, int round, step& s) {
        if (r == 2 && round == 2) s.to = peers::one(5);
    });
    CHECK(wrong_group.what == fault::other_group);
    const proof beyond = prove_edited(allfold::all_reduce, 6, 2, [](int r, int round, step& s) {
        if (r == 4 && round == 0) s.from = peers::range(4, 7);
    });
    CHECK(allfold::explain(beyond) == "P = 6, rank 4, round 0: names rank 6, which is not another of the 6 ranks");
    const proof below = prove_edited(allfold::all_reduce, 6, 2, [](int r, int round, step& s) {
        if (r == 0 && round == 0) s.from = peers::range(-1, 2);
    });
    CHECK(below.what == fault::no_such_peer);
    const proof member_left_out = prove_edited(allfold::all_reduce, 6, 3, [](int r, int round, step& s) {
        if (r == 3 && round == 0) s.from = peers::range(3, 5);
    });
    CHECK(member_left_out.what == fault::unmatched);
    const proof blocks_of_one_rank = prove_edited(allfold::reduce_scatter, 4, 2, [](int r, int round, step& s) {
        if (r == 0 && round == 1) s.send = block_set::one(2);
    });
    CHECK(blocks_of_one_rank.what == fault::message_differs);
    const proof other_side = prove_edited(allfold::inclusive_scan, 6, 2, [](int r, int round, step& s) {
        if (r == 3 && round == 3) s.how = allfold::fold::right;
    });
    CHECK(other_side.what == fault::out_of_order);
    const proof leader_forgotten = prove_edited(allfold::exclusive_scan, 6, 3, [](int r, int round, step& s) {
        if (r == 5 && round == 2) s.local = {};
    });
    CHECK(leader_forgotten.what == fault::wrong_result);
    allfold::claim claimed = claim_of(allfold::all_reduce, two_level(), 0, 3);
    claimed.keeps = allfold::order::tree;
    const proof one_tree = prove(6, [](int r) { return two_level::all_reduce({r, 6, 0, 3}); }, claimed);
    CHECK(one_tree.what == fault::bracketing);
}

TEST_CASE("a schedule behind one type keeps the group") {
    const allfold::any_schedule steps(two_level::reduce({0, 6, 3, 2}), two_level::name);
    for (int r = 0; r < 6; ++r)
        for (int i = 0; i < steps.rounds(); ++i) {
            const step expected = two_level::reduce({r, 6, 3, 2})[i], found = steps.at(r)[i];
            CHECK((found.to == expected.to && found.from == expected.from && found.into == expected.into));
        }
}
