#include "tests/executor/test_device.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <vector>

#include "executor/device_list.h"
#include "executor/functors/list.h"

namespace cairn {
namespace {

// --- What a functor is, by its place
// --------------------------------------------------------------

std::string demangled(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  for (std::size_t at = result.find("cairn::"); at != std::string::npos;
       at = result.find("cairn::")) {
    result.erase(at, 7);
  }
  return result;
}

template <class... Functors>
std::vector<std::string> names_of(FunctorList<Functors...> /*all*/) {
  return {demangled(typeid(Functors).name())...};
}

// The bytes of a functor, with zeros where it has none of its own: a pointer left there by chance
// would be taken for one of the functor's.
using Copier = std::vector<char> (*)(const void* functor);

template <class Functor>
std::vector<char> bytes_of(const void* functor) {
  Functor copy = *static_cast<const Functor*>(functor);
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&copy);
#endif
#endif
  std::vector<char> bytes(sizeof(copy));
  std::memcpy(bytes.data(), &copy, sizeof(copy));
  return bytes;
}

template <class... Functors>
constexpr std::array<Copier, sizeof...(Functors)> copiers_of(FunctorList<Functors...> /*all*/) {
  return {bytes_of<Functors>...};
}

// --- What is compared
// -----------------------------------------------------------------------------

constexpr std::string_view kTwin = "twin:";  // of CAIRN_TEST_DEVICE

struct Compared {
  std::int64_t runs = 0;
  std::int64_t elements = 0;
  std::int64_t unequal = 0;       // in any bit of their value
  double largest_of_scale = 0.0;  // difference, of the largest number of the tensor
};

// In the order of AllFunctors; the last three are products.
std::array<Compared, AllFunctors::kCount + 3>& all_compared() {
  static std::array<Compared, AllFunctors::kCount + 3> all = {};
  return all;
}

std::string name_of(std::size_t place) {
  static const std::vector<std::string> kNames = names_of(AllFunctors{});
  constexpr std::array<const char*, 3> kProducts = {"product, fp32", "product, fp64",
                                                    "product, bf16"};
  return place < AllFunctors::kCount ? kNames[place] : kProducts[place - AllFunctors::kCount];
}

bool is_integer(DataType type) { return type == DataType::kInt32 || type == DataType::kInt64; }

double epsilon_of(DataType type) {
  return type == DataType::kFloat64 ? std::numeric_limits<double>::epsilon()
                                    : double{std::numeric_limits<float>::epsilon()};
}

std::int64_t count_of(const Elements& elements) {
  std::int64_t count = 1;
  for (int dim = 0; dim < elements.rank; ++dim) count *= elements.shape[dim];
  return count;
}

// Of the numbers that are finite.
double largest_of(const Elements& elements) {
  double largest = 0.0;
  for (std::int64_t i = 0; i < count_of(elements); ++i) {
    const double number = std::abs(elements.get<double>(i));
    if (std::isfinite(number)) largest = std::max(largest, number);
  }
  return largest;
}

struct Block {
  std::int64_t bytes = 0;
  void* copy = nullptr;  // on the other device
};

class TwinDevice : public Device {
 public:
  explicit TwinDevice(std::unique_ptr<Device> other) : other_(std::move(other)) {}

  std::string name() const override { return "cpu and " + other_->name(); }

  void* allocate(std::int64_t bytes) override {
    void* const data = cpu_->allocate(bytes);
    blocks_[data] = {.bytes = bytes, .copy = other_->allocate(bytes)};
    return data;
  }

  void release(void* data) noexcept override {
    other_->release(blocks_.at(data).copy);
    blocks_.erase(data);
    cpu_->release(data);
  }

  void copy_in(void* to, const void* from, std::int64_t bytes) override {
    cpu_->copy_in(to, from, bytes);
  }
  void copy_out(void* to, const void* from, std::int64_t bytes) override {
    cpu_->copy_out(to, from, bytes);
  }
  void fill(void* data, std::uint8_t byte, std::int64_t bytes) override {
    cpu_->fill(data, byte, bytes);
  }
  void synchronize() override { cpu_->synchronize(); }
  std::int64_t footprint_bytes() const override { return cpu_->footprint_bytes(); }

  void launch(int place, const void* functor, std::int64_t count) override {
    static constexpr auto kCopiers = copiers_of(AllFunctors{});
    const auto at_place = static_cast<std::size_t>(place);
    std::vector<char> translated = kCopiers[at_place](functor);
    std::vector<Elements> tensors;
    // Every pointer of a functor is the first member of an Elements.
    for (std::size_t at = 0; at + sizeof(Elements) <= translated.size(); at += alignof(Elements)) {
      void* data = nullptr;
      std::memcpy(&data, translated.data() + at, sizeof(data));
      if (block_of(data) == blocks_.end()) continue;
      Elements& tensor = tensors.emplace_back();
      std::memcpy(&tensor, translated.data() + at, sizeof(tensor));
      void* const copy = give(data);
      std::memcpy(translated.data() + at, &copy, sizeof(copy));
    }
    other_->launch(place, translated.data(), count);
    cpu_->launch(place, functor, count);
    ++all_compared()[at_place].runs;
    for (const Elements& tensor : tensors) {
      compare(at_place, tensor, 64.0 * epsilon_of(tensor.type) * largest_of(tensor));
    }
  }

