#pragma once

#include <cstddef>
#include <list>
#include <map>

// Memory of the host for a device. Large blocks that were freed are kept for the next of their
// size, whose pages need not be made again: a training step asks for the same sizes as the one
// before. What is live and what is kept are never more together than what was once live, so that
// the process is as large as the most that was.

namespace cairn {

class KeptBlocks {
 public:
  KeptBlocks();
  KeptBlocks(const KeptBlocks&) = delete;
  KeptBlocks& operator=(const KeptBlocks&) = delete;
  ~KeptBlocks() { free_kept(); }

  // Aligned to 64 bytes; nullptr where the machine has no memory.
  void* allocate(std::size_t bytes);
  void release(void* data) noexcept;
  // Gives back what is kept, and forgets what was once live.
  void free_kept() noexcept;
  std::size_t kept_bytes() const { return kept_bytes_; }

 private:
  struct Kept {
    void* data = nullptr;
    std::size_t bytes = 0;
  };
  using Place = std::list<Kept>::iterator;

  // A kept block of that size or a little more, or nullptr.
  void* take(std::size_t bytes) noexcept;
  void free_oldest() noexcept;

  std::list<Kept> kept_ = {};                      // oldest first
  std::multimap<std::size_t, Place> places_ = {};  // by size
  std::size_t kept_bytes_ = 0;
  std::size_t live_bytes_ = 0;
  std::size_t most_live_bytes_ = 0;
};

}  // namespace cairn
