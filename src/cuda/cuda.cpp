// The lines are made from the list of images while compiling, so that asking for them needs no memory and cannot fail.
#include "cuda/cuda.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "core/dtype.h"
#include "core/log.h"
#include "core/rotation.h"
#include "core/status.h"
#include "core/text.h"
#include "cuda/engine.h"
#include "cuda/inputs.h"
#include "cuda/list.h"
#include "cuda/toolkit.h"

namespace fa::cuda {
namespace {

using kernels::Entry;

constexpr int newest_cuda = std::numeric_limits<int>::max();

constexpr bool same(std::string_view a, std::string_view b) {
  return a == b;
}

/// The images behind a line of the dispatch table.
struct Row {
  const Image *first = nullptr;  // narrow head dimensions first
  size_t count = 0;
  const Image *combine = nullptr;

  const kernels::Arch &arch() const { return *first->arch; }
  const kernels::Family &family() const { return *first->family; }

  /// The narrowest image for a type and a head dimension; nullptr where there is none.
  const Image *find(kernels::Dtype dtype, int64_t dim) const {
    const Image *best = nullptr;
    for (const Image *image = first; image < first + count; image++)
      if (image->dtype == dtype && image->dim >= dim && (best == nullptr || image->dim < best->dim)) best = image;
    return best;
  }

  const Image *image_for(const kernels::Attention &a) const {
    return find(family().compute_dtype(a), std::max(a.head_dim, a.head_dim_v));
  }

  /// The CUDA version of the first image that is available; 0 where none is, with the reason of the first one in *why.
  int cuda_version(Reason *why) const {
    for (const Image *image = first + 1; image < first + count; image++)
      if (const int version = cuda_version_of(*image, why)) return version;
    return cuda_version_of(*first, why);
  }
};

const char *unavailable_reason(const Kernel &kernel);
const char *unsupported_reason(const Kernel &kernel, const Attention &attention, Reason *room);
Engine *create(const Kernel &kernel, const Attention &attention, bool alone);

/// Entry points that compute attention. Families without any have no row.
constexpr std::initializer_list<Entry> forward_entries = {Entry::plain,   Entry::narrow, Entry::score_mod,
                                                          Entry::general, Entry::split,  Entry::decode};

/// True at the first image of a row.
constexpr bool begins_row(size_t i) {
  return std::ranges::any_of(forward_entries, [&](Entry entry) { return list[i].has(entry); }) &&
         (i == 0 || !same(list[i].name, list[i - 1].name));
}

constexpr size_t row_count = [] {
  size_t count = 0;
  for (size_t i = 0; i < list_length; i++) count += begins_row(i);
  return count;
}();

/// Whether an image has the kernels of KernelSet::shared.
constexpr bool is_shared(const Image &image) {
  return image.has(Entry::combine) || image.has(Entry::delta);
}

struct Table {
  Row rows[row_count + 1];  // there may be none
  Kernel kernels[row_count + 1];
};

constexpr unsigned bit_of(kernels::Dtype dtype) {
  return 1u << dtype;
}

/// The images of a row, and their types, one bit each.
struct Span {
  size_t begin, end;
  unsigned types;
};

constexpr Span row_at(size_t begin) {
  Span span = {begin, begin, 0};
  for (; span.end < list_length && same(list[span.end].name, list[begin].name); span.end++)
    span.types |= bit_of(list[span.end].dtype);
  return span;
}

/// The names of some types: "f16 bf16".
struct TypeNames {
  char text[64] = {};

