// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <chrono>
#include <cstddef>
#include <ios>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "allfold/detail/legible.hpp"
#include "allfold/error.hpp"
#include "allfold/schedule/step.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/copy.hpp"
#include "allfold/transport/forwarding.hpp"

/// @file
/// A transport that records a timeline of another one.

namespace allfold {

/// The timelines of all ranks of a group, recorded by `traced` communicators and the program itself. Each rank writes
/// only its own line, so ranks need no lock; read it, or write it out, when they are done.
class trace_recorder {
  public:
    using clock = std::chrono::steady_clock;

    /// Something that took time, or a message, which is an instant.
    struct event {
        std::string name;
        clock::time_point begin;
        clock::time_point end;
        int peer;  // -1: a span
        std::size_t bytes;
        lane on;

        [[nodiscard]] bool is_message() const noexcept { return peer >= 0; }
    };

    /// For so many ranks. Throws `bad_argument` if the number is negative.
    explicit trace_recorder(int size) : begin_(clock::now()), lines_(checked(size)) {}
    [[nodiscard]] int size() const noexcept { return static_cast<int>(lines_.size()); }

    /// Records something that took from `begin` to `end` on a rank.
    void span(int rank, std::string name, clock::time_point begin, clock::time_point end) {
        lines_[static_cast<std::size_t>(rank)].events.push_back({std::move(name), begin, end, -1, 0, 0});
    }
    /// Records a message that a rank has just sent to, or received from, `peer`.
    void message(int rank, const char* what, int peer, std::size_t bytes, lane on = 0) {
        const auto now = clock::now();
        lines_[static_cast<std::size_t>(rank)].events.push_back({what, now, now, peer, bytes, on});
    }
    /// What a rank recorded, in order. Between two ranks, the messages of one lane pair up in order.
    [[nodiscard]] const std::vector<event>& line_of(int rank) const {
        return lines_[static_cast<std::size_t>(rank)].events;
    }
    [[nodiscard]] std::size_t events(int rank) const { return lines_[static_cast<std::size_t>(rank)].events.size(); }

    /// Writes the JSON that chrome://tracing and ui.perfetto.dev open: one row per rank, times in microseconds.
    void write_chrome_trace(std::ostream& out) const {
        const auto format = out.flags();
        const auto precision = out.precision(3);
        out << std::fixed << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
        const char* separator = "\n";
        for (std::size_t r = 0; r < lines_.size(); ++r) {
            out << std::exchange(separator, ",\n") << R"({"name":"thread_name","ph":"M","pid":0,"tid":)" << r
                << R"(,"args":{"name":"rank )" << r << "\"}}";
            for (const event& e : lines_[r].events) write(out << separator, r, e);
        }
        out << "\n]}\n";
        out.flags(format);
        out.precision(precision);
    }

  private:
    struct alignas(128) line {
        std::vector<event> events;
    };

    [[nodiscard]] static std::size_t checked(int size) {
        if (size < 0) throw error(errc::bad_argument, detail::text({"trace_recorder: ", size, " ranks"}));
        return static_cast<std::size_t>(size);
    }
    void write(std::ostream& out, std::size_t rank, const event& e) const {
        out << R"({"name":")" << escaped(e.name) << R"(","pid":0,"tid":)" << rank << R"(,"ts":)"
            << microseconds(e.begin);
        if (!e.is_message())
            out << R"(,"ph":"X","dur":)" << microseconds(e.end) - microseconds(e.begin) << '}';
        else
            out << R"(,"ph":"i","s":"t","args":{"peer":)" << e.peer << R"(,"bytes":)" << e.bytes << "}}";
    }
    [[nodiscard]] double microseconds(clock::time_point t) const {
        return std::chrono::duration<double, std::micro>(t - begin_).count();
    }
    [[nodiscard]] static std::string escaped(const std::string& text) {
        std::string safe;
        for (const char c : detail::legible(text)) {
            if (c == '"' || c == '\\') safe += '\\';
            safe += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
        }
        return safe;
    }

