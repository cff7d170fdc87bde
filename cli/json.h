#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "graph/trace.h"
#include "models/load_model.h"

// JSON documents: keys in a fixed order, exact values, "schema" and the version in front.

namespace cairn {

using Json = nlohmann::ordered_json;

// {"schema": 1, "cairn": "0.1.0"}.
Json new_document();

// A category as a JSON key: "saved_activations".
std::string category_key(MemoryCategory category);

// Bytes by category key, zeros included.
Json breakdown_json(const Trace& trace);

// model, family, parameters, parameter_bytes, batch, tokens, vocab, dims, precision, optimizer,
// attention.
void add_model(Json& document, const LoadedModel& model);

// Two spaces of indent and a newline; bytes that are not UTF-8 are replaced.
std::string json_text(const Json& document);

}  // namespace cairn
