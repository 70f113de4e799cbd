// The driver's linker: one PTX text goes through as it is. More than one, and machine code, would have to be linked,
// for which there is no linker here; the reason says so, and goes to the caller's log, too.
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "driver/fatbin.h"
#include "driver/state.h"
#include "ptx/parser.h"

using namespace fa::emu::driver;

namespace {

constexpr int ptx_text = 1;  // CU_JIT_INPUT_PTX
enum Option : int { info_log = 3, info_log_bytes = 4, error_log = 5, error_log_bytes = 6 };

struct Link : Handled {
  std::string text;
  char *log = nullptr;
  size_t log_bytes = 0;
};

std::set<std::unique_ptr<Link>> &links() {
  static auto *const all = new std::set<std::unique_ptr<Link>>;
  return *all;
}

/// Options whose values are pointers point to room, those whose values are numbers are their size.
void read_options(Link &link, unsigned count, const int *options, void *const *values) {
  require(count == 0 || (options != nullptr && values != nullptr), "options without values");
  for (unsigned i = 0; i < count; i++) {
    if (options[i] == error_log) link.log = static_cast<char *>(values[i]);
    if (options[i] == error_log_bytes) link.log_bytes = reinterpret_cast<size_t>(values[i]);
    bool has_room = options[i] == info_log && values[i] != nullptr;
    if (has_room) *static_cast<char *>(values[i]) = '\0';
  }
}

[[noreturn]] void fail(Link &link, CUresult code, const std::string &reason) {
  if (link.log && link.log_bytes > 0) {
    std::strncpy(link.log, reason.c_str(), link.log_bytes - 1);
    link.log[link.log_bytes - 1] = '\0';
  }
  refuse(code, reason);
}

void add(Link &link, int type, const void *data, size_t bytes) {
  require(data != nullptr, "no data");
  if (type != ptx_text)
    fail(link, CUDA_ERROR_NOT_SUPPORTED,
         "the emulator's linker takes PTX text only; cubin, fatbin, objects, libraries and NVVM need nvlink");
  if (!link.text.empty())
    fail(link, CUDA_ERROR_NOT_SUPPORTED,
         "the emulator's linker takes one PTX text; link several with nvlink, or include one in the other");
  const char *text = static_cast<const char *>(data);
  link.text.assign(text, strnlen(text, bytes));
  fa::emu::ptx::Parsed parsed = fa::emu::ptx::parse(link.text);
  if (!parsed.error) return;
  link.text.clear();
  fail(link, CUDA_ERROR_INVALID_PTX, parsed.error->what());
}

}  // namespace

EMU_API CUresult cuLinkCreate_v2(unsigned count, int *options, void **values, void **state) {
  return api("cuLinkCreate", [&] {
    Lock lock(process().mutex);
    require(state != nullptr, "no place for the state");
    current();
    auto link = std::make_unique<Link>();
    read_options(*link, count, options, values);
    make_alive(link.get());
    *state = link.get();
    links().insert(std::move(link));
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuLinkAddData_v2(void *state, int type, void *data, size_t bytes, const char *, unsigned count,
                                  int *options, void **values) {
  return api("cuLinkAddData", [&] {
    Lock lock(process().mutex);
    Link &link = object<Link>(state);
    read_options(link, count, options, values);
    add(link, type, data, bytes);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuLinkAddFile_v2(void *state, int type, const char *path, unsigned count, int *options,
                                  void **values) {
  return api("cuLinkAddFile", [&] {
    Lock lock(process().mutex);
    Link &link = object<Link>(state);
    require(path != nullptr, "no path");
    read_options(link, count, options, values);
    std::ifstream file(path);
    if (!file) fail(link, CUDA_ERROR_FILE_NOT_FOUND, "no file " + std::string(path));
    std::stringstream text;
    text << file.rdbuf();
    add(link, type, text.str().c_str(), text.str().size());
    return CUDA_SUCCESS;
  });
}

/// The symbols of CUDA 5.5, with the same arguments.
EMU_API CUresult cuLinkCreate(unsigned count, int *options, void **values, void **state) {
  return cuLinkCreate_v2(count, options, values, state);
}

EMU_API CUresult cuLinkAddData(void *state, int type, void *data, size_t bytes, const char *name, unsigned count,
                               int *options, void **values) {
  return cuLinkAddData_v2(state, type, data, bytes, name, count, options, values);
}

EMU_API CUresult cuLinkAddFile(void *state, int type, const char *path, unsigned count, int *options, void **values) {
  return cuLinkAddFile_v2(state, type, path, count, options, values);
}

EMU_API CUresult cuLinkComplete(void *state, void **image, size_t *bytes) {
  return api("cuLinkComplete", [&] {
    Lock lock(process().mutex);
    Link &link = object<Link>(state);
    require(image != nullptr, "no place for the image");
    require(!link.text.empty(), "nothing was added to link");
    *image = link.text.data();
    if (bytes) *bytes = link.text.size() + 1;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuLinkDestroy(void *state) {
  return api("cuLinkDestroy", [&] {
    Lock lock(process().mutex);
    erase_owned(links(), &object<Link>(state));
    return CUDA_SUCCESS;
  });
}
