// Every line of support/instructions.txt is decoded for the SMs that it names, or refused where it is said not to be
// executed. FA_EMU_DEVICE names a device for each SM.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "client.h"

namespace {

struct Line {
  std::string sms, instruction;
  bool executed = true;
};

std::vector<Line> read_lines() {
  std::ifstream file(TEST_SUPPORT "/instructions.txt");
  std::vector<Line> lines;
  for (std::string text; std::getline(file, text);) {
    size_t colon = text.find(": ");
    if (text.empty() || text[0] == '#' || colon == std::string::npos) continue;
    Line line{text.substr(0, colon), text.substr(colon + 2), text[0] != '['};
    if (!line.executed) line.sms = line.sms.substr(1, line.sms.size() - 2);
    lines.push_back(line);
  }
  return lines;
}

/// "90a" and "100f" of "90a 100f"; of "89+" the 89 and the newest.
std::vector<std::string> targets(const std::string &sms) {
  if (sms.ends_with('+')) return {sms.substr(0, sms.size() - 1), "121"};
  std::vector<std::string> result;
  std::istringstream words(sms);
  for (std::string word; words >> word;) result.push_back(word);
  return result;
}

/// The module around a line in support/make-tables, for ptxas.
std::string module_around(const std::string &instruction, const std::string &target) {
  return ".version 9.0\n.target sm_" + target +
         "\n.address_size 64\n.global .align 128 .b8 place[128];\n"
         ".func (.param .b32 result) twice(.param .b32 given) { ret; }\n"
         ".visible .entry k() { .reg .b8 %b<2>; .reg .b16 %h<4>; .reg .b32 %r<9>; .reg .b64 %d<4>; .reg .b128 %q<2>;"
         " .reg .f32 %f<8>; .reg .f64 %g<4>; .reg .pred %p<3>; .shared .align 128 .b8 memory[128];"
         " .param .b32 given; .param .b32 result; targets: .branchtargets done, done;"
         " prototype: .callprototype (.param .b32 _) _ (.param .b32 _); " +
         instruction + " done: ret; }\n";
}

/// The devices' contexts, by compute capability.
std::map<int, CUcontext> contexts() {
  std::map<int, CUcontext> result;
  int count = 0;
  emulated::start();
  emulated::call("cuDeviceGetCount", &count);
  for (int device = 0; device < count; device++) {
    int major = 0, minor = 0;
    emulated::call("cuDeviceComputeCapability", &major, &minor, device);
    emulated::call("cuDevicePrimaryCtxRetain", &result[major * 10 + minor], device);
  }
  return result;
}

/// 0, or the driver's error for a kernel with this line.
CUresult load(const std::string &instruction, const std::string &target) {
  std::string text = module_around(instruction, target);
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUresult code = emulated::call("cuModuleLoadData", &module, static_cast<const void *>(text.c_str()));
  if (code != CUDA_SUCCESS) return code;
  code = emulated::call("cuModuleGetFunction", &function, module, "k");
  emulated::call("cuModuleUnload", module);
  return code;
}

TEST(Support, EveryLine) {
  auto devices = contexts();
  std::vector<Line> lines = read_lines();
  ASSERT_GT(lines.size(), 100u);
  for (const Line &line : lines)
    for (const std::string &target : targets(line.sms)) {
      auto device = devices.find(std::stoi(target));
      ASSERT_NE(device, devices.end()) << "no device is an sm_" << target;
      ASSERT_EQ(emulated::call("cuCtxSetCurrent", device->second), CUDA_SUCCESS);
      EXPECT_EQ(load(line.instruction, target), line.executed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX)
          << "sm_" << target << ": " << line.instruction;
    }
}

}  // namespace
