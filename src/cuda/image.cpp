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

// Where the images of a build with FA_KERNELS=file are; FA_KERNEL_PATH overrules this, and what is embedded as well.
#ifndef FA_KERNEL_DIR
#define FA_KERNEL_DIR "."
#endif

// The version of CUDA that built the kernels: 13000 for 13.0.
#ifndef FA_KERNEL_CUDA_VERSION
#define FA_KERNEL_CUDA_VERSION 0
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

int sm_of(const char *arch) {
  return std::atoi(arch + 3);
}

bool ends_in(const char *arch, char suffix) {
  return arch[std::strlen(arch) - 1] == suffix;
}

/// Architectures with instructions of their own, which no other major version has.
bool is_special(const char *arch) {
  const int sm = sm_of(arch);
  return ends_in(arch, 'a') || ends_in(arch, 'f') || sm == 100 || sm == 103 || sm == 110;
}

/// Those of which the build makes code for the whole family, which its newer members run: nvcc can since 12.9.
bool is_family(const char *arch) {
  return ends_in(arch, 'f') || (is_special(arch) && sm_of(arch) >= 100 && FA_KERNEL_CUDA_VERSION >= 12090);
}

}  // namespace

int Image::sm() const {
  return sm_of(arch);
}

std::span<const Image> images() {
  return {list, list_length};
}

bool runs_compiled(const char *arch, const Device &device) {
  const int sm = sm_of(arch);
  if (is_special(arch) && !is_family(arch)) return device.capability == sm;
  return device.major() == sm / 10 && device.capability >= sm;
}

bool runs_on(const char *arch, const Device &device) {
  return runs_compiled(arch, device) || (!is_special(arch) && device.capability >= sm_of(arch));
}

char *read_image(const Image &image) {
  const char *folder = environment("FA_KERNEL_PATH");
  const char *dtype = image.dtype == FA_F16 ? "f16" : image.dtype == FA_BF16 ? "bf16" : "f32";
  std::string path = folder ? folder : FA_KERNEL_DIR;
  path.append("/").append(image.arch).append(".").append(image.family).append(".").append(dtype);
  path.append(".").append(std::to_string(image.dim)).append(".fatbin");
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
