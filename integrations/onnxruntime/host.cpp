#include "host.h"

#include <cstring>
#include <stdexcept>

namespace fa_ort {
namespace {

template <class Function, class Table>
void read(const Table *table, size_t place, Function *function) {
  const char *const entries = reinterpret_cast<const char *>(table);
  std::memcpy(function, entries + place * sizeof(void *), sizeof *function);
}

}  // namespace

Host &host() {
  static Host functions;
  return functions;
}

std::string find_host(const OrtApiBase *base, Host *host) {
  const OrtApi *api = base->GetApi(api_version);
  const char *version = base->GetVersionString();
  if (!api) {
    *host = {};
    for (uint32_t older = api_version - 1; older > 0 && !api; --older) api = base->GetApi(older);
    if (api) read(api, 0, &host->CreateStatus);  // for the error: its place is that of 1.0
    return std::string("ONNX Runtime is version ") + version + ": expected 1." + std::to_string(api_version) +
           " or newer, which has kernels of plug-in providers";
  }
#define FA_ORT_API(place, result, name, arguments) read(api, place, &host->name);
#include "entries.inc"
#undef FA_ORT_API
  const OrtEpApi *ep_api = host->GetEpApi();
  if (!ep_api) return std::string("ONNX Runtime ") + version + " is built without plug-in providers";
#define FA_ORT_EP_API(place, result, name, arguments) read(ep_api, place, &host->name);
#include "entries.inc"
#undef FA_ORT_EP_API
  return "";
}

OrtStatus *error(OrtErrorCode code, const std::string &text) {
  return host().CreateStatus(code, ("libfa: " + text).c_str());
}

void check(OrtStatus *status) {
  if (!status) return;
  const std::string text = host().GetErrorMessage(status);
  host().ReleaseStatus(status);
  throw std::runtime_error(text);
}

}  // namespace fa_ort
