#pragma once

#include <string>
#include <vector>

// A plain-text table: a header, rows, two spaces between columns. It draws no lines and knows
// nothing of what the cells mean.
//
//   strategy         peak  fits
//   none         59.8 GiB  no
//   every-layer  57.1 GiB  no

namespace cairn {

enum class Align { kLeft, kRight };

struct Column {
  std::string header = {};  // may have two lines, "extra\nFLOPs"; all empty: no header
  Align align = Align::kLeft;
};

struct Table {
  std::vector<Column> columns = {};
  std::vector<std::vector<std::string>> rows = {};  // as many cells as there are columns
};

// One line for each row, no spaces at the ends of lines. A last column that would pass 80 columns
// is elided in the middle.
std::string table_text(const Table& table);

}  // namespace cairn
