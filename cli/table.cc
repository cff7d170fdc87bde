#include "cli/table.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "cli/text.h"
#include "graph/error.h"

namespace cairn {
namespace {

constexpr std::size_t kGap = 2;  // spaces between columns
constexpr std::size_t kNarrowestLastColumn = 12;

// The header as rows of its own, its last line at the bottom; none where it is empty.
std::vector<std::vector<std::string>> header_rows(const std::vector<Column>& columns) {
  std::vector<std::string> upper;
  std::vector<std::string> lower;
  for (const Column& column : columns) {
    const std::size_t line_end = column.header.find('\n');
    const bool has_two_lines = line_end != std::string::npos;
    upper.push_back(has_two_lines ? column.header.substr(0, line_end) : std::string());
    lower.push_back(has_two_lines ? column.header.substr(line_end + 1) : column.header);
  }
  std::vector<std::vector<std::string>> rows;
  for (std::vector<std::string>* row : {&upper, &lower}) {
    const bool is_empty =
        std::all_of(row->begin(), row->end(), [](const std::string& cell) { return cell.empty(); });
    if (!is_empty) rows.push_back(std::move(*row));
  }
  return rows;
}

}  // namespace

std::string table_text(const Table& table) {
  if (table.columns.empty()) return {};
  std::vector<std::vector<std::string>> rows = header_rows(table.columns);
  rows.insert(rows.end(), table.rows.begin(), table.rows.end());

  std::vector<std::size_t> widths(table.columns.size(), 0);
  for (const std::vector<std::string>& row : rows) {
    CAIRN_CHECK(row.size() == widths.size(), "a row has a cell for each column");
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  std::size_t last_begin = 0;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) last_begin += widths[i] + kGap;
  const std::size_t room = kTerminalWidth - std::min(last_begin, kTerminalWidth);
  widths.back() = std::min(widths.back(), std::max(room, kNarrowestLastColumn));

  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line.append(kGap, ' ');
      const std::string cell = i + 1 < row.size() ? row[i] : elide_middle(row[i], widths[i]);
      const bool is_left = table.columns[i].align == Align::kLeft;
      line += is_left ? left_aligned(cell, widths[i]) : right_aligned(cell, widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text.append(line).append("\n");
  }
  return text;
}

}  // namespace cairn
