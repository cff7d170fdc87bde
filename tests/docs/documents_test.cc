// What the documents list is all there is, and their lines fit.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "graph/error.h"
#include "models/family.h"
#include "models/family_ops.h"
#include "models/load_model.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = CAIRN_SOURCE_DIR;

std::string text_of(const fs::path& path) {
  std::ifstream input(path);
  REQUIRE_MESSAGE(input, path.string());
  std::ostringstream text;
  text << input.rdbuf();
  return text.str();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("README.md names every family, and counts families and models") {
  const std::string readme = text_of(kRoot / "README.md");
  std::size_t family_count = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kRoot / "models/families")) {
    CHECK_MESSAGE(contains(readme, "`" + entry.path().stem().string() + "`"), entry.path());
    ++family_count;
  }
  CHECK(contains(readme, std::to_string(family_count) + " families"));
  CHECK(contains(readme, std::to_string(list_catalogue("", {}).size()) + " names"));
}

// The keys that a reader offers where it finds one that it does not know.
std::vector<std::string> offered_keys(const std::string& message) {
  const std::string marker = "expected one of: ";
  const std::size_t begin = message.find(marker);
  REQUIRE_MESSAGE(begin != std::string::npos, message);
  std::istringstream list(message.substr(begin + marker.size()));
  std::string line;
  std::getline(list, line);
  std::vector<std::string> keys;
  std::istringstream items(line);
  for (std::string key; std::getline(items >> std::ws, key, ',');) keys.push_back(key);
  return keys;
}

template <typename Read>
void check_keys(const std::string& page, Read read) {
  try {
    read();
    FAIL("an unknown key was accepted");
  } catch (const InputError& error) {
    const std::vector<std::string> keys = offered_keys(error.what());
    CHECK(keys.size() > 2);
    for (const std::string& key : keys) CHECK_MESSAGE(contains(page, "`" + key + "`"), key);
  }
}

TEST_CASE("docs/formats.md has every key of families, sections, ops, layers and dims") {
  const std::string page = text_of(kRoot / "docs/formats.md");
  const std::string family = "family: f\ninputs: {i: {dtype: int64, shape: [1]}}\n";
  const std::string unknown = "zzzzzzzzzzzzzzzzzzzz: 1";
  check_keys(page, [&] {
    parse_family(parse_document(
        "f.yaml", family + "ops: [{e: {op: embedding, in: i, rows: 1, width: 1}}]\n" + unknown));
  });
  check_keys(page, [&] {
    parse_family(
        parse_document("f.yaml", family + "ops: [{e: {op: relu, in: i, " + unknown + "}}]\n"));
  });
  check_keys(page, [&] {
    parse_family(parse_document("f.yaml", "family: f\ndims: {d: {key: k, " + unknown + "}}"));
  });
  check_keys(page, [&] {
    parse_family(parse_document("f.yaml", "family: f\nper_layer: {d: {key: k, " + unknown + "}}"));
  });
  check_keys(page, [&] {
    parse_layer(parse_document("l.yaml",
                               "layer: l\ninputs: [x]\nops: [{r: {op: relu, in: x}}]\n" + unknown));
  });
}

// Characters, not bytes.
std::size_t column_count(const std::string& line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

TEST_CASE("lines of documents have at most 100 columns, but for tables and blocks") {
  std::vector<fs::path> pages;
  for (const fs::path& folder : {kRoot, kRoot / "docs"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".md") pages.push_back(entry.path());
    }
  }
  CHECK(pages.size() >= 9);
  for (const fs::path& page : pages) {
    std::istringstream lines(text_of(page));
    bool in_block = false;
    for (std::string line; std::getline(lines, line);) {
      const std::size_t indent = line.find_first_not_of(' ');
      if (line.find("```") == indent && indent != std::string::npos) in_block = !in_block;
      if (in_block || line.starts_with('|')) continue;
      CHECK_MESSAGE(column_count(line) <= 100, page.filename().string() << ": " << line);
    }
  }
}

}  // namespace
}  // namespace cairn
