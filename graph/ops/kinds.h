#pragma once

#include "graph/ops/op_kind.h"

// Every op kind of this folder; registry.cc lists them.

namespace cairn {

// Reads and makes token tensors [batch, tokens, width].
OpKindInfo embedding_kind();
OpKindInfo linear_kind();
OpKindInfo linear_4bit_kind();
OpKindInfo linear_4bit_saving_input_kind();
OpKindInfo linear_8bit_kind();
OpKindInfo layer_norm_kind();
OpKindInfo rms_norm_kind();
OpKindInfo rope_kind();
OpKindInfo attention_kind();
OpKindInfo masked_attention_kind();
OpKindInfo swiglu_kind();
OpKindInfo geglu_kind();
OpKindInfo dropout_kind();

// Reads and makes images [batch, channels, height, width].
OpKindInfo conv2d_kind();
OpKindInfo conv_transpose2d_kind();
OpKindInfo batch_norm_kind();
OpKindInfo max_pool2d_kind();
OpKindInfo avg_pool2d_kind();
OpKindInfo adaptive_avg_pool2d_kind();
OpKindInfo global_avg_pool_kind();
OpKindInfo crop_kind();

// From images to rows and tokens.
OpKindInfo flatten_kind();
OpKindInfo to_tokens_kind();
OpKindInfo prepend_token_kind();
OpKindInfo first_token_kind();
OpKindInfo add_weight_kind();
OpKindInfo heads_first_kind();

// Eager attention, spelled out.
OpKindInfo attention_scores_kind();
OpKindInfo attention_values_kind();
OpKindInfo repeat_kv_kind();
OpKindInfo matmul_rows_kind();
OpKindInfo mask_causal_kind();
OpKindInfo softmax_kind();

// Attention of other shapes.
OpKindInfo append_sinks_kind();
OpKindInfo drop_sinks_kind();
OpKindInfo join_heads_kind();

// What adapters make of a weight.
OpKindInfo eye_kind();
OpKindInfo transpose_kind();
OpKindInfo detach_kind();
OpKindInfo row_norm_kind();
OpKindInfo weight_over_kind();

// Adapters of parts of a layer's columns.
OpKindInfo conv1d_kind();
OpKindInfo indices_kind();
OpKindInfo stored_indices_kind();
OpKindInfo index_copy_kind();

// Mixture of experts.
OpKindInfo topk_kind();
OpKindInfo gather_kind();
OpKindInfo group_mask_kind();
OpKindInfo masked_fill_kind();
OpKindInfo dispatch_kind();
OpKindInfo take_kind();
OpKindInfo expert_linear_kind();
OpKindInfo combine_kind();

// Losses.
OpKindInfo cross_entropy_kind();
OpKindInfo cross_entropy_compiled_kind();
OpKindInfo cross_entropy_in_place_kind();
OpKindInfo fused_linear_cross_entropy_kind();
OpKindInfo chunked_linear_cross_entropy_kind();
OpKindInfo cut_cross_entropy_kind();
OpKindInfo log_softmax_kind();
OpKindInfo nll_loss_kind();

// Element by element.
OpKindInfo add_kind();
OpKindInfo sub_kind();
OpKindInfo div_kind();
OpKindInfo mul_kind();
OpKindInfo mul_table_kind();
OpKindInfo mul_weight_kind();
OpKindInfo mul_one_plus_weight_kind();
OpKindInfo gelu_kind();
OpKindInfo silu_kind();
OpKindInfo relu_kind();
OpKindInfo tanh_kind();
OpKindInfo sigmoid_kind();
OpKindInfo clamp_kind();
OpKindInfo pow_kind();
OpKindInfo rsqrt_kind();
OpKindInfo neg_kind();
OpKindInfo scale_kind();
OpKindInfo add_scalar_kind();

// Layout and type.
OpKindInfo cast_kind();
OpKindInfo copy_kind();
OpKindInfo mean_kind();
OpKindInfo mean_saving_input_kind();
OpKindInfo sum_kind();
OpKindInfo slice_kind();
OpKindInfo split_kind();
OpKindInfo split_ids_kind();
OpKindInfo split_heads_kind();
OpKindInfo merge_heads_kind();
OpKindInfo cat_kind();

// Of autograd alone.
OpKindInfo requires_grad_kind();

// States everything itself (GraphBuilder::add_custom).
OpKindInfo custom_kind();

}  // namespace cairn
