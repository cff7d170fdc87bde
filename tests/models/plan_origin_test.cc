#include "models/plan_origin.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "graph/error.h"
#include "models/plan_file.h"
#include "tests/docs/fenced_files.h"
#include "tests/seed.h"
#include "tests/sim/random_graph.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

Document document_of(const std::string& text) { return parse_document("folder/mine.yaml", text); }

// The message's first line, without its place.
std::string refusal(const std::string& text, const ModelRequest& request) {
  try {
    check_plan_origin(document_of(text), request, load_model(request));
    return "accepted";
  } catch (const InputError& error) {
    const std::string message = error.what();
    const std::size_t begin = message.find("another graph: ");
    return begin == std::string::npos ? message
                                      : message.substr(begin + 15, message.find('\n') - begin - 15);
  }
}

std::string text_of(const ModelRequest& request) {
  return "cairn_plan: 1\n" + plan_origin_text(plan_origin(request, load_model(request)));
}

const ModelRequest kSmall = {.model = "gpt2", .batch = 2, .tokens = 16, .set = {{"layers", "2"}}};

ModelRequest with(void (*change)(ModelRequest&)) {
  ModelRequest request = kSmall;
  change(request);
  return request;
}

Adapters random_adapters(Random& random) {
  Adapters adapters{.rank = static_cast<std::int64_t>(1 + pick(random, 99))};
  if (one_in(random, 2)) adapters.targets = {"*.q_proj", "all-linear"};
  if (one_in(random, 2)) adapters.dropout = 0.1;
  if (one_in(random, 2)) adapters.alpha = 6.5;
  adapters.scales_by_root = one_in(random, 2);
  if (one_in(random, 2)) adapters.data_type = DataType::kFloat16;
  adapters.has_magnitudes = one_in(random, 2);
  if (one_in(random, 2)) adapters.trained_modules = {"lm_head", "a, b"};
  return adapters;
}

Quantization random_quantization(Random& random) {
  Quantization quantization;
  if (one_in(random, 3)) return {.format = QuantizedFormat::kInt8, .is_double = false};
  if (one_in(random, 2)) quantization.format = QuantizedFormat::kFp4;
  quantization.is_double = one_in(random, 2);
  if (one_in(random, 2)) quantization.compute_type = DataType::kBFloat16;
  if (one_in(random, 2)) quantization.skipped_modules = {"*.down_proj"};
  return quantization;
}

// All kinds of options, as nobody has them together.
ModelRequest random_request(Random& random) {
  ModelRequest request{.model = one_in(random, 2) ? "gpt2" : "org/a: name",
                       .batch = static_cast<std::int64_t>(1 + pick(random, 9)),
                       .step = random_training_step(random)};
  const auto maybe = [&](auto& value, auto given) {
    if (one_in(random, 2)) value = given;
  };
  maybe(request.tokens, 8192);
  maybe(request.vocab, 50304);
  maybe(request.set, std::vector<std::pair<std::string, std::string>>{
                         {"layers", "4"}, {"a b", "07"}, {"activation", "yes"}, {"rate", "0.1"}});
  maybe(request.precision, *find_precision("autocast-bf16"));
  maybe(request.optimizer, "lion");
  maybe(request.implementations,
        std::map<std::string, std::string>{{"loss", "cut"}, {"mlp", "hf"}});
  maybe(request.freeze, std::vector<std::string>{"*norm*", "model.layers.?", "\"\\\n\t, ]"});
  maybe(request.train_only, std::vector<std::string>{"lm_head"});
  maybe(request.optimizer_state_type, DataType::kBFloat16);
  maybe(request.library, "torchtune");
  maybe(request.adapters, random_adapters(random));
  maybe(request.quantization, random_quantization(random));
  maybe(request.expert_imbalance, 1.1);
  maybe(request.expert_capacity, 1e300);
  maybe(request.text_part_only, true);
  maybe(request.folders, std::vector<fs::path>{"/models", "/with space/and 'quotes'"});
  return request;
}

