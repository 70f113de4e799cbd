// Reading the environment; what makes no sense is told and left out.
#include "driver/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace fa::emu::driver {
namespace {

std::string_view variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? std::string_view(value) : std::string_view();
}

/// A number, with K, M or G behind it where sizes are meant.
uint64_t number(const char *name, uint64_t otherwise, std::vector<std::string> &errors) {
  std::string_view text = variable(name);
  if (text.empty()) return otherwise;
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view suffix(end, static_cast<size_t>(text.data() + text.size() - end));
  int shift = suffix.empty() ? 0 : suffix == "K" ? 10 : suffix == "M" ? 20 : suffix == "G" ? 30 : -1;
  if (error != std::errc() || shift < 0) {
    errors.push_back(std::string(name) + "=" + std::string(text) + " is no number, such as 64, 512M or 2G");
    return otherwise;
  }
  return value << shift;
}

std::vector<DeviceLimits> devices(std::vector<std::string> &errors) {
  std::vector<DeviceLimits> result;
  std::string_view list = variable("FA_EMU_DEVICE");
  if (list.empty()) list = "sm_80";
  while (!list.empty()) {
    std::string_view name = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), name.size() + 1));
    if (auto limits = limits_of(name))
      result.push_back(*limits);
    else
      errors.push_back("FA_EMU_DEVICE: '" + std::string(name) + "' is no device, such as sm_80 or sm_90a");
  }
  return result;
}

Settings read() {
  Settings result;
  auto &errors = result.errors;
  result.devices = devices(errors);
  uint64_t check = number("FA_EMU_CHECK", 0, errors);
  result.run.check = check != 0;
  result.strict = check > 1;
  result.run.seed = number("FA_EMU_SEED", 0, errors);
  result.run.threads = static_cast<uint32_t>(number("FA_EMU_THREADS", 0, errors));
  uint64_t detail = number("FA_EMU_REPORT", 0, errors);
  result.report = detail != 0;
  result.json = variable("FA_EMU_JSON");
  result.run.count = detail > 1 || !result.json.empty();
  result.driver_version = static_cast<int>(number("FA_EMU_DRIVER", 13000, errors));
  result.memory_bytes = number("FA_EMU_MEMORY", 0, errors);
  result.fail_call = number("FA_EMU_FAIL", 0, errors);
  result.quiet = number("FA_EMU_QUIET", 0, errors) != 0;
  return result;
}

}  // namespace

const Settings &settings() {
  // Never destroyed: a thread may still run when the program ends.
  static const Settings *const result = new Settings(read());
  return *result;
}

}  // namespace fa::emu::driver
