#pragma once

#include <string>

#include "models/document.h"

// yaml-cpp's complaints in Cairn's words: what was expected, what was found.

namespace cairn {

struct YamlComplaint {
  Position position = {};
  std::string message = {};
};

// `open_bracket` is the innermost unclosed '[' or '{' when yaml-cpp gave up, or null.
YamlComplaint explain_yaml_error(const Document& document, Position position,
                                 const std::string& yaml_message, const Node* open_bracket);

// "'x'", "a tab", "the end of the line" or "the end of the file".
std::string found_at(const Document& document, Position position);

std::string alias_message();

}  // namespace cairn
