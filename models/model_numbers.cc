#include "models/model_numbers.h"

#include <fmt/format.h>

#include "graph/error.h"
#include "models/fields.h"

namespace cairn {

std::optional<DataType> config_data_type(std::string text) {
  if (text.starts_with("torch.")) text.erase(0, 6);
  if (text == "bfloat16" || text == "bf16") return DataType::kBFloat16;
  if (text == "float16" || text == "half" || text == "fp16") return DataType::kFloat16;
  if (text == "float32" || text == "float" || text == "fp32") return DataType::kFloat32;
  return std::nullopt;
}

ModelNumbers numbers_of_model_file(const FoundModel& found, const Folders& folders) {
  Fields fields(found.document, found.document.root, "a model");
  fields.text("model");
  fields.optional_text("source");
  fields.text("family");
  ModelNumbers numbers{.family = family_named(found.document, fields.require("family"), folders)};
  const Node& dims = fields.require("dims");
  if (dims.kind != NodeKind::kMapping) {
    fields.fail_at_key("dims", "expected a mapping, found " + describe(dims));
  }
  numbers.data_type = fields.optional_text("dtype");
  if (numbers.data_type && !config_data_type(*numbers.data_type)) {
    fail_at(found.document, fields.require("dtype").position,
            fmt::format("{}: expected one of bf16, fp16, fp32 (or bfloat16, float16, float32), "
                        "found {}",
                        fields.what_of("dtype"), in_quotes(*numbers.data_type)));
  }
  fields.refuse_unknown();
  numbers.sources = {{.document = &found.document, .mapping = &dims, .by_dim_name = true}};
  return numbers;
}

}  // namespace cairn
