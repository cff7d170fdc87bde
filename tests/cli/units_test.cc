#include "cli/units.h"

#include <doctest/doctest.h>

#include "graph/error.h"

namespace cairn {
namespace {

std::string message_of(const std::string& text, std::int64_t kilo) {
  try {
    parse_count(text, "--tokens", kilo);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("bytes print in three significant digits of the largest unit they fill") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(1023) == "1,023 B");
  CHECK(bytes_text(1024) == "1.00 KiB");
  CHECK(bytes_text(1572864) == "1.50 MiB");
  CHECK(bytes_text(std::int64_t{10} << 20) == "10.0 MiB");
  CHECK(bytes_text(std::int64_t{1} << 30) == "1.00 GiB");
  CHECK(bytes_text(64242089984) == "59.8 GiB");  // 59.83 * 2^30
  CHECK(bytes_text(std::int64_t{3024} << 30) == "2.95 TiB");
  CHECK(bytes_text(-(std::int64_t{5} << 29)) == "-2.50 GiB");
}

TEST_CASE("a number that rounds up to the next unit prints in that unit") {
  CHECK(bytes_text((std::int64_t{1} << 30) - 1) == "1.00 GiB");
  CHECK(bytes_text(10480000) == "9.99 MiB");
  CHECK(bytes_text(10485000) == "10.0 MiB");  // 9.9993 MiB
  CHECK(duration_text(999999) == "1.00 ms");
}

TEST_CASE("shares and increases have one decimal below ten percent") {
  CHECK(share_text(41, 100) == "41 %");
  CHECK(share_text(25, 1000) == "2.5 %");
  CHECK(share_text(1, 2000) == "<0.1 %");
  CHECK(share_text(0, 100) == "0 %");
  CHECK(share_text(0, 0) == "0 %");
  CHECK(increase_text(0.24) == "+24 %");
  CHECK(increase_text(0.025) == "+2.5 %");
  CHECK(increase_text(0.0) == "+0 %");
  CHECK(increase_text(-0.3) == "-30 %");
}

TEST_CASE("times, counts and rates") {
  CHECK(duration_text(7) == "7 ns");
  CHECK(duration_text(35200) == "35.2 us");
  CHECK(duration_text(812000000) == "812 ms");
  CHECK(duration_text(1240000000) == "1.24 s");
  CHECK(grouped_text(8030261248) == "8,030,261,248");
  CHECK(grouped_text(-1234) == "-1,234");
  CHECK(grouped_text(999) == "999");
  CHECK(rounded_text(8030261248) == "8.03 billion");
  CHECK(rounded_text(124439808) == "124 million");
  CHECK(rounded_text(1500) == "1,500");
  CHECK(rate_text(794e12, "FLOP/s") == "794 TFLOP/s");
  CHECK(rate_text(2.85e12, "B/s") == "2.85 TB/s");
  CHECK(rate_text(0, "") == "0");
}

TEST_CASE("k is 1024 for tokens and 1000 elsewhere") {
  CHECK(parse_count("2048", "--tokens", 1024) == 2048);
  CHECK(parse_count("8k", "--tokens", 1024) == 8192);
  CHECK(parse_count("248k", "--vocab", 1000) == 248000);
  CHECK(parse_count("2K", "--batch", 1000) == 2000);
  CHECK(parse_count("1M", "--tokens", 1024) == 1048576);
  CHECK(parse_count("1M", "--vocab", 1000) == 1000000);
}

TEST_CASE("a count that is none says what was expected and what was found") {
  CHECK(message_of("x", 1024) ==
        "--tokens: expected a whole number of at least 1, such as 2048, 8k or 1M (k is 1024), "
        "found 'x'");
  for (const char* const text : {"", "k", "0", "-1", "1.5", "1e3", "8kk", "8 k", "+3", "0x10"}) {
    CAPTURE(text);
    CHECK(message_of(text, 1024).find("expected a whole number") != std::string::npos);
  }
  CHECK(message_of("9223372036854775808", 1024) ==
        "--tokens: '9223372036854775808' is larger than 2^63 - 1");
  CHECK(message_of("9223372036854775807k", 1024).find("63 bits") != std::string::npos);
}

}  // namespace
}  // namespace cairn
