#include "models/read_file.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "graph/error.h"

namespace cairn {
namespace {

constexpr int kPatienceMs = 5000;
constexpr std::size_t kPieceBytes = std::size_t{64} << 10;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_ = -1;
};

void wait_for_bytes(int descriptor, const std::string& name) {
  pollfd wanted = {.fd = descriptor, .events = POLLIN, .revents = 0};
  const int ready = ::poll(&wanted, 1, kPatienceMs);
  if (ready > 0 || (ready < 0 && errno == EINTR)) return;
  throw InputError(name + ": expected a file, found something that sends no bytes");
}

}  // namespace

std::string read_file(const std::filesystem::path& path, std::size_t limit_bytes) {
  const std::string name = path.string();
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw InputError(name + ": expected a file, found none");
  if (std::filesystem::is_directory(status)) {
    throw InputError(name + ": expected a file, found a directory");
  }
  // Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
  const Descriptor file(::open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.number() < 0) {
    throw InputError(name + ": expected a readable file, found one that is not");
  }
  std::string text;
  while (text.size() <= limit_bytes) {
    wait_for_bytes(file.number(), name);
    const std::size_t before = text.size();
    const std::size_t piece_bytes = std::min(kPieceBytes, limit_bytes + 1 - before);
    text.resize(before + piece_bytes);
    const ssize_t count = ::read(file.number(), text.data() + before, piece_bytes);
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0) break;
    if (count < 0 && errno != EAGAIN && errno != EINTR) {
      throw InputError(name + ": expected a readable file, found a read error");
    }
  }
  return text;
}

}  // namespace cairn
