#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// YAML as Cairn writes it. models/document.h reads it, and so does any other reader of YAML.

namespace cairn {

// A text, quoted where a reader could take it for something else.
std::string yaml_scalar(std::string_view text);

// A text that was typed as a value: a whole number stays one.
std::string yaml_value(std::string_view text);

// "[a, b]" on one line; the items are YAML.
std::string yaml_list(const std::vector<std::string>& items);

// "key: [a, b]" or "key: {a: 1, b: 2}", in lines of some length; the items are YAML.
std::string yaml_list_lines(std::size_t indent, std::string_view key,
                            const std::vector<std::string>& items);
std::string yaml_mapping_lines(std::size_t indent, std::string_view key,
                               const std::vector<std::string>& items);

}  // namespace cairn
