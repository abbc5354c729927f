// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "allfold/data/serializer.hpp"
#include "allfold/error.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/copy.hpp"

/// @file
/// Messages as the kernel wants them: bytes where they lie, or objects made of bytes.

namespace allfold::detail {

/// Whether a call's elements are objects that have to be turned into bytes.
template <class Comm, class Kernel>
inline constexpr bool encodes = !Comm::shares_memory && !Kernel::copyable;

/// Whether a transport can carry the rows of a kernel; where not, one line of the compiler says what to write.
template <class Comm, class Kernel>
[[nodiscard]] consteval bool require_carried() {
    if constexpr (encodes<Comm, Kernel>) {
        constexpr bool carried = serializable<typename Kernel::template column_type<0>>;
        static_assert(carried,
                      "allfold: ranks of this transport share no memory, and this element type is not trivially "
                      "copyable: specialise allfold::serializer for it");
        return carried;
    } else {
        constexpr bool aligned = Comm::shares_memory || Kernel::packable;
        static_assert(aligned,
                      "allfold: ranks of this transport share no memory, and it aligns elements to at most 64 "
                      "bytes: this type asks for more");
        return aligned;
    }
}

using encoded_size = std::uint64_t;

/// Appends elements, each as its size and its payload.
template <class T>
void encode(const T* from, std::size_t count, std::vector<std::byte>& to) {
    for (std::size_t i = 0; i < count; ++i) {
        const encoded_size bytes = serializer<T>::bytes(from[i]);
        const std::size_t at = to.size();
        to.resize(at + sizeof bytes + static_cast<std::size_t>(bytes));
        std::memcpy(to.data() + at, &bytes, sizeof bytes);
        serializer<T>::write(from[i], to.data() + at + sizeof bytes);
    }
}

/// Makes the elements of a message.
template <class T>
[[nodiscard]] std::vector<T> decode(std::span<const std::byte> from) {
    std::vector<T> elements;
    while (!from.empty()) {
        encoded_size bytes = 0;
        if (from.size() >= sizeof bytes) std::memcpy(&bytes, from.data(), sizeof bytes);
        if (from.size() < sizeof bytes || from.size() - sizeof bytes < bytes)
            throw error(errc::truncated, text({"an element of ", bytes, " bytes does not fit into the ", from.size(),
                                               " bytes that are left of its message"}));
        elements.push_back(serializer<T>::read(from.subspan(sizeof bytes, static_cast<std::size_t>(bytes))));
        from = from.subspan(sizeof bytes + static_cast<std::size_t>(bytes));
    }
    return elements;
}

/// Cuts a message into the pieces (block by block of column by column) that the sender put in, wherever they lie.
class pieces {
  public:
    /// `packed`: all pieces one behind the other, each aligned; null: the parts as they were posted.
    pieces(std::byte* packed, std::span<const part> parts, std::size_t alignment)
        : packed_(packed), parts_(parts), alignment_(alignment) {}

    [[nodiscard]] std::byte* next(std::size_t bytes) noexcept {
        if (packed_ == nullptr) return parts_[index_++].data;
        at_ = align_up(at_, alignment_);
        std::byte* const piece = packed_ + at_;
        at_ += bytes;
        return piece;
    }

  private:
    std::byte* packed_;
    std::span<const part> parts_;
    std::size_t alignment_;
    std::size_t index_ = 0;
    std::size_t at_ = 0;
};

/// What a peer has sent: the message itself, or the objects that it stands for.
template <class Comm, class Kernel>
class delivery {
  public:
    delivery() = default;
    explicit delivery(typename Comm::arrival_type&& message) : message_(std::move(message)) {}
    [[nodiscard]] detail::pieces pieces() const noexcept {
        return {message_.packed(), message_.parts(), Kernel::alignment};
    }

  private:
    typename Comm::arrival_type message_;
};

template <class Comm, class Kernel>
    requires encodes<Comm, Kernel>
class delivery<Comm, Kernel> {
  public:
    delivery() = default;
    explicit delivery(typename Comm::arrival_type&& message)
        : objects_(decode<object>({message.packed(), message.bytes()})) {}
    [[nodiscard]] detail::pieces pieces() noexcept {
        void* const first = objects_.empty() ? static_cast<void*>(this) : objects_.data();  // not null: no parts
        return {static_cast<std::byte*>(first), {}, Kernel::alignment};
    }

  private:
    using object = typename Kernel::template column_type<0>;
    std::vector<object> objects_;
};

}  // namespace allfold::detail
