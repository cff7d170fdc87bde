#include "cli/text.h"

#include <algorithm>

namespace cairn {
namespace {

bool begins_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

// The first `count` code points of a text.
std::string_view first_columns(std::string_view text, std::size_t count) {
  std::size_t end = 0;
  for (; end < text.size(); ++end) {
    if (begins_code_point(text[end]) && count-- == 0) break;
  }
  return text.substr(0, end);
}

std::string_view last_columns(std::string_view text, std::size_t count) {
  std::size_t begin = text.size();
  while (begin > 0 && count > 0) {
    if (begins_code_point(text[--begin])) --count;
  }
  return text.substr(begin);
}

}  // namespace

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_code_point));
}

std::string elide_middle(std::string_view text, std::size_t width) {
  constexpr std::string_view kDots = "...";
  if (display_width(text) <= width) return std::string(text);
  if (width <= kDots.size()) return std::string(first_columns(text, width));
  const std::size_t rest = width - kDots.size();
  std::string_view first = first_columns(text, rest / 2);
  std::string_view last = last_columns(text, rest - rest / 2);
  first = first.substr(0, first.find_last_not_of(". ") + 1);  // no dots or spaces beside the dots
  last.remove_prefix(std::min(last.find_first_not_of(". "), last.size()));
  return std::string(first).append(kDots).append(last);
}

std::string labelled_text(std::string_view label, std::string_view text) {
  const std::size_t indent = display_width(label);
  std::string lines(label);
  std::size_t column = indent;
  bool at_line_start = true;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    const std::size_t width = display_width(word);
    if (!at_line_start && column + 1 + width > kTerminalWidth) {
      lines.append("\n").append(indent, ' ');
      column = indent;
      at_line_start = true;
    }
    if (!at_line_start) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += width;
    at_line_start = false;
  }
  return lines += '\n';
}

std::string left_aligned(std::string_view text, std::size_t width) {
  std::string aligned(text);
  aligned.append(width - std::min(width, display_width(text)), ' ');
  return aligned;
}

std::string right_aligned(std::string_view text, std::size_t width) {
  return std::string(width - std::min(width, display_width(text)), ' ').append(text);
}

}  // namespace cairn
