#pragma once

#include <cstdint>
#include <string>

#include "graph/grouped_text.h"  // "8,030,261,248"

// Numbers as reports print them. JSON never goes through here: it has the exact values.

namespace cairn {

// Three significant digits: "59.8 GiB", "512 MiB", "1.50 KiB", "12 B"; negative: "-3.20 GiB".
std::string bytes_text(std::int64_t bytes);

// A share: "41 %", "2.5 %", "<0.1 %".
std::string share_text(std::int64_t part, std::int64_t whole);

// What it costs more: "+24 %", "+2.5 %", "+0 %".
std::string increase_text(double fraction);

// "1.24 s", "812 ms", "35.2 us", "7 ns".
std::string duration_text(std::int64_t ns);

// "8.03 billion", "124 million", "1,500".
std::string rounded_text(std::int64_t number);

// "989 TFLOP/s", "3.35 TB/s": three digits and a decimal prefix before `unit`.
std::string rate_text(double per_second, const std::string& unit);

// A whole number of at least 1, as typed for `what`: "2048", or "8k" with k = `kilo` and
// M its square.
// Throws InputError.
std::int64_t parse_count(const std::string& text, const std::string& what, std::int64_t kilo);

// A number above 0, as typed for `what`: "1.25". Throws InputError.
double parse_factor(const std::string& text, const std::string& what);

}  // namespace cairn
