// The container: a header, then entries, each with a header. Facts taken from the output of nvcc 13.0.
#include "driver/fatbin.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

#include "driver/api.h"
#include "driver/ptx_version.h"

namespace fa::emu::driver {
namespace {

constexpr uint32_t wrapper_magic = 0x466243b1, container_magic = 0xba55ed50, elf_magic = 0x464c457f;
constexpr uint64_t max_bytes = uint64_t{1} << 32;

struct Wrapper {
  uint32_t magic, version;
  const void *container;
  const void *file;
};
struct Container {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;  // behind the header
};
struct Entry {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t stored_bytes;      // with padding
  uint32_t compressed_bytes;  // without; 0: not compressed
  uint32_t options;
  uint16_t minor, major;  // of PTX or of the machine code's format
  uint32_t capability;
  uint32_t name, name_bytes;
  uint64_t flags;
  uint64_t reserved;
  uint64_t bytes;  // when decompressed
};
constexpr uint16_t kind_ptx = 1, kind_cubin = 2;
constexpr uint64_t flag_lz4 = 0x2000, flag_zstd = 0x8000, flag_exact = 0x100000, flag_family = 0x200000;

/// An entry and its bytes in the container.
struct Code {
  Entry entry;
  std::span<const uint8_t> stored;
  char suffix() const { return entry.flags & flag_exact ? 'a' : entry.flags & flag_family ? 'f' : '\0'; }
  std::string target() const {
    std::string name = "sm_" + std::to_string(entry.capability);
    if (suffix()) name += suffix();
    return name;
  }
};

[[noreturn]] void damaged(const char *what) {
  refuse(CUDA_ERROR_INVALID_IMAGE, std::string("a damaged fat binary: ") + what);
}

const uint8_t *container_of(const void *image) {
  uint32_t magic;
  std::memcpy(&magic, image, sizeof magic);
  if (magic != wrapper_magic) return static_cast<const uint8_t *>(image);
  Wrapper wrapper;
  std::memcpy(&wrapper, image, sizeof wrapper);
  if (!wrapper.container) damaged("its wrapper names no container");
  return static_cast<const uint8_t *>(wrapper.container);
}

Container header_of(const uint8_t *at) {
  Container header;
  std::memcpy(&header, at, sizeof header);
  if (header.magic != container_magic) damaged("no container");
  if (header.header_bytes < sizeof header || header.bytes > max_bytes) damaged("the container's size");
  return header;
}

std::vector<Code> entries_of(const uint8_t *at) {
  Container header = header_of(at);
  std::span<const uint8_t> rest(at + header.header_bytes, header.bytes);
  std::vector<Code> codes;
  while (!rest.empty()) {
    Code code{};
    // Short headers lack the decompressed size.
    size_t least = offsetof(Entry, reserved);
    if (rest.size() < least) damaged("an entry's header is cut off");
    std::memcpy(&code.entry, rest.data(), least);
    const Entry &entry = code.entry;
    if (entry.header_bytes < least || entry.header_bytes > rest.size()) damaged("an entry's header");
    std::memcpy(&code.entry, rest.data(), std::min<size_t>(sizeof(Entry), entry.header_bytes));
    rest = rest.subspan(entry.header_bytes);
    if (entry.stored_bytes > rest.size() || entry.compressed_bytes > entry.stored_bytes) damaged("an entry is cut off");
    code.stored = rest.first(entry.stored_bytes);
    rest = rest.subspan(entry.stored_bytes);
    if (entry.kind == kind_ptx || entry.kind == kind_cubin) codes.push_back(code);
  }
  return codes;
}

std::vector<uint8_t> bytes_of(const Code &code) {
  if (!(code.entry.flags & (flag_lz4 | flag_zstd))) return {code.stored.begin(), code.stored.end()};
  auto from = code.stored.first(code.entry.compressed_bytes);
  // The size is believed only where the compressed bytes can hold so much.
  constexpr uint64_t lz4_ratio = 255;
  bool fits = code.entry.flags & flag_zstd ? ZSTD_getFrameContentSize(from.data(), from.size()) == code.entry.bytes
                                           : code.entry.bytes <= from.size() * lz4_ratio;
  if (!fits) damaged("an entry's size");
  std::vector<uint8_t> bytes(code.entry.bytes);
  if (code.entry.flags & flag_zstd) {
    size_t size = ZSTD_decompress(bytes.data(), bytes.size(), from.data(), from.size());
    if (ZSTD_isError(size) || size != bytes.size()) damaged("zstd does not decompress an entry");
  } else {
    int size = LZ4_decompress_safe(reinterpret_cast<const char *>(from.data()), reinterpret_cast<char *>(bytes.data()),
                                   static_cast<int>(from.size()), static_cast<int>(bytes.size()));
    if (size < 0 || static_cast<size_t>(size) != bytes.size()) damaged("LZ4 does not decompress an entry");
  }
  return bytes;
}

/// Drivers know zstd since CUDA 12.4 (nvcc's manual, --compress-mode); they decompress the chosen code alone.
void refuse_early_zstd(const Code &code, int driver_version) {
  constexpr int since = 12040;
  if (!(code.entry.flags & flag_zstd) || driver_version >= since) return;
  refuse(CUDA_ERROR_INVALID_IMAGE, "code for " + code.target() +
                                       " is compressed with zstd, which drivers have since CUDA 12.4: compile with "
                                       "-Xfatbin -compress-all, which takes LZ4 (before CUDA 13)");
}

std::string text_of(const Code &code) {
  std::vector<uint8_t> bytes = bytes_of(code);
  const char *begin = reinterpret_cast<const char *>(bytes.data());
  return std::string(begin, strnlen(begin, bytes.size()));
}

/// Machine code runs on its own major capability, minor and later; 'a' on its own capability, 'f' on its family.
bool machine_code_runs_on(const Code &code, const DeviceLimits &device) {
  int capability = static_cast<int>(code.entry.capability);
  if (code.suffix() == 'a') return capability == device.capability();
  return capability / 10 == device.major && capability <= device.capability();
}

/// The code of a kind that fits and has the highest capability; the more specific of two equals.
template <class Fits>
const Code *best(const std::vector<Code> &codes, uint16_t kind, Fits fits) {
  const Code *found = nullptr;
  auto rank = [](const Code &code) {
    return code.entry.capability * 4 + (code.suffix() == 'a' ? 2 : code.suffix() == 'f' ? 1 : 0);
  };
  for (const Code &code : codes)
    if (code.entry.kind == kind && fits(code) && (!found || rank(code) > rank(*found))) found = &code;
  return found;
}

std::string list_of(const std::vector<Code> &codes) {
  std::string text;
  for (const Code &code : codes)
    text += (text.empty() ? "" : ", ") + std::string(code.entry.kind == kind_ptx ? "PTX " : "cubin ") + code.target();
  return text.empty() ? "nothing" : text;
}

Chosen choose_from(const std::vector<Code> &codes, const DeviceLimits &device, int driver_version) {
  std::string name = "sm_" + std::to_string(device.capability());
  Chosen chosen;
  const Code *cubin = best(codes, kind_cubin, [&](const Code &code) { return machine_code_runs_on(code, device); });
  const Code *ptx = nullptr;
  // The source of the machine code: PTX for the same target, or for the next lower one.
  if (cubin) ptx = best(codes, kind_ptx, [&](const Code &code) { return code.target() == cubin->target(); });
  if (!ptx)
    ptx = best(codes, kind_ptx, [&](const Code &code) {
      if (cubin && (code.suffix() == 'a' || code.entry.capability > cubin->entry.capability)) return false;
      return runs_on(code.target(), device);
    });
  if (cubin) {
    chosen.compiled = true;
    chosen.resources = resources_of(bytes_of(*cubin));
    if (!ptx)
      refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, "the fat binary has machine code for " + cubin->target() +
                                               ", which a GPU would run, but no PTX next to it, which the emulator "
                                               "needs (nvcc leaves none with -rdc=true); it holds " +
                                               list_of(codes));
  }
  if (!ptx) refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, "no code for " + name + "; the fat binary holds " + list_of(codes));
  refuse_early_zstd(cubin ? *cubin : *ptx, driver_version);
  if (!cubin) refuse_newer_ptx(ptx->entry.major * 10 + ptx->entry.minor, driver_version);
  chosen.ptx = text_of(*ptx);
  return chosen;
}

}  // namespace

