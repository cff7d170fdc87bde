// Whole-process times of the commands people wait for: median wall time and largest resident set
// of several runs, exec to exit, output thrown away.

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

extern char** environ;

namespace {

constexpr int kRuns = 15;

struct Command {
  std::string title = {};
  double limit_ms = 0;  // what the project holds itself to
  std::vector<std::string> arguments = {};
};

struct Measured {
  double wall_ms = 0;
  double resident_mib = 0;
  int exit_code = 0;
};

Measured run_once(const std::string& program, const Command& command) {
  std::vector<std::string> words = {program};
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const auto begin = std::chrono::steady_clock::now();
  pid_t child = 0;
  const int failed = posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return {.exit_code = -1};
  int status = 0;
  rusage usage = {};
  wait4(child, &status, 0, &usage);
  const auto end = std::chrono::steady_clock::now();
  return {.wall_ms = std::chrono::duration<double, std::milli>(end - begin).count(),
          .resident_mib = static_cast<double>(usage.ru_maxrss) / 1024.0,
          .exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

void measure(const std::string& program, const Command& command) {
  std::vector<double> wall_ms;
  double resident_mib = 0;
  int exit_code = 0;
  run_once(program, command);  // warms the page cache
  for (int run = 0; run < kRuns; ++run) {
    const Measured measured = run_once(program, command);
    wall_ms.push_back(measured.wall_ms);
    resident_mib = std::max(resident_mib, measured.resident_mib);
    exit_code = measured.exit_code;
  }
  std::sort(wall_ms.begin(), wall_ms.end());
  fmt::print("{:<44} {:>7.1f} ms ({:.1f} to {:.1f}), limit {:>3.0f} ms, {:>5.1f} MiB, exit {}\n",
             command.title, wall_ms[wall_ms.size() / 2], wall_ms.front(), wall_ms.back(),
             command.limit_ms, resident_mib, exit_code);
}

// A plain graph of `count` equal ops in a row.
void write_chain(const std::filesystem::path& path, int count) {
  std::ofstream file(path);
  file << "cairn_graph: 1\nname: chain\ninputs: [{name: x0, bytes: 1048576, requires_grad: true}]\n"
          "ops:\n";
  for (int i = 0; i < count; ++i) {
    file << fmt::format(
        "  - {{name: l{0}, inputs: [x{0}], outputs: [{{name: x{1}, bytes: 1048576}}], "
        "saves: [x{0}], forward: {{flops: 1000000, time_ns: 1000}}}}\n",
        i, i + 1);
  }
}

// Every real config.json, where they are beside the checkout.
void add_configs(std::vector<Command>& commands) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(CAIRN_SOURCE_DIR).parent_path() / "shared/data/hf_configs";
  if (!fs::is_directory(folder)) return;
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    commands.push_back({fmt::format("fit {}", path.filename().string()),
                        100,
                        {"fit", path.string(), "--gpu", "h100sxm"}});
  }
}

}  // namespace

int main(int argument_count, char** arguments) {
  namespace fs = std::filesystem;
  const fs::path own = fs::canonical("/proc/self/exe");
  const std::string program =
      argument_count > 1 ? arguments[1] : (own.parent_path() / "cairn").string();
  const fs::path chain = fs::temp_directory_path() / "cairn_bench_chain_1000.yaml";
  write_chain(chain, 1000);
  std::vector<Command> commands = {
      {"cairn --help", 20, {"--help"}},
      {"fit llama-3.1-8b, every strategy", 100, {"fit", "llama-3.1-8b", "--gpu", "rtx4090"}},
      {"fit llama-3.1-405b, every strategy", 100, {"fit", "llama-3.1-405b", "--gpu", "h100sxm"}},
      {"fit, a chain of 1,000 layers", 200, {"fit", chain.string(), "--gpu", "24GiB"}},
      {"simulate llama-3.1-405b, sqrt",
       100,
       {"simulate", "llama-3.1-405b", "--checkpointing", "sqrt"}},
  };
  for (const char* const name : {"deepseek-v3", "qwen3-235b-a22b", "gpt-oss-120b", "flan-t5-xxl"}) {
    commands.push_back({fmt::format("fit {}", name), 100, {"fit", name, "--gpu", "h100sxm"}});
  }
  add_configs(commands);
  for (const Command& command : commands) measure(program, command);
  fs::remove(chain);
  return 0;
}
