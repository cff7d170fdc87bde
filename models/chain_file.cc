#include "models/chain_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "graph/checked.h"
#include "graph/error.h"
#include "models/fields.h"

namespace cairn {
namespace {

constexpr std::int64_t kMostLayers = 100'000;
constexpr std::size_t kLongestName = 1000;

// The unit of a chain file's times is arbitrary: as milliseconds their fractions stay.
constexpr double kNsPerUnit = 1e6;
// So many ns of a layer that a whole step stays within 64 bits.
constexpr double kMostNs = 1e13;

bool has_key(const Document& document, std::string_view key) {
  return std::any_of(document.root.entries.begin(), document.root.entries.end(),
                     [&](const Entry& entry) { return entry.key == key; });
}

// What a file that is no chain seems to be.
std::string_view kind_of(const Document& document) {
  constexpr std::array<std::array<std::string_view, 2>, 7> kKinds = {{
      {"cairn_graph", "a plain graph"},
      {"cairn_plan", "a plan"},
      {"model", "a model file"},
      {"model_type", "a Hugging Face config"},
      {"text_config", "a Hugging Face config"},
      {"architectures", "a Hugging Face config"},
      {"family", "a family"},
  }};
  for (const auto& [key, kind] : kKinds) {
    if (has_key(document, key)) return kind;
  }
  return "none of these lists";
}

void check_is_chain(const Document& document) {
  if (is_chain_file(document)) return;
  constexpr std::string_view kExpected =
      "expected a chain file, with the lists activation, saved, workspace, forward_time and "
      "backward_time";
  const bool is_mapping = document.root.kind == NodeKind::kMapping;
  fail_at(document, document.root.position,
          fmt::format("{}; found {}", kExpected,
                      is_mapping ? std::string(kind_of(document)) : describe(document.root)));
}

class ChainFileReader {
 public:
  explicit ChainFileReader(const Document& document)
      : document_(document), fields_(document, document.root, "a chain file") {}

  ChainFile read() {
    ChainFile chain{.name = read_name(), .budget_bytes = fields_.optional_integer("budget")};
    fields_.find("about");  // for people, as are the two times
    const std::int64_t layer_count = read_layer_count();
    fields_.optional_number("optimum_time");
    fields_.optional_number("keep_all_time");
    if (chain.budget_bytes) check_amount(*fields_.find("budget"), "budget", *chain.budget_bytes);
    // The loss is a layer more; x_0 has nothing that was saved.
    const std::size_t count = static_cast<std::size_t>(layer_count) + 1;
    const std::vector<std::int64_t> activation = amounts("activation", count + 1);
    const std::vector<std::int64_t> saved = amounts("saved", count + 1);
    const std::vector<std::int64_t> workspace = amounts("workspace", count);
    const std::vector<std::int64_t> forward = times("forward_time", count);
    const std::vector<std::int64_t> backward = times("backward_time", count);
    fields_.refuse_unknown();
    check_saved(saved, activation.back());
    chain.input_bytes = activation[0];
    for (std::size_t i = 0; i < count; ++i) {
      chain.layers.push_back({.output_bytes = activation[i + 1],
                              .saved_bytes = saved[i + 1],
                              .workspace_bytes = workspace[i],
                              .forward_ns = forward[i],
                              .backward_ns = backward[i]});
    }
    return chain;
  }

 private:
  std::string read_name() {
    std::string name = fields_.optional_text("name").value_or("chain");
    if (name.empty()) fields_.fail_at_key("name", "expected a name, found an empty text");
    if (printable(name, kLongestName) != name) {
      fields_.fail_at_key("name", fmt::format("expected at most {} printable characters, found {}",
                                              kLongestName, in_quotes(name)));
    }
    return name;
  }

  std::int64_t read_layer_count() {
    const std::int64_t count = fields_.integer("layers");
    if (count >= 1 && count <= kMostLayers) return count;
    fail_at(document_, fields_.require("layers").position,
            fmt::format("{}: expected 1 to {} layers, found {}", fields_.what_of("layers"),
                        kMostLayers, count));
  }

  void check_amount(const Node& node, const std::string& what, std::int64_t value) const {
    if (value >= 0) return;
    fail_at(document_, node.position,
            fmt::format("{}: expected zero or more, found {}", what, value));
  }

  const std::vector<Node>& items(std::string_view key, std::size_t count) {
    const std::vector<Node>& list = fields_.list(key);
    if (list.size() == count) return list;
    fields_.fail_at_key(key, fmt::format("expected {} values where 'layers' is {}, found {}", count,
                                         fields_.integer("layers"), list.size()));
  }

  std::string what_of(std::string_view key, std::size_t i) const {
    return fmt::format("{}[{}]", key, i);
  }

  std::vector<std::int64_t> amounts(std::string_view key, std::size_t count) {
    std::vector<std::int64_t> values;
    for (const Node& item : items(key, count)) {
      const std::string what = what_of(key, values.size());
      values.push_back(to_integer(document_, item, what));
      check_amount(item, what, values.back());
    }
    return values;
  }

  std::vector<std::int64_t> times(std::string_view key, std::size_t count) {
    std::vector<std::int64_t> values;
    for (const Node& item : items(key, count)) {
      const std::string what = what_of(key, values.size());
      const double ns = std::round(to_number(document_, item, what) * kNsPerUnit);
      if (!(ns >= 0 && ns <= kMostNs)) {
        fail_at(document_, item.position,
                fmt::format("{}: expected a time from 0 to {:g}, found {}", what,
                            kMostNs / kNsPerUnit, describe(item)));
      }
      values.push_back(static_cast<std::int64_t>(ns));
    }
    return values;
  }

