#include "sim/validator_groups.h"

#include <numeric>

namespace cairn {

Groups::Groups(std::size_t group_count, const std::vector<Member>& members)
    : values_(members.size()), begin_(group_count + 1, 0) {
  for (const Member& member : members) ++begin_[member.group + 1];
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  std::vector<std::size_t> next = begin_;
  for (const Member& member : members) values_[next[member.group]++] = member.value;
}

std::span<const std::size_t> Groups::operator[](std::size_t group) const {
  return std::span(values_).subspan(begin_[group], begin_[group + 1] - begin_[group]);
}

}  // namespace cairn