    clock::time_point begin_;
    std::vector<line> lines_;
};

/// A communicator that sends and receives through the one it wraps, and records collectives as spans and messages as
/// instants. It forms no teams; since it must see every message, repeated calls on it do not take the short path.
///
///     trace_recorder recorder(4);
///     run(4, [&](auto& comm) {
///         traced watched(comm, recorder);
///         all_reduce(watched, x, sum{});
///     });
///     recorder.write_chrome_trace(file);
template <communicator Comm>
class traced : public forwarding<Comm> {
    using forwarded = forwarding<Comm>;

  public:
    using arrival_type = typename Comm::arrival_type;
    using native_function = void (*)(traced&, const native_operands&);

    /// Throws `bad_argument` if the recorder is for fewer ranks than the communicator has.
    traced(Comm& comm, trace_recorder& recorder) : forwarded(comm), recorder_(recorder) {
        if (recorder.size() < comm.size())
            throw error(errc::bad_argument, detail::text({"traced: the recorder has ", recorder.size(), " of the ",
                                                          comm.size(), " lines that the ranks need"}));
    }
    traced(const traced&) = delete;
    traced& operator=(const traced&) = delete;
    ~traced() { this->background().end(this); }

    lane open(const signature& what, unsigned lanes) {
        latest_ = what.what;
        opened_ = trace_recorder::clock::now();
        return forwarded::open(what, lanes);
    }
    void announce(lane first, unsigned lanes, const signature& what) {
        latest_ = what.what;
        opened_ = trace_recorder::clock::now();
        forwarded::announce(first, lanes, what);
    }
    bool try_post(int to, lane on, const outgoing& message) {
        const bool posted = forwarded::try_post(to, on, message);
        if (posted) recorder_.message(this->rank(), "send", to, message.bytes, on);
        return posted;
    }
    bool try_post_notice(const peers& to, lane on, const outgoing& message, std::span<const std::size_t> ends)
        requires forwarded::has_notices
    {
        if (!forwarded::try_post_notice(to, on, message, ends)) return false;
        for (int i = 0; i < to.count(this->rank(), this->size()); ++i)
            recorder_.message(this->rank(), "send", to.at(i, this->rank()), bytes_of(message, ends, i), on);
        return true;
    }
    template <class Sink>
    bool try_receive(int from, lane on, Sink&& sink) {
        return forwarded::try_receive(from, on, forwarding_sink(sink, [&](arrival_type&& message) {
                                          recorder_.message(this->rank(), "receive", from, message.bytes(), on);
                                          sink(std::move(message));
                                      }));
    }
    template <pending_work Work>
    void wait(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline) {
        const bool is_for_message = detail::is_of_messages(work.blocked_on().on);
        forwarded::wait(work, deadline);
        if (is_for_message) return;
        if constexpr (requires { work.is_done(); })
            if (!work.is_done()) return;  // it has only woken to look at something else
        recorder_.span(this->rank(), latest_, opened_, trace_recorder::clock::now());
    }
    /// The transport's own collective: recorded as a span; its messages cannot be seen.
    template <class Op, class T>
    [[nodiscard]] static constexpr native_function native(std::string_view collective) noexcept {
        if (forwarded::template native<Op, T>(collective) == nullptr) return nullptr;
        return [](traced& self, const native_operands& with) {
            const auto begin = trace_recorder::clock::now();
            forwarded::template native<Op, T>(with.what)(self, with);
            self.recorder_.span(self.rank(), self.native_name(with.what), begin, trace_recorder::clock::now());
        };
    }

  private:
    /// How many bytes the i-th reader of a notice gets.
    [[nodiscard]] static std::size_t bytes_of(const outgoing& message, std::span<const std::size_t> ends, int i) {
        if (ends.size() <= 1) return message.bytes;
        return detail::packed_bytes(parts_for(static_cast<std::size_t>(i), message.parts, ends), message.alignment);
    }

    trace_recorder& recorder_;
    const char* latest_ = "";
    trace_recorder::clock::time_point opened_{};
};

}  // namespace allfold
