// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "allfold/engine/operation.hpp"
#include "allfold/engine/task.hpp"
#include "allfold/error.hpp"
#include "allfold/message/detail/message_data.hpp"
#include "allfold/message/detail/message_task.hpp"
#include "allfold/message/options.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/arrival_order.hpp"

/// @file
/// Looks at messages before they are received.

namespace allfold {

namespace detail {
struct receive_verb;
struct probe_verb;
struct try_probe_verb;
}  // namespace detail

/// A message that a probe has found, and that no other receive gets. `receive(m, y)` receives it; if it is destroyed
/// before that, it becomes available to others again, in its old position. It must not be received after its
/// communicator has ended.
class message {
  public:
    message() = default;
    message(message&&) noexcept = default;
    message& operator=(message&& other) noexcept {
        if (this == &other) return *this;
        put_back();
        office_ = std::move(other.office_);
        held_ = std::move(other.held_);
        about_ = other.about_;
        comm_ = other.comm_;
        home_ = other.home_;
        make_ = other.make_;
        shares_memory_ = other.shares_memory_;
        return *this;
    }
    ~message() { put_back(); }

    /// Its source, tag and length; also valid once it has been received.
    [[nodiscard]] status about() const noexcept { return about_; }
    /// Whether it is still to be received.
    [[nodiscard]] explicit operator bool() const noexcept { return held_ != nullptr; }

  private:
    friend struct detail::receive_verb;
    friend struct detail::probe_verb;
    friend struct detail::try_probe_verb;
    /// Where the message is received.
    struct place {
        detail::message_data memory;
        detail::place_with_gaps gaps;
        status* status_out;
    };
    using making = std::unique_ptr<detail::pending> (*)(void*, place&&, std::unique_ptr<detail::held_message>&);

    template <communicator Comm>
    message(Comm& comm, std::unique_ptr<detail::held_message> held)
        : office_(comm.background().office),
          held_(std::move(held)),
          about_(held_->about()),
          comm_(&comm),
          home_(&comm.background()),
          make_(&make_for<Comm>),
          shares_memory_(Comm::shares_memory) {}

    template <class Comm>
    [[nodiscard]] static std::unique_ptr<detail::pending> make_for(void* comm, place&& where,
                                                                   std::unique_ptr<detail::held_message>& held) {
        Comm& through = *static_cast<Comm*>(comm);
        detail::require_data(through, "receive", where.memory);  // if this throws, the message can still be received
        auto made = std::make_unique<detail::message_task<Comm>>(through, [&] {
            detail::message_request asked("receive");
            asked.parsed.status_out = where.status_out;
            asked.in.emplace(held->source, held->head.tag, where.memory);
            if (!where.gaps.runs.empty() || where.gaps.rows) asked.receive_into(std::move(where.gaps));
            asked.given = std::move(held);
            return asked;
        });
        return made;
    }
    /// The receive of the message.
    struct reception {
        std::unique_ptr<detail::pending> work;
        [[nodiscard]] operation start() {
            work->start();
            return operation(std::move(work));
        }
        void operator()() { start().wait(); }
    };
    template <class Y>
    [[nodiscard]] reception receive(Y& y, status* status_out) {
        if (!held_ || office_.expired())
            throw error(errc::bad_argument,
                        held_ ? "receive: the communicator of this message has ended"
                              : "receive: this message object is empty, or its message has already been received");
        place where{shares_memory_ ? detail::message_data_of<true>(y) : detail::message_data_of<false>(y),
                    detail::gaps_of(y), status_out};
        return {make_(comm_, std::move(where), held_)};
    }
    void put_back() noexcept {
        if (!held_) return;
        try {
            detail::look_as_observed(false);
        } catch (...) {  // someone else will look at what it has found
        }
        try {
            detail::note_question_of_the_past();  // who gets it now depends on what has arrived since
            if (const auto kept = office_.lock()) {
                home_->take_over();
                static_cast<detail::post_office&>(*kept).put_back(std::move(held_));
            }
        } catch (...) {  // the communicator is broken, as any receive that waits will find out
        }
    }

    std::weak_ptr<background::resource> office_;
    std::unique_ptr<detail::held_message> held_;
    status about_;
    void* comm_ = nullptr;
    background* home_ = nullptr;
    making make_ = nullptr;
    bool shares_memory_ = true;
};

namespace detail {

template <communicator Comm, class... Options>
[[nodiscard]] message_request probing(Comm& comm, const char* what, const Options&... options) {
    message_request asked(what, options...);
    add_receiving(comm, {}, asked);
    asked.in->is_probe = true;
    return asked;
}

struct probe_verb {
    template <communicator Comm, class... Options>
    [[nodiscard]] message operator()(Comm& ranks, const Options&... options) const {
        if constexpr (require_message_options<false, true, Options...>()) {
            auto& comm = carrier_of(ranks);
            message_task<carrier<Comm>> run(comm, [&] { return probing(comm, "probe", options...); });
            static_cast<void>(run_message(run));
            std::unique_ptr<held_message> held = run.take_held();
            return held ? message(comm, std::move(held)) : message();
        }
    }
};

struct try_probe_verb {
    template <communicator Comm, class... Options>
    [[nodiscard]] std::optional<message> operator()(Comm& ranks, const Options&... options) const {
        if constexpr (require_message_options<false, true, Options...>() && require_no_deadline<Options...>()) {
            auto& comm = carrier_of(ranks);
            message_request asked = probing(comm, "try_probe", options...);
            const receiving& r = *asked.in;
            require_outside_operator(comm, "try_probe");
            note_question_of_order();
            post_office& office = office_of(comm);
            port_of<carrier<Comm>> port(comm, office);
            comm.background().take_over();
            task_hooks<carrier<Comm>>::look(comm, nullptr, [&] {
                background::progress_all();  // a rank that only looks must also make progress on what it looks for
                const background::running inside(comm.background());
                office.progress(port);
            });
            std::unique_ptr<held_message> held = r.source == null_rank ? nullptr : office.take_held(r);
            office.settle();
            if (r.source != null_rank && !held) return std::nullopt;
            if (asked.status_out() != nullptr) *asked.status_out() = held ? held->about() : status{};
            return held ? message(comm, std::move(held)) : message();
        }
    }

  private:
    template <class... Options>
    [[nodiscard]] static consteval bool require_no_deadline() {
        constexpr bool has_none = !(std::same_as<Options, deadline> || ...);
        static_assert(has_none, "allfold: try_probe does not wait: it takes no deadline");
        return has_none;
    }
};

}  // namespace detail

/// Waits for a matching message, as `receive` would, and returns it without receiving it.
///
///     message m = probe(comm, from{any}, tag{any});
///     std::vector<double> y(m.about().elements);
///     receive(m, y);
///
/// - Afterwards the message is reserved: no other thread or operation takes it between the probe and its receive.
/// - With `from{none}` it returns an empty message at once.
/// - Source: MPI-4.1, section 3.8.2, MPI_Mprobe.
inline constexpr detail::probe_verb probe{};

/// The same without waiting; nothing if no matching message has arrived: then a status is left as it is. It makes
/// progress on everything that its thread has in flight, as `operation::done` does.
inline constexpr detail::try_probe_verb try_probe{};

}  // namespace allfold
