#include "models/yaml_messages.h"

#include <string_view>

namespace cairn {
namespace {

struct Translation {
  std::string_view yaml_message;  // how yaml-cpp's message begins
  std::string_view expected;      // what Cairn says before ", found ..."
};

// yaml-cpp 0.7, exceptions.h. What is not here is passed on as it is.
constexpr Translation kTranslations[] = {
    {"end of map not found", "expected a key indented like the keys above it"},
    {"end of sequence not found", "expected '- ' indented like the items above it"},
    {"end of map flow not found", "expected ',' or '}'"},
    {"end of sequence flow not found", "expected ',' or ']'"},
    {"illegal flow end", "expected the bracket that closes the last one opened"},
    {"illegal block entry", "expected a list item to begin its own line"},
    {"illegal map key", "expected a key to begin its own line"},
    {"illegal map value", "expected one 'key: value' a line, indented like its neighbours"},
    {"illegal EOF in scalar", "expected a closing quote"},
    {"illegal document indicator in scalar", "expected a closing quote"},
    {"unknown token", "expected a value (quote it if it begins with a special character)"},
    {"unexpected character in block scalar", "expected the text to begin on the next line"},
};

// The first tab in the indentation of a line, or {0, 0}.
Position tab_in_indentation(const Document& document, int line) {
  const std::size_t begin = offset_of(document.text, {.line = line, .column = 1});
  const std::size_t end = document.text.find_first_not_of(" \t", begin);
  const std::size_t tab = document.text.find('\t', begin);
  if (tab == std::string::npos || tab >= end) return {};
  return {.line = line, .column = static_cast<int>(tab - begin) + 1};
}

// yaml-cpp complains just after the escape.
YamlComplaint explain_bad_escape(const Document& document, Position position) {
  const std::string_view text = document.text;
  const std::size_t end = offset_of(text, position);
  const std::size_t backslash = text.rfind('\\', end == 0 ? 0 : end - 1);
  const std::size_t begin = backslash == std::string_view::npos ? end : backslash;
  const std::string_view escape = text.substr(begin, end - begin);
  return {.position = position_of(text, begin),
          .message = "expected a valid escape, found " +
                     in_quotes(escape.substr(0, escape.find_first_of("\r\n")))};
}

}  // namespace

std::string found_at(const Document& document, Position position) {
  const std::size_t offset = offset_of(document.text, position);
  const std::string_view rest = std::string_view(document.text).substr(offset);
  if (rest.find_first_not_of(" \t\r\n") == std::string_view::npos) return "the end of the file";
  if (rest.front() == '\n' || rest.front() == '\r') return "the end of the line";
  if (rest.front() == '\t') return "a tab";
  return "'" + first_character(rest) + "'";
}

std::string alias_message() {
  return "expected a value written out in full, found an alias; aliases are not supported";
}

YamlComplaint explain_yaml_error(const Document& document, Position position,
                                 const std::string& yaml_message, const Node* open_bracket) {
  const std::string found = found_at(document, position);
  if (yaml_message.starts_with("the referenced anchor is not defined")) {
    return {.position = position, .message = alias_message()};
  }
  if (yaml_message.starts_with("unknown escape character") ||
      yaml_message.starts_with("invalid unicode") ||
      yaml_message.starts_with("bad character found while scanning hex")) {
    return explain_bad_escape(document, position);
  }
  if (open_bracket != nullptr && found == "the end of the file") {
    const bool is_list = open_bracket->kind == NodeKind::kSequence;
    return {.position = open_bracket->position,
            .message = std::string("expected ") + (is_list ? "']'" : "'}'") +
                       " to close this bracket, found " + found};
  }
  const Position tab = tab_in_indentation(document, position.line);
  if (tab.line != 0 && open_bracket == nullptr) {
    return {.position = tab, .message = "expected spaces to indent, found a tab"};
  }
  for (const Translation& translation : kTranslations) {
    if (!yaml_message.starts_with(translation.yaml_message)) continue;
    return {.position = position,
            .message = std::string(translation.expected) + ", found " + found};
  }
  return {.position = position,
          .message = "expected YAML or JSON, found: " + printable(yaml_message)};
}

}  // namespace cairn