  void multiply(const MatrixProduct& product) override {
    MatrixProduct translated = product;
    translated.a = give(product.a);
    translated.b = give(product.b);
    translated.c = give(product.c);
    const double scale =
        largest_of(matrices(product, product.a,
                            product.a_is_transposed ? product.inner : product.rows,
                            product.a_is_transposed ? product.rows : product.inner,
                            product.a_row_stride, product.a_batch_stride)) *
        largest_of(matrices(product, product.b,
                            product.b_is_transposed ? product.columns : product.inner,
                            product.b_is_transposed ? product.inner : product.columns,
                            product.b_row_stride, product.b_batch_stride)) *
        static_cast<double>(product.inner);
    other_->multiply(translated);
    cpu_->multiply(product);
    const std::size_t place = AllFunctors::kCount + (product.type == DataType::kFloat32   ? 0
                                                     : product.type == DataType::kFloat64 ? 1
                                                                                          : 2);
    ++all_compared()[place].runs;
    // Two orders of a sum of `inner` terms differ by less than that (Higham 2002, 3.1), times the
    // largest that a term can be.
    compare(place,
            matrices(product, product.c, product.rows, product.columns, product.c_row_stride,
                     product.c_batch_stride),
            2.0 * epsilon_of(product.type) * scale);
  }

 private:
  using Blocks = std::map<void*, Block>;

  Blocks::iterator block_of(const void* data) {
    auto found = blocks_.upper_bound(const_cast<void*>(data));
    if (found == blocks_.begin()) return blocks_.end();
    --found;
    return offset_in(*found, data) < found->second.bytes ? found : blocks_.end();
  }

  static std::int64_t offset_in(const Blocks::value_type& block, const void* data) {
    return static_cast<const char*>(data) - static_cast<const char*>(block.first);
  }

  // The same place on the other device, whose block gets the CPU's bytes.
  void* give(const void* data) {
    const auto block = block_of(data);
    if (block == blocks_.end()) throw KernelsDiffer("a kernel is given what was not allocated");
    other_->copy_in(block->second.copy, block->first, block->second.bytes);
    return static_cast<char*>(block->second.copy) + offset_in(*block, data);
  }

  static Elements matrices(const MatrixProduct& product, const void* data, std::int64_t rows,
                           std::int64_t columns, std::int64_t row_stride,
                           std::int64_t batch_stride) {
    return {.data = const_cast<void*>(data),
            .type = product.type,
            .is_dense = false,
            .rank = 3,
            .shape = {product.count, rows, columns},
            .strides = {batch_stride, row_stride, 1}};
  }

  // Each element of a tensor; the tolerance is of its fp32 or fp64 numbers, those of bf16 may be
  // rounded to the next besides.
  void compare(std::size_t place, const Elements& expected, double tolerance) {
    const auto block = block_of(expected.data);
    std::vector<char> bytes(static_cast<std::size_t>(block->second.bytes));
    other_->copy_out(bytes.data(), block->second.copy, block->second.bytes);
    Elements found = expected;
    found.data = bytes.data() + offset_in(*block, expected.data);
    const double scale = std::max(largest_of(expected), std::numeric_limits<double>::min());
    Compared& sum = all_compared()[place];
    for (std::int64_t i = 0; i < count_of(expected); ++i) {
      ++sum.elements;
      if (is_integer(expected.type)) {
        if (expected.integer(i) == found.integer(i)) continue;
        throw KernelsDiffer(fmt::format("{}: element {} is {} on {}, {} on the CPU", name_of(place),
                                        i, found.integer(i), other_->name(), expected.integer(i)));
      }
      const double a = expected.get<double>(i);
      const double b = found.get<double>(i);
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      ++sum.unequal;
      sum.largest_of_scale = std::max(sum.largest_of_scale, std::abs(a - b) / scale);
      const double rounding = expected.type == DataType::kBFloat16 ? std::abs(a) / 128.0 : 0.0;
      if (!(std::abs(a - b) <= tolerance + rounding)) {
        throw KernelsDiffer(fmt::format("{}: element {} is {} on {}, {} on the CPU", name_of(place),
                                        i, b, other_->name(), a));
      }
    }
  }

  std::unique_ptr<Device> cpu_ = make_cpu_device();
  std::unique_ptr<Device> other_;
  Blocks blocks_ = {};
};

}  // namespace

std::unique_ptr<Device> make_twin_device(std::unique_ptr<Device> other) {
  return std::make_unique<TwinDevice>(std::move(other));
}

std::unique_ptr<Device> make_test_device() {
  const char* const name = std::getenv("CAIRN_TEST_DEVICE");
  if (name == nullptr || *name == '\0') return make_cpu_device();
  const std::string_view text = name;
  if (text.substr(0, kTwin.size()) != kTwin) return make_device(text);
  return make_twin_device(make_device(text.substr(kTwin.size())));
}

std::string twin_report() {
  const char* const name = std::getenv("CAIRN_TEST_DEVICE");
  if (name == nullptr || std::string_view(name).substr(0, kTwin.size()) != kTwin) return "";
  std::string text;
  std::int64_t absent = 0;
  for (std::size_t place = 0; place < all_compared().size(); ++place) {
    const Compared& of = all_compared()[place];
    if (of.runs == 0) {
      ++absent;
      text += fmt::format("never run: {}\n", name_of(place));
    } else if (of.unequal > 0) {
      text += fmt::format("{}: {} of {} elements differ, by up to {:.1e} of the largest\n",
                          name_of(place), of.unequal, of.elements, of.largest_of_scale);
    }
  }
  return text + fmt::format("{} of {} kernels compared element by element\n",
                            static_cast<std::int64_t>(all_compared().size()) - absent,
                            all_compared().size());
}

}  // namespace cairn
