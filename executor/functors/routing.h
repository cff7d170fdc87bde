#pragma once

#include <cstdint>

#include "executor/functors/elements.h"

// Choices of experts and the rows that follow them. A row is written by one index alone, sums run
// in the order of rows.

namespace cairn {

// The largest `count` of a row and where they were; of equal ones the first.
template <class Real>
struct LargestOfRow {
  Elements values = {};
  Elements indices = {};
  Elements x = {};
  std::int64_t width = 0;
  std::int64_t count = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t row) const {
    for (std::int64_t place = 0; place < count; ++place) {
      std::int64_t best = -1;
      for (std::int64_t i = 0; i < width; ++i) {
        if (is_taken(row, place, i)) continue;
        if (best < 0 || x.get<Real>(row * width + i) > x.get<Real>(row * width + best)) best = i;
      }
      values.set<Real>(row * count + place, x.get<Real>(row * width + best));
      indices.set_integer(row * count + place, best);
    }
  }

  CAIRN_HOST_DEVICE bool is_taken(std::int64_t row, std::int64_t places, std::int64_t i) const {
    for (std::int64_t place = 0; place < places; ++place) {
      if (indices.integer(row * count + place) == i) return true;
    }
    return false;
  }
};

// out[row, indices[row, j]] = gradient[row, j], zeros elsewhere. One index a row.
template <class Real>
struct ScatterRow {
  Elements out = {};
  Elements gradient = {};
  Elements indices = {};
  std::int64_t width = 0;
  std::int64_t count = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t row) const {
    for (std::int64_t i = 0; i < width; ++i) out.set<Real>(row * width + i, Real(0));
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int64_t at = row * width + indices.integer(row * count + j);
      out.set<Real>(at, out.get<Real>(at) + gradient.get<Real>(row * count + j));
    }
  }
};

// out[row, j] = x[row, indices[row, j]]
template <class Real>
struct GatherRow {
  Elements out = {};
  Elements x = {};
  Elements indices = {};
  std::int64_t width = 0;
  std::int64_t count = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / count;
    out.set<Real>(i, x.get<Real>(row * width + indices.integer(i)));
  }
};

// Which scores of a row lie outside the groups with the largest sums of their `summed` largest
// scores. One index a row.
template <class Real>
struct OutsideGroups {
  Elements out = {};  // flags
  Elements x = {};
  std::int64_t width = 0;
  std::int64_t groups = 1;
  std::int64_t kept = 1;
  std::int64_t summed = 1;

  CAIRN_HOST_DEVICE void operator()(std::int64_t row) const {
    const std::int64_t group_width = width / groups;
    for (std::int64_t group = 0; group < groups; ++group) {
      std::int64_t better = 0;
      const Real own = group_score(row, group);
      for (std::int64_t other = 0; other < groups; ++other) {
        const Real score = group_score(row, other);
        if (score > own || (score == own && other < group)) ++better;
      }
      for (std::int64_t i = 0; i < group_width; ++i) {
        out.set<Real>(row * width + group * group_width + i, better < kept ? Real(0) : Real(1));
      }
    }
  }

  CAIRN_HOST_DEVICE Real group_score(std::int64_t row, std::int64_t group) const {
    const std::int64_t group_width = width / groups;
    const std::int64_t begin = row * width + group * group_width;
    Real sum = Real(0);
    for (std::int64_t i = 0; i < group_width; ++i) {
      std::int64_t better = 0;
      for (std::int64_t j = 0; j < group_width; ++j) {
        const Real a = x.get<Real>(begin + i);
        const Real b = x.get<Real>(begin + j);
        if (b > a || (b == a && j < i)) ++better;
      }
      if (better < summed) sum += x.get<Real>(begin + i);
    }
    return sum;
  }
};

// x where the flag is off, else `otherwise`; flags in the shape of x.
template <class Real>
struct FillWhere {
  Elements out = {};
  Elements x = {};
  Elements flags = {};
  double otherwise = 0.0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const bool is_filled = flags.get<Real>(i) != Real(0);
    out.set<Real>(i, is_filled ? static_cast<Real>(otherwise) : x.get<Real>(i));
  }
};

