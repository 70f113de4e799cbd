// The symbols that ONNX Runtime looks for in the library of a plug-in provider.
#include <exception>
#include <string>

#include "host.h"
#include "plugin/log.h"
#include "provider.h"

#define FA_ORT_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace fa_ort;

OrtStatus *refuse(const std::string &reason) {
  if (host().CreateStatus) return error(ORT_FAIL, "not used: " + reason);
  fa_plugin::print("not used: " + reason);
  return nullptr;
}

}  // namespace

FA_ORT_EXPORT OrtStatus *CreateEpFactories(const char * /*registered_name*/, const OrtApiBase *base,
                                           const OrtLogger * /*logger*/, OrtEpFactory **factories, size_t max_factories,
                                           size_t *num_factories) try {
  *num_factories = 0;
  const std::string problem = find_host(base, &host());
  if (!problem.empty()) return refuse(problem);
  if (max_factories < 1) return refuse("ONNX Runtime has room for 0 factories: expected 1");
  factories[0] = make_factory();
  *num_factories = 1;
  return nullptr;
} catch (const std::exception &exception) {
  return refuse(exception.what());
}

FA_ORT_EXPORT OrtStatus *ReleaseEpFactory(OrtEpFactory *factory) {
  release_factory(factory);
  return nullptr;
}
