#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// The text of an input file as an error message shows it: positions, excerpts with a caret, and
// quoting that is safe for a terminal. It does not know YAML.

namespace cairn {

// Where something stands in a file. Lines end at '\n'; both numbers count from 1, the column in
// bytes. {0, 0} means nowhere.
struct Position {
  int line = 0;
  int column = 0;
};

// Offset of the first byte that is not text: a control character other than tab, line feed and
// carriage return, or invalid UTF-8. npos when all is text.
std::size_t find_non_text_byte(std::string_view text);

// Offset of the first byte that is invalid UTF-8, or npos.
std::size_t find_non_utf8_byte(std::string_view text);

// Position of the byte at `offset`.
Position position_of(std::string_view text, std::size_t offset);

// Offset of a position, clamped into its line (a column past the end gives the line's end), or
// text.size() when there is no such line.
std::size_t offset_of(std::string_view text, Position position);

// `text` with every non-printable character replaced by '?', cut after `max_length` characters.
std::string printable(std::string_view text, std::size_t max_length = 60);

// The first character, or '?' when it is not printable; `text` is not empty.
std::string first_character(std::string_view text);

// printable() between single quotes.
std::string in_quotes(std::string_view text);

// The line and, below it, a caret under the position; each preceded by '\n'. Tabs are kept, so the
// caret aligns; about 160 columns around the caret are shown. Empty when the line is blank.
std::string excerpt(std::string_view text, Position position);

}  // namespace cairn
