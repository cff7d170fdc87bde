#include "models/yaml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace cairn {
namespace {

constexpr std::size_t kLongestLine = 100;

// What YAML 1.1 or 1.2 takes for null or a flag, in lower case.
constexpr std::array<std::string_view, 9> kMarks = {"null", "true", "false", "yes", "no",
                                                    "on",   "off",  "y",     "n"};

bool is_mark(std::string_view text) {
  const auto is_same = [&](std::string_view mark) {
    return std::equal(text.begin(), text.end(), mark.begin(), mark.end(), [](char a, char b) {
      return a == b || (a >= 'A' && a <= 'Z' && a - 'A' + 'a' == b);
    });
  };
  return std::any_of(kMarks.begin(), kMarks.end(), is_same);
}

// Whether every reader of YAML reads the text as it stands, as this text.
bool is_plain(std::string_view text) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+";
  return !text.empty() && text.find_first_not_of(kLetters) == std::string_view::npos &&
         std::string_view("0123456789./-+").find(text[0]) == std::string_view::npos &&
         !is_mark(text);
}

std::string lines(std::string text, std::size_t indent, const std::vector<std::string>& items,
                  char close) {
  std::size_t line_length = text.size();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 == items.size() ? close : ',');
    if (i > 0 && line_length + 1 + item.size() > kLongestLine) {
      text += fmt::format("\n{:{}}", "", indent + 2);
      line_length = indent + 2;
    } else if (i > 0) {
      text += " ";
      ++line_length;
    }
    text += item;
    line_length += item.size();
  }
  if (items.empty()) text += close;
  return text + "\n";
}

}  // namespace

std::string yaml_scalar(std::string_view text) {
  if (is_plain(text)) return std::string(text);
  std::string quoted = "\"";
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\x{:02x}", byte);
      continue;
    }
    if (character == '"' || character == '\\') quoted += '\\';
    quoted += character;
  }
  return quoted + '"';
}

std::string yaml_value(std::string_view text) {
  const bool is_number = !text.empty() && text.size() < 19 && text[0] != '0' &&
                         text.find_first_not_of("0123456789") == std::string_view::npos;
  return is_number ? std::string(text) : yaml_scalar(text);
}

std::string yaml_list(const std::vector<std::string>& items) {
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::string yaml_list_lines(std::size_t indent, std::string_view key,
                            const std::vector<std::string>& items) {
  return lines(fmt::format("{:{}}{}: [", "", indent, key), indent, items, ']');
}

std::string yaml_mapping_lines(std::size_t indent, std::string_view key,
                               const std::vector<std::string>& items) {
  return lines(fmt::format("{:{}}{}: {{", "", indent, key), indent, items, '}');
}

}  // namespace cairn
