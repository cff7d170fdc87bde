#include "export/python_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn {
namespace {

constexpr std::size_t kLineWidth = 88;

// The length of the run with one step from i on.
std::size_t run_length(const std::vector<std::int64_t>& numbers, std::size_t i, std::int64_t step) {
  std::size_t end = i + 1;
  while (end < numbers.size() && numbers[end] - numbers[end - 1] == step) ++end;
  return end - i;
}

std::string range_text(std::int64_t first, std::int64_t last, std::int64_t step) {
  if (step != 1) return fmt::format("range({}, {}, {})", first, last + 1, step);
  if (first == 0) return fmt::format("range({})", last + 1);
  return fmt::format("range({}, {})", first, last + 1);
}

}  // namespace

std::string python_numbers(const std::vector<std::int64_t>& numbers) {
  if (numbers.size() > 2) {
    const std::int64_t step = numbers[1] - numbers[0];
    if (run_length(numbers, 0, step) == numbers.size()) {
      return range_text(numbers.front(), numbers.back(), step);
    }
  }
  std::string text = "[";
  for (std::size_t i = 0; i < numbers.size();) {
    if (i > 0) text += ", ";
    const std::size_t length = run_length(numbers, i, 1);
    if (length > 2) {
      text += "*" + range_text(numbers[i], numbers[i + length - 1], 1);
      i += length;
    } else {
      text += std::to_string(numbers[i++]);
    }
  }
  return text + "]";
}

void PythonItems::add(const std::string& list, std::int64_t number, const std::string& item) {
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
    return group.is_for_each && group.list == list && group.item == item;
  });
  if (found != groups.end()) {
    found->numbers.push_back(number);
  } else {
    groups.push_back({.item = item, .is_for_each = true, .list = list, .numbers = {number}});
  }
}

void PythonItems::add(const std::string& item) { groups.push_back({.item = item}); }

std::string PythonItems::lines() const {
  std::string text;
  for (const Group& group : groups) {
    if (!group.is_for_each) {
      text += "    " + group.item + ",\n";
      continue;
    }
    std::vector<std::int64_t> numbers = group.numbers;
    std::sort(numbers.begin(), numbers.end());
    const std::string loop = "for i in " + python_numbers(numbers);
    const std::string line = fmt::format("    *[{} {}],\n", group.item, loop);
    text += line.size() <= kLineWidth
                ? line
                : fmt::format("    *[\n        {}\n        {}\n    ],\n", group.item, loop);
  }
  return text;
}

std::string python_path(const std::string& path, const ModelLayer* layer) {
  if (layer == nullptr) return "\"" + path + "\"";
  return fmt::format("f\"{}.{{i}}{}\"", layer->list, path.substr(layer->path.size()));
}

const ModelLayer* layer_of_path(const std::vector<ModelLayer>& layers, const std::string& path) {
  for (const ModelLayer& layer : layers) {
    if (!layer.list.empty() && (path == layer.path || path.starts_with(layer.path + "."))) {
      return &layer;
    }
  }
  return nullptr;
}

}  // namespace cairn
