#include "models/document.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "graph/error.h"

namespace cairn {
namespace {

const std::filesystem::path kBadDocuments =
    std::filesystem::path(CAIRN_SOURCE_DIR) / "tests/models/bad/documents";

std::string refusal_of_text(std::string text) {
  try {
    parse_document("file", std::move(text));
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

// The message for a file, without the path before ":line:column".
std::string refusal_of_file(const std::string& name) {
  const std::string path = (kBadDocuments / name).string();
  try {
    read_document(path);
  } catch (const InputError& error) {
    const std::string message = error.what();
    return message.starts_with(path) ? message.substr(path.size()) : message;
  }
  return "accepted";
}

Node root_of(std::string text) { return parse_document("file", std::move(text)).root; }

std::string repeat(std::string_view part, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += part;
  return text;
}

bool stands_at(Position position, int line, int column) {
  return position.line == line && position.column == column;
}

}  // namespace

TEST_CASE("YAML is read with kinds, quoting, order and positions") {
  const Node root = root_of(
      "family: llama\n"
      "dims: {b: 1, a: 'x'}\n"
      "ops:\n"
      "  - norm\n"
      "  - ~\n"
      "empty:\n");
  REQUIRE(root.kind == NodeKind::kMapping);
  REQUIRE(root.entries.size() == 4);
  CHECK(root.entries[0].key == "family");
  CHECK(root.entries[0].value.scalar == "llama");
  CHECK_FALSE(root.entries[0].value.quoted);
  CHECK(stands_at(root.entries[0].value.position, 1, 9));
  const Node& dims = root.entries[1].value;
  REQUIRE(dims.entries.size() == 2);
  CHECK(dims.entries[0].key == "b");
  CHECK(dims.entries[1].key == "a");
  CHECK(stands_at(dims.entries[1].key_position, 2, 14));
  CHECK(dims.entries[1].value.quoted);
  CHECK(stands_at(dims.entries[1].value.position, 2, 17));
  const Node& ops = root.entries[2].value;
  REQUIRE(ops.items.size() == 2);
  CHECK(stands_at(ops.items[0].position, 4, 5));
  CHECK(ops.items[1].kind == NodeKind::kNull);
  CHECK(root.entries[3].value.kind == NodeKind::kNull);
  CHECK(stands_at(root.entries[3].value.position, 6, 1));
}

TEST_CASE("JSON is read the same way, tabs and escapes included") {
  const Node root = root_of(
      "{\n"
      "\t\"hidden_size\": 4096,\n"
      "\t\"a\\/b\": \"\\u00e9\\ud83d\\ude00\", \"eps\": 1e-05,\n"
      "\t\"list\": [true, null, NaN, -Infinity]\n"
      "}");
  REQUIRE(root.entries.size() == 4);
  CHECK(root.entries[0].value.scalar == "4096");
  CHECK(root.entries[1].key == "a/b");
  CHECK(root.entries[1].value.scalar == "\u00e9\U0001f600");
  CHECK(root.entries[2].value.scalar == "1e-05");
  const Node& list = root.entries[3].value;
  REQUIRE(list.items.size() == 4);
  CHECK(list.items[0].scalar == "true");
  CHECK(list.items[1].kind == NodeKind::kNull);
  CHECK(list.items[2].scalar == "NaN");
  CHECK(list.items[3].scalar == "-Infinity");
}

TEST_CASE("a surrogate pair moves no position behind it") {
  // 13 bytes of {"a": "\ud83d stand before the second half; "b" stands at byte 23.
  const Node root = root_of("{\"a\": \"\\ud83d\\ude00\", \"b\": \"\\uD83D\\uDE00\", \"c\": 1}");
  REQUIRE(root.entries.size() == 3);
  CHECK(stands_at(root.entries[1].key_position, 1, 23));
  CHECK(stands_at(root.entries[2].key_position, 1, 44));
}

TEST_CASE("an escaped backslash does not begin a surrogate pair") {
  CHECK(root_of("[\"\\\\ud83d\\\\ude00\"]").items[0].scalar == "\\ud83d\\ude00");
}

TEST_CASE("a byte order mark is skipped and moves nothing") {
  CHECK(stands_at(root_of("\xEF\xBB\xBF{\"a\": 1}").entries[0].key_position, 1, 2));
}

TEST_CASE("Windows line ends do not reach values or excerpts") {
  CHECK(root_of("a: x\r\nb: y\r\n").entries[0].value.scalar == "x");
  CHECK(refusal_of_text("a: 1\r\na: 2\r\n") ==
        "file:2:1: expected each key once, found 'a' again (the first is at 1:1)\na: 2\n^");
}

TEST_CASE("a merge key is a key like any other") {
  CHECK(root_of("<<: {a: 1}\n").entries[0].key == "<<");
}

TEST_CASE("a document may end with '...'") {
  CHECK(root_of("---\na: 1\n...\n").entries.size() == 1);
}

TEST_CASE("each bad file is refused with its own message") {
  const std::vector<std::pair<std::string, std::string>> refusals = {
      {"alias_bomb.yaml",
       R"(:1:5: expected a value written out in full, found the anchor '&a0'; anchors are not supported
a0: &a0 [boom, boom, boom, boom]
    ^)"},
      {"anchor.yaml",
       R"(:1:7: expected a value written out in full, found the anchor '&base'; anchors are not supported
base: &base {op: linear}
      ^)"},
      {"bad_escape.json",
       R"(:1:12: expected a valid escape, found '\q'
{"name": "a\qb"}
           ^)"},
      {"binary.yaml",
       R"(:2:10: expected UTF-8 text, found the byte 0x00 at byte offset 20
weights: ???
         ^)"},
      {"byte_order_mark_utf16.yaml",
       R"(:1:1: expected UTF-8 text, found the byte 0xff at byte offset 0
??n?a?m?e?:? ?t?i?n?y?
^)"},
      {"deeply_nested.json",
       R"(:1:321: expected at most 64 levels of nesting, found more
...a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":1}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}...
                                                                                 ^)"},
      {"deeply_nested.yaml",
       R"(:1:69: expected at most 64 levels of nesting, found more
ops: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
                                                                    ^)"},
      {"double_comma.json",
       R"(:1:7: expected a value, found ','
[1, 2,, 3]
      ^)"},
      {"duplicate_key.yaml",
       R"(:5:3: expected each key once, found 'hidden' again (the first is at 3:3)
  hidden: d_model
  ^)"},
      {"empty.yaml", R"(:1:1: expected a document, found an empty file)"},
      {"escape_sequence.yaml",
       R"(:1:7: expected UTF-8 text, found the byte 0x1b at byte offset 6
name: ?[31mred
      ^)"},
      {"half_surrogate.json",
       R"(:1:11: expected a valid escape, found '\ud83d'
{"name": "\ud83d!"}
          ^)"},
      {"invalid_utf8.yaml",
       R"(:1:10: expected UTF-8 text, found the byte 0xe9 at byte offset 9
name: caf?
         ^)"},
      {"list_as_key.yaml",
       R"(:2:5: expected a key that is text, found a list
  ? [q, k]
    ^)"},
      {"list_inside_line.yaml",
       R"(:1:5: expected a list item to begin its own line, found '-'
in: - x
    ^)"},
      {"long_line.json",
       R"(:1:892: expected a value (quote it if it begins with a special character), found '@'
...4, 185, 186, 187, 188, 189, 190, 191, 192, 193, 194, 195, 196, 197, 198, 199, @, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 2...
                                                                                 ^)"},
      {"mismatched_bracket.yaml",
       R"(:1:10: expected the bracket that closes the last one opened, found '}'
in: [x, y}
         ^)"},
      {"missing_comma.json",
       R"(:3:15: expected ',' or '}', found ':'
  "vocab_size": 32000
              ^)"},
      {"missing_key.json",
       R"(:1:9: expected a key, found ',' (a key and its ':' stand on one line, within 1024 bytes)
{"a": 1,, "b": 2}
        ^)"},
      {"only_comments.yaml",
       R"(:1:1: expected a document, found only blanks and comments
# A family file.
^)"},
      {"reserved_character.yaml",
       R"(:1:6: expected a value (quote it if it begins with a special character), found '@'
gpu: @rtx4090
     ^)"},
      {"tab_indent.yaml",
       R"(:2:1: expected spaces to indent, found a tab
	- embed: {op: embedding}
^)"},
      {"tag.yaml",
       R"(:1:9: expected a value without a tag, found '!!int'; tags are not supported
hidden: !!int 4096
        ^)"},
      {"text_after_document.json",
       R"(:1:10: expected the end of the file, found '{'
{"a": 1} {"b": 2}
         ^)"},
      {"two_colons.yaml",
       R"(:1:9: expected one 'key: value' a line, indented like its neighbours, found ':'
carry: x: embed
        ^)"},
      {"two_documents.yaml",
       R"(:2:1: expected one document in the file, found a second one
---
^)"},
      {"unclosed_brace.json",
       R"(:3:18: expected '}' to close this bracket, found the end of the file
	"rope_scaling": {"factor": 8
	                ^)"},
      {"unclosed_bracket.json",
       R"(:4:1: expected the bracket that closes the last one opened, found '}'
}
^)"},
      {"unclosed_quote.yaml",
       R"(:1:9: expected a closing " for this text, found the end of the file
family: "llama
        ^)"},
      {"undefined_alias.yaml",
       R"(:1:7: expected a value written out in full, found an alias; aliases are not supported
base: *nowhere
      ^)"},
      {"wrong_indent.yaml",
       R"(:3:3: expected a key indented like the keys above it, found '-'
  - attn
  ^)"}};
  for (const auto& refusal : refusals) {
    CAPTURE(refusal.first);
    CHECK(refusal_of_file(refusal.first) == refusal.second);
  }
  std::size_t file_count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kBadDocuments)) {
    if (entry.is_regular_file()) ++file_count;
  }
  CHECK(file_count == refusals.size());
}

TEST_CASE("64 levels are read and 65 are not") {
  CHECK(refusal_of_text(repeat("[", 64) + repeat("]", 64)) == "accepted");
  CHECK(refusal_of_text(repeat("[", 65) + repeat("]", 65))
            .starts_with("file:1:65: expected at most 64 levels of nesting, found more"));
}

TEST_CASE("nesting without end is refused, not followed") {
  const std::string message = "expected at most 64 levels of nesting, found more";
  CHECK(refusal_of_text(repeat("[", 900'000)).find(message) != std::string::npos);
  CHECK(refusal_of_text(repeat("- ", 900'000)).starts_with("file:1:129: " + message));
}

TEST_CASE("more than a million values are refused") {
  const std::string message = "expected at most 1000000 values, found more";
  CHECK(refusal_of_text(repeat("- a\n", 1'000'000)).starts_with("file:1000000:3: " + message));
  CHECK(refusal_of_text(repeat("[", 1'000'001)).starts_with("file:1:1000001: " + message));
}

TEST_CASE("a file over 16 MiB is refused") {
  CHECK(refusal_of_text(std::string((16u << 20) + 1, ' ')) ==
        "file: expected at most 16 MiB, found more");
}

TEST_CASE("a missing file and a directory are refused by name") {
  CHECK(refusal_of_file("no_such_file.yaml") == ": expected a file, found none");
  CHECK(refusal_of_file("") == ": expected a file, found a directory");
}

TEST_CASE("a pipe that nobody writes to is refused, not waited for") {
  const std::filesystem::path pipe =
      std::filesystem::temp_directory_path() / ("cairn_pipe_" + std::to_string(::getpid()));
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(refusal_of_file(pipe).ends_with(": expected a file, found something that sends no bytes"));
  std::filesystem::remove(pipe);
}

TEST_CASE("the caret stays aligned below tabs and wide text") {
  const Document document = parse_document("file", "{\n\t\"\u00e9\": [1]}\n");
  // Bytes: tab 1, quote 2, the two of the letter 3 and 4, quote 5, colon 6, blank 7, bracket 8.
  CHECK(message_at(document, {.line = 2, .column = 8}, "here") ==
        "file:2:8: here\n\t\"\u00e9\": [1]}\n\t     ^");
}

TEST_CASE("a position can point inside a scalar that is written verbatim") {
  const Document document =
      parse_document("file", "plain: heads * dim\nquoted: 'a * b'\nescaped: \"a\\tb\"\n");
  const auto& entries = document.root.entries;
  CHECK(stands_at(position_within(document, entries[0].value, 8), 1, 16));
  CHECK(stands_at(position_within(document, entries[1].value, 4), 2, 14));
  CHECK(stands_at(position_within(document, entries[2].value, 2), 3, 10));
}

}  // namespace cairn
