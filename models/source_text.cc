#include "models/source_text.h"

#include <algorithm>
#include <limits>

namespace cairn {
namespace {

constexpr std::size_t kColumnsEachSide = 78;
constexpr int kEndOfLine = std::numeric_limits<int>::max();

unsigned byte_at(std::string_view text, std::size_t offset) {
  return static_cast<unsigned char>(text[offset]);
}

bool is_continuation(std::string_view text, std::size_t offset) {
  return (byte_at(text, offset) & 0xC0u) == 0x80u;
}

// Length in bytes of the UTF-8 character at `offset`; 0 when it is malformed, overlong, a
// surrogate or above U+10FFFF.
std::size_t character_length(std::string_view text, std::size_t offset) {
  const unsigned lead = byte_at(text, offset);
  if (lead < 0x80u) return 1;
  if (lead < 0xC2u || lead > 0xF4u) return 0;
  const std::size_t length = lead < 0xE0u ? 2 : lead < 0xF0u ? 3 : 4;
  if (offset + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(text, offset + i)) return 0;
  }
  const unsigned second = byte_at(text, offset + 1);
  if (lead == 0xE0u && second < 0xA0u) return 0;
  if (lead == 0xEDu && second >= 0xA0u) return 0;
  if (lead == 0xF0u && second < 0x90u) return 0;
  if (lead == 0xF4u && second >= 0x90u) return 0;
  return length;
}

bool is_printable(std::string_view text, std::size_t offset, std::size_t length) {
  if (length == 1) return byte_at(text, offset) >= 0x20u && byte_at(text, offset) != 0x7Fu;
  return length != 0 && !(byte_at(text, offset) == 0xC2u && byte_at(text, offset + 1) < 0xA0u);
}

}  // namespace

std::size_t find_non_text_byte(std::string_view text) {
  const auto is_control = [](char c) {
    return static_cast<unsigned char>(c) < 0x20u && c != '\t' && c != '\n' && c != '\r';
  };
  const auto control = std::find_if(text.begin(), text.end(), is_control);
  if (control == text.end()) return find_non_utf8_byte(text);
  const auto offset = static_cast<std::size_t>(control - text.begin());
  return std::min(offset, find_non_utf8_byte(text.substr(0, offset)));
}

std::size_t find_non_utf8_byte(std::string_view text) {
  std::size_t offset = 0;
  while (offset < text.size()) {
    const std::size_t length = character_length(text, offset);
    if (length == 0) return offset;
    offset += length;
  }
  return std::string_view::npos;
}

Position position_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line_count = std::count(before.begin(), before.end(), '\n');
  const std::size_t last_break = before.rfind('\n');
  const std::size_t line_begin = last_break == std::string_view::npos ? 0 : last_break + 1;
  return {.line = static_cast<int>(line_count) + 1,
          .column = static_cast<int>(before.size() - line_begin) + 1};
}

std::size_t offset_of(std::string_view text, Position position) {
  std::size_t line_begin = 0;
  for (int line = 1; line < position.line; ++line) {
    const std::size_t line_break = text.find('\n', line_begin);
    if (line_break == std::string_view::npos) return text.size();
    line_begin = line_break + 1;
  }
  std::size_t line_end = std::min(text.find('\n', line_begin), text.size());
  if (line_end > line_begin && text[line_end - 1] == '\r') --line_end;
  const std::size_t column = static_cast<std::size_t>(std::max(position.column, 1)) - 1;
  return std::min(line_begin + column, line_end);
}

std::string printable(std::string_view text, std::size_t max_length) {
  std::string shown;
  std::size_t offset = 0;
  for (std::size_t shown_count = 0; offset < text.size(); ++shown_count) {
    if (shown_count == max_length) return shown + "...";
    const std::size_t length = character_length(text, offset);
    const std::size_t step = std::max<std::size_t>(length, 1);
    shown += is_printable(text, offset, length) ? text.substr(offset, step) : "?";
    offset += step;
  }
  return shown;
}

std::string first_character(std::string_view text) {
  const std::size_t length = character_length(text, 0);
  return is_printable(text, 0, length) ? std::string(text.substr(0, length)) : "?";
}

std::string in_quotes(std::string_view text) { return "'" + printable(text) + "'"; }

std::string excerpt(std::string_view text, Position position) {
  const std::size_t line_begin = offset_of(text, {.line = position.line, .column = 1});
  const std::size_t line_end = offset_of(text, {.line = position.line, .column = kEndOfLine});
  const std::string_view line = text.substr(line_begin, line_end - line_begin);
  if (line.find_first_not_of(" \t") == std::string_view::npos) return {};

  const std::size_t column = static_cast<std::size_t>(std::max(position.column, 1)) - 1;
  std::size_t caret = std::min(column, line.size());
  while (caret > 0 && caret < line.size() && is_continuation(line, caret)) --caret;
  std::size_t begin = caret;
  for (std::size_t i = 0; i < kColumnsEachSide && begin > 0; ++i) {
    --begin;
    while (begin > 0 && is_continuation(line, begin)) --begin;
  }

  std::string shown = begin > 0 ? "..." : "";
  std::string under = begin > 0 ? "   " : "";
  std::size_t offset = begin;
  for (std::size_t after = 0; offset < line.size() && after < kColumnsEachSide;) {
    const std::size_t length = character_length(line, offset);
    const std::size_t step = std::max<std::size_t>(length, 1);
    const bool is_tab = line[offset] == '\t';
    shown += is_tab || is_printable(line, offset, length) ? line.substr(offset, step) : "?";
    if (offset < caret) under += is_tab ? '\t' : ' ';
    if (offset >= caret) ++after;
    offset += step;
  }
  if (offset < line.size()) shown += "...";
  return "\n" + shown + "\n" + under + "^";
}

}  // namespace cairn
