#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Lines of plain text for a terminal of 80 columns.

namespace cairn {

inline constexpr std::size_t kTerminalWidth = 80;

// Columns a UTF-8 text takes, one for each code point.
std::size_t display_width(std::string_view text);

// At most `width` columns: "layers.31...down" keeps both ends, with three dots between them.
std::string elide_middle(std::string_view text, std::size_t width);

// `text` behind `label`, broken at spaces within kTerminalWidth; later lines are indented to
// where the text begins. Ends in a newline.
std::string labelled_text(std::string_view label, std::string_view text);

std::string left_aligned(std::string_view text, std::size_t width);
std::string right_aligned(std::string_view text, std::size_t width);

}  // namespace cairn
