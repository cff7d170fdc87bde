#include "models/config_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>

#include "graph/error.h"

namespace cairn {
namespace {

const Node* entry_named(const Node& mapping, std::string_view key) {
  for (const Entry& entry : mapping.entries) {
    if (entry.key == key && entry.value.kind != NodeKind::kNull) return &entry.value;
  }
  return nullptr;
}

void expect(const Document& document, const Node& node, NodeKind kind, std::string_view path) {
  if (node.kind == kind) return;
  fail_at(document, node.position,
          fmt::format("key '{}': expected a {}, found {}", path,
                      kind == NodeKind::kMapping ? "mapping" : "list", describe(node)));
}

// What stands at the rest of a path, ".x" or "[0]" and so on, below `node`; null when nothing.
const Node* follow(const Document& document, const Node* node, std::string_view path,
                   std::size_t begin) {
  while (node != nullptr && begin < path.size()) {
    if (path[begin] == '[') {
      expect(document, *node, NodeKind::kSequence, path.substr(0, begin));
      std::size_t item = 0;
      const char* const first = path.data() + begin + 1;
      const auto parsed = std::from_chars(first, path.data() + path.size(), item);
      begin = static_cast<std::size_t>(parsed.ptr - path.data()) + 1;
      node = item < node->items.size() && node->items[item].kind != NodeKind::kNull
                 ? &node->items[item]
                 : nullptr;
    } else {
      expect(document, *node, NodeKind::kMapping, path.substr(0, begin));
      const std::size_t end = path.find_first_of(".[", begin + 1);
      node = entry_named(*node, path.substr(begin + 1, end - begin - 1));
      begin = end;
    }
  }
  return node;
}

}  // namespace

ConfigIndex::ConfigIndex(const std::vector<DimSource>& sources) : sources_(sources) {
  for (const DimSource& source : sources) {
    auto& values = values_.emplace_back();
    for (const Entry& entry : source.mapping->entries) {
      if (entry.value.kind != NodeKind::kNull) values.emplace(entry.key, &entry.value);
    }
  }
}

FoundValue ConfigIndex::find(const std::string& dim_name,
                             const std::vector<std::string>& config_keys) const {
  const std::vector<std::string> own_name = {dim_name};
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    for (const std::string& key : sources_[i].by_dim_name ? own_name : config_keys) {
      const std::size_t first_end = std::string_view(key).find_first_of(".[");
      const auto found = values_[i].find(std::string_view(key).substr(0, first_end));
      if (found == values_[i].end()) continue;
      const bool counts_entries = key.ends_with("[]");
      const std::string_view path =
          std::string_view(key).substr(0, key.size() - (counts_entries ? 2 : 0));
      const Node* const node =
          follow(*sources_[i].document, found->second, path, std::min(first_end, path.size()));
      if (node == nullptr) continue;
      if (counts_entries && node->kind == NodeKind::kScalar) {
        fail_at(
            *sources_[i].document, node->position,
            fmt::format("key '{}': expected a mapping or a list, found {}", path, describe(*node)));
      }
      return {&sources_[i], node, key, counts_entries};
    }
  }
  return {};
}

bool ConfigIndex::is_null(const std::string& dim_name,
                          const std::vector<std::string>& config_keys) const {
  const std::vector<std::string> own_name = {dim_name};
  return std::any_of(sources_.begin(), sources_.end(), [&](const DimSource& source) {
    const std::vector<std::string>& keys = source.by_dim_name ? own_name : config_keys;
    return std::any_of(source.mapping->entries.begin(), source.mapping->entries.end(),
                       [&](const Entry& entry) {
                         return entry.value.kind == NodeKind::kNull &&
                                std::find(keys.begin(), keys.end(), entry.key) != keys.end();
                       });
  });
}

void ConfigIndex::fail_missing(const std::string& dim_name,
                               const std::vector<std::string>& config_keys,
                               const std::string& family_name, const std::string& advice) const {
  const DimSource& first = sources_.front();
  const std::string& key = first.by_dim_name ? dim_name : config_keys.front();
  std::vector<std::string> present;
  for (const Entry& entry : first.mapping->entries) {
    if (entry.key == key) {
      fail_at(*first.document, entry.key_position,
              fmt::format("key '{}': expected a value, found nothing", key));
    }
    present.push_back(entry.key);
  }
  const std::string found = nearest_name(key, present);
  fail_at(*first.document, first.mapping->position,
          fmt::format("missing key '{}', which family '{}' needs{}{}", key, family_name,
                      found.empty() ? "" : ", found " + in_quotes(found), advice));
}

}  // namespace cairn
