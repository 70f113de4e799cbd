// Chooses observers: counters where they are asked for, checks where they are.
#include "check/attach.h"

#include "check/checker.h"

namespace fa::emu::check {

void attach(Launch &launch) {
  if (!launch.options.check) {
    launch.make_observer = [](Launch &watched) { return std::make_unique<Counting>(watched); };
    return;
  }
  launch.make_observer = [checks = std::make_shared<LaunchChecks>(launch)](Launch &) {
    return std::make_unique<Checker>(checks);
  };
}

}  // namespace fa::emu::check
