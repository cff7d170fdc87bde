#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/document.h"

// Types for the untyped tree of models/document.h. All errors are InputErrors at the value's place;
// `what` begins the message and says whose value it is: "op 'attn': key 'out'".

namespace cairn {

// A whole number within 64 bits: 4096, -1, or 4096.0 as some JSON writers have it. Neither quoted,
// nor with leading zeros, underscores or an exponent.
std::int64_t to_integer(const Document& document, const Node& node, const std::string& what);

// A finite decimal number: 0.1, 1e-5, 3.
double to_number(const Document& document, const Node& node, const std::string& what);

// true or false (or True, TRUE, ...), unquoted; not yes or on.
bool to_boolean(const Document& document, const Node& node, const std::string& what);

// Any scalar, as it is written.
std::string to_text(const Document& document, const Node& node, const std::string& what);

// A scalar, or a list of scalars.
std::vector<std::string> to_names(const Document& document, const Node& node,
                                  const std::string& what);

// The items of a list.
const std::vector<Node>& to_list(const Document& document, const Node& node,
                                 const std::string& what);

// A reader over one mapping that remembers which keys it was asked for, so that the others can be
// refused. A key whose value is null counts as absent. It keeps references: the document must
// outlive it.
class Fields {
 public:
  // Throws when `node` is not a mapping. `what` names it in messages: "op 'attn'".
  Fields(const Document& document, const Node& node, std::string what);

  const Node* find(std::string_view key);  // null when absent
  const Node& require(std::string_view key);

  std::int64_t integer(std::string_view key);
  double number(std::string_view key);
  bool boolean(std::string_view key);
  std::string text(std::string_view key);
  std::vector<std::string> names(std::string_view key);
  const std::vector<Node>& list(std::string_view key);

  std::optional<std::int64_t> optional_integer(std::string_view key);
  std::optional<double> optional_number(std::string_view key);
  std::optional<bool> optional_boolean(std::string_view key);
  std::optional<std::string> optional_text(std::string_view key);
  std::vector<std::string> optional_names(std::string_view key);     // empty when absent
  std::optional<std::int64_t> optional_count(std::string_view key);  // at least 1
  std::optional<std::string> optional_one_of(std::string_view key,
                                             const std::vector<std::string>& known);

  // Throws at the first key that was never asked for, and offers the nearest that was.
  void refuse_unknown() const;

  // The `what` of one key: "op 'attn': key 'out'".
  std::string what_of(std::string_view key) const;

  // Throws at the mapping, or at the key where it is present; `what` begins the message.
  [[noreturn]] void fail(const std::string& message) const;
  [[noreturn]] void fail_at_key(std::string_view key, const std::string& message) const;

 private:
  const Entry* find_entry(std::string_view key) const;

  const Document& document_;
  const Node& node_;
  std::string what_ = {};
  std::vector<std::string> asked_ = {};
};

}  // namespace cairn