TEST_CASE("plan and origin that are written and read are the same, and written again too") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  constexpr Extent kExtents[] = {Extent::kNeeded, Extent::kPrefix, Extent::kWhole};
  for (int i = 0; i < 300; ++i) {
    const Graph graph = random_graph(random);
    Plan plan = random_plan(graph, kExtents[pick(random, 3)], random);
    plan.algorithm = "random";
    const PlanOrigin origin{.model = random_request(random),
                            .is_file = false,
                            .graph = fingerprint_of(graph, {.step = random_training_step(random)})};
    const std::string text = plan_file_text(graph, plan, origin);
    CAPTURE(text);
    const Document document = document_of(text);
    const PlanOrigin again = read_plan_origin(document);
    CHECK(again.graph == origin.graph);
    CHECK(again.is_file == origin.is_file);
    CHECK(again.model->model == origin.model->model);
    CHECK(again.model->set == origin.model->set);
    CHECK(again.model->freeze == origin.model->freeze);
    CHECK(again.model->folders == origin.model->folders);
    CHECK(again.model->adapters == origin.model->adapters);
    CHECK(again.model->quantization == origin.model->quantization);
    CHECK(again.model->optimizer_state_type == origin.model->optimizer_state_type);
    CHECK(again.model->library == origin.model->library);
    CHECK(again.model->step.main_gradient_type == origin.model->step.main_gradient_type);
    CHECK(again.model->expert_capacity == origin.model->expert_capacity);
    CHECK(plan_file_text(graph, read_plan(document, graph, std::nullopt), again) == text);
  }
}

TEST_CASE("what a plan file says of its model makes the same graph again") {
  const ModelRequest image{.model = "resnet-50", .batch = 2, .optimizer = "sgd"};
  const ModelRequest language{.model = "llama-3.2-1b",
                              .tokens = 64,
                              .vocab = 1000,
                              .set = {{"layers", "2"}},
                              .precision = find_precision("autocast-bf16"),
                              .step = {.micro_batches = 3, .keeps_gradients = true},
                              .implementations = {{"norm", "hf"}},
                              .freeze = {"*norm*"}};
  const ModelRequest experts{.model = "mixtral-8x7b-v0.1",
                             .tokens = 32,
                             .set = {{"layers", "1"}},
                             .expert_imbalance = 1.5};
  for (const ModelRequest& request : {kSmall, image, language, experts}) {
    CAPTURE(request.model);
    const std::string text = text_of(request);
    const ModelRequest again = *read_plan_origin(document_of(text)).model;
    CHECK(text_of(again) == text);
    CHECK(refusal(text, request) == "accepted");
    CHECK(refusal(text, again) == "accepted");
  }
}

TEST_CASE("a plan serves a model with other numbers that change no byte") {
  const auto llama = [](std::vector<std::pair<std::string, std::string>> set,
                        std::optional<double> alpha) {
    set.emplace_back("layers", "2");
    return ModelRequest{.model = "llama-3.2-1b",
                        .tokens = 16,
                        .set = std::move(set),
                        .adapters = Adapters{.alpha = alpha}};
  };
  const std::string text = text_of(llama({{"epsilon", "1e-3"}}, 5.0));
  CHECK(text.find("epsilon: \"1e-3\"") != std::string::npos);
  CHECK(text.find("alpha: 5") != std::string::npos);
  CHECK(refusal(text, llama({}, std::nullopt)) == "accepted");
  CHECK(refusal(text, llama({{"hidden", "64"}, {"heads", "4"}, {"kv_heads", "4"}}, 5.0)) !=
        "accepted");
}

