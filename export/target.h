#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "export/vocabulary.h"
#include "graph/plan.h"

// A trainer that plans are exported to. Each is one file in export/targets/ and one line in
// export/targets.cc.

namespace cairn {

struct ExportAnswer;

// How a trainer's checkpoints behave, where that can make a plan of it wrong.
struct CheckpointBehaviour {
  bool is_reentrant = false;   // torch's use_reentrant=True, as it is by default there
  bool replays_random = true;  // false: a recompute draws other dropout masks than forward
  bool is_torch = true;        // torch.utils.checkpoint, or what is like it
};

struct ExportTarget {
  std::string_view name = {};      // as --to takes it
  std::string_view title = {};     // whose it is: "Hugging Face Transformers"
  std::string_view versions = {};  // for which the emitted text holds
  // Whose code of a model it runs, as families name it: "hf"; "": any.
  std::string_view library = {};
  // It runs models by code of its own, whatever library the graph is of; where families know that
  // code, their name of it.
  bool has_own_code = false;
  std::string_view own_library = {};
  Vocabulary vocabulary = {};
  Extent extent = Extent::kPrefix;  // of its recomputes
  CheckpointBehaviour behaviour = {};
  std::string_view comment = "# ";  // how a line of comment begins; "" where there are none
  // The text for the plan in `exported`, which the vocabulary can say, without a header.
  std::string (*write)(const ExportAnswer& answer) = nullptr;
  // What else to mind with this very plan; may be null.
  std::vector<std::string> (*traps)(const ExportAnswer& answer) = nullptr;
};

// In the order of lists.
const std::vector<ExportTarget>& export_targets();
// Throws InputError that offers the nearest name.
const ExportTarget& find_export_target(std::string_view name);

}  // namespace cairn
