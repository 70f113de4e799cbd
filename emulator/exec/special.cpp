// Special registers by name: per thread, per warp, per CTA, and clocks.
#include "exec/special.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string_view>

#include "exec/cta.h"
#include "exec/launch.h"
#include "memory/windows.h"

namespace fa::emu {
namespace {

std::string_view name_of_special(ptx::Index special) {
  return ptx::special_register_names()[special];
}

/// The position of "x", "y" or "z" behind the dot.
int axis(std::string_view name) {
  return name.back() - 'x';
}

uint64_t thread_value(const Warp &warp, std::string_view name, uint32_t lane) {
  const uint32_t *block = warp.cta->launch->shape.block;
  uint32_t thread = warp.index * lanes + lane;
  if (name == "tid.x") return thread % block[0];
  if (name == "tid.y") return thread / block[0] % block[1];
  if (name == "tid.z") return thread / block[0] / block[1];
  if (name == "laneid") return lane;
  uint32_t own = 1u << lane;
  if (name == "lanemask_eq") return own;
  if (name == "lanemask_lt") return own - 1;
  if (name == "lanemask_le") return own | (own - 1);
  if (name == "lanemask_ge") return ~(own - 1);
  return ~(own | (own - 1));  // lanemask_gt
}

bool is_per_thread(std::string_view name) {
  return name.starts_with("tid.") || name == "laneid" || name.starts_with("lanemask_");
}

uint64_t cta_value(const Cta &cta, std::string_view name) {
  const Launch &launch = *cta.launch;
  const LaunchShape &shape = launch.shape;
  uint64_t shared = cta.shared_bytes;
  if (name.starts_with("ntid.")) return shape.block[axis(name)];
  if (name.starts_with("ctaid.")) return cta.id[axis(name)];
  if (name.starts_with("nctaid.")) return shape.grid[axis(name)];
  if (name.starts_with("clusterid.")) return cta.id[axis(name)] / shape.cluster[axis(name)];
  if (name.starts_with("nclusterid.")) return shape.grid[axis(name)] / shape.cluster[axis(name)];
  if (name.starts_with("cluster_ctaid.")) return cta.id[axis(name)] % shape.cluster[axis(name)];
  if (name.starts_with("cluster_nctaid.")) return shape.cluster[axis(name)];
  if (name == "cluster_ctarank") return cta.rank;
  if (name == "cluster_nctarank") return launch.cluster_size();
  if (name == "is_explicit_cluster") return launch.cluster_size() > 1;
  if (name == "nwarpid") return 64;
  if (name == "smid") return cta.multiprocessor;
  if (name == "nsmid") return launch.multiprocessors().count();
  if (name == "gridid") return launch.grid_number;
  if (name == "total_smem_size" || name == "aggr_smem_size") return shared;
  if (name == "envreg1") return launch.grid_workspace >> 32;
  if (name == "envreg2") return launch.grid_workspace & UINT32_MAX;
  if (name == "dynamic_smem_size") return shape.dynamic_shared;
  return 0;
}

}  // namespace

ptx::Index special_number(std::string_view name) {
  auto names = ptx::special_register_names();
  auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) throw std::logic_error("no such special register");
  return static_cast<ptx::Index>(found - names.begin());
}

bool is_clock(ptx::Index special) {
  std::string_view name = name_of_special(special);
  return name.starts_with("clock") || name.starts_with("globaltimer");
}

bool is_wide(ptx::Index special) {
  std::string_view name = name_of_special(special);
  return name == "clock64" || name == "globaltimer" || name == "gridid" || name == "current_graph_exec";
}

uint64_t read_clock(ptx::Index special) {
  std::string_view name = name_of_special(special);
  auto now = name.starts_with("clock") ? std::chrono::steady_clock::now().time_since_epoch()
                                       : std::chrono::system_clock::now().time_since_epoch();
  uint64_t value = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  return name.ends_with("_hi") ? value >> 32 : value;
}

void fill_warp_rows(const Warp &warp, uint8_t *bank) {
  for (const WarpRow &row : warp.cta->launch->program->warp_rows) {
    std::string_view name = row.special == ptx::none ? "" : name_of_special(row.special);
    bool per_thread = is_per_thread(name);
    uint64_t value = row.special == ptx::none ? warp.cta->shared_base + uint64_t{row.offset}
                     : name == "warpid"       ? warp.index
                     : per_thread             ? 0
                                              : cta_value(*warp.cta, name);
    for (uint32_t lane = 0; lane < lanes; lane++) {
      if (per_thread) value = thread_value(warp, name, lane);
      uint8_t *at = bank + row.slot.offset();
      if (row.wide)
        reinterpret_cast<uint64_t *>(at)[lane] = value;
      else
        reinterpret_cast<uint32_t *>(at)[lane] = static_cast<uint32_t>(value);
    }
  }
}

}  // namespace fa::emu
