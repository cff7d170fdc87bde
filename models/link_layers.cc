#include "models/link_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "graph/error.h"
#include "models/library.h"
#include "models/linear_layers.h"

namespace cairn {
namespace {

// Finds a layer by name, or returns null.
using FindLayer = std::function<const Layer*(const std::string& name)>;

void check_attributes(const FamilyOp& op, const Layer& layer) {
  std::vector<std::string> names;
  for (const LayerAttribute& attribute : layer.attributes) names.push_back(attribute.name);
  for (const auto& [name, expression] : op.layer_attributes) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    std::string hint = did_you_mean(name, names);
    if (hint.empty() && !names.empty()) hint = "; it has " + join_names(names);
    fail_at(*expression.document, expression.node->position,
            fmt::format("op '{}': a {} has no attribute {}{}", op.name, layer.name, in_quotes(name),
                        hint));
  }
  for (const LayerAttribute& attribute : layer.attributes) {
    const bool is_given =
        attribute.default_value ||
        std::any_of(op.layer_attributes.begin(), op.layer_attributes.end(),
                    [&](const auto& given) { return given.first == attribute.name; });
    if (is_given) continue;
    fail_at(
        *op.document, op.position,
        fmt::format("op '{}': a {} needs the attribute '{}'", op.name, layer.name, attribute.name));
  }
}

void check_use(const FamilyOp& op, const Layer& layer) {
  if (op.inputs.size() != layer.inputs.size()) {
    fail_at(
        *op.document, op.position,
        fmt::format("op '{}': a {} takes {} input{}, found {}", op.name, layer.name,
                    layer.inputs.size(), layer.inputs.size() == 1 ? "" : "s", op.inputs.size()));
  }
  const std::size_t named = op.output_names.empty() ? 1 : op.output_names.size();
  if (named != layer.outputs.size()) {
    fail_at(
        *op.document, op.position,
        fmt::format("op '{}': it makes {} tensor{}, 'out' names {}", op.name, layer.outputs.size(),
                    layer.outputs.size() == 1 ? "" : "s", op.output_names.size()));
  }
  check_attributes(op, layer);
}

// Follows every mention of a layer, depth first.
class Walk {
 public:
  explicit Walk(FindLayer find_layer, std::vector<std::string> known)
      : find_layer_(std::move(find_layer)), known_(std::move(known)) {}

  void visit_family(const Family& family) {
    family_ = &family;
    for (const auto& [kind, implementation] : family.implementations) {
      check_is_kind_or_composite(kind, implementation);
      for (const auto& [choice, name] : implementation.layer_of_choice) {
        visit_implementation(kind, name, implementation);
      }
    }
    for (const FamilyItem& item : family.items) {
      if (item.block_ops.empty()) visit_op(item.op);
      for (const FamilyOp& op : item.block_ops) visit_op(op);
    }
  }

 private:
  void check_is_kind_or_composite(const std::string& name, const Implementation& implementation) {
    if (find_op_kind(name) != nullptr) return;
    const Layer* const layer = find_layer_(name);
    if (layer != nullptr && layer->of_kind.empty()) return;
    std::vector<std::string> known = op_kind_names();
    known.insert(known.end(), known_.begin(), known_.end());
    fail_at(
        *implementation.document, implementation.key_position,
        fmt::format("implementation of '{}': unknown op kind{}", name, did_you_mean(name, known)));
  }

  // A layer of the kind, or a composite with what the other has.
  void visit_implementation(const std::string& kind, const std::string& name,
                            const Implementation& implementation) {
    const std::string what = fmt::format("implementation of '{}'", kind);
    const bool is_kind = find_op_kind(kind) != nullptr;
    if (name.empty()) {
      if (is_kind) return;
      fail_at(*implementation.document, implementation.position,
              what + ": a composite has no kernel of its own");
    }
    const Layer* const layer = find_layer_(name);
    if (layer == nullptr) {
      fail_at(*implementation.document, implementation.position,
              fmt::format("{}: there is no layer '{}'{}", what, name, did_you_mean(name, known_)));
    }
    if (!is_kind && layer->of_kind.empty()) return;  // each use is checked
    if (!is_kind || layer->of_kind != kind) {
      fail_at(*implementation.document, implementation.position,
              fmt::format(
                  "{}: layer '{}' {}", what, name,
                  layer->of_kind.empty() ? "is a composite" : "spells out a " + layer->of_kind));
    }
  }

  void visit_op(const FamilyOp& op) {
    if (op.kind != nullptr) return;
    const Layer* const layer = find_layer_(op.layer_name);
    if (layer != nullptr && !layer->of_kind.empty()) {
      fail_at(*op.document, op.kind_position,
              fmt::format("op '{0}': key 'op': layer '{1}' spells out a {2}: say 'op: {2}', and "
                          "'{2}: {1}' under implementations",
                          op.name, layer->name, layer->of_kind));
    }
    if (layer == nullptr) {
      std::vector<std::string> known = op_kind_names();
      known.insert(known.end(), known_.begin(), known_.end());
      fail_at(*op.document, op.kind_position,
              fmt::format("op '{}': key 'op': unknown op kind {}{}", op.name,
                          in_quotes(op.layer_name), did_you_mean(op.layer_name, known)));
    }
    visit_use(op, *layer);
    const auto choices = family_->implementations.find(layer->name);
    if (choices == family_->implementations.end()) return;
    for (const auto& [choice, name] : choices->second.layer_of_choice) {
      if (name != layer->name) visit_use(op, *find_layer_(name));
    }
  }

  void visit_use(const FamilyOp& op, const Layer& layer) {
    check_use(op, layer);
    if (std::find(open_.begin(), open_.end(), layer.name) != open_.end()) {
      fail_at(*op.document, op.position,
              fmt::format("op '{}': layer '{}' contains itself", op.name, layer.name));
    }
    if (std::find(done_.begin(), done_.end(), layer.name) != done_.end()) return;
    open_.push_back(layer.name);
    for (const FamilyOp& inner : layer.ops) visit_op(inner);
    open_.pop_back();
    done_.push_back(layer.name);
  }

  const Family* family_ = nullptr;
  FindLayer find_layer_;
  std::vector<std::string> known_ = {};  // names to offer
  std::vector<std::string> open_ = {};   // from the family down to where the walk stands
  std::vector<std::string> done_ = {};
};

}  // namespace

std::map<std::string, Layer> link_layers(const Family& family,
                                         const std::vector<std::filesystem::path>& folders) {
  std::map<std::string, Layer> layers;
  const std::vector<LibraryFile> files = library_files("layers", folders);
  const FindLayer find_layer = [&](const std::string& name) -> const Layer* {
    const auto known = layers.find(name);
    if (known != layers.end()) return &known->second;
    const LibraryFile* const file = find_library_file(files, name);
    if (file == nullptr) return nullptr;
    Layer layer = parse_layer(read_library_file(*file));
    check_own_name(*file, *layer.document, layer.name);
    return &layers.emplace(name, std::move(layer)).first->second;
  };
  Walk(find_layer, stems(files)).visit_family(family);
  for (const std::string& name : linear_layer_names(family)) find_layer(name);
  return layers;
}

void check_layers(const Family& family, const std::map<std::string, Layer>& layers) {
  std::vector<std::string> names;
  for (const auto& [name, layer] : layers) names.push_back(name);
  const FindLayer find_layer = [&](const std::string& name) -> const Layer* {
    const auto known = layers.find(name);
    return known == layers.end() ? nullptr : &known->second;
  };
  Walk(find_layer, names).visit_family(family);
}

}  // namespace cairn
