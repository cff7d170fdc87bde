#include "cli/plan_words.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "models/load_model.h"
#include "planner/planner.h"

namespace cairn {
namespace {

// gpt2 with few layers: wte, wpe, embed, drop, the layers h.0 to h.N of 20 ops each, norm, logits,
// and the ops of the loss.
Graph layers_graph(int layers) {
  return load_model({.model = "gpt2", .set = {{"layers", std::to_string(layers)}}}).graph;
}

std::int32_t position(const Graph& graph, const std::string& op) {
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (graph.ops[i].name == op) return static_cast<std::int32_t>(i);
  }
  FAIL("no op " << op);
  return -1;
}

Region region(const Graph& graph, const std::string& first, const std::string& last,
              const std::vector<std::string>& keep = {}, std::vector<Region> inner = {}) {
  Region made{.begin = position(graph, first), .end = position(graph, last) + 1};
  for (const std::string& name : keep) {
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      if (graph.tensors[i].name == name) made.keep.push_back(static_cast<TensorId>(i));
    }
  }
  made.inner = std::move(inner);
  return made;
}

// A region of whole layers.
Region layers(const Graph& graph, int first, int last, const std::vector<std::string>& keep = {},
              std::vector<Region> inner = {}) {
  return region(graph, "h." + std::to_string(first) + ".norm1", "h." + std::to_string(last) + ".x",
                keep, std::move(inner));
}

// The lines, indented by two spaces a level, each ended by '\n'.
std::string words(const Graph& graph, std::vector<Region> regions) {
  Plan plan = keep_all_plan(graph);
  plan.regions = std::move(regions);
  check_plan(graph, plan);
  std::string text;
  for (const PlanLine& line : plan_lines(graph, plan)) {
    text += std::string(2 * line.depth, ' ') + line.text + "\n";
  }
  return text;
}

TEST_CASE("a plan without regions keeps everything") {
  CHECK(words(layers_graph(2), {}) == "everything: kept\n");
}

TEST_CASE("equal layers are told together, wherever they are") {
  const Graph graph = layers_graph(5);
  CHECK(words(graph, {layers(graph, 0, 0), layers(graph, 1, 1), layers(graph, 4, 4)}) ==
        "layers 0-1, 4: recomputed\n"
        "layers 2-3: kept\n"
        "the rest: kept\n");
}

TEST_CASE("regions of several layers say how many, and a single one that it is one") {
  const Graph graph = layers_graph(6);
  CHECK(words(graph, {layers(graph, 0, 1), layers(graph, 2, 3)}) ==
        "layers 0-3: recomputed 2 at a time\n"
        "layers 4-5: kept\n"
        "the rest: kept\n");
  CHECK(words(graph, {layers(graph, 0, 5)}) ==
        "layers 0-5: recomputed together\n"
        "the rest: kept\n");
}

TEST_CASE("what equal layers keep has the names of one") {
  const Graph graph = layers_graph(3);
  CHECK(words(graph, {layers(graph, 0, 0, {"h.0.attn", "h.0.attn.logsumexp"}),
                      layers(graph, 1, 1, {"h.1.attn", "h.1.attn.logsumexp"}),
                      layers(graph, 2, 2, {"h.2.up"})}) ==
        "layers 0-1: recomputed but attn, attn.logsumexp\n"
        "layer 2: recomputed but up\n"
        "the rest: kept\n");
}

TEST_CASE("in a region of several layers a name stands alone where all keep it") {
  const Graph graph = layers_graph(4);
  CHECK(words(graph, {layers(graph, 0, 1, {"h.0.attn", "h.1.attn", "h.1.up"}),
                      layers(graph, 2, 3, {"h.2.attn", "h.3.attn", "h.3.up"})}) ==
        "layers 0-3: recomputed 2 at a time, but attn, up (2nd of 2)\n"
        "the rest: kept\n");
}

TEST_CASE("regions inside regions are indented, and say that they run again") {
  const Graph graph = layers_graph(6);
  CHECK(words(graph,
              {layers(graph, 0, 5, {},
                      {layers(graph, 0, 1), layers(graph, 2, 3, {}, {layers(graph, 2, 2)})})}) ==
        "layers 0-5: recomputed together\n"
        "  layers 0-1: recomputed again together\n"
        "  layers 2-3: recomputed again together\n"
        "    layer 2: recomputed again\n"
        "the rest: kept\n");
}

TEST_CASE("equal regions with equal ones inside show the first") {
  const Graph graph = layers_graph(4);
  CHECK(words(graph, {layers(graph, 0, 1, {}, {layers(graph, 0, 0)}),
                      layers(graph, 2, 3, {}, {layers(graph, 2, 2)})}) ==
        "layers 0-3: recomputed 2 at a time; of layers 0-1\n"
        "  layer 0: recomputed again\n"
        "the rest: kept\n");
}

TEST_CASE("a part of a layer goes by its ops") {
  const Graph graph = layers_graph(3);
  CHECK(words(graph, {region(graph, "h.0.norm1", "h.0.o", {"h.0.attn"}),
                      region(graph, "h.0.norm2", "h.0.down"),
                      region(graph, "h.1.norm1", "h.1.o", {"h.1.attn"}),
                      region(graph, "h.1.norm2", "h.1.down")}) ==
        "layers 0-1: recomputed in part: norm1 to o but attn; norm2 to down\n"
        "layer 2: kept\n"
        "the rest: kept\n");
}

TEST_CASE("a region across layers goes by its first and last op") {
  const Graph graph = layers_graph(3);
  CHECK(words(graph, {region(graph, "embed", "h.0.o"), region(graph, "h.1.norm2", "h.2.o")}) ==
        "embed to h.0.o: recomputed\n"
        "h.1.norm2 to h.2.o: recomputed\n"
        "the rest: kept\n");
}

TEST_CASE("a long list ends with how much is left out") {
  const Graph graph = layers_graph(6);
  Plan plan = keep_all_plan(graph);
  plan.regions = {layers(graph, 0, 0, {"h.0.attn"}), layers(graph, 1, 1, {"h.1.up"}),
                  layers(graph, 2, 2, {"h.2.qkv"}), layers(graph, 3, 3, {"h.3.h"})};
  CHECK(plan_words_text(graph, plan, 3) ==
        "  layer 0: recomputed but attn\n"
        "  layer 1: recomputed but up\n"
        "  and 4 more lines; -o FILE writes the plan whole\n");
}

TEST_CASE("of very many ranges there are the first, the last, and how many layers") {
  const Graph graph = layers_graph(27);
  std::vector<Region> regions;
  for (int layer = 0; layer < 27; layer += 2) regions.push_back(layers(graph, layer, layer));
  CHECK(words(graph, regions) ==
        "layers 0, 2, 4, 6, 8, 10, ..., 24, 26 (14 layers): recomputed\n"
        "layers 1, 3, 5, 7, 9, 11, ..., 23, 25 (13 layers): kept\n"
        "the rest: kept\n");
}

TEST_CASE("an encoder's layers are not a decoder's") {
  const Graph graph = load_model({.model = "t5-small"}).graph;
  const Plan plan = make_plan(graph, {.algorithm = Algorithm::kEveryLayer}, Extent::kPrefix);
  CHECK(plan_lines(graph, plan).front().text == "encoder.0-5, decoder.0-5: recomputed");
}

}  // namespace
}  // namespace cairn
