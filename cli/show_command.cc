#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <system_error>

#include "cli/block_report.h"
#include "cli/command.h"
#include "cli/header.h"
#include "cli/json.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/step_names.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/units.h"
#include "cli/what_if.h"
#include "graph/checked.h"
#include "graph/error.h"
#include "graph/ops/op_kind.h"

namespace cairn {
namespace {

constexpr std::size_t kNarrowestName = 12;

struct ShowOptions {
  ModelOptions model = {};
  std::optional<std::string> block = {};  // else the first with ops
  bool dot = false;
  bool json = false;
};

struct ShownBlock {
  LoadedModel model = {};
  std::int64_t block = 0;
  std::vector<OpId> ops = {};
};

std::int64_t parse_block(const std::string& text) {
  std::int64_t block = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, block);
  if (error != std::errc() || stop != end) {
    throw InputError(fmt::format("--block: expected a whole number from 0, found '{}'", text));
  }
  return block;
}

// Blocks without ops are possible: a plain graph may number from 1.
std::int64_t first_block_with_ops(const Graph& graph) {
  std::int64_t first = graph.block_count;
  for (const Op& op : graph.ops) {
    if (op.block >= 0) first = std::min<std::int64_t>(first, op.block);
  }
  return first < graph.block_count ? first : 0;
}

std::string kind_name(const Op& op) {
  return op.kind == nullptr ? "custom" : std::string(op.kind->name);
}

std::string without_prefix(const std::string& name, const std::string& prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

std::string op_table(const Graph& graph, const std::vector<OpId>& ops, const std::string& prefix) {
  Table table{.columns = {{.header = "op", .narrowest = kNarrowestName},
                          {.header = "kind", .narrowest = kNarrowestName},
                          {.header = "output"},
                          {.header = "bytes", .align = Align::kRight},
                          {.header = "FLOPs", .align = Align::kRight}}};
  for (const OpId id : ops) {
    const Op& op = graph.op(id);
    const Tensor* const output = op.outputs.empty() ? nullptr : &graph.tensor(op.outputs[0]);
    table.rows.push_back({without_prefix(op.name, prefix), kind_name(op),
                          output == nullptr ? "" : shape_text(*output),
                          output == nullptr ? "" : bytes_text(output->bytes),
                          rate_text(static_cast<double>(op.forward.flops), "")});
  }
  return table_text(table);
}

// Each tensor that some op saves, once, with all that save it.
std::string saved_table(const Graph& graph, const std::vector<OpId>& ops,
                        const std::string& prefix) {
  std::map<TensorId, std::vector<std::string>> savers;
  std::vector<TensorId> tensors;  // in the order of the ops
  for (const OpId id : ops) {
    for (const TensorId tensor : saved_activations(graph, graph.op(id))) {
      std::vector<std::string>& names = savers[tensor];
      if (names.empty()) tensors.push_back(tensor);
      names.push_back(without_prefix(graph.op(id).name, prefix));
    }
  }
  Table table{.columns = {{.header = "saved", .narrowest = kNarrowestName},
                          {.header = "shape"},
                          {.header = "bytes", .align = Align::kRight},
                          {.header = "by", .wraps_at_comma = true}}};
  for (const TensorId id : tensors) {
    const Tensor& tensor = graph.tensor(id);
    table.rows.push_back({without_prefix(tensor.name, prefix), shape_text(tensor),
                          is_resident(tensor) ? "live anyway" : bytes_text(tensor.bytes),
                          join_names(savers[id])});
  }
  return table_text(table);
}

std::int64_t forward_flops(const Graph& graph, const std::vector<OpId>& ops) {
  std::int64_t flops = 0;
  for (const OpId id : ops) flops = checked_add(flops, graph.op(id).forward.flops, "FLOPs");
  return flops;
}

std::string totals_text(const ShownBlock& shown) {
  const Graph& graph = shown.model.graph;
  const SavedBytes saved = saved_bytes(graph, shown.ops);
  const std::int64_t tokens = dim_value(shown.model, "batch") * dim_value(shown.model, "tokens");
  std::string saved_text =
      fmt::format("{} bytes ({})", grouped_text(saved.total_bytes), bytes_text(saved.total_bytes));
  if (tokens > 0) {
    saved_text += fmt::format(", {} bytes a token", grouped_text(saved.total_bytes / tokens));
  }
  if (saved.auxiliary_bytes > 0) {
    saved_text +=
        fmt::format(", of it statistics and masks {} bytes", grouped_text(saved.auxiliary_bytes));
  }
  std::string text = labelled_text("saved for backward  ", saved_text);
  const std::int64_t inputs = input_bytes(graph, shown.ops);
  text += labelled_text("inputs              ",
                        fmt::format("{} bytes ({})", grouped_text(inputs), bytes_text(inputs)));
  return text;
}

// "master weights 4.60 GiB, main gradients 4.60 GiB, ", where there are such.
std::string buffers_text(const Graph& graph) {
  const auto text = [](std::string_view what, std::int64_t bytes) {
    return bytes == 0 ? "" : fmt::format("{} {}, ", what, bytes_text(bytes));
  };
  return text("master weights", master_weight_bytes(graph)) +
         text("main gradients", main_gradient_bytes(graph));
}

std::string show_text(const ShownBlock& shown) {
  const Graph& graph = shown.model.graph;
  std::string text = model_header(shown.model) + "\n";
  const std::string prefix =
      shown.ops.empty() ? std::string() : block_prefix(graph.op(shown.ops.front()));
  text += graph.block_count > 0 ? fmt::format("Block {} of {}{}\n", shown.block, graph.block_count,
                                              prefix.empty() ? "" : fmt::format(": {}*", prefix))
                                : std::string("All ops: this graph has no repeated blocks\n");
  text += op_table(graph, shown.ops, prefix) + "\n";
  text += saved_table(graph, shown.ops, prefix) + "\n" + totals_text(shown);
  std::vector<OpId> all_ops;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) all_ops.push_back(static_cast<OpId>(i));
  const SavedBytes saved = saved_bytes(graph, all_ops);
  text += labelled_text(
      "whole model         ",
      fmt::format(
          "{} op{}, saved for backward {}, parameters {}, optimizer states {}, {}{} FLOPs a "
          "step",
          grouped_text(static_cast<std::int64_t>(graph.ops.size())),
          graph.ops.size() == 1 ? "" : "s", bytes_text(saved.total_bytes),
          bytes_text(parameter_bytes(graph)), bytes_text(optimizer_state_bytes(graph)),
          buffers_text(graph),
          rate_text(static_cast<double>(step_flops(graph, shown.model.recipe.step)), "")));
  for (const std::string& note : shown.model.notes) text += labelled_text("Note: ", note);
  return text;
}

Json tensor_json(const Graph& graph, const Tensor& tensor) {
  const Storage& storage = graph.storage(tensor.storage);
  return {{"name", tensor.name},
          {"shape", tensor.shape},
          {"dtype",
           tensor.shape.empty() ? Json() : Json(std::string(data_type_name(tensor.data_type)))},
          {"bytes", tensor.bytes},
          {"storage", graph.tensor(storage.owner).name},
          {"storage_bytes", storage.bytes}};
}

Json tensors_json(const Graph& graph, const std::vector<TensorId>& tensors) {
  Json json = Json::array();
  for (const TensorId tensor : tensors) json.push_back(tensor_json(graph, graph.tensor(tensor)));
  return json;
}

std::string show_json(const ShownBlock& shown) {
  const Graph& graph = shown.model.graph;
  Json document = new_document();
  add_model(document, shown.model);
  document["block"] = graph.block_count > 0 ? Json(shown.block) : Json();
  document["block_count"] = graph.block_count;
  document["ops"] = Json::array();
  for (const OpId id : shown.ops) {
    const Op& op = graph.op(id);
    document["ops"].push_back({{"name", op.name},
                               {"kind", kind_name(op)},
                               {"outputs", tensors_json(graph, op.outputs)},
                               {"auxiliaries", tensors_json(graph, op.auxiliaries)},
                               {"saved", tensors_json(graph, saved_activations(graph, op))},
                               {"forward_flops", op.forward.flops},
                               {"backward_flops", op.has_backward ? op.backward.flops : 0}});
  }
  const SavedBytes saved = saved_bytes(graph, shown.ops);
  document["saved_bytes"] = saved.total_bytes;
  document["saved_auxiliary_bytes"] = saved.auxiliary_bytes;
  document["input_bytes"] = input_bytes(graph, shown.ops);
  document["forward_flops"] = forward_flops(graph, shown.ops);
  document["model_ops"] = graph.ops.size();
  document["model_optimizer_bytes"] = optimizer_state_bytes(graph);
  document["model_optimizer_paged_bytes"] = optimizer_paged_bytes(graph);
  document["model_master_bytes"] = master_weight_bytes(graph);
  document["model_main_gradient_bytes"] = main_gradient_bytes(graph);
  document["model_step_flops"] = step_flops(graph, shown.model.recipe.step);
  document["notes"] = shown.model.notes;
  return json_text(document);
}

ExitCode run_show(const ShowOptions& options) {
  if (options.dot && options.json) {
    throw InputError("--dot and --json: expected one of them; see 'cairn show --help'");
  }
  ShownBlock shown;
  if (options.block) shown.block = parse_block(*options.block);
  shown.model = load_model(model_request(options.model));
  if (!options.block) shown.block = first_block_with_ops(shown.model.graph);
  shown.ops = ops_of_block(shown.model.graph, shown.block);
  if (options.dot) {
    write_output(block_dot(shown.model.graph, shown.ops));
  } else {
    write_output(options.json ? show_json(shown)
                              : explained_dims(options.model, shown.model) + show_text(shown));
  }
  return ExitCode::kDone;
}

}  // namespace

Command add_show_command(CLI::App& app) {
  const auto options = std::make_shared<ShowOptions>();
  CLI::App* const command =
      app.add_subcommand("show", "The ops of one block: shapes, saved bytes, FLOPs");
  add_model_options(*command, options->model);
  command->add_option("--block", options->block, "Which block, from 0; default the first")
      ->type_name("N");
  command->add_flag("--dot", options->dot, "The block as a Graphviz graph");
  add_json_option(*command, options->json);
  command->footer("Example: cairn show llama-3.1-8b --attention flash --dot | dot -Tsvg");
  return {.app = command, .run = [options] { return run_show(*options); }};
}

}  // namespace cairn
