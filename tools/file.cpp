// Files by plain POSIX calls; a signal handler removes the temporary files that are still there.
#include "file.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>

#include "error.h"

namespace fa::tool {
namespace {

// The variables of the signal handler: lock-free flags and plain characters, written before their flag is set.
struct Slot {
  std::atomic<bool> used{false};
  std::array<char, PATH_MAX> path{};
};
std::array<Slot, 8> slots;
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void remove_temporary_files(int number) {
  for (Slot &slot : slots) {
    if (slot.used.load(std::memory_order_acquire)) unlink(slot.path.data());
  }
  signal(number, SIG_DFL);
  raise(number);
}

constexpr int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};

void install_handler() {
  static const bool once = [] {
    for (const int number : ending_signals) {
      struct sigaction old = {};
      sigaction(number, nullptr, &old);
      if (old.sa_handler == SIG_IGN) continue;  // nohup
      struct sigaction action = {};
      action.sa_handler = remove_temporary_files;
      sigaction(number, &action, nullptr);
    }
    return true;
  }();
  (void)once;
}

/// Holds these signals back, so that none comes between a temporary file and its place in the list.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t held;
    sigemptyset(&held);
    for (const int number : ending_signals) sigaddset(&held, number);
    pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld &) = delete;
  SignalsHeld &operator=(const SignalsHeld &) = delete;

 private:
  sigset_t before_;
};

int take_slot(const std::string &path) {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].used.load() || path.size() + 1 > slots[i].path.size()) continue;
    std::memcpy(slots[i].path.data(), path.c_str(), path.size() + 1);
    slots[i].used.store(true, std::memory_order_release);
    return static_cast<int>(i);
  }
  return -1;
}

constexpr int max_links = 40;  // as the kernel follows

void write_all(int descriptor, std::span<const std::byte> bytes, const std::string &path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) failure("{}: cannot be written: {}", path, std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

/// The path behind symbolic links, whether or not there is something yet.
std::string resolved(const std::string &path) {
  std::filesystem::path at = path;
  std::error_code none;
  for (int links = 0; std::filesystem::is_symlink(std::filesystem::symlink_status(at, none)); ++links) {
    if (links == max_links) bad_input("{}: cannot be written: {}", path, std::strerror(ELOOP));
    at = at.parent_path() / std::filesystem::read_symlink(at, none);
  }
  return at.string();
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(number_); }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;

 private:
  int number_;
};

}  // namespace

std::vector<std::byte> read_file(const std::string &path, const Needed &needed) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) bad_input("{}: cannot be opened: {}", path, std::strerror(errno));
  const Descriptor closer(descriptor);
  struct stat status = {};
  if (fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) bad_input("{}: is a directory", path);
  std::vector<std::byte> bytes(size_t{1} << 16);
  size_t used = 0;
  for (size_t enough = 0;;) {
    if (used >= enough) enough = needed(std::span(bytes).first(used));
    if (used >= enough) break;
    // A regular file's size is known; others grow as they come, whatever they claim to hold.
    const size_t known = std::min(enough, static_cast<size_t>(status.st_size));
    if (used == bytes.size()) bytes.resize(std::max(known, 2 * used));
    const ssize_t n = ::read(descriptor, &bytes[used], bytes.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) bad_input("{}: cannot be read: {}", path, std::strerror(errno));
    if (n == 0) break;
    used += static_cast<size_t>(n);
  }
  bytes.resize(used);
  return bytes;
}

std::vector<std::byte> read_text_file(const std::string &path) {
  constexpr size_t most = size_t{64} << 20;
  return read_file(path, [&](std::span<const std::byte> bytes) {
    if (bytes.size() > most) bad_input("{}: has more than {} bytes, too many for a text file", path, most);
    return most + 1;
  });
}

void check_outputs_are_no_inputs(const std::vector<const std::string *> &outputs,
                                 const std::vector<const std::string *> &inputs) {
  for (const std::string *out : outputs) {
    for (const std::string *in : inputs) {
      std::error_code none;  // of a file that is not there
      if (!out->empty() && !in->empty() && (*in == *out || std::filesystem::equivalent(*in, *out, none)))
        bad_input("{}: is an input, which the output would replace; name another file", *out);
    }
  }
}

OutputFile::OutputFile(std::string path) : path_(std::move(path)), target_(resolved(path_)) {
  struct stat status = {};
  const bool exists = stat(target_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) bad_input("{}: is a directory; the name of a file is needed", path_);
  if (exists && !S_ISREG(status.st_mode)) {
    if (S_ISFIFO(status.st_mode)) return;  // opening it waits for a reader
    descriptor_ = open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) bad_input("{}: cannot be written: {}", path_, std::strerror(errno));
    return;
  }

  install_handler();
  const SignalsHeld held;
  std::string name = target_ + ".XXXXXX";
  descriptor_ = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ < 0) bad_input("{}: cannot be written: {}", path_, std::strerror(errno));
  temporary_ = name;
  slot_ = take_slot(temporary_);
  const mode_t mask = umask(0);
  umask(mask);
  fchmod(descriptor_, exists ? status.st_mode & 07777 : 0666 & ~mask);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (temporary_.empty()) return;
  unlink(temporary_.c_str());
  if (slot_ >= 0) slots[static_cast<size_t>(slot_)].used.store(false);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  if (temporary_.empty()) {
    if (descriptor_ < 0) descriptor_ = open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) failure("{}: cannot be written: {}", path_, std::strerror(errno));
  } else if (ftruncate(descriptor_, 0) != 0 || lseek(descriptor_, 0, SEEK_SET) != 0) {
    failure("{}: cannot be written: {}", path_, std::strerror(errno));
  }
  write_all(descriptor_, bytes, path_);
}

void OutputFile::commit() {
  if (temporary_.empty()) return;
  const SignalsHeld held;
  if (rename(temporary_.c_str(), target_.c_str()) != 0) {
    failure("{}: cannot be written: {}", path_, std::strerror(errno));
  }
  if (slot_ >= 0) slots[static_cast<size_t>(slot_)].used.store(false);
  temporary_.clear();
}

}  // namespace fa::tool
