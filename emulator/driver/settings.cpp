// Reading the environment; with values that make no sense cuInit fails.
#include "driver/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace fa::emu::driver {
namespace {

std::string_view variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? std::string_view(value) : std::string_view();
}

/// A number, with K, M or G behind it where sizes are meant; nothing for other texts.
std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view suffix(end, static_cast<size_t>(text.data() + text.size() - end));
  int shift = suffix.empty() ? 0 : suffix == "K" ? 10 : suffix == "M" ? 20 : suffix == "G" ? 30 : -1;
  if (error != std::errc() || shift < 0 || value > UINT64_MAX >> shift) return {};
  return value << shift;
}

uint64_t number(const char *name, uint64_t otherwise, std::vector<std::string> &errors) {
  std::string_view text = variable(name);
  if (text.empty()) return otherwise;
  if (auto value = parse_number(text)) return *value;
  errors.push_back(std::string(name) + "=" + std::string(text) + " is not a number, such as 64, 512M or 2G");
  return otherwise;
}

/// Seconds, or 0.
double seconds(const char *name, std::vector<std::string> &errors) {
  std::string_view text = variable(name);
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || (error == std::errc() && end == text.data() + text.size() && value >= 0 && value < 1e9))
    return value;
  errors.push_back(std::string(name) + "=" + std::string(text) + " is not a number of seconds, such as 60 or 0.5");
  return 0;
}

/// The text up to a separator, which it is cut behind.
std::string_view take(std::string_view &text, char separator) {
  std::string_view first = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(text.size(), first.size() + 1));
  return first;
}

/// Changes a device by a property, such as "sms=14"; false for an unknown property, or a number out of range.
bool change(DeviceLimits &device, std::string_view property) {
  constexpr uint64_t max_sms = 1024, min_shared = 48 << 10, max_shared = 1 << 20;
  std::string_view value = property, name = take(value, '=');
  if (name.size() == property.size()) {
    if (name == "pageable" || name == "ats") {
      device.pageable = true;
      device.host_page_tables = name == "ats";
    } else if (name == "nopools") {
      device.pools = false;
    } else if (name == "busy") {
      device.busy = true;
    } else if (name == "apart") {
      device.apart = true;
    } else if (name == "paced") {
      device.paced = true;
    } else {
      return false;
    }
    return true;
  }
  uint64_t n = parse_number(value).value_or(0);
  if (name == "sms" && n >= 1 && n <= max_sms) {
    device.sm_count = static_cast<int>(n);
  } else if ((name == "taken" || name == "slow") && n >= 1 && n <= max_sms) {
    (name == "taken" ? device.taken_sms : device.slow_sms) = static_cast<int>(n);
    device.paced = true;
  } else if (name == "memory" && n >= 1) {
    device.memory_bytes = n;
  } else if (name == "l2" && n >= 1 && n <= INT32_MAX) {
    device.l2_bytes = n;
  } else if (name == "shared" && n >= min_shared && n <= max_shared) {
    device.shared_per_block_optin = static_cast<uint32_t>(n);
    device.shared_per_sm = device.shared_per_block_optin + device.shared_reserved;
  } else {
    return false;
  }
  return true;
}

std::vector<DeviceLimits> devices(uint64_t memory_bytes, Settings &settings) {
  std::vector<DeviceLimits> result;
  auto &errors = settings.errors;
  std::string_view list = variable("FA_EMU_DEVICE");
  if (list.empty()) list = "sm_80";
  if (list == "none") return result;
  while (!list.empty()) {
    std::string_view text = take(list, ','), name = take(text, ':');
    auto limits = limits_of(name);
    if (!limits) {
      errors.push_back("FA_EMU_DEVICE: unknown device '" + std::string(name) + "'; known devices: " + known_devices() +
                       ", and with an 'a' or 'f' behind them");
      continue;
    }
    if (limits->like)
      settings.warnings.push_back("FA_EMU_DEVICE: unknown device '" + std::string(name) + "'; using the limits of sm_" +
                                  std::to_string(limits->like) + " (known: " + known_devices() + ")");
    if (memory_bytes) limits->memory_bytes = memory_bytes;
    while (!text.empty())
      if (std::string_view property = take(text, ':'); !change(*limits, property))
        errors.push_back("FA_EMU_DEVICE: '" + std::string(property) +
                         "' is not a property of a device, such as sms=14, taken=2, slow=1, " +
                         "memory=10G, shared=64K, l2=5M, pageable, ats, nopools, busy, apart or paced");
    if (limits->taken_sms + std::max(limits->slow_sms, 1) > limits->sm_count)
      errors.push_back("FA_EMU_DEVICE: of " + std::to_string(limits->sm_count) +
                       " multiprocessors taken=" + std::to_string(limits->taken_sms) + " leaves " +
                       std::to_string(std::max(limits->sm_count - limits->taken_sms, 0)) +
                       ", slow=" + std::to_string(limits->slow_sms) + " needs " + std::to_string(limits->slow_sms) +
                       " of these, and blocks need at least one");
    result.push_back(*limits);
  }
  return result;
}

