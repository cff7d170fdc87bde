// Families that are wrong in one way each, loaded as the family of a model with no numbers of its
// own.

#include <doctest/doctest.h>

#include "models/load_model.h"
#include "tests/models/bad_files.h"

namespace cairn {
namespace {

void load_family(const std::filesystem::path& path) {
  const std::string model = "model: m\nfamily: " + path.stem().string() + "\ndims: {}\n";
  load_found_model({.folders = {test::bad_folder()}},
                   classify_model(parse_document("model", model), "m"));
}

const std::vector<test::BadFile> kFamilies = {
    {"held_until_nothing.yaml",
     "held_until_nothing.yaml:6:5: op 'up': key 'held_until': expected module, block, forward, "
     "loss or an "
     "op behind it, found 'layer'; did you mean 'layers'?"},
    {"attention_of_a_matrix.yaml",
     "m: op 'up': 'rows' must be [batch, tokens, width], found [2048, 4]\n  at "
     "attention_of_a_matrix.yaml:8:5"},
    {"bias_is_text.yaml",
     "bias_is_text.yaml:7:50: ''yes'': expected a condition, found the text 'yes'"},
    {"billion_blocks.yaml",
     "m: '1000000000' is 1000000000: expected 0 to 100000 repeated blocks\n  at "
     "billion_blocks.yaml:7:13"},
    {"block_carries_nothing.yaml",
     "block_carries_nothing.yaml:7:5: a repeated block: it carries 'y', which nothing makes; "
     "did you mean 'x'?"},
    {"block_does_not_hand_on.yaml",
     "block_does_not_hand_on.yaml:7:5: a repeated block: no op of it makes 'h' for the next"},
    {"block_makes_the_loss.yaml",
     "block_makes_the_loss.yaml:7:5: the last op makes the loss: expected an op, found a "
     "repeated block"},
    {"block_name_too_long.yaml",
     "block_name_too_long.yaml:7:5: a repeated block: key 'name': expected at most 200 "
     "characters, found 201"},
    {"block_without_carry.yaml",
     "block_without_carry.yaml:7:5: a repeated block: missing key 'carry'"},
    {"block_without_ops.yaml", "block_without_ops.yaml:7:5: a repeated block has no ops"},
    {"broken_expression.yaml",
     "broken_expression.yaml:7:46: op 'up': key 'width': expected ')', found the end of the "
     "expression"},
    {"bytes_past_63_bits.yaml",
     "m: tensor 'x': its bytes: 9011200000000000000 x 2 does not fit in 63 bits\n  at "
     "bytes_past_63_bits.yaml:4:3"},
    {"calls_itself_otherwise.yaml",
     "calls_itself_otherwise.yaml:1:1: this file is 'calls_itself_otherwise.yaml', but calls "
     "itself "
     "'another'"},
    {"cat_too_wide.yaml",
     "m: op 'c': its width: 8000000000000000000 + 4000000000000000000 does not fit in 63 bits\n  "
     "at cat_too_wide.yaml:7:5"},
    {"carry_as_text.yaml",
     "carry_as_text.yaml:8:12: a repeated block: expected 'carry: {x: first}', found 'h = x'"},
    {"condition_on_split.yaml",
     "condition_on_split.yaml:7:57: op 'parts': key 'if': an op with several outputs cannot "
     "pass its input through"},
    {"custom_op.yaml",
     "custom_op.yaml:7:14: op 'up': key 'op': a custom op states its bytes, which only a plain "
     "graph can"},
    {"default_flag_is_text.yaml",
     "default_flag_is_text.yaml:3:16: dim 'b': its default: expected true or false, found 'yes'"},
    {"default_negative.yaml",
     "default_negative.yaml:2:19: dim 'width': its default: expected a size (an integer from "
     "0), found -1"},
    {"default_of_later_dim.yaml",
     "default_of_later_dim.yaml:2:19: dim 'width': its default: unknown name 'b'"},
    {"default_of_other_type.yaml",
     "default_of_other_type.yaml:2:19: dim 'width': its default: expected a size (an integer "
     "from 0), found 'four'"},
    {"default_rate_too_large.yaml",
     "default_rate_too_large.yaml:3:16: dim 'p': its default: expected a rate in [0, 1), found "
     "1.5"},
    {"default_with_remainder.yaml",
     "default_with_remainder.yaml:2:31: dim 'width': its default: in 'a / 3': 10 / 3 leaves a "
     "remainder of 1 ('//' rounds down)"},
    {"dim_named_tokens.yaml",
     "dim_named_tokens.yaml:2:23: dim 'tokens': the name is taken: every family has it"},
    {"dim_twice.yaml", "dim_twice.yaml:3:9: dim 'width': the name is used twice"},
    {"dim_without_default.yaml",
     "dim_without_default.yaml:2:15: dim 'width': expected [config key, ..., default], found "
     "fewer than two items"},
    {"empty_shape.yaml",
     "empty_shape.yaml:4:26: input 'x': key 'shape': expected at least one dim, found none"},
    {"expression_too_long.yaml",
     "expression_too_long.yaml:7:36: op 'up': key 'width': expected an expression of at most 500 "
     "characters, found 503"},
    {"family_as_list.yaml",
     "family_as_list.yaml:1:9: a family: key 'family': expected a text, found a list"},
    {"flops_past_63_bits.yaml",
     "m: op 'wide': 6144000000000 x 1500000000 does not fit in 63 bits\n  at "
     "flops_past_63_bits.yaml:8:5"},
    {"heads_do_not_divide.yaml",
     "m: op 'up': the width 4 of 'x' does not divide into 3 heads\n  at "
     "heads_do_not_divide.yaml:7:5"},
    {"implementation_of_other_kind.yaml",
     "implementation_of_other_kind.yaml:3:25: implementation of 'gelu': layer 'rms_norm_hf' "
     "spells out a rms_norm"},
    {"implementation_of_unknown_kind.yaml",
     "implementation_of_unknown_kind.yaml:3:19: implementation of 'attenton': unknown op kind; "
     "did you mean 'attention'?"},
    {"implementation_unknown_layer.yaml",
     "implementation_unknown_layer.yaml:3:25: implementation of 'rope': there is no layer "
     "'rope_fh'; did you mean 'rope_hf'?"},
    {"implementation_without_default.yaml",
     "implementation_without_default.yaml:3:30: implementation of 'attention': missing key "
     "'default'"},
    {"key_of_other_shape.yaml",
     "m: op 'up': 'k' must be [1, 2048, 4], found [1, 2048, 3]\n  at "
     "key_of_other_shape.yaml:8:5"},
    {"kv_heads_do_not_divide.yaml",
     "m: op 'up': 4 heads do not divide into 3 kv_heads\n  at kv_heads_do_not_divide.yaml:7:5"},
    {"labels_do_not_match.yaml",
     "m: op 'loss': labels [1] do not match logits [1, 2048, 4]\n  at "
     "labels_do_not_match.yaml:8:5"},
    {"last_op_is_no_loss.yaml",
     "last_op_is_no_loss.yaml:6:5: op 'b': the last op makes the loss, one number, but this makes "
     "[1, 2048, 4]"},
    {"loss_passes_through.yaml",
     "loss_passes_through.yaml:7:5: op 'loss': the last op makes the loss, but it passes 'x' "
     "through"},
    {"loss_with_several_outputs.yaml",
     "loss_with_several_outputs.yaml:7:5: op 'loss': the last op makes the loss: expected one "
     "output, without 'out'"},
    {"missing_attribute.yaml", "missing_attribute.yaml:7:9: op 'up': missing key 'width'"},
    {"missing_inputs.yaml", "missing_inputs.yaml:1:1: a family: missing key 'inputs'"},
    {"missing_ops.yaml", "missing_ops.yaml:1:1: a family: missing key 'ops'"},
    {"negative_width.yaml", "negative_width.yaml:7:36: 'width - 5' is -1; it must be positive"},
    {"no_ops.yaml", "no_ops.yaml:6:1: a family: key 'ops': expected ops, found none"},
    {"note_without_say.yaml", "note_without_say.yaml:3:9: a note: missing key 'say'"},
    {"op_name_too_long.yaml",
     "op_name_too_long.yaml:7:5: op name "
     "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...': expected at most 200 "
     "characters, found 201"},
    {"op_name_with_dot.yaml",
     "op_name_with_dot.yaml:7:5: op name 'up.1': expected letters, digits and underscores"},
    {"op_named_as_input.yaml", "op_named_as_input.yaml:7:5: op 'x': the name is used twice"},
    {"op_not_a_mapping.yaml",
     "op_not_a_mapping.yaml:7:5: expected one op, '- name: {op: kind, in: input}', found 'up'"},
    {"op_twice.yaml", "op_twice.yaml:8:5: op 'up': the name is used twice"},
    {"op_twice_in_block.yaml", "op_twice_in_block.yaml:11:9: op 'g': the name is used twice"},
    {"ops_as_mapping.yaml",
     "ops_as_mapping.yaml:6:6: a family: key 'ops': expected a list, found a mapping"},
    {"parameters_past_63_bits.yaml",
     "m: op 'a': 16384 x 500000000000000000 does not fit in 63 bits\n  at "
     "parameters_past_63_bits.yaml:7:5"},
    {"part_out_of_range.yaml",
     "m: op 'up': part 2 is not among 2 parts\n  at part_out_of_range.yaml:7:5"},
    {"parts_do_not_divide.yaml",
     "m: op 'parts': the width 4 of 'x' does not divide into 3 parts\n  at "
     "parts_do_not_divide.yaml:7:5"},
    {"probability_of_one.yaml",
     "probability_of_one.yaml:7:33: '1' is 1; expected a probability in [0, 1)"},
    {"product_past_63_bits.yaml",
     "m: tensor 'x': its number of elements: 2048 x 1200000000000000000 does not fit in 63 "
     "bits\n  at product_past_63_bits.yaml:4:3"},
    {"reads_itself.yaml", "reads_itself.yaml:7:5: op 'up': it reads 'up' before that is made"},
    {"reads_later.yaml", "reads_later.yaml:7:5: op 'up': it reads 'down' before that is made"},
    {"reads_nothing.yaml",
     "reads_nothing.yaml:7:5: op 'up': it reads 'y', which nothing makes; did you mean 'x'?"},
    {"reads_past_block.yaml",
     "reads_past_block.yaml:12:5: op 'loss': it reads 'up', which nothing makes"},
    {"requirement_not_met.yaml", "m: the width must be above 8 (width = 4)"},
    {"requirement_without_else.yaml",
     "requirement_without_else.yaml:3:11: a requirement: missing key 'else'"},
    {"scores_of_other_shapes.yaml",
     "m: op 'up': 'k' must be [1, 2048, 4], found [1, 2048, 3]\n  at "
     "scores_of_other_shapes.yaml:8:5"},
    {"shapes_do_not_fit.yaml",
     "m: op 'up': [1, 2048, 4] and [1, 2048, 3] do not fit together\n  at "
     "shapes_do_not_fit.yaml:8:5"},
    {"size_past_63_bits.yaml",
     "m: tensor 'up.weight': its number of elements: 8000000000000000000 x 4 does not fit in "
     "63 bits\n  at size_past_63_bits.yaml:7:5"},
    {"stands_for_with_model_types.yaml",
     "stands_for_with_model_types.yaml:3:1: a family: key 'stands_for': expected no 'model_types' "
     "beside "
     "it: the families it names read configs"},
    {"stands_for_without_library.yaml",
     "stands_for_without_library.yaml:2:1: a family: key 'stands_for': expected a key 'library' "
     "beside it, "
     "whose code this is"},
    {"too_few_inputs.yaml",
     "too_few_inputs.yaml:7:19: op 'up': key 'in': a add takes 2 inputs, found 1"},
    {"too_many_inputs.yaml",
     "too_many_inputs.yaml:7:22: op 'up': key 'in': a linear takes 1 input, found 2"},
    {"too_many_ops.yaml", "m: '90000' is 90000: more than 250000 ops\n  at too_many_ops.yaml:7:13"},
    {"too_many_parts.yaml", "m: op 'up': 5000 parts are too many\n  at too_many_parts.yaml:7:5"},
    {"two_blocks_of_one_name.yaml",
     "m: tensor 'layers.0.h': the name is used twice\n  at two_blocks_of_one_name.yaml:14:9"},
    {"two_ops_in_one_item.yaml",
     "two_ops_in_one_item.yaml:7:5: expected one op, '- name: {op: kind, in: input}', found a "
     "mapping"},
    {"unknown_attribute.yaml",
     "unknown_attribute.yaml:7:9: op 'up': missing key 'width', found 'widht'"},
    {"unknown_cast_type.yaml",
     "unknown_cast_type.yaml:7:34: op 'up': key 'dtype': expected one of fp32, bf16, fp16, "
     "int64, int32, bool, activation, parameter, compute, adapter, quantized, found 'float'"},
    {"unknown_data_type.yaml",
     "unknown_data_type.yaml:5:12: input 'labels': key 'dtype': expected one of fp32, bf16, "
     "fp16, int64, int32, bool, activation, parameter, compute, adapter, quantized, found "
     "'int46'; did you mean 'int64'?"},
    {"unknown_dim_in_shape.yaml",
     "unknown_dim_in_shape.yaml:4:49: unknown name 'widht'; did you mean 'width'?"},
    {"unknown_dim_in_width.yaml",
     "unknown_dim_in_width.yaml:7:36: unknown name 'widht'; did you mean 'width'?"},
    {"unknown_key.yaml",
     "unknown_key.yaml:3:1: a family: unknown key 'token_limt'; did you mean 'token_limit'?"},
    {"unknown_op_kind.yaml",
     "unknown_op_kind.yaml:7:14: op 'up': key 'op': unknown op kind 'linaer'; did you mean "
     "'linear'?"},
    {"unknown_token_limit.yaml",
     "unknown_token_limit.yaml:3:1: a family: key 'token_limit': there is no dim 'widht' among "
     "the sizes; did you mean 'width'?"},
    {"values_of_other_shapes.yaml",
     "m: op 'up': 'x' must be [1, 4, 2048, 2048], found [1, 2048, 4]\n  at "
     "values_of_other_shapes.yaml:7:5"},
    {"weight_of_an_add.yaml",
     "weight_of_an_add.yaml:8:31: op 'up': key 'weight': a add has no weight"},
    {"weight_of_nothing.yaml",
     "weight_of_nothing.yaml:7:5: op 'up': no op 'down' before it has a weight to share"},
    {"weight_of_other_shape.yaml",
     "m: op 'up': its weight cannot be 'a.weight': the shapes differ\n  at "
     "weight_of_other_shape.yaml:8:5"},
    {"weight_of_spelled_out_op.yaml",
     "weight_of_spelled_out_op.yaml:9:5: op 'up': layer 'rms_norm_hf' spells it out, so its "
     "weight cannot be shared"},
    {"weight_with_unknown_key.yaml",
     "weight_with_unknown_key.yaml:8:59: op 'up': key 'weight': unknown key 'when'; expected "
     "one of: of, if"},
    {"wrong_number_of_outs.yaml",
     "wrong_number_of_outs.yaml:7:5: op 'parts': it makes 2 tensors, 'out' names 3"},
    {"negative_blocks.yaml",
     "m: 'width - 5' is -1: expected 0 to 100000 repeated blocks\n  at negative_blocks.yaml:7:13"},
    {"zero_dim_in_shape.yaml",
     "m: tensor 'x': a dim is 0; every dim must be positive\n  at zero_dim_in_shape.yaml:4:3"},
    {"zero_width.yaml", "zero_width.yaml:7:36: 'width - 4' is 0; it must be positive"},
    {"fused_name_of_signs.yaml",
     "fused_name_of_signs.yaml:7:51: op 'up': key 'fused': 'q.1': expected letters, digits and "
     "underscores"},
    {"fused_name_taken.yaml",
     "fused_name_taken.yaml:7:51: op 'up': key 'fused': 'rank': the name is taken"},
    {"fused_norm.yaml",
     "fused_norm.yaml:7:33: op 'up': key 'fused': expected a linear layer, which is several in "
     "one"},
    {"fused_of_no_width.yaml",
     "fused_of_no_width.yaml:7:54: op 'up': part 'q' is 0 wide, where 4 of 4 are left"},
    {"fused_of_one.yaml",
     "fused_of_one.yaml:7:43: op 'up': key 'fused': expected two parts or more"},
    {"fused_too_narrow.yaml",
     "fused_too_narrow.yaml:7:5: op 'up': its parts leave 1 of its 4 columns"},
    {"fused_too_wide.yaml",
     "fused_too_wide.yaml:7:60: op 'up': part 'k' is 4 wide, where 2 of 4 are left"},
    {"attention_bias_without_bias.yaml",
     "m: op 'up': with 'bias' it takes a fourth input, the bias\n  at "
     "attention_bias_without_bias.yaml:7:5"},
    {"composite_with_too_many_inputs.yaml",
     "composite_with_too_many_inputs.yaml:7:5: op 'up': a softcap takes 1 input, found 2"},
    {"composite_with_unknown_attribute.yaml",
     "composite_with_unknown_attribute.yaml:7:88: op 'up': a gated_mlp has no attribute 'biass'; "
     "did you mean 'bias'?"},
    {"composite_with_weight.yaml",
     "composite_with_weight.yaml:7:30: op 'up': key 'weight': a softcap has no weight"},
    {"composite_with_wrong_outs.yaml",
     "composite_with_wrong_outs.yaml:7:5: op 'up': it makes 1 tensor, 'out' names 2"},
    {"composite_without_attribute.yaml",
     "composite_without_attribute.yaml:7:5: op 'up': a gated_mlp needs the attribute 'hidden'"},
    {"default_factor_negative.yaml",
     "default_factor_negative.yaml:3:22: dim 'scale': its default: expected a number from 0, found "
     "-1"},
    {"dim_named_expert_capacity.yaml",
     "dim_named_expert_capacity.yaml:2:23: dim 'expert_capacity': the name is taken: every family "
     "has it"},
    {"experts_fewer_than_taken.yaml",
     "m: op 'up': 2 experts a token, of 1\n  at experts_fewer_than_taken.yaml:8:5"},
    {"images_have_no_tokens.yaml", "images_have_no_tokens.yaml:5:41: unknown name 'tokens'"},
    {"imbalance_below_one.yaml",
     "imbalance_below_one.yaml:8:64: '0.5' is 0.5; expected 1.0 or more"},
    {"implementation_default_is_no_choice.yaml",
     "implementation_default_is_no_choice.yaml:3:30: implementation of 'attention': its default "
     "'sdpa' is not among its choices"},
    {"implementation_is_a_composite.yaml",
     "implementation_is_a_composite.yaml:3:29: implementation of 'rms_norm': layer 'gated_mlp' is "
     "a composite"},
    {"key_list_empty.yaml",
     "key_list_empty.yaml:2:16: dim 'width': key 'key': expected a key, found none"},
    {"key_mapping_with_unknown_key.yaml",
     "key_mapping_with_unknown_key.yaml:2:24: dim 'width': unknown key 'if_nul'; did you mean "
     "'if_null'?"},
    {"key_mapping_without_key.yaml",
     "key_mapping_without_key.yaml:2:15: dim 'width': missing key 'key'"},
    {"key_path_counts_without_index.yaml",
     "key_path_counts_without_index.yaml:2:16: dim 'width': expected a path such as depths[0], "
     "found 'w[x][]'"},
    {"key_path_without_index.yaml",
     "key_path_without_index.yaml:2:16: dim 'width': expected a path such as depths[0], found "
     "'w[x]'"},
    {"layer_of_a_kind_as_op.yaml",
     "layer_of_a_kind_as_op.yaml:7:14: op 'up': key 'op': layer 'rms_norm_hf' spells out a "
     "rms_norm: say 'op: rms_norm', and 'rms_norm: rms_norm_hf' under implementations"},
    {"least_below_zero.yaml",
     "least_below_zero.yaml:2:36: dim 'width': key 'least': expected zero or more, found -1"},
    {"least_of_a_flag.yaml",
     "least_of_a_flag.yaml:3:39: dim 'bias': key 'least': only a size or a factor has one"},
    {"per_layer_named_as_dim.yaml",
     "per_layer_named_as_dim.yaml:3:13: dim 'width': the name is used twice"},
    {"per_layer_of_members_with_default.yaml",
     "per_layer_of_members_with_default.yaml:3:38: per_layer dim 'dense': unknown key 'default'; "
     "expected one of: members"},
    {"per_layer_outside_a_block.yaml", "per_layer_outside_a_block.yaml:8:36: unknown name 'kind'"},
    {"per_layer_without_default.yaml",
     "model:3:7: missing key 'kind', which family 'per_layer_without_default' needs"},
    {"per_layer_without_key.yaml",
     "per_layer_without_key.yaml:3:19: per_layer dim 'kind': missing key 'key'"},
    {"too_many_config_keys.yaml",
     "too_many_config_keys.yaml:2:15: dim 'width': expected at most 16 items, found 17"},
    {"embedding_states_type.yaml",
     "embedding_states_type.yaml:2:1: a family: key 'embedding_states': expected one of fp32, "
     "found "
     "'bf16'"},
    {"unknown_samples.yaml",
     "unknown_samples.yaml:2:1: a family: key 'samples': expected tokens or images, found 'words'"},
    {"unknown_sections.yaml",
     "unknown_sections.yaml:2:10: key 'include': there are no sections 'causal_ml'; did you mean "
     "'causal_lm'?"},
    {"window_without_causal.yaml",
     "m: op 'up': a window is of a causal kernel without a bias\n  at "
     "window_without_causal.yaml:7:5"},
    {"derived_of_a_later_dim.yaml",
     "derived_of_a_later_dim.yaml:2:18: dim 'width': its default: unknown name 'w'"},
    {"derived_with_keys.yaml",
     "derived_with_keys.yaml:3:18: dim 'width': expected a text, found a list"},
};

}  // namespace

TEST_CASE("a wrong family is refused, with the place and what was expected") {
  test::check_bad_files("families", kFamilies, load_family);
}

}  // namespace cairn