ImageKind kind_of(const void *image) {
  uint32_t magic = 0;
  std::memcpy(&magic, image, strnlen(static_cast<const char *>(image), sizeof magic));
  if (magic == elf_magic) return ImageKind::elf;
  return magic == wrapper_magic || magic == container_magic ? ImageKind::fatbin : ImageKind::ptx;
}

std::vector<uint8_t> copy_of_image(const void *image) {
  const uint8_t *begin = static_cast<const uint8_t *>(image);
  if (kind_of(image) == ImageKind::fatbin) {
    begin = container_of(image);
    Container header = header_of(begin);
    return {begin, begin + header.header_bytes + header.bytes};
  }
  if (kind_of(image) == ImageKind::elf) return {begin, begin + 64};
  return {begin, begin + std::strlen(static_cast<const char *>(image)) + 1};
}

Chosen choose(const void *image, const DeviceLimits &device, int driver_version) {
  switch (kind_of(image)) {
    case ImageKind::fatbin:
      return choose_from(entries_of(container_of(image)), device, driver_version);
    case ImageKind::elf:
      refuse(
          CUDA_ERROR_NO_BINARY_FOR_GPU,
          "machine code alone: the emulator runs PTX (nvcc -fatbin with code=compute_... holds it too; CuPy keeps it "
          "with CUPY_COMPILE_WITH_PTX=1)");
    case ImageKind::ptx:
      break;
  }
  Chosen chosen;
  chosen.ptx = static_cast<const char *>(image);
  return chosen;
}

}  // namespace fa::emu::driver
