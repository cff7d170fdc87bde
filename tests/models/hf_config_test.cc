// What Cairn makes of a Hugging Face config.json, spelt the way configs are.

#include <doctest/doctest.h>

#include <string>

#include "graph/error.h"
#include "models/find_model.h"
#include "models/load_model.h"

namespace cairn {
namespace {

LoadedModel loaded(const std::string& config, ModelRequest request = {}) {
  request.tokens = 4;
  return load_found_model(request, classify_model(parse_document("config", config), "m"));
}

std::string refusal(const std::string& config) {
  try {
    loaded(config);
  } catch (const InputError& error) {
    const std::string message = error.what();
    return message.substr(0, message.find('\n'));
  }
  return "accepted";
}

std::string dim(const LoadedModel& model, const std::string& name) {
  for (const ResolvedDim& each : model.dims) {
    if (each.name == name) return spell(each.value);
  }
  return "none";
}

// A small llama config with more keys in front.
std::string llama(const std::string& more = "") {
  return "{" + more +
         "\"model_type\": \"llama\", \"hidden_size\": 64, \"num_hidden_layers\": 2, "
         "\"num_attention_heads\": 4, \"intermediate_size\": 128, \"vocab_size\": 100}";
}

bool has_note(const LoadedModel& model, const std::string& part) {
  for (const std::string& note : model.notes) {
    if (note.find(part) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("keys that a config leaves out have the values that Transformers gives them") {
  const LoadedModel model = loaded(llama());
  CHECK(model.family == "llama");
  CHECK(dim(model, "kv_heads") == "4");   // as many as heads
  CHECK(dim(model, "head_dim") == "16");  // 64 / 4
  CHECK(dim(model, "tied") == "0");
  CHECK(dim(model, "qkv_bias") == "0");
  CHECK(dim(model, "attention_dropout") == "0");
  CHECK(dim(model, "activation") == "'silu'");
  CHECK(dim(model, "batch") == "1");
  CHECK(dim(model, "tokens") == "4");
  CHECK(model.recipe.precision.parameter_type == DataType::kBFloat16);
  // Embedding 100 x 64 and head; per layer q k v o 4 x 64 x 64, MLP 3 x 64 x 128, two norms of 64;
  // the last norm: 12800 + 2 x (16384 + 24576 + 128) + 64.
  CHECK(parameter_count(model.graph) == 12800 + 2 * 41088 + 64);
}

TEST_CASE("a Mistral config without num_key_value_heads has 8, as Transformers' MistralConfig") {
  const std::string mistral =
      "{\"model_type\": \"mistral\", \"hidden_size\": 64, \"num_hidden_layers\": 2, "
      "\"num_attention_heads\": 16, \"intermediate_size\": 128, \"vocab_size\": 100}";
  CHECK(dim(loaded(mistral), "kv_heads") == "8");
}

TEST_CASE("head_dim need not be hidden / heads") {
  const LoadedModel model = loaded(llama("\"head_dim\": 32, \"num_key_value_heads\": 2, "));
  CHECK(dim(model, "head_dim") == "32");
  // q and o 64 x 128 each, k and v 64 x 64 each.
  CHECK(parameter_count(model.graph) == 12800 + 2 * (2 * 8192 + 2 * 4096 + 24576 + 128) + 64);
}

TEST_CASE("tied embeddings are one parameter") {
  CHECK(parameter_count(loaded(llama("\"tie_word_embeddings\": true, ")).graph) ==
        6400 + 2 * 41088 + 64);
}

TEST_CASE("null is as good as absent") {
  const LoadedModel model =
      loaded(llama("\"num_key_value_heads\": null, \"head_dim\": null, \"sliding_window\": null, "
                   "\"torch_dtype\": null, \"text_config\": null, "));
  CHECK(dim(model, "kv_heads") == "4");
  CHECK(dim(model, "head_dim") == "16");
}

TEST_CASE("an integer may be written as a float without a fraction") {
  CHECK(dim(loaded(llama("\"max_position_embeddings\": 4096.0, ")), "max_tokens") == "4096");
  CHECK(refusal(llama("\"max_position_embeddings\": 4096.5, ")) ==
        "config:1:29: key 'max_position_embeddings': expected an integer, found '4096.5'");
  CHECK(refusal(llama("\"max_position_embeddings\": 4e3, ")) ==
        "config:1:29: key 'max_position_embeddings': expected an integer, found '4e3'");
}

TEST_CASE("keys that no dim names are ignored, whatever they hold") {
  CHECK(refusal(llama("\"rope_scaling\": {\"factor\": [1, 2]}, \"quantize\": \"no\", ")) ==
        "accepted");
}

TEST_CASE("the type of the weights is dtype or torch_dtype, with or without torch.") {
  CHECK(loaded(llama("\"torch_dtype\": \"float16\", ")).recipe.precision.parameter_type ==
        DataType::kFloat16);
  CHECK(loaded(llama("\"dtype\": \"float32\", ")).recipe.precision.parameter_type ==
        DataType::kFloat32);
  CHECK(loaded(llama("\"dtype\": \"torch.bfloat16\", ")).recipe.precision.parameter_type ==
        DataType::kBFloat16);
  // The newer spelling wins where both are there.
  CHECK(loaded(llama("\"torch_dtype\": \"float32\", \"dtype\": \"float16\", "))
            .recipe.precision.parameter_type == DataType::kFloat16);
  const LoadedModel unknown = loaded(llama("\"dtype\": \"float8_e4m3\", "));
  CHECK(unknown.recipe.precision.parameter_type == DataType::kBFloat16);
  CHECK(has_note(unknown, "the config's dtype 'float8_e4m3' is not known: bf16 is taken"));
}

TEST_CASE("the text part of a model with more parts is taken when it is asked for") {
  const std::string nested =
      "{\"model_type\": \"llava\", \"dtype\": \"float16\", \"vocab_size\": 7, \"audio_config\": "
      "{}, "
      "\"vision_config\": {}, \"text_config\": " +
      llama() + "}";
  const LoadedModel model = loaded(nested, {.text_part_only = true});
  CHECK(model.family == "llama");
  CHECK(dim(model, "vocab") == "100");  // the text part's own
  CHECK(model.recipe.precision.parameter_type == DataType::kFloat16);
  CHECK(has_note(model,
                 "only the text part (text_config) is counted, not a vision encoder (key "
                 "'vision_config') and an audio encoder (key 'audio_config')"));
}

TEST_CASE("keys that the text part leaves out are looked for around it") {
  const std::string nested =
      "{\"model_type\": \"llama\", \"hidden_size\": 64, \"vocab_size\": 100, \"text_config\": "
      "{\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"intermediate_size\": 128}}";
  CHECK(dim(loaded(nested, {.text_part_only = true}), "hidden") == "64");
}

TEST_CASE("asking for the text part of a model of text changes nothing") {
  CHECK(loaded(llama(), {.text_part_only = true}).notes.empty());
}

TEST_CASE("quantised weights are said not to be modelled") {
  CHECK(has_note(loaded(llama("\"quantization_config\": {\"bits\": 4}, ")),
                 "quantization_config is not modelled"));
}

TEST_CASE("a family may tell null from absent: mistral's window is 4096, or none") {
  const auto mistral = [](const std::string& keys) {
    std::string config = llama(keys + "\"num_key_value_heads\": 2, ");
    return loaded(config.replace(config.find("llama"), 5, "mistral"));
  };
  CHECK(dim(mistral(""), "window") == "4096");
  CHECK(dim(mistral("\"sliding_window\": null, "), "window") == "0");
  CHECK(dim(mistral("\"sliding_window\": 2, "), "window") == "2");
}

TEST_CASE("gpt2 has its own spellings") {
  const LoadedModel model = loaded(
      "{\"model_type\": \"gpt2\", \"n_embd\": 64, \"n_layer\": 2, \"n_head\": 4, "
      "\"n_positions\": 32, \"vocab_size\": 100, \"n_inner\": null, \"attn_pdrop\": 0.0}");
  CHECK(model.family == "gpt2");
  CHECK(dim(model, "ffn") == "256");  // 4 x 64
  CHECK(dim(model, "attention_dropout") == "0");
  CHECK(dim(model, "tied") == "1");
}

TEST_CASE("labels are counted in id2label, and the first architecture decides BERT's head") {
  const std::string sizes =
      R"("hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 10)";
  const std::string three = R"("id2label": {"0": "a", "1": "b", "2": "c"})";
  const LoadedModel classes =
      loaded(R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"], )" +
             sizes + ", " + three + "}");
  CHECK(dim(classes, "classes") == "3");
  CHECK(dim(loaded(R"({"model_type": "bert", )" + sizes + "}"), "classes") == "2");
  CHECK(refusal(R"({"model_type": "bert", "architectures": ["BertForTokenClassification"], )" +
                sizes + "}") ==
        "config:1:41: key 'architectures': family 'bert' counts BertForMaskedLM, "
        "BertForSequenceClassification, found BertForTokenClassification; without the key, "
        "BertForMaskedLM is taken");
}

}  // namespace cairn
