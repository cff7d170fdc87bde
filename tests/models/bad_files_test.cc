// Layers, sections, configs, model files and plain graphs that are wrong in one way each.

#include "tests/models/bad_files.h"

#include <doctest/doctest.h>

#include "graph/error.h"
#include "models/families.h"
#include "models/library.h"
#include "models/link_layers.h"
#include "models/load_model.h"

namespace cairn {
namespace {

void load(const std::filesystem::path& path) { load_model({.model = path.string()}); }

const std::vector<test::BadFile> kLayers = {
    {"inputs_as_mapping.yaml",
     "inputs_as_mapping.yaml:3:9: a layer: key 'inputs': expected a name or a list of names, "
     "found a mapping"},
    {"missing_inputs.yaml", "missing_inputs.yaml:1:1: a layer: missing key 'inputs'"},
    {"no_ops.yaml", "no_ops.yaml:4:1: a layer: key 'ops': expected ops, found none"},
    {"op_twice.yaml", "op_twice.yaml:6:5: op 'a': the name is used twice"},
    {"reads_later.yaml", "reads_later.yaml:5:5: op 'a': it reads 'out' before that is made"},
    {"reads_nothing.yaml",
     "reads_nothing.yaml:5:5: op 'out': it reads 'y', which nothing makes; did you mean 'x'?"},
    {"repeated_block.yaml",
     "repeated_block.yaml:5:5: expected one op, '- name: {op: kind, in: input}', found a "
     "mapping"},
    {"several_outputs.yaml",
     "several_outputs.yaml:5:5: op 'out': the last op makes the layer's output: expected one, "
     "without 'out'"},
    {"unknown_key.yaml",
     "unknown_key.yaml:3:1: a layer: unknown key 'input'; did you mean 'inputs'?"},
    {"unknown_kind.yaml",
     "unknown_kind.yaml:2:1: a layer: key 'of': unknown op kind 'gleu'; did you mean 'gelu'?"},
    {"unknown_op_kind.yaml",
     "unknown_op_kind.yaml:5:15: op 'out': key 'op': unknown op kind 'tahn'; did you mean "
     "'tanh'?"},
    {"attribute_named_as_key.yaml",
     "attribute_named_as_key.yaml:3:14: attribute 'weight': the name is taken"},
    {"attribute_named_block.yaml",
     "attribute_named_block.yaml:3:14: attribute 'block': the name is taken"},
    {"attributes_of_a_kind.yaml",
     "attributes_of_a_kind.yaml:4:1: a layer: key 'attributes': a layer of gelu has the attributes "
     "of that kind"},
    {"composite_in_a_kind.yaml",
     "composite_in_a_kind.yaml:5:13: op 'a': key 'op': unknown op kind 'softcap'; did you mean "
     "'softmax'?"},
    {"contains_itself.yaml",
     "contains_itself.yaml:4:5: op 'a': layer 'contains_itself' contains itself"},
    {"held_until_an_earlier_op.yaml",
     "held_until_an_earlier_op.yaml:5:5: op 'b': key 'held_until': expected module, block, "
     "forward, loss "
     "or an op behind it, found 'a', which does not come behind it"},
    {"held_until_nothing.yaml",
     "held_until_nothing.yaml:4:5: op 'a': key 'held_until': expected module, block, forward, loss "
     "or an "
     "op behind it, found 'modul'; did you mean 'module'?"},
    {"input_twice.yaml", "input_twice.yaml:2:1: a layer: key 'inputs': 'x' is there twice"},
    {"named_as_a_kind.yaml",
     "named_as_a_kind.yaml:1:1: a layer: key 'layer': 'gelu' is an op kind: what spells it out "
     "says 'of: gelu'"},
    {"outputs_of_a_kind.yaml",
     "outputs_of_a_kind.yaml:4:1: a layer: key 'outputs': the last op of a layer of an op kind "
     "makes its output"},
    {"outputs_that_nothing_makes.yaml",
     "outputs_that_nothing_makes.yaml:3:1: a layer: key 'outputs': nothing makes 'bb'; did you "
     "mean 'b'?"},
};

const std::vector<test::BadFile> kSections = {
    {"dim_is_per_layer_elsewhere.yaml",
     "family:2:8: dim 'width': an included section has it among its per_layer dims"},
    {"includes_others.yaml",
     "includes_others.yaml:2:1: sections: unknown key 'include'; expected one of: sections, dims, "
     "flags, rates, factors, texts, derived, per_layer, require, notes, inputs, implementations, "
     "token_limit"},
    {"missing_name.yaml", "missing_name.yaml:1:1: sections: missing key 'sections'"},
    {"with_ops.yaml",
     "with_ops.yaml:2:1: sections: unknown key 'ops'; expected one of: sections, dims, flags, "
     "rates, factors, texts, derived, per_layer, require, notes, inputs, implementations, "
     "token_limit"},
};

const std::vector<test::BadFile> kUncounted = {
    {"unknown_key.yaml",
     "unknown_key.yaml:2:1: uncounted parts: unknown key 'tower'; did you mean 'towers'?"},
};

std::string known_types() {
  return join_names(known_model_types({})) + " (a family file adds one: see CONTRIBUTING.md)";
}

const std::vector<test::BadFile> kConfigs = {
    {"billion_layers.json",
     "billion_layers: 'layers' is 1000000000: expected 0 to 100000 repeated blocks"},
    {"control_characters.json",
     "control_characters.json:2:17: unknown model_type 'lla?[31mma'; known: " + known_types()},
    {"dropout_of_one.json",
     "dropout_of_one.json:7:24: key 'attention_dropout': expected a rate in [0, 1), found 1"},
    {"dtype_as_list.json", "dtype_as_list.json:7:12: key 'dtype': expected a text, found a list"},
    {"duplicate_key.json",
     "duplicate_key.json:7:3: expected each key once, found 'hidden_size' again (the first is "
     "at 3:3)"},
    {"empty_mapping.json",
     "empty_mapping.json:1:1: expected a plain graph ('cairn_graph'), a model file ('model') "
     "or a Hugging Face config ('model_type'), found none of these keys"},
    {"heads_do_not_divide_hidden.json",
     "heads_do_not_divide_hidden.json:5:26: dim 'head_dim' is hidden / heads: in 'hidden / heads': "
     "64 / 6 leaves a remainder of 4 ('//' rounds down)"},
    {"heads_do_not_divide_kv_heads.json",
     "heads_do_not_divide_kv_heads.json:7:26: num_attention_heads must be a multiple of "
     "num_key_value_heads (heads = 4, kv_heads = 3)"},
    {"hidden_past_63_bits.json",
     "hidden_past_63_bits: op 'embed': 8192000000000000000 x 2 does not fit in 63 bits"},
    {"hidden_size_as_text.json",
     "hidden_size_as_text.json:3:18: key 'hidden_size': expected an integer, found the text "
     "'64'"},
    {"hidden_size_with_fraction.json",
     "hidden_size_with_fraction.json:3:18: key 'hidden_size': expected an integer, found '64.5'"},
    {"list_at_the_root.json",
     "list_at_the_root.json:1:1: expected a model (a mapping), found a list"},
    {"missing_hidden_size.json",
     "missing_hidden_size.json:1:1: missing key 'hidden_size', which family 'llama' needs, "
     "found 'hiden_size'; or give it: --set hidden=..."},
    {"missing_model_type.json", "missing_model_type.json:1:1: missing key 'model_type'"},
    {"model_type_as_list.json",
     "model_type_as_list.json:2:17: key 'model_type': expected a text, found a list"},
    {"negative_vocab.json",
     "negative_vocab.json:7:17: key 'vocab_size': expected a positive integer, found -100"},
    {"no_model.json",
     "no_model.json:1:1: expected a plain graph ('cairn_graph'), a model file ('model') or a "
     "Hugging Face config ('model_type'), found none of these keys"},
    {"null_hidden_size.json",
     "null_hidden_size.json:3:3: key 'hidden_size': expected a value, found nothing"},
    {"size_past_64_bits.json",
     "size_past_64_bits.json:7:17: key 'vocab_size': expected an integer within 64 bits, found "
     "'9223372036854775808'"},
    {"text_at_the_root.json",
     "text_at_the_root.json:1:1: expected a model (a mapping), found the text 'llama'"},
    {"text_config_as_list.json",
     "text_config_as_list.json:7:18: key 'text_config': expected a mapping, found a list"},
    {"tied_as_text.json",
     "tied_as_text.json:7:26: key 'tie_word_embeddings': expected true or false, found the "
     "text 'yes'"},
    {"too_many_layers.json", "too_many_layers: 'layers' is 99999: more than 250000 ops"},
    {"unknown_activation.json",
     "unknown_activation.json:7:17: the activation function must be silu, swish, gelu, gelu_new, "
     "gelu_pytorch_tanh or relu (activation = 'mish')"},
    {"unknown_model_type.json",
     "unknown_model_type.json:2:17: unknown model_type 'lama'; did you mean 'llama'?; known: " +
         known_types()},
    {"hybrid.json",
     "hybrid.json:3:3: model_type 'jamba' has state-space (Mamba) layers (key 'mamba_d_state') and "
     "layers of two kinds in turn (key 'attn_layer_period'), which no family counts"},
    {"text_and_vision.json",
     "text_and_vision.json:2:17: model_type 'llava' has a vision encoder (key 'vision_config'), "
     "which no family counts; --part text takes its text_config, model_type 'llama', alone"},
    {"text_within_text.json",
     "text_within_text.json:1:1: the model has more parts than its text_config, which no family "
     "counts; --part text takes its text_config alone"},
    {"other_head.json",
     "other_head.json:3:20: key 'architectures': family 'llama' counts LlamaForCausalLM, found "
     "LlamaForSequenceClassification; without the key, LlamaForCausalLM is taken"},
    {"three_stages.json",
     "three_stages.json:4:19: depths and hidden_sizes must have 4 entries, one a stage (depths = "
     "3, sizes = 3)"},
    {"vision_without_text_config.json",
     "vision_without_text_config.json:2:17: unknown model_type 'qwen2_vl', with a vision encoder "
     "(key 'vision_config'), which no family counts, and without a text_config to take alone"},
    {"vision_in_a_known_family.json",
     "vision_in_a_known_family.json:3:3: the model has a vision encoder (key 'mm_vision_tower'), "
     "which family 'llama' does not count"},
    {"vocab_past_63_bits.json",
     "vocab_past_63_bits: tensor 'embed.weight': its number of elements: 9000000000000000000 x "
     "64 does not fit in 63 bits"},
    {"zero_layers.json",
     "zero_layers.json:4:24: key 'num_hidden_layers': expected a positive integer, found 0"},
    {"depth_as_text.json",
     "depth_as_text.json:4:17: key 'depths[1]': expected an integer, found the text '4'"},
    {"depths_as_number.json",
     "depths_as_number.json:4:13: key 'depths': expected a list, found '3'"},
    {"id2label_as_text.json",
     "id2label_as_text.json:4:15: key 'id2label': expected a mapping or a list, found the text "
     "'cat'"},
    {"layer_type_as_list.json",
     "layer_type_as_list.json:8:37: key 'layer_types': expected a text, found a list"},
    {"layer_types_as_text.json",
     "layer_types_as_text.json:8:18: key 'layer_types': expected a list, found the text "
     "'full_attention'"},
    {"layer_types_too_short.json",
     "layer_types_too_short.json:9:18: key 'layer_types': expected a value for each layer, found 2 "
     "for layer 2"},
    {"more_experts_a_token_than_experts.json",
     "more_experts_a_token_than_experts.json:9:24: num_experts_per_tok must be the number of "
     "experts at most (experts_per_token = 3, experts = 2)"},
    {"rope_parameters_as_list.json",
     "rope_parameters_as_list.json:8:22: key 'rope_parameters': expected a mapping, found a list"},
    {"rotary_factor_zero.json",
     "rotary_factor_zero.json:8:17: key 'rotary_pct': expected a number above 0, found 0"},
    {"unknown_layer_type.json",
     "unknown_layer_type.json:8:37: key 'layer_types': expected one of full_attention, "
     "sliding_attention, found 'full'"},
};

const std::vector<test::BadFile> kModels = {
    {"a_family.yaml",
     "a_family.yaml:1:1: this is a family, which has no sizes: give a model of it (a file with "
     "'model', 'family' and 'dims'), and its folder with --models"},
    {"dims_as_list.yaml",
     "dims_as_list.yaml:3:1: a model: key 'dims': expected a mapping, found a list"},
    {"missing_dim.yaml",
     "missing_dim.yaml:3:7: missing key 'layers', which family 'llama' needs; or give it: --set "
     "layers=..."},
    {"missing_dims.yaml", "missing_dims.yaml:1:1: a model: missing key 'dims'"},
    {"missing_family.yaml", "missing_family.yaml:1:1: a model: missing key 'family'"},
    {"unknown_data_type.yaml",
     "unknown_data_type.yaml:3:8: a model: key 'dtype': expected one of bf16, fp16, fp32 (or "
     "bfloat16, float16, float32), found 'float8'"},
    {"unknown_dim.yaml",
     "unknown_dim.yaml:3:8: family 'llama' has no dim 'hiden'; it has hidden, layers, heads, "
     "vocab, max_tokens, kv_heads, head_dim, ffn, tied, epsilon, attention_dropout, activation, "
     "qkv_bias, mlp_bias; did you mean 'hidden'?"},
    {"unknown_family.yaml",
     "unknown_family.yaml:2:9: unknown family 'lama'; did you mean 'llama'?; known: " +
         join_names(stems(library_files("families", {})))},
    {"unknown_key.yaml", "unknown_key.yaml:3:1: a model: unknown key 'dim'; did you mean 'dims'?"},
    {"zero_dim.yaml", "zero_dim.yaml:3:16: key 'hidden': expected a positive integer, found 0"},
};

const std::vector<test::BadFile> kGraphs = {
    {"held_auxiliary.yaml",
     "held_auxiliary.yaml:8:42: op 'f': key 'auxiliaries': key 'held_until': an auxiliary, which "
     "only a Backward reads, has no name that holds it"},
    {"held_until_an_earlier_op.yaml",
     "held_until_an_earlier_op.yaml:6:75: tensor 'z': it cannot be held until op 'first', which "
     "comes before it is made"},
    {"held_until_no_op.yaml",
     "held_until_no_op.yaml:5:74: tensor 'y': key 'held_until': there is no op 'scond'; did you "
     "mean 'second'?"},
    {"alias_of_no_input.yaml",
     "alias_of_no_input.yaml:5:5: op 'f': it aliases the gradient of 'y', which is not one of "
     "its inputs; did you mean 'x'?"},
    {"bytes_past_63_bits.yaml",
     "bytes_past_63_bits.yaml:5:55: op 'f': key 'outputs': key 'bytes': expected an integer "
     "within 64 bits, found '9223372036854775808'"},
    {"cost_as_number.yaml",
     "cost_as_number.yaml:5:69: op 'f': key 'forward': expected a mapping, found '8'"},
    {"empty_name.yaml",
     "empty_name.yaml:5:6: op 1: key 'name': expected a name, found an empty text"},
    {"flops_past_63_bits.yaml",
     "flops_past_63_bits.yaml:5:5: backward FLOPs: 5000000000000000000 x 2 does not fit in 63 "
     "bits"},
    {"in_place_of_a_view_of_an_input.yaml",
     "in_place_of_a_view_of_an_input.yaml:1:1: op 'w' overwrites 'x', which lives for the "
     "whole step"},
    {"in_place_of_an_input.yaml",
     "in_place_of_an_input.yaml:1:1: op 'w' overwrites 'x', which lives for the whole step"},
    {"in_place_of_what_is_read_later.yaml",
     "in_place_of_what_is_read_later.yaml:1:1: op 'w' overwrites 'y', which op 'l' reads later"},
    {"in_place_of_what_is_saved.yaml",
     "in_place_of_what_is_saved.yaml:1:1: op 'w' overwrites 'y', which op 'f' saves for its "
     "Backward"},
    {"in_place_under_a_view.yaml",
     "in_place_under_a_view.yaml:1:1: op 'w' overwrites 'y', which shares its storage with "
     "'u', which op 'l' reads later"},
    {"in_place_without_view.yaml",
     "in_place_without_view.yaml:5:5: op 'f': an in-place op's first output must be a view of "
     "its first input"},
    {"input_twice.yaml", "input_twice.yaml:4:5: tensor 'x': the name is used twice"},
    {"inputs_as_mapping.yaml",
     "inputs_as_mapping.yaml:2:9: a plain graph: key 'inputs': expected a list, found a mapping"},
    {"list_at_the_root.yaml",
     "list_at_the_root.yaml:1:1: expected a model (a mapping), found a list"},
    {"long_cycle.yaml",
     "long_cycle.yaml:5:25: op 'f0': it reads 't11': a cycle of ops: 'f0' -> 'f1' -> 'f2' -> "
     "'f3' -> 'f4' -> 'f5' -> 'f6' -> 'f7' -> ... -> 'f0'"},
    {"loss_is_an_auxiliary.yaml",
     "loss_is_an_auxiliary.yaml:4:7: the loss 'a' is an auxiliary, which only a Backward reads"},
    {"loss_is_an_input.yaml", "loss_is_an_input.yaml:4:7: the loss 'x' is not made by any op"},
    {"missing_ops.yaml", "missing_ops.yaml:1:1: a plain graph: missing key 'ops'"},
    {"moved_past_63_bits.yaml",
     "moved_past_63_bits.yaml:5:5: backward moved bytes: 5000000000000000000 x 2 does not fit "
     "in 63 bits"},
    {"name_too_long.yaml",
     "name_too_long.yaml:5:6: op 1: key 'name': expected at most 1000 characters, found 1001"},
    {"name_with_control_characters.yaml",
     "name_with_control_characters.yaml:5:6: op 1: key 'name': expected printable characters, "
     "found 'f?[31m'"},
    {"negative_block.yaml",
     "negative_block.yaml:5:60: op 'f': key 'block': expected a block from 0, found -1"},
    {"negative_flops.yaml",
     "negative_flops.yaml:5:70: op 'f': key 'forward': key 'flops': expected zero or more, "
     "found -1"},
    {"negative_parameter.yaml",
     "negative_parameter.yaml:5:15: a parameter: key 'bytes': expected zero or more, found -1"},
    {"op_reads_itself.yaml",
     "op_reads_itself.yaml:5:24: op 'f': it reads 'y': a cycle of ops: 'f' -> 'f'"},
    {"op_twice.yaml", "op_twice.yaml:6:5: op 'f': the name is used twice"},
    {"outputs_as_text.yaml",
     "outputs_as_text.yaml:5:37: op 'f': key 'outputs': expected a list, found 'y'"},
    {"parameter_named_as_input.yaml",
     "parameter_named_as_input.yaml:5:5: tensor 'x': the name is used twice"},
    {"parameters_past_63_bits.yaml",
     "parameters_past_63_bits.yaml:5:5: parameter 'w': optimizer states: 5000000000000000000 x "
     "2 does not fit in 63 bits"},
    {"reads_an_auxiliary.yaml",
     "reads_an_auxiliary.yaml:6:5: op 'loss': it reads 'a', an auxiliary of op 'f', which only "
     "that op's own Backward reads"},
    {"reads_nothing.yaml",
     "reads_nothing.yaml:6:27: op 'loss': it reads 'yy', which nothing makes; did you mean 'y'?"},
    {"sum_past_63_bits.yaml",
     "sum_past_63_bits.yaml:6:5: op 'g': bytes it moves: 5000000000000000000 + "
     "5000000000000000000 does not fit in 63 bits"},
    {"time_past_63_bits.yaml",
     "time_past_63_bits.yaml:5:5: backward time: 5000000000000000000 x 2 does not fit in 63 "
     "bits"},
    {"unknown_loss.yaml",
     "unknown_loss.yaml:4:1: a plain graph: key 'loss': there is no tensor 'zz'; did you mean "
     "'z'?"},
    {"unknown_side_effect.yaml",
     "unknown_side_effect.yaml:5:60: op 'f': key 'side_effect': expected none or once, found "
     "'twice'"},
    {"view_larger_than_its_storage.yaml",
     "view_larger_than_its_storage.yaml:5:5: tensor 'y': a view of 16 bytes does not fit in "
     "the 8 bytes of 'x'"},
    {"view_of_nothing.yaml",
     "view_of_nothing.yaml:5:58: op 'f': key 'outputs': key 'view_of': there is no tensor 'q' "
     "before this op"},
    {"view_of_other_op.yaml",
     "view_of_other_op.yaml:6:5: tensor 'z': it is a view of 'x', which is not an input of op "
     "'g'"},
};

}  // namespace

TEST_CASE("a wrong layer is refused, with the place and what was expected") {
  test::check_bad_files("layers", kLayers, [](const std::filesystem::path& path) {
    parse_layer(read_document(path));
    const std::string use = "ops: [y: {op: " + path.stem().string() + ", in: x}]\n";
    const Family family = parse_family(
        parse_document("family", "family: f\ninputs: {x: {dtype: fp32, shape: [4]}}\n" + use));
    link_layers(family, {test::bad_folder()});
  });
}

TEST_CASE("a wrong section file is refused, with the place and what was expected") {
  test::check_bad_files("sections", kSections, [](const std::filesystem::path& path) {
    std::vector<Document> sections;
    sections.push_back(read_document(path));
    parse_family(parse_document("family", "family: f\ndims: {width: 4}\n"), std::move(sections));
  });
}

TEST_CASE("a wrong list of uncounted parts is refused, with the place and what was expected") {
  test::check_bad_files("uncounted", kUncounted, [](const std::filesystem::path&) {
    const std::string config = R"({"model_type": "llama"})";
    load_found_model({.folders = {test::bad_folder()}},
                     classify_model(parse_document("config", config), "m"));
  });
}

TEST_CASE("a wrong config.json is refused, with the place and what was expected") {
  test::check_bad_files("configs", kConfigs, load);
}

TEST_CASE("a wrong model file is refused, with the place and what was expected") {
  test::check_bad_files("models", kModels, load);
}

TEST_CASE("a wrong plain graph is refused, with the place and what was expected") {
  test::check_bad_files("graphs", kGraphs, load);
}

}  // namespace cairn
