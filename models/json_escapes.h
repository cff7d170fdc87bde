#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/source_text.h"

// JSON writes characters above U+FFFF as two \u escapes, a surrogate pair, which YAML and yaml-cpp
// refuse. This rewrites each pair as YAML's one \U escape, two bytes shorter, and remembers where,
// so that columns stay those of the file.

namespace cairn {

struct JsonEscapes {
  bool is_changed = false;
  std::string text = {};                 // the rewritten text, when it changed
  std::vector<Position> pair_ends = {};  // in `text`, just after each rewritten pair, in order
};

// Changes nothing unless the first non-blank character is '{' or '['.
JsonEscapes join_json_surrogates(std::string_view text);

// Maps a position in the rewritten text back to the original.
Position position_in_original(const JsonEscapes& escapes, Position position);

}  // namespace cairn