  void check_saved(const std::vector<std::int64_t>& saved, std::int64_t loss_bytes) {
    const std::vector<Node>& nodes = fields_.list("saved");
    if (saved.front() != 0) {
      fail_at(document_, nodes.front().position,
              fmt::format("{}: expected 0, for no layer makes x_0; found {}", what_of("saved", 0),
                          saved.front()));
    }
    if (saved.back() < loss_bytes) {
      fail_at(document_, nodes.back().position,
              fmt::format("{}: expected at least the loss's {} bytes, found {}",
                          what_of("saved", saved.size() - 1), loss_bytes, saved.back()));
    }
  }

  const Document& document_;
  Fields fields_;
};

std::string in_double_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') result += '\\';
    result += character;
  }
  return result + '"';
}

// Of the output of a layer, what its saved state does not include.
std::int64_t rest_bytes(const ChainFileLayer& layer) {
  return std::max<std::int64_t>(0, layer.output_bytes - layer.saved_bytes);
}

std::string outputs_text(const std::string& name, const ChainFileLayer& layer) {
  const std::int64_t rest = rest_bytes(layer);
  std::string text = fmt::format("{{name: {}, bytes: {}}}", name, layer.output_bytes - rest);
  if (rest > 0) text += fmt::format(", {{name: {}_rest, bytes: {}}}", name, rest);
  return text;
}

// One layer as an op that saves its input, its output and what else its state holds. A sweep that
// keeps no state needs the workspace alone (docs/accounting.md, rule 5).
std::string layer_text(const ChainFile& chain, std::size_t i) {
  const ChainFileLayer& layer = chain.layers[i];
  const bool is_loss = i + 1 == chain.layers.size();
  const bool reads_rest = i > 0 && rest_bytes(chain.layers[i - 1]) > 0;
  const std::string input = fmt::format("x{}", i);
  const std::string output = is_loss ? "loss" : fmt::format("x{}", i + 1);
  const std::string state = is_loss ? "loss_state" : fmt::format("state{}", i);
  const std::int64_t state_bytes =
      std::max<std::int64_t>(0, layer.saved_bytes - layer.output_bytes);
  std::string text =
      is_loss ? "  - name: loss\n" : fmt::format("  - name: layer{}\n    block: {}\n", i, i);
  text += fmt::format("    inputs: [{}{}]\n", input, reads_rest ? ", " + input + "_rest" : "");
  text += fmt::format("    outputs: [{}]\n", outputs_text(output, layer));
  if (state_bytes > 0) {
    text += fmt::format("    auxiliaries: [{{name: {}, bytes: {}}}]\n", state, state_bytes);
  }
  text +=
      fmt::format("    saves: [{}, {}{}]\n", input, output, state_bytes > 0 ? ", " + state : "");
  text += fmt::format("    workspace_bytes: {}\n    sweep_workspace_bytes: {}\n",
                      layer.workspace_bytes, layer.workspace_bytes);
  text += fmt::format("    backward_workspace_bytes: {}\n",
                      checked_add(layer.workspace_bytes, i == 0 ? chain.input_bytes : 0,
                                  "backward workspace of layer0"));
  text += fmt::format("    forward: {{time_ns: {}}}\n    backward: {{time_ns: {}}}\n",
                      layer.forward_ns, layer.backward_ns);
  return text;
}

// What is out of the ordinary in the graph.
std::string notes_text(const ChainFile& chain) {
  std::string text;
  for (std::size_t i = 0; i < chain.layers.size(); ++i) {
    const ChainFileLayer& layer = chain.layers[i];
    if (rest_bytes(layer) == 0) continue;
    text += fmt::format(
        "# saved[{0}] is {1}, less than activation[{0}] = {2}: the rest of x{0} is read, not "
        "saved.\n",
        i + 1, layer.saved_bytes, layer.output_bytes);
  }
  return text;
}

}  // namespace

bool is_chain_file(const Document& document) {
  constexpr std::string_view kLists[] = {"activation", "saved", "workspace", "forward_time",
                                         "backward_time"};
  return std::any_of(std::begin(kLists), std::end(kLists),
                     [&](std::string_view key) { return has_key(document, key); });
}

ChainFile read_chain_file(const Document& document) {
  check_is_chain(document);
  return ChainFileReader(document).read();
}

std::string chain_graph_text(const ChainFile& chain) {
  std::string text = fmt::format(
      "# A chain of {} layers and a loss, by `cairn import`. 1 unit of its times is 1 ms.\n"
      "# x0 lies outside the budget: it has 0 bytes here. The {} bytes of its gradient are in the\n"
      "# backward workspace of layer0.\n",
      chain.layers.size() - 1, chain.input_bytes);
  if (chain.budget_bytes) text += fmt::format("# Its budget: {} bytes.\n", *chain.budget_bytes);
  text += notes_text(chain);
  text += fmt::format(
      "cairn_graph: 1\n"
      "name: {}\n"
      "inputs:\n"
      "  - {{name: x0, bytes: 0, requires_grad: true}}\n"
      "ops:\n",
      in_double_quotes(chain.name));
  for (std::size_t i = 0; i < chain.layers.size(); ++i) text += layer_text(chain, i);
  return text + "loss: loss\n";
}

}  // namespace cairn
