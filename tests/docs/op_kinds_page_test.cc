// The tables of op kinds and attributes in docs/formats.md, compared with the kinds that there are.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "executor/kernel.h"
#include "graph/ops/op_kind.h"

namespace cairn {
namespace {

using TableRow = std::vector<std::string>;  // cells, trimmed

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

// The table rows from a heading of the page to the next heading, without those above "|---".
std::vector<TableRow> table_rows(const std::string& page, const std::string& heading) {
  std::ifstream input(std::filesystem::path(CAIRN_SOURCE_DIR) / page);
  REQUIRE_MESSAGE(input, page);
  std::vector<TableRow> rows;
  bool is_inside = false;
  for (std::string line; std::getline(input, line);) {
    if (line.starts_with('#')) is_inside = line == heading;
    if (!is_inside || !line.starts_with("| ") || !line.ends_with('|')) {
      if (is_inside && line.starts_with("|---") && !rows.empty()) rows.pop_back();
      continue;
    }
    std::istringstream cells(line.substr(1));
    TableRow row;
    for (std::string cell; std::getline(cells, cell, '|');) row.push_back(trimmed(cell));
    rows.push_back(std::move(row));
  }
  REQUIRE_MESSAGE(!rows.empty(), heading);
  return rows;
}

// What stands in backquotes: "**`width`**, `bias`" is {width, bias}; `mark` may be asked before it.
std::set<std::string> quoted_names(const std::string& cell, const std::string& mark = "") {
  const std::string opening = mark + "`";
  std::set<std::string> names;
  for (std::size_t begin = 0; (begin = cell.find(opening, begin)) != std::string::npos;) {
    begin += opening.size();
    const std::size_t end = cell.find('`', begin);
    names.insert(cell.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

struct InputRange {
  std::size_t least = 0;
  std::size_t most = 0;
};

// "q, k, v, [bias]" is 3 to 4; "1 to 64" is written so.
InputRange input_range(const std::string& cell) {
  InputRange range;
  std::string to;
  if (std::istringstream(cell) >> range.least >> to >> range.most && to == "to") return range;
  const auto commas = static_cast<std::size_t>(std::count(cell.begin(), cell.end(), ','));
  const auto brackets = static_cast<std::size_t>(std::count(cell.begin(), cell.end(), '['));
  return {commas + 1 - brackets, commas + 1};
}

std::set<std::string> names_of(const std::vector<AttributeKey>& keys) {
  std::set<std::string> names;
  for (const AttributeKey key : keys) names.emplace(attribute_name(key));
  return names;
}

TEST_CASE("docs/formats.md has every op kind, with its inputs and attributes, and no other") {
  std::map<std::string, TableRow> row_of_kind;
  for (const TableRow& row : table_rows("docs/formats.md", "### Op kinds")) {
    REQUIRE_MESSAGE(row.size() == 4, row[0]);
    for (const std::string& name : quoted_names(row[0])) {
      CHECK_MESSAGE(row_of_kind.emplace(name, row).second, name << " has two rows");
      CHECK_MESSAGE(find_op_kind(name) != nullptr, name << " is no op kind");
    }
  }
  for (const std::string& name : op_kind_names()) {
    if (name == "custom") continue;  // of plain graphs only
    CAPTURE(name);
    REQUIRE(row_of_kind.contains(name));
    const TableRow& row = row_of_kind[name];
    const OpKindInfo& kind = *find_op_kind(name);
    const InputRange range = input_range(row[1]);
    CHECK(range.least == kind.min_inputs);
    CHECK(range.most == kind.max_inputs);
    CHECK(quoted_names(row[2]) == names_of(kind.attributes));
    CHECK(quoted_names(row[2], "**") == names_of(kind.required));
    CHECK_FALSE(row[3].empty());
  }
}

TEST_CASE("docs/formats.md says of every attribute what it means, and of no other") {
  std::set<std::string> written;
  for (const TableRow& row : table_rows("docs/formats.md", "### Attributes")) {
    REQUIRE(row.size() == 3);
    for (const std::string& name : quoted_names(row[0])) {
      CHECK_MESSAGE(written.insert(name).second, name << " has two rows");
      CHECK_MESSAGE(find_attribute(name).has_value(), name << " is no attribute");
    }
  }
  for (const std::string& kind : op_kind_names()) {
    for (const std::string& name : names_of(find_op_kind(kind)->attributes)) {
      CHECK_MESSAGE(written.contains(name), name);
    }
  }
}

TEST_CASE("docs/formats.md says of every kind with a constant what that is") {
  std::set<std::string> written;
  for (const TableRow& row : table_rows("docs/formats.md", "### Constants")) {
    REQUIRE(row.size() == 3);
    for (const std::string& name : quoted_names(row[0])) written.insert(name);
  }
  for (const std::string& kind : op_kind_names()) {
    const bool has_one = names_of(find_op_kind(kind)->attributes).contains("constant");
    CHECK_MESSAGE(written.contains(kind) == has_one, kind);
  }
}

TEST_CASE("docs/formats.md names the kinds that have no kernel, and no other") {
  std::set<std::string> written;
  for (const TableRow& row : table_rows("docs/formats.md", "### What `cairn run` does not run")) {
    for (const std::string& name : quoted_names(row[0])) written.insert(name);
  }
  for (const std::string& kind : op_kind_names()) {
    CHECK_MESSAGE(written.contains(kind) == (find_kernel(kind) == nullptr), kind);
  }
}

}  // namespace
}  // namespace cairn
