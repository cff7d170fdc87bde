#include "models/measured_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "graph/error.h"
#include "models/fields.h"
#include "models/gpu_catalogue.h"
#include "models/measured_run.h"

namespace cairn {
namespace {

constexpr std::int64_t kFormatVersion = 1;
constexpr std::int64_t kMostConfidence = 3;
constexpr std::size_t kMostCases = 10000;
constexpr std::size_t kLongestId = 60;

constexpr std::array<std::pair<MeasuredMetric, std::string_view>, 9> kMetrics = {
    {{MeasuredMetric::kPeakBytes, "peak_bytes"},
     {MeasuredMetric::kResidentBytes, "resident_bytes"},
     {MeasuredMetric::kTransientBytes, "transient_bytes"},
     {MeasuredMetric::kDeviceBytes, "device_bytes"},
     {MeasuredMetric::kReservedBytes, "reserved_bytes"},
     {MeasuredMetric::kAllocationBytes, "allocation_bytes"},
     {MeasuredMetric::kSavedBytesPerLayer, "saved_bytes_per_layer"},
     {MeasuredMetric::kOptimizerStateBytes, "optimizer_state_bytes"},
     {MeasuredMetric::kLoadedBytes, "loaded_bytes"}}};

const std::vector<std::string>& kind_names() {
  static const std::vector<std::string> names = {"full_step",       "peft",           "loss_head",
                                                 "activation_only", "oom_arithmetic", "slowdown",
                                                 "planner",         "overhead"};
  return names;
}

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const auto& [metric, name] : kMetrics) names.emplace_back(name);
  return names;
}

const std::string& one_of(const Fields& fields, std::string_view key, const std::string& text,
                          const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), text) == known.end()) {
    fields.fail_at_key(key, fmt::format("expected one of {}, found {}{}", join_names(known),
                                        in_quotes(text), did_you_mean(text, known)));
  }
  return text;
}

MeasuredMetric read_metric(Fields& fields) {
  const std::string text = one_of(fields, "metric", fields.text("metric"), metric_names());
  return std::find_if(kMetrics.begin(), kMetrics.end(),
                      [&](const auto& entry) { return entry.second == text; })
      ->first;
}

std::int64_t size_of_text(const Fields& fields, std::string_view key, const std::string& text) {
  try {
    return parse_bytes(text, "");
  } catch (const InputError& error) {
    fields.fail_at_key(key, std::string(error.what()).substr(2));
  }
}

std::optional<std::int64_t> read_size(Fields& fields, std::string_view key) {
  const std::optional<std::string> text = fields.optional_text(key);
  if (!text) return std::nullopt;
  return size_of_text(fields, key, *text);
}

// "60.0 GiB", or with `unit` a number of those.
void read_value(Fields& fields, MeasuredCase& measured) {
  measured.value_text = fields.text("value");
  const std::optional<std::int64_t> unit = read_size(fields, "unit");
  if (!unit) {
    measured.value_bytes = size_of_text(fields, "value", measured.value_text);
    return;
  }
  const double bytes = fields.number("value") * static_cast<double>(*unit);
  constexpr double kMostBytes = 1e15;
  if (bytes < 1 || bytes > kMostBytes) {
    fields.fail_at_key("value", fmt::format("expected a number of units that make 1 byte to 1e15, "
                                            "found {}",
                                            measured.value_text));
  }
  measured.value_bytes = std::llround(bytes);
}

std::int64_t read_confidence(Fields& fields) {
  const std::int64_t confidence = fields.integer("confidence");
  if (confidence < 1 || confidence > kMostConfidence) {
    fields.fail_at_key("confidence", fmt::format("expected 1 to 3, found {}", confidence));
  }
  return confidence;
}

