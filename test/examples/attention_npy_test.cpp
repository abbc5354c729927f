// SPDX-License-Identifier: BSL-1.0
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "examples/attention/npy.hpp"
#include "test/support/catch.hpp"

using npy::dtype;
using npy::extents;

namespace {

/// A file in the temporary directory that is removed at the end of its test.
class scratch_file {
  public:
    explicit scratch_file(const std::string& content = {}) { std::ofstream(path_, std::ios::binary) << content; }
    ~scratch_file() { std::filesystem::remove(path_); }
    scratch_file(const scratch_file&) = delete;
    scratch_file& operator=(const scratch_file&) = delete;

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    [[nodiscard]] std::string content() const {
        std::ifstream in(path_, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }

  private:
    [[nodiscard]] static std::string unique_name() {
        std::random_device random;
        return "allfold_npy_test_" + std::to_string(random()) + "_" + std::to_string(random()) + ".npy";
    }
    std::filesystem::path path_ = std::filesystem::temp_directory_path() / unique_name();
};

template <class T>
std::string bytes_of(const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A file as NumPy lays it out, with any header text.
std::string file_with(std::string_view header, const std::string& data, char major = 1) {
    std::string file = "\x93NUMPY";
    file += {major, '\0'};
    std::size_t length = header.size();
    for (int i = 0; i < (major == 1 ? 2 : 4); ++i, length /= 256) file += static_cast<char>(length % 256);
    return file.append(header) + data;
}

npy::array read_content(const std::string& content) { return npy::read(scratch_file(content).path()); }

/// The message for a bad file without its prefix, which must be the name of the file.
std::string complaint_about(const std::string& content) {
    const scratch_file file(content);
    try {
        static_cast<void>(npy::read(file.path()));
    } catch (const npy::file_error& error) {
        const std::string text = error.what(), name = file.path().string() + ": ";
        REQUIRE(text.substr(0, name.size()) == name);
        return text.substr(name.size());
    }
    return "no complaint";
}

std::string complaint_about_header(std::string_view header) { return complaint_about(file_with(header, "12345678")); }

std::vector<double> counted(std::size_t count) {
    std::vector<double> values(count);
    std::iota(values.begin(), values.end(), -3.0);
    return values;
}

const std::string two_floats = bytes_of<float>({1.5F, -2.0F});

}  // namespace

TEST_CASE("an array that is written comes back with its type, shape and values") {
    const scratch_file file;
    for (const dtype type : {dtype::float16, dtype::float32, dtype::float64})
        for (const extents& shape : {extents{}, {1}, {7}, {2, 3}, {4, 1, 5}, {2, 3, 4, 5}, {3, 0}, {0}}) {
            INFO(npy::name_of(type) << ' ' << npy::text_of(shape));
            const auto count = std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
            const std::vector<double> values = counted(count);
            npy::write(file.path(), npy::make<double>(type, shape, values));
            const npy::array back = npy::read(file.path());
            CHECK(back.type == type);
            CHECK(back.shape == shape);
            CHECK(npy::values_of<double>(back) == values);
        }
}

TEST_CASE("a written header is what NumPy writes: padded so that the data is aligned to 64 bytes") {
    const scratch_file file;
    const std::vector<float> values{1.5F, -2.0F};
    npy::write(file.path(), npy::make<float>(dtype::float32, {2}, values));
    const std::string content = file.content();
    CHECK(content.size() == 128 + two_floats.size());
    CHECK(content.substr(10, 60) == "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }   ");
    CHECK(content[127] == '\n');
    CHECK(content.substr(128) == two_floats);

    npy::write(file.path(), npy::make<float>(dtype::float32, {1, 2}, values));
    CHECK(file.content().find("'shape': (1, 2), }") != std::string::npos);
}

TEST_CASE("formats 1.0, 2.0 and 3.0 hold the same array") {
    for (const char major : {'\1', '\2', '\3'}) {
        const npy::array a =
            read_content(file_with("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", two_floats, major));
        CHECK(npy::values_of<float>(a) == std::vector{1.5F, -2.0F});
    }
}

TEST_CASE("a header may have its keys in any order, other quotes, any spaces and no trailing comma") {
    for (const std::string_view header : {
             "{'shape': (1, 2), 'fortran_order': False, 'descr': '<f4'}",
             "{\"descr\":\"<f4\",\"shape\":(1,2,),\"fortran_order\":False}",
             "  {  'fortran_order'\t:  False , 'shape' : ( 1L , 2L ) ,\n 'descr' : '=f4' , }  \n",
         }) {
        INFO(header);
        const npy::array a = read_content(file_with(header, two_floats));
        CHECK(a.shape == extents{1, 2});
        CHECK(npy::values_of<double>(a) == std::vector{1.5, -2.0});
    }
}

TEST_CASE("an array in Fortran order is read into C order, for every type and number of axes") {
    const extents shape{2, 3, 4, 5};
    for (std::size_t axes = 0; axes <= shape.size(); ++axes)
        for (const dtype type : {dtype::float16, dtype::float32, dtype::float64}) {
            const extents some(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axes));
            std::string text;
            std::size_t count = 1;
            for (const std::size_t extent : some) text += std::to_string(extent) + ",", count *= extent;
            INFO("shape " << text);

            // Position c0 + 2 (c1 + 3 (c2 + 4 c3)) holds the decimal digits c0, c1, c2, c3: these ascend in C order.
            std::vector<double> fortran(count), c;
            for (std::size_t i = 0; i < count; ++i) {
                std::size_t rest = i;
                for (const std::size_t extent : some) {
                    fortran[i] = 10 * fortran[i] + static_cast<double>(rest % extent);
                    rest /= extent;
                }
            }
            for (int number = 0; number < 2345; ++number) {
                int digits = number, fits = 1;
                for (std::size_t axis = axes; axis-- > 0; digits /= 10)
                    fits &= digits % 10 < static_cast<int>(some[axis]);
                if (fits && digits == 0) c.push_back(number);
            }

            const npy::array stored = npy::make<double>(type, some, fortran);
            const std::string header = "{'descr': '<f" + std::to_string(npy::size_of(type)) +
                                       "', 'fortran_order': True, 'shape': (" + text + "), }";
            const npy::array a = read_content(file_with(header, bytes_of(stored.bytes)));
            CHECK(a.shape == some);
            CHECK(npy::values_of<double>(a) == c);
        }
}

TEST_CASE("an array of float16 keeps infinities, subnormals and the bits of the file") {
    const std::vector<std::uint16_t> bits{0x7c00, 0xfc00, 0x0001, 0x8000, 0x3c00};
    const npy::array a =
        read_content(file_with("{'descr': '<f2', 'fortran_order': False, 'shape': (5,), }", bytes_of(bits)));
    const auto values = npy::values_of<float>(a);
    CHECK(values[0] == std::numeric_limits<float>::infinity());
    CHECK(values[2] == 0x1p-24F);
    CHECK(bytes_of(npy::make<float>(dtype::float16, {5}, values).bytes) == bytes_of(bits));
}

TEST_CASE("a file that is not there, is a directory or is not a .npy file is named so") {
    const scratch_file file;
    const auto complaint = [](const std::filesystem::path& path) {
        try {
            static_cast<void>(npy::read(path));
        } catch (const npy::file_error& error) {
            return std::string(error.what());
        }
        return std::string("no complaint");
    };
    CHECK(complaint("no/such.npy") == "no/such.npy: not found");
    CHECK(complaint(".") == ".: not a regular file");
    CHECK(complaint_about("") == "not a .npy file: it does not begin with \\x93NUMPY");
    CHECK(complaint_about("PK\3\4 this is an .npz") == "not a .npy file: it does not begin with \\x93NUMPY");
}

TEST_CASE("a file that ends within its preamble or header is truncated, with both figures") {
    CHECK(complaint_about("\x93NUMPY\1") == "truncated: the format version takes 2 bytes, the file has 1 left");
    CHECK(complaint_about(std::string("\x93NUMPY\1\0\x10", 9)) ==
          "truncated: the length of the header takes 2 bytes, the file has 1 left");
    CHECK(complaint_about(std::string("\x93NUMPY\1\0\x76\0{'descr'", 18)) ==
          "truncated: the header takes 118 bytes, the file has 8 left");
    CHECK(complaint_about(std::string("\x93NUMPY\2\0\xff\xff\xff\xff{}", 14)) ==
          "truncated: the header takes 4294967295 bytes, the file has 2 left");
}

TEST_CASE("a format version that is not known is named") {
    CHECK(complaint_about(file_with("{}", "", 4)) == "format version 4.0; 1.0, 2.0 and 3.0 can be read");
}

TEST_CASE("a header that lies about the size of the data is contradicted with both figures") {
    const auto complaint = [](std::string_view shape, const std::string& data) {
        return complaint_about(
            file_with("{'descr': '<f4', 'fortran_order': False, 'shape': " + std::string(shape) + "}", data));
    };
    CHECK(complaint("(3,)", two_floats) == "the header promises [3] of float32, 12 bytes; the file has 8");
    CHECK(complaint("(1, 1)", two_floats) == "the header promises [1, 1] of float32, 4 bytes; the file has 8");
    CHECK(complaint("()", "") == "the header promises [] of float32, 4 bytes; the file has 0");
    CHECK(complaint("(1000000, 1000000)", two_floats) ==
          "the header promises [1000000, 1000000] of float32, 4000000000000 bytes; the file has 8");
    CHECK(complaint("(4294967296, 4294967296)", two_floats) ==
          "the header promises [4294967296, 4294967296] of float32, more than 2^64 bytes; the file has 8");
    CHECK(complaint("(4611686018427387904, 0, 3)", two_floats) ==
          "the header promises [4611686018427387904, 0, 3] of float32, 0 bytes; the file has 8");
    CHECK(complaint("(99999999999999999999,)", two_floats) == "an extent in the header overflows");
}

TEST_CASE("elements that are not little-endian floats are refused by name") {
    const auto complaint = [](std::string_view descr) {
        return complaint_about_header("{'descr': " + std::string(descr) + ", 'fortran_order': False, 'shape': (2,), }");
    };
    const std::string wanted = "; float16, float32 and float64 ('<f2', '<f4', '<f8') can be read";
    CHECK(complaint("'<i4'") == "the elements are '<i4'" + wanted);
    CHECK(complaint("'|b1'") == "the elements are '|b1'" + wanted);
    CHECK(complaint("'|O'") == "the elements are '|O'" + wanted);
    CHECK(complaint("'<f16'") == "the elements are '<f16'" + wanted);
    CHECK(complaint("'<c8'") == "the elements are '<c8'" + wanted);
    CHECK(complaint("'>f4'") == "the elements are big-endian, '>f4'" + wanted);
    CHECK(complaint("'<f\n4\xff'") == "the elements are '<f?4?'" + wanted);  // one line, whatever the file holds
    CHECK(complaint("[('m', '<f4'), ('l', '<f4')]") == "the elements are structured" + wanted);
}

TEST_CASE("a header that is not the dictionary of a .npy file is refused where it goes wrong") {
    CHECK(complaint_about_header("") == "the header has its end at character 0 where '{' is expected");
    CHECK(complaint_about_header("[]") == "the header has '[' at character 0 where '{' is expected");
    CHECK(complaint_about_header("{'descr' '<f4'}") == "the header has ''' at character 9 where ':' is expected");
    CHECK(complaint_about_header("{'descr: ") == "the header has an unterminated string");
    CHECK(complaint_about_header("{'descr': 4}") == "the header has '4' at character 10 where a string is expected");
    CHECK(complaint_about_header("{'shape': 2}") == "the header has '2' at character 10 where '(' is expected");
    CHECK(complaint_about_header("{'shape': (-2,)}") ==
          "the header has '-' at character 11 where an extent is expected");
    CHECK(complaint_about_header("{'shape': (2 3)}") == "the header has '3' at character 13 where ',' is expected");
    CHECK(complaint_about_header("{'fortran_order': 0}") ==
          "the header has '0' at character 18 where True or False is expected");
    CHECK(complaint_about_header("{'colour': 'red'}") == "the header has an unknown key 'colour'");
    CHECK(complaint_about_header("{'shape': (), 'shape': ()}") == "the header has the key 'shape' twice");
    CHECK(complaint_about_header("{'shape': (2,), 'fortran_order': False}") == "the header lacks 'descr'");
    CHECK(complaint_about_header("{'descr': '<f4', 'fortran_order': False}") == "the header lacks 'shape'");
    CHECK(complaint_about_header("{'descr': '<f4', 'shape': (2,)}") == "the header lacks 'fortran_order'");
    CHECK(complaint_about_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} + 1") ==
          "the header continues after its '}'");
    CHECK(complaint_about_header(std::string_view("{\x01", 2)) ==
          "the header has byte 1 at character 1 where a string is expected");
}

