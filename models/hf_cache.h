#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace cairn {

// The config.json of "org/name" in the local Hugging Face cache (HF_HUB_CACHE, HF_HOME/hub,
// ~/.cache/huggingface/hub), of the revision that refs/main names, else of any snapshot.
std::optional<std::filesystem::path> find_in_hf_cache(const std::string& org_and_name);

// The folder that is searched, for messages.
std::filesystem::path hf_cache_folder();

}  // namespace cairn
