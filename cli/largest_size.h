#pragma once

#include <cstdint>
#include <functional>
#include <optional>

// The largest whole size (a batch, tokens) whose peak fits, in few evaluations. It knows nothing of
// graphs: a function says the peak of a size.

namespace cairn {

struct SizePeak {
  std::int64_t size = 0;
  std::optional<std::int64_t> peak_bytes = {};  // empty: unknown, because it passes 64 bits
};

struct SizeQuestion {
  SizePeak fits = {};                      // a size that fits; {0, ...} where none is known
  std::optional<SizePeak> too_large = {};  // a size that does not fit, where one is known
  std::int64_t most_size = 0;              // nothing larger is asked
  std::int64_t capacity_bytes = 0;
};

struct LargestSize {
  std::int64_t size = 0;  // 0: none was found
  std::int64_t peak_bytes = 0;
  bool is_largest = false;  // one more does not fit; else the evaluations ended
};

using PeakOfSize = std::function<std::optional<std::int64_t>(std::int64_t size)>;

// Doubles until a size does not fit, then narrows down. A peak is the maximum of nearly straight
// lines, flat where something else holds it, so lines through known peaks make good guesses; what
// is answered was evaluated. Takes what it uses from `evaluations_left`.
LargestSize largest_size_that_fits(const SizeQuestion& question, int& evaluations_left,
                                   const PeakOfSize& peak_of);

}  // namespace cairn
