#include "cuda/image.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "core/environment.h"
#include "core/status.h"
#include "cuda/list.h"
#include "cuda/toolkit.h"

// Where the images of a build with FA_KERNELS=file are; FA_KERNEL_PATH overrules this, and what is embedded as well.
#ifndef FA_KERNEL_DIR
#define FA_KERNEL_DIR "."
#endif

namespace fa::cuda {
namespace {

/// What the first bytes of a fatbin tell of its size; a fact of the format.
struct Container {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;  // behind the header
};
constexpr uint32_t container_magic = 0xba55ed50;

struct Close {
  void operator()(std::FILE *file) const { std::fclose(file); }
};
struct Free {
  void operator()(char *p) const { std::free(p); }
};

/// True when a device runs code for an architecture as machine code, without compiling.
bool runs_compiled(const kernels::Arch &arch, const Device &device) {
  const bool for_family = arch.reach == kernels::Reach::family && makes_family_code();
  if (arch.reach != kernels::Reach::onward && !for_family) return device.capability == arch.number;
  return device.major() == arch.number / 10 && device.capability >= arch.number;
}

}  // namespace

const char *name_of(kernels::Dtype dtype) {
  switch (dtype) {
    case kernels::f32:
      return "f32";
    case kernels::f16:
      return "f16";
    case kernels::bf16:
      return "bf16";
  }
  __builtin_unreachable();
}

std::span<const Image> images() {
  return {list, list_length};
}

Runs runs_on(const kernels::Arch &arch, const Device &device) {
  if (runs_compiled(arch, device)) return Runs::yes;
  if (arch.reach != kernels::Reach::onward || device.capability < arch.number) return Runs::no;
  return compiles_ptx(machine().driver.version) ? Runs::yes : Runs::with_newer_driver;
}

char *read_image(const Image &image) {
  const char *folder = environment("FA_KERNEL_PATH");
  std::string path = folder ? folder : FA_KERNEL_DIR;
  path.append("/").append(image.arch->name).append(".").append(image.family_name);
  path.append(".").append(name_of(image.dtype)).append(".").append(std::to_string(image.dim)).append(".fatbin");
  const auto refuse = [&](const char *what) -> char * {
    fail(FA_ERROR_NO_DEVICE, "the kernel image %s %s; FA_KERNEL_PATH names the folder that this build's images are in",
         path.c_str(), what);
    return nullptr;
  };
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rbe"));
  if (file == nullptr) return refuse((std::string("cannot be opened: ") + std::strerror(errno)).c_str());
  Container header;
  if (std::fread(&header, sizeof header, 1, file.get()) != 1 || header.magic != container_magic ||
      header.header_bytes < sizeof header)
    return refuse("is no fatbin");
  const long end = std::fseek(file.get(), 0, SEEK_END) == 0 ? std::ftell(file.get()) : -1;
  const uint64_t there = end > header.header_bytes ? static_cast<uint64_t>(end) - header.header_bytes : 0;
  if (header.bytes > there) return refuse("is cut off");
  const size_t size = header.header_bytes + static_cast<size_t>(header.bytes);
  std::unique_ptr<char, Free> bytes(static_cast<char *>(std::malloc(size)));
  if (bytes == nullptr) {
    fail(FA_ERROR_OUT_OF_MEMORY, "no memory for the kernel image %s", path.c_str());
    return nullptr;
  }
  std::rewind(file.get());
  if (std::fread(bytes.get(), size, 1, file.get()) != 1) return refuse("cannot be read");
  return bytes.release();
}

}  // namespace fa::cuda
