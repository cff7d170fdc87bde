#pragma once

#include <cstdint>

#include "executor/functors/elements.h"

// Rows looked up in a table, and tables that are repeated along rows.

namespace cairn {

// out[i] = table[ids[row], column]
template <class Real>
struct Lookup {
  Elements out = {};
  Elements table = {};
  Elements ids = {};
  std::int64_t width = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / width;
    out.set<Real>(i, table.get<Real>(ids.integer(row) * width + (i - row * width)));
  }
};

// Column i of the table's gradient, which is zero before: rows in order, no two indices write one
// element.
template <class Real>
struct LookupGradient {
  Elements out = {};
  Elements gradient = {};
  Elements ids = {};
  std::int64_t width = 0;
  std::int64_t row_count = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    for (std::int64_t row = 0; row < row_count; ++row) {
      const std::int64_t at = ids.integer(row) * width + i;
      out.set<Real>(at, out.get<Real>(at) + gradient.get<Real>(row * width + i));
    }
  }
};

// out = x * table, whose last dim is repeated to fill that of x; of x's other dims the table, seen
// in x's shape, has some broadcast.
template <class Real>
struct TableProduct {
  Elements out = {};
  Elements x = {};
  Elements table = {};  // in the shape of x, its last dim aside, which is table_width
  std::int64_t width = 0;
  std::int64_t table_width = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / width;
    const std::int64_t column = (i - row * width) % table_width;
    out.set<Real>(i, x.get<Real>(i) * table.get<Real>(row * table_width + column));
  }
};

// out = x where column <= row in the last two dims, else `otherwise`. The flags are those of one
// matrix.
template <class Real>
struct MaskCausal {
  Elements out = {};
  Elements x = {};
  Elements flags = {};
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  double otherwise = 0.0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t within = i % (rows * columns);
    const std::int64_t row = within / columns;
    const bool is_seen = within - row * columns <= row;
    if (i < rows * columns) flags.set<Real>(i, is_seen ? Real(1) : Real(0));
    out.set<Real>(i, is_seen ? x.get<Real>(i) : static_cast<Real>(otherwise));
  }
};

template <class Real>
struct MaskCausalGradient {
  Elements out = {};
  Elements gradient = {};
  Elements flags = {};
  std::int64_t matrix = 0;  // elements of one

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const bool is_seen = flags.get<Real>(i % matrix) != Real(0);
    out.set<Real>(i, is_seen ? gradient.get<Real>(i) : Real(0));
  }
};

// out = x where row i of the last two dims sees column j: up to i, and of those the last `window`
// where that is not 0; else x + otherwise.
template <class Real>
struct AddMask {
  Elements out = {};
  Elements x = {};
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t window = 0;
  bool is_causal = true;
  double otherwise = 0.0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t column = i % columns;
    const std::int64_t row = i / columns % rows;
    const bool is_late = is_causal && column > row;
    const bool is_early = is_causal && window > 0 && column + window <= row;
    const Real added = is_late || is_early ? static_cast<Real>(otherwise) : Real(0);
    out.set<Real>(i, x.get<Real>(i) + added);
  }
};

}  // namespace cairn
