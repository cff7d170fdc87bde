// Whose code runs a model: the family of a library that stands for the model's own.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "graph/error.h"
#include "models/families.h"
#include "models/library.h"
#include "models/load_model.h"

namespace cairn {
namespace {

const char* const kLlama =
    "model: m\nfamily: llama\ndims: {hidden: 64, layers: 2, heads: 4, ffn: 128, vocab: 100}\n";

LoadedModel loaded(const std::string& library, const Folders& folders = {},
                   const std::string& model = kLlama) {
  return load_found_model({.tokens = 4, .library = library, .folders = folders},
                          classify_model(parse_document("model", model), "m"));
}

std::string refusal(const std::string& library, const Folders& folders = {},
                    const std::string& model = kLlama) {
  try {
    loaded(library, folders, model);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

// A folder with families/NAME.yaml, copies of torchtune's llama under other names.
class CopiedFamilies {
 public:
  explicit CopiedFamilies(const std::string& name) {
    std::filesystem::create_directories(folder_ / "families");
    const std::vector<LibraryFile> files = library_files("families", {});
    std::string text(find_library_file(files, "llama_torchtune")->embedded_text);
    text.replace(text.find("llama_torchtune"), 15, name);
    std::ofstream(folder_ / "families" / (name + ".yaml")) << text;
  }
  ~CopiedFamilies() { std::filesystem::remove_all(folder_); }
  CopiedFamilies(const CopiedFamilies&) = delete;
  CopiedFamilies& operator=(const CopiedFamilies&) = delete;

  Folders folders() const { return {folder_}; }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("cairn_elsewhere_{}", fmt::ptr(this));
};

}  // namespace

TEST_CASE("a library's own family stands for the model's, with the same numbers") {
  CHECK(loaded("").family == "llama");
  CHECK(loaded("hf").family == "llama");
  const LoadedModel elsewhere = loaded("torchtune");
  CHECK(elsewhere.family == "llama_torchtune");
  CHECK(parameter_count(elsewhere.graph) == parameter_count(loaded("").graph));
}

TEST_CASE(
    "a library that is not there, or has no code for a family, is refused with what there is") {
  CHECK(refusal("torchtun") ==
        "--library torchtun: no such library; family 'llama' has code of: hf, lit-gpt, litgpt, "
        "torchtitan, torchtune; did you mean 'torchtune'?");
  const std::string t5 = "model: m\nfamily: gemma\ndims: {}\n";
  CHECK(refusal("torchtune", {}, t5) ==
        "--library torchtune: it has no code for family 'gemma', which has that of: hf; it has "
        "for: llama");
  const std::string unet = "model: m\nfamily: unet\ndims: {}\n";
  CHECK(refusal("megatron", {}, unet) ==
        "--library megatron: it has no code for family 'unet', which has that of: none; it has "
        "for: megatron_gpt");
}

TEST_CASE("two families of one library that stand for a family are refused") {
  const CopiedFamilies copied("another");
  CHECK(refusal("torchtune", copied.folders()) ==
        "--library torchtune: families 'another' and 'llama_torchtune' both stand for 'llama'");
}

TEST_CASE("what a library's code cannot run is refused at the number") {
  const std::string biased =
      std::string(kLlama).replace(std::string(kLlama).find("vocab"), 5, "qkv_bias: true, vocab");
  CHECK(refusal("torchtune", {}, biased).find("this library's Llama has no biases") !=
        std::string::npos);
}

TEST_CASE("families that stand for others name some that are there") {
  const std::vector<LibraryFile> files = library_files("families", {});
  for (const LibraryFile& file : files) {
    for (const std::string& name : family_stands_for(read_library_file(file))) {
      CAPTURE(file.stem);
      CHECK(find_library_file(files, name) != nullptr);
    }
  }
}

}  // namespace cairn
