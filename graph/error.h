#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// How Cairn reports what went wrong. Two kinds only:
//   * InputError: the user's file, option or value is at fault; the message is complete and is
//     printed as it stands (exit code 2).
//   * CAIRN_CHECK: an invariant of ours is broken; the process aborts, in every build type.
// "No plan fits" is neither: it is an answer.

namespace cairn {

class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The candidate closest to `name` by edit distance, or "" when none is close enough to be a
// likely slip (distance at most a third of the longer name, at least 1; case is ignored): then the
// longest that `name` begins with, up to the end of a word, or "".
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

// "; did you mean 'x'?" for the nearest candidate, or "" when there is none.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

// Names joined by ", ".
std::string join_names(const std::vector<std::string>& names);

[[noreturn]] void abort_on_broken_invariant(const char* file, int line, const char* condition,
                                            const std::string& detail);

}  // namespace cairn

#define CAIRN_CHECK(condition, detail)                                              \
  do {                                                                              \
    if (!(condition)) {                                                             \
      ::cairn::abort_on_broken_invariant(__FILE__, __LINE__, #condition, (detail)); \
    }                                                                               \
  } while (false)
