// Which file a model's name stands for: paths, the catalogue, the Hugging Face cache, user folders.

#include "models/find_model.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "graph/error.h"
#include "models/load_model.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

// An empty folder that is gone when the test is over.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ = fs::temp_directory_path() / ("cairn_find_model_" + std::to_string(getpid()));
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string write(const std::string& name, const std::string& text) const {
    const fs::path file = path_ / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return file.string();
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_ = {};
};

// Sets an environment variable, or unsets it for "", until the end of the scope.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Environment() { set(before_.value_or("")); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  void set(const std::string& value) const {
    if (value.empty()) {
      unsetenv(name_);
    } else {
      setenv(name_, value.c_str(), 1);
    }
  }

  const char* name_ = nullptr;
  std::optional<std::string> before_ = {};
};

const char* const kConfig =
    "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_hidden_layers\": 2,\n"
    " \"num_attention_heads\": 4, \"intermediate_size\": 128, \"vocab_size\": 100}\n";

const char* const kModel =
    "model: m\nfamily: llama\nsource: ours/tiny\n"
    "dims: {hidden: 64, layers: 2, heads: 4, ffn: 128, vocab: 100}\n";

std::string refusal(const std::string& model, const std::vector<fs::path>& folders = {}) {
  try {
    find_model(model, folders);
  } catch (const InputError& error) {
    const std::string message = error.what();
    return message.substr(0, message.find('\n'));
  }
  return "accepted";
}

std::string file_of(const std::string& model, const std::vector<fs::path>& folders = {}) {
  return find_model(model, folders).document.file_name;
}

}  // namespace

TEST_CASE("a path is a file of any kind, or a folder with a config.json") {
  const TemporaryFolder folder;
  const std::string config = folder.write("tiny/config.json", kConfig);
  const std::string model = folder.write("mine.yaml", kModel);
  const std::string graph = folder.write("g.yml", "cairn_graph: 1\nops: []\n");
  const std::string other = folder.write("without_ending", kModel);
  CHECK(find_model(config, {}).kind == ModelFileKind::kHfConfig);
  CHECK(find_model(config, {}).name == "tiny");  // of the folder: every config is a config.json
  CHECK(file_of((folder.path() / "tiny").string()) == config);
  CHECK(file_of((folder.path() / "tiny/").string()).ends_with("config.json"));
  CHECK(find_model(model, {}).kind == ModelFileKind::kModelFile);
  CHECK(find_model(model, {}).name == "mine");
  CHECK(find_model(graph, {}).kind == ModelFileKind::kPlainGraph);
  CHECK(file_of(other) == other);
}

TEST_CASE("a path that leads nowhere is refused as a path") {
  const TemporaryFolder folder;
  const std::string path = folder.path().string();
  CHECK(refusal(path + "/no.yaml") == path + "/no.yaml: expected a file, found none");
  CHECK(refusal("./no_such_model") == "./no_such_model: expected a file, found none");
  CHECK(refusal("no.json") == "no.json: expected a file, found none");
  CHECK(refusal(path) == path + ": expected a folder with a config.json, found none in it");
  CHECK(refusal("..") == "..: expected a folder with a config.json, found none in it");
  CHECK(refusal("") == "expected a model, found an empty name");
  const std::string empty = folder.write("empty.yaml", "");
  CHECK(refusal(empty) == empty + ":1:1: expected a document, found an empty file");
}

TEST_CASE("a catalogue name is found whatever the case of its letters, or by where it comes from") {
  CHECK(file_of("llama-3.1-8b") == "models/catalogue/llama-3.1-8b.yaml");
  CHECK(find_model("Llama-3.1-8B", {}).name == "llama-3.1-8b");
  const TemporaryFolder no_cache;
  const Environment hub("HF_HUB_CACHE", no_cache.path().string());
  CHECK(file_of("meta-llama/Llama-3.1-8B") == "models/catalogue/llama-3.1-8b.yaml");
  CHECK(file_of("META-llama/llama-3.1-8b") == "models/catalogue/llama-3.1-8b.yaml");
}

