#include "models/write_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "graph/error.h"

namespace cairn {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw InputError(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(error)));
}

// Returns 0, or what went wrong.
int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::fsync(descriptor) == 0 ? 0 : errno;
}

}  // namespace

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    throw InputError(path.string() + ": cannot be written: expected a file, found something else");
  }
  const std::string beside = fmt::format("{}.{}", path.string(), ::getpid());
  const int descriptor = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) fail(path, errno);
  int error = write_all(descriptor, bytes);
  if (::close(descriptor) != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(beside.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return;
  ::unlink(beside.c_str());
  fail(path, error);
}

}  // namespace cairn