TEST_CASE("a file that cannot be written is named, with the reason") {
    const npy::array a = npy::make<float>(dtype::float32, {}, std::vector{1.0F});
    const char* text = "no/such/directory/o.npy: cannot be written: No such file or directory";
    CHECK_THROWS_WITH(npy::write("no/such/directory/o.npy", a), text);
    CHECK_THROWS_WITH(files::require_writable("no/such/directory/o.npy"), text);
    CHECK_THROWS_WITH(files::require_writable("."), ".: cannot be written: Is a directory");
    CHECK_THROWS_WITH(npy::write("/dev/full", a), "/dev/full: cannot be written: No space left on device");
}

TEST_CASE("asking whether a file is writable leaves what is in it, and leaves no file") {
    const scratch_file file("kept");
    files::require_writable(file.path());
    CHECK(file.content() == "kept");
    const std::filesystem::path none = file.path().string() + ".none";
    files::require_writable(none);
    CHECK(!std::filesystem::exists(none));
}

TEST_CASE("a file keeps its permissions and its links when it is written again") {
    const scratch_file file("old");
    const std::filesystem::path link = file.path().string() + ".link";
    std::filesystem::create_symlink(file.path().filename(), link);
    std::filesystem::permissions(file.path(), std::filesystem::perms{0640});
    files::write(link, {"ne", "w"});
    CHECK(std::filesystem::is_symlink(link));
    CHECK(file.content() == "new");
    CHECK(std::filesystem::status(file.path()).permissions() == std::filesystem::perms{0640});
    CHECK(files::are_same(link, file.path()));
    std::filesystem::remove(link);
    CHECK(files::are_same("./new", "new"));
    CHECK(!files::are_same("new", "newer"));
}
