// The lines are made from the list of images when they are first asked for; reasons name devices, and are kept.
#include "cuda/cuda.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/log.h"
#include "core/status.h"
#include "cuda/engine.h"

namespace fa::cuda {
namespace {

bool same(const char *a, const char *b) {
  return std::strcmp(a, b) == 0;
}

/// The text, printf-like, at an address where it stays.
[[gnu::format(printf, 1, 2)]] const char *kept(const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  static std::mutex mutex;
  static std::set<std::string> &texts = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return texts.insert(text).first->c_str();
}

/// What a line of the dispatch table stands for.
struct Row {
  std::string name, dtypes;
  std::vector<const Image *> images;  // narrow head dimensions first
  const Image *combine = nullptr;

  const char *arch() const { return images[0]->arch; }
  const char *family() const { return images[0]->family; }

  const Image *find(fa_dtype dtype, int64_t dim) const {
    const Image *best = nullptr;
    for (const Image *image : images)
      if (image->dtype == dtype && image->dim >= dim && (best == nullptr || image->dim < best->dim)) best = image;
    return best;
  }
};

struct Table {
  std::vector<Row> rows;
  std::vector<Kernel> kernels;

  Table();
};

const Table &table() {
  static const Table &it = *new Table;
  return it;
}

const Row &row_of(const Kernel &kernel) {
  return table().rows[static_cast<size_t>(&kernel - table().kernels.data())];
}

/// "device 0 (NVIDIA A100, sm_80)".
struct Told {
  char text[160];

  explicit Told(const Device &device) {
    std::snprintf(text, sizeof text, "device %d (%s, sm_%d)", device.index, device.name, device.capability);
  }
};

/// The architectures of this build: "sm_120, sm_90a, sm_80".
std::string archs() {
  std::string text;
  const char *last = "";
  for (const Image &image : images()) {
    if (same(image.arch, last)) continue;
    text.append(text.empty() ? "" : ", ").append(last = image.arch);
  }
  return text;
}

const char *why_not_here(const Kernel &kernel) {
  const Machine &m = machine();
  if (const char *why = why_not_after_fork()) return why;
  if (m.device_count == 0) return m.why_none;
  const Device *usable = nullptr;
  for (int i = 0; i < m.device_count; i++) {
    if (!m.devices[i].usable()) continue;
    if (runs_on(kernel.arch, m.devices[i])) return nullptr;
    if (usable == nullptr) usable = &m.devices[i];
  }
  if (usable == nullptr) return m.devices[0].why_not;
  return kept("code for %s does not run on %s", kernel.arch, Told(*usable).text);
}

/// The type in which a family works on q, k and v: its own 16-bit one, or anything as f32.
fa_dtype working_dtype(const Row &row, const Attention &a) {
  return same(row.family(), "simt") ? FA_F32 : a.q_dtype;
}

/// Why the tensor cores' kernels do not serve; nullptr when they do.
const char *why_not_mma(const Row &row, const Attention &a) {
  if (a.q_dtype == FA_F32 || a.q_dtype != a.kv_dtype) return "q, k and v are not of one 16-bit type";
  if (a.out_dtype != FA_F32 && a.out_dtype != a.q_dtype) return "out is neither f32 nor of q's type";
  if (row.find(a.q_dtype, 0) == nullptr)
    return kept("the tensor cores of %s do not multiply %s", row.arch(), a.q_dtype == FA_BF16 ? "bf16" : "f16");
  return nullptr;
}

const char *why_not(const Kernel &kernel, const Attention &a) {
  const Row &row = row_of(kernel);
  const Machine &m = machine();
  if (a.device_index >= m.device_count)
    return kept("desc.device_index is %d, and there are %d GPUs", a.device_index, m.device_count);
  const Device &device = m.devices[a.device_index];
  if (!device.usable()) return device.why_not;
  if (!runs_on(row.arch(), device)) return kept("code for %s does not run on %s", row.arch(), Told(device).text);
  if (!same(row.family(), "simt"))
    if (const char *reason = why_not_mma(row, a)) return reason;
  const Image *image = row.find(working_dtype(row, a), std::max(a.head_dim, a.head_dim_v));
  if (image == nullptr) return kept("its head dimensions go up to %d", row.images.back()->dim);
  using kernels::Entry;
  for (const Entry entry : {Entry::forward, Entry::general, Entry::split, Entry::decode}) {
    const int needed = image->tile_of(entry).shared_bytes;
    if (needed > device.shared_per_block)
      return kept("its blocks need %d bytes of shared memory, and %s has %d", needed, Told(device).text,
                  device.shared_per_block);
  }
  return nullptr;
}

Engine *create(const Kernel &kernel, const Attention &a) {
  const Row &row = row_of(kernel);
  const Image *image = row.find(working_dtype(row, a), std::max(a.head_dim, a.head_dim_v));
  auto engine = std::make_unique<CudaEngine>(a, machine().devices[a.device_index], *image, *row.combine);
  if (a.device != FA_DEVICE_AUTO) return engine->load() == FA_OK ? engine.release() : nullptr;
  // Memory of the host is served whatever the GPU's state is; calls that need it load again.
  const KeepError keep;
  if (engine->load() != FA_OK && verbose_dispatch())
    say("dispatch: device auto: %s is not ready, calls with the GPU's memory will try again: %s", kernel.name,
        last_error());
  return engine.release();
}

Table::Table() {
  constexpr const char *type_names[] = {"", "f32", "f16", "bf16"};
  for (const Image &image : images()) {
    if (same(image.family, "combine")) continue;
    const auto is_its = [&](const Row &row) {
      return same(row.arch(), image.arch) && same(row.family(), image.family);
    };
    auto row = std::find_if(rows.begin(), rows.end(), is_its);
    if (row == rows.end()) {
      rows.emplace_back();
      row = rows.end() - 1;
      row->name.append("cuda.").append(image.arch).append(".").append(image.family);
    }
    if (row->find(image.dtype, 0) == nullptr) {
      row->dtypes.append(row->dtypes.empty() ? "" : " ").append(type_names[image.dtype]);
    }
    row->images.push_back(&image);
  }
  for (const Image &image : images())
    for (Row &row : rows)
      if (same(image.family, "combine") && same(image.arch, row.arch())) row.combine = &image;
  std::erase_if(rows, [](const Row &row) { return row.combine == nullptr; });
  for (const Row &row : rows)
    kernels.push_back({row.name.c_str(), "cuda", row.arch(), row.dtypes.c_str(), why_not_here, why_not, create});
}

}  // namespace

KernelList kernels() {
  return {table().kernels.data(), table().kernels.size()};
}

const char *why_no_device(int32_t index) {
  if (images().empty()) return "this build of libfa has no GPU kernels (FA_KERNELS=off)";
  const Machine &m = machine();
  if (const char *why = why_not_after_fork()) return why;
  if (m.device_count == 0) return m.why_none;
  if (index >= m.device_count)
    return kept("desc.device_index is %d, and there are %d GPUs, counted from 0", index, m.device_count);
  const Device &device = m.devices[index];
  if (!device.usable()) return device.why_not;
  for (const Kernel &kernel : table().kernels)
    if (runs_on(kernel.arch, device)) return nullptr;
  if (device.capability < 75)
    return kept("%s is older than Turing (sm_75), the first that libfa serves", Told(device).text);
  return kept("no kernel image of this build runs on %s: it has %s; build libfa with FA_ARCHS naming %d",
              Told(device).text, archs().c_str(), device.capability);
}

}  // namespace fa::cuda