std::string read_id(Fields& fields) {
  std::string id = fields.text("id");
  const bool is_plain = !id.empty() && std::all_of(id.begin(), id.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
  if (!is_plain || id.size() > kLongestId) {
    fields.fail_at_key("id", fmt::format("expected letters, digits, '-', '_' and '.', at most {}, "
                                         "found {}",
                                         kLongestId, in_quotes(id)));
  }
  return id;
}

// A mapping that may be absent, for its keys.
const Node* find_mapping(const Document& document, Fields& fields, std::string_view key) {
  const Node* const node = fields.find(key);
  if (node != nullptr) const Fields is_mapping(document, *node, fields.what_of(key));
  return node;
}

void read_runs(const Document& document, Fields& fields, const std::string& what,
               MeasuredCase& measured) {
  const Node* const model = fields.find("model");
  const Node* const recipe = find_mapping(document, fields, "recipe");
  const Node* const minus = find_mapping(document, fields, "minus");
  if (model == nullptr) {
    if (measured.not_modelled.empty()) fields.require("model");
    if (minus != nullptr) fields.fail_at_key("minus", "expected a 'model' beside it, found none");
    return;
  }
  measured.run = read_measured_run(document, *model, recipe, what);
  if (minus == nullptr) return;
  const Node changed = recipe == nullptr ? *minus : merged_mapping(*recipe, *minus);
  measured.minus = read_measured_run(document, *model, &changed, what);
}

MeasuredCase read_case(const Document& document, const Node& node) {
  Fields unnamed(document, node, "a case");
  MeasuredCase measured{.id = read_id(unnamed)};
  const std::string what = fmt::format("case '{}'", measured.id);
  Fields fields(document, node, what);
  fields.find("id");
  measured.place =
      fmt::format("{}:{}:{}", document.file_name, node.position.line, node.position.column);
  measured.kind = one_of(fields, "kind", fields.text("kind"), kind_names());
  measured.metric = read_metric(fields);
  read_value(fields, measured);
  measured.gpu = fields.optional_text("gpu").value_or("");
  measured.context_bytes = read_size(fields, "context").value_or(0);
  measured.cublas_workspace_bytes = read_size(fields, "cublas_workspace");
  measured.library_workspace_bytes = read_size(fields, "library_workspace").value_or(0);
  measured.source = fields.text("source");
  measured.date = fields.text("date");
  measured.confidence = read_confidence(fields);
  measured.is_blind = fields.optional_boolean("blind");
  measured.not_modelled = fields.optional_text("not_modelled").value_or("");
  measured.known = fields.optional_text("known").value_or("");
  read_runs(document, fields, what, measured);
  fields.refuse_unknown();
  if (measured.metric == MeasuredMetric::kReservedBytes && measured.not_modelled.empty()) {
    fields.fail_at_key("metric",
                       "reserved_bytes are not modelled: expected 'not_modelled' to say "
                       "so");
  }
  if (measured.metric == MeasuredMetric::kDeviceBytes && measured.not_modelled.empty() &&
      measured.context_bytes == 0) {
    fields.require("context");
  }
  return measured;
}

std::optional<double> read_percent(Fields& fields, std::string_view key) {
  const std::optional<std::string> text = fields.optional_text(key);
  if (!text) return std::nullopt;
  const std::optional<double> share = parse_percent(*text);
  if (!share) {
    fields.fail_at_key(key,
                       fmt::format("expected percent such as 3 %, found {}", in_quotes(*text)));
  }
  return share;
}

MeasuredBound read_bound(const Document& document, const Node& node) {
  Fields fields(document, node, "a bound");
  MeasuredBound bound{.metrics = fields.optional_names("metrics"),
                      .kinds = fields.optional_names("kinds"),
                      .confidence = fields.optional_integer("confidence"),
                      .median = read_percent(fields, "median"),
                      .percentile_90 = read_percent(fields, "p90"),
                      .worst = read_percent(fields, "worst")};
  fields.refuse_unknown();
  for (const std::string& metric : bound.metrics) one_of(fields, "metrics", metric, metric_names());
  for (const std::string& kind : bound.kinds) one_of(fields, "kinds", kind, kind_names());
  if (!bound.median && !bound.percentile_90 && !bound.worst) {
    fields.fail("expected one of the keys 'median', 'p90' and 'worst'");
  }
  return bound;
}

// The case with what the file says of all its cases; of `recipe` key by key.
Node with_defaults(const Document& document, const Node& defaults, const Node& node) {
  const Fields is_mapping(document, node, "a case");
  Node merged = merged_mapping(defaults, node);
  const auto find_recipe = [](const Node& mapping) -> const Node* {
    for (const Entry& entry : mapping.entries) {
      if (entry.key == "recipe" && entry.value.kind == NodeKind::kMapping) return &entry.value;
    }
    return nullptr;
  };
  const Node* const base = find_recipe(defaults);
  if (base == nullptr || find_recipe(node) == nullptr) return merged;
  for (Entry& entry : merged.entries) {
    if (entry.key == "recipe") entry.value = merged_mapping(*base, entry.value);
  }
  return merged;
}

}  // namespace

std::string_view metric_name(MeasuredMetric metric) {
  for (const auto& [known, name] : kMetrics) {
    if (known == metric) return name;
  }
  CAIRN_CHECK(false, "unknown metric");
}

std::optional<double> parse_percent(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  text.remove_suffix(1);
  if (text.ends_with(' ')) text.remove_suffix(1);
  double percent = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, percent);
  if (text.empty() || result.ec != std::errc() || result.ptr != end || !(percent >= 0)) {
    return std::nullopt;
  }
  constexpr double kWhole = 100;
  return percent / kWhole;
}

MeasuredFile read_measured_file(const Document& document) {
  Fields root(document, document.root, "measurements");
  if (const std::int64_t version = root.integer("cairn_measurements"); version != kFormatVersion) {
    root.fail_at_key("cairn_measurements",
                     fmt::format("expected version {}, found {}", kFormatVersion, version));
  }
  root.optional_text("about");
  const Node* const defaults = find_mapping(document, root, "defaults");
  const Node* const bounds = root.find("bounds");
  const Node* const cases = root.find("cases");
  root.refuse_unknown();
  if (bounds == nullptr && cases == nullptr) root.fail("missing key 'cases', or 'bounds'");
  MeasuredFile file;
  if (bounds != nullptr) {
    for (const Node& node : to_list(document, *bounds, root.what_of("bounds"))) {
      file.bounds.push_back(read_bound(document, node));
    }
  }
  if (cases == nullptr) return file;
  const Node none{.kind = NodeKind::kMapping, .entries = {}};
  std::set<std::string> ids;
  for (const Node& node : to_list(document, *cases, root.what_of("cases"))) {
    if (file.cases.size() == kMostCases) {
      fail_at(document, node.position, fmt::format("more than {} cases", kMostCases));
    }
    const Node merged = with_defaults(document, defaults == nullptr ? none : *defaults, node);
    file.cases.push_back(read_case(document, merged));
    if (!ids.insert(file.cases.back().id).second) {
      fail_at(document, node.position,
              fmt::format("case '{}': the id is used twice", file.cases.back().id));
    }
  }
  return file;
}

}  // namespace cairn
