#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "models/source_text.h"

// One reader for every input file, YAML or JSON, and the only place that knows yaml-cpp. It gives
// an immutable tree of untyped values, each with its position; models/fields.h gives them types.
//
// It reads less than YAML: no anchors, aliases or tags, no duplicate keys, one document a file,
// text keys only ('<<' is a key like any other), at most 64 levels and 1,000,000 values.

namespace cairn {

enum class NodeKind { kNull, kScalar, kSequence, kMapping };

struct Entry;

struct Node {
  NodeKind kind = NodeKind::kNull;
  std::string scalar = {};       // the value of a scalar, escapes decoded
  bool quoted = false;           // the scalar was quoted, or a block ('|', '>'): always text
  Position position = {};        // of its first character, the quote or bracket included
  std::vector<Node> items = {};  // of a sequence
  std::vector<Entry> entries;  // of a mapping, in the order of the file ("= {}" needs Entry whole)
};

struct Entry {
  std::string key = {};
  Position key_position = {};
  Node value = {};
};

struct Document {
  std::string file_name = {};  // as messages name it
  std::string text = {};       // the whole file, without a byte order mark
  Node root = {};
};

// Throws InputError, as does read_document.
Document parse_document(std::string file_name, std::string text);

// Reads at most 16 MiB.
Document read_document(const std::filesystem::path& path);

// "file:line:column: message", then the line and a caret.
std::string message_at(const Document& document, Position position, const std::string& message);
[[noreturn]] void fail_at(const Document& document, Position position, const std::string& message);

// The position of scalar[offset] in the file, so that a caret can point inside a scalar; that of
// the scalar itself when it is not written verbatim on one line.
Position position_within(const Document& document, const Node& scalar, std::size_t offset);

// What was found, for messages: "a mapping", "a list", "nothing", "'4k'", "the text '4'".
std::string describe(const Node& node);

}  // namespace cairn
