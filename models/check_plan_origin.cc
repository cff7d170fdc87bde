#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "graph/error.h"
#include "graph/graph_difference.h"
#include "graph/grouped_text.h"
#include "models/plan_origin.h"

// Whether a plan is for this graph, and if not, what differs: the third part of
// models/plan_origin.h.

namespace cairn {
namespace {

namespace fs = std::filesystem;

const Entry* find_entry(const Node& node, std::string_view key) {
  for (const Entry& entry : node.entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

// "batch 1 x 8,192 tokens".
std::string samples_text(const ModelRequest& request) {
  const std::string batch = "batch " + grouped_text(request.batch);
  return request.tokens ? batch + fmt::format(" x {} tokens", grouped_text(*request.tokens))
                        : batch;
}

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return fs::equivalent(a, b, error);
}

// "made with --optimizer adamw, this is with sgd".
std::string word_difference(const RequestWord& then, const RequestWord& now) {
  std::string option = "--" + then.key;
  std::replace(option.begin(), option.end(), '_', '-');
  const auto with = [&](const std::string& value) {
    return value == "true" ? option : fmt::format("{} {}", option, value);
  };
  if (then.value.empty()) return fmt::format("made without {}, this is with it", with(now.value));
  if (now.value.empty()) return fmt::format("made with {}, this is without", with(then.value));
  return fmt::format("made with {}, this is with {}", with(then.value), now.value);
}

struct Differences {
  std::vector<std::string> texts = {};
  std::string first_key = {};  // of the part 'model'

  void add(const std::string& key, std::string text) {
    if (texts.empty()) first_key = key;
    texts.push_back(std::move(text));
  }
};

// What was asked for when the plan was made, and is not now.
Differences differing_words(const PlanOrigin& then, const PlanOrigin& now) {
  Differences differences;
  const ModelRequest& a = *then.model;
  const ModelRequest& b = *now.model;
  const bool is_same_model =
      then.is_file && now.is_file ? is_same_file(a.model, b.model) : a.model == b.model;
  if (!is_same_model) {
    differences.add(then.is_file ? "file" : "name",
                    fmt::format("made for {}, this is {}", a.model, b.model));
  }
  if (a.batch != b.batch || a.tokens != b.tokens) {
    differences.add(a.batch != b.batch ? "batch" : "tokens",
                    fmt::format("made for {}, this is {}", samples_text(a), samples_text(b)));
  }
  const std::set<std::string> done = {"name", "file", "batch", "tokens", "models"};
  const std::vector<RequestWord> words = request_words(a, then.is_file);
  const std::vector<RequestWord> others = request_words(b, now.is_file);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (done.contains(words[i].key) || words[i].value == others[i].value) continue;
    differences.add(words[i].key, word_difference(words[i], others[i]));
  }
  return differences;
}

// The plan's own graph, where what the file says still makes it.
std::optional<Graph> graph_of(const PlanOrigin& origin) {
  if (!origin.model) return std::nullopt;
  try {
    LoadedModel model = load_model(*origin.model);
    const Fingerprint now = fingerprint_of(model.graph, model.recipe);
    if (now.parts != origin.graph->parts) return std::nullopt;
    return std::move(model.graph);
  } catch (const InputError&) {
    return std::nullopt;  // the answer is less exact without it
  }
}

// "first in ops 'a' to 'b'".
std::string difference_by_marks(const Graph& graph, const Fingerprint& then) {
  const OpSpan span = first_difference(graph, then);
  if (span.begin >= span.end) return {};
  const std::string& first = graph.ops[span.begin].name;
  const std::string& last = graph.ops[span.end - 1].name;
  return first == last ? fmt::format(", first at op '{}'", first)
                       : fmt::format(", first in ops '{}' to '{}'", first, last);
}

// "shapes, types differ: 'q' was [1, 8] bf16, here it is [2, 8] fp32".
std::string graph_difference(const PlanOrigin& then, const Graph& graph, const Fingerprint& now) {
  std::vector<std::string> parts = differing_parts(*then.graph, now);
  std::replace(parts.begin(), parts.end(), std::string("saved"), std::string("saved sets"));
  const bool is_recipe = parts.size() == 1 && parts[0] == "recipe";
  std::string text = fmt::format("{} differ{}", join_names(parts), is_recipe ? "s" : "");
  if (then.graph->op_count != now.op_count) {
    text += fmt::format(" ({} ops then, {} here)", grouped_text(then.graph->op_count),
                        grouped_text(now.op_count));
  }
  if (is_recipe) return text;
  if (const std::optional<Graph> own = graph_of(then)) {
    const std::string first = first_difference_text(*own, graph);
    return first.empty() ? text : fmt::format("{}: {}", text, first);
  }
  return text + difference_by_marks(graph, *then.graph);
}

// The first op of the file's regions that the graph has not, or "".
std::string missing_op(const Node& regions, const std::set<std::string_view>& ops) {
  for (const Node& region : regions.items) {
    for (const std::string_view key : {"first", "last"}) {
      const Entry* const entry = find_entry(region, key);
      if (entry != nullptr && entry->value.kind == NodeKind::kScalar &&
          !ops.contains(entry->value.scalar)) {
        return entry->value.scalar;
      }
    }
    const Entry* const inner = find_entry(region, "regions");
    if (inner == nullptr) continue;
    std::string name = missing_op(inner->value, ops);
    if (!name.empty()) return name;
  }
  return {};
}

std::string missing_op(const Document& document, const Graph& graph) {
  const Entry* const regions = find_entry(document.root, "regions");
  if (regions == nullptr) return {};
  std::set<std::string_view> ops;
  for (const Op& op : graph.ops) ops.insert(op.name);
  return missing_op(regions->value, ops);
}

// Where the file says what is not so: an option, or else the graph.
Position place_of(const Document& document, const Differences& differences) {
  if (differences.texts.empty()) return find_entry(document.root, "graph")->key_position;
  const Entry* const model = find_entry(document.root, "model");
  const Entry* const word = find_entry(model->value, differences.first_key);
  return word == nullptr ? model->key_position : word->key_position;
}

}  // namespace

void check_plan_origin(const Document& document, const ModelRequest& request,
                       const LoadedModel& model, const OriginFile& file) {
  const PlanOrigin then = read_plan_origin(document, file);
  if (!then.graph) return;
  const PlanOrigin now = plan_origin(request, model);
  if (then.graph->parts == now.graph->parts) return;
  Differences differences;
  if (then.model) differences = differing_words(then, now);
  const Position place = place_of(document, differences);
  if (then.model && differences.texts.empty()) {
    differences.texts.emplace_back("the same was asked for, but the model has changed since");
  }
  differences.texts.push_back(graph_difference(then, model.graph, *now.graph));
  if (const std::string name = missing_op(document, model.graph); !name.empty()) {
    differences.texts.push_back(fmt::format("op {} is not in this graph", in_quotes(name)));
  }
  fail_at(document, place,
          fmt::format("{} another graph: {}", file.is_for, fmt::join(differences.texts, "; ")));
}

}  // namespace cairn
