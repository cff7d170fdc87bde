#include <array>
#include <vector>

#include "graph/error.h"
#include "graph/ops/kinds.h"

namespace cairn {
namespace {

const std::vector<OpKindInfo>& all_kinds() {
  static const std::vector<OpKindInfo> kKinds = {
      embedding_kind(),
      linear_kind(),
      linear_4bit_kind(),
      linear_4bit_saving_input_kind(),
      linear_8bit_kind(),
      layer_norm_kind(),
      rms_norm_kind(),
      rope_kind(),
      attention_kind(),
      masked_attention_kind(),
      swiglu_kind(),
      geglu_kind(),
      dropout_kind(),
      conv2d_kind(),
      conv_transpose2d_kind(),
      batch_norm_kind(),
      max_pool2d_kind(),
      avg_pool2d_kind(),
      adaptive_avg_pool2d_kind(),
      global_avg_pool_kind(),
      crop_kind(),
      flatten_kind(),
      to_tokens_kind(),
      prepend_token_kind(),
      first_token_kind(),
      add_weight_kind(),
      heads_first_kind(),
      attention_scores_kind(),
      attention_values_kind(),
      repeat_kv_kind(),
      matmul_rows_kind(),
      mask_causal_kind(),
      softmax_kind(),
      append_sinks_kind(),
      drop_sinks_kind(),
      join_heads_kind(),
      eye_kind(),
      transpose_kind(),
      detach_kind(),
      row_norm_kind(),
      weight_over_kind(),
      conv1d_kind(),
      indices_kind(),
      stored_indices_kind(),
      index_copy_kind(),
      topk_kind(),
      gather_kind(),
      group_mask_kind(),
      masked_fill_kind(),
      dispatch_kind(),
      take_kind(),
      expert_linear_kind(),
      combine_kind(),
      cross_entropy_kind(),
      cross_entropy_compiled_kind(),
      cross_entropy_in_place_kind(),
      fused_linear_cross_entropy_kind(),
      chunked_linear_cross_entropy_kind(),
      cut_cross_entropy_kind(),
      log_softmax_kind(),
      nll_loss_kind(),
      add_kind(),
      sub_kind(),
      div_kind(),
      mul_kind(),
      mul_table_kind(),
      mul_weight_kind(),
      mul_one_plus_weight_kind(),
      gelu_kind(),
      silu_kind(),
      relu_kind(),
      tanh_kind(),
      sigmoid_kind(),
      clamp_kind(),
      pow_kind(),
      rsqrt_kind(),
      neg_kind(),
      scale_kind(),
      add_scalar_kind(),
      cast_kind(),
      copy_kind(),
      mean_kind(),
      mean_saving_input_kind(),
      sum_kind(),
      slice_kind(),
      split_kind(),
      split_ids_kind(),
      split_heads_kind(),
      merge_heads_kind(),
      cat_kind(),
      requires_grad_kind(),
      custom_kind(),
  };
  return kKinds;
}

struct AttributeRow {
  AttributeKey key = AttributeKey::kWidth;
  std::string_view name = {};
};

constexpr std::array<AttributeRow, 31> kAttributes = {
    {{AttributeKey::kWidth, "width"},
     {AttributeKey::kRows, "rows"},
     {AttributeKey::kParts, "parts"},
     {AttributeKey::kPart, "part"},
     {AttributeKey::kWidths, "widths"},
     {AttributeKey::kAxis, "axis"},
     {AttributeKey::kHeads, "heads"},
     {AttributeKey::kKvHeads, "kv_heads"},
     {AttributeKey::kBias, "bias"},
     {AttributeKey::kCausal, "causal"},
     {AttributeKey::kWindow, "window"},
     {AttributeKey::kSoftcap, "softcap"},
     {AttributeKey::kSinks, "sinks"},
     {AttributeKey::kFp4, "fp4"},
     {AttributeKey::kNested, "nested"},
     {AttributeKey::kProbability, "p"},
     {AttributeKey::kDataType, "dtype"},
     {AttributeKey::kInPlace, "in_place"},
     {AttributeKey::kGradientInPlace, "gradient_in_place"},
     {AttributeKey::kKernel, "kernel"},
     {AttributeKey::kStride, "stride"},
     {AttributeKey::kPadding, "padding"},
     {AttributeKey::kGroups, "groups"},
     {AttributeKey::kLargestCount, "k"},
     {AttributeKey::kExperts, "experts"},
     {AttributeKey::kImbalance, "imbalance"},
     {AttributeKey::kCapacity, "capacity"},
     {AttributeKey::kTanhForm, "tanh"},
     {AttributeKey::kOneSided, "one_sided"},
     {AttributeKey::kPairs, "pairs"},
     {AttributeKey::kConstant, "constant"}}};

}  // namespace

const OpKindInfo* find_op_kind(std::string_view name) {
  for (const OpKindInfo& kind : all_kinds()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::vector<std::string> op_kind_names() {
  std::vector<std::string> names;
  for (const OpKindInfo& kind : all_kinds()) names.emplace_back(kind.name);
  return names;
}

std::string_view attribute_name(AttributeKey key) {
  for (const AttributeRow& row : kAttributes) {
    if (row.key == key) return row.name;
  }
  CAIRN_CHECK(false, "unknown attribute");
}

std::optional<AttributeKey> find_attribute(std::string_view name) {
  for (const AttributeRow& row : kAttributes) {
    if (row.name == name) return row.key;
  }
  return std::nullopt;
}

}  // namespace cairn
