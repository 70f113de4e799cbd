// The lines of the dispatch table, made from the list of images while compiling, so that asking for them needs no
// memory and cannot fail; and the kernels of an op, of all operations.
#include "cuda/cuda.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string_view>

#include "core/log.h"
#include "core/status.h"
#include "cuda/engine.h"
#include "cuda/inputs.h"
#include "cuda/reasons.h"
#include "cuda/toolkit.h"

namespace fa::cuda {
namespace {

using kernels::Entry;

constexpr bool same(std::string_view a, std::string_view b) {
  return a == b;
}

const char *unavailable_reason(const KernelEntry &kernel);
const char *unsupported_reason(const KernelEntry &kernel, const Attention &attention, MessageBuffer *buffer);
Engine *create(const KernelEntry &kernel, const Attention &attention, bool alone);

constexpr unsigned bit_of(kernels::Dtype dtype) {
  return 1u << dtype;
}

/// The types of a row's images, a bit each.
constexpr unsigned types_of(std::span<const Image> row) {
  unsigned types = 0;
  for (const Image &image : row) types |= bit_of(image.dtype);
  return types;
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
  for (size_t row = 0; row < row_count; row++) names[row] = TypeNames(types_of(rows.of[row].images()));
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

struct Lines {
  KernelEntry of[row_count + 1];
};

constexpr Lines lines = [] {
  Lines made = {};
  for (size_t row = 0; row < row_count; row++) {
    const Image &first = *rows.of[row].first;
    made.of[row] = {first.name,
                    FA_DEVICE_CUDA,
                    first.arch->name,
                    type_names[row].text,
                    backward_of(first.arch, types_of(rows.of[row].images())),
                    unavailable_reason,
                    unsupported_reason,
                    create};
  }
  return made;
}();

size_t index_of(const KernelEntry &kernel) {
  return static_cast<size_t>(&kernel - lines.of);
}

const char *unavailable_reason(const KernelEntry &kernel) {
  const Machine &m = machine();
  if (const char *why = forked_reason()) return why;
  if (m.device_count == 0) return m.why_none;
  const size_t row = index_of(kernel);
  const char *first = nullptr;
  for (int i = 0; i < m.device_count; i++) {
    if (!m.devices[i].usable()) continue;
    MessageBuffer buffer;
    const Obstacle obstacle = unavailable_on(rows.of[row], m.devices[i], &buffer);
    if (obstacle.reason == nullptr) return nullptr;
    if (first == nullptr) first = lasting_reason(row, obstacle);
  }
  return first != nullptr ? first : m.devices[0].unavailable_reason;
}

const char *unsupported_reason(const KernelEntry &kernel, const Attention &a, MessageBuffer *buffer) {
  const Row &row = rows.of[index_of(kernel)];
  const Machine &m = machine();
  if (const char *why = forked_reason()) return why;
  if (m.device_count == 0) return m.why_none;
  if (a.device_index >= m.device_count) return no_such_device(a.device_index, m, buffer);
  const Device &device = m.devices[a.device_index];
  if (!device.usable()) return device.unavailable_reason;
  const Obstacle obstacle = unavailable_on(row, device, buffer);
  // An auto op waits for files (fa_create in fa.h): its calls with the GPU's memory look for them again.
  const bool waits = obstacle.missing == Missing::files && a.device == FA_DEVICE_AUTO && lacks_files_alone(device);
  if (obstacle.reason != nullptr && !waits) return obstacle.reason;
  return unsupported_reason(row, a, device, buffer);
}

/// True of an image that supports an attention, and whose entry points a device has room for; without room for
/// bwd_fused, gradients take two passes.
bool supports(const Image &image, const Attention &attention, const Device &device) {
  const kernels::Attention a = attention_of(attention);
  if (image.dtype != image.family->compute_dtype(a) || image.dim < std::max(a.head_dim, a.head_dim_v)) return false;
  for (int i = 0; i < kernels::entry_count; i++)
    if (Entry(i) != Entry::bwd_fused && image.tile_of(Entry(i)).shared_bytes > device.shared_per_block) return false;
  const bool writes_codes = same(image.operation, "append") && attention.rotates_cache();  // whose kernels rotate
  if (image.codes != nullptr && !writes_codes && image.codes->unsupported_types_reason(a, attention.v_dtype) != nullptr)
    return false;
  return image.family->unsupported_reason(a) == nullptr;
}

/// The kernels of an operation in an op whose best kernel is this one: of each family of the operation the narrowest
/// image that supports the attention, up to one that supports all calls. A kernel of f32 that was forced by name has no
/// other types behind it.
template <class Call>
KernelSet kernels_of(const KernelEntry &kernel, const Attention &attention, const Device &device, bool alone) {
  const Row &row = rows.of[index_of(kernel)];
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
KernelSet kernels_of<ForwardCall>(const KernelEntry &kernel, const Attention &a, const Device &device, bool alone) {
  const size_t best = index_of(kernel);
  KernelSet set;
  set.shared = rows.of[best].combine;
  set.alone = alone;
  for (size_t i = best; i < row_count && lines.of[i].arch == kernel.arch; i++) {
    MessageBuffer buffer;
    const Row &row = rows.of[i];
    if (unsupported_reason(row, a, device, &buffer) != nullptr) continue;
    set.images[set.count++] = row.image_for(attention_of(a));
    if (alone || (row.family().is_fallback && (row.family().has_all_trees || attention_of(a).causal == 0))) break;
  }
  return set;
}

template <class... Calls>
PerOperation<KernelSet> kernels_of_all(CallList<Calls...>, const KernelEntry &kernel, const Attention &a,
                                       const Device &device, bool alone) {
  PerOperation<KernelSet> sets;
  ((sets.of<Calls>() = kernels_of<Calls>(kernel, a, device, alone)), ...);
  return sets;
}

Engine *create(const KernelEntry &kernel, const Attention &a, bool alone) {
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
  return {lines.of, row_count};
}

const char *toolkit(MessageBuffer *buffer) {
  if (row_count == 0) return nullptr;
  if (kernel_cuda_version == 0) return "GPU kernels in separate files (FA_KERNELS=load)";
  return reason(buffer, "CUDA %d.%d (driver %s)", kernel_cuda_version / 1000, kernel_cuda_version % 1000 / 10,
                driver_for(needed_driver_version()));
}

}  // namespace fa::cuda
