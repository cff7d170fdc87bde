#include "models/document.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include "graph/error.h"
#include "models/json_escapes.h"
#include "models/read_file.h"
#include "models/yaml_messages.h"

namespace cairn {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxNodeCount = 1'000'000;
constexpr std::size_t kLongestMessage = 2000;  // names in it come from the file

std::string too_many_nodes() {
  return fmt::format("expected at most {} values, found more", kMaxNodeCount);
}

// The characters from `position` to the next blank, for messages about one token.
std::string word_at(const Document& document, Position position) {
  const std::size_t begin = offset_of(document.text, position);
  const std::size_t end = document.text.find_first_of(" \t\r\n,[]{}", begin);
  return in_quotes(std::string_view(document.text).substr(begin, end - begin));
}

void refuse_duplicate_keys(const Document& document, const Node& mapping) {
  std::vector<const Entry*> sorted;
  sorted.reserve(mapping.entries.size());
  for (const Entry& entry : mapping.entries) sorted.push_back(&entry);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Entry* a, const Entry* b) { return a->key < b->key; });
  const auto duplicate =
      std::adjacent_find(sorted.begin(), sorted.end(),
                         [](const Entry* a, const Entry* b) { return a->key == b->key; });
  if (duplicate == sorted.end()) return;
  const Position first = (*duplicate)->key_position;
  const Entry& second = **std::next(duplicate);
  fail_at(document, second.key_position,
          fmt::format("expected each key once, found {} again (the first is at {}:{})",
                      in_quotes(second.key), first.line, first.column));
}

// Builds the tree from yaml-cpp's events, and refuses what Cairn does not read.
class TreeBuilder : public YAML::EventHandler {
 public:
  // `parsed_text` is what yaml-cpp reads: the document's text, or its rewritten form.
  TreeBuilder(const Document& document, const JsonEscapes& escapes, const std::string& parsed_text)
      : document_(document), escapes_(escapes), parsed_text_(parsed_text) {}

  // The tree; throws the refusals that had to wait for the end of the file.
  Node finish() {
    refuse_unclosed_quote();
    if (has_refused_key_) fail_at(document_, refused_key_, refused_key_message_);
    return std::move(root_);
  }

  Position position_of_mark(const YAML::Mark& mark) const {
    if (mark.is_null()) return {.line = 1, .column = 1};
    if (offset_of_mark(mark) >= parsed_text_.size()) {  // where yaml-cpp resets the column
      return position_of(document_.text, document_.text.size());
    }
    return position_in_original(escapes_, {.line = mark.line + 1, .column = mark.column + 1});
  }

  // yaml-cpp takes the end of the file for a closing quote, so look for it. Only the last quoted
  // scalar can lack one.
  void refuse_unclosed_quote() const {
    if (!last_quote_offset_) return;
    const char quote = parsed_text_[*last_quote_offset_];
    for (std::size_t i = *last_quote_offset_ + 1; i < parsed_text_.size(); ++i) {
      if (parsed_text_[i] == '\\' && quote == '"') {
        ++i;
      } else if (parsed_text_[i] == quote) {
        if (quote == '"' || parsed_text_.compare(i, 2, "''") != 0) return;
        ++i;
      }
    }
    fail_at(document_, last_quote_,
            fmt::format("expected a closing {} for this text, found the end of the file", quote));
  }

  // The innermost '[' or '{' that is still open, or null.
  const Node* open_bracket() const {
    const auto found = std::find_if(frames_.rbegin(), frames_.rend(),
                                    [](const Frame& frame) { return frame.is_bracketed; });
    return found == frames_.rend() ? nullptr : &found->node;
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    const Position position = position_of_mark(mark);
    if (!has_document_) {
      has_document_ = true;
      return;
    }
    const std::size_t offset = offset_of(document_.text, position);
    const bool is_marked = position.column == 1 && document_.text.compare(offset, 3, "---") == 0;
    fail_at(document_, position,
            is_marked ? "expected one document in the file, found a second one"
                      : "expected the end of the file, found " + found_at(document_, position));
  }

