// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "allfold/engine/operation.hpp"
#include "allfold/engine/task.hpp"
#include "allfold/error.hpp"
#include "allfold/message/detail/direct_read.hpp"
#include "allfold/message/detail/post_office.hpp"
#include "allfold/message/detail/short_message.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// Where the messages of a rank leave and arrive: its communicator, as the post office sees it.

namespace allfold::detail {

template <communicator Comm>
class port_of final : public post_port {
  public:
    port_of(Comm& comm, post_office& office) noexcept : comm_(comm), office_(office) {}

    void progress() override { comm_.progress(); }
    [[nodiscard]] bool try_post(record& r, const outgoing& message) override {
        if (Comm::shares_memory || !r.has_head() || !r.head.has_envelope())
            return comm_.try_post(r.receiver, r.on, message);
        if (office_.has_named(r.receiver, r.head.type)) {
            r.head.type_name = nullptr;
            return comm_.try_post(r.receiver, r.on, message);
        }
        if (!comm_.try_post(r.receiver, r.on, with_name(r, message))) return false;
        office_.note_named(r.receiver, r.head.type);
        return true;
    }
    [[nodiscard]] bool lends(std::size_t bytes) const override { return comm_.lends(bytes + name_bytes, true); }
    [[nodiscard]] bool is_far(int receiver, std::size_t bytes) override { return is_far_from(comm_, receiver, bytes); }
    void take_in(int sender) override {
        using arrival_type = typename Comm::arrival_type;
        auto take = [&](const arrival_type& arrived) { take_envelope(sender, arrived); };
        do {
            if constexpr (has_short_messages<Comm>) take_in_place(sender);
        } while (comm_.try_receive(sender, envelopes_lane, take));
        data_sink data{*this, sender};  // NOLINT(misc-const-correctness): some transports keep its address
        while (office_.next_expected(sender) != nullptr && comm_.try_receive(sender, data_lane, data)) {
        }
    }

  private:
    static constexpr std::size_t name_bytes = Comm::shares_memory ? 0 : longest_type_name;

    struct data_sink {
        port_of& self;
        int sender;

        [[nodiscard]] std::byte* destination(std::uint32_t signature, std::size_t bytes) const {
            receiving& r = *self.office_.next_expected(sender);
            const bool fits = signature == signature_of_messages && bytes == r.coming_bytes;
            if (!fits || r.place.type->assign != nullptr) return nullptr;
            return r.place.type->is_encoded() ? r.encoded.data() : r.place.data;
        }
        template <class A>
        void operator()(A&& arrived) const {
            const receiving& r = *self.office_.next_expected(sender);
            if (arrived.signature() != signature_of_messages || arrived.bytes() != r.coming_bytes) self.refuse(sender);
            std::byte* from_place = arrived.packed();
            if (from_place == nullptr && !arrived.parts().empty()) from_place = arrived.parts().front().data;
            self.office_.take_data(sender, from_place);
        }
    };

    /// Inserts the name of the type after the head.
    [[nodiscard]] static outgoing with_name(record& r, outgoing message) noexcept {
        r.type_name = {};
        std::strncpy(r.type_name.data(), r.head.type_name, r.type_name.size() - 1);
        const part name{reinterpret_cast<std::byte*>(r.type_name.data()), r.type_name.size()};
        r.in_transport = {r.parts[0], name, r.parts[1]};
        message.parts = {r.in_transport.data(), message.parts.size() + 1};
        message.bytes += name.bytes;
        return message;
    }
    /// Handles short messages where they lie, without taking them out of the transport first.
    void take_in_place(int sender) {
        comm_.use_arrived(sender, envelopes_lane, sizeof(message_head), [&](const message_in_place& here) {
            take_packed(sender, here.signature, here.data, here.bytes);
        });
    }
    template <class A>
    void take_envelope(int sender, const A& arrived) {
        if (arrived.packed() != nullptr)
            return take_packed(sender, arrived.signature(), arrived.packed(), arrived.bytes());
        message_head head;
        const std::span<const part> parts = arrived.parts();
        if (arrived.signature() != signature_of_messages || parts.empty() || parts[0].bytes != sizeof head)
            refuse(sender);
        std::memcpy(&head, parts[0].data, sizeof head);
        take_rest(sender, head, parts.size() > 1 ? std::span(parts[1].data, parts[1].bytes) : std::span<std::byte>());
    }
    [[gnu::always_inline]] void take_packed(int sender, std::uint32_t signature, const std::byte* all,
                                            std::size_t bytes) {
        if (signature != signature_of_messages || bytes < sizeof(message_head)) refuse(sender);
        if (!office_.take_into_note(sender, all, bytes)) take_in_general(sender, all, bytes);
    }
    [[gnu::noinline]] void take_in_general(int sender, const std::byte* all, std::size_t bytes) {
        message_head head;
        std::memcpy(&head, all, sizeof head);
        std::span<const std::byte> rest(all + sizeof head, bytes - sizeof head);
        if (!Comm::shares_memory && head.has_envelope() && head.type_name != nullptr) take_name(sender, head, rest);
        take_rest(sender, head, rest);
    }
    void take_rest(int sender, const message_head& head, std::span<const std::byte> data) {
        const bool is_eager = head.what == message_head::kind::eager;
        const bool has_place = head.what == message_head::kind::request && !data.empty();
        const std::size_t expected = head.is_encoded() ? (is_eager ? data.size() : sizeof(std::uint64_t))
                                                       : (is_eager    ? head.bytes()
                                                          : has_place ? sizeof(std::byte*)
                                                                      : 0);
        if (data.size() != expected) refuse(sender);
        office_.take_envelope(sender, head, data);
    }
    void take_name(int sender, message_head& head, std::span<const std::byte>& rest) {
        if (rest.size() < longest_type_name) refuse(sender);
        std::array<char, longest_type_name> name;
        std::memcpy(name.data(), rest.data(), name.size());
        name.back() = '\0';
        head.type_name = office_.name_of(head.type, name.data());
        rest = rest.subspan(name.size());
    }
    [[noreturn, gnu::cold]] void refuse(int sender) const {
        throw error(errc::transport,
                    text({"receive: rank ", comm_.rank(), " received malformed message data from rank ", sender}));
    }

