// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <cctype>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "examples/attention/half.hpp"
#include "examples/common/files.hpp"

/// @file
/// NumPy's .npy files, formats 1.0, 2.0 and 3.0, of the three floating-point types and in both orders. (The format:
/// NumPy documentation, `numpy.lib.format`.)

namespace npy {

static_assert(std::endian::native == std::endian::little,
              "elements are copied as they are stored in the file: little-endian");

using files::file_error;

enum class dtype : std::uint8_t { float16, float32, float64 };

[[nodiscard]] constexpr std::size_t size_of(dtype type) noexcept { return std::size_t{2} << static_cast<int>(type); }

[[nodiscard]] constexpr const char* name_of(dtype type) noexcept {
    constexpr const char* names[] = {"float16", "float32", "float64"};
    return names[static_cast<int>(type)];
}

/// The largest change that storing in a type makes to a value of at most that size: half its last bit, or half the
/// distance between subnormals.
[[nodiscard]] constexpr double storage_error(dtype type, double largest) noexcept {
    switch (type) {
        case dtype::float16: return std::max(largest, 0x1p-14) * 0x1p-11;
        case dtype::float32: return std::max(largest, 0x1p-126) * 0x1p-24;
        case dtype::float64: break;
    }
    return largest * 0x1p-53;
}

using extents = std::vector<std::size_t>;

/// `[2, 4, 96, 64]`
[[nodiscard]] inline std::string text_of(const extents& shape) {
    std::string text = "[";
    for (const std::size_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
    return text + "]";
}

/// An array in C order, whatever the order in its file.
struct array {
    dtype type = dtype::float32;
    extents shape;
    std::vector<std::byte> bytes;

    [[nodiscard]] std::size_t size() const noexcept { return bytes.size() / size_of(type); }
};

namespace detail {

struct header {
    dtype type = dtype::float32;
    bool fortran_order = false;
    extents shape;
};

/// Text from a file in quotes, made printable for a one-line message.
[[nodiscard]] inline std::string quoted(std::string_view text) {
    std::string line(text);
    std::ranges::replace_if(line, [](char c) { return !std::isprint(static_cast<unsigned char>(c)); }, '?');
    return "'" + line + "'";
}

/// Parses the header: a Python dictionary with the keys 'descr', 'fortran_order' and 'shape', in any order.
class header_parser {
  public:
    header_parser(const std::filesystem::path& file, std::string_view text) : file_(file), text_(text) {}

    [[nodiscard]] header parse() {
        expect('{');
        while (!accept('}')) {
            entry();
            if (accept('}')) break;
            expect(',');
        }
        if (skip_space(); at_ < text_.size()) fail("the header continues after its '}'");
        if (!type_ || !fortran_order_ || !shape_)
            fail(std::string("the header lacks '") + (!type_ ? "descr" : !shape_ ? "shape" : "fortran_order") + "'");
        return {*type_, *fortran_order_, *std::move(shape_)};
    }

  private:
    void entry() {
        const std::string_view key = string();
        expect(':');
        if (key == "descr")
            once(type_, key, type());
        else if (key == "fortran_order")
            once(fortran_order_, key, boolean());
        else if (key == "shape")
            once(shape_, key, tuple());
        else
            fail("the header has an unknown key " + quoted(key));
    }

    template <class T>
    void once(std::optional<T>& field, std::string_view key, T value) {
        if (field) fail("the header has the key " + quoted(key) + " twice");
        field = std::move(value);
    }

    [[nodiscard]] dtype type() {
        constexpr const char* wanted = "; float16, float32 and float64 ('<f2', '<f4', '<f8') can be read";
        if (peek() == '[') fail(std::string("the elements are structured") + wanted);
        const std::string_view name = string();
        for (const dtype known : {dtype::float16, dtype::float32, dtype::float64}) {
            const std::string kind = "f" + std::to_string(size_of(known));
            if (name == "<" + kind || name == "=" + kind) return known;
            if (name == ">" + kind) fail("the elements are big-endian, " + quoted(name) + wanted);
        }
        fail("the elements are " + quoted(name) + wanted);
    }

    [[nodiscard]] std::string_view string() {
        const char quote = peek();
        if (quote != '\'' && quote != '"') expected("a string");
        const std::size_t first = at_ + 1, last = text_.find(quote, first);
        if (last == std::string_view::npos) fail("the header has an unterminated string");
        at_ = last + 1;
        return text_.substr(first, last - first);
    }

    [[nodiscard]] bool boolean() {
        for (const bool value : {false, true}) {
            const std::string_view word = value ? "True" : "False";
            if (skip_space(); !text_.substr(at_).starts_with(word)) continue;
            at_ += word.size();
            return value;
        }
        expected("True or False");
    }

    [[nodiscard]] extents tuple() {
        extents values;
        expect('(');
        while (!accept(')')) {
            values.push_back(integer());
            if (accept(')')) break;
            expect(',');
        }
        return values;
    }

    [[nodiscard]] std::size_t integer() {
        if (!std::isdigit(static_cast<unsigned char>(peek()))) expected("an extent");
        std::size_t value = 0;
        for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_) {
            const auto digit = static_cast<std::size_t>(text_[at_] - '0');
            if (value > (std::numeric_limits<std::size_t>::max() - digit) / 10)
                fail("an extent in the header overflows");
            value = 10 * value + digit;
        }
        accept('L');  // Python 2 wrote long integers this way
        return value;
    }

    void skip_space() {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    }
    [[nodiscard]] char peek() {
        skip_space();
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    bool accept(char wanted) {
        if (peek() != wanted) return false;
        ++at_;
        return true;
    }
    void expect(char wanted) {
        if (!accept(wanted)) expected(std::string("'") + wanted + "'");
    }

    [[noreturn]] void expected(const std::string& what) {
        const char found = peek();
        const auto code = static_cast<unsigned char>(found);
        const std::string shown = at_ >= text_.size()  ? "its end"
                                  : std::isprint(code) ? std::string("'") + found + "'"
                                                       : "byte " + std::to_string(code);
        fail("the header has " + shown + " at character " + std::to_string(at_) + " where " + what + " is expected");
    }
    [[noreturn]] void fail(const std::string& text) const { throw file_error(file_, text); }

    const std::filesystem::path& file_;
    std::string_view text_;
    std::size_t at_ = 0;
    std::optional<dtype> type_;
    std::optional<bool> fortran_order_;
    std::optional<extents> shape_;
};

inline constexpr std::string_view magic = "\x93NUMPY";

/// A file that is read once from front to back; asking for more bytes than are left is an error.
class input_file {
  public:
    explicit input_file(const std::filesystem::path& file) : name_(file) {
        std::error_code trouble;
        const auto status = std::filesystem::status(file, trouble);
        if (!std::filesystem::exists(status)) throw file_error(name_, "not found");
        if (!std::filesystem::is_regular_file(status)) throw file_error(name_, "not a regular file");
        left_ = std::filesystem::file_size(file, trouble);
        stream_.open(file, std::ios::binary);
        if (trouble || !stream_) throw file_error(name_, "cannot be opened for reading");
    }

    [[nodiscard]] std::uintmax_t left() const noexcept { return left_; }

    void read(std::span<std::byte> into, const char* what) {
        require(into.size(), what);
        if (!stream_.read(reinterpret_cast<char*>(into.data()), static_cast<std::streamsize>(into.size())))
            throw file_error(name_, std::string("reading ") + what + " failed");
        left_ -= into.size();
    }

    [[nodiscard]] std::string text(std::size_t bytes, const char* what) {
        require(bytes, what);  // before memory is allocated: the length may be wrong
        std::string text(bytes, '\0');
        read(std::as_writable_bytes(std::span(text)), what);
        return text;
    }

  private:
    void require(std::size_t bytes, const char* what) const {
        if (left_ < bytes)
            throw file_error(name_, std::string("truncated: ") + what + " takes " + std::to_string(bytes) +
                                        " bytes, the file has " + std::to_string(left_) + " left");
    }

    std::filesystem::path name_;
    std::ifstream stream_;
    std::uintmax_t left_ = 0;
};

[[nodiscard]] inline std::string read_header_text(input_file& in, const std::filesystem::path& file) {
    if (in.left() < magic.size() || in.text(magic.size(), "the magic string") != magic)
        throw file_error(file, "not a .npy file: it does not begin with \\x93NUMPY");
    std::uint8_t version[2]{};
    in.read(std::as_writable_bytes(std::span(version)), "the format version");
    if (version[0] < 1 || version[0] > 3 || version[1] != 0)
        throw file_error(file, "format version " + std::to_string(version[0]) + "." + std::to_string(version[1]) +
                                   "; 1.0, 2.0 and 3.0 can be read");
    std::uint32_t bytes = 0;
    const std::size_t width = version[0] == 1 ? 2 : 4;
    in.read(std::as_writable_bytes(std::span(&bytes, 1)).first(width), "the length of the header");
    return in.text(bytes, "the header");
}

/// The number of bytes of an array, or nothing if it overflows.
[[nodiscard]] inline std::optional<std::size_t> bytes_of(const extents& shape, dtype type) noexcept {
    if (std::ranges::find(shape, std::size_t{0}) != shape.end()) return 0;
    std::size_t bytes = size_of(type);
    for (const std::size_t extent : shape) {
        if (bytes > std::numeric_limits<std::size_t>::max() / extent) return std::nullopt;
        bytes *= extent;
    }
    return bytes;
}

[[nodiscard]] inline std::vector<std::byte> from_fortran_order(const std::vector<std::byte>& fortran,
                                                               const extents& shape, std::size_t width) {
    std::vector<std::byte> c(fortran.size());
    for (std::size_t i = 0; i < c.size() / width; ++i) {
        // Peel the index along each axis off the C position, last axis first; `before` counts what precedes an axis.
        std::size_t rest = i, position = 0, before = fortran.size() / width;
        for (std::size_t axis = shape.size(); axis-- > 0;) {
            before /= shape[axis];
            position += rest % shape[axis] * before;
            rest /= shape[axis];
        }
        std::memcpy(&c[i * width], &fortran[position * width], width);
    }
    return c;
}

[[nodiscard]] inline std::string header_text(const array& a) {
    std::string shape = "(";
    for (const std::size_t extent : a.shape) shape += std::to_string(extent) + ", ";
    if (a.shape.size() > 1) shape.resize(shape.size() - 2);
    if (a.shape.size() == 1) shape.pop_back();  // (3,)
    std::string text =
        "{'descr': '<f" + std::to_string(size_of(a.type)) + "', 'fortran_order': False, 'shape': " + shape + "), }";
    constexpr std::size_t alignment = 64, before = magic.size() + 4;
    text.append(alignment - 1 - (before + text.size()) % alignment, ' ');
    return text + '\n';
}

}  // namespace detail

/// Reads a file of float16, float32 or float64. Throws `file_error` for anything else, before it allocates memory for
/// elements that the file does not have.
[[nodiscard]] inline array read(const std::filesystem::path& file) {
    detail::input_file in(file);
    const std::string text = detail::read_header_text(in, file);
    detail::header header = detail::header_parser(file, text).parse();
    const auto bytes = detail::bytes_of(header.shape, header.type);
    if (!bytes || *bytes != in.left())
        throw file_error(file, "the header promises " + text_of(header.shape) + " of " + name_of(header.type) + ", " +
                                   (bytes ? std::to_string(*bytes) : "more than 2^64") + " bytes; the file has " +
                                   std::to_string(in.left()));
    array result{header.type, std::move(header.shape), std::vector<std::byte>(*bytes)};
    in.read(result.bytes, "the data");
    if (header.fortran_order && result.shape.size() > 1)
        result.bytes = detail::from_fortran_order(result.bytes, result.shape, size_of(result.type));
    return result;
}

/// The beginning of the file of an array, up to the elements: format 1.0, little-endian, C order.
[[nodiscard]] inline std::string preamble_of(const array& a) {
    const std::string header = detail::header_text(a);
    std::string text(detail::magic);
    for (const std::size_t byte : {std::size_t{1}, std::size_t{0}, header.size() & 0xff, header.size() >> 8})
        text += static_cast<char>(byte);
    return text + header;
}

/// Writes the array, completely or not at all.
inline void write(const std::filesystem::path& file, const array& a) {
    const std::string preamble = preamble_of(a);
    files::write(file, {preamble, {reinterpret_cast<const char*>(a.bytes.data()), a.bytes.size()}});
}

namespace detail {

template <class Stored>
[[nodiscard]] Stored stored_at(const std::byte* bytes) noexcept {
    Stored element;
    std::memcpy(&element, bytes, sizeof element);
    return element;
}

template <std::floating_point T>
[[nodiscard]] T load(const std::byte* bytes, dtype type) noexcept {
    if (type == dtype::float16) return static_cast<T>(half::to_float(stored_at<std::uint16_t>(bytes)));
    if (type == dtype::float32) return static_cast<T>(stored_at<float>(bytes));
    return static_cast<T>(stored_at<double>(bytes));
}

template <std::floating_point T>
void store(std::byte* bytes, dtype type, T value) noexcept {
    const auto put = [bytes](auto element) { std::memcpy(bytes, &element, sizeof element); };
    if (type == dtype::float16) return put(half::from_float(static_cast<float>(value)));
    if (type == dtype::float32) return put(static_cast<float>(value));
    put(static_cast<double>(value));
}

}  // namespace detail

/// The elements as T, converted if the array has another type.
template <std::floating_point T>
[[nodiscard]] std::vector<T> values_of(const array& a) {
    std::vector<T> values(a.size());
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = detail::load<T>(a.bytes.data() + i * size_of(a.type), a.type);
    return values;
}

/// What a value becomes after it has been stored in a type and read back.
template <std::floating_point T>
[[nodiscard]] double rounded_to(dtype type, T value) noexcept {
    std::byte stored[size_of(dtype::float64)];
    detail::store(stored, type, value);
    return detail::load<double>(stored, type);
}

/// An array of the given type and shape from values in C order, as many as the shape has elements.
template <std::floating_point T>
[[nodiscard]] array make(dtype type, extents shape, std::span<const T> values) {
    array a{type, std::move(shape), std::vector<std::byte>(values.size() * size_of(type))};
    for (std::size_t i = 0; i < values.size(); ++i) detail::store(a.bytes.data() + i * size_of(type), type, values[i]);
    return a;
}

}  // namespace npy
