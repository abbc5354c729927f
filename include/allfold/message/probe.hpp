// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <memory>
#include <optional>
#include <utility>

#include "allfold/engine/operation.hpp"
#include "allfold/engine/task.hpp"
#include "allfold/error.hpp"
#include "allfold/message/detail/message_data.hpp"
#include "allfold/message/detail/message_task.hpp"
#include "allfold/message/options.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/arrival_order.hpp"

/// @file
/// Looks what comes before it is received.

namespace allfold {

namespace detail {
struct receive_verb;
struct probe_verb;
struct try_probe_verb;
}  // namespace detail

/// A message that a probe has found: no other receive gets it. `receive(m, y)` receives it; destroyed before that, it
/// is there again for others, at its old place. It must not be received after its communicator has ended.
class message {
  public:
    message() = default;
    message(message&&) noexcept = default;
    message& operator=(message&& other) noexcept {
        if (this == &other) return *this;
        put_back();
        office_ = std::move(other.office_);
        held_ = std::move(other.held_);
        comm_ = other.comm_;
        make_ = other.make_;
        return *this;
    }
    ~message() { put_back(); }

    /// From whom, under which tag, and how long.
    [[nodiscard]] status about() const noexcept { return held_ ? detail::post_office::status_of(*held_) : status{}; }
    /// Whether it is still to be received.
    [[nodiscard]] explicit operator bool() const noexcept { return held_ != nullptr; }

  private:
    friend struct detail::receive_verb;
    friend struct detail::probe_verb;
    friend struct detail::try_probe_verb;
    using making = std::unique_ptr<detail::pending> (*)(void*, const detail::message_data&, status*,
                                                        std::unique_ptr<detail::held_message>);

    template <communicator Comm>
    message(Comm& comm, std::unique_ptr<detail::held_message> held)
        : office_(comm.background().office), held_(std::move(held)), comm_(&comm), make_(&make_for<Comm>) {}

    template <class Comm>
    [[nodiscard]] static std::unique_ptr<detail::pending> make_for(void* comm, const detail::message_data& place,
                                                                   status* told,
                                                                   std::unique_ptr<detail::held_message> held) {
        Comm& through = *static_cast<Comm*>(comm);
        detail::require_data(through, "receive", place);
        detail::message_request asked("receive", detail::message_options());
        asked.told = told;
        asked.in.emplace();
        asked.in->source = held->source;
        asked.in->label = held->head.tag;
        asked.in->place = place;
        auto made = std::make_unique<detail::message_task<Comm>>(through, std::move(asked));
        made->give(std::move(held));
        return made;
    }
    /// How it is received.
    struct reception {
        std::unique_ptr<detail::pending> work;
        [[nodiscard]] operation start() {
            work->start();
            return operation(std::move(work));
        }
        void operator()() { start().wait(); }
    };
    [[nodiscard]] reception receive(const detail::message_data& place, status* told) {
        if (!held_ || office_.expired())
            throw error(errc::bad_argument, held_ ? "receive: the communicator of this message has ended"
                                                  : "receive: this message has been received already, or is none");
        return {make_(comm_, place, told, std::move(held_))};
    }
    void put_back() noexcept {
        if (!held_) return;
        detail::note_question_of_order();  // who gets it now depends on what has come since
        if (const auto kept = office_.lock()) static_cast<detail::post_office&>(*kept).put_back(std::move(held_));
    }

    std::weak_ptr<background::keepsake> office_;
    std::unique_ptr<detail::held_message> held_;
    void* comm_ = nullptr;
    making make_ = nullptr;
};

namespace detail {

[[nodiscard]] inline message_request probing(const receiving& r, const message_options& said, const char* what) {
    message_request asked(what, said);
    asked.in.emplace();
    asked.in->source = r.source;
    asked.in->label = r.label;
    asked.in->is_probe = true;
    return asked;
}

struct probe_verb {
    template <communicator Comm, class... Options>
    [[nodiscard]] message operator()(Comm& comm, const Options&... options) const {
        if constexpr (require_message_options<false, true, Options...>()) {
            const message_options said(options...);
            message_task<Comm> run(comm, probing(receiving_of(comm, "probe", {}, said), said, "probe"));
            run_message(run);
            std::unique_ptr<held_message> held = run.take_held();
            return held ? message(comm, std::move(held)) : message();
        }
    }
};

struct try_probe_verb {
    template <communicator Comm, class... Options>
    [[nodiscard]] std::optional<message> operator()(Comm& comm, const Options&... options) const {
        if constexpr (require_message_options<false, true, Options...>()) {
            const receiving r = receiving_of(comm, "try_probe", {}, message_options(options...));
            require_outside_operator(comm, "try_probe");
            note_question_of_order();
            post_office& office = office_of(comm);
            if (r.source == null_rank) return message();
            port_of<Comm> port(comm, office);
            comm.background().take_over();
            office.turn(port);
            std::unique_ptr<held_message> held = office.take_held(r);
            if (!held) return std::nullopt;
            return message(comm, std::move(held));
        }
    }
};

}  // namespace detail

/// Waits for a message that fits, as `receive` would, and hands it out without receiving it.
///
///     message m = probe(comm, from{any}, tag{any});
///     std::vector<double> y(m.about().elements);
///     receive(m, y);
///
/// - Afterwards nobody else gets this message: between a probe and its receive no other thread or operation takes it.
/// - From `none` it is at once a message that is none.
/// - Source: MPI-4.1, section 3.8.2, MPI_Mprobe.
inline constexpr detail::probe_verb probe{};

/// The same without waiting: nothing where no message that fits has come.
inline constexpr detail::try_probe_verb try_probe{};

}  // namespace allfold
