#include "models/layer_use.h"

#include <algorithm>
#include <string>

#include "models/family_values.h"

namespace cairn {

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

}  // namespace cairn
