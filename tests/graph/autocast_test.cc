#include <doctest/doctest.h>

#include "graph/error.h"
#include "graph/graph_builder.h"
#include "graph/precision.h"

// Casts under autocast over fp32 parameters. x is [2, 4, 8], a weight [8, 8].

namespace cairn {
namespace {

constexpr std::int64_t kRows = 2 * 4 * 8;
constexpr std::int64_t kWeight = 8 * 8;

class Autocast {
 public:
  explicit Autocast(std::string_view precision = "autocast-bf16")
      : builder_("autocast", *find_precision(precision), like_parameters({.state_count = 2})) {}

  TensorId x(DataType type = DataType::kFloat32) {
    return builder_.add_input("x", type, {2, 4, 8}, true);
  }
  TensorId add(const std::string& name, const std::string& kind, std::vector<TensorId> inputs,
               const OpAttributes& attributes = {}, TensorId weight = kNoTensor) {
    OpRequest request{
        .name = name, .kind = find_op_kind(kind), .attributes = attributes, .inputs = inputs};
    if (weight != kNoTensor) request.shared_parameters = {{"weight", weight}};
    return builder_.add_op(request)[0];
  }
  TensorId linear(const std::string& name, TensorId input, TensorId weight = kNoTensor) {
    return add(name, "linear", {input}, {.width = 8}, weight);
  }
  GraphBuilder& builder() { return builder_; }
  Graph graph(TensorId loss) { return builder_.build(loss); }

 private:
  GraphBuilder builder_;
};

std::string names(const Graph& graph) {
  std::string text;
  for (const Op& op : graph.ops) text += (text.empty() ? "" : " ") + op.name;
  return text;
}

const Tensor& named(const Graph& graph, const std::string& name) {
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.name == name) return tensor;
  }
  throw InputError("no tensor " + name);
}

}  // namespace

TEST_CASE("each linear casts its input anew; its gradient comes back through the cast") {
  Autocast autocast;
  const TensorId x = autocast.x();
  const TensorId q = autocast.linear("q", x);
  const TensorId k = autocast.linear("k", x);
  const Graph graph = autocast.graph(autocast.add("sum", "add", {q, k}));
  CHECK(names(graph) == "q.weight.bf16 q.input.bf16 q k.weight.bf16 k.input.bf16 k sum");
  CHECK(named(graph, "q.input.bf16").bytes == 2 * kRows);
  CHECK(named(graph, "q.input.bf16").held_until == kNoOp);
  CHECK(named(graph, "q.weight").bytes == 4 * kWeight);  // and its gradient as many
  CHECK(named(graph, "q.weight.bf16").has_gradient);
  CHECK(graph.op(OpId{0}).has_backward);
  CHECK(named(graph, "q").data_type == DataType::kBFloat16);
}

TEST_CASE("a trainable weight is cast once, and its copy is held to the end of forward") {
  Autocast autocast;
  const TensorId first = autocast.linear("first", autocast.x());
  const TensorId weight = autocast.builder().find("first.weight");
  const Graph graph = autocast.graph(autocast.linear("second", first, weight));
  CHECK(names(graph) == "first.weight.bf16 first.input.bf16 first second");
  CHECK(named(graph, "first.weight.bf16").held_until == OpId{3});
}

TEST_CASE("a frozen weight is cast for each reader, and no copy is held") {
  Autocast autocast;
  autocast.builder().set_trainable(false);
  const TensorId first = autocast.linear("first", autocast.x());
  const TensorId weight = autocast.builder().find("first.weight");
  const Graph graph = autocast.graph(autocast.linear("second", first, weight));
  CHECK(names(graph) == "first.weight.bf16 first.input.bf16 first second.weight.bf16 second");
  CHECK(named(graph, "first.weight.bf16").held_until == kNoOp);
  CHECK_FALSE(named(graph, "first.weight.bf16").has_gradient);
}

TEST_CASE("what is on the list of fp32 has its 16-bit inputs cast up") {
  Autocast autocast;
  const TensorId narrow = autocast.x(DataType::kBFloat16);
  const TensorId square = autocast.add("square", "pow", {narrow});
  const Graph graph = autocast.graph(autocast.add("norm", "layer_norm", {square}));
  CHECK(names(graph) == "square.input.fp32 square norm");
  CHECK(named(graph, "norm").bytes == 4 * kRows);
}