// How many entries of `indices` are of an earlier expert.
CAIRN_HOST_DEVICE inline std::int64_t entries_before(const Elements& indices, std::int64_t count,
                                                     std::int64_t expert) {
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (indices.integer(i) < expert) ++before;
  }
  return before;
}

// The entries of `indices` sorted by expert, those of one in their order. One index an expert.
struct SortByExpert {
  Elements order = {};    // which entry a row is
  Elements token = {};    // of a row
  Elements experts = {};  // of a row
  Elements ends = {};     // where an expert's rows end
  Elements indices = {};
  std::int64_t count = 0;
  std::int64_t experts_of_token = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t expert) const {
    std::int64_t row = entries_before(indices, count, expert);
    for (std::int64_t i = 0; i < count; ++i) {
      if (indices.integer(i) != expert) continue;
      order.set_integer(row, i);
      token.set_integer(row, i / experts_of_token);
      experts.set_integer(row, expert);
      ++row;
    }
    ends.set_integer(expert, row);
  }
};

// inverse[i]: the row of entry i when they are sorted by expert. One index an expert.
struct RowsOfEntries {
  Elements inverse = {};
  Elements indices = {};
  std::int64_t count = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t expert) const {
    std::int64_t row = entries_before(indices, count, expert);
    for (std::int64_t i = 0; i < count; ++i) {
      if (indices.integer(i) == expert) inverse.set_integer(i, row++);
    }
  }
};

// out[row] = x[order[row]], of x in one row.
template <class Real>
struct TakeElements {
  Elements out = {};
  Elements x = {};
  Elements order = {};

  CAIRN_HOST_DEVICE void operator()(std::int64_t row) const {
    out.set<Real>(row, x.get<Real>(order.integer(row)));
  }
};

// out[order[row]] = x[row]: its inverse, of an order that has every element once.
template <class Real>
struct PutElements {
  Elements out = {};
  Elements x = {};
  Elements order = {};

  CAIRN_HOST_DEVICE void operator()(std::int64_t row) const {
    out.set<Real>(order.integer(row), x.get<Real>(row));
  }
};

// The sum of the rows of a token, in the order of its experts. One index an element of out.
template <class Real>
struct CombineRows {
  Elements out = {};
  Elements rows = {};
  Elements inverse = {};
  std::int64_t width = 0;
  std::int64_t experts_of_token = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t token = i / width;
    const std::int64_t column = i - token * width;
    Real sum = Real(0);
    for (std::int64_t j = 0; j < experts_of_token; ++j) {
      const std::int64_t row = inverse.integer(token * experts_of_token + j);
      sum += rows.get<Real>(row * width + column);
    }
    out.set<Real>(i, sum);
  }
};

// Each row's gradient is its token's. One index an element of a token's every row.
template <class Real>
struct CombineRowsGradient {
  Elements out = {};
  Elements gradient = {};
  Elements inverse = {};
  std::int64_t width = 0;
  std::int64_t experts_of_token = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t entry = i / width;
    const std::int64_t column = i - entry * width;
    const Real g = gradient.get<Real>(entry / experts_of_token * width + column);
    out.set<Real>(inverse.integer(entry) * width + column, g);
  }
};

// out[row] += table[ids[row]]
template <class Real>
struct AddLookup {
  Elements out = {};
  Elements table = {};
  Elements ids = {};
  std::int64_t width = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / width;
    const Real added = table.get<Real>(ids.integer(row) * width + (i - row * width));
    out.set<Real>(i, out.get<Real>(i) + added);
  }
};

// Columns of x among others: out[row, columns[j]] = x[row, j], or its inverse. One index an element
// of x.
template <class Real>
struct CopyColumns {
  Elements to = {};
  Elements from = {};
  Elements columns = {};
  std::int64_t count = 0;  // columns of the narrow one
  std::int64_t width = 0;  // of the wide one
  bool narrows = false;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / count;
    const std::int64_t wide = row * width + columns.integer(i - row * count);
    to.set<Real>(narrows ? i : wide, from.get<Real>(narrows ? wide : i));
  }
};

// out[i] = x[i] of integers; without x their own place.
struct CopyIntegers {
  Elements out = {};
  Elements x = {};
  bool has_x = false;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    out.set_integer(i, has_x ? x.integer(i) : i);
  }
};

}  // namespace cairn