TEST_CASE("a model trained otherwise has the catalogue's sizes, and a note says which was taken") {
  const TemporaryFolder folder;
  const Environment hub("HF_HUB_CACHE", folder.path().string());
  const FoundModel found = find_model("meta-llama/Llama-3.1-8B-Instruct", {});
  CHECK(found.name == "llama-3.1-8b");
  CHECK(found.note ==
        "'meta-llama/Llama-3.1-8B-Instruct' is taken by its name for the catalogue's llama-3.1-8b, "
        "with the sizes of meta-llama/Llama-3.1-8B");
  CHECK(find_model("microsoft/resnet-50", {}).note ==
        "'microsoft/resnet-50' is taken by its name for the catalogue's resnet-50");
  CHECK(find_model("llama-3.1-8b", {}).note.empty());
  CHECK(find_model("meta-llama/Llama-3.1-8B", {}).note.empty());
  CHECK(
      load_model({.model = "Qwen/Qwen2.5-7B"}).notes.front().starts_with("'Qwen/Qwen2.5-7B' is "));
  // A model of the cache is itself.
  folder.write("models--Qwen--Qwen2.5-7B/snapshots/a/config.json", kConfig);
  CHECK(find_model("Qwen/Qwen2.5-7B", {}).name == "Qwen/Qwen2.5-7B");
}

TEST_CASE("a config's model is named for its folder, also for the folder one is in") {
  const TemporaryFolder folder;
  folder.write("tiny/config.json", kConfig);
  const fs::path before = fs::current_path();
  fs::current_path(folder.path() / "tiny");
  const std::string here = find_model(".", {}).name;
  const std::string there = find_model("../tiny/", {}).name;
  fs::current_path(before);
  CHECK(here == "tiny");
  CHECK(there == "tiny");
}

TEST_CASE("models are listed by their family's name and title too") {
  CHECK(list_catalogue("gpt_neox", {}).size() >= 8);
  const std::vector<CatalogueEntry> mixtures = list_catalogue("MoE", {});
  CHECK(mixtures.size() == list_catalogue("experts", {}).size());
  REQUIRE_FALSE(mixtures.empty());
  for (const CatalogueEntry& entry : mixtures) {
    CHECK(entry.active_parameter_count < entry.parameter_count);
  }
}

TEST_CASE("an unknown name is answered with the nearest ones") {
  CHECK(refusal("gpt3") ==
        "unknown model 'gpt3'; the catalogue has gpt3-175b (a file, a catalogue name as `cairn "
        "models` lists them, or org/name in the Hugging Face cache)");
  CHECK(refusal("llamma-3.1-8b") ==
        "unknown model 'llamma-3.1-8b'; did you mean 'llama-3.1-8b'? (a file, a catalogue name as "
        "`cairn models` lists them, or org/name in the Hugging Face cache)");
  CHECK(refusal("xyzzy") ==
        "unknown model 'xyzzy' (a file, a catalogue name as `cairn models` lists them, or "
        "org/name in the Hugging Face cache)");
}

TEST_CASE("org/name is looked up in the Hugging Face cache, at the revision of main") {
  const TemporaryFolder folder;
  const Environment hub("HF_HUB_CACHE", "");
  const Environment home("HF_HOME", folder.path().string());
  const std::string repository = "hub/models--ours--tiny/";
  folder.write(repository + "snapshots/aaa/config.json", kConfig);
  const std::string wanted = folder.write(repository + "snapshots/bbb/config.json", kConfig);
  CHECK(file_of("ours/tiny").ends_with("snapshots/aaa/config.json"));  // no main: the first
  folder.write(repository + "refs/main", "bbb");
  CHECK(file_of("ours/tiny") == wanted);
  CHECK(find_model("ours/tiny", {}).name == "ours/tiny");
  CHECK(find_model("ours/tiny", {}).kind == ModelFileKind::kHfConfig);
  folder.write(repository + "refs/main", "gone\n");
  CHECK(file_of("ours/tiny").ends_with("snapshots/aaa/config.json"));
  folder.write(repository + "refs/main", "../../../elsewhere");
  CHECK(file_of("ours/tiny").ends_with("snapshots/aaa/config.json"));
}

TEST_CASE("the cache is HF_HUB_CACHE, else HF_HOME/hub, else below the home folder") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& cache) {
    return folder.write(cache + "/models--ours--tiny/snapshots/a/config.json", kConfig);
  };
  const std::string in_cache = write("cache");
  const std::string in_home = write("hf/hub");
  const std::string in_default = write("home/.cache/huggingface/hub");
  const Environment home("HOME", (folder.path() / "home").string());
  {
    const Environment hf_home("HF_HOME", (folder.path() / "hf").string());
    {
      const Environment hub("HF_HUB_CACHE", (folder.path() / "cache").string());
      CHECK(file_of("ours/tiny") == in_cache);
    }
    const Environment hub("HF_HUB_CACHE", "");
    CHECK(file_of("ours/tiny") == in_home);
  }
  const Environment hub("HF_HUB_CACHE", "");
  const Environment hf_home("HF_HOME", "");
  CHECK(file_of("ours/tiny") == in_default);
}

