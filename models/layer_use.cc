#include "models/layer_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "models/family_values.h"
#include "models/source_text.h"

namespace cairn {

void check_output_names(const FamilyOp& op, std::size_t output_count) {
  if (op.output_names.empty() || op.output_names.size() == output_count) return;
  fail_at(*op.document, op.position,
          fmt::format("op '{}': it makes {} tensor{}, 'out' names {}", op.name, output_count,
                      output_count == 1 ? "" : "s", op.output_names.size()));
}

void check_layer_use(const Layer& layer, const FamilyOp& op) {
  if (layer.inputs.size() != op.inputs.size()) {
    fail_at(*op.document, op.position,
            fmt::format("op '{}': layer '{}' takes {} inputs, found {}", op.name, layer.name,
                        layer.inputs.size(), op.inputs.size()));
  }
  if (op.shared_weight && layer.adapter_type.empty()) {
    fail_at(*op.document, op.position,
            fmt::format("op '{}': layer '{}' spells it out, so its weight cannot be shared",
                        op.name, layer.name));
  }
  check_output_names(op, 1);
}

TensorNames layer_inputs(const Layer& layer, const FamilyOp& op, const TensorNames& names) {
  TensorNames inside;
  for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
    inside.set(layer.inputs[i], names.find(op.inputs[i]));
  }
  return inside;
}

Scope composite_scope(const Layer& layer, const FamilyOp& op, const Scope& scope) {
  Scope inside;
  if (const Value* block = find_value(scope, "block")) inside.values["block"] = *block;
  for (const LayerAttribute& attribute : layer.attributes) {
    const auto given =
        std::find_if(op.layer_attributes.begin(), op.layer_attributes.end(),
                     [&](const auto& entry) { return entry.first == attribute.name; });
    inside.values[attribute.name] = given != op.layer_attributes.end()
                                        ? evaluated(given->second, scope)
                                        : evaluated(*attribute.default_value, inside);
  }
  return inside;
}

void add_attributes(const FamilyOp& op, const Scope& scope, Scope& attributes) {
  for (const AttributeKey key : op.kind->attributes) {
    attributes.values[std::string(attribute_name(key))] = integer_value(0);
  }
  for (const auto& [key, expression] : op.attributes) {
    attributes.values[std::string(attribute_name(key))] = evaluated(expression, scope);
  }
}

void add_recipe_values(const Recipe& recipe, Scope& attributes) {
  const auto set_flag = [&](const char* name, bool flag) {
    attributes.values[name] = integer_value(flag ? 1 : 0);
  };
  if (recipe.adapters) {
    attributes.values["rank"] = integer_value(recipe.adapters->rank);
    attributes.values["adapter_dropout"] = number_value(recipe.adapters->dropout);
    attributes.values["alpha"] = number_value(recipe.adapters->alpha.value_or(0.0));
    const auto rank = static_cast<double>(recipe.adapters->rank);
    attributes.values["alpha_over"] =
        number_value(recipe.adapters->scales_by_root ? std::sqrt(rank) : rank);
  }
  if (recipe.quantization) {
    set_flag("fp4", recipe.quantization->format == QuantizedFormat::kFp4);
    set_flag("nested", recipe.quantization->is_double);
    set_flag("four_bits", recipe.quantization->format != QuantizedFormat::kInt8);
  }
  if (recipe.adapters || recipe.quantization) {
    set_flag("autocast", recipe.precision.autocast_type.has_value());
  }
}

bool is_recipe_value(std::string_view name) {
  constexpr std::array<std::string_view, 8> kNames = {
      "rank", "adapter_dropout", "alpha", "alpha_over", "fp4", "nested", "four_bits", "autocast"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

void check_fused_parts(const FamilyOp& op, const Scope& scope) {
  if (op.fused.empty()) return;
  const auto width =
      std::find_if(op.attributes.begin(), op.attributes.end(),
                   [](const auto& entry) { return entry.first == AttributeKey::kWidth; });
  const std::int64_t whole = integer(width->second, scope);
  std::int64_t left = whole;
  for (const auto& [name, expression] : op.fused) {
    const std::int64_t part = integer(expression, scope);
    if (part < 1 || part > left) {
      fail_at(*expression.document, expression.node->position,
              fmt::format("op '{}': part {} is {} wide, where {} of {} are left", op.name,
                          in_quotes(name), part, left, whole));
    }
    left -= part;
  }
  if (left > 0) {
    fail_at(*op.document, op.position,
            fmt::format("op '{}': its parts leave {} of its {} columns", op.name, left, whole));
  }
}

void add_fused_parts(const FamilyOp& op, const Scope& scope,
                     const std::vector<std::string>& adapted, Scope& attributes) {
  for (const auto& [name, expression] : op.fused) {
    const bool has_adapter = std::find(adapted.begin(), adapted.end(), name) != adapted.end();
    attributes.values[name] = integer_value(has_adapter ? integer(expression, scope) : 0);
  }
}

}  // namespace cairn
