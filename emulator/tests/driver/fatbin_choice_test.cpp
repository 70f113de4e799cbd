// The driver's choice from a fat binary, by a table: containers put together here, whose every PTX says which one it
// is.
#include <cstring>
#include <map>
#include <sstream>

#include "fixture.h"

namespace {

using namespace emulated;

/// An entry of a container as nvcc 13.0 writes it; 64 bytes.
struct Header {
  uint16_t kind, version = 0x101;
  uint32_t header_bytes = 64;
  uint64_t stored_bytes;
  uint32_t compressed_bytes = 0, options = 0;
  uint16_t minor, major;
  uint32_t capability;
  uint32_t name = 0, name_bytes = 0;
  uint64_t flags = 0, reserved = 0, bytes = 0;
};
static_assert(sizeof(Header) == 64);

/// "ptx90a", "cubin86", "ptx80@8.7": PTX 8.7. Otherwise it is PTX 7.0.
struct Entry {
  explicit Entry(const std::string &text) : name(text) {
    is_ptx = text.starts_with("ptx");
    size_t digits = text.find_first_of("0123456789"), end = text.find_first_not_of("0123456789", digits);
    capability = static_cast<uint32_t>(std::stoul(text.substr(digits)));
    if (end != text.npos && text[end] != '@') suffix = text[end];
    if (size_t at = text.find('@'); at != text.npos) {
      major = static_cast<uint16_t>(text[at + 1] - '0');
      minor = static_cast<uint16_t>(text[at + 3] - '0');
    }
  }
  std::string target() const { return "sm_" + std::to_string(capability) + (suffix ? std::string(1, suffix) : ""); }

