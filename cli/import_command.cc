#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/output.h"
#include "models/chain_file.h"
#include "models/write_file.h"

namespace cairn {
namespace {

struct ImportOptions {
  std::string file = {};
  std::optional<std::string> output = {};
};

ExitCode run_import(const ImportOptions& options) {
  const std::string text = chain_graph_text(read_chain_file(read_document(options.file)));
  if (options.output) {
    write_file(*options.output, text);
  } else {
    write_output(text);
  }
  return ExitCode::kDone;
}

}  // namespace

Command add_import_command(CLI::App& app) {
  const auto options = std::make_shared<ImportOptions>();
  CLI::App* const command = app.add_subcommand("import", "A chain file as a plain graph");
  command->add_option("FILE", options->file, "A chain file, as docs/formats.md describes it")
      ->type_name("")
      ->required();
  command->add_option("-o,--output", options->output, "Write the graph to a file, not to stdout")
      ->type_name("FILE");
  command->footer("Example: cairn import chain.json -o chain.yaml");
  return {.app = command, .run = [options] { return run_import(*options); }};
}

}  // namespace cairn
