#include "cuda/missing.h"

#include <string>

#include "core/status.h"

namespace fa::cuda {
namespace {

using kernels::Entry;

/// The results of an entry point, and the family that computes them for every call.
struct Computed {
  const char *name, *family;
};

Computed computed_by(Entry entry) {
  switch (entry) {
    case Entry::dkv:
      return {"dk and dv", "backward_simt"};
    case Entry::dq:
      return {"dq", "backward_simt"};
    case Entry::dbias:
      return {"dbias", "backward_simt"};
    case Entry::dsinks:
      return {"dsinks", "delta"};
    default:
      return {"delta", "delta"};
  }
}

}  // namespace

fa_status missing_backward(Entry entry, const Image *last, const char *why) {
  const Computed computed = computed_by(entry);
  std::string rejected;
  if (last != nullptr)
    rejected = std::string(" (") + last->name + " supports some calls only, and not this one: " + why + ")";
  return fail(
      FA_ERROR_UNSUPPORTED,
      "fa_backward: this build of libfa has no GPU kernel that computes %s of this call%s; expected a build "
      "whose FA_IMAGE_FILTER is empty or matches the image of %s, or tensors in memory of the host and an op of "
      "FA_DEVICE_CPU or FA_DEVICE_AUTO",
      computed.name, rejected.c_str(), computed.family);
}

fa_status missing_forward(const Image &last, const char *why) {
  return fail(FA_ERROR_UNSUPPORTED,
              "fa_forward: this build of libfa has no GPU kernel for this call (%s supports some calls only, and not "
              "this one: %s); expected a build whose FA_IMAGE_FILTER is empty or matches images of %s, or tensors in "
              "memory of the host and an op of FA_DEVICE_CPU or FA_DEVICE_AUTO",
              last.name, why, last.codes ? "simt_quantised" : "mma and simt");
}

fa_status missing_combine(int64_t splits) {
  return fail(FA_ERROR_UNSUPPORTED,
              "fa_forward: this build of libfa has no GPU kernel that combines the results of splits, of which this "
              "call has %lld; expected args.num_splits of 1, or a build whose FA_IMAGE_FILTER is empty or matches the "
              "image of combine",
              static_cast<long long>(splits));
}

}  // namespace fa::cuda
