#include "cli/planned_model.h"

#include <algorithm>
#include <string_view>
#include <system_error>

#include "graph/error.h"
#include "models/plan_origin.h"

namespace cairn {
namespace {

const Entry* find_entry(const Node& node, std::string_view key) {
  const auto found = std::find_if(node.entries.begin(), node.entries.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  return found == node.entries.end() ? nullptr : &*found;
}

// Runs what may refuse the file's own request, and names the place in the file unless the message
// already names one.
template <typename Make>
auto at_model_part(const Document& file, const Make& make) {
  try {
    return make();
  } catch (const InputError& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) throw;
    fail_at(file, find_entry(file.root, "model")->key_position, error.what());
  }
}

PlanOrigin read_own_origin(const Document& file) {
  PlanOrigin origin = read_plan_origin(file);
  if (!origin.model) {
    fail_at(file, file.root.position,
            "this plan has no part 'model' that says what it is for: give the model, and the plan "
            "with --plan");
  }
  std::error_code error;
  if (origin.is_file && !std::filesystem::exists(origin.model->model, error)) {
    const Node& model = find_entry(file.root, "model")->value;
    fail_at(file, find_entry(model, "file")->value.position,
            "expected the model's file " + origin.model->model + ", found none");
  }
  return origin;
}

bool are_same(const ModelRequest& a, const ModelRequest& b) {
  const std::vector<RequestWord> words = request_words(a, true);
  const std::vector<RequestWord> others = request_words(b, true);
  return std::equal(words.begin(), words.end(), others.begin(), others.end(),
                    [](const RequestWord& x, const RequestWord& y) { return x.value == y.value; });
}

}  // namespace

PlannedModel load_planned_model(const Document& plan_file, const ModelOptions& options) {
  const PlanOrigin origin = read_own_origin(plan_file);
  const ModelRequest own =
      at_model_part(plan_file, [&] { return model_request(ModelOptions{}, *origin.model); });
  PlannedModel planned{.request = model_request(options, own)};
  planned.model = are_same(own, planned.request)
                      ? at_model_part(plan_file, [&] { return load_model(planned.request); })
                      : load_model(planned.request);
  return planned;
}

}  // namespace cairn
