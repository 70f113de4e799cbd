#include "cuda/reasons.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <string_view>

#include "core/dtype.h"
#include "core/text.h"
#include "cuda/cuda.h"
#include "cuda/inputs.h"
#include "cuda/toolkit.h"

namespace fa::cuda {
namespace {

constexpr int newest_cuda = std::numeric_limits<int>::max();

/// "device 0 (NVIDIA A100, sm_80)".
struct DeviceName {
  char text[160];

  explicit DeviceName(const Device &device) {
    std::snprintf(text, sizeof text, "device %d (%s, sm_%d)", device.index, device.name, device.capability);
  }
};

/// The architectures of this build: "sm_120, sm_90a, sm_80".
std::string archs() {
  std::string text;
  const char *last = "";
  for (const Image &image : images()) {
    if (last == std::string_view(image.arch->name)) continue;
    text.append(text.empty() ? "" : ", ").append(last = image.arch->name);
  }
  return text;
}

/// The name of a device's own architecture in FA_ARCHS, "90a"; its number where this libfa does not know it yet.
std::string own_arch(const Device &device) {
  std::string name = std::to_string(device.capability);
  for (const kernels::Arch &arch : kernels::archs)  // the oldest of a number: 120, not 120f
    if (arch.number == device.capability) name = std::string_view(arch.name).substr(std::string_view("sm_").size());
  return name;
}

const char *needs_newer_driver(const char *arch, int cuda, const Device &device, MessageBuffer *buffer) {
  const int driver = machine().driver.version, needed = needed_driver_version(cuda);
  if (driver < needed)
    return reason(
        buffer,
        "the kernel images for %s are of CUDA %d.%d, and the driver, for CUDA %d.%d, runs none of them: update the "
        "driver to %s, or install images that CUDA %d compiled",
        arch, cuda / 1000, cuda % 1000 / 10, driver / 1000, driver % 1000 / 10, driver_for(needed), driver / 1000);
  return reason(
      buffer,
      "%s would run code for %s from its PTX, which is of CUDA %d.%d, and the driver, for CUDA %d.%d, does not "
      "know it: update the driver to %s, or build libfa with FA_ARCHS naming %s",
      DeviceName(device).text, arch, cuda / 1000, cuda % 1000 / 10, driver / 1000, driver % 1000 / 10, driver_for(cuda),
      own_arch(device).c_str());
}

/// A line of families.inc.
struct FamilyLine {
  std::string_view family;
  kernels::Dtype dtype;
  unsigned needs;  // hardware
  int dims[8];     // ascending; 0 behind the last

  /// The narrowest head dimension of an image for this one; 0 where none is as wide.
  constexpr int dim_for(int64_t dim) const {
    for (const int candidate : dims)
      if (candidate >= dim) return candidate;
    return 0;
  }

