// SPDX-License-Identifier: BSL-1.0

/// @file
/// Trains a small network on handwritten digits, with its parameters sharded over ranks. The loss curve has the same
/// bits for every number of ranks, because gradients are summed exactly.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <span>
#include <string>
#include <type_traits>
#include <unistd.h>
#include <vector>

#include "examples/common/command_line.hpp"
#include "examples/common/files.hpp"
#include "examples/common/words.hpp"
#include "examples/fsdp_step/digits.hpp"
#include "examples/fsdp_step/train.hpp"
#include <allfold/transport/thread.hpp>

#ifndef ALLFOLD_DIGITS
#define ALLFOLD_DIGITS "examples/fsdp_step/digits.txt"
#endif

namespace examples {
namespace {

struct request {
    settings training;
    int ranks = 4;
    std::string data = ALLFOLD_DIGITS;
    bool rounded = false;
};

/// A progress bar on standard error, if that is a terminal. It disappears when the work is done.
class bar {
  public:
    bar() = default;
    bar(const bar&) = delete;
    bar& operator=(const bar&) = delete;
    ~bar() { show("\r\033[K"); }

    void operator()(const std::string& what, std::size_t done, std::size_t all) {
        const std::size_t full = width * done / all;
        if (full == shown_) return;
        shown_ = full;
        show("\r\033[K" + what + " [" + std::string(full, '#') + std::string(width - full, '.') + "]");
    }

  private:
    static constexpr std::size_t width = 40;
    void show(const std::string& text) const {
        if (is_terminal_) std::fputs(text.c_str(), stderr);
    }
    bool is_terminal_ = ::isatty(STDERR_FILENO) != 0;
    std::size_t shown_ = width + 1;
};

template <class Sums>
[[nodiscard]] std::vector<progress_made> train(std::span<const digit> digits, const request& asked) {
    std::vector<progress_made> curve;
    bar shown;
    allfold::run(asked.ranks, [&](auto& comm) {
        const settings& chosen = asked.training;
        const std::size_t known = digits.size() - chosen.held_out;
        trainer<Sums, std::remove_reference_t<decltype(comm)>> own(comm, digits, chosen);
        for (std::size_t epoch = 0; epoch <= chosen.epochs; ++epoch) {
            if (epoch > 0)
                own.run_epoch(epoch, [&](std::size_t done) {
                    if (comm.rank() == 0)
                        shown("epoch " + std::to_string(epoch) + " of " + std::to_string(chosen.epochs),
                              (epoch - 1) * known + done, chosen.epochs * known);
                });
            const progress_made made = own.evaluate();
            if (comm.rank() == 0) curve.push_back(made);
        }
    });
    return curve;
}

[[nodiscard]] std::size_t largest_shard(int ranks) {
    std::vector<char> all(layout::total);
    return shard_of(all, 0, ranks).size();
}

[[nodiscard]] std::string describe(const request& asked, std::size_t known, const std::vector<progress_made>& curve) {
    const auto percent = [](std::size_t n, std::size_t of) {
        return 100.0 * static_cast<double>(n) / static_cast<double>(of);
    };
    char line[200];
    std::snprintf(line, sizeof line, "%zu parameters in shards of %zu, %s; %s to learn from, %zu held out\n\n",
                  layout::total, largest_shard(asked.ranks), counted(asked.ranks, "rank").c_str(),
                  counted(known, "digit").c_str(), asked.training.held_out);
    std::string text = line;
    text += "  epoch         loss    right  held out   bits of parameters\n";
    for (std::size_t epoch = 0; epoch < curve.size(); ++epoch) {
        const progress_made& made = curve[epoch];
        const double height = std::isfinite(made.loss) ? std::clamp(made.loss / curve[0].loss, 0.0, 1.0) : 1.0;
        std::snprintf(line, sizeof line, "  %5zu  %.9f  %5.1f %%   %5.1f %%   %016llx  %s\n", epoch, made.loss,
                      percent(made.right, known), percent(made.right_unseen, asked.training.held_out),
                      static_cast<unsigned long long>(made.fingerprint),
                      std::string(static_cast<std::size_t>(std::lround(40 * height)), '#').c_str());
        text += line;
    }
    return text;
}

[[nodiscard]] int run(int argc, char** argv) {
    request asked;
    settings& chosen = asked.training;
    command_line line("fsdp_step",
                      "Trains a small network on handwritten digits, with its parameters in shards over ranks. The "
                      "curve has\nthe same bits for every number of ranks.");
    line.number(asked.ranks, "--ranks", "P", 1, 256, "how many threads train together");
    line.number(chosen.epochs, "--epochs", "N", 1, 10000, "how often each digit is seen");
    line.number(chosen.batch, "--batch", "N", 1, 1 << 20, "digits per step, over all ranks");
    line.number(chosen.held_out, "--held-out", "N", 1, 1 << 20,
                "digits at the end of the file that are not trained on");
    line.number(chosen.seed, "--seed", "N", 0, std::size_t{1} << 50,
                "selects the initial parameters and the order of the digits");
    line.text(asked.data, "--data", "FILE", "other digits, in the format of examples/fsdp_step/make_data.py");
    line.flag(asked.rounded, "--rounded",
              "sum gradients as floats, as usual: the bits then depend on the number of ranks");
    if (!line.read(argc, argv)) return 0;
    const std::vector<digit> digits = read_digits(asked.data);
    if (chosen.held_out >= digits.size())
        throw bad_command_line("--held-out: " + there_are(digits.size(), "digit") + " in all");
    const auto begin = std::chrono::steady_clock::now();
    const auto curve = asked.rounded ? train<rounded>(digits, asked) : train<exact>(digits, asked);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    char last[80];
    std::snprintf(last, sizeof last, "\n%.3f s, gradients summed %s\n", time.count(),
                  asked.rounded ? "with rounding" : "exactly");
    files::print(describe(asked, digits.size() - chosen.held_out, curve) + last);
    return 0;
}

}  // namespace
}  // namespace examples

int main(int argc, char** argv) {
    return examples::guarded("fsdp_step", [&] { return examples::run(argc, argv); });
}
