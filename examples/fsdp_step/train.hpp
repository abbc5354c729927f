// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "examples/fsdp_step/network.hpp"
#include <allfold/algebra/arithmetic.hpp>
#include <allfold/algebra/exact_sum.hpp>
#include <allfold/collective/all_gather.hpp>
#include <allfold/collective/all_reduce.hpp>
#include <allfold/collective/reduce_scatter.hpp>
#include <allfold/data/partition.hpp>

/// @file
/// Training with all that lasts from step to step in shards: parameters and momenta. Zhao et al., "PyTorch FSDP:
/// experiences on scaling fully sharded data parallel", 2023; Rajbhandari et al., "ZeRO", 2020.
///
///     all_gather         every rank has all parameters, for this step
///     own share          of the batch: what each of its digits adds to the gradient
///     reduce_scatter     every rank has the sum of its shard of the gradient, and changes its shard of the parameters

namespace examples {

struct settings {
    std::size_t epochs = 20, batch = 60, held_out = 297, seed = 1;
    float rate = 0.05F, momentum = 0.9F;
};

/// What is known after an epoch, about the digits that it has learnt from and those that it has not seen.
struct progress_made {
    double loss = 0;  ///< of a digit
    std::size_t right = 0, right_unseen = 0;
    std::uint64_t fingerprint = 0;  ///< of the bits of all parameters
};

/// How gradients are summed. Exactly: whoever adds what in which order, the sum has the same bits. 56 bytes for each
/// parameter travel instead of 4; where that is too many, a tree over digits with fixed borders is another way.
struct exact {
    using element = allfold::exact_accumulator<float>;
    using operation = allfold::exact_sum<float>;
};
/// As usual: the bits depend on who adds what, and so on the number of ranks.
struct rounded {
    using element = float;
    using operation = allfold::sum;
};

[[nodiscard]] inline std::uint64_t fingerprint_of(std::span<const float> p) {  // FNV-1a, a parameter at a time
    std::uint64_t hash = 14695981039346656037u;
    for (const float each : p) hash = (hash ^ std::bit_cast<std::uint32_t>(each)) * 1099511628211u;
    return hash;
}

/// One rank of those that train together.
template <class Sums, class Communicator>
class trainer {
  public:
    trainer(Communicator& comm, std::span<const digit> digits, const settings& chosen)
        : comm_(comm),
          chosen_(chosen),
          known_(digits.first(digits.size() - chosen.held_out)),
          unseen_(digits.last(chosen.held_out)),
          shards_(allfold::partition::ceil(layout::total, comm.size())),
          whole_(first_parameters(chosen.seed)),
          sums_(layout::total),
          own_sums_(shards_.extent(comm.rank())),
          momenta_(shards_.extent(comm.rank())) {
        const std::span own = std::span(whole_).subspan(shards_.offset(comm.rank()), shards_.extent(comm.rank()));
        shard_.assign(own.begin(), own.end());
    }

    template <class Report>
    void run_epoch(std::size_t epoch, Report report) {
        const std::vector<std::size_t> order = shuffled(known_.size(), chosen_.seed + epoch);
        for (std::size_t begin = 0; begin < order.size(); begin += chosen_.batch) {
            report(begin);
            step(std::span(order).subspan(begin, std::min(chosen_.batch, order.size() - begin)));
        }
    }

    [[nodiscard]] progress_made evaluate() {
        allfold::all_gather(comm_, shard_, whole_, shards_);
        progress_made made{.fingerprint = fingerprint_of(whole_)};
        allfold::exact_accumulator<double> loss;
        for (const digit& each : share_of(known_)) {
            const activations a = run_forward(whole_, each);
            loss += a.loss(each);
            made.right += a.guess() == each.shown ? 1 : 0;
        }
        for (const digit& each : share_of(unseen_))
            made.right_unseen += run_forward(whole_, each).guess() == each.shown ? 1 : 0;
        made.loss = allfold::all_reduce(comm_, loss, allfold::exact_sum<double>()) / static_cast<double>(known_.size());
        allfold::all_reduce(comm_, made.right, allfold::sum());
        allfold::all_reduce(comm_, made.right_unseen, allfold::sum());
        return made;
    }

  private:
    template <class T>
    [[nodiscard]] std::span<T> share_of(std::span<T> all) const {
        const auto [begin, end] = allfold::partition::even(all.size(), comm_.size()).bounds_of(comm_.rank());
        return all.subspan(begin, end - begin);
    }

    void step(std::span<const std::size_t> batch) {
        allfold::all_gather(comm_, shard_, whole_, shards_);
        std::ranges::fill(sums_, typename Sums::element());
        for (const std::size_t i : share_of(batch)) add_gradient(whole_, known_[i], sums_);
        allfold::reduce_scatter(comm_, sums_, own_sums_, typename Sums::operation(), shards_);
        for (std::size_t i = 0; i < shard_.size(); ++i) {
            const float slope = static_cast<float>(own_sums_[i]) / static_cast<float>(batch.size());
            momenta_[i] = chosen_.momentum * momenta_[i] + slope;
            shard_[i] -= chosen_.rate * momenta_[i];
        }
    }

    Communicator& comm_;
    settings chosen_;
    std::span<const digit> known_, unseen_;
    allfold::partition shards_;
    std::vector<float> whole_;  ///< for the time of a step
    std::vector<typename Sums::element> sums_, own_sums_;
    std::vector<float> shard_, momenta_;  ///< what lasts
};

}  // namespace examples
