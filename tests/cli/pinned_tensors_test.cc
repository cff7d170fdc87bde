#include "cli/pinned_tensors.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "graph/error.h"
#include "models/load_model.h"

namespace cairn {
namespace {

Graph two_layers() { return load_model({.model = "gpt2", .set = {{"layers", "2"}}}).graph; }

std::vector<std::string> kept(const std::vector<std::string>& patterns) {
  const Graph graph = two_layers();
  std::vector<std::string> names;
  for (const TensorId tensor : pinned_tensors(graph, patterns, {}).keep) {
    names.push_back(graph.tensor(tensor).name);
  }
  return names;
}

std::string refusal(const std::vector<std::string>& keep,
                    const std::vector<std::string>& recompute) {
  try {
    pinned_tensors(two_layers(), keep, recompute);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

using Names = std::vector<std::string>;

TEST_CASE("a name is a tensor, and of an op all that Backward reads of it") {
  CHECK(kept({"h.0.up"}) == Names{"h.0.up"});
  CHECK(kept({"h.0.attn.logsumexp"}) == Names{"h.0.attn.logsumexp"});
  CHECK(kept({"h.0.norm1"}) == Names{"h.0.norm1", "h.0.norm1.mean", "h.0.norm1.rstd"});
}

TEST_CASE("a pattern names such a tensor of every layer") {
  CHECK(kept({"*.up"}) == Names{"h.0.up", "h.1.up"});
  CHECK(kept({"h.?.up", "h.1.up"}) == Names{"h.0.up", "h.1.up"});
}

TEST_CASE("what names nothing that can be kept says why") {
  CHECK(refusal({"*.upp"}, {}) ==
        "--keep: no op or tensor is called '*.upp'; did you mean '*.up'?");
  CHECK(refusal({}, {"h.0.atn"}) ==
        "--recompute: no op or tensor is called 'h.0.atn'; did you mean 'h.0.attn'?");
  CHECK(refusal({"h.0.up.weight"}, {}) ==
        "--keep: 'h.0.up.weight' is a parameter, which is there throughout; expected a tensor that "
        "an op makes");
  CHECK(refusal({"*.mlp_drop"}, {}).find("no Backward reads") == std::string::npos);  // its mask
  CHECK(
      refusal({"h.0.act.gelu_new.inner*"}, {}) ==
      "--keep: no Backward reads what 'h.0.act.gelu_new.inner*' names: it is dropped in any case");
}

TEST_CASE("nothing is kept and recomputed at once") {
  CHECK(refusal({"*.up"}, {"h.1"}) == "--keep and --recompute: both name 'h.1.up'");
}

}  // namespace
}  // namespace cairn
