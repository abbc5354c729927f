// SPDX-License-Identifier: BSL-1.0

/// @file
/// Runs programs with a bug, and their corrected twins, in every way in which their messages may arrive. Prints what it
/// finds, in colour on a terminal, and draws it if a folder for the pictures is given.

#include <cstdio>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <utility>

#include "allfold/analysis/draw_finding.hpp"
#include "allfold/analysis/explore.hpp"
#include "examples/common/command_line.hpp"
#include "examples/common/files.hpp"
#include "examples/explore/programs.hpp"

namespace {

using allfold::explored_communicator;

/// Reports what is found, program by program, and whether that is what should be found.
class report {
  public:
    explicit report(std::string folder) : folder_(std::move(folder)) {}

    /// Calls `program(comm, is_fixed)`.
    template <class Program>
    void show(const std::string& name, int ranks, Program program) {
        const auto explored = [&](bool is_fixed) {
            return allfold::explore(ranks, [&](explored_communicator& comm) { return program(comm, is_fixed); });
        };
        const allfold::exploration found = explored(false);
        show(name, found, false);
        draw(found);
        show("fixed", explored(true), true);
    }
    void show(const std::string& name, const allfold::exploration& found, bool should_be_ok) {
        const char *const colour = !is_terminal_ ? ""
                                   : found.ok()  ? "\033[32m"
                                                 : "\033[31m",
                          *const no_colour = is_terminal_ ? "\033[0m" : "";
        files::print("--- " + name + '\n' + colour + explain(found) + no_colour + '\n');
        as_expected_ &= found.ok() == should_be_ok && found.complete();
    }
    [[nodiscard]] bool as_expected() const { return as_expected_; }

  private:
    void draw(const allfold::exploration& found) {
        if (found.ok() || folder_.empty()) return;
        const std::string file = folder_ + "/fault" + std::to_string(++pictures_) + ".svg";
        files::require_writable(file);
        files::write(file, {allfold::draw(found)});
        files::print("    picture: " + file + "\n\n");
    }

    std::string folder_;
    int pictures_ = 0;
    bool as_expected_ = true, is_terminal_ = isatty(STDOUT_FILENO) != 0;
};

/// Four ranks send twice to a fifth one, which takes whatever arrives first: 2520 orders, and as many if sends wait.
/// That is long enough to watch.
[[nodiscard]] allfold::exploration explore_for_long() {
    allfold::explore_options options;
    options.watch = [](const allfold::exploring& so_far) {
        if (so_far.executions % 1000 == 0 && isatty(STDERR_FILENO) != 0)
            std::fprintf(stderr,
                         "\r%llu executions, %.0f per second, %zu steps, %zu of them with untried choices\033[K",
                         static_cast<unsigned long long>(so_far.executions), so_far.executions_per_second(),
                         so_far.steps, so_far.open);
        return true;
    };
    const auto many = [](explored_communicator& comm) {
        int sum = 0, x = 0;
        for (int i = 0; i < 2 && comm.rank() != 0; ++i) allfold::send(comm, 1, allfold::to{0});
        for (int i = 0; i < 2 * (comm.size() - 1) && comm.rank() == 0; ++i, sum += x)
            allfold::receive(comm, x, allfold::from{allfold::any});
        return sum;
    };
    const allfold::exploration found = allfold::explore(5, many, options);
    if (isatty(STDERR_FILENO) != 0) std::fputs("\r\033[K", stderr);
    return found;
}

int explore_all(int argc, char** argv) {
    std::string folder;
    examples::command_line line(
        "explore",
        "Small programs with one bug each, and their fixed twins, run in every way in which their "
        "messages may arrive.");
    line.word(folder, "FOLDER", "where to write pictures of the faults that are found");
    if (!line.read(argc, argv)) return 0;
    if (!folder.empty() && !std::filesystem::is_directory(folder))
        throw files::file_error(folder, "is not a directory");

    report all(folder);
    all.show("a barrier that one branch skips", 3, examples::skipping_a_barrier);
    all.show("a result that depends on what completes first", 3, examples::in_order_of_completion);
    all.show("head-to-head sends", 2, examples::head_to_head);
    all.show("a receive from any rank that takes a message of the next phase", 3, examples::in_phases);
    all.show("a message that nobody receives", 2, examples::forgetting_to_receive);
    all.show("a forgotten wait", 2, examples::forgetting_to_wait);
    all.show("long enough to be watched", explore_for_long(), true);
    return all.as_expected() ? 0 : examples::failed;
}

}  // namespace

int main(int argc, char** argv) {
    return examples::guarded("explore", [&] { return explore_all(argc, argv); });
}