  std::string name;
  bool is_ptx = false;
  uint32_t capability = 0;
  char suffix = 0;
  uint16_t major = 7, minor = 0;
};

std::vector<Entry> entries_of(const std::string &list) {
  std::vector<Entry> entries;
  std::istringstream words(list);
  for (std::string word; words >> word;) entries.emplace_back(word);
  return entries;
}

/// A kernel that stores the number.
std::string ptx_of(const Entry &entry, size_t number) {
  return ".version " + std::to_string(entry.major) + "." + std::to_string(entry.minor) + "\n.target " + entry.target() +
         "\n.address_size 64\n.visible .entry which(.param .u64 out) {\n.reg .b64 %d;\n" +
         "ld.param.u64 %d, [out]; st.global.u32 [%d], " + std::to_string(number) + ";\nret;\n}\n";
}

std::string container_of(const std::vector<Entry> &entries) {
  std::string body;
  for (size_t i = 0; i < entries.size(); i++) {
    const Entry &entry = entries[i];
    std::string code = entry.is_ptx ? ptx_of(entry, i) : std::string("\177ELF", 4);
    code.resize((code.size() + 8) / 8 * 8);
    Header header;
    header.kind = entry.is_ptx ? 1 : 2;
    header.stored_bytes = code.size();
    header.minor = entry.minor;
    header.major = entry.major;
    header.capability = entry.capability;
    header.flags = entry.suffix == 'a' ? 0x100000 : entry.suffix == 'f' ? 0x200000 : 0;
    body.append(reinterpret_cast<const char *>(&header), sizeof header);
    body += code;
  }
  struct {
    uint32_t magic = 0xba55ed50;
    uint16_t version = 1, header_bytes = 16;
    uint64_t bytes = 0;
  } header;
  header.bytes = body.size();
  return std::string(reinterpret_cast<const char *>(&header), sizeof header) + body;
}

/// The name of the entry that runs on the current device, or the number of the error.
std::string chosen_from(const std::vector<Entry> &entries) {
  std::string image = container_of(entries);
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUresult loaded = call("cuModuleLoadData", &module, static_cast<const void *>(image.data()));
  if (loaded != CUDA_SUCCESS) return std::to_string(loaded);
  EXPECT_EQ(call("cuModuleGetFunction", &function, module, "which"), CUDA_SUCCESS);
  Array<unsigned> out(std::vector<unsigned>(1, 99));
  EXPECT_EQ(launch(function, {1}, {1}, 0, out.address), CUDA_SUCCESS);
  call("cuModuleUnload", module);
  return entries.at(out.values()[0]).name;
}

struct Choice {
  const char *image;
  const char *expected;  // of each capability: "90:ptx90a", or an error: 209 no code for it, 222 PTX that is too new
};

constexpr Choice choices[] = {
    // PTX alone: the highest that is not above the device.
    {"ptx75", "75:ptx75 80:ptx75 86:ptx75 90:ptx75 100:ptx75 120:ptx75 130:ptx75"},
    {"ptx80 ptx86", "75:209 80:ptx80 86:ptx86 87:ptx86 88:ptx86 89:ptx86 90:ptx86 120:ptx86"},
    {"ptx75 ptx89 ptx100", "80:ptx75 86:ptx75 89:ptx89 90:ptx89 100:ptx100 103:ptx100 110:ptx100 121:ptx100"},
    // Of one device only, and before code for all devices.
    {"ptx90a", "80:209 90:ptx90a 100:209 103:209 120:209 130:209"},
    {"ptx90a ptx80", "86:ptx80 89:ptx80 90:ptx90a 100:ptx80 120:ptx80"},
    {"ptx90 ptx90a", "89:209 90:ptx90a 100:ptx90"},
    {"ptx100a ptx90", "90:ptx90 100:ptx100a 103:ptx90 110:ptx90 120:ptx90"},
    // Of a family: the same major capability, from its own on.
    {"ptx100f", "90:209 100:ptx100f 103:ptx100f 110:209 120:209"},
    {"ptx103f ptx100", "90:209 100:ptx100 103:ptx103f 110:ptx100 120:ptx100"},
    {"ptx120f ptx100f ptx80", "90:ptx80 100:ptx100f 103:ptx100f 110:ptx80 120:ptx120f 121:ptx120f 130:ptx80"},
    {"ptx100 ptx100f ptx100a", "100:ptx100a 103:ptx100f 110:ptx100"},
    // Machine code comes first; the PTX that it was made from runs.
    {"cubin80 ptx80 ptx75", "75:ptx75 80:ptx80 86:ptx80 90:ptx80"},
    {"cubin80 ptx75 ptx80 ptx86", "80:ptx80 86:ptx80 89:ptx80 90:ptx86"},
    {"cubin80 ptx80 cubin86 ptx86", "80:ptx80 86:ptx86 87:ptx86 89:ptx86 90:ptx86"},
    {"cubin86 ptx86 cubin75 ptx75", "75:ptx75 80:ptx75 86:ptx86 89:ptx86 90:ptx86"},
    {"cubin86 ptx80 ptx89", "80:ptx80 86:ptx80 89:ptx80 90:ptx89"},
    {"cubin90 ptx90 ptx90a", "90:ptx90 100:ptx90"},
    {"cubin90 ptx80 ptx90a", "80:ptx80 90:ptx80 100:ptx80"},
    {"cubin90a ptx90a ptx90 cubin90", "90:ptx90a 100:ptx90"},
    {"cubin90a ptx90", "89:209 90:ptx90 100:ptx90"},
    {"cubin100 ptx100 ptx100f", "100:ptx100 103:ptx100 110:ptx100"},
    {"cubin100f ptx100f ptx100", "90:209 100:ptx100f 103:ptx100f 110:ptx100"},
    {"cubin100f cubin100a ptx100a ptx100f", "100:ptx100a 103:ptx100f 110:209"},
    {"cubin100a ptx90", "90:ptx90 100:ptx90 103:ptx90"},
    {"cubin120 ptx120", "100:209 120:ptx120 121:ptx120 130:ptx120"},
    // Machine code without PTX cannot be emulated, and does not do for others.
    {"cubin80", "75:209 80:209 86:209 90:209"},
    {"cubin80 ptx86", "80:209 86:209 90:ptx86"},
    {"cubin90a ptx100", "90:209 100:ptx100"},
    {"", "75:209 80:209 90:209 120:209"},
    // The driver (13.0) translates PTX up to 9.0; it need not where there is machine code.
    {"ptx80@9.0", "80:ptx80@9.0 90:ptx80@9.0"},
    {"ptx80@9.1", "75:209 80:222 90:222"},
    {"ptx80@9.1 ptx75", "75:ptx75 80:222"},
    {"cubin80 ptx80@9.1", "80:ptx80@9.1 86:ptx80@9.1 90:222"},
};

TEST(FatbinChoice, Table) {
  start();
  std::map<int, int> ordinals;
  int count = 0;
  call("cuDeviceGetCount", &count);
  for (int device = count - 1; device >= 0; device--) {
    int major = 0, minor = 0;
    call("cuDeviceComputeCapability", &major, &minor, device);
    ordinals[major * 10 + minor] = device;
  }
  int looked_at = 0;
  for (const Choice &choice : choices) {
    std::vector<Entry> entries = entries_of(choice.image);
    std::istringstream words(choice.expected);
    for (std::string word; words >> word;) {
      auto device = ordinals.find(std::stoi(word));
      if (device == ordinals.end()) continue;
      CUcontext context = nullptr;
      ASSERT_EQ(call("cuDevicePrimaryCtxRetain", &context, device->second), CUDA_SUCCESS);
      ASSERT_EQ(call("cuCtxSetCurrent", context), CUDA_SUCCESS);
      std::string expected = word.substr(word.find(':') + 1);
      // Whatever the order of the entries.
      for (size_t turn = 0; turn < std::max<size_t>(entries.size(), 1); turn++) {
        EXPECT_EQ(chosen_from(entries), expected) << choice.image << " on sm_" << device->first << ", turn " << turn;
        if (!entries.empty()) std::rotate(entries.begin(), entries.begin() + 1, entries.end());
      }
      call("cuDevicePrimaryCtxRelease_v2", device->second);
      looked_at++;
    }
  }
  CUcontext context = nullptr;
  call("cuDevicePrimaryCtxRetain", &context, 0);
  call("cuCtxSetCurrent", context);
  EXPECT_GT(looked_at, 0);
}

/// A library that is loaded without a context: functions that need none.
TEST(FatbinChoice, WithoutAContext) {
  start();
  CUcontext before = nullptr;
  call("cuCtxPopCurrent_v2", &before);
  using Options = int *;
  using Values = void **;
  auto load = [](const std::string &list) {
    std::string image = container_of(entries_of(list));
    CUlibrary library = nullptr;
    CUresult code = call("cuLibraryLoadData", &library, static_cast<const void *>(image.data()), Options(), Values(),
                         0u, Options(), Values(), 0u);
    if (code == CUDA_SUCCESS) call("cuLibraryUnload", library);
    return code;
  };
  EXPECT_EQ(load("ptx75"), CUDA_SUCCESS);
  EXPECT_EQ(load("ptx999"), CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(load("ptx75@9.9"), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  call("cuCtxPushCurrent_v2", before);
}

/// The newest PTX of each release of CUDA; the tests run as several drivers (FA_EMU_DRIVER).
TEST(DriverVersions, NewestPtx) {
  start();
  const std::map<int, std::pair<const char *, const char *>> newest = {
      {11000, {"7.0", "7.1"}}, {11080, {"7.8", "8.0"}}, {12000, {"8.0", "8.1"}}, {12030, {"8.3", "8.4"}},
      {12050, {"8.5", "8.6"}}, {12060, {"8.5", "8.6"}}, {12080, {"8.7", "8.8"}}, {12090, {"8.8", "9.0"}},
      {13000, {"9.0", "9.1"}}, {13010, {"9.1", "9.2"}}};
  int version = 0;
  ASSERT_EQ(call("cuDriverGetVersion", &version), CUDA_SUCCESS);
  ASSERT_TRUE(newest.contains(version)) << version;
  auto [known, unknown] = newest.at(version);
  EXPECT_EQ(chosen_from({Entry(std::string("ptx75@") + known)}), std::string("ptx75@") + known);
  EXPECT_EQ(chosen_from({Entry(std::string("ptx75@") + unknown)}), "222");
  CUmodule module = nullptr;
  std::string text = step_ptx(known), newer = step_ptx(unknown);
  EXPECT_EQ(call("cuModuleLoadData", &module, static_cast<const void *>(text.c_str())), CUDA_SUCCESS);
  EXPECT_EQ(call("cuModuleLoadData", &module, static_cast<const void *>(newer.c_str())),
            CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
}

}  // namespace
