// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>

#include "allfold/schedule/schedule_of.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// A schedule of any type, as a value: type erasure for schedules.

namespace allfold {

/// Holds a schedule of any type inline, without allocating: it is trivially copyable, so objects that contain it can be
/// too. Models `schedule`.
class any_schedule {
  public:
    static constexpr std::size_t max_bytes = 64;

    template <schedule S>
        requires(!std::same_as<S, any_schedule>)
    any_schedule(const S& s, const char* name)
        : keeps(s.keeps),
          scratch_slots(s.scratch_slots),
          in_place(s.in_place),
          one_pass(allfold::may_be_one_pass(s)),
          folds_once(allfold::folds_once(s)),
          functions_(&functions_of<S>),
          name_(name) {
        static_assert(std::is_trivially_copyable_v<S> && sizeof(S) <= max_bytes && alignof(S) <= alignment,
                      "allfold: a schedule is a small value: at most 64 bytes, trivially copyable");
        ::new (static_cast<void*>(memory_)) S(s);
    }

    order keeps;
    int scratch_slots;
    bool in_place;
    bool one_pass;
    bool folds_once;

    [[nodiscard]] const char* name() const noexcept { return name_; }  ///< of the algorithm
    [[nodiscard]] const setting& where() const noexcept { return functions_->where(memory_); }
    [[nodiscard]] int rank() const noexcept { return where().rank; }
    [[nodiscard]] int size() const noexcept { return where().size; }
    [[nodiscard]] int blocks() const noexcept { return functions_->blocks(memory_); }
    [[nodiscard]] int rounds() const noexcept { return functions_->rounds(memory_); }
    [[nodiscard]] step operator[](int round) const { return functions_->at(memory_, round); }
    [[nodiscard]] step also(int round) const {
        return functions_->also == nullptr ? step{} : functions_->also(memory_, round);
    }
    [[nodiscard]] block_set sent_to(int round, int peer) const {
        return functions_->sent_to == nullptr ? block_set::one(peer) : functions_->sent_to(memory_, round, peer);
    }
    [[nodiscard]] block_set received_from(int round, int peer) const {
        return functions_->received_from == nullptr ? block_set::one(peer)
                                                    : functions_->received_from(memory_, round, peer);
    }
    [[nodiscard]] scratch_blocks scratch() const noexcept {
        return functions_->scratch == nullptr ? scratch_blocks{} : functions_->scratch(memory_);
    }
    [[nodiscard]] bool equal_blocks() const noexcept { return functions_->equal_blocks; }
    [[nodiscard]] bool is_grouped() const noexcept { return functions_->is_grouped; }

    /// Its identity among schedules: the type, and the bytes of the value. (They do not include padding at the end,
    /// which may differ between equal values.)
    [[nodiscard]] const void* type() const noexcept { return functions_; }
    [[nodiscard]] std::span<const std::byte> value() const noexcept { return {memory_, functions_->bytes}; }

    /// The same schedule as seen by another rank.
    [[nodiscard]] any_schedule at(int rank) const {
        any_schedule other = *this;
        functions_->move_to(other.memory_, rank);
        return other;
    }

  private:
    static constexpr std::size_t alignment = alignof(std::max_align_t);

    /// The ones at the end are null if the schedule does not define them: see the concept `schedule`.
    struct functions {
        const setting& (*where)(const void*);
        int (*blocks)(const void*);
        int (*rounds)(const void*);
        step (*at)(const void*, int round);
        void (*move_to)(void*, int rank);
        bool equal_blocks;
        bool is_grouped;
        std::size_t bytes;
        step (*also)(const void*, int round) = nullptr;
        block_set (*sent_to)(const void*, int round, int peer) = nullptr;
        block_set (*received_from)(const void*, int round, int peer) = nullptr;
        scratch_blocks (*scratch)(const void*) = nullptr;
    };

    template <class S>
    [[nodiscard]] static const S& as(const void* memory) noexcept {
        return *static_cast<const S*>(memory);
    }
    /// A derived class has its own members in the padding at the end of its base.
    template <class S, std::size_t More>
    struct extended : S {
        std::byte more[More];
    };
    template <class S, std::size_t Found = 0>
    [[nodiscard]] static consteval std::size_t padding_at_end() noexcept {
        if constexpr (std::is_final_v<S>)
            return 0;
        else if constexpr (sizeof(extended<S, Found + 1>) > sizeof(S))
            return Found;
        else
            return padding_at_end<S, Found + 1>();
    }

    template <class S>
    [[nodiscard]] static consteval functions make_functions() noexcept {
        functions all{[](const void* m) -> const setting& { return as<S>(m).where(); },
                      [](const void* m) { return as<S>(m).blocks(); },
                      [](const void* m) { return as<S>(m).rounds(); },
                      [](const void* m, int round) -> step { return as<S>(m)[round]; },
                      [](void* m, int rank) { static_cast<S*>(m)->move_to(rank); },
                      needs_equal_blocks<S>,
                      grouped_schedule<S>,
                      sizeof(S) - padding_at_end<S>()};
        if constexpr (requires(const S& s) { s.also(0); })
            all.also = [](const void* m, int round) -> step { return as<S>(m).also(round); };
        if constexpr (requires(const S& s) { s.sent_to(0, 0); })
            all.sent_to = [](const void* m, int round, int peer) -> block_set { return as<S>(m).sent_to(round, peer); };
        if constexpr (requires(const S& s) { s.received_from(0, 0); })
            all.received_from = [](const void* m, int round, int peer) -> block_set {
                return as<S>(m).received_from(round, peer);
            };
        if constexpr (requires(const S& s) { s.scratch(); })
            all.scratch = [](const void* m) -> scratch_blocks { return as<S>(m).scratch(); };
        return all;
    }
    template <class S>
    static constexpr functions functions_of = make_functions<S>();

    const functions* functions_;
    const char* name_;
    alignas(alignment) std::byte memory_[max_bytes];
};

}  // namespace allfold
