// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <allfold/algebra/check_laws.hpp>
#include <allfold/algebra/operator.hpp>

/// @file
/// Finds where the records of a CSV file (RFC 4180) begin, reading from anywhere in the file.
///
/// Whether a line break ends a record depends on the quotes before it, about which a rank that begins in the middle
/// knows nothing. So the rank reads its piece for all states in which it may begin: the piece is a function from the
/// state before it to the state after it, with a number of records for each. Such functions compose. Composition is
/// associative but not commutative, and an exclusive scan over it tells each rank its state and the number of its first
/// record.
///
/// Hillis and Steele, "Data parallel algorithms", 1986; Mytkowicz, Musuvathi and Schulte, "Data-parallel finite-state
/// machines", 2014, on reading for all states at once.

namespace examples {

/// A quote within an unquoted field is an ordinary character, and the quote that closes a field may be followed by more
/// characters.
enum class state : std::uint8_t {
    field_start,
    unquoted,
    quoted,
    quote_in_quoted,  ///< this quote ends the field, or is the first of two
};
inline constexpr std::size_t states = 4;

[[nodiscard]] constexpr std::size_t index_of(state s) { return static_cast<std::size_t>(s); }

[[nodiscard]] constexpr state after(state s, unsigned char c) {
    if (s == state::quoted) return c == '"' ? state::quote_in_quoted : state::quoted;
    if (c == ',' || c == '\n') return state::field_start;
    if (c == '"' && s != state::unquoted) return state::quoted;
    return state::unquoted;
}

/// The effect of a piece of text: the state after it for each state before it.
using state_map = std::array<state, states>;

/// The states before a piece of text for which a line break after it ends a record: a set of bits.
[[nodiscard]] constexpr unsigned outside_quotes(const state_map& map) {
    unsigned set = 0;
    for (std::size_t s = 0; s < states; ++s) set |= map[s] == state::quoted ? 0u : 1u << s;
    return set;
}

/// A piece of the file, as the scan knows it.
struct piece {
    state_map to{state::field_start, state::unquoted, state::quoted, state::quote_in_quoted};
    std::array<std::uint64_t, states> records{};  ///< how many end in it, for each state before it

    friend constexpr bool operator==(const piece&, const piece&) = default;
};

[[nodiscard]] constexpr piece then(const piece& first, const piece& second) {
    piece both;
    for (std::size_t s = 0; s < states; ++s) {
        const std::size_t between = index_of(first.to[s]);
        both.to[s] = second.to[between];
        both.records[s] = first.records[s] + second.records[between];
    }
    return both;
}

/// The operator of the scan.
inline constexpr auto composition = allfold::with_identity(allfold::associative(then), piece{});

[[nodiscard]] constexpr piece piece_of(unsigned char c) {
    piece one;
    for (std::size_t s = 0; s < states; ++s) {
        one.records[s] = c == '\n' && one.to[s] != state::quoted ? 1 : 0;
        one.to[s] = after(one.to[s], c);
    }
    return one;
}
static_assert(allfold::check_laws(composition, {piece_of('"'), piece_of(','), piece_of('\n'), piece_of('a')}));
static_assert(then(piece_of('"'), piece_of('\n')) != then(piece_of('\n'), piece_of('"')));  // it does not commute

// --- All states at once: the possible maps are the states of a larger automaton.

/// All maps that a text can have, numbered from that of the empty text, and the map to which each byte leads.
struct map_table {
    static constexpr std::size_t most = 32, bytes = 256;

    std::array<state_map, most> map{};
    std::array<std::uint16_t, most * bytes> next{};  ///< row by row: for a map and a byte, the start of the next row
    std::array<std::uint8_t, most> outside{};        ///< of quotes: see `outside_quotes`
    std::size_t size = 0;

