// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

/// @file
/// Files that are written completely or not at all, and error messages for what goes wrong with them.

namespace files {

/// A file that cannot be read or written as requested. The text begins with the name of the file.
class file_error : public std::runtime_error {
  public:
    file_error(const std::filesystem::path& file, const std::string& text)
        : std::runtime_error(file.string() + ": " + text) {}
};

/// An open file.
class descriptor {
  public:
    explicit descriptor(int number) : number_(number) {}
    descriptor(const descriptor&) = delete;
    descriptor& operator=(const descriptor&) = delete;
    ~descriptor() {
        if (number_ >= 0) ::close(number_);
    }
    [[nodiscard]] int number() const { return number_; }
    [[nodiscard]] int close() { return ::close(std::exchange(number_, -1)); }

  private:
    int number_;
};

namespace detail {

using pieces = std::initializer_list<std::string_view>;

[[noreturn]] inline void fail_to_write(const std::filesystem::path& file, int code) {
    throw file_error(file, "cannot be written: " + std::generic_category().message(code));
}

/// Writes all of the text. Returns 0, or the error number if that failed.
[[nodiscard]] inline int write_all(int to, pieces text) {
    for (std::string_view piece : text)
        while (!piece.empty()) {
            const auto written = ::write(to, piece.data(), piece.size());
            if (written >= 0)
                piece.remove_prefix(static_cast<std::size_t>(written));
            else if (errno != EINTR)
                return errno;
        }
    return 0;
}

/// The file that a name refers to after all links, whether it exists or not.
[[nodiscard]] inline std::filesystem::path behind_links(std::filesystem::path file) {
    std::error_code none;
    for (int links = 0; links < 40 && std::filesystem::is_symlink(std::filesystem::symlink_status(file, none)); ++links)
        file = file.parent_path() / std::filesystem::read_symlink(file, none);
    return file;
}

/// A temporary file next to another one, with that one's permissions. It is removed unless it replaces the other one.
class file_beside {
  public:
    explicit file_beside(std::filesystem::path target) : target_(std::move(target)), file_(make()) {
        struct stat old{};
        if (::stat(target_.c_str(), &old) != 0) return;
        static_cast<void>(::fchown(file_.number(), old.st_uid, old.st_gid) == 0);  // which only root may
        static_cast<void>(::fchmod(file_.number(), old.st_mode & 07777) == 0);
    }
    file_beside(const file_beside&) = delete;
    file_beside& operator=(const file_beside&) = delete;
    ~file_beside() {
        if (!name_.empty()) ::unlink(name_.c_str());
    }

    void write(pieces text) const {
        if (const int code = write_all(file_.number(), text)) fail_to_write(target_, code);
    }
    void take_place() {
        if (file_.close() != 0 || ::rename(name_.c_str(), target_.c_str()) != 0) fail_to_write(target_, errno);
        name_.clear();
    }

  private:
    [[nodiscard]] int make() {
        const std::string beginning = ".unfinished-" + std::to_string(::getpid()) + "-";
        for (int i = 0;; ++i) {
            name_ = target_.parent_path() / (beginning + std::to_string(i));
            const int file = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
            if (file >= 0) return file;
            if (errno == EEXIST) continue;
            name_.clear();
            fail_to_write(target_, errno);
        }
    }

    std::filesystem::path target_, name_;
    descriptor file_;
};

/// Whether something exists but is not a regular file: a pipe or a device, for example.
[[nodiscard]] inline bool is_special(const std::filesystem::path& file) {
    std::error_code none;
    const auto status = std::filesystem::status(file, none);
    return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

/// Whether a name refers to the file that standard output goes to.
[[nodiscard]] inline bool is_standard_output(const std::filesystem::path& file) {
    struct stat named{}, output{};
    return ::stat(file.c_str(), &named) == 0 && ::fstat(STDOUT_FILENO, &output) == 0 && S_ISREG(named.st_mode) &&
           named.st_dev == output.st_dev && named.st_ino == output.st_ino;
}

}  // namespace detail

/// Throws if the file cannot be written, or is the one that standard output goes to, which it would replace. Changes
/// nothing.
inline void require_writable(const std::filesystem::path& file) {
    std::error_code none;
    if (detail::is_standard_output(file)) throw file_error(file, "is the file that standard output goes to");
    if (std::filesystem::is_directory(file, none) || !file.has_filename()) detail::fail_to_write(file, EISDIR);
    if (::access(file.c_str(), W_OK) != 0 && errno != ENOENT) detail::fail_to_write(file, errno);
    if (!detail::is_special(file)) detail::file_beside(detail::behind_links(file));
}

/// Writes the pieces one after another. A file is written completely or not at all: it is written next to its
/// destination and renamed; a link still leads to it. A pipe or a device is written directly.
inline void write(const std::filesystem::path& file, detail::pieces text) {
    if (!detail::is_special(file)) {
        detail::file_beside whole(detail::behind_links(file));
        whole.write(text);
        return whole.take_place();
    }
    descriptor out(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
    if (out.number() < 0) detail::fail_to_write(file, errno);
    if (const int code = detail::write_all(out.number(), text)) detail::fail_to_write(file, code);
    if (out.close() != 0) detail::fail_to_write(file, errno);
}

/// Writes to standard output.
inline void print(std::string_view text) {
    if (const int code = detail::write_all(STDOUT_FILENO, {text})) detail::fail_to_write("standard output", code);
}

/// Whether two names refer to the same file, which need not exist. Pipes and devices never count as the same.
[[nodiscard]] inline bool are_same(const std::filesystem::path& a, const std::filesystem::path& b) {
    std::error_code none;
    if (detail::is_special(a) || detail::is_special(b)) return false;
    if (std::filesystem::exists(a, none) || std::filesystem::exists(b, none))
        return std::filesystem::equivalent(a, b, none);
    const auto place = [&](const std::filesystem::path& file) {
        return std::filesystem::weakly_canonical(std::filesystem::absolute(detail::behind_links(file), none), none);
    };
    return place(a) == place(b);
}

}  // namespace files