  void OnDocumentEnd() override {}

  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    fail_at(document_, position_of_mark(mark),
            fmt::format("expected a value written out in full, found the anchor {}; anchors are "
                        "not supported",
                        in_quotes("&" + name)));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail_at(document_, position_of_mark(mark), alias_message());
  }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    Node node = start_node(NodeKind::kNull, mark, "?");
    const bool is_list_item = !frames_.empty() && frames_.back().is_bracketed &&
                              frames_.back().node.kind == NodeKind::kSequence;
    if (is_list_item && byte_at(mark) == ',') {
      fail_at(document_, node.position, "expected a value, found ','");
    }
    add(std::move(node));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    Node node = start_node(NodeKind::kScalar, mark, tag);
    if (find_non_utf8_byte(value) != std::string::npos) {
      fail_at(document_, node.position,
              "expected UTF-8 text, found an escape that is not (use \\u0085 for \\N, \\u00a0 "
              "for \\_)");
    }
    node.scalar = value;
    node.quoted = tag == "!";
    if (byte_at(mark) == '"' || byte_at(mark) == '\'') {
      last_quote_ = node.position;
      last_quote_offset_ = offset_of_mark(mark);
    }
    add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value style) override {
    open(NodeKind::kSequence, mark, tag, style);
  }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value style) override {
    open(NodeKind::kMapping, mark, tag, style);
  }

  void OnSequenceEnd() override { close(); }

  void OnMapEnd() override {
    if (!has_refused_key_) refuse_duplicate_keys(document_, frames_.back().node);
    close();
  }

 private:
  struct Frame {
    Node node = {};
    bool is_bracketed = false;
    bool has_key = false;  // a mapping has its next key, and waits for the value
    std::string key = {};
    Position key_position = {};
  };

  static std::size_t offset_of_mark(const YAML::Mark& mark) {
    return static_cast<std::size_t>(std::max(mark.pos, 0));
  }

  char byte_at(const YAML::Mark& mark) const {
    const std::size_t offset = offset_of_mark(mark);
    return offset < parsed_text_.size() ? parsed_text_[offset] : '\0';
  }

  Node start_node(NodeKind kind, const YAML::Mark& mark, const std::string& tag) {
    Node node;
    node.kind = kind;
    node.position = position_of_mark(mark);
    if (++node_count_ > kMaxNodeCount) fail_at(document_, node.position, too_many_nodes());
    const bool is_plain_tag = tag.empty() || tag == "?" || tag == "!";  // yaml-cpp's own
    if (!is_plain_tag || byte_at(mark) == '!') {
      fail_at(document_, node.position,
              fmt::format("expected a value without a tag, found {}; tags are not supported",
                          word_at(document_, node.position)));
    }
    return node;
  }

  void open(NodeKind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::EmitterStyle::value style) {
    Node node = start_node(kind, mark, tag);
    if (frames_.size() == kMaxDepth) {
      fail_at(document_, node.position,
              fmt::format("expected at most {} levels of nesting, found more", kMaxDepth));
    }
    frames_.push_back({.node = std::move(node), .is_bracketed = style == YAML::EmitterStyle::Flow});
  }

  void close() {
    Node node = std::move(frames_.back().node);
    frames_.pop_back();
    add(std::move(node));
  }

  void add(Node node) {
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = frames_.back();
    if (frame.node.kind == NodeKind::kSequence) {
      frame.node.items.push_back(std::move(node));
    } else if (frame.has_key) {
      // yaml-cpp places an empty value at the next token, which may be lines below.
      if (node.kind == NodeKind::kNull && node.position.line != frame.key_position.line) {
        node.position = frame.key_position;
      }
      frame.node.entries.push_back({.key = std::move(frame.key),
                                    .key_position = frame.key_position,
                                    .value = std::move(node)});
      frame.has_key = false;
    } else {
      if (node.kind != NodeKind::kScalar) refuse_key(node);
      frame.key = std::move(node.scalar);
      frame.key_position = node.position;
      frame.has_key = true;
    }
  }

  // Waits until the end: for an unclosed bracket yaml-cpp invents such keys before it complains.
  void refuse_key(const Node& node) {
    if (has_refused_key_) return;
    has_refused_key_ = true;
    refused_key_ = node.position;
    refused_key_message_ = node.kind == NodeKind::kNull
                               ? "expected a key, found " + found_at(document_, node.position) +
                                     " (a key and its ':' stand on one line, within 1024 bytes)"
                               : "expected a key that is text, found " + describe(node);
  }

  const Document& document_;
  const JsonEscapes& escapes_;
  const std::string& parsed_text_;
  std::vector<Frame> frames_ = {};
  Node root_ = {};
  std::size_t node_count_ = 0;
  bool has_document_ = false;
  bool has_refused_key_ = false;
  std::optional<std::size_t> last_quote_offset_ = {};  // in parsed_text_
  Position last_quote_ = {};
  Position refused_key_ = {};
  std::string refused_key_message_ = {};
};

