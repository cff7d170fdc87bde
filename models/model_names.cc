#include "models/model_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <iterator>

#include "graph/error.h"

namespace cairn {
namespace {

constexpr std::string_view kSeparators = "-_. ";
constexpr std::size_t kMostOffered = 6;
constexpr std::size_t kShortestBeginning = 2;  // letters that are worth comparing

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_separator(char c) { return kSeparators.find(c) != std::string_view::npos; }

std::string_view last_path_part(std::string_view name) {
  return name.substr(name.find_last_of('/') + 1);
}

// "-v0.3" of "mistral-7b-instruct-v0.3"; "" where it does not end in a version.
std::string_view version_of(std::string_view name) {
  const std::size_t dash = name.rfind("-v");
  if (dash == std::string_view::npos || dash + 2 == name.size()) return {};
  const std::string_view digits = name.substr(dash + 2);
  const bool is_version =
      std::all_of(digits.begin(), digits.end(), [](char c) { return is_digit(c) || c == '.'; });
  return is_version ? name.substr(dash) : std::string_view();
}

// Letters and digits: "Phi-3.5-mini" is "phi35mini".
std::string squashed(std::string_view name) {
  std::string text;
  for (const char c : lower_case(name)) {
    if (!is_separator(c)) text += c;
  }
  return text;
}

std::string_view stem_of(const NamedModel& model) { return model.file->stem; }

std::vector<std::string> names_where(const std::vector<NamedModel>& models,
                                     const std::function<bool(const NamedModel&)>& is_wanted) {
  std::vector<std::string> names;
  for (const NamedModel& model : models) {
    if (is_wanted(model)) names.emplace_back(stem_of(model));
  }
  return names;
}

// The parts of a name that say a size, such as 7b, 350m, 8x7b, or are a number of their own: 152.
std::vector<std::string> sizes_of(std::string_view name) {
  std::vector<std::string> sizes;
  std::string part;
  for (const char c : lower_case(name) + "-") {
    if (c != '-' && c != '_') {
      part += c;
      continue;
    }
    const bool is_size = part.size() > 1 && is_digit(part.front()) &&
                         (part.back() == 'b' || part.back() == 'm' ||
                          std::all_of(part.begin(), part.end(), is_digit));
    if (is_size) sizes.push_back(part);
    part.clear();
  }
  return sizes;
}

// Those of the size that `name` asks for first, and the first kMostOffered of them all.
std::string offer_list(std::vector<std::string> names, std::string_view name) {
  const std::vector<std::string> wanted = sizes_of(name);
  std::stable_partition(names.begin(), names.end(), [&](const std::string& other) {
    return !wanted.empty() && sizes_of(other) == wanted;
  });
  const std::size_t more = names.size() - std::min(names.size(), kMostOffered);
  names.resize(names.size() - more);
  return fmt::format("; the catalogue has {}{}", join_names(names),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

std::vector<std::string> names_that_begin(const std::vector<NamedModel>& models,
                                          const std::string& beginning) {
  if (beginning.size() < kShortestBeginning) return {};
  return names_where(models, [&](const NamedModel& model) {
    return squashed(stem_of(model)).starts_with(beginning);
  });
}

// "base" of "flan-t5-base"; "" where the name does not end in a word for a size.
std::string_view size_word_of(std::string_view name) {
  constexpr std::array<std::string_view, 9> kSizeWords = {
      "tiny", "mini", "small", "base", "medium", "large", "xl", "xxl", "huge"};
  const std::string_view last = name.substr(name.find_last_of(kSeparators) + 1);
  const auto found = std::find(kSizeWords.begin(), kSizeWords.end(), last);
  return found == kSizeWords.end() ? std::string_view() : *found;
}

std::string digits_of(std::string_view name) {
  std::string digits;
  std::copy_if(name.begin(), name.end(), std::back_inserter(digits), is_digit);
  return digits;
}

// As far as names tell. "gpt22" may be a slip for "gpt2"; "phi-2" is another model than "phi-4".
bool are_of_the_same_size(std::string_view a, std::string_view b) {
  const std::string_view word_a = size_word_of(a);
  const std::string_view word_b = size_word_of(b);
  if (!word_a.empty() && !word_b.empty() && word_a != word_b) return false;
  const std::string digits_a = digits_of(a);
  const std::string digits_b = digits_of(b);
  if (digits_a == digits_b) return true;
  const bool is_longer = digits_a.starts_with(digits_b) || digits_b.starts_with(digits_a);
  return is_longer && sizes_of(a).empty() && sizes_of(b).empty();
}

// A slip of the keyboard in a name of the same size.
std::string nearest_of_the_same_size(const std::vector<NamedModel>& models, std::string_view name) {
  return nearest_name(name, names_where(models, [&](const NamedModel& model) {
                        return are_of_the_same_size(stem_of(model), name);
                      }));
}

// The names that begin like as many of the parts of `name` as possible: "qwen2.5-coder-7b" has
// no names, nor has "qwen2.5-coder", but "qwen2.5" has. At last only its first letters count.
std::vector<std::string> names_that_begin_alike(const std::vector<NamedModel>& models,
                                                const std::string& name) {
  for (std::size_t end = name.find_last_of(kSeparators); end != std::string::npos && end > 0;
       end = name.find_last_of(kSeparators, end - 1)) {
    std::vector<std::string> names = names_that_begin(models, squashed(name.substr(0, end)));
    if (!names.empty()) return names;
  }
  const auto end = std::find_if(name.begin(), name.end(), is_digit);
  return end == name.end() ? std::vector<std::string>()
                           : names_that_begin(models, squashed({name.begin(), end}));
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

bool is_part_of_name(std::string_view part, std::string_view name) {
  if (lower_case(name).find(lower_case(part)) != std::string::npos) return true;
  const std::string wanted = squashed(part);
  return !wanted.empty() && squashed(name).find(wanted) != std::string::npos;
}

std::string plain_model_name(std::string_view name) {
  constexpr std::string_view kMaker = "meta-";
  constexpr std::array<std::string_view, 6> kTrainedAs = {"-instruct", "-it",   "-hf",
                                                          "-chat",     "-base", "-instruct-2507"};
  std::string plain = lower_case(last_path_part(name));
  if (plain.starts_with(kMaker)) plain.erase(0, kMaker.size());
  const std::string version(version_of(plain));
  plain.erase(plain.size() - version.size());
  bool is_done = false;
  while (!is_done) {
    const auto ending =
        std::find_if(kTrainedAs.begin(), kTrainedAs.end(), [&](std::string_view trained_as) {
          return plain.size() > trained_as.size() && plain.ends_with(trained_as);
        });
    is_done = ending == kTrainedAs.end();
    if (!is_done) plain.erase(plain.size() - ending->size());
  }
  return plain + version;
}

std::vector<NamedModel> named_models(const std::vector<LibraryFile>& catalogue) {
  std::vector<NamedModel> models;
  for (const LibraryFile& file : catalogue) {
    NamedModel model{.file = &file};
    const Document document = read_library_file(file);
    for (const Entry& entry : document.root.entries) {
      if (entry.key == "source") model.source = entry.value.scalar;
      if (entry.key == "family") model.family = entry.value.scalar;
    }
    models.push_back(std::move(model));
  }
  return models;
}

const NamedModel* find_by_plain_name(const std::vector<NamedModel>& models, std::string_view name) {
  const std::string last_part = lower_case(last_path_part(name));
  const std::string plain = plain_model_name(name);
  const NamedModel* found = nullptr;
  for (const NamedModel& model : models) {
    const std::string own = lower_case(stem_of(model));
    if (own == last_part) return &model;
    const bool is_source =
        model.source.find('/') != std::string::npos && plain_model_name(model.source) == plain;
    if (own != plain && !is_source) continue;
    if (found != nullptr) return nullptr;
    found = &model;
  }
  return found;
}

std::string offer_models(const std::vector<NamedModel>& models, std::string_view name) {
  const std::string last_part(last_path_part(name));
  const std::string wanted = squashed(last_part);
  if (wanted.size() < kShortestBeginning) return {};
  std::vector<std::string> names = names_where(
      models, [&](const NamedModel& model) { return squashed(stem_of(model)) == wanted; });
  if (names.size() == 1) return fmt::format("; did you mean '{}'?", names[0]);
  names = names_that_begin(models, wanted);
  if (!names.empty()) return offer_list(std::move(names), last_part);
  const std::string nearest = nearest_of_the_same_size(models, last_part);
  if (!nearest.empty()) return fmt::format("; did you mean '{}'?", nearest);
  names = names_where(models, [&](const NamedModel& model) {
    return squashed(stem_of(model)).find(wanted) != std::string::npos ||
           squashed(model.family).starts_with(wanted);
  });
  if (!names.empty()) return offer_list(std::move(names), last_part);
  names = names_that_begin_alike(models, last_part);
  return names.empty() ? std::string() : offer_list(std::move(names), last_part);
}

}  // namespace cairn
