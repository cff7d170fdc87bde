// The JSON Schema of plain graphs and the reader agree on the sample graphs. The checker below
// knows only the keywords that the schema uses, and aborts on another; tests/docs/test_schema.py
// asks a real one.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "graph/error.h"
#include "models/document.h"
#include "models/fields.h"
#include "models/plain_graph.h"
#include "tests/docs/fenced_files.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = CAIRN_SOURCE_DIR;

const Node* find(const Node& mapping, const std::string& key) {
  for (const Entry& entry : mapping.entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

class SchemaChecker {
 public:
  explicit SchemaChecker(const Document& schema) : schema_(schema) {}

  bool accepts(const Document& document) const {
    return accepts(schema_.root, document, document.root);
  }

 private:
  bool accepts(const Node& schema, const Document& document, const Node& node) const {
    return std::all_of(schema.entries.begin(), schema.entries.end(), [&](const Entry& keyword) {
      return accepts_keyword(schema, keyword, document, node);
    });
  }

  bool accepts_keyword(const Node& schema, const Entry& keyword, const Document& document,
                       const Node& node) const {
    const Node& value = keyword.value;
    if (keyword.key == "$ref") return accepts(definition(value.scalar), document, node);
    if (keyword.key == "type") return has_type(value.scalar, document, node);
    if (keyword.key == "const") return node.scalar == value.scalar && node.quoted == value.quoted;
    if (keyword.key == "enum") return is_among(value, node);
    if (keyword.key == "anyOf") {
      return std::any_of(value.items.begin(), value.items.end(),
                         [&](const Node& choice) { return accepts(choice, document, node); });
    }
    if (keyword.key == "minimum") return integer(document, node) >= integer(schema_, value);
    if (keyword.key == "maximum") return integer(document, node) <= integer(schema_, value);
    if (keyword.key == "minLength") return length(node) >= integer(schema_, value);
    if (keyword.key == "maxLength") return length(node) <= integer(schema_, value);
    if (keyword.key == "minItems") return count(node) >= integer(schema_, value);
    if (keyword.key == "maxItems") return count(node) <= integer(schema_, value);
    if (keyword.key == "items") {
      return std::all_of(node.items.begin(), node.items.end(),
                         [&](const Node& item) { return accepts(value, document, item); });
    }
    if (keyword.key == "required") {
      return std::all_of(value.items.begin(), value.items.end(),
                         [&](const Node& key) { return find(node, key.scalar) != nullptr; });
    }
    if (keyword.key == "properties") {
      return std::all_of(node.entries.begin(), node.entries.end(), [&](const Entry& entry) {
        const Node* property = find(value, entry.key);
        return property == nullptr || accepts(*property, document, entry.value);
      });
    }
    if (keyword.key == "additionalProperties") {
      const Node& known = *find(schema, "properties");
      return std::all_of(node.entries.begin(), node.entries.end(),
                         [&](const Entry& entry) { return find(known, entry.key) != nullptr; });
    }
    const std::vector<std::string> remarks = {"$schema", "title", "description", "default",
                                              "$defs"};
    CAIRN_CHECK(std::find(remarks.begin(), remarks.end(), keyword.key) != remarks.end(),
                keyword.key);
    return true;
  }

  const Node& definition(const std::string& reference) const {
    const std::string prefix = "#/$defs/";
    CAIRN_CHECK(reference.starts_with(prefix), reference);
    const Node* found = find(*find(schema_.root, "$defs"), reference.substr(prefix.size()));
    CAIRN_CHECK(found != nullptr, reference);
    return *found;
  }

  static bool has_type(const std::string& type, const Document& document, const Node& node) {
    if (type == "object") return node.kind == NodeKind::kMapping;
    if (type == "array") return node.kind == NodeKind::kSequence;
    if (type == "string") return node.kind == NodeKind::kScalar;
    try {
      type == "integer" ? static_cast<void>(to_integer(document, node, type))
                        : static_cast<void>(to_boolean(document, node, type));
      return true;
    } catch (const InputError&) {
      return false;
    }
  }

  // 0 for what is no integer, which "type" refuses.
  static std::int64_t integer(const Document& document, const Node& node) {
    return has_type("integer", document, node) ? to_integer(document, node, "integer") : 0;
  }

  static std::int64_t count(const Node& node) {
    return static_cast<std::int64_t>(node.items.size());
  }

  static std::int64_t length(const Node& node) {
    return static_cast<std::int64_t>(node.scalar.size());
  }

  static bool is_among(const Node& choices, const Node& node) {
    return std::any_of(choices.items.begin(), choices.items.end(),
                       [&](const Node& choice) { return choice.scalar == node.scalar; });
  }

  const Document& schema_;
};

bool reader_accepts(const Document& document) {
  try {
    read_plain_graph(document, {});
    return true;
  } catch (const InputError&) {
    return false;
  }
}

TEST_CASE("schema and reader agree on the structure of plain graphs") {
  const Document schema = read_document(kRoot / "docs/schema/plain_graph.schema.json");
  const SchemaChecker checker(schema);
  const auto check_folder = [&](const fs::path& folder, bool structure_is_right, bool is_right) {
    int file_count = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() != ".yaml") continue;
      CAPTURE(entry.path().string());
      const Document document = read_document(entry.path());
      CHECK(checker.accepts(document) == structure_is_right);
      CHECK(reader_accepts(document) == is_right);
      ++file_count;
    }
    CHECK(file_count >= 4);
  };
  check_folder(kRoot / "tests/models/graphs", true, true);
  check_folder(kRoot / "tests/models/graphs/bad/structure", false, false);
  check_folder(kRoot / "tests/models/graphs/bad/meaning", true, false);

  const test::TemporaryFolder folder;
  const std::vector<std::string> files = test::write_fenced_files("docs/formats.md", folder.path());
  const Document example = read_document(folder.path() / files[0]);
  CHECK(checker.accepts(example));
  CHECK(reader_accepts(example));
}

