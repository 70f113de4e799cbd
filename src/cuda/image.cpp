#include "cuda/image.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/environment.h"
#include "core/status.h"
#include "cuda/list.h"
#include "cuda/toolkit.h"

// The folder of the images of a build with FA_KERNELS=file or load; FA_KERNEL_PATH overrules this, and embedded images
// as well.
#ifndef FA_KERNEL_DIR
#define FA_KERNEL_DIR "."
#endif

namespace fa::cuda {
namespace {

/// The size of a fatbin, in its first bytes; a fact of the format.
struct Container {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;  // behind the header
};
constexpr uint32_t container_magic = 0xba55ed50;

/// The head of a part of it, of which PTX comes last.
struct Entry {
  uint16_t kind, format;
  uint32_t header_bytes;
  uint64_t bytes;  // behind the header
  uint32_t compressed_bytes, options;
  uint16_t minor, major;  // of PTX: its version
};
constexpr uint16_t kind_ptx = 1;

struct Close {
  void operator()(std::FILE *file) const { std::fclose(file); }
};
struct Free {
  void operator()(char *p) const { std::free(p); }
};

using File = std::unique_ptr<std::FILE, Close>;

struct Path {
  char text[4096];

  explicit Path(const Image &image) {
    const char *folder = environment("FA_KERNEL_PATH");
    std::snprintf(text, sizeof text, "%s/%s.%s.%s.%d.fatbin", folder ? folder : FA_KERNEL_DIR, image.arch->name,
                  image.family_name, kernels::line_of(image.dtype).name, image.dim);
  }
};

/// nullptr, with the reason in *why, where it is not the whole file of a fatbin.
File open_image(const Path &path, Container *header, MessageBuffer *why) {
  const auto refuse = [&](const char *problem, const char *more = "") {
    const char *advice = "; FA_KERNEL_PATH names the folder that this build's images are in";
    std::snprintf(why->text, sizeof why->text, "the kernel image %.300s %s%s%s", path.text, problem, more, advice);
    return File();
  };
  File file(std::fopen(path.text, "rbe"));
  if (file == nullptr) return refuse("cannot be opened: ", std::strerror(errno));
  if (std::fread(header, sizeof *header, 1, file.get()) != 1 || header->magic != container_magic ||
      header->header_bytes < sizeof *header)
    return refuse("is no fatbin");
  const long end = std::fseek(file.get(), 0, SEEK_END) == 0 ? std::ftell(file.get()) : -1;
  const uint64_t there = end > header->header_bytes ? static_cast<uint64_t>(end) - header->header_bytes : 0;
  if (header->bytes > there) return refuse("is cut off");
  return file;
}

/// The version of CUDA that a fatbin's PTX is of; 0 where it has none.
int cuda_version_in(std::FILE *file, const Container &header) {
  const uint64_t end = header.header_bytes + header.bytes;
  for (uint64_t at = header.header_bytes; at + sizeof(Entry) <= end;) {
    Entry entry;
    if (std::fseek(file, static_cast<long>(at), SEEK_SET) != 0 || std::fread(&entry, sizeof entry, 1, file) != 1)
      return 0;
    if (entry.kind == kind_ptx) return cuda_of_ptx(entry.major, entry.minor);
    if (entry.header_bytes < sizeof entry || entry.bytes > end) return 0;
    at += entry.header_bytes + entry.bytes;
  }
  return 0;
}

/// True when a device runs a toolkit's code for an architecture as machine code, without compiling.
bool runs_compiled(const kernels::Arch &arch, int cuda_version, const Device &device) {
  const bool for_family = arch.scope == kernels::CodeScope::family && makes_family_code(cuda_version);
  if (arch.scope != kernels::CodeScope::onward && !for_family) return device.capability == arch.number;
  return device.major() == arch.number / 10 && device.capability >= arch.number;
}

}  // namespace

std::span<const Image> images() {
  return {list, list_length};
}

Runs runs_on(const kernels::Arch &arch, int cuda_version, const Device &device) {
  const bool compiled = runs_compiled(arch, cuda_version, device);
  if (!compiled && (arch.scope != kernels::CodeScope::onward || device.capability < arch.number)) return Runs::no;
  const int needed = compiled ? needed_driver_version(cuda_version) : cuda_version;
  return machine().driver.version >= needed ? Runs::yes : Runs::with_newer_driver;
}

int cuda_version_of(const Image &image, MessageBuffer *why) {
  if (kernel_cuda_version != 0) return kernel_cuda_version;
  static std::atomic<int> found[list_length + 1];
  std::atomic<int> &version = found[&image - list];
  if (const int known = version.load(std::memory_order_relaxed)) return known;
  const Path path(image);
  Container header;
  const File file = open_image(path, &header, why);
  if (file == nullptr) return 0;
  const int read = cuda_version_in(file.get(), header);
  if (read == 0)
    std::snprintf(why->text, sizeof why->text,
                  "the kernel image %.300s has no PTX, whose version would say which drivers run it", path.text);
  version.store(read, std::memory_order_relaxed);
  return read;
}

char *read_image(const Image &image) {
  const Path path(image);
  Container header;
  MessageBuffer why;
  const File file = open_image(path, &header, &why);
  if (file == nullptr) {
    fail(FA_ERROR_NO_DEVICE, "%s", why.text);
    return nullptr;
  }
  const size_t size = header.header_bytes + static_cast<size_t>(header.bytes);
  std::unique_ptr<char, Free> bytes(static_cast<char *>(std::malloc(size)));
  if (bytes == nullptr) {
    fail(FA_ERROR_OUT_OF_MEMORY, "no memory for the kernel image %s", path.text);
    return nullptr;
  }
  std::rewind(file.get());
  if (std::fread(bytes.get(), size, 1, file.get()) == 1) return bytes.release();
  fail(FA_ERROR_NO_DEVICE, "the kernel image %s cannot be read", path.text);
  return nullptr;
}

}  // namespace fa::cuda
