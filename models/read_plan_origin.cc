#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "graph/error.h"
#include "models/fields.h"
#include "models/find_model.h"
#include "models/plan_origin.h"
#include "models/training_keys.h"

// The reading half of models/plan_origin.h.

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kFormatVersion = 1;

class ModelPartReader {
 public:
  ModelPartReader(const Document& document, const Node& node, std::string_view what)
      : fields_(document, node, fmt::format("{}: key 'model'", what)),
        document_(document),
        folder_(fs::path(document.file_name).parent_path()) {}

  void read(PlanOrigin& origin) {
    ModelRequest request;
    read_model(request, origin.is_file);
    request.batch = fields_.optional_count("batch").value_or(1);
    request.tokens = fields_.optional_count("tokens");
    request.vocab = fields_.optional_count("vocab");
    read_settings(request);
    read_training_keys(document_, fields_, request);
    request.expert_imbalance = above_zero("expert_imbalance");
    request.expert_capacity = above_zero("expert_capacity");
    request.text_part_only = fields_.optional_one_of("part", {"all", "text"}) == "text";
    for (const std::string& path : fields_.optional_names("models")) {
      request.folders.push_back(folder_ / path);
    }
    fields_.refuse_unknown();
    origin.model = std::move(request);
  }

 private:
  void read_model(ModelRequest& request, bool& is_file) {
    const std::optional<std::string> name = fields_.optional_text("name");
    const std::optional<std::string> file = fields_.optional_text("file");
    if (name && file) fields_.fail_at_key("file", "expected it or 'name', found both");
    if (!name && !file) fields_.fail("missing key 'name', or 'file'");
    is_file = file.has_value();
    if (file) {
      request.model = (folder_ / not_empty("file", *file)).string();
    } else {
      request.model = not_empty("name", *name);
      if (looks_like_a_path(*name)) {
        fields_.fail_at_key("name", fmt::format("expected a name, found the path {} (a path is "
                                                "given with 'file')",
                                                in_quotes(*name)));
      }
    }
  }

  std::string not_empty(std::string_view key, const std::string& text) const {
    if (text.empty()) fields_.fail_at_key(key, "expected a name, found an empty text");
    return text;
  }

  std::optional<double> above_zero(std::string_view key) {
    const std::optional<double> value = fields_.optional_number(key);
    if (value && *value <= 0) {
      fields_.fail_at_key(key, fmt::format("expected a number above 0, found {}", *value));
    }
    return value;
  }

  void read_settings(ModelRequest& request) {
    const Node* const node = fields_.find("set");
    if (node == nullptr) return;
    const std::string what = fields_.what_of("set");
    const Fields mapping(document_, *node, what);  // refuses what is none
    for (const Entry& entry : node->entries) {
      request.set.emplace_back(entry.key, to_text(document_, entry.value, what));
    }
  }

  Fields fields_;
  const Document& document_;
  fs::path folder_ = {};
};

// A number of so many hexadecimal digits, in lower case.
std::uint64_t read_hex(const Fields& fields, std::string_view key, std::string_view text,
                       std::size_t digits) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const bool is_hex = text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  if (!is_hex || text.size() != digits || std::from_chars(text.data(), end, value, 16).ptr != end) {
    fields.fail_at_key(
        key, fmt::format("expected {} hexadecimal digits, found {}", digits, in_quotes(text)));
  }
  return value;
}

std::int64_t read_count(Fields& fields, std::string_view key) {
  const std::int64_t count = fields.integer(key);
  if (count < 1) {
    fields.fail_at_key(key, fmt::format("expected a positive integer, found {}", count));
  }
  return count;
}

void read_marks(Fields& fields, Fingerprint& fingerprint) {
  constexpr std::size_t kDigits = 4;
  const std::string text = fields.text("marks");
  if (text.size() != kDigits * kFingerprintMarks) {
    fields.fail_at_key("marks", fmt::format("expected {} hexadecimal digits, found {} characters",
                                            kDigits * kFingerprintMarks, text.size()));
  }
  for (std::size_t i = 0; i < kFingerprintMarks; ++i) {
    const std::string_view digits = std::string_view(text).substr(i * kDigits, kDigits);
    fingerprint.marks[i] = static_cast<std::uint16_t>(read_hex(fields, "marks", digits, kDigits));
  }
}

Fingerprint read_graph_part(const Document& document, const Node& node, std::string_view what) {
  constexpr std::size_t kDigits = 16;
  Fields fields(document, node, fmt::format("{}: key 'graph'", what));
  Fingerprint fingerprint{.op_count = read_count(fields, "ops"),
                          .tensor_count = read_count(fields, "tensors")};
  const std::uint64_t whole = read_hex(fields, "fingerprint", fields.text("fingerprint"), kDigits);
  Fields parts(document, fields.require("parts"), fields.what_of("parts"));
  for (std::size_t i = 0; i < kFingerprintParts.size(); ++i) {
    const std::string_view part = kFingerprintParts[i];
    fingerprint.parts[i] = read_hex(parts, part, parts.text(part), kDigits);
  }
  parts.refuse_unknown();
  read_marks(fields, fingerprint);
  fields.refuse_unknown();
  if (whole != combined(fingerprint)) {
    fields.fail_at_key("fingerprint",
                       fmt::format("expected '{:016x}', which its parts give, found '{:016x}'",
                                   combined(fingerprint), whole));
  }
  return fingerprint;
}

}  // namespace

bool has_regions(const Document& plan_file) {
  const std::vector<Entry>& entries = plan_file.root.entries;
  return std::any_of(entries.begin(), entries.end(), [](const Entry& entry) {
    return entry.key == "regions" && !entry.value.items.empty();
  });
}

PlanOrigin read_plan_origin(const Document& document, const OriginFile& file) {
  PlanOrigin origin;
  Fields root(document, document.root, std::string(file.what));
  if (const std::int64_t version = root.integer(file.version_key); version != kFormatVersion) {
    root.fail_at_key(file.version_key,
                     fmt::format("expected version {}, found {}", kFormatVersion, version));
  }
  if (const Node* model = root.find("model")) {
    ModelPartReader(document, *model, file.what).read(origin);
    origin.model->is_checkpointed = has_regions(document);
  }
  if (const Node* graph = root.find("graph"))
    origin.graph = read_graph_part(document, *graph, file.what);
  return origin;
}

}  // namespace cairn
