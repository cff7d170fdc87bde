#include "models/fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "graph/error.h"

namespace cairn {
namespace {

[[noreturn]] void fail_expected(const Document& document, const Node& node, const std::string& what,
                                const std::string& expected) {
  fail_at(document, node.position, what + ": expected " + expected + ", found " + describe(node));
}

bool is_plain_scalar(const Node& node) { return node.kind == NodeKind::kScalar && !node.quoted; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool are_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

// "-4096.00" -> "-4096"; the text itself when its fraction is not zero.
std::string_view without_zero_fraction(std::string_view text) {
  const std::size_t point = text.find('.');
  if (point == std::string_view::npos || point + 1 == text.size()) return text;
  const bool is_zero = text.find_first_not_of('0', point + 1) == std::string_view::npos;
  return is_zero ? text.substr(0, point) : text;
}

}  // namespace

std::int64_t to_integer(const Document& document, const Node& node, const std::string& what) {
  if (!is_plain_scalar(node)) fail_expected(document, node, what, "an integer");
  const std::string_view text = without_zero_fraction(node.scalar);
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (!are_digits(digits)) fail_expected(document, node, what, "an integer");
  if (digits.size() > 1 && digits.front() == '0') {
    fail_expected(document, node, what, "an integer without leading zeros");
  }
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc()) fail_expected(document, node, what, "an integer within 64 bits");
  return value;
}

double to_number(const Document& document, const Node& node, const std::string& what) {
  if (!is_plain_scalar(node)) fail_expected(document, node, what, "a number");
  const std::string& text = node.scalar;
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec == std::errc::result_out_of_range) {
    fail_expected(document, node, what, "a number that fits a double");
  }
  const bool is_whole = result.ec == std::errc() && result.ptr == text.data() + text.size();
  if (!is_whole) fail_expected(document, node, what, "a number");
  if (!std::isfinite(value)) fail_expected(document, node, what, "a finite number");
  return value;
}

bool to_boolean(const Document& document, const Node& node, const std::string& what) {
  if (is_plain_scalar(node)) {
    const std::string& text = node.scalar;
    if (text == "true" || text == "True" || text == "TRUE") return true;
    if (text == "false" || text == "False" || text == "FALSE") return false;
  }
  fail_expected(document, node, what, "true or false");
}

std::string to_text(const Document& document, const Node& node, const std::string& what) {
  if (node.kind != NodeKind::kScalar) fail_expected(document, node, what, "a text");
  return node.scalar;
}

std::vector<std::string> to_names(const Document& document, const Node& node,
                                  const std::string& what) {
  if (node.kind == NodeKind::kScalar) return {node.scalar};
  if (node.kind != NodeKind::kSequence) {
    fail_expected(document, node, what, "a name or a list of names");
  }
  std::vector<std::string> names;
  names.reserve(node.items.size());
  for (const Node& item : node.items) names.push_back(to_text(document, item, what));
  return names;
}

const std::vector<Node>& to_list(const Document& document, const Node& node,
                                 const std::string& what) {
  if (node.kind != NodeKind::kSequence) fail_expected(document, node, what, "a list");
  return node.items;
}

Fields::Fields(const Document& document, const Node& node, std::string what)
    : document_(document), node_(node), what_(std::move(what)) {
  if (node.kind != NodeKind::kMapping) fail_expected(document, node, what_, "a mapping");
}

const Node* Fields::find(std::string_view key) {
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.emplace_back(key);
  const Entry* entry = find_entry(key);
  return entry == nullptr || entry->value.kind == NodeKind::kNull ? nullptr : &entry->value;
}

const Node& Fields::require(std::string_view key) {
  const Node* node = find(key);
  if (node != nullptr) return *node;
  if (find_entry(key) != nullptr) fail_at_key(key, "expected a value, found nothing");
  std::vector<std::string> others;  // one of them may be the key, misspelt
  for (const Entry& entry : node_.entries) {
    if (std::find(asked_.begin(), asked_.end(), entry.key) == asked_.end()) {
      others.push_back(entry.key);
    }
  }
  const std::string found = nearest_name(key, others);
  fail("missing key '" + std::string(key) + "'" +
       (found.empty() ? "" : ", found " + in_quotes(found)));
}

std::int64_t Fields::integer(std::string_view key) {
  return to_integer(document_, require(key), what_of(key));
}

double Fields::number(std::string_view key) {
  return to_number(document_, require(key), what_of(key));
}

bool Fields::boolean(std::string_view key) {
  return to_boolean(document_, require(key), what_of(key));
}

std::string Fields::text(std::string_view key) {
  return to_text(document_, require(key), what_of(key));
}

std::vector<std::string> Fields::names(std::string_view key) {
  return to_names(document_, require(key), what_of(key));
}

const std::vector<Node>& Fields::list(std::string_view key) {
  return to_list(document_, require(key), what_of(key));
}

std::optional<std::int64_t> Fields::optional_integer(std::string_view key) {
  return find(key) == nullptr ? std::nullopt : std::optional(integer(key));
}

std::optional<double> Fields::optional_number(std::string_view key) {
  return find(key) == nullptr ? std::nullopt : std::optional(number(key));
}

std::optional<bool> Fields::optional_boolean(std::string_view key) {
  return find(key) == nullptr ? std::nullopt : std::optional(boolean(key));
}

std::optional<std::string> Fields::optional_text(std::string_view key) {
  return find(key) == nullptr ? std::nullopt : std::optional(text(key));
}

std::vector<std::string> Fields::optional_names(std::string_view key) {
  return find(key) == nullptr ? std::vector<std::string>() : names(key);
}

std::optional<std::int64_t> Fields::optional_count(std::string_view key) {
  const std::optional<std::int64_t> count = optional_integer(key);
  if (count && *count < 1) {
    fail_at_key(key, "expected a positive integer, found " + std::to_string(*count));
  }
  return count;
}

std::optional<std::string> Fields::optional_one_of(std::string_view key,
                                                   const std::vector<std::string>& known) {
  std::optional<std::string> name = optional_text(key);
  if (name && std::find(known.begin(), known.end(), *name) == known.end()) {
    fail_at_key(key, "expected one of " + join_names(known) + ", found " + in_quotes(*name) +
                         did_you_mean(*name, known));
  }
  return name;
}

void Fields::refuse_unknown() const {
  for (const Entry& entry : node_.entries) {
    if (std::find(asked_.begin(), asked_.end(), entry.key) != asked_.end()) continue;
    std::string hint = did_you_mean(entry.key, asked_);
    if (hint.empty() && !asked_.empty()) hint = "; expected one of: " + join_names(asked_);
    fail_at(document_, entry.key_position, what_ + ": unknown key " + in_quotes(entry.key) + hint);
  }
}

std::string Fields::what_of(std::string_view key) const {
  return what_ + ": key '" + std::string(key) + "'";
}

void Fields::fail(const std::string& message) const {
  fail_at(document_, node_.position, what_ + ": " + message);
}

void Fields::fail_at_key(std::string_view key, const std::string& message) const {
  const Entry* entry = find_entry(key);
  fail_at(document_, entry == nullptr ? node_.position : entry->key_position,
          what_of(key) + ": " + message);
}

const Entry* Fields::find_entry(std::string_view key) const {
  const auto found = std::find_if(node_.entries.begin(), node_.entries.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  return found == node_.entries.end() ? nullptr : &*found;
}

}  // namespace cairn
