// Properties of a parsed module for reports: names of registers, texts of lines, places in the source.
#include "ptx/module.h"

#include <array>

namespace fa::emu::ptx {

std::string Function::register_name(Index reg) const {
  for (const RegisterRun &run : runs) {
    if (reg < run.first || reg >= run.first + run.count) continue;
    std::string text(run.prefix);
    return run.numbered ? text + std::to_string(reg - run.first) : text;
  }
  return "register " + std::to_string(reg);
}

std::string_view Module::text_of_line(uint32_t line) const {
  size_t begin = 0;
  for (uint32_t at = 1; at < line; at++) {
    begin = source.find('\n', begin);
    if (begin == std::string::npos) return {};
    begin++;
  }
  std::string_view text = std::string_view(source).substr(begin, source.find('\n', begin) - begin);
  size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::string Module::name_of(const SourceLine &line) const {
  std::string text;
  const char *separator = "";
  for (const SourceLine *at = &line;; at = &lines[at->inlined_at]) {
    auto file = files.find(at->file);
    if (file == files.end()) return text;
    std::string_view name = file->second;
    size_t slash = name.rfind('/', name.rfind('/') - 1);
    if (slash < name.size()) name.remove_prefix(slash + 1);
    text += separator + std::string(name) + ":" + std::to_string(at->line);
    if (at->inlined_at == none) return text;
    separator = *separator ? ", " : ", inlined at ";
  }
}

std::string Error::what() const {
  return "PTX line " + std::to_string(line) + ": " + message + " | " + text;
}

std::span<const std::string_view> special_register_names() {
  static constexpr auto names = std::to_array<std::string_view>({
      "tid.x",
      "tid.y",
      "tid.z",
      "ntid.x",
      "ntid.y",
      "ntid.z",
      "ctaid.x",
      "ctaid.y",
      "ctaid.z",
      "nctaid.x",
      "nctaid.y",
      "nctaid.z",
      "laneid",
      "warpid",
      "nwarpid",
      "smid",
      "nsmid",
      "gridid",
      "lanemask_eq",
      "lanemask_le",
      "lanemask_lt",
      "lanemask_ge",
      "lanemask_gt",
      "clusterid.x",
      "clusterid.y",
      "clusterid.z",
      "nclusterid.x",
      "nclusterid.y",
      "nclusterid.z",
      "cluster_ctaid.x",
      "cluster_ctaid.y",
      "cluster_ctaid.z",
      "cluster_nctaid.x",
      "cluster_nctaid.y",
      "cluster_nctaid.z",
      "cluster_ctarank",
      "cluster_nctarank",
      "is_explicit_cluster",
      "total_smem_size",
      "aggr_smem_size",
      "dynamic_smem_size",
      "clock",
      "clock_hi",
      "clock64",
      "globaltimer",
      "globaltimer_lo",
      "globaltimer_hi",
      "current_graph_exec",
      "envreg0",
      "envreg1",
      "envreg2",
      "envreg3",
      "envreg4",
      "envreg5",
      "envreg6",
      "envreg7",
      "envreg8",
      "envreg9",
      "envreg10",
      "envreg11",
      "envreg12",
      "envreg13",
      "envreg14",
      "envreg15",
      "envreg16",
      "envreg17",
      "envreg18",
      "envreg19",
      "envreg20",
      "envreg21",
      "envreg22",
      "envreg23",
      "envreg24",
      "envreg25",
      "envreg26",
      "envreg27",
      "envreg28",
      "envreg29",
      "envreg30",
      "envreg31",
  });
  return names;
}

}  // namespace fa::emu::ptx
