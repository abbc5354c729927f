// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "examples/common/files.hpp"
#include "examples/common/numbers.hpp"

/// @file
/// A file in memory, and the text of a test file.

namespace examples {

/// A file that is read from the system's own memory, without a copy.
class mapped_file {
  public:
    explicit mapped_file(const std::filesystem::path& name) {
        const files::descriptor file(::open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));  // a pipe does not wait
        struct stat about{};
        if (file.number() < 0 || ::fstat(file.number(), &about) != 0) fail(name);
        if (!S_ISREG(about.st_mode)) throw files::file_error(name, "is not a regular file");
        size_ = static_cast<std::size_t>(about.st_size);
        if (size_ == 0) throw files::file_error(name, "is empty");
        memory_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number(), 0);
        if (memory_ == MAP_FAILED) fail(name);
        static_cast<void>(::madvise(memory_, size_, MADV_WILLNEED));  // a hint
    }
    mapped_file(const mapped_file&) = delete;
    mapped_file& operator=(const mapped_file&) = delete;
    ~mapped_file() { ::munmap(memory_, size_); }

    [[nodiscard]] std::string_view text() const { return {static_cast<const char*>(memory_), size_}; }

  private:
    [[noreturn]] static void fail(const std::filesystem::path& name) {
        throw files::file_error(name, "cannot be read: " + std::generic_category().message(errno));
    }

    void* memory_ = nullptr;
    std::size_t size_ = 0;
};

/// Records with everything that makes CSV hard, always the same ones: quoted commas, quotes and line breaks, empty
/// fields, both kinds of line ends. At least this many bytes, in whole records.
[[nodiscard]] inline std::string make_text(std::size_t bytes) {
    std::string text = "number,name,price,remark\r\n";
    text.reserve(bytes + 256);
    numbers random(1);
    const auto next = [&](std::uint64_t below) { return random.next() % below; };
    constexpr std::string_view remarks[]{"",
                                         "delivered",
                                         "\"late, and wet\"",
                                         "\"they said \"\"never again\"\", twice\"",
                                         "\"first line\nsecond line\r\n\"\"third, and last\"\"\"",
                                         "\"\"",
                                         "paid in cash",
                                         "\"\"\"\""};
    for (std::size_t number = 1; text.size() < bytes; ++number) {
        text += std::to_string(number) + (next(2) == 0 ? ",\"Smith, Ann\"," : ",Miller,");
        text += std::to_string(next(100000)) + '.' + std::to_string(next(90) + 10) + ',';
        text += remarks[next(std::size(remarks))];
        text += next(2) == 0 ? "\r\n" : "\n";
    }
    return text;
}

}  // namespace examples
