#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "models/family.h"

namespace cairn {

// Every layer that the family's ops and implementations mention, and those that these mention, by
// name; and those of linear_layer_names() that there are. Checks each use: inputs, attributes and
// outputs. Throws InputError at the use for a layer that does not exist, does not fit, or contains
// itself.
std::map<std::string, Layer> link_layers(const Family& family,
                                         const std::vector<std::filesystem::path>& folders);

// The same check without files: `layers` are all there are.
void check_layers(const Family& family, const std::map<std::string, Layer>& layers);

}  // namespace cairn
