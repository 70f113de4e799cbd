// The CPUs of the process: its affinity, also where a cpu_set_t is too short, and the quotas of its control groups.
#include "cpu/cpus.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace {

/// A kernel that may have this many CPUs and lets the process use the first of them; 0: the one that is there.
int possible_cpus = 0, allowed_cpus = 0;

}  // namespace

/// In place of the C library's.
extern "C" int sched_getaffinity(pid_t thread, size_t bytes, cpu_set_t *cpus) noexcept {
  if (possible_cpus == 0) {
    std::memset(cpus, 0, bytes);
    return syscall(SYS_sched_getaffinity, thread, bytes, cpus) < 0 ? -1 : 0;
  }
  if (bytes * 8 < static_cast<size_t>(possible_cpus)) return errno = EINVAL, -1;
  CPU_ZERO_S(bytes, cpus);
  for (int i = 0; i < allowed_cpus; ++i) CPU_SET_S(i, bytes, cpus);
  return 0;
}

namespace fa::cpu {
namespace {

// [F92]
TEST(Cpus, AreThoseThatTheThreadMayUse) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(affinity_cpus(), CPU_COUNT(&all));
  EXPECT_EQ(usable_cpus(), threads_for(CPU_COUNT(&all), quota_cpus()));
  std::thread([&] {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &all)) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
      EXPECT_EQ(affinity_cpus(), 1);
      EXPECT_EQ(usable_cpus(), 1);
    }
  }).join();
}

TEST(Cpus, MayBeMoreThanASetHolds) {
  for (const int possible : {1024, 1025, 8192}) {
    possible_cpus = possible;
    for (const int allowed : {1, 7, 1024, possible}) {
      allowed_cpus = allowed;
      EXPECT_EQ(affinity_cpus(), allowed) << "of " << possible;
    }
  }
  possible_cpus = 0;
}

// [F92]
TEST(Cpus, GetAThreadEachAsFarAsTheQuotaGoes) {
  EXPECT_EQ(threads_for(8, 0), 8);
  EXPECT_EQ(threads_for(8, 2), 2);
  EXPECT_EQ(threads_for(8, 1.5), 2);
  EXPECT_EQ(threads_for(8, 0.1), 1);
  EXPECT_EQ(threads_for(2, 64), 2);
  EXPECT_EQ(threads_for(5000, 0), 1024);
  EXPECT_EQ(threads_for(8, 1e300), 8);
}

/// A machine's files, in a folder.
class Machine {
 public:
  Machine() : folder_(std::filesystem::temp_directory_path() / ("fa_cpus_" + std::to_string(getpid()))) {}
  ~Machine() { std::filesystem::remove_all(folder_); }

  Machine &file(const std::string &path, const std::string &text) {
    const std::filesystem::path at = folder_ / path;
    std::filesystem::create_directories(at.parent_path());
    std::ofstream(at) << text;
    return *this;
  }
  /// Quota and period of a group of version 1.
  Machine &quota(const std::string &group, const std::string &quota) {
    return file(group + "/cpu.cfs_quota_us", quota + "\n").file(group + "/cpu.cfs_period_us", "100000\n");
  }
  Machine &mounts(const std::string &lines) { return file("proc/self/mountinfo", lines); }
  Machine &groups(const std::string &lines) { return file("proc/self/cgroup", lines); }

  double quota() const { return quota_cpus(folder_); }

 private:
  std::filesystem::path folder_;
};

constexpr const char *unified = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char *other = "24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/cpu rw\n";

TEST(Quota, IsTheLeastOfAGroupAndThoseAbove) {
  Machine machine;
  machine.mounts(std::string(other) + unified).groups("0::/user.slice/job/part\n");
  EXPECT_EQ(machine.quota(), 0) << "no group has a file";
  machine.file("sys/fs/cgroup/user.slice/job/part/cpu.max", "max 100000\n");
  EXPECT_EQ(machine.quota(), 0);
  machine.file("sys/fs/cgroup/user.slice/cpu.max", "600000 100000\n");
  EXPECT_EQ(machine.quota(), 6);
  machine.file("sys/fs/cgroup/user.slice/job/cpu.max", "150000 100000\n");
  EXPECT_EQ(machine.quota(), 1.5);
  machine.file("sys/fs/cgroup/user.slice/job/part/cpu.max", "400000 100000\n");
  EXPECT_EQ(machine.quota(), 1.5);
  machine.file("sys/fs/cgroup/user.slice/job/part/cpu.max", "20000 100000\n");
  EXPECT_EQ(machine.quota(), 0.2);
  machine.file("sys/fs/cgroup/user.slice/other/cpu.max", "10000 100000\n");
  EXPECT_EQ(machine.quota(), 0.2) << "of a group that is not the process'";
}

/// A container's own group is the top of the hierarchy that it sees.
TEST(Quota, OfAContainer) {
  Machine machine;
  machine.mounts(unified).groups("0::/\n").file("sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(machine.quota(), 3);
}

TEST(Quota, OfVersionOne) {
  Machine machine;
  machine.mounts(std::string(other) +
                 "33 32 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
                 "34 32 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
                 "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  machine.groups("5:cpuset:/sets\n4:cpu,cpuacct:/a/b\n0::/init.scope\n");
  machine.quota("sys/fs/cgroup/cpu,cpuacct/a/b", "-1").quota("sys/fs/cgroup/cpuset/sets", "100000");
  EXPECT_EQ(machine.quota(), 0);
  machine.quota("sys/fs/cgroup/cpu,cpuacct/a", "250000");
  EXPECT_EQ(machine.quota(), 2.5);
}

/// A container that sees its group as the top of the mount, and by its full name in /proc.
TEST(Quota, OfAGroupThatIsMountedAlone) {
  for (const char *group : {"/docker/1f", "/docker/1f/part"}) {
    Machine machine;
    machine.mounts("34 32 0:30 /docker/1f /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n");
    machine.groups(std::string("4:cpu:") + group + "\n").quota("sys/fs/cgroup/cpu", "50000");
    EXPECT_EQ(machine.quota(), 0.5) << group;
    machine.quota("sys/fs/cgroup/cpu/part", "20000");
    EXPECT_EQ(machine.quota(), group == std::string("/docker/1f") ? 0.5 : 0.2);
  }
}

TEST(Quota, OfNonsenseIsNone) {
  for (const char *text : {"", "max", "max max\n", "100000\n", "100000 0\n", "-1 100000\n", "1e5 100000\n", "x y\n"}) {
    Machine machine;
    machine.mounts(unified).groups("0::/a\n").file("sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(machine.quota(), 0) << text;
  }
  EXPECT_EQ(quota_cpus("/nowhere"), 0);
  Machine machine;
  machine.mounts("30 24\n\n- cgroup2\n0 0 0 / /sys rw - cgroup2").groups("0\n::\n0::/..");
  EXPECT_EQ(machine.quota(), 0);
}

}  // namespace
}  // namespace fa::cpu
