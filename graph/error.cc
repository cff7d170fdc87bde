#include "graph/error.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace cairn {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// Edit distance with adjacent transpositions (optimal string alignment), ignoring case; some number
// above `limit` as soon as it must be larger than that.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
          lower(a[i - 2]) == lower(b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    const std::size_t least = *std::min_element(row.begin(), row.end());
    const std::size_t last_least = *std::min_element(above.begin(), above.end());
    if (std::min(least, last_least) > limit) return limit + 1;
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

// "flash" begins "flash_attention_2", at the end of a word.
bool is_beginning(std::string_view candidate, std::string_view name) {
  if (candidate.empty() || candidate.size() >= name.size()) return false;
  if (std::isalnum(static_cast<unsigned char>(name[candidate.size()])) != 0) return false;
  return std::equal(candidate.begin(), candidate.end(), name.begin(),
                    [](char a, char b) { return lower(a) == lower(b); });
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  // A graph may have 100,000 names: beyond this much work, what came so far has to do.
  constexpr std::size_t kLongestComparedName = 100;
  constexpr std::size_t kMostComparedCharacters = 20'000'000;
  std::size_t compared_characters = 0;
  if (name.size() > kLongestComparedName) return {};
  std::string nearest;
  std::string beginning;
  std::size_t nearest_distance = kLongestComparedName;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongestComparedName) continue;
    if (is_beginning(candidate, name) && candidate.size() > beginning.size()) beginning = candidate;
    const std::size_t limit = std::max<std::size_t>(1, std::max(name.size(), candidate.size()) / 3);
    const std::size_t length_difference =
        std::max(name.size(), candidate.size()) - std::min(name.size(), candidate.size());
    if (length_difference > limit) continue;
    compared_characters += name.size() * candidate.size();
    if (compared_characters > kMostComparedCharacters) break;
    const std::size_t distance = edit_distance(name, candidate, limit);
    if (distance <= limit && distance < nearest_distance) {
      nearest = candidate;
      nearest_distance = distance;
    }
  }
  return nearest.empty() ? beginning : nearest;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string nearest = nearest_name(name, candidates);
  return nearest.empty() ? std::string() : "; did you mean '" + nearest + "'?";
}

std::string join_names(const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) {
    if (!joined.empty()) joined += ", ";
    joined += name;
  }
  return joined;
}

void abort_on_broken_invariant(const char* file, int line, const char* condition,
                               const std::string& detail) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s: %s\n", file, line, condition, detail.c_str());
  std::abort();
}

}  // namespace cairn
