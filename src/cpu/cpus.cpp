#include "cpu/cpus.h"

#include <fa.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <new>
#include <string_view>

namespace fa::cpu {

namespace {

/// A file's text; "" where it cannot be read.
std::string contents(const std::string &path) {
  struct File {
    int number;
    ~File() {
      if (number >= 0) close(number);
    }
  } const file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  std::string text;
  char part[4096];
  for (ssize_t size; file.number >= 0 && (size = read(file.number, part, sizeof part)) > 0;)
    text.append(part, static_cast<size_t>(size));
  return text;
}

/// Removes the text up to a separator, and the separator, and returns the former.
std::string_view take(std::string_view *text, char separator) {
  const std::string_view first = text->substr(0, text->find(separator));
  text->remove_prefix(std::min(first.size() + 1, text->size()));
  return first;
}

bool lists(std::string_view names, std::string_view wanted) {
  while (!names.empty())
    if (take(&names, ',') == wanted) return true;
  return false;
}

/// A number that is all of a word; -1 for any other, such as "max".
int64_t number(std::string_view word) {
  while (!word.empty() && word.back() == '\n') word.remove_suffix(1);
  int64_t value = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size() ? value : -1;
}

bool is_within(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

/// A hierarchy of control groups that knows CPUs, as it is mounted here.
struct Hierarchy {
  bool unified;  // version 2
  std::string_view top, folder;

  /// A line of mountinfo: number, parent, device, top, folder, options, more of them, "-", type, source, options.
  static bool read(std::string_view line, Hierarchy *hierarchy) {
    for (int i = 0; i < 3; i++) take(&line, ' ');
    hierarchy->top = take(&line, ' ');
    hierarchy->folder = take(&line, ' ');
    while (!line.empty() && take(&line, ' ') != "-") {
    }
    const std::string_view type = take(&line, ' ');
    take(&line, ' ');
    hierarchy->unified = type == "cgroup2";
    return hierarchy->unified || (type == "cgroup" && lists(line, "cpu"));
  }

  /// The process' group in it, of the lines "number:controllers:group"; "" when it has none.
  std::string_view group_in(std::string_view groups) const {
    while (!groups.empty()) {
      std::string_view line = take(&groups, '\n');
      take(&line, ':');
      const std::string_view controllers = take(&line, ':');
      if (unified ? controllers.empty() : lists(controllers, "cpu")) return line;
    }
    return "";
  }

  double quota_in(const std::string &group) const {
    int64_t quota, period;
    if (unified) {
      const std::string text = contents(group + "/cpu.max");
      std::string_view words = text;
      quota = number(take(&words, ' '));
      period = number(words);
    } else {
      quota = number(contents(group + "/cpu.cfs_quota_us"));
      period = number(contents(group + "/cpu.cfs_period_us"));
    }
    return quota > 0 && period > 0 ? static_cast<double>(quota) / static_cast<double>(period) : 0;
  }

  /// The lowest quota from the process' group up to the hierarchy's top, as far as they can be seen here. Where a
  /// namespace hides some, the top that is mounted is taken for the process' group.
  double quota(const std::string &root, std::string_view groups) const {
    std::string_view group = group_in(groups);
    if (top != "/") group = is_within(group, top) ? group.substr(top.size()) : "";
    double lowest = 0;
    for (;;) {
      while (group.ends_with('/')) group.remove_suffix(1);
      const double quota = quota_in((root + std::string(folder)).append(group));
      if (quota > 0 && (lowest == 0 || quota < lowest)) lowest = quota;
      if (group.empty()) return lowest;
      group = group.substr(0, group.rfind('/'));
    }
  }
};

}  // namespace

int32_t affinity_cpus() {
  for (int cpus = CPU_SETSIZE; cpus <= 1 << 20; cpus *= 2) {
    struct Set {
      cpu_set_t *cpus;
      ~Set() { CPU_FREE(cpus); }
    } const set{CPU_ALLOC(static_cast<size_t>(cpus))};
    if (set.cpus == nullptr) throw std::bad_alloc();
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cpus));
    if (sched_getaffinity(0, bytes, set.cpus) == 0) return CPU_COUNT_S(bytes, set.cpus);
    if (errno != EINVAL) break;  // the kernel may have more CPUs than the set
  }
  return 1;
}

double quota_cpus(const std::string &root) {
  const std::string mounts = contents(root + "/proc/self/mountinfo"), groups = contents(root + "/proc/self/cgroup");
  double lowest = 0;
  for (std::string_view lines = mounts; !lines.empty();) {
    Hierarchy hierarchy;
    if (!Hierarchy::read(take(&lines, '\n'), &hierarchy)) continue;
    const double quota = hierarchy.quota(root, groups);
    if (quota > 0 && (lowest == 0 || quota < lowest)) lowest = quota;
  }
  return lowest;
}

int32_t threads_for(int32_t cpus, double quota) {
  const double limit = std::min<double>(cpus, FA_MAX_THREADS), granted = quota > 0 ? std::ceil(quota) : limit;
  return static_cast<int32_t>(std::max(std::min(limit, granted), 1.0));
}

int32_t usable_cpus() {
  static const double quota = quota_cpus();
  return threads_for(affinity_cpus(), quota);
}

}  // namespace fa::cpu
