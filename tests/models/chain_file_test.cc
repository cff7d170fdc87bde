// Chain files, and the plain graphs that are made of them.

#include "models/chain_file.h"

#include <doctest/doctest.h>

#include <string>

#include "graph/error.h"
#include "models/find_model.h"
#include "models/plain_graph.h"
#include "tests/models/bad_files.h"
#include "tests/sim/timeline.h"

namespace cairn {
namespace {

ChainFile chain_of(const std::string& text) {
  return read_chain_file(parse_document("chain.yaml", text));
}

Graph graph_of(const ChainFile& chain) {
  return read_plain_graph(parse_document("written", chain_graph_text(chain)), {});
}

// Two layers and a loss; the second has no auxiliaries.
constexpr const char* kTwoLayers =
    "name: \"two \\\"layers\\\"\"\n"
    "layers: 2\n"
    "budget: 40\n"
    "activation: [8, 4, 6, 0]\n"
    "saved: [0, 9, 6, 0]\n"
    "workspace: [1, 2, 0]\n"
    "forward_time: [1.5, 2.0000004, 0]\n"
    "backward_time: [3, 4, 0]\n";

TEST_CASE("a chain file is read: the last of its layers is the loss") {
  const ChainFile chain = chain_of(kTwoLayers);
  CHECK(chain.name == "two \"layers\"");
  CHECK(chain.budget_bytes == 40);
  CHECK(chain.input_bytes == 8);
  REQUIRE(chain.layers.size() == 3);
  CHECK(chain.layers[0].output_bytes == 4);
  CHECK(chain.layers[0].saved_bytes == 9);
  CHECK(chain.layers[0].workspace_bytes == 1);
  CHECK(chain.layers[0].forward_ns == 1'500'000);  // 1 unit is 1 ms
  CHECK(chain.layers[1].forward_ns == 2'000'000);  // 2,000,000.4 to the nearest
  CHECK(chain.layers[2].output_bytes == 0);
}

TEST_CASE("the graph of a chain saves input, output and an auxiliary, outside x0's bytes") {
  const Graph graph = graph_of(chain_of(kTwoLayers));
  CHECK(graph.name == "two \"layers\"");
  CHECK(graph.block_count == 2);
  REQUIRE(graph.ops.size() == 3);
  const Op& first = graph.ops[0];
  CHECK(graph.tensor(first.inputs[0]).bytes == 0);
  CHECK(graph.tensor(first.outputs[0]).bytes == 4);
  CHECK(graph.tensor(first.auxiliaries[0]).bytes == 5);  // 9 - 4
  CHECK(first.saved.size() == 3);
  CHECK(first.workspace_bytes == 1);
  CHECK(first.sweep_workspace_bytes == 1);
  CHECK(first.backward_workspace_bytes == 9);  // 1 + the gradient of x0 8
  CHECK(first.forward.time_ns == 1'500'000);
  CHECK(first.backward.time_ns == 3'000'000);
  CHECK(graph.ops[1].auxiliaries.empty());  // 6 - 6
  CHECK(graph.ops[1].backward_workspace_bytes == 2);
  CHECK(graph.ops[2].name == "loss");
  CHECK(graph.ops[2].block == -1);
}

TEST_CASE("x0 counts nothing, its gradient counts in the Backward of the first layer") {
  const Graph graph =
      graph_of(chain_of("layers: 2\n"
                        "activation: [1, 2, 1, 0]\n"
                        "saved: [0, 5, 4, 4]\n"
                        "workspace: [0, 0, 0]\n"
                        "forward_time: [8e-6, 7e-6, 4e-6]\n"
                        "backward_time: [0, 0, 0]\n"));
  Plan plan = keep_all_plan(graph);
  plan.regions = {{.begin = 0, .end = 1}};
  // B loss: x1 2 + state of layer1 4, its output included + that of the loss 4 + gradient of x2 1.
  // B layer0: x1 2 + its auxiliary 3 + gradient of x1 2 + gradient of x0 1.
  CHECK(test::timeline(graph, plan) ==
        "C layer0 2/2, C layer1 6/6, C loss 10/10, B loss 11/7, B layer1 9/2, R layer0 7/7, "
        "B layer0 8/0");
  CHECK(test::peak_and_extra(graph, plan) == "11 at B loss, extra 8");
}

TEST_CASE("of an output larger than the state the rest is read by the next layer, and not saved") {
  const ChainFile chain = chain_of(
      "{layers: 2, activation: [1, 4, 2, 0], saved: [0, 3, 2, 0], workspace: [0, 0, 0], "
      "forward_time: [1, 1, 0], backward_time: [1, 1, 0]}");
  CHECK(chain_graph_text(chain).find("# saved[1] is 3, less than activation[1] = 4: the rest of "
                                     "x1 is read, not saved.\n") != std::string::npos);
  const Graph graph = graph_of(chain);
  CHECK(graph.ops[0].auxiliaries.empty());
  CHECK(graph.ops[1].inputs.size() == 2);
  // C layer0: 3 + 1, and the 1 goes behind C layer1. The gradients of both are 4 in B layer1: x1 3,
  // x2 2, its gradient 2.
  CHECK(test::timeline(graph, keep_all_plan(graph)) ==
        "C layer0 4/4, C layer1 6/5, C loss 5/5, B loss 7/7, B layer1 11/7, B layer0 8/0");
}

TEST_CASE("sizes whose sum passes 64 bits are refused") {
  const ChainFile chain = chain_of(
      "{layers: 1, activation: [1, 4, 0], saved: [0, 4, 0], workspace: [9223372036854775807, 0], "
      "forward_time: [1, 0], backward_time: [1, 0]}");
  CHECK_THROWS_AS(chain_graph_text(chain), InputError);
}

const std::vector<test::BadFile> kChains = {
    {"config.json",
     "config.json:1:1: expected a chain file, with the lists activation, saved, workspace, "
     "forward_time and backward_time; found a Hugging Face config"},
    {"control_characters.yaml",
     "control_characters.yaml:7:1: a chain file: key 'name': expected at most 1000 printable "
     "characters, found 'a?b'"},
    {"empty_name.yaml",
     "empty_name.yaml:7:1: a chain file: key 'name': expected a name, found an empty text"},
    {"endless_time.yaml",
     "endless_time.yaml:5:21: forward_time[1]: expected a time from 0 to 1e+07, found '1e300'"},
    {"fraction_of_a_byte.yaml",
     "fraction_of_a_byte.yaml:2:17: activation[1]: expected an integer, found '4.5'"},
    {"list.yaml",
     "list.yaml:1:1: expected a chain file, with the lists activation, saved, workspace, "
     "forward_time and backward_time; found a list"},
    {"list_as_number.yaml",
     "list_as_number.yaml:3:8: a chain file: key 'saved': expected a list, found '9'"},
    {"list_too_short.yaml",
     "list_too_short.yaml:3:1: a chain file: key 'saved': expected 4 values where 'layers' is 2, "
     "found 3"},
    {"missing_list.yaml", "missing_list.yaml:1:1: a chain file: missing key 'workspace'"},
    {"misspelt_list.yaml",
     "misspelt_list.yaml:1:1: a chain file: missing key 'workspace', found 'worksapce'"},
    {"negative_budget.yaml", "negative_budget.yaml:7:9: budget: expected zero or more, found -1"},
    {"negative_bytes.yaml",
     "negative_bytes.yaml:2:17: activation[1]: expected zero or more, found -4"},
    {"negative_time.yaml",
     "negative_time.yaml:5:21: forward_time[1]: expected a time from 0 to 1e+07, found '-2'"},
    {"no_layers.yaml",
     "no_layers.yaml:1:9: a chain file: key 'layers': expected 1 to 100000 layers, found 0"},
    {"nothing_known.yaml",
     "nothing_known.yaml:1:1: expected a chain file, with the lists activation, saved, workspace, "
     "forward_time and backward_time; found none of these lists"},
    {"plain_graph.yaml",
     "plain_graph.yaml:1:1: expected a chain file, with the lists activation, saved, workspace, "
     "forward_time and backward_time; found a plain graph"},
    {"saved_of_the_input.yaml",
     "saved_of_the_input.yaml:3:9: saved[0]: expected 0, for no layer makes x_0; found 8"},
    {"saved_below_the_loss.yaml",
     "saved_below_the_loss.yaml:3:18: saved[3]: expected at least the loss's 2 bytes, found 1"},
    {"time_as_text.yaml",
     "time_as_text.yaml:5:21: forward_time[1]: expected a number, found 'soon'"},
    {"too_many_layers.yaml",
     "too_many_layers.yaml:1:9: a chain file: key 'layers': expected 1 to 100000 layers, found "
     "100001"},
    {"unknown_key.yaml",
     "unknown_key.yaml:7:1: a chain file: unknown key 'bugdet'; did you mean 'budget'?"},
};

TEST_CASE("a wrong chain file is refused, with the place and what was expected") {
  test::check_bad_files("chains", kChains, [](const std::filesystem::path& path) {
    read_chain_file(read_document(path));
  });
}

TEST_CASE("a chain file that is given as a model is named") {
  CHECK_THROWS_WITH_AS(classify_model(parse_document("chain.yaml", kTwoLayers), "chain"),
                       doctest::Contains("`cairn import` makes a plain graph of it"), InputError);
}

}  // namespace
}  // namespace cairn