TEST_CASE("a softmax makes fp32 of a cast, or of fp16 as it is") {
  for (const auto& [precision, type, ops] :
       {std::tuple{"autocast-bf16", DataType::kBFloat16, "softmax.input.fp32 softmax"},
        std::tuple{"autocast-fp16", DataType::kFloat16, "softmax"}}) {
    Autocast autocast(precision);
    const TensorId scores = autocast.x(type);
    const Graph graph = autocast.graph(autocast.add("softmax", "softmax", {scores}));
    CHECK(names(graph) == ops);
    CHECK(named(graph, "softmax").bytes == 4 * kRows);
  }
}

TEST_CASE("what is on no list computes in the wider type of what comes in") {
  Autocast autocast;
  const TensorId wide = autocast.x();
  const TensorId narrow = autocast.linear("narrow", wide);
  const TensorId sum = autocast.add("sum", "add", {wide, narrow});
  const TensorId product = autocast.add("product", "mul", {sum, narrow});
  const TensorId both = autocast.add("both", "cat", {product, narrow});
  const Graph graph = autocast.graph(autocast.add("masked", "add_scalar", {both}));
  for (const char* name : {"sum", "product", "both", "masked"}) {
    CHECK(named(graph, name).data_type == DataType::kFloat32);
  }
  const Op& add = graph.ops[3];
  CHECK(add.gradient_aliases == std::vector<bool>{true, false});  // narrow's is a cast
  const Op& cat = graph.ops[5];
  CHECK(cat.gradient_aliases == std::vector<bool>{true, false});
}

TEST_CASE("a mask in fp32 makes its scores fp32") {
  GraphBuilder builder("mask", DataType::kBFloat16);
  const TensorId x = builder.add_input("x", DataType::kBFloat16, {2, 4, 8}, true);
  const TensorId y = builder.add_op({.name = "y",
                                     .kind = find_op_kind("add_scalar"),
                                     .attributes = {.data_type = DataType::kFloat32},
                                     .inputs = {x}})[0];
  CHECK(builder.tensor(y).data_type == DataType::kFloat32);
  const Graph graph = builder.build(y);
  CHECK(graph.ops[0].gradient_aliases == std::vector<bool>{false});
}

TEST_CASE("a kind whose list is not known is refused under autocast only") {
  Autocast autocast;
  const TensorId x = autocast.x();
  CHECK_THROWS_WITH_AS(autocast.add("top", "topk", {x}, {.largest_count = 1}),
                       "op 'top': autocast of a topk is not in this version; expected a precision "
                       "without autocast",
                       InputError);
  Autocast pure("fp32");
  CHECK_NOTHROW(pure.add("top", "topk", {pure.x()}, {.largest_count = 1}));
}

TEST_CASE("master weights and their states are fp32; without, states are like parameters") {
  struct Row {
    const char* precision;
    std::int64_t parameter_bytes, master_bytes, state_bytes;
  };
  for (const Row& row : {Row{"fp32", 4, 0, 8}, Row{"bf16", 2, 0, 4}, Row{"fp16", 2, 0, 4},
                         Row{"autocast-bf16", 4, 0, 8}, Row{"autocast-fp16", 4, 0, 8},
                         Row{"bf16-autocast", 2, 0, 4}, Row{"bf16-master", 2, 4, 8}}) {
    CAPTURE(row.precision);
    Autocast model(row.precision);
    const TensorId x = model.x();
    model.builder().set_trainable(false);
    const TensorId frozen = model.linear("frozen", x);
    model.builder().set_trainable(true);
    const Graph graph = model.graph(model.linear("trained", frozen));
    CHECK(parameter_bytes(graph) == 2 * kWeight * row.parameter_bytes);
    CHECK(master_weight_bytes(graph) == kWeight * row.master_bytes);
    CHECK(optimizer_state_bytes(graph) == kWeight * row.state_bytes);
  }
}

TEST_CASE("precisions have names") {
  for (const std::string& name : precision_names()) {
    CHECK(precision_name(*find_precision(name)) == name);
  }
  CHECK(find_precision("bf17") == std::nullopt);
  CHECK(compute_type(*find_precision("autocast-fp16")) == DataType::kFloat16);
  CHECK(compute_type(*find_precision("bf16-master")) == DataType::kBFloat16);
}

}  // namespace cairn
