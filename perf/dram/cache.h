// An LRU cache with lines of any size: a device's L2, and its reads from memory.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>

namespace fa::dram {

class Cache {
 public:
  explicit Cache(int64_t bytes) : free_(bytes) {}

  /// Reads a piece by its address.
  void read(const void *address, int64_t bytes) {
    if (!use(address, bytes)) read_ += bytes;
  }

  /// Writes a whole piece, which nothing has to be read for; it reaches memory later.
  void write(const void *address, int64_t bytes) {
    use(address, bytes);
    written_ += bytes;
  }

  /// Bytes that came from memory, and that went there or will.
  int64_t bytes_read() const { return read_; }
  int64_t bytes_written() const { return written_; }

 private:
  struct Piece {
    const void *address;
    int64_t bytes;
  };

  /// True when the piece was there.
  bool use(const void *address, int64_t bytes) {
    if (const auto found = places_.find(address); found != places_.end()) {
      pieces_.splice(pieces_.begin(), pieces_, found->second);
      return true;
    }
    pieces_.push_front({address, bytes});
    places_[address] = pieces_.begin();
    for (free_ -= bytes; free_ < 0; pieces_.pop_back()) {
      free_ += pieces_.back().bytes;
      places_.erase(pieces_.back().address);
    }
    return false;
  }

  int64_t free_, read_ = 0, written_ = 0;
  std::list<Piece> pieces_;  // last used first
  std::unordered_map<const void *, std::list<Piece>::iterator> places_;
};

}  // namespace fa::dram