TEST_CASE("org/name that is nowhere is refused, with the folder that was searched") {
  const TemporaryFolder folder;
  const Environment hub("HF_HUB_CACHE", folder.path().string());
  const std::string end = ": no such file, not in the Hugging Face cache (" +
                          folder.path().string() +
                          "), and no model of the catalogue comes from there or has that name; "
                          "`cairn models` lists the catalogue";
  CHECK(refusal("ours/none") == "unknown model 'ours/none'" + end);
  // Neither leads out of the cache.
  CHECK(refusal("ours/..") == "unknown model 'ours/..'" + end);
  CHECK(refusal("a/b/c") == "unknown model 'a/b/c'" + end);
  CHECK(refusal("ours/") == "unknown model 'ours/'" + end);
}

TEST_CASE("a user's folder adds models, whatever their names, and hides those of Cairn") {
  const TemporaryFolder folder;
  const std::string mine = folder.write("catalogue/MyTiny.yaml", kModel);
  const std::string gpt2 = folder.write("catalogue/gpt2.yaml", kModel);
  const std::vector<fs::path> folders = {folder.path()};
  CHECK(file_of("MyTiny", folders) == mine);
  CHECK(file_of("mytiny", folders) == mine);
  CHECK(file_of("gpt2", folders) == gpt2);
  const Environment hub("HF_HUB_CACHE", folder.path().string());
  CHECK(load_model({.model = "ours/tiny", .folders = folders}).family == "llama");
  // All of it can be listed.
  const std::vector<CatalogueEntry> entries = list_catalogue("tiny", folders);
  REQUIRE(entries.size() >= 2);
  CHECK(entries[0].name == "MyTiny");
}

TEST_CASE("a folder of models has to be one") {
  const TemporaryFolder folder;
  const std::string file = folder.write("file", "x");
  CHECK(refusal("gpt2", {file}) == file + ": expected a folder of model files, found a file");
  const std::string none = (folder.path() / "none").string();
  CHECK(refusal("gpt2", {none}) ==
        none + ": expected a folder of model files, found nothing there");
}

TEST_CASE("a new architecture is one YAML file, with a layer of its own where it needs one") {
  const TemporaryFolder folder;
  folder.write("families/toy.yaml",
               "family: toy\n"
               "model_types: [toy_net]\n"
               "dims: {hidden: d_model, layers: n_layers, vocab: vocab_size}\n"
               "inputs:\n"
               "  ids:    {dtype: int64, shape: [batch, tokens]}\n"
               "  labels: {dtype: int64, shape: [batch, tokens]}\n"
               "implementations: {gelu: toy_gelu}\n"
               "ops:\n"
               "  - embed: {op: embedding, in: ids, rows: vocab, width: hidden}\n"
               "  - repeat: layers\n"
               "    carry: {x: embed}\n"
               "    ops:\n"
               "      - up:  {op: linear, in: x, width: 2 * hidden}\n"
               "      - act: {op: gelu, in: up}\n"
               "      - x:   {op: linear, in: act, width: hidden}\n"
               "  - logits: {op: linear, in: x, width: vocab, weight: embed, logits: true}\n"
               "  - loss:   {op: cross_entropy, in: [logits, labels]}\n");
  folder.write("layers/toy_gelu.yaml",
               "layer: toy_gelu\nof: gelu\ninputs: [x]\nops:\n"
               "  - cube: {op: pow, in: x}\n"
               "  - out: {op: tanh, in: cube}\n");
  folder.write("catalogue/toy-1.yaml",
               "model: toy-1\nfamily: toy\ndims: {hidden: 8, layers: 3, vocab: 16}\n");
  const std::string config =
      folder.write("config.json",
                   "{\"model_type\": \"toy_net\", \"d_model\": 8, \"n_layers\": 3, "
                   "\"vocab_size\": 16}");
  const std::vector<fs::path> folders = {folder.path()};
  for (const std::string& model : {std::string("toy-1"), config}) {
    const LoadedModel loaded = load_model({.model = model, .tokens = 4, .folders = folders});
    CHECK(loaded.family == "toy");
    // The table 16 * 8, and in each of 3 layers two weights of 8 * 16.
    CHECK(parameter_count(loaded.graph) == 128 + 3 * 256);
    // embed, 3 * (up, cube, act, x), logits, loss
    CHECK(loaded.graph.ops.size() == 15);
  }
  const std::string unknown = refusal(config);
  CHECK(unknown == "accepted");  // found; which family it is comes later
  CHECK_THROWS_AS(load_model({.model = config}), InputError);
}

}  // namespace cairn
