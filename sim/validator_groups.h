#pragma once

#include <cstddef>
#include <span>
#include <vector>

// The validator's one kind of index: which runs read this tensor, which rules have this trigger.
// Built once, then only read. Not for other callers.
//
//   members {2, 7} {0, 5} {2, 4}  ──►  group 0: 5   group 1: none   group 2: 7 4

namespace cairn {

struct Member {
  std::size_t group = 0;
  std::size_t value = 0;
};

class Groups {
 public:
  // Groups are numbered [0, group_count).
  Groups(std::size_t group_count, const std::vector<Member>& members);

  // The values of one group, in the order of the members.
  std::span<const std::size_t> operator[](std::size_t group) const;

 private:
  std::vector<std::size_t> values_;  // of group 0, then of group 1, ...
  std::vector<std::size_t> begin_;   // by group, in values_; one more at the end
};

}  // namespace cairn