    [[nodiscard]] constexpr std::size_t number_of(const state_map& wanted) {
        for (std::size_t i = 0; i < size; ++i)
            if (map[i] == wanted) return i;
        map[size] = wanted;  // a compile-time error if there are more than `most`
        outside[size] = static_cast<std::uint8_t>(outside_quotes(wanted));
        return size++;
    }
};

[[nodiscard]] constexpr map_table make_map_table() {
    constexpr unsigned char marks[]{'"', ',', '\n'};
    map_table table;
    static_cast<void>(table.number_of(piece().to));
    const auto row_behind = [&](std::size_t i, unsigned char c) {
        state_map map = table.map[i];
        for (state& s : map) s = after(s, c);
        return static_cast<std::uint16_t>(table.number_of(map) * map_table::bytes);
    };
    for (std::size_t i = 0; i < table.size; ++i) {
        const auto row = table.next.begin() + static_cast<std::ptrdiff_t>(i * map_table::bytes);
        std::fill_n(row, map_table::bytes, row_behind(i, 'a'));  // for all bytes without a meaning
        for (const unsigned char c : marks) row[c] = row_behind(i, c);
    }
    return table;
}

inline constexpr map_table maps = make_map_table();
static_assert(maps.size < map_table::most);

/// A line break, and the states before the piece for which it ends a record.
class line_break {
  public:
    line_break() = default;
    line_break(std::size_t offset, unsigned outside) : bits_(std::uint64_t{outside} << shift | offset) {}
    [[nodiscard]] std::size_t offset() const { return bits_ & ((std::uint64_t{1} << shift) - 1); }
    [[nodiscard]] bool ends_record(state before) const { return (bits_ >> (shift + index_of(before)) & 1) != 0; }

  private:
    static constexpr unsigned shift = 64 - states;
    std::uint64_t bits_ = 0;
};

/// A part of the file, read from its beginning to its end for all states.
struct stretch {
    std::size_t begin = 0, end = 0;
    std::vector<line_break> breaks{};  ///< all of its line breaks
    piece does{};

    void clear(std::size_t from, std::size_t to) {
        begin = from;
        end = to;
        breaks.clear();  // the memory stays
    }
};

/// Reads several stretches at a time: in a single one, each byte would have to wait for the state after the previous
/// byte.
template <std::size_t N>
void read(std::string_view text, std::array<stretch, N>& stretches) {
    std::array<const char*, N> at;
    std::array<std::size_t, N> row{};
    std::array<std::array<std::uint64_t, 1 << states>, N> seen{};  // line breaks, by the set of states outside quotes
    std::size_t common = text.size();
    for (std::size_t k = 0; k < N; ++k) {
        at[k] = text.data() + stretches[k].begin;
        common = std::min(common, stretches[k].end - stretches[k].begin);
    }
    const auto step = [&](std::size_t k, std::size_t i) {
        const auto c = static_cast<unsigned char>(at[k][i]);
        if (c == '\n') {
            const unsigned outside = maps.outside[row[k] / map_table::bytes];
            ++seen[k][outside];
            stretches[k].breaks.emplace_back(stretches[k].begin + i, outside);
        }
        row[k] = maps.next[row[k] + c];
    };
    [&]<std::size_t... K>(std::index_sequence<K...>) {
        for (std::size_t i = 0; i < common; ++i) (step(K, i), ...);
    }(std::make_index_sequence<N>());
    for (std::size_t k = 0; k < N; ++k) {
        for (std::size_t i = common; i < stretches[k].end - stretches[k].begin; ++i) step(k, i);
        stretches[k].does = {.to = maps.map[row[k] / map_table::bytes]};
        for (std::size_t outside = 0; outside < seen[k].size(); ++outside)
            for (std::size_t s = 0; s < states; ++s)
                if ((outside >> s & 1) != 0) stretches[k].does.records[s] += seen[k][outside];
    }
}

// --- The sequential parser, for comparison.

[[nodiscard]] constexpr std::array<std::array<state, 256>, states> make_state_table() {
    std::array<std::array<state, 256>, states> table{};
    for (std::size_t s = 0; s < states; ++s)
        for (unsigned c = 0; c < 256; ++c) table[s][c] = after(static_cast<state>(s), static_cast<unsigned char>(c));
    return table;
}
inline constexpr auto state_table = make_state_table();

/// Appends to `starts` where records begin, and returns the state at the end.
inline state read_sequentially(std::string_view text, std::size_t begin, std::vector<std::uint64_t>& starts) {
    state now = state::field_start;
    for (std::size_t i = begin; i < text.size(); ++i) {
        const auto c = static_cast<unsigned char>(text[i]);
        if (c == '\n' && now != state::quoted) starts.push_back(i + 1);
        now = state_table[index_of(now)][c];
    }
    return now;
}

}  // namespace examples
