#pragma once

#include <cstddef>
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
  std::size_t narrowest = 0;    // elided in the middle, down to this, in a table too wide; 0: never
  bool wraps_at_comma = false;  // of the last column: goes on in the next line instead
};

struct Table {
  std::vector<Column> columns = {};
  std::vector<std::vector<std::string>> rows = {};  // as many cells as there are columns
};

// One line for each row, no spaces at the ends of lines. A last column that would pass 80 columns
// is elided in the middle, or wrapped; where that is not enough, the columns that may be elided
// are, the widest first.
std::string table_text(const Table& table);

}  // namespace cairn
