// A linear layer that is several in one, and adapters of some of them; what quantises it.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "models/load_model.h"
#include "tests/models/small_llama.h"

namespace cairn {
namespace {

// Llama as a library runs it.
ModelRequest small_model(const std::string& library, const std::string& kv_heads = "4") {
  ModelRequest request = test::small_llama();
  request.set[2].second = kv_heads;
  request.library = library;
  return request;
}

Graph adapted(const Adapters& adapters, const std::string& kv_heads = "4",
              const std::string& library = "litgpt") {
  ModelRequest request = small_model(library, kv_heads);
  request.adapters = adapters;
  return load_model(request).graph;
}

Shape shape_of(const Graph& graph, std::string_view name) {
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.name == name) return tensor.shape;
  }
  FAIL("there is no such tensor: " << name);
  return {};
}

bool has_op(const Graph& graph, std::string_view kind) {
  return std::any_of(graph.ops.begin(), graph.ops.end(),
                     [&](const Op& op) { return op.kind->name == kind; });
}

}  // namespace

TEST_CASE("an adapter of two of three parts has an A of both and a B as wide as they are") {
  const Graph graph = adapted({.rank = 8, .targets = {"query", "value"}});
  CHECK(shape_of(graph, "layers.0.attn.qkv.a.weight") == Shape{16, 64});
  CHECK(shape_of(graph, "layers.0.attn.qkv.grouped.weight") == Shape{128, 8});
  CHECK(trainable_parameter_count(graph) == 2 * 8 * (2 * 64 + 128));
  CHECK(has_op(graph, "index_copy"));
}

TEST_CASE("all parts of a layer, by its name or by theirs, leave no columns of zeros") {
  for (const std::vector<std::string>& targets :
       {std::vector<std::string>{"qkv"}, {"query", "key", "value"}, {"attn.qkv"}, {"qkv.*"}}) {
    const Graph graph = adapted({.rank = 8, .targets = targets});
    CHECK(trainable_parameter_count(graph) == 2 * 8 * (3 * 64 + 192));
    CHECK_FALSE(has_op(graph, "index_copy"));
  }
}

TEST_CASE("where heads are grouped a part is as wide as its heads") {
  const Graph graph = adapted({.rank = 8, .targets = {"query", "value"}}, "2");
  CHECK(shape_of(graph, "layers.0.attn.qkv.b.weight") == Shape{64 + 32, 8});
  CHECK(shape_of(adapted({.rank = 8, .targets = {"key"}}, "1"), "layers.0.attn.qkv.b.weight") ==
        Shape{16, 8});
}

TEST_CASE("without targets LitGPT's adapters are of queries and values") {
  CHECK(trainable_parameter_count(adapted({.rank = 8})) == 2 * 8 * (2 * 64 + 128));
  CHECK(trainable_parameter_count(adapted({.rank = 8}, "4", "lit-gpt")) == 2 * 8 * (2 * 64 + 128));
}

TEST_CASE("a part that there is not is refused, with those that there are") {
  ModelRequest request = small_model("litgpt");
  request.adapters = Adapters{.rank = 8, .targets = {"vlaue"}};
  CHECK(test::refusal_of(request) ==
        "--lora-targets: no linear layer is called 'vlaue'; there are fc_1, fc_2, key, lm_head, "
        "proj, qkv, query, value; did you mean 'value'?");
}

TEST_CASE("Lightning quantises the head too, also where the loss has it in itself") {
  ModelRequest request = small_model("lit-gpt");
  request.adapters = Adapters{.rank = 8};
  request.quantization = Quantization{};
  for (const std::string loss : {"lit-gpt", "chunked"}) {
    request.implementations["loss"] = loss;
    const Graph graph = load_model(request).graph;
    CHECK(shape_of(graph, loss == "chunked" ? "logits.weight" : "logits.product.weight") ==
          Shape{100, 64});
    std::int64_t quantised = 0;
    for (const Tensor& tensor : graph.tensors) {
      if (tensor.data_type == DataType::kNf4)
        quantised += tensor_bytes(DataType::kInt8, tensor.shape, "");
    }
    CHECK(quantised == 100 * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 96));
  }
}

TEST_CASE("the chunks of a quantised head share one weight and its scales") {
  ModelRequest request = small_model("litgpt");
  request.tokens = 300;  // three chunks
  request.adapters = Adapters{.rank = 8};
  request.quantization = Quantization{.is_double = true};
  request.implementations["loss"] = "chunked";
  const Graph graph = load_model(request).graph;
  int heads = 0;
  for (const Op& op : graph.ops) {
    if (op.kind->name == "linear_4bit_saving_input" && op.module == "lm_head") ++heads;
  }
  CHECK(heads == 3);
  // The graph refuses a second tensor of a name.
  CHECK(shape_of(graph, "logits.nested_absmax") == Shape{1});
}

TEST_CASE("what Lightning's plugin is not counted with is refused") {
  ModelRequest request = small_model("litgpt");
  request.adapters = Adapters{.rank = 8};
  request.quantization = Quantization{.format = QuantizedFormat::kInt8};
  CHECK(test::refusal_of(request) ==
        "--quantize int8: 8-bit layers as 'litgpt' runs them are not in this version; expected "
        "nf4 or fp4");
}

}  // namespace cairn
