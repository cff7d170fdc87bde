#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "fuzz/targets.h"

namespace {

// Feeds every file of fuzz/corpus/<folder> to `target`; returns how many there were.
int replay(const std::string& folder, void (*target)(std::string_view)) {
  const std::filesystem::path corpus = std::filesystem::path(CAIRN_SOURCE_DIR) / "fuzz/corpus";
  int file_count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(corpus / folder)) {
    CAPTURE(entry.path().string());
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    target(bytes);
    ++file_count;
  }
  return file_count;
}

}  // namespace

TEST_CASE("every document of the corpus is read or refused") {
  CHECK(replay("document", cairn::fuzz::document) >= 8);
}

TEST_CASE("every expression of the corpus is evaluated or refused") {
  CHECK(replay("expression", cairn::fuzz::expression) >= 8);
}

TEST_CASE("every plain graph of the corpus is read, replayed and validated, or refused") {
  CHECK(replay("plain_graph", cairn::fuzz::plain_graph) >= 8);
}

TEST_CASE(
    "every chain of the corpus becomes a graph that is replayed and validated, or is refused") {
  CHECK(replay("chain", cairn::fuzz::chain) >= 8);
}

TEST_CASE("every plan of the corpus is read, written, replayed and validated, or refused") {
  CHECK(replay("plan", cairn::fuzz::plan) >= 8);
}

TEST_CASE("every cost file of the corpus is read, and written as the same, or refused") {
  CHECK(replay("costs", cairn::fuzz::costs) >= 8);
}

TEST_CASE("every recipe of the corpus is taken by a model or refused") {
  CHECK(replay("recipe", cairn::fuzz::recipe) >= 8);
}

TEST_CASE("every measurement file of the corpus is read or refused") {
  CHECK(replay("measured", cairn::fuzz::measured) >= 8);
}

TEST_CASE("every config of the corpus becomes a graph or is refused") {
  CHECK(replay("hf_config", cairn::fuzz::hf_config) >= 8);
}

TEST_CASE("every family of the corpus becomes a graph or is refused") {
  CHECK(replay("family", cairn::fuzz::family) >= 8);
}
