#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/fields.h"
#include "models/model_request.h"

// How a model is trained, as files spell it: the keys that recipes and plan files share. They are
// named as the options of the command line.

namespace cairn {

// Puts what the mapping says in place of what the request has of these keys; what it does not say
// is the default. Throws InputError at the place.
void read_training_keys(const Document& document, Fields& fields, ModelRequest& request);

// The same as YAML: "{rank: 16, dropout: 0.05}".
std::string adapters_text(const Adapters& adapters);
std::string quantization_text(const Quantization& quantization);

// Of floating-point types: fp32, bf16, fp16.
std::vector<std::string> floating_type_names();

// nf4, fp4, int8.
std::string_view quantized_format_name(QuantizedFormat format);
std::optional<QuantizedFormat> find_quantized_format(std::string_view name);
std::vector<std::string> quantized_format_names();

// Two parts of a training step that contradict each other, by the names of their options.
struct Contradiction {
  std::string first = {};   // "optimizer-in-backward"
  std::string second = {};  // "accumulate 4"
  std::string reason = {};
};
std::optional<Contradiction> contradiction_in(const TrainingStep& step);

}  // namespace cairn
