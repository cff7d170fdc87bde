#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "executor/device.h"
#include "executor/functors/elements.h"
#include "tests/seed.h"

namespace cairn {
namespace {

// A matrix with some elements between its rows.
struct HostMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;
  std::vector<double> numbers = {};

  double& at(std::int64_t row, std::int64_t column) {
    return numbers[static_cast<std::size_t>(row * row_stride + column)];
  }
};

using Random = std::mt19937_64;

std::int64_t upto(Random& random, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(1, most)(random);
}

HostMatrix random_matrix(Random& random, std::int64_t rows, std::int64_t columns) {
  HostMatrix matrix{.rows = rows, .columns = columns, .row_stride = columns + upto(random, 4) - 1};
  matrix.numbers.resize(static_cast<std::size_t>(rows * matrix.row_stride));
  for (double& number : matrix.numbers) {  // numbers that bf16 holds exactly
    number = std::uniform_int_distribution<int>(-64, 64)(random) / 64.0;
  }
  return matrix;
}

template <class Number, class Convert>
std::vector<Number> typed(const HostMatrix& matrix, const Convert& convert) {
  std::vector<Number> numbers;
  for (const double number : matrix.numbers) numbers.push_back(convert(number));
  return numbers;
}

// Each element against a sum in double; the tolerance is of the sum of the terms' sizes.
template <class Number, class Convert, class Back>
void check_products(DataType type, double tolerance, std::int64_t most, const Convert& convert,
                    const Back& back) {
  const std::unique_ptr<Device> device = make_cpu_device();
  Random random(test_seed());
  INFO("--seed=", test_seed());
  for (int i = 0; i < 60; ++i) {
    const std::int64_t rows = i == 0 ? most : upto(random, most);
    const std::int64_t columns = i == 0 ? most : upto(random, most);
    // The first is more than one block of the bf16 product.
    const std::int64_t inner = i == 0 ? 40000 : upto(random, most);
    const bool a_is_transposed = random() % 2 == 0;
    const bool b_is_transposed = random() % 2 == 0;
    const bool adds = random() % 2 == 0;
    HostMatrix a =
        a_is_transposed ? random_matrix(random, inner, rows) : random_matrix(random, rows, inner);
    HostMatrix b = b_is_transposed ? random_matrix(random, columns, inner)
                                   : random_matrix(random, inner, columns);
    HostMatrix c = random_matrix(random, rows, columns);
    const std::vector<Number> typed_a = typed<Number>(a, convert);
    const std::vector<Number> typed_b = typed<Number>(b, convert);
    std::vector<Number> typed_c = typed<Number>(c, convert);
    device->multiply({.type = type,
                      .a = typed_a.data(),
                      .b = typed_b.data(),
                      .c = typed_c.data(),
                      .rows = rows,
                      .columns = columns,
                      .inner = inner,
                      .a_is_transposed = a_is_transposed,
                      .b_is_transposed = b_is_transposed,
                      .a_row_stride = a.row_stride,
                      .b_row_stride = b.row_stride,
                      .c_row_stride = c.row_stride,
                      .adds = adds});
    double worst = 0.0;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        double sum = adds ? c.at(row, column) : 0.0;
        double size = std::abs(sum);
        for (std::int64_t k = 0; k < inner; ++k) {
          const double term = (a_is_transposed ? a.at(k, row) : a.at(row, k)) *
                              (b_is_transposed ? b.at(column, k) : b.at(k, column));
          sum += term;
          size += std::abs(term);
        }
        const double found = back(typed_c[static_cast<std::size_t>(row * c.row_stride + column)]);
        worst = std::max(worst, std::abs(found - sum) / std::max(size, 1e-30));
      }
    }
    CHECK(worst <= tolerance);
    // What lies between the rows is not touched.
    for (std::int64_t row = 0; row + 1 < rows; ++row) {
      for (std::int64_t at = columns; at < c.row_stride; ++at) {
        CHECK(back(typed_c[static_cast<std::size_t>(row * c.row_stride + at)]) == c.at(row, at));
      }
    }
  }
}

TEST_CASE("products of matrices, transposed or not, added or not, against sums in double") {
  check_products<float>(
      DataType::kFloat32, 1e-6, 40, [](double x) { return static_cast<float>(x); },
      [](float x) { return static_cast<double>(x); });
  check_products<double>(
      DataType::kFloat64, 1e-14, 40, [](double x) { return x; }, [](double x) { return x; });
}

TEST_CASE("products in bf16 are summed in fp32 and rounded once") {
  check_products<std::uint16_t>(
      DataType::kBFloat16, 1.0 / 256, 60,
      [](double x) { return bf16_of_float(static_cast<float>(x)); },
      [](std::uint16_t x) { return static_cast<double>(float_of_bf16(x)); });
}

}  // namespace
}  // namespace cairn
