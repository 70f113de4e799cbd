// Chooses observers: counters where they are asked for, checks where they are.
#include "check/attach.h"

namespace fa::emu::check {

void attach(Launch &launch) {
  launch.make_observer = [](Launch &) { return std::make_unique<Observer>(); };
}

}  // namespace fa::emu::check