Severity severity(const char *name, std::vector<std::string> &errors) {
  std::string_view text = variable(name);
  for (Severity one : {Severity::formal, Severity::warning, Severity::error})
    if (text == name_of(one)) return one;
  if (!text.empty())
    errors.push_back(std::string(name) + "=" + std::string(text) + " is not a severity: error, warning or formal");
  return Severity::error;
}

/// The order in which blocks begin, as the variable says, or else the seed.
Starts starts(uint64_t seed, std::vector<std::string> &errors) {
  std::string_view text = variable("FA_EMU_STARTS");
  if (text.empty()) return seed % 8 == 5 ? Starts::reversed : seed % 8 == 6 ? Starts::shuffled : Starts::ascending;
  if (text == "reversed") return Starts::reversed;
  if (text == "shuffled") return Starts::shuffled;
  if (text != "ascending")
    errors.push_back("FA_EMU_STARTS=" + std::string(text) +
                     " is not an order of blocks: ascending, reversed or shuffled");
  return Starts::ascending;
}

bool is_function(std::string_view name) {
  for (std::string_view known : {
#define EMU_FUNCTION(name, version, symbol, suffix) std::string_view(#name),
#include "driver/functions.inc"
#undef EMU_FUNCTION
       })
    if (name == known) return true;
  return false;
}

/// "3", "cuMemAlloc" or "cuMemAlloc:2".
FailedCall failed_call(std::vector<std::string> &errors) {
  const std::string_view all = variable("FA_EMU_FAIL");
  if (all.empty()) return {};
  if (auto number = parse_number(all)) return {{}, *number};
  std::string_view text = all;
  const std::string_view name = take(text, ':');
  const auto number = name.size() == all.size() ? 1 : parse_number(text).value_or(0);
  if (is_function(name) && number > 0) return {std::string(name), number};
  errors.push_back(
      "FA_EMU_FAIL=" + std::string(all) +
      " is neither the number of a call, such as 3, nor a function of the driver, such as cuMemAlloc or, " +
      "for its second call, cuMemAlloc:2");
  return {};
}

Settings read() {
  Settings result;
  auto &errors = result.errors;
  result.devices = devices(number("FA_EMU_MEMORY", 0, errors), result);
  uint64_t check = number("FA_EMU_CHECK", 0, errors);
  result.run.check = check != 0;
  result.strict = check > 1;
  result.fail_on = severity("FA_EMU_FAIL_ON", errors);
  result.exits = number("FA_EMU_EXIT", 0, errors) != 0;
  result.suppression_file = variable("FA_EMU_SUPPRESS");
  if (!result.suppression_file.empty()) result.suppressions = read_suppressions(result.suppression_file, errors);
  result.run.seed = number("FA_EMU_SEED", 0, errors);
  result.run.starts = starts(result.run.seed, errors);
  result.run.threads = static_cast<uint32_t>(number("FA_EMU_THREADS", 0, errors));
  result.run.timeout = seconds("FA_EMU_TIMEOUT", errors);
  result.run.progress = seconds("FA_EMU_PROGRESS", errors);
  uint64_t detail = number("FA_EMU_REPORT", 0, errors);
  result.report = detail != 0;
  result.json = variable("FA_EMU_JSON");
  result.totals = variable("FA_EMU_TOTALS");
  result.timeline = variable("FA_EMU_TIMELINE");
  result.run.timeline = !result.timeline.empty();
  result.run.count = detail > 1 || !result.json.empty();
  result.driver_version = static_cast<int>(number("FA_EMU_DRIVER", 13000, errors));
  result.fails = failed_call(errors);
  std::string_view capture = variable("FA_EMU_CAPTURE_CONTEXT");
  result.refuse_capture_context = capture == "refuse";
  if (!capture.empty() && capture != "refuse" && capture != "allow")
    errors.push_back("FA_EMU_CAPTURE_CONTEXT=" + std::string(capture) + " is neither allow nor refuse");
  std::string_view sums = variable("FA_EMU_FP8_SUMS");
  result.short_sums = sums != "exact";
  if (!sums.empty() && sums != "exact" && sums != "hardware")
    errors.push_back("FA_EMU_FP8_SUMS=" + std::string(sums) + " is neither hardware nor exact");
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
