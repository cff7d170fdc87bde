#include "cli/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <system_error>

#include "graph/checked.h"
#include "graph/error.h"

namespace cairn {
namespace {

// "9.98", "61.2", "612", "3,024": three significant digits, all digits of a larger number.
std::string three_digits(double number) {
  const double size = std::abs(number);
  if (size < 9.995) return fmt::format("{:.2f}", number);
  if (size < 99.95) return fmt::format("{:.1f}", number);
  return grouped_text(std::llround(number));
}

// A number in the largest unit that leaves at least 1, each `step` times the one before.
template <std::size_t Count>
std::string in_units(double number, double step, const std::array<const char*, Count>& units) {
  std::size_t unit = 0;
  // 999.5 would print as 1000: the next unit reads better, and 1 has no smaller one.
  while (unit + 1 < Count && std::abs(number) >= step - 0.5) {
    number /= step;
    ++unit;
  }
  const bool is_whole = unit == 0 && number == std::floor(number);
  return fmt::format("{} {}", is_whole ? grouped_text(std::llround(number)) : three_digits(number),
                     units[unit]);
}

}  // namespace

std::string bytes_text(std::int64_t bytes) {
  return in_units(static_cast<double>(bytes), 1024, std::array{"B", "KiB", "MiB", "GiB", "TiB"});
}

std::string share_text(std::int64_t part, std::int64_t whole) {
  if (part == 0 || whole == 0) return "0 %";
  const double percent = 100 * static_cast<double>(part) / static_cast<double>(whole);
  if (percent < 0.1) return "<0.1 %";
  return percent < 9.95 ? fmt::format("{:.1f} %", percent) : fmt::format("{:.0f} %", percent);
}

std::string increase_text(double fraction) {
  const double percent = 100 * fraction;
  if (std::abs(percent) < 0.05) return "+0 %";
  return std::abs(percent) < 9.95 ? fmt::format("{:+.1f} %", percent)
                                  : fmt::format("{:+.0f} %", percent);
}

std::string duration_text(std::int64_t ns) {
  return in_units(static_cast<double>(ns), 1000, std::array{"ns", "us", "ms", "s"});
}

std::string rounded_text(std::int64_t number) {
  const auto value = static_cast<double>(number);
  if (value >= 999.5e9) return three_digits(value / 1e12) + " trillion";
  if (value >= 999.5e6) return three_digits(value / 1e9) + " billion";
  if (value >= 999.5e3) return three_digits(value / 1e6) + " million";
  return grouped_text(number);
}

std::string rate_text(double per_second, const std::string& unit) {
  std::string text = in_units(per_second, 1000, std::array{"", "k", "M", "G", "T", "P"}) + unit;
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

std::int64_t parse_count(const std::string& text, const std::string& what, std::int64_t kilo) {
  const auto fail = [&] {
    throw InputError(fmt::format(
        "{}: expected a whole number of at least 1, such as 2048, 8k or 1M (k is {}), found '{}'",
        what, kilo, text));
  };
  std::string_view digits = text;
  const bool has_kilo = digits.ends_with('k') || digits.ends_with('K');
  const bool has_mega = digits.ends_with('M');
  if (has_kilo || has_mega) digits.remove_suffix(1);
  std::int64_t number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (error == std::errc::result_out_of_range && stop == end) {
    throw InputError(fmt::format("{}: '{}' is larger than 2^63 - 1", what, text));
  }
  if (error != std::errc() || stop != end || number < 1) fail();
  const std::int64_t unit = has_mega ? kilo * kilo : has_kilo ? kilo : 1;
  return checked_multiply(number, unit, "{}", fmt::format("{} '{}'", what, text));
}

double parse_factor(const std::string& text, const std::string& what) {
  double number = 0.0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stop == end && number > 0.0 && std::isfinite(number)) return number;
  throw InputError(
      fmt::format("{}: expected a number above 0, such as 1.25, found '{}'", what, text));
}

}  // namespace cairn
