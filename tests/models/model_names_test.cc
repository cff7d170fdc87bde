// What people call a model, and which of the catalogue's they mean.

#include "models/model_names.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace cairn {
namespace {

std::string found(const std::string& name) {
  const std::vector<LibraryFile> catalogue = library_files("catalogue", {});
  const std::vector<NamedModel> models = named_models(catalogue);
  const NamedModel* const model = find_by_plain_name(models, name);
  return model == nullptr ? "none" : model->file->stem;
}

std::string offer(const std::string& name) {
  const std::vector<LibraryFile> catalogue = library_files("catalogue", {});
  return offer_models(named_models(catalogue), name);
}

TEST_CASE("a plain name says nothing of how the weights were trained") {
  CHECK(plain_model_name("meta-llama/Meta-Llama-3.1-8B-Instruct") == "llama-3.1-8b");
  CHECK(plain_model_name("meta-llama/Llama-2-7b-chat-hf") == "llama-2-7b");
  CHECK(plain_model_name("Qwen3-4B-Instruct-2507") == "qwen3-4b");
  CHECK(plain_model_name("mistralai/Mixtral-8x7B-Instruct-v0.1") == "mixtral-8x7b-v0.1");
  CHECK(plain_model_name("google/gemma-2-9b-it") == "gemma-2-9b");
  // What it does not know stays: another model, or other sizes.
  CHECK(plain_model_name("Phi-3-mini-128k-instruct") == "phi-3-mini-128k");
  CHECK(plain_model_name("Qwen/Qwen2.5-7B-Instruct-AWQ") == "qwen2.5-7b-instruct-awq");
  CHECK(plain_model_name("-it") == "-it");
  CHECK(plain_model_name("") == "");
  CHECK(plain_model_name("a-v") == "a-v");
}

TEST_CASE("a model of the same plain name is found, by the catalogue's name or its source's") {
  CHECK(found("Qwen/Qwen2.5-7B") == "qwen2.5-7b");  // the source is the -Instruct repository
  CHECK(found("meta-llama/Llama-3.1-8B-Instruct") == "llama-3.1-8b");
  CHECK(found("meta-llama/Meta-Llama-3.1-8B") == "llama-3.1-8b");
  CHECK(found("google/gemma-2-9b-it") == "gemma-2-9b");
  CHECK(found("mistralai/Mistral-7B-Instruct-v0.3") == "mistral-7b-v0.3");
  CHECK(found("Llama-3.1-8B-Instruct") == "llama-3.1-8b");
  CHECK(found("Qwen3-4B-Instruct-2507") == "qwen3-4b");
  CHECK(found("Mixtral-8x7B-Instruct-v0.1") == "mixtral-8x7b-v0.1");
  CHECK(found("TinyLlama-1.1B-Chat-v1.0") == "tinyllama-1.1b");  // of the source
  CHECK(found("elsewhere/t5-base") == "t5-base");                // there -base is a size
}

TEST_CASE("a model of another size, or of several, is not found") {
  CHECK(found("facebook/opt-350m") == "none");
  CHECK(found("google/flan-t5-base") == "none");
  CHECK(found("mistralai/Mistral-7B-Instruct") == "none");  // v0.1, v0.2, v0.3
  CHECK(found("Qwen/Qwen2.5-Coder-7B-Instruct") == "none");
  CHECK(found("") == "none");
}

TEST_CASE("a name that some begin like offers these, at most six") {
  CHECK(offer("llama3") ==
        "; the catalogue has llama-3-70b, llama-3-8b, llama-3.1-405b, llama-3.1-70b, "
        "llama-3.1-8b, llama-3.2-1b and 1 more");
  CHECK(offer("phi3") == "; the catalogue has phi-3-mini-4k, phi-3.5-mini");
  CHECK(offer("phi3-mini") == "; the catalogue has phi-3-mini-4k");
  CHECK(offer("vit_b_16") == "; the catalogue has vit-base-patch16-224");
  CHECK(offer("gemma3-27b") == "; the catalogue has gemma-3-1b");
  CHECK(offer("gpt_neox").starts_with("; the catalogue has pythia-1.4b, "));  // their family
  CHECK(offer("Qwen/Qwen2.5-Coder-7B").starts_with("; the catalogue has qwen2.5-7b, "));
}

TEST_CASE("a slip is answered with the name that was meant, never with another size") {
  CHECK(offer("gpt-2") == "; did you mean 'gpt2'?");
  CHECK(offer("llamma-3.1-8b") == "; did you mean 'llama-3.1-8b'?");
  CHECK(offer("resnt-50") == "; did you mean 'resnet-50'?");
  CHECK(offer("opt-350m") ==
        "; the catalogue has opt-1.3b, opt-125m, opt-13b, opt-2.7b, opt-30b, opt-6.7b and 1 more");
  CHECK(offer("gpt22") == "; did you mean 'gpt2'?");
  CHECK(offer("phi-2") == "; the catalogue has phi-3-mini-4k, phi-3.5-mini, phi-4, phi-4-mini");
  CHECK(offer("densenet-264") ==
        "; the catalogue has densenet-121, densenet-161, densenet-169, densenet-201");
  CHECK(offer("vgg17").starts_with("; the catalogue has vgg-11, "));
  CHECK(offer("flan-t5-base") == "; the catalogue has flan-t5-xxl");
  CHECK(offer("xyzzy") == "");
  CHECK(offer("x") == "");
  CHECK(offer("") == "");
}

TEST_CASE("a part of a name is one whatever its case and its hyphens") {
  CHECK(is_part_of_name("", "gpt2"));
  CHECK(is_part_of_name("LLaMA3", "llama-3-8b"));
  CHECK(is_part_of_name("mixture of Experts", "Mixtral (mixture of experts, MoE)"));
  CHECK_FALSE(is_part_of_name("gpt2", "gpt-neox"));
  CHECK_FALSE(is_part_of_name("-.", "gpt2"));
}

}  // namespace
}  // namespace cairn
