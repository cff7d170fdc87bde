#include "cli/output.h"

#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

#include "graph/error.h"
#include "models/source_text.h"

namespace cairn {
namespace {

// "llama.yaml:3:7: ..." names its place itself.
bool begins_with_place(std::string_view message) {
  const std::string_view first_line = message.substr(0, message.find('\n'));
  for (std::size_t colon = first_line.find(':'); colon != std::string_view::npos;
       colon = first_line.find(':', colon + 1)) {
    const std::string_view name = first_line.substr(0, colon);
    if (name.empty() || name.find(' ') != std::string_view::npos) return false;
    const std::string_view rest = first_line.substr(colon + 1);
    if (!rest.empty() && std::isdigit(static_cast<unsigned char>(rest[0])) != 0) return true;
  }
  return false;
}

// Each line without what a terminal would obey: a message may quote anything that was typed. Tabs
// stay, for carets stand under them.
std::string safe_lines(std::string_view text) {
  std::string safe;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = text.find_first_of("\n\t", begin);
    safe += printable(text.substr(begin, end - begin), std::string_view::npos);
    if (end == std::string_view::npos) return safe;
    safe += text[end];
    begin = end + 1;
  }
}

}  // namespace

void write_output(std::string_view text) {
  const std::size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written == text.size() && std::fflush(stdout) == 0) return;
  if (errno == EPIPE) return;
  throw InputError(std::string("stdout cannot be written: ") + std::strerror(errno));
}

void write_error(std::string_view message) {
  std::string line = begins_with_place(message) ? std::string() : std::string("cairn: ");
  line.append(safe_lines(message)).append("\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace cairn
