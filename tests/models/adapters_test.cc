// Low-rank adapters: which layers have one, what is trained, and what does not fit together.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "models/linear_layers.h"
#include "models/load_model.h"
#include "tests/models/small_llama.h"

namespace cairn {
namespace {

ModelRequest adapted_request(const Adapters& adapters, const std::vector<std::string>& freeze) {
  ModelRequest request = test::small_llama();
  request.freeze = freeze;
  request.adapters = adapters;
  return request;
}

Graph small_llama(const Adapters& adapters, const std::vector<std::string>& freeze = {}) {
  return load_model(adapted_request(adapters, freeze)).graph;
}

std::string refused(const Adapters& adapters, const std::vector<std::string>& freeze = {}) {
  return test::refusal_of(adapted_request(adapters, freeze));
}

const Tensor& parameter(const Graph& graph, std::string_view name) {
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.name == name) return tensor;
  }
  FAIL("there is no such parameter: " << name);
  return graph.tensors[0];
}

}  // namespace

TEST_CASE("an adapter of q and v has rank * (in + out) weights a layer, in fp32, alone trained") {
  const Graph graph = small_llama({.rank = 8, .targets = {"q_proj", "v_proj"}});
  CHECK(trainable_parameter_count(graph) == 2 * 2 * 8 * (64 + 64));
  const Tensor& a = parameter(graph, "layers.1.attn.q.a.weight");
  CHECK(a.data_type == DataType::kFloat32);
  CHECK(a.shape == Shape{8, 64});
  CHECK(a.optimizer_state_bytes == 2 * 8 * 64 * 4);
  const Tensor& base = parameter(graph, "layers.1.attn.q.base.weight");
  CHECK(base.data_type == DataType::kBFloat16);
  CHECK_FALSE(base.requires_grad);
  CHECK(base.optimizer_state_bytes == 0);
}

TEST_CASE("without targets an adapter goes where PEFT puts it, all-linear leaves out the head") {
  CHECK(trainable_parameter_count(small_llama({.rank = 8})) == 2 * 2 * 8 * (64 + 64));
  const std::int64_t attention = 4 * 8 * (64 + 64);
  const std::int64_t mlp = 3 * 8 * (64 + 96);
  CHECK(trainable_parameter_count(small_llama({.rank = 8, .targets = {"all-linear"}})) ==
        2 * (attention + mlp));
  CHECK(trainable_parameter_count(small_llama({.rank = 8, .targets = {"lm_head"}})) ==
        8 * (64 + 100));
}

TEST_CASE("a target is a path's end, a whole path, or a pattern of either") {
  CHECK(names_module("q_proj", "model.layers.0.self_attn.q_proj"));
  CHECK(names_module("self_attn.q_proj", "model.layers.0.self_attn.q_proj"));
  CHECK(names_module("?_proj", "model.layers.0.self_attn.q_proj"));
  CHECK(names_module("model.layers.0", "model.layers.0.self_attn.q_proj"));
  CHECK_FALSE(names_module("proj", "model.layers.0.self_attn.q_proj"));
  CHECK_FALSE(names_module("self_attn", "model.layers.0.self_attn.q_proj"));
  CHECK_FALSE(names_module("q_proj", "model.q_proj.other"));
}

TEST_CASE("what is trained whole is a copy, and the original stays") {
  const Graph graph =
      small_llama({.rank = 8, .targets = {"q_proj"}, .trained_modules = {"lm_head"}});
  const Tensor& copy = parameter(graph, "logits.modules_to_save.weight");
  CHECK(copy.requires_grad);
  CHECK(copy.data_type == DataType::kBFloat16);
  const Tensor& original = parameter(graph, "logits.weight");
  CHECK_FALSE(original.requires_grad);
  CHECK(copy.bytes == original.bytes);
  CHECK(trainable_parameter_count(graph) == 2 * 8 * (64 + 64) + 64 * 100);
}