TEST_CASE("a plan for another graph is refused in the words of what was asked for") {
  const std::string text = text_of(kSmall);
  const auto refused = [&](void (*change)(ModelRequest&)) { return refusal(text, with(change)); };
  CHECK(refused([](ModelRequest& r) { r.batch = 4; }) ==
        "made for batch 2 x 16 tokens, this is batch 4 x 16 tokens; shapes differ: 'ids' was "
        "[2, 16] int64, here it is [4, 16] int64");
  CHECK(refused([](ModelRequest& r) { r.tokens = 8; }) ==
        "made for batch 2 x 16 tokens, this is batch 2 x 8 tokens; shapes differ: 'ids' was "
        "[2, 16] int64, here it is [2, 8] int64");
  CHECK(refused([](ModelRequest& r) { r.optimizer = "sgd"; }) ==
        "made with --optimizer adamw, this is with sgd; recipe differs");
  CHECK(refused([](ModelRequest& r) { r.step.optimizer_in_backward = true; }) ==
        "made without --optimizer-in-backward, this is with it; recipe differs");
  CHECK(refused([](ModelRequest& r) { r.step.micro_batches = 2; }) ==
        "made with --accumulate 1, this is with 2; recipe differs");
  CHECK(refused([](ModelRequest& r) { r.precision = find_precision("fp32"); }) ==
        "made with --precision bf16, this is with fp32; ops differ (49 ops then, 48 here): "
        "'wte.weight' was [50257, 768] bf16, here it is [50257, 768] fp32");
  CHECK(refused([](ModelRequest& r) { r.vocab = 8; }) ==
        "made without --vocab 8, this is with it; shapes differ: 'wte.weight' was [50257, 768] "
        "bf16, here it is [8, 768] bf16");
  CHECK(refused([](ModelRequest& r) { r.set = {}; }) ==
        "made with --set {layers: 2}, this is without; ops differ (49 ops then, 249 here): op 45 "
        "was 'norm' (layer_norm), here it is 'h.2.norm1' (layer_norm)");
  CHECK(refused([](ModelRequest& r) { r.freeze = {"*wte"}; }) ==
        "made without --freeze [\"*wte\"], this is with it; saved sets, recipe differ: op 'wte' "
        "saved 'ids', here nothing");
  CHECK(refused([](ModelRequest& r) { r.model = "gpt2-medium"; }) ==
        "made for gpt2, this is gpt2-medium; shapes differ: 'wte.weight' was [50257, 768] bf16, "
        "here it is [50257, 1024] bf16");
  CHECK(refused([](ModelRequest& r) {
          r = {.model = "llama-3.2-1b", .precision = find_precision("fp32"), .optimizer = "sgd"};
        }) ==
        "made for gpt2, this is llama-3.2-1b; made for batch 2 x 16 tokens, this is batch 1 x "
        "2,048 tokens; made with --set {layers: 2}, this is without; made with --precision bf16, "
        "this is with fp32; made with --optimizer adamw, this is with sgd; ops differ (49 ops "
        "then, 618 here): op 1 was 'wte' (embedding), here it is 'embed' (embedding)");
}

TEST_CASE("a plan file whose graph cannot be made any more tells where it differs all the same") {
  std::string text = text_of(with([](ModelRequest& r) { r.batch = 4; }));
  text.replace(text.find("gpt2"), 4, "gone");
  CHECK(refusal(text, kSmall) ==
        "made for gone, this is gpt2; made for batch 4 x 16 tokens, this is batch 2 x 16 tokens; "
        "shapes differ, first in ops 'wte' to 'embed'");
}

TEST_CASE("paths in a plan file are as seen from its folder") {
  const test::TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::create_directories(folder.path() / "a/b");
  fs::create_directories(folder.path() / "c/d");
  fs::create_directory_symlink(folder.path() / "c/d", folder.path() / "link");
  fs::current_path(folder.path() / "a");
  const PlanOrigin origin{
      .model = ModelRequest{.model = "b/x.yaml", .folders = {"..", folder.path()}},
      .is_file = true};
  const auto seen = [&](const fs::path& from) { return *seen_from(origin, from).model; };
  CHECK(seen("").model == "b/x.yaml");
  CHECK(seen("b").model == "x.yaml");
  CHECK(seen("..").model == "a/b/x.yaml");
  CHECK(seen("../link").model == "../../a/b/x.yaml");  // from c/d
  CHECK(seen(folder.path() / "c").model == "../a/b/x.yaml");
  CHECK(seen("b").folders == std::vector<fs::path>{"../..", "../.."});
  fs::current_path(before);

  const ModelRequest read =
      *read_plan_origin(document_of("{cairn_plan: 1, model: {file: ../x.yaml, models: [m, /n]}}"))
           .model;
  CHECK(read.model == "folder/../x.yaml");
  CHECK(read.folders == std::vector<fs::path>{"folder/m", "/n"});
}

}  // namespace
}  // namespace cairn
