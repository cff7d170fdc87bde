#include "graph/grouped_text.h"

namespace cairn {

std::string grouped_text(std::int64_t number) {
  std::string text = std::to_string(number);
  const std::size_t first_digit = number < 0 ? 1 : 0;
  for (std::size_t end = text.size(); end > first_digit + 3;) {
    end -= 3;
    text.insert(end, 1, ',');
  }
  return text;
}

}  // namespace cairn