    Comm& comm_;
    post_office& office_;
};

/// The communicator of the same ranks that carries messages: if ranks form groups, a different one, in which any two of
/// them can communicate.
template <communicator Comm>
[[nodiscard]] auto& carrier_of(Comm& comm) {
    if constexpr (Comm::has_groups) {
        require_outside_operator(comm, "message");
        return comm.messages();
    } else {
        return comm;
    }
}
template <communicator Comm>
using carrier = std::remove_reference_t<decltype(carrier_of(std::declval<Comm&>()))>;

template <communicator Comm>
[[nodiscard]] direct_read direct_read_of([[maybe_unused]] Comm& comm) noexcept {
    if constexpr (supports_direct_read<Comm>)
        return {&comm, [](void* through) { static_cast<Comm*>(through)->begin_to_read(); },
                [](void* through) noexcept { static_cast<Comm*>(through)->end_reading(); }};
    return {};
}

/// Makes progress on messages in the background, and then calls `help()`. False if that has broken the communicator.
template <communicator Comm, class Help>
[[nodiscard]] bool progress_or_abort(Comm& comm, post_office& office, Help help) noexcept {
    try {
        const background::running inside(comm.background());
        port_of<Comm> port(comm, office);
        office.progress(port, comm.background().pass());
        help();
        return true;
    } catch (...) {
        abort_communicator(comm);
        return false;
    }
}

template <communicator Comm>
class answering_of final : public answering {
  public:
    answering_of(Comm& comm, post_office& office) : comm_(comm), office_(office) {
        background::prepare_this_thread();
        if constexpr (requires { comm.undecorated(); })
            comm.background().attach(*this, &comm);  // which may end earlier
    }
    ~answering_of() override { this->leave_for_good(); }

    void start() noexcept override {
        if (this->is_over() || this->is_in_flight()) return;  // a pass would never end if it were added anew
        comm_.background().add(*this);
    }
    void progress() noexcept override {
        if (comm_.background().is_running()) return;
        const bool goes_on = progress_or_abort(comm_, office_, [] {});
        if (!goes_on || !office_.owes_answers()) this->leave();
        if (goes_on) office_.settle();
    }
    void drop() noexcept override { this->leave(); }

  private:
    Comm& comm_;
    post_office& office_;
};

/// The communicator beneath all decorators, unless one of these sends messages in another form.
template <communicator Comm>
[[nodiscard]] auto& without_decorators(Comm& comm) noexcept {
    if constexpr (requires { comm.undecorated(); }) {
        using base = std::remove_cvref_t<decltype(comm.undecorated())>;
        if constexpr (base::shares_memory == Comm::shares_memory)
            return comm.undecorated();
        else
            return comm;
    } else {
        return comm;
    }
}
/// From now on answers are sent through this communicator, or what is beneath its decorators, which may end earlier
/// than the post office.
template <communicator Comm>
void answer_through(Comm& comm, post_office& office) {
    auto& base = detail::without_decorators(comm);
    office.answers = std::make_unique<answering_of<std::remove_reference_t<decltype(base)>>>(base, office);
}
template <communicator Comm>
[[nodiscard]] std::shared_ptr<post_office> new_office_of(Comm& comm) {
    auto made = std::make_shared<post_office>(comm.rank(), comm.size(), direct_read_of(comm));
    detail::answer_through(comm, *made);
    return made;
}
/// The post office of a communicator, created on first use.
template <communicator Comm>
[[nodiscard]] post_office& office_of(Comm& comm) {
    std::shared_ptr<background::resource>& kept = comm.background().office;
    if (!kept) kept = new_office_of(comm);
    auto& office = static_cast<post_office&>(*kept);
    if (office.answers->is_over()) [[unlikely]]
        detail::answer_through(comm, office);
    return office;
}

/// Takes in what has arrived from one rank.
template <communicator Comm>
void progress_with(Comm& comm, post_office& office, int peer) {
    {
        const background::running inside(comm.background());
        port_of<Comm> port(comm, office);
        office.progress_with(peer, port);
    }
    office.settle();
}

}  // namespace allfold::detail
