// Instructions that change no result here: hints to caches and the scheduler (createpolicy, prefetch, discard,
// applypriority: PTX ISA 9.7.9), and fences between proxies (9.7.13.4), of which only the checks take notice.
#include "exec/cta.h"
#include "exec/dispatch.h"
#include "exec/observer.h"

namespace fa::emu {
namespace {

using ptx::Type;

void nothing(Warp &, const Instruction &, uint32_t) {}

void fence_proxy(Warp &warp, const Instruction &instruction, uint32_t mask) {
  if (Observer *observer = warp.cta->cluster->observer.get()) observer->proxy_fence(warp, instruction, mask);
}

bool decode_fence(Decoder &d) {
  if (!d.has("proxy")) return false;
  return d.run(nothing, fence_proxy);
}

bool decode_address_hint(Decoder &d) {
  if (d.count() < 1) return false;
  d.address(0);
  return d.run(nothing);
}

bool decode_createpolicy(Decoder &d) {
  if (d.type() != Type::b64) return false;
  d.out().dst = d.destination(0, Type::b64);
  d.out().a = d.constant(0, 8);
  return d.run(elementwise<uint64_t, uint64_t>([](uint64_t a) { return a; }));
}

const Registration registration{
    {"fence", decode_fence},          {"prefetch", decode_address_hint},      {"prefetchu", decode_address_hint},
    {"discard", decode_address_hint}, {"applypriority", decode_address_hint}, {"createpolicy", decode_createpolicy}};

}  // namespace
}  // namespace fa::emu
