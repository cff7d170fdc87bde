#include "graph/graph_difference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "graph/grouped_text.h"
#include "graph/ops/op_kind.h"

namespace cairn {
namespace {

std::string op_text(const Op& op) {
  const bool says_kind = op.kind != nullptr && op.kind->name != "custom";
  return says_kind ? fmt::format("'{}' ({})", op.name, op.kind->name)
                   : fmt::format("'{}'", op.name);
}

// "[1, 8] bf16"; of a plain graph, bytes are all that is known.
std::string tensor_text(const Tensor& tensor) {
  if (tensor.shape.empty()) return grouped_text(tensor.bytes) + " bytes";
  return fmt::format("[{}] {}", fmt::join(tensor.shape, ", "), data_type_name(tensor.data_type));
}

std::vector<std::string> names_of(const Graph& graph, const std::vector<TensorId>& tensors) {
  std::vector<std::string> names;
  for (const TensorId tensor : tensors) names.push_back(graph.tensor(tensor).name);
  return names;
}

std::string list_text(const std::vector<std::string>& names) {
  constexpr std::size_t kMostNames = 4;
  if (names.empty()) return "nothing";
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", names[i]);
  }
  return names.size() > kMostNames ? text + fmt::format(" and {} more", names.size() - kMostNames)
                                   : text;
}

class Comparison {
 public:
  Comparison(const Graph& then, const Graph& now) : then_(then), now_(now) {}

  std::string text() const {
    const std::size_t common = std::min(then_.ops.size(), now_.ops.size());
    for (std::size_t i = 0; i < common; ++i) {
      std::string text = difference(i);
      if (!text.empty()) return text;
    }
    if (then_.ops.size() > common) {
      return fmt::format("op {} is not here", op_text(then_.ops[common]));
    }
    if (now_.ops.size() > common) return fmt::format("op {} is new", op_text(now_.ops[common]));
    return {};
  }

 private:
  std::string difference(std::size_t position) const {
    const Op& a = then_.ops[position];
    const Op& b = now_.ops[position];
    if (a.name != b.name || a.kind != b.kind) {
      return fmt::format("op {} was {}, here it is {}", grouped_text(number(position)), op_text(a),
                         op_text(b));
    }
    for (const auto list : {&Op::inputs, &Op::outputs, &Op::auxiliaries}) {
      const char* const verb = list == &Op::inputs ? "read" : "made";
      if (std::string text = difference(a, a.*list, b.*list, verb); !text.empty()) {
        return text;
      }
    }
    return names_of(then_, a.saved) == names_of(now_, b.saved)
               ? std::string()
               : fmt::format("op '{}' saved {}, here {}", a.name,
                             list_text(names_of(then_, a.saved)),
                             list_text(names_of(now_, b.saved)));
  }

  std::string difference(const Op& op, const std::vector<TensorId>& a,
                         const std::vector<TensorId>& b, const char* verb) const {
    if (names_of(then_, a) != names_of(now_, b)) {
      return fmt::format("op '{}' {} {}, here {}", op.name, verb, list_text(names_of(then_, a)),
                         list_text(names_of(now_, b)));
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
      const Tensor& x = then_.tensor(a[i]);
      const Tensor& y = now_.tensor(b[i]);
      if (x.shape == y.shape && x.data_type == y.data_type && x.bytes == y.bytes) continue;
      return fmt::format("'{}' was {}, here it is {}", x.name, tensor_text(x), tensor_text(y));
    }
    return {};
  }

  static std::int64_t number(std::size_t position) {
    return static_cast<std::int64_t>(position) + 1;
  }

  const Graph& then_;
  const Graph& now_;
};

}  // namespace

std::string first_difference_text(const Graph& then, const Graph& now) {
  return Comparison(then, now).text();
}

}  // namespace cairn