// Every key the reader asks for, as its refusal of an unknown one lists them.
TEST_CASE("the schema has every key that the reader knows") {
  const Document schema = read_document(kRoot / "docs/schema/plain_graph.schema.json");
  const auto check = [&](const std::string& text, const Node& described) {
    try {
      read_plain_graph(parse_document("graph.yaml", text), {});
      FAIL(text);
    } catch (const InputError& error) {
      const std::string message = error.what();
      for (const Entry& property : find(described, "properties")->entries) {
        CHECK_MESSAGE(message.find(property.key) != std::string::npos, property.key, message);
      }
      const std::string marker = "expected one of: ";
      REQUIRE(message.find(marker) != std::string::npos);
      const std::size_t begin = message.find(marker) + marker.size();
      const std::string list = message.substr(begin, message.find('\n') - begin);
      const auto commas = std::count(list.begin(), list.end(), ',');
      CHECK(commas + 1 ==
            static_cast<std::ptrdiff_t>(find(described, "properties")->entries.size()));
    }
  };
  const Node& definitions = *find(schema.root, "$defs");
  const std::string op = "name: f, outputs: [{name: y, bytes: 1}]";
  check("{cairn_graph: 1, zzzzzzzz: 1, ops: [{" + op + "}]}", schema.root);
  check("{cairn_graph: 1, ops: [{" + op + ", zzzzzzzzzzzzzzzzzzzzzzz: 1}]}",
        *find(definitions, "op"));
  check("{cairn_graph: 1, ops: [{" + op + ", forward: {zzzzzzzz: 1}}]}",
        *find(definitions, "cost"));
  check("{cairn_graph: 1, inputs: [{name: x, bytes: 1, zzzzzzzz: 1}], ops: [{" + op + "}]}",
        *find(definitions, "input"));
  check("{cairn_graph: 1, parameters: [{name: x, bytes: 1, zzzzzzzz: 1}], ops: [{" + op + "}]}",
        *find(definitions, "parameter"));
  check("{cairn_graph: 1, ops: [{name: f, outputs: [{name: y, bytes: 1, zzzzzzzz: 1}]}]}",
        *find(definitions, "made"));
}

}  // namespace
}  // namespace cairn