  constexpr int widest() const { return std::ranges::max(dims); }
};

constexpr FamilyLine family_lines[] = {
#define FA_FAMILY(operation, name, dtype, needs, ...) {#name, kernels::dtype, kernels::needs, {__VA_ARGS__}},
#include "families.inc"
#undef FA_FAMILY
};

/// Why a row has no image for a type and a head dimension: its family has none, the architecture lacks the hardware, or
/// the build left the image out.
const char *missing_image_reason(const Row &row, kernels::Dtype dtype, int64_t dim, MessageBuffer *buffer) {
  const char *type = kernels::line_of(dtype).name, *arch = row.arch().name, *family = row.first->family_name;
  const FamilyLine *line =
      std::ranges::find_if(family_lines, [&](const FamilyLine &l) { return l.family == family && l.dtype == dtype; });
  if (line == std::end(family_lines)) return reason(buffer, "it has no kernels for %s", type);
  if ((row.arch().hardware & line->needs) != line->needs)
    return reason(buffer, "%s lacks the instructions of its kernels for %s", arch, type);
  if (dim > line->widest()) return reason(buffer, "its head dimensions go up to %d", line->widest());
  return reason(
      buffer,
      "this build of libfa left out its image %s.%s.%s.%d; expected a build whose FA_IMAGE_FILTER matches that "
      "name or is empty",
      arch, family, type, line->dim_for(dim));
}

}  // namespace

const char *reason(MessageBuffer *buffer, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_text(buffer->text, sizeof buffer->text, format, arguments);
  va_end(arguments);
  return buffer->text;
}

Obstacle unavailable_on(const Row &row, const Device &device, MessageBuffer *buffer) {
  const kernels::Arch &arch = row.arch();
  if (runs_on(arch, newest_cuda, device) == Runs::no)
    return {Missing::hardware, reason(buffer, "code for %s does not run on %s", arch.name, DeviceName(device).text)};
  const int cuda = row.cuda_version(buffer);
  if (cuda == 0) return {Missing::files, buffer->text};
  switch (runs_on(arch, cuda, device)) {
    case Runs::no:
      return {Missing::hardware, reason(buffer, "code for %s does not run on %s", arch.name, DeviceName(device).text)};
    case Runs::with_newer_driver:
      return {Missing::driver, needs_newer_driver(arch.name, cuda, device, buffer)};
    case Runs::yes:
      break;
  }
  return {Missing::hardware, nullptr};
}

bool lacks_files_alone(const Device &device) {
  MessageBuffer buffer;
  bool lacks = false;
  for (size_t i = 0; i < row_count; i++) {
    const Obstacle obstacle = unavailable_on(rows.of[i], device, &buffer);
    if (obstacle.reason == nullptr) return false;
    lacks = lacks || obstacle.missing == Missing::files;
  }
  return lacks;
}

const char *no_such_device(int32_t index, const Machine &m, MessageBuffer *buffer) {
  const bool one = m.device_count == 1;
  return reason(buffer, "desc.device_index is %d, and there %s %d GPU%s, counted from 0", index, one ? "is" : "are",
                m.device_count, one ? "" : "s");
}

const char *lasting_reason(size_t row, const Obstacle &obstacle) {
  static std::mutex writing;
  static MessageBuffer reasons[row_count + 1][3];
  const std::lock_guard lock(writing);
  char *text = reasons[row][static_cast<int>(obstacle.missing)].text;
  if (*text == '\0') std::memcpy(text, obstacle.reason, std::strlen(obstacle.reason) + 1);
  return text;
}

const char *unsupported_reason(const Row &row, const Attention &attention, const Device &device,
                               MessageBuffer *buffer) {
  const kernels::Attention a = attention_of(attention);
  if (const kernels::QuantisedFamily *codes = row.first->codes) {
    if (const char *why = codes->unsupported_types_reason(a, attention.v_dtype)) return why;
    if (attention.head_dim_rope != 0 && !codes->reads_two_parts) return "its kernels do not read keys in two parts";
  } else if (attention.head_dim_rope != 0) {
    return "its kernels do not read keys in two parts";
  } else if (is_quantised(attention.kv_dtype)) {
    return reason(buffer, "its kernels do not read k of %s", dtype_name(attention.kv_dtype));
  } else if (is_quantised(attention.v_dtype)) {
    return reason(buffer, "its kernels do not read v of %s", dtype_name(attention.v_dtype));
  } else if (attention.v_dtype != attention.kv_dtype) {
    return "its kernels do not read v of another type than k";
  }
  if (const char *why = row.family().unsupported_reason(a)) return why;
  if (attention.batch_invariant && !row.family().is_fallback)
    return "it supports some calls only, and FA_FLAG_BATCH_INVARIANT needs one kernel for all calls";
  const Image *image = row.image_for(a);
  if (image == nullptr)
    return missing_image_reason(row, row.family().compute_dtype(a), std::max(a.head_dim, a.head_dim_v), buffer);
  for (const kernels::Entry entry : forward_entries) {
    const int needed = image->tile_of(entry).shared_bytes;
    if (needed > device.shared_per_block)
      return reason(buffer, "its blocks need %d bytes of shared memory, and %s has %d", needed, DeviceName(device).text,
                    device.shared_per_block);
  }
  return nullptr;
}

const char *why_no_device(int32_t index, MessageBuffer *buffer) {
  if (row_count == 0) return "this build of libfa has no GPU kernels (FA_KERNELS=off)";
  const Machine &m = machine();
  if (const char *why = forked_reason()) return why;
  if (m.device_count == 0) return m.why_none;
  if (index >= m.device_count) return no_such_device(index, m, buffer);
  const Device &device = m.devices[index];
  if (!device.usable()) return device.unavailable_reason;
  const char *first = nullptr;  // best first: its files or a newer driver are missing
  for (size_t i = 0; i < row_count; i++) {
    MessageBuffer here;
    const Obstacle obstacle = unavailable_on(rows.of[i], device, &here);
    if (obstacle.reason == nullptr) return nullptr;
    if (obstacle.missing != Missing::hardware && first == nullptr) first = reason(buffer, "%s", obstacle.reason);
  }
  if (first != nullptr) return first;
  if (const kernels::Arch &oldest = *std::ranges::min_element(kernels::archs, {}, &kernels::Arch::number);
      device.capability < oldest.number)
    return reason(buffer, "%s is older than Turing (%s), the first that libfa supports", DeviceName(device).text,
                  oldest.name);
  return reason(buffer, "no kernel image of this build runs on %s: it has %s; build libfa with FA_ARCHS naming %s",
                DeviceName(device).text, archs().c_str(), own_arch(device).c_str());
}

}  // namespace fa::cuda
