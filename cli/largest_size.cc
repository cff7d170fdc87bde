#include "cli/largest_size.h"

#include <algorithm>
#include <utility>

namespace cairn {
namespace {

// Every third guess halves what is left, whatever the lines say.
constexpr int kHalvingPeriod = 3;
constexpr std::int64_t kFlatFactor = 16;

// Where the line through two peaks reaches the capacity; empty for flat or unknown ones.
std::optional<double> size_at_capacity(const SizePeak& a, const SizePeak& b,
                                       std::int64_t capacity_bytes) {
  if (!a.peak_bytes || !b.peak_bytes || *b.peak_bytes <= *a.peak_bytes) return std::nullopt;
  const double slope =
      static_cast<double>(*b.peak_bytes - *a.peak_bytes) / static_cast<double>(b.size - a.size);
  return static_cast<double>(a.size) + static_cast<double>(capacity_bytes - *a.peak_bytes) / slope;
}

class SizeSearch {
 public:
  explicit SizeSearch(const SizeQuestion& question)
      : question_(question), low_(question.fits), high_(question.too_large) {}

  bool is_done() const {
    return high_ ? high_->size - low_.size <= 1 : low_.size >= question_.most_size;
  }

  std::int64_t next_size() {
    ++guess_count_;
    return high_ ? size_between() : size_above();
  }

  void add(const SizePeak& peak) {
    if (peak.peak_bytes && *peak.peak_bytes <= question_.capacity_bytes) {
      before_low_ = std::exchange(low_, peak);
    } else {
      above_high_ = std::exchange(high_, peak);
    }
  }

  LargestSize result() const {
    return {.size = low_.size,
            .peak_bytes = low_.size == 0 ? 0 : low_.peak_bytes.value_or(0),
            .is_largest = high_ && high_->size - low_.size == 1};
  }

 private:
  // At least a doubling; more where the last two peaks hardly differ.
  std::int64_t size_above() const {
    std::int64_t factor = 2;
    if (before_low_) {
      const auto guess = size_at_capacity(*before_low_, low_, question_.capacity_bytes);
      const double ratio =
          guess ? *guess / static_cast<double>(low_.size) : static_cast<double>(kFlatFactor);
      factor = std::clamp<std::int64_t>(
          static_cast<std::int64_t>(std::min(ratio, static_cast<double>(kFlatFactor))) + 1, 2,
          kFlatFactor);
    }
    return std::min(question_.most_size, std::max<std::int64_t>(low_.size, 1) * factor);
  }

  std::int64_t size_between() const {
    std::optional<double> guess;
    if (guess_count_ % kHalvingPeriod != 0) {
      if (above_high_) guess = size_at_capacity(*high_, *above_high_, question_.capacity_bytes);
      if (!guess || *guess < static_cast<double>(low_.size)) {
        guess = size_at_capacity(low_, *high_, question_.capacity_bytes);
      }
    }
    const std::int64_t size =
        guess ? static_cast<std::int64_t>(std::clamp(*guess, static_cast<double>(low_.size),
                                                     static_cast<double>(high_->size)))
              : low_.size + (high_->size - low_.size) / 2;
    return std::clamp(size, low_.size + 1, high_->size - 1);
  }

  const SizeQuestion& question_;
  SizePeak low_ = {};                        // fits
  std::optional<SizePeak> before_low_ = {};  // the one that fitted before it
  std::optional<SizePeak> high_ = {};        // does not fit
  std::optional<SizePeak> above_high_ = {};  // the one that did not fit before it
  int guess_count_ = 0;
};

}  // namespace

LargestSize largest_size_that_fits(const SizeQuestion& question, int& evaluations_left,
                                   const PeakOfSize& peak_of) {
  SizeSearch search(question);
  while (!search.is_done() && evaluations_left > 0) {
    --evaluations_left;
    const std::int64_t size = search.next_size();
    search.add({.size = size, .peak_bytes = peak_of(size)});
  }
  return search.result();
}

}  // namespace cairn
