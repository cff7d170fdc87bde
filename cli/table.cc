#include "cli/table.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <utility>

#include "cli/text.h"
#include "graph/error.h"

namespace cairn {
namespace {

constexpr std::size_t kGap = 2;  // spaces between columns
constexpr std::size_t kNarrowestLastColumn = 12;
constexpr std::size_t kNarrowestWrappedColumn = 20;

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

// Lists of names behind commas, in lines of at most `width` columns; a longer name is elided.
std::vector<std::string> wrapped_at_commas(std::string_view text, std::size_t width) {
  constexpr std::string_view kComma = ", ";
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t comma = text.find(kComma);
    const bool is_last = comma == std::string_view::npos;
    std::string name = elide_middle(text.substr(0, comma), width - (is_last ? 0 : 1));
    if (!is_last) name += ',';
    text.remove_prefix(is_last ? text.size() : comma + kComma.size());
    const bool goes_on =
        !lines.empty() && display_width(lines.back()) + 1 + display_width(name) <= width;
    if (goes_on) {
      lines.back().append(" ").append(name);
    } else {
      lines.push_back(std::move(name));
    }
  }
  if (lines.empty()) lines.emplace_back();
  return lines;
}

std::size_t sum_of(const std::vector<std::size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), (widths.size() - 1) * kGap);
}

// Makes columns narrower until a line has at most 80 columns, or none may be narrower.
void fit_into_terminal(const std::vector<Column>& columns, std::vector<std::size_t>& widths) {
  const auto too_wide = [&] {
    const std::size_t width = sum_of(widths);
    return width - std::min(width, kTerminalWidth);
  };
  const std::size_t least =
      std::min(widths.back(),
               columns.back().wraps_at_comma ? kNarrowestWrappedColumn : kNarrowestLastColumn);
  widths.back() = std::max(least, widths.back() - std::min(widths.back(), too_wide()));
  while (too_wide() > 0) {
    std::size_t* widest = nullptr;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const bool may_shrink = columns[i].narrowest > 0 && widths[i] > columns[i].narrowest;
      if (may_shrink && (widest == nullptr || widths[i] > *widest)) widest = &widths[i];
    }
    if (widest == nullptr) return;
    --*widest;
  }
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
  fit_into_terminal(table.columns, widths);

  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) line.append(kGap, ' ');
      const bool is_left = table.columns[i].align == Align::kLeft;
      line += is_left ? left_aligned(cells[i], widths[i]) : right_aligned(cells[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text.append(line).append("\n");
  };
  for (const std::vector<std::string>& row : rows) {
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool may_be_elided = i + 1 == row.size() || table.columns[i].narrowest > 0;
      cells.push_back(may_be_elided ? elide_middle(row[i], widths[i]) : row[i]);
    }
    if (!table.columns.back().wraps_at_comma) {
      add_line(cells);
      continue;
    }
    for (std::string& last : wrapped_at_commas(row.back(), widths.back())) {
      cells.back() = std::move(last);
      add_line(cells);
      std::fill(cells.begin(), cells.end(), std::string());
    }
  }
  return text;
}

}  // namespace cairn