// What yaml-cpp would take long or much memory to refuse, or not refuse at all.
void refuse_before_parsing(const Document& document) {
  const std::string_view text = document.text;
  if (text.size() > kMaxFileBytes) {
    throw InputError(fmt::format("{}: expected at most {} MiB, found more", document.file_name,
                                 kMaxFileBytes >> 20));
  }
  const std::size_t bad = find_non_text_byte(text);
  if (bad != std::string_view::npos) {
    fail_at(document, position_of(text, bad),
            fmt::format("expected UTF-8 text, found the byte 0x{:02x} at byte offset {}",
                        static_cast<unsigned char>(text[bad]), bad));
  }
  // Each of these starts a value (but for the odd comma in a text). yaml-cpp queues all tokens of
  // a bracketed value before its first event, so the limit on events would come too late.
  std::size_t separator_count = 0;
  for (std::size_t i = text.find_first_of(",[{"); i != std::string_view::npos;
       i = text.find_first_of(",[{", i + 1)) {
    if (++separator_count > kMaxNodeCount) {
      fail_at(document, position_of(text, i), too_many_nodes());
    }
  }
}

}  // namespace

Document parse_document(std::string file_name, std::string text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  Document document = {.file_name = std::move(file_name), .text = std::move(text)};
  refuse_before_parsing(document);

  const JsonEscapes escapes = join_json_surrogates(document.text);
  const std::string& parsed_text = escapes.is_changed ? escapes.text : document.text;
  std::istringstream stream(parsed_text);
  TreeBuilder builder(document, escapes, parsed_text);
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) {
      fail_at(document, {.line = 1, .column = 1},
              document.text.empty() ? "expected a document, found an empty file"
                                    : "expected a document, found only blanks and comments");
    }
    parser.HandleNextDocument(builder);  // refuses a second document by itself
  } catch (const YAML::Exception& error) {
    builder.refuse_unclosed_quote();
    const YamlComplaint complaint = explain_yaml_error(
        document, builder.position_of_mark(error.mark), error.msg, builder.open_bracket());
    fail_at(document, complaint.position, complaint.message);
  }
  document.root = builder.finish();
  return document;
}

Document read_document(const std::filesystem::path& path) {
  return parse_document(path.string(), read_file(path, kMaxFileBytes));
}

std::string message_at(const Document& document, Position position, const std::string& message) {
  return fmt::format("{}:{}:{}: {}{}", document.file_name, position.line, position.column,
                     printable(message, kLongestMessage), excerpt(document.text, position));
}

void fail_at(const Document& document, Position position, const std::string& message) {
  throw InputError(message_at(document, position, message));
}

Position position_within(const Document& document, const Node& scalar, std::size_t offset) {
  Position position = scalar.position;
  if (scalar.quoted) ++position.column;
  const std::size_t begin = offset_of(document.text, position);
  if (document.text.compare(begin, scalar.scalar.size(), scalar.scalar) != 0) {
    return scalar.position;
  }
  position.column += static_cast<int>(offset);
  return position;
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case NodeKind::kNull:
      return "nothing";
    case NodeKind::kScalar:
      return (node.quoted ? "the text " : "") + in_quotes(node.scalar);
    case NodeKind::kSequence:
      return "a list";
    case NodeKind::kMapping:
      return "a mapping";
  }
  return "nothing";
}

}  // namespace cairn
