// `fa info`: the library, the machine and its kernels, as people paste them into a bug report.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "error.h"
#include "gpu.h"
#include "library.h"
#include "machine.h"
#include "text.h"

namespace fa::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *variables[] = {"FA_VERBOSE", "FA_FORCE_KERNEL", "FA_MAX_ARCH", "FA_NUM_THREADS",
                                     "FA_KERNEL_PATH"};

/// The file that the loaded library came from.
std::string library_path() {
  Dl_info info = {};
  return dladdr(reinterpret_cast<const void *>(&fa_version), &info) && info.dli_fname ? info.dli_fname : "unknown";
}

std::string version_text(int32_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

/// The kernel that the library chooses for types of q and of k and v, with its defaults.
struct Choice {
  fa_dtype q, kv;
  std::string kernel;              // "" when no kernel supports it
  std::string unavailable_reason;  // then the library's
};

Choice choice_for(fa_dtype q, fa_dtype kv) {
  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = q;
  desc.dtype_kv = kv;
  desc.head_dim = 64;
  try {
    return {q, kv, fa_op_kernel_name(create_op(desc).get()), ""};
  } catch (const std::runtime_error &error) {
    return {q, kv, "", error.what()};
  }
}

std::vector<Choice> choices() {
  std::vector<Choice> list;
  for (const std::string &q : compute_dtypes()) list.push_back(choice_for(dtype_of_name(q), dtype_of_name(q)));
  for (const std::string &kv : cache_dtypes())
    if (kv != "f32") list.push_back(choice_for(FA_F32, dtype_of_name(kv)));
  return list;
}

std::string choice_name(const Choice &choice) {
  std::string name = dtype_name(choice.q);
  if (choice.kv != choice.q) name += fmt::format(" over {}", dtype_name(choice.kv));
  return name;
}

/// The kernels that compute gradients, best first.
std::vector<std::string> backward_names(int32_t index, const fa_kernel &kernel) {
  std::vector<std::string> names;
  for (int32_t i = 0; i < kernel.num_backward; ++i) names.emplace_back(fa_kernel_backward_name(index, i));
  return names;
}

Json as_json() {
  const Machine machine = this_machine();
  Json json;
  json["version"] = version_text(fa_version());
  json["header_version"] = FA_VERSION_STRING;
  json["build"] = fa_build_info();
  json["library"] = library_path();
  json["machine"] = {{"system", machine.system},
                     {"cpu", machine.cpu},
                     {"isas", machine.isas},
                     {"cpus_online", machine.cpus_online},
                     {"cpus_usable", machine.cpus_usable},
                     {"cpu_quota", machine.cpu_quota},
                     {"memory_gib", machine.memory_gib}};
  json["environment"] = Json::object();
  for (const char *name : variables) {
    if (const char *value = std::getenv(name)) json["environment"][name] = value;
  }
  const Gpus gpus = find_gpus();
  json["driver"] = gpus.driver;
  json["gpus"] = Json::array();
  for (const Gpu &gpu : gpus.list) {
    json["gpus"].push_back({{"name", gpu.name},
                            {"arch", gpu.arch},
                            {"multiprocessors", gpu.multiprocessors},
                            {"memory_gib", gpu.memory_gib},
                            {"kernel", gpu.kernel},
                            {"unavailable_reason", gpu.unavailable_reason}});
  }
  json["no_gpu_reason"] = gpus.why_none;
  json["kernels"] = Json::array();
  for (int32_t index = 0; const fa_kernel &kernel : kernels()) {
    json["kernels"].push_back({{"name", kernel.name},
                               {"device", kernel.device},
                               {"arch", kernel.arch},
                               {"compute_dtypes", kernel.compute_dtypes},
                               {"backward", backward_names(index++, kernel)},
                               {"available", kernel.available != 0},
                               {"unavailable_reason", kernel.unavailable_reason}});
  }
  json["chosen"] = Json::array();
  for (const Choice &choice : choices()) {
    json["chosen"].push_back({{"dtype_q", dtype_name(choice.q)},
                              {"dtype_kv", dtype_name(choice.kv)},
                              {"kernel", choice.kernel},
                              {"unavailable_reason", choice.unavailable_reason}});
  }
  return json;
}

void print_gpus(const Gpus &gpus) {
  fmt::print("\nGPUs{}:\n", gpus.driver.empty() ? "" : fmt::format(", by a driver for CUDA {}", gpus.driver));
  if (gpus.list.empty()) fmt::print("  none: {}\n", printable(gpus.why_none));
  for (size_t i = 0; i < gpus.list.size(); ++i) {
    const Gpu &gpu = gpus.list[i];
    fmt::print("  {} {}, {}, {} multiprocessors, {:.1f} GiB: {}\n", i, gpu.name, gpu.arch, gpu.multiprocessors,
               gpu.memory_gib,
               gpu.kernel.empty() ? fmt::format("no: {}", printable(gpu.unavailable_reason)) : gpu.kernel);
  }
}

/// One line for each kernel. Consecutive kernels with the same reason share it; the lack of a GPU has been printed
/// before.
void print_kernels(bool any_gpu) {
  fmt::print("\nKernels, best first:\n");
  std::string before;
  for (const fa_kernel &kernel : kernels()) {
    const std::string reason =
        any_gpu || std::strcmp(kernel.device, "cuda") != 0 ? kernel.unavailable_reason : "there is no GPU";
    const bool again = reason == before;
    before = reason;
    fmt::print("  {:<20} {:<6} {:<16} {}\n", kernel.name, kernel.device, kernel.compute_dtypes,
               kernel.available ? "available" : fmt::format("no: {}", again ? "likewise" : reason));
  }
}

/// A GPU's kernels have separate families for gradients; a CPU's kernel computes them itself.
void print_gradients() {
  fmt::print("\nGradients (fa_backward), best first:\n");
  for (int32_t index = 0; const fa_kernel &kernel : kernels()) {
    std::string names;
    for (const std::string &name : backward_names(index++, kernel)) names += (names.empty() ? "" : " ") + name;
    fmt::print("  {:<20} {}\n", kernel.name,
               names.empty()          ? "none in this build"
               : names == kernel.name ? "itself"
                                      : names);
  }
}

void print_text() {
  const Machine machine = this_machine();
  const std::string version = version_text(fa_version());
  fmt::print("libfa      {}{}\n", version,
             version == FA_VERSION_STRING ? "" : fmt::format(" (this tool was built for {})", FA_VERSION_STRING));
  fmt::print("build      {}\nlibrary    {}\nsystem     {}\ncpu        {}\n", fa_build_info(), printable(library_path()),
             machine.system, machine.cpu);
  fmt::print("isas       {}\n", fmt::join(machine.isas, " "));
  fmt::print("cpus       {} usable of {}{}\n", machine.cpus_usable, machine.cpus_online,
             machine.cpu_quota > 0 ? fmt::format(", limited to {:g} by the control group", machine.cpu_quota) : "");
  fmt::print("memory     {:.1f} GiB\n", machine.memory_gib);
  for (const char *name : variables) {
    if (const char *value = std::getenv(name)) fmt::print("set        {}={}\n", name, printable(value));
  }
  const Gpus gpus = find_gpus();
  print_gpus(gpus);
  print_kernels(!gpus.list.empty());
  print_gradients();
  fmt::print("\nKernels chosen here:\n");
  for (const Choice &choice : choices()) {
    fmt::print(
        "  {:<20} {}\n", choice_name(choice),
        choice.kernel.empty() ? fmt::format("nothing: {}", printable(choice.unavailable_reason)) : choice.kernel);
  }
}

}  // namespace

Command info_command() {
  Command command{};
  command.name = "info";
  command.summary = "the library, this machine and its kernels, for bug reports";
  command.usage = "[--json]";
  command.details =
      "Prints the version and build of the loaded library, the machine's processor with the instruction sets that "
      "matter here, its GPUs, every kernel of the library with the reason where one cannot run, the kernels of its "
      "gradients, and the kernel that the library chooses for each type of element.";
  command.examples = {{"For a bug report:", "fa info"}, {"For a program:", "fa info --json"}};
  command.define = [](Options &options) -> std::function<int()> {
    const auto json = std::make_shared<bool>(false);
    options.flag("--json", *json, "print JSON");
    options.help("print this");
    return [json] {
      if (*json) {
        fmt::print("{}\n", as_json().dump(2, ' ', false, Json::error_handler_t::replace));
      } else {
        print_text();
      }
      return exit_ok;
    };
  };
  return command;
}

}  // namespace fa::tool
