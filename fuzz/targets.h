#pragma once

#include <string_view>

// What the fuzzers feed with arbitrary bytes, and what tests/fuzz/replay_test.cc feeds with every
// file of fuzz/corpus. Each returns for any input, refused or not; anything else is a find.

namespace cairn::fuzz {

void document(std::string_view bytes);
void expression(std::string_view bytes);

}  // namespace cairn::fuzz