  constexpr TypeNames() = default;
  constexpr explicit TypeNames(unsigned types) {
    size_t length = 0;
    for (const kernels::ElementLine &line : kernels::element_lines) {
      if ((types & bit_of(line.dtype)) == 0) continue;
      if (length > 0) text[length++] = ' ';
      for (const char *c = line.name; *c != '\0'; ++c) text[length++] = *c;
    }
  }
};

constexpr auto type_names = [] {
  std::array<TypeNames, row_count + 1> names;
  for (size_t i = 0, row = 0; i < list_length; i++)
    if (begins_row(i)) names[row++] = TypeNames(row_at(i).types);
  return names;
}();

/// The kernels of an architecture that compute gradients of some types: those of these types, and of f32, which
/// computes all.
constexpr BackwardNames backward_of(const kernels::Arch *arch, unsigned types) {
  BackwardNames found = {};
  for (const Image &image : std::span(list, list_length)) {
    const bool computes = image.has(Entry::dkv) || image.has(Entry::bwd_fused);
    if (image.arch != arch || ((types | bit_of(kernels::f32)) & bit_of(image.dtype)) == 0 || !computes) continue;
    if (found.count == 0 || !same(image.name, found.names[found.count - 1])) found.names[found.count++] = image.name;
  }
  return found;
}

constexpr Table table = [] {
  Table made = {};
  for (size_t i = 0, row = 0; i < list_length; i++) {
    if (!begins_row(i)) continue;
    const Image &first = list[i];
    const Span span = row_at(i);
    made.rows[row] = {&first, span.end - span.begin, nullptr};
    for (const Image &image : std::span(list, list_length))
      if (image.arch == first.arch && same(image.operation, "forward") && is_shared(image))
        made.rows[row].combine = &image;
    made.kernels[row] = {first.name,
                         FA_DEVICE_CUDA,
                         first.arch->name,
                         type_names[row].text,
                         backward_of(first.arch, span.types),
                         unavailable_reason,
                         unsupported_reason,
                         create};
    row++;
  }
  return made;
}();

size_t index_of(const Kernel &kernel) {
  return static_cast<size_t>(&kernel - table.kernels);
}

/// Prints a text into *room, and returns it.
[[gnu::format(printf, 2, 3)]] const char *reason(Reason *room, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_text(room->text, sizeof room->text, format, arguments);
  va_end(arguments);
  return room->text;
}

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
    if (same(image.arch->name, last)) continue;
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

const char *needs_newer_driver(const char *arch, int cuda, const Device &device, Reason *room) {
  const int driver = machine().driver.version, needed = needed_driver_version(cuda);
  if (driver < needed)
    return reason(
        room,
        "the kernel images for %s are of CUDA %d.%d, and the driver, for CUDA %d.%d, runs none of them: update the "
        "driver to %s, or install images that CUDA %d compiled",
        arch, cuda / 1000, cuda % 1000 / 10, driver / 1000, driver % 1000 / 10, driver_for(needed), driver / 1000);
  return reason(
      room,
      "%s would run code for %s from its PTX, which is of CUDA %d.%d, and the driver, for CUDA %d.%d, does not "
      "know it: update the driver to %s, or build libfa with FA_ARCHS naming %s",
      DeviceName(device).text, arch, cuda / 1000, cuda % 1000 / 10, driver / 1000, driver % 1000 / 10, driver_for(cuda),
      own_arch(device).c_str());
}

/// What keeps a row from running on a device.
enum class Missing { hardware, driver, files };
struct Obstacle {
  Missing missing;
  const char *reason;  // nullptr where the row runs
};

Obstacle unavailable_on(const Row &row, const Device &device, Reason *room) {
  const kernels::Arch &arch = row.arch();
  if (runs_on(arch, newest_cuda, device) == Runs::no)
    return {Missing::hardware, reason(room, "code for %s does not run on %s", arch.name, DeviceName(device).text)};
  const int cuda = row.cuda_version(room);
  if (cuda == 0) return {Missing::files, room->text};
  switch (runs_on(arch, cuda, device)) {
    case Runs::no:
      return {Missing::hardware, reason(room, "code for %s does not run on %s", arch.name, DeviceName(device).text)};
    case Runs::with_newer_driver:
      return {Missing::driver, needs_newer_driver(arch.name, cuda, device, room)};
    case Runs::yes:
      break;
  }
  return {Missing::hardware, nullptr};
}

/// True where only files are missing for a device: no row runs there, and rows that would have no image.
bool lacks_files_alone(const Device &device) {
  Reason room;
  bool lacks = false;
  for (size_t i = 0; i < row_count; i++) {
    const Obstacle obstacle = unavailable_on(table.rows[i], device, &room);
    if (obstacle.reason == nullptr) return false;
    lacks = lacks || obstacle.missing == Missing::files;
  }
  return lacks;
}

const char *no_such_device(int32_t index, const Machine &m, Reason *room) {
  const bool one = m.device_count == 1;
  return reason(room, "desc.device_index is %d, and there %s %d GPU%s, counted from 0", index, one ? "is" : "are",
                m.device_count, one ? "" : "s");
}

/// A reason that lasts as long as the library: the first one of its kind that the row had.
const char *lasting_reason(size_t row, const Obstacle &obstacle) {
  static std::mutex writing;
  static Reason reasons[row_count + 1][3];
  const std::lock_guard lock(writing);
  char *text = reasons[row][static_cast<int>(obstacle.missing)].text;
  if (*text == '\0') std::memcpy(text, obstacle.reason, std::strlen(obstacle.reason) + 1);
  return text;
}

const char *unavailable_reason(const Kernel &kernel) {
  const Machine &m = machine();
  if (const char *why = forked_reason()) return why;
  if (m.device_count == 0) return m.why_none;
  const size_t row = index_of(kernel);
  const char *first = nullptr;
  for (int i = 0; i < m.device_count; i++) {
    if (!m.devices[i].usable()) continue;
    Reason room;
    const Obstacle obstacle = unavailable_on(table.rows[row], m.devices[i], &room);
    if (obstacle.reason == nullptr) return nullptr;
    if (first == nullptr) first = lasting_reason(row, obstacle);
  }
  return first != nullptr ? first : m.devices[0].unavailable_reason;
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
const char *missing_image_reason(const Row &row, kernels::Dtype dtype, int64_t dim, Reason *room) {
  const char *type = kernels::line_of(dtype).name, *arch = row.arch().name, *family = row.first->family_name;
  const FamilyLine *line =
      std::ranges::find_if(family_lines, [&](const FamilyLine &l) { return l.family == family && l.dtype == dtype; });
  if (line == std::end(family_lines)) return reason(room, "it has no kernels for %s", type);
  if ((row.arch().hardware & line->needs) != line->needs)
    return reason(room, "%s lacks the instructions of its kernels for %s", arch, type);
  if (dim > line->widest()) return reason(room, "its head dimensions go up to %d", line->widest());
  return reason(
      room,
      "this build of libfa left out its image %s.%s.%s.%d; expected a build whose FA_IMAGE_FILTER matches that "
      "name or is empty",
      arch, family, type, line->dim_for(dim));
}

/// Why a row's images do not support the attention on a device that runs them; nullptr when one does.
const char *unsupported_reason(const Row &row, const Attention &attention, const Device &device, Reason *room) {
  const kernels::Attention a = attention_of(attention);
  if (const kernels::QuantisedFamily *codes = row.first->codes) {
    if (const char *why = codes->unsupported_types_reason(a, attention.v_dtype)) return why;
    if (attention.head_dim_rope != 0 && !codes->reads_two_parts) return "its kernels do not read keys in two parts";
  } else if (attention.head_dim_rope != 0) {
    return "its kernels do not read keys in two parts";
  } else if (is_quantised(attention.kv_dtype)) {
    return reason(room, "its kernels do not read k of %s", dtype_name(attention.kv_dtype));
  } else if (is_quantised(attention.v_dtype)) {
    return reason(room, "its kernels do not read v of %s", dtype_name(attention.v_dtype));
  } else if (attention.v_dtype != attention.kv_dtype) {
    return "its kernels do not read v of another type than k";
  }
  if (const char *why = row.family().unsupported_reason(a)) return why;
  if (attention.batch_invariant && !row.family().is_fallback)
    return "it supports some calls only, and FA_FLAG_BATCH_INVARIANT needs one kernel for all calls";
  const Image *image = row.image_for(a);
  if (image == nullptr)
    return missing_image_reason(row, row.family().compute_dtype(a), std::max(a.head_dim, a.head_dim_v), room);
  for (const Entry entry : forward_entries) {
    const int needed = image->tile_of(entry).shared_bytes;
    if (needed > device.shared_per_block)
      return reason(room, "its blocks need %d bytes of shared memory, and %s has %d", needed, DeviceName(device).text,
                    device.shared_per_block);
  }
  return nullptr;
}

const char *unsupported_reason(const Kernel &kernel, const Attention &a, Reason *room) {
  const Row &row = table.rows[index_of(kernel)];
  const Machine &m = machine();
  if (const char *why = forked_reason()) return why;
  if (m.device_count == 0) return m.why_none;
  if (a.device_index >= m.device_count) return no_such_device(a.device_index, m, room);
  const Device &device = m.devices[a.device_index];
  if (!device.usable()) return device.unavailable_reason;
  const Obstacle obstacle = unavailable_on(row, device, room);
  // An auto op waits for files (fa_create in fa.h): its calls with the GPU's memory look for them again.
  const bool waits = obstacle.missing == Missing::files && a.device == FA_DEVICE_AUTO && lacks_files_alone(device);
  if (obstacle.reason != nullptr && !waits) return obstacle.reason;
  return unsupported_reason(row, a, device, room);
}

/// True of an image that supports an attention, and whose entry points a device has room for; without room for
/// bwd_fused, gradients take two passes.
bool supports(const Image &image, const Attention &attention, const Device &device) {
  const kernels::Attention a = attention_of(attention);
  if (image.dtype != image.family->compute_dtype(a) || image.dim < std::max(a.head_dim, a.head_dim_v)) return false;
  for (int i = 0; i < kernels::entry_count; i++)
    if (Entry(i) != Entry::bwd_fused && image.tile_of(Entry(i)).shared_bytes > device.shared_per_block) return false;
  const bool writes_codes = same(image.operation, "append") && rotates(attention);  // whose kernels rotate
  if (image.codes != nullptr && !writes_codes && image.codes->unsupported_types_reason(a, attention.v_dtype) != nullptr)
    return false;
  return image.family->unsupported_reason(a) == nullptr;
}

/// The kernels of an operation in an op whose best kernel is this one: of each family of the operation the narrowest
/// image that supports the attention, up to one that supports all calls. A kernel of f32 that was forced by name has no
/// other types behind it.
template <class Call>
KernelSet kernels_of(const Kernel &kernel, const Attention &attention, const Device &device, bool alone) {
  const Row &row = table.rows[index_of(kernel)];
  const bool f32_alone = alone && row.first->dtype == kernels::f32;
  KernelSet set;
  const char *last = "";
  for (const Image &image : images()) {
    if (image.arch != &row.arch() || !same(image.operation, OperationTraits<Call>::name)) continue;
    if (is_shared(image)) set.shared = &image;
    if ((f32_alone && image.dtype != kernels::f32) || same(image.name, last)) continue;
    if (!supports(image, attention, device)) continue;
    set.images[set.count++] = &image;
    if (image.family->is_fallback) break;
    last = image.name;
  }
  return set;
}

/// Of forward: the image of the op's row, then those of later rows of its architecture, up to one that supports all
/// calls.
template <>
KernelSet kernels_of<ForwardCall>(const Kernel &kernel, const Attention &a, const Device &device, bool alone) {
  const size_t best = index_of(kernel);
  KernelSet set;
  set.shared = table.rows[best].combine;
  for (size_t i = best; i < row_count && table.kernels[i].arch == kernel.arch; i++) {
    Reason room;
    const Row &row = table.rows[i];
    if (unsupported_reason(row, a, device, &room) != nullptr) continue;
    set.images[set.count++] = row.image_for(attention_of(a));
    if (alone || (row.family().is_fallback && (row.family().has_all_trees || attention_of(a).causal == 0))) break;
  }
  return set;
}

template <class... Calls>
PerOperation<KernelSet> kernels_of_all(CallList<Calls...>, const Kernel &kernel, const Attention &a,
                                       const Device &device, bool alone) {
  PerOperation<KernelSet> sets;
  ((sets.of<Calls>() = kernels_of<Calls>(kernel, a, device, alone)), ...);
  return sets;
}

Engine *create(const Kernel &kernel, const Attention &a, bool alone) {
  const Device &device = machine().devices[a.device_index];
  auto engine = std::make_unique<CudaEngine>(a, device, kernels_of_all(AllCalls(), kernel, a, device, alone));
  if (a.device != FA_DEVICE_AUTO) return engine->load() == FA_OK ? engine.release() : nullptr;
  // Calls with memory of the host run whatever the GPU's state is; calls that need it load again.
  const ErrorScope keep;
  if (engine->load() != FA_OK && verbose_dispatch())
    log_message("dispatch: device auto: %s is not ready, calls with the GPU's memory will try again: %s", kernel.name,
                last_error());
  return engine.release();
}

}  // namespace

KernelList kernels() {
  return {table.kernels, row_count};
}

const char *why_no_device(int32_t index, Reason *room) {
  if (row_count == 0) return "this build of libfa has no GPU kernels (FA_KERNELS=off)";
  const Machine &m = machine();
  if (const char *why = forked_reason()) return why;
  if (m.device_count == 0) return m.why_none;
  if (index >= m.device_count) return no_such_device(index, m, room);
  const Device &device = m.devices[index];
  if (!device.usable()) return device.unavailable_reason;
  const char *first = nullptr;  // best first: its files or a newer driver are missing
  for (size_t i = 0; i < row_count; i++) {
    Reason here;
    const Obstacle obstacle = unavailable_on(table.rows[i], device, &here);
    if (obstacle.reason == nullptr) return nullptr;
    if (obstacle.missing != Missing::hardware && first == nullptr) first = reason(room, "%s", obstacle.reason);
  }
  if (first != nullptr) return first;
  if (const kernels::Arch &oldest = *std::ranges::min_element(kernels::archs, {}, &kernels::Arch::number);
      device.capability < oldest.number)
    return reason(room, "%s is older than Turing (%s), the first that libfa supports", DeviceName(device).text,
                  oldest.name);
  return reason(room, "no kernel image of this build runs on %s: it has %s; build libfa with FA_ARCHS naming %s",
                DeviceName(device).text, archs().c_str(), own_arch(device).c_str());
}

const char *toolkit(Reason *room) {
  if (row_count == 0) return nullptr;
  if (kernel_cuda_version == 0) return "GPU kernels in separate files (FA_KERNELS=load)";
  return reason(room, "CUDA %d.%d (driver %s)", kernel_cuda_version / 1000, kernel_cuda_version % 1000 / 10,
                driver_for(needed_driver_version()));
}

}  // namespace fa::cuda
