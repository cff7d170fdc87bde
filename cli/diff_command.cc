#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "cli/advice.h"
#include "cli/command.h"
#include "cli/diff.h"
#include "cli/diff_reasons.h"
#include "cli/header.h"
#include "cli/json.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/step_names.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/units.h"
#include "cli/usage.h"
#include "graph/error.h"

namespace cairn {
namespace {

constexpr std::size_t kWidestName = 30;

struct DiffOptions {
  std::array<std::string, 2> sides = {};  // the arguments of A and of B
  std::string both = {};
  std::string top = "20";
  bool json = false;
};

struct Side {
  LoadedModel model = {};
  Extent extent = Extent::kPrefix;
  Evaluation evaluation = {};
};

struct SideOptions {
  ModelOptions model = {};
  std::optional<std::string> checkpointing = {};
  std::optional<std::string> extent = {};
};

// The arguments are read as those of a command line of their own.
SideOptions parse_side(const std::string& arguments, const std::string& both) {
  for (const char quote : {'"', '\''}) {
    if (std::count(arguments.begin(), arguments.end(), quote) % 2 == 0) continue;
    throw InputError(fmt::format("the quote {} is not closed", quote));
  }
  SideOptions options;
  CLI::App app("", "cairn");
  CLI::App* const command = app.add_subcommand("diff");
  add_model_options(*command, options.model);
  add_checkpointing_option(*command, options.checkpointing);
  add_extent_option(*command, options.extent);
  try {
    app.parse(fmt::format("diff {} {}", arguments, both));
  } catch (const CLI::CallForHelp&) {
    throw InputError("expected a model and its options, found --help");
  } catch (const CLI::ParseError& error) {
    throw InputError(usage_error(app, error));
  }
  const std::string unknown = unknown_argument(app);
  if (!unknown.empty()) throw InputError(unknown);
  return options;
}

Side evaluate_side(const DiffOptions& options, std::size_t number) {
  const std::string& arguments = options.sides[number];
  try {
    const SideOptions side_options = parse_side(arguments, options.both);
    ModelRequest request = model_request(side_options.model);
    const Strategy strategy = requested_strategy(side_options.checkpointing, request);
    request.is_checkpointed = is_checkpointed(strategy);
    const Extent extent = requested_extent(side_options.extent, request);
    Side side{.model = load_model(request), .extent = extent};
    side.evaluation = evaluate(side.model.graph, strategy,
                               {.extent = side.extent, .step = side.model.recipe.step});
    return side;
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}, '{}': {}", number == 0 ? "A" : "B", arguments, error.what()));
  }
}

std::string signed_bytes(std::int64_t bytes) { return (bytes > 0 ? "+" : "") + bytes_text(bytes); }

std::string peak_line(const char* label, const std::string& arguments, const Side& side) {
  return labelled_text(
      fmt::format("{}  ", label),
      fmt::format("{}: peak {} with {}, in the {}", arguments,
                  bytes_text(side.evaluation.trace.peak_bytes), with_strategy(side.evaluation.name),
                  peak_place(side.model.graph, side.evaluation)));
}

std::vector<DiffReason> reasons_of(const std::array<Side, 2>& sides) {
  return diff_reasons(sides[0].model, sides[0].evaluation, sides[1].model, sides[1].evaluation);
}

std::string diff_text(const DiffOptions& options, const std::array<Side, 2>& sides,
                      const std::vector<PeakDifference>& differences, std::size_t most) {
  std::string text = peak_line("A", options.sides[0], sides[0]);
  text += peak_line("B", options.sides[1], sides[1]);
  const std::int64_t a_bytes = sides[0].evaluation.trace.peak_bytes;
  const std::int64_t b_bytes = sides[1].evaluation.trace.peak_bytes;
  text += labelled_text("B - A  ", fmt::format("{} ({} bytes)", signed_bytes(b_bytes - a_bytes),
                                               grouped_text(b_bytes - a_bytes)));
  for (const DiffReason& reason : reasons_of(sides)) {
    text += labelled_text(fmt::format("  {:>9}  ", signed_bytes(reason.bytes)), reason.text);
  }
  if (differences.empty()) return text + "\nThe same is live at both peaks.\n";
  Table table{.columns = {{"live at the peak"},
                          {"A", Align::kRight},
                          {"B", Align::kRight},
                          {"B - A", Align::kRight},
                          {"category"}}};
  PeakDifference rest;
  std::size_t rest_count = 0;
  for (const PeakDifference& difference : differences) {
    if (table.rows.size() == most) {
      rest.a_bytes += difference.a_bytes;
      rest.b_bytes += difference.b_bytes;
      ++rest_count;
      continue;
    }
    table.rows.push_back({elide_middle(difference.name, kWidestName),
                          bytes_text(difference.a_bytes), bytes_text(difference.b_bytes),
                          signed_bytes(difference.b_bytes - difference.a_bytes),
                          std::string(memory_category_name(difference.category))});
  }
  if (rest_count > 0) {
    table.rows.push_back({fmt::format("{} more", rest_count), bytes_text(rest.a_bytes),
                          bytes_text(rest.b_bytes), signed_bytes(rest.b_bytes - rest.a_bytes), ""});
  }
  return text + "\n" + table_text(table);
}

Json side_json(const std::string& arguments, const Side& side) {
  Json json;
  json["arguments"] = arguments;
  add_model(json, side.model);
  json["extent"] = std::string(extent_name(side.extent));
  json["checkpointing"] = side.evaluation.name;
  json["peak_bytes"] = side.evaluation.trace.peak_bytes;
  json["peak_at"] = peak_place(side.model.graph, side.evaluation);
  json["breakdown"] = breakdown_json(side.evaluation.trace);
  return json;
}

std::string diff_json(const DiffOptions& options, const std::array<Side, 2>& sides,
                      const std::vector<PeakDifference>& differences) {
  Json document = new_document();
  document["a"] = side_json(options.sides[0], sides[0]);
  document["b"] = side_json(options.sides[1], sides[1]);
  document["difference_bytes"] =
      sides[1].evaluation.trace.peak_bytes - sides[0].evaluation.trace.peak_bytes;
  document["reasons"] = Json::array();
  for (const DiffReason& reason : reasons_of(sides)) {
    document["reasons"].push_back({{"bytes", reason.bytes}, {"text", reason.text}});
  }
  document["differences"] = Json::array();
  for (const PeakDifference& difference : differences) {
    document["differences"].push_back({{"name", difference.name},
                                       {"category", category_key(difference.category)},
                                       {"a_bytes", difference.a_bytes},
                                       {"b_bytes", difference.b_bytes}});
  }
  return json_text(document);
}

ExitCode run_diff(const DiffOptions& options) {
  const auto most = static_cast<std::size_t>(parse_count(options.top, "--top", 1000));
  const std::array<Side, 2> sides = {evaluate_side(options, 0), evaluate_side(options, 1)};
  const std::vector<PeakDifference> differences =
      peak_differences(sides[0].evaluation.trace, sides[1].evaluation.trace);
  write_output(options.json ? diff_json(options, sides, differences)
                            : diff_text(options, sides, differences, most));
  return ExitCode::kDone;
}

}  // namespace

Command add_diff_command(CLI::App& app) {
  const auto options = std::make_shared<DiffOptions>();
  CLI::App* const command =
      app.add_subcommand("diff", "Where do two configurations' peaks differ?");
  const char* const about =
      "MODEL and its options, in quotes, as simulate\ntakes them, but for --gpu and --plan";
  command->add_option("A", options->sides[0], about)->required()->type_name("");
  command->add_option("B", options->sides[1], about)->required()->type_name("");
  command->add_option("--both", options->both, "Options of both, in quotes")->type_name("OPTIONS");
  command->add_option("--top", options->top, "How many differences to list; default 20")
      ->type_name("N");
  add_json_option(*command, options->json);
  command->footer(
      "Example: cairn diff 'llama-3.1-8b --attention sdpa' 'llama-3.1-8b --attention eager'");
  return {.app = command, .run = [options] { return run_diff(*options); }};
}

}  // namespace cairn
