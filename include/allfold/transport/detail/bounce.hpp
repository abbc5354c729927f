// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <bit>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

/// @file
/// A transport's staging buffers, in which messages lie between the network and the sink.

namespace allfold::detail {

/// A piece of memory that begins at a cache line.
class bounce_buffer {
  public:
    static constexpr std::size_t alignment = 64;

    bounce_buffer() = default;
    explicit bounce_buffer(std::size_t bytes)
        : memory_(static_cast<std::byte*>(::operator new(bytes, std::align_val_t{alignment}))), bytes_(bytes) {}

    [[nodiscard]] std::byte* data() const noexcept { return memory_.get(); }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  private:
    struct release {
        void operator()(std::byte* p) const noexcept { ::operator delete(p, std::align_val_t{alignment}); }
    };
    std::unique_ptr<std::byte, release> memory_;
    std::size_t bytes_ = 0;
};

/// Buffers kept for reuse: a fresh large one costs a page fault for every page.
class bounce_pool {
  public:
    /// Buffers of up to `short_bytes` are short, and all short buffers have the same size.
    explicit bounce_pool(std::size_t short_bytes) : short_bytes_(short_bytes) {}

    [[nodiscard]] bounce_buffer take(std::size_t bytes) {
        if (bytes <= short_bytes_) return spare_.data() != nullptr ? std::move(spare_) : take_short();
        for (std::size_t i = long_.size(); i-- > 0;)
            if (long_[i].bytes() >= bytes && long_[i].bytes() / 4 <= bytes) return take_out(long_, i);
        return bounce_buffer(std::bit_ceil(bytes));
    }
    void give_back(bounce_buffer&& buffer) {
        if (buffer.data() == nullptr) return;
        if (buffer.bytes() == short_bytes_ && spare_.data() == nullptr) {
            spare_ = std::move(buffer);
            return;
        }
        auto& kept = buffer.bytes() == short_bytes_ ? short_ : long_;
        if (&kept == &long_ && long_.size() == max_long) static_cast<void>(take_out(long_, 0));
        kept.push_back(std::move(buffer));
    }

  private:
    static constexpr std::size_t max_long = 16;

    [[nodiscard, gnu::noinline]] bounce_buffer take_short() {
        if (short_.empty()) return bounce_buffer(short_bytes_);
        return take_out(short_, short_.size() - 1);
    }
    [[nodiscard]] static bounce_buffer take_out(std::vector<bounce_buffer>& kept, std::size_t at) {
        bounce_buffer taken = std::move(kept[at]);
        for (; at + 1 < kept.size(); ++at) kept[at] = std::move(kept[at + 1]);
        kept.pop_back();
        return taken;
    }

    std::size_t short_bytes_;
    bounce_buffer spare_;  // a short one, tried before all others: usually one is enough
    std::vector<bounce_buffer> short_, long_;
};

}  // namespace allfold::detail
