#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/recipe.h"

// What is remembered of a graph and its recipe to tell later whether another is the same, and if
// not, what is different and from which op on. docs/formats.md, "Fingerprints", defines each hash.

namespace cairn {

enum class FingerprintPart { kOps, kShapes, kTypes, kBytes, kSaved, kCosts, kRecipe };

inline constexpr std::array<std::string_view, 7> kFingerprintParts = {
    "ops", "shapes", "types", "bytes", "saved", "costs", "recipe"};

inline constexpr std::size_t kFingerprintMarks = 20;

struct Fingerprint {
  std::int64_t op_count = 0;
  std::int64_t tensor_count = 0;
  std::array<std::uint64_t, kFingerprintParts.size()> parts = {};
  // Mark k is of the first ceil((k + 1) * op_count / 20) ops alone.
  std::array<std::uint16_t, kFingerprintMarks> marks = {};

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

Fingerprint fingerprint_of(const Graph& graph, const Recipe& recipe);

// One number for all parts.
std::uint64_t combined(const Fingerprint& fingerprint);

// What differs, for messages, without what follows from it: other ops have other shapes.
std::vector<std::string> differing_parts(const Fingerprint& a, const Fingerprint& b);

// Positions of ops of `graph`, half-open, of which one is the first that differs from the graph of
// `other`; empty ([n, n)) when no op tells: what differs comes behind the last, or in the recipe.
struct OpSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
};
OpSpan first_difference(const Graph& graph, const Fingerprint& other);

}  // namespace cairn
