// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "examples/fsdp_step/network.hpp"
#include <allfold/algebra/arithmetic.hpp>
#include <allfold/algebra/exact_sum.hpp>
#include <allfold/collective/all_gather.hpp>
#include <allfold/collective/all_reduce.hpp>
#include <allfold/collective/reduce_scatter.hpp>
#include <allfold/data/partition.hpp>
#include <allfold/data/tensors.hpp>
#include <allfold/schedule/contract.hpp>

/// @file
/// Training in which everything that persists from step to step is sharded: parameters and momenta. Zhao et al.,
/// "PyTorch FSDP: experiences on scaling fully sharded data parallel", 2023; Rajbhandari et al., "ZeRO", 2020.
///
///     all_gather         every rank has all parameters, for this step
///     own share          of the batch: what each of its digits adds to the gradient
///     reduce_scatter     every rank has the sum of its shard of the gradient, and updates its shard of the parameters
///
/// A shard has a part of each tensor: of the weights, and of the biases. All four tensors are one list, and one
/// operation.

namespace examples {

struct settings {
    std::size_t epochs = 20, batch = 60, held_out = 297, seed = 1;
    float rate = 0.05F, momentum = 0.9F;
};

/// The progress after an epoch, on the digits of the training set and on those held out.
struct progress_made {
    double loss = 0;  ///< per digit
    std::size_t right = 0, right_unseen = 0;
    std::uint64_t fingerprint = 0;  ///< of the bits of all parameters
};

/// Sums gradients exactly: whichever rank adds whatever in whatever order, the sum has the same bits. Each parameter
/// takes 56 bytes in a message instead of 4; if that is too many, a tree over digits with fixed boundaries is another
/// way.
struct exact {
    using element = allfold::exact_accumulator<float>;
    using operation = allfold::exact_sum<float>;
    static constexpr auto order = allfold::order::global;
};
/// Sums gradients as usual: the bits depend on which rank adds what, and so on the number of ranks.
struct rounded {
    using element = float;
    using operation = allfold::sum;
    static constexpr auto order = allfold::order::any;
};

/// The tensors in a vector of all parameters. Each is cut into shards of one length, except for the last ones.
template <class T>
[[nodiscard]] allfold::tensors<T> tensors_of(std::vector<T>& all) {
    allfold::tensors<T> list;
    for (std::size_t i = 0; i + 1 < layout::tensors.size(); ++i)
        list.add(std::span(all).subspan(layout::tensors[i], layout::tensors[i + 1] - layout::tensors[i]));
    return std::move(list).by(&allfold::partition::ceil);
}
/// One rank's part of each tensor, one after another.
template <class T>
[[nodiscard]] std::vector<T> shard_of(std::vector<T>& all, int rank, int ranks) {
    const allfold::tensors<T> list = tensors_of(all);
    std::vector<T> shard;
    for (std::size_t i = 0; i < list.lengths().size(); ++i) {
        const auto [begin, end] = list.cut(i, ranks).bounds_of(rank);
        const std::span<T> own = list.pieces_of(i).front().subspan(begin, end - begin);
        shard.insert(shard.end(), own.begin(), own.end());
    }
    return shard;
}

[[nodiscard]] inline std::uint64_t fingerprint_of(std::span<const float> p) {  // FNV-1a, one parameter at a time
    std::uint64_t hash = 14695981039346656037u;
    for (const float each : p) hash = (hash ^ std::bit_cast<std::uint32_t>(each)) * 1099511628211u;
    return hash;
}

/// One of the ranks that train together.
template <class Sums, class Communicator>
class trainer {
  public:
    trainer(Communicator& comm, std::span<const digit> digits, const settings& chosen)
        : comm_(comm),
          chosen_(chosen),
          known_(digits.first(digits.size() - chosen.held_out)),
          unseen_(digits.last(chosen.held_out)),
          whole_(first_parameters(chosen.seed)),
          sums_(layout::total),
          shard_(shard_of(whole_, comm.rank(), comm.size())),
          own_sums_(shard_.size()),
          momenta_(shard_.size()) {}

    template <class Report>
    void run_epoch(std::size_t epoch, Report report) {
        const std::vector<std::size_t> order = shuffled(known_.size(), chosen_.seed + epoch);
        for (std::size_t begin = 0; begin < order.size(); begin += chosen_.batch) {
            report(begin);
            step(std::span(order).subspan(begin, std::min(chosen_.batch, order.size() - begin)));
        }
    }

    [[nodiscard]] progress_made evaluate() {
        allfold::all_gather(comm_, shard_, tensors_of(whole_));
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
        allfold::all_gather(comm_, shard_, tensors_of(whole_));
        std::ranges::fill(sums_, typename Sums::element());
        for (const std::size_t i : share_of(batch)) add_gradient(whole_, known_[i], sums_);
        allfold::reduce_scatter(comm_, tensors_of(sums_), own_sums_, typename Sums::operation(), Sums::order);
        for (std::size_t i = 0; i < shard_.size(); ++i) {
            const float slope = static_cast<float>(own_sums_[i]) / static_cast<float>(batch.size());
            momenta_[i] = chosen_.momentum * momenta_[i] + slope;
            shard_[i] -= chosen_.rate * momenta_[i];
        }
    }

    Communicator& comm_;
    settings chosen_;
    std::span<const digit> known_, unseen_;
    std::vector<float> whole_;  ///< only during a step
    std::vector<typename Sums::element> sums_;
    std::vector<float> shard_;  ///< persists
    std::vector<typename Sums::element> own_sums_;
    std::vector<float> momenta_;  ///< persists
};

}  // namespace examples