TEST_CASE("adapters that make no sense are refused, with what there is") {
  CHECK(refused({.rank = 0}) == "--lora: expected a rank of 1 or more, found 0");
  CHECK(refused({.rank = 8, .dropout = 1.0}) ==
        "--lora-dropout: expected a probability in [0, 1), found 1");
  CHECK(
      refused({.rank = 8, .targets = {"q_porj"}}) ==
      "--lora-targets: no linear layer is called 'q_porj'; there are down_proj, gate_proj, k_proj, "
      "lm_head, o_proj, q_proj, up_proj, v_proj; did you mean 'q_proj'?");
  CHECK(refused({.rank = 8, .targets = {"embed_tokens"}})
            .find("'embed_tokens': the kind of model.embed_tokens is embedding;") !=
        std::string::npos);
  CHECK(refused({.rank = 8, .targets = {"q_proj"}, .trained_modules = {"lm_haed"}}) ==
        "--lora-train: no module with weights is called 'lm_haed'; there are down_proj, "
        "embed_tokens, gate_proj, input_layernorm, k_proj, lm_head, norm, o_proj, "
        "post_attention_layernorm, q_proj, up_proj, v_proj; did you mean 'lm_head'?");
  CHECK(refused({.rank = 8, .targets = {"q_proj,v_proj"}})
            .find("'q_proj,v_proj': each has a --lora-targets of its own") != std::string::npos);
  CHECK(refused({.rank = 8, .targets = {"lm_head"}, .trained_modules = {"lm_head"}}) ==
        "--lora-targets and --lora-train: all layers that the first names are trained whole by the "
        "second, and none is left to have an adapter");
  CHECK(refused({.rank = 8, .targets = {"q_proj"}}, {"lm_head"})
            .starts_with("--freeze has no meaning beside adapters"));
}

TEST_CASE("of experts PEFT takes some targets for parameters, which are refused") {
  const auto message = [](const std::string& model, const std::string& target) {
    return test::refusal_of(
        {.model = model, .tokens = 8, .adapters = Adapters{.targets = {target}}});
  };
  CHECK(message("mixtral-8x7b-v0.1", "all-linear")
            .find("PEFT takes 'all-linear' of family 'mixtral' for its experts' parameters too") !=
        std::string::npos);
  CHECK(message("qwen3-30b-a3b", "gate_proj").find("PEFT takes 'gate_proj'") != std::string::npos);
  CHECK(message("qwen3-30b-a3b", "q_proj") == "accepted");
  CHECK(message("mixtral-8x7b-v0.1", "experts") ==
        "--lora-targets: no linear layer is called 'experts'; there are k_proj, lm_head, o_proj, "
        "q_proj, v_proj; its experts' weights are parameters, not layers: adapters of them are not "
        "in this version");
}

TEST_CASE("PEFT leaves gpt-oss's experts out of all linear layers, and a note says so") {
  const LoadedModel model = load_model({.model = "gpt-oss-20b",
                                        .tokens = 8,
                                        .set = {{"layers", "1"}},
                                        .adapters = Adapters{.targets = {"all-linear"}}});
  CHECK(std::find(model.notes.begin(), model.notes.end(),
                  "--lora-targets all-linear: the experts' weights are parameters, not linear "
                  "layers: PEFT leaves them without adapters") != model.notes.end());
}

TEST_CASE("a layer that the model's numbers leave out is none to have an adapter") {
  CHECK(test::refusal_of(
            {.model = "t5-small", .tokens = 8, .adapters = Adapters{.targets = {"wi_0"}}}) ==
        "--lora-targets: no linear layer is called 'wi_0'; there are k, lm_head, o, q, v, wi, wo; "
        "did you mean 'wi'?");
}

TEST_CASE("DeepSeek's queries have the layers of PEFT's names, narrow ones or none") {
  const auto message = [](const std::string& model, const std::string& target) {
    return test::refusal_of({.model = model,
                             .tokens = 8,
                             .set = {{"layers", "2"}},
                             .adapters = Adapters{.targets = {target}}});
  };
  CHECK(message("deepseek-v2-lite", "q_proj") == "accepted");
  CHECK(message("deepseek-v2-lite", "q_b_proj").starts_with("--lora-targets: no linear layer"));
  CHECK(message("deepseek-v3", "q_b_proj") == "accepted");
  CHECK(message("deepseek-v3", "q_proj").starts_with("--lora-targets: no linear layer"));
}

}  // namespace cairn
