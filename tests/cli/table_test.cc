#include "cli/table.h"

#include <doctest/doctest.h>

#include "cli/text.h"

namespace cairn {
namespace {

TEST_CASE("columns are as wide as their widest cell, and lines have no spaces at the end") {
  const Table table{.columns = {{"strategy"}, {"peak", Align::kRight}, {"fits"}},
                    .rows = {{"none", "59.8 GiB", "no"}, {"every-layer", "9 GiB", ""}}};
  CHECK(table_text(table) ==
        "strategy         peak  fits\n"
        "none         59.8 GiB  no\n"
        "every-layer     9 GiB\n");
}

TEST_CASE("a header of two lines stands on the bottom line") {
  const Table table{.columns = {{"a"}, {"extra\nFLOPs", Align::kRight}}, .rows = {{"x", "+2 %"}}};
  CHECK(table_text(table) ==
        "   extra\n"
        "a  FLOPs\n"
        "x   +2 %\n");
}

TEST_CASE("a table whose headers are empty has none") {
  const Table table{.columns = {{""}, {"", Align::kRight}}, .rows = {{"a", "1"}, {"bb", "22"}}};
  CHECK(table_text(table) == "a    1\nbb  22\n");
}

TEST_CASE("the last column is elided in the middle where it would pass 80 columns") {
  const std::string name(60, 'n');
  const Table table{.columns = {{"name"}, {"peak at"}},
                    .rows = {{name, "backward of layers.31.down"}}};
  // 80 - 60 - 2 leaves 18 columns.
  CHECK(table_text(table).ends_with("\n" + name + "  backwar...31.down\n"));
}

TEST_CASE("three dots stand for what is left out, without dots and spaces beside them") {
  CHECK(elide_middle("encoder.attn..values", 19) == "encoder...values");
  CHECK(elide_middle("in encoder of .values", 15) == "in enc...values");
  CHECK(elide_middle("....................", 10) == "...");
}

TEST_CASE("a table too wide elides the columns that may be, the widest first") {
  const std::string name(50, 'n');
  const std::string kind(30, 'k');
  const Table table{
      .columns = {{.header = "op", .narrowest = 12}, {.header = "kind", .narrowest = 12}, {"c"}},
      .rows = {{name, kind, std::string(20, 'c')}, {"short", "k", ""}}};
  const std::string text = table_text(table);
  // The last column gives way first, down to 12: 80 - 2 * 2 - 12 = 64 = 34 + 30.
  CHECK(text == "op" + std::string(34, ' ') + "kind" + std::string(28, ' ') + "c\n" +
                    std::string(15, 'n') + "..." + std::string(16, 'n') + "  " + kind +
                    "  cccc...ccccc\n" + "short" + std::string(31, ' ') + "k\n");
}

TEST_CASE("a last column of names goes on in the next line") {
  const std::string name(54, 'n');
  const Table table{.columns = {{"saved"}, {.header = "by", .wraps_at_comma = true}},
                    .rows = {{name, "norm1.square, norm1.scaled"},
                             {"x", "q, k, v"},
                             {"y", "a.name.of.more.than.24.columns, b"},
                             {"z", ""}}};
  // 80 - 54 - 2 leaves 24 columns.
  const std::string indent(56, ' ');
  const std::string rest(55, ' ');
  CHECK(table_text(table) == "saved" + std::string(51, ' ') + "by\n" + name + "  norm1.square,\n" +
                                 indent + "norm1.scaled\n" + "x" + rest + "q, k, v\n" + "y" + rest +
                                 "a.name.of...24.columns,\n" + indent + "b\n" + "z\n");
}

TEST_CASE("a name is as wide as its code points") {
  CHECK(display_width("größe") == 5);
  CHECK(elide_middle("größe-größe-größe", 9) == "grö...öße");
  CHECK(left_aligned("ö", 3) == "ö  ");
}

TEST_CASE("text longer than a line is broken at spaces behind its label") {
  const std::string words(39, 'a');
  CHECK(labelled_text("- ", words + " " + words) == "- " + words + "\n  " + words + "\n");
  CHECK(labelled_text("- ", std::string(38, 'a') + " " + words) ==
        "- " + std::string(38, 'a') + " " + words + "\n");
  CHECK(labelled_text("Note: ", "") == "Note: \n");
}

}  // namespace
}  // namespace cairn
